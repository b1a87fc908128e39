// RUN: attention-in-f32
// f32 already.
func @products(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %s = graph.contract(%x, %y) {spec = "qd,kd->qk"} : tensor<4x4xf32>
  %r = graph.contract(%s, %y) {spec = "qk,kd->qd"} : tensor<4x8xf32>
  return(%r)
}
