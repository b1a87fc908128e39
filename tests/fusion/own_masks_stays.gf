// RUN: own-masks
// A mask, but no attention.
func @no_attention(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %z = graph.full() {elem = f32, shape = [4, 8], value = 0.0} : tensor<4x8xf32>
  %m = graph.lt(%x, %z) : tensor<4x8xbool>
  %r = graph.select(%m, %x, %y) : tensor<4x8xf32>
  return(%r)
}

func @no_mask(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %s = graph.contract(%x, %y) {spec = "qd,kd->qk"} : tensor<4x4xf32>
  %m = graph.reduce(%s) {axes = [1], keepdims = true, kind = "max"} : tensor<4x1xf32>
  %mb = graph.broadcast(%m) {shape = [4, 4]} : tensor<4x4xf32>
  %c = graph.sub(%s, %mb) : tensor<4x4xf32>
  %e = graph.exp(%c) : tensor<4x4xf32>
  %t = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<4x1xf32>
  %tb = graph.broadcast(%t) {shape = [4, 4]} : tensor<4x4xf32>
  %p = graph.div(%e, %tb) : tensor<4x4xf32>
  %r = graph.contract(%p, %y) {spec = "qk,kd->qd"} : tensor<4x8xf32>
  return(%r)
}
