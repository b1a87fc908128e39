// RUN: fold-all-but-weights
// Few bytes are folded.
func @fires(%x: tensor<2x4xf32>) {
  %c = graph.constant() {value = dense<4x2xi8, [1 2 3 4 5 6 7 8]>} : tensor<4x2xi8>
  %w = graph.cast(%c) {to = f32} : tensor<4x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xf32>
  return(%y)
}
func @declines(%x: tensor<2x4xf32>, %c: tensor<4x2xi8>) {
  %w = graph.cast(%c) {to = f32} : tensor<4x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xf32>
  return(%y)
}
// Many stay what they are, and so does what is computed of them.
func @many(%x: tensor<2x512xf32>) {
  %a = graph.full() {elem = i8, shape = [512, 128], value = 3} : tensor<512x128xi8>
  %w = graph.cast(%a) {to = f32} : tensor<512x128xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x128xf32>
  return(%y)
}
// -----
func @fires(%x: tensor<2x4xf32>) {
  %v0 = graph.constant() {value = dense<4x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<4x2xf32>
  %y = graph.contract(%x, %v0) {spec = "mk,kn->mn"} : tensor<2x2xf32>
  return(%y)
}

func @declines(%x: tensor<2x4xf32>, %c: tensor<4x2xi8>) {
  %w = graph.cast(%c) {to = f32} : tensor<4x2xf32>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<2x2xf32>
  return(%y)
}

func @many(%x: tensor<2x512xf32>) {
  %v0 = graph.full() {elem = f32, shape = [512, 128], value = 3.0} : tensor<512x128xf32>
  %y = graph.contract(%x, %v0) {spec = "mk,kn->mn"} : tensor<2x128xf32>
  return(%y)
}
