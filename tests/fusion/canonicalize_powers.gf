// RUN: canonicalize
// Squares are products; a root needs proof that its operand is never negative. A float's cube would round twice.
func @f(%x: tensor<8xf32>) {
  %two = graph.full() {elem = f32, shape = [8], value = 2.0} : tensor<8xf32>
  %three = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %half = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %square = graph.pow(%x, %two) : tensor<8xf32>
  %cube = graph.pow(%x, %three) : tensor<8xf32>
  %root = graph.pow(%square, %half) : tensor<8xf32>
  %kept = graph.pow(%x, %half) : tensor<8xf32>
  return(%cube, %root, %kept)
}
// -----
func @f(%x: tensor<8xf32>) {
  %three = graph.full() {elem = f32, shape = [8], value = 3.0} : tensor<8xf32>
  %half = graph.full() {elem = f32, shape = [8], value = 0.5} : tensor<8xf32>
  %square = graph.mul(%x, %x) : tensor<8xf32>
  %cube = graph.pow(%x, %three) : tensor<8xf32>
  %root = graph.sqrt(%square) : tensor<8xf32>
  %kept = graph.pow(%x, %half) : tensor<8xf32>
  return(%cube, %root, %kept)
}
