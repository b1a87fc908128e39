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

// Of numbers so small that 1 / x is infinite it is 0; no root is so small.
func @reciprocal_twice(%x: tensor<4xf32>) {
  %one = graph.full() {elem = f32, shape = [4], value = 1.0} : tensor<4xf32>
  %d = graph.div(%one, %x) : tensor<4xf32>
  %r = graph.div(%one, %d) : tensor<4xf32>
  return(%r)
}

// A third of the largest is no mean: a product costs less than a quotient.
func @third_of_the_largest(%x: tensor<8x3xf32>) {
  %m = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<8xf32>
  %c = graph.full() {elem = f32, shape = [8], value = 0.3333333432674408} : tensor<8xf32>
  %r = graph.mul(%m, %c) : tensor<8xf32>
  return(%r)
}

// Sums of updates that somebody else reads, of halves, or on top of what is not 0.
func @sums_that_stay(%x: tensor<6xf32>, %h: tensor<6xf16>, %i: tensor<4x1xi64>, %u: tensor<4xf32>, %w: tensor<4xf16>) {
  %z = graph.full() {elem = f32, shape = [6], value = 0.0} : tensor<6xf32>
  %s = graph.scatter_nd(%z, %i, %u) {kind = "add"} : tensor<6xf32>
  %y = graph.add(%x, %s) : tensor<6xf32>
  %v = graph.full() {elem = f16, shape = [6], value = 0.0} : tensor<6xf16>
  %t = graph.scatter_nd(%v, %i, %w) {kind = "add"} : tensor<6xf16>
  %m = graph.add(%h, %t) : tensor<6xf16>
  %o = graph.full() {elem = f32, shape = [6], value = 1.0} : tensor<6xf32>
  %c = graph.scatter_nd(%o, %i, %u) {kind = "add"} : tensor<6xf32>
  %d = graph.add(%x, %c) : tensor<6xf32>
  %e = graph.scatter_nd(%z, %i, %u) {kind = "max"} : tensor<6xf32>
  %f = graph.add(%x, %e) : tensor<6xf32>
  return(%y, %s, %m, %d, %f)
}
