// RUN: symbolic-parameters

func @fires(%x: ptr<f32>, %n: i32, %k: f32) {grid = 1} {
  %m = block.add(%n, %n) : i32
  return(%m, %k)
}

// 64 bits are one already, and nothing of a float names a dim
func @declines(%x: ptr<f32>, %n: i64, %k: f32, %b: bool) {grid = 1} {
  %m = block.add(%n, %n) : i64
  return(%m, %k, %b)
}

// unsigned ones below 64 bits have all their values; with 64 they do not fit
func @unsigned(%a: u8, %b: u64) {grid = 1} {
  %c = block.cast(%a) {to = u64} : u64
  %d = block.mul(%c, %b) : u64
  return(%d)
}
// -----
func @fires(%x: ptr<f32>, %n: i64, %k: f32) {grid = 1} dims (n in -2147483648..2147483647) {
  %v0 = block.cast(%n) {to = i32} : i32
  %m = block.add(%v0, %v0) : i32
  return(%m, %k)
}

func @declines(%x: ptr<f32>, %n: i64, %k: f32, %b: bool) {grid = 1} {
  %m = block.add(%n, %n) : i64
  return(%m, %k, %b)
}

func @unsigned(%a: i64, %b: u64) {grid = 1} dims (a in 0..255) {
  %v0 = block.cast(%a) {to = u8} : u8
  %c = block.cast(%v0) {to = u64} : u64
  %d = block.mul(%c, %b) : u64
  return(%d)
}
