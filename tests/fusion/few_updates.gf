// RUN: few-updates
// Rows of a large table, one index for each, and a table of zeros; so few that each looks at all.
func @rows(%x: tensor<32768x96xf16>, %i: tensor<48x1xi64>, %u: tensor<48x96xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<32768x96xf32>
  %s = graph.scatter_nd(%w, %i, %u) {kind = "add"} : tensor<32768x96xf32>
  %y = graph.cast(%s) {to = f16} : tensor<32768x96xf16>
  return(%y)
}

func @zeros(%i: tensor<48x1xi64>, %u: tensor<48x96xf32>) {
  %z = graph.full() {elem = f32, shape = [32768, 96], value = 0.0} : tensor<32768x96xf32>
  %s = graph.scatter_nd(%z, %i, %u) {kind = "add"} : tensor<32768x96xf32>
  %y = graph.cast(%s) {to = bf16} : tensor<32768x96xbf16>
  return(%y)
}

func @very_few(%x: tensor<1024x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<1024x96xf32>
  %s = graph.scatter_nd(%w, %i, %u) {kind = "max"} : tensor<1024x96xf32>
  %y = graph.cast(%s) {to = f16} : tensor<1024x96xf16>
  return(%y)
}
// -----
func @rows(%x: tensor<32768x96xf16>, %i: tensor<48x1xi64>, %u: tensor<48x96xf32>) {
  %v0 = graph.empty() {elem = f32, shape = [32768, 96]} : tensor<32768x96xf32>
  %v1 = graph.gather_nd(%x, %i) {clips = true} : tensor<48x96xf16>
  %v2 = graph.cast(%v1) {to = f32} : tensor<48x96xf32>
  %v3 = graph.scatter_nd(%v0, %i, %v2) {kind = "set"} : tensor<32768x96xf32>
  %v4 = graph.scatter_nd(%v3, %i, %u) {kind = "add"} : tensor<32768x96xf32>
  %v5 = graph.gather_nd(%v4, %i) {clips = true} : tensor<48x96xf32>
  %v6 = graph.cast(%v5) {to = f16} : tensor<48x96xf16>
  %v7 = graph.scatter_nd(%x, %i, %v6) {kind = "set", ordered = false} : tensor<32768x96xf16>
  return(%v7)
}

func @zeros(%i: tensor<48x1xi64>, %u: tensor<48x96xf32>) {
  %v0 = graph.full() {elem = bf16, shape = [32768, 96], value = 0.0} : tensor<32768x96xbf16>
  %v1 = graph.empty() {elem = f32, shape = [32768, 96]} : tensor<32768x96xf32>
  %v2 = graph.gather_nd(%v0, %i) {clips = true} : tensor<48x96xbf16>
  %v3 = graph.cast(%v2) {to = f32} : tensor<48x96xf32>
  %v4 = graph.scatter_nd(%v1, %i, %v3) {kind = "set"} : tensor<32768x96xf32>
  %v5 = graph.scatter_nd(%v4, %i, %u) {kind = "add"} : tensor<32768x96xf32>
  %v6 = graph.gather_nd(%v5, %i) {clips = true} : tensor<48x96xf32>
  %v7 = graph.cast(%v6) {to = bf16} : tensor<48x96xbf16>
  %v8 = graph.scatter_nd(%v0, %i, %v7) {kind = "set", ordered = false} : tensor<32768x96xbf16>
  return(%v8)
}

func @very_few(%x: tensor<1024x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %v0 = graph.gather_nd(%x, %i) {clips = true} : tensor<8x96xf16>
  %v1 = graph.cast(%v0) {to = f32} : tensor<8x96xf32>
  %v2 = graph.broadcast(%i) {shape = [8, 96]} : tensor<8x96xi64>
  %v3 = graph.full() {elem = i64, shape = [8, 96], value = 0} : tensor<8x96xi64>
  %v4 = graph.lt(%v2, %v3) : tensor<8x96xbool>
  %v5 = graph.full() {elem = i64, shape = [8, 96], value = 1024} : tensor<8x96xi64>
  %v6 = graph.add(%v2, %v5) : tensor<8x96xi64>
  %v7 = graph.select(%v4, %v6, %v2) : tensor<8x96xi64>
  %v8 = graph.reshape(%v7) {shape = [8, 1, 96]} : tensor<8x1x96xi64>
  %v9 = graph.broadcast(%v8) {shape = [8, 8, 96]} : tensor<8x8x96xi64>
  %v10 = graph.broadcast(%v7) {shape = [8, 8, 96]} : tensor<8x8x96xi64>
  %v11 = graph.eq(%v9, %v10) : tensor<8x8x96xbool>
  %v12 = graph.broadcast(%u) {shape = [8, 8, 96]} : tensor<8x8x96xf32>
  %v13 = graph.full() {elem = f32, shape = [8, 8, 96], value = -inf} : tensor<8x8x96xf32>
  %v14 = graph.select(%v11, %v12, %v13) : tensor<8x8x96xf32>
  %v15 = graph.reduce(%v14) {axes = [1], kind = "max"} : tensor<8x96xf32>
  %v16 = graph.max(%v1, %v15) : tensor<8x96xf32>
  %v17 = graph.cast(%v16) {to = f16} : tensor<8x96xf16>
  %v18 = graph.scatter_nd(%x, %i, %v17) {kind = "set", ordered = false} : tensor<1024x96xf16>
  return(%v18)
}
