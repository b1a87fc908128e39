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

// A program reads a row of the matrix, whichever of the two it is.
func @vector_by_rows(%x: tensor<1x8192xf16>, %w: tensor<40x8192xf16>, %u: tensor<3x40x8192x1xf16>) {
  %a = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<1x40xf16>
  %b = graph.contract(%w, %x) {spec = "nk,mk->nm"} : tensor<40x1xf16>
  %c = graph.contract(%x, %u) {spec = "mk,bnkl->bmnl"} : tensor<3x1x40x1xf16>
  return(%a, %b, %c)
}

// What sums of rows are divided by, as probabilities of an attention, stays beside its product, on each side of it.
func @of_sums_on_the_left(%e: tensor<2x8192xf16>, %w: tensor<8192x3xf16>) {
  %s = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<2x1xf16>
  %b = graph.broadcast(%s) {shape = [2, 8192]} : tensor<2x8192xf16>
  %p = graph.div(%e, %b) : tensor<2x8192xf16>
  %r = graph.contract(%p, %w) {spec = "mk,kn->mn"} : tensor<2x3xf16>
  return(%r)
}

func @of_sums_on_the_right(%w: tensor<2x8192xf16>, %e: tensor<8192x3xf16>) {
  %s = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<8192x1xf16>
  %b = graph.broadcast(%s) {shape = [8192, 3]} : tensor<8192x3xf16>
  %p = graph.div(%e, %b) : tensor<8192x3xf16>
  %r = graph.contract(%w, %p) {spec = "mk,kn->mn"} : tensor<2x3xf16>
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

func @vector_by_rows(%x: tensor<1x8192xf16>, %w: tensor<40x8192xf16>, %u: tensor<3x40x8192x1xf16>) {
  %a = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<1x40xf16>
  %b = graph.contract(%w, %x) {spec = "nk,mk->nm"} : tensor<40x1xf16>
  %c = graph.contract(%x, %u) {spec = "mk,bnkl->bmnl"} : tensor<3x1x40x1xf16>
  return(%a, %b, %c)
}

func @of_sums_on_the_left(%e: tensor<2x8192xf16>, %w: tensor<8192x3xf16>) {
  %s = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<2x1xf16>
  %b = graph.broadcast(%s) {shape = [2, 8192]} : tensor<2x8192xf16>
  %p = graph.div(%e, %b) : tensor<2x8192xf16>
  %r = graph.contract(%p, %w) {spec = "mk,kn->mn"} : tensor<2x3xf16>
  return(%r)
}

func @of_sums_on_the_right(%w: tensor<2x8192xf16>, %e: tensor<8192x3xf16>) {
  %s = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<8192x1xf16>
  %b = graph.broadcast(%s) {shape = [8192, 3]} : tensor<8192x3xf16>
  %p = graph.div(%e, %b) : tensor<8192x3xf16>
  %r = graph.contract(%w, %p) {spec = "mk,kn->mn"} : tensor<2x3xf16>
  return(%r)
}
