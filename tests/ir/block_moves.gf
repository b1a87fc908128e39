// RUN:
// What moves, orders and counts elements along an axis.
func @moves(%p: ptr<f32>, %q: ptr<i32>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%p, %z) {shape = [4, 6], strides = [6, 1]} : tile<4x6xf32>
  %i = block.load_view(%q, %z) {shape = [4, 6], strides = [6, 1]} : tile<4x6xi32>
  %middle = block.take(%a) {axis = 1, count = 3, start = 2} : tile<4x3xf32>
  %turned = block.take(%a) {axis = 0, count = 4, start = 3, step = -1} : tile<4x6xf32>
  %row = block.take(%a) {axis = 0, count = 1, start = 2} : tile<1x6xf32>
  %both = block.cat(%a, %middle) {axis = 1} : tile<4x9xf32>
  %found = block.gather(%a, %i) {axis = 1} : tile<4x6xf32>
  %counts = block.histogram(%i) {bins = 5} : tile<5xi32>
  %sorted = block.sort(%i) {axis = 1, count = 6} : tile<4x6xi32>
  %least, %least_0 = block.sort(%i, %i) {axis = 0, count = 2, falling = true} : tile<2x6xi32>, tile<2x6xi32>
  return(%middle, %turned, %row, %both, %found, %counts, %sorted, %least, %least_0)
}
