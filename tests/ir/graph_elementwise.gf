// RUN:
// Every shared elementwise function on tensors of each kind of element that it takes.
func @floats(%a: tensor<4x(n)xf32>, %b: tensor<4x(n)xf32>) {
  %r_add = graph.add(%a, %b) : tensor<4x(n)xf32>
  %r_sub = graph.sub(%a, %b) : tensor<4x(n)xf32>
  %r_mul = graph.mul(%a, %b) : tensor<4x(n)xf32>
  %r_div = graph.div(%a, %b) : tensor<4x(n)xf32>
  %r_floordiv = graph.floordiv(%a, %b) : tensor<4x(n)xf32>
  %r_floormod = graph.floormod(%a, %b) : tensor<4x(n)xf32>
  %r_truncmod = graph.truncmod(%a, %b) : tensor<4x(n)xf32>
  %r_pow = graph.pow(%a, %b) : tensor<4x(n)xf32>
  %r_max = graph.max(%a, %b) : tensor<4x(n)xf32>
  %r_min = graph.min(%a, %b) : tensor<4x(n)xf32>
  %r_atan2 = graph.atan2(%a, %b) : tensor<4x(n)xf32>
  %r_eq = graph.eq(%a, %b) : tensor<4x(n)xbool>
  %r_ne = graph.ne(%a, %b) : tensor<4x(n)xbool>
  %r_lt = graph.lt(%a, %b) : tensor<4x(n)xbool>
  %r_le = graph.le(%a, %b) : tensor<4x(n)xbool>
  %r_gt = graph.gt(%a, %b) : tensor<4x(n)xbool>
  %r_ge = graph.ge(%a, %b) : tensor<4x(n)xbool>
  %r_neg = graph.neg(%a) : tensor<4x(n)xf32>
  %r_abs = graph.abs(%a) : tensor<4x(n)xf32>
  %r_sign = graph.sign(%a) : tensor<4x(n)xf32>
  %r_exp = graph.exp(%a) : tensor<4x(n)xf32>
  %r_exp2 = graph.exp2(%a) : tensor<4x(n)xf32>
  %r_expm1 = graph.expm1(%a) : tensor<4x(n)xf32>
  %r_log = graph.log(%a) : tensor<4x(n)xf32>
  %r_log2 = graph.log2(%a) : tensor<4x(n)xf32>
  %r_log1p = graph.log1p(%a) : tensor<4x(n)xf32>
  %r_sqrt = graph.sqrt(%a) : tensor<4x(n)xf32>
  %r_tanh = graph.tanh(%a) : tensor<4x(n)xf32>
  %r_erf = graph.erf(%a) : tensor<4x(n)xf32>
  %r_sigmoid = graph.sigmoid(%a) : tensor<4x(n)xf32>
  %r_sin = graph.sin(%a) : tensor<4x(n)xf32>
  %r_cos = graph.cos(%a) : tensor<4x(n)xf32>
  %r_tan = graph.tan(%a) : tensor<4x(n)xf32>
  %r_asin = graph.asin(%a) : tensor<4x(n)xf32>
  %r_acos = graph.acos(%a) : tensor<4x(n)xf32>
  %r_atan = graph.atan(%a) : tensor<4x(n)xf32>
  %r_sinh = graph.sinh(%a) : tensor<4x(n)xf32>
  %r_cosh = graph.cosh(%a) : tensor<4x(n)xf32>
  %r_asinh = graph.asinh(%a) : tensor<4x(n)xf32>
  %r_acosh = graph.acosh(%a) : tensor<4x(n)xf32>
  %r_atanh = graph.atanh(%a) : tensor<4x(n)xf32>
  %r_floor = graph.floor(%a) : tensor<4x(n)xf32>
  %r_ceil = graph.ceil(%a) : tensor<4x(n)xf32>
  %r_trunc = graph.trunc(%a) : tensor<4x(n)xf32>
  %r_round = graph.round(%a) : tensor<4x(n)xf32>
  %r_isnan = graph.isnan(%a) : tensor<4x(n)xbool>
  %r_isinf = graph.isinf(%a) : tensor<4x(n)xbool>
  return(%r_add, %r_sub, %r_mul, %r_div, %r_floordiv, %r_floormod, %r_truncmod, %r_pow, %r_max, %r_min, %r_atan2, %r_eq, %r_ne, %r_lt, %r_le, %r_gt, %r_ge, %r_neg, %r_abs, %r_sign, %r_exp, %r_exp2, %r_expm1, %r_log, %r_log2, %r_log1p, %r_sqrt, %r_tanh, %r_erf, %r_sigmoid, %r_sin, %r_cos, %r_tan, %r_asin, %r_acos, %r_atan, %r_sinh, %r_cosh, %r_asinh, %r_acosh, %r_atanh, %r_floor, %r_ceil, %r_trunc, %r_round, %r_isnan, %r_isinf)
}

func @integers(%a: tensor<4x(n)xi32>, %b: tensor<4x(n)xi32>) {
  %r_add = graph.add(%a, %b) : tensor<4x(n)xi32>
  %r_sub = graph.sub(%a, %b) : tensor<4x(n)xi32>
  %r_mul = graph.mul(%a, %b) : tensor<4x(n)xi32>
  %r_floordiv = graph.floordiv(%a, %b) : tensor<4x(n)xi32>
  %r_truncdiv = graph.truncdiv(%a, %b) : tensor<4x(n)xi32>
  %r_floormod = graph.floormod(%a, %b) : tensor<4x(n)xi32>
  %r_truncmod = graph.truncmod(%a, %b) : tensor<4x(n)xi32>
  %r_pow = graph.pow(%a, %b) : tensor<4x(n)xi32>
  %r_max = graph.max(%a, %b) : tensor<4x(n)xi32>
  %r_min = graph.min(%a, %b) : tensor<4x(n)xi32>
  %r_and = graph.and(%a, %b) : tensor<4x(n)xi32>
  %r_or = graph.or(%a, %b) : tensor<4x(n)xi32>
  %r_xor = graph.xor(%a, %b) : tensor<4x(n)xi32>
  %r_shl = graph.shl(%a, %b) : tensor<4x(n)xi32>
  %r_shr = graph.shr(%a, %b) : tensor<4x(n)xi32>
  %r_eq = graph.eq(%a, %b) : tensor<4x(n)xbool>
  %r_ne = graph.ne(%a, %b) : tensor<4x(n)xbool>
  %r_lt = graph.lt(%a, %b) : tensor<4x(n)xbool>
  %r_le = graph.le(%a, %b) : tensor<4x(n)xbool>
  %r_gt = graph.gt(%a, %b) : tensor<4x(n)xbool>
  %r_ge = graph.ge(%a, %b) : tensor<4x(n)xbool>
  %r_neg = graph.neg(%a) : tensor<4x(n)xi32>
  %r_abs = graph.abs(%a) : tensor<4x(n)xi32>
  %r_sign = graph.sign(%a) : tensor<4x(n)xi32>
  %r_not = graph.not(%a) : tensor<4x(n)xi32>
  return(%r_add, %r_sub, %r_mul, %r_floordiv, %r_truncdiv, %r_floormod, %r_truncmod, %r_pow, %r_max, %r_min, %r_and, %r_or, %r_xor, %r_shl, %r_shr, %r_eq, %r_ne, %r_lt, %r_le, %r_gt, %r_ge, %r_neg, %r_abs, %r_sign, %r_not)
}

func @bools(%a: tensor<4x(n)xbool>, %b: tensor<4x(n)xbool>) {
  %r_and = graph.and(%a, %b) : tensor<4x(n)xbool>
  %r_or = graph.or(%a, %b) : tensor<4x(n)xbool>
  %r_xor = graph.xor(%a, %b) : tensor<4x(n)xbool>
  %r_eq = graph.eq(%a, %b) : tensor<4x(n)xbool>
  %r_ne = graph.ne(%a, %b) : tensor<4x(n)xbool>
  %r_not = graph.not(%a) : tensor<4x(n)xbool>
  return(%r_and, %r_or, %r_xor, %r_eq, %r_ne, %r_not)
}
