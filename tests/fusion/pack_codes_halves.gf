// RUN: pack-codes {halves = true, least = 1, width = 4}
// Two codes that follow one another are the low bits of a word's halves; four words of four columns lie together.
func @rows(%x: tensor<(n)x16xbf16>) dims (n in 1..64) {
  %q = graph.constant() {value = dense<1x16xu8, [0 37 74 111 148 185 222 3 40 77 114 151 188 225 6 43]>} : tensor<1x16xu8>
  %f = graph.cast(%q) {to = f32} : tensor<1x16xf32>
  %c = graph.full() {elem = f32, shape = [1, 16], value = 128.0} : tensor<1x16xf32>
  %w = graph.sub(%f, %c) : tensor<1x16xf32>
  %h = graph.cast(%w) {to = bf16} : tensor<1x16xbf16>
  %y = graph.contract(%x, %h) {elem = f32, spec = "mk,nk->mn"} : tensor<(n)x1xf32>
  return(%y)
}
// More rows than multiprocessors keep up with, and blocks of fewer than four words.
func @many(%x: tensor<(n)x16xbf16>) dims (n in 17..64) {
  %q = graph.constant() {value = dense<1x16xu8, [0 37 74 111 148 185 222 3 40 77 114 151 188 225 6 43]>} : tensor<1x16xu8>
  %h = graph.cast(%q) {to = bf16} : tensor<1x16xbf16>
  %y = graph.contract(%x, %h) {elem = f32, spec = "mk,nk->mn"} : tensor<(n)x1xf32>
  return(%y)
}
func @short(%x: tensor<2x16xbf16>) {
  %q = graph.constant() {value = dense<1x16xu8, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]>} : tensor<1x16xu8>
  %h = graph.cast(%q) {to = bf16} : tensor<1x16xbf16>
  %y = graph.contract(%x, %h) {elem = f32, spec = "mk,nk->mn"} : tensor<2x1xf32>
  return(%y)
}
// -----
func @rows(%x: tensor<(n)x16xbf16>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<1x1x1x4x4xi32, [1864714752 0 0 0 62512788 0 0 0 -1756532184 0 0 0 736167612 0 0 0]>} : tensor<1x1x1x4x4xi32>
  %v1 = graph.constant() {value = dense<1x1x4xf16, [1.0 0.0 0.0 0.0]>} : tensor<1x1x4xf16>
  %y = graph.contract_packed(%x, %v0, %v1) {bits = 8, columns = 1, zero = 128} : tensor<(n)x1xf32>
  return(%y)
}

func @many(%x: tensor<(n)x16xbf16>) dims (n in 17..64) {
  %q = graph.constant() {value = dense<1x16xu8, [0 37 74 111 148 185 222 3 40 77 114 151 188 225 6 43]>} : tensor<1x16xu8>
  %h = graph.cast(%q) {to = bf16} : tensor<1x16xbf16>
  %y = graph.contract(%x, %h) {elem = f32, spec = "mk,nk->mn"} : tensor<(n)x1xf32>
  return(%y)
}

func @short(%x: tensor<2x16xbf16>) {
  %q = graph.constant() {value = dense<1x16xu8, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]>} : tensor<1x16xu8>
  %h = graph.cast(%q) {to = bf16} : tensor<1x16xbf16>
  %y = graph.contract(%x, %h) {elem = f32, spec = "mk,nk->mn"} : tensor<2x1xf32>
  return(%y)
}
