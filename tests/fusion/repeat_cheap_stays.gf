// RUN: repeat-cheap
// A result that is returned is in memory, one that is dear is better read, and so is one of two tensors.
func @returned(%x: tensor<8x512xf32>, %y: tensor<8x512xf32>) {
  %a = graph.neg(%x) : tensor<8x512xf32>
  %b = graph.exp(%a) : tensor<8x512xf32>
  %c = graph.exp(%x) : tensor<8x512xf32>
  %d = graph.neg(%c) : tensor<8x512xf32>
  %e = graph.sqrt(%c) : tensor<8x512xf32>
  %f = graph.add(%x, %y) : tensor<8x512xf32>
  %g = graph.sin(%f) : tensor<8x512xf32>
  %h = graph.cos(%f) : tensor<8x512xf32>
  return(%a, %b, %d, %e, %g, %h)
}

// The input would be more to read; and a product that reads it takes it as it lies.
func @narrowed(%x: tensor<8x512xf32>, %w: tensor<512x16xf32>) {
  %a = graph.cast(%x) {to = bf16} : tensor<8x512xbf16>
  %b = graph.exp(%a) : tensor<8x512xbf16>
  %c = graph.sqrt(%a) : tensor<8x512xbf16>
  %n = graph.neg(%x) : tensor<8x512xf32>
  %p = graph.contract(%n, %w) {spec = "mk,kn->mn"} : tensor<8x16xf32>
  %e = graph.exp(%n) : tensor<8x512xf32>
  return(%b, %c, %p, %e)
}

// One reader needs no copy.
func @once(%x: tensor<8x512xf32>) {
  %a = graph.neg(%x) : tensor<8x512xf32>
  %b = graph.exp(%a) : tensor<8x512xf32>
  return(%b)
}
