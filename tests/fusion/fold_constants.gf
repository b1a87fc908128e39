// RUN: fold-constants
// Known operands fold through broadcasts of unknown size; the broadcast itself stays.
func @f(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %v = graph.constant() {value = dense<1x2xf32, [3.0 5.0]>} : tensor<1x2xf32>
  %r = graph.reshape(%v) {shape = [2]} : tensor<2xf32>
  %s = graph.add(%w, %r) : tensor<2xf32>
  %b = graph.broadcast(%s) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %e = graph.neg(%b) : tensor<(n)x2xf32>
  %y = graph.mul(%x, %e) : tensor<(n)x2xf32>
  return(%y)
}
// -----
func @f(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2xf32, [-4.0 -7.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %y = graph.mul(%x, %v1) : tensor<(n)x2xf32>
  return(%y)
}
