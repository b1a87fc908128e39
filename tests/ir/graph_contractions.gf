// RUN:
// Contractions and convolutions: batched, grouped, dilated, transposed, in both layouts.
func @contract(%a: tensor<2x(m)x8xf32>, %b: tensor<2x8x(n)xf32>, %v: tensor<8xf32>) {
  %mm = graph.contract(%a, %b) {spec = "bmk,bkn->bmn"} : tensor<2x(m)x(n)xf32>
  %swapped = graph.contract(%b, %a) {spec = "bkn,bmk->nbm"} : tensor<(n)x2x(m)xf32>
  %vec = graph.contract(%a, %v) {spec = "bmk,k->bm"} : tensor<2x(m)xf32>
  %outer = graph.contract(%v, %v) {spec = "i,j->ij"} : tensor<8x8xf32>
  %dot = graph.contract(%v, %v) {spec = "i,i->"} : tensor<f32>
  return(%mm, %swapped, %vec, %outer, %dot)
}

func @accumulate(%a: tensor<(m)x8xbf16>, %b: tensor<8x3xbf16>, %i: tensor<(m)x8xi8>, %j: tensor<8x3xi8>, %q: tensor<3x8xi8>, %s: tensor<3x2xbf16>) {
  %half = graph.contract(%a, %b) {spec = "mk,kn->mn"} : tensor<(m)x3xbf16>
  %single = graph.contract(%a, %b) {elem = f32, spec = "mk,kn->mn"} : tensor<(m)x3xf32>
  %int = graph.contract(%i, %j) {elem = i32, spec = "mk,kn->mn"} : tensor<(m)x3xi32>
  %parts = graph.contract_parts(%a, %a, %b, %b) {spec = "mk,kn->mn"} : tensor<(m)x3xf32>
  %blocks = graph.contract_blocks(%a, %q, %s) {spec = "mk,nk->mn"} : tensor<(m)x3xf32>
  return(%half, %single, %int, %parts, %blocks)
}

func @packed(%a: tensor<2x(m)x8xbf16>, %i: tensor<(m)x8xi8>, %t: tensor<(m)x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x4xu8>, %b: tensor<(m)x32xbf16>, %l: tensor<1x1x16x4x4xi32>, %u: tensor<2x32xf16>) {
  %floats = graph.contract_packed(%a, %p, %s) {bits = 4, columns = 7, zero = 8} : tensor<2x(m)x7xf32>
  %bytes = graph.contract_packed(%i, %p, %s, %t, %z) {bits = 4, columns = 8} : tensor<(m)x8xf32>
  %lanes = graph.contract_packed(%b, %l, %u) {bits = 4, columns = 5, zero = 8} : tensor<(m)x5xf32>
  return(%floats, %bytes, %lanes)
}

func @conv(%x: tensor<(n)x4x9x9xf32>, %w: tensor<6x2x3x3xf32>, %d: tensor<4x1x3x3xf32>, %t: tensor<5x4x2x2xf32>) {
  %grouped = graph.conv(%x, %w) {dilation = [1, 2], groups = 2, high = [1, 0], input_dilation = [1, 1], low = [1, 2], strides = [2, 1]} : tensor<(n)x6x5x7xf32>
  %depthwise = graph.conv(%x, %d) {dilation = [1, 1], groups = 4, high = [1, 1], input_dilation = [1, 1], low = [1, 1], strides = [1, 1]} : tensor<(n)x4x9x9xf32>
  %transposed = graph.conv(%x, %t) {dilation = [1, 1], high = [1, 1], input_dilation = [2, 2], low = [1, 1], strides = [1, 1]} : tensor<(n)x5x18x18xf32>
  %cropped = graph.conv(%x, %t) {dilation = [1, 1], high = [-1, 0], input_dilation = [1, 1], low = [-2, 0], strides = [1, 1]} : tensor<(n)x5x5x8xf32>
  return(%grouped, %depthwise, %transposed, %cropped)
}

func @channels_last(%x: tensor<2x(s + 4)x3xf32>, %w: tensor<3x3x8xf32>) {
  %y = graph.conv(%x, %w) {dilation = [1], high = [0], input_dilation = [1], layout = "nhwc", low = [0], strides = [2]} : tensor<2x(floordiv(s + 1, 2) + 1)x8xf32>
  return(%y)
}
