// RUN: align-rows
// Both products read one copy of x; rows of 16 halves stay, and so does f32.
func @f(%x: tensor<4x5xf16>, %w: tensor<4x16xf16>, %v: tensor<4x3xf16>, %y: tensor<4x5xf32>) {
  %a = graph.contract(%x, %w) {spec = "km,kn->mn"} : tensor<5x16xf16>
  %b = graph.contract(%x, %v) {spec = "km,kn->mn"} : tensor<5x3xf16>
  %c = graph.contract(%y, %y) {spec = "km,kn->mn"} : tensor<5x5xf32>
  return(%a, %b, %c)
}
// A batch: rows of two dims are one; x is a view.
func @g(%x: tensor<2x6x(n)x16xf16>, %w: tensor<2x6x7xf16>) dims (n in 1..8) {
  %s = graph.slice(%x) {sizes = [2, 6, (n), 5], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x6x(n)x5xf16>
  %a = graph.contract(%s, %w) {spec = "bkmj,bkn->bmjn"} : tensor<2x(n)x5x7xf16>
  return(%a)
}
// -----
func @f(%x: tensor<4x5xf16>, %w: tensor<4x16xf16>, %v: tensor<4x3xf16>, %y: tensor<4x5xf32>) {
  %v0 = graph.pad(%x) {high = [0, 11], low = [0, 0], value = 0.0} : tensor<4x16xf16>
  %v1 = graph.slice(%v0) {sizes = [4, 5], starts = [0, 0], steps = [1, 1]} : tensor<4x5xf16>
  %a = graph.contract(%v1, %w) {spec = "km,kn->mn"} : tensor<5x16xf16>
  %v2 = graph.pad(%v) {high = [0, 13], low = [0, 0], value = 0.0} : tensor<4x16xf16>
  %v3 = graph.slice(%v2) {sizes = [4, 3], starts = [0, 0], steps = [1, 1]} : tensor<4x3xf16>
  %b = graph.contract(%v1, %v3) {spec = "km,kn->mn"} : tensor<5x3xf16>
  %c = graph.contract(%y, %y) {spec = "km,kn->mn"} : tensor<5x5xf32>
  return(%a, %b, %c)
}

func @g(%x: tensor<2x6x(n)x16xf16>, %w: tensor<2x6x7xf16>) dims (n in 1..8) {
  %s = graph.slice(%x) {sizes = [2, 6, (n), 5], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x6x(n)x5xf16>
  %v0 = graph.pad(%s) {high = [0, 0, 0, 11], low = [0, 0, 0, 0], value = 0.0} : tensor<2x6x(n)x16xf16>
  %v1 = graph.slice(%v0) {sizes = [2, 6, (n), 5], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x6x(n)x5xf16>
  %v2 = graph.pad(%w) {high = [0, 0, 9], low = [0, 0, 0], value = 0.0} : tensor<2x6x16xf16>
  %v3 = graph.slice(%v2) {sizes = [2, 6, 7], starts = [0, 0, 0], steps = [1, 1, 1]} : tensor<2x6x7xf16>
  %a = graph.contract(%v1, %v3) {spec = "bkmj,bkn->bmjn"} : tensor<2x(n)x5x7xf16>
  return(%a)
}
