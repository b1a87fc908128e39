// RUN:
// Every shared elementwise function on tiles of each kind of element that it takes.
func @floats(%p: ptr<f32>) {
  %o = block.arange() {end = 8, start = 0} : tile<8xi64>
  %a = block.load(%p, %o) : tile<8xf32>
  %z = block.const() {elem = i64, value = 64} : i64
  %q = block.offset(%p, %z) : ptr<f32>
  %b = block.load(%q, %o) : tile<8xf32>
  %r_add = block.add(%a, %b) : tile<8xf32>
  %r_sub = block.sub(%a, %b) : tile<8xf32>
  %r_mul = block.mul(%a, %b) : tile<8xf32>
  %r_div = block.div(%a, %b) : tile<8xf32>
  %r_floordiv = block.floordiv(%a, %b) : tile<8xf32>
  %r_floormod = block.floormod(%a, %b) : tile<8xf32>
  %r_truncmod = block.truncmod(%a, %b) : tile<8xf32>
  %r_pow = block.pow(%a, %b) : tile<8xf32>
  %r_max = block.max(%a, %b) : tile<8xf32>
  %r_min = block.min(%a, %b) : tile<8xf32>
  %r_atan2 = block.atan2(%a, %b) : tile<8xf32>
  %r_eq = block.eq(%a, %b) : tile<8xbool>
  %r_ne = block.ne(%a, %b) : tile<8xbool>
  %r_lt = block.lt(%a, %b) : tile<8xbool>
  %r_le = block.le(%a, %b) : tile<8xbool>
  %r_gt = block.gt(%a, %b) : tile<8xbool>
  %r_ge = block.ge(%a, %b) : tile<8xbool>
  %r_neg = block.neg(%a) : tile<8xf32>
  %r_abs = block.abs(%a) : tile<8xf32>
  %r_sign = block.sign(%a) : tile<8xf32>
  %r_exp = block.exp(%a) : tile<8xf32>
  %r_exp2 = block.exp2(%a) : tile<8xf32>
  %r_expm1 = block.expm1(%a) : tile<8xf32>
  %r_log = block.log(%a) : tile<8xf32>
  %r_log2 = block.log2(%a) : tile<8xf32>
  %r_log1p = block.log1p(%a) : tile<8xf32>
  %r_sqrt = block.sqrt(%a) : tile<8xf32>
  %r_tanh = block.tanh(%a) : tile<8xf32>
  %r_erf = block.erf(%a) : tile<8xf32>
  %r_sigmoid = block.sigmoid(%a) : tile<8xf32>
  %r_sin = block.sin(%a) : tile<8xf32>
  %r_cos = block.cos(%a) : tile<8xf32>
  %r_tan = block.tan(%a) : tile<8xf32>
  %r_asin = block.asin(%a) : tile<8xf32>
  %r_acos = block.acos(%a) : tile<8xf32>
  %r_atan = block.atan(%a) : tile<8xf32>
  %r_sinh = block.sinh(%a) : tile<8xf32>
  %r_cosh = block.cosh(%a) : tile<8xf32>
  %r_asinh = block.asinh(%a) : tile<8xf32>
  %r_acosh = block.acosh(%a) : tile<8xf32>
  %r_atanh = block.atanh(%a) : tile<8xf32>
  %r_floor = block.floor(%a) : tile<8xf32>
  %r_ceil = block.ceil(%a) : tile<8xf32>
  %r_trunc = block.trunc(%a) : tile<8xf32>
  %r_round = block.round(%a) : tile<8xf32>
  %r_isnan = block.isnan(%a) : tile<8xbool>
  %r_isinf = block.isinf(%a) : tile<8xbool>
  return(%r_add, %r_sub, %r_mul, %r_div, %r_floordiv, %r_floormod, %r_truncmod, %r_pow, %r_max, %r_min, %r_atan2, %r_eq, %r_ne, %r_lt, %r_le, %r_gt, %r_ge, %r_neg, %r_abs, %r_sign, %r_exp, %r_exp2, %r_expm1, %r_log, %r_log2, %r_log1p, %r_sqrt, %r_tanh, %r_erf, %r_sigmoid, %r_sin, %r_cos, %r_tan, %r_asin, %r_acos, %r_atan, %r_sinh, %r_cosh, %r_asinh, %r_acosh, %r_atanh, %r_floor, %r_ceil, %r_trunc, %r_round, %r_isnan, %r_isinf)
}

func @integers(%p: ptr<i32>) {
  %o = block.arange() {end = 8, start = 0} : tile<8xi64>
  %a = block.load(%p, %o) : tile<8xi32>
  %z = block.const() {elem = i64, value = 64} : i64
  %q = block.offset(%p, %z) : ptr<i32>
  %b = block.load(%q, %o) : tile<8xi32>
  %r_add = block.add(%a, %b) : tile<8xi32>
  %r_sub = block.sub(%a, %b) : tile<8xi32>
  %r_mul = block.mul(%a, %b) : tile<8xi32>
  %r_floordiv = block.floordiv(%a, %b) : tile<8xi32>
  %r_truncdiv = block.truncdiv(%a, %b) : tile<8xi32>
  %r_floormod = block.floormod(%a, %b) : tile<8xi32>
  %r_truncmod = block.truncmod(%a, %b) : tile<8xi32>
  %r_pow = block.pow(%a, %b) : tile<8xi32>
  %r_max = block.max(%a, %b) : tile<8xi32>
  %r_min = block.min(%a, %b) : tile<8xi32>
  %r_and = block.and(%a, %b) : tile<8xi32>
  %r_or = block.or(%a, %b) : tile<8xi32>
  %r_xor = block.xor(%a, %b) : tile<8xi32>
  %r_shl = block.shl(%a, %b) : tile<8xi32>
  %r_shr = block.shr(%a, %b) : tile<8xi32>
  %r_eq = block.eq(%a, %b) : tile<8xbool>
  %r_ne = block.ne(%a, %b) : tile<8xbool>
  %r_lt = block.lt(%a, %b) : tile<8xbool>
  %r_le = block.le(%a, %b) : tile<8xbool>
  %r_gt = block.gt(%a, %b) : tile<8xbool>
  %r_ge = block.ge(%a, %b) : tile<8xbool>
  %r_neg = block.neg(%a) : tile<8xi32>
  %r_abs = block.abs(%a) : tile<8xi32>
  %r_sign = block.sign(%a) : tile<8xi32>
  %r_not = block.not(%a) : tile<8xi32>
  return(%r_add, %r_sub, %r_mul, %r_floordiv, %r_truncdiv, %r_floormod, %r_truncmod, %r_pow, %r_max, %r_min, %r_and, %r_or, %r_xor, %r_shl, %r_shr, %r_eq, %r_ne, %r_lt, %r_le, %r_gt, %r_ge, %r_neg, %r_abs, %r_sign, %r_not)
}

func @bools(%p: ptr<bool>) {
  %o = block.arange() {end = 8, start = 0} : tile<8xi64>
  %a = block.load(%p, %o) : tile<8xbool>
  %z = block.const() {elem = i64, value = 64} : i64
  %q = block.offset(%p, %z) : ptr<bool>
  %b = block.load(%q, %o) : tile<8xbool>
  %r_and = block.and(%a, %b) : tile<8xbool>
  %r_or = block.or(%a, %b) : tile<8xbool>
  %r_xor = block.xor(%a, %b) : tile<8xbool>
  %r_eq = block.eq(%a, %b) : tile<8xbool>
  %r_ne = block.ne(%a, %b) : tile<8xbool>
  %r_not = block.not(%a) : tile<8xbool>
  return(%r_and, %r_or, %r_xor, %r_eq, %r_ne, %r_not)
}
