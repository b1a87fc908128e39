// RUN: multiply-quantised
// Sums of windows, scales along k, another zero point, scales of what is no integer: only what may be done is.
func @not_an_average(%x: tensor<2x6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<2x6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<2x6xf32>
  %s = graph.full() {elem = f32, shape = [2, 6], value = 0.5} : tensor<2x6xf32>
  %d = graph.mul(%f, %s) : tensor<2x6xf32>
  %p = graph.permute(%d) {perm = [1, 0]} : tensor<6x2xf32>
  %w = graph.reduce_window(%p) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0, 0], strides = [2, 1], window = [2, 1]} : tensor<3x2xf32>
  return(%w)
}
func @scales_along_k_stay(%x: tensor<3x4xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<3x4xf32>
  %s = graph.full() {elem = f32, shape = [3, 4], value = 0.5} : tensor<3x4xf32>
  %d = graph.mul(%f, %s) : tensor<3x4xf32>
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %t = graph.constant() {value = dense<4x1xf32, [0.25 2.0 4.0 8.0]>} : tensor<4x1xf32>
  %u = graph.broadcast(%t) {shape = [4, 2]} : tensor<4x2xf32>
  %w = graph.mul(%g, %u) : tensor<4x2xf32>
  %y = graph.contract(%d, %w) {spec = "mk,kn->mn"} : tensor<3x2xf32>
  return(%y)
}
func @another_zero_point(%x: tensor<6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.25} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %o = graph.full() {elem = f32, shape = [6], value = 7.0} : tensor<6xf32>
  %a = graph.add(%r, %o) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%a, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}
func @of_floats_stay(%x: tensor<4xf32>) {
  %t = graph.full() {elem = f32, shape = [4], value = 0.25} : tensor<4xf32>
  %d = graph.mul(%x, %t) : tensor<4xf32>
  %s = graph.full() {elem = f32, shape = [4], value = 0.3} : tensor<4xf32>
  %v = graph.div(%d, %s) : tensor<4xf32>
  %r = graph.round(%v) : tensor<4xf32>
  return(%r)
}
func @an_unknown_scale_stays(%t: tensor<4x2xf32>, %x: tensor<3x4xf32>) {
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %w = graph.mul(%g, %t) : tensor<4x2xf32>
  %p = graph.permute(%w) {perm = [1, 0]} : tensor<2x4xf32>
  %y = graph.contract(%x, %p) {spec = "mk,nk->mn"} : tensor<3x2xf32>
  return(%y)
}
func @scales_along_input_channels_stay(%x: tensor<1x2x3x3xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<1x2x3x3xi32>
  %f = graph.cast(%i) {to = f32} : tensor<1x2x3x3xf32>
  %s = graph.full() {elem = f32, shape = [1, 2, 3, 3], value = 0.5} : tensor<1x2x3x3xf32>
  %d = graph.mul(%f, %s) : tensor<1x2x3x3xf32>
  %q = graph.constant() {value = dense<2x2x1x1xi8, [1 -2 3 -4]>} : tensor<2x2x1x1xi8>
  %j = graph.cast(%q) {to = i32} : tensor<2x2x1x1xi32>
  %g = graph.cast(%j) {to = f32} : tensor<2x2x1x1xf32>
  %t = graph.constant() {value = dense<2x1x1xf32, [0.25 2.0]>} : tensor<2x1x1xf32>
  %u = graph.broadcast(%t) {shape = [2, 2, 1, 1]} : tensor<2x2x1x1xf32>
  %w = graph.mul(%g, %u) : tensor<2x2x1x1xf32>
  %c = graph.conv(%d, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x3x3xf32>
  return(%c)
}
func @scales_of_f64_stay(%x: tensor<(n)x2xi32>) dims (n in 1..64) {
  %f = graph.cast(%x) {to = f64} : tensor<(n)x2xf64>
  %t = graph.full() {elem = f64, shape = [(n), 2], value = 0.25} : tensor<(n)x2xf64>
  %d = graph.mul(%f, %t) : tensor<(n)x2xf64>
  %s = graph.full() {elem = f64, shape = [(n), 2], value = 0.5} : tensor<(n)x2xf64>
  %v = graph.div(%d, %s) : tensor<(n)x2xf64>
  %r = graph.round(%v) : tensor<(n)x2xf64>
  return(%r)
}
func @scales_of_rows_stay(%x: tensor<3x4xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<3x4xf32>
  %r = graph.constant() {value = dense<3x1xf32, [0.5 0.25 2.0]>} : tensor<3x1xf32>
  %s = graph.broadcast(%r) {shape = [3, 4]} : tensor<3x4xf32>
  %d = graph.mul(%f, %s) : tensor<3x4xf32>
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %t = graph.full() {elem = f32, shape = [4, 2], value = 0.25} : tensor<4x2xf32>
  %w = graph.mul(%g, %t) : tensor<4x2xf32>
  %y = graph.contract(%d, %w) {spec = "mk,kn->mn"} : tensor<3x2xf32>
  return(%y)
}
// Along rows that are flattened no scale is of one dim.
func @scales_of_rows_are_not_flattened(%x: tensor<2x3xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<2x3xi32>
  %f = graph.cast(%i) {to = f32} : tensor<2x3xf32>
  %t = graph.constant() {value = dense<2x1xf32, [0.5 0.25]>} : tensor<2x1xf32>
  %s = graph.broadcast(%t) {shape = [2, 3]} : tensor<2x3xf32>
  %d = graph.mul(%f, %s) : tensor<2x3xf32>
  %r = graph.reshape(%d) {shape = [6]} : tensor<6xf32>
  return(%r)
}
// No scale at all is no number.
func @no_scales(%x: tensor<2x0xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<2x0xi32>
  %f = graph.cast(%i) {to = f32} : tensor<2x0xf32>
  %s = graph.constant() {value = dense<2x0xf32, []>} : tensor<2x0xf32>
  %d = graph.mul(%f, %s) : tensor<2x0xf32>
  %r = graph.reshape(%d) {shape = [0]} : tensor<0xf32>
  return(%r)
}
// A scale for each weight does not come out of the sum.
func @scales_of_all_weights_stay(%x: tensor<3x4xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<3x4xf32>
  %s = graph.full() {elem = f32, shape = [3, 4], value = 0.5} : tensor<3x4xf32>
  %d = graph.mul(%f, %s) : tensor<3x4xf32>
  %q = graph.constant() {value = dense<2x4xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<2x4xi8>
  %j = graph.cast(%q) {to = i32} : tensor<2x4xi32>
  %g = graph.cast(%j) {to = f32} : tensor<2x4xf32>
  %t = graph.constant() {value = dense<2x4xf32, [0.25 2.0 4.0 8.0 1.0 0.5 0.25 2.0]>} : tensor<2x4xf32>
  %w = graph.mul(%g, %t) : tensor<2x4xf32>
  %y = graph.contract(%d, %w) {spec = "mk,nk->mn"} : tensor<3x2xf32>
  return(%y)
}
// A scale of 0 leaves nothing of the bytes.
func @bytes_times_0(%x: tensor<6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.0} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%r, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}
// An infinite scale: a quotient of infinities is no byte.
func @bytes_times_infinity(%x: tensor<6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = inf} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%r, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}
// Of u8, i8 has half, and others.
func @bytes_of_another_kind(%x: tensor<6xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.25} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%r, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}
// A quotient that f32 does not hold: 0 times it would be NaN.
func @quotients_of_scales_overflow(%x: tensor<6xi32>) {
  %f = graph.cast(%x) {to = f32} : tensor<6xf32>
  %t = graph.full() {elem = f32, shape = [6], value = 1e20} : tensor<6xf32>
  %d = graph.mul(%f, %t) : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 1e-20} : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  return(%r)
}
// Nor does it hold the quotient of what is added.
func @quotients_of_terms_overflow(%x: tensor<6xi32>) {
  %f = graph.cast(%x) {to = f32} : tensor<6xf32>
  %t = graph.full() {elem = f32, shape = [6], value = 0.25} : tensor<6xf32>
  %d = graph.mul(%f, %t) : tensor<6xf32>
  %b = graph.full() {elem = f32, shape = [6], value = 1e20} : tensor<6xf32>
  %a = graph.add(%d, %b) : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 1e-20} : tensor<6xf32>
  %v = graph.div(%a, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  return(%r)
}
// What is read elsewhere too would be computed twice.
func @a_sum_of_two_readers(%x: tensor<6xi32>) {
  %f = graph.cast(%x) {to = f32} : tensor<6xf32>
  %t = graph.full() {elem = f32, shape = [6], value = 0.25} : tensor<6xf32>
  %d = graph.mul(%f, %t) : tensor<6xf32>
  %b = graph.full() {elem = f32, shape = [6], value = 3.0} : tensor<6xf32>
  %a = graph.add(%d, %b) : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.5} : tensor<6xf32>
  %v = graph.div(%a, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  return(%r, %a)
}
// Halves are no integers.
func @scaled_halves_stay(%x: tensor<4xf16>) {
  %f = graph.cast(%x) {to = f32} : tensor<4xf32>
  %t = graph.full() {elem = f32, shape = [4], value = 0.25} : tensor<4xf32>
  %d = graph.mul(%f, %t) : tensor<4xf32>
  %s = graph.full() {elem = f32, shape = [4], value = 0.3} : tensor<4xf32>
  %v = graph.div(%d, %s) : tensor<4xf32>
  %r = graph.round(%v) : tensor<4xf32>
  return(%r)
}
// -----
func @not_an_average(%x: tensor<2x6xi8>) {
  %v0 = graph.permute(%x) {perm = [1, 0]} : tensor<6x2xi8>
  %v1 = graph.cast(%v0) {to = i32} : tensor<6x2xi32>
  %v2 = graph.cast(%v1) {to = f32} : tensor<6x2xf32>
  %v3 = graph.full() {elem = f32, shape = [6, 2], value = 0.5} : tensor<6x2xf32>
  %p = graph.mul(%v2, %v3) : tensor<6x2xf32>
  %w = graph.reduce_window(%p) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0, 0], strides = [2, 1], window = [2, 1]} : tensor<3x2xf32>
  return(%w)
}

func @scales_along_k_stay(%x: tensor<3x4xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<3x4xf32>
  %s = graph.full() {elem = f32, shape = [3, 4], value = 0.5} : tensor<3x4xf32>
  %d = graph.mul(%f, %s) : tensor<3x4xf32>
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %t = graph.constant() {value = dense<4x1xf32, [0.25 2.0 4.0 8.0]>} : tensor<4x1xf32>
  %u = graph.broadcast(%t) {shape = [4, 2]} : tensor<4x2xf32>
  %w = graph.mul(%g, %u) : tensor<4x2xf32>
  %y = graph.contract(%d, %w) {spec = "mk,kn->mn"} : tensor<3x2xf32>
  return(%y)
}

func @another_zero_point(%x: tensor<6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %v0 = graph.full() {elem = f32, shape = [6], value = 1.0} : tensor<6xf32>
  %v1 = graph.mul(%f, %v0) : tensor<6xf32>
  %r = graph.round(%v1) : tensor<6xf32>
  %o = graph.full() {elem = f32, shape = [6], value = 7.0} : tensor<6xf32>
  %a = graph.add(%r, %o) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%a, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}

func @of_floats_stay(%x: tensor<4xf32>) {
  %t = graph.full() {elem = f32, shape = [4], value = 0.25} : tensor<4xf32>
  %d = graph.mul(%x, %t) : tensor<4xf32>
  %s = graph.full() {elem = f32, shape = [4], value = 0.3} : tensor<4xf32>
  %v = graph.div(%d, %s) : tensor<4xf32>
  %r = graph.round(%v) : tensor<4xf32>
  return(%r)
}

func @an_unknown_scale_stays(%t: tensor<4x2xf32>, %x: tensor<3x4xf32>) {
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %w = graph.mul(%g, %t) : tensor<4x2xf32>
  %p = graph.permute(%w) {perm = [1, 0]} : tensor<2x4xf32>
  %y = graph.contract(%x, %p) {spec = "mk,nk->mn"} : tensor<3x2xf32>
  return(%y)
}

func @scales_along_input_channels_stay(%x: tensor<1x2x3x3xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<1x2x3x3xi32>
  %f = graph.cast(%i) {to = f32} : tensor<1x2x3x3xf32>
  %s = graph.full() {elem = f32, shape = [1, 2, 3, 3], value = 0.5} : tensor<1x2x3x3xf32>
  %d = graph.mul(%f, %s) : tensor<1x2x3x3xf32>
  %q = graph.constant() {value = dense<2x2x1x1xi8, [1 -2 3 -4]>} : tensor<2x2x1x1xi8>
  %j = graph.cast(%q) {to = i32} : tensor<2x2x1x1xi32>
  %g = graph.cast(%j) {to = f32} : tensor<2x2x1x1xf32>
  %t = graph.constant() {value = dense<2x1x1xf32, [0.25 2.0]>} : tensor<2x1x1xf32>
  %u = graph.broadcast(%t) {shape = [2, 2, 1, 1]} : tensor<2x2x1x1xf32>
  %w = graph.mul(%g, %u) : tensor<2x2x1x1xf32>
  %c = graph.conv(%d, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x3x3xf32>
  return(%c)
}

func @scales_of_f64_stay(%x: tensor<(n)x2xi32>) dims (n in 1..64) {
  %f = graph.cast(%x) {to = f64} : tensor<(n)x2xf64>
  %t = graph.full() {elem = f64, shape = [(n), 2], value = 0.25} : tensor<(n)x2xf64>
  %d = graph.mul(%f, %t) : tensor<(n)x2xf64>
  %s = graph.full() {elem = f64, shape = [(n), 2], value = 0.5} : tensor<(n)x2xf64>
  %v = graph.div(%d, %s) : tensor<(n)x2xf64>
  %r = graph.round(%v) : tensor<(n)x2xf64>
  return(%r)
}

func @scales_of_rows_stay(%x: tensor<3x4xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<3x4xf32>
  %r = graph.constant() {value = dense<3x1xf32, [0.5 0.25 2.0]>} : tensor<3x1xf32>
  %s = graph.broadcast(%r) {shape = [3, 4]} : tensor<3x4xf32>
  %d = graph.mul(%f, %s) : tensor<3x4xf32>
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %t = graph.full() {elem = f32, shape = [4, 2], value = 0.25} : tensor<4x2xf32>
  %w = graph.mul(%g, %t) : tensor<4x2xf32>
  %y = graph.contract(%d, %w) {spec = "mk,kn->mn"} : tensor<3x2xf32>
  return(%y)
}

func @scales_of_rows_are_not_flattened(%x: tensor<2x3xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<2x3xi32>
  %f = graph.cast(%i) {to = f32} : tensor<2x3xf32>
  %t = graph.constant() {value = dense<2x1xf32, [0.5 0.25]>} : tensor<2x1xf32>
  %s = graph.broadcast(%t) {shape = [2, 3]} : tensor<2x3xf32>
  %d = graph.mul(%f, %s) : tensor<2x3xf32>
  %r = graph.reshape(%d) {shape = [6]} : tensor<6xf32>
  return(%r)
}

func @no_scales(%x: tensor<2x0xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<2x0xi32>
  %f = graph.cast(%i) {to = f32} : tensor<2x0xf32>
  %s = graph.constant() {value = dense<2x0xf32, []>} : tensor<2x0xf32>
  %d = graph.mul(%f, %s) : tensor<2x0xf32>
  %r = graph.reshape(%d) {shape = [0]} : tensor<0xf32>
  return(%r)
}

func @scales_of_all_weights_stay(%x: tensor<3x4xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<3x4xf32>
  %s = graph.full() {elem = f32, shape = [3, 4], value = 0.5} : tensor<3x4xf32>
  %d = graph.mul(%f, %s) : tensor<3x4xf32>
  %q = graph.constant() {value = dense<2x4xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<2x4xi8>
  %j = graph.cast(%q) {to = i32} : tensor<2x4xi32>
  %g = graph.cast(%j) {to = f32} : tensor<2x4xf32>
  %t = graph.constant() {value = dense<2x4xf32, [0.25 2.0 4.0 8.0 1.0 0.5 0.25 2.0]>} : tensor<2x4xf32>
  %w = graph.mul(%g, %t) : tensor<2x4xf32>
  %y = graph.contract(%d, %w) {spec = "mk,nk->mn"} : tensor<3x2xf32>
  return(%y)
}

func @bytes_times_0(%x: tensor<6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.0} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%r, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}

func @bytes_times_infinity(%x: tensor<6xi8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = inf} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%r, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}

func @bytes_of_another_kind(%x: tensor<6xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %f = graph.cast(%i) {to = f32} : tensor<6xf32>
  %v0 = graph.full() {elem = f32, shape = [6], value = 1.0} : tensor<6xf32>
  %v1 = graph.mul(%f, %v0) : tensor<6xf32>
  %r = graph.round(%v1) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = -128.0} : tensor<6xf32>
  %m = graph.max(%r, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 127.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = i8} : tensor<6xi8>
  return(%q)
}

func @quotients_of_scales_overflow(%x: tensor<6xi32>) {
  %f = graph.cast(%x) {to = f32} : tensor<6xf32>
  %t = graph.full() {elem = f32, shape = [6], value = 1e+20} : tensor<6xf32>
  %d = graph.mul(%f, %t) : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 1e-20} : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  return(%r)
}

func @quotients_of_terms_overflow(%x: tensor<6xi32>) {
  %f = graph.cast(%x) {to = f32} : tensor<6xf32>
  %t = graph.full() {elem = f32, shape = [6], value = 0.25} : tensor<6xf32>
  %d = graph.mul(%f, %t) : tensor<6xf32>
  %b = graph.full() {elem = f32, shape = [6], value = 1e+20} : tensor<6xf32>
  %a = graph.add(%d, %b) : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 1e-20} : tensor<6xf32>
  %v = graph.div(%a, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  return(%r)
}

func @a_sum_of_two_readers(%x: tensor<6xi32>) {
  %f = graph.cast(%x) {to = f32} : tensor<6xf32>
  %t = graph.full() {elem = f32, shape = [6], value = 0.25} : tensor<6xf32>
  %d = graph.mul(%f, %t) : tensor<6xf32>
  %b = graph.full() {elem = f32, shape = [6], value = 3.0} : tensor<6xf32>
  %a = graph.add(%d, %b) : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.5} : tensor<6xf32>
  %v = graph.div(%a, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  return(%r, %a)
}

func @scaled_halves_stay(%x: tensor<4xf16>) {
  %f = graph.cast(%x) {to = f32} : tensor<4xf32>
  %t = graph.full() {elem = f32, shape = [4], value = 0.25} : tensor<4xf32>
  %d = graph.mul(%f, %t) : tensor<4xf32>
  %s = graph.full() {elem = f32, shape = [4], value = 0.3} : tensor<4xf32>
  %v = graph.div(%d, %s) : tensor<4xf32>
  %r = graph.round(%v) : tensor<4xf32>
  return(%r)
}
