// RUN: recognise-functions
// RULES
// Each function shows the rule of its name.
func @logistic(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v1 = graph.neg(%x) : tensor<8xf32>
  %v2 = graph.exp(%v1) : tensor<8xf32>
  %v3 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v4 = graph.add(%v2, %v3) : tensor<8xf32>
  %v5 = graph.div(%v0, %v4) : tensor<8xf32>
  %v6 = graph.neg(%x) : tensor<8xf32>
  %v7 = graph.exp(%v6) : tensor<8xf32>
  %v8 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v9 = graph.add(%v7, %v8) : tensor<8xf32>
  %v10 = graph.div(%x, %v9) : tensor<8xf32>
  return(%v5, %v10)
}
func @logistic_by_tanh(%x: tensor<8xf32>, %u: tensor<8xf32>) {
  %half = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %one = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %c = graph.full() {elem = f32, shape = [8], value = 0.75} : tensor<8xf32>
  %w = graph.mul(%u, %c) : tensor<8xf32>
  %t = graph.tanh(%w) : tensor<8xf32>
  %p = graph.add(%t, %one) : tensor<8xf32>
  %hx = graph.mul(%x, %half) : tensor<8xf32>
  %a = graph.mul(%hx, %p) : tensor<8xf32>
  %hp = graph.mul(%half, %p) : tensor<8xf32>
  %b = graph.mul(%x, %hp) : tensor<8xf32>
  %px = graph.mul(%p, %x) : tensor<8xf32>
  %d = graph.mul(%px, %half) : tensor<8xf32>
  %e = graph.mul(%p, %x) : tensor<8xf32>
  return(%a, %b, %d, %e)
}
func @logistic_by_tanh_distributed(%x: tensor<8xf32>, %u: tensor<8xf32>) {
  %half = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %t = graph.tanh(%u) : tensor<8xf32>
  %h = graph.mul(%half, %x) : tensor<8xf32>
  %ht = graph.mul(%t, %h) : tensor<8xf32>
  %a = graph.add(%h, %ht) : tensor<8xf32>
  %s = graph.mul(%half, %t) : tensor<8xf32>
  %b = graph.add(%s, %half) : tensor<8xf32>
  %xt = graph.mul(%x, %t) : tensor<8xf32>
  %c = graph.add(%h, %xt) : tensor<8xf32>
  return(%a, %b, %c)
}
func @quotient_by_quotient(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v1 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v2 = graph.sqrt(%x) : tensor<8xf32>
  %v3 = graph.div(%v1, %v2) : tensor<8xf32>
  %v4 = graph.div(%v0, %v3) : tensor<8xf32>
  return(%v4)
}
func @mean_is_a_quotient(%x: tensor<(n)x6xf64>, %y: tensor<(n)xf64>) dims (n in 1..64) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "sum"} : tensor<(n)xf64>
  %v1 = graph.full() {elem = f64, shape = [(n)], value = 0.16666666666666666} : tensor<(n)xf64>
  %v2 = graph.mul(%v0, %v1) : tensor<(n)xf64>
  %v3 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "sum"} : tensor<(n)xf64>
  %v4 = graph.full() {elem = f64, shape = [(n)], value = 0.25} : tensor<(n)xf64>
  %v5 = graph.mul(%v3, %v4) : tensor<(n)xf64>
  return(%v2, %v5)
}
func @power_by_products(%x: tensor<8xf32>) {
  %v0 = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %v1 = graph.pow(%x, %v0) : tensor<8xf32>
  %v2 = graph.full() {elem = f32, shape = [8], value = 4.0} : tensor<8xf32>
  %v3 = graph.pow(%x, %v2) : tensor<8xf32>
  %v4 = graph.abs(%x) : tensor<8xf32>
  %v5 = graph.full() {elem = f32, shape = [8], value = -0.5} : tensor<8xf32>
  %v6 = graph.pow(%v4, %v5) : tensor<8xf32>
  %v7 = graph.full() {elem = f32, shape = [8], value = -0.5} : tensor<8xf32>
  %v8 = graph.pow(%x, %v7) : tensor<8xf32>
  return(%v1, %v3, %v6, %v8)
}

func @added_to_scattered(%x: tensor<6x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x3xf32>, %k: tensor<9xi32>, %j: tensor<4xi64>, %n: tensor<4xi32>) {
  %z = graph.full() {elem = f32, shape = [6, 3], value = 0.0} : tensor<6x3xf32>
  %s = graph.scatter_nd(%z, %i, %u) {kind = "add"} : tensor<6x3xf32>
  %p = graph.exp(%x) : tensor<6x3xf32>
  %y = graph.add(%p, %s) : tensor<6x3xf32>
  %o = graph.full() {elem = i32, shape = [9], value = 0} : tensor<9xi32>
  %c = graph.scatter_along(%o, %j, %n) {axis = 0, kind = "add"} : tensor<9xi32>
  %m = graph.add(%c, %k) : tensor<9xi32>
  return(%y, %m)
}

func @added_to_scattered__twice(%x: tensor<6xf32>, %i: tensor<4x1xi64>, %u: tensor<4xf32>, %j: tensor<2x1xi64>, %w: tensor<2xf32>) {
  %z = graph.full() {elem = f32, shape = [6], value = 0.0} : tensor<6xf32>
  %s = graph.scatter_nd(%z, %i, %u) {kind = "add"} : tensor<6xf32>
  %y = graph.add(%x, %s) : tensor<6xf32>
  %t = graph.scatter_nd(%z, %j, %w) {kind = "add"} : tensor<6xf32>
  %r = graph.add(%t, %y) : tensor<6xf32>
  return(%r)
}
// -----
func @logistic(%x: tensor<8xf32>) {
  %v0 = graph.sigmoid(%x) : tensor<8xf32>
  %v1 = graph.sigmoid(%x) : tensor<8xf32>
  %v2 = graph.mul(%x, %v1) : tensor<8xf32>
  return(%v0, %v2)
}

func @logistic_by_tanh(%x: tensor<8xf32>, %u: tensor<8xf32>) {
  %one = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %c = graph.full() {elem = f32, shape = [8], value = 0.75} : tensor<8xf32>
  %w = graph.mul(%u, %c) : tensor<8xf32>
  %t = graph.tanh(%w) : tensor<8xf32>
  %p = graph.add(%t, %one) : tensor<8xf32>
  %v0 = graph.full() {elem = f32, shape = [8], value = 1.5} : tensor<8xf32>
  %v1 = graph.mul(%u, %v0) : tensor<8xf32>
  %v2 = graph.sigmoid(%v1) : tensor<8xf32>
  %a = graph.mul(%x, %v2) : tensor<8xf32>
  %v3 = graph.full() {elem = f32, shape = [8], value = 1.5} : tensor<8xf32>
  %v4 = graph.mul(%u, %v3) : tensor<8xf32>
  %hp = graph.sigmoid(%v4) : tensor<8xf32>
  %b = graph.mul(%x, %hp) : tensor<8xf32>
  %v5 = graph.full() {elem = f32, shape = [8], value = 1.5} : tensor<8xf32>
  %v6 = graph.mul(%u, %v5) : tensor<8xf32>
  %v7 = graph.sigmoid(%v6) : tensor<8xf32>
  %d = graph.mul(%x, %v7) : tensor<8xf32>
  %e = graph.mul(%p, %x) : tensor<8xf32>
  return(%a, %b, %d, %e)
}

func @logistic_by_tanh_distributed(%x: tensor<8xf32>, %u: tensor<8xf32>) {
  %half = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %t = graph.tanh(%u) : tensor<8xf32>
  %h = graph.mul(%half, %x) : tensor<8xf32>
  %v0 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v1 = graph.mul(%u, %v0) : tensor<8xf32>
  %v2 = graph.sigmoid(%v1) : tensor<8xf32>
  %a = graph.mul(%x, %v2) : tensor<8xf32>
  %v3 = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %v4 = graph.mul(%u, %v3) : tensor<8xf32>
  %b = graph.sigmoid(%v4) : tensor<8xf32>
  %xt = graph.mul(%x, %t) : tensor<8xf32>
  %c = graph.add(%h, %xt) : tensor<8xf32>
  return(%a, %b, %c)
}

func @quotient_by_quotient(%x: tensor<8xf32>) {
  %v0 = graph.sqrt(%x) : tensor<8xf32>
  return(%v0)
}

func @mean_is_a_quotient(%x: tensor<(n)x6xf64>, %y: tensor<(n)xf64>) dims (n in 1..64) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "sum"} : tensor<(n)xf64>
  %v1 = graph.full() {elem = f64, shape = [(n)], value = 6.0} : tensor<(n)xf64>
  %v2 = graph.div(%v0, %v1) : tensor<(n)xf64>
  %v3 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "sum"} : tensor<(n)xf64>
  %v4 = graph.full() {elem = f64, shape = [(n)], value = 0.25} : tensor<(n)xf64>
  %v5 = graph.mul(%v3, %v4) : tensor<(n)xf64>
  return(%v2, %v5)
}

func @power_by_products(%x: tensor<8xf32>) {
  %v0 = graph.mul(%x, %x) : tensor<8xf32>
  %v1 = graph.mul(%v0, %x) : tensor<8xf32>
  %v2 = graph.mul(%x, %x) : tensor<8xf32>
  %v3 = graph.mul(%v2, %v2) : tensor<8xf32>
  %v4 = graph.abs(%x) : tensor<8xf32>
  %v5 = graph.full() {elem = f32, shape = [8], value = 1.0} : tensor<8xf32>
  %v6 = graph.sqrt(%v4) : tensor<8xf32>
  %v7 = graph.div(%v5, %v6) : tensor<8xf32>
  %v8 = graph.full() {elem = f32, shape = [8], value = -0.5} : tensor<8xf32>
  %v9 = graph.pow(%x, %v8) : tensor<8xf32>
  return(%v1, %v3, %v7, %v9)
}

func @added_to_scattered(%x: tensor<6x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x3xf32>, %k: tensor<9xi32>, %j: tensor<4xi64>, %n: tensor<4xi32>) {
  %p = graph.exp(%x) : tensor<6x3xf32>
  %y = graph.scatter_nd(%p, %i, %u) {kind = "add"} : tensor<6x3xf32>
  %m = graph.scatter_along(%k, %j, %n) {axis = 0, kind = "add"} : tensor<9xi32>
  return(%y, %m)
}

func @added_to_scattered__twice(%x: tensor<6xf32>, %i: tensor<4x1xi64>, %u: tensor<4xf32>, %j: tensor<2x1xi64>, %w: tensor<2xf32>) {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "add"} : tensor<6xf32>
  %r = graph.scatter_nd(%y, %j, %w) {kind = "add"} : tensor<6xf32>
  return(%r)
}
