// RUN: find-views

func @fires(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 2} dims (n in 1..64) {
  %p = block.program_id() : i64
  %eight = block.const() {elem = i64, value = 8} : i64
  %base = block.mul(%p, %eight) : i64
  %lane = block.arange() {end = 8, start = 0} : tile<8xi64>
  %first = block.splat(%base) {shape = [8]} : tile<8xi64>
  %at = block.add(%first, %lane) : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) : tile<8xf32>
  block.store(%out, %at, %a, %in)
  return()
}

// a gather, and a limit from below
func @declines(%x: ptr<f32>, %i: ptr<i64>, %n: i64) {grid = 1} dims (n in 1..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %lane = block.arange() {end = 8, start = 0} : tile<8xi64>
  %read = block.load_view(%i, %zero) {shape = [8], strides = [1]} : tile<8xi64>
  %at = block.mul(%read, %read) : tile<8xi64>
  %a = block.load(%x, %at) : tile<8xf32>
  %least = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.ge(%lane, %least) : tile<8xbool>
  %b = block.load(%x, %lane, %in) : tile<8xf32>
  return(%a, %b)
}

// a matrix whose rows are as long as a symbol says, transposed
func @rows_of_a_symbol(%x: ptr<f32>, %n: i64) {grid = 1} dims (n in 4..64) {
  %i = block.arange() {end = 2, start = 0} : tile<2xi64>
  %j = block.arange() {end = 4, start = 0} : tile<4xi64>
  %ld = block.splat(%n) {shape = [4]} : tile<4xi64>
  %far = block.mul(%j, %ld) : tile<4xi64>
  %row = block.reshape(%i) {shape = [2, 1]} : tile<2x1xi64>
  %column = block.reshape(%far) {shape = [1, 4]} : tile<1x4xi64>
  %rows = block.broadcast(%row) {shape = [2, 4]} : tile<2x4xi64>
  %columns = block.broadcast(%column) {shape = [2, 4]} : tile<2x4xi64>
  %at = block.add(%rows, %columns) : tile<2x4xi64>
  %a = block.load(%x, %at) : tile<2x4xf32>
  return(%a)
}
// -----
func @fires(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 2} dims (n in 1..64) {
  %p = block.program_id() : i64
  %v0 = block.index(%p) {expr = (8*p), names = ["p"]} : i64
  %v1 = block.index(%p) {expr = (n - 8*p), names = ["p"]} : i64
  %v2 = block.load_view(%x, %v0, %v1) {limited = [0], other = 0, shape = [8], strides = [1]} : tile<8xf32>
  %v3 = block.index(%p) {expr = (8*p), names = ["p"]} : i64
  %v4 = block.index(%p) {expr = (n - 8*p), names = ["p"]} : i64
  block.store_view(%out, %v3, %v2, %v4) {limited = [0], strides = [1]}
  return()
}

func @declines(%x: ptr<f32>, %i: ptr<i64>, %n: i64) {grid = 1} dims (n in 1..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %lane = block.arange() {end = 8, start = 0} : tile<8xi64>
  %read = block.load_view(%i, %zero) {shape = [8], strides = [1]} : tile<8xi64>
  %at = block.mul(%read, %read) : tile<8xi64>
  %a = block.load(%x, %at) : tile<8xf32>
  %least = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.ge(%lane, %least) : tile<8xbool>
  %b = block.load(%x, %lane, %in) : tile<8xf32>
  return(%a, %b)
}

func @rows_of_a_symbol(%x: ptr<f32>, %n: i64) {grid = 1} dims (n in 4..64) {
  %v0 = block.index() {expr = 0, names = []} : i64
  %v1 = block.load_view(%x, %v0) {limited = [], other = 0, shape = [2, 4], strides = [1, (n)]} : tile<2x4xf32>
  return(%v1)
}
