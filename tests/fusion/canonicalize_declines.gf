// RUN: canonicalize
// Zeros of two signs are two constants: which of them a maximum gives is the interpreter's to say.
func @zeros_of_two_signs(%x: tensor<8xf32>) {
  %least = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %zero = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %a = graph.max(%x, %least) : tensor<8xf32>
  %b = graph.max(%a, %zero) : tensor<8xf32>
  return(%b)
}
// The largest of u8 is 255.
func @least_of_less_than_the_largest(%x: tensor<4xu8>) {
  %c = graph.full() {elem = u8, shape = [4], value = 15} : tensor<4xu8>
  %y = graph.min(%x, %c) : tensor<4xu8>
  return(%y)
}
// Whether a long chain is never negative is not asked to its end: each link may ask twice.
func @root_of_a_long_chain(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %s0 = graph.abs(%x) : tensor<4xf32>
  %s1 = graph.add(%s0, %s0) : tensor<4xf32>
  %s2 = graph.max(%s1, %y) : tensor<4xf32>
  %s3 = graph.add(%s2, %s2) : tensor<4xf32>
  %s4 = graph.max(%s3, %y) : tensor<4xf32>
  %s5 = graph.add(%s4, %s4) : tensor<4xf32>
  %s6 = graph.max(%s5, %y) : tensor<4xf32>
  %s7 = graph.add(%s6, %s6) : tensor<4xf32>
  %s8 = graph.max(%s7, %y) : tensor<4xf32>
  %h = graph.full() {elem = f32, shape = [4], value = 0.5} : tensor<4xf32>
  %r = graph.pow(%s8, %h) : tensor<4xf32>
  return(%r)
}
// All bits of u8 are 255.
func @bits_of_some(%x: tensor<4xu8>) {
  %c = graph.full() {elem = u8, shape = [4], value = 15} : tensor<4xu8>
  %y = graph.and(%x, %c) : tensor<4xu8>
  return(%y)
}
// Of different numbers, only constant folding makes new ones.
func @function_of_numbers(%x: tensor<2xf32>) {
  %c = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %e = graph.exp(%c) : tensor<2xf32>
  %y = graph.add(%x, %e) : tensor<2xf32>
  return(%y)
}
// A dim is a known number, which the other operand need not be.
func @dim_less_a_value(%x: tensor<4xi64>, %s: tensor<(n)xf32>) dims (n in 1..64) {
  %n = graph.full() {elem = i64, shape = [4], value = (n)} : tensor<4xi64>
  %y = graph.sub(%n, %x) : tensor<4xi64>
  return(%y, %s)
}
// In i8 a dim wraps, in a full it does not.
func @dims_of_few_bits(%x: tensor<(n)xi8>) dims (n in 1..1024) {
  %n = graph.full() {elem = i8, shape = [(n)], value = (n)} : tensor<(n)xi8>
  %c = graph.full() {elem = i8, shape = [(n)], value = 100} : tensor<(n)xi8>
  %a = graph.add(%n, %c) : tensor<(n)xi8>
  %y = graph.add(%x, %a) : tensor<(n)xi8>
  return(%y)
}
// Of a dim nobody asks for its sign.
func @root_of_a_dim(%x: tensor<(n)xf32>) dims (n in 1..64) {
  %n = graph.full() {elem = f32, shape = [(n)], value = (n)} : tensor<(n)xf32>
  %h = graph.full() {elem = f32, shape = [(n)], value = 0.5} : tensor<(n)xf32>
  %y = graph.pow(%n, %h) : tensor<(n)xf32>
  return(%y, %x)
}
func @many_taken_of_elementwise(%x: tensor<6x8xf32>, %m: tensor<6x8xf32>, %i: tensor<6x3xi64>) {
  %v0 = graph.sub(%x, %m) : tensor<6x8xf32>
  %v1 = graph.take_along(%v0, %i) {axis = 1} : tensor<6x3xf32>
  return(%v1)
}

// what a product is stored as is looked up in that
func @a_look_up_of_a_rounded_product(%x: tensor<6x4xbf16>, %w: tensor<4x64xbf16>, %b: tensor<64xf32>, %i: tensor<6x1xi64>) {
  %v0 = graph.contract(%x, %w) {elem = f32, spec = "mk,kn->mn"} : tensor<6x64xf32>
  %v1 = graph.broadcast(%b) {shape = [6, 64]} : tensor<6x64xf32>
  %v2 = graph.add(%v0, %v1) : tensor<6x64xf32>
  %v3 = graph.cast(%v2) {to = bf16} : tensor<6x64xbf16>
  %v4 = graph.take_along(%v3, %i) {axis = 1} : tensor<6x1xbf16>
  return(%v3, %v4)
}
// The largest of halves is one of them.
func @scatter_of_the_largest_half(%x: tensor<5xf16>, %i: tensor<4x1xi64>, %u: tensor<4xf16>) {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "max"} : tensor<5xf16>
  return(%y)
}
// A NaN is no smallest number.
func @smallest_of_floats(%x: tensor<5x7xf32>) {
  %v, %i = graph.topk(%x) {axis = 1, k = 1, largest = false} : tensor<5x1xf32>, tensor<5x1xi64>
  return(%v, %i)
}
// -----
func @zeros_of_two_signs(%x: tensor<8xf32>) {
  %least = graph.full() {elem = f32, shape = [8], value = -0.0} : tensor<8xf32>
  %zero = graph.full() {elem = f32, shape = [8], value = 0.0} : tensor<8xf32>
  %a = graph.max(%x, %least) : tensor<8xf32>
  %b = graph.max(%a, %zero) : tensor<8xf32>
  return(%b)
}

func @least_of_less_than_the_largest(%x: tensor<4xu8>) {
  %c = graph.full() {elem = u8, shape = [4], value = 15} : tensor<4xu8>
  %y = graph.min(%x, %c) : tensor<4xu8>
  return(%y)
}

func @root_of_a_long_chain(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %s0 = graph.abs(%x) : tensor<4xf32>
  %s1 = graph.add(%s0, %s0) : tensor<4xf32>
  %s2 = graph.max(%s1, %y) : tensor<4xf32>
  %s3 = graph.add(%s2, %s2) : tensor<4xf32>
  %s4 = graph.max(%s3, %y) : tensor<4xf32>
  %s5 = graph.add(%s4, %s4) : tensor<4xf32>
  %s6 = graph.max(%s5, %y) : tensor<4xf32>
  %s7 = graph.add(%s6, %s6) : tensor<4xf32>
  %s8 = graph.max(%s7, %y) : tensor<4xf32>
  %h = graph.full() {elem = f32, shape = [4], value = 0.5} : tensor<4xf32>
  %r = graph.pow(%s8, %h) : tensor<4xf32>
  return(%r)
}

func @bits_of_some(%x: tensor<4xu8>) {
  %c = graph.full() {elem = u8, shape = [4], value = 15} : tensor<4xu8>
  %y = graph.and(%x, %c) : tensor<4xu8>
  return(%y)
}

func @function_of_numbers(%x: tensor<2xf32>) {
  %c = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %e = graph.exp(%c) : tensor<2xf32>
  %y = graph.add(%x, %e) : tensor<2xf32>
  return(%y)
}

func @dim_less_a_value(%x: tensor<4xi64>, %s: tensor<(n)xf32>) dims (n in 1..64) {
  %n = graph.full() {elem = i64, shape = [4], value = (n)} : tensor<4xi64>
  %y = graph.sub(%n, %x) : tensor<4xi64>
  return(%y, %s)
}

func @dims_of_few_bits(%x: tensor<(n)xi8>) dims (n in 1..1024) {
  %n = graph.full() {elem = i8, shape = [(n)], value = (n)} : tensor<(n)xi8>
  %c = graph.full() {elem = i8, shape = [(n)], value = 100} : tensor<(n)xi8>
  %a = graph.add(%n, %c) : tensor<(n)xi8>
  %y = graph.add(%x, %a) : tensor<(n)xi8>
  return(%y)
}

func @root_of_a_dim(%x: tensor<(n)xf32>) dims (n in 1..64) {
  %n = graph.full() {elem = f32, shape = [(n)], value = (n)} : tensor<(n)xf32>
  %h = graph.full() {elem = f32, shape = [(n)], value = 0.5} : tensor<(n)xf32>
  %y = graph.pow(%n, %h) : tensor<(n)xf32>
  return(%y, %x)
}

func @many_taken_of_elementwise(%x: tensor<6x8xf32>, %m: tensor<6x8xf32>, %i: tensor<6x3xi64>) {
  %v0 = graph.sub(%x, %m) : tensor<6x8xf32>
  %v1 = graph.take_along(%v0, %i) {axis = 1} : tensor<6x3xf32>
  return(%v1)
}

func @a_look_up_of_a_rounded_product(%x: tensor<6x4xbf16>, %w: tensor<4x64xbf16>, %b: tensor<64xf32>, %i: tensor<6x1xi64>) {
  %v0 = graph.contract(%x, %w) {elem = f32, spec = "mk,kn->mn"} : tensor<6x64xf32>
  %v1 = graph.broadcast(%b) {shape = [6, 64]} : tensor<6x64xf32>
  %v2 = graph.add(%v0, %v1) : tensor<6x64xf32>
  %v3 = graph.cast(%v2) {to = bf16} : tensor<6x64xbf16>
  %v4 = graph.take_along(%v3, %i) {axis = 1} : tensor<6x1xbf16>
  return(%v3, %v4)
}

func @scatter_of_the_largest_half(%x: tensor<5xf16>, %i: tensor<4x1xi64>, %u: tensor<4xf16>) {
  %y = graph.scatter_nd(%x, %i, %u) {kind = "max"} : tensor<5xf16>
  return(%y)
}

func @smallest_of_floats(%x: tensor<5x7xf32>) {
  %v, %i = graph.topk(%x) {axis = 1, k = 1, largest = false} : tensor<5x1xf32>, tensor<5x1xi64>
  return(%v, %i)
}
