// RUN: multiply-bytes
// Zero points are taken off the sums; bytes become u8 by i8; four of them go together.
func @matrix(%x: tensor<(n)x4xu8>) dims (n in 1..64) {
  %a = graph.cast(%x) {to = i32} : tensor<(n)x4xi32>
  %z = graph.full() {elem = i32, shape = [(n), 4], value = 3} : tensor<(n)x4xi32>
  %c = graph.sub(%a, %z) : tensor<(n)x4xi32>
  %q = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %b = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %y = graph.contract(%c, %b) {spec = "mk,kn->mn"} : tensor<(n)x2xi32>
  return(%y)
}
func @signed_by_unsigned_and_a_computed_zero_point(%x: tensor<5x3xi8>, %z: tensor<i32>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x3xi32>
  %r = graph.broadcast(%z) {shape = [5, 3]} : tensor<5x3xi32>
  %c = graph.sub(%a, %r) : tensor<5x3xi32>
  %q = graph.constant() {value = dense<2x3xu8, [129 126 131 124 133 122]>} : tensor<2x3xu8>
  %b = graph.cast(%q) {to = i32} : tensor<2x3xi32>
  %k = graph.full() {elem = i32, shape = [2, 3], value = 128} : tensor<2x3xi32>
  %d = graph.sub(%b, %k) : tensor<2x3xi32>
  %y = graph.contract(%c, %d) {spec = "mk,nk->mn"} : tensor<5x2xi32>
  return(%y)
}
func @image(%x: tensor<(n)x1x4x4xu8>) dims (n in 1..64) {
  %a = graph.cast(%x) {to = i32} : tensor<(n)x1x4x4xi32>
  %z = graph.full() {elem = i32, shape = [(n), 1, 4, 4], value = 3} : tensor<(n)x1x4x4xi32>
  %c = graph.sub(%a, %z) : tensor<(n)x1x4x4xi32>
  %q = graph.constant() {value = dense<2x1x1x2xi8, [1 -2 3 4]>} : tensor<2x1x1x2xi8>
  %b = graph.cast(%q) {to = i32} : tensor<2x1x1x2xi32>
  %y = graph.conv(%c, %b) {dilation = [1, 1], high = [0, 1], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xi32>
  return(%y)
}
func @image_with_a_computed_zero_point(%x: tensor<1x4x2x2xu8>, %z: tensor<i32>) {
  %a = graph.cast(%x) {to = i32} : tensor<1x4x2x2xi32>
  %r = graph.broadcast(%z) {shape = [1, 4, 2, 2]} : tensor<1x4x2x2xi32>
  %c = graph.sub(%a, %r) : tensor<1x4x2x2xi32>
  %q = graph.constant() {value = dense<1x4x1x2xi8, [1 -2 3 4 5 6 7 8]>} : tensor<1x4x1x2xi8>
  %b = graph.cast(%q) {to = i32} : tensor<1x4x1x2xi32>
  %y = graph.conv(%c, %b) {dilation = [1, 1], high = [0, 1], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x1x2x2xi32>
  return(%y)
}
func @no_byte_has_room(%x: tensor<5x4xu8>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x4xi32>
  %q = graph.constant() {value = dense<4x1xu8, [0 255 3 4]>} : tensor<4x1xu8>
  %b = graph.cast(%q) {to = i32} : tensor<4x1xi32>
  %k = graph.full() {elem = i32, shape = [4, 1], value = 100} : tensor<4x1xi32>
  %d = graph.sub(%b, %k) : tensor<4x1xi32>
  %y = graph.contract(%a, %d) {spec = "mk,kn->mn"} : tensor<5x1xi32>
  return(%y)
}
// -----
func @matrix(%x: tensor<(n)x4xu8>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<4x2xi8, [1 -2 3 -4 5 -6 7 8]>} : tensor<4x2xi8>
  %v1 = graph.contract(%x, %v0) {elem = i32, spec = "mk,kn->mn"} : tensor<(n)x2xi32>
  %v2 = graph.constant() {value = dense<2xi32, [48 -12]>} : tensor<2xi32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xi32>
  %v4 = graph.sub(%v1, %v3) : tensor<(n)x2xi32>
  return(%v4)
}

func @signed_by_unsigned_and_a_computed_zero_point(%x: tensor<5x3xi8>, %z: tensor<i32>) {
  %v0 = graph.cast(%x) {to = i32} : tensor<5x3xi32>
  %v1 = graph.full() {elem = i32, shape = [5, 3], value = 128} : tensor<5x3xi32>
  %v2 = graph.add(%v0, %v1) : tensor<5x3xi32>
  %v3 = graph.cast(%v2) {to = u8} : tensor<5x3xu8>
  %v4 = graph.pad(%v3) {high = [0, 1], low = [0, 0], value = 0} : tensor<5x4xu8>
  %v5 = graph.constant() {value = dense<2x4xi8, [1 -2 3 0 -4 5 -6 0]>} : tensor<2x4xi8>
  %v6 = graph.contract(%v4, %v5) {elem = i32, spec = "mk,nk->mn"} : tensor<5x2xi32>
  %v7 = graph.broadcast(%z) {shape = [5, 2]} : tensor<5x2xi32>
  %v8 = graph.constant() {value = dense<2xi32, [2 -5]>} : tensor<2xi32>
  %v9 = graph.broadcast(%v8) {shape = [5, 2]} : tensor<5x2xi32>
  %v10 = graph.mul(%v7, %v9) : tensor<5x2xi32>
  %v11 = graph.constant() {value = dense<2xi32, [256 -640]>} : tensor<2xi32>
  %v12 = graph.broadcast(%v11) {shape = [5, 2]} : tensor<5x2xi32>
  %v13 = graph.add(%v10, %v12) : tensor<5x2xi32>
  %v14 = graph.sub(%v6, %v13) : tensor<5x2xi32>
  return(%v14)
}

func @image(%x: tensor<(n)x1x4x4xu8>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 0, 0, 1], low = [0, 0, 0, 0], value = 3} : tensor<(n)x1x4x5xu8>
  %v1 = graph.pad(%v0) {high = [0, 3, 0, 0], low = [0, 0, 0, 0], value = 0} : tensor<(n)x4x4x5xu8>
  %v2 = graph.constant() {value = dense<2x4x1x2xi8, [1 -2 0 0 0 0 0 0 3 4 0 0 0 0 0 0]>} : tensor<2x4x1x2xi8>
  %v3 = graph.conv(%v1, %v2) {dilation = [1, 1], elem = i32, high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xi32>
  %v4 = graph.constant() {value = dense<2x1x1xi32, [-3 21]>} : tensor<2x1x1xi32>
  %v5 = graph.broadcast(%v4) {shape = [(n), 2, 4, 4]} : tensor<(n)x2x4x4xi32>
  %v6 = graph.sub(%v3, %v5) : tensor<(n)x2x4x4xi32>
  return(%v6)
}

func @image_with_a_computed_zero_point(%x: tensor<1x4x2x2xu8>, %z: tensor<i32>) {
  %v0 = graph.constant() {value = dense<1x4x1x2xi8, [1 -2 3 4 5 6 7 8]>} : tensor<1x4x1x2xi8>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], elem = i32, high = [0, 1], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x1x2x2xi32>
  %v2 = graph.broadcast(%z) {shape = [1, 1, 2, 2]} : tensor<1x1x2x2xi32>
  %v3 = graph.constant() {value = dense<2x2xi32, [32 16 32 16]>} : tensor<2x2xi32>
  %v4 = graph.broadcast(%v3) {shape = [1, 1, 2, 2]} : tensor<1x1x2x2xi32>
  %v5 = graph.mul(%v2, %v4) : tensor<1x1x2x2xi32>
  %v6 = graph.sub(%v1, %v5) : tensor<1x1x2x2xi32>
  return(%v6)
}

func @no_byte_has_room(%x: tensor<5x4xu8>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x4xi32>
  %v0 = graph.constant() {value = dense<4x1xi8, [-128 127 -125 -124]>} : tensor<4x1xi8>
  %v1 = graph.contract(%x, %v0) {elem = i32, spec = "mk,kn->mn"} : tensor<5x1xi32>
  %v2 = graph.reduce(%a) {axes = [1], keepdims = false, kind = "sum"} : tensor<5xi32>
  %v3 = graph.reshape(%v2) {shape = [5, 1]} : tensor<5x1xi32>
  %v4 = graph.constant() {value = dense<i32, [-28]>} : tensor<i32>
  %v5 = graph.broadcast(%v4) {shape = [5, 1]} : tensor<5x1xi32>
  %v6 = graph.mul(%v3, %v5) : tensor<5x1xi32>
  %v7 = graph.sub(%v1, %v6) : tensor<5x1xi32>
  return(%v7)
}
