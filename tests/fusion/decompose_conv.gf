// RUN: decompose-conv
// Padding becomes a pad, a 1x1 window a contraction of every second position.
func @f(%x: tensor<(n)x8x8x4xf32>, %w: tensor<3x3x4x5xf32>, %v: tensor<1x1x5x2xf32>) dims (n in 1..64) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [1, 1], input_dilation = [1, 1], layout = "nhwc", low = [1, 1], strides = [1, 1]} : tensor<(n)x8x8x5xf32>
  %p = graph.reduce_window(%c) {dilation = [1, 1, 1, 1], high = [0, 1, 1, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x4x4x5xf32>
  %d = graph.conv(%p, %v) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [2, 2]} : tensor<(n)x2x2x2xf32>
  return(%d)
}
// -----
func @f(%x: tensor<(n)x8x8x4xf32>, %w: tensor<3x3x4x5xf32>, %v: tensor<1x1x5x2xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = 0.0} : tensor<(n)x10x10x4xf32>
  %c = graph.conv(%v0, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x8x8x5xf32>
  %v1 = graph.pad(%c) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = -inf} : tensor<(n)x9x9x5xf32>
  %p = graph.reduce_window(%v1) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x4x4x5xf32>
  %v2 = graph.slice(%p) {sizes = [(n), 2, 2, 5], starts = [0, 0, 0, 0], steps = [1, 2, 2, 1]} : tensor<(n)x2x2x5xf32>
  %v3 = graph.reshape(%v) {shape = [5, 2]} : tensor<5x2xf32>
  %d = graph.contract(%v2, %v3) {spec = "nhwc,co->nhwo"} : tensor<(n)x2x2x2xf32>
  return(%d)
}
