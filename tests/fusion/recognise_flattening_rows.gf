// RUN: recognise-flattening, canonicalize
// A linear layer on flattened rows, its bias and the residual around it get one shape.
func @f(%x: tensor<(n)x(s)x4xf32>, %w: tensor<4x4xf32>) dims (n in 1..64, s in 1..64) {
  %b = graph.constant() {value = dense<4xf32, [1.0 2.0 3.0 4.0]>} : tensor<4xf32>
  %r = graph.reshape(%x) {shape = [(n*s), 4]} : tensor<(n*s)x4xf32>
  %c = graph.contract(%r, %w) {spec = "mk,kn->mn"} : tensor<(n*s)x4xf32>
  %bb = graph.broadcast(%b) {shape = [(n*s), 4]} : tensor<(n*s)x4xf32>
  %a = graph.add(%c, %bb) : tensor<(n*s)x4xf32>
  %u = graph.reshape(%a) {shape = [(n), (s), 4]} : tensor<(n)x(s)x4xf32>
  %y = graph.add(%x, %u) : tensor<(n)x(s)x4xf32>
  return(%y)
}
// -----
func @f(%x: tensor<(n)x(s)x4xf32>, %w: tensor<4x4xf32>) dims (n in 1..64, s in 1..64) {
  %v0 = graph.contract(%x, %w) {spec = "abk,kn->abn"} : tensor<(n)x(s)x4xf32>
  %v1 = graph.constant() {value = dense<4xf32, [1.0 2.0 3.0 4.0]>} : tensor<4xf32>
  %v2 = graph.broadcast(%v1) {shape = [(n), (s), 4]} : tensor<(n)x(s)x4xf32>
  %v3 = graph.add(%v0, %v2) : tensor<(n)x(s)x4xf32>
  %y = graph.add(%x, %v3) : tensor<(n)x(s)x4xf32>
  return(%y)
}
