// RUN: coalesce

layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [8, 0], [16, 0], [32, 0]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]]}
func @fires(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %b = block.load_view(%y, %z) {layout = #l0, shape = [64, 64], strides = [1, 64]} : tile<64x64xf32, #l0>
  %c = block.add(%a, %b) : tile<64x64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [64, 1]}
  return()
}

// all rows go the same way
layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [8, 0], [16, 0], [32, 0]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]]}
func @declines(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %b = block.load_view(%y, %z) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %c = block.add(%a, %b) : tile<64x64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [64, 1]}
  return()
}

// columns of one sector
layout #l0 = 64x8 linear {register = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]}
func @eight_columns(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64, 8], strides = [8, 1]} : tile<64x8xf32, #l0>
  %b = block.load_view(%y, %z) {layout = #l0, shape = [64, 8], strides = [1, 64]} : tile<64x8xf32, #l0>
  %c = block.add(%a, %b) : tile<64x8xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [8, 1]}
  return()
}

// layouts belong to the matrix unit
layout #l0 = 16x16 linear {register = [[1, 0], [2, 0], [4, 0]], lane = [[8, 0], [0, 1], [0, 2], [0, 4], [0, 8]]}
layout #l1 = 16x8 linear {register = [[1, 0], [2, 0]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]]}
layout #l2 = 16x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l3 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l4 = 16x8 linear {register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @products(%x: ptr<f16>, %y: ptr<f16>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #l0, shape = [16, 16], strides = [1, 16]} : tile<16x16xf16, #l0>
  %b = block.load_view(%y, %zero) {layout = #l1, shape = [16, 8], strides = [1, 16]} : tile<16x8xf16, #l1>
  %c = block.const() {elem = f32, layout = #l2, shape = [16, 8], value = 0.0} : tile<16x8xf32, #l2>
  %v0 = gpu.convert_layout(%a) {layout = #l3} : tile<16x16xf16, #l3>
  %v1 = gpu.convert_layout(%b) {layout = #l4} : tile<16x8xf16, #l4>
  %d = block.dot(%v0, %v1, %c) : tile<16x8xf32, #l2>
  block.store_view(%out, %zero, %d) {strides = [8, 1]}
  return()
}
// -----
layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [8, 0], [16, 0], [32, 0]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]]}
layout #l1 = 64x64 linear {register = [[1, 0], [2, 0], [0, 8], [0, 16], [0, 32]], lane = [[4, 0], [8, 0], [16, 0], [32, 0], [0, 1]], warp = [[0, 2], [0, 4]]}
func @fires(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %v0 = block.load_view(%y, %z) {layout = #l1, shape = [64, 64], strides = [1, 64]} : tile<64x64xf32, #l1>
  %b = gpu.convert_layout(%v0) {layout = #l0} : tile<64x64xf32, #l0>
  %c = block.add(%a, %b) : tile<64x64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [64, 1]}
  return()
}

layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [8, 0], [16, 0], [32, 0]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]]}
func @declines(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %b = block.load_view(%y, %z) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %c = block.add(%a, %b) : tile<64x64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [64, 1]}
  return()
}

layout #l0 = 64x8 linear {register = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]}
func @eight_columns(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64, 8], strides = [8, 1]} : tile<64x8xf32, #l0>
  %b = block.load_view(%y, %z) {layout = #l0, shape = [64, 8], strides = [1, 64]} : tile<64x8xf32, #l0>
  %c = block.add(%a, %b) : tile<64x8xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [8, 1]}
  return()
}

layout #l0 = 16x16 linear {register = [[1, 0], [2, 0], [4, 0]], lane = [[8, 0], [0, 1], [0, 2], [0, 4], [0, 8]]}
layout #l1 = 16x8 linear {register = [[1, 0], [2, 0]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]]}
layout #l2 = 16x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l3 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l4 = 16x8 linear {register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @products(%x: ptr<f16>, %y: ptr<f16>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {layout = #l0, shape = [16, 16], strides = [1, 16]} : tile<16x16xf16, #l0>
  %b = block.load_view(%y, %zero) {layout = #l1, shape = [16, 8], strides = [1, 16]} : tile<16x8xf16, #l1>
  %c = block.const() {elem = f32, layout = #l2, shape = [16, 8], value = 0.0} : tile<16x8xf32, #l2>
  %v0 = gpu.convert_layout(%a) {layout = #l3} : tile<16x16xf16, #l3>
  %v1 = gpu.convert_layout(%b) {layout = #l4} : tile<16x8xf16, #l4>
  %d = block.dot(%v0, %v1, %c) : tile<16x8xf32, #l2>
  block.store_view(%out, %zero, %d) {strides = [8, 1]}
  return()
}
