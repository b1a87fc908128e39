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
// values are the first elements of the keys: two warpgroups share the columns
func @latent(%in0: ptr<f16>, %in1: ptr<f16>, %out0: ptr<f16>) {flops = 17825792, grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, work = 2177} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load_box(%in0, %v0, %v0) {dims = [7, 576], offset = 0, shape = [64, 256], strides = [576, 1]} : tile<64x256xf16>
  %v2 = block.const() {elem = i64, value = 256} : i64
  %v3 = block.load_box(%in0, %v0, %v2) {dims = [7, 576], offset = 0, shape = [64, 256], strides = [576, 1]} : tile<64x256xf16>
  %v4 = block.const() {elem = i64, value = 512} : i64
  %v5 = block.load_box(%in0, %v0, %v4) {dims = [7, 576], offset = 0, shape = [64, 64], strides = [576, 1]} : tile<64x64xf16>
  %v6 = block.const() {elem = f32, shape = [64, 1], value = -inf} : tile<64x1xf32>
  %v7 = block.const() {elem = f32, shape = [64, 1], value = 0.0} : tile<64x1xf32>
  %v8 = block.const() {elem = f32, shape = [64, 512], value = 0.0} : tile<64x512xf32>
  %v9 = block.const() {elem = i64, value = 2} : i64
  %v48, %v49, %v50 = for(%v0, %v9, %v6, %v7, %v8) do (%t7: i64, %acc: tile<64x1xf32>, %acc_0: tile<64x1xf32>, %acc_1: tile<64x512xf32>) {
    %v10 = block.const() {elem = f32, shape = [64, 64], value = 0.0} : tile<64x64xf32>
    %v11 = block.index(%t7) {expr = (64*t7), names = ["t7"]} : i64
    %v12 = block.load_box(%in1, %v0, %v11, %v0) {dims = [1, 7, 576], offset = 0, shape = [64, 256], strides = [4032, 576, 1]} : tile<64x256xf16>
    %v13 = block.trans(%v12) {perm = [1, 0]} : tile<256x64xf16>
    %v14 = block.dot(%v1, %v13, %v10) : tile<64x64xf32>
    %v15 = block.load_box(%in1, %v0, %v11, %v2) {dims = [1, 7, 576], offset = 0, shape = [64, 256], strides = [4032, 576, 1]} : tile<64x256xf16>
    %v16 = block.trans(%v15) {perm = [1, 0]} : tile<256x64xf16>
    %v17 = block.dot(%v3, %v16, %v14) : tile<64x64xf32>
    %v18 = block.load_box(%in1, %v0, %v11, %v4) {dims = [1, 7, 576], offset = 0, shape = [64, 64], strides = [4032, 576, 1]} : tile<64x64xf16>
    %v19 = block.trans(%v18) {perm = [1, 0]} : tile<64x64xf16>
    %v20 = block.dot(%v5, %v19, %v17) : tile<64x64xf32>
    %v21 = block.reduce(%v20) {axis = 1, kind = "max"} : tile<64xf32>
    %v22 = block.reshape(%v21) {shape = [64, 1]} : tile<64x1xf32>
    %v23 = block.max(%acc, %v22) : tile<64x1xf32>
    %v24 = block.const() {elem = f32, shape = [64, 1], value = 0.041666666666666664} : tile<64x1xf32>
    %v25 = block.mul(%acc, %v24) : tile<64x1xf32>
    %v26 = block.mul(%v23, %v24) : tile<64x1xf32>
    %v27 = block.eq(%v26, %v6) : tile<64x1xbool>
    %v28 = block.select(%v27, %v7, %v26) : tile<64x1xf32>
    %v29 = block.const() {elem = f32, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32>
    %v30 = block.mul(%v25, %v29) : tile<64x1xf32>
    %v31 = block.mul(%v28, %v29) : tile<64x1xf32>
    %v32 = block.sub(%v30, %v31) : tile<64x1xf32>
    %v33 = block.exp2(%v32) : tile<64x1xf32>
    %v34 = block.const() {elem = f32, shape = [64, 64], value = 0.06011229337037347} : tile<64x64xf32>
    %v35 = block.neg(%v31) : tile<64x1xf32>
    %v36 = block.broadcast(%v35) {shape = [64, 64]} : tile<64x64xf32>
    %v37 = block.fma(%v20, %v34, %v36) : tile<64x64xf32>
    %v38 = block.exp2(%v37) : tile<64x64xf32>
    %v39 = block.mul(%acc_0, %v33) : tile<64x1xf32>
    %v40 = block.reduce(%v38) {axis = 1, kind = "sum"} : tile<64xf32>
    %v41 = block.reshape(%v40) {shape = [64, 1]} : tile<64x1xf32>
    %v42 = block.add(%v39, %v41) : tile<64x1xf32>
    %v43 = block.broadcast(%v33) {shape = [64, 512]} : tile<64x512xf32>
    %v44 = block.mul(%acc_1, %v43) : tile<64x512xf32>
    %v45 = block.cast(%v38) {to = f16} : tile<64x64xf16>
    %v46 = block.load_box(%in1, %v0, %v11, %v0) {dims = [1, 7, 512], offset = 0, shape = [64, 512], strides = [4032, 576, 1]} : tile<64x512xf16>
    %v47 = block.dot(%v45, %v46, %v44) : tile<64x512xf32>
    yield(%v23, %v42, %v47)
  } : tile<64x1xf32>, tile<64x1xf32>, tile<64x512xf32>
  %v51 = block.const() {elem = f32, shape = [64, 1], value = 1.0} : tile<64x1xf32>
  %v52 = block.div(%v51, %v49) : tile<64x1xf32>
  %v53 = block.broadcast(%v52) {shape = [64, 512]} : tile<64x512xf32>
  %v54 = block.mul(%v50, %v53) : tile<64x512xf32>
  %v55 = block.cast(%v54) {to = f16} : tile<64x512xf16>
  %seven = block.const() {elem = i64, value = 7} : i64
  block.store_view(%out0, %v0, %v55, %seven) {limited = [0], strides = [512, 1]}
  return()
}

// values lie elsewhere
func @wide(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {flops = 16777216, grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, work = 2049} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load_box(%in0, %v0, %v0) {dims = [7, 512], offset = 0, shape = [64, 256], strides = [512, 1]} : tile<64x256xf16>
  %v2 = block.const() {elem = i64, value = 256} : i64
  %v3 = block.load_box(%in0, %v0, %v2) {dims = [7, 512], offset = 0, shape = [64, 256], strides = [512, 1]} : tile<64x256xf16>
  %v4 = block.const() {elem = f32, shape = [64, 1], value = -inf} : tile<64x1xf32>
  %v5 = block.const() {elem = f32, shape = [64, 1], value = 0.0} : tile<64x1xf32>
  %v6 = block.const() {elem = f32, shape = [64, 512], value = 0.0} : tile<64x512xf32>
  %v7 = block.const() {elem = i64, value = 4} : i64
  %v43, %v44, %v45 = for(%v0, %v7, %v4, %v5, %v6) do (%t7: i64, %acc: tile<64x1xf32>, %acc_0: tile<64x1xf32>, %acc_1: tile<64x512xf32>) {
    %v8 = block.const() {elem = f32, shape = [64, 32], value = 0.0} : tile<64x32xf32>
    %v9 = block.index(%t7) {expr = (32*t7), names = ["t7"]} : i64
    %v10 = block.load_box(%in1, %v0, %v9, %v0) {dims = [1, 7, 512], offset = 0, shape = [32, 256], strides = [3584, 512, 1]} : tile<32x256xf16>
    %v11 = block.trans(%v10) {perm = [1, 0]} : tile<256x32xf16>
    %v12 = block.dot(%v1, %v11, %v8) : tile<64x32xf32>
    %v13 = block.load_box(%in1, %v0, %v9, %v2) {dims = [1, 7, 512], offset = 0, shape = [32, 256], strides = [3584, 512, 1]} : tile<32x256xf16>
    %v14 = block.trans(%v13) {perm = [1, 0]} : tile<256x32xf16>
    %v15 = block.dot(%v3, %v14, %v12) : tile<64x32xf32>
    %v16 = block.reduce(%v15) {axis = 1, kind = "max"} : tile<64xf32>
    %v17 = block.reshape(%v16) {shape = [64, 1]} : tile<64x1xf32>
    %v18 = block.max(%acc, %v17) : tile<64x1xf32>
    %v19 = block.const() {elem = f32, shape = [64, 1], value = 0.04419417382415922} : tile<64x1xf32>
    %v20 = block.mul(%acc, %v19) : tile<64x1xf32>
    %v21 = block.mul(%v18, %v19) : tile<64x1xf32>
    %v22 = block.eq(%v21, %v4) : tile<64x1xbool>
    %v23 = block.select(%v22, %v5, %v21) : tile<64x1xf32>
    %v24 = block.const() {elem = f32, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32>
    %v25 = block.mul(%v20, %v24) : tile<64x1xf32>
    %v26 = block.mul(%v23, %v24) : tile<64x1xf32>
    %v27 = block.sub(%v25, %v26) : tile<64x1xf32>
    %v28 = block.exp2(%v27) : tile<64x1xf32>
    %v29 = block.const() {elem = f32, shape = [64, 32], value = 0.06375871541229934} : tile<64x32xf32>
    %v30 = block.neg(%v26) : tile<64x1xf32>
    %v31 = block.broadcast(%v30) {shape = [64, 32]} : tile<64x32xf32>
    %v32 = block.fma(%v15, %v29, %v31) : tile<64x32xf32>
    %v33 = block.exp2(%v32) : tile<64x32xf32>
    %v34 = block.mul(%acc_0, %v28) : tile<64x1xf32>
    %v35 = block.reduce(%v33) {axis = 1, kind = "sum"} : tile<64xf32>
    %v36 = block.reshape(%v35) {shape = [64, 1]} : tile<64x1xf32>
    %v37 = block.add(%v34, %v36) : tile<64x1xf32>
    %v38 = block.broadcast(%v28) {shape = [64, 512]} : tile<64x512xf32>
    %v39 = block.mul(%acc_1, %v38) : tile<64x512xf32>
    %v40 = block.cast(%v33) {to = f16} : tile<64x32xf16>
    %v41 = block.load_box(%in2, %v0, %v9, %v0) {dims = [1, 7, 512], offset = 0, shape = [32, 512], strides = [3584, 512, 1]} : tile<32x512xf16>
    %v42 = block.dot(%v40, %v41, %v39) : tile<64x512xf32>
    yield(%v18, %v37, %v42)
  } : tile<64x1xf32>, tile<64x1xf32>, tile<64x512xf32>
  %v46 = block.const() {elem = f32, shape = [64, 1], value = 1.0} : tile<64x1xf32>
  %v47 = block.div(%v46, %v44) : tile<64x1xf32>
  %v48 = block.broadcast(%v47) {shape = [64, 512]} : tile<64x512xf32>
  %v49 = block.mul(%v45, %v48) : tile<64x512xf32>
  %v50 = block.cast(%v49) {to = f16} : tile<64x512xf16>
  %seven = block.const() {elem = i64, value = 7} : i64
  block.store_view(%out0, %v0, %v50, %seven) {limited = [0], strides = [512, 1]}
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

layout #l0 = 64x1 linear {register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x64 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l2 = 64 linear {register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]]}
layout #l3 = 64x32 linear {register = [[8, 0], [0, 4], [0, 8], [0, 16]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l4 = 64x256 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @latent(%in0: ptr<f16>, %in1: ptr<f16>, %out0: ptr<f16>) {flops = 17825792, grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 12, work = 2177} {
  %queries = gpu.shared_alloc() {elem = f16, shape = [1, 64, 256], swizzle = 128} : shared<1x64x256xf16, swizzle 128>
  %queries_0 = gpu.shared_alloc() {elem = f16, shape = [1, 64, 256], swizzle = 128} : shared<1x64x256xf16, swizzle 128>
  %queries_1 = gpu.shared_alloc() {elem = f16, shape = [1, 64, 64], swizzle = 128} : shared<1x64x64xf16, swizzle 128>
  %keys = gpu.shared_alloc() {elem = f16, shape = [2, 64, 256], swizzle = 128} : shared<2x64x256xf16, swizzle 128>
  %keys_0 = gpu.shared_alloc() {elem = f16, shape = [2, 64, 256], swizzle = 128} : shared<2x64x256xf16, swizzle 128>
  %keys_1 = gpu.shared_alloc() {elem = f16, shape = [2, 64, 64], swizzle = 128} : shared<2x64x64xf16, swizzle 128>
  %full = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %full_0 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %full_1 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %full_2 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %empty_0 = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  %empty_1 = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  %empty_2 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %p = gpu.shared_alloc() {elem = f16, shape = [1, 64, 64], swizzle = 128} : shared<1x64x64xf16, swizzle 128>
  %rows = gpu.shared_alloc() {elem = f32, shape = [3, 64, 1]} : shared<3x64x1xf32>
  %sent = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  %turn = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  gpu.warp_specialize() {groups = [1, 1, 1], registers = [240, 240, 24], single = [2], warps = [4, 4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v113, %v114, %v115 = gpu.for_tiles(%group, %slot, %slot, %slot) {tiles = 1} do (%program: i64, %slot_0: i32, %slot_1: i32, %slot_2: i32) {
      %v0 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v1 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      gpu.wait(%full, %slot_0)
      %scores = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 64]} : tile<64x64xf32, #l1>
      gpu.wait(%full_0, %slot_1)
      %v2 = block.const() {elem = bool, value = false} : bool
      %v3 = gpu.wgmma(%queries, %keys, %slot_1, %scores, %v2, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x64xf32, #l1>
      gpu.wait(%full_2, %slot_1)
      %v4 = block.const() {elem = bool, value = true} : bool
      %v5 = gpu.wgmma(%queries_1, %keys_1, %slot_1, %v3, %v4, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x64xf32, #l1>
      gpu.wait(%full_1, %slot_1)
      %v6 = block.const() {elem = bool, value = true} : bool
      %v7 = gpu.wgmma(%queries_0, %keys_0, %slot_1, %v5, %v6, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x64xf32, #l1>
      %v8 = gpu.wgmma_wait(%v7) : tile<64x64xf32, #l1>
      gpu.arrive(%empty_2, %slot_1)
      %v9 = gpu.advance(%slot_1) {size = 2} : i32
      %v10 = block.const() {elem = i64, value = 0} : i64
      %v11 = block.reduce(%v8) {axis = 1, kind = "max"} : tile<64xf32, #l2>
      %v12 = block.reshape(%v11) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v13 = block.max(%v0, %v12) : tile<64x1xf32, #l0>
      %v14 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.041666666666666664} : tile<64x1xf32, #l0>
      %v15 = block.mul(%v0, %v14) : tile<64x1xf32, #l0>
      %v16 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
      %v17 = block.mul(%v15, %v16) : tile<64x1xf32, #l0>
      %v18 = block.mul(%v13, %v14) : tile<64x1xf32, #l0>
      %v19 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v20 = block.eq(%v18, %v19) : tile<64x1xbool, #l0>
      %v21 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      %v22 = block.select(%v20, %v21, %v18) : tile<64x1xf32, #l0>
      %v23 = block.mul(%v22, %v16) : tile<64x1xf32, #l0>
      %v24 = block.sub(%v17, %v23) : tile<64x1xf32, #l0>
      %v25 = gpu.short(%v24) {function = "exp2"} : tile<64x1xf32, #l0>
      %v26 = block.mul(%v1, %v25) : tile<64x1xf32, #l0>
      %v27 = block.const() {elem = f32, layout = #l1, shape = [64, 64], value = 0.06011229337037347} : tile<64x64xf32, #l1>
      %v28 = block.neg(%v23) : tile<64x1xf32, #l0>
      %v29 = block.broadcast(%v28) {layout = #l1, shape = [64, 64]} : tile<64x64xf32, #l1>
      %v30 = block.fma(%v8, %v27, %v29) : tile<64x64xf32, #l1>
      %v31 = gpu.short(%v30) {function = "exp2"} : tile<64x64xf32, #l1>
      %v32 = block.reduce(%v31) {axis = 1, kind = "sum"} : tile<64xf32, #l2>
      %v33 = block.reshape(%v32) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v34 = block.add(%v26, %v33) : tile<64x1xf32, #l0>
      %p_0 = gpu.pack(%v31) {elem = f16} : tile<64x32xi32, #l3>
      %acc = gpu.undefined() {elem = f32, layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
      %keep = block.const() {elem = bool, value = false} : bool
      %v35 = block.const() {elem = i64, value = 0} : i64
      %v36 = block.const() {elem = i64, value = 1} : i64
      %v37 = block.add(%v35, %v36) : i64
      %v38 = block.const() {elem = i64, value = 2} : i64
      %v39 = block.lt(%v35, %v38) : bool
      %v89, %v90, %v91, %v92, %v93, %v94, %v95, %v96 = for(%v37, %v38, %v9, %slot_2, %keep, %p_0, %acc, %v13, %v34, %v25) do (%block: i64, %v40: i32, %slot_3: i32, %keep_0: bool, %p_1: tile<64x32xi32, #l3>, %acc_0: tile<64x256xf32, #l4>, %v41: tile<64x1xf32, #l0>, %v42: tile<64x1xf32, #l0>, %v43: tile<64x1xf32, #l0>) {
        gpu.wait(%full_0, %slot_3)
        %v44 = gpu.wgmma(%p_1, %keys, %slot_3, %acc_0, %keep_0) {transpose_b = false} : tile<64x256xf32, #l4>
        %scores_0 = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 64]} : tile<64x64xf32, #l1>
        gpu.wait(%full_0, %v40)
        %v45 = block.const() {elem = bool, value = false} : bool
        %v46 = gpu.wgmma(%queries, %keys, %v40, %scores_0, %v45, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x64xf32, #l1>
        gpu.wait(%full_2, %v40)
        %v47 = block.const() {elem = bool, value = true} : bool
        %v48 = gpu.wgmma(%queries_1, %keys_1, %v40, %v46, %v47, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x64xf32, #l1>
        %v49 = block.const() {elem = i64, value = 3} : i64
        %v50 = gpu.advance(%slot_3, %v49) {size = 2} : i32
        gpu.wait(%empty_1, %v50)
        %v51 = block.const() {elem = i64, value = 0} : i64
        gpu.store_shared(%p, %v51, %p_1)
        %v52 = block.const() {elem = i64, value = 0} : i64
        gpu.store_shared(%rows, %v52, %v41)
        %v53 = block.const() {elem = i64, value = 1} : i64
        gpu.store_shared(%rows, %v53, %v42)
        %v54 = block.const() {elem = i64, value = 2} : i64
        gpu.store_shared(%rows, %v54, %v43)
        gpu.arrive(%sent, %slot_3) {every_warp = true}
        %v55 = gpu.wgmma_wait(%v44) {pending = 2} : tile<64x256xf32, #l4>
        gpu.arrive(%empty_0, %slot_3) {every_warp = true}
        gpu.wait(%full_1, %v40)
        %v56 = block.const() {elem = bool, value = true} : bool
        %v57 = gpu.wgmma(%queries_0, %keys_0, %v40, %v48, %v56, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x64xf32, #l1>
        %v58 = gpu.wgmma_wait(%v57) : tile<64x64xf32, #l1>
        gpu.arrive(%turn, %slot_3) {every_warp = true}
        gpu.arrive(%empty_2, %v40)
        %v59 = block.reduce(%v58) {axis = 1, kind = "max"} : tile<64xf32, #l2>
        %v60 = block.reshape(%v59) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v61 = block.max(%v41, %v60) : tile<64x1xf32, #l0>
        %v62 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.041666666666666664} : tile<64x1xf32, #l0>
        %v63 = block.mul(%v41, %v62) : tile<64x1xf32, #l0>
        %v64 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
        %v65 = block.mul(%v63, %v64) : tile<64x1xf32, #l0>
        %v66 = block.mul(%v61, %v62) : tile<64x1xf32, #l0>
        %v67 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
        %v68 = block.eq(%v66, %v67) : tile<64x1xbool, #l0>
        %v69 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
        %v70 = block.select(%v68, %v69, %v66) : tile<64x1xf32, #l0>
        %v71 = block.mul(%v70, %v64) : tile<64x1xf32, #l0>
        %v72 = block.sub(%v65, %v71) : tile<64x1xf32, #l0>
        %v73 = gpu.short(%v72) {function = "exp2"} : tile<64x1xf32, #l0>
        %v74 = block.mul(%v42, %v73) : tile<64x1xf32, #l0>
        %v75 = block.const() {elem = f32, layout = #l1, shape = [64, 64], value = 0.06011229337037347} : tile<64x64xf32, #l1>
        %v76 = block.neg(%v71) : tile<64x1xf32, #l0>
        %v77 = block.broadcast(%v76) {layout = #l1, shape = [64, 64]} : tile<64x64xf32, #l1>
        %v78 = block.fma(%v58, %v75, %v77) : tile<64x64xf32, #l1>
        %v79 = gpu.short(%v78) {function = "exp2"} : tile<64x64xf32, #l1>
        %v80 = block.reduce(%v79) {axis = 1, kind = "sum"} : tile<64xf32, #l2>
        %v81 = block.reshape(%v80) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v82 = block.add(%v74, %v81) : tile<64x1xf32, #l0>
        %v83 = gpu.part(%v55) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
        %v84 = block.broadcast(%v73) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
        %v85 = block.mul(%v83, %v84) : tile<64x256xf32, #l4>
        %p_2 = gpu.pack(%v79) {elem = f16} : tile<64x32xi32, #l3>
        %v86 = gpu.advance(%v40) {size = 2} : i32
        %v87 = gpu.advance(%slot_3) {size = 2} : i32
        %v88 = block.const() {elem = bool, value = true} : bool
        yield(%v86, %v87, %v88, %p_2, %v85, %v61, %v82, %v73)
      } : i32, i32, bool, tile<64x32xi32, #l3>, tile<64x256xf32, #l4>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>
      gpu.wait(%full_0, %v90)
      %v97 = gpu.wgmma(%v92, %keys, %v90, %v93, %v91) {transpose_b = false} : tile<64x256xf32, #l4>
      %v98 = block.const() {elem = i64, value = 3} : i64
      %v99 = gpu.advance(%v90, %v98) {size = 2} : i32
      gpu.wait(%empty_1, %v99)
      %v100 = block.const() {elem = i64, value = 0} : i64
      gpu.store_shared(%p, %v100, %v92)
      %v101 = block.const() {elem = i64, value = 0} : i64
      gpu.store_shared(%rows, %v101, %v94)
      %v102 = block.const() {elem = i64, value = 1} : i64
      gpu.store_shared(%rows, %v102, %v95)
      %v103 = block.const() {elem = i64, value = 2} : i64
      gpu.store_shared(%rows, %v103, %v96)
      gpu.arrive(%sent, %v90) {every_warp = true}
      gpu.arrive(%turn, %v90) {every_warp = true}
      %v104 = gpu.wgmma_wait(%v97) {fence = true} : tile<64x256xf32, #l4>
      gpu.arrive(%empty_0, %v90) {every_warp = true}
      %v105 = gpu.advance(%v90) {size = 2} : i32
      gpu.arrive(%empty, %slot_0)
      %v106 = gpu.part(%v104) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
      %v107 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.0} : tile<64x1xf32, #l0>
      %v108 = block.div(%v107, %v95) : tile<64x1xf32, #l0>
      %v109 = block.broadcast(%v108) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
      %v110 = block.mul(%v106, %v109) : tile<64x256xf32, #l4>
      %v111 = block.cast(%v110) {to = f16} : tile<64x256xf16, #l4>
      %seven = block.const() {elem = i64, value = 7} : i64
      block.store_view(%out0, %v35, %v111, %seven) {limited = [0], strides = [512, 1]}
      %v112 = gpu.advance(%slot_0) {size = 1} : i32
      yield(%v112, %v89, %v105)
    } : i32, i32, i32
    yield()
  } do (%group_0: i64) {
    %slot_4 = block.const() {elem = i32, value = 0} : i32
    %v147 = gpu.for_tiles(%group_0, %slot_4) {tiles = 1} do (%program_0: i64, %slot_5: i32) {
      %v116 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v117 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      %acc_1 = block.const() {elem = f32, layout = #l4, shape = [64, 256], value = 0.0} : tile<64x256xf32, #l4>
      %v118 = block.const() {elem = i64, value = 0} : i64
      %v119 = block.const() {elem = i64, value = 2} : i64
      %v136, %v137, %v138, %v139 = for(%v118, %v119, %slot_5, %acc_1, %v116, %v117) do (%block_0: i64, %slot_6: i32, %acc_2: tile<64x256xf32, #l4>, %v120: tile<64x1xf32, #l0>, %v121: tile<64x1xf32, #l0>) {
        gpu.wait(%sent, %slot_6)
        %v122 = block.const() {elem = i64, value = 0} : i64
        %v123 = gpu.load_shared(%rows, %v122) {layout = #l0} : tile<64x1xf32, #l0>
        %v124 = block.const() {elem = i64, value = 1} : i64
        %v125 = gpu.load_shared(%rows, %v124) {layout = #l0} : tile<64x1xf32, #l0>
        %v126 = block.const() {elem = i64, value = 2} : i64
        %v127 = gpu.load_shared(%rows, %v126) {layout = #l0} : tile<64x1xf32, #l0>
        %v128 = gpu.part(%acc_2) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
        %v129 = block.broadcast(%v127) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
        %v130 = block.mul(%v128, %v129) : tile<64x256xf32, #l4>
        gpu.wait(%full_1, %slot_6)
        gpu.wait(%turn, %slot_6)
        %v131 = block.const() {elem = bool, value = true} : bool
        %v132 = block.const() {elem = i32, value = 0} : i32
        %v133 = gpu.wgmma(%p, %keys_0, %slot_6, %v130, %v131, %v132) {transpose_b = false} : tile<64x256xf32, #l4>
        %v134 = gpu.wgmma_wait(%v133) {fence = true} : tile<64x256xf32, #l4>
        gpu.arrive(%empty_1, %slot_6) {every_warp = true}
        %v135 = gpu.advance(%slot_6) {size = 2} : i32
        yield(%v135, %v134, %v123, %v125)
      } : i32, tile<64x256xf32, #l4>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>
      %v140 = gpu.part(%v137) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
      %v141 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.0} : tile<64x1xf32, #l0>
      %v142 = block.div(%v141, %v139) : tile<64x1xf32, #l0>
      %v143 = block.broadcast(%v142) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
      %v144 = block.mul(%v140, %v143) : tile<64x256xf32, #l4>
      %v145 = block.cast(%v144) {to = f16} : tile<64x256xf16, #l4>
      %v146 = block.index(%v118) {expr = (at + 256), names = ["at"]} : i64
      %seven_0 = block.const() {elem = i64, value = 7} : i64
      block.store_view(%out0, %v146, %v145, %seven_0) {limited = [0], strides = [512, 1]}
      yield(%v136)
    } : i32
    yield()
  } do (%group_1: i64) {
    %slot_7 = block.const() {elem = i32, value = 0} : i32
    %v168, %v169 = gpu.for_tiles(%group_1, %slot_7, %slot_7) {tiles = 1} do (%program_1: i64, %slot_8: i32, %slot_9: i32) {
      gpu.wait(%empty, %slot_8) {previous = true}
      gpu.expect(%full, %slot_8) {nbytes = 73728}
      %v148 = block.const() {elem = i64, value = 0} : i64
      %v149 = block.const() {elem = i64, value = 0} : i64
      gpu.tma_load(%in0, %queries, %slot_8, %full, %v148, %v149) {dims = [7, 576], offset = 0, strides = [576, 1]}
      %v150 = block.const() {elem = i64, value = 0} : i64
      %v151 = block.const() {elem = i64, value = 256} : i64
      gpu.tma_load(%in0, %queries_0, %slot_8, %full, %v150, %v151) {dims = [7, 576], offset = 0, strides = [576, 1]}
      %v152 = block.const() {elem = i64, value = 0} : i64
      %v153 = block.const() {elem = i64, value = 512} : i64
      gpu.tma_load(%in0, %queries_1, %slot_8, %full, %v152, %v153) {dims = [7, 576], offset = 0, strides = [576, 1]}
      %v154 = block.const() {elem = i64, value = 0} : i64
      %v155 = block.const() {elem = i64, value = 2} : i64
      %v166 = for(%v154, %v155, %slot_9) do (%block_1: i64, %slot_10: i32) {
        gpu.wait(%empty_0, %slot_10) {previous = true}
        gpu.expect(%full_0, %slot_10) {nbytes = 32768}
        %v156 = block.const() {elem = i64, value = 0} : i64
        %v157 = block.index(%block_1) {expr = (64*k), names = ["k"]} : i64
        %v158 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in1, %keys, %slot_10, %full_0, %v156, %v157, %v158) {dims = [1, 7, 576], offset = 0, strides = [4032, 576, 1]}
        gpu.wait(%empty_2, %slot_10) {previous = true}
        gpu.expect(%full_2, %slot_10) {nbytes = 8192}
        %v159 = block.const() {elem = i64, value = 0} : i64
        %v160 = block.index(%block_1) {expr = (64*k), names = ["k"]} : i64
        %v161 = block.const() {elem = i64, value = 512} : i64
        gpu.tma_load(%in1, %keys_1, %slot_10, %full_2, %v159, %v160, %v161) {dims = [1, 7, 576], offset = 0, strides = [4032, 576, 1]}
        gpu.wait(%empty_1, %slot_10) {previous = true}
        gpu.expect(%full_1, %slot_10) {nbytes = 32768}
        %v162 = block.const() {elem = i64, value = 0} : i64
        %v163 = block.index(%block_1) {expr = (64*k), names = ["k"]} : i64
        %v164 = block.const() {elem = i64, value = 256} : i64
        gpu.tma_load(%in1, %keys_0, %slot_10, %full_1, %v162, %v163, %v164) {dims = [1, 7, 576], offset = 0, strides = [4032, 576, 1]}
        %v165 = gpu.advance(%slot_10) {size = 2} : i32
        yield(%v165)
      } : i32
      %v167 = gpu.advance(%slot_8) {size = 1} : i32
      yield(%v167, %v166)
    } : i32, i32
    yield()
  }
  return()
}

layout #l0 = 64x1 linear {register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l2 = 64 linear {register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]]}
layout #l3 = 64x16 linear {register = [[8, 0], [0, 4], [0, 8]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l4 = 64x256 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @wide(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {flops = 16777216, grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 12, work = 2049} {
  %queries = gpu.shared_alloc() {elem = f16, shape = [1, 64, 256], swizzle = 128} : shared<1x64x256xf16, swizzle 128>
  %queries_0 = gpu.shared_alloc() {elem = f16, shape = [1, 64, 256], swizzle = 128} : shared<1x64x256xf16, swizzle 128>
  %keys = gpu.shared_alloc() {elem = f16, shape = [2, 32, 256], swizzle = 128} : shared<2x32x256xf16, swizzle 128>
  %keys_0 = gpu.shared_alloc() {elem = f16, shape = [2, 32, 256], swizzle = 128} : shared<2x32x256xf16, swizzle 128>
  %values = gpu.shared_alloc() {elem = f16, shape = [2, 32, 256], swizzle = 128} : shared<2x32x256xf16, swizzle 128>
  %values_0 = gpu.shared_alloc() {elem = f16, shape = [2, 32, 256], swizzle = 128} : shared<2x32x256xf16, swizzle 128>
  %full = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %full_0 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %full_1 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %full_2 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %full_3 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %empty_0 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %empty_1 = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %empty_2 = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  %empty_3 = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  %p = gpu.shared_alloc() {elem = f16, shape = [1, 64, 32], swizzle = 64} : shared<1x64x32xf16, swizzle 64>
  %rows = gpu.shared_alloc() {elem = f32, shape = [3, 64, 1]} : shared<3x64x1xf32>
  %sent = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  %turn = gpu.barriers() {arrivals = 4, count = 2} : shared<2xi64>
  gpu.warp_specialize() {groups = [1, 1, 1], registers = [240, 240, 24], single = [2], warps = [4, 4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v109, %v110, %v111 = gpu.for_tiles(%group, %slot, %slot, %slot) {tiles = 1} do (%program: i64, %slot_0: i32, %slot_1: i32, %slot_2: i32) {
      %v0 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v1 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      gpu.wait(%full, %slot_0)
      %scores = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 32]} : tile<64x32xf32, #l1>
      gpu.wait(%full_0, %slot_1)
      %v2 = block.const() {elem = bool, value = false} : bool
      %v3 = gpu.wgmma(%queries, %keys, %slot_1, %scores, %v2, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x32xf32, #l1>
      gpu.wait(%full_1, %slot_1)
      %v4 = block.const() {elem = bool, value = true} : bool
      %v5 = gpu.wgmma(%queries_0, %keys_0, %slot_1, %v3, %v4, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x32xf32, #l1>
      %v6 = gpu.wgmma_wait(%v5) : tile<64x32xf32, #l1>
      gpu.arrive(%empty_0, %slot_1)
      gpu.arrive(%empty_1, %slot_1)
      %v7 = gpu.advance(%slot_1) {size = 2} : i32
      %v8 = block.const() {elem = i64, value = 0} : i64
      %v9 = block.reduce(%v6) {axis = 1, kind = "max"} : tile<64xf32, #l2>
      %v10 = block.reshape(%v9) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v11 = block.max(%v0, %v10) : tile<64x1xf32, #l0>
      %v12 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.04419417382415922} : tile<64x1xf32, #l0>
      %v13 = block.mul(%v0, %v12) : tile<64x1xf32, #l0>
      %v14 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
      %v15 = block.mul(%v13, %v14) : tile<64x1xf32, #l0>
      %v16 = block.mul(%v11, %v12) : tile<64x1xf32, #l0>
      %v17 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v18 = block.eq(%v16, %v17) : tile<64x1xbool, #l0>
      %v19 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      %v20 = block.select(%v18, %v19, %v16) : tile<64x1xf32, #l0>
      %v21 = block.mul(%v20, %v14) : tile<64x1xf32, #l0>
      %v22 = block.sub(%v15, %v21) : tile<64x1xf32, #l0>
      %v23 = gpu.short(%v22) {function = "exp2"} : tile<64x1xf32, #l0>
      %v24 = block.mul(%v1, %v23) : tile<64x1xf32, #l0>
      %v25 = block.const() {elem = f32, layout = #l1, shape = [64, 32], value = 0.06375871541229934} : tile<64x32xf32, #l1>
      %v26 = block.neg(%v21) : tile<64x1xf32, #l0>
      %v27 = block.broadcast(%v26) {layout = #l1, shape = [64, 32]} : tile<64x32xf32, #l1>
      %v28 = block.fma(%v6, %v25, %v27) : tile<64x32xf32, #l1>
      %v29 = gpu.short(%v28) {function = "exp2"} : tile<64x32xf32, #l1>
      %v30 = block.reduce(%v29) {axis = 1, kind = "sum"} : tile<64xf32, #l2>
      %v31 = block.reshape(%v30) {shape = [64, 1]} : tile<64x1xf32, #l0>
      %v32 = block.add(%v24, %v31) : tile<64x1xf32, #l0>
      %p_0 = gpu.pack(%v29) {elem = f16} : tile<64x16xi32, #l3>
      %acc = gpu.undefined() {elem = f32, layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
      %keep = block.const() {elem = bool, value = false} : bool
      %v33 = block.const() {elem = i64, value = 0} : i64
      %v34 = block.const() {elem = i64, value = 1} : i64
      %v35 = block.add(%v33, %v34) : i64
      %v36 = block.const() {elem = i64, value = 4} : i64
      %v37 = block.lt(%v33, %v36) : bool
      %v85, %v86, %v87, %v88, %v89, %v90, %v91, %v92 = for(%v35, %v36, %v7, %slot_2, %keep, %p_0, %acc, %v11, %v32, %v23) do (%block: i64, %v38: i32, %slot_3: i32, %keep_0: bool, %p_1: tile<64x16xi32, #l3>, %acc_0: tile<64x256xf32, #l4>, %v39: tile<64x1xf32, #l0>, %v40: tile<64x1xf32, #l0>, %v41: tile<64x1xf32, #l0>) {
        gpu.wait(%full_2, %slot_3)
        %v42 = gpu.wgmma(%p_1, %values, %slot_3, %acc_0, %keep_0) {transpose_b = false} : tile<64x256xf32, #l4>
        %scores_0 = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 32]} : tile<64x32xf32, #l1>
        gpu.wait(%full_0, %v38)
        %v43 = block.const() {elem = bool, value = false} : bool
        %v44 = gpu.wgmma(%queries, %keys, %v38, %scores_0, %v43, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x32xf32, #l1>
        %v45 = block.const() {elem = i64, value = 3} : i64
        %v46 = gpu.advance(%slot_3, %v45) {size = 2} : i32
        gpu.wait(%empty_3, %v46)
        %v47 = block.const() {elem = i64, value = 0} : i64
        gpu.store_shared(%p, %v47, %p_1)
        %v48 = block.const() {elem = i64, value = 0} : i64
        gpu.store_shared(%rows, %v48, %v39)
        %v49 = block.const() {elem = i64, value = 1} : i64
        gpu.store_shared(%rows, %v49, %v40)
        %v50 = block.const() {elem = i64, value = 2} : i64
        gpu.store_shared(%rows, %v50, %v41)
        gpu.arrive(%sent, %slot_3) {every_warp = true}
        %v51 = gpu.wgmma_wait(%v42) {pending = 1} : tile<64x256xf32, #l4>
        gpu.arrive(%empty_2, %slot_3) {every_warp = true}
        gpu.wait(%full_1, %v38)
        %v52 = block.const() {elem = bool, value = true} : bool
        %v53 = gpu.wgmma(%queries_0, %keys_0, %v38, %v44, %v52, %slot_0) {transpose_a = false, transpose_b = true} : tile<64x32xf32, #l1>
        %v54 = gpu.wgmma_wait(%v53) : tile<64x32xf32, #l1>
        gpu.arrive(%turn, %slot_3) {every_warp = true}
        gpu.arrive(%empty_0, %v38)
        gpu.arrive(%empty_1, %v38)
        %v55 = block.reduce(%v54) {axis = 1, kind = "max"} : tile<64xf32, #l2>
        %v56 = block.reshape(%v55) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v57 = block.max(%v39, %v56) : tile<64x1xf32, #l0>
        %v58 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.04419417382415922} : tile<64x1xf32, #l0>
        %v59 = block.mul(%v39, %v58) : tile<64x1xf32, #l0>
        %v60 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.4426950408889634} : tile<64x1xf32, #l0>
        %v61 = block.mul(%v59, %v60) : tile<64x1xf32, #l0>
        %v62 = block.mul(%v57, %v58) : tile<64x1xf32, #l0>
        %v63 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
        %v64 = block.eq(%v62, %v63) : tile<64x1xbool, #l0>
        %v65 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
        %v66 = block.select(%v64, %v65, %v62) : tile<64x1xf32, #l0>
        %v67 = block.mul(%v66, %v60) : tile<64x1xf32, #l0>
        %v68 = block.sub(%v61, %v67) : tile<64x1xf32, #l0>
        %v69 = gpu.short(%v68) {function = "exp2"} : tile<64x1xf32, #l0>
        %v70 = block.mul(%v40, %v69) : tile<64x1xf32, #l0>
        %v71 = block.const() {elem = f32, layout = #l1, shape = [64, 32], value = 0.06375871541229934} : tile<64x32xf32, #l1>
        %v72 = block.neg(%v67) : tile<64x1xf32, #l0>
        %v73 = block.broadcast(%v72) {layout = #l1, shape = [64, 32]} : tile<64x32xf32, #l1>
        %v74 = block.fma(%v54, %v71, %v73) : tile<64x32xf32, #l1>
        %v75 = gpu.short(%v74) {function = "exp2"} : tile<64x32xf32, #l1>
        %v76 = block.reduce(%v75) {axis = 1, kind = "sum"} : tile<64xf32, #l2>
        %v77 = block.reshape(%v76) {shape = [64, 1]} : tile<64x1xf32, #l0>
        %v78 = block.add(%v70, %v77) : tile<64x1xf32, #l0>
        %v79 = gpu.part(%v51) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
        %v80 = block.broadcast(%v69) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
        %v81 = block.mul(%v79, %v80) : tile<64x256xf32, #l4>
        %p_2 = gpu.pack(%v75) {elem = f16} : tile<64x16xi32, #l3>
        %v82 = gpu.advance(%v38) {size = 2} : i32
        %v83 = gpu.advance(%slot_3) {size = 2} : i32
        %v84 = block.const() {elem = bool, value = true} : bool
        yield(%v82, %v83, %v84, %p_2, %v81, %v57, %v78, %v69)
      } : i32, i32, bool, tile<64x16xi32, #l3>, tile<64x256xf32, #l4>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>
      gpu.wait(%full_2, %v86)
      %v93 = gpu.wgmma(%v88, %values, %v86, %v89, %v87) {transpose_b = false} : tile<64x256xf32, #l4>
      %v94 = block.const() {elem = i64, value = 3} : i64
      %v95 = gpu.advance(%v86, %v94) {size = 2} : i32
      gpu.wait(%empty_3, %v95)
      %v96 = block.const() {elem = i64, value = 0} : i64
      gpu.store_shared(%p, %v96, %v88)
      %v97 = block.const() {elem = i64, value = 0} : i64
      gpu.store_shared(%rows, %v97, %v90)
      %v98 = block.const() {elem = i64, value = 1} : i64
      gpu.store_shared(%rows, %v98, %v91)
      %v99 = block.const() {elem = i64, value = 2} : i64
      gpu.store_shared(%rows, %v99, %v92)
      gpu.arrive(%sent, %v86) {every_warp = true}
      gpu.arrive(%turn, %v86) {every_warp = true}
      %v100 = gpu.wgmma_wait(%v93) {fence = true} : tile<64x256xf32, #l4>
      gpu.arrive(%empty_2, %v86) {every_warp = true}
      %v101 = gpu.advance(%v86) {size = 2} : i32
      gpu.arrive(%empty, %slot_0)
      %v102 = gpu.part(%v100) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
      %v103 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.0} : tile<64x1xf32, #l0>
      %v104 = block.div(%v103, %v91) : tile<64x1xf32, #l0>
      %v105 = block.broadcast(%v104) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
      %v106 = block.mul(%v102, %v105) : tile<64x256xf32, #l4>
      %v107 = block.cast(%v106) {to = f16} : tile<64x256xf16, #l4>
      %seven = block.const() {elem = i64, value = 7} : i64
      block.store_view(%out0, %v33, %v107, %seven) {limited = [0], strides = [512, 1]}
      %v108 = gpu.advance(%slot_0) {size = 1} : i32
      yield(%v108, %v85, %v101)
    } : i32, i32, i32
    yield()
  } do (%group_0: i64) {
    %slot_4 = block.const() {elem = i32, value = 0} : i32
    %v143 = gpu.for_tiles(%group_0, %slot_4) {tiles = 1} do (%program_0: i64, %slot_5: i32) {
      %v112 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = -inf} : tile<64x1xf32, #l0>
      %v113 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 0.0} : tile<64x1xf32, #l0>
      %acc_1 = block.const() {elem = f32, layout = #l4, shape = [64, 256], value = 0.0} : tile<64x256xf32, #l4>
      %v114 = block.const() {elem = i64, value = 0} : i64
      %v115 = block.const() {elem = i64, value = 4} : i64
      %v132, %v133, %v134, %v135 = for(%v114, %v115, %slot_5, %acc_1, %v112, %v113) do (%block_0: i64, %slot_6: i32, %acc_2: tile<64x256xf32, #l4>, %v116: tile<64x1xf32, #l0>, %v117: tile<64x1xf32, #l0>) {
        gpu.wait(%sent, %slot_6)
        %v118 = block.const() {elem = i64, value = 0} : i64
        %v119 = gpu.load_shared(%rows, %v118) {layout = #l0} : tile<64x1xf32, #l0>
        %v120 = block.const() {elem = i64, value = 1} : i64
        %v121 = gpu.load_shared(%rows, %v120) {layout = #l0} : tile<64x1xf32, #l0>
        %v122 = block.const() {elem = i64, value = 2} : i64
        %v123 = gpu.load_shared(%rows, %v122) {layout = #l0} : tile<64x1xf32, #l0>
        %v124 = gpu.part(%acc_2) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
        %v125 = block.broadcast(%v123) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
        %v126 = block.mul(%v124, %v125) : tile<64x256xf32, #l4>
        gpu.wait(%full_3, %slot_6)
        gpu.wait(%turn, %slot_6)
        %v127 = block.const() {elem = bool, value = true} : bool
        %v128 = block.const() {elem = i32, value = 0} : i32
        %v129 = gpu.wgmma(%p, %values_0, %slot_6, %v126, %v127, %v128) {transpose_b = false} : tile<64x256xf32, #l4>
        %v130 = gpu.wgmma_wait(%v129) {fence = true} : tile<64x256xf32, #l4>
        gpu.arrive(%empty_3, %slot_6) {every_warp = true}
        %v131 = gpu.advance(%slot_6) {size = 2} : i32
        yield(%v131, %v130, %v119, %v121)
      } : i32, tile<64x256xf32, #l4>, tile<64x1xf32, #l0>, tile<64x1xf32, #l0>
      %v136 = gpu.part(%v133) {layout = #l4, start = [0, 0]} : tile<64x256xf32, #l4>
      %v137 = block.const() {elem = f32, layout = #l0, shape = [64, 1], value = 1.0} : tile<64x1xf32, #l0>
      %v138 = block.div(%v137, %v135) : tile<64x1xf32, #l0>
      %v139 = block.broadcast(%v138) {layout = #l4, shape = [64, 256]} : tile<64x256xf32, #l4>
      %v140 = block.mul(%v136, %v139) : tile<64x256xf32, #l4>
      %v141 = block.cast(%v140) {to = f16} : tile<64x256xf16, #l4>
      %v142 = block.index(%v114) {expr = (at + 256), names = ["at"]} : i64
      %seven_0 = block.const() {elem = i64, value = 7} : i64
      block.store_view(%out0, %v142, %v141, %seven_0) {limited = [0], strides = [512, 1]}
      yield(%v132)
    } : i32
    yield()
  } do (%group_1: i64) {
    %slot_7 = block.const() {elem = i32, value = 0} : i32
    %v165, %v166 = gpu.for_tiles(%group_1, %slot_7, %slot_7) {tiles = 1} do (%program_1: i64, %slot_8: i32, %slot_9: i32) {
      gpu.wait(%empty, %slot_8) {previous = true}
      gpu.expect(%full, %slot_8) {nbytes = 65536}
      %v144 = block.const() {elem = i64, value = 0} : i64
      %v145 = block.const() {elem = i64, value = 0} : i64
      gpu.tma_load(%in0, %queries, %slot_8, %full, %v144, %v145) {dims = [7, 512], offset = 0, strides = [512, 1]}
      %v146 = block.const() {elem = i64, value = 0} : i64
      %v147 = block.const() {elem = i64, value = 256} : i64
      gpu.tma_load(%in0, %queries_0, %slot_8, %full, %v146, %v147) {dims = [7, 512], offset = 0, strides = [512, 1]}
      %v148 = block.const() {elem = i64, value = 0} : i64
      %v149 = block.const() {elem = i64, value = 4} : i64
      %v163 = for(%v148, %v149, %slot_9) do (%block_1: i64, %slot_10: i32) {
        gpu.wait(%empty_0, %slot_10) {previous = true}
        gpu.expect(%full_0, %slot_10) {nbytes = 16384}
        %v150 = block.const() {elem = i64, value = 0} : i64
        %v151 = block.index(%block_1) {expr = (32*k), names = ["k"]} : i64
        %v152 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in1, %keys, %slot_10, %full_0, %v150, %v151, %v152) {dims = [1, 7, 512], offset = 0, strides = [3584, 512, 1]}
        gpu.wait(%empty_1, %slot_10) {previous = true}
        gpu.expect(%full_1, %slot_10) {nbytes = 16384}
        %v153 = block.const() {elem = i64, value = 0} : i64
        %v154 = block.index(%block_1) {expr = (32*k), names = ["k"]} : i64
        %v155 = block.const() {elem = i64, value = 256} : i64
        gpu.tma_load(%in1, %keys_0, %slot_10, %full_1, %v153, %v154, %v155) {dims = [1, 7, 512], offset = 0, strides = [3584, 512, 1]}
        gpu.wait(%empty_2, %slot_10) {previous = true}
        gpu.expect(%full_2, %slot_10) {nbytes = 16384}
        %v156 = block.const() {elem = i64, value = 0} : i64
        %v157 = block.index(%block_1) {expr = (32*k), names = ["k"]} : i64
        %v158 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%in2, %values, %slot_10, %full_2, %v156, %v157, %v158) {dims = [1, 7, 512], offset = 0, strides = [3584, 512, 1]}
        gpu.wait(%empty_3, %slot_10) {previous = true}
        gpu.expect(%full_3, %slot_10) {nbytes = 16384}
        %v159 = block.const() {elem = i64, value = 0} : i64
        %v160 = block.index(%block_1) {expr = (32*k), names = ["k"]} : i64
        %v161 = block.const() {elem = i64, value = 256} : i64
        gpu.tma_load(%in2, %values_0, %slot_10, %full_3, %v159, %v160, %v161) {dims = [1, 7, 512], offset = 0, strides = [3584, 512, 1]}
        %v162 = gpu.advance(%slot_10) {size = 2} : i32
        yield(%v162)
      } : i32
      %v164 = gpu.advance(%slot_8) {size = 1} : i32
      yield(%v164, %v163)
    } : i32, i32
    yield()
  }
  return()
}
