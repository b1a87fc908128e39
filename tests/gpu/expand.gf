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

// a box of what is there, and of nothing beyond
func @box(%x: ptr<f32>, %b: i64) {grid = 3} {
  %p = block.program_id() : i64
  %r = block.index(%p) {expr = (4*p), names = ["p"]} : i64
  %c = block.const() {elem = i64, value = 5} : i64
  %a = block.load_box(%x, %p, %r, %c) {dims = [3, 10, 8], offset = 2, shape = [4, 4], strides = [80, 8, 1]} : tile<4x4xf32>
  return(%a)
}

// positions of a filter: every second one of 7 by 5, of which two come before the first pixel, and a tap
func @windows(%x: ptr<f32>, %s: i64) {grid = 3} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (4*mod(p, 2) - 2), names = ["p"]} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_box(%x, %zero, %at, %zero, %zero, %one, %p) {dims = [2, 7, 5, 6], lower = [0, -2], offset = 3, shape = [16, 8], steps = [1, 2], strides = [210, 30, 6, 1], upper = [-1, -1]} : tile<16x8xf32>
  return(%a)
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

func @box(%x: ptr<f32>, %b: i64) {grid = 3} {
  %p = block.program_id() : i64
  %r = block.index(%p) {expr = (4*p), names = ["p"]} : i64
  %c = block.const() {elem = i64, value = 5} : i64
  %v0 = block.index(%p, %r, %c) {expr = (80*at0 + 8*at1 + at2 + 2), names = ["at0", "at1", "at2"]} : i64
  %v1 = block.index(%p, %r, %c) {expr = (-1*at1 + 10), names = ["at0", "at1", "at2"]} : i64
  %v2 = block.index(%p, %r, %c) {expr = (-1*at2 + 8), names = ["at0", "at1", "at2"]} : i64
  %a = block.load_view(%x, %v0, %v1, %v2) {limited = [0, 1], shape = [4, 4], strides = [8, 1]} : tile<4x4xf32>
  return(%a)
}

func @windows(%x: ptr<f32>, %s: i64) {grid = 3} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (4*mod(p, 2) - 2), names = ["p"]} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %zero = block.const() {elem = i64, value = 0} : i64
  %v0 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v1 = block.reshape(%v0) {shape = [16, 1]} : tile<16x1xi64>
  %v2 = block.index(%zero, %at, %zero, %zero, %one, %p, %v1) {expr = (210*at0 + 30*at4 + 6*at5 + 210*floordiv(floordiv(at1, 2) + floordiv(at2 + at6, 4) + 1, 4) + 6*mod(at2 + at6, 4) + 60*mod(floordiv(at1, 2) + floordiv(at2 + at6, 4) + 1, 4) - 57), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v3 = block.broadcast(%v2) {shape = [16, 8]} : tile<16x8xi64>
  %v4 = block.arange() {end = 8, start = 0} : tile<8xi64>
  %v5 = block.reshape(%v4) {shape = [1, 8]} : tile<1x8xi64>
  %v6 = block.index(%zero, %at, %zero, %zero, %one, %p, %v5) {expr = (at3 + at6), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<1x8xi64>
  %v7 = block.broadcast(%v6) {shape = [16, 8]} : tile<16x8xi64>
  %v8 = block.add(%v3, %v7) : tile<16x8xi64>
  %v9 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v10 = block.reshape(%v9) {shape = [16, 1]} : tile<16x1xi64>
  %v11 = block.index(%zero, %at, %zero, %zero, %one, %p, %v10) {expr = (at0 + floordiv(floordiv(at1, 2) + floordiv(at2 + at6, 4) + 1, 4)), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v12 = block.const() {elem = i64, shape = [16, 1], value = 0} : tile<16x1xi64>
  %v13 = block.ge(%v11, %v12) : tile<16x1xbool>
  %v14 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v15 = block.reshape(%v14) {shape = [16, 1]} : tile<16x1xi64>
  %v16 = block.index(%zero, %at, %zero, %zero, %one, %p, %v15) {expr = (at0 + floordiv(floordiv(at1, 2) + floordiv(at2 + at6, 4) + 1, 4) - 2), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v17 = block.lt(%v16, %v12) : tile<16x1xbool>
  %v18 = block.and(%v13, %v17) : tile<16x1xbool>
  %v19 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v20 = block.reshape(%v19) {shape = [16, 1]} : tile<16x1xi64>
  %v21 = block.index(%zero, %at, %zero, %zero, %one, %p, %v20) {expr = (at4 + 2*mod(floordiv(at1, 2) + floordiv(at2 + at6, 4) + 1, 4) - 2), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v22 = block.const() {elem = i64, shape = [16, 1], value = 0} : tile<16x1xi64>
  %v23 = block.ge(%v21, %v22) : tile<16x1xbool>
  %v24 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v25 = block.reshape(%v24) {shape = [16, 1]} : tile<16x1xi64>
  %v26 = block.index(%zero, %at, %zero, %zero, %one, %p, %v25) {expr = (at4 + 2*mod(floordiv(at1, 2) + floordiv(at2 + at6, 4) + 1, 4) - 9), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v27 = block.lt(%v26, %v22) : tile<16x1xbool>
  %v28 = block.and(%v23, %v27) : tile<16x1xbool>
  %v29 = block.and(%v18, %v28) : tile<16x1xbool>
  %v30 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v31 = block.reshape(%v30) {shape = [16, 1]} : tile<16x1xi64>
  %v32 = block.index(%zero, %at, %zero, %zero, %one, %p, %v31) {expr = (at5 + mod(at2 + at6, 4)), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v33 = block.const() {elem = i64, shape = [16, 1], value = 0} : tile<16x1xi64>
  %v34 = block.ge(%v32, %v33) : tile<16x1xbool>
  %v35 = block.arange() {end = 16, start = 0} : tile<16xi64>
  %v36 = block.reshape(%v35) {shape = [16, 1]} : tile<16x1xi64>
  %v37 = block.index(%zero, %at, %zero, %zero, %one, %p, %v36) {expr = (at5 + mod(at2 + at6, 4) - 5), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<16x1xi64>
  %v38 = block.lt(%v37, %v33) : tile<16x1xbool>
  %v39 = block.and(%v34, %v38) : tile<16x1xbool>
  %v40 = block.and(%v29, %v39) : tile<16x1xbool>
  %v41 = block.broadcast(%v40) {shape = [16, 8]} : tile<16x8xbool>
  %v42 = block.arange() {end = 8, start = 0} : tile<8xi64>
  %v43 = block.reshape(%v42) {shape = [1, 8]} : tile<1x8xi64>
  %v44 = block.index(%zero, %at, %zero, %zero, %one, %p, %v43) {expr = (at3 + at6), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<1x8xi64>
  %v45 = block.const() {elem = i64, shape = [1, 8], value = 0} : tile<1x8xi64>
  %v46 = block.ge(%v44, %v45) : tile<1x8xbool>
  %v47 = block.arange() {end = 8, start = 0} : tile<8xi64>
  %v48 = block.reshape(%v47) {shape = [1, 8]} : tile<1x8xi64>
  %v49 = block.index(%zero, %at, %zero, %zero, %one, %p, %v48) {expr = (at3 + at6 - 6), names = ["at0", "at1", "at2", "at3", "at4", "at5", "at6"]} : tile<1x8xi64>
  %v50 = block.lt(%v49, %v45) : tile<1x8xbool>
  %v51 = block.and(%v46, %v50) : tile<1x8xbool>
  %v52 = block.broadcast(%v51) {shape = [16, 8]} : tile<16x8xbool>
  %v53 = block.and(%v41, %v52) : tile<16x8xbool>
  %a = block.load(%x, %v8, %v53) : tile<16x8xf32>
  return(%a)
}
