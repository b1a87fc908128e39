// RUN: copy-scattered
// What may be written over, and what a kernel has made.
func @shared(%x: tensor<64x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf16>) {shared = [[0, 0]]} {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "set"} : tensor<64x96xf16>
  return(%y)
}

func @made(%x: tensor<64x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf16>) {
  %e = graph.exp(%x) : tensor<64x96xf16>
  %y = graph.scatter_nd(%e, %i, %u) {kind = "set"} : tensor<64x96xf16>
  return(%y)
}
