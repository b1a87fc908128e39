// RUN: pad-once
// Parts of one image that is padded for both; a channel's own window reads through its padding.
func @phases(%x: tensor<2x5x6x8xf32>, %w: tensor<1x2x8x4xf32>, %v: tensor<2x1x8x4xf32>, %d: tensor<2x2x1x8xf32>) {
  %a = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x5x7x8xf32>
  %b = graph.pad(%x) {high = [0, 1, 0, 0], low = [0, 1, 0, 0], value = 0.0} : tensor<2x7x6x8xf32>
  %c = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x6x7x8xf32>
  %e = graph.conv(%a, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x4xf32>
  %f = graph.conv(%b, %v) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x6x6x4xf32>
  %g = graph.conv(%c, %d) {dilation = [1, 1], groups = 8, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x8xf32>
  return(%e, %f, %g)
}

// What is padded alike is one already; what is padded with other numbers stays another.
func @alike(%x: tensor<2x5x6x8xf32>, %w: tensor<1x2x8x4xf32>) {
  %a = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x5x7x8xf32>
  %b = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 1, 0], value = 1.0} : tensor<2x5x8x8xf32>
  %e = graph.conv(%a, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x4xf32>
  %f = graph.conv(%b, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x7x4xf32>
  return(%e, %f)
}

// Something else than a convolution may want one of them whole.
func @returned(%x: tensor<2x5x6x8xf32>, %w: tensor<1x2x8x4xf32>) {
  %a = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x5x7x8xf32>
  %b = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 1, 0], value = 0.0} : tensor<2x5x8x8xf32>
  %e = graph.conv(%a, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x4xf32>
  return(%e, %b)
}
// -----
func @phases(%x: tensor<2x5x6x8xf32>, %w: tensor<1x2x8x4xf32>, %v: tensor<2x1x8x4xf32>, %d: tensor<2x2x1x8xf32>) {
  %v0 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 1, 0, 0], value = 0.0} : tensor<2x7x7x8xf32>
  %a = graph.slice(%v0) {sizes = [2, 5, 7, 8], starts = [0, 1, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x5x7x8xf32>
  %b = graph.slice(%v0) {sizes = [2, 7, 6, 8], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x7x6x8xf32>
  %c = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x6x7x8xf32>
  %e = graph.conv(%a, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x4xf32>
  %f = graph.conv(%b, %v) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x6x6x4xf32>
  %g = graph.conv(%c, %d) {dilation = [1, 1], groups = 8, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x8xf32>
  return(%e, %f, %g)
}

func @alike(%x: tensor<2x5x6x8xf32>, %w: tensor<1x2x8x4xf32>) {
  %a = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x5x7x8xf32>
  %b = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 1, 0], value = 1.0} : tensor<2x5x8x8xf32>
  %e = graph.conv(%a, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x4xf32>
  %f = graph.conv(%b, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x7x4xf32>
  return(%e, %f)
}

func @returned(%x: tensor<2x5x6x8xf32>, %w: tensor<1x2x8x4xf32>) {
  %a = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x5x7x8xf32>
  %b = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 1, 0], value = 0.0} : tensor<2x5x8x8xf32>
  %e = graph.conv(%a, %w) {dilation = [1, 1], groups = 1, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x5x6x4xf32>
  return(%e, %b)
}
