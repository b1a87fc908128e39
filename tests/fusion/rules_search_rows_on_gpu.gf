// RUN: search-rows{held=32768}
// RULES
func @place_of_extreme__columns(%x: tensor<7x61x5xf16>) {
  %v0 = graph.arg_reduce(%x) {axis = 1, kind = "min"} : tensor<7x5xi64>
  return(%v0)
}
func @place_of_extreme__with_value(%x: tensor<3x40000xi32>) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "max"} : tensor<3xi32>
  %v1 = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<3xi64>
  return(%v0, %v1)
}
// -----
func @place_of_extreme__columns(%x: tensor<7x61x5xf16>) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "min"} : tensor<7x5xf16>
  %v1 = graph.reshape(%v0) {shape = [7, 1, 5]} : tensor<7x1x5xf16>
  %v2 = graph.broadcast(%v1) {shape = [7, 61, 5]} : tensor<7x61x5xf16>
  %v3 = graph.eq(%x, %v2) : tensor<7x61x5xbool>
  %v4 = graph.isnan(%x) : tensor<7x61x5xbool>
  %v5 = graph.or(%v3, %v4) : tensor<7x61x5xbool>
  %v6 = graph.iota() {axis = 1, elem = i32, shape = [7, 61, 5]} : tensor<7x61x5xi32>
  %v7 = graph.full() {elem = i32, shape = [7, 61, 5], value = 2147483647} : tensor<7x61x5xi32>
  %v8 = graph.select(%v5, %v6, %v7) : tensor<7x61x5xi32>
  %v9 = graph.reduce(%v8) {axes = [1], keepdims = false, kind = "min"} : tensor<7x5xi32>
  %v10 = graph.cast(%v9) {to = i64} : tensor<7x5xi64>
  return(%v10)
}

func @place_of_extreme__with_value(%x: tensor<3x40000xi32>) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "max"} : tensor<3xi32>
  %v1 = graph.reshape(%v0) {shape = [3, 1]} : tensor<3x1xi32>
  %v2 = graph.broadcast(%v1) {shape = [3, 40000]} : tensor<3x40000xi32>
  %v3 = graph.eq(%x, %v2) : tensor<3x40000xbool>
  %v4 = graph.iota() {axis = 1, elem = i32, shape = [3, 40000]} : tensor<3x40000xi32>
  %v5 = graph.full() {elem = i32, shape = [3, 40000], value = 2147483647} : tensor<3x40000xi32>
  %v6 = graph.select(%v3, %v4, %v5) : tensor<3x40000xi32>
  %v7 = graph.reduce(%v6) {axes = [1], keepdims = false, kind = "min"} : tensor<3xi32>
  %v8 = graph.cast(%v7) {to = i64} : tensor<3xi64>
  return(%v0, %v8)
}
