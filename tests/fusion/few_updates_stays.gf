// RUN: few-updates
// Many updates; a small table; a reader of the sums in f32.
func @many(%x: tensor<4096x1024xbf16>, %i: tensor<2048x1024xi64>, %u: tensor<2048x1024xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<4096x1024xf32>
  %s = graph.scatter_along(%w, %i, %u) {axis = 0, kind = "add"} : tensor<4096x1024xf32>
  %y = graph.cast(%s) {to = bf16} : tensor<4096x1024xbf16>
  return(%y)
}

func @small(%x: tensor<4096x96xf16>, %i: tensor<40x1xi64>, %u: tensor<40x96xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<4096x96xf32>
  %s = graph.scatter_nd(%w, %i, %u) {kind = "add"} : tensor<4096x96xf32>
  %y = graph.cast(%s) {to = f16} : tensor<4096x96xf16>
  return(%y)
}

func @read(%x: tensor<65536x96xf16>, %i: tensor<8x1xi64>, %u: tensor<8x96xf32>) {
  %w = graph.cast(%x) {to = f32} : tensor<65536x96xf32>
  %s = graph.scatter_nd(%w, %i, %u) {kind = "add"} : tensor<65536x96xf32>
  %y = graph.cast(%s) {to = f16} : tensor<65536x96xf16>
  return(%y, %s)
}
