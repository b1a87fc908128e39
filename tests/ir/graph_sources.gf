// RUN:
// Constants of every spelling, fills, and counting.
func @constants() {
  %a = graph.constant() {value = dense<4xf32, [1.0 -0.0 inf nan]>} : tensor<4xf32>
  %b = graph.constant() {value = dense<2x2xi64, [1 -9223372036854775808 9223372036854775807 0]>} : tensor<2x2xi64>
  %c = graph.constant() {value = dense<bool, [true]>} : tensor<bool>
  %d = graph.constant() {value = dense<3xbf16, [1.5 -2 0.25]>} : tensor<3xbf16>
  %e = graph.constant() {value = dense<0xf16, []>} : tensor<0xf16>
  %f = graph.constant() {value = dense<2xi4, [-8 7]>} : tensor<2xi4>
  %g = graph.constant() {value = dense<2xu64, [18446744073709551615 0]>} : tensor<2xu64>
  %h = graph.constant() {value = dense<3xf64, [1e-310 1e+300 0.1]>} : tensor<3xf64>
  %i = graph.constant() {value = dense<2xf8e4m3, [448 -0.5]>} : tensor<2xf8e4m3>
  return(%a, %b, %c, %d, %e, %f, %g, %h, %i)
}

func @fills() dims (n in 1..8) {
  %a = graph.full() {elem = f32, shape = [(n), 2], value = -0.0} : tensor<(n)x2xf32>
  %b = graph.full() {elem = bool, shape = [], value = true} : tensor<bool>
  %c = graph.full() {elem = i64, shape = [1], value = (floordiv(n + 1, 2))} : tensor<1xi64>
  %d = graph.full() {elem = f16, shape = [2], value = inf} : tensor<2xf16>
  %e = graph.full() {elem = f64, shape = [2], value = nan} : tensor<2xf64>
  %f = graph.full() {elem = i8, shape = [2], value = -128} : tensor<2xi8>
  %g = graph.full() {elem = f32, shape = [2], value = 1e-45} : tensor<2xf32>
  return(%a, %b, %c, %d, %e, %f, %g)
}

func @counting() dims (n in 1..8) {
  %a = graph.iota() {axis = 0, elem = i64, shape = [(n)]} : tensor<(n)xi64>
  %b = graph.iota() {axis = 1, elem = f32, shape = [2, (2*n), 3]} : tensor<2x(2*n)x3xf32>
  return(%a, %b)
}

func @to_be_written() dims (n in 1..8) {
  %a = graph.empty() {elem = f32, shape = [(n), 3]} : tensor<(n)x3xf32>
  return(%a)
}
