// RUN: pack-pixels
// Enough channels; elements of 4 bytes; results that fill no line; groups; a filter of one column.
func @f(%x: tensor<1x5x8x8xf16>, %w: tensor<3x3x8x8xf16>, %y: tensor<1x5x8x3xf32>, %v: tensor<3x3x3x8xf32>, %z: tensor<1x5x8x3xf16>, %u: tensor<3x3x3x6xf16>, %t: tensor<3x1x3x8xf16>, %s: tensor<3x3x1x24xf16>) {
  %a = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x8xf16>
  %b = graph.conv(%y, %v) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x8xf32>
  %c = graph.conv(%z, %u) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x6xf16>
  %d = graph.conv(%z, %t) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x8x8xf16>
  %e = graph.conv(%z, %s) {dilation = [1, 1], groups = 3, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x24xf16>
  return(%a, %b, %c, %d, %e)
}
// -----
func @f(%x: tensor<1x5x8x8xf16>, %w: tensor<3x3x8x8xf16>, %y: tensor<1x5x8x3xf32>, %v: tensor<3x3x3x8xf32>, %z: tensor<1x5x8x3xf16>, %u: tensor<3x3x3x6xf16>, %t: tensor<3x1x3x8xf16>, %s: tensor<3x3x1x24xf16>) {
  %a = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x8xf16>
  %b = graph.conv(%y, %v) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x8xf32>
  %c = graph.conv(%z, %u) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x6xf16>
  %d = graph.conv(%z, %t) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x8x8xf16>
  %e = graph.conv(%z, %s) {dilation = [1, 1], groups = 3, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x3x6x24xf16>
  return(%a, %b, %c, %d, %e)
}
