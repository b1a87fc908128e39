// RUN: canonicalize
// Zeros of two signs are two constants: which of them a maximum gives is the interpreter's to say.
func @zeros_of_two_signs(%x: tensor<8xf32>) {
  %least = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %zero = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %a = graph.max(%x, %least) : tensor<8xf32>
  %b = graph.max(%a, %zero) : tensor<8xf32>
  return(%b)
}
// -----
func @zeros_of_two_signs(%x: tensor<8xf32>) {
  %least = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %zero = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %a = graph.max(%x, %least) : tensor<8xf32>
  %b = graph.max(%a, %zero) : tensor<8xf32>
  return(%b)
}
