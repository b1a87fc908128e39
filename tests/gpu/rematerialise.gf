// RUN: rematerialise, common-subexpressions, dead-code

// a comparison of indices costs less than two barriers, and the range is made once for both readers
layout #rows = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #lanes = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @mask(%o: ptr<i64>, %n: i64) {grid = 1, warps = 4} dims (n in 0..64) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %r = block.arange() {end = 64, layout = #rows, start = 0} : tile<64xi64, #rows>
  %i = block.index(%r) {expr = (3*i + n), names = ["i"]} : tile<64xi64, #rows>
  %s = block.splat(%n) {layout = #rows, shape = [64]} : tile<64xi64, #rows>
  %m = block.lt(%r, %s) : tile<64xbool, #rows>
  %a = gpu.convert_layout(%i) {layout = #lanes} : tile<64xi64, #lanes>
  %b = gpu.convert_layout(%m) {layout = #lanes} : tile<64xbool, #lanes>
  %c = block.select(%b, %a, %a) : tile<64xi64, #lanes>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}

// changes of shape on the way
layout #rows = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #columns = 1x64 linear {lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 32], [0, 0]]}
layout #row = 1x64 linear {register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
func @through_a_view(%o: ptr<i64>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %r = block.arange() {end = 64, layout = #rows, start = 0} : tile<64xi64, #rows>
  %v = block.reshape(%r) {shape = [1, 64]} : tile<1x64xi64, #row>
  %c = gpu.convert_layout(%v) {layout = #columns} : tile<1x64xi64, #columns>
  block.store_view(%o, %zero, %c) {strides = [64, 1]}
  return()
}

// what was loaded is moved
layout #rows = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #lanes = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @loads(%x: ptr<i64>, %o: ptr<i64>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %r = block.load_view(%x, %zero) {layout = #rows, shape = [64], strides = [1]} : tile<64xi64, #rows>
  %i = block.add(%r, %r) : tile<64xi64, #rows>
  %c = gpu.convert_layout(%i) {layout = #lanes} : tile<64xi64, #lanes>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}

// functions are not computed twice
layout #rows = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #lanes = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @transcendental(%x: f32, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %s = block.splat(%x) {layout = #rows, shape = [64]} : tile<64xf32, #rows>
  %e = block.exp(%s) : tile<64xf32, #rows>
  %c = gpu.convert_layout(%e) {layout = #lanes} : tile<64xf32, #lanes>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}

// divisions by a symbol in 64 registers of every thread cost more than the way through shared memory
layout #lanes = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
layout #held = 64 linear {register = [[1], [2], [4], [8], [16], [32]], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]]}
func @too_dear(%o: ptr<i64>, %n: i64) {grid = 1, warps = 4} dims (n in 1..64) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %r = block.arange() {end = 64, layout = #lanes, start = 0} : tile<64xi64, #lanes>
  %i = block.index(%r) {expr = (floordiv(i, n) + mod(i, n)), names = ["i"]} : tile<64xi64, #lanes>
  %c = gpu.convert_layout(%i) {layout = #held} : tile<64xi64, #held>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}
// -----
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @mask(%o: ptr<i64>, %n: i64) {grid = 1, warps = 4} dims (n in 0..64) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %v0 = block.arange() {end = 64, layout = #l0, start = 0} : tile<64xi64, #l0>
  %v1 = block.index(%v0) {expr = (3*i + n), names = ["i"]} : tile<64xi64, #l0>
  %v2 = block.splat(%n) {layout = #l0, shape = [64]} : tile<64xi64, #l0>
  %v3 = block.lt(%v0, %v2) : tile<64xbool, #l0>
  %c = block.select(%v3, %v1, %v1) : tile<64xi64, #l0>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
layout #l1 = 1x64 linear {lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 32], [0, 0]]}
func @through_a_view(%o: ptr<i64>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %v0 = block.arange() {end = 64, layout = #l0, start = 0} : tile<64xi64, #l0>
  %v1 = block.reshape(%v0) {shape = [1, 64]} : tile<1x64xi64, #l1>
  block.store_view(%o, %zero, %v1) {strides = [64, 1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #l1 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @loads(%x: ptr<i64>, %o: ptr<i64>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %r = block.load_view(%x, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xi64, #l0>
  %i = block.add(%r, %r) : tile<64xi64, #l0>
  %c = gpu.convert_layout(%i) {layout = #l1} : tile<64xi64, #l1>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #l1 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @transcendental(%x: f32, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %s = block.splat(%x) {layout = #l0, shape = [64]} : tile<64xf32, #l0>
  %e = block.exp(%s) : tile<64xf32, #l0>
  %c = gpu.convert_layout(%e) {layout = #l1} : tile<64xf32, #l1>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
layout #l1 = 64 linear {register = [[1], [2], [4], [8], [16], [32]], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]]}
func @too_dear(%o: ptr<i64>, %n: i64) {grid = 1, warps = 4} dims (n in 1..64) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %r = block.arange() {end = 64, layout = #l0, start = 0} : tile<64xi64, #l0>
  %i = block.index(%r) {expr = (floordiv(i, n) + mod(i, n)), names = ["i"]} : tile<64xi64, #l0>
  %c = gpu.convert_layout(%i) {layout = #l1} : tile<64xi64, #l1>
  block.store_view(%o, %zero, %c) {strides = [1]}
  return()
}
