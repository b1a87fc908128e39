// RUN: fold-constants, winograd, canonicalize, fold-constants
// Weights are too many for text, and what is made of them. Both are made of a few numbers, and an image that only
// canonicalize knows: what is left in the end is what the form that winograd chose gives.
// Groups have fewer channels in a filter than there are in the image.
func @groups(%p: tensor<32x4x4x64xf32>) {
  %pixels = graph.constant() {value = dense<4x4x1xf32, [1.0 2.0 0.0 4.0 -1.0 3.0 2.0 5.0 0.0 7.0 1.0 -2.0 6.0 2.0 3.0 1.0]>} : tensor<4x4x1xf32>
  %known = graph.broadcast(%pixels) {shape = [32, 4, 4, 64]} : tensor<32x4x4x64xf32>
  %yes = graph.full() {elem = bool, shape = [32, 4, 4, 64], value = true} : tensor<32x4x4x64xbool>
  %x = graph.select(%yes, %known, %p) : tensor<32x4x4x64xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [4608, 4]} : tensor<4608x4xf32>
  %w = graph.reshape(%many) {shape = [3, 3, 32, 64]} : tensor<3x3x32x64xf32>
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<32x2x2x64xf32>
  %z = graph.slice(%y) {sizes = [1, 2, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x2x2x1xf32>
  return(%z)
}
// With channels first, a filter of 3 results of 3 channels looks like one of 3 x 3 taps.
func @channels_first(%p: tensor<1x3x95x32xf32>) {
  %pixels = graph.constant() {value = dense<3x1x1xf32, [1.0 2.0 0.0]>} : tensor<3x1x1xf32>
  %known = graph.broadcast(%pixels) {shape = [1, 3, 95, 32]} : tensor<1x3x95x32xf32>
  %yes = graph.full() {elem = bool, shape = [1, 3, 95, 32], value = true} : tensor<1x3x95x32xbool>
  %x = graph.select(%yes, %known, %p) : tensor<1x3x95x32xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [2304, 4]} : tensor<2304x4xf32>
  %w = graph.reshape(%many) {shape = [3, 3, 32, 32]} : tensor<3x3x32x32xf32>
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nchw", low = [0, 0], strides = [1, 1]} : tensor<1x3x64x1xf32>
  %z = graph.slice(%y) {sizes = [1, 3, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x3x2x1xf32>
  return(%z)
}
// A pixel is no window of 3 x 3.
func @pixel(%p: tensor<8x4x4x32xf32>) {
  %pixels = graph.constant() {value = dense<4x4x1xf32, [1.0 2.0 0.0 4.0 -1.0 3.0 2.0 5.0 0.0 7.0 1.0 -2.0 6.0 2.0 3.0 1.0]>} : tensor<4x4x1xf32>
  %known = graph.broadcast(%pixels) {shape = [8, 4, 4, 32]} : tensor<8x4x4x32xf32>
  %yes = graph.full() {elem = bool, shape = [8, 4, 4, 32], value = true} : tensor<8x4x4x32xbool>
  %x = graph.select(%yes, %known, %p) : tensor<8x4x4x32xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [256, 4]} : tensor<256x4xf32>
  %w = graph.reshape(%many) {shape = [1, 1, 32, 32]} : tensor<1x1x32x32xf32>
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<8x4x4x32xf32>
  %z = graph.slice(%y) {sizes = [1, 2, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x2x2x1xf32>
  return(%z)
}
// Nor is a window of 3 x 3 pixels two apart.
func @dilated(%p: tensor<32x6x6x32xf32>) {
  %pixels = graph.constant() {value = dense<6x1x1xf32, [1.0 2.0 0.0 4.0 -1.0 3.0]>} : tensor<6x1x1xf32>
  %known = graph.broadcast(%pixels) {shape = [32, 6, 6, 32]} : tensor<32x6x6x32xf32>
  %yes = graph.full() {elem = bool, shape = [32, 6, 6, 32], value = true} : tensor<32x6x6x32xbool>
  %x = graph.select(%yes, %known, %p) : tensor<32x6x6x32xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [2304, 4]} : tensor<2304x4xf32>
  %w = graph.reshape(%many) {shape = [3, 3, 32, 32]} : tensor<3x3x32x32xf32>
  %y = graph.conv(%x, %w) {dilation = [2, 2], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<32x2x2x32xf32>
  %z = graph.slice(%y) {sizes = [1, 2, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x2x2x1xf32>
  return(%z)
}
// Padding in front moves the tiles.
func @padding(%p: tensor<8x4x4x32xf32>) {
  %pixels = graph.constant() {value = dense<4x4x1xf32, [1.0 2.0 0.0 4.0 -1.0 3.0 2.0 5.0 0.0 7.0 1.0 -2.0 6.0 2.0 3.0 1.0]>} : tensor<4x4x1xf32>
  %known = graph.broadcast(%pixels) {shape = [8, 4, 4, 32]} : tensor<8x4x4x32xf32>
  %yes = graph.full() {elem = bool, shape = [8, 4, 4, 32], value = true} : tensor<8x4x4x32xbool>
  %x = graph.select(%yes, %known, %p) : tensor<8x4x4x32xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [2304, 4]} : tensor<2304x4xf32>
  %w = graph.reshape(%many) {shape = [3, 3, 32, 32]} : tensor<3x3x32x32xf32>
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 1, high = [1, 1], input_dilation = [1, 1], layout = "nhwc", low = [1, 1], strides = [1, 1]} : tensor<8x4x4x32xf32>
  %z = graph.slice(%y) {sizes = [1, 2, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x2x2x1xf32>
  return(%z)
}
// An odd line of ones above: whole tiles take a line of zeros below, which is no part of the same padding.
func @ones_above(%p: tensor<32x4x4x32xf32>) {
  %pixels = graph.constant() {value = dense<4x4x1xf32, [1.0 2.0 0.0 4.0 -1.0 3.0 2.0 5.0 0.0 7.0 1.0 -2.0 6.0 2.0 3.0 1.0]>} : tensor<4x4x1xf32>
  %known = graph.broadcast(%pixels) {shape = [32, 4, 4, 32]} : tensor<32x4x4x32xf32>
  %yes = graph.full() {elem = bool, shape = [32, 4, 4, 32], value = true} : tensor<32x4x4x32xbool>
  %x = graph.select(%yes, %known, %p) : tensor<32x4x4x32xf32>
  %q = graph.pad(%x) {high = [0, 0, 0, 0], low = [0, 1, 0, 0], value = 1.0} : tensor<32x5x4x32xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [2304, 4]} : tensor<2304x4xf32>
  %w = graph.reshape(%many) {shape = [3, 3, 32, 32]} : tensor<3x3x32x32xf32>
  %y = graph.conv(%q, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<32x3x2x32xf32>
  %z = graph.slice(%y) {sizes = [1, 3, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x3x2x1xf32>
  return(%z)
}
// Lines that repeat the last one are no zeros either.
func @edges_above(%p: tensor<32x4x4x32xf32>) {
  %pixels = graph.constant() {value = dense<4x4x1xf32, [1.0 2.0 0.0 4.0 -1.0 3.0 2.0 5.0 0.0 7.0 1.0 -2.0 6.0 2.0 3.0 1.0]>} : tensor<4x4x1xf32>
  %known = graph.broadcast(%pixels) {shape = [32, 4, 4, 32]} : tensor<32x4x4x32xf32>
  %yes = graph.full() {elem = bool, shape = [32, 4, 4, 32], value = true} : tensor<32x4x4x32xbool>
  %x = graph.select(%yes, %known, %p) : tensor<32x4x4x32xf32>
  %q = graph.pad(%x) {high = [0, 0, 0, 0], low = [0, 1, 0, 0], mode = "edge", value = 0.0} : tensor<32x5x4x32xf32>
  %few = graph.constant() {value = dense<4xf32, [1.0 2.0 -1.0 3.0]>} : tensor<4xf32>
  %many = graph.broadcast(%few) {shape = [2304, 4]} : tensor<2304x4xf32>
  %w = graph.reshape(%many) {shape = [3, 3, 32, 32]} : tensor<3x3x32x32xf32>
  %y = graph.conv(%q, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<32x3x2x32xf32>
  %z = graph.slice(%y) {sizes = [1, 3, 2, 1], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x3x2x1xf32>
  return(%z)
}
// -----
func @groups(%p: tensor<32x4x4x64xf32>) {
  %v0 = graph.constant() {value = dense<1x2x2x1xf32, [480.0 704.0 736.0 704.0]>} : tensor<1x2x2x1xf32>
  return(%v0)
}

func @channels_first(%p: tensor<1x3x95x32xf32>) {
  %v0 = graph.full() {elem = f32, shape = [1, 3, 2, 1], value = 3840.0} : tensor<1x3x2x1xf32>
  return(%v0)
}

func @pixel(%p: tensor<8x4x4x32xf32>) {
  %v0 = graph.constant() {value = dense<1x2x2x1xf32, [32.0 64.0 -32.0 96.0]>} : tensor<1x2x2x1xf32>
  return(%v0)
}

func @dilated(%p: tensor<32x6x6x32xf32>) {
  %v0 = graph.constant() {value = dense<1x2x2x1xf32, [0.0 0.0 864.0 864.0]>} : tensor<1x2x2x1xf32>
  return(%v0)
}

func @padding(%p: tensor<8x4x4x32xf32>) {
  %v0 = graph.constant() {value = dense<1x2x2x1xf32, [160.0 224.0 384.0 480.0]>} : tensor<1x2x2x1xf32>
  return(%v0)
}

func @ones_above(%p: tensor<32x4x4x32xf32>) {
  %v0 = graph.constant() {value = dense<1x3x2x1xf32, [320.0 608.0 480.0 704.0 736.0 704.0]>} : tensor<1x3x2x1xf32>
  return(%v0)
}

func @edges_above(%p: tensor<32x4x4x32xf32>) {
  %v0 = graph.constant() {value = dense<1x3x2x1xf32, [320.0 704.0 480.0 704.0 736.0 704.0]>} : tensor<1x3x2x1xf32>
  return(%v0)
}
