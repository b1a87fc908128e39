// RUN: search-rows{held=32768}
// Registers do not hold the row, nor columns side by side, and one walk finds the place.
func @long(%x: tensor<400x100000xf32>, %y: tensor<2000x400xf32>) {
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<400xi64>
  %s = graph.arg_reduce(%y) {axis = 0, kind = "max"} : tensor<400xi64>
  return(%r, %s)
}

// The other extreme is wanted as well.
func @other_value(%x: tensor<400x100000xf32>) {
  %m = graph.reduce(%x) {axes = [1], keepdims = false, kind = "min"} : tensor<400xf32>
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<400xi64>
  return(%m, %r)
}

// The place in a row of nothing is 0.
func @unknown(%x: tensor<4x(n)xf32>) dims (n in 0..4096) {
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<4xi64>
  return(%r)
}
