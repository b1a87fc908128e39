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
func @permute_of_contract__of_a_permute(%a: tensor<(n)x4x3xf32>, %b: tensor<3x4xf32>, %c: tensor<4x4xf32>) dims (n in 1..64) {
  %v0 = graph.contract(%a, %b) {spec = "nik,ko->nio"} : tensor<(n)x4x4xf32>
  %v1 = graph.permute(%v0) {perm = [1, 0, 2]} : tensor<4x(n)x4xf32>
  %v2 = graph.reshape(%c) {shape = [4, 1, 4]} : tensor<4x1x4xf32>
  %v3 = graph.broadcast(%v2) {shape = [4, (n), 4]} : tensor<4x(n)x4xf32>
  %v4 = graph.iota() {axis = 2, elem = f32, shape = [4, (n), 4]} : tensor<4x(n)x4xf32>
  %v5 = graph.add(%v1, %v4) : tensor<4x(n)x4xf32>
  %v6 = graph.tanh(%v5) : tensor<4x(n)x4xf32>
  %v7 = graph.permute(%v6) {perm = [2, 0, 1]} : tensor<4x4x(n)xf32>
  return(%v7, %v3)
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

func @permute_of_contract__of_a_permute(%a: tensor<(n)x4x3xf32>, %b: tensor<3x4xf32>, %c: tensor<4x4xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%c) {shape = [4, 1, 4]} : tensor<4x1x4xf32>
  %v1 = graph.broadcast(%v0) {shape = [4, (n), 4]} : tensor<4x(n)x4xf32>
  %v2 = graph.contract(%a, %b) {spec = "nik,ko->oin"} : tensor<4x4x(n)xf32>
  %v3 = graph.iota() {axis = 0, elem = f32, shape = [4, 4, (n)]} : tensor<4x4x(n)xf32>
  %v4 = graph.add(%v2, %v3) : tensor<4x4x(n)xf32>
  %v5 = graph.tanh(%v4) : tensor<4x4x(n)xf32>
  return(%v5, %v1)
}
