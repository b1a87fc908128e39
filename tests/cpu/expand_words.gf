// RUN: expand-words {but = "f16"}
func @fires(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [4, 3], strides = [3, 1]} : tile<4x3xi32>
  %y = block.load_view(%b, %z) {shape = [3, 8], strides = [8, 1]} : tile<3x8xi32>
  %s = block.const() {elem = f32, shape = [4, 8], value = 0.0} : tile<4x8xf32>
  %d = block.dot_words(%x, %y, %s) {elem = bf16} : tile<4x8xf32>
  block.store_view(%c, %z, %d) {strides = [8, 1]}
  return()
}

// Other elements have instructions.
func @declines(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [4, 3], strides = [3, 1]} : tile<4x3xi32>
  %y = block.load_view(%b, %z) {shape = [3, 8], strides = [8, 1]} : tile<3x8xi32>
  %s = block.const() {elem = f32, shape = [4, 8], value = 0.0} : tile<4x8xf32>
  %d = block.dot_words(%x, %y, %s) {elem = f16} : tile<4x8xf32>
  block.store_view(%c, %z, %d) {strides = [8, 1]}
  return()
}

// Two dims of k are one.
func @two_dims(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [4, 2, 3], strides = [6, 3, 1]} : tile<4x2x3xi32>
  %y = block.load_view(%b, %z) {shape = [2, 3, 8], strides = [24, 8, 1]} : tile<2x3x8xi32>
  %s = block.load_view(%c, %z) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %d = block.dot_words(%x, %y, %s) {elem = bf16} : tile<4x8xf32>
  block.store_view(%c, %z, %d) {strides = [8, 1]}
  return()
}
// -----
func @fires(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [4, 3], strides = [3, 1]} : tile<4x3xi32>
  %y = block.load_view(%b, %z) {shape = [3, 8], strides = [8, 1]} : tile<3x8xi32>
  %s = block.const() {elem = f32, shape = [4, 8], value = 0.0} : tile<4x8xf32>
  %v0 = block.reshape(%x) {shape = [4, 3]} : tile<4x3xi32>
  %v1 = block.const() {elem = i32, value = 16} : i32
  %v2 = block.splat(%v1) {shape = [4, 3]} : tile<4x3xi32>
  %v3 = block.shr(%v0, %v2) : tile<4x3xi32>
  %v4 = block.cast(%v3) {to = u16} : tile<4x3xu16>
  %v5 = block.bitcast(%v4) {to = bf16} : tile<4x3xbf16>
  %v6 = block.reshape(%y) {shape = [3, 8]} : tile<3x8xi32>
  %v7 = block.splat(%v1) {shape = [3, 8]} : tile<3x8xi32>
  %v8 = block.shr(%v6, %v7) : tile<3x8xi32>
  %v9 = block.cast(%v8) {to = u16} : tile<3x8xu16>
  %v10 = block.bitcast(%v9) {to = bf16} : tile<3x8xbf16>
  %v11 = block.const() {elem = i32, value = 0} : i32
  %v12 = block.splat(%v11) {shape = [4, 3]} : tile<4x3xi32>
  %v13 = block.shr(%v0, %v12) : tile<4x3xi32>
  %v14 = block.cast(%v13) {to = u16} : tile<4x3xu16>
  %v15 = block.bitcast(%v14) {to = bf16} : tile<4x3xbf16>
  %v16 = block.splat(%v11) {shape = [3, 8]} : tile<3x8xi32>
  %v17 = block.shr(%v6, %v16) : tile<3x8xi32>
  %v18 = block.cast(%v17) {to = u16} : tile<3x8xu16>
  %v19 = block.bitcast(%v18) {to = bf16} : tile<3x8xbf16>
  %v20 = block.dot(%v15, %v19, %s) : tile<4x8xf32>
  %d = block.dot(%v5, %v10, %v20) : tile<4x8xf32>
  block.store_view(%c, %z, %d) {strides = [8, 1]}
  return()
}

func @declines(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [4, 3], strides = [3, 1]} : tile<4x3xi32>
  %y = block.load_view(%b, %z) {shape = [3, 8], strides = [8, 1]} : tile<3x8xi32>
  %s = block.const() {elem = f32, shape = [4, 8], value = 0.0} : tile<4x8xf32>
  %d = block.dot_words(%x, %y, %s) {elem = f16} : tile<4x8xf32>
  block.store_view(%c, %z, %d) {strides = [8, 1]}
  return()
}

func @two_dims(%a: ptr<i32>, %b: ptr<i32>, %c: ptr<f32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [4, 2, 3], strides = [6, 3, 1]} : tile<4x2x3xi32>
  %y = block.load_view(%b, %z) {shape = [2, 3, 8], strides = [24, 8, 1]} : tile<2x3x8xi32>
  %s = block.load_view(%c, %z) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %v0 = block.reshape(%x) {shape = [4, 6]} : tile<4x6xi32>
  %v1 = block.const() {elem = i32, value = 16} : i32
  %v2 = block.splat(%v1) {shape = [4, 6]} : tile<4x6xi32>
  %v3 = block.shr(%v0, %v2) : tile<4x6xi32>
  %v4 = block.cast(%v3) {to = u16} : tile<4x6xu16>
  %v5 = block.bitcast(%v4) {to = bf16} : tile<4x6xbf16>
  %v6 = block.reshape(%y) {shape = [6, 8]} : tile<6x8xi32>
  %v7 = block.splat(%v1) {shape = [6, 8]} : tile<6x8xi32>
  %v8 = block.shr(%v6, %v7) : tile<6x8xi32>
  %v9 = block.cast(%v8) {to = u16} : tile<6x8xu16>
  %v10 = block.bitcast(%v9) {to = bf16} : tile<6x8xbf16>
  %v11 = block.const() {elem = i32, value = 0} : i32
  %v12 = block.splat(%v11) {shape = [4, 6]} : tile<4x6xi32>
  %v13 = block.shr(%v0, %v12) : tile<4x6xi32>
  %v14 = block.cast(%v13) {to = u16} : tile<4x6xu16>
  %v15 = block.bitcast(%v14) {to = bf16} : tile<4x6xbf16>
  %v16 = block.splat(%v11) {shape = [6, 8]} : tile<6x8xi32>
  %v17 = block.shr(%v6, %v16) : tile<6x8xi32>
  %v18 = block.cast(%v17) {to = u16} : tile<6x8xu16>
  %v19 = block.bitcast(%v18) {to = bf16} : tile<6x8xbf16>
  %v20 = block.dot(%v15, %v19, %s) : tile<4x8xf32>
  %d = block.dot(%v5, %v10, %v20) : tile<4x8xf32>
  block.store_view(%c, %z, %d) {strides = [8, 1]}
  return()
}
