// RUN: canonicalize
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @uniform_constant(%x: tensor<8xf32>) {
  %v0 = graph.constant() {value = dense<8xf32, [3.0 3.0 3.0 3.0 3.0 3.0 3.0 3.0]>} : tensor<8xf32>
  %v1 = graph.mul(%x, %v0) : tensor<8xf32>
  return(%v1)
}
func @elementwise_of_fulls(%x: tensor<(n)xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n)], value = 0.0} : tensor<(n)xf32>
  %v1 = graph.exp(%v0) : tensor<(n)xf32>
  %v2 = graph.add(%x, %v1) : tensor<(n)xf32>
  return(%v2)
}
func @known_to_the_right(%x: tensor<8xf32>) {
  %v0 = graph.constant() {value = dense<8xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<8xf32>
  %v1 = graph.mul(%v0, %x) : tensor<8xf32>
  return(%v1)
}
func @add_zero(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %v1 = graph.add(%x, %v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v3 = graph.add(%x, %v2) : tensor<8xf32>
  return(%v1, %v3)
}
func @add_zero__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = 0} : tensor<8xi32>
  %v1 = graph.add(%x, %v0) : tensor<8xi32>
  return(%v1)
}
func @sub_to_add(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v1 = graph.sub(%x, %v0) : tensor<8xf32>
  %v2 = graph.neg(%y) : tensor<8xf32>
  %v3 = graph.sub(%x, %v2) : tensor<8xf32>
  %v4 = graph.sub(%x, %x) : tensor<8xf32>
  return(%v1, %v3, %v4)
}
func @sub_to_add__integers(%x: tensor<8xi32>, %y: tensor<8xi32>) {
  %v0 = graph.sub(%x, %x) : tensor<8xi32>
  %v1 = graph.full() {elem = i32, shape = [8], value = 2} : tensor<8xi32>
  %v2 = graph.sub(%y, %v1) : tensor<8xi32>
  %v3 = graph.full() {elem = i32, shape = [8], value = -2147483648} : tensor<8xi32>
  %v4 = graph.sub(%y, %v3) : tensor<8xi32>
  return(%v0, %v2, %v4)
}
func @without_elements(%x: tensor<0x4xf32>, %y: tensor<4x3xf32>) {
  %v0 = graph.exp(%x) : tensor<0x4xf32>
  %v1 = graph.contract(%v0, %y) {spec = "mk,kn->mn"} : tensor<0x3xf32>
  return(%v1)
}
func @place_in_one(%x: tensor<4x1x3xf32>) {
  %v0 = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<4x3xi64>
  %v1 = graph.arg_reduce(%x) {axis = 2, kind = "max"} : tensor<4x1xi64>
  return(%v0, %v1)
}
func @sum_of_no_products(%x: tensor<4x0xf32>, %y: tensor<0x3xf32>) {
  %v0 = graph.contract(%x, %y) {spec = "mk,kn->mn"} : tensor<4x3xf32>
  return(%v0)
}
func @add_negation(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.neg(%y) : tensor<8xf32>
  %v1 = graph.add(%x, %v0) : tensor<8xf32>
  %v2 = graph.neg(%x) : tensor<8xf32>
  %v3 = graph.add(%v2, %y) : tensor<8xf32>
  return(%v1, %v3)
}
func @mul_one(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v1 = graph.mul(%x, %v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = -1.0} : tensor<8xf32>
  %v3 = graph.mul(%x, %v2) : tensor<8xf32>
  %v4 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v5 = graph.mul(%x, %v4) : tensor<8xf32>
  return(%v1, %v3, %v5)
}
func @mul_one__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = 0} : tensor<8xi32>
  %v1 = graph.mul(%x, %v0) : tensor<8xi32>
  %v2 = graph.full() {elem = i32, shape = [8], value = 1} : tensor<8xi32>
  %v3 = graph.mul(%x, %v2) : tensor<8xi32>
  return(%v1, %v3)
}
func @product_of_negations(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.neg(%x) : tensor<8xf32>
  %v1 = graph.neg(%y) : tensor<8xf32>
  %v2 = graph.mul(%v0, %v1) : tensor<8xf32>
  %v3 = graph.neg(%x) : tensor<8xf32>
  %v4 = graph.neg(%y) : tensor<8xf32>
  %v5 = graph.div(%v3, %v4) : tensor<8xf32>
  return(%v2, %v5)
}
func @div_by_number(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v1 = graph.div(%x, %v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 8.0} : tensor<8xf32>
  %v3 = graph.div(%x, %v2) : tensor<8xf32>
  %v4 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v5 = graph.div(%x, %v4) : tensor<8xf32>
  %v6 = graph.full() {elem = f32, shape = [8], value = 1.7014118346046923e+38} : tensor<8xf32>
  %v7 = graph.div(%x, %v6) : tensor<8xf32>
  return(%v1, %v3, %v5, %v7)
}
func @involution(%x: tensor<8xf32>, %c: tensor<8xbool>) {
  %v0 = graph.neg(%x) : tensor<8xf32>
  %v1 = graph.neg(%v0) : tensor<8xf32>
  %v2 = graph.not(%c) : tensor<8xbool>
  %v3 = graph.not(%v2) : tensor<8xbool>
  return(%v1, %v3)
}
func @abs_of_sign(%x: tensor<8xf32>) {
  %v0 = graph.neg(%x) : tensor<8xf32>
  %v1 = graph.abs(%v0) : tensor<8xf32>
  %v2 = graph.abs(%x) : tensor<8xf32>
  %v3 = graph.abs(%v2) : tensor<8xf32>
  return(%v1, %v3)
}
func @power_by_multiplication(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v1 = graph.pow(%x, %v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v3 = graph.pow(%x, %v2) : tensor<8xf32>
  %v4 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v5 = graph.pow(%x, %v4) : tensor<8xf32>
  %v6 = graph.full() {elem = f32, shape = [8], value = -1.0} : tensor<8xf32>
  %v7 = graph.pow(%x, %v6) : tensor<8xf32>
  %v8 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v9 = graph.pow(%x, %v8) : tensor<8xf32>
  return(%v1, %v3, %v5, %v7, %v9)
}
func @power_by_multiplication__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = 3} : tensor<8xi32>
  %v1 = graph.pow(%x, %v0) : tensor<8xi32>
  %v2 = graph.full() {elem = i32, shape = [8], value = 4} : tensor<8xi32>
  %v3 = graph.pow(%x, %v2) : tensor<8xi32>
  return(%v1, %v3)
}
func @power_by_root(%x: tensor<8xf32>) {
  %v0 = graph.abs(%x) : tensor<8xf32>
  %v1 = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %v2 = graph.pow(%v0, %v1) : tensor<8xf32>
  %v3 = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %v4 = graph.pow(%x, %v3) : tensor<8xf32>
  %v5 = graph.abs(%x) : tensor<8xf32>
  %v6 = graph.full() {elem = f32, shape = [8], value = -0.5} : tensor<8xf32>
  %v7 = graph.pow(%v5, %v6) : tensor<8xf32>
  return(%v2, %v4, %v7)
}
func @extreme_of_same(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.max(%x, %x) : tensor<8xf32>
  %v1 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v2 = graph.max(%x, %v1) : tensor<8xf32>
  %v3 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v4 = graph.max(%v2, %v3) : tensor<8xf32>
  %v5 = graph.full() {elem = f32, shape = [8], value = inf} : tensor<8xf32>
  %v6 = graph.min(%y, %v5) : tensor<8xf32>
  return(%v0, %v4, %v6)
}
func @extreme_of_same__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = -2147483648} : tensor<8xi32>
  %v1 = graph.max(%x, %v0) : tensor<8xi32>
  return(%v1)
}
func @select_known(%c: tensor<8xbool>, %x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.select(%c, %x, %x) : tensor<8xf32>
  %v1 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v2 = graph.select(%v1, %x, %y) : tensor<8xf32>
  %v3 = graph.not(%c) : tensor<8xbool>
  %v4 = graph.select(%v3, %x, %y) : tensor<8xf32>
  return(%v0, %v2, %v4)
}
func @select_of_equal_numbers(%c: tensor<8xbool>, %x: tensor<8xf32>) {
  %v0 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v1 = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %v2 = graph.select(%c, %v0, %v1) : tensor<8xbool>
  %v3 = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %v4 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v5 = graph.select(%c, %v3, %v4) : tensor<8xbool>
  %v6 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v7 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v8 = graph.select(%c, %v6, %v7) : tensor<8xf32>
  %v9 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v10 = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %v11 = graph.select(%c, %v9, %v10) : tensor<8xf32>
  return(%v2, %v5, %v8, %v11)
}
func @logic_with_known(%x: tensor<8xbool>, %y: tensor<8xbool>) {
  %v0 = graph.and(%x, %x) : tensor<8xbool>
  %v1 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v2 = graph.and(%x, %v1) : tensor<8xbool>
  %v3 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v4 = graph.or(%y, %v3) : tensor<8xbool>
  %v5 = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %v6 = graph.or(%y, %v5) : tensor<8xbool>
  return(%v0, %v2, %v4, %v6)
}
func @logic_with_known__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = -1} : tensor<8xi32>
  %v1 = graph.and(%x, %v0) : tensor<8xi32>
  %v2 = graph.full() {elem = i32, shape = [8], value = 0} : tensor<8xi32>
  %v3 = graph.and(%x, %v2) : tensor<8xi32>
  %v4 = graph.full() {elem = i32, shape = [8], value = 1} : tensor<8xi32>
  %v5 = graph.or(%x, %v4) : tensor<8xi32>
  return(%v1, %v3, %v5)
}
func @xor_with_known(%x: tensor<8xbool>, %y: tensor<8xbool>) {
  %v0 = graph.xor(%x, %x) : tensor<8xbool>
  %v1 = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %v2 = graph.xor(%y, %v1) : tensor<8xbool>
  %v3 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v4 = graph.xor(%y, %v3) : tensor<8xbool>
  return(%v0, %v2, %v4)
}
func @not_of_comparison(%x: tensor<8xf32>, %y: tensor<8xf32>, %i: tensor<8xi32>, %j: tensor<8xi32>) {
  %v0 = graph.eq(%x, %y) : tensor<8xbool>
  %v1 = graph.not(%v0) : tensor<8xbool>
  %v2 = graph.lt(%i, %j) : tensor<8xbool>
  %v3 = graph.not(%v2) : tensor<8xbool>
  %v4 = graph.lt(%x, %y) : tensor<8xbool>
  %v5 = graph.not(%v4) : tensor<8xbool>
  return(%v1, %v3, %v5)
}
func @compare_bool(%x: tensor<8xbool>) {
  %v0 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v1 = graph.eq(%x, %v0) : tensor<8xbool>
  %v2 = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %v3 = graph.eq(%x, %v2) : tensor<8xbool>
  %v4 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %v5 = graph.ne(%x, %v4) : tensor<8xbool>
  return(%v1, %v3, %v5)
}
func @cast_to_same(%x: tensor<8xf32>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<8xf32>
  return(%v0)
}
func @cast_of_cast(%x: tensor<8xf16>, %y: tensor<8xf32>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<8xf32>
  %v1 = graph.cast(%v0) {to = f64} : tensor<8xf64>
  %v2 = graph.cast(%y) {to = f16} : tensor<8xf16>
  %v3 = graph.cast(%v2) {to = f32} : tensor<8xf32>
  return(%v1, %v3)
}
func @bitcast_to_same(%x: tensor<8xf32>) {
  %v0 = graph.bitcast(%x) {to = f32} : tensor<8xf32>
  %v1 = graph.bitcast(%x) {to = u32} : tensor<8xu32>
  %v2 = graph.bitcast(%v1) {to = i32} : tensor<8xi32>
  return(%v0, %v2)
}
func @arithmetic_of_dims(%x: tensor<(n)xi64>) dims (n in 1..64) {
  %v0 = graph.full() {elem = i64, shape = [(n)], value = (n)} : tensor<(n)xi64>
  %v1 = graph.full() {elem = i64, shape = [(n)], value = 1} : tensor<(n)xi64>
  %v2 = graph.add(%v0, %v1) : tensor<(n)xi64>
  %v3 = graph.full() {elem = i64, shape = [(n)], value = 2} : tensor<(n)xi64>
  %v4 = graph.mul(%v2, %v3) : tensor<(n)xi64>
  %v5 = graph.add(%x, %v4) : tensor<(n)xi64>
  return(%v5)
}
func @cast_of_cast__integers(%x: tensor<8xi8>, %y: tensor<8xu8>) {
  %v0 = graph.cast(%x) {to = i32} : tensor<8xi32>
  %v1 = graph.cast(%v0) {to = i64} : tensor<8xi64>
  %v2 = graph.cast(%y) {to = i32} : tensor<8xi32>
  %v3 = graph.cast(%v2) {to = f32} : tensor<8xf32>
  return(%v1, %v3)
}
func @power_by_root__padded(%x: tensor<8xf32>) {
  %v0 = graph.abs(%x) : tensor<8xf32>
  %v2 = graph.pad(%v0) {high = [1], low = [0], value = 0.0} : tensor<9xf32>
  %v3 = graph.full() {elem = f32, shape = [9], value = 0.5} : tensor<9xf32>
  %v4 = graph.pow(%v2, %v3) : tensor<9xf32>
  return(%v4)
}
func @sub_to_add__least_of_i32_in_f32(%x: tensor<8xf32>) {
  %c = graph.full() {elem = f32, shape = [8], value = -2147483648.0} : tensor<8xf32>
  %y = graph.sub(%x, %c) : tensor<8xf32>
  return(%y)
}
func @power_by_root__of_more_than_0(%x: tensor<8xf32>) {
  %one = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %two = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %m = graph.max(%x, %one) : tensor<8xf32>
  %a = graph.add(%m, %two) : tensor<8xf32>
  %h = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %y = graph.pow(%a, %h) : tensor<8xf32>
  return(%y)
}
func @cast_of_cast__unsigned(%x: tensor<8xu8>) {
  %v0 = graph.cast(%x) {to = u16} : tensor<8xu16>
  %v1 = graph.cast(%v0) {to = u32} : tensor<8xu32>
  return(%v1)
}
func @widen_scatter(%x: tensor<5xf16>, %i: tensor<4x1xi64>, %u: tensor<4xf16>) {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "add"} : tensor<5xf16>
  return(%y)
}

func @widen_scatter__bytes(%x: tensor<5x3xi8>, %i: tensor<4x3xi64>, %u: tensor<4x3xi8>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "mul"} : tensor<5x3xi8>
  return(%y)
}

func @widen_scatter__of_bool(%x: tensor<5xbool>, %i: tensor<4x1xi64>, %u: tensor<4xbool>) {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "max"} : tensor<5xbool>
  return(%y)
}

func @topk_of_one(%x: tensor<5x7xf16>) {
  %v, %i = graph.topk(%x) {axis = 0, k = 1} : tensor<1x7xf16>, tensor<1x7xi64>
  return(%v, %i)
}

func @topk_of_one__smallest(%x: tensor<5x7xi32>) {
  %v, %i = graph.topk(%x) {axis = 1, k = 1, largest = false} : tensor<5x1xi32>, tensor<5x1xi64>
  return(%v, %i)
}
// -----
func @uniform_constant(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v1 = graph.mul(%x, %v0) : tensor<8xf32>
  return(%v1)
}

func @elementwise_of_fulls(%x: tensor<(n)xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n)], value = 1.0} : tensor<(n)xf32>
  %v1 = graph.add(%x, %v0) : tensor<(n)xf32>
  return(%v1)
}

func @known_to_the_right(%x: tensor<8xf32>) {
  %v0 = graph.constant() {value = dense<8xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<8xf32>
  %v1 = graph.mul(%x, %v0) : tensor<8xf32>
  return(%v1)
}

func @add_zero(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v1 = graph.add(%x, %v0) : tensor<8xf32>
  return(%x, %v1)
}

func @add_zero__integers(%x: tensor<8xi32>) {
  return(%x)
}

func @sub_to_add(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = -3.0} : tensor<8xf32>
  %v1 = graph.add(%x, %v0) : tensor<8xf32>
  %v2 = graph.add(%x, %y) : tensor<8xf32>
  %v3 = graph.sub(%x, %x) : tensor<8xf32>
  return(%v1, %v2, %v3)
}

func @sub_to_add__integers(%x: tensor<8xi32>, %y: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = 0} : tensor<8xi32>
  %v1 = graph.full() {elem = i32, shape = [8], value = -2} : tensor<8xi32>
  %v2 = graph.add(%y, %v1) : tensor<8xi32>
  %v3 = graph.full() {elem = i32, shape = [8], value = -2147483648} : tensor<8xi32>
  %v4 = graph.sub(%y, %v3) : tensor<8xi32>
  return(%v0, %v2, %v4)
}

func @without_elements(%x: tensor<0x4xf32>, %y: tensor<4x3xf32>) {
  %v0 = graph.full() {elem = f32, shape = [0, 3], value = 0.0} : tensor<0x3xf32>
  return(%v0)
}

func @place_in_one(%x: tensor<4x1x3xf32>) {
  %v0 = graph.full() {elem = i64, shape = [4, 3], value = 0} : tensor<4x3xi64>
  %v1 = graph.arg_reduce(%x) {axis = 2, kind = "max"} : tensor<4x1xi64>
  return(%v0, %v1)
}

func @sum_of_no_products(%x: tensor<4x0xf32>, %y: tensor<0x3xf32>) {
  %v0 = graph.full() {elem = f32, shape = [4, 3], value = 0.0} : tensor<4x3xf32>
  return(%v0)
}

func @add_negation(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.sub(%x, %y) : tensor<8xf32>
  %v1 = graph.sub(%y, %x) : tensor<8xf32>
  return(%v0, %v1)
}

func @mul_one(%x: tensor<8xf32>) {
  %v0 = graph.neg(%x) : tensor<8xf32>
  %v1 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v2 = graph.mul(%x, %v1) : tensor<8xf32>
  return(%x, %v0, %v2)
}

func @mul_one__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = 0} : tensor<8xi32>
  return(%v0, %x)
}

func @product_of_negations(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.mul(%x, %y) : tensor<8xf32>
  %v1 = graph.div(%x, %y) : tensor<8xf32>
  return(%v0, %v1)
}

func @div_by_number(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 0.125} : tensor<8xf32>
  %v1 = graph.mul(%x, %v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v3 = graph.div(%x, %v2) : tensor<8xf32>
  %v4 = graph.full() {elem = f32, shape = [8], value = 1.7014118346046923e+38} : tensor<8xf32>
  %v5 = graph.div(%x, %v4) : tensor<8xf32>
  return(%x, %v1, %v3, %v5)
}

func @involution(%x: tensor<8xf32>, %c: tensor<8xbool>) {
  return(%x, %c)
}

func @abs_of_sign(%x: tensor<8xf32>) {
  %v0 = graph.abs(%x) : tensor<8xf32>
  %v1 = graph.abs(%x) : tensor<8xf32>
  return(%v0, %v1)
}

func @power_by_multiplication(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v1 = graph.mul(%x, %x) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v3 = graph.div(%v2, %x) : tensor<8xf32>
  %v4 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v5 = graph.pow(%x, %v4) : tensor<8xf32>
  return(%v0, %x, %v1, %v3, %v5)
}

func @power_by_multiplication__integers(%x: tensor<8xi32>) {
  %v0 = graph.mul(%x, %x) : tensor<8xi32>
  %v1 = graph.mul(%v0, %x) : tensor<8xi32>
  %v2 = graph.mul(%x, %x) : tensor<8xi32>
  %v3 = graph.mul(%v2, %v2) : tensor<8xi32>
  return(%v1, %v3)
}

func @power_by_root(%x: tensor<8xf32>) {
  %v0 = graph.abs(%x) : tensor<8xf32>
  %v1 = graph.sqrt(%v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %v3 = graph.pow(%x, %v2) : tensor<8xf32>
  %v4 = graph.abs(%x) : tensor<8xf32>
  %v5 = graph.full() {elem = f32, shape = [8], value = -0.5} : tensor<8xf32>
  %v6 = graph.pow(%v4, %v5) : tensor<8xf32>
  return(%v1, %v3, %v6)
}

func @extreme_of_same(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v1 = graph.max(%x, %v0) : tensor<8xf32>
  return(%x, %v1, %y)
}

func @extreme_of_same__integers(%x: tensor<8xi32>) {
  return(%x)
}

func @select_known(%c: tensor<8xbool>, %x: tensor<8xf32>, %y: tensor<8xf32>) {
  %v0 = graph.select(%c, %y, %x) : tensor<8xf32>
  return(%x, %x, %v0)
}

func @select_of_equal_numbers(%c: tensor<8xbool>, %x: tensor<8xf32>) {
  %v0 = graph.not(%c) : tensor<8xbool>
  %v1 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %v3 = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %v4 = graph.select(%c, %v2, %v3) : tensor<8xf32>
  return(%c, %v0, %v1, %v4)
}

func @logic_with_known(%x: tensor<8xbool>, %y: tensor<8xbool>) {
  %v0 = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  return(%x, %x, %v0, %y)
}

func @logic_with_known__integers(%x: tensor<8xi32>) {
  %v0 = graph.full() {elem = i32, shape = [8], value = 0} : tensor<8xi32>
  %v1 = graph.full() {elem = i32, shape = [8], value = 1} : tensor<8xi32>
  %v2 = graph.or(%x, %v1) : tensor<8xi32>
  return(%x, %v0, %v2)
}

func @xor_with_known(%x: tensor<8xbool>, %y: tensor<8xbool>) {
  %v0 = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %v1 = graph.not(%y) : tensor<8xbool>
  return(%v0, %y, %v1)
}

func @not_of_comparison(%x: tensor<8xf32>, %y: tensor<8xf32>, %i: tensor<8xi32>, %j: tensor<8xi32>) {
  %v0 = graph.ne(%x, %y) : tensor<8xbool>
  %v1 = graph.ge(%i, %j) : tensor<8xbool>
  %v2 = graph.lt(%x, %y) : tensor<8xbool>
  %v3 = graph.not(%v2) : tensor<8xbool>
  return(%v0, %v1, %v3)
}

func @compare_bool(%x: tensor<8xbool>) {
  %v0 = graph.not(%x) : tensor<8xbool>
  %v1 = graph.not(%x) : tensor<8xbool>
  return(%x, %v0, %v1)
}

func @cast_to_same(%x: tensor<8xf32>) {
  return(%x)
}

func @cast_of_cast(%x: tensor<8xf16>, %y: tensor<8xf32>) {
  %v0 = graph.cast(%x) {to = f64} : tensor<8xf64>
  %v1 = graph.cast(%y) {to = f16} : tensor<8xf16>
  %v2 = graph.cast(%v1) {to = f32} : tensor<8xf32>
  return(%v0, %v2)
}

func @bitcast_to_same(%x: tensor<8xf32>) {
  %v0 = graph.bitcast(%x) {to = i32} : tensor<8xi32>
  return(%x, %v0)
}

func @arithmetic_of_dims(%x: tensor<(n)xi64>) dims (n in 1..64) {
  %v0 = graph.full() {elem = i64, shape = [(n)], value = (2*n + 2)} : tensor<(n)xi64>
  %v1 = graph.add(%x, %v0) : tensor<(n)xi64>
  return(%v1)
}

func @cast_of_cast__integers(%x: tensor<8xi8>, %y: tensor<8xu8>) {
  %v0 = graph.cast(%x) {to = i64} : tensor<8xi64>
  %v1 = graph.cast(%y) {to = f32} : tensor<8xf32>
  return(%v0, %v1)
}

func @power_by_root__padded(%x: tensor<8xf32>) {
  %v0 = graph.abs(%x) : tensor<8xf32>
  %v1 = graph.pad(%v0) {high = [1], low = [0], value = 0.0} : tensor<9xf32>
  %v2 = graph.sqrt(%v1) : tensor<9xf32>
  return(%v2)
}

func @sub_to_add__least_of_i32_in_f32(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 2147483648.0} : tensor<8xf32>
  %y = graph.add(%x, %v0) : tensor<8xf32>
  return(%y)
}

func @power_by_root__of_more_than_0(%x: tensor<8xf32>) {
  %one = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %two = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %m = graph.max(%x, %one) : tensor<8xf32>
  %a = graph.add(%m, %two) : tensor<8xf32>
  %y = graph.sqrt(%a) : tensor<8xf32>
  return(%y)
}

func @cast_of_cast__unsigned(%x: tensor<8xu8>) {
  %v0 = graph.cast(%x) {to = u32} : tensor<8xu32>
  return(%v0)
}

func @widen_scatter(%x: tensor<5xf16>, %i: tensor<4x1xi64>, %u: tensor<4xf16>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<5xf32>
  %v1 = graph.cast(%u) {to = f32} : tensor<4xf32>
  %v2 = graph.scatter_nd(%v0, %i, %v1) {kind = "add"} : tensor<5xf32>
  %y = graph.cast(%v2) {to = f16} : tensor<5xf16>
  return(%y)
}

func @widen_scatter__bytes(%x: tensor<5x3xi8>, %i: tensor<4x3xi64>, %u: tensor<4x3xi8>) {
  %v0 = graph.cast(%x) {to = i32} : tensor<5x3xi32>
  %v1 = graph.cast(%u) {to = i32} : tensor<4x3xi32>
  %v2 = graph.scatter_along(%v0, %i, %v1) {axis = 0, kind = "mul"} : tensor<5x3xi32>
  %y = graph.cast(%v2) {to = i8} : tensor<5x3xi8>
  return(%y)
}

func @widen_scatter__of_bool(%x: tensor<5xbool>, %i: tensor<4x1xi64>, %u: tensor<4xbool>) {
  %v0 = graph.cast(%x) {to = u32} : tensor<5xu32>
  %v1 = graph.cast(%u) {to = u32} : tensor<4xu32>
  %v2 = graph.scatter_nd(%v0, %i, %v1) {kind = "max"} : tensor<5xu32>
  %y = graph.cast(%v2) {to = bool} : tensor<5xbool>
  return(%y)
}

func @topk_of_one(%x: tensor<5x7xf16>) {
  %v0 = graph.reduce(%x) {axes = [0], keepdims = true, kind = "max"} : tensor<1x7xf16>
  %v1 = graph.arg_reduce(%x) {axis = 0, keepdims = true, kind = "max"} : tensor<1x7xi64>
  return(%v0, %v1)
}

func @topk_of_one__smallest(%x: tensor<5x7xi32>) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = true, kind = "min"} : tensor<5x1xi32>
  %v1 = graph.arg_reduce(%x) {axis = 1, keepdims = true, kind = "min"} : tensor<5x1xi64>
  return(%v0, %v1)
}
