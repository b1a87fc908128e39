// RUN: pack-codes {least = 1, lines = true}
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
