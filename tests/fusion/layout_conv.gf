// RUN: layout
// Between the convolutions nothing is permuted: the residual, the pool and the channel mean stay channels-last.
func @f(%x: tensor<(n)x2x8x8xf32>, %w: tensor<2x2x1x1xf32>) dims (n in 1..64) {
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x8x8xf32>
  %r = graph.add(%c, %x) : tensor<(n)x2x8x8xf32>
  %p = graph.reduce_window(%r) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 1, 2, 2], window = [1, 1, 2, 2]} : tensor<(n)x2x4x4xf32>
  %m = graph.reduce(%p) {axes = [2, 3], keepdims = true, kind = "sum"} : tensor<(n)x2x1x1xf32>
  %b = graph.broadcast(%m) {shape = [(n), 2, 4, 4]} : tensor<(n)x2x4x4xf32>
  %s = graph.sub(%p, %b) : tensor<(n)x2x4x4xf32>
  %d = graph.conv(%s, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  return(%d)
}
// -----
func @f(%x: tensor<(n)x2x8x8xf32>, %w: tensor<2x2x1x1xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x8x8x2xf32>
  %v1 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x1x2x2xf32>
  %v2 = graph.conv(%v0, %v1) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x8x8x2xf32>
  %v3 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x8x8x2xf32>
  %v4 = graph.add(%v2, %v3) : tensor<(n)x8x8x2xf32>
  %v5 = graph.reduce_window(%v4) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 2, 2, 1], window = [1, 2, 2, 1]} : tensor<(n)x4x4x2xf32>
  %v6 = graph.reduce(%v5) {axes = [1, 2], keepdims = true, kind = "sum"} : tensor<(n)x1x1x2xf32>
  %v7 = graph.broadcast(%v6) {shape = [(n), 4, 4, 2]} : tensor<(n)x4x4x2xf32>
  %v8 = graph.sub(%v5, %v7) : tensor<(n)x4x4x2xf32>
  %v9 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<1x1x2x2xf32>
  %v10 = graph.conv(%v8, %v9) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x2xf32>
  %v11 = graph.permute(%v10) {perm = [0, 3, 1, 2]} : tensor<(n)x2x4x4xf32>
  return(%v11)
}
