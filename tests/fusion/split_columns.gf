// RUN: split-columns
// Gate and up, packed by their model, meet: each is a product with its own columns, the bias cut as well.
func @f(%x: tensor<(n)x2xf32>, %w: tensor<2x6xf32>, %c: tensor<6xf32>) dims (n in 1..64) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(n)x6xf32>
  %b = graph.broadcast(%c) {shape = [(n), 6]} : tensor<(n)x6xf32>
  %q = graph.add(%p, %b) : tensor<(n)x6xf32>
  %g = graph.slice(%q) {sizes = [(n), 3], starts = [0, 0], steps = [1, 1]} : tensor<(n)x3xf32>
  %u = graph.slice(%q) {sizes = [(n), 3], starts = [0, 3], steps = [1, 1]} : tensor<(n)x3xf32>
  %s = graph.sigmoid(%g) : tensor<(n)x3xf32>
  %y = graph.mul(%s, %u) : tensor<(n)x3xf32>
  return(%y)
}
// -----
func @f(%x: tensor<(n)x2xf32>, %w: tensor<2x6xf32>, %c: tensor<6xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%w) {sizes = [2, 3], starts = [0, 0], steps = [1, 1]} : tensor<2x3xf32>
  %v1 = graph.contract(%x, %v0) {spec = "mk,kn->mn"} : tensor<(n)x3xf32>
  %v2 = graph.slice(%c) {sizes = [3], starts = [0], steps = [1]} : tensor<3xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 3]} : tensor<(n)x3xf32>
  %g = graph.add(%v1, %v3) : tensor<(n)x3xf32>
  %v4 = graph.slice(%w) {sizes = [2, 3], starts = [0, 3], steps = [1, 1]} : tensor<2x3xf32>
  %v5 = graph.contract(%x, %v4) {spec = "mk,kn->mn"} : tensor<(n)x3xf32>
  %v6 = graph.slice(%c) {sizes = [3], starts = [3], steps = [1]} : tensor<3xf32>
  %v7 = graph.broadcast(%v6) {shape = [(n), 3]} : tensor<(n)x3xf32>
  %u = graph.add(%v5, %v7) : tensor<(n)x3xf32>
  %s = graph.sigmoid(%g) : tensor<(n)x3xf32>
  %y = graph.mul(%s, %u) : tensor<(n)x3xf32>
  return(%y)
}
