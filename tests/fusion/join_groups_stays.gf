// RUN: join-groups
// Groups as long as a step, depthwise ones, such of one result, and such as tensor cores do not multiply.
func @whole(%x: tensor<1x56x56x256xf16>, %w: tensor<3x3x64x256xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 4, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x54x54x256xf16>
  return(%y)
}

func @depthwise(%x: tensor<1x56x56x256xf16>, %w: tensor<3x3x1x256xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 256, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x54x54x256xf16>
  return(%y)
}

func @one_result_each(%x: tensor<3x9x6x16xbf16>, %w: tensor<2x3x8x2xbf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<3x8x4x2xbf16>
  return(%y)
}

func @wide(%x: tensor<1x56x56x256xf32>, %w: tensor<3x3x8x256xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 32, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x54x54x256xf32>
  return(%y)
}
