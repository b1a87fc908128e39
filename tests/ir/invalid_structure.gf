// error at 0: @f: dim 'n' is declared twice
func @f() dims (n in 1..2, n in 1..3) {
  return()
}
// -----
// error at 0: @f: dim 'n' has an empty range 4..3
func @f() dims (n in 4..3) {
  return()
}
// -----
// error at 0: block must end in 'return'
func @f() {
}
// -----
func @f(%x: f32) {
  %y = block.exp(%x) : f32  // error: block must end in 'return'
}
// -----
func @f(%x: f32) {
  yield(%x)  // error: block must end in 'return'
}
// -----
func @f(%x: f32) {
  return(%x)  // error: return: terminator in mid-block
  return(%x)
}
// -----
func @f(%c: bool) {
  if(%c) do () {
    return()  // error: block must end in 'yield'
  }
  return()
}
// -----
// error at 0: block must end in 'yield'
func @f(%c: bool) {
  if(%c) do () {
  }
  return()
}
