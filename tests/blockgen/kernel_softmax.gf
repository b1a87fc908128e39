// RUN:
// Two passes that fold tiles to scalars, with the exponentials kept; one that stores.
func @softmax(%in0: ptr<f32>, %out0: ptr<f32>, %batch: i64) {grid = (batch), work = 37} dims (batch in 1..8) {
  %v0 = block.program_id() : i64
  %v1 = block.const() {elem = f32, shape = [32], value = -inf} : tile<32xf32>
  %v2 = block.index(%v0) {expr = (40*pid2), names = ["pid2"]} : i64
  %v3 = block.load_view(%in0, %v2) {shape = [32], strides = [1]} : tile<32xf32>
  %v4 = block.max(%v1, %v3) : tile<32xf32>
  %v5 = block.const() {elem = f32, shape = [8], value = -inf} : tile<8xf32>
  %v6 = block.index(%v0) {expr = (40*pid2 + 32), names = ["pid2"]} : i64
  %v7 = block.load_view(%in0, %v6) {shape = [8], strides = [1]} : tile<8xf32>
  %v8 = block.max(%v5, %v7) : tile<8xf32>
  %v9 = block.reshape(%v4) {shape = [4, 8]} : tile<4x8xf32>
  %v10 = block.reduce(%v9) {axis = 0, kind = "max"} : tile<8xf32>
  %v11 = block.max(%v10, %v8) : tile<8xf32>
  %v12 = block.reduce(%v11) {axis = 0, kind = "max"} : f32
  %v13 = block.alloc() {count = 40, elem = f32} : ptr<f32>
  %v14 = block.const() {elem = f32, shape = [32], value = 0.0} : tile<32xf32>
  %v15 = block.load_view(%in0, %v2) {shape = [32], strides = [1]} : tile<32xf32>
  %v16 = block.splat(%v12) {shape = [32]} : tile<32xf32>
  %v17 = block.sub(%v15, %v16) : tile<32xf32>
  %v18 = block.exp(%v17) : tile<32xf32>
  %v19 = block.const() {elem = i64, value = 0} : i64
  block.store_view(%v13, %v19, %v18) {strides = [1]}
  %v20 = block.add(%v14, %v18) : tile<32xf32>
  %v21 = block.const() {elem = f32, shape = [8], value = 0.0} : tile<8xf32>
  %v22 = block.load_view(%in0, %v6) {shape = [8], strides = [1]} : tile<8xf32>
  %v23 = block.splat(%v12) {shape = [8]} : tile<8xf32>
  %v24 = block.sub(%v22, %v23) : tile<8xf32>
  %v25 = block.exp(%v24) : tile<8xf32>
  %v26 = block.const() {elem = i64, value = 32} : i64
  block.store_view(%v13, %v26, %v25) {strides = [1]}
  %v27 = block.add(%v21, %v25) : tile<8xf32>
  %v28 = block.reshape(%v20) {shape = [4, 8]} : tile<4x8xf32>
  %v29 = block.reduce(%v28) {axis = 0, kind = "sum"} : tile<8xf32>
  %v30 = block.add(%v29, %v27) : tile<8xf32>
  %v31 = block.reduce(%v30) {axis = 0, kind = "sum"} : f32
  %v32 = block.load_view(%v13, %v19) {shape = [32], strides = [1]} : tile<32xf32>
  %v33 = block.splat(%v31) {shape = [32]} : tile<32xf32>
  %v34 = block.div(%v32, %v33) : tile<32xf32>
  block.store_view(%out0, %v2, %v34) {strides = [1]}
  %v35 = block.load_view(%v13, %v26) {shape = [8], strides = [1]} : tile<8xf32>
  %v36 = block.splat(%v31) {shape = [8]} : tile<8xf32>
  %v37 = block.div(%v35, %v36) : tile<8xf32>
  block.store_view(%out0, %v6, %v37) {strides = [1]}
  return()
}
