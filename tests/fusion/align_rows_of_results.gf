// RUN: align-rows {target = "cuda:sm_90a"}
// Rows of 1003 halves are written for what reduces them: one copy of the weights moves their rows apart, and adds columns.
func @logits(%x: tensor<2048x97xf16>, %w: tensor<4099x97xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<2048x4099xf16>
  %c = graph.cast(%y) {to = f32} : tensor<2048x4099xf32>
  %m = graph.reduce(%c) {axes = [1], keepdims = true, kind = "max"} : tensor<2048x1xf32>
  return(%m)
}
// Weights of whole rows are copied for that alone: they are less than the result.
func @columns_of_zeros(%x: tensor<640x128xf16>, %w: tensor<128x1003xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<640x1003xf16>
  %m = graph.reduce(%y) {axes = [1], keepdims = true, kind = "max"} : tensor<640x1xf16>
  return(%m)
}
// Few rows are not worth a copy of the weights.
func @few(%x: tensor<64x128xf16>, %w: tensor<1003x128xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<64x1003xf16>
  %m = graph.reduce(%y) {axes = [1], keepdims = true, kind = "max"} : tensor<64x1xf16>
  return(%m)
}
// What is returned is not spaced, and neither is what nobody reduces, along rows.
func @returned(%x: tensor<640x128xf16>, %w: tensor<1003x128xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<640x1003xf16>
  %m = graph.reduce(%y) {axes = [1], keepdims = true, kind = "max"} : tensor<640x1xf16>
  return(%y, %m)
}
func @of_columns(%x: tensor<640x128xf16>, %w: tensor<1003x128xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<640x1003xf16>
  %m = graph.reduce(%y) {axes = [0], keepdims = true, kind = "max"} : tensor<1x1003xf16>
  return(%m)
}
// -----
func @logits(%x: tensor<2048x97xf16>, %w: tensor<4099x97xf16>) {
  %v0 = graph.pad(%x) {high = [0, 15], low = [0, 0], value = 0.0} : tensor<2048x112xf16>
  %v1 = graph.slice(%v0) {sizes = [2048, 97], starts = [0, 0], steps = [1, 1]} : tensor<2048x97xf16>
  %v2 = graph.pad(%w) {high = [13, 15], low = [0, 0], value = 0.0} : tensor<4112x112xf16>
  %v3 = graph.slice(%v2) {sizes = [4112, 97], starts = [0, 0], steps = [1, 1]} : tensor<4112x97xf16>
  %v4 = graph.contract(%v1, %v3) {spec = "mk,nk->mn"} : tensor<2048x4112xf16>
  %v5 = graph.slice(%v4) {sizes = [2048, 4099], starts = [0, 0], steps = [1, 1]} : tensor<2048x4099xf16>
  %c = graph.cast(%v5) {to = f32} : tensor<2048x4099xf32>
  %m = graph.reduce(%c) {axes = [1], keepdims = true, kind = "max"} : tensor<2048x1xf32>
  return(%m)
}

func @columns_of_zeros(%x: tensor<640x128xf16>, %w: tensor<128x1003xf16>) {
  %v0 = graph.pad(%w) {high = [0, 5], low = [0, 0], value = 0.0} : tensor<128x1008xf16>
  %v1 = graph.contract(%x, %v0) {spec = "mk,kn->mn"} : tensor<640x1008xf16>
  %v2 = graph.slice(%v1) {sizes = [640, 1003], starts = [0, 0], steps = [1, 1]} : tensor<640x1003xf16>
  %m = graph.reduce(%v2) {axes = [1], keepdims = true, kind = "max"} : tensor<640x1xf16>
  return(%m)
}

func @few(%x: tensor<64x128xf16>, %w: tensor<1003x128xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<64x1003xf16>
  %m = graph.reduce(%y) {axes = [1], keepdims = true, kind = "max"} : tensor<64x1xf16>
  return(%m)
}

func @returned(%x: tensor<640x128xf16>, %w: tensor<1003x128xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<640x1003xf16>
  %m = graph.reduce(%y) {axes = [1], keepdims = true, kind = "max"} : tensor<640x1xf16>
  return(%y, %m)
}

func @of_columns(%x: tensor<640x128xf16>, %w: tensor<1003x128xf16>) {
  %y = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<640x1003xf16>
  %m = graph.reduce(%y) {axes = [0], keepdims = true, kind = "max"} : tensor<1x1003xf16>
  return(%m)
}
