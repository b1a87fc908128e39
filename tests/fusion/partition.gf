// RUN: partition {target = "cpu:x86-64-v3"}
// A product takes what is computed of its result; the sum of rows reads all of them, and is a kernel of its own.
func @fires(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>) {
  %p = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<64x48xf32>
  %v = graph.broadcast(%b) {shape = [64, 48]} : tensor<64x48xf32>
  %s = graph.add(%p, %v) : tensor<64x48xf32>
  %y = graph.exp(%s) : tensor<64x48xf32>
  %r = graph.reduce(%y) {axes = [0], kind = "sum"} : tensor<48xf32>
  return(%y, %r)
}
// Nobody asks for anything.
func @declines(%x: tensor<4x8xf32>) {
  return()
}
// A result has memory of its own, even if it is all that a kernel does.
func @movement(%x: tensor<4x8xf32>) {
  %y = graph.reshape(%x) {shape = [32]} : tensor<32xf32>
  return(%y)
}
// Elements of unknown number, one kernel.
func @symbolic(%x: tensor<(n)x8xf32>) dims (n in 0..64) {
  %a = graph.exp(%x) : tensor<(n)x8xf32>
  %b = graph.neg(%a) : tensor<(n)x8xf32>
  return(%b)
}
// -----
func @fires(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>) {
  %y = graph.region(%x, %w, %b) {kernel = "contraction_0", kind = "contraction"} do (%v0: tensor<64x32xf32>, %v1: tensor<32x48xf32>, %v2: tensor<48xf32>) {
    %v3 = graph.contract(%v0, %v1) {spec = "mk,kn->mn"} : tensor<64x48xf32>
    %v4 = graph.broadcast(%v2) {shape = [64, 48]} : tensor<64x48xf32>
    %v5 = graph.add(%v3, %v4) : tensor<64x48xf32>
    %v6 = graph.exp(%v5) : tensor<64x48xf32>
    yield(%v6)
  } : tensor<64x48xf32>
  %r = graph.region(%y) {kernel = "reduction_0", kind = "reduction"} do (%v7: tensor<64x48xf32>) {
    %v8 = graph.reduce(%v7) {axes = [0], kind = "sum"} : tensor<48xf32>
    yield(%v8)
  } : tensor<48xf32>
  return(%y, %r)
}

func @declines(%x: tensor<4x8xf32>) {
  return()
}

func @movement(%x: tensor<4x8xf32>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%v0: tensor<4x8xf32>) {
    %v1 = graph.reshape(%v0) {shape = [32]} : tensor<32xf32>
    yield(%v1)
  } : tensor<32xf32>
  return(%y)
}

func @symbolic(%x: tensor<(n)x8xf32>) dims (n in 0..64) {
  %b = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%v0: tensor<(n)x8xf32>) {
    %v1 = graph.exp(%v0) : tensor<(n)x8xf32>
    %v2 = graph.neg(%v1) : tensor<(n)x8xf32>
    yield(%v2)
  } : tensor<(n)x8xf32>
  return(%b)
}
