// RUN: winograd
// Few channels, and strides.
func @few_channels(%x: tensor<1x5x5x4xf32>, %w: tensor<3x3x4x4xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x3x4xf32>
  return(%y)
}

func @strides(%x: tensor<1x7x7x32xf32>, %w: tensor<3x3x32x32xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [2, 2]} : tensor<1x3x3x32xf32>
  return(%y)
}

// Enough tiles, and weights that are known, but few channels.
func @one_channel(%x: tensor<32x4x4x1xf32>) {
  %w = graph.constant() {value = dense<3x3x1x1xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0]>} : tensor<3x3x1x1xf32>
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<32x2x2x1xf32>
  return(%y)
}

// Of lines: 3 taps of 3 channels are no 3 x 3 taps.
func @lines(%x: tensor<32x5x3xf32>) {
  %w = graph.constant() {value = dense<3x3x1xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0]>} : tensor<3x3x1xf32>
  %y = graph.conv(%x, %w) {dilation = [1], groups = 1, high = [0], input_dilation = [1], layout = "nhwc", low = [0], strides = [1]} : tensor<32x3x1xf32>
  return(%y)
}
