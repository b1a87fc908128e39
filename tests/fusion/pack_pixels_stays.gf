// RUN: pack-pixels
// Groups of no channels at all: of as many in each as there are.
func @groups_of_nothing(%x: tensor<1x3x8x0xf16>, %w: tensor<3x3x0x8xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x6x8xf16>
  return(%y)
}

// Between the pixels of a spread line there are zeros.
func @spread(%x: tensor<1x3x8x3xf16>, %w: tensor<3x3x3x8xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 2], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x13x8xf16>
  return(%y)
}

// A filter is grown by what its pixels have less than 4: of a symbol that is not known.
func @channels_of_a_symbol(%x: tensor<1x3x8x3xf16>, %w: tensor<3x3x(c)x8xf16>) dims (c in 3..3) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x6x8xf16>
  return(%y)
}

// Padding in front of a line would be of whole runs.
func @padded(%x: tensor<1x3x8x3xf16>, %w: tensor<3x3x3x8xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 1], strides = [1, 1]} : tensor<1x1x7x8xf16>
  return(%y)
}

// Taps two pixels apart are no run.
func @dilated(%x: tensor<1x3x8x3xf16>, %w: tensor<3x3x3x8xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 2], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x4x8xf16>
  return(%y)
}
