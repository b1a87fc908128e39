// RUN: outer-products
// Of booleans it is a union.
func @of_booleans(%x: tensor<4x1xbool>, %y: tensor<1x3xbool>) {
  %a = graph.contract(%x, %y) {spec = "mk,kn->mn"} : tensor<4x3xbool>
  return(%a)
}

// A sum over two, and over as many as come.
func @sums(%x: tensor<4x2xf32>, %y: tensor<2x3xf32>, %z: tensor<4x(k)xf32>, %w: tensor<(k)x3xf32>) dims (k in 1..4) {
  %a = graph.contract(%x, %y) {spec = "mk,kn->mn"} : tensor<4x3xf32>
  %b = graph.contract(%z, %w) {spec = "mk,kn->mn"} : tensor<4x3xf32>
  return(%a, %b)
}
