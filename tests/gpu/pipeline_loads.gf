// RUN: pipeline-loads
func @stages(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, stages = 2} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, shape = [16, 16], value = 0.0} : tile<16x16xf32>
  %r = for(%zero, %four, %start) {step = 1} do (%i: i64, %acc: tile<16x16xf32>) {
    %at = block.index(%i) {expr = (16*i), names = ["i"]} : i64
    %left = block.index(%i) {expr = (64 - 16*i), names = ["i"]} : i64
    %a = block.load_view(%x, %at, %left) {limited = [1], shape = [16, 16], strides = [64, 1]} : tile<16x16xf16>
    %b = block.load_view(%y, %at) {shape = [16, 16], strides = [1, 64]} : tile<16x16xf16>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32>
    yield(%d)
  } : tile<16x16xf32>
  block.store_view(%o, %zero, %r) {strides = [16, 1]}
  return()
}

// a loop that stores may write what a later iteration loads
func @stores(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, shape = [16, 16], value = 0.0} : tile<16x16xf32>
  %r = for(%zero, %four, %start) {step = 1} do (%i: i64, %acc: tile<16x16xf32>) {
    %at = block.index(%i) {expr = (256*i), names = ["i"]} : i64
    %a = block.load_view(%x, %at) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
    %b = block.load_view(%y, %at) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32>
    block.store_view(%o, %zero, %d) {strides = [16, 1]}
    yield(%d)
  } : tile<16x16xf32>
  return()
}
// -----
func @stages(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, stages = 2} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 16], swizzle = 32} : shared<2x16x16xf16, swizzle 32>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 16], swizzle = 32} : shared<2x16x16xf16, swizzle 32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, shape = [16, 16], value = 0.0} : tile<16x16xf32>
  %v2 = block.const() {elem = i64, value = 0} : i64
  %v3 = block.lt(%zero, %four) : bool
  %v4 = block.index(%zero) {expr = (16*i), names = ["i"]} : i64
  %v5 = block.index(%zero) {expr = (-16*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v4, %v0, %v2, %v3, %v5) {limited = [1], strides = [64, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v4, %v1, %v2, %v3) {strides = [1, 64], transposed = true, width = 8}
  gpu.commit()
  %v6 = block.const() {elem = i64, value = 0} : i64
  %v21, %v22 = for(%zero, %four, %start, %v6) {step = 1} do (%i: i64, %acc: tile<16x16xf32>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v7 = block.const() {elem = i64, value = 0} : i64
    %v8 = block.eq(%slot, %v7) : bool
    %v9 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v10 = block.const() {elem = i64, value = 1} : i64
    %v11 = block.select(%v8, %v10, %v9) : i64
    %v12 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v13 = block.lt(%v12, %four) : bool
    %v14 = block.index(%v12) {expr = (16*i), names = ["i"]} : i64
    %v15 = block.index(%v12) {expr = (-16*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v14, %v0, %v11, %v13, %v15) {limited = [1], strides = [64, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v14, %v1, %v11, %v13) {strides = [1, 64], transposed = true, width = 8}
    gpu.commit()
    %at = block.index(%i) {expr = (16*i), names = ["i"]} : i64
    %left = block.index(%i) {expr = (-16*i + 64), names = ["i"]} : i64
    %a = gpu.load_shared(%v0, %slot) {transposed = false} : tile<16x16xf16>
    %b = gpu.load_shared(%v1, %slot) {transposed = true} : tile<16x16xf16>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32>
    %v16 = block.const() {elem = i64, value = 1} : i64
    %v17 = block.eq(%slot, %v16) : bool
    %v18 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v19 = block.const() {elem = i64, value = 0} : i64
    %v20 = block.select(%v17, %v19, %v18) : i64
    yield(%d, %v20)
  } : tile<16x16xf32>, i64
  block.store_view(%o, %zero, %v21) {strides = [16, 1]}
  return()
}

func @stores(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, shape = [16, 16], value = 0.0} : tile<16x16xf32>
  %r = for(%zero, %four, %start) {step = 1} do (%i: i64, %acc: tile<16x16xf32>) {
    %at = block.index(%i) {expr = (256*i), names = ["i"]} : i64
    %a = block.load_view(%x, %at) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
    %b = block.load_view(%y, %at) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32>
    block.store_view(%o, %zero, %d) {strides = [16, 1]}
    yield(%d)
  } : tile<16x16xf32>
  return()
}
