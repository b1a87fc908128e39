// RUN: join-groups
// Groups of eight channels.
func @eight(%x: tensor<1x56x56x256xf16>, %w: tensor<3x3x8x256xf16>) {
  %y = graph.conv(%x, %w) {dilation = [1, 1], groups = 32, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x54x54x256xf16>
  return(%y)
}
// -----
func @eight(%x: tensor<1x56x56x256xf16>, %w: tensor<3x3x8x256xf16>) {
  %v0 = graph.iota() {axis = 2, elem = i64, shape = [3, 3, 8, 8, 256]} : tensor<3x3x8x8x256xi64>
  %v1 = graph.iota() {axis = 4, elem = i64, shape = [3, 3, 8, 8, 256]} : tensor<3x3x8x8x256xi64>
  %v2 = graph.full() {elem = i64, shape = [3, 3, 8, 8, 256], value = 8} : tensor<3x3x8x8x256xi64>
  %v3 = graph.floordiv(%v1, %v2) : tensor<3x3x8x8x256xi64>
  %v4 = graph.full() {elem = i64, shape = [3, 3, 8, 8, 256], value = 8} : tensor<3x3x8x8x256xi64>
  %v5 = graph.floormod(%v3, %v4) : tensor<3x3x8x8x256xi64>
  %v6 = graph.eq(%v0, %v5) : tensor<3x3x8x8x256xbool>
  %v7 = graph.reshape(%w) {shape = [3, 3, 1, 8, 256]} : tensor<3x3x1x8x256xf16>
  %v8 = graph.broadcast(%v7) {shape = [3, 3, 8, 8, 256]} : tensor<3x3x8x8x256xf16>
  %v9 = graph.full() {elem = f16, shape = [3, 3, 8, 8, 256], value = 0.0} : tensor<3x3x8x8x256xf16>
  %v10 = graph.select(%v6, %v8, %v9) : tensor<3x3x8x8x256xf16>
  %v11 = graph.reshape(%v10) {shape = [3, 3, 64, 256]} : tensor<3x3x64x256xf16>
  %y = graph.conv(%x, %v11) {dilation = [1, 1], groups = 4, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x54x54x256xf16>
  return(%y)
}
