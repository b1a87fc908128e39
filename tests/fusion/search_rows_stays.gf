// RUN: search-rows
// Lanes lie along what is kept.
func @columns(%x: tensor<1000x64xf32>) {
  %r = graph.arg_reduce(%x) {axis = 0, kind = "max"} : tensor<64xi64>
  return(%r)
}

// Rows side by side are less work.
func @short(%x: tensor<1000x31xf32>) {
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<1000xi64>
  return(%r)
}

// The place in a row of nothing is 0, and more places than i32 has are not counted in it.
func @unknown(%x: tensor<4x(n)xf32>, %y: tensor<(m)xf32>) dims (n in 0..4096, m in 32..2147483648) {
  %r = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<4xi64>
  %s = graph.arg_reduce(%y) {axis = 0, kind = "max"} : tensor<i64>
  return(%r, %s)
}
