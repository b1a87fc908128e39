// RUN: multiply-bytes
// A factor that is not known; zero points along k; operands that are no bytes.
func @not_known(%x: tensor<5x4xu8>, %w: tensor<4x2xi8>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x4xi32>
  %b = graph.cast(%w) {to = i32} : tensor<4x2xi32>
  %y = graph.contract(%a, %b) {spec = "mk,kn->mn"} : tensor<5x2xi32>
  return(%y)
}
func @zero_points_along_k(%x: tensor<5x4xu8>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x4xi32>
  %z = graph.constant() {value = dense<4xi32, [1 2 3 4]>} : tensor<4xi32>
  %r = graph.broadcast(%z) {shape = [5, 4]} : tensor<5x4xi32>
  %c = graph.sub(%a, %r) : tensor<5x4xi32>
  %q = graph.constant() {value = dense<4x1xi8, [1 -2 3 -4]>} : tensor<4x1xi8>
  %b = graph.cast(%q) {to = i32} : tensor<4x1xi32>
  %y = graph.contract(%c, %b) {spec = "mk,kn->mn"} : tensor<5x1xi32>
  return(%y)
}
func @wider_sums(%x: tensor<5x4xi32>) {
  %q = graph.constant() {value = dense<4x1xi8, [1 -2 3 -4]>} : tensor<4x1xi8>
  %b = graph.cast(%q) {to = i32} : tensor<4x1xi32>
  %y = graph.contract(%x, %b) {spec = "mk,kn->mn"} : tensor<5x1xi32>
  return(%y)
}
// -----
func @not_known(%x: tensor<5x4xu8>, %w: tensor<4x2xi8>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x4xi32>
  %b = graph.cast(%w) {to = i32} : tensor<4x2xi32>
  %y = graph.contract(%a, %b) {spec = "mk,kn->mn"} : tensor<5x2xi32>
  return(%y)
}

func @zero_points_along_k(%x: tensor<5x4xu8>) {
  %a = graph.cast(%x) {to = i32} : tensor<5x4xi32>
  %z = graph.constant() {value = dense<4xi32, [1 2 3 4]>} : tensor<4xi32>
  %r = graph.broadcast(%z) {shape = [5, 4]} : tensor<5x4xi32>
  %c = graph.sub(%a, %r) : tensor<5x4xi32>
  %q = graph.constant() {value = dense<4x1xi8, [1 -2 3 -4]>} : tensor<4x1xi8>
  %b = graph.cast(%q) {to = i32} : tensor<4x1xi32>
  %y = graph.contract(%c, %b) {spec = "mk,kn->mn"} : tensor<5x1xi32>
  return(%y)
}

func @wider_sums(%x: tensor<5x4xi32>) {
  %q = graph.constant() {value = dense<4x1xi8, [1 -2 3 -4]>} : tensor<4x1xi8>
  %b = graph.cast(%q) {to = i32} : tensor<4x1xi32>
  %y = graph.contract(%x, %b) {spec = "mk,kn->mn"} : tensor<5x1xi32>
  return(%y)
}
