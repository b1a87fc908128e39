// RUN: recognise-flattening
// No dims are merged.
func @dims_stay(%x: tensor<4x8xf32>) {
  %s = graph.reduce(%x) {axes = [1], keepdims = true, kind = "sum"} : tensor<4x1xf32>
  %b = graph.broadcast(%s) {shape = [4, 8]} : tensor<4x8xf32>
  %r = graph.sub(%x, %b) : tensor<4x8xf32>
  return(%r)
}
