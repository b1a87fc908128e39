// RUN: hopper-attention
// The first sum so far is 0 and taken to stay so. Only exponentials let it: 0 + x is not 0, nor 0 times the exponent -inf.
func @stays_added(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {grid = 1, query_words = false, resident = 1, stages = 2, turns = false, warps = 4} {
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
    %v33 = block.add(%acc_1, %v32) : tile<64x16xf32>
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

func @stays_negative(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {grid = 1, query_words = false, resident = 1, stages = 2, turns = false, warps = 4} {
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
    %v32 = block.broadcast(%v21) {shape = [64, 16]} : tile<64x16xf32>
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
// two blocks of 64 keys and of values that lie elsewhere
func @stays_no_room(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {flops = 17825792, grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, work = 2177} {
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
    %v46 = block.load_box(%in2, %v0, %v11, %v0) {dims = [1, 7, 512], offset = 0, shape = [64, 512], strides = [4032, 576, 1]} : tile<64x512xf16>
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

// -----
func @stays_added(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {grid = 1, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, without_wgmma = "the sum so far is weighed by something else than exponentials"} {
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
    %v33 = block.add(%acc_1, %v32) : tile<64x16xf32>
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

func @stays_negative(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {grid = 1, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, without_wgmma = "the sum so far is weighed by something else than exponentials"} {
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
    %v32 = block.broadcast(%v21) {shape = [64, 16]} : tile<64x16xf32>
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

func @stays_no_room(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {flops = 17825792, grid = 1, persistent = 0, query_words = false, resident = 1, stages = 2, turns = false, warps = 4, without_wgmma = "shared memory has room for 1 blocks of keys and values", work = 2177} {
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
    %v46 = block.load_box(%in2, %v0, %v11, %v0) {dims = [1, 7, 512], offset = 0, shape = [64, 512], strides = [4032, 576, 1]} : tile<64x512xf16>
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
