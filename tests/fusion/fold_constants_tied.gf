// RUN: fold-constants, canonicalize
// Weights that an embedding and a head share stay one constant: the head reads them by its labels.
func @f(%ids: tensor<(n)xi64>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %x = graph.take(%w, %ids) {axis = 0} : tensor<(n)x2xf32>
  %t = graph.permute(%w) {perm = [1, 0]} : tensor<2x3xf32>
  %y = graph.contract(%x, %t) {spec = "nk,kv->nv"} : tensor<(n)x3xf32>
  return(%y)
}
// -----
func @f(%ids: tensor<(n)xi64>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %x = graph.take(%w, %ids) {axis = 0} : tensor<(n)x2xf32>
  %y = graph.contract(%x, %w) {spec = "nk,vk->nv"} : tensor<(n)x3xf32>
  return(%y)
}
