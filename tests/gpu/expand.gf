// RUN: expand

func @fires(%x: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %i = block.arg_reduce(%a) {axis = 1, kind = "max"} : tile<4xi64>
  return(%i)
}

func @declines(%x: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %i = block.reduce(%a) {axis = 1, kind = "max"} : tile<4xf32>
  return(%i)
}

// integers are no NaN, and a line leaves a scalar
func @a_line_of_integers(%x: ptr<i32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [8], strides = [1]} : tile<8xi32>
  %i = block.arg_reduce(%a) {axis = 0, elem = i32, kind = "min"} : i32
  return(%i)
}
// -----
func @fires(%x: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %v0 = block.reduce(%a) {axis = 1, kind = "max"} : tile<4xf32>
  %v1 = block.reshape(%v0) {shape = [4, 1]} : tile<4x1xf32>
  %v2 = block.broadcast(%v1) {shape = [4, 8]} : tile<4x8xf32>
  %v3 = block.eq(%a, %v2) : tile<4x8xbool>
  %v4 = block.isnan(%a) : tile<4x8xbool>
  %v5 = block.or(%v3, %v4) : tile<4x8xbool>
  %v6 = block.arange() {elem = i64, end = 8, start = 0} : tile<8xi64>
  %v7 = block.reshape(%v6) {shape = [1, 8]} : tile<1x8xi64>
  %v8 = block.broadcast(%v7) {shape = [4, 8]} : tile<4x8xi64>
  %v9 = block.const() {elem = i64, shape = [4, 8], value = 8} : tile<4x8xi64>
  %v10 = block.select(%v5, %v8, %v9) : tile<4x8xi64>
  %i = block.reduce(%v10) {axis = 1, kind = "min"} : tile<4xi64>
  return(%i)
}

func @declines(%x: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %i = block.reduce(%a) {axis = 1, kind = "max"} : tile<4xf32>
  return(%i)
}

func @a_line_of_integers(%x: ptr<i32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [8], strides = [1]} : tile<8xi32>
  %v0 = block.reduce(%a) {axis = 0, kind = "min"} : i32
  %v1 = block.splat(%v0) {shape = [8]} : tile<8xi32>
  %v2 = block.eq(%a, %v1) : tile<8xbool>
  %v3 = block.arange() {elem = i32, end = 8, start = 0} : tile<8xi32>
  %v4 = block.reshape(%v3) {shape = [8]} : tile<8xi32>
  %v5 = block.broadcast(%v4) {shape = [8]} : tile<8xi32>
  %v6 = block.const() {elem = i32, shape = [8], value = 8} : tile<8xi32>
  %v7 = block.select(%v2, %v5, %v6) : tile<8xi32>
  %i = block.reduce(%v7) {axis = 0, kind = "min"} : i32
  return(%i)
}
