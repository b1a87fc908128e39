// RUN: raise-permutes
// Something else reads what would be permuted; the permute would stand behind work that can take none; three arguments.
func @read_twice(%x: tensor<4x6xf32>) {
  %v0 = graph.exp(%x) : tensor<4x6xf32>
  %v1 = graph.permute(%v0) {perm = [1, 0]} : tensor<6x4xf32>
  return(%v0, %v1)
}

func @behind_work(%x: tensor<4x6x8xf32>) {
  %v0 = graph.reduce(%x) {axes = [2], keepdims = false, kind = "sum"} : tensor<4x6xf32>
  %v1 = graph.exp(%v0) : tensor<4x6xf32>
  %v2 = graph.permute(%v1) {perm = [1, 0]} : tensor<6x4xf32>
  return(%v2)
}

func @more_to_move(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %z: tensor<4x6xf32>) {
  %v0 = graph.add(%x, %y) : tensor<4x6xf32>
  %v1 = graph.mul(%v0, %z) : tensor<4x6xf32>
  %v2 = graph.permute(%v1) {perm = [1, 0]} : tensor<6x4xf32>
  return(%v2)
}

// A constant is permuted by fold_constants, which knows who else reads it.
func @constant() {
  %v0 = graph.constant() {value = dense<2x3xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<2x3xf32>
  %v1 = graph.permute(%v0) {perm = [1, 0]} : tensor<3x2xf32>
  return(%v1)
}
