// RUN: fold-constants, canonicalize, fold-batch-norm
// (conv(x, w) - m) * s + t is conv(x, w s) + (t - m s); weights and rows are constants.
func @f(%x: tensor<(n)x1x3x3xf32>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2x1x1x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x1x1x2xf32>
  %m = graph.constant() {value = dense<2x1x1xf32, [0.5 0.25]>} : tensor<2x1x1xf32>
  %s = graph.constant() {value = dense<2x1x1xf32, [2.0 4.0]>} : tensor<2x1x1xf32>
  %t = graph.constant() {value = dense<2x1x1xf32, [1.0 -1.0]>} : tensor<2x1x1xf32>
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x3x2xf32>
  %mb = graph.broadcast(%m) {shape = [(n), 2, 3, 2]} : tensor<(n)x2x3x2xf32>
  %sb = graph.broadcast(%s) {shape = [(n), 2, 3, 2]} : tensor<(n)x2x3x2xf32>
  %tb = graph.broadcast(%t) {shape = [(n), 2, 3, 2]} : tensor<(n)x2x3x2xf32>
  %a = graph.sub(%c, %mb) : tensor<(n)x2x3x2xf32>
  %b = graph.mul(%a, %sb) : tensor<(n)x2x3x2xf32>
  %y = graph.add(%b, %tb) : tensor<(n)x2x3x2xf32>
  return(%y)
}
// -----
func @f(%x: tensor<(n)x1x3x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x1x1x2xf32, [2.0 4.0 12.0 16.0]>} : tensor<2x1x1x2xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x3x2xf32>
  %v2 = graph.constant() {value = dense<2x1x1xf32, [0.0 -2.0]>} : tensor<2x1x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2, 3, 2]} : tensor<(n)x2x3x2xf32>
  %y = graph.add(%v1, %v3) : tensor<(n)x2x3x2xf32>
  return(%y)
}
