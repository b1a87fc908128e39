// RUN: recognise-flattening, layout, canonicalize, dead-code
// A norm over two groups of channels between channels-last values: nothing is permuted but the input.
func @f(%x: tensor<(n)x4x2x2xf32>, %w: tensor<4x4x1x1xf32>) dims (n in 1..64) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x4x2x2xf32>
  %v = graph.reshape(%c) {shape = [(n), 2, 8]} : tensor<(n)x2x8xf32>
  %m = graph.reduce(%v) {axes = [2], keepdims = true, kind = "sum"} : tensor<(n)x2x1xf32>
  %b = graph.broadcast(%m) {shape = [(n), 2, 8]} : tensor<(n)x2x8xf32>
  %s = graph.sub(%v, %b) : tensor<(n)x2x8xf32>
  %u = graph.reshape(%s) {shape = [(n), 4, 2, 2]} : tensor<(n)x4x2x2xf32>
  %d = graph.conv(%u, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x4x2x2xf32>
  return(%d)
}
// -----
func @f(%x: tensor<(n)x4x2x2xf32>, %w: tensor<4x4x1x1xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x2x2x4xf32>
  %v1 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x1x4x4xf32>
  %v2 = graph.conv(%v0, %v1) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x2x2x4xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 2, 2, 2, 2]} : tensor<(n)x2x2x2x2xf32>
  %v4 = graph.reduce(%v3) {axes = [1, 2, 4], keepdims = true, kind = "sum"} : tensor<(n)x1x1x2x1xf32>
  %v5 = graph.broadcast(%v4) {shape = [(n), 2, 2, 2, 2]} : tensor<(n)x2x2x2x2xf32>
  %v6 = graph.sub(%v3, %v5) : tensor<(n)x2x2x2x2xf32>
  %v7 = graph.reshape(%v6) {shape = [(n), 2, 2, 4]} : tensor<(n)x2x2x4xf32>
  %v8 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x1x4x4xf32>
  %v9 = graph.conv(%v7, %v8) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x2x2x4xf32>
  %v10 = graph.permute(%v9) {perm = [0, 3, 1, 2]} : tensor<(n)x4x2x2xf32>
  return(%v10)
}
