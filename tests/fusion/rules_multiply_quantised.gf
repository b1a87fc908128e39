// RUN: multiply-quantised
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @dequantise_moved(%x: tensor<(n)x2x6x6xu8>) dims (n in 1..64) {
  %i = graph.cast(%x) {to = i32} : tensor<(n)x2x6x6xi32>
  %z = graph.full() {elem = i32, shape = [(n), 2, 6, 6], value = 7} : tensor<(n)x2x6x6xi32>
  %c = graph.sub(%i, %z) : tensor<(n)x2x6x6xi32>
  %f = graph.cast(%c) {to = f32} : tensor<(n)x2x6x6xf32>
  %s = graph.full() {elem = f32, shape = [(n), 2, 6, 6], value = 0.5} : tensor<(n)x2x6x6xf32>
  %d = graph.mul(%f, %s) : tensor<(n)x2x6x6xf32>
  %w = graph.reduce_window(%d) {dilation = [1, 1, 1, 1], high = [0, 0, 1, 1], kind = "max", low = [0, 0, 1, 1], strides = [1, 1, 2, 2], window = [1, 1, 3, 3]} : tensor<(n)x2x3x3xf32>
  %r = graph.reshape(%w) {shape = [(n), 18]} : tensor<(n)x18xf32>
  return(%r)
}
func @scale_product_of_bytes(%x: tensor<(n)x4xu8>) dims (n in 1..64) {
  %i = graph.cast(%x) {to = i32} : tensor<(n)x4xi32>
  %z = graph.full() {elem = i32, shape = [(n), 4], value = 7} : tensor<(n)x4xi32>
  %c = graph.sub(%i, %z) : tensor<(n)x4xi32>
  %f = graph.cast(%c) {to = f32} : tensor<(n)x4xf32>
  %s = graph.full() {elem = f32, shape = [(n), 4], value = 0.5} : tensor<(n)x4xf32>
  %d = graph.mul(%f, %s) : tensor<(n)x4xf32>
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %j = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %g = graph.cast(%j) {to = f32} : tensor<4x2xf32>
  %t = graph.constant() {value = dense<2xf32, [0.25 2.0]>} : tensor<2xf32>
  %u = graph.broadcast(%t) {shape = [4, 2]} : tensor<4x2xf32>
  %w = graph.mul(%g, %u) : tensor<4x2xf32>
  %y = graph.contract(%d, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xf32>
  return(%y)
}
func @quantise_as_it_was(%x: tensor<6xu8>) {
  %i = graph.cast(%x) {to = i32} : tensor<6xi32>
  %z = graph.full() {elem = i32, shape = [6], value = 7} : tensor<6xi32>
  %c = graph.sub(%i, %z) : tensor<6xi32>
  %f = graph.cast(%c) {to = f32} : tensor<6xf32>
  %s = graph.full() {elem = f32, shape = [6], value = 0.3} : tensor<6xf32>
  %d = graph.mul(%f, %s) : tensor<6xf32>
  %v = graph.div(%d, %s) : tensor<6xf32>
  %r = graph.round(%v) : tensor<6xf32>
  %o = graph.full() {elem = f32, shape = [6], value = 7.0} : tensor<6xf32>
  %a = graph.add(%r, %o) : tensor<6xf32>
  %l = graph.full() {elem = f32, shape = [6], value = 0.0} : tensor<6xf32>
  %m = graph.max(%a, %l) : tensor<6xf32>
  %h = graph.full() {elem = f32, shape = [6], value = 255.0} : tensor<6xf32>
  %n = graph.min(%m, %h) : tensor<6xf32>
  %q = graph.cast(%n) {to = u8} : tensor<6xu8>
  return(%q)
}
func @divide_scales(%x: tensor<(n)x2xi32>) dims (n in 1..64) {
  %f = graph.cast(%x) {to = f32} : tensor<(n)x2xf32>
  %t = graph.constant() {value = dense<2xf32, [0.25 2.0]>} : tensor<2xf32>
  %u = graph.broadcast(%t) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %d = graph.mul(%f, %u) : tensor<(n)x2xf32>
  %b = graph.constant() {value = dense<2xf32, [3.0 -5.0]>} : tensor<2xf32>
  %c = graph.broadcast(%b) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %a = graph.add(%d, %c) : tensor<(n)x2xf32>
  %l = graph.full() {elem = f32, shape = [(n), 2], value = 0.0} : tensor<(n)x2xf32>
  %m = graph.max(%a, %l) : tensor<(n)x2xf32>
  %s = graph.full() {elem = f32, shape = [(n), 2], value = 0.5} : tensor<(n)x2xf32>
  %v = graph.div(%m, %s) : tensor<(n)x2xf32>
  %r = graph.round(%v) : tensor<(n)x2xf32>
  return(%r)
}
func @dequantise_moved__known_bytes_of_channels(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %q = graph.constant() {value = dense<2x3xi8, [1 -2 3 -4 5 -6]>} : tensor<2x3xi8>
  %i = graph.cast(%q) {to = i32} : tensor<2x3xi32>
  %p = graph.constant() {value = dense<2x1xi32, [1 -3]>} : tensor<2x1xi32>
  %z = graph.broadcast(%p) {shape = [2, 3]} : tensor<2x3xi32>
  %c = graph.sub(%i, %z) : tensor<2x3xi32>
  %f = graph.cast(%c) {to = f32} : tensor<2x3xf32>
  %t = graph.constant() {value = dense<2x1xf32, [0.25 2.0]>} : tensor<2x1xf32>
  %s = graph.broadcast(%t) {shape = [2, 3]} : tensor<2x3xf32>
  %d = graph.mul(%f, %s) : tensor<2x3xf32>
  %w = graph.permute(%d) {perm = [1, 0]} : tensor<3x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xf32>
  return(%y)
}
func @scale_product_of_bytes__scale_of_each_channel(%x: tensor<(n)x2x3x4xu8>) dims (n in 1..64) {
  %i = graph.cast(%x) {to = i32} : tensor<(n)x2x3x4xi32>
  %f = graph.cast(%i) {to = f32} : tensor<(n)x2x3x4xf32>
  %s = graph.full() {elem = f32, shape = [(n), 2, 3, 4], value = 0.5} : tensor<(n)x2x3x4xf32>
  %d = graph.mul(%f, %s) : tensor<(n)x2x3x4xf32>
  %q = graph.constant() {value = dense<3x2x1x1xi8, [1 -2 3 -4 5 -6]>} : tensor<3x2x1x1xi8>
  %j = graph.cast(%q) {to = i32} : tensor<3x2x1x1xi32>
  %g = graph.cast(%j) {to = f32} : tensor<3x2x1x1xf32>
  %t = graph.constant() {value = dense<3x1x1x1xf32, [0.25 2.0 0.5]>} : tensor<3x1x1x1xf32>
  %u = graph.broadcast(%t) {shape = [3, 2, 1, 1]} : tensor<3x2x1x1xf32>
  %w = graph.mul(%g, %u) : tensor<3x2x1x1xf32>
  %y = graph.conv(%d, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x3x3x4xf32>
  return(%y)
}
// -----
func @dequantise_moved(%x: tensor<(n)x2x6x6xu8>) dims (n in 1..64) {
  %v0 = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 0, 1, 1], kind = "max", low = [0, 0, 1, 1], strides = [1, 1, 2, 2], window = [1, 1, 3, 3]} : tensor<(n)x2x3x3xu8>
  %v1 = graph.reshape(%v0) {shape = [(n), 18]} : tensor<(n)x18xu8>
  %v2 = graph.cast(%v1) {to = i32} : tensor<(n)x18xi32>
  %v3 = graph.full() {elem = i32, shape = [(n), 18], value = 7} : tensor<(n)x18xi32>
  %v4 = graph.sub(%v2, %v3) : tensor<(n)x18xi32>
  %v5 = graph.cast(%v4) {to = f32} : tensor<(n)x18xf32>
  %v6 = graph.full() {elem = f32, shape = [(n), 18], value = 0.5} : tensor<(n)x18xf32>
  %r = graph.mul(%v5, %v6) : tensor<(n)x18xf32>
  return(%r)
}

func @scale_product_of_bytes(%x: tensor<(n)x4xu8>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %v1 = graph.contract(%x, %v0) {elem = i32, spec = "mk,kn->mn"} : tensor<(n)x2xi32>
  %v2 = graph.constant() {value = dense<2xi32, [112 -28]>} : tensor<2xi32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xi32>
  %v4 = graph.sub(%v1, %v3) : tensor<(n)x2xi32>
  %v5 = graph.cast(%v4) {to = f32} : tensor<(n)x2xf32>
  %v6 = graph.constant() {value = dense<2xf32, [0.125 1.0]>} : tensor<2xf32>
  %v7 = graph.broadcast(%v6) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %y = graph.mul(%v5, %v7) : tensor<(n)x2xf32>
  return(%y)
}

func @quantise_as_it_was(%x: tensor<6xu8>) {
  return(%x)
}

func @divide_scales(%x: tensor<(n)x2xi32>) dims (n in 1..64) {
  %f = graph.cast(%x) {to = f32} : tensor<(n)x2xf32>
  %l = graph.full() {elem = f32, shape = [(n), 2], value = 0.0} : tensor<(n)x2xf32>
  %v0 = graph.constant() {value = dense<2xf32, [0.5 4.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v2 = graph.mul(%f, %v1) : tensor<(n)x2xf32>
  %v3 = graph.constant() {value = dense<2xf32, [6.0 -10.0]>} : tensor<2xf32>
  %v4 = graph.broadcast(%v3) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v5 = graph.add(%v2, %v4) : tensor<(n)x2xf32>
  %v6 = graph.max(%v5, %l) : tensor<(n)x2xf32>
  %r = graph.round(%v6) : tensor<(n)x2xf32>
  return(%r)
}

func @dequantise_moved__known_bytes_of_channels(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xi8, [1 -4 -2 5 3 -6]>} : tensor<3x2xi8>
  %v1 = graph.cast(%v0) {to = i32} : tensor<3x2xi32>
  %v2 = graph.constant() {value = dense<2xi32, [1 -3]>} : tensor<2xi32>
  %v3 = graph.broadcast(%v2) {shape = [3, 2]} : tensor<3x2xi32>
  %v4 = graph.sub(%v1, %v3) : tensor<3x2xi32>
  %v5 = graph.cast(%v4) {to = f32} : tensor<3x2xf32>
  %v6 = graph.constant() {value = dense<2xf32, [0.25 2.0]>} : tensor<2xf32>
  %v7 = graph.broadcast(%v6) {shape = [3, 2]} : tensor<3x2xf32>
  %w = graph.mul(%v5, %v7) : tensor<3x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xf32>
  return(%y)
}

func @scale_product_of_bytes__scale_of_each_channel(%x: tensor<(n)x2x3x4xu8>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 2, 0, 0], low = [0, 0, 0, 0], value = 0} : tensor<(n)x4x3x4xu8>
  %v1 = graph.constant() {value = dense<3x4x1x1xi8, [1 -2 0 0 3 -4 0 0 5 -6 0 0]>} : tensor<3x4x1x1xi8>
  %v2 = graph.conv(%v0, %v1) {dilation = [1, 1], elem = i32, high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x3x3x4xi32>
  %v3 = graph.cast(%v2) {to = f32} : tensor<(n)x3x3x4xf32>
  %v4 = graph.constant() {value = dense<3x1x1xf32, [0.125 1.0 0.25]>} : tensor<3x1x1xf32>
  %v5 = graph.broadcast(%v4) {shape = [(n), 3, 3, 4]} : tensor<(n)x3x3x4xf32>
  %y = graph.mul(%v3, %v5) : tensor<(n)x3x3x4xf32>
  return(%y)
}
