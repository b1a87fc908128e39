// RUN: layout
// Channels last, and no permute.
func @channels_last(%x: tensor<1x5x5x4xf32>, %w: tensor<3x3x4x4xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x3x4xf32>
  return(%y)
}
