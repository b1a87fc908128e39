// RUN: compute-again
// What is multiplied is read from memory.
func @factor(%x: tensor<64x32xf16>, %y: tensor<32x16xf32>) {
  %c = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<64x32xf16>) {
    %w = graph.cast(%h) {to = f32} : tensor<64x32xf32>
    yield(%w)
  } : tensor<64x32xf32>
  %r = graph.region(%c, %y) {kernel = "contraction_0", kind = "contraction"} do (%a: tensor<64x32xf32>, %b: tensor<32x16xf32>) {
    %m = graph.contract(%a, %b) {spec = "mk,kn->mn"} : tensor<64x16xf32>
    yield(%m)
  } : tensor<64x16xf32>
  return(%r)
}

// What is returned is stored, and two operands take more bytes than their sum.
func @stored(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) {
  %c, %d = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<64x32xf32>, %b: tensor<64x32xf32>) {
    %s = graph.add(%a, %b) : tensor<64x32xf32>
    %t = graph.neg(%a) : tensor<64x32xf32>
    yield(%s, %t)
  } : tensor<64x32xf32>, tensor<64x32xf32>
  %r = graph.region(%c) {kernel = "reduction_0", kind = "reduction"} do (%w: tensor<64x32xf32>) {
    %h = graph.cast(%w) {to = f16} : tensor<64x32xf16>
    %m = graph.reduce(%h) {axes = [0], keepdims = false, kind = "max"} : tensor<32xf16>
    yield(%m)
  } : tensor<32xf16>
  return(%d, %r)
}
