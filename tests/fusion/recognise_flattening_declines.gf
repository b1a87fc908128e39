// RUN: recognise-flattening, canonicalize
// What is summed would be two dims, which are one label: only rows are taken apart in a product.
func @summed_dims(%x: tensor<4x3xf32>, %w: tensor<6x5xf32>) {
  %r = graph.reshape(%x) {shape = [2, 6]} : tensor<2x6xf32>
  %c = graph.contract(%r, %w) {spec = "mk,ko->mo"} : tensor<2x5xf32>
  return(%c)
}
// As many elements in dims of other sizes are not those rows.
func @other_rows(%x: tensor<2x3x4xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %v = graph.reshape(%x) {shape = [12, 2]} : tensor<12x2xf32>
  %s = graph.reduce(%v) {axes = [1], kind = "sum"} : tensor<12xf32>
  return(%r, %s)
}
// What a reduction left of a row is no row that a product could read.
func @product_of_sums(%x: tensor<2x3x4xf32>, %w: tensor<1x5xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %s = graph.reduce(%r) {axes = [1], keepdims = true, kind = "sum"} : tensor<6x1xf32>
  %c = graph.contract(%s, %w) {spec = "mk,ko->mo"} : tensor<6x5xf32>
  return(%c)
}
// Each row has weights of its own.
func @weights_by_row(%x: tensor<2x3x4xf32>, %w: tensor<6x4x5xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %c = graph.contract(%r, %w) {spec = "mk,mko->mo"} : tensor<6x5xf32>
  return(%c)
}
// Sums of rows that come from other dims: what they have in common is their number.
func @sums_of_two_forms(%x: tensor<2x3x4xf32>, %y: tensor<3x2x5xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %s = graph.reduce(%r) {axes = [1], keepdims = true, kind = "sum"} : tensor<6x1xf32>
  %q = graph.reshape(%y) {shape = [6, 5]} : tensor<6x5xf32>
  %t = graph.reduce(%q) {axes = [1], keepdims = true, kind = "sum"} : tensor<6x1xf32>
  %a = graph.add(%s, %t) : tensor<6x1xf32>
  %b = graph.broadcast(%s) {shape = [6, 5]} : tensor<6x5xf32>
  %d = graph.sub(%q, %b) : tensor<6x5xf32>
  return(%a, %d)
}
// A number for each sum: rows were taken apart, sums of them are known by what they were made of.
func @sums_and_a_number(%x: tensor<2x3x4xf32>, %y: tensor<1xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %s = graph.reduce(%r) {axes = [1], keepdims = true, kind = "sum"} : tensor<6x1xf32>
  %b = graph.broadcast(%y) {shape = [6, 1]} : tensor<6x1xf32>
  %a = graph.add(%s, %b) : tensor<6x1xf32>
  return(%a)
}
// -----
func @summed_dims(%x: tensor<4x3xf32>, %w: tensor<6x5xf32>) {
  %v0 = graph.reshape(%x) {shape = [2, 6]} : tensor<2x6xf32>
  %c = graph.contract(%v0, %w) {spec = "mk,ko->mo"} : tensor<2x5xf32>
  return(%c)
}

func @other_rows(%x: tensor<2x3x4xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %v = graph.reshape(%x) {shape = [12, 2]} : tensor<12x2xf32>
  %s = graph.reduce(%v) {axes = [1], kind = "sum"} : tensor<12xf32>
  return(%r, %s)
}

func @product_of_sums(%x: tensor<2x3x4xf32>, %w: tensor<1x5xf32>) {
  %v0 = graph.reduce(%x) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x3x1xf32>
  %s = graph.reshape(%v0) {shape = [6, 1]} : tensor<6x1xf32>
  %c = graph.contract(%s, %w) {spec = "mk,ko->mo"} : tensor<6x5xf32>
  return(%c)
}

func @weights_by_row(%x: tensor<2x3x4xf32>, %w: tensor<6x4x5xf32>) {
  %r = graph.reshape(%x) {shape = [6, 4]} : tensor<6x4xf32>
  %c = graph.contract(%r, %w) {spec = "mk,mko->mo"} : tensor<6x5xf32>
  return(%c)
}

func @sums_of_two_forms(%x: tensor<2x3x4xf32>, %y: tensor<3x2x5xf32>) {
  %v0 = graph.reduce(%x) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x3x1xf32>
  %s = graph.reshape(%v0) {shape = [6, 1]} : tensor<6x1xf32>
  %v1 = graph.reduce(%y) {axes = [2], keepdims = true, kind = "sum"} : tensor<3x2x1xf32>
  %t = graph.reshape(%v1) {shape = [6, 1]} : tensor<6x1xf32>
  %a = graph.add(%s, %t) : tensor<6x1xf32>
  %v2 = graph.reshape(%v0) {shape = [3, 2, 1]} : tensor<3x2x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [3, 2, 5]} : tensor<3x2x5xf32>
  %v4 = graph.sub(%y, %v3) : tensor<3x2x5xf32>
  %d = graph.reshape(%v4) {shape = [6, 5]} : tensor<6x5xf32>
  return(%a, %d)
}

func @sums_and_a_number(%x: tensor<2x3x4xf32>, %y: tensor<1xf32>) {
  %v0 = graph.reduce(%x) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x3x1xf32>
  %s = graph.reshape(%v0) {shape = [6, 1]} : tensor<6x1xf32>
  %b = graph.broadcast(%y) {shape = [6, 1]} : tensor<6x1xf32>
  %a = graph.add(%s, %b) : tensor<6x1xf32>
  return(%a)
}
