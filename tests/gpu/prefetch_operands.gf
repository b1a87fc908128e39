// RUN: prefetch-operands
// HALVES

layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l2 = 32x16 linear {register = [[1, 0], [8, 0], [16, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @two_slices(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, prefetch = true, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l1, transposed = false} : tile<16x32xf16, #l1>
    %b = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}

layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l2 = 32x16 linear {register = [[1, 0], [8, 0], [16, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @not_asked(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l1, transposed = false} : tile<16x32xf16, #l1>
    %b = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}

// a tile is one slice
layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x16 linear {register = [[1, 0], [8, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @one_slice(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, prefetch = true, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 16], swizzle = 32} : shared<2x16x16xf16, swizzle 32>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 16], swizzle = 32} : shared<2x16x16xf16, swizzle 32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l0, transposed = false} : tile<16x16xf16, #l0>
    %b = gpu.load_shared(%v1, %slot) {layout = #l1, transposed = true} : tile<16x16xf16, #l1>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}

// a tile that nobody reads
layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l2 = 32x16 linear {register = [[1, 0], [8, 0], [16, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @unread(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, prefetch = true, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l1, transposed = false} : tile<16x32xf16, #l1>
    %b = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %c = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}
// -----
layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x16 linear {register = [[1, 0], [8, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @two_slices(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, prefetch = true, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  gpu.wait_group() {pending = 0}
  %v5 = block.eq(%zero, %zero) : bool
  %v6 = block.index(%zero) {expr = (s - 1), names = ["s"]} : i64
  %v7 = block.const() {elem = i64, value = 1} : i64
  %v8 = block.select(%v5, %v7, %v6) : i64
  %v9 = block.index(%zero) {expr = (i + 1), names = ["i"]} : i64
  %v10 = block.lt(%v9, %four) : bool
  %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
  %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v13 = block.lt(%zero, %four) : bool
  %v18, %v19 = if(%v13) do () {
    %v14 = gpu.load_shared(%v0, %zero) {axis = 1, layout = #l0, part = 0, parts = 2, transposed = false} : tile<16x16xf16, #l0>
    %v15 = gpu.load_shared(%v1, %zero) {axis = 0, layout = #l1, part = 0, parts = 2, transposed = true} : tile<16x16xf16, #l1>
    yield(%v14, %v15)
  } do () {
    %v16 = block.const() {elem = f16, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf16, #l0>
    %v17 = block.const() {elem = f16, layout = #l1, shape = [16, 16], value = 0.0} : tile<16x16xf16, #l1>
    yield(%v16, %v17)
  } : tile<16x16xf16, #l0>, tile<16x16xf16, #l1>
  %v47, %v48, %v49, %v50 = for(%zero, %four, %start, %zero, %v18, %v19) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64, %v20: tile<16x16xf16, #l0>, %v21: tile<16x16xf16, #l1>) {
    %v22 = block.const() {elem = i64, value = 1} : i64
    %v23 = gpu.load_shared(%v0, %slot) {axis = 1, layout = #l0, part = 1, parts = 2, transposed = false} : tile<16x16xf16, #l0>
    %v24 = gpu.load_shared(%v1, %slot) {axis = 0, layout = #l1, part = 1, parts = 2, transposed = true} : tile<16x16xf16, #l1>
    %v25 = block.dot(%v20, %v21, %acc) : tile<16x16xf32, #l0>
    %v26 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v27 = block.const() {elem = i64, value = 1} : i64
    %v28 = block.eq(%slot, %v27) : bool
    %v29 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v30 = block.select(%v28, %zero, %v29) : i64
    gpu.wait_group() {pending = 0}
    %v31 = block.eq(%v30, %zero) : bool
    %v32 = block.index(%v30) {expr = (s - 1), names = ["s"]} : i64
    %v33 = block.const() {elem = i64, value = 1} : i64
    %v34 = block.select(%v31, %v33, %v32) : i64
    %v35 = block.index(%v26) {expr = (i + 1), names = ["i"]} : i64
    %v36 = block.lt(%v35, %four) : bool
    %v37 = block.index(%v35) {expr = (32*i), names = ["i"]} : i64
    %v38 = block.index(%v35) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v37, %v0, %v34, %v36, %v38) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v37, %v1, %v34, %v36) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %v39 = block.lt(%v26, %four) : bool
    %v40 = block.select(%v39, %v30, %slot) : i64
    %v41 = gpu.load_shared(%v0, %v40) {axis = 1, layout = #l0, part = 0, parts = 2, transposed = false} : tile<16x16xf16, #l0>
    %v42 = gpu.load_shared(%v1, %v40) {axis = 0, layout = #l1, part = 0, parts = 2, transposed = true} : tile<16x16xf16, #l1>
    %v43 = block.dot(%v23, %v24, %v25) : tile<16x16xf32, #l0>
    %v44 = block.eq(%slot, %v22) : bool
    %v45 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v46 = block.select(%v44, %zero, %v45) : i64
    yield(%v43, %v46, %v41, %v42)
  } : tile<16x16xf32, #l0>, i64, tile<16x16xf16, #l0>, tile<16x16xf16, #l1>
  block.store_view(%o, %zero, %v47) {strides = [16, 1]}
  return()
}

layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l2 = 32x16 linear {register = [[1, 0], [8, 0], [16, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @not_asked(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l1, transposed = false} : tile<16x32xf16, #l1>
    %b = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}

layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x16 linear {register = [[1, 0], [8, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @one_slice(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, prefetch = true, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 16], swizzle = 32} : shared<2x16x16xf16, swizzle 32>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 16], swizzle = 32} : shared<2x16x16xf16, swizzle 32>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l0, transposed = false} : tile<16x16xf16, #l0>
    %b = gpu.load_shared(%v1, %slot) {layout = #l1, transposed = true} : tile<16x16xf16, #l1>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}

layout #l0 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l1 = 16x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l2 = 32x16 linear {register = [[1, 0], [8, 0], [16, 0], [0, 8]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]}
func @unread(%x: ptr<f16>, %y: ptr<f16>, %o: ptr<f32>) {grid = 1, prefetch = true, stages = 2, warps = 1} {
  %v0 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %v1 = gpu.shared_alloc() {elem = f16, shape = [2, 16, 32], swizzle = 64} : shared<2x16x32xf16, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [16, 16], value = 0.0} : tile<16x16xf32, #l0>
  %v2 = block.lt(%zero, %four) : bool
  %v3 = block.index(%zero) {expr = (32*i), names = ["i"]} : i64
  %v4 = block.index(%zero) {expr = (-32*i + 64), names = ["i"]} : i64
  gpu.copy_async(%x, %v3, %v0, %zero, %v2, %v4) {limited = [1], strides = [128, 1], transposed = false, width = 8}
  gpu.copy_async(%y, %v3, %v1, %zero, %v2) {strides = [1, 128], transposed = true, width = 8}
  gpu.commit()
  %v16, %v17 = for(%zero, %four, %start, %zero) {step = 1} do (%i: i64, %acc: tile<16x16xf32, #l0>, %slot: i64) {
    gpu.wait_group() {pending = 0}
    %v5 = block.eq(%slot, %zero) : bool
    %v6 = block.index(%slot) {expr = (s - 1), names = ["s"]} : i64
    %v7 = block.const() {elem = i64, value = 1} : i64
    %v8 = block.select(%v5, %v7, %v6) : i64
    %v9 = block.index(%i) {expr = (i + 1), names = ["i"]} : i64
    %v10 = block.lt(%v9, %four) : bool
    %v11 = block.index(%v9) {expr = (32*i), names = ["i"]} : i64
    %v12 = block.index(%v9) {expr = (-32*i + 64), names = ["i"]} : i64
    gpu.copy_async(%x, %v11, %v0, %v8, %v10, %v12) {limited = [1], strides = [128, 1], transposed = false, width = 8}
    gpu.copy_async(%y, %v11, %v1, %v8, %v10) {strides = [1, 128], transposed = true, width = 8}
    gpu.commit()
    %a = gpu.load_shared(%v0, %slot) {layout = #l1, transposed = false} : tile<16x32xf16, #l1>
    %b = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %c = gpu.load_shared(%v1, %slot) {layout = #l2, transposed = true} : tile<32x16xf16, #l2>
    %d = block.dot(%a, %b, %acc) : tile<16x16xf32, #l0>
    %v13 = block.eq(%slot, %v7) : bool
    %v14 = block.index(%slot) {expr = (s + 1), names = ["s"]} : i64
    %v15 = block.select(%v13, %zero, %v14) : i64
    yield(%d, %v15)
  } : tile<16x16xf32, #l0>, i64
  block.store_view(%o, %zero, %v16) {strides = [16, 1]}
  return()
}
