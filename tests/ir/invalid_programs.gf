func @f() {
  %r = block.program_id() {axis = 3} : i64  // error: block.program_id: axis must be in 0..2, got 3
  return()
}
// -----
func @f() {
  %r = block.num_programs() {axis = -1} : i64  // error: block.num_programs: axis must be in 0..2, got -1
  return()
}
// -----
func @f(%x: tile<4xu32>) {
  %r = block.add(%x, %x) {nsw = true} : tile<4xu32>  // error: block.add: nsw is a promise about signed integers, got tile<4xu32>
  return()
}
// -----
func @f(%x: f32) {
  %r = block.assume(%x) {multiple_of = 8} : f32  // error: block.assume: expected integers and a positive number, got f32 and 8
  return()
}
// -----
func @f(%x: tile<4xi4>) {
  %r = block.popcount(%x) : tile<4xi4>  // error: block.popcount: operand must have a whole element, got tile<4xi4>
  return()
}
// -----
func @f(%p: ptr<f32>, %q: ptr<f16>, %c: bool) {
  %r = block.select(%c, %p, %q) : ptr<f32>  // error: block.select: operand types do not fit: bool, ptr<f32> and ptr<f16>
  return()
}
// -----
func @f(%p: ptr<f32>, %q: ptr<f16>) {
  %r = block.pointer_diff(%p, %q) : i64  // error: block.pointer_diff: operands must be equal pointer types, got ptr<f32> and ptr<f16>
  return()
}
// -----
func @f(%p: i64) {
  %r = block.pointer_cast(%p) {to = f32} : ptr<f32>  // error: block.pointer_cast: operand 0 must be a pointer, got i64
  return()
}
// -----
func @f(%p: i64) {
  %r = block.address(%p) : i64  // error: block.address: operand 0 must be a pointer, got i64
  return()
}
// -----
func @f(%p: i64) {
  %r = block.atomic(%p, %p, %p) {kind = "add"} : i64  // error: block.atomic: operand 0 must be a pointer, got i64
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32) {
  %r = block.atomic(%p, %i, %v) {kind = "div"} : f32  // error: block.atomic: kind must be one of add, sub, mul, min, max, and, or, xor, exchange, got div
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32) {
  %r = block.atomic(%p, %i, %v) {kind = "or"} : f32  // error: block.atomic: kind or does not combine f32
  return()
}
// -----
func @f(%p: ptr<i8>, %i: i64, %v: i8) {
  %r = block.atomic(%p, %i, %v) {kind = "add"} : i8  // error: block.atomic: atomics change elements of 16, 32 or 64 bits, got i8
  return()
}
// -----
func @f(%p: ptr<f32>, %i: tile<4xi64>, %v: tile<4xf32>) {
  %r = block.atomic(%p, %i, %v) {kind = "add", order = "acq_rel"} : tile<4xf32>  // error: block.atomic: atomics on tiles are relaxed, got acq_rel
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32) {
  %r = block.atomic(%p, %i, %v) {kind = "add", order = "seq_cst"} : f32  // error: block.atomic: order must be one of relaxed, acquire, release, acq_rel, got seq_cst
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32) {
  %r = block.atomic_cas(%p, %i, %v, %v) {scope = "system"} : f32  // error: block.atomic_cas: scope must be one of cta, gpu, sys, got system
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64) {
  %r = block.load(%p, %i) {cache = "wt"} : f32  // error: block.load: cache must be one of ca, cg, cs, evict_first, evict_last, got wt
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32) {
  block.store(%p, %i, %v) {cache = "ca"}  // error: block.store: cache must be one of wb, cg, cs, wt, evict_first, evict_last, got ca
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: i32) {
  %r = block.atomic(%p, %i, %v) {kind = "add"} : i32  // error: block.atomic: value must be f32, got i32
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32, %m: tile<4xbool>) {
  %r = block.atomic(%p, %i, %v, %m) {kind = "add"} : f32  // error: block.atomic: mask must be bool, got tile<4xbool>
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i64, %v: f32, %w: i32) {
  %r = block.atomic_cas(%p, %i, %v, %w) : i32  // error: block.atomic_cas: values must be f32, got f32 and i32
  return()
}
// -----
func @f(%p: ptr<f32>, %i: i32, %v: f32) {
  %r = block.atomic_cas(%p, %i, %v, %v) : f32  // error: block.atomic_cas: offsets must be i64, got i32
  return()
}
// -----
func @f(%v: f32) {
  block.print(%v) {text = "%d"}  // error: block.print: %d does not print f32
  return()
}
// -----
func @f(%v: f32) {
  block.print(%v) {text = "%s"}  // error: block.print: the format '%s' has a conversion that is not one of d, i, u, x, X, o, f, e, g
  return()
}
// -----
func @f(%v: f32) {
  block.print(%v) {text = "100%%"}  // error: block.print: the format has 0 conversions for 1 values
  return()
}
// -----
func @f(%v: tile<4xf32>, %w: tile<8xf32>) {
  block.print(%v, %w) {text = "%f %f"}  // error: block.print: tiles must have one shape, got tile<4xf32>, tile<8xf32>
  return()
}
// -----
func @f(%i: i64, %v: i32) {
  block.print(%i, %i, %v, %v) {ids = 3, text = "%d"}  // error: block.print: ids must be 0, or 3 with as many i64 in front, got 3
  return()
}
// -----
func @f(%v: i32) {
  block.assert(%v)  // error: block.assert: condition must be bool, got i32
  return()
}
// -----
func @f(%v: i32) {
  %r = while(%v) do (%i: i32) {  // error: while: expected a condition and a body, got 1
    yield(%i)
  } : i32
  return()
}
// -----
func @f(%v: i32) {
  %r = while(%v) do (%i: i32) {  // error: while: the condition must yield (bool, i32), it yields (i32)
    yield(%i)
  } do (%i: i32) {
    yield(%i)
  } : i32
  return()
}
// -----
func @f(%v: i32, %c: bool) {
  %r = while(%v) do (%i: i32) {  // error: while: the body must take (i32), it takes (bool)
    yield(%c, %i)
  } do (%i: bool) {
    yield(%v)
  } : i32
  return()
}
// -----
func @f(%a: tile<2x4x8xf32>, %b: tile<3x8x4xf32>, %c: tile<2x4x4xf32>) {
  %r = block.dot(%a, %b, %c) : tile<2x4x4xf32>  // error: block.dot: shapes do not fit: tile<2x4x8xf32>, tile<3x8x4xf32> and tile<2x4x4xf32>
  return()
}
// -----
func @f(%a: tile<4xf32>) {
  %r = block.reduce(%a) {axis = 0, kind = "xor"} : f32  // error: block.reduce: kind xor does not combine f32
  return()
}
// -----
func @f(%a: tile<4xi32>) {
  %r = block.reduce(%a) {axis = 0, kind = "maxnum"} : i32  // error: block.reduce: kind maxnum does not combine i32
  return()
}
// -----
func @f(%a: tile<4xf32>) {
  %r = block.arg_reduce(%a) {axis = 0, kind = "sum"} : i64  // error: block.arg_reduce: kind must be max or min, got sum
  return()
}
// -----
func @f(%a: tile<4xf32>) {
  %r = block.arg_reduce(%a) {axis = 0, elem = f32, kind = "max"} : f32  // error: block.arg_reduce: indices are i32 or i64, got f32
  return()
}
