// RUN: search-rows
// RULES
func @place_of_extreme(%x: tensor<4x1000xf32>) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = true, kind = "max"} : tensor<4x1xf32>
  %v1 = graph.arg_reduce(%x) {axis = 1, keepdims = true, kind = "max"} : tensor<4x1xi64>
  return(%v0, %v1)
}
func @place_of_extreme__last(%x: tensor<4x(n)x1xu8>) dims (n in 32..4096) {
  %v0 = graph.arg_reduce(%x) {axis = 1, kind = "min", last = true} : tensor<4x1xi64>
  return(%v0)
}
// -----
func @place_of_extreme(%x: tensor<4x1000xf32>) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = true, kind = "max"} : tensor<4x1xf32>
  %v1 = graph.broadcast(%v0) {shape = [4, 1000]} : tensor<4x1000xf32>
  %v2 = graph.eq(%x, %v1) : tensor<4x1000xbool>
  %v3 = graph.isnan(%x) : tensor<4x1000xbool>
  %v4 = graph.or(%v2, %v3) : tensor<4x1000xbool>
  %v5 = graph.iota() {axis = 1, elem = i32, shape = [4, 1000]} : tensor<4x1000xi32>
  %v6 = graph.full() {elem = i32, shape = [4, 1000], value = 2147483647} : tensor<4x1000xi32>
  %v7 = graph.select(%v4, %v5, %v6) : tensor<4x1000xi32>
  %v8 = graph.reduce(%v7) {axes = [1], keepdims = true, kind = "min"} : tensor<4x1xi32>
  %v9 = graph.cast(%v8) {to = i64} : tensor<4x1xi64>
  return(%v0, %v9)
}

func @place_of_extreme__last(%x: tensor<4x(n)x1xu8>) dims (n in 32..4096) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "min"} : tensor<4x1xu8>
  %v1 = graph.reshape(%v0) {shape = [4, 1, 1]} : tensor<4x1x1xu8>
  %v2 = graph.broadcast(%v1) {shape = [4, (n), 1]} : tensor<4x(n)x1xu8>
  %v3 = graph.eq(%x, %v2) : tensor<4x(n)x1xbool>
  %v4 = graph.iota() {axis = 1, elem = i32, shape = [4, (n), 1]} : tensor<4x(n)x1xi32>
  %v5 = graph.full() {elem = i32, shape = [4, (n), 1], value = -1} : tensor<4x(n)x1xi32>
  %v6 = graph.select(%v3, %v4, %v5) : tensor<4x(n)x1xi32>
  %v7 = graph.reduce(%v6) {axes = [1], keepdims = false, kind = "max"} : tensor<4x1xi32>
  %v8 = graph.cast(%v7) {to = i64} : tensor<4x1xi64>
  return(%v8)
}
