// RUN: hopper-matmul

func @fires(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 2} {
  %p = block.program_id() : i64
  %g = block.index(%p) {expr = (floordiv(p, 16)), names = ["p"]} : i64
  %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
  %q = block.index(%p) {expr = (mod(p, 16)), names = ["p"]} : i64
  %i = block.index(%g, %q, %h) {expr = (8*g + mod(q, h)), names = ["g", "q", "h"]} : i64
  %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 32} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %pa0 = block.index(%i, %k) {expr = (2048*i + k), names = ["i", "k"]} : i64
    %pb0 = block.index(%j, %k) {expr = (512*j + k), names = ["j", "k"]} : i64
    %va0 = block.load_view(%a, %pa0) {shape = [64, 16], strides = [32, 1]} : tile<64x16xf16>
    %vb0 = block.load_view(%b, %pb0) {shape = [16, 16], strides = [1, 32]} : tile<16x16xf16>
    %d = block.dot(%va0, %vb0, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%i, %j) {expr = (2048*i + 16*j), names = ["i", "j"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r) {strides = [32, 1]}
  return()
}

// blocks share the steps of tiles
func @stream(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 3, schedule = "stream"} {
  %p = block.program_id() : i64
  %g = block.index(%p) {expr = (floordiv(p, 24)), names = ["p"]} : i64
  %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
  %q = block.index(%p) {expr = (mod(p, 24)), names = ["p"]} : i64
  %i = block.index(%g, %q, %h) {expr = (8*g + mod(q, h)), names = ["g", "q", "h"]} : i64
  %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 64} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %pa0 = block.index(%i, %k) {expr = (4096*i + k), names = ["i", "k"]} : i64
    %pb0 = block.index(%j, %k) {expr = (1024*j + k), names = ["j", "k"]} : i64
    %va0 = block.load_view(%a, %pa0) {shape = [64, 16], strides = [64, 1]} : tile<64x16xf16>
    %vb0 = block.load_view(%b, %pb0) {shape = [16, 16], strides = [1, 64]} : tile<16x16xf16>
    %d = block.dot(%va0, %vb0, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%i, %j) {expr = (3072*i + 16*j), names = ["i", "j"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r) {strides = [48, 1]}
  return()
}

// two blocks make half of a sum each
func @split(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 1, split = 2} {
  %p = block.program_id() : i64
  %g = block.index(%p) {expr = (floordiv(p, 8)), names = ["p"]} : i64
  %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
  %q = block.index(%p) {expr = (mod(p, 8)), names = ["p"]} : i64
  %i = block.index(%g, %q, %h) {expr = (8*g + mod(q, h)), names = ["g", "q", "h"]} : i64
  %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
  %zero = block.const() {elem = f32, shape = [64, 32], value = 0} : tile<64x32xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 64} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x32xf32>) {
    %pa0 = block.index(%i, %k) {expr = (4096*i + k), names = ["i", "k"]} : i64
    %pb0 = block.index(%j, %k) {expr = (2048*j + k), names = ["j", "k"]} : i64
    %va0 = block.load_view(%a, %pa0) {shape = [64, 16], strides = [64, 1]} : tile<64x16xf16>
    %vb0 = block.load_view(%b, %pb0) {shape = [16, 32], strides = [1, 64]} : tile<16x32xf16>
    %d = block.dot(%va0, %vb0, %s) : tile<64x32xf32>
    yield(%d)
  } : tile<64x32xf32>
  %po = block.index(%i, %j) {expr = (2048*i + 32*j), names = ["i", "j"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x32xf16>
  block.store_view(%out, %po, %r) {strides = [32, 1]}
  return()
}

// no tile was chosen for one
func @plain(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf32>
  block.store_view(%out, %z, %a) {strides = [16, 1]}
  return()
}

// rows of 10 halves begin where TMA cannot read
func @declines(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 2, schedule = "cooperative"} {
  %p = block.program_id() : i64
  %g = block.index(%p) {expr = (floordiv(p, 16)), names = ["p"]} : i64
  %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
  %q = block.index(%p) {expr = (mod(p, 16)), names = ["p"]} : i64
  %i = block.index(%g, %q, %h) {expr = (8*g + mod(q, h)), names = ["g", "q", "h"]} : i64
  %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 10} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %lk = block.index(%k) {expr = (-1*k + 10), names = ["k"]} : i64
    %pa0 = block.index(%i, %k) {expr = (640*i + k), names = ["i", "k"]} : i64
    %pb0 = block.index(%j, %k) {expr = (160*j + k), names = ["j", "k"]} : i64
    %va0 = block.load_view(%a, %pa0, %lk) {limited = [1], shape = [64, 16], strides = [10, 1]} : tile<64x16xf16>
    %vb0 = block.load_view(%b, %pb0, %lk) {limited = [0], shape = [16, 16], strides = [1, 10]} : tile<16x16xf16>
    %d = block.dot(%va0, %vb0, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%i, %j) {expr = (2048*i + 16*j), names = ["i", "j"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r) {strides = [32, 1]}
  return()
}

// few rows are copied, the others are 0
func @few_rows(%a: ptr<f16>, %b: ptr<f16>, %bias: ptr<f16>, %out: ptr<f16>) {grid = 2} {
  %p = block.program_id() : i64
  %g = block.index(%p) {expr = (floordiv(p, 16)), names = ["p"]} : i64
  %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
  %q = block.index(%p) {expr = (mod(p, 16)), names = ["p"]} : i64
  %i = block.index(%g, %q, %h) {expr = (8*g + mod(q, h)), names = ["g", "q", "h"]} : i64
  %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
  %lm = block.index(%i) {expr = (-64*i + 8), names = ["i"]} : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 32} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %pa0 = block.index(%i, %k) {expr = (2048*i + k), names = ["i", "k"]} : i64
    %pb0 = block.index(%j, %k) {expr = (512*j + k), names = ["j", "k"]} : i64
    %va0 = block.load_view(%a, %pa0, %lm) {limited = [0], shape = [64, 16], strides = [32, 1]} : tile<64x16xf16>
    %vb0 = block.load_view(%b, %pb0) {shape = [16, 16], strides = [1, 32]} : tile<16x16xf16>
    %d = block.dot(%va0, %vb0, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%i, %j) {expr = (2048*i + 16*j), names = ["i", "j"]} : i64
  %pbias = block.index(%j) {expr = (16*j), names = ["j"]} : i64
  %vbias = block.load_view(%bias, %pbias) {shape = [1, 16], strides = [0, 1]} : tile<1x16xf16>
  %wide = block.cast(%vbias) {to = f32} : tile<1x16xf32>
  %rows = block.broadcast(%wide) {shape = [64, 16]} : tile<64x16xf32>
  %biased = block.add(%acc, %rows) : tile<64x16xf32>
  %r = block.cast(%biased) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r, %lm) {limited = [0], strides = [32, 1]}
  return()
}
// codes are widened in registers, a line of them while the other is multiplied by
func @codes(%x: ptr<bf16>, %w: ptr<i32>, %s: ptr<bf16>, %out: ptr<bf16>) {grid = 1, schedule = "stream"} {
  %p = block.program_id() : i64
  %zero = block.const() {elem = f32, shape = [128, 8], value = 0} : tile<128x8xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 2} : i64
  %acc = for(%lower, %upper, %zero) do (%k: i64, %sums: tile<128x8xf32>) {
    %panel = block.index(%p) {expr = (4*p), names = ["p"]} : i64
    %column = block.index(%p) {expr = (128*p), names = ["p"]} : i64
    %l0 = block.index(%k) {expr = (2*k), names = ["k"]} : i64
    %b0 = block.index(%k) {expr = (4*k), names = ["k"]} : i64
    %k0 = block.index(%k) {expr = (128*k), names = ["k"]} : i64
    %w0 = block.load_box(%w, %l0, %panel, %lower) {dims = [4, 4, 256], shape = [4, 256], strides = [1024, 256, 1]} : tile<4x256xi32>
    %s0 = block.load_box(%s, %b0, %column) {dims = [8, 128], shape = [2, 128], strides = [128, 1]} : tile<2x128xbf16>
    %c0 = block.widen_codes(%w0, %s0) {bits = 4, elem = bf16, zero = 8} : tile<128x64xbf16>
    %x0 = block.load_box(%x, %lower, %k0) {dims = [8, 256], shape = [8, 64], strides = [256, 1]} : tile<8x64xbf16>
    %t0 = block.trans(%x0) {perm = [1, 0]} : tile<64x8xbf16>
    %d0 = block.dot(%c0, %t0, %sums) : tile<128x8xf32>
    %l1 = block.index(%k) {expr = (2*k + 1), names = ["k"]} : i64
    %b1 = block.index(%k) {expr = (4*k + 2), names = ["k"]} : i64
    %k1 = block.index(%k) {expr = (128*k + 64), names = ["k"]} : i64
    %w1 = block.load_box(%w, %l1, %panel, %lower) {dims = [4, 4, 256], shape = [4, 256], strides = [1024, 256, 1]} : tile<4x256xi32>
    %s1 = block.load_box(%s, %b1, %column) {dims = [8, 128], shape = [2, 128], strides = [128, 1]} : tile<2x128xbf16>
    %c1 = block.widen_codes(%w1, %s1) {bits = 4, elem = bf16, zero = 8} : tile<128x64xbf16>
    %x1 = block.load_box(%x, %lower, %k1) {dims = [8, 256], shape = [8, 64], strides = [256, 1]} : tile<8x64xbf16>
    %t1 = block.trans(%x1) {perm = [1, 0]} : tile<64x8xbf16>
    %d1 = block.dot(%c1, %t1, %d0) : tile<128x8xf32>
    yield(%d1)
  } : tile<128x8xf32>
  %r = block.cast(%acc) {to = bf16} : tile<128x8xbf16>
  %po = block.index(%p) {expr = (128*p), names = ["p"]} : i64
  block.store_view(%out, %po, %r) {strides = [1, 128]}
  return()
}

// -----
layout #l0 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @fires(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 2, persistent = 1, warps = 8} {
  %a_ring = gpu.shared_alloc() {elem = f16, shape = [12, 64, 16], swizzle = 32} : shared<12x64x16xf16, swizzle 32>
  %b_ring = gpu.shared_alloc() {elem = f16, shape = [12, 16, 16], swizzle = 32} : shared<12x16x16xf16, swizzle 32>
  %staging = gpu.shared_alloc() {elem = f16, shape = [4, 16, 16], swizzle = 32} : shared<4x16x16xf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  gpu.warp_specialize() {groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v12 = gpu.for_tiles(%group, %slot) {tiles = 2} do (%program: i64, %slot_0: i32) {
      %v0 = block.const() {elem = i64, value = 0} : i64
      %v1 = block.const() {elem = i64, value = 32} : i64
      %acc = gpu.undefined() {elem = f32, layout = #l0, shape = [64, 16]} : tile<64x16xf32, #l0>
      %v5, %v6, %v7 = for(%v0, %v1, %slot_0, %slot_0, %acc) {step = 16} do (%k: i64, %slot_1: i32, %slot_2: i32, %acc_0: tile<64x16xf32, #l0>) {
        %v2 = block.lt(%v0, %k) : bool
        gpu.wait(%full, %slot_1)
        %v3 = gpu.wgmma(%a_ring, %b_ring, %slot_1, %acc_0, %v2) {transpose_a = false, transpose_b = true} : tile<64x16xf32, #l0>
        gpu.wgmma_wait() {pending = 1}
        gpu.arrive(%empty, %slot_2, %v2)
        %v4 = gpu.advance(%slot_1) {size = 12} : i32
        yield(%v4, %slot_1, %v3)
      } : i32, i32, tile<64x16xf32, #l0>
      %v8 = gpu.wgmma_wait(%v7) {fence = true} : tile<64x16xf32, #l0>
      gpu.arrive(%empty, %v6)
      %v9 = gpu.part(%v8) {layout = #l0, start = [0, 0]} : tile<64x16xf32, #l0>
      gpu.stage(%staging, %v9) {buffer = 0, column = 0, pending = 0}
      %v10 = block.index(%program) {expr = (512*floordiv(program, 16) + 64*mod(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
      %v11 = block.index(%program) {expr = (16*floordiv(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
      gpu.tma_store(%out, %staging, %v10, %v11) {buffer = 0, dims = [64, 32], offset = 0, strides = [32, 1]}
      yield(%v5)
    } : i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_3 = block.const() {elem = i32, value = 0} : i32
    %v21 = gpu.for_tiles(%group_0, %slot_3) {tiles = 2} do (%program_0: i64, %slot_4: i32) {
      %v13 = block.const() {elem = i64, value = 0} : i64
      %v14 = block.const() {elem = i64, value = 32} : i64
      %v20 = for(%v13, %v14, %slot_4) {step = 16} do (%k_0: i64, %slot_5: i32) {
        gpu.wait(%empty, %slot_5) {previous = true}
        gpu.expect(%full, %slot_5) {nbytes = 2560}
        %v15 = block.index(%program_0) {expr = (512*floordiv(program, 16) + 64*mod(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
        %v16 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%a, %a_ring, %slot_5, %full, %v15, %v16) {dims = [64, 47], offset = 0, strides = [32, 1]}
        %v17 = block.index(%program_0) {expr = (16*floordiv(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
        %v18 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%b, %b_ring, %slot_5, %full, %v17, %v18) {dims = [32, 47], offset = 0, strides = [32, 1]}
        %v19 = gpu.advance(%slot_5) {size = 12} : i32
        yield(%v19)
      } : i32
      yield(%v20)
    } : i32
    yield()
  }
  return()
}

layout #l0 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @stream(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 3, persistent = 1, schedule = "stream", split = 2, warps = 8} {
  %a_ring = gpu.shared_alloc() {elem = f16, shape = [12, 64, 16], swizzle = 32} : shared<12x64x16xf16, swizzle 32>
  %b_ring = gpu.shared_alloc() {elem = f16, shape = [12, 16, 16], swizzle = 32} : shared<12x16x16xf16, swizzle 32>
  %staging = gpu.shared_alloc() {elem = f16, shape = [4, 16, 16], swizzle = 32} : shared<4x16x16xf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  gpu.warp_specialize() {groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v15 = gpu.for_tiles(%group, %slot) {steps = 4, tiles = 3} do (%program: i64, %first: i64, %end: i64, %slot_0: i32) {
      %v0 = block.index(%first) {expr = (16*at), names = ["at"]} : i64
      %v1 = block.index(%end) {expr = (16*at), names = ["at"]} : i64
      %acc = gpu.undefined() {elem = f32, layout = #l0, shape = [64, 16]} : tile<64x16xf32, #l0>
      %v5, %v6, %v7 = for(%v0, %v1, %slot_0, %slot_0, %acc) {step = 16} do (%k: i64, %slot_1: i32, %slot_2: i32, %acc_0: tile<64x16xf32, #l0>) {
        %v2 = block.lt(%v0, %k) : bool
        gpu.wait(%full, %slot_1)
        %v3 = gpu.wgmma(%a_ring, %b_ring, %slot_1, %acc_0, %v2) {transpose_a = false, transpose_b = true} : tile<64x16xf32, #l0>
        gpu.wgmma_wait() {pending = 1}
        gpu.arrive(%empty, %slot_2, %v2)
        %v4 = gpu.advance(%slot_1) {size = 12} : i32
        yield(%v4, %slot_1, %v3)
      } : i32, i32, tile<64x16xf32, #l0>
      %v8 = gpu.wgmma_wait(%v7) {fence = true} : tile<64x16xf32, #l0>
      gpu.arrive(%empty, %v6)
      %v9 = block.const() {elem = i64, value = 4} : i64
      %v10 = block.lt(%end, %v9) : bool
      if(%v10) do () {
        gpu.leave(%v8)
        yield()
      } do () {
        %v11 = gpu.collect(%v8, %program, %first) {steps = 4, tiles = 3} : tile<64x16xf32, #l0>
        %v12 = gpu.part(%v11) {layout = #l0, start = [0, 0]} : tile<64x16xf32, #l0>
        gpu.stage(%staging, %v12) {buffer = 0, column = 0, pending = 0}
        %v13 = block.index(%program) {expr = (512*floordiv(program, 24) + 64*mod(mod(program, 24), min(-8*floordiv(program, 24) + 1, 8))), names = ["program"]} : i64
        %v14 = block.index(%program) {expr = (16*floordiv(mod(program, 24), min(-8*floordiv(program, 24) + 1, 8))), names = ["program"]} : i64
        gpu.tma_store(%out, %staging, %v13, %v14) {buffer = 0, dims = [64, 48], offset = 0, strides = [48, 1]}
        yield()
      }
      yield(%v5)
    } : i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_3 = block.const() {elem = i32, value = 0} : i32
    %v24 = gpu.for_tiles(%group_0, %slot_3) {steps = 4, tiles = 3} do (%program_0: i64, %first_0: i64, %end_0: i64, %slot_4: i32) {
      %v16 = block.index(%first_0) {expr = (16*at), names = ["at"]} : i64
      %v17 = block.index(%end_0) {expr = (16*at), names = ["at"]} : i64
      %v23 = for(%v16, %v17, %slot_4) {step = 16} do (%k_0: i64, %slot_5: i32) {
        gpu.wait(%empty, %slot_5) {previous = true}
        gpu.expect(%full, %slot_5) {nbytes = 2560}
        %v18 = block.index(%program_0) {expr = (512*floordiv(program, 24) + 64*mod(mod(program, 24), min(-8*floordiv(program, 24) + 1, 8))), names = ["program"]} : i64
        %v19 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%a, %a_ring, %slot_5, %full, %v18, %v19) {dims = [64, 79], offset = 0, strides = [64, 1]}
        %v20 = block.index(%program_0) {expr = (16*floordiv(mod(program, 24), min(-8*floordiv(program, 24) + 1, 8))), names = ["program"]} : i64
        %v21 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%b, %b_ring, %slot_5, %full, %v20, %v21) {dims = [48, 79], offset = 0, strides = [64, 1]}
        %v22 = gpu.advance(%slot_5) {size = 12} : i32
        yield(%v22)
      } : i32
      yield(%v23)
    } : i32
    yield()
  }
  return()
}

layout #l0 = 64x32 linear {register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @split(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {cluster = 2, grid = 1, persistent = 1, split = 2, warps = 8} {
  %a_ring = gpu.shared_alloc() {elem = f16, shape = [12, 64, 16], swizzle = 32} : shared<12x64x16xf16, swizzle 32>
  %b_ring = gpu.shared_alloc() {elem = f16, shape = [12, 32, 16], swizzle = 32} : shared<12x32x16xf16, swizzle 32>
  %staging = gpu.shared_alloc() {elem = f16, shape = [4, 16, 16], swizzle = 32} : shared<4x16x16xf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  %rank = gpu.cluster_rank() : i64
  %room = gpu.shared_alloc() {elem = f32, shape = [1, 8, 128]} : shared<1x8x128xf32>
  %sent = gpu.barriers() {arrivals = 4, count = 1} : shared<1xi64>
  %taken = gpu.barriers() {arrivals = 4, count = 1} : shared<1xi64>
  gpu.warp_specialize() {cluster = 2, groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %turn = block.const() {elem = i32, value = 0} : i32
    %v28, %v29 = gpu.for_tiles(%group, %slot, %turn) {split = 2, tiles = 1} do (%program: i64, %slot_0: i32, %turn_0: i32) {
      %v0 = block.index(%rank) {expr = (32*rank), names = ["rank"]} : i64
      %v1 = block.index(%rank) {expr = (32*rank + 32), names = ["rank"]} : i64
      %acc = gpu.undefined() {elem = f32, layout = #l0, shape = [64, 32]} : tile<64x32xf32, #l0>
      %v5, %v6, %v7 = for(%v0, %v1, %slot_0, %slot_0, %acc) {step = 16} do (%k: i64, %slot_1: i32, %slot_2: i32, %acc_0: tile<64x32xf32, #l0>) {
        %v2 = block.lt(%v0, %k) : bool
        gpu.wait(%full, %slot_1)
        %v3 = gpu.wgmma(%a_ring, %b_ring, %slot_1, %acc_0, %v2) {transpose_a = false, transpose_b = true} : tile<64x32xf32, #l0>
        gpu.wgmma_wait() {pending = 1}
        gpu.arrive(%empty, %slot_2, %v2)
        %v4 = gpu.advance(%slot_1) {size = 12} : i32
        yield(%v4, %slot_1, %v3)
      } : i32, i32, tile<64x32xf32, #l0>
      %v8 = gpu.wgmma_wait(%v7) {fence = true} : tile<64x32xf32, #l0>
      gpu.arrive(%empty, %v6)
      gpu.wait(%taken, %turn_0) {cluster = true, previous = true}
      %v9 = block.const() {elem = i64, value = 0} : i64
      %v10 = block.eq(%rank, %v9) : bool
      if(%v10) do () {
        %v11 = gpu.part(%v8) {layout = #l1, start = [0, 16]} : tile<64x16xf32, #l1>
        gpu.send(%room, %v11, %sent, %turn_0) {block = 1, part = 0}
        gpu.wait(%sent, %turn_0) {cluster = true}
        %v12 = gpu.part(%v8) {layout = #l1, start = [0, 0]} : tile<64x16xf32, #l1>
        %v13 = gpu.receive(%room) {elem = f32, layout = #l1, part = 0, shape = [64, 16]} : tile<64x16xf32, #l1>
        %v14 = block.add(%v12, %v13) : tile<64x16xf32, #l1>
        gpu.arrive_at(%taken, %turn_0) {block = 1}
        %v15 = gpu.part(%v14) {layout = #l1, start = [0, 0]} : tile<64x16xf32, #l1>
        gpu.stage(%staging, %v15) {buffer = 0, column = 0, pending = 0}
        %v16 = block.index(%program) {expr = (floordiv(mod(program, 8), min(-8*floordiv(program, 8) + 1, 8)) + 512*floordiv(program, 8) + 64*mod(mod(program, 8), min(-8*floordiv(program, 8) + 1, 8))), names = ["program"]} : i64
        %v17 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_store(%out, %staging, %v16, %v17) {buffer = 0, dims = [64, 32], offset = 0, strides = [32, 1]}
        yield()
      }
      %v18 = block.const() {elem = i64, value = 1} : i64
      %v19 = block.eq(%rank, %v18) : bool
      if(%v19) do () {
        %v20 = gpu.part(%v8) {layout = #l1, start = [0, 0]} : tile<64x16xf32, #l1>
        gpu.send(%room, %v20, %sent, %turn_0) {block = 0, part = 0}
        gpu.wait(%sent, %turn_0) {cluster = true}
        %v21 = gpu.receive(%room) {elem = f32, layout = #l1, part = 0, shape = [64, 16]} : tile<64x16xf32, #l1>
        %v22 = gpu.part(%v8) {layout = #l1, start = [0, 16]} : tile<64x16xf32, #l1>
        %v23 = block.add(%v21, %v22) : tile<64x16xf32, #l1>
        gpu.arrive_at(%taken, %turn_0) {block = 0}
        %v24 = gpu.part(%v23) {layout = #l1, start = [0, 0]} : tile<64x16xf32, #l1>
        gpu.stage(%staging, %v24) {buffer = 0, column = 0, pending = 0}
        %v25 = block.index(%program) {expr = (floordiv(mod(program, 8), min(-8*floordiv(program, 8) + 1, 8)) + 512*floordiv(program, 8) + 64*mod(mod(program, 8), min(-8*floordiv(program, 8) + 1, 8))), names = ["program"]} : i64
        %v26 = block.const() {elem = i64, value = 16} : i64
        gpu.tma_store(%out, %staging, %v25, %v26) {buffer = 0, dims = [64, 32], offset = 0, strides = [32, 1]}
        yield()
      }
      %v27 = gpu.advance(%turn_0) {size = 1} : i32
      yield(%v5, %v27)
    } : i32, i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_3 = block.const() {elem = i32, value = 0} : i32
    %v38 = gpu.for_tiles(%group_0, %slot_3) {split = 2, tiles = 1} do (%program_0: i64, %slot_4: i32) {
      %v30 = block.index(%rank) {expr = (32*rank), names = ["rank"]} : i64
      %v31 = block.index(%rank) {expr = (32*rank + 32), names = ["rank"]} : i64
      %v37 = for(%v30, %v31, %slot_4) {step = 16} do (%k_0: i64, %slot_5: i32) {
        gpu.wait(%empty, %slot_5) {previous = true}
        gpu.expect(%full, %slot_5) {nbytes = 3072}
        %v32 = block.index(%program_0) {expr = (512*floordiv(program, 8) + 64*mod(mod(program, 8), min(-8*floordiv(program, 8) + 1, 8))), names = ["program"]} : i64
        %v33 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%a, %a_ring, %slot_5, %full, %v32, %v33) {dims = [64, 79], offset = 0, strides = [64, 1]}
        %v34 = block.index(%program_0) {expr = (32*floordiv(mod(program, 8), min(-8*floordiv(program, 8) + 1, 8))), names = ["program"]} : i64
        %v35 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%b, %b_ring, %slot_5, %full, %v34, %v35) {dims = [32, 79], offset = 0, strides = [64, 1]}
        %v36 = gpu.advance(%slot_5) {size = 12} : i32
        yield(%v36)
      } : i32
      yield(%v37)
    } : i32
    yield()
  }
  return()
}

func @plain(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf32>
  block.store_view(%out, %z, %a) {strides = [16, 1]}
  return()
}

func @declines(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f16>) {grid = 2, schedule = "cooperative", without_wgmma = "a factor is no box: lines lie 10 elements apart, no multiple of 16 bytes"} {
  %p = block.program_id() : i64
  %g = block.index(%p) {expr = (floordiv(p, 16)), names = ["p"]} : i64
  %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
  %q = block.index(%p) {expr = (mod(p, 16)), names = ["p"]} : i64
  %i = block.index(%g, %q, %h) {expr = (8*g + mod(q, h)), names = ["g", "q", "h"]} : i64
  %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
  %zero = block.const() {elem = f32, shape = [64, 16], value = 0} : tile<64x16xf32>
  %lower = block.const() {elem = i64, value = 0} : i64
  %upper = block.const() {elem = i64, value = 10} : i64
  %acc = for(%lower, %upper, %zero) {step = 16} do (%k: i64, %s: tile<64x16xf32>) {
    %lk = block.index(%k) {expr = (-1*k + 10), names = ["k"]} : i64
    %pa0 = block.index(%i, %k) {expr = (640*i + k), names = ["i", "k"]} : i64
    %pb0 = block.index(%j, %k) {expr = (160*j + k), names = ["j", "k"]} : i64
    %va0 = block.load_view(%a, %pa0, %lk) {limited = [1], shape = [64, 16], strides = [10, 1]} : tile<64x16xf16>
    %vb0 = block.load_view(%b, %pb0, %lk) {limited = [0], shape = [16, 16], strides = [1, 10]} : tile<16x16xf16>
    %d = block.dot(%va0, %vb0, %s) : tile<64x16xf32>
    yield(%d)
  } : tile<64x16xf32>
  %po = block.index(%i, %j) {expr = (2048*i + 16*j), names = ["i", "j"]} : i64
  %r = block.cast(%acc) {to = f16} : tile<64x16xf16>
  block.store_view(%out, %po, %r) {strides = [32, 1]}
  return()
}

layout #l0 = 1x16 linear {register = [[0, 1], [0, 8]], lane = [[0, 2], [0, 4], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]]}
layout #l1 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @few_rows(%a: ptr<f16>, %b: ptr<f16>, %bias: ptr<f16>, %out: ptr<f16>) {grid = 2, persistent = 1, warps = 8} {
  %a_ring = gpu.shared_alloc() {elem = f16, shape = [12, 64, 16], swizzle = 32} : shared<12x64x16xf16, swizzle 32>
  %b_ring = gpu.shared_alloc() {elem = f16, shape = [12, 16, 16], swizzle = 32} : shared<12x16x16xf16, swizzle 32>
  %staging = gpu.shared_alloc() {elem = f16, shape = [4, 16, 16], swizzle = 32} : shared<4x16x16xf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  gpu.zero_rows(%a_ring) {start = 8}
  gpu.warp_specialize() {groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v16 = gpu.for_tiles(%group, %slot) {tiles = 2} do (%program: i64, %slot_0: i32) {
      %v0 = block.const() {elem = i64, value = 0} : i64
      %v1 = block.const() {elem = i64, value = 32} : i64
      %q = block.index(%program) {expr = (mod(p, 16)), names = ["p"]} : i64
      %g = block.index(%program) {expr = (floordiv(p, 16)), names = ["p"]} : i64
      %h = block.index(%g) {expr = (min(-8*g + 1, 8)), names = ["g"]} : i64
      %j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64
      %pbias = block.index(%j) {expr = (16*j), names = ["j"]} : i64
      %v2 = block.load_view(%bias, %pbias) {layout = #l0, shape = [1, 16], strides = [0, 1]} : tile<1x16xf16, #l0>
      %acc = gpu.undefined() {elem = f32, layout = #l1, shape = [64, 16]} : tile<64x16xf32, #l1>
      %v6, %v7, %v8 = for(%v0, %v1, %slot_0, %slot_0, %acc) {step = 16} do (%k: i64, %slot_1: i32, %slot_2: i32, %acc_0: tile<64x16xf32, #l1>) {
        %v3 = block.lt(%v0, %k) : bool
        gpu.wait(%full, %slot_1)
        %v4 = gpu.wgmma(%a_ring, %b_ring, %slot_1, %acc_0, %v3) {transpose_a = false, transpose_b = true} : tile<64x16xf32, #l1>
        gpu.wgmma_wait() {pending = 1}
        gpu.arrive(%empty, %slot_2, %v3)
        %v5 = gpu.advance(%slot_1) {size = 12} : i32
        yield(%v5, %slot_1, %v4)
      } : i32, i32, tile<64x16xf32, #l1>
      %v9 = gpu.wgmma_wait(%v8) {fence = true} : tile<64x16xf32, #l1>
      gpu.arrive(%empty, %v7)
      %v10 = gpu.part(%v9) {layout = #l1, start = [0, 0]} : tile<64x16xf32, #l1>
      %v11 = block.cast(%v2) {to = f32} : tile<1x16xf32, #l0>
      %v12 = block.broadcast(%v11) {layout = #l1, shape = [64, 16]} : tile<64x16xf32, #l1>
      %v13 = block.add(%v10, %v12) : tile<64x16xf32, #l1>
      gpu.stage(%staging, %v13) {buffer = 0, column = 0, pending = 0}
      %v14 = block.index(%program) {expr = (512*floordiv(program, 16) + 64*mod(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
      %v15 = block.index(%program) {expr = (16*floordiv(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
      gpu.tma_store(%out, %staging, %v14, %v15) {buffer = 0, dims = [8, 32], offset = 0, strides = [32, 1]}
      yield(%v6)
    } : i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_3 = block.const() {elem = i32, value = 0} : i32
    %v25 = gpu.for_tiles(%group_0, %slot_3) {tiles = 2} do (%program_0: i64, %slot_4: i32) {
      %v17 = block.const() {elem = i64, value = 0} : i64
      %v18 = block.const() {elem = i64, value = 32} : i64
      %v24 = for(%v17, %v18, %slot_4) {step = 16} do (%k_0: i64, %slot_5: i32) {
        gpu.wait(%empty, %slot_5) {previous = true}
        gpu.expect(%full, %slot_5) {nbytes = 768}
        %v19 = block.index(%program_0) {expr = (512*floordiv(program, 16) + 64*mod(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
        %v20 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%a, %a_ring, %slot_5, %full, %v19, %v20) {dims = [8, 47], offset = 0, rows = 8, strides = [32, 1]}
        %v21 = block.index(%program_0) {expr = (16*floordiv(mod(program, 16), min(-8*floordiv(program, 16) + 1, 8))), names = ["program"]} : i64
        %v22 = block.index(%k_0) {expr = (k), names = ["k"]} : i64
        gpu.tma_load(%b, %b_ring, %slot_5, %full, %v21, %v22) {dims = [32, 47], offset = 0, strides = [32, 1]}
        %v23 = gpu.advance(%slot_5) {size = 12} : i32
        yield(%v23)
      } : i32
      yield(%v24)
    } : i32
    yield()
  }
  return()
}

layout #l0 = 128x8 linear {register = [[0, 1], [1, 0]], lane = [[0, 2], [0, 4], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0], [2, 0]]}
layout #l1 = 4x256 linear {register = [[0, 1], [0, 128]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], warp = [[1, 0], [2, 0], [0, 2]]}
layout #l2 = 2x128 linear {register = [[0, 1], [1, 0]], lane = [[0, 0], [0, 0], [0, 4], [0, 8], [0, 16]], warp = [[0, 32], [0, 64], [0, 2]]}
layout #l3 = 128x64 linear {register = [[0, 1], [1, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0], [2, 0]]}
layout #l4 = 128x32 linear {register = [[1, 0], [0, 4], [0, 8], [0, 16]], lane = [[0, 1], [0, 2], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0], [2, 0]]}
func @codes(%x: ptr<bf16>, %w: ptr<i32>, %s: ptr<bf16>, %out: ptr<bf16>) {grid = 1, persistent = 1, schedule = "stream", warps = 12} {
  %a_ring = gpu.shared_alloc() {elem = i32, shape = [12, 4, 256], swizzle = 0} : shared<12x4x256xi32>
  %a_ring_0 = gpu.shared_alloc() {elem = bf16, shape = [12, 2, 128], swizzle = 0} : shared<12x2x128xbf16>
  %b_ring = gpu.shared_alloc() {elem = bf16, shape = [12, 8, 64], swizzle = 128} : shared<12x8x64xbf16, swizzle 128>
  %a_ring_1 = gpu.shared_alloc() {elem = i32, shape = [12, 4, 256], swizzle = 0} : shared<12x4x256xi32>
  %a_ring_2 = gpu.shared_alloc() {elem = bf16, shape = [12, 2, 128], swizzle = 0} : shared<12x2x128xbf16>
  %b_ring_0 = gpu.shared_alloc() {elem = bf16, shape = [12, 8, 64], swizzle = 128} : shared<12x8x64xbf16, swizzle 128>
  %full = gpu.barriers() {arrivals = 1, count = 12} : shared<12xi64>
  %empty = gpu.barriers() {arrivals = 8, count = 12} : shared<12xi64>
  gpu.warp_specialize() {groups = [1, 1], registers = [232, 40], single = [1], warps = [8, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %v21 = gpu.for_tiles(%group, %slot) {tiles = 1} do (%program: i64, %slot_0: i32) {
      %v0 = block.const() {elem = i64, value = 0} : i64
      %v1 = block.const() {elem = i64, value = 2} : i64
      %acc = gpu.undefined() {elem = f32, layout = #l0, shape = [128, 8]} : tile<128x8xf32, #l0>
      %v15, %v16, %v17 = for(%v0, %v1, %slot_0, %slot_0, %acc) do (%k: i64, %slot_1: i32, %slot_2: i32, %acc_0: tile<128x8xf32, #l0>) {
        %v2 = block.lt(%v0, %k) : bool
        gpu.wait(%full, %slot_1)
        %v3 = gpu.load_shared(%a_ring, %slot_1) {layout = #l1} : tile<4x256xi32, #l1>
        %v4 = gpu.load_shared(%a_ring_0, %slot_1) {layout = #l2} : tile<2x128xbf16, #l2>
        %v5 = block.widen_codes(%v3, %v4) {bits = 4, elem = bf16, layout = #l3, zero = 8} : tile<128x64xbf16, #l3>
        %v6 = gpu.pack(%v5) {elem = bf16} : tile<128x32xi32, #l4>
        gpu.wgmma_wait() {pending = 0}
        gpu.arrive(%empty, %slot_2, %v2) {every_warp = true}
        %v7 = gpu.wgmma(%v6, %b_ring, %slot_1, %acc_0, %v2) {transpose_b = true} : tile<128x8xf32, #l0>
        %v8 = gpu.load_shared(%a_ring_1, %slot_1) {layout = #l1} : tile<4x256xi32, #l1>
        %v9 = gpu.load_shared(%a_ring_2, %slot_1) {layout = #l2} : tile<2x128xbf16, #l2>
        %v10 = block.widen_codes(%v8, %v9) {bits = 4, elem = bf16, layout = #l3, zero = 8} : tile<128x64xbf16, #l3>
        %v11 = gpu.pack(%v10) {elem = bf16} : tile<128x32xi32, #l4>
        gpu.wgmma_wait() {pending = 0}
        %v12 = block.const() {elem = bool, value = true} : bool
        %v13 = gpu.wgmma(%v11, %b_ring_0, %slot_1, %v7, %v12) {transpose_b = true} : tile<128x8xf32, #l0>
        %v14 = gpu.advance(%slot_1) {size = 12} : i32
        yield(%v14, %slot_1, %v13)
      } : i32, i32, tile<128x8xf32, #l0>
      %v18 = gpu.wgmma_wait(%v17) {fence = true} : tile<128x8xf32, #l0>
      gpu.arrive(%empty, %v16) {every_warp = true}
      %v19 = gpu.part(%v18) {layout = #l0, start = [0, 0]} : tile<128x8xf32, #l0>
      %v20 = block.cast(%v19) {to = bf16} : tile<128x8xbf16, #l0>
      %po = block.index(%program) {expr = (128*p), names = ["p"]} : i64
      block.store_view(%out, %po, %v20) {strides = [1, 128]}
      yield(%v15)
    } : i32
    yield()
  } do (%group_0: i64) {
    %slot_3 = block.const() {elem = i32, value = 0} : i32
    %v40 = gpu.for_tiles(%group_0, %slot_3) {tiles = 1} do (%program_0: i64, %slot_4: i32) {
      %v22 = block.const() {elem = i64, value = 0} : i64
      %v23 = block.const() {elem = i64, value = 2} : i64
      %v39 = for(%v22, %v23, %slot_4) do (%k_0: i64, %slot_5: i32) {
        gpu.wait(%empty, %slot_5) {previous = true}
        gpu.expect(%full, %slot_5) {nbytes = 11264}
        %v24 = block.index(%k_0) {expr = (2*k), names = ["k"]} : i64
        %v25 = block.index(%program_0) {expr = (4*program), names = ["program"]} : i64
        %v26 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%w, %a_ring, %slot_5, %full, %v24, %v25, %v26) {dims = [4, 4, 256], offset = 0, strides = [1024, 256, 1]}
        %v27 = block.index(%k_0) {expr = (4*k), names = ["k"]} : i64
        %v28 = block.index(%program_0) {expr = (128*program), names = ["program"]} : i64
        gpu.tma_load(%s, %a_ring_0, %slot_5, %full, %v27, %v28) {dims = [8, 128], offset = 0, strides = [128, 1]}
        %v29 = block.const() {elem = i64, value = 0} : i64
        %v30 = block.index(%k_0) {expr = (128*k), names = ["k"]} : i64
        gpu.tma_load(%x, %b_ring, %slot_5, %full, %v29, %v30) {dims = [8, 256], offset = 0, strides = [256, 1]}
        %v31 = block.index(%k_0) {expr = (2*k + 1), names = ["k"]} : i64
        %v32 = block.index(%program_0) {expr = (4*program), names = ["program"]} : i64
        %v33 = block.const() {elem = i64, value = 0} : i64
        gpu.tma_load(%w, %a_ring_1, %slot_5, %full, %v31, %v32, %v33) {dims = [4, 4, 256], offset = 0, strides = [1024, 256, 1]}
        %v34 = block.index(%k_0) {expr = (4*k + 2), names = ["k"]} : i64
        %v35 = block.index(%program_0) {expr = (128*program), names = ["program"]} : i64
        gpu.tma_load(%s, %a_ring_2, %slot_5, %full, %v34, %v35) {dims = [8, 128], offset = 0, strides = [128, 1]}
        %v36 = block.const() {elem = i64, value = 0} : i64
        %v37 = block.index(%k_0) {expr = (128*k + 64), names = ["k"]} : i64
        gpu.tma_load(%x, %b_ring_0, %slot_5, %full, %v36, %v37) {dims = [8, 256], offset = 0, strides = [256, 1]}
        %v38 = gpu.advance(%slot_5) {size = 12} : i32
        yield(%v38)
      } : i32
      yield(%v39)
    } : i32
    yield()
  }
  return()
}
