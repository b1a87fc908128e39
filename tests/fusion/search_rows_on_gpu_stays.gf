// RUN: search-rows{held=32768}
// Registers do not hold the row, nor columns side by side, and one walk finds the place.
func @long(%x: tensor<3x40000xf32>, %y: tensor<20000x3xf32>) {
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<3xi64>
  %s = graph.arg_reduce(%y) {axis = 0, kind = "max"} : tensor<3xi64>
  return(%r, %s)
}

// The other extreme is wanted as well.
func @other_value(%x: tensor<3x40000xf32>) {
  %m = graph.reduce(%x) {axes = [1], keepdims = false, kind = "min"} : tensor<3xf32>
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<3xi64>
  return(%m, %r)
}

// The place in a row of nothing is 0.
func @unknown(%x: tensor<4x(n)xf32>) dims (n in 0..4096) {
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<4xi64>
  return(%r)
}
