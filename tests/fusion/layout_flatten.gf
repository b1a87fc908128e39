// RUN: layout
// A flatten before a classifier keeps channels last: the rows of the constant weights are reordered instead.
func @f(%x: tensor<(n)x2x1x3xf32>, %w: tensor<2x2x1x2xf32>) dims (n in 1..64) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x1x2xf32>
  %f = graph.reshape(%c) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v = graph.constant() {value = dense<4x2xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0]>} : tensor<4x2xf32>
  %y = graph.contract(%f, %v) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%y)
}
// -----
func @f(%x: tensor<(n)x2x1x3xf32>, %w: tensor<2x2x1x2xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x1x3x2xf32>
  %v1 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x2x2x2xf32>
  %v2 = graph.conv(%v0, %v1) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x1x2x2xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v4 = graph.constant() {value = dense<4x2xf32, [0.0 1.0 4.0 5.0 2.0 3.0 6.0 7.0]>} : tensor<4x2xf32>
  %y = graph.contract(%v3, %v4) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%y)
}
