// RUN: fold-batch-norm
// Bytes wrap before they are summed as floats: scaled weights would not.
func @bytes_summed_as_floats(%x: tensor<4x2xi8>) {
  %s = graph.full() {elem = i8, shape = [4, 2], value = 100} : tensor<4x2xi8>
  %v = graph.mul(%x, %s) : tensor<4x2xi8>
  %w = graph.constant() {value = dense<2x2xi8, [1 0 0 1]>} : tensor<2x2xi8>
  %y = graph.contract(%v, %w) {elem = f32, spec = "mk,kn->mn"} : tensor<4x2xf32>
  return(%y)
}

// What is known altogether is folded elsewhere.
func @known_altogether() {
  %a = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %b = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %y = graph.sub(%a, %b) : tensor<2xf32>
  return(%y)
}

// A weight of 0 times infinity would be NaN.
func @infinite_scale(%x: tensor<4x2xf32>) {
  %w = graph.constant() {value = dense<2x2xf32, [0.0 1.0 1.0 0.0]>} : tensor<2x2xf32>
  %c = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x2xf32>
  %s = graph.full() {elem = f32, shape = [4, 2], value = inf} : tensor<4x2xf32>
  %y = graph.mul(%c, %s) : tensor<4x2xf32>
  return(%y)
}

func @infinite_scale_before_a_convolution(%x: tensor<1x2x4x4xf32>) {
  %s = graph.full() {elem = f32, shape = [1, 2, 4, 4], value = inf} : tensor<1x2x4x4xf32>
  %v = graph.mul(%x, %s) : tensor<1x2x4x4xf32>
  %w = graph.constant() {value = dense<2x2x1x1xf32, [0.0 1.0 1.0 0.0]>} : tensor<2x2x1x1xf32>
  %y = graph.conv(%v, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x4x4xf32>
  return(%y)
}

// No weight belongs to a column of the image.
func @columns_before_a_convolution(%x: tensor<1x2x1x2xf32>) {
  %s = graph.constant() {value = dense<2xf32, [3.0 7.0]>} : tensor<2xf32>
  %sb = graph.broadcast(%s) {shape = [1, 2, 1, 2]} : tensor<1x2x1x2xf32>
  %v = graph.mul(%x, %sb) : tensor<1x2x1x2xf32>
  %w = graph.constant() {value = dense<2x2x1x1xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2x1x1xf32>
  %y = graph.conv(%v, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x1x2xf32>
  return(%y)
}

// What something else reads is made anyway: a second chain from its beginning would be more work.
func @first_scale_read_twice(%x: tensor<4x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [4, 2]} : tensor<4x2xf32>
  %v = graph.mul(%x, %ab) : tensor<4x2xf32>
  %b = graph.constant() {value = dense<2xf32, [7.0 11.0]>} : tensor<2xf32>
  %bb = graph.broadcast(%b) {shape = [4, 2]} : tensor<4x2xf32>
  %u = graph.add(%v, %bb) : tensor<4x2xf32>
  %c = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %cb = graph.broadcast(%c) {shape = [4, 2]} : tensor<4x2xf32>
  %y = graph.mul(%u, %cb) : tensor<4x2xf32>
  return(%v, %y)
}

func @shifted_read_twice(%x: tensor<4x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [4, 2]} : tensor<4x2xf32>
  %v = graph.mul(%x, %ab) : tensor<4x2xf32>
  %b = graph.constant() {value = dense<2xf32, [7.0 11.0]>} : tensor<2xf32>
  %bb = graph.broadcast(%b) {shape = [4, 2]} : tensor<4x2xf32>
  %u = graph.add(%v, %bb) : tensor<4x2xf32>
  %c = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %cb = graph.broadcast(%c) {shape = [4, 2]} : tensor<4x2xf32>
  %y = graph.mul(%u, %cb) : tensor<4x2xf32>
  return(%u, %y)
}

func @first_of_two_scales_read_twice(%x: tensor<4x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [4, 2]} : tensor<4x2xf32>
  %v = graph.mul(%x, %ab) : tensor<4x2xf32>
  %b = graph.constant() {value = dense<2xf32, [7.0 11.0]>} : tensor<2xf32>
  %bb = graph.broadcast(%b) {shape = [4, 2]} : tensor<4x2xf32>
  %y = graph.mul(%v, %bb) : tensor<4x2xf32>
  return(%v, %y)
}

// A row and a column make a matrix: as one after the other, as scales around a shift, as a bias and a scale.
func @a_row_and_a_column(%x: tensor<3x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [3, 2]} : tensor<3x2xf32>
  %v = graph.mul(%x, %ab) : tensor<3x2xf32>
  %b = graph.constant() {value = dense<3x1xf32, [7.0 11.0 13.0]>} : tensor<3x1xf32>
  %bb = graph.broadcast(%b) {shape = [3, 2]} : tensor<3x2xf32>
  %y = graph.mul(%v, %bb) : tensor<3x2xf32>
  return(%y)
}

func @scales_would_be_a_matrix(%x: tensor<3x2xf32>) {
  %a = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %ab = graph.broadcast(%a) {shape = [3, 2]} : tensor<3x2xf32>
  %v = graph.mul(%x, %ab) : tensor<3x2xf32>
  %b = graph.constant() {value = dense<3x1xf32, [7.0 11.0 13.0]>} : tensor<3x1xf32>
  %bb = graph.broadcast(%b) {shape = [3, 2]} : tensor<3x2xf32>
  %w = graph.add(%v, %bb) : tensor<3x2xf32>
  %c = graph.constant() {value = dense<3x1xf32, [3.0 5.0 17.0]>} : tensor<3x1xf32>
  %cb = graph.broadcast(%c) {shape = [3, 2]} : tensor<3x2xf32>
  %y = graph.mul(%w, %cb) : tensor<3x2xf32>
  return(%y)
}

func @bias_would_be_a_matrix(%x: tensor<3x2xf32>) {
  %w = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %c = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<3x2xf32>
  %b = graph.constant() {value = dense<3x1xf32, [7.0 11.0 13.0]>} : tensor<3x1xf32>
  %bb = graph.broadcast(%b) {shape = [3, 2]} : tensor<3x2xf32>
  %v = graph.add(%c, %bb) : tensor<3x2xf32>
  %s = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %sb = graph.broadcast(%s) {shape = [3, 2]} : tensor<3x2xf32>
  %y = graph.mul(%v, %sb) : tensor<3x2xf32>
  return(%y)
}

// 1000 times 100 is infinite in f16.
func @weights_that_halves_do_not_hold(%x: tensor<1x2x4x4xf16>, %y: tensor<4x2xf16>) {
  %w = graph.constant() {value = dense<2x2x1x1xf16, [1e+03 2.0 3.0 4.0]>} : tensor<2x2x1x1xf16>
  %c = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x4x4xf16>
  %s = graph.full() {elem = f16, shape = [1, 2, 4, 4], value = 100.0} : tensor<1x2x4x4xf16>
  %d = graph.mul(%c, %s) : tensor<1x2x4x4xf16>
  %p = graph.mul(%x, %s) : tensor<1x2x4x4xf16>
  %q = graph.conv(%p, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x2x4x4xf16>
  %v = graph.constant() {value = dense<2x2xf16, [1e+03 2.0 3.0 4.0]>} : tensor<2x2xf16>
  %e = graph.contract(%y, %v) {spec = "mk,kn->mn"} : tensor<4x2xf16>
  %t = graph.full() {elem = f16, shape = [4, 2], value = 100.0} : tensor<4x2xf16>
  %f = graph.mul(%e, %t) : tensor<4x2xf16>
  %g = graph.mul(%y, %t) : tensor<4x2xf16>
  %h = graph.contract(%g, %v) {spec = "mk,kn->mn"} : tensor<4x2xf16>
  return(%d, %q, %f, %h)
}
