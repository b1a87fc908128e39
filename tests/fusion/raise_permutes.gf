// RUN: raise-permutes
// RULES
// Both orders of elementwise work move as many elements: what is stored decides, and nothing else moves it.
func @permute_of_elementwise(%x: tensor<4x6xf32>, %y: tensor<6x4xf32>, %b: tensor<6xf32>) {
  %v0 = graph.permute(%y) {perm = [1, 0]} : tensor<4x6xf32>
  %v1 = graph.broadcast(%b) {shape = [4, 6]} : tensor<4x6xf32>
  %v2 = graph.add(%x, %v0) : tensor<4x6xf32>
  %v3 = graph.exp(%v2) : tensor<4x6xf32>
  %v4 = graph.mul(%v3, %v1) : tensor<4x6xf32>
  %v5 = graph.permute(%v4) {perm = [1, 0]} : tensor<6x4xf32>
  return(%v5)
}
func @permute_of_elementwise__two_arguments(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) {
  %v0 = graph.add(%x, %y) : tensor<4x6xf32>
  %v1 = graph.permute(%v0) {perm = [1, 0]} : tensor<6x4xf32>
  return(%v1)
}
// -----
func @permute_of_elementwise(%x: tensor<4x6xf32>, %y: tensor<6x4xf32>, %b: tensor<6xf32>) {
  %v0 = graph.permute(%x) {perm = [1, 0]} : tensor<6x4xf32>
  %v1 = graph.add(%v0, %y) : tensor<6x4xf32>
  %v2 = graph.exp(%v1) : tensor<6x4xf32>
  %v3 = graph.reshape(%b) {shape = [6, 1]} : tensor<6x1xf32>
  %v4 = graph.broadcast(%v3) {shape = [6, 4]} : tensor<6x4xf32>
  %v5 = graph.mul(%v2, %v4) : tensor<6x4xf32>
  return(%v5)
}

func @permute_of_elementwise__two_arguments(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) {
  %v0 = graph.permute(%x) {perm = [1, 0]} : tensor<6x4xf32>
  %v1 = graph.permute(%y) {perm = [1, 0]} : tensor<6x4xf32>
  %v2 = graph.add(%v0, %v1) : tensor<6x4xf32>
  return(%v2)
}
