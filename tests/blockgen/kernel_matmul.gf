// RUN:
// The whole product in one register tile; the bias is added before the only store.
func @matmul(%in0: ptr<f32>, %in1: ptr<f32>, %in2: ptr<f32>, %out0: ptr<f32>) {flops = 1152, grid = 1, work = 52} {
  %v0 = block.const() {elem = f32, shape = [6, 16], value = 0.0} : tile<6x16xf32>
  %v1 = block.const() {elem = i64, value = 0} : i64
  %v2 = block.const() {elem = i64, value = 8} : i64
  %v9 = for(%v1, %v2, %v0) do (%k3: i64, %acc: tile<6x16xf32>) {
    %v3 = block.index(%k3) {expr = (k3), names = ["k3"]} : i64
    %v4 = block.load_view(%in0, %v3) {shape = [6, 1], strides = [8, 0]} : tile<6x1xf32>
    %v5 = block.index(%k3) {expr = (12*k3), names = ["k3"]} : i64
    %v6 = block.const() {elem = i64, value = 12} : i64
    %v7 = block.load_view(%in1, %v5, %v6) {limited = [1], shape = [1, 16], strides = [0, 1]} : tile<1x16xf32>
    %v8 = block.dot(%v4, %v7, %acc) : tile<6x16xf32>
    yield(%v8)
  } : tile<6x16xf32>
  %v10 = block.const() {elem = i64, value = 12} : i64
  %v11 = block.load_view(%in2, %v1, %v10) {limited = [1], shape = [1, 16], strides = [0, 1]} : tile<1x16xf32>
  %v12 = block.broadcast(%v11) {shape = [6, 16]} : tile<6x16xf32>
  %v13 = block.add(%v9, %v12) : tile<6x16xf32>
  block.store_view(%out0, %v1, %v13, %v10) {limited = [1], strides = [12, 1]}
  return()
}
