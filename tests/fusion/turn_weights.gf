// RUN: turn-weights
// One row or many: the matrix is turned.
func @any(%x: tensor<(m)x8xf16>) dims (m in 1..64) {
  %w = graph.constant() {value = dense<8x2xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0 12.0 13.0 14.0 15.0 16.0]>} : tensor<8x2xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(m)x2xf16>
  return(%y)
}

// Several rows at least.
func @rows(%x: tensor<(m)x8xf16>) dims (m in 2..64) {
  %w = graph.constant() {value = dense<8x1xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<8x1xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(m)x1xf16>
  return(%y)
}

// Something else reads the matrix.
func @shared(%x: tensor<1x8xf16>) {
  %w = graph.constant() {value = dense<8x1xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<8x1xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<1x1xf16>
  %z = graph.neg(%w) : tensor<8x1xf16>
  return(%y, %z)
}

// Rows would begin within a vector of 16 bytes.
func @unaligned(%x: tensor<1x6xf16>) {
  %w = graph.constant() {value = dense<6x1xf16, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<6x1xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<1x1xf16>
  return(%y)
}
// -----
func @any(%x: tensor<(m)x8xf16>) dims (m in 1..64) {
  %w = graph.constant() {value = dense<8x2xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0 12.0 13.0 14.0 15.0 16.0]>} : tensor<8x2xf16>
  %v0 = graph.constant() {value = dense<2x8xf16, [1.0 3.0 5.0 7.0 9.0 11.0 13.0 15.0 2.0 4.0 6.0 8.0 10.0 12.0 14.0 16.0]>} : tensor<2x8xf16>
  %v1 = graph.contract(%x, %v0) {spec = "mk,nk->mn"} : tensor<(m)x2xf16>
  return(%v1)
}

func @rows(%x: tensor<(m)x8xf16>) dims (m in 2..64) {
  %w = graph.constant() {value = dense<8x1xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<8x1xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(m)x1xf16>
  return(%y)
}

func @shared(%x: tensor<1x8xf16>) {
  %w = graph.constant() {value = dense<8x1xf16, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<8x1xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<1x1xf16>
  %z = graph.neg(%w) : tensor<8x1xf16>
  return(%y, %z)
}

func @unaligned(%x: tensor<1x6xf16>) {
  %w = graph.constant() {value = dense<6x1xf16, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<6x1xf16>
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<1x1xf16>
  return(%y)
}
