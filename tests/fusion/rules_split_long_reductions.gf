// RUN: split-long-reductions
// RULES
func @reduce_rows_first(%x: tensor<(n)x512xf32>, %h: tensor<(n)x4x128xf16>, %s: tensor<(n)x4xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [0, 1], kind = "sum"} : tensor<f32>
  %v1 = graph.reduce(%h) {axes = [0, 1, 2], kind = "max"} : tensor<f16>
  %v2 = graph.reduce(%s) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%v0, %v1, %v2)
}
func @reduce_rows_first__unknown(%x: tensor<2x3x(n)x(n)xf32>) dims (n in 1..512) {
  %v0 = graph.reduce(%x) {axes = [0, 2, 3], kind = "sum"} : tensor<3xf32>
  return(%v0)
}
func @reduce_rows_first__apart(%x: tensor<(n)x3x5x80xf16>, %s: tensor<4x3x5xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [0, 2, 3], kind = "sum"} : tensor<3xf16>
  %v1 = graph.reduce(%s) {axes = [0, 2], keepdims = true, kind = "max"} : tensor<1x3x1xf32>
  return(%v0, %v1)
}
// A prime number of terms: some are a product of their own.
func @multiply_deep_in_parts(%x: tensor<48x5003xf16>, %w: tensor<56x5003xf32>) {
  %v0 = graph.contract(%x, %w) {elem = f32, spec = "mk,nk->mn"} : tensor<48x56xf32>
  return(%v0)
}
func @multiply_deep_in_parts__batch(%x: tensor<2x4608x48xf32>, %w: tensor<2x4608x64xf32>) {
  %v0 = graph.contract(%x, %w) {spec = "bkm,bkn->bmn"} : tensor<2x48x64xf32>
  return(%v0)
}
// -----
func @reduce_rows_first(%x: tensor<(n)x512xf32>, %h: tensor<(n)x4x128xf16>, %s: tensor<(n)x4xf32>) dims (n in 1..65536) {
  %v0 = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<(n)xf32>
  %v1 = graph.reduce(%v0) {axes = [0], kind = "sum"} : tensor<f32>
  %v2 = graph.reduce(%h) {axes = [1, 2], kind = "max"} : tensor<(n)xf16>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "max"} : tensor<f16>
  %v4 = graph.reduce(%s) {axes = [0, 1], kind = "sum"} : tensor<f32>
  return(%v1, %v3, %v4)
}

func @reduce_rows_first__unknown(%x: tensor<2x3x(n)x(n)xf32>) dims (n in 1..512) {
  %v0 = graph.reduce(%x) {axes = [2, 3], kind = "sum"} : tensor<2x3xf32>
  %v1 = graph.reduce(%v0) {axes = [0], kind = "sum"} : tensor<3xf32>
  return(%v1)
}

func @reduce_rows_first__apart(%x: tensor<(n)x3x5x80xf16>, %s: tensor<4x3x5xf32>) dims (n in 1..65536) {
  %v0 = graph.cast(%x) {to = f32} : tensor<(n)x3x5x80xf32>
  %v1 = graph.reduce(%v0) {axes = [2, 3], kind = "sum"} : tensor<(n)x3xf32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "sum"} : tensor<3xf32>
  %v3 = graph.cast(%v2) {to = f16} : tensor<3xf16>
  %v4 = graph.reduce(%s) {axes = [0, 2], keepdims = true, kind = "max"} : tensor<1x3x1xf32>
  return(%v3, %v4)
}

func @multiply_deep_in_parts(%x: tensor<48x5003xf16>, %w: tensor<56x5003xf32>) {
  %v0 = graph.slice(%x) {sizes = [48, 5000], starts = [0, 0], steps = [1, 1]} : tensor<48x5000xf16>
  %v1 = graph.reshape(%v0) {shape = [48, 4, 1250]} : tensor<48x4x1250xf16>
  %v2 = graph.slice(%w) {sizes = [56, 5000], starts = [0, 0], steps = [1, 1]} : tensor<56x5000xf32>
  %v3 = graph.reshape(%v2) {shape = [56, 4, 1250]} : tensor<56x4x1250xf32>
  %v4 = graph.contract(%v1, %v3) {elem = f32, spec = "mpk,npk->pmn"} : tensor<4x48x56xf32>
  %v5 = graph.reduce(%v4) {axes = [0], kind = "sum"} : tensor<48x56xf32>
  %v6 = graph.slice(%x) {sizes = [48, 3], starts = [0, 5000], steps = [1, 1]} : tensor<48x3xf16>
  %v7 = graph.slice(%w) {sizes = [56, 3], starts = [0, 5000], steps = [1, 1]} : tensor<56x3xf32>
  %v8 = graph.contract(%v6, %v7) {elem = f32, spec = "mk,nk->mn"} : tensor<48x56xf32>
  %v9 = graph.add(%v5, %v8) : tensor<48x56xf32>
  return(%v9)
}

func @multiply_deep_in_parts__batch(%x: tensor<2x4608x48xf32>, %w: tensor<2x4608x64xf32>) {
  %v0 = graph.reshape(%x) {shape = [2, 3, 1536, 48]} : tensor<2x3x1536x48xf32>
  %v1 = graph.reshape(%w) {shape = [2, 3, 1536, 64]} : tensor<2x3x1536x64xf32>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "bpkm,bpkn->pbmn"} : tensor<3x2x48x64xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<2x48x64xf32>
  return(%v3)
}
