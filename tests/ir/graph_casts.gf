// RUN:
// Select, casts (every element type), and bit casts.
func @select(%c: tensor<(n)xbool>, %a: tensor<(n)xbf16>, %b: tensor<(n)xbf16>) {
  %r = graph.select(%c, %a, %b) : tensor<(n)xbf16>
  return(%r)
}

func @from_float(%x: tensor<(n)xf32>) {
  %bool = graph.cast(%x) {to = bool} : tensor<(n)xbool>
  %i8 = graph.cast(%x) {to = i8} : tensor<(n)xi8>
  %i16 = graph.cast(%x) {to = i16} : tensor<(n)xi16>
  %i32 = graph.cast(%x) {to = i32} : tensor<(n)xi32>
  %i64 = graph.cast(%x) {to = i64} : tensor<(n)xi64>
  %u8 = graph.cast(%x) {saturate = true, to = u8} : tensor<(n)xu8>
  %u16 = graph.cast(%x) {to = u16} : tensor<(n)xu16>
  %u32 = graph.cast(%x) {to = u32} : tensor<(n)xu32>
  %u64 = graph.cast(%x) {saturate = true, to = u64} : tensor<(n)xu64>
  %i4 = graph.cast(%x) {saturate = true, to = i4} : tensor<(n)xi4>
  %u4 = graph.cast(%x) {to = u4} : tensor<(n)xu4>
  %i2 = graph.cast(%x) {to = i2} : tensor<(n)xi2>
  %u2 = graph.cast(%x) {to = u2} : tensor<(n)xu2>
  %f16 = graph.cast(%x) {to = f16} : tensor<(n)xf16>
  %bf16 = graph.cast(%x) {to = bf16} : tensor<(n)xbf16>
  %f64 = graph.cast(%x) {to = f64} : tensor<(n)xf64>
  %f8e4m3 = graph.cast(%x) {saturate = true, to = f8e4m3} : tensor<(n)xf8e4m3>
  %f8e5m2 = graph.cast(%x) {to = f8e5m2} : tensor<(n)xf8e5m2>
  %f8e4m3fnuz = graph.cast(%x) {to = f8e4m3fnuz} : tensor<(n)xf8e4m3fnuz>
  %f8e5m2fnuz = graph.cast(%x) {to = f8e5m2fnuz} : tensor<(n)xf8e5m2fnuz>
  %f4e2m1 = graph.cast(%x) {to = f4e2m1} : tensor<(n)xf4e2m1>
  %abs = graph.abs(%x) : tensor<(n)xf32>
  %f8e8m0 = graph.cast(%abs) {to = f8e8m0} : tensor<(n)xf8e8m0>
  return(%bool, %i8, %i16, %i32, %i64, %u8, %u16, %u32, %u64, %i4, %u4, %i2, %u2, %f16, %bf16, %f64, %f8e4m3, %f8e5m2, %f8e4m3fnuz, %f8e5m2fnuz, %f4e2m1, %f8e8m0)
}

func @from_integer(%x: tensor<(n)xi64>, %y: tensor<(n)xbool>, %z: tensor<(n)xi4>) {
  %a = graph.cast(%x) {to = f32} : tensor<(n)xf32>
  %b = graph.cast(%x) {to = u8} : tensor<(n)xu8>
  %c = graph.cast(%x) {saturate = true, to = u8} : tensor<(n)xu8>
  %d = graph.cast(%y) {to = f16} : tensor<(n)xf16>
  %e = graph.cast(%y) {to = i32} : tensor<(n)xi32>
  %f = graph.cast(%z) {to = bf16} : tensor<(n)xbf16>
  %g = graph.cast(%z) {to = i32} : tensor<(n)xi32>
  return(%a, %b, %c, %d, %e, %f, %g)
}

func @bits(%x: tensor<(n)xf32>, %y: tensor<(n)xbf16>) {
  %a = graph.bitcast(%x) {to = i32} : tensor<(n)xi32>
  %b = graph.bitcast(%a) {to = f32} : tensor<(n)xf32>
  %c = graph.bitcast(%y) {to = u16} : tensor<(n)xu16>
  return(%a, %b, %c)
}
