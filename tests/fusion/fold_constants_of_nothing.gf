// RUN: fold-constants
// No element is left of a tensor of unknown size.
func @f(%x: tensor<(n)xf32>) dims (n in 1..64) {
  %k = graph.constant() {value = dense<0xf32, []>} : tensor<0xf32>
  %w = graph.constant() {value = dense<1x0xf32, []>} : tensor<1x0xf32>
  %b = graph.broadcast(%w) {shape = [(n), 2, 0]} : tensor<(n)x2x0xf32>
  %r = graph.reshape(%b) {shape = [0]} : tensor<0xf32>
  %y = graph.add(%k, %r) : tensor<0xf32>
  return(%x, %y)
}
