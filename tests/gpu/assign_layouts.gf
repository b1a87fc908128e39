// RUN: assign-layouts

// neighbours in memory go to one thread, then to neighbouring threads
func @fires(%x: ptr<f32>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [32, 16], strides = [16, 1]} : tile<32x16xf32>
  %b = block.exp(%a) : tile<32x16xf32>
  block.store_view(%out, %zero, %b) {strides = [16, 1]}
  return()
}

// layouts that are there already are kept
layout #own = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @declines(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #own, shape = [64], strides = [1]} : tile<64xf32, #own>
  block.store_view(%out, %zero, %a) {strides = [1]}
  return()
}

// fewer elements than threads, and no power of two
func @few(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 2} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [3, 5], strides = [5, 1]} : tile<3x5xf32>
  %s = block.reduce(%a) {axis = 1, kind = "sum"} : tile<3xf32>
  block.store_view(%out, %zero, %s) {strides = [1]}
  return()
}

// operands of products have the layouts of the matrix unit
func @product(%x: ptr<f16>, %y: ptr<f16>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
  %b = block.load_view(%y, %zero) {shape = [16, 8], strides = [8, 1]} : tile<16x8xf16>
  %c = block.const() {elem = f32, shape = [16, 8], value = 0.0} : tile<16x8xf32>
  %d = block.dot(%a, %b, %c) : tile<16x8xf32>
  block.store_view(%out, %zero, %d) {strides = [8, 1]}
  return()
}
// -----
layout #l0 = 32x16 linear {register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]]}
func @fires(%x: ptr<f32>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #l0, shape = [32, 16], strides = [16, 1]} : tile<32x16xf32, #l0>
  %b = block.exp(%a) : tile<32x16xf32, #l0>
  block.store_view(%out, %zero, %b) {strides = [16, 1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @declines(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  block.store_view(%out, %zero, %a) {strides = [1]}
  return()
}

layout #l0 = 4x8 linear {lane = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0]], warp = [[0, 0]]}
layout #l1 = 4 linear {lane = [[0], [0], [0], [1], [2]], warp = [[0]]}
func @few(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 2} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #l0, shape = [3, 5], strides = [5, 1]} : tile<3x5xf32, #l0>
  %s = block.reduce(%a) {axis = 1, kind = "sum"} : tile<3xf32, #l1>
  block.store_view(%out, %zero, %s) {strides = [1]}
  return()
}

layout #l0 = 16x16 linear {register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]]}
layout #l1 = 16x8 linear {register = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]]}
layout #l2 = 16x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l3 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l4 = 16x8 linear {register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @product(%x: ptr<f16>, %y: ptr<f16>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #l0, shape = [16, 16], strides = [16, 1]} : tile<16x16xf16, #l0>
  %b = block.load_view(%y, %zero) {layout = #l1, shape = [16, 8], strides = [8, 1]} : tile<16x8xf16, #l1>
  %c = block.const() {elem = f32, layout = #l2, shape = [16, 8], value = 0.0} : tile<16x8xf32, #l2>
  %v0 = gpu.convert_layout(%a) {layout = #l3} : tile<16x16xf16, #l3>
  %v1 = gpu.convert_layout(%b) {layout = #l4} : tile<16x8xf16, #l4>
  %d = block.dot(%v0, %v1, %c) : tile<16x8xf32, #l2>
  block.store_view(%out, %zero, %d) {strides = [8, 1]}
  return()
}
