// RUN: canonicalize
// Where one element of a table is taken, no dim of indices is left to move.
func @take_one(%i: tensor<i64>) {
  %c = graph.constant() {value = dense<2x2x3xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0 12.0]>} : tensor<2x2x3xf32>
  %t = graph.take(%c, %i) {axis = 0} : tensor<2x3xf32>
  %y = graph.permute(%t) {perm = [1, 0]} : tensor<3x2xf32>
  return(%y)
}

// Every other element from 0 on, and from 2 on: 2 is there twice.
func @slices_by_steps(%x: tensor<8xf32>) {
  %a = graph.slice(%x) {sizes = [2], starts = [0], steps = [2]} : tensor<2xf32>
  %b = graph.slice(%x) {sizes = [2], starts = [2], steps = [2]} : tensor<2xf32>
  %y = graph.concat(%a, %b) {axis = 0} : tensor<4xf32>
  return(%y)
}

// Columns of some rows, and the next columns of other rows.
func @slices_of_other_rows(%x: tensor<4x4xf32>) {
  %a = graph.slice(%x) {sizes = [2, 2], starts = [0, 0], steps = [1, 1]} : tensor<2x2xf32>
  %b = graph.slice(%x) {sizes = [2, 2], starts = [1, 2], steps = [1, 1]} : tensor<2x2xf32>
  %y = graph.concat(%a, %b) {axis = 1} : tensor<2x4xf32>
  return(%y)
}
