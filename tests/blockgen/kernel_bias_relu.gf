// RUN:
// A dim that is not whole vectors: one program per row, 16 lanes, then a masked tail.
func @bias_relu(%in0: ptr<f32>, %in1: ptr<f32>, %out0: ptr<f32>, %batch: i64) {grid = (batch), work = 5} dims (batch in 1..8) {
  %v0 = block.program_id() : i64
  %v1 = block.index(%v0) {expr = (20*pid1), names = ["pid1"]} : i64
  %v2 = block.load_view(%in0, %v1) {shape = [16], strides = [1]} : tile<16xf32>
  %v3 = block.const() {elem = i64, value = 0} : i64
  %v4 = block.load_view(%in1, %v3) {shape = [16], strides = [1]} : tile<16xf32>
  %v5 = block.add(%v2, %v4) : tile<16xf32>
  %v6 = block.const() {elem = f32, value = 0.0} : f32
  %v7 = block.splat(%v6) {shape = [16]} : tile<16xf32>
  %v8 = block.max(%v5, %v7) : tile<16xf32>
  block.store_view(%out0, %v1, %v8) {strides = [1]}
  %v9 = block.index(%v0) {expr = (20*pid1 + 16), names = ["pid1"]} : i64
  %v10 = block.const() {elem = i64, value = 4} : i64
  %v11 = block.load_view(%in0, %v9, %v10) {limited = [0], shape = [8], strides = [1]} : tile<8xf32>
  %v12 = block.const() {elem = i64, value = 16} : i64
  %v13 = block.load_view(%in1, %v12, %v10) {limited = [0], shape = [8], strides = [1]} : tile<8xf32>
  %v14 = block.add(%v11, %v13) : tile<8xf32>
  %v15 = block.splat(%v6) {shape = [8]} : tile<8xf32>
  %v16 = block.max(%v14, %v15) : tile<8xf32>
  block.store_view(%out0, %v9, %v16, %v10) {limited = [0], strides = [1]}
  return()
}
