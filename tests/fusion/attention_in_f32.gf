// RUN: attention-in-f32
// HALVES
// Numbers that scale queries and keys scale the scores; a mask and the row reductions are in f32, probabilities are halves.
func @attention(%q: tensor<2x4x8xf16>, %k: tensor<2x3x8xf16>, %v: tensor<2x3x2xf16>, %m: tensor<4x3xf16>) {
  %c = graph.full() {elem = f16, shape = [2, 4, 8], value = 0.5} : tensor<2x4x8xf16>
  %d = graph.full() {elem = f16, shape = [2, 3, 8], value = 0.5} : tensor<2x3x8xf16>
  %a = graph.mul(%q, %c) : tensor<2x4x8xf16>
  %b = graph.mul(%k, %d) : tensor<2x3x8xf16>
  %s = graph.contract(%a, %b) {spec = "bqd,bkd->bqk"} : tensor<2x4x3xf16>
  %mb = graph.broadcast(%m) {shape = [2, 4, 3]} : tensor<2x4x3xf16>
  %z = graph.add(%s, %mb) : tensor<2x4x3xf16>
  %n = graph.reduce(%z) {axes = [2], keepdims = true, kind = "max"} : tensor<2x4x1xf16>
  %nb = graph.broadcast(%n) {shape = [2, 4, 3]} : tensor<2x4x3xf16>
  %y = graph.sub(%z, %nb) : tensor<2x4x3xf16>
  %e = graph.exp(%y) : tensor<2x4x3xf16>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x4x1xf16>
  %tb = graph.broadcast(%t) {shape = [2, 4, 3]} : tensor<2x4x3xf16>
  %p = graph.div(%e, %tb) : tensor<2x4x3xf16>
  %o = graph.contract(%p, %v) {spec = "bqk,bkd->bqd"} : tensor<2x4x2xf16>
  return(%o)
}
// Scores that something else reads are no attention's, and a softmax alone keeps its roundings.
func @declines(%q: tensor<4x8xf16>, %k: tensor<3x8xf16>) {
  %s = graph.contract(%q, %k) {spec = "qd,kd->qk"} : tensor<4x3xf16>
  %n = graph.reduce(%s) {axes = [1], keepdims = true, kind = "max"} : tensor<4x1xf16>
  %nb = graph.broadcast(%n) {shape = [4, 3]} : tensor<4x3xf16>
  %y = graph.sub(%s, %nb) : tensor<4x3xf16>
  %e = graph.exp(%y) : tensor<4x3xf16>
  return(%e)
}
// -----
func @attention(%q: tensor<2x4x8xf16>, %k: tensor<2x3x8xf16>, %v: tensor<2x3x2xf16>, %m: tensor<4x3xf16>) {
  %v0 = graph.contract(%q, %k) {elem = f32, spec = "bqd,bkd->bqk"} : tensor<2x4x3xf32>
  %v1 = graph.full() {elem = f32, shape = [2, 4, 3], value = 0.25} : tensor<2x4x3xf32>
  %v2 = graph.mul(%v0, %v1) : tensor<2x4x3xf32>
  %v3 = graph.cast(%m) {to = f32} : tensor<4x3xf32>
  %v4 = graph.broadcast(%v3) {shape = [2, 4, 3]} : tensor<2x4x3xf32>
  %v5 = graph.add(%v2, %v4) : tensor<2x4x3xf32>
  %v6 = graph.reduce(%v5) {axes = [2], keepdims = true, kind = "max"} : tensor<2x4x1xf32>
  %v7 = graph.broadcast(%v6) {shape = [2, 4, 3]} : tensor<2x4x3xf32>
  %v8 = graph.sub(%v5, %v7) : tensor<2x4x3xf32>
  %v9 = graph.exp(%v8) : tensor<2x4x3xf32>
  %v10 = graph.reduce(%v9) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x4x1xf32>
  %v11 = graph.broadcast(%v10) {shape = [2, 4, 3]} : tensor<2x4x3xf32>
  %v12 = graph.div(%v9, %v11) : tensor<2x4x3xf32>
  %p = graph.cast(%v12) {to = f16} : tensor<2x4x3xf16>
  %o = graph.contract(%p, %v) {spec = "bqk,bkd->bqd"} : tensor<2x4x2xf16>
  return(%o)
}

func @declines(%q: tensor<4x8xf16>, %k: tensor<3x8xf16>) {
  %s = graph.contract(%q, %k) {spec = "qd,kd->qk"} : tensor<4x3xf16>
  %n = graph.reduce(%s) {axes = [1], keepdims = true, kind = "max"} : tensor<4x1xf16>
  %nb = graph.broadcast(%n) {shape = [4, 3]} : tensor<4x3xf16>
  %y = graph.sub(%s, %nb) : tensor<4x3xf16>
  %e = graph.exp(%y) : tensor<4x3xf16>
  return(%e)
}
