// RUN: canonicalize
// Algebra with numbers: exact for NaN, infinities and -0.0, so x + 0.0 stays and x - 0.0 goes.
func @floats(%x: tensor<(n)x4xf32>) dims (n in 1..64) {
  %zero = graph.full() {elem = f32, shape = [(n), 4], value = 0.0} : tensor<(n)x4xf32>
  %one = graph.full() {elem = f32, shape = [(n), 4], value = 1.0} : tensor<(n)x4xf32>
  %four = graph.full() {elem = f32, shape = [(n), 4], value = 4.0} : tensor<(n)x4xf32>
  %three = graph.full() {elem = f32, shape = [(n), 4], value = 3.0} : tensor<(n)x4xf32>
  %a = graph.add(%zero, %x) : tensor<(n)x4xf32>
  %b = graph.sub(%a, %zero) : tensor<(n)x4xf32>
  %c = graph.mul(%one, %b) : tensor<(n)x4xf32>
  %d = graph.div(%c, %four) : tensor<(n)x4xf32>
  %e = graph.div(%d, %three) : tensor<(n)x4xf32>
  %f = graph.neg(%e) : tensor<(n)x4xf32>
  %g = graph.neg(%f) : tensor<(n)x4xf32>
  %h = graph.mul(%three, %four) : tensor<(n)x4xf32>
  %i = graph.mul(%g, %h) : tensor<(n)x4xf32>
  return(%i)
}

func @integers(%x: tensor<4xi32>) {
  %zero = graph.full() {elem = i32, shape = [4], value = 0} : tensor<4xi32>
  %five = graph.full() {elem = i32, shape = [4], value = 5} : tensor<4xi32>
  %a = graph.add(%zero, %x) : tensor<4xi32>
  %b = graph.sub(%a, %five) : tensor<4xi32>
  %c = graph.mul(%b, %zero) : tensor<4xi32>
  return(%b, %c)
}
// -----
func @floats(%x: tensor<(n)x4xf32>) dims (n in 1..64) {
  %zero = graph.full() {elem = f32, shape = [(n), 4], value = 0.0} : tensor<(n)x4xf32>
  %three = graph.full() {elem = f32, shape = [(n), 4], value = 3.0} : tensor<(n)x4xf32>
  %a = graph.add(%x, %zero) : tensor<(n)x4xf32>
  %v0 = graph.full() {elem = f32, shape = [(n), 4], value = 0.25} : tensor<(n)x4xf32>
  %d = graph.mul(%a, %v0) : tensor<(n)x4xf32>
  %e = graph.div(%d, %three) : tensor<(n)x4xf32>
  %v1 = graph.full() {elem = f32, shape = [(n), 4], value = 12.0} : tensor<(n)x4xf32>
  %i = graph.mul(%e, %v1) : tensor<(n)x4xf32>
  return(%i)
}

func @integers(%x: tensor<4xi32>) {
  %v0 = graph.full() {elem = i32, shape = [4], value = -5} : tensor<4xi32>
  %b = graph.add(%x, %v0) : tensor<4xi32>
  %v1 = graph.full() {elem = i32, shape = [4], value = 0} : tensor<4xi32>
  return(%b, %v1)
}
