// RUN:
// Two passes that fold tiles to scalars, with the exponentials kept; one that stores.
func @softmax(%in0: ptr<f32>, %out0: ptr<f32>, %batch: i64) {grid = (batch), work = 37} dims (batch in 1..8) {
  %v0 = block.program_id() : i64
  %v1 = block.const() {elem = f32, shape = [32], value = -inf} : tile<32xf32>
  %v2 = block.index(%v0) {expr = (40*pid2), names = ["pid2"]} : i64
  %v3 = block.load_view(%in0, %v2) {shape = [32], strides = [1]} : tile<32xf32>
  %v4 = block.max(%v1, %v3) : tile<32xf32>
  %v5 = block.reduce(%v4) {axis = 0, kind = "max"} : f32
  %v6 = block.const() {elem = f32, shape = [8], value = -inf} : tile<8xf32>
  %v7 = block.index(%v0) {expr = (40*pid2 + 32), names = ["pid2"]} : i64
  %v8 = block.load_view(%in0, %v7) {shape = [8], strides = [1]} : tile<8xf32>
  %v9 = block.max(%v6, %v8) : tile<8xf32>
  %v10 = block.reduce(%v9) {axis = 0, kind = "max"} : f32
  %v11 = block.max(%v5, %v10) : f32
  %v12 = block.alloc() {count = 40, elem = f32} : ptr<f32>
  %v13 = block.const() {elem = f32, shape = [32], value = 0.0} : tile<32xf32>
  %v14 = block.load_view(%in0, %v2) {shape = [32], strides = [1]} : tile<32xf32>
  %v15 = block.splat(%v11) {shape = [32]} : tile<32xf32>
  %v16 = block.sub(%v14, %v15) : tile<32xf32>
  %v17 = block.exp(%v16) : tile<32xf32>
  %v18 = block.const() {elem = i64, value = 0} : i64
  block.store_view(%v12, %v18, %v17) {strides = [1]}
  %v19 = block.add(%v13, %v17) : tile<32xf32>
  %v20 = block.reduce(%v19) {axis = 0, kind = "sum"} : f32
  %v21 = block.const() {elem = f32, shape = [8], value = 0.0} : tile<8xf32>
  %v22 = block.load_view(%in0, %v7) {shape = [8], strides = [1]} : tile<8xf32>
  %v23 = block.splat(%v11) {shape = [8]} : tile<8xf32>
  %v24 = block.sub(%v22, %v23) : tile<8xf32>
  %v25 = block.exp(%v24) : tile<8xf32>
  %v26 = block.const() {elem = i64, value = 32} : i64
  block.store_view(%v12, %v26, %v25) {strides = [1]}
  %v27 = block.add(%v21, %v25) : tile<8xf32>
  %v28 = block.reduce(%v27) {axis = 0, kind = "sum"} : f32
  %v29 = block.add(%v20, %v28) : f32
  %v30 = block.load_view(%v12, %v18) {shape = [32], strides = [1]} : tile<32xf32>
  %v31 = block.splat(%v29) {shape = [32]} : tile<32xf32>
  %v32 = block.div(%v30, %v31) : tile<32xf32>
  block.store_view(%out0, %v2, %v32) {strides = [1]}
  %v33 = block.load_view(%v12, %v26) {shape = [8], strides = [1]} : tile<8xf32>
  %v34 = block.splat(%v29) {shape = [8]} : tile<8xf32>
  %v35 = block.div(%v33, %v34) : tile<8xf32>
  block.store_view(%out0, %v7, %v35) {strides = [1]}
  return()
}
