// RUN: outer-products
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @outer_product(%x: tensor<4x1xbf16>, %y: tensor<3x1xbf16>) {
  %v0 = graph.contract(%x, %y) {spec = "mk,nk->mn"} : tensor<4x3xbf16>
  return(%v0)
}
func @outer_product__moved(%x: tensor<2x1x4xf16>, %y: tensor<1x2x(n)xf16>) dims (n in 1..8) {
  %v0 = graph.contract(%x, %y) {elem = f32, spec = "bkm,kbn->nbm"} : tensor<(n)x2x4xf32>
  return(%v0)
}
func @outer_product__of_one(%x: tensor<1xf32>, %y: tensor<1xf32>) {
  %v0 = graph.contract(%x, %y) {spec = "k,k->"} : tensor<f32>
  return(%v0)
}
// -----
func @outer_product(%x: tensor<4x1xbf16>, %y: tensor<3x1xbf16>) {
  %v0 = graph.broadcast(%x) {shape = [4, 3]} : tensor<4x3xbf16>
  %v1 = graph.reshape(%y) {shape = [3]} : tensor<3xbf16>
  %v2 = graph.broadcast(%v1) {shape = [4, 3]} : tensor<4x3xbf16>
  %v3 = graph.mul(%v0, %v2) : tensor<4x3xbf16>
  return(%v3)
}

func @outer_product__moved(%x: tensor<2x1x4xf16>, %y: tensor<1x2x(n)xf16>) dims (n in 1..8) {
  %v0 = graph.reshape(%x) {shape = [1, 2, 4]} : tensor<1x2x4xf16>
  %v1 = graph.cast(%v0) {to = f32} : tensor<1x2x4xf32>
  %v2 = graph.broadcast(%v1) {shape = [(n), 2, 4]} : tensor<(n)x2x4xf32>
  %v3 = graph.permute(%y) {perm = [0, 2, 1]} : tensor<1x(n)x2xf16>
  %v4 = graph.reshape(%v3) {shape = [(n), 2, 1]} : tensor<(n)x2x1xf16>
  %v5 = graph.cast(%v4) {to = f32} : tensor<(n)x2x1xf32>
  %v6 = graph.broadcast(%v5) {shape = [(n), 2, 4]} : tensor<(n)x2x4xf32>
  %v7 = graph.mul(%v2, %v6) : tensor<(n)x2x4xf32>
  return(%v7)
}

func @outer_product__of_one(%x: tensor<1xf32>, %y: tensor<1xf32>) {
  %v0 = graph.reshape(%x) {shape = []} : tensor<f32>
  %v1 = graph.reshape(%y) {shape = []} : tensor<f32>
  %v2 = graph.mul(%v0, %v1) : tensor<f32>
  return(%v2)
}
