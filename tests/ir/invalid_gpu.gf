layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%x: tile<64x8xf32>) {
  %r = gpu.convert_layout(%x) {layout = #m} : tile<64x8xf32, #m>  // error: gpu.convert_layout: operand must be a tile with a layout, got tile<64x8xf32>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l = 16x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
func @f(%x: tile<16x8xf32, #l>) {
  %r = gpu.convert_layout(%x) {layout = #m} : tile<64x8xf32, #m>  // error: gpu.convert_layout: the layout is for the shape [64, 8], the tile is [16, 8]
  return()
}
// -----
func @f(%x: f16) {
  %r = gpu.short(%x) {function = "exp"} : f16  // error: gpu.short: operand must be f32, got f16
  return()
}
// -----
func @f(%x: tile<16xf16>, %n: i32) {
  %r = gpu.anew(%x, %n) : tile<16xf16>  // error: gpu.anew: expected a tile and an i64, got tile<16xf16> and i32
  return()
}
// -----
func @f(%x: f32) {
  %r = gpu.short(%x) {function = "log"} : f32  // error: gpu.short: function must be one of exp, sigmoid, exp2, got log
  return()
}
// -----
func @f(%p: ptr<f16>, %k: i32) {
  gpu.wait(%p, %k)  // error: gpu.wait: operand 0 must be shared memory, got ptr<f16>
  return()
}
// -----
func @f(%s: shared<2x64x64xf16, swizzle 128>, %k: i32) {
  gpu.wait(%s, %k)  // error: gpu.wait: operand 0 must be mbarriers, got shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
func @f(%b: shared<2xi64>, %i: i64) {
  gpu.wait(%b, %i)  // error: gpu.wait: a slot must be i32, got i64
  return()
}
// -----
func @f() {
  %r = gpu.shared_alloc() {elem = f16, shape = [2, 16, 24], swizzle = 32} : shared<2x16x24xf16, swizzle 32>  // error: gpu.shared_alloc: a row of 48 bytes cannot have the swizzle 32
  return()
}
// -----
func @f() {
  %r = gpu.barriers() {arrivals = 1, count = 0} : shared<0xi64>  // error: gpu.barriers: expected at least one barrier and one arrival, got 0 and 1
  return()
}
// -----
func @f(%k: i32) {
  %r = gpu.advance(%k, %k) {size = 2} : i32  // error: gpu.advance: operand 1 must be i64, got i32
  return()
}
// -----
func @f(%b: shared<2xi64>, %k: i32) {
  gpu.arrive(%b, %k, %k)  // error: gpu.arrive: operand 2 must be bool, got i32
  return()
}
// -----
func @f(%b: shared<2xi64>, %k: i32, %c: bool) {
  gpu.release(%b, %k, %c) {blocks = 3}  // error: gpu.release: expected a bool and 2 or 4 blocks, got bool and 3
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %x: tile<64x8xf32, #m>) {
  gpu.send(%s, %x, %b, %k) {block = 0, part = 0}  // error: gpu.send: expected shared memory for parts of 4 registers of a thread, and a part of it, got shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x4x32xf32>, %b: shared<2xi64>, %k: i32, %x: tile<64x8xf16, #m>) {
  gpu.send(%s, %x, %b, %k) {block = 0, part = 0}  // error: gpu.send: cannot send tile<64x8xf16, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}> to shared<2x4x32xf32>
  return()
}
// -----
func @f(%s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%i, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1]}  // error: gpu.tma_load: operand 0 must be a pointer, got i64
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [1, 64]}  // error: gpu.tma_load: expected 2 to 5 dims, as many strides, the last of them 1
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i) {dims = [64, 64], strides = [64, 1]}  // error: gpu.tma_load: expected 2 i64 coordinates, got 1
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i, %i) {dims = [64, 64], strides = [64, 1], lower = [0], steps = [1], upper = [0]}  // error: gpu.tma_load: expected 0 corners and steps, got (0,), (0,), (1,)
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i, %i, %k) {dims = [2, 8, 64], lower = [0], steps = [1], strides = [512, 64, 1], upper = [0]}  // error: gpu.tma_load: expected i64 coordinates, got i64, i64, i64, i32
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1], rows = 12}  // error: gpu.tma_load: expected 1 parts of 8 rows or a multiple of shared<2x64x64xf16, swizzle 128>, got 12 rows
  return()
}
// -----
func @f(%p: ptr<f32>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1]}  // error: gpu.tma_load: cannot load boxes of f32 into shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1], parts = 3}  // error: gpu.tma_load: expected 3 parts of 8 rows or a multiple of shared<2x64x64xf16, swizzle 128>, got 64 rows
  return()
}
// -----
func @f(%p: ptr<f16>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %b, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1]}  // error: gpu.tma_load: cannot load boxes of f16 into shared<2xi64>
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1], parts = 0}  // error: gpu.tma_load: expected 0 parts of 8 rows or a multiple of shared<2x64x64xf16, swizzle 128>, got 64 rows
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%b: shared<2xi64>, %k: i32, %c: bool, %x: tile<64x8xf32, #m>) {
  %r = gpu.wgmma(%b, %b, %k, %x, %c) : tile<64x8xf32, #m>  // error: gpu.wgmma: expected matrices and rings of matrices, got shared<2xi64>, shared<2xi64> and tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}>
  return()
}
// -----
func @f(%s: shared<2x16x64xf16, swizzle 128>, %x: tile<f32>) {
  gpu.stage(%s, %x)  // error: gpu.stage: cannot stage tile<f32> in shared<2x16x64xf16, swizzle 128>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x16x64xf16, swizzle 128>, %x: tile<64x8xf32, #m>) {
  gpu.stage(%s, %x) {column = -1}  // error: gpu.stage: cannot stage tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}> in shared<2x16x64xf16, swizzle 128>
  return()
}
// -----
func @f(%s: shared<2x64x64xf16, swizzle 128>) {
  gpu.zero_rows(%s) {start = 64}  // error: gpu.zero_rows: no rows from 64 on in shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x64x64xf16, swizzle 128>, %x: tile<64x8xf32, #m>) {
  gpu.stage(%s, %x)  // error: gpu.stage: a staging buffer has 16 rows, got shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x16x64xf16, swizzle 128>, %x: tile<64x8xf32, #m>) {
  gpu.stage(%s, %x) {column = 60}  // error: gpu.stage: cannot stage tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}> in shared<2x16x64xf16, swizzle 128>
  return()
}
// -----
func @f(%p: ptr<f32>, %s: shared<2x16x64xf16, swizzle 128>, %i: i64) {
  gpu.tma_store(%p, %s, %i, %i) {dims = [64, 64], strides = [64, 1]}  // error: gpu.tma_store: cannot store shared<2x16x64xf16, swizzle 128> through ptr<f32>
  return()
}
// -----
func @f(%p: ptr<f32>, %s: shared<2x64x64xf16, swizzle 128>, %i: i64, %c: bool) {
  gpu.copy_async(%p, %i, %s, %i, %c) {strides = [64, 1], width = 8}  // error: gpu.copy_async: cannot copy from ptr<f32> to shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %i: i64, %c: bool) {
  gpu.copy_async(%p, %i, %s, %c, %c) {strides = [64, 1], width = 8}  // error: gpu.copy_async: expected i64, i64, bool and i64 limits, got i64, bool, bool
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %i: i64, %c: bool) {
  gpu.copy_async(%p, %i, %s, %i, %c, %i) {strides = [64, 1], width = 8}  // error: gpu.copy_async: strides (64, 1) and limited dims () are not those of a matrix
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x64x64xf16, swizzle 128>, %i: i64, %c: bool) {
  gpu.copy_async(%p, %i, %s, %i, %c) {strides = [64, 1], width = 1}  // error: gpu.copy_async: copies are of 4, 8 or 16 bytes, got 1 of f16
  return()
}
// -----
func @f(%s: shared<2x64x64xf16, swizzle 128>, %k: bool) {
  %r = gpu.load_shared(%s, %k) : tile<64x64xf16>  // error: gpu.load_shared: expected a ring of matrices and a slot or an i64, got shared<2x64x64xf16, swizzle 128> and bool
  return()
}
// -----
func @f(%s: shared<2x64x64xf16, swizzle 128>, %i: i64, %x: tile<64x32xf16>) {
  gpu.store_shared(%s, %i, %x)  // error: gpu.store_shared: cannot store tile<64x32xf16> in shared<2x64x64xf16, swizzle 128> at i64
  return()
}
// -----
func @f(%s: shared<2x64x64xf16, swizzle 128>, %i: i64) {
  %r = gpu.load_shared(%s, %i) {axis = 1, part = 3, parts = 3} : tile<64x21xf16>  // error: gpu.load_shared: there is no part 3 of 3 along dim 1 of [64, 64]
  return()
}
// -----
func @f(%x: tile<64x8xf32>) {
  %r = gpu.pack(%x) {elem = f16} : tile<64x4xi32>  // error: gpu.pack: expected a matrix of f32 or f16 with a layout, got tile<64x8xf32>
  return()
}
// -----
layout #w = 64x8 linear {register = [[8, 0], [0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%x: tile<64x8xf32, #w>) {
  %r = gpu.pack(%x) {elem = f16} : tile<64x4xi32>  // error: gpu.pack: registers 0 and 1 must be neighbours in a row
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x64x64xf16, swizzle 128>, %k: i32, %x: tile<64x8xf32, #m>) {
  %r = gpu.wgmma(%s, %s, %k, %x, %k) : tile<64x8xf32, #m>  // error: gpu.wgmma: expected an accumulator with a layout and a bool, got tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}> and i32
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x64x64xf16, swizzle 128>, %k: i32, %c: bool, %x: tile<64x8xf32, #m>) {
  %r = gpu.wgmma(%x, %s, %k, %x, %c) : tile<64x8xf32, #m>  // error: gpu.wgmma: expected a tile of words with a layout for f16 of 16 bits, got tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%a: shared<3x64x64xf16, swizzle 128>, %s: shared<2x64x64xf16, swizzle 128>, %k: i32, %c: bool, %x: tile<64x8xf32, #m>) {
  %r = gpu.wgmma(%a, %s, %k, %x, %c) : tile<64x8xf32, #m>  // error: gpu.wgmma: operands do not fit: shared<3x64x64xf16, swizzle 128> and shared<2x64x64xf16, swizzle 128>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x64x64xf16, swizzle 128>, %k: i32, %c: bool, %x: tile<64x8xf32, #m>) {
  %r = gpu.wgmma(%s, %s, %k, %x, %c) : tile<64x8xf32, #m>  // error: gpu.wgmma: shapes do not fit: shared<2x64x64xf16, swizzle 128>, shared<2x64x64xf16, swizzle 128> and tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%a: shared<2x64x32xf32, swizzle 128>, %s: shared<2x32x8xf32, swizzle 32>, %k: i32, %c: bool, %x: tile<64x8xf32, #m>) {
  %r = gpu.wgmma(%a, %s, %k, %x, %c) : tile<64x8xf32, #m>  // error: gpu.wgmma: f32 operands must be contiguous along K
  return()
}
// -----
layout #l = 16x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
func @f(%x: tile<64x8xf32>) {
  %r = gpu.part(%x) {layout = #l, start = [0, 0]} : tile<16x8xf32, #l>  // error: gpu.part: operand must be a tile with a layout, of rank 2, got tile<64x8xf32>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
layout #l = 16x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
func @f(%x: tile<64x8xf32, #m>) {
  %r = gpu.part(%x) {layout = #l, start = [56, 0]} : tile<16x8xf32, #l>  // error: gpu.part: no part of [16, 8] from [56, 0] on in tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}>
  return()
}
// -----
func @f() {
  gpu.warp_specialize() {groups = [1], warps = [4, 1]} do (%g: i64) {  // error: gpu.warp_specialize: expected warps, groups (and registers) for each of the 1 bodies
    yield()
  }
  return()
}
// -----
func @f() {
  gpu.warp_specialize() {groups = [1], warps = [4]} do (%g: i32) {  // error: gpu.warp_specialize: a body takes the number of its group and yields nothing
    yield()
  }
  return()
}
// -----
func @f() {
  gpu.warp_specialize() {groups = [1], warps = [3]} do (%g: i64) {  // error: gpu.warp_specialize: a group must have 1, 2, 4, 8 .. warps, got (3,), (1,)
    yield()
  }
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%x: tile<64x8xf16, #m>) {
  gpu.leave(%x)  // error: gpu.leave: expected a tile of 4-byte elements with a layout, got tile<64x8xf16, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%x: tile<64x8xf32, #m>, %k: i32) {
  %r = gpu.collect(%x, %k, %k) {steps = 4, tiles = 8} : tile<64x8xf32, #m>  // error: gpu.collect: expected i64 and i64, got i32 and i32
  return()
}
// -----
func @f(%k: i32) {
  gpu.for_tiles(%k) {tiles = 8} do (%t: i64) {  // error: gpu.for_tiles: expected a group number, and a body that takes a program number and the carried values
    yield()
  }
  return()
}
// -----
func @f(%i: i64) {
  gpu.for_tiles(%i) {groups = 2, steps = 4, tiles = 8} do (%t: i64, %a: i64, %b: i64) {  // error: gpu.for_tiles: steps are dealt to single blocks, to one group of each
    yield()
  }
  return()
}
// -----
func @f(%i: i64, %k: i32) {
  %r = gpu.for_tiles(%i, %k) {tiles = 8} do (%t: i64, %v: i32) {  // error: gpu.for_tiles: carried types change
    yield(%t)
  } : i32
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%s: shared<2x16x64xf16>, %x: tile<64x8xf32, #m>) {
  gpu.stage(%s, %x)  // error: gpu.stage: TMA stores from buffers with a swizzle, got shared<2x16x64xf16>
  return()
}
// -----
layout #m = 64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}
func @f(%p: ptr<f16>, %s: shared<2x16x64xf16>, %x: tile<64x8xf32, #m>, %i: i64) {
  gpu.stage_lines(%s, %x, %p, %i) {column = 56, stride = 99}  // error: gpu.stage_lines: cannot stage tile<64x8xf32, {64x8 linear {register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]}}> in shared<2x16x64xf16>
  return()
}
// -----
func @f(%p: ptr<f32>, %s: shared<2x16x64xf16>, %i: i64) {
  gpu.store_lines(%p, %i, %s) {stride = 99}  // error: gpu.store_lines: cannot store lines of shared<2x16x64xf16> through ptr<f32> at i64
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x16x64xf16>, %i: i64) {
  gpu.store_lines(%p, %i, %s, %i) {limited = [2], stride = 99}  // error: gpu.store_lines: expected an i64 limit for each of the dims [2], which are 0 or 1
  return()
}
// -----
func @f(%p: ptr<f16>, %s: shared<2x4x40xf16>, %b: shared<2xi64>, %k: i32, %i: i64) {
  gpu.tma_load(%p, %s, %k, %b, %i, %i) {dims = [64, 64], strides = [64, 1]}  // error: gpu.tma_load: without a swizzle a whole box goes to slots of lines of 128 bytes, got shared<2x4x40xf16>
  return()
}
