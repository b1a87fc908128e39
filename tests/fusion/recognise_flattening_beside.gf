// RUN: recognise-flattening, canonicalize
// Dims that are split and dims that are merged, beside a norm's: they have the parts they get.
func @split_and_merge(%x: tensor<6x2x3x4x2xf32>) {
  %v = graph.reshape(%x) {shape = [2, 3, 6, 2, 4]} : tensor<2x3x6x2x4xf32>
  %s = graph.reduce(%v) {axes = [4], kind = "sum"} : tensor<2x3x6x2xf32>
  return(%s)
}
// Rows of three dims.
func @rows_of_three(%x: tensor<2x3x5x4xf32>) {
  %r = graph.reshape(%x) {shape = [30, 4]} : tensor<30x4xf32>
  %s = graph.reduce(%r) {axes = [1], kind = "sum"} : tensor<30xf32>
  return(%s)
}
// -----
func @split_and_merge(%x: tensor<6x2x3x4x2xf32>) {
  %v0 = graph.reshape(%x) {shape = [2, 3, 6, 2, 2, 2]} : tensor<2x3x6x2x2x2xf32>
  %v1 = graph.reduce(%v0) {axes = [4, 5], kind = "sum"} : tensor<2x3x6x2xf32>
  return(%v1)
}

func @rows_of_three(%x: tensor<2x3x5x4xf32>) {
  %v0 = graph.reduce(%x) {axes = [3], kind = "sum"} : tensor<2x3x5xf32>
  %s = graph.reshape(%v0) {shape = [30]} : tensor<30xf32>
  return(%s)
}
