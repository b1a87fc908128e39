// RUN: simplify-movement
// RULES
// Each function shows the rule of its name.
func @permute_of_contract(%a: tensor<(n)x4x3xf32>, %b: tensor<3x5xf32>, %c: tensor<5xf32>) dims (n in 1..64) {
  %v0 = graph.contract(%a, %b) {spec = "nik,ko->nio"} : tensor<(n)x4x5xf32>
  %v1 = graph.broadcast(%c) {shape = [(n), 4, 5]} : tensor<(n)x4x5xf32>
  %v2 = graph.add(%v0, %v1) : tensor<(n)x4x5xf32>
  %v3 = graph.tanh(%v2) : tensor<(n)x4x5xf32>
  %v4 = graph.permute(%v3) {perm = [0, 2, 1]} : tensor<(n)x5x4xf32>
  return(%v4)
}
// -----
func @permute_of_contract(%a: tensor<(n)x4x3xf32>, %b: tensor<3x5xf32>, %c: tensor<5xf32>) dims (n in 1..64) {
  %v0 = graph.contract(%a, %b) {spec = "nik,ko->noi"} : tensor<(n)x5x4xf32>
  %v1 = graph.reshape(%c) {shape = [5, 1]} : tensor<5x1xf32>
  %v2 = graph.broadcast(%v1) {shape = [(n), 5, 4]} : tensor<(n)x5x4xf32>
  %v3 = graph.add(%v0, %v2) : tensor<(n)x5x4xf32>
  %v4 = graph.tanh(%v3) : tensor<(n)x5x4xf32>
  return(%v4)
}
