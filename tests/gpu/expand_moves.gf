// RUN: expand-moves

// elements from where the index says, through memory that is the same each time round
func @fires(%x: ptr<f32>, %y: ptr<i32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %i = block.load_view(%y, %zero) {shape = [8], strides = [1]} : tile<8xi32>
  %four = block.const() {elem = i64, value = 4} : i64
  %r = for(%zero, %four, %a) do (%n: i64, %v: tile<8xf32>) {
    %g = block.gather(%v, %i) {axis = 0} : tile<8xf32>
    yield(%g)
  } : tile<8xf32>
  return(%r)
}

// sorting is what machines do
func @declines(%y: ptr<i32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %i = block.load_view(%y, %zero) {shape = [8], strides = [1]} : tile<8xi32>
  %r = block.sort(%i) {axis = 0, count = 8} : tile<8xi32>
  return(%r)
}

// one place is what a reduction leaves; halves alike are a choice
func @in_registers(%x: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf16>
  %one = block.take(%a) {axis = 1, count = 1, start = 3} : tile<4x1xf16>
  %two = block.cat(%one, %one) {axis = 1} : tile<4x2xf16>
  return(%two)
}

func @in_memory(%x: ptr<i32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xi32>
  %turned = block.take(%a) {axis = 1, count = 8, start = 7, step = -1} : tile<4x8xi32>
  %row = block.take(%a) {axis = 0, count = 3, start = 1} : tile<3x8xi32>
  %seven = block.cat(%turned, %row) {axis = 0} : tile<7x8xi32>
  %counts = block.histogram(%seven) {bins = 5} : tile<5xi32>
  return(%counts)
}
// -----
func @fires(%x: ptr<f32>, %y: ptr<i32>) {grid = 1} {
  %v0 = block.alloc() {count = 8, elem = f32} : ptr<f32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [8], strides = [1]} : tile<8xf32>
  %i = block.load_view(%y, %zero) {shape = [8], strides = [1]} : tile<8xi32>
  %four = block.const() {elem = i64, value = 4} : i64
  %r = for(%zero, %four, %a) do (%n: i64, %v: tile<8xf32>) {
    %v1 = block.const() {elem = i64, value = 0} : i64
    block.store_view(%v0, %v1, %v) {strides = [1]}
    %v2 = block.cast(%i) {to = i64} : tile<8xi64>
    %v3 = block.const() {elem = i64, shape = [8], value = 0} : tile<8xi64>
    %v4 = block.ge(%v2, %v3) : tile<8xbool>
    %v5 = block.const() {elem = i64, shape = [8], value = 8} : tile<8xi64>
    %v6 = block.lt(%v2, %v5) : tile<8xbool>
    %v7 = block.and(%v4, %v6) : tile<8xbool>
    %v8 = block.const() {elem = i64, shape = [8], value = 0} : tile<8xi64>
    %v9 = block.const() {elem = i64, shape = [8], value = 1} : tile<8xi64>
    %v10 = block.mul(%v2, %v9) : tile<8xi64>
    %v11 = block.add(%v8, %v10) : tile<8xi64>
    %v12 = block.load(%v0, %v11, %v7) : tile<8xf32>
    yield(%v12)
  } : tile<8xf32>
  return(%r)
}

func @declines(%y: ptr<i32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %i = block.load_view(%y, %zero) {shape = [8], strides = [1]} : tile<8xi32>
  %r = block.sort(%i) {axis = 0, count = 8} : tile<8xi32>
  return(%r)
}

func @in_registers(%x: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf16>
  %v0 = block.bitcast(%a) {to = i16} : tile<4x8xi16>
  %v1 = block.arange() {end = 8, start = 0} : tile<8xi64>
  %v2 = block.reshape(%v1) {shape = [1, 8]} : tile<1x8xi64>
  %v3 = block.broadcast(%v2) {shape = [4, 8]} : tile<4x8xi64>
  %v4 = block.const() {elem = i16, shape = [4, 8], value = 0} : tile<4x8xi16>
  %v5 = block.const() {elem = i64, shape = [4, 8], value = 3} : tile<4x8xi64>
  %v6 = block.eq(%v3, %v5) : tile<4x8xbool>
  %v7 = block.select(%v6, %v0, %v4) : tile<4x8xi16>
  %v8 = block.reduce(%v7) {axis = 1, kind = "or"} : tile<4xi16>
  %v9 = block.reshape(%v8) {shape = [4, 1]} : tile<4x1xi16>
  %v10 = block.bitcast(%v9) {to = f16} : tile<4x1xf16>
  %v11 = block.reshape(%v10) {shape = [4, 1, 1]} : tile<4x1x1xf16>
  %v12 = block.broadcast(%v11) {shape = [4, 2, 1]} : tile<4x2x1xf16>
  %v13 = block.reshape(%v10) {shape = [4, 1, 1]} : tile<4x1x1xf16>
  %v14 = block.broadcast(%v13) {shape = [4, 2, 1]} : tile<4x2x1xf16>
  %v15 = block.arange() {end = 2, start = 0} : tile<2xi64>
  %v16 = block.reshape(%v15) {shape = [1, 2, 1]} : tile<1x2x1xi64>
  %v17 = block.broadcast(%v16) {shape = [4, 2, 1]} : tile<4x2x1xi64>
  %v18 = block.const() {elem = i64, shape = [4, 2, 1], value = 0} : tile<4x2x1xi64>
  %v19 = block.eq(%v17, %v18) : tile<4x2x1xbool>
  %v20 = block.select(%v19, %v12, %v14) : tile<4x2x1xf16>
  %v21 = block.reshape(%v20) {shape = [4, 2]} : tile<4x2xf16>
  return(%v21)
}

func @in_memory(%x: ptr<i32>) {grid = 1} {
  %v0 = block.alloc() {count = 56, elem = i32} : ptr<i32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 8], strides = [8, 1]} : tile<4x8xi32>
  %v1 = block.const() {elem = i64, value = 0} : i64
  block.store_view(%v0, %v1, %a) {strides = [8, 1]}
  %v2 = block.const() {elem = i64, value = 7} : i64
  %v3 = block.load_view(%v0, %v2) {shape = [4, 8], strides = [8, -1]} : tile<4x8xi32>
  %v4 = block.const() {elem = i64, value = 0} : i64
  block.store_view(%v0, %v4, %a) {strides = [8, 1]}
  %v5 = block.const() {elem = i64, value = 8} : i64
  %v6 = block.load_view(%v0, %v5) {shape = [3, 8], strides = [8, 1]} : tile<3x8xi32>
  %v7 = block.const() {elem = i64, value = 0} : i64
  block.store_view(%v0, %v7, %v3) {strides = [8, 1]}
  %v8 = block.const() {elem = i64, value = 32} : i64
  block.store_view(%v0, %v8, %v6) {strides = [8, 1]}
  %v9 = block.const() {elem = i64, value = 0} : i64
  %v10 = block.load_view(%v0, %v9) {shape = [7, 8], strides = [8, 1]} : tile<7x8xi32>
  %v11 = block.const() {elem = i32, shape = [5], value = 0} : tile<5xi32>
  %v12 = block.const() {elem = i64, value = 0} : i64
  block.store_view(%v0, %v12, %v11) {strides = [1]}
  %v13 = block.cast(%v10) {to = i64} : tile<7x8xi64>
  %v14 = block.const() {elem = i64, shape = [7, 8], value = 0} : tile<7x8xi64>
  %v15 = block.ge(%v13, %v14) : tile<7x8xbool>
  %v16 = block.const() {elem = i64, shape = [7, 8], value = 5} : tile<7x8xi64>
  %v17 = block.lt(%v13, %v16) : tile<7x8xbool>
  %v18 = block.and(%v15, %v17) : tile<7x8xbool>
  %v19 = block.const() {elem = i32, shape = [7, 8], value = 1} : tile<7x8xi32>
  %v20 = block.atomic(%v0, %v13, %v19, %v18) {kind = "add"} : tile<7x8xi32>
  %v21 = block.const() {elem = i64, value = 0} : i64
  %v22 = block.load_view(%v0, %v21) {shape = [5], strides = [1]} : tile<5xi32>
  return(%v22)
}
