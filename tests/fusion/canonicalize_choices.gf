// RUN: canonicalize
// Selects, logic, extremes and casts that decide nothing.
func @f(%x: tensor<8xf32>, %p: tensor<8xbool>) {
  %true = graph.full() {elem = bool, shape = [8], value = true} : tensor<8xbool>
  %false = graph.full() {elem = bool, shape = [8], value = false} : tensor<8xbool>
  %low = graph.full() {elem = f32, shape = [8], value = -inf} : tensor<8xf32>
  %zero = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %a = graph.and(%p, %true) : tensor<8xbool>
  %b = graph.not(%a) : tensor<8xbool>
  %c = graph.select(%b, %x, %zero) : tensor<8xf32>
  %d = graph.max(%c, %low) : tensor<8xf32>
  %e = graph.max(%d, %zero) : tensor<8xf32>
  %g = graph.max(%e, %zero) : tensor<8xf32>
  %h = graph.cast(%g) {to = f64} : tensor<8xf64>
  %i = graph.cast(%h) {to = f32} : tensor<8xf32>
  %j = graph.select(%p, %true, %false) : tensor<8xbool>
  return(%i, %j)
}
// -----
func @f(%x: tensor<8xf32>, %p: tensor<8xbool>) {
  %zero = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %c = graph.select(%p, %zero, %x) : tensor<8xf32>
  %e = graph.max(%c, %zero) : tensor<8xf32>
  return(%e, %p)
}
