// RUN: layout, canonicalize
// A channel shuffle between convolutions permutes the channel dim only.
func @f(%x: tensor<(n)x4x2x2xf32>, %w: tensor<4x4x1x1xf32>) dims (n in 1..64) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x4x2x2xf32>
  %s = graph.reshape(%c) {shape = [(n), 2, 2, 2, 2]} : tensor<(n)x2x2x2x2xf32>
  %t = graph.permute(%s) {perm = [0, 2, 1, 3, 4]} : tensor<(n)x2x2x2x2xf32>
  %m = graph.reshape(%t) {shape = [(n), 4, 2, 2]} : tensor<(n)x4x2x2xf32>
  %d = graph.conv(%m, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x4x2x2xf32>
  return(%d)
}
// -----
func @f(%x: tensor<(n)x4x2x2xf32>, %w: tensor<4x4x1x1xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x2x2x4xf32>
  %v1 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x1x4x4xf32>
  %v2 = graph.conv(%v0, %v1) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x2x2x4xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 2, 2, 2, 2]} : tensor<(n)x2x2x2x2xf32>
  %v4 = graph.permute(%v3) {perm = [0, 1, 2, 4, 3]} : tensor<(n)x2x2x2x2xf32>
  %v5 = graph.reshape(%v4) {shape = [(n), 2, 2, 4]} : tensor<(n)x2x2x4xf32>
  %v6 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x1x4x4xf32>
  %v7 = graph.conv(%v5, %v6) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x2x2x4xf32>
  %v8 = graph.permute(%v7) {perm = [0, 3, 1, 2]} : tensor<(n)x4x2x2xf32>
  return(%v8)
}
