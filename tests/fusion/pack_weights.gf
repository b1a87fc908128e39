// RUN: pack-weights {target = "cpu:x86-64-v3"}
// The last panel is filled with zeros, which the way back leaves out.
func @fires(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<2x6xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 0.0 1.0 2.0 3.0 4.0]>} : tensor<2x6xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  return(%y)
}
// What a caller gives is laid out as it is.
func @declines(%x: tensor<4x3xf32>, %w: tensor<3x20xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x20xf32>
  return(%y)
}
// A panel already.
func @narrow(%x: tensor<4x3xf32>) {
  %w = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  return(%y)
}

// Panels of a table: the look-up reads through the way back.
func @table(%x: tensor<3x4x1xf32>, %i: tensor<3xi32>) {
  %w = graph.constant() {value = dense<2x1x6xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 0.0 1.0 2.0 3.0 4.0]>} : tensor<2x1x6xf32>
  %t = graph.take(%w, %i) {axis = 0} : tensor<3x1x6xf32>
  %y = graph.contract(%x, %t) {spec = "tmk,tkn->tmn"} : tensor<3x4x6xf32>
  return(%y)
}
// -----
func @fires(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<1x2x8xf32, [0.0 1.0 2.0 3.0 4.0 5.0 0.0 0.0 6.0 0.0 1.0 2.0 3.0 4.0 0.0 0.0]>} : tensor<1x2x8xf32>
  %v0 = graph.permute(%w) {perm = [1, 0, 2]} : tensor<2x1x8xf32>
  %v1 = graph.reshape(%v0) {shape = [2, 8]} : tensor<2x8xf32>
  %v2 = graph.slice(%v1) {sizes = [2, 6], starts = [0, 0], steps = [1, 1]} : tensor<2x6xf32>
  %y = graph.contract(%x, %v2) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  return(%y)
}

func @declines(%x: tensor<4x3xf32>, %w: tensor<3x20xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x20xf32>
  return(%y)
}

func @narrow(%x: tensor<4x3xf32>) {
  %w = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  return(%y)
}

func @table(%x: tensor<3x4x1xf32>, %i: tensor<3xi32>) {
  %w = graph.constant() {value = dense<1x2x1x8xf32, [0.0 1.0 2.0 3.0 4.0 5.0 0.0 0.0 6.0 0.0 1.0 2.0 3.0 4.0 0.0 0.0]>} : tensor<1x2x1x8xf32>
  %v0 = graph.permute(%w) {perm = [1, 2, 0, 3]} : tensor<2x1x1x8xf32>
  %v1 = graph.reshape(%v0) {shape = [2, 1, 8]} : tensor<2x1x8xf32>
  %v2 = graph.slice(%v1) {sizes = [2, 1, 6], starts = [0, 0, 0], steps = [1, 1, 1]} : tensor<2x1x6xf32>
  %v3 = graph.take(%v2, %i) {axis = 0} : tensor<3x1x6xf32>
  %y = graph.contract(%x, %v3) {spec = "tmk,tkn->tmn"} : tensor<3x4x6xf32>
  return(%y)
}
