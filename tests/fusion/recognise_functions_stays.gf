// RUN: recognise-functions
// Another value than the one in the exponent.
func @two_values(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %n = graph.neg(%y) : tensor<4x8xf32>
  %e = graph.exp(%n) : tensor<4x8xf32>
  %r = graph.mul(%x, %e) : tensor<4x8xf32>
  return(%r)
}

// More halves than a half can count: a quotient would be by infinity.
func @mean_of_many(%x: tensor<1x70001xf16>) {
  %s = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<1xf16>
  %c = graph.full() {elem = f16, shape = [1], value = 1.430511474609375e-05} : tensor<1xf16>
  %r = graph.mul(%s, %c) : tensor<1xf16>
  return(%r)
}
