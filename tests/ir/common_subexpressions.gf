// RUN: common-subexpressions
// Equal pure ops merge, into bodies that see them but not into regions; 0.0 and -0.0, and 1 and 1.0, stay apart.
func @graph(%x: tensor<4xf32>) {
  %a = graph.exp(%x) : tensor<4xf32>
  %b = graph.exp(%x) : tensor<4xf32>
  %p = graph.full() {elem = f32, shape = [4], value = 0.0} : tensor<4xf32>
  %q = graph.full() {elem = f32, shape = [4], value = -0.0} : tensor<4xf32>
  %r = graph.full() {elem = f32, shape = [4], value = 1} : tensor<4xf32>
  %s = graph.full() {elem = f32, shape = [4], value = 1.0} : tensor<4xf32>
  %c = graph.loop(%b) {count = 2, symbol = "t"} do (%k: tensor<4xf32>) {
    %d = graph.exp(%x) : tensor<4xf32>
    %e = graph.add(%k, %d) : tensor<4xf32>
    yield(%e)
  } : tensor<4xf32>
  %f = graph.region(%c) {kernel = "k", kind = "pointwise"} do (%i: tensor<4xf32>) {
    %g = graph.full() {elem = f32, shape = [4], value = 0.0} : tensor<4xf32>
    %h = graph.full() {elem = f32, shape = [4], value = 0.0} : tensor<4xf32>
    %j = graph.add(%i, %g) : tensor<4xf32>
    %l = graph.add(%j, %h) : tensor<4xf32>
    yield(%l)
  } : tensor<4xf32>
  return(%a, %b, %p, %q, %r, %s, %f)
}

func @block(%x: ptr<f32>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %o = block.const() {elem = i64, value = 0} : i64
  %v = block.load(%x, %z) : f32
  block.store(%x, %o, %v)
  %w = block.load(%x, %o) : f32
  return(%v, %w)
}
// -----
func @graph(%x: tensor<4xf32>) {
  %a = graph.exp(%x) : tensor<4xf32>
  %p = graph.full() {elem = f32, shape = [4], value = 0.0} : tensor<4xf32>
  %q = graph.full() {elem = f32, shape = [4], value = -0.0} : tensor<4xf32>
  %r = graph.full() {elem = f32, shape = [4], value = 1} : tensor<4xf32>
  %s = graph.full() {elem = f32, shape = [4], value = 1.0} : tensor<4xf32>
  %c = graph.loop(%a) {count = 2, symbol = "t"} do (%k: tensor<4xf32>) {
    %e = graph.add(%k, %a) : tensor<4xf32>
    yield(%e)
  } : tensor<4xf32>
  %f = graph.region(%c) {kernel = "k", kind = "pointwise"} do (%i: tensor<4xf32>) {
    %g = graph.full() {elem = f32, shape = [4], value = 0.0} : tensor<4xf32>
    %j = graph.add(%i, %g) : tensor<4xf32>
    %l = graph.add(%j, %g) : tensor<4xf32>
    yield(%l)
  } : tensor<4xf32>
  return(%a, %a, %p, %q, %r, %s, %f)
}

func @block(%x: ptr<f32>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %v = block.load(%x, %z) : f32
  block.store(%x, %z, %v)
  %w = block.load(%x, %z) : f32
  return(%v, %w)
}
