// RUN: fold-constants
// A fill is known by one element; its permutation must still be the whole tensor.
func @f(%x: tensor<3x2xf32>) {
  %a = graph.full() {elem = f32, shape = [2, 3], value = 1.5} : tensor<2x3xf32>
  %p = graph.permute(%a) {perm = [1, 0]} : tensor<3x2xf32>
  %y = graph.add(%x, %p) : tensor<3x2xf32>
  return(%y)
}
// -----
func @f(%x: tensor<3x2xf32>) {
  %v0 = graph.full() {elem = f32, shape = [3, 2], value = 1.5} : tensor<3x2xf32>
  %y = graph.add(%x, %v0) : tensor<3x2xf32>
  return(%y)
}
