// RUN: dead-code
// Dead ops go, with all that only they read, in one run; stores and what they read stay.
func @graph(%x: tensor<4xf32>) {
  %a = graph.exp(%x) : tensor<4xf32>
  %b = graph.neg(%x) : tensor<4xf32>
  %c = graph.loop(%x) {count = 2, symbol = "t"} do (%k: tensor<4xf32>) {
    %d = graph.add(%k, %b) : tensor<4xf32>
    yield(%d)
  } : tensor<4xf32>
  %e = graph.region(%x) {kernel = "k", kind = "pointwise"} do (%i: tensor<4xf32>) {
    %f = graph.tanh(%i) : tensor<4xf32>
    %g = graph.abs(%i) : tensor<4xf32>
    yield(%g)
  } : tensor<4xf32>
  return(%e)
}

func @block(%p: ptr<f32>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %o = block.const() {elem = i64, value = 1} : i64
  %v = block.load(%p, %z) : f32
  %w = block.neg(%v) : f32
  %u = block.exp(%v) : f32
  block.store(%p, %z, %w)
  return()
}
// -----
func @graph(%x: tensor<4xf32>) {
  %e = graph.region(%x) {kernel = "k", kind = "pointwise"} do (%i: tensor<4xf32>) {
    %g = graph.abs(%i) : tensor<4xf32>
    yield(%g)
  } : tensor<4xf32>
  return(%e)
}

func @block(%p: ptr<f32>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %v = block.load(%p, %z) : f32
  %w = block.neg(%v) : f32
  block.store(%p, %z, %w)
  return()
}
