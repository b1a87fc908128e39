// RUN: pipeline-loads
// Nothing is multiplied.
func @no_product(%x: ptr<f32>, %o: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  %start = block.const() {elem = f32, shape = [16], value = 0.0} : tile<16xf32>
  %r = for(%zero, %four, %start) {step = 1} do (%i: i64, %s: tile<16xf32>) {
    %a = block.load_view(%x, %i) {shape = [16], strides = [1]} : tile<16xf32>
    %t = block.add(%s, %a) : tile<16xf32>
    yield(%t)
  } : tile<16xf32>
  block.store_view(%o, %zero, %r) {strides = [1]}
  return()
}
