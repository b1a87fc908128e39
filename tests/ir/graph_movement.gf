// RUN:
// Every movement op.
func @moves(%x: tensor<2x(n)x3xf32>, %row: tensor<3xf32>, %one: tensor<2x1x3xf32>, %m: tensor<(m)xf32>) {
  %reshape = graph.reshape(%x) {shape = [(2*n), 3]} : tensor<(2*n)x3xf32>
  %permute = graph.permute(%x) {perm = [2, 0, 1]} : tensor<3x2x(n)xf32>
  %broadcast = graph.broadcast(%row) {shape = [2, (n), 3]} : tensor<2x(n)x3xf32>
  %ones = graph.broadcast(%one) {shape = [2, (n), 3]} : tensor<2x(n)x3xf32>
  %stretch = graph.stretch(%x) {shape = [2, (max(m, n)), 3]} : tensor<2x(max(m, n))x3xf32>
  %slice = graph.slice(%x) {sizes = [1, 1, 2], starts = [1, (n - 1), 0], steps = [1, 1, 2]} : tensor<1x1x2xf32>
  %pad = graph.pad(%x) {high = [0, (n), 0], low = [1, 0, 2], value = -1.5} : tensor<3x(2*n)x5xf32>
  %edge = graph.pad(%x) {high = [0, 0, 1], low = [0, 2, 1], mode = "edge"} : tensor<2x(n + 2)x5xf32>
  %reflect = graph.pad(%x) {high = [1, 0, 0], low = [0, 0, 2], mode = "reflect"} : tensor<3x(n)x5xf32>
  %wrap = graph.pad(%x) {high = [0, 0, 1], low = [0, 0, 2], mode = "wrap"} : tensor<2x(n)x6xf32>
  %concat = graph.concat(%x, %one, %x) {axis = 1} : tensor<2x(2*n + 1)x3xf32>
  %flip = graph.flip(%x) {axes = [0, 1]} : tensor<2x(n)x3xf32>
  return(%reshape, %permute, %broadcast, %ones, %stretch, %slice, %pad, %edge, %reflect, %wrap, %concat, %flip)
}
