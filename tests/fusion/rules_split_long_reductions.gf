// RUN: split-long-reductions
// RULES
func @reduce_rows_first(%x: tensor<(n)x512xf32>, %h: tensor<(n)x4x128xf16>, %s: tensor<(n)x4xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [0, 1], kind = "sum"} : tensor<f32>
  %v1 = graph.reduce(%h) {axes = [0, 1, 2], kind = "max"} : tensor<f16>
  %v2 = graph.reduce(%s) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%v0, %v1, %v2)
}
// -----
func @reduce_rows_first(%x: tensor<(n)x512xf32>, %h: tensor<(n)x4x128xf16>, %s: tensor<(n)x4xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<(n)xf32>
  %v1 = graph.reduce(%v0) {axes = [0], kind = "sum"} : tensor<f32>
  %v2 = graph.reduce(%h) {axes = [1, 2], kind = "max"} : tensor<(n)xf16>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "max"} : tensor<f16>
  %v4 = graph.reduce(%s) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%v1, %v3, %v4)
}
