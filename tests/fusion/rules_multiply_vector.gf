// RUN: multiply-vector
// RULES
func @vector_by_rows(%x: tensor<1x512xf32>, %w: tensor<100x512xf32>) {
  %v0 = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<1x100xf32>
  return(%v0)
}
func @vector_by_rows__halves(%x: tensor<512xbf16>, %w: tensor<100x4x512xbf16>) {
  %v0 = graph.contract(%w, %x) {spec = "nmk,k->nm"} : tensor<100x4xbf16>
  return(%v0)
}
func @vector_by_rows__each_its_own(%x: tensor<3x2x1x64xf32>, %w: tensor<2x3x100x64xf32>) {
  %v0 = graph.contract(%x, %w) {spec = "hbmk,bhnk->bhmn"} : tensor<2x3x1x100xf32>
  return(%v0)
}
// -----
func @vector_by_rows(%x: tensor<1x512xf32>, %w: tensor<100x512xf32>) {
  %v0 = graph.broadcast(%x) {shape = [100, 512]} : tensor<100x512xf32>
  %v1 = graph.mul(%v0, %w) : tensor<100x512xf32>
  %v2 = graph.reduce(%v1) {axes = [1], kind = "sum"} : tensor<100xf32>
  %v3 = graph.reshape(%v2) {shape = [1, 100]} : tensor<1x100xf32>
  return(%v3)
}

func @vector_by_rows__halves(%x: tensor<512xbf16>, %w: tensor<100x4x512xbf16>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<512xf32>
  %v1 = graph.broadcast(%v0) {shape = [100, 4, 512]} : tensor<100x4x512xf32>
  %v2 = graph.cast(%w) {to = f32} : tensor<100x4x512xf32>
  %v3 = graph.mul(%v1, %v2) : tensor<100x4x512xf32>
  %v4 = graph.reduce(%v3) {axes = [2], kind = "sum"} : tensor<100x4xf32>
  %v5 = graph.cast(%v4) {to = bf16} : tensor<100x4xbf16>
  return(%v5)
}

func @vector_by_rows__each_its_own(%x: tensor<3x2x1x64xf32>, %w: tensor<2x3x100x64xf32>) {
  %v0 = graph.reshape(%x) {shape = [3, 2, 64]} : tensor<3x2x64xf32>
  %v1 = graph.permute(%v0) {perm = [1, 0, 2]} : tensor<2x3x64xf32>
  %v2 = graph.reshape(%v1) {shape = [2, 3, 1, 64]} : tensor<2x3x1x64xf32>
  %v3 = graph.broadcast(%v2) {shape = [2, 3, 100, 64]} : tensor<2x3x100x64xf32>
  %v4 = graph.mul(%v3, %w) : tensor<2x3x100x64xf32>
  %v5 = graph.reduce(%v4) {axes = [3], kind = "sum"} : tensor<2x3x100xf32>
  %v6 = graph.reshape(%v5) {shape = [2, 3, 1, 100]} : tensor<2x3x1x100xf32>
  return(%v6)
}
