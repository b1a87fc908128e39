// RUN:
// Two blocks of a cluster: boxes to both, half of the rows by each; tiles sent from one to the other.
layout #l0 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @cluster(%x: ptr<f32>, %out: ptr<f32>) {cluster = 2, grid = 1, persistent = 1, split = 2, warps = 8} {
  %rank = gpu.cluster_rank() : i64
  %ring = gpu.shared_alloc() {elem = f32, shape = [2, 64, 16], swizzle = 64} : shared<2x64x16xf32, swizzle 64>
  %staging = gpu.shared_alloc() {elem = f32, shape = [4, 16, 16], swizzle = 64} : shared<4x16x16xf32, swizzle 64>
  %lines = gpu.shared_alloc() {elem = f32, shape = [4, 16, 20]} : shared<4x16x20xf32>
  %room = gpu.shared_alloc() {elem = f32, shape = [1, 8, 128]} : shared<1x8x128xf32>
  %full = gpu.barriers() {arrivals = 1, count = 2} : shared<2xi64>
  %empty = gpu.barriers() {arrivals = 2, count = 2} : shared<2xi64>
  %sent = gpu.barriers() {arrivals = 4, count = 1} : shared<1xi64>
  %taken = gpu.barriers() {arrivals = 4, count = 1} : shared<1xi64>
  gpu.zero_rows(%ring) {start = 32}
  gpu.warp_specialize() {cluster = 2, groups = [1, 1], registers = [232, 40], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %number = gpu.warpgroup() : i64
    %next = gpu.for_tiles(%group, %slot) {split = 2, tiles = 1} do (%program: i64, %s: i32) {
      gpu.wait(%full, %s)
      %at = block.const() {elem = i64, value = 0} : i64
      %t = gpu.load_shared(%ring, %at) {layout = #l0} : tile<64x16xf32, #l0>
      %yes = block.const() {elem = bool, value = true} : bool
      gpu.release(%empty, %s, %yes) {blocks = 2}
      gpu.wait(%taken, %s) {cluster = true, previous = true}
      %first = block.eq(%rank, %at) : bool
      if(%first) do () {
        gpu.send(%room, %t, %sent, %s) {block = 1, part = 0}
        yield()
      } do () {
        gpu.wait(%sent, %s) {cluster = true}
        %got = gpu.receive(%room) {elem = f32, layout = #l0, part = 0, shape = [64, 16]} : tile<64x16xf32, #l0>
        gpu.arrive_at(%taken, %s) {block = 0}
        %sum = block.add(%got, %t) : tile<64x16xf32, #l0>
        %left = gpu.part(%sum) {layout = #l1, start = [0, 0]} : tile<64x8xf32, #l1>
        %right = gpu.part(%sum) {layout = #l1, start = [0, 8]} : tile<64x8xf32, #l1>
        gpu.stage(%staging, %left) {pending = 0}
        gpu.stage(%staging, %right) {column = 8}
        gpu.tma_store(%out, %staging, %at, %at) {dims = [64, 16], strides = [16, 1]}
        %behind = block.const() {elem = i64, value = 1025} : i64
        %ten = block.const() {elem = i64, value = 10} : i64
        gpu.stage_lines(%lines, %left, %out, %behind) {stride = 11}
        gpu.stage_lines(%lines, %right, %out, %behind) {column = 8, stride = 11}
        gpu.store_lines(%out, %behind, %lines, %ten) {limited = [1], stride = 11}
        yield()
      }
      %n = gpu.advance(%s) {size = 2} : i32
      yield(%n)
    } : i32
    gpu.tma_flush()
    yield()
  } do (%group_0: i64) {
    %slot_0 = block.const() {elem = i32, value = 0} : i32
    %zero = block.const() {elem = i64, value = 0} : i64
    gpu.wait(%empty, %slot_0) {previous = true}
    gpu.expect(%full, %slot_0) {nbytes = 2048}
    gpu.tma_load(%x, %ring, %slot_0, %full, %zero, %zero) {dims = [40, 16], parts = 2, rows = 32, strides = [16, 1]}
    yield()
  }
  return()
}

// Steps of a product are dealt out; a filter's positions go to a ring, and both factors come from there or from registers.
layout #l0 = 64x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l1 = 64x8 linear {register = [[8, 0], [0, 4]], lane = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @product(%x: ptr<f16>, %w: ptr<f16>, %out: ptr<f32>) {grid = 1, persistent = 1, split = 2, warps = 8} {
  %a = gpu.shared_alloc() {elem = f16, shape = [1, 64, 16], swizzle = 32} : shared<1x64x16xf16, swizzle 32>
  %b = gpu.shared_alloc() {elem = f16, shape = [1, 16, 16], swizzle = 32} : shared<1x16x16xf16, swizzle 32>
  %full = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  %empty = gpu.barriers() {arrivals = 1, count = 1} : shared<1xi64>
  gpu.warp_specialize() {groups = [1, 1], single = [1], warps = [4, 4]} do (%group: i64) {
    %slot = block.const() {elem = i32, value = 0} : i32
    %next = gpu.for_tiles(%group, %slot) {steps = 4, tiles = 1} do (%program: i64, %first: i64, %end: i64, %s: i32) {
      gpu.wait(%full, %s)
      %zero = block.const() {elem = i64, value = 0} : i64
      %no = block.const() {elem = bool, value = false} : bool
      %yes = block.const() {elem = bool, value = true} : bool
      %start = gpu.undefined() {elem = f32, layout = #l0, shape = [64, 16]} : tile<64x16xf32, #l0>
      %p = gpu.wgmma(%a, %b, %s, %start, %no) {transpose_b = true} : tile<64x16xf32, #l0>
      %h = gpu.load_shared(%a, %zero) {layout = #l0} : tile<64x16xf16, #l0>
      %words = gpu.pack(%h) {elem = f16} : tile<64x8xi32, #l1>
      %q = gpu.wgmma(%words, %b, %s, %p, %yes) : tile<64x16xf32, #l0>
      %done = gpu.wgmma_wait(%q) {fence = true, pending = 0} : tile<64x16xf32, #l0>
      gpu.arrive(%empty, %s, %yes)
      %four = block.const() {elem = i64, value = 4} : i64
      %left = block.lt(%end, %four) : bool
      if(%left) do () {
        gpu.leave(%done)
        yield()
      } do () {
        %all = gpu.collect(%done, %program, %first) {steps = 4, tiles = 1} : tile<64x16xf32, #l0>
        block.store_view(%out, %zero, %all) {strides = [16, 1]}
        yield()
      }
      %by = block.const() {elem = i64, value = 1} : i64
      %n = gpu.advance(%s, %by) {size = 1} : i32
      yield(%n)
    } : i32
    yield()
  } do (%group_0: i64) {
    %slot_0 = block.const() {elem = i32, value = 0} : i32
    %zero_0 = block.const() {elem = i64, value = 0} : i64
    %low = block.const() {elem = i64, value = -1} : i64
    %tap = block.const() {elem = i64, value = 2} : i64
    gpu.expect(%full, %slot_0) {nbytes = 2560}
    gpu.tma_load(%x, %a, %slot_0, %full, %zero_0, %low, %low, %zero_0, %zero_0, %tap) {dims = [2, 6, 7, 16], lower = [-1, -1], offset = 16, steps = [1, 1], strides = [672, 112, 16, 1], upper = [-1, -1]}
    gpu.tma_load(%w, %b, %slot_0, %full, %zero_0, %zero_0) {dims = [16, 12], strides = [12, 1]}
    yield()
  }
  return()
}
