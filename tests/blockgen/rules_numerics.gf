// RUN: precise-functions, keep-wide, fuse-multiply-add
// RULES
// Each function shows the rule of its name; what stays is beside it.
func @coarse_in_f64(%in: ptr<f32>, %wide: ptr<f64>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %t = block.tan(%x) : tile<8xf32>
  %e = block.exp(%x) : tile<8xf32>
  block.store_view(%out, %zero, %t) {strides = [1]}
  %y = block.load_view(%wide, %zero) {shape = [8], strides = [1]} : tile<8xf64>
  %u = block.tan(%y) : tile<8xf64>
  return(%e, %u)
}
func @map_in_f32(%in: ptr<f16>, %out: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf16>
  %m = block.mul(%x, %x) : tile<8xf16>
  %e = block.tanh(%m) : tile<8xf16>
  %c = block.lt(%e, %x) : tile<8xbool>
  block.store_view(%out, %zero, %e) {strides = [1]}
  return(%c)
}
func @select_in_f32(%in: ptr<bf16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xbf16>
  %n = block.neg(%x) : tile<8xbf16>
  %c = block.lt(%x, %n) : tile<8xbool>
  %s = block.select(%c, %x, %n) : tile<8xbf16>
  %d = block.sqrt(%s) : tile<8xbf16>
  return(%d)
}
func @move_in_f32(%in: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load(%in, %zero) : f16
  %e = block.exp(%x) : f16
  %t = block.splat(%e) {shape = [1, 4]} : tile<1x4xf16>
  %b = block.broadcast(%t) {shape = [2, 4]} : tile<2x4xf16>
  %p = block.trans(%b) {perm = [1, 0]} : tile<4x2xf16>
  %r = block.reshape(%p) {shape = [8]} : tile<8xf16>
  %y = block.sqrt(%r) : tile<8xf16>
  return(%y)
}
func @cast_without_rounding(%in: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf16>
  %e = block.exp(%x) : tile<8xf16>
  %w = block.cast(%e) {to = f32} : tile<8xf32>
  %s = block.sqrt(%w) : tile<8xf32>
  %h = block.cast(%s) {to = f16} : tile<8xf16>
  %d = block.cast(%e) {to = f64} : tile<8xf64>
  %c = block.sqrt(%d) : tile<8xf64>
  %g = block.cast(%c) {to = f16} : tile<8xf16>
  %i = block.cast(%e) {to = i32} : tile<8xi32>
  return(%h, %g, %i)
}
func @contract_product(%in: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %one = block.const() {elem = i64, value = 8} : i64
  %y = block.load_view(%in, %one) {shape = [8], strides = [1]} : tile<8xf32>
  %p = block.mul(%x, %y) : tile<8xf32>
  %a = block.add(%p, %y) : tile<8xf32>
  %q = block.mul(%a, %y) : tile<8xf32>
  %b = block.sub(%q, %x) : tile<8xf32>
  %r = block.mul(%b, %x) : tile<8xf32>
  %c = block.sub(%y, %r) : tile<8xf32>
  %s = block.mul(%c, %c) : tile<8xf32>
  %d = block.add(%s, %x) : tile<8xf32>
  return(%d, %s)
}
func @cast_without_rounding__of_no_integers(%in: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %i = block.cast(%x) {to = i32} : tile<8xi32>
  %f = block.cast(%i) {to = f32} : tile<8xf32>
  %h = block.cast(%x) {to = f16} : tile<8xf16>
  %g = block.cast(%h) {to = f32} : tile<8xf32>
  %y = block.cast(%g) {to = f16} : tile<8xf16>
  return(%f, %y)
}
func @map_in_f32__of_an_argument(%a: f16, %in: ptr<f64>) {grid = 1} {
  %e = block.exp(%a) : f16
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf64>
  %h = block.cast(%x) {to = f16} : tile<8xf16>
  %f = block.exp(%h) : tile<8xf16>
  return(%e, %f)
}
func @select_in_f32__of_one(%in: ptr<bf16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xbf16>
  %e = block.exp(%x) : tile<8xbf16>
  %c = block.lt(%x, %e) : tile<8xbool>
  %s = block.select(%c, %e, %x) : tile<8xbf16>
  %t = block.select(%c, %x, %e) : tile<8xbf16>
  return(%s, %t)
}
func @contract_product__of_arguments(%a: f32, %b: f32) {grid = 1} {
  %p = block.mul(%a, %b) : f32
  %s = block.add(%a, %p) : f32
  %d = block.sub(%a, %b) : f32
  %q = block.add(%d, %b) : f32
  return(%s, %q)
}
// -----
func @coarse_in_f64(%in: ptr<f32>, %wide: ptr<f64>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %v0 = block.cast(%x) {to = f64} : tile<8xf64>
  %v1 = block.tan(%v0) : tile<8xf64>
  %t = block.cast(%v1) {to = f32} : tile<8xf32>
  %e = block.exp(%x) : tile<8xf32>
  block.store_view(%out, %zero, %t) {strides = [1]}
  %y = block.load_view(%wide, %zero) {shape = [8], strides = [1]} : tile<8xf64>
  %u = block.tan(%y) : tile<8xf64>
  return(%e, %u)
}

func @map_in_f32(%in: ptr<f16>, %out: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf16>
  %v0 = block.cast(%x) {to = f32} : tile<8xf32>
  %v1 = block.mul(%v0, %v0) : tile<8xf32>
  %v2 = block.tanh(%v1) : tile<8xf32>
  %e = block.cast(%v2) {to = f16} : tile<8xf16>
  %c = block.lt(%v2, %v0) : tile<8xbool>
  block.store_view(%out, %zero, %e) {strides = [1]}
  return(%c)
}

func @select_in_f32(%in: ptr<bf16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xbf16>
  %v0 = block.cast(%x) {to = f32} : tile<8xf32>
  %v1 = block.neg(%v0) : tile<8xf32>
  %c = block.lt(%v0, %v1) : tile<8xbool>
  %v2 = block.select(%c, %v0, %v1) : tile<8xf32>
  %v3 = block.sqrt(%v2) : tile<8xf32>
  %d = block.cast(%v3) {to = bf16} : tile<8xbf16>
  return(%d)
}

func @move_in_f32(%in: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load(%in, %zero) : f16
  %v0 = block.cast(%x) {to = f32} : f32
  %v1 = block.exp(%v0) : f32
  %v2 = block.splat(%v1) {shape = [1, 4]} : tile<1x4xf32>
  %v3 = block.broadcast(%v2) {shape = [2, 4]} : tile<2x4xf32>
  %v4 = block.trans(%v3) {perm = [1, 0]} : tile<4x2xf32>
  %v5 = block.reshape(%v4) {shape = [8]} : tile<8xf32>
  %v6 = block.sqrt(%v5) : tile<8xf32>
  %y = block.cast(%v6) {to = f16} : tile<8xf16>
  return(%y)
}

func @cast_without_rounding(%in: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf16>
  %v0 = block.cast(%x) {to = f32} : tile<8xf32>
  %v1 = block.exp(%v0) : tile<8xf32>
  %e = block.cast(%v1) {to = f16} : tile<8xf16>
  %s = block.sqrt(%v1) : tile<8xf32>
  %h = block.cast(%s) {to = f16} : tile<8xf16>
  %d = block.cast(%v1) {to = f64} : tile<8xf64>
  %c = block.sqrt(%d) : tile<8xf64>
  %g = block.cast(%c) {to = f16} : tile<8xf16>
  %i = block.cast(%e) {to = i32} : tile<8xi32>
  return(%h, %g, %i)
}

func @contract_product(%in: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %one = block.const() {elem = i64, value = 8} : i64
  %y = block.load_view(%in, %one) {shape = [8], strides = [1]} : tile<8xf32>
  %a = block.fma(%x, %y, %y) : tile<8xf32>
  %v0 = block.neg(%x) : tile<8xf32>
  %b = block.fma(%a, %y, %v0) : tile<8xf32>
  %v1 = block.neg(%b) : tile<8xf32>
  %c = block.fma(%v1, %x, %y) : tile<8xf32>
  %s = block.mul(%c, %c) : tile<8xf32>
  %d = block.add(%s, %x) : tile<8xf32>
  return(%d, %s)
}

func @cast_without_rounding__of_no_integers(%in: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %i = block.cast(%x) {to = i32} : tile<8xi32>
  %f = block.cast(%i) {to = f32} : tile<8xf32>
  %h = block.cast(%x) {to = f16} : tile<8xf16>
  return(%f, %h)
}

func @map_in_f32__of_an_argument(%a: f16, %in: ptr<f64>) {grid = 1} {
  %v0 = block.cast(%a) {to = f32} : f32
  %v1 = block.exp(%v0) : f32
  %e = block.cast(%v1) {to = f16} : f16
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xf64>
  %h = block.cast(%x) {to = f16} : tile<8xf16>
  %v2 = block.cast(%h) {to = f32} : tile<8xf32>
  %v3 = block.exp(%v2) : tile<8xf32>
  %f = block.cast(%v3) {to = f16} : tile<8xf16>
  return(%e, %f)
}

func @select_in_f32__of_one(%in: ptr<bf16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%in, %zero) {shape = [8], strides = [1]} : tile<8xbf16>
  %v0 = block.cast(%x) {to = f32} : tile<8xf32>
  %v1 = block.exp(%v0) : tile<8xf32>
  %c = block.lt(%v0, %v1) : tile<8xbool>
  %v2 = block.select(%c, %v1, %v0) : tile<8xf32>
  %s = block.cast(%v2) {to = bf16} : tile<8xbf16>
  %v3 = block.select(%c, %v0, %v1) : tile<8xf32>
  %t = block.cast(%v3) {to = bf16} : tile<8xbf16>
  return(%s, %t)
}

func @contract_product__of_arguments(%a: f32, %b: f32) {grid = 1} {
  %s = block.fma(%a, %b, %a) : f32
  %d = block.sub(%a, %b) : f32
  %q = block.add(%d, %b) : f32
  return(%s, %q)
}
