// RUN: few-updates
// Rows of a large table, one index for each, and a table of zeros.
func @rows(%x: tensor<65536x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<65536x96xf32>
  %s = graph.scatter_nd(%w, %i, %u) {kind = "add"} : tensor<65536x96xf32>
  %y = graph.cast(%s) {to = f16} : tensor<65536x96xf16>
  return(%y)
}

func @zeros(%i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %z = graph.full() {elem = f32, shape = [65536, 96], value = 0.0} : tensor<65536x96xf32>
  %s = graph.scatter_nd(%z, %i, %u) {kind = "add"} : tensor<65536x96xf32>
  %y = graph.cast(%s) {to = bf16} : tensor<65536x96xbf16>
  return(%y)
}
// -----
func @rows(%x: tensor<65536x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %v0 = graph.empty() {elem = f32, shape = [65536, 96]} : tensor<65536x96xf32>
  %v1 = graph.gather_nd(%x, %i) : tensor<8x96xf16>
  %v2 = graph.cast(%v1) {to = f32} : tensor<8x96xf32>
  %v3 = graph.scatter_nd(%v0, %i, %v2) {kind = "set"} : tensor<65536x96xf32>
  %v4 = graph.scatter_nd(%v3, %i, %u) {kind = "add"} : tensor<65536x96xf32>
  %v5 = graph.gather_nd(%v4, %i) : tensor<8x96xf32>
  %v6 = graph.cast(%v5) {to = f16} : tensor<8x96xf16>
  %v7 = graph.scatter_nd(%x, %i, %v6) {kind = "set", ordered = false} : tensor<65536x96xf16>
  return(%v7)
}

func @zeros(%i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %v0 = graph.full() {elem = bf16, shape = [65536, 96], value = 0.0} : tensor<65536x96xbf16>
  %v1 = graph.empty() {elem = f32, shape = [65536, 96]} : tensor<65536x96xf32>
  %v2 = graph.gather_nd(%v0, %i) : tensor<8x96xbf16>
  %v3 = graph.cast(%v2) {to = f32} : tensor<8x96xf32>
  %v4 = graph.scatter_nd(%v1, %i, %v3) {kind = "set"} : tensor<65536x96xf32>
  %v5 = graph.scatter_nd(%v4, %i, %u) {kind = "add"} : tensor<65536x96xf32>
  %v6 = graph.gather_nd(%v5, %i) : tensor<8x96xf32>
  %v7 = graph.cast(%v6) {to = bf16} : tensor<8x96xbf16>
  %v8 = graph.scatter_nd(%v0, %i, %v7) {kind = "set", ordered = false} : tensor<65536x96xbf16>
  return(%v8)
}
