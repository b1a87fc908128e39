// RUN: hopper-attention

func @fires(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load_view(%in0, %v0) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf16>
  %v2 = block.const() {elem = f32, shape = [64, 1], value = -inf} : tile<64x1xf32>
  %v3 = block.const() {elem = f32, shape = [64, 1], value = 0.0} : tile<64x1xf32>
  %v4 = block.const() {elem = f32, shape = [64, 16], value = 0.0} : tile<64x16xf32>
  %v5 = block.const() {elem = i64, value = 1} : i64
  %v37, %v38, %v39 = for(%v0, %v5, %v2, %v3, %v4) do (%t3: i64, %acc: tile<64x1xf32>, %acc_0: tile<64x1xf32>, %acc_1: tile<64x16xf32>) {
    %v6 = block.const() {elem = f32, shape = [64, 128], value = 0.0} : tile<64x128xf32>
    %v7 = block.index(%t3) {expr = (2048*t3), names = ["t3"]} : i64
    %v8 = block.load_view(%in1, %v7) {shape = [16, 128], strides = [1, 16]} : tile<16x128xf16>
    %v9 = block.dot(%v1, %v8, %v6) : tile<64x128xf32>
    %v10 = block.reduce(%v9) {axis = 1, kind = "max"} : tile<64xf32>
    %v11 = block.reshape(%v10) {shape = [64, 1]} : tile<64x1xf32>
    %v12 = block.max(%acc, %v11) : tile<64x1xf32>
    %v13 = block.const() {elem = f32, shape = [64, 1], value = 0.25} : tile<64x1xf32>
    %v14 = block.mul(%acc, %v13) : tile<64x1xf32>
    %v15 = block.mul(%v12, %v13) : tile<64x1xf32>
    %v16 = block.eq(%v15, %v2) : tile<64x1xbool>
    %v17 = block.select(%v16, %v3, %v15) : tile<64x1xf32>
    %v18 = block.const() {elem = f32, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32>
    %v19 = block.mul(%v14, %v18) : tile<64x1xf32>
    %v20 = block.mul(%v17, %v18) : tile<64x1xf32>
    %v21 = block.sub(%v19, %v20) : tile<64x1xf32>
    %v22 = block.exp2(%v21) : tile<64x1xf32>
    %v23 = block.const() {elem = f32, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32>
    %v24 = block.neg(%v20) : tile<64x1xf32>
    %v25 = block.broadcast(%v24) {shape = [64, 128]} : tile<64x128xf32>
    %v26 = block.fma(%v9, %v23, %v25) : tile<64x128xf32>
    %v27 = block.exp2(%v26) : tile<64x128xf32>
    %v28 = block.mul(%acc_0, %v22) : tile<64x1xf32>
    %v29 = block.reduce(%v27) {axis = 1, kind = "sum"} : tile<64xf32>
    %v30 = block.reshape(%v29) {shape = [64, 1]} : tile<64x1xf32>
    %v31 = block.add(%v28, %v30) : tile<64x1xf32>
    %v32 = block.broadcast(%v22) {shape = [64, 16]} : tile<64x16xf32>
    %v33 = block.mul(%acc_1, %v32) : tile<64x16xf32>
    %v34 = block.cast(%v27) {to = f16} : tile<64x128xf16>
    %v35 = block.load_view(%in2, %v7) {shape = [128, 16], strides = [16, 1]} : tile<128x16xf16>
    %v36 = block.dot(%v34, %v35, %v33) : tile<64x16xf32>
    yield(%v12, %v31, %v36)
  } : tile<64x1xf32>, tile<64x1xf32>, tile<64x16xf32>
  %v40 = block.const() {elem = f32, shape = [64, 1], value = 1.0} : tile<64x1xf32>
  %v41 = block.div(%v40, %v38) : tile<64x1xf32>
  %v42 = block.broadcast(%v41) {shape = [64, 16]} : tile<64x16xf32>
  %v43 = block.mul(%v39, %v42) : tile<64x16xf32>
  %v44 = block.cast(%v43) {to = f16} : tile<64x16xf16>
  block.store_view(%out0, %v0, %v44) {strides = [16, 1]}
  return()
}

// queries in registers, keys past the end
func @words(%in0: ptr<bf16>, %in1: ptr<bf16>, %in2: ptr<bf16>, %out0: ptr<bf16>) {grid = 1, persistent = 0, query_words = true, resident = 1, stages = 2, turns = false, warps = 4} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load_view(%in0, %v0) {shape = [64, 16], strides = [16, 1]} : tile<64x16xbf16>
  %v2 = block.const() {elem = f32, shape = [64, 1], value = -inf} : tile<64x1xf32>
  %v3 = block.const() {elem = f32, shape = [64, 1], value = 0.0} : tile<64x1xf32>
  %v4 = block.const() {elem = f32, shape = [64, 16], value = 0.0} : tile<64x16xf32>
  %v5 = block.const() {elem = i64, value = 1} : i64
  %v45, %v46, %v47 = for(%v0, %v5, %v2, %v3, %v4) do (%t3: i64, %acc: tile<64x1xf32>, %acc_0: tile<64x1xf32>, %acc_1: tile<64x16xf32>) {
    %v6 = block.const() {elem = f32, shape = [64, 128], value = 0.0} : tile<64x128xf32>
    %v7 = block.index(%t3) {expr = (2048*t3), names = ["t3"]} : i64
    %v8 = block.index(%t3) {expr = (-128*t3 + 100), names = ["t3"]} : i64
    %v9 = block.load_view(%in1, %v7, %v8) {limited = [1], shape = [16, 128], strides = [1, 16]} : tile<16x128xbf16>
    %v10 = block.dot(%v1, %v9, %v6) : tile<64x128xf32>
    %v11 = block.arange() {end = 128, start = 0} : tile<128xi64>
    %v12 = block.reshape(%v11) {shape = [1, 128]} : tile<1x128xi64>
    %v13 = block.splat(%v8) {shape = [1, 128]} : tile<1x128xi64>
    %v14 = block.lt(%v12, %v13) : tile<1x128xbool>
    %v15 = block.broadcast(%v14) {shape = [64, 128]} : tile<64x128xbool>
    %v16 = block.const() {elem = f32, shape = [64, 128], value = -inf} : tile<64x128xf32>
    %v17 = block.select(%v15, %v10, %v16) : tile<64x128xf32>
    %v18 = block.reduce(%v17) {axis = 1, kind = "max"} : tile<64xf32>
    %v19 = block.reshape(%v18) {shape = [64, 1]} : tile<64x1xf32>
    %v20 = block.max(%acc, %v19) : tile<64x1xf32>
    %v21 = block.const() {elem = f32, shape = [64, 1], value = 0.25} : tile<64x1xf32>
    %v22 = block.mul(%acc, %v21) : tile<64x1xf32>
    %v23 = block.mul(%v20, %v21) : tile<64x1xf32>
    %v24 = block.eq(%v23, %v2) : tile<64x1xbool>
    %v25 = block.select(%v24, %v3, %v23) : tile<64x1xf32>
    %v26 = block.const() {elem = f32, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32>
    %v27 = block.mul(%v22, %v26) : tile<64x1xf32>
    %v28 = block.mul(%v25, %v26) : tile<64x1xf32>
    %v29 = block.sub(%v27, %v28) : tile<64x1xf32>
    %v30 = block.exp2(%v29) : tile<64x1xf32>
    %v31 = block.const() {elem = f32, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32>
    %v32 = block.neg(%v28) : tile<64x1xf32>
    %v33 = block.broadcast(%v32) {shape = [64, 128]} : tile<64x128xf32>
    %v34 = block.fma(%v17, %v31, %v33) : tile<64x128xf32>
    %v35 = block.exp2(%v34) : tile<64x128xf32>
    %v36 = block.mul(%acc_0, %v30) : tile<64x1xf32>
    %v37 = block.reduce(%v35) {axis = 1, kind = "sum"} : tile<64xf32>
    %v38 = block.reshape(%v37) {shape = [64, 1]} : tile<64x1xf32>
    %v39 = block.add(%v36, %v38) : tile<64x1xf32>
    %v40 = block.broadcast(%v30) {shape = [64, 16]} : tile<64x16xf32>
    %v41 = block.mul(%acc_1, %v40) : tile<64x16xf32>
    %v42 = block.cast(%v35) {to = bf16} : tile<64x128xbf16>
    %v43 = block.load_view(%in2, %v7, %v8) {limited = [0], shape = [128, 16], strides = [16, 1]} : tile<128x16xbf16>
    %v44 = block.dot(%v42, %v43, %v41) : tile<64x16xf32>
    yield(%v20, %v39, %v44)
  } : tile<64x1xf32>, tile<64x1xf32>, tile<64x16xf32>
  %v48 = block.const() {elem = f32, shape = [64, 1], value = 1.0} : tile<64x1xf32>
  %v49 = block.div(%v48, %v46) : tile<64x1xf32>
  %v50 = block.broadcast(%v49) {shape = [64, 16]} : tile<64x16xf32>
  %v51 = block.mul(%v47, %v50) : tile<64x16xf32>
  %v52 = block.cast(%v51) {to = bf16} : tile<64x16xbf16>
  block.store_view(%out0, %v0, %v52) {strides = [16, 1]}
  return()
}

// no attention
func @no_attention(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, resident = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf32>
  block.store_view(%out, %z, %a) {strides = [16, 1]}
  return()
}

// stores in the loop, too
func @largest(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>, %out1: ptr<f32>) {grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load_view(%in0, %v0) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf16>
  %v2 = block.const() {elem = f32, shape = [64, 1], value = -inf} : tile<64x1xf32>
  %v3 = block.const() {elem = f32, shape = [64, 1], value = 0.0} : tile<64x1xf32>
  %v4 = block.const() {elem = f32, shape = [64, 16], value = 0.0} : tile<64x16xf32>
  %v5 = block.const() {elem = i64, value = 1} : i64
  %v37, %v38, %v39 = for(%v0, %v5, %v2, %v3, %v4) do (%t3: i64, %acc: tile<64x1xf32>, %acc_0: tile<64x1xf32>, %acc_1: tile<64x16xf32>) {
    %v6 = block.const() {elem = f32, shape = [64, 128], value = 0.0} : tile<64x128xf32>
    %v7 = block.index(%t3) {expr = (2048*t3), names = ["t3"]} : i64
    %v8 = block.load_view(%in1, %v7) {shape = [16, 128], strides = [1, 16]} : tile<16x128xf16>
    %v9 = block.dot(%v1, %v8, %v6) : tile<64x128xf32>
    %v10 = block.reduce(%v9) {axis = 1, kind = "max"} : tile<64xf32>
    %v11 = block.reshape(%v10) {shape = [64, 1]} : tile<64x1xf32>
    block.store_view(%out1, %v0, %v11) {strides = [1, 1]}
    %v12 = block.max(%acc, %v11) : tile<64x1xf32>
    %v13 = block.const() {elem = f32, shape = [64, 1], value = 0.25} : tile<64x1xf32>
    %v14 = block.mul(%acc, %v13) : tile<64x1xf32>
    %v15 = block.mul(%v12, %v13) : tile<64x1xf32>
    %v16 = block.eq(%v15, %v2) : tile<64x1xbool>
    %v17 = block.select(%v16, %v3, %v15) : tile<64x1xf32>
    %v18 = block.const() {elem = f32, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32>
    %v19 = block.mul(%v14, %v18) : tile<64x1xf32>
    %v20 = block.mul(%v17, %v18) : tile<64x1xf32>
    %v21 = block.sub(%v19, %v20) : tile<64x1xf32>
    %v22 = block.exp2(%v21) : tile<64x1xf32>
    %v23 = block.const() {elem = f32, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32>
    %v24 = block.neg(%v20) : tile<64x1xf32>
    %v25 = block.broadcast(%v24) {shape = [64, 128]} : tile<64x128xf32>
    %v26 = block.fma(%v9, %v23, %v25) : tile<64x128xf32>
    %v27 = block.exp2(%v26) : tile<64x128xf32>
    %v28 = block.mul(%acc_0, %v22) : tile<64x1xf32>
    %v29 = block.reduce(%v27) {axis = 1, kind = "sum"} : tile<64xf32>
    %v30 = block.reshape(%v29) {shape = [64, 1]} : tile<64x1xf32>
    %v31 = block.add(%v28, %v30) : tile<64x1xf32>
    %v32 = block.broadcast(%v22) {shape = [64, 16]} : tile<64x16xf32>
    %v33 = block.mul(%acc_1, %v32) : tile<64x16xf32>
    %v34 = block.cast(%v27) {to = f16} : tile<64x128xf16>
    %v35 = block.load_view(%in2, %v7) {shape = [128, 16], strides = [16, 1]} : tile<128x16xf16>
    %v36 = block.dot(%v34, %v35, %v33) : tile<64x16xf32>
    yield(%v12, %v31, %v36)
  } : tile<64x1xf32>, tile<64x1xf32>, tile<64x16xf32>
  %v40 = block.const() {elem = f32, shape = [64, 1], value = 1.0} : tile<64x1xf32>
  %v41 = block.div(%v40, %v38) : tile<64x1xf32>
  %v42 = block.broadcast(%v41) {shape = [64, 16]} : tile<64x16xf32>
  %v43 = block.mul(%v39, %v42) : tile<64x16xf32>
  %v44 = block.cast(%v43) {to = f16} : tile<64x16xf16>
  block.store_view(%out0, %v0, %v44) {strides = [16, 1]}
  return()
}
// -----
layout #l0 = 64x1 linear {register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x128 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l2 = 64 linear {register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]]}
layout #l3 = 64x64 linear {register = [[8, 0], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l4 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @fires(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 8} {
  %queries = gpu.shared_alloc() {elem = f16, shape = [1, 64, 16], swizzle = 32} : shared<1x64x16xf16, swizzle 32>
  %keys = gpu.shared_alloc() {elem = f16, shape = [4, 128, 16], swizzle = 32} : shared<4x128x16xf16, swizzle 32>
  %values = gpu.shared_alloc() {elem = f16, shape = [4, 128, 16], swizzle = 32} : shared<4x128x16xf16, swizzle 32>
  %staging = gpu.shared_alloc() {elem = f16, shape = [4, 16, 16], swizzle = 32} : shared<4x16x16xf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %full_0 = gpu.barriers() {arrivals = 1, count = 4} : shared<4xi64>
  %full_1 = gpu.barriers() {arrivals = 1, count = 4} : shared<4xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %empty_0 = gpu.barriers() {arrivals = 1, count = 4} : shared<4xi64>
  %empty_1 = gpu.barriers() {arrivals = 4, count = 4} : shared<4xi64>
  gpu.warp_specialize() {groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v92, %v93, %v94 = gpu.for_tiles(%group, %slot, %slot, %slot) {tiles = 1} do (%program: i64, %slot_0: i32, %slot_1: i32, %slot_2: i32) {
      %v0 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v1 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      gpu.wait(%full, %slot_0)
      gpu.wait(%full_0, %slot_1)
      %scores = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 128]} : tile<64x128xf32, #l1>
      %v2 = block.const() {elem = bool, value = false} : bool
      %v3 = gpu.wgmma(%queries, %keys, %slot_1, %scores, %v2, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x128xf32, #l1>
      %v4 = gpu.wgmma_wait(%v3) : tile<64x128xf32, #l1>
      gpu.arrive(%empty_0, %slot_1)
      %v5 = gpu.advance(%slot_1) {size = 4} : i32
      %v6 = block.const() {elem = i64, value = 0} : i64
      %v7 = block.reduce(%v4) {axis = 1, kind = "max"} : tile<64xf32, #l2>
      %v8 = block.reshape(%v7) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v9 = block.max(%v0, %v8) : tile<64x1xf32, #l0>
      %v10 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.25} : tile<64x1xf32, #l0>
      %v11 = block.mul(%v0, %v10) : tile<64x1xf32, #l0>
      %v12 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
      %v13 = block.mul(%v11, %v12) : tile<64x1xf32, #l0>
      %v14 = block.mul(%v9, %v10) : tile<64x1xf32, #l0>
      %v15 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v16 = block.eq(%v14, %v15) : tile<64x1xbool, #l0>
      %v17 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      %v18 = block.select(%v16, %v17, %v14) : tile<64x1xf32, #l0>
      %v19 = block.mul(%v18, %v12) : tile<64x1xf32, #l0>
      %v20 = block.sub(%v13, %v19) : tile<64x1xf32, #l0>
      %v21 = gpu.short(%v20) {function = "exp2"} : tile<64x1xf32, #l0>
      %v22 = block.mul(%v1, %v21) : tile<64x1xf32, #l0>
      %v23 = block.const() {elem = f32, layout = #l1, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32, #l1>
      %v24 = block.neg(%v19) : tile<64x1xf32, #l0>
      %v25 = block.broadcast(%v24) {layout = #l1, shape = [64, 128]} : tile<64x128xf32, #l1>
      %v26 = block.fma(%v4, %v23, %v25) : tile<64x128xf32, #l1>
      %v27 = gpu.short(%v26) {function = "exp2"} : tile<64x128xf32, #l1>
      %v28 = block.reduce(%v27) {axis = 1, kind = "sum"} : tile<64xf32, #l2>
      %v29 = block.reshape(%v28) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v30 = block.add(%v22, %v29) : tile<64x1xf32, #l0>
      %p = gpu.pack(%v27) {elem = f16} : tile<64x64xi32, #l3>
      %acc = gpu.undefined() {elem = f32, layout = #l4, shape = [64, 16]} : tile<64x16xf32, #l4>
      %keep = block.const() {elem = bool, value = false} : bool
      %v31 = block.const() {elem = i64, value = 0} : i64
      %v32 = block.const() {elem = i64, value = 1} : i64
      %v33 = block.add(%v31, %v32) : i64
      %v34 = block.const() {elem = i64, value = 1} : i64
      %v35 = block.lt(%v31, %v34) : bool
      %v73, %v74, %v75, %v76, %v77, %v78, %v79 = for(%v33, %v34, %v5, %slot_2, %keep, %p, %acc, %v9, %v30) do (%block: i64, %v36: i32, %slot_3: i32, %keep_0: bool, %p_0: tile<64x64xi32, #l3>, %acc_0: tile<64x16xf32, #l4>, %v37: tile<64x1xf32, #l0>, %v38: tile<64x1xf32, #l0>) {
        gpu.wait(%full_0, %v36)
        %scores_0 = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 128]} : tile<64x128xf32, #l1>
        %v39 = block.const() {elem = bool, value = false} : bool
        %v40 = gpu.wgmma(%queries, %keys, %v36, %scores_0, %v39, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x128xf32, #l1>
        gpu.wait(%full_1, %slot_3)
        %v41 = gpu.wgmma(%p_0, %values, %slot_3, %acc_0, %keep_0) {transpose_b = false} : tile<64x16xf32, #l4>
        %v42 = gpu.wgmma_wait(%v40) {pending = 1} : tile<64x128xf32, #l1>
        gpu.arrive(%empty_0, %v36)
        %v43 = block.reduce(%v42) {axis = 1, kind = "max"} : tile<64xf32, #l2>
        %v44 = block.reshape(%v43) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v45 = block.max(%v37, %v44) : tile<64x1xf32, #l0>
        %v46 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.25} : tile<64x1xf32, #l0>
        %v47 = block.mul(%v37, %v46) : tile<64x1xf32, #l0>
        %v48 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
        %v49 = block.mul(%v47, %v48) : tile<64x1xf32, #l0>
        %v50 = block.mul(%v45, %v46) : tile<64x1xf32, #l0>
        %v51 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
        %v52 = block.eq(%v50, %v51) : tile<64x1xbool, #l0>
        %v53 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
        %v54 = block.select(%v52, %v53, %v50) : tile<64x1xf32, #l0>
        %v55 = block.mul(%v54, %v48) : tile<64x1xf32, #l0>
        %v56 = block.sub(%v49, %v55) : tile<64x1xf32, #l0>
        %v57 = gpu.short(%v56) {function = "exp2"} : tile<64x1xf32, #l0>
        %v58 = block.mul(%v38, %v57) : tile<64x1xf32, #l0>
        %v59 = block.const() {elem = f32, layout = #l1, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32, #l1>
        %v60 = block.neg(%v55) : tile<64x1xf32, #l0>
        %v61 = block.broadcast(%v60) {layout = #l1, shape = [64, 128]} : tile<64x128xf32, #l1>
        %v62 = block.fma(%v42, %v59, %v61) : tile<64x128xf32, #l1>
        %v63 = gpu.short(%v62) {function = "exp2"} : tile<64x128xf32, #l1>
        %v64 = block.reduce(%v63) {axis = 1, kind = "sum"} : tile<64xf32, #l2>
        %v65 = block.reshape(%v64) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v66 = block.add(%v58, %v65) : tile<64x1xf32, #l0>
        gpu.wait(%full_1, %slot_3)
        %v67 = gpu.wgmma_wait(%v41) : tile<64x16xf32, #l4>
        gpu.arrive(%empty_1, %slot_3) {every_warp = true}
        %p_1 = gpu.pack(%v63) {elem = f16} : tile<64x64xi32, #l3>
        %v68 = block.broadcast(%v57) {layout = #l4, shape = [64, 16]} : tile<64x16xf32, #l4>
        %v69 = block.mul(%v67, %v68) : tile<64x16xf32, #l4>
        %v70 = gpu.advance(%v36) {size = 4} : i32
        %v71 = gpu.advance(%slot_3) {size = 4} : i32
        %v72 = block.const() {elem = bool, value = true} : bool
        yield(%v70, %v71, %v72, %p_1, %v69, %v45, %v66)
      } : i32, i32, bool, tile<64x64xi32, #l3>, tile<64x16xf32, #l4>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>
      gpu.wait(%full_1, %v74)
      %v80 = gpu.wgmma(%v76, %values, %v74, %v77, %v75) {transpose_b = false} : tile<64x16xf32, #l4>
      %v81 = gpu.wgmma_wait(%v80) {fence = true} : tile<64x16xf32, #l4>
      gpu.arrive(%empty_1, %v74) {every_warp = true}
      %v82 = gpu.advance(%v74) {size = 4} : i32
      gpu.arrive(%empty, %slot_0)
      %v83 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.0} : tile<64x1xf32, #l0>
      %v84 = block.div(%v83, %v79) : tile<64x1xf32, #l0>
      %v85 = block.broadcast(%v84) {layout = #l4, shape = [64, 16]} : tile<64x16xf32, #l4>
      %v86 = block.mul(%v81, %v85) : tile<64x16xf32, #l4>
      %v87 = block.cast(%v86) {to = f16} : tile<64x16xf16, #l4>
      %v88 = gpu.part(%v87) {layout = #l4, start = [0, 0]} : tile<64x16xf16, #l4>
      gpu.stage(%staging, %v88) {buffer = 0, column = 0, pending = 0}
      %v89 = block.const() {elem = i64, value = 0} : i64
      %v90 = block.const() {elem = i64, value = 0} : i64
      gpu.tma_store(%out0, %staging, %v89, %v90) {buffer = 0, dims = [64, 16], offset = 0, strides = [16, 1]}
      %v91 = gpu.advance(%slot_0) {size = 1} : i32
      yield(%v91, %v73, %v82)
    } : i32, i32, i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_4 = block.const() {elem = i32, value = 0} : i32
    %v106, %v107 = gpu.for_tiles(%group_0, %slot_4, %slot_4) {tiles = 1} do (%program_0: i64, %slot_5: i32, %slot_6: i32) {
      gpu.wait(%empty, %slot_5) {previous = true}
      gpu.expect(%full, %slot_5) {nbytes = 2048}
      %v95 = block.const() {elem = i64, value = 0} : i64
      %v96 = block.const() {elem = i64, value = 0} : i64
      gpu.tma_load(%in0, %queries, %slot_5, %full, %v95, %v96) {dims = [64, 16], offset = 0, strides = [16, 1]}
      %v97 = block.const() {elem = i64, value = 0} : i64
      %v98 = block.const() {elem = i64, value = 1} : i64
      %v104 = for(%v97, %v98, %slot_6) do (%block_0: i64, %slot_7: i32) {
        gpu.wait(%empty_0, %slot_7) {previous = true}
        gpu.expect(%full_0, %slot_7) {nbytes = 4096}
        %v99 = block.index(%block_0) {expr = (128*k), names = ["k"]} : i64
        %v100 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in1, %keys, %slot_7, %full_0, %v99, %v100) {dims = [128, 16], offset = 0, strides = [16, 1]}
        gpu.wait(%empty_1, %slot_7) {previous = true}
        gpu.expect(%full_1, %slot_7) {nbytes = 4096}
        %v101 = block.index(%block_0) {expr = (128*k), names = ["k"]} : i64
        %v102 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in2, %values, %slot_7, %full_1, %v101, %v102) {dims = [128, 16], offset = 0, strides = [16, 1]}
        %v103 = gpu.advance(%slot_7) {size = 4} : i32
        yield(%v103)
      } : i32
      %v105 = gpu.advance(%slot_5) {size = 1} : i32
      yield(%v105, %v104)
    } : i32, i32
    yield()
  }
  return()
}

layout #l0 = 64x1 linear {register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l2 = 64x8 linear {register = [[8, 0], [0, 4]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l3 = 64x128 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l4 = 128 linear {register = [[1], [8], [16], [32], [64]], lane = [[2], [4], [0], [0], [0]], warp = [[0], [0]]}
layout #l5 = 1x128 linear {register = [[0, 1], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]]}
layout #l6 = 64 linear {register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]]}
layout #l7 = 64x64 linear {register = [[8, 0], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @words(%in0: ptr<bf16>, %in1: ptr<bf16>, %in2: ptr<bf16>, %out0: ptr<bf16>) {grid = 1, persistent = 0, query_words = true, resident = 1, stages = 2, turns = false, warps = 8} {
  %queries = gpu.shared_alloc() {elem = bf16, shape = [1, 64, 16], swizzle = 32} : shared<1x64x16xbf16, swizzle 32>
  %keys = gpu.shared_alloc() {elem = bf16, shape = [4, 128, 16], swizzle = 32} : shared<4x128x16xbf16, swizzle 32>
  %values = gpu.shared_alloc() {elem = bf16, shape = [4, 128, 16], swizzle = 32} : shared<4x128x16xbf16, swizzle 32>
  %staging = gpu.shared_alloc() {elem = bf16, shape = [4, 16, 16], swizzle = 32} : shared<4x16x16xbf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %full_0 = gpu.barriers() {arrivals = 1, count = 4} : shared<4xi64>
  %full_1 = gpu.barriers() {arrivals = 1, count = 4} : shared<4xi64>
  %empty = gpu.barriers() {arrivals = 4, count = 1} : shared<1xi64>
  %empty_0 = gpu.barriers() {arrivals = 1, count = 4} : shared<4xi64>
  %empty_1 = gpu.barriers() {arrivals = 4, count = 4} : shared<4xi64>
  gpu.warp_specialize() {groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v110, %v111, %v112 = gpu.for_tiles(%group, %slot, %slot, %slot) {tiles = 1} do (%program: i64, %slot_0: i32, %slot_1: i32, %slot_2: i32) {
      %v0 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v1 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      gpu.wait(%full, %slot_0)
      %v2 = block.const() {elem = i64, value = 0} : i64
      %v3 = gpu.load_shared(%queries, %v2) {layout = #l1} : tile<64x16xbf16, #l1>
      %q = gpu.pack(%v3) {elem = bf16} : tile<64x8xi32, #l2>
      gpu.arrive(%empty, %slot_0) {every_warp = true}
      gpu.wait(%full_0, %slot_1)
      %scores = gpu.undefined() {elem = f32, layout = #l3, shape = [64, 128]} : tile<64x128xf32, #l3>
      %v4 = block.const() {elem = bool, value = false} : bool
      %v5 = gpu.wgmma(%q, %keys, %slot_1, %scores, %v4) {transpose_b = true} : tile<64x128xf32, #l3>
      %v6 = gpu.wgmma_wait(%v5) : tile<64x128xf32, #l3>
      gpu.arrive(%empty_0, %slot_1)
      %v7 = gpu.advance(%slot_1) {size = 4} : i32
      %v8 = block.const() {elem = i64, value = 0} : i64
      %v9 = block.arange() {end = 128, layout = #l4, start = 0} : tile<128xi64, #l4>
      %v10 = block.reshape(%v9) {shape = [1, 128]} : tile<1x128xi64, #l5>
      %v11 = block.index(%v8) {expr = (-128*t3 + 100), names = ["t3"]} : i64
      %v12 = block.splat(%v11) {layout = #l5, shape = [1, 128]} : tile<1x128xi64, #l5>
      %v13 = block.lt(%v10, %v12) : tile<1x128xbool, #l5>
      %v14 = block.broadcast(%v13) {layout = #l3, shape = [64, 128]} : tile<64x128xbool, #l3>
      %v15 = block.const() {elem = f32, layout = #l3, shape = [64, 128], value = -inf} : tile<64x128xf32, #l3>
      %v16 = block.select(%v14, %v6, %v15) : tile<64x128xf32, #l3>
      %v17 = block.reduce(%v16) {axis = 1, kind = "max"} : tile<64xf32, #l6>
      %v18 = block.reshape(%v17) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v19 = block.max(%v0, %v18) : tile<64x1xf32, #l0>
      %v20 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.25} : tile<64x1xf32, #l0>
      %v21 = block.mul(%v0, %v20) : tile<64x1xf32, #l0>
      %v22 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
      %v23 = block.mul(%v21, %v22) : tile<64x1xf32, #l0>
      %v24 = block.mul(%v19, %v20) : tile<64x1xf32, #l0>
      %v25 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v26 = block.eq(%v24, %v25) : tile<64x1xbool, #l0>
      %v27 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      %v28 = block.select(%v26, %v27, %v24) : tile<64x1xf32, #l0>
      %v29 = block.mul(%v28, %v22) : tile<64x1xf32, #l0>
      %v30 = block.sub(%v23, %v29) : tile<64x1xf32, #l0>
      %v31 = gpu.short(%v30) {function = "exp2"} : tile<64x1xf32, #l0>
      %v32 = block.mul(%v1, %v31) : tile<64x1xf32, #l0>
      %v33 = block.const() {elem = f32, layout = #l3, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32, #l3>
      %v34 = block.neg(%v29) : tile<64x1xf32, #l0>
      %v35 = block.broadcast(%v34) {layout = #l3, shape = [64, 128]} : tile<64x128xf32, #l3>
      %v36 = block.fma(%v16, %v33, %v35) : tile<64x128xf32, #l3>
      %v37 = gpu.short(%v36) {function = "exp2"} : tile<64x128xf32, #l3>
      %v38 = block.reduce(%v37) {axis = 1, kind = "sum"} : tile<64xf32, #l6>
      %v39 = block.reshape(%v38) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v40 = block.add(%v32, %v39) : tile<64x1xf32, #l0>
      %p = gpu.pack(%v37) {elem = bf16} : tile<64x64xi32, #l7>
      %acc = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 16]} : tile<64x16xf32, #l1>
      %keep = block.const() {elem = bool, value = false} : bool
      %v41 = block.const() {elem = i64, value = 0} : i64
      %v42 = block.const() {elem = i64, value = 1} : i64
      %v43 = block.add(%v41, %v42) : i64
      %v44 = block.const() {elem = i64, value = 1} : i64
      %v45 = block.lt(%v41, %v44) : bool
      %v91, %v92, %v93, %v94, %v95, %v96, %v97 = for(%v43, %v44, %v7, %slot_2, %keep, %p, %acc, %v19, %v40) do (%block: i64, %v46: i32, %slot_3: i32, %keep_0: bool, %p_0: tile<64x64xi32, #l7>, %acc_0: tile<64x16xf32, #l1>, %v47: tile<64x1xf32, #l0>, %v48: tile<64x1xf32, #l0>) {
        gpu.wait(%full_0, %v46)
        %scores_0 = gpu.undefined() {elem = f32, layout = #l3, shape = [64, 128]} : tile<64x128xf32, #l3>
        %v49 = block.const() {elem = bool, value = false} : bool
        %v50 = gpu.wgmma(%q, %keys, %v46, %scores_0, %v49) {transpose_b = true} : tile<64x128xf32, #l3>
        gpu.wait(%full_1, %slot_3)
        %v51 = gpu.wgmma(%p_0, %values, %slot_3, %acc_0, %keep_0) {transpose_b = false} : tile<64x16xf32, #l1>
        %v52 = gpu.wgmma_wait(%v50) {pending = 1} : tile<64x128xf32, #l3>
        gpu.arrive(%empty_0, %v46)
        %v53 = block.arange() {end = 128, layout = #l4, start = 0} : tile<128xi64, #l4>
        %v54 = block.reshape(%v53) {shape = [1, 128]} : tile<1x128xi64, #l5>
        %v55 = block.index(%block) {expr = (-128*t3 + 100), names = ["t3"]} : i64
        %v56 = block.splat(%v55) {layout = #l5, shape = [1, 128]} : tile<1x128xi64, #l5>
        %v57 = block.lt(%v54, %v56) : tile<1x128xbool, #l5>
        %v58 = block.broadcast(%v57) {layout = #l3, shape = [64, 128]} : tile<64x128xbool, #l3>
        %v59 = block.const() {elem = f32, layout = #l3, shape = [64, 128], value = -inf} : tile<64x128xf32, #l3>
        %v60 = block.select(%v58, %v52, %v59) : tile<64x128xf32, #l3>
        %v61 = block.reduce(%v60) {axis = 1, kind = "max"} : tile<64xf32, #l6>
        %v62 = block.reshape(%v61) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v63 = block.max(%v47, %v62) : tile<64x1xf32, #l0>
        %v64 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.25} : tile<64x1xf32, #l0>
        %v65 = block.mul(%v47, %v64) : tile<64x1xf32, #l0>
        %v66 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
        %v67 = block.mul(%v65, %v66) : tile<64x1xf32, #l0>
        %v68 = block.mul(%v63, %v64) : tile<64x1xf32, #l0>
        %v69 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
        %v70 = block.eq(%v68, %v69) : tile<64x1xbool, #l0>
        %v71 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
        %v72 = block.select(%v70, %v71, %v68) : tile<64x1xf32, #l0>
        %v73 = block.mul(%v72, %v66) : tile<64x1xf32, #l0>
        %v74 = block.sub(%v67, %v73) : tile<64x1xf32, #l0>
        %v75 = gpu.short(%v74) {function = "exp2"} : tile<64x1xf32, #l0>
        %v76 = block.mul(%v48, %v75) : tile<64x1xf32, #l0>
        %v77 = block.const() {elem = f32, layout = #l3, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32, #l3>
        %v78 = block.neg(%v73) : tile<64x1xf32, #l0>
        %v79 = block.broadcast(%v78) {layout = #l3, shape = [64, 128]} : tile<64x128xf32, #l3>
        %v80 = block.fma(%v60, %v77, %v79) : tile<64x128xf32, #l3>
        %v81 = gpu.short(%v80) {function = "exp2"} : tile<64x128xf32, #l3>
        %v82 = block.reduce(%v81) {axis = 1, kind = "sum"} : tile<64xf32, #l6>
        %v83 = block.reshape(%v82) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v84 = block.add(%v76, %v83) : tile<64x1xf32, #l0>
        gpu.wait(%full_1, %slot_3)
        %v85 = gpu.wgmma_wait(%v51) : tile<64x16xf32, #l1>
        gpu.arrive(%empty_1, %slot_3) {every_warp = true}
        %p_1 = gpu.pack(%v81) {elem = bf16} : tile<64x64xi32, #l7>
        %v86 = block.broadcast(%v75) {layout = #l1, shape = [64, 16]} : tile<64x16xf32, #l1>
        %v87 = block.mul(%v85, %v86) : tile<64x16xf32, #l1>
        %v88 = gpu.advance(%v46) {size = 4} : i32
        %v89 = gpu.advance(%slot_3) {size = 4} : i32
        %v90 = block.const() {elem = bool, value = true} : bool
        yield(%v88, %v89, %v90, %p_1, %v87, %v63, %v84)
      } : i32, i32, bool, tile<64x64xi32, #l7>, tile<64x16xf32, #l1>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>
      gpu.wait(%full_1, %v92)
      %v98 = gpu.wgmma(%v94, %values, %v92, %v95, %v93) {transpose_b = false} : tile<64x16xf32, #l1>
      %v99 = gpu.wgmma_wait(%v98) {fence = true} : tile<64x16xf32, #l1>
      gpu.arrive(%empty_1, %v92) {every_warp = true}
      %v100 = gpu.advance(%v92) {size = 4} : i32
      %v101 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.0} : tile<64x1xf32, #l0>
      %v102 = block.div(%v101, %v97) : tile<64x1xf32, #l0>
      %v103 = block.broadcast(%v102) {layout = #l1, shape = [64, 16]} : tile<64x16xf32, #l1>
      %v104 = block.mul(%v99, %v103) : tile<64x16xf32, #l1>
      %v105 = block.cast(%v104) {to = bf16} : tile<64x16xbf16, #l1>
      %v106 = gpu.part(%v105) {layout = #l1, start = [0, 0]} : tile<64x16xbf16, #l1>
      gpu.stage(%staging, %v106) {buffer = 0, column = 0, pending = 0}
      %v107 = block.const() {elem = i64, value = 0} : i64
      %v108 = block.const() {elem = i64, value = 0} : i64
      gpu.tma_store(%out0, %staging, %v107, %v108) {buffer = 0, dims = [64, 16], offset = 0, strides = [16, 1]}
      %v109 = gpu.advance(%slot_0) {size = 1} : i32
      yield(%v109, %v91, %v100)
    } : i32, i32, i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_4 = block.const() {elem = i32, value = 0} : i32
    %v124, %v125 = gpu.for_tiles(%group_0, %slot_4, %slot_4) {tiles = 1} do (%program_0: i64, %slot_5: i32, %slot_6: i32) {
      gpu.wait(%empty, %slot_5) {previous = true}
      gpu.expect(%full, %slot_5) {nbytes = 2048}
      %v113 = block.const() {elem = i64, value = 0} : i64
      %v114 = block.const() {elem = i64, value = 0} : i64
      gpu.tma_load(%in0, %queries, %slot_5, %full, %v113, %v114) {dims = [64, 16], offset = 0, strides = [16, 1]}
      %v115 = block.const() {elem = i64, value = 0} : i64
      %v116 = block.const() {elem = i64, value = 1} : i64
      %v122 = for(%v115, %v116, %slot_6) do (%block_0: i64, %slot_7: i32) {
        gpu.wait(%empty_0, %slot_7) {previous = true}
        gpu.expect(%full_0, %slot_7) {nbytes = 4096}
        %v117 = block.index(%block_0) {expr = (128*k), names = ["k"]} : i64
        %v118 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in1, %keys, %slot_7, %full_0, %v117, %v118) {dims = [100, 16], offset = 0, strides = [16, 1]}
        gpu.wait(%empty_1, %slot_7) {previous = true}
        gpu.expect(%full_1, %slot_7) {nbytes = 4096}
        %v119 = block.index(%block_0) {expr = (128*k), names = ["k"]} : i64
        %v120 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in2, %values, %slot_7, %full_1, %v119, %v120) {dims = [100, 16], offset = 0, strides = [16, 1]}
        %v121 = gpu.advance(%slot_7) {size = 4} : i32
        yield(%v121)
      } : i32
      %v123 = gpu.advance(%slot_5) {size = 1} : i32
      yield(%v123, %v122)
    } : i32, i32
    yield()
  }
  return()
}

func @no_attention(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, resident = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf32>
  block.store_view(%out, %z, %a) {strides = [16, 1]}
  return()
}

func @largest(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>, %out1: ptr<f32>) {grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, without_wgmma = "block.store_view beside the products"} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load_view(%in0, %v0) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf16>
  %v2 = block.const() {elem = f32, shape = [64, 1], value = -inf} : tile<64x1xf32>
  %v3 = block.const() {elem = f32, shape = [64, 1], value = 0.0} : tile<64x1xf32>
  %v4 = block.const() {elem = f32, shape = [64, 16], value = 0.0} : tile<64x16xf32>
  %v5 = block.const() {elem = i64, value = 1} : i64
  %v37, %v38, %v39 = for(%v0, %v5, %v2, %v3, %v4) do (%t3: i64, %acc: tile<64x1xf32>, %acc_0: tile<64x1xf32>, %acc_1: tile<64x16xf32>) {
    %v6 = block.const() {elem = f32, shape = [64, 128], value = 0.0} : tile<64x128xf32>
    %v7 = block.index(%t3) {expr = (2048*t3), names = ["t3"]} : i64
    %v8 = block.load_view(%in1, %v7) {shape = [16, 128], strides = [1, 16]} : tile<16x128xf16>
    %v9 = block.dot(%v1, %v8, %v6) : tile<64x128xf32>
    %v10 = block.reduce(%v9) {axis = 1, kind = "max"} : tile<64xf32>
    %v11 = block.reshape(%v10) {shape = [64, 1]} : tile<64x1xf32>
    block.store_view(%out1, %v0, %v11) {strides = [1, 1]}
    %v12 = block.max(%acc, %v11) : tile<64x1xf32>
    %v13 = block.const() {elem = f32, shape = [64, 1], value = 0.25} : tile<64x1xf32>
    %v14 = block.mul(%acc, %v13) : tile<64x1xf32>
    %v15 = block.mul(%v12, %v13) : tile<64x1xf32>
    %v16 = block.eq(%v15, %v2) : tile<64x1xbool>
    %v17 = block.select(%v16, %v3, %v15) : tile<64x1xf32>
    %v18 = block.const() {elem = f32, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32>
    %v19 = block.mul(%v14, %v18) : tile<64x1xf32>
    %v20 = block.mul(%v17, %v18) : tile<64x1xf32>
    %v21 = block.sub(%v19, %v20) : tile<64x1xf32>
    %v22 = block.exp2(%v21) : tile<64x1xf32>
    %v23 = block.const() {elem = f32, shape = [64, 128], value = 0.36067376022224085} : tile<64x128xf32>
    %v24 = block.neg(%v20) : tile<64x1xf32>
    %v25 = block.broadcast(%v24) {shape = [64, 128]} : tile<64x128xf32>
    %v26 = block.fma(%v9, %v23, %v25) : tile<64x128xf32>
    %v27 = block.exp2(%v26) : tile<64x128xf32>
    %v28 = block.mul(%acc_0, %v22) : tile<64x1xf32>
    %v29 = block.reduce(%v27) {axis = 1, kind = "sum"} : tile<64xf32>
    %v30 = block.reshape(%v29) {shape = [64, 1]} : tile<64x1xf32>
    %v31 = block.add(%v28, %v30) : tile<64x1xf32>
    %v32 = block.broadcast(%v22) {shape = [64, 16]} : tile<64x16xf32>
    %v33 = block.mul(%acc_1, %v32) : tile<64x16xf32>
    %v34 = block.cast(%v27) {to = f16} : tile<64x128xf16>
    %v35 = block.load_view(%in2, %v7) {shape = [128, 16], strides = [16, 1]} : tile<128x16xf16>
    %v36 = block.dot(%v34, %v35, %v33) : tile<64x16xf32>
    yield(%v12, %v31, %v36)
  } : tile<64x1xf32>, tile<64x1xf32>, tile<64x16xf32>
  %v40 = block.const() {elem = f32, shape = [64, 1], value = 1.0} : tile<64x1xf32>
  %v41 = block.div(%v40, %v38) : tile<64x1xf32>
  %v42 = block.broadcast(%v41) {shape = [64, 16]} : tile<64x16xf32>
  %v43 = block.mul(%v39, %v42) : tile<64x16xf32>
  %v44 = block.cast(%v43) {to = f16} : tile<64x16xf16>
  block.store_view(%out0, %v0, %v44) {strides = [16, 1]}
  return()
}
