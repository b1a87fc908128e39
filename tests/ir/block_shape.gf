// RUN:
// Literals, casts, and the ops that change a tile's shape.
func @shapes(%p: ptr<f32>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %half = block.const() {elem = f16, shape = [2, 2], value = 0.5} : tile<2x2xf16>
  %yes = block.const() {elem = bool, value = true} : bool
  %small = block.arange() {elem = i8, end = 3, start = -1} : tile<4xi8>
  %t = block.load_view(%p, %z) {shape = [2, 3], strides = [3, 1]} : tile<2x3xf32>
  %s = block.load(%p, %z) : f32
  %splat = block.splat(%s) {shape = [2, 3]} : tile<2x3xf32>
  %trans = block.trans(%t) {perm = [1, 0]} : tile<3x2xf32>
  %flat = block.reshape(%t) {shape = [6]} : tile<6xf32>
  %row = block.reshape(%t) {shape = [1, 6]} : tile<1x6xf32>
  %wide = block.broadcast(%row) {shape = [4, 6]} : tile<4x6xf32>
  %fma = block.fma(%t, %splat, %t) : tile<2x3xf32>
  %lt = block.lt(%t, %splat) : tile<2x3xbool>
  %pick = block.select(%lt, %t, %fma) : tile<2x3xf32>
  %which = block.select(%yes, %s, %s) : f32
  %int = block.cast(%t) {saturate = true, to = u8} : tile<2x3xu8>
  %one = block.cast(%s) {to = bf16} : bf16
  %bits = block.bitcast(%t) {to = u32} : tile<2x3xu32>
  return(%half, %small, %trans, %flat, %wide, %fma, %pick, %which, %int, %one, %bits)
}
