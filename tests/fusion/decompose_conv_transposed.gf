// RUN: decompose-conv, fold-constants
// A transposed convolution with stride 2: its 2 x 2 phases are one convolution with four times the channels.
func @f(%x: tensor<(n)x(h)x3x1xf32>) dims (h in 1..64, n in 1..64) {
  %w = graph.constant() {value = dense<2x2x1x1xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2x1x1xf32>
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [1, 1], input_dilation = [2, 2], layout = "nhwc", low = [1, 1], strides = [1, 1]} : tensor<(n)x(2*h)x6x1xf32>
  return(%c)
}
// -----
func @f(%x: tensor<(n)x(h)x3x1xf32>) dims (h in 1..64, n in 1..64) {
  %v0 = graph.constant() {value = dense<1x4xf32, [4.0 3.0 2.0 1.0]>} : tensor<1x4xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nhwc,co->nhwo"} : tensor<(n)x(h)x3x4xf32>
  %v2 = graph.reshape(%v1) {shape = [(n), (h), 3, 1, 2, 2, 1]} : tensor<(n)x(h)x3x1x2x2x1xf32>
  %v3 = graph.permute(%v2) {perm = [0, 1, 4, 2, 5, 3, 6]} : tensor<(n)x(h)x2x3x2x1x1xf32>
  %v4 = graph.reshape(%v3) {shape = [(n), (h), 2, 3, 2, 1]} : tensor<(n)x(h)x2x3x2x1xf32>
  %c = graph.reshape(%v4) {shape = [(n), (2*h), 6, 1]} : tensor<(n)x(2*h)x6x1xf32>
  return(%c)
}
