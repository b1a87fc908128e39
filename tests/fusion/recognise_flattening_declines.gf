// RUN: recognise-flattening, canonicalize
// What is summed would be two dims, which are one label: only rows are taken apart in a product.
func @summed_dims(%x: tensor<4x3xf32>, %w: tensor<6x5xf32>) {
  %r = graph.reshape(%x) {shape = [2, 6]} : tensor<2x6xf32>
  %c = graph.contract(%r, %w) {spec = "mk,ko->mo"} : tensor<2x5xf32>
  return(%c)
}
// -----
func @summed_dims(%x: tensor<4x3xf32>, %w: tensor<6x5xf32>) {
  %v0 = graph.reshape(%x) {shape = [2, 6]} : tensor<2x6xf32>
  %c = graph.contract(%v0, %w) {spec = "mk,ko->mo"} : tensor<2x5xf32>
  return(%c)
}
