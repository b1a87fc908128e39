// RUN: store-halves
// HALVES
// What one region computes and another reads is a half; biases, statistics and results of the model are not.
func @halves(%x: tensor<8x2xf32>) {
  %t = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 0.1]>} : tensor<2x2xf32>
  %b = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %h, %c, %s = graph.region(%x, %b) {kernel = "reduction_0", kind = "reduction"} do (%a: tensor<8x2xf32>, %v: tensor<2xf32>) {
    %w = graph.broadcast(%v) {shape = [8, 2]} : tensor<8x2xf32>
    %y = graph.add(%a, %w) : tensor<8x2xf32>
    %z = graph.cast(%y) {to = f16} : tensor<8x2xf16>
    %sum = graph.reduce(%y) {axes = [1], kind = "sum"} : tensor<8xf32>
    yield(%y, %z, %sum)
  } : tensor<8x2xf32>, tensor<8x2xf16>, tensor<8xf32>
  %f = graph.reshape(%h) {shape = [2, 8]} : tensor<2x8xf32>
  %o = graph.region(%f, %c, %s, %t) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<2x8xf32>, %z: tensor<8x2xf16>, %m: tensor<8xf32>, %u: tensor<2x2xf32>) {
    %r = graph.reshape(%a) {shape = [8, 2]} : tensor<8x2xf32>
    %w = graph.broadcast(%m) {shape = [2, 8]} : tensor<2x8xf32>
    %p = graph.permute(%w) {perm = [1, 0]} : tensor<8x2xf32>
    %y = graph.add(%r, %p) : tensor<8x2xf32>
    %q = graph.cast(%z) {to = f32} : tensor<8x2xf32>
    %e = graph.mul(%y, %q) : tensor<8x2xf32>
    %k = graph.slice(%u) {sizes = [1, 2], starts = [1, 0], steps = [1, 1]} : tensor<1x2xf32>
    %g = graph.broadcast(%k) {shape = [8, 2]} : tensor<8x2xf32>
    %i = graph.add(%e, %g) : tensor<8x2xf32>
    yield(%i)
  } : tensor<8x2xf32>
  return(%o)
}
// A region that only casts is gone; masks and what a scatter reads stay f32.
func @borders(%x: tensor<8xf32>, %i: tensor<2xi64>, %u: tensor<2xf32>) {
  %a, %m, %s = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%v: tensor<8xf32>) {
    %y = graph.neg(%v) : tensor<8xf32>
    %low = graph.full() {elem = f32, shape = [8], value = -1000000000.0} : tensor<8xf32>
    %z = graph.add(%y, %low) : tensor<8xf32>
    %t = graph.abs(%v) : tensor<8xf32>
    yield(%y, %z, %t)
  } : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  %h = graph.region(%a) {kernel = "pointwise_1", kind = "pointwise"} do (%v: tensor<8xf32>) {
    %c = graph.cast(%v) {to = f16} : tensor<8xf16>
    yield(%c)
  } : tensor<8xf16>
  %b = graph.region(%s, %i, %u) {kernel = "scatter_0", kind = "scatter"} do (%v: tensor<8xf32>, %j: tensor<2xi64>, %w: tensor<2xf32>) {
    %c = graph.scatter_along(%v, %j, %w) {axis = 0} : tensor<8xf32>
    yield(%c)
  } : tensor<8xf32>
  %o = graph.region(%h, %m, %b) {kernel = "pointwise_2", kind = "pointwise"} do (%v: tensor<8xf16>, %n: tensor<8xf32>, %w: tensor<8xf32>) {
    %c = graph.cast(%v) {to = f32} : tensor<8xf32>
    %y = graph.max(%c, %n) : tensor<8xf32>
    %z = graph.max(%y, %w) : tensor<8xf32>
    yield(%z)
  } : tensor<8xf32>
  return(%o)
}
// -----
func @halves(%x: tensor<8x2xf32>) {
  %v0 = graph.constant() {value = dense<2x2xf16, [1.0 2.0 3.0 0.1]>} : tensor<2x2xf16>
  %b = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %h, %s = graph.region(%x, %b) {kernel = "reduction_0", kind = "reduction"} do (%v1: tensor<8x2xf32>, %v2: tensor<2xf32>) {
    %w = graph.broadcast(%v2) {shape = [8, 2]} : tensor<8x2xf32>
    %y = graph.add(%v1, %w) : tensor<8x2xf32>
    %z = graph.cast(%y) {to = f16} : tensor<8x2xf16>
    %sum = graph.reduce(%y) {axes = [1], kind = "sum"} : tensor<8xf32>
    yield(%z, %sum)
  } : tensor<8x2xf16>, tensor<8xf32>
  %f = graph.reshape(%h) {shape = [2, 8]} : tensor<2x8xf16>
  %o = graph.region(%f, %h, %s, %v0) {kernel = "pointwise_0", kind = "pointwise"} do (%v3: tensor<2x8xf16>, %v4: tensor<8x2xf16>, %v5: tensor<8xf32>, %v6: tensor<2x2xf16>) {
    %v7 = graph.reshape(%v3) {shape = [8, 2]} : tensor<8x2xf16>
    %w_0 = graph.broadcast(%v5) {shape = [2, 8]} : tensor<2x8xf32>
    %p = graph.permute(%w_0) {perm = [1, 0]} : tensor<8x2xf32>
    %v8 = graph.cast(%v7) {to = f32} : tensor<8x2xf32>
    %y_0 = graph.add(%v8, %p) : tensor<8x2xf32>
    %q = graph.cast(%v4) {to = f32} : tensor<8x2xf32>
    %e = graph.mul(%y_0, %q) : tensor<8x2xf32>
    %v9 = graph.slice(%v6) {sizes = [1, 2], starts = [1, 0], steps = [1, 1]} : tensor<1x2xf16>
    %v10 = graph.broadcast(%v9) {shape = [8, 2]} : tensor<8x2xf16>
    %v11 = graph.cast(%v10) {to = f32} : tensor<8x2xf32>
    %i = graph.add(%e, %v11) : tensor<8x2xf32>
    yield(%i)
  } : tensor<8x2xf32>
  return(%o)
}

func @borders(%x: tensor<8xf32>, %i: tensor<2xi64>, %u: tensor<2xf32>) {
  %a, %m, %s = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%v0: tensor<8xf32>) {
    %y = graph.neg(%v0) : tensor<8xf32>
    %low = graph.full() {elem = f32, shape = [8], value = -1000000000.0} : tensor<8xf32>
    %z = graph.add(%y, %low) : tensor<8xf32>
    %t = graph.abs(%v0) : tensor<8xf32>
    %v1 = graph.cast(%y) {to = f16} : tensor<8xf16>
    yield(%v1, %z, %t)
  } : tensor<8xf16>, tensor<8xf32>, tensor<8xf32>
  %b = graph.region(%s, %i, %u) {kernel = "scatter_0", kind = "scatter"} do (%v: tensor<8xf32>, %j: tensor<2xi64>, %w: tensor<2xf32>) {
    %c = graph.scatter_along(%v, %j, %w) {axis = 0} : tensor<8xf32>
    yield(%c)
  } : tensor<8xf32>
  %o = graph.region(%a, %m, %b) {kernel = "pointwise_1", kind = "pointwise"} do (%v_0: tensor<8xf16>, %n: tensor<8xf32>, %w_0: tensor<8xf32>) {
    %c_0 = graph.cast(%v_0) {to = f32} : tensor<8xf32>
    %y_0 = graph.max(%c_0, %n) : tensor<8xf32>
    %z_0 = graph.max(%y_0, %w_0) : tensor<8xf32>
    yield(%z_0)
  } : tensor<8xf32>
  return(%o)
}
