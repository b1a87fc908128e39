func @f() {
  %r = graph.addd() : f32  // error: unknown op 'graph.addd'; did you mean 'graph.add'?
  return()
}
// -----
func @f() {
  %r = nonsense() : f32  // error: unknown op 'nonsense'
  return()
}
// -----
fun @f() {  // error: expected 'func', got 'fun'
}
// -----
func f() {  // error: expected symbol, got 'f'
}
// -----
func @f(%x: f31) {  // error: unknown type 'f31'
  return()
}
// -----
func @f(%x: tensor<3xf31>) {  // error: unknown element type 'f31'
  return()
}
// -----
func @f(%x: tensor<(n + )xf32>) {  // error: dim 'n +': expected a number or a name, got ''
  return()
}
// -----
func @f(%x: tensor<(n xf32>) {  // error: bad shape '(n xf32'
  return()
}
// -----
func @f(%x: tensor<(n & 2)xf32>) {  // error: dim 'n & 2': unexpected character '&'
  return()
}
// -----
func @f(%x: tensor<(n n)xf32>) {  // error: dim 'n n': unexpected 'n'
  return()
}
// -----
func @f(%x: tensor<(min(n, 2)xf32>) {  // error: bad shape '(min(n, 2)xf32'
  return()
}
// -----
func @f(%x: tensor<(min(n))xf32>) {  // error: dim 'min(n)': expected ',', got ')'
  return()
}
// -----
func @f(%x: tensor<(floordiv(n, 0))xf32>) {  // error: dim 'floordiv(n, 0)': expected a positive divisor, got 0
  return()
}
// -----
func @f(%x: ptr<3xf32>) {  // error: a pointer has no shape, got ptr<3xf32>
  return()
}
// -----
func @f(%x: tile<(n)xf32>) {  // error: a tile has a static shape, got tile<(n)xf32>
  return()
}
// -----
func @f(%x: f32, %x: f32) {  // error: %x is defined twice
  return()
}
// -----
func @f(%x: f32) {
  %x = block.exp(%x) : f32  // error: %x is defined twice
  return()
}
// -----
func @f(%x: f32) {
  return(%y)  // error: %y is not defined
}
// -----
func @f(%c: bool) {
  if(%c) do () {
    %a = block.not(%c) : bool
    yield()
  }
  return(%a)  // error: %a is not defined
}
// -----
func @f(%x: f32) {
  %a, %b = block.exp(%x) : f32  // error: block.exp: 2 names for 1 results
  return()
}
// -----
func @f(%x: f32) {
  block.exp(%x) : f32  // error: block.exp: 0 names for 1 results
  return()
}
// -----
func @f(%x: f32) {
  %a %b = block.exp(%x) : f32  // error: expected ',', got '%b'
  return()
}
// -----
func @f(%x: f32) {
  %a, = block.exp(%x) : f32  // error: expected value, got '='
  return()
}
// -----
func @f(%x: f32 %y: f32) {  // error: expected ',', got '%y'
  return()
}
// -----
func @f() {a = 1, a = 2} {  // error: attribute 'a' is given twice
  return()
}
// -----
func @f() {a = } {  // error: expected a literal, got '}'
  return()
}
// -----
func @f() {a = (n} {  // error: '(' is never closed
  return()
}
// -----
func @f() {a = word} {  // error: expected a literal, got 'word'
  return()
}
// -----
func @f() dims (n in 3) {  // error: expected range, got '3'
  return()
}
// -----
func @f() dims (n on 1..3) {  // error: expected 'in', got 'on'
  return()
}
// -----
func @f() {
  ;  // error: unexpected character ';'
}
// -----
func @f() {
  return()  // error: expected word, got 'end of input'
// -----
func @f() {
  %c = graph.constant() {value = dense<(n)xf32, [1.0]>} : tensor<(n)xf32>  // error: a constant has a static shape, got dense<(n)xf32, [1.0]>
  return()
}
// -----
func @f() {
  %c = graph.constant() {value = dense<2xf32, [1.0]>} : tensor<2xf32>  // error: bad constant dense<2xf32, [1.0]>: cannot reshape array of size 1 into shape (2,)
  return()
}
// -----
func @f() {
  %c = graph.constant() {value = dense<1xi8, [128]>} : tensor<1xi8>  // error: bad constant dense<1xi8, [128]>: a value is out of range for i8
  return()
}
// -----
func @f() {
  %c = graph.constant() {value = dense<1xi8, [1.5]>} : tensor<1xi8>  // error: bad constant dense<1xi8, [1.5]>: invalid literal for int() with base 10: '1.5'
  return()
}
// -----
func @f() {
  %c = graph.constant() {value = dense<1xbool, [yes]>} : tensor<1xbool>  // error: bad constant dense<1xbool, [yes]>: expected true or false
  return()
}
// -----
func @f() {
  %c = graph.constant() {value = dense<99xi8, sha256:00>} : tensor<99xi8>  // error: the data of constant sha256:00 is not at hand
  return()
}
// -----
// error at 2: unexpected character '"'
func @f() {a = "open} {
  return()
}
// -----
func @f() {a = 9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999} {  // error: a number has 400 digits or more
  return()
}
// -----
func @f(%x: shared<(n)x4xf32>) {  // error: expected static dims and a swizzle of 32, 64 or 128, got shared<(n)x4xf32>
  return()
}
// -----
layout #l = 4 linear {lane = [[1], [2]]}
func @f(%x: tensor<4xf32, #l>) {  // error: only a tile has a layout, got tensor<4xf32, #l>
  return()
}
