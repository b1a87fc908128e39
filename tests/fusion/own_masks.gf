// RUN: own-masks
// A constant triangle becomes a comparison, and the attention has a mask of its own beside the one that is returned.
func @f(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %real: tensor<1x4xbool>) {
  %t = graph.constant() {value = dense<4x4xbool, [true false false false true true false false true true true false true true true true]>} : tensor<4x4xbool>
  %t4 = graph.broadcast(%t) {shape = [1, 1, 4, 4]} : tensor<1x1x4x4xbool>
  %r = graph.reshape(%real) {shape = [1, 1, 1, 4]} : tensor<1x1x1x4xbool>
  %r4 = graph.broadcast(%r) {shape = [1, 1, 4, 4]} : tensor<1x1x4x4xbool>
  %both = graph.and(%t4, %r4) : tensor<1x1x4x4xbool>
  %zero = graph.full() {elem = f32, shape = [1, 1, 4, 4], value = 0.0} : tensor<1x1x4x4xf32>
  %none = graph.full() {elem = f32, shape = [1, 1, 4, 4], value = -1000.0} : tensor<1x1x4x4xf32>
  %m = graph.select(%both, %zero, %none) : tensor<1x1x4x4xf32>
  %mask = graph.broadcast(%m) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %s = graph.contract(%q, %k) {spec = "abmk,abnk->abmn"} : tensor<1x2x4x4xf32>
  %z = graph.add(%s, %mask) : tensor<1x2x4x4xf32>
  %w = graph.reduce(%z) {axes = [3], keepdims = true, kind = "max"} : tensor<1x2x4x1xf32>
  %wb = graph.broadcast(%w) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %c = graph.sub(%z, %wb) : tensor<1x2x4x4xf32>
  %e = graph.exp(%c) : tensor<1x2x4x4xf32>
  %l = graph.reduce(%e) {axes = [3], keepdims = true, kind = "sum"} : tensor<1x2x4x1xf32>
  %lb = graph.broadcast(%l) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %p = graph.div(%e, %lb) : tensor<1x2x4x4xf32>
  %y = graph.contract(%p, %k) {spec = "abmk,abkn->abmn"} : tensor<1x2x4x8xf32>
  return(%y, %m)
}
// -----
func @f(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %real: tensor<1x4xbool>) {
  %t = graph.constant() {value = dense<4x4xbool, [true false false false true true false false true true true false true true true true]>} : tensor<4x4xbool>
  %t4 = graph.broadcast(%t) {shape = [1, 1, 4, 4]} : tensor<1x1x4x4xbool>
  %r = graph.reshape(%real) {shape = [1, 1, 1, 4]} : tensor<1x1x1x4xbool>
  %r4 = graph.broadcast(%r) {shape = [1, 1, 4, 4]} : tensor<1x1x4x4xbool>
  %both = graph.and(%t4, %r4) : tensor<1x1x4x4xbool>
  %zero = graph.full() {elem = f32, shape = [1, 1, 4, 4], value = 0.0} : tensor<1x1x4x4xf32>
  %none = graph.full() {elem = f32, shape = [1, 1, 4, 4], value = -1000.0} : tensor<1x1x4x4xf32>
  %m = graph.select(%both, %zero, %none) : tensor<1x1x4x4xf32>
  %s = graph.contract(%q, %k) {spec = "abmk,abnk->abmn"} : tensor<1x2x4x4xf32>
  %v0 = graph.iota() {axis = 1, elem = i64, shape = [4, 4]} : tensor<4x4xi64>
  %v1 = graph.iota() {axis = 0, elem = i64, shape = [4, 4]} : tensor<4x4xi64>
  %v2 = graph.le(%v0, %v1) : tensor<4x4xbool>
  %v3 = graph.broadcast(%v2) {shape = [1, 1, 4, 4]} : tensor<1x1x4x4xbool>
  %v4 = graph.reshape(%real) {shape = [1, 1, 1, 4]} : tensor<1x1x1x4xbool>
  %v5 = graph.broadcast(%v4) {shape = [1, 1, 4, 4]} : tensor<1x1x4x4xbool>
  %v6 = graph.and(%v3, %v5) : tensor<1x1x4x4xbool>
  %v7 = graph.select(%v6, %zero, %none) : tensor<1x1x4x4xf32>
  %v8 = graph.broadcast(%v7) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %z = graph.add(%s, %v8) : tensor<1x2x4x4xf32>
  %w = graph.reduce(%z) {axes = [3], keepdims = true, kind = "max"} : tensor<1x2x4x1xf32>
  %wb = graph.broadcast(%w) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %c = graph.sub(%z, %wb) : tensor<1x2x4x4xf32>
  %e = graph.exp(%c) : tensor<1x2x4x4xf32>
  %l = graph.reduce(%e) {axes = [3], keepdims = true, kind = "sum"} : tensor<1x2x4x1xf32>
  %lb = graph.broadcast(%l) {shape = [1, 2, 4, 4]} : tensor<1x2x4x4xf32>
  %p = graph.div(%e, %lb) : tensor<1x2x4x4xf32>
  %y = graph.contract(%p, %k) {spec = "abmk,abkn->abmn"} : tensor<1x2x4x8xf32>
  return(%y, %m)
}
