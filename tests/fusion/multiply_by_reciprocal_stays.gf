// RUN: multiply-by-reciprocal
// Each element has a divisor of its own.
func @elementwise(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %r = graph.div(%x, %y) : tensor<4x8xf32>
  return(%r)
}

// The reciprocal of a half would be rounded to few digits.
func @shared_half(%x: tensor<4x8xf16>, %y: tensor<8xf16>) {
  %b = graph.broadcast(%y) {shape = [4, 8]} : tensor<4x8xf16>
  %r = graph.div(%x, %b) : tensor<4x8xf16>
  return(%r)
}
