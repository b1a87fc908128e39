// RUN: lower-precision
// HALVES
// A product of a movement of data and weights; the cast stands before the movement.
func @product(%x: tensor<(n)x2x3xf32>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<6x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0 0.1]>} : tensor<6x2xf32>
  %r = graph.reshape(%x) {shape = [(n), 6]} : tensor<(n)x6xf32>
  %y = graph.contract(%r, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xf32>
  return(%y)
}
// Numbers that scale operands scale the result.
func @scales(%q: tensor<2x16x8xf32>, %k: tensor<2x16x8xf32>) {
  %c = graph.full() {elem = f32, shape = [2, 16, 8], value = 0.5} : tensor<2x16x8xf32>
  %a = graph.mul(%q, %c) : tensor<2x16x8xf32>
  %b = graph.mul(%k, %c) : tensor<2x16x8xf32>
  %t = graph.permute(%b) {perm = [0, 2, 1]} : tensor<2x8x16xf32>
  %s = graph.contract(%a, %t) {spec = "bmk,bkn->bmn"} : tensor<2x16x16xf32>
  return(%s)
}
// A convolution's padding is moved too.
func @convolution(%x: tensor<1x4x4x1xf32>) {
  %w = graph.constant() {value = dense<1x2x1x1xf32, [0.5 0.25]>} : tensor<1x2x1x1xf32>
  %p = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0]} : tensor<1x4x5x1xf32>
  %y = graph.conv(%p, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x4x4x1xf32>
  return(%y)
}
// Positions stay f32, and so does what halves cannot hold.
func @declines(%p: tensor<8xi64>, %x: tensor<8x2xf32>, %d: tensor<2xf64>) {
  %f = graph.constant() {value = dense<2xf32, [1.0 0.01]>} : tensor<2xf32>
  %i = graph.cast(%p) {to = f32} : tensor<8xf32>
  %angles = graph.contract(%i, %f) {spec = "m,n->mn"} : tensor<8x2xf32>
  %m = graph.constant() {value = dense<2x2xf32, [0.0 -1e+09 0.0 1.0]>} : tensor<2x2xf32>
  %masked = graph.contract(%x, %m) {spec = "mk,kn->mn"} : tensor<8x2xf32>
  %e = graph.exp(%x) : tensor<8x2xf32>
  %large = graph.contract(%e, %f) {spec = "mk,k->m"} : tensor<8xf32>
  %double = graph.contract(%d, %d) {spec = "k,k->"} : tensor<f64>
  return(%angles, %masked, %large, %double)
}

// A table that is known is rounded, not what is looked up in it.
func @table(%x: tensor<3x1x2xf32>, %i: tensor<3xi32>) {
  %w = graph.constant() {value = dense<2x2x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<2x2x2xf32>
  %t = graph.take(%w, %i) {axis = 0} : tensor<3x2x2xf32>
  %y = graph.contract(%x, %t) {spec = "tmk,tkn->tmn"} : tensor<3x1x2xf32>
  return(%y)
}
// -----
func @product(%x: tensor<(n)x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.cast(%x) {to = f16} : tensor<(n)x2x3xf16>
  %v1 = graph.reshape(%v0) {shape = [(n), 6]} : tensor<(n)x6xf16>
  %v2 = graph.constant() {value = dense<6x2xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0 0.1]>} : tensor<6x2xf16>
  %y = graph.contract(%v1, %v2) {elem = f32, spec = "mk,kn->mn"} : tensor<(n)x2xf32>
  return(%y)
}

func @scales(%q: tensor<2x16x8xf32>, %k: tensor<2x16x8xf32>) {
  %v0 = graph.cast(%q) {to = f16} : tensor<2x16x8xf16>
  %v1 = graph.cast(%k) {to = f16} : tensor<2x16x8xf16>
  %v2 = graph.permute(%v1) {perm = [0, 2, 1]} : tensor<2x8x16xf16>
  %v3 = graph.contract(%v0, %v2) {elem = f32, spec = "bmk,bkn->bmn"} : tensor<2x16x16xf32>
  %v4 = graph.full() {elem = f32, shape = [2, 16, 16], value = 0.25} : tensor<2x16x16xf32>
  %s = graph.mul(%v3, %v4) : tensor<2x16x16xf32>
  return(%s)
}

func @convolution(%x: tensor<1x4x4x1xf32>) {
  %v0 = graph.cast(%x) {to = f16} : tensor<1x4x4x1xf16>
  %v1 = graph.pad(%v0) {high = [0, 0, 1, 0], low = [0, 0, 0, 0]} : tensor<1x4x5x1xf16>
  %v2 = graph.constant() {value = dense<1x2x1x1xf16, [0.5 0.25]>} : tensor<1x2x1x1xf16>
  %v3 = graph.conv(%v1, %v2) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<1x4x4x1xf16>
  %y = graph.cast(%v3) {to = f32} : tensor<1x4x4x1xf32>
  return(%y)
}

func @declines(%p: tensor<8xi64>, %x: tensor<8x2xf32>, %d: tensor<2xf64>) {
  %f = graph.constant() {value = dense<2xf32, [1.0 0.01]>} : tensor<2xf32>
  %i = graph.cast(%p) {to = f32} : tensor<8xf32>
  %angles = graph.contract(%i, %f) {spec = "m,n->mn"} : tensor<8x2xf32>
  %m = graph.constant() {value = dense<2x2xf32, [0.0 -1e+09 0.0 1.0]>} : tensor<2x2xf32>
  %masked = graph.contract(%x, %m) {spec = "mk,kn->mn"} : tensor<8x2xf32>
  %e = graph.exp(%x) : tensor<8x2xf32>
  %large = graph.contract(%e, %f) {spec = "mk,k->m"} : tensor<8xf32>
  %double = graph.contract(%d, %d) {spec = "k,k->"} : tensor<f64>
  return(%angles, %masked, %large, %double)
}

func @table(%x: tensor<3x1x2xf32>, %i: tensor<3xi32>) {
  %v0 = graph.cast(%x) {to = f16} : tensor<3x1x2xf16>
  %v1 = graph.constant() {value = dense<2x2x2xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<2x2x2xf16>
  %v2 = graph.take(%v1, %i) {axis = 0} : tensor<3x2x2xf16>
  %y = graph.contract(%v0, %v2) {elem = f32, spec = "tmk,tkn->tmn"} : tensor<3x1x2xf32>
  return(%y)
}
