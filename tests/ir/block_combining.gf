// RUN:
// Dots, reductions and scans.
func @combine(%p: ptr<f32>, %q: ptr<bf16>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%p, %z) {shape = [4, 8], strides = [8, 1]} : tile<4x8xf32>
  %b = block.load_view(%p, %z) {shape = [8, 3], strides = [3, 1]} : tile<8x3xf32>
  %c = block.const() {elem = f32, shape = [4, 3], value = 1.0} : tile<4x3xf32>
  %dot = block.dot(%a, %b, %c) : tile<4x3xf32>
  %ha = block.load_view(%q, %z) {shape = [4, 8], strides = [8, 1]} : tile<4x8xbf16>
  %hb = block.load_view(%q, %z) {shape = [8, 3], strides = [3, 1]} : tile<8x3xbf16>
  %half = block.dot(%ha, %hb, %c) : tile<4x3xf32>
  %words = block.words(%ha) : tile<4x4xi32>
  %columns = block.trans(%words) {perm = [1, 0]} : tile<4x4xi32>
  %square = block.const() {elem = f32, shape = [4, 4], value = 0.0} : tile<4x4xf32>
  %pairs = block.dot_words(%words, %columns, %square) {elem = bf16} : tile<4x4xf32>
  %fours = block.dot_bytes(%words, %columns, %words) {bits = 4} : tile<4x4xi32>
  %x = block.const() {elem = i32, shape = [4, 16], value = -1} : tile<4x16xi32>
  %codes = block.const() {elem = i32, shape = [4, 3], value = -1} : tile<4x3xi32>
  %few = block.dot_codes(%x, %codes, %c) {bits = 4, elem = bf16, zero = 8} : tile<4x3xf32>
  %line = block.const() {elem = i32, shape = [1, 256], value = -1} : tile<1x256xi32>
  %scales = block.const() {elem = f16, shape = [2, 32], value = 0.5} : tile<2x32xf16>
  %wide = block.widen_codes(%line, %scales) {bits = 4, elem = bf16, zero = 8} : tile<32x64xbf16>
  %points = block.widen_codes(%line, %scales, %scales) {bits = 8, elem = f16, zero = 0} : tile<32x32xf16>
  %sum = block.reduce(%a) {axis = 1, kind = "sum"} : tile<4xf32>
  %prod = block.reduce(%sum) {axis = 0, kind = "prod"} : f32
  %max = block.reduce(%a) {axis = 0, kind = "max"} : tile<8xf32>
  %min = block.reduce(%max) {axis = 0, kind = "min"} : f32
  %neg = block.lt(%sum, %sum) : tile<4xbool>
  %any = block.reduce(%neg) {axis = 0, kind = "any"} : bool
  %all = block.reduce(%neg) {axis = 0, kind = "all"} : bool
  %upto = block.scan(%a) {axis = 1, kind = "sum"} : tile<4x8xf32>
  %before = block.scan(%a) {axis = 0, exclusive = true, kind = "max"} : tile<4x8xf32>
  return(%dot, %half, %pairs, %fours, %few, %wide, %points, %sum, %prod, %max, %min, %any, %all, %upto, %before)
}
