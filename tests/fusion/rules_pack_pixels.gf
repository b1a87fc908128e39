// RUN: pack-pixels
// RULES
func @few_channels_in_runs(%x: tensor<(n)x6x7x3xf16>, %w: tensor<3x3x3x8xf16>) dims (n in 1..4) {
  %p = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = 0.0} : tensor<(n)x8x9x3xf16>
  %c = graph.conv(%p, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [2, 2]} : tensor<(n)x3x4x8xf16>
  return(%c)
}
func @few_channels_in_runs__one_by_one(%x: tensor<2x5x8x4xbf16>, %w: tensor<2x5x4x8xbf16>) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x4x4x8xbf16>
  return(%c)
}
// 9 pixels of 16 bytes are more than one step of k: a second one is filled up.
func @few_channels_in_runs__two_steps_of_k(%x: tensor<1x1x16x4xf16>, %w: tensor<1x9x4x16xf16>) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x8x16xf16>
  return(%c)
}
// Two pixels of 4 channels are 16 bytes already.
func @few_channels_in_runs__four_channels_by_twos(%x: tensor<1x1x16x4xf16>, %w: tensor<1x4x4x8xf16>) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 2]} : tensor<1x1x7x8xf16>
  return(%c)
}
// Four pixels of 2 channels would be: 3 channels are grown to 4.
func @few_channels_in_runs__three_channels_by_fours(%x: tensor<1x1x16x3xf16>, %w: tensor<1x4x3x8xf16>) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 4]} : tensor<1x1x4x8xf16>
  return(%c)
}
// Padding says no value where it is 0.
func @few_channels_in_runs__padded_with_what_is_not_said(%x: tensor<1x1x14x4xf16>, %w: tensor<1x4x4x8xf16>) {
  %p = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 1, 0]} : tensor<1x1x16x4xf16>
  %c = graph.conv(%p, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 2]} : tensor<1x1x7x8xf16>
  return(%c)
}
// -----
func @few_channels_in_runs(%x: tensor<(n)x6x7x3xf16>, %w: tensor<3x3x3x8xf16>) dims (n in 1..4) {
  %v0 = graph.pad(%x) {high = [0, 1, 4, 1], low = [0, 1, 1, 0], value = 0.0} : tensor<(n)x8x12x4xf16>
  %v1 = graph.reshape(%v0) {shape = [(n), 8, 6, 8]} : tensor<(n)x8x6x8xf16>
  %v2 = graph.slice(%v1) {sizes = [(n), 8, 5, 8], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<(n)x8x5x8xf16>
  %v3 = graph.pad(%w) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<3x4x4x8xf16>
  %v4 = graph.reshape(%v3) {shape = [3, 2, 8, 8]} : tensor<3x2x8x8xf16>
  %c = graph.conv(%v2, %v4) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [2, 1]} : tensor<(n)x3x4x8xf16>
  return(%c)
}

func @few_channels_in_runs__one_by_one(%x: tensor<2x5x8x4xbf16>, %w: tensor<2x5x4x8xbf16>) {
  %v0 = graph.pad(%x) {high = [0, 0, 4, 4], low = [0, 0, 0, 0], value = 0.0} : tensor<2x5x12x8xbf16>
  %v1 = graph.slice(%v0) {sizes = [2, 5, 11, 8], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x5x11x8xbf16>
  %v2 = graph.pad(%w) {high = [0, 3, 4, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x8x8x8xbf16>
  %c = graph.conv(%v1, %v2) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<2x4x4x8xbf16>
  return(%c)
}

func @few_channels_in_runs__two_steps_of_k(%x: tensor<1x1x16x4xf16>, %w: tensor<1x9x4x16xf16>) {
  %v0 = graph.pad(%x) {high = [0, 0, 8, 4], low = [0, 0, 0, 0], value = 0.0} : tensor<1x1x24x8xf16>
  %v1 = graph.slice(%v0) {sizes = [1, 1, 23, 8], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x1x23x8xf16>
  %v2 = graph.pad(%w) {high = [0, 7, 4, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<1x16x8x16xf16>
  %c = graph.conv(%v1, %v2) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x8x16xf16>
  return(%c)
}

func @few_channels_in_runs__four_channels_by_twos(%x: tensor<1x1x16x4xf16>, %w: tensor<1x4x4x8xf16>) {
  %v0 = graph.pad(%x) {high = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<1x1x16x4xf16>
  %v1 = graph.reshape(%v0) {shape = [1, 1, 8, 8]} : tensor<1x1x8x8xf16>
  %v2 = graph.slice(%v1) {sizes = [1, 1, 8, 8], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x1x8x8xf16>
  %v3 = graph.reshape(%w) {shape = [1, 2, 8, 8]} : tensor<1x2x8x8xf16>
  %c = graph.conv(%v2, %v3) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x7x8xf16>
  return(%c)
}

func @few_channels_in_runs__three_channels_by_fours(%x: tensor<1x1x16x3xf16>, %w: tensor<1x4x3x8xf16>) {
  %v0 = graph.pad(%x) {high = [0, 0, 0, 1], low = [0, 0, 0, 0], value = 0.0} : tensor<1x1x16x4xf16>
  %v1 = graph.reshape(%v0) {shape = [1, 1, 4, 16]} : tensor<1x1x4x16xf16>
  %v2 = graph.slice(%v1) {sizes = [1, 1, 4, 16], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x1x4x16xf16>
  %v3 = graph.pad(%w) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<1x4x4x8xf16>
  %v4 = graph.reshape(%v3) {shape = [1, 1, 16, 8]} : tensor<1x1x16x8xf16>
  %c = graph.conv(%v2, %v4) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x4x8xf16>
  return(%c)
}

func @few_channels_in_runs__padded_with_what_is_not_said(%x: tensor<1x1x14x4xf16>, %w: tensor<1x4x4x8xf16>) {
  %v0 = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 1, 0], value = 0.0} : tensor<1x1x16x4xf16>
  %v1 = graph.reshape(%v0) {shape = [1, 1, 8, 8]} : tensor<1x1x8x8xf16>
  %v2 = graph.slice(%v1) {sizes = [1, 1, 8, 8], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<1x1x8x8xf16>
  %v3 = graph.reshape(%w) {shape = [1, 2, 8, 8]} : tensor<1x2x8x8xf16>
  %c = graph.conv(%v2, %v3) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x1x7x8xf16>
  return(%c)
}
