// RUN: repeat-cheap
// The sum of squares and what waits for it read the input, each by itself.
func @norm(%x: tensor<8x512xbf16>, %m: tensor<1x512xf32>, %s: tensor<1x512xf32>) {
  %c = graph.cast(%x) {to = f32} : tensor<8x512xf32>
  %b = graph.broadcast(%m) {shape = [8, 512]} : tensor<8x512xf32>
  %d = graph.sub(%c, %b) : tensor<8x512xf32>
  %q = graph.mul(%d, %d) : tensor<8x512xf32>
  %r = graph.reduce(%q) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x512xf32>
  %t = graph.broadcast(%r) {shape = [8, 512]} : tensor<8x512xf32>
  %n = graph.mul(%d, %t) : tensor<8x512xf32>
  return(%n)
}
// -----
func @norm(%x: tensor<8x512xbf16>, %m: tensor<1x512xf32>, %s: tensor<1x512xf32>) {
  %b = graph.broadcast(%m) {shape = [8, 512]} : tensor<8x512xf32>
  %v0 = graph.cast(%x) {to = f32} : tensor<8x512xf32>
  %v1 = graph.sub(%v0, %b) : tensor<8x512xf32>
  %q = graph.mul(%v1, %v1) : tensor<8x512xf32>
  %r = graph.reduce(%q) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x512xf32>
  %t = graph.broadcast(%r) {shape = [8, 512]} : tensor<8x512xf32>
  %v2 = graph.cast(%x) {to = f32} : tensor<8x512xf32>
  %v3 = graph.sub(%v2, %b) : tensor<8x512xf32>
  %n = graph.mul(%v3, %t) : tensor<8x512xf32>
  return(%n)
}
