// RUN: recognise-functions
// The logistic function, written out, with and without a factor.
func @f(%x: tensor<8xf32>) {
  %one = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %n = graph.neg(%x) : tensor<8xf32>
  %e = graph.exp(%n) : tensor<8xf32>
  %d = graph.add(%e, %one) : tensor<8xf32>
  %s = graph.div(%one, %d) : tensor<8xf32>
  %y = graph.div(%x, %d) : tensor<8xf32>
  return(%s, %y)
}
// -----
func @f(%x: tensor<8xf32>) {
  %s = graph.sigmoid(%x) : tensor<8xf32>
  %v0 = graph.sigmoid(%x) : tensor<8xf32>
  %y = graph.mul(%x, %v0) : tensor<8xf32>
  return(%s, %y)
}
