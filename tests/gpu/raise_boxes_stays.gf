// RUN: raise-boxes
// Doubles feed no product of warpgroups, and a tile that feeds no product stays the view it is.
func @stays_f64(%a: ptr<f64>, %b: ptr<f64>, %out: ptr<f64>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %acc = block.const() {elem = f64, shape = [64, 16], value = 0.0} : tile<64x16xf64>
  %va = block.load_view(%a, %zero) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf64>
  %vb = block.load_view(%b, %zero) {shape = [16, 16], strides = [16, 1]} : tile<16x16xf64>
  %d = block.dot(%va, %vb, %acc) : tile<64x16xf64>
  block.store_view(%out, %zero, %d) {strides = [16, 1]}
  return()
}

func @stays_unmultiplied(%a: ptr<f16>, %out: ptr<f16>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %va = block.load_view(%a, %zero) {shape = [64, 16], strides = [16, 1]} : tile<64x16xf16>
  block.store_view(%out, %zero, %va) {strides = [16, 1]}
  return()
}

// the first factor is a product itself, the second is a box from the start
func @stays_boxed(%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %acc = block.const() {elem = f32, shape = [64, 16], value = 0.0} : tile<64x16xf32>
  %va = block.load_box(%a, %zero, %zero) {dims = [64, 16], offset = 0, shape = [64, 16], strides = [16, 1]} : tile<64x16xf16>
  %vb = block.load_box(%b, %zero, %zero) {dims = [16, 16], offset = 0, shape = [16, 16], strides = [16, 1]} : tile<16x16xf16>
  %d = block.dot(%va, %vb, %acc) : tile<64x16xf32>
  %h = block.cast(%d) {to = f16} : tile<64x16xf16>
  %e = block.dot(%h, %vb, %acc) : tile<64x16xf32>
  block.store_view(%out, %zero, %e) {strides = [16, 1]}
  return()
}
