// RUN: remove-conversions

// one conversion instead of two, none where the tile comes back
layout #a = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #b = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
layout #c = 64 linear {lane = [[2], [4], [8], [16], [32]], warp = [[1], [0]]}
func @in_a_row(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %u = gpu.convert_layout(%t) {layout = #b} : tile<64xf32, #b>
  %v = gpu.convert_layout(%u) {layout = #c} : tile<64xf32, #c>
  %w = gpu.convert_layout(%u) {layout = #a} : tile<64xf32, #a>
  block.store_view(%o, %zero, %v) {strides = [1]}
  block.store_view(%o, %zero, %w) {strides = [1]}
  return()
}

// before a cast to something wider
layout #tall = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #wide = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
func @widened(%x: ptr<f16>, %o: ptr<f64>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #wide, shape = [64, 64], strides = [64, 1]} : tile<64x64xf16, #wide>
  %u = block.cast(%t) {to = f64} : tile<64x64xf64, #wide>
  %v = gpu.convert_layout(%u) {layout = #tall} : tile<64x64xf64, #tall>
  block.store_view(%o, %zero, %v) {strides = [64, 1]}
  return()
}

// and after one to something narrower
layout #tall = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #wide = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
func @narrowed(%x: ptr<f64>, %o: ptr<f16>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #wide, shape = [64, 64], strides = [64, 1]} : tile<64x64xf64, #wide>
  %u = gpu.convert_layout(%t) {layout = #tall} : tile<64x64xf64, #tall>
  %v = block.cast(%u) {to = f16} : tile<64x64xf16, #tall>
  block.store_view(%o, %zero, %v) {strides = [64, 1]}
  return()
}

// before what repeats it
layout #row = 1x64 linear {register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #tall = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #wide = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
func @repeated(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #row, shape = [1, 64], strides = [64, 1]} : tile<1x64xf32, #row>
  %u = block.broadcast(%t) {layout = #tall, shape = [64, 64]} : tile<64x64xf32, #tall>
  %v = gpu.convert_layout(%u) {layout = #wide} : tile<64x64xf32, #wide>
  block.store_view(%o, %zero, %v) {strides = [64, 1]}
  return()
}

// after what leaves little of it
layout #line = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [32, 0]]}
layout #wide = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
layout #kept = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @reduced(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #line, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #line>
  %u = gpu.convert_layout(%t) {layout = #wide} : tile<64x64xf32, #wide>
  %v = block.reduce(%u) {axis = 1, kind = "max"} : tile<64xf32, #kept>
  block.store_view(%o, %zero, %v) {strides = [1]}
  return()
}

// but not where it then takes shuffles of 64 registers
layout #tall = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #wide = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
layout #kept = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @reduced_slowly(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #tall, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #tall>
  %u = gpu.convert_layout(%t) {layout = #wide} : tile<64x64xf32, #wide>
  %v = block.reduce(%u) {axis = 1, kind = "max"} : tile<64xf32, #kept>
  block.store_view(%o, %zero, %v) {strides = [1]}
  return()
}

// once for both terms
layout #a = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #b = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @both_terms(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %s = block.load_view(%y, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %u = gpu.convert_layout(%t) {layout = #b} : tile<64xf32, #b>
  %v = gpu.convert_layout(%s) {layout = #b} : tile<64xf32, #b>
  %w = block.mul(%u, %v) : tile<64xf32, #b>
  block.store_view(%o, %zero, %w) {strides = [1]}
  return()
}

// a term that is read as it was, too, is converted for that anyway
layout #a = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #b = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @read_twice(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %s = block.load_view(%y, %zero) {layout = #b, shape = [64], strides = [1]} : tile<64xf32, #b>
  %u = gpu.convert_layout(%t) {layout = #b} : tile<64xf32, #b>
  %w = block.mul(%u, %s) : tile<64xf32, #b>
  block.store_view(%o, %zero, %w) {strides = [1]}
  block.store_view(%o, %zero, %u) {strides = [1]}
  return()
}

// what a loop does not change is converted before it
layout #a = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #b = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @invariant(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %start = block.const() {elem = f32, layout = #b, shape = [64], value = 0.0} : tile<64xf32, #b>
  %t = block.load_view(%x, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %r = for(%zero, %n, %start) {step = 1} do (%i: i64, %sum: tile<64xf32, #b>) {
    %u = gpu.convert_layout(%t) {layout = #b} : tile<64xf32, #b>
    %s = block.add(%sum, %u) : tile<64xf32, #b>
    yield(%s)
  } : tile<64xf32, #b>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}

// carried in the layout in which it is computed
layout #a = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #b = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @carried(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %start = block.load_view(%x, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %r = for(%zero, %n, %start) {step = 1} do (%i: i64, %sum: tile<64xf32, #a>) {
    %at = block.index(%i) {expr = (64*i), names = ["i"]} : i64
    %t = block.load_view(%x, %at) {layout = #b, shape = [64], strides = [1]} : tile<64xf32, #b>
    %u = gpu.convert_layout(%sum) {layout = #b} : tile<64xf32, #b>
    %s = block.add(%u, %t) : tile<64xf32, #b>
    %v = gpu.convert_layout(%s) {layout = #a} : tile<64xf32, #a>
    yield(%v)
  } : tile<64xf32, #a>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}

// converted once an iteration either way, but inside the loop no more than outside
layout #a = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #b = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @prefetched(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, layout = #b, shape = [64], value = 0.0} : tile<64xf32, #b>
  %first = block.load_view(%x, %zero) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
  %r, %last = for(%zero, %n, %none, %first) {step = 1} do (%i: i64, %sum: tile<64xf32, #b>, %held: tile<64xf32, #a>) {
    %at = block.index(%i) {expr = (64*i), names = ["i"]} : i64
    %u = gpu.convert_layout(%held) {layout = #b} : tile<64xf32, #b>
    %s = block.add(%sum, %u) : tile<64xf32, #b>
    %next = block.load_view(%x, %at) {layout = #a, shape = [64], strides = [1]} : tile<64xf32, #a>
    yield(%s, %next)
  } : tile<64xf32, #b>, tile<64xf32, #a>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}
// -----
layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #l1 = 64 linear {lane = [[2], [4], [8], [16], [32]], warp = [[1], [0]]}
func @in_a_row(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %v0 = gpu.convert_layout(%t) {layout = #l1} : tile<64xf32, #l1>
  block.store_view(%o, %zero, %v0) {strides = [1]}
  block.store_view(%o, %zero, %t) {strides = [1]}
  return()
}

layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
layout #l1 = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
func @widened(%x: ptr<f16>, %o: ptr<f64>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf16, #l0>
  %v0 = gpu.convert_layout(%t) {layout = #l1} : tile<64x64xf16, #l1>
  %v1 = block.cast(%v0) {to = f64} : tile<64x64xf64, #l1>
  block.store_view(%o, %zero, %v1) {strides = [64, 1]}
  return()
}

layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
layout #l1 = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
func @narrowed(%x: ptr<f64>, %o: ptr<f16>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf64, #l0>
  %v0 = block.cast(%t) {to = f16} : tile<64x64xf16, #l0>
  %v1 = gpu.convert_layout(%v0) {layout = #l1} : tile<64x64xf16, #l1>
  block.store_view(%o, %zero, %v1) {strides = [64, 1]}
  return()
}

layout #l0 = 1x64 linear {register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #l1 = 1x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 32]]}
layout #l2 = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
func @repeated(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [1, 64], strides = [64, 1]} : tile<1x64xf32, #l0>
  %v0 = gpu.convert_layout(%t) {layout = #l1} : tile<1x64xf32, #l1>
  %v1 = block.broadcast(%v0) {layout = #l2, shape = [64, 64]} : tile<64x64xf32, #l2>
  block.store_view(%o, %zero, %v1) {strides = [64, 1]}
  return()
}

layout #l0 = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [32, 0]]}
layout #l1 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[0], [32]]}
layout #l2 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @reduced(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %v0 = block.reduce(%t) {axis = 1, kind = "max"} : tile<64xf32, #l1>
  %v1 = gpu.convert_layout(%v0) {layout = #l2} : tile<64xf32, #l2>
  block.store_view(%o, %zero, %v1) {strides = [1]}
  return()
}

layout #l0 = 64x64 linear {register = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp = [[0, 0], [0, 0]]}
layout #l1 = 64x64 linear {register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 32]]}
layout #l2 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @reduced_slowly(%x: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64, 64], strides = [64, 1]} : tile<64x64xf32, #l0>
  %u = gpu.convert_layout(%t) {layout = #l1} : tile<64x64xf32, #l1>
  %v = block.reduce(%u) {axis = 1, kind = "max"} : tile<64xf32, #l2>
  block.store_view(%o, %zero, %v) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #l1 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @both_terms(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.load_view(%y, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %v0 = block.mul(%t, %s) : tile<64xf32, #l0>
  %v1 = gpu.convert_layout(%v0) {layout = #l1} : tile<64xf32, #l1>
  block.store_view(%o, %zero, %v1) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #l1 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @read_twice(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>) {grid = 1, warps = 4} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.load_view(%y, %zero) {layout = #l1, shape = [64], strides = [1]} : tile<64xf32, #l1>
  %u = gpu.convert_layout(%t) {layout = #l1} : tile<64xf32, #l1>
  %w = block.mul(%u, %s) : tile<64xf32, #l1>
  block.store_view(%o, %zero, %w) {strides = [1]}
  block.store_view(%o, %zero, %u) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
layout #l1 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
func @invariant(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %start = block.const() {elem = f32, layout = #l0, shape = [64], value = 0.0} : tile<64xf32, #l0>
  %t = block.load_view(%x, %zero) {layout = #l1, shape = [64], strides = [1]} : tile<64xf32, #l1>
  %u = gpu.convert_layout(%t) {layout = #l0} : tile<64xf32, #l0>
  %r = for(%zero, %n, %start) {step = 1} do (%i: i64, %sum: tile<64xf32, #l0>) {
    %s = block.add(%sum, %u) : tile<64xf32, #l0>
    yield(%s)
  } : tile<64xf32, #l0>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
layout #l1 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @carried(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %start = block.load_view(%x, %zero) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %v0 = gpu.convert_layout(%start) {layout = #l1} : tile<64xf32, #l1>
  %r = for(%zero, %n, %v0) {step = 1} do (%i: i64, %sum: tile<64xf32, #l1>) {
    %at = block.index(%i) {expr = (64*i), names = ["i"]} : i64
    %t = block.load_view(%x, %at) {layout = #l1, shape = [64], strides = [1]} : tile<64xf32, #l1>
    %s = block.add(%sum, %t) : tile<64xf32, #l1>
    yield(%s)
  } : tile<64xf32, #l1>
  %v1 = gpu.convert_layout(%r) {layout = #l0} : tile<64xf32, #l0>
  block.store_view(%o, %zero, %v1) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
layout #l1 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]]}
func @prefetched(%x: ptr<f32>, %o: ptr<f32>, %n: i64) {grid = 1, warps = 4} dims (n in 0..4) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, layout = #l0, shape = [64], value = 0.0} : tile<64xf32, #l0>
  %first = block.load_view(%x, %zero) {layout = #l1, shape = [64], strides = [1]} : tile<64xf32, #l1>
  %r, %last = for(%zero, %n, %none, %first) {step = 1} do (%i: i64, %sum: tile<64xf32, #l0>, %held: tile<64xf32, #l1>) {
    %at = block.index(%i) {expr = (64*i), names = ["i"]} : i64
    %u = gpu.convert_layout(%held) {layout = #l0} : tile<64xf32, #l0>
    %s = block.add(%sum, %u) : tile<64xf32, #l0>
    %next = block.load_view(%x, %at) {layout = #l1, shape = [64], strides = [1]} : tile<64xf32, #l1>
    yield(%s, %next)
  } : tile<64xf32, #l0>, tile<64xf32, #l1>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}
