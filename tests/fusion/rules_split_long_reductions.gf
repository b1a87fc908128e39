// RUN: split-long-reductions
// RULES
func @reduce_rows_first(%x: tensor<(n)x512xf32>, %h: tensor<(n)x4x128xf16>, %s: tensor<(n)x4xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [0, 1], kind = "sum"} : tensor<f32>
  %v1 = graph.reduce(%h) {axes = [0, 1, 2], kind = "max"} : tensor<f16>
  %v2 = graph.reduce(%s) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%v0, %v1, %v2)
}
func @reduce_rows_first__unknown(%x: tensor<2x3x(n)x(n)xf32>) dims (n in 1..512) {
  %v0 = graph.reduce(%x) {axes = [0, 2, 3], kind = "sum"} : tensor<3xf32>
  return(%v0)
}
func @reduce_rows_first__apart(%x: tensor<(n)x3x5x40xf16>, %s: tensor<4x3x5xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [0, 2, 3], kind = "sum"} : tensor<3xf16>
  %v1 = graph.reduce(%s) {axes = [0, 2], keepdims = true, kind = "max"} : tensor<1x3x1xf32>
  return(%v0, %v1)
}
// -----
func @reduce_rows_first(%x: tensor<(n)x512xf32>, %h: tensor<(n)x4x128xf16>, %s: tensor<(n)x4xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<(n)xf32>
  %v1 = graph.reduce(%v0) {axes = [0], kind = "sum"} : tensor<f32>
  %v2 = graph.reduce(%h) {axes = [1, 2], kind = "max"} : tensor<(n)xf16>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "max"} : tensor<f16>
  %v4 = graph.reduce(%s) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%v1, %v3, %v4)
}

func @reduce_rows_first__unknown(%x: tensor<2x3x(n)x(n)xf32>) dims (n in 1..512) {
  %v0 = graph.reduce(%x) {axes = [2, 3], kind = "sum"} : tensor<2x3xf32>
  %v1 = graph.reduce(%v0) {axes = [0], kind = "sum"} : tensor<3xf32>
  return(%v1)
}

func @reduce_rows_first__apart(%x: tensor<(n)x3x5x40xf16>, %s: tensor<4x3x5xf32>) dims (n in 1..65536) {
  %v0 = graph.cast(%x) {to = f32} : tensor<(n)x3x5x40xf32>
  %v1 = graph.reduce(%v0) {axes = [2, 3], kind = "sum"} : tensor<(n)x3xf32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "sum"} : tensor<3xf32>
  %v3 = graph.cast(%v2) {to = f16} : tensor<3xf16>
  %v4 = graph.reduce(%s) {axes = [0, 2], keepdims = true, kind = "max"} : tensor<1x3x1xf32>
  return(%v3, %v4)
}
