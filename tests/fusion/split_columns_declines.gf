// RUN: split-columns
// Query and key do not meet, every other column is no neighbour, and a result that is read whole stays whole.
func @apart(%x: tensor<4x2xf32>, %w: tensor<2x6xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  %q = graph.slice(%p) {sizes = [4, 3], starts = [0, 0], steps = [1, 1]} : tensor<4x3xf32>
  %k = graph.slice(%p) {sizes = [4, 3], starts = [0, 3], steps = [1, 1]} : tensor<4x3xf32>
  %s = graph.sigmoid(%q) : tensor<4x3xf32>
  return(%s, %k)
}
func @woven(%x: tensor<4x2xf32>, %w: tensor<2x6xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  %g = graph.slice(%p) {sizes = [4, 3], starts = [0, 0], steps = [1, 2]} : tensor<4x3xf32>
  %u = graph.slice(%p) {sizes = [4, 3], starts = [0, 1], steps = [1, 2]} : tensor<4x3xf32>
  %y = graph.mul(%g, %u) : tensor<4x3xf32>
  return(%y)
}
func @whole(%x: tensor<4x2xf32>, %w: tensor<2x6xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  %g = graph.slice(%p) {sizes = [4, 3], starts = [0, 0], steps = [1, 1]} : tensor<4x3xf32>
  %u = graph.slice(%p) {sizes = [4, 3], starts = [0, 3], steps = [1, 1]} : tensor<4x3xf32>
  %y = graph.mul(%g, %u) : tensor<4x3xf32>
  return(%y, %p)
}
// -----
func @apart(%x: tensor<4x2xf32>, %w: tensor<2x6xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  %q = graph.slice(%p) {sizes = [4, 3], starts = [0, 0], steps = [1, 1]} : tensor<4x3xf32>
  %k = graph.slice(%p) {sizes = [4, 3], starts = [0, 3], steps = [1, 1]} : tensor<4x3xf32>
  %s = graph.sigmoid(%q) : tensor<4x3xf32>
  return(%s, %k)
}

func @woven(%x: tensor<4x2xf32>, %w: tensor<2x6xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  %g = graph.slice(%p) {sizes = [4, 3], starts = [0, 0], steps = [1, 2]} : tensor<4x3xf32>
  %u = graph.slice(%p) {sizes = [4, 3], starts = [0, 1], steps = [1, 2]} : tensor<4x3xf32>
  %y = graph.mul(%g, %u) : tensor<4x3xf32>
  return(%y)
}

func @whole(%x: tensor<4x2xf32>, %w: tensor<2x6xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<4x6xf32>
  %g = graph.slice(%p) {sizes = [4, 3], starts = [0, 0], steps = [1, 1]} : tensor<4x3xf32>
  %u = graph.slice(%p) {sizes = [4, 3], starts = [0, 3], steps = [1, 1]} : tensor<4x3xf32>
  %y = graph.mul(%g, %u) : tensor<4x3xf32>
  return(%y, %p)
}
