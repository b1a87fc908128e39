// RUN:
// Layouts, rings of shared buffers that threads copy to, launches that overlap.
layout #l0 = 16x16 linear {register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]]}
layout #l1 = 16x16 linear {register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
layout #l2 = 8x16 linear {register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]]}
func @copies(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1, warps = 1} dims (n in 1..16) {
  %ring = gpu.shared_alloc() {elem = f32, shape = [2, 16, 16], swizzle = 64} : shared<2x16x16xf32, swizzle 64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %go = block.const() {elem = bool, value = true} : bool
  gpu.wait_launches()
  gpu.copy_async(%x, %zero, %ring, %zero, %go, %n) {limited = [0], strides = [16, 1], width = 4}
  gpu.copy_async(%x, %zero, %ring, %one, %go) {strides = [1, 16], transposed = true, width = 4}
  gpu.commit()
  gpu.wait_group() {pending = 0}
  %a = gpu.load_shared(%ring, %zero) {layout = #l0} : tile<16x16xf32, #l0>
  gpu.store_shared(%ring, %one, %a)
  %b = gpu.load_shared(%ring, %one) {axis = 0, part = 1, parts = 2, transposed = true} : tile<8x16xf32>
  %c = gpu.convert_layout(%a) {layout = #l1} : tile<16x16xf32, #l1>
  %d = gpu.convert_layout(%c) {layout = #l0} : tile<16x16xf32, #l0>
  %e = gpu.short(%d) {function = "exp"} : tile<16x16xf32, #l0>
  %f = gpu.short(%e) {function = "sigmoid"} : tile<16x16xf32, #l0>
  %g = gpu.short(%f) {function = "exp2"} : tile<16x16xf32, #l0>
  %i = gpu.anew(%g, %one) : tile<16x16xf32, #l0>
  %h = gpu.part(%i) {layout = #l2, start = [8, 0]} : tile<8x16xf32, #l2>
  gpu.next_launch()
  block.store_view(%out, %zero, %h) {strides = [16, 1]}
  return(%b)
}
