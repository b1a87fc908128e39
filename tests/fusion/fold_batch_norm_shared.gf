// RUN: fold-batch-norm
// A contraction that is read twice keeps its weights: folding would compute it twice.
func @f(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %s = graph.constant() {value = dense<2xf32, [2.0 4.0]>} : tensor<2xf32>
  %sb = graph.broadcast(%s) {shape = [4, 2]} : tensor<4x2xf32>
  %c = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  %y = graph.mul(%c, %sb) : tensor<4x2xf32>
  return(%c, %y)
}
// -----
func @f(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %s = graph.constant() {value = dense<2xf32, [2.0 4.0]>} : tensor<2xf32>
  %sb = graph.broadcast(%s) {shape = [4, 2]} : tensor<4x2xf32>
  %c = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  %y = graph.mul(%c, %sb) : tensor<4x2xf32>
  return(%c, %y)
}
