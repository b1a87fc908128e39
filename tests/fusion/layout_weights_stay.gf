// RUN: layout
// Rows of weights follow one merge of dims.
func @two_merges(%x: tensor<2x3x2x3xf32>) {
  %t = graph.permute(%x) {perm = [1, 0, 3, 2]} : tensor<3x2x3x2xf32>
  %f = graph.reshape(%t) {shape = [6, 6]} : tensor<6x6xf32>
  %w = graph.constant() {value = dense<6x2xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0]>} : tensor<6x2xf32>
  %y = graph.contract(%f, %w) {spec = "nk,ko->no"} : tensor<6x2xf32>
  return(%y)
}

// What is merged is cut again: no rows of the weights are those of one dim.
func @merged_and_cut(%x: tensor<2x3xf32>) {
  %t = graph.permute(%x) {perm = [1, 0]} : tensor<3x2xf32>
  %f = graph.reshape(%t) {shape = [2, 3]} : tensor<2x3xf32>
  %w = graph.constant() {value = dense<2x2xf32, [0.0 1.0 2.0 3.0]>} : tensor<2x2xf32>
  %y = graph.contract(%f, %w) {spec = "ka,ko->ao"} : tensor<3x2xf32>
  return(%y)
}

// Rows of the images move as well: other weights would spare no permute.
func @another_dim_moves(%x: tensor<2x3x2xf32>) {
  %t = graph.permute(%x) {perm = [1, 2, 0]} : tensor<3x2x2xf32>
  %f = graph.reshape(%t) {shape = [3, 4]} : tensor<3x4xf32>
  %w = graph.constant() {value = dense<4x2xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0]>} : tensor<4x2xf32>
  %y = graph.contract(%f, %w) {spec = "nk,ko->no"} : tensor<3x2xf32>
  return(%y)
}
// -----
func @two_merges(%x: tensor<2x3x2x3xf32>) {
  %v0 = graph.permute(%x) {perm = [1, 0, 3, 2]} : tensor<3x2x3x2xf32>
  %v1 = graph.reshape(%v0) {shape = [6, 6]} : tensor<6x6xf32>
  %w = graph.constant() {value = dense<6x2xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0]>} : tensor<6x2xf32>
  %y = graph.contract(%v1, %w) {spec = "nk,ko->no"} : tensor<6x2xf32>
  return(%y)
}

func @merged_and_cut(%x: tensor<2x3xf32>) {
  %v0 = graph.permute(%x) {perm = [1, 0]} : tensor<3x2xf32>
  %v1 = graph.reshape(%v0) {shape = [2, 3]} : tensor<2x3xf32>
  %w = graph.constant() {value = dense<2x2xf32, [0.0 1.0 2.0 3.0]>} : tensor<2x2xf32>
  %y = graph.contract(%v1, %w) {spec = "ka,ko->ao"} : tensor<3x2xf32>
  return(%y)
}

func @another_dim_moves(%x: tensor<2x3x2xf32>) {
  %v0 = graph.permute(%x) {perm = [1, 2, 0]} : tensor<3x2x2xf32>
  %v1 = graph.reshape(%v0) {shape = [3, 4]} : tensor<3x4xf32>
  %w = graph.constant() {value = dense<4x2xf32, [0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0]>} : tensor<4x2xf32>
  %y = graph.contract(%v1, %w) {spec = "nk,ko->no"} : tensor<3x2xf32>
  return(%y)
}
