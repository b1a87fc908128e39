// RUN: dequantise-later
// Bytes times a scale for each column: the scales go to the result. Zero points are subtracted when compiling.
func @columns(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %q = graph.constant() {value = dense<2x3xi8, [1 -2 3 -4 5 -6]>} : tensor<2x3xi8>
  %s = graph.constant() {value = dense<3xf32, [0.5 0.25 2.0]>} : tensor<3xf32>
  %f = graph.cast(%q) {to = f32} : tensor<2x3xf32>
  %b = graph.broadcast(%s) {shape = [2, 3]} : tensor<2x3xf32>
  %w = graph.mul(%f, %b) : tensor<2x3xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(n)x3xf32>
  return(%y)
}
func @zero_point(%x: tensor<4x2xf32>) {
  %q = graph.constant() {value = dense<3x2xu8, [129 126 131 124 133 122]>} : tensor<3x2xu8>
  %i = graph.cast(%q) {to = i32} : tensor<3x2xi32>
  %z = graph.full() {elem = i32, shape = [3, 2], value = 128} : tensor<3x2xi32>
  %c = graph.sub(%i, %z) : tensor<3x2xi32>
  %f = graph.cast(%c) {to = f32} : tensor<3x2xf32>
  %y = graph.contract(%x, %f) {spec = "mk,nk->mn"} : tensor<4x3xf32>
  return(%y)
}
// -----
func @columns(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xi8, [1 -4 -2 5 3 -6]>} : tensor<3x2xi8>
  %v1 = graph.contract(%x, %v0) {elem = f32, spec = "mk,nk->mn"} : tensor<(n)x3xf32>
  %v2 = graph.constant() {value = dense<3xf32, [0.5 0.25 2.0]>} : tensor<3xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 3]} : tensor<(n)x3xf32>
  %y = graph.mul(%v1, %v3) : tensor<(n)x3xf32>
  return(%y)
}

func @zero_point(%x: tensor<4x2xf32>) {
  %v0 = graph.constant() {value = dense<3x2xi8, [1 -2 3 -4 5 -6]>} : tensor<3x2xi8>
  %v1 = graph.contract(%x, %v0) {elem = f32, spec = "mk,nk->mn"} : tensor<4x3xf32>
  %v2 = graph.constant() {value = dense<3xf32, [1.0 1.0 1.0]>} : tensor<3xf32>
  %v3 = graph.broadcast(%v2) {shape = [4, 3]} : tensor<4x3xf32>
  %y = graph.mul(%v1, %v3) : tensor<4x3xf32>
  return(%y)
}
