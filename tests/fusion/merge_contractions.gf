// RUN: merge-contractions
// Two projections of one value and their biases become one.
func @f(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %u = graph.constant() {value = dense<2x1xf32, [1.0 2.0]>} : tensor<2x1xf32>
  %v = graph.constant() {value = dense<2x2xf32, [3.0 4.0 5.0 6.0]>} : tensor<2x2xf32>
  %s = graph.constant() {value = dense<1xf32, [7.0]>} : tensor<1xf32>
  %t = graph.constant() {value = dense<2xf32, [8.0 9.0]>} : tensor<2xf32>
  %a = graph.contract(%x, %u) {spec = "nk,ko->no"} : tensor<(n)x1xf32>
  %b = graph.contract(%x, %v) {spec = "mi,ij->mj"} : tensor<(n)x2xf32>
  %sb = graph.broadcast(%s) {shape = [(n), 1]} : tensor<(n)x1xf32>
  %tb = graph.broadcast(%t) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %p = graph.add(%a, %sb) : tensor<(n)x1xf32>
  %q = graph.add(%b, %tb) : tensor<(n)x2xf32>
  %e = graph.reduce(%p) {axes = [1], kind = "sum"} : tensor<(n)xf32>
  %f = graph.reduce(%q) {axes = [1], kind = "max"} : tensor<(n)xf32>
  return(%e, %f)
}
// -----
func @f(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x3xf32, [1.0 3.0 4.0 2.0 5.0 6.0]>} : tensor<2x3xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x3xf32>
  %v2 = graph.constant() {value = dense<3xf32, [7.0 8.0 9.0]>} : tensor<3xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 3]} : tensor<(n)x3xf32>
  %v4 = graph.add(%v1, %v3) : tensor<(n)x3xf32>
  %p = graph.slice(%v4) {sizes = [(n), 1], starts = [0, 0], steps = [1, 1]} : tensor<(n)x1xf32>
  %q = graph.slice(%v4) {sizes = [(n), 2], starts = [0, 1], steps = [1, 1]} : tensor<(n)x2xf32>
  %e = graph.reduce(%p) {axes = [1], kind = "sum"} : tensor<(n)xf32>
  %f = graph.reduce(%q) {axes = [1], kind = "max"} : tensor<(n)xf32>
  return(%e, %f)
}
