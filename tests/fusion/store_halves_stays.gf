// RUN: store-halves
// Results of the model are what they are.
func @results(%x: tensor<4x8xf32>) {
  %r = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<4x8xf32>) {
    %b = graph.exp(%a) : tensor<4x8xf32>
    yield(%b)
  } : tensor<4x8xf32>
  return(%r)
}
