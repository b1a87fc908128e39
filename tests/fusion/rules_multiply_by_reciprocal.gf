// RUN: multiply-by-reciprocal
// RULES
// Each function shows the rule of its name; what stays is beside it.
func @divide_by_known(%x: tensor<(n)x2xf64>, %h: tensor<(n)x2xf16>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f64, shape = [(n), 2], value = 3.0} : tensor<(n)x2xf64>
  %v1 = graph.div(%x, %v0) : tensor<(n)x2xf64>
  %v2 = graph.constant() {value = dense<2xf64, [5.0 7.0]>} : tensor<2xf64>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf64>
  %v4 = graph.div(%x, %v3) : tensor<(n)x2xf64>
  %v5 = graph.full() {elem = f64, shape = [(n), 2], value = 0.0} : tensor<(n)x2xf64>
  %v6 = graph.div(%x, %v5) : tensor<(n)x2xf64>
  %v7 = graph.full() {elem = f16, shape = [(n), 2], value = 3.0} : tensor<(n)x2xf16>
  %v8 = graph.div(%h, %v7) : tensor<(n)x2xf16>
  return(%v1, %v4, %v6, %v8)
}
func @divide_by_shared(%x: tensor<(n)x4xf32>, %y: tensor<(n)x1xf32>, %z: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.broadcast(%y) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v1 = graph.div(%x, %v0) : tensor<(n)x4xf32>
  %v2 = graph.div(%x, %z) : tensor<(n)x4xf32>
  return(%v1, %v2)
}
// -----
func @divide_by_known(%x: tensor<(n)x2xf64>, %h: tensor<(n)x2xf16>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f64, shape = [(n), 2], value = 0.3333333333333333} : tensor<(n)x2xf64>
  %v1 = graph.mul(%x, %v0) : tensor<(n)x2xf64>
  %v2 = graph.constant() {value = dense<2xf64, [0.2 0.14285714285714285]>} : tensor<2xf64>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf64>
  %v4 = graph.mul(%x, %v3) : tensor<(n)x2xf64>
  %v5 = graph.full() {elem = f64, shape = [(n), 2], value = 0.0} : tensor<(n)x2xf64>
  %v6 = graph.div(%x, %v5) : tensor<(n)x2xf64>
  %v7 = graph.full() {elem = f16, shape = [(n), 2], value = 3.0} : tensor<(n)x2xf16>
  %v8 = graph.div(%h, %v7) : tensor<(n)x2xf16>
  return(%v1, %v4, %v6, %v8)
}

func @divide_by_shared(%x: tensor<(n)x4xf32>, %y: tensor<(n)x1xf32>, %z: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n), 1], value = 1.0} : tensor<(n)x1xf32>
  %v1 = graph.div(%v0, %y) : tensor<(n)x1xf32>
  %v2 = graph.broadcast(%v1) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v3 = graph.mul(%x, %v2) : tensor<(n)x4xf32>
  %v4 = graph.div(%x, %z) : tensor<(n)x4xf32>
  return(%v3, %v4)
}
