// RUN: multiply-by-reciprocal
// Each element has a divisor of its own.
func @elementwise(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %r = graph.div(%x, %y) : tensor<4x8xf32>
  return(%r)
}
