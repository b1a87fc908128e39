func @f(%x: f32) {
  %r = block.take(%x) {axis = 0, count = 1, start = 0} : tile<1xf32>  // error: block.take: operand must be a tile, got f32
  return()
}
// -----
func @f(%x: tile<8xf32>) {
  %r = block.take(%x) {axis = 0, count = 3, start = 4, step = 2} : tile<3xf32>  // error: block.take: expected elements in 0..7, got 3 from 4 by 2
  return()
}
// -----
func @f(%x: tile<2x3xi32>, %y: tile<3x3xi32>) {
  %r = block.cat(%x, %y) {axis = 1} : tile<2x6xi32>  // error: block.cat: operands must be equal but for axis 1, got tile<2x3xi32> and tile<3x3xi32>
  return()
}
// -----
func @f(%x: tile<8xf32>, %y: tile<8xf32>) {
  %r = block.gather(%x, %y) {axis = 0} : tile<8xf32>  // error: block.gather: places must be integers, got tile<8xf32>
  return()
}
// -----
func @f(%x: tile<2x8xf32>, %y: tile<3x8xi32>) {
  %r = block.gather(%x, %y) {axis = 1} : tile<2x8xf32>  // error: block.gather: shapes must be equal but for axis 1, got tile<2x8xf32> and tile<3x8xi32>
  return()
}
// -----
func @f(%x: tile<8xf32>) {
  %r = block.histogram(%x) {bins = 4} : tile<4xi32>  // error: block.histogram: expected integers and a positive number of bins, got tile<8xf32> and 4
  return()
}
// -----
func @f(%x: tile<16xi32>, %y: tile<16xf32>) {
  %r, %s = block.sort(%x, %y) {axis = 0, count = 4} : tile<4xi32>, tile<4xf32>  // error: block.sort: operands must be tiles of i32 or i64 of one shape, got tile<16xi32>, tile<16xf32>
  return()
}
// -----
func @f(%x: tile<2x16xi32>) {
  %r = block.sort(%x) {axis = 1, count = 17} : tile<2x17xi32>  // error: block.sort: count must be 1 to 16, got 17
  return()
}
// -----
func @f(%x: tile<12xi32>) {
  %r = block.sort(%x) {axis = 0, count = 4, falling = true} : tile<4xi32>  // error: block.sort: falling, sizes must be powers of two, got 4 of 12
  return()
}
