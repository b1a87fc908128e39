// RUN: simplify-movement
// Attention reads heads where they lie, and writes them where the next reshape wants them.
func @f(%q: tensor<(n)x(s)x4x8xf32>, %k: tensor<(n)x(s)x4x8xf32>, %v: tensor<(n)x(s)x4x8xf32>) dims (n in 1..64, s in 1..64) {
  %qh = graph.permute(%q) {perm = [0, 2, 1, 3]} : tensor<(n)x4x(s)x8xf32>
  %kh = graph.permute(%k) {perm = [0, 2, 3, 1]} : tensor<(n)x4x8x(s)xf32>
  %vh = graph.permute(%v) {perm = [0, 2, 1, 3]} : tensor<(n)x4x(s)x8xf32>
  %scores = graph.contract(%qh, %kh) {spec = "bhqd,bhdk->bhqk"} : tensor<(n)x4x(s)x(s)xf32>
  %e = graph.tanh(%scores) : tensor<(n)x4x(s)x(s)xf32>
  %o = graph.contract(%e, %vh) {spec = "bhqk,bhkd->bhqd"} : tensor<(n)x4x(s)x8xf32>
  %g = graph.exp(%o) : tensor<(n)x4x(s)x8xf32>
  %t = graph.permute(%g) {perm = [0, 2, 1, 3]} : tensor<(n)x(s)x4x8xf32>
  %y = graph.reshape(%t) {shape = [(n), (s), 32]} : tensor<(n)x(s)x32xf32>
  return(%y)
}
// -----
func @f(%q: tensor<(n)x(s)x4x8xf32>, %k: tensor<(n)x(s)x4x8xf32>, %v: tensor<(n)x(s)x4x8xf32>) dims (n in 1..64, s in 1..64) {
  %scores = graph.contract(%q, %k) {spec = "bqhd,bkhd->bhqk"} : tensor<(n)x4x(s)x(s)xf32>
  %e = graph.tanh(%scores) : tensor<(n)x4x(s)x(s)xf32>
  %v0 = graph.contract(%e, %v) {spec = "bhqk,bkhd->bqhd"} : tensor<(n)x(s)x4x8xf32>
  %v1 = graph.exp(%v0) : tensor<(n)x(s)x4x8xf32>
  %y = graph.reshape(%v1) {shape = [(n), (s), 32]} : tensor<(n)x(s)x32xf32>
  return(%y)
}
