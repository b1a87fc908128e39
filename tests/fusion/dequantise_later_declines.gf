// RUN: dequantise-later
// Many rows, scales that differ along k, and a zero point that leaves no byte.
func @rows(%x: tensor<(n)x2xf32>) dims (n in 1..65) {
  %q = graph.constant() {value = dense<2x3xi8, [1 -2 3 -4 5 -6]>} : tensor<2x3xi8>
  %f = graph.cast(%q) {to = f32} : tensor<2x3xf32>
  %y = graph.contract(%x, %f) {spec = "mk,kn->mn"} : tensor<(n)x3xf32>
  return(%y)
}
func @blocks(%x: tensor<4x2xf32>) {
  %q = graph.constant() {value = dense<2x3xi8, [1 -2 3 -4 5 -6]>} : tensor<2x3xi8>
  %s = graph.constant() {value = dense<2x1xf32, [0.5 0.25]>} : tensor<2x1xf32>
  %f = graph.cast(%q) {to = f32} : tensor<2x3xf32>
  %b = graph.broadcast(%s) {shape = [2, 3]} : tensor<2x3xf32>
  %w = graph.mul(%f, %b) : tensor<2x3xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x3xf32>
  return(%y)
}
func @no_byte(%x: tensor<4x2xf32>) {
  %q = graph.constant() {value = dense<2x2xi8, [127 -128 3 -4]>} : tensor<2x2xi8>
  %i = graph.cast(%q) {to = i32} : tensor<2x2xi32>
  %z = graph.full() {elem = i32, shape = [2, 2], value = 5} : tensor<2x2xi32>
  %c = graph.sub(%i, %z) : tensor<2x2xi32>
  %f = graph.cast(%c) {to = f32} : tensor<2x2xf32>
  %y = graph.contract(%x, %f) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  return(%y)
}
// -----
func @rows(%x: tensor<(n)x2xf32>) dims (n in 1..65) {
  %q = graph.constant() {value = dense<2x3xi8, [1 -2 3 -4 5 -6]>} : tensor<2x3xi8>
  %f = graph.cast(%q) {to = f32} : tensor<2x3xf32>
  %y = graph.contract(%x, %f) {spec = "mk,kn->mn"} : tensor<(n)x3xf32>
  return(%y)
}

func @blocks(%x: tensor<4x2xf32>) {
  %q = graph.constant() {value = dense<2x3xi8, [1 -2 3 -4 5 -6]>} : tensor<2x3xi8>
  %s = graph.constant() {value = dense<2x1xf32, [0.5 0.25]>} : tensor<2x1xf32>
  %f = graph.cast(%q) {to = f32} : tensor<2x3xf32>
  %b = graph.broadcast(%s) {shape = [2, 3]} : tensor<2x3xf32>
  %w = graph.mul(%f, %b) : tensor<2x3xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x3xf32>
  return(%y)
}

func @no_byte(%x: tensor<4x2xf32>) {
  %q = graph.constant() {value = dense<2x2xi8, [127 -128 3 -4]>} : tensor<2x2xi8>
  %i = graph.cast(%q) {to = i32} : tensor<2x2xi32>
  %z = graph.full() {elem = i32, shape = [2, 2], value = 5} : tensor<2x2xi32>
  %c = graph.sub(%i, %z) : tensor<2x2xi32>
  %f = graph.cast(%c) {to = f32} : tensor<2x2xf32>
  %y = graph.contract(%x, %f) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  return(%y)
}
