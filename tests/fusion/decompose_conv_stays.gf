// RUN: decompose-conv
// A filter larger than a pixel with nothing around the image stays a convolution.
func @plain(%x: tensor<1x5x5x4xf32>, %w: tensor<3x3x4x4xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x3x4xf32>
  return(%y)
}

// A 1x1 window of a spread image is no contraction: of as many channels as a symbol says phases are not made.
func @spread(%x: tensor<(n)x3x3x2xf32>, %w: tensor<1x1x2x(q)xf32>) dims (n in 1..64, q in 1..8) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [2, 2], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x5x5x(q)xf32>
  return(%y)
}

// So it is of a window over the whole of one.
func @whole_of_spread(%x: tensor<(n)x2x2x2xf32>, %w: tensor<2x2x2x(q)xf32>) dims (n in 1..64, q in 1..8) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [2, 2], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x2x2x(q)xf32>
  return(%y)
}

func @channels_before_a_line(%x: tensor<1x2x5xf32>, %w: tensor<3x2x3xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1], high = [0], input_dilation = [1], low = [0], strides = [1]} : tensor<1x3x3xf32>
  return(%y)
}

// Of channels first, where a filter's height stands is its channels.
func @channels_first(%x: tensor<1x1x3x3xf32>, %w: tensor<1x1x3x3xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x1x1x1xf32>
  return(%y)
}

// A window over everything has no part in the channels of other groups.
func @groups(%x: tensor<1x3x3x4xf32>, %w: tensor<3x3x2x6xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x1x6xf32>
  return(%y)
}

// Groups of one result each: products of single columns share nothing.
func @one_result_a_group(%x: tensor<1x4x4x4xf32>, %w: tensor<1x1x2x2xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x4x4x2xf32>
  return(%y)
}
