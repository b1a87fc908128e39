// RUN:
// Pointers, strided views with limits, gathers and scatters, and local memory.
func @views(%x: ptr<f32>, %out: ptr<f32>, %rows: i64, %cols_2: i64) {grid = (floordiv(rows + 3, 4))} {
  %pid = block.program_id() : i64
  %base = block.index(%pid) {expr = (4*cols_2*p), names = ["p"]} : i64
  %left = block.index(%pid) {expr = (-4*p + rows), names = ["p"]} : i64
  %width = block.index() {expr = (min(8, cols_2))} : i64
  %t = block.load_view(%x, %base, %left, %width) {limited = [0, 1], other = -1.0, shape = [4, 8], strides = [(cols_2), 1]} : tile<4x8xf32>
  %e = block.exp(%t) : tile<4x8xf32>
  block.store_view(%out, %base, %e, %left, %width) {limited = [0, 1], strides = [(cols_2), 1]}
  return(%t)
}

func @box(%x: ptr<f32>, %n: i64) {
  %row = block.const() {elem = i64, value = 1} : i64
  %t = block.load_box(%x, %row, %row) {dims = [(n), 6], offset = 2, shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %w = block.load_box(%x, %row, %row, %row, %row) {dims = [2, 5, 6], lower = [-1], offset = 0, shape = [8, 4], steps = [2], strides = [40, 8, 1], upper = [0]} : tile<8x4xf32>
  return(%t, %w)
}

func @gather(%x: ptr<i32>, %out: ptr<i32>) {
  %i = block.arange() {end = 9, start = 1} : tile<8xi64>
  %five = block.const() {elem = i64, shape = [8], value = 5} : tile<8xi64>
  %mask = block.lt(%i, %five) : tile<8xbool>
  %square = block.index(%i) {expr = (i*i + mod(i, 3)), names = ["i"]} : tile<8xi64>
  %a = block.load(%x, %square) : tile<8xi32>
  %b = block.load(%x, %i, %mask) {other = 7} : tile<8xi32>
  block.store(%out, %i, %a)
  block.store(%out, %square, %b, %mask)
  %two = block.const() {elem = i64, value = 2} : i64
  %one = block.load(%x, %two) : i32
  block.store(%out, %two, %one)
  return(%a, %b, %one)
}

func @scratch(%x: ptr<f32>, %n: i64) {
  %m = block.alloc() {count = (4*n), elem = f32} : ptr<f32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %two = block.const() {elem = i64, value = 2} : i64
  %t = block.load_view(%x, %zero) {shape = [4], strides = [2]} : tile<4xf32>
  block.store_view(%m, %zero, %t) {strides = [1]}
  %later = block.offset(%m, %two) : ptr<f32>
  %u = block.load_view(%later, %zero) {ahead = 256, shape = [2], strides = [1]} : tile<2xf32>
  return(%u)
}
