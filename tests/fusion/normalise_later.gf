// RUN: normalise-later
// The root mean square of a row scales its product, the weights of the norm the rows of the matrix.
func @rms(%x: tensor<(n)x2xbf16>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2x2xbf16, [1.0 2.0 3.0 4.0]>} : tensor<2x2xbf16>
  %g = graph.constant() {value = dense<2xf32, [2.0 0.5]>} : tensor<2xf32>
  %f = graph.cast(%x) {to = f32} : tensor<(n)x2xf32>
  %q = graph.mul(%f, %f) : tensor<(n)x2xf32>
  %s = graph.reduce(%q) {axes = [1], keepdims = true, kind = "sum"} : tensor<(n)x1xf32>
  %r = graph.sqrt(%s) : tensor<(n)x1xf32>
  %b = graph.broadcast(%r) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %d = graph.div(%f, %b) : tensor<(n)x2xf32>
  %gb = graph.broadcast(%g) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %m = graph.mul(%d, %gb) : tensor<(n)x2xf32>
  %z = graph.cast(%m) {to = bf16} : tensor<(n)x2xbf16>
  %y = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xbf16>
  return(%y)
}
func @precision(%x: tensor<(n)x2xf32>, %r: tensor<(n)x1xf32>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<3x2xbf16, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xbf16>
  %b = graph.broadcast(%r) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %d = graph.mul(%x, %b) : tensor<(n)x2xf32>
  %z = graph.cast(%d) {to = bf16} : tensor<(n)x2xbf16>
  %y = graph.contract(%z, %w) {elem = f32, spec = "mk,nk->mn"} : tensor<(n)x3xf32>
  %o = graph.cast(%y) {to = bf16} : tensor<(n)x3xbf16>
  return(%o)
}
// -----
func @rms(%x: tensor<(n)x2xbf16>) dims (n in 1..64) {
  %f = graph.cast(%x) {to = f32} : tensor<(n)x2xf32>
  %q = graph.mul(%f, %f) : tensor<(n)x2xf32>
  %s = graph.reduce(%q) {axes = [1], keepdims = true, kind = "sum"} : tensor<(n)x1xf32>
  %r = graph.sqrt(%s) : tensor<(n)x1xf32>
  %v0 = graph.constant() {value = dense<2x2xbf16, [2 4 1.5 2]>} : tensor<2x2xbf16>
  %v1 = graph.contract(%x, %v0) {elem = f32, spec = "mk,kn->mn"} : tensor<(n)x2xf32>
  %v2 = graph.full() {elem = f32, shape = [(n), 1], value = 1.0} : tensor<(n)x1xf32>
  %v3 = graph.div(%v2, %r) : tensor<(n)x1xf32>
  %v4 = graph.broadcast(%v3) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v5 = graph.mul(%v1, %v4) : tensor<(n)x2xf32>
  %v6 = graph.cast(%v5) {to = bf16} : tensor<(n)x2xbf16>
  return(%v6)
}

func @precision(%x: tensor<(n)x2xf32>, %r: tensor<(n)x1xf32>) dims (n in 1..64) {
  %v0 = graph.cast(%x) {to = bf16} : tensor<(n)x2xbf16>
  %v1 = graph.constant() {value = dense<3x2xbf16, [1 2 3 4 5 6]>} : tensor<3x2xbf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "mk,nk->mn"} : tensor<(n)x3xf32>
  %v3 = graph.broadcast(%r) {shape = [(n), 3]} : tensor<(n)x3xf32>
  %v4 = graph.mul(%v2, %v3) : tensor<(n)x3xf32>
  %o = graph.cast(%v4) {to = bf16} : tensor<(n)x3xbf16>
  return(%o)
}
