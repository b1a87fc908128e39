// RUN: merge-contractions
// A member with an epilogue of its own keeps it: only epilogues that join may wait for a later kernel.
// What is returned is not cut out of more, which would take a copy.
func @f(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %u = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v = graph.constant() {value = dense<2x2xf32, [3.0 4.0 5.0 6.0]>} : tensor<2x2xf32>
  %a = graph.contract(%x, %u) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %b = graph.contract(%x, %v) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %p = graph.exp(%a) : tensor<(n)x2xf32>
  return(%p, %b)
}
func @returned(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %u = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v = graph.constant() {value = dense<2x2xf32, [3.0 4.0 5.0 6.0]>} : tensor<2x2xf32>
  %a = graph.contract(%x, %u) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %b = graph.contract(%x, %v) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %p = graph.reshape(%a) {shape = [(2*n)]} : tensor<(2*n)xf32>
  return(%p, %b)
}
// -----
func @f(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %u = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v = graph.constant() {value = dense<2x2xf32, [3.0 4.0 5.0 6.0]>} : tensor<2x2xf32>
  %a = graph.contract(%x, %u) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %b = graph.contract(%x, %v) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %p = graph.exp(%a) : tensor<(n)x2xf32>
  return(%p, %b)
}

func @returned(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %u = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v = graph.constant() {value = dense<2x2xf32, [3.0 4.0 5.0 6.0]>} : tensor<2x2xf32>
  %a = graph.contract(%x, %u) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %b = graph.contract(%x, %v) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %p = graph.reshape(%a) {shape = [(2*n)]} : tensor<(2*n)xf32>
  return(%p, %b)
}
