// RUN: split-long-sums
// RULES
func @reduce_in_parts(%x: tensor<2x262144xf16>, %y: tensor<2x262144xf16>) {
  %v0 = graph.mul(%x, %y) : tensor<2x262144xf16>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = true, kind = "sum"} : tensor<2x1xf16>
  return(%v1)
}
func @reduce_in_parts__columns(%x: tensor<65536x8xf32>, %h: tensor<65536x8xf16>) {
  %v0 = graph.reduce(%x) {axes = [0], kind = "max"} : tensor<8xf32>
  %v1 = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<65536xf32>
  %v2 = graph.reduce(%h) {axes = [0], kind = "sum"} : tensor<8xf16>
  return(%v0, %v1, %v2)
}
func @multiply_in_parts(%x: tensor<16x8192xf16>, %w: tensor<8192x64xf16>) {
  %v0 = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x64xf16>
  return(%v0)
}
func @multiply_in_parts__batch(%x: tensor<3x8192xf32>, %w: tensor<3x8192xf32>) {
  %v0 = graph.contract(%x, %w) {spec = "bp,bp->b"} : tensor<3xf32>
  return(%v0)
}
func @multiply_in_parts__row(%x: tensor<8192xf16>, %w: tensor<8192x320xf16>) {
  %v0 = graph.contract(%x, %w) {spec = "k,kn->n"} : tensor<320xf16>
  return(%v0)
}
// -----
func @reduce_in_parts(%x: tensor<2x262144xf16>, %y: tensor<2x262144xf16>) {
  %v0 = graph.reshape(%x) {shape = [2, 64, 4096]} : tensor<2x64x4096xf16>
  %v1 = graph.reshape(%y) {shape = [2, 64, 4096]} : tensor<2x64x4096xf16>
  %v2 = graph.mul(%v0, %v1) : tensor<2x64x4096xf16>
  %v3 = graph.cast(%v2) {to = f32} : tensor<2x64x4096xf32>
  %v4 = graph.reduce(%v3) {axes = [2], kind = "sum"} : tensor<2x64xf32>
  %v5 = graph.reduce(%v4) {axes = [1], kind = "sum"} : tensor<2xf32>
  %v6 = graph.cast(%v5) {to = f16} : tensor<2xf16>
  %v7 = graph.reshape(%v6) {shape = [2, 1]} : tensor<2x1xf16>
  return(%v7)
}

func @reduce_in_parts__columns(%x: tensor<65536x8xf32>, %h: tensor<65536x8xf16>) {
  %v0 = graph.reshape(%x) {shape = [128, 512, 8]} : tensor<128x512x8xf32>
  %v1 = graph.reduce(%v0) {axes = [1], kind = "max"} : tensor<128x8xf32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "max"} : tensor<8xf32>
  %v3 = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<65536xf32>
  %v4 = graph.reduce(%h) {axes = [0], kind = "sum"} : tensor<8xf16>
  return(%v2, %v3, %v4)
}

func @multiply_in_parts(%x: tensor<16x8192xf16>, %w: tensor<8192x64xf16>) {
  %v0 = graph.reshape(%x) {shape = [16, 32, 256]} : tensor<16x32x256xf16>
  %v1 = graph.reshape(%w) {shape = [32, 256, 64]} : tensor<32x256x64xf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "mpk,pkn->pmn"} : tensor<32x16x64xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<16x64xf32>
  %v4 = graph.cast(%v3) {to = f16} : tensor<16x64xf16>
  return(%v4)
}

func @multiply_in_parts__batch(%x: tensor<3x8192xf32>, %w: tensor<3x8192xf32>) {
  %v0 = graph.reshape(%x) {shape = [3, 32, 256]} : tensor<3x32x256xf32>
  %v1 = graph.reshape(%w) {shape = [3, 32, 256]} : tensor<3x32x256xf32>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "bqp,bqp->qb"} : tensor<32x3xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<3xf32>
  return(%v3)
}

func @multiply_in_parts__row(%x: tensor<8192xf16>, %w: tensor<8192x320xf16>) {
  %v0 = graph.reshape(%x) {shape = [8, 1024]} : tensor<8x1024xf16>
  %v1 = graph.reshape(%w) {shape = [8, 1024, 320]} : tensor<8x1024x320xf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "pk,pkn->pn"} : tensor<8x320xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<320xf32>
  %v4 = graph.cast(%v3) {to = f16} : tensor<320xf16>
  return(%v4)
}
