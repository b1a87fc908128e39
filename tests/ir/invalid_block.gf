func @f(%x: tensor<4xf32>) {
  %r = block.exp(%x) : tile<4xf32>  // error: block.exp: operand must be a scalar or a tile, got tensor<4xf32>
  return()
}
// -----
func @f(%x: tile<4xf32>) {
  %r = block.fma(%x, %x, %x) : tile<4xf64>  // error: block.fma: result types are (tile<4xf64>), the rule says (tile<4xf32>)
  return()
}
// -----
func @f(%x: tile<4xi32>) {
  %r = block.fma(%x, %x, %x) : tile<4xi32>  // error: block.fma: operands must be equal float types, got tile<4xi32>, tile<4xi32> and tile<4xi32>
  return()
}
// -----
func @f(%x: tile<4xf32>, %c: tile<2xbool>) {
  %r = block.select(%c, %x, %x) : tile<4xf32>  // error: block.select: operand types do not fit: tile<2xbool>, tile<4xf32> and tile<4xf32>
  return()
}
// -----
func @f(%x: tile<4xf32>) {
  %r = block.bitcast(%x) {to = i64} : tile<4xi64>  // error: block.bitcast: widths differ: tile<4xf32> and i64
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.cast(%p) {to = i64} : i64  // error: block.cast: operand must be a scalar or a tile, got ptr<f32>
  return()
}
// -----
func @f() {
  %r = block.arange() {end = 2, start = 2} : tile<0xi64>  // error: block.arange: end must exceed start, got start = 2, end = 2
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.index(%z) {expr = (a + b), names = ["a", "b"]} : i64  // error: block.index: 2 names for 1 operands
  return()
}
// -----
func @f(%x: tile<4xi64>, %y: tile<2xi64>) {
  %r = block.index(%x, %y) {expr = (a + b), names = ["a", "b"]} : tile<4xi64>  // error: block.index: operands must be i64 scalars or tiles of one shape
  return()
}
// -----
func @f(%x: tile<4xf32>) {
  %r = block.splat(%x) {shape = [4]} : tile<4xf32>  // error: block.splat: operand must be a scalar, got tile<4xf32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.broadcast(%z) {shape = [4]} : tile<4xi64>  // error: block.broadcast: operand must be a tile, got i64
  return()
}
// -----
func @f(%x: tile<4xf32>) {
  %r = block.broadcast(%x) {shape = [8]} : tile<8xf32>  // error: block.broadcast: cannot broadcast tile<4xf32> to (8,)
  return()
}
// -----
func @f(%x: tile<4xf32>) {
  %r = block.reshape(%x) {shape = [3]} : tile<3xf32>  // error: block.reshape: tile<4xf32> has 4 elements, the new shape 3
  return()
}
// -----
func @f(%x: tile<4xf32>) {
  %r = block.trans(%x) {perm = [1]} : tile<4xf32>  // error: block.trans: perm must be a permutation of 0..0, got (1,)
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.offset(%p, %p) : ptr<f32>  // error: block.offset: operand 1 must be i64, got ptr<f32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.offset(%z, %z) : ptr<f32>  // error: block.offset: operand 0 must be a pointer, got i64
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_view(%p, %p) {shape = [4], strides = [1]} : tile<4xf32>  // error: block.load_view: operand 1 must be i64, got ptr<f32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_view(%p, %z) {shape = [4], strides = [1, 1]} : tile<4xf32>  // error: block.load_view: 2 strides for a tile of rank 1
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_view(%p, %z) {limited = [0], shape = [4], strides = [1]} : tile<4xf32>  // error: block.load_view: expected one i64 limit for each of the limited dims (0,)
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_view(%p, %z, %z) {limited = [1], shape = [4], strides = [1]} : tile<4xf32>  // error: block.load_view: limited dims must be in 0..0, got (1,)
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_box(%p, %z, %z) {dims = [8, 8], shape = [4, 4], strides = [1, 8]} : tile<4x4xf32>  // error: block.load_box: expected a shape of 2 dims, and a tensor of 2 or more, as many strides, the last of them 1
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_box(%p, %z) {dims = [8, 8], shape = [4, 4], strides = [8, 1]} : tile<4x4xf32>  // error: block.load_box: expected 2 i64 coordinates, got i64
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_box(%p, %z, %z, %z, %z) {dims = [8, 8, 8], lower = [], shape = [4, 4], steps = [1], strides = [64, 8, 1], upper = [0]} : tile<4x4xf32>  // error: block.load_box: expected 1 corners and steps, got (), (0,), (1,)
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %t: tile<4xf32>) {
  block.store_view(%p, %t, %t) {strides = [1]}  // error: block.store_view: operand 1 must be i64, got tile<4xf32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %t: tile<4xf64>) {
  block.store_view(%p, %z, %t) {strides = [1]}  // error: block.store_view: cannot store tile<4xf64> through ptr<f32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load(%p, %p) : f32  // error: block.load: operand must be a scalar or a tile, got ptr<f32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %t: tile<4xf32>) {
  %r = block.load(%p, %t) : tile<4xf32>  // error: block.load: offsets must be i64, got tile<4xf32>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %t: tile<4xi64>, %m: tile<2xbool>) {
  %r = block.load(%p, %t, %m) : tile<4xf32>  // error: block.load: mask must be tile<4xbool>, got tile<2xbool>
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %t: tile<4xi64>) {
  block.store(%p, %t, %t)  // error: block.store: cannot store tile<4xi64> through ptr<f32> at tile<4xi64>
  return()
}
// -----
func @f(%a: tile<4x8xf32>) {
  %r = block.dot(%a, %a, %a) : tile<4x8xf32>  // error: block.dot: shapes do not fit: tile<4x8xf32>, tile<4x8xf32> and tile<4x8xf32>
  return()
}
// -----
func @f(%a: tile<4x8xf32>) {
  %r = block.reduce(%a) {axis = 2, kind = "sum"} : tile<4xf32>  // error: block.reduce: axis must be in 0..1, got 2
  return()
}
// -----
func @f(%a: tile<4x8xf32>) {
  %r = block.reduce(%a) {axis = 1, kind = "mean"} : tile<4xf32>  // error: block.reduce: kind must be one of sum, prod, max, min, any, all, logaddexp, maxnum, minnum, and, or, xor, got mean
  return()
}
// -----
func @f(%a: tile<4x8xf32>) {
  %r = block.reduce(%a) {axis = 1, kind = "all"} : tile<4xf32>  // error: block.reduce: kind all does not combine f32
  return()
}
// -----
func @f(%a: tile<4x8xf32>) {
  %r = block.scan(%a) {axis = 2, kind = "sum"} : tile<4x8xf32>  // error: block.scan: axis must be in 0..1, got 2
  return()
}
// -----
func @f(%a: tile<4x8xbool>) {
  %r = block.scan(%a) {axis = 1, kind = "any"} : tile<4x8xbool>  // error: block.scan: kind must be one of sum, prod, max, min, logaddexp, got any
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %t: f32) {
  for(%t, %z) do (%i: i64) {  // error: for: bounds must be i64, got f32 and i64
    yield()
  }
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  for(%z, %z) {step = 0} do (%i: i64) {  // error: for: step must be positive, got 0
    yield()
  }
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  for(%z, %z)  // error: for: expected one body, got 0
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  for(%z, %z) do () {  // error: for: the body must take (i64), it takes ()
    yield()
  }
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = for(%z, %z, %z) do (%i: i64, %c: i64) {  // error: for: carried types change: (i64) to ()
    yield()
  } : i64
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  if(%z) do () {  // error: if: condition must be bool, got i64
    yield()
  }
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %c: bool) {
  if(%c)  // error: if: expected one or two bodies without parameters
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %c: bool) {
  %r = if(%c) do () {  // error: if: branches yield different types: (i64) and ()
    yield(%z)
  } : i64
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64, %c: bool) {
  %r = if(%c) do () {  // error: if: branches yield different types: (i64) and (bool)
    yield(%z)
  } do () {
    yield(%c)
  } : i64
  return()
}
// -----
func @f(%p: ptr<f32>, %z: i64) {
  %r = block.load_view(%p, %z) {ahead = -1, shape = [4], strides = [1]} : tile<4xf32>  // error: block.load_view: ahead must not be negative, got -1
  return()
}
// -----
func @f(%x: tile<8x4xi32>, %q: tile<2x32xi32>, %c: tile<8x32xf32>) {
  %r = block.dot_codes(%x, %q, %c) {bits = 3, elem = bf16} : tile<8x32xf32>  // error: block.dot_codes: expected words (i32) and sums in f32, got tile<8x4xi32> of bf16, tile<2x32xi32> of 3 bits, tile<8x32xf32>
  return()
}
// -----
func @f(%x: tile<8x4xi32>, %q: tile<2x32xi32>, %c: tile<8x32xf32>) {
  %r = block.dot_codes(%x, %q, %c) {bits = 4, elem = bf16} : tile<8x32xf32>  // error: block.dot_codes: shapes do not fit: tile<8x4xi32>, tile<2x32xi32> and tile<8x32xf32>
  return()
}
// -----
func @f(%x: tile<8x8xi32>, %q: tile<2x32xi32>, %c: tile<8x32xf32>) {
  %r = block.dot_codes(%x, %q, %c) {bits = 4, elem = bf16, zero = 200} : tile<8x32xf32>  // error: block.dot_codes: zero must be in 0..128, got 200
  return()
}
// -----
func @f(%w: tile<1x256xi32>, %s: tile<2x32xf16>) {
  %r = block.widen_codes(%w, %s) {bits = 3, elem = bf16} : tile<32x64xbf16>  // error: block.widen_codes: expected words (i32) of 2, 4 or 8 bits and scales, got tile<1x256xi32> of 3, tile<2x32xf16> and bf16
  return()
}
// -----
func @f(%w: tile<2x256xi32>, %s: tile<2x32xf16>) {
  %r = block.widen_codes(%w, %s) {bits = 4, elem = bf16} : tile<64x64xbf16>  // error: block.widen_codes: shapes do not fit: tile<2x256xi32> and tile<2x32xf16>
  return()
}
// -----
func @f(%w: tile<1x256xi32>, %s: tile<3x32xf16>) {
  %r = block.widen_codes(%w, %s) {bits = 4, elem = bf16} : tile<32x64xbf16>  // error: block.widen_codes: 64 steps are no blocks of tile<3x32xf16>, or zero points differ: None
  return()
}
// -----
func @f(%w: tile<1x256xi32>, %s: tile<2x32xf16>) {
  %r = block.widen_codes(%w, %s, %s) {bits = 4, elem = bf16, zero = 8} : tile<32x64xbf16>  // error: block.widen_codes: zero must be in 0..128, and 0 where there are zero points, got 8
  return()
}
// -----
func @f(%x: tile<4x5xf16>) {
  %r = block.words(%x) : tile<4x2xi32>  // error: block.words: expected an even number of f16 or bf16 in a row, got tile<4x5xf16>
  return()
}
// -----
func @f(%x: tile<4x8xf16>, %w: tile<8x32xi32>, %c: tile<4x32xf32>) {
  %r = block.dot_words(%x, %w, %c) {elem = f16} : tile<4x32xf32>  // error: block.dot_words: expected words (i32) of f16 or bf16 and sums in f32, got tile<4x8xf16>, tile<8x32xi32>, tile<4x32xf32> and f16
  return()
}
// -----
func @f(%x: tile<4xi32>) {
  %r = block.dot_bytes(%x, %x, %x) {bits = 9} : tile<4xi32>  // error: block.dot_bytes: bits must be in 1..8, got 9
  return()
}
// -----
func @f(%x: tile<4xi32>, %y: tile<8xi32>) {
  %r = block.dot_bytes(%x, %y, %x) : tile<4xi32>  // error: block.dot_bytes: expected words (i32) and sums of one shape, got tile<4xi32>, tile<8xi32> and tile<4xi32>
  return()
}
// -----
func @f(%x: i32) {
  %r = block.pointer_at(%x) {to = f32} : ptr<f32>  // error: block.pointer_at: operand 0 must be i64, got i32
  return()
}
