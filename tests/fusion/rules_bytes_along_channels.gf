// RUN: bytes-along-channels
// RULES
func @pad_channels_last(%x: tensor<(n)x3x5x6xu8>, %w: tensor<3x3x4x2xi8>) dims (n in 1..4) {
  %p = graph.pad(%x) {high = [0, 0, 1, 2], low = [0, 0, 0, 1], value = 9} : tensor<(n)x3x6x9xu8>
  %q = graph.pad(%p) {high = [0, 1, 0, 0], low = [0, 0, 0, 0], value = 0} : tensor<(n)x4x6x9xu8>
  %t = graph.permute(%q) {perm = [0, 2, 3, 1]} : tensor<(n)x6x9x4xu8>
  %c = graph.conv(%t, %w) {dilation = [1, 1], elem = i32, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x7x2xi32>
  return(%c)
}
// -----
func @pad_channels_last(%x: tensor<(n)x3x5x6xu8>, %w: tensor<3x3x4x2xi8>) dims (n in 1..4) {
  %v0 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x5x6x3xu8>
  %v1 = graph.pad(%v0) {high = [0, 1, 2, 0], low = [0, 0, 1, 0], value = 9} : tensor<(n)x6x9x3xu8>
  %v2 = graph.pad(%v1) {high = [0, 0, 0, 1], low = [0, 0, 0, 0], value = 0} : tensor<(n)x6x9x4xu8>
  %c = graph.conv(%v2, %w) {dilation = [1, 1], elem = i32, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x7x2xi32>
  return(%c)
}
