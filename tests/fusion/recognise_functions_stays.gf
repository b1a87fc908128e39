// RUN: recognise-functions
// Another value than the one in the exponent.
func @two_values(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %n = graph.neg(%y) : tensor<4x8xf32>
  %e = graph.exp(%n) : tensor<4x8xf32>
  %r = graph.mul(%x, %e) : tensor<4x8xf32>
  return(%r)
}
