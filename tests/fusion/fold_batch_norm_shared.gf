// RUN: fold-batch-norm
// A contraction that is read twice keeps its weights: folding would compute it twice.
func @f(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %s = graph.constant() {value = dense<2xf32, [2.0 4.0]>} : tensor<2xf32>
  %sb = graph.broadcast(%s) {shape = [4, 2]} : tensor<4x2xf32>
  %c = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  %y = graph.mul(%c, %sb) : tensor<4x2xf32>
  return(%c, %y)
}
// A row and a column make a matrix, whichever of them is the shift.
func @shift_would_be_a_matrix(%x: tensor<3x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [3, 2]} : tensor<3x2xf32>
  %v = graph.mul(%x, %ab) : tensor<3x2xf32>
  %b = graph.constant() {value = dense<3x1xf32, [7.0 11.0 13.0]>} : tensor<3x1xf32>
  %bb = graph.broadcast(%b) {shape = [3, 2]} : tensor<3x2xf32>
  %w = graph.add(%v, %bb) : tensor<3x2xf32>
  %c = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %cb = graph.broadcast(%c) {shape = [3, 2]} : tensor<3x2xf32>
  %y = graph.mul(%w, %cb) : tensor<3x2xf32>
  return(%y)
}
// Scaled pixels that something else reads are made anyway.
func @scaled_pixels_read_twice(%x: tensor<1x2x4x4xf32>) {
  %w = graph.constant() {value = dense<2x2x1x1xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2x1x1xf32>
  %s = graph.constant() {value = dense<2x1x1xf32, [3.0 7.0]>} : tensor<2x1x1xf32>
  %sb = graph.broadcast(%s) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %v = graph.mul(%x, %sb) : tensor<1x2x4x4xf32>
  %y = graph.conv(%v, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x4x4xf32>
  return(%v, %y)
}
// -----
func @f(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %s = graph.constant() {value = dense<2xf32, [2.0 4.0]>} : tensor<2xf32>
  %sb = graph.broadcast(%s) {shape = [4, 2]} : tensor<4x2xf32>
  %c = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  %y = graph.mul(%c, %sb) : tensor<4x2xf32>
  return(%c, %y)
}

func @shift_would_be_a_matrix(%x: tensor<3x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [3, 2]} : tensor<3x2xf32>
  %v = graph.mul(%x, %ab) : tensor<3x2xf32>
  %b = graph.constant() {value = dense<3x1xf32, [7.0 11.0 13.0]>} : tensor<3x1xf32>
  %bb = graph.broadcast(%b) {shape = [3, 2]} : tensor<3x2xf32>
  %w = graph.add(%v, %bb) : tensor<3x2xf32>
  %c = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %cb = graph.broadcast(%c) {shape = [3, 2]} : tensor<3x2xf32>
  %y = graph.mul(%w, %cb) : tensor<3x2xf32>
  return(%y)
}

func @scaled_pixels_read_twice(%x: tensor<1x2x4x4xf32>) {
  %w = graph.constant() {value = dense<2x2x1x1xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2x1x1xf32>
  %s = graph.constant() {value = dense<2x1x1xf32, [3.0 7.0]>} : tensor<2x1x1xf32>
  %sb = graph.broadcast(%s) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %v = graph.mul(%x, %sb) : tensor<1x2x4x4xf32>
  %y = graph.conv(%v, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x4x4xf32>
  return(%v, %y)
}
