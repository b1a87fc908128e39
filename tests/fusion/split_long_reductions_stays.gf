// RUN: split-long-reductions
// Rows have sums of their own.
func @rows(%x: tensor<(n)x512xf32>) dims (n in 1..65536) {
  %r = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<(n)xf32>
  return(%r)
}

func @few(%x: tensor<4x8xf32>) {
  %r = graph.reduce(%x) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%r)
}

// Rows before them keep the programs busy.
func @groups(%x: tensor<17x(n)x512xf32>) dims (n in 1..65536) {
  %r = graph.reduce(%x) {axes = [1, 2], kind = "sum"} : tensor<17xf32>
  return(%r)
}

// No more than a program reduces alone.
func @few_rows(%x: tensor<(n)x512xf32>) dims (n in 1..255) {
  %r = graph.reduce(%x) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%r)
}
