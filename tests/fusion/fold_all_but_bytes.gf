// RUN: fold-all-but-bytes
// What bytes are multiplied with stays a cast of bytes; what is computed of other constants beside it is folded.
func @fires(%x: tensor<2x4xi32>) {
  %c = graph.constant() {value = dense<4x2xi8, [1 2 3 4 5 6 7 8]>} : tensor<4x2xi8>
  %w = graph.cast(%c) {to = i32} : tensor<4x2xi32>
  %a = graph.full() {elem = i32, shape = [2, 2], value = 3} : tensor<2x2xi32>
  %b = graph.add(%a, %a) : tensor<2x2xi32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xi32>
  %z = graph.add(%y, %b) : tensor<2x2xi32>
  return(%z)
}
// Without bytes the other passes fold.
func @declines(%x: tensor<2xf32>) {
  %a = graph.full() {elem = f32, shape = [2], value = 3.0} : tensor<2xf32>
  %b = graph.exp(%a) : tensor<2xf32>
  %y = graph.add(%x, %b) : tensor<2xf32>
  return(%y)
}
// Bytes alone: nothing is known of x.
func @nothing_to_fold(%x: tensor<2x4xi32>) {
  %c = graph.constant() {value = dense<4x2xi8, [1 2 3 4 5 6 7 8]>} : tensor<4x2xi8>
  %w = graph.cast(%c) {to = i32} : tensor<4x2xi32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xi32>
  return(%y)
}
// -----
func @fires(%x: tensor<2x4xi32>) {
  %c = graph.constant() {value = dense<4x2xi8, [1 2 3 4 5 6 7 8]>} : tensor<4x2xi8>
  %w = graph.cast(%c) {to = i32} : tensor<4x2xi32>
  %v0 = graph.full() {elem = i32, shape = [2, 2], value = 6} : tensor<2x2xi32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xi32>
  %z = graph.add(%y, %v0) : tensor<2x2xi32>
  return(%z)
}

func @declines(%x: tensor<2xf32>) {
  %a = graph.full() {elem = f32, shape = [2], value = 3.0} : tensor<2xf32>
  %b = graph.exp(%a) : tensor<2xf32>
  %y = graph.add(%x, %b) : tensor<2xf32>
  return(%y)
}

func @nothing_to_fold(%x: tensor<2x4xi32>) {
  %c = graph.constant() {value = dense<4x2xi8, [1 2 3 4 5 6 7 8]>} : tensor<4x2xi8>
  %w = graph.cast(%c) {to = i32} : tensor<4x2xi32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xi32>
  return(%y)
}
