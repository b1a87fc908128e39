// RUN: raise-boxes

func @conv(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {flops = 147456, grid = 2, persistent = 1, schedule = "cooperative", stages = 2, warps = 8, work = 10} {
  %v0 = block.program_id() : i64
  %v1 = block.arange() {end = 64, start = 0} : tile<64xi64>
  %v2 = block.reshape(%v1) {shape = [64, 1]} : tile<64x1xi64>
  %v3 = block.index(%v2, %v0) {expr = (l5 + 64*pid5), names = ["l5", "pid5"]} : tile<64x1xi64>
  %v4 = block.index(%v3) {expr = (floordiv(row6, 64)), names = ["row6"]} : tile<64x1xi64>
  %v5 = block.index(%v3) {expr = (mod(floordiv(row6, 8), 8)), names = ["row6"]} : tile<64x1xi64>
  %v6 = block.index(%v3) {expr = (mod(row6, 8)), names = ["row6"]} : tile<64x1xi64>
  %v7 = block.const() {elem = f32, shape = [64, 32], value = 0.0} : tile<64x32xf32>
  %v8 = block.const() {elem = i64, value = 0} : i64
  %v9 = block.const() {elem = i64, value = 9} : i64
  %v45 = for(%v8, %v9, %v7) do (%k8: i64, %acc: tile<64x32xf32>) {
    %v10 = block.index(%k8) {expr = (floordiv(k8, 3)), names = ["k8"]} : i64
    %v11 = block.index(%k8) {expr = (mod(k8, 3)), names = ["k8"]} : i64
    %v12 = block.index(%v5, %v10) {expr = (p7 + p9 - 1), names = ["p7", "p9"]} : tile<64x1xi64>
    %v13 = block.splat(%v8) {shape = [64, 1]} : tile<64x1xi64>
    %v14 = block.ge(%v12, %v13) : tile<64x1xbool>
    %v15 = block.const() {elem = i64, value = 8} : i64
    %v16 = block.splat(%v15) {shape = [64, 1]} : tile<64x1xi64>
    %v17 = block.lt(%v12, %v16) : tile<64x1xbool>
    %v18 = block.and(%v14, %v17) : tile<64x1xbool>
    %v19 = block.index(%v11, %v6) {expr = (p10 + p8 - 1), names = ["p10", "p8"]} : tile<64x1xi64>
    %v20 = block.ge(%v19, %v13) : tile<64x1xbool>
    %v21 = block.and(%v18, %v20) : tile<64x1xbool>
    %v22 = block.lt(%v19, %v16) : tile<64x1xbool>
    %v23 = block.and(%v21, %v22) : tile<64x1xbool>
    %v24 = block.arange() {end = 16, start = 0} : tile<16xi64>
    %v25 = block.reshape(%v24) {shape = [1, 16]} : tile<1x16xi64>
    %v26 = block.splat(%v15) {shape = [1, 16]} : tile<1x16xi64>
    %v27 = block.lt(%v25, %v26) : tile<1x16xbool>
    %v28 = block.broadcast(%v23) {shape = [64, 16]} : tile<64x16xbool>
    %v29 = block.broadcast(%v27) {shape = [64, 16]} : tile<64x16xbool>
    %v30 = block.and(%v28, %v29) : tile<64x16xbool>
    %v31 = block.broadcast(%v25) {shape = [64, 16]} : tile<64x16xi64>
    %v32 = block.broadcast(%v4) {shape = [64, 16]} : tile<64x16xi64>
    %v33 = block.broadcast(%v5) {shape = [64, 16]} : tile<64x16xi64>
    %v34 = block.broadcast(%v6) {shape = [64, 16]} : tile<64x16xi64>
    %v35 = block.index(%v31, %v11, %v32, %v33, %v34, %v10) {expr = (l10 + 8*p10 + 512*p6 + 64*p7 + 8*p8 + 64*p9 - 72), names = ["l10", "p10", "p6", "p7", "p8", "p9"]} : tile<64x16xi64>
    %v36 = block.load(%in0, %v35, %v30) : tile<64x16xf16>
    %v37 = block.const() {elem = f16, value = 0.0} : f16
    %v38 = block.splat(%v37) {shape = [64, 16]} : tile<64x16xf16>
    %v39 = block.select(%v28, %v36, %v38) : tile<64x16xf16>
    %v40 = block.const() {elem = f16, shape = [64, 16], value = 0.0} : tile<64x16xf16>
    %v41 = block.select(%v29, %v39, %v40) : tile<64x16xf16>
    %v42 = block.index(%v11, %v10) {expr = (64*p10 + 192*p9), names = ["p10", "p9"]} : i64
    %v43 = block.load_view(%in1, %v42, %v15, %v15) {limited = [0, 1], shape = [16, 32], strides = [8, 1]} : tile<16x32xf16>
    %v44 = block.dot(%v41, %v43, %acc) : tile<64x32xf32>
    yield(%v44)
  } : tile<64x32xf32>
  %v46 = block.cast(%v45) {to = f16} : tile<64x32xf16>
  %v47 = block.const() {elem = i64, value = 8} : i64
  %v48 = block.load_view(%in2, %v8, %v47) {limited = [1], shape = [1, 32], strides = [0, 1]} : tile<1x32xf16>
  %v49 = block.broadcast(%v48) {shape = [64, 32]} : tile<64x32xf16>
  %v50 = block.add(%v46, %v49) : tile<64x32xf16>
  %v51 = block.const() {elem = f16, value = 0.0} : f16
  %v52 = block.splat(%v51) {shape = [64, 32]} : tile<64x32xf16>
  %v53 = block.max(%v50, %v52) : tile<64x32xf16>
  %v54 = block.index(%v0) {expr = (512*pid5), names = ["pid5"]} : i64
  block.store_view(%out0, %v54, %v53, %v47) {limited = [1], strides = [8, 1]}
  return()
}

// a view whose rows are contiguous along M is read as memory has it
func @views(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 2} {
  %p = block.program_id() : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 32} : i64
  %pm = block.index(%p) {expr = (-64*p + 96), names = ["p"]} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %pa = block.index(%p, %k) {expr = (64*p + 96*k), names = ["p", "k"]} : i64
    %pb = block.index(%k) {expr = (16*k), names = ["k"]} : i64
    %va = block.load_view(%a, %pa, %pm) {limited = [0], shape = [64, 16], strides = [1, 96]} : tile<64x16xf16>
    %vb = block.load_view(%b, %pb) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
    %d = block.dot(%va, %vb, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%p) {expr = (1024*p), names = ["p"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r, %pm) {limited = [0], strides = [16, 1]}
  return()
}
// -----
func @conv(%in0: ptr<f16>, %in1: ptr<f16>, %in2: ptr<f16>, %out0: ptr<f16>) {flops = 147456, grid = 2, persistent = 1, schedule = "cooperative", stages = 2, warps = 8, work = 10} {
  %v0 = block.program_id() : i64
  %v1 = block.const() {elem = f32, shape = [64, 32], value = 0.0} : tile<64x32xf32>
  %v2 = block.const() {elem = i64, value = 0} : i64
  %v3 = block.const() {elem = i64, value = 9} : i64
  %v16 = for(%v2, %v3, %v1) do (%k8: i64, %acc: tile<64x32xf32>) {
    %v4 = block.index(%v0) {expr = (program), names = ["program"]} : i64
    %v5 = block.const() {elem = i64, value = -1} : i64
    %v6 = block.const() {elem = i64, value = -1} : i64
    %v7 = block.const() {elem = i64, value = 0} : i64
    %v8 = block.index(%k8) {expr = (floordiv(k, 3)), names = ["k"]} : i64
    %v9 = block.index(%k8) {expr = (mod(k, 3)), names = ["k"]} : i64
    %v10 = block.load_box(%in0, %v4, %v5, %v6, %v7, %v8, %v9) {dims = [2, 8, 8, 8], lower = [-1, -1], offset = 0, shape = [64, 16], steps = [1, 1], strides = [512, 64, 8, 1], upper = [-1, -1]} : tile<64x16xf16>
    %v11 = block.index(%k8) {expr = (3*floordiv(k, 3) + mod(k, 3)), names = ["k"]} : i64
    %v12 = block.const() {elem = i64, value = 0} : i64
    %v13 = block.const() {elem = i64, value = 0} : i64
    %v14 = block.load_box(%in1, %v11, %v12, %v13) {dims = [9, 8, 8], offset = 0, shape = [16, 32], strides = [64, 8, 1]} : tile<16x32xf16>
    %v15 = block.dot(%v10, %v14, %acc) : tile<64x32xf32>
    yield(%v15)
  } : tile<64x32xf32>
  %v17 = block.cast(%v16) {to = f16} : tile<64x32xf16>
  %v18 = block.const() {elem = i64, value = 8} : i64
  %v19 = block.load_view(%in2, %v2, %v18) {limited = [1], shape = [1, 32], strides = [0, 1]} : tile<1x32xf16>
  %v20 = block.broadcast(%v19) {shape = [64, 32]} : tile<64x32xf16>
  %v21 = block.add(%v17, %v20) : tile<64x32xf16>
  %v22 = block.const() {elem = f16, value = 0.0} : f16
  %v23 = block.splat(%v22) {shape = [64, 32]} : tile<64x32xf16>
  %v24 = block.max(%v21, %v23) : tile<64x32xf16>
  %v25 = block.index(%v0) {expr = (512*pid5), names = ["pid5"]} : i64
  block.store_view(%out0, %v25, %v24, %v18) {limited = [1], strides = [8, 1]}
  return()
}

func @views(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 2} {
  %p = block.program_id() : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 32} : i64
  %pm = block.index(%p) {expr = (-64*p + 96), names = ["p"]} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %v0 = block.index(%k) {expr = (k), names = ["k"]} : i64
    %v1 = block.index(%p) {expr = (64*program), names = ["program"]} : i64
    %v2 = block.load_box(%a, %v0, %v1) {dims = [47, 96], offset = 0, shape = [16, 64], strides = [96, 1]} : tile<16x64xf16>
    %va = block.trans(%v2) {perm = [1, 0]} : tile<64x16xf16>
    %v3 = block.index(%k) {expr = (k), names = ["k"]} : i64
    %v4 = block.const() {elem = i64, value = 0} : i64
    %vb = block.load_box(%b, %v3, %v4) {dims = [47, 16], offset = 0, shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
    %d = block.dot(%va, %vb, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%p) {expr = (1024*p), names = ["p"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r, %pm) {limited = [0], strides = [16, 1]}
  return()
}
