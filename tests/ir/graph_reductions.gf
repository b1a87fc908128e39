// RUN:
// Reductions, positions of extremes, running reductions and windows.
func @reduce(%x: tensor<3x(n)x5xf32>, %i: tensor<3x(n)xi32>, %b: tensor<(n)xbool>, %h: tensor<(n)x7xbf16>) {
  %sum = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<3x5xf32>
  %prod = graph.reduce(%x) {axes = [0, 2], keepdims = true, kind = "prod"} : tensor<1x(n)x1xf32>
  %max = graph.reduce(%x) {axes = [0, 1, 2], kind = "max"} : tensor<f32>
  %min = graph.reduce(%i) {axes = [1], kind = "min"} : tensor<3xi32>
  %none = graph.reduce(%i) {axes = [], kind = "sum"} : tensor<3x(n)xi32>
  %any = graph.reduce(%b) {axes = [0], kind = "any"} : tensor<bool>
  %all = graph.reduce(%b) {axes = [0], keepdims = true, kind = "all"} : tensor<1xbool>
  %half = graph.reduce(%h) {axes = [1], kind = "sum"} : tensor<(n)xbf16>
  return(%sum, %prod, %max, %min, %none, %any, %all, %half)
}

func @arg_reduce(%x: tensor<3x(n)xf32>, %i: tensor<3x(n)xi8>) {
  %a = graph.arg_reduce(%x) {axis = 1, kind = "max"} : tensor<3xi64>
  %b = graph.arg_reduce(%x) {axis = 0, keepdims = true, kind = "min"} : tensor<1x(n)xi64>
  %c = graph.arg_reduce(%i) {axis = 1, kind = "max", last = true} : tensor<3xi64>
  return(%a, %b, %c)
}

func @cumulate(%x: tensor<3x(n)xf32>, %i: tensor<3x(n)xi8>) {
  %a = graph.cumulate(%x) {axis = 1, kind = "sum"} : tensor<3x(n)xf32>
  %b = graph.cumulate(%x) {axis = 0, exclusive = true, kind = "prod"} : tensor<3x(n)xf32>
  %c = graph.cumulate(%i) {axis = 1, kind = "max", reverse = true} : tensor<3x(n)xi8>
  %d = graph.cumulate(%i) {axis = 1, exclusive = true, kind = "min", reverse = true} : tensor<3x(n)xi8>
  %e = graph.cumulate(%x) {axis = 1, kind = "logaddexp"} : tensor<3x(n)xf32>
  return(%a, %b, %c, %d, %e)
}

func @windows(%x: tensor<1x2x9x(n + 6)xf32>) {
  %max = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 0, 1, 0], kind = "max", low = [0, 0, 1, 0], strides = [1, 1, 2, 1], window = [1, 1, 3, 2]} : tensor<1x2x5x(n + 5)xf32>
  %sum = graph.reduce_window(%x) {dilation = [1, 1, 2, 1], high = [0, 0, 0, 2], kind = "sum", low = [0, 0, 0, 1], strides = [1, 1, 1, 2], window = [1, 1, 3, 3]} : tensor<1x2x5x(floordiv(n, 2) + 4)xf32>
  %min = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "min", low = [0, 0, 0, 0], strides = [1, 1, 1, 1], window = [1, 2, 1, 1]} : tensor<1x1x9x(n + 6)xf32>
  return(%max, %sum, %min)
}
