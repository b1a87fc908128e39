// RUN: copy-scattered
// A parameter that stays as it is.
func @parameter(%x: tensor<64x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf16>) {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "set"} : tensor<64x96xf16>
  return(%y)
}
// -----
func @parameter(%x: tensor<64x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf16>) {
  %v0 = graph.pad(%x) {high = [0, 0], low = [0, 0], value = 0} : tensor<64x96xf16>
  %y = graph.scatter_nd(%v0, %i, %u) {kind = "set"} : tensor<64x96xf16>
  return(%y)
}
