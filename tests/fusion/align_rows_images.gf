// RUN: align-rows {target = "cuda:sm_90a"}
// Channels apart, of the image and of the weights: both are copied, behind the zeros around positions.
func @nchw(%x: tensor<8x64x32x32xf16>, %w: tensor<64x64x3x3xf16>) {
  %a = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<8x32x32x64xf16>
  %b = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<3x3x64x64xf16>
  %p = graph.pad(%a) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = 0.0} : tensor<8x34x34x64xf16>
  %y = graph.conv(%p, %b) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x32x32x64xf16>
  return(%y)
}
// Channels that are no whole sectors.
func @odd(%x: tensor<8x32x32x33xf16>, %w: tensor<3x3x33x65xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x30x30x65xf16>
  return(%y)
}
// A convolution of which TMA reads both stays, as do one of f32 and one that is too small to gain by it.
func @stay(%x: tensor<4x16x16x64xf16>, %w: tensor<3x3x64x64xf16>, %z: tensor<2x8x8x33xf32>, %v: tensor<3x3x33x65xf32>, %s: tensor<1x4x4x9xf16>, %t: tensor<3x3x9x16xf16>) {
  %a = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<4x14x14x64xf16>
  %b = graph.conv(%z, %v) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x6x6x65xf32>
  %c = graph.conv(%s, %t) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x2x2x16xf16>
  return(%a, %b, %c)
}
// Each channel by itself: what is read at every tap lies by channels, of any elements.
func @depthwise(%x: tensor<8x64x32x32xf32>, %w: tensor<64x1x3x3xf32>) {
  %a = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<8x32x32x64xf32>
  %b = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<3x3x1x64xf32>
  %y = graph.conv(%a, %b) {dilation = [1, 1], groups = 64, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x30x30x64xf32>
  return(%y)
}
// It does, or is read at few positions.
func @depthwise_stays(%x: tensor<8x32x32x64xf16>, %w: tensor<3x3x1x64xf16>, %v: tensor<64x1x3x3xf16>, %z: tensor<2x10x10x64xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 64, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x30x30x64xf16>
  %b = graph.permute(%v) {perm = [2, 3, 1, 0]} : tensor<3x3x1x64xf16>
  %u = graph.conv(%z, %b) {dilation = [1, 1], groups = 64, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x8x8x64xf16>
  return(%y, %u)
}
// -----
func @nchw(%x: tensor<8x64x32x32xf16>, %w: tensor<64x64x3x3xf16>) {
  %a = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<8x32x32x64xf16>
  %b = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<3x3x64x64xf16>
  %v0 = graph.pad(%a) {high = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<8x32x32x64xf16>
  %v1 = graph.pad(%v0) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = 0.0} : tensor<8x34x34x64xf16>
  %v2 = graph.pad(%b) {high = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<3x3x64x64xf16>
  %y = graph.conv(%v1, %v2) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x32x32x64xf16>
  return(%y)
}

func @odd(%x: tensor<8x32x32x33xf16>, %w: tensor<3x3x33x65xf16>) {
  %v0 = graph.pad(%x) {high = [0, 0, 0, 15], low = [0, 0, 0, 0], value = 0.0} : tensor<8x32x32x48xf16>
  %v1 = graph.pad(%w) {high = [0, 0, 15, 15], low = [0, 0, 0, 0], value = 0.0} : tensor<3x3x48x80xf16>
  %v2 = graph.slice(%v1) {sizes = [3, 3, 48, 65], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<3x3x48x65xf16>
  %y = graph.conv(%v0, %v2) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x30x30x65xf16>
  return(%y)
}

func @stay(%x: tensor<4x16x16x64xf16>, %w: tensor<3x3x64x64xf16>, %z: tensor<2x8x8x33xf32>, %v: tensor<3x3x33x65xf32>, %s: tensor<1x4x4x9xf16>, %t: tensor<3x3x9x16xf16>) {
  %a = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<4x14x14x64xf16>
  %b = graph.conv(%z, %v) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x6x6x65xf32>
  %c = graph.conv(%s, %t) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x2x2x16xf16>
  return(%a, %b, %c)
}

func @depthwise(%x: tensor<8x64x32x32xf32>, %w: tensor<64x1x3x3xf32>) {
  %a = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<8x32x32x64xf32>
  %b = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<3x3x1x64xf32>
  %v0 = graph.pad(%a) {high = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<8x32x32x64xf32>
  %v1 = graph.pad(%b) {high = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<3x3x1x64xf32>
  %y = graph.conv(%v0, %v1) {dilation = [1, 1], groups = 64, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x30x30x64xf32>
  return(%y)
}

func @depthwise_stays(%x: tensor<8x32x32x64xf16>, %w: tensor<3x3x1x64xf16>, %v: tensor<64x1x3x3xf16>, %z: tensor<2x10x10x64xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 64, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x30x30x64xf16>
  %b = graph.permute(%v) {perm = [2, 3, 1, 0]} : tensor<3x3x1x64xf16>
  %u = graph.conv(%z, %b) {dilation = [1, 1], groups = 64, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x8x8x64xf16>
  return(%y, %u)
}
