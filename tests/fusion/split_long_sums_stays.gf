// RUN: split-long-sums
// A program has no less to do than there is.
func @short(%x: tensor<4x8xf32>) {
  %r = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<4xf32>
  return(%r)
}

// What one operand alone is summed along is no product to split.
func @sums_of_rows(%x: tensor<2x8192xf32>, %y: tensor<4xf32>) {
  %r = graph.contract(%x, %y) {spec = "mk,n->mn"} : tensor<2x4xf32>
  return(%r)
}

// A part would be too little to pay for the sum of the parts.
func @short_product(%x: tensor<16x1024xf16>, %w: tensor<1024x64xf16>) {
  %r = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x64xf16>
  return(%r)
}
// -----
func @short(%x: tensor<4x8xf32>) {
  %r = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<4xf32>
  return(%r)
}

func @sums_of_rows(%x: tensor<2x8192xf32>, %y: tensor<4xf32>) {
  %r = graph.contract(%x, %y) {spec = "mk,n->mn"} : tensor<2x4xf32>
  return(%r)
}

func @short_product(%x: tensor<16x1024xf16>, %w: tensor<1024x64xf16>) {
  %r = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x64xf16>
  return(%r)
}
