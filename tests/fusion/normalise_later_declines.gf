// RUN: normalise-later
// A mean that is subtracted, rows that are read again, rows whose halves might overflow, a matrix that is not known, and sums in integers.
func @centred(%x: tensor<(n)x2xbf16>, %r: tensor<(n)x1xbf16>, %s: tensor<(n)x1xbf16>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2x2xbf16, [1 2 3 4]>} : tensor<2x2xbf16>
  %sb = graph.broadcast(%s) {shape = [(n), 2]} : tensor<(n)x2xbf16>
  %c = graph.sub(%x, %sb) : tensor<(n)x2xbf16>
  %b = graph.broadcast(%r) {shape = [(n), 2]} : tensor<(n)x2xbf16>
  %z = graph.mul(%c, %b) : tensor<(n)x2xbf16>
  %y = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xbf16>
  return(%y)
}

func @read_again(%x: tensor<(n)x2xbf16>, %r: tensor<(n)x1xbf16>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2x2xbf16, [1 2 3 4]>} : tensor<2x2xbf16>
  %b = graph.broadcast(%r) {shape = [(n), 2]} : tensor<(n)x2xbf16>
  %z = graph.mul(%x, %b) : tensor<(n)x2xbf16>
  %y = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xbf16>
  return(%y, %z)
}

func @overflows(%x: tensor<(n)x2xf32>, %r: tensor<(n)x1xf32>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2x2xf16, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf16>
  %b = graph.broadcast(%r) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %d = graph.mul(%x, %b) : tensor<(n)x2xf32>
  %z = graph.cast(%d) {to = f16} : tensor<(n)x2xf16>
  %y = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xf16>
  return(%y)
}

func @unknown(%x: tensor<(n)x2xbf16>, %r: tensor<(n)x1xbf16>, %w: tensor<2x2xbf16>) dims (n in 1..64) {
  %b = graph.broadcast(%r) {shape = [(n), 2]} : tensor<(n)x2xbf16>
  %z = graph.mul(%x, %b) : tensor<(n)x2xbf16>
  %y = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<(n)x2xbf16>
  return(%y)
}

func @integers(%x: tensor<(n)x2xbf16>, %r: tensor<(n)x1xbf16>) dims (n in 1..64) {
  %w = graph.constant() {value = dense<2x2xbf16, [1 2 3 4]>} : tensor<2x2xbf16>
  %f = graph.cast(%x) {to = f32} : tensor<(n)x2xf32>
  %g = graph.cast(%r) {to = f32} : tensor<(n)x1xf32>
  %b = graph.broadcast(%g) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %d = graph.mul(%f, %b) : tensor<(n)x2xf32>
  %z = graph.cast(%d) {to = bf16} : tensor<(n)x2xbf16>
  %y = graph.contract(%z, %w) {elem = i32, spec = "mk,kn->mn"} : tensor<(n)x2xi32>
  return(%y)
}
