// RUN: pack-codes {least = 1, width = 2}
// Eight codes of four bits are a word of each column; one column of the last panel is not there. What all codes have in
// common is their zero point's.
func @columns(%x: tensor<(n)x8xf32>) dims (n in 1..64) {
  %q = graph.constant() {value = dense<3x8xi8, [-8 -7 -6 -5 -4 -3 -2 -1 0 1 2 3 4 5 6 7 7 -8 7 -8 7 -8 7 -8]>} : tensor<3x8xi8>
  %s = graph.constant() {value = dense<3x1xf32, [0.5 0.25 2.0]>} : tensor<3x1xf32>
  %f = graph.cast(%q) {to = f32} : tensor<3x8xf32>
  %b = graph.broadcast(%s) {shape = [3, 8]} : tensor<3x8xf32>
  %w = graph.mul(%f, %b) : tensor<3x8xf32>
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<(n)x3xf32>
  return(%y)
}
// Zero points differ.
func @points(%x: tensor<2x4xf32>) {
  %q = graph.constant() {value = dense<4x2xu8, [0 255 128 3 4 5 6 7]>} : tensor<4x2xu8>
  %z = graph.constant() {value = dense<1x2xi32, [128 3]>} : tensor<1x2xi32>
  %s = graph.constant() {value = dense<1x2xf32, [0.1 0.25]>} : tensor<1x2xf32>
  %i = graph.cast(%q) {to = i32} : tensor<4x2xi32>
  %zs = graph.broadcast(%z) {shape = [4, 2]} : tensor<4x2xi32>
  %c = graph.sub(%i, %zs) : tensor<4x2xi32>
  %f = graph.cast(%c) {to = f32} : tensor<4x2xf32>
  %ss = graph.broadcast(%s) {shape = [4, 2]} : tensor<4x2xf32>
  %w = graph.mul(%f, %ss) : tensor<4x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xf32>
  return(%y)
}
// A block of two steps is no whole word; what is summed is not the last dim of x; nothing says that weights are integers.
func @no_word(%x: tensor<2x4xf32>) {
  %q = graph.constant() {value = dense<1x4xu8, [0 15 8 3]>} : tensor<1x4xu8>
  %s = graph.constant() {value = dense<1x4xf32, [0.5 0.5 0.25 0.25]>} : tensor<1x4xf32>
  %f = graph.cast(%q) {to = f32} : tensor<1x4xf32>
  %w = graph.mul(%f, %s) : tensor<1x4xf32>
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<2x1xf32>
  return(%y)
}
func @turned(%x: tensor<8x2xf32>) {
  %q = graph.constant() {value = dense<1x8xu8, [0 15 8 3 1 2 3 4]>} : tensor<1x8xu8>
  %f = graph.cast(%q) {to = f32} : tensor<1x8xf32>
  %y = graph.contract(%x, %f) {spec = "km,nk->mn"} : tensor<2x1xf32>
  return(%y)
}
func @floats(%x: tensor<2x4xf32>) {
  %w = graph.constant() {value = dense<1x4xf32, [0.0 15.0 8.0 3.0]>} : tensor<1x4xf32>
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<2x1xf32>
  return(%y)
}
// -----
func @columns(%x: tensor<(n)x8xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x1x2xi32, [1935823168 -68494904 16711935 0]>} : tensor<2x1x2xi32>
  %v1 = graph.constant() {value = dense<2x1x2xf16, [0.5 0.25 2.0 0.0]>} : tensor<2x1x2xf16>
  %y = graph.contract_packed(%x, %v0, %v1) {bits = 4, columns = 3, zero = 8} : tensor<(n)x3xf32>
  return(%y)
}

func @points(%x: tensor<2x4xf32>) {
  %v0 = graph.constant() {value = dense<1x1x2xi32, [100958208 117769215]>} : tensor<1x1x2xi32>
  %v1 = graph.constant() {value = dense<1x1x2xf32, [0.1 0.25]>} : tensor<1x1x2xf32>
  %v2 = graph.constant() {value = dense<1x1x2xu8, [128 3]>} : tensor<1x1x2xu8>
  %y = graph.contract_packed(%x, %v0, %v1, %v2) {bits = 8, columns = 2} : tensor<2x2xf32>
  return(%y)
}

func @no_word(%x: tensor<2x4xf32>) {
  %q = graph.constant() {value = dense<1x4xu8, [0 15 8 3]>} : tensor<1x4xu8>
  %s = graph.constant() {value = dense<1x4xf32, [0.5 0.5 0.25 0.25]>} : tensor<1x4xf32>
  %f = graph.cast(%q) {to = f32} : tensor<1x4xf32>
  %w = graph.mul(%f, %s) : tensor<1x4xf32>
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<2x1xf32>
  return(%y)
}

func @turned(%x: tensor<8x2xf32>) {
  %q = graph.constant() {value = dense<1x8xu8, [0 15 8 3 1 2 3 4]>} : tensor<1x8xu8>
  %f = graph.cast(%q) {to = f32} : tensor<1x8xf32>
  %y = graph.contract(%x, %f) {spec = "km,nk->mn"} : tensor<2x1xf32>
  return(%y)
}

func @floats(%x: tensor<2x4xf32>) {
  %w = graph.constant() {value = dense<1x4xf32, [0.0 15.0 8.0 3.0]>} : tensor<1x4xf32>
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<2x1xf32>
  return(%y)
}
