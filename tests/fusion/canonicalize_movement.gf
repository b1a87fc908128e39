// RUN: canonicalize
// Movement merges: permutes compose, dims of 1 move by reshape, slices find their operand, concats flatten.
func @f(%x: tensor<(n)x3x1x5xf32>, %y: tensor<(n)x2xf32>, %z: tensor<(n)x4xf32>) dims (n in 1..64) {
  %a = graph.permute(%x) {perm = [0, 3, 2, 1]} : tensor<(n)x5x1x3xf32>
  %b = graph.permute(%a) {perm = [0, 2, 3, 1]} : tensor<(n)x1x3x5xf32>
  %c = graph.reshape(%b) {shape = [(n), 15]} : tensor<(n)x15xf32>
  %d = graph.concat(%y, %z) {axis = 1} : tensor<(n)x6xf32>
  %e = graph.concat(%d, %y) {axis = 1} : tensor<(n)x8xf32>
  %g = graph.slice(%e) {sizes = [(n), 3], starts = [0, 3], steps = [1, 1]} : tensor<(n)x3xf32>
  %h = graph.slice(%e) {sizes = [(n), 4], starts = [0, 0], steps = [1, 1]} : tensor<(n)x4xf32>
  %i = graph.slice(%e) {sizes = [(n), 4], starts = [0, 4], steps = [1, 1]} : tensor<(n)x4xf32>
  %j = graph.concat(%h, %i) {axis = 1} : tensor<(n)x8xf32>
  return(%c, %g, %j)
}
// -----
func @f(%x: tensor<(n)x3x1x5xf32>, %y: tensor<(n)x2xf32>, %z: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 15]} : tensor<(n)x15xf32>
  %e = graph.concat(%y, %z, %y) {axis = 1} : tensor<(n)x8xf32>
  %g = graph.slice(%z) {sizes = [(n), 3], starts = [0, 1], steps = [1, 1]} : tensor<(n)x3xf32>
  return(%v0, %g, %e)
}
