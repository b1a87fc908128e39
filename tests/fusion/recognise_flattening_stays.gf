// RUN: recognise-flattening
// No dims are merged.
func @dims_stay(%x: tensor<4x8xf32>) {
  %s = graph.reduce(%x) {axes = [1], keepdims = true, kind = "sum"} : tensor<4x1xf32>
  %b = graph.broadcast(%s) {shape = [4, 8]} : tensor<4x8xf32>
  %r = graph.sub(%x, %b) : tensor<4x8xf32>
  return(%r)
}

// A column is not taken apart: its parts and one are of any shape.
func @column(%x: tensor<2x3x1xf32>) {
  %r = graph.reshape(%x) {shape = [6, 1]} : tensor<6x1xf32>
  %e = graph.exp(%r) : tensor<6x1xf32>
  return(%e)
}

// A number is of no dims, so none is flattened.
func @number(%x: tensor<f32>) {
  %r = graph.reshape(%x) {shape = [1, 1]} : tensor<1x1xf32>
  %e = graph.exp(%r) : tensor<1x1xf32>
  return(%e)
}
