// RUN: count-by-trips, dead-code

func @fires(%x: ptr<f32>, %n: i64, %step: i64) {grid = 1} dims (n in 0..8, step in 0..16) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, value = 0.0} : f32
  %last, %sum = for(%zero, %n, %zero, %none) do (%i: i64, %at: i64, %s: f32) {
    %a = block.load(%x, %at) : f32
    %t = block.add(%s, %a) : f32
    %next = block.add(%at, %step) : i64
    yield(%next, %t)
  } : i64, f32
  return(%last, %sum)
}

// 32 bits may wrap
func @declines(%n: i64, %step: i32) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %start = block.const() {elem = i32, value = 2147483647} : i32
  %last = for(%zero, %n, %start) do (%i: i64, %at: i32) {
    %next = block.add(%at, %step) : i32
    yield(%next)
  } : i32
  return(%last)
}

// not from 0, not by 1, two steps and one back; tiles of 32 bits that do not wrap
func @both_ends(%n: i64, %a: i64, %b: i64) {grid = 1} dims (n in 0..8, a in 0..9, b in 0..9) {
  %two = block.const() {elem = i64, value = 2} : i64
  %at = block.arange() {elem = i32, end = 4, start = 0} : tile<4xi32>
  %by = block.const() {elem = i32, shape = [4], value = 3} : tile<4xi32>
  %x, %y = for(%two, %n, %a, %at) {step = 3} do (%i: i64, %p: i64, %q: tile<4xi32>) {
    %p1 = block.add(%p, %a) : i64
    %p2 = block.sub(%p1, %b) : i64
    %q1 = block.add(%by, %q) {nsw = true} : tile<4xi32>
    yield(%p2, %q1)
  } : i64, tile<4xi32>
  return(%x, %y)
}

// what it grows by changes
func @no_step(%n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %last = for(%zero, %n, %zero) do (%i: i64, %at: i64) {
    %next = block.add(%at, %i) : i64
    yield(%next)
  } : i64
  return(%last)
}
// -----
func @fires(%x: ptr<f32>, %n: i64, %step: i64) {grid = 1} dims (n in 0..8, step in 0..16) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, value = 0.0} : f32
  %v2 = for(%zero, %n, %none) do (%i: i64, %s: f32) {
    %v0 = block.mul(%i, %step) {nsw = true} : i64
    %v1 = block.add(%zero, %v0) {nsw = true} : i64
    %a = block.load(%x, %v1) : f32
    %t = block.add(%s, %a) : f32
    yield(%t)
  } : f32
  %v3 = block.index(%zero, %n) {expr = (max(0, high - 1*low)), names = ["low", "high"]} : i64
  %v4 = block.mul(%v3, %step) {nsw = true} : i64
  %v5 = block.add(%zero, %v4) {nsw = true} : i64
  return(%v5, %v2)
}

func @declines(%n: i64, %step: i32) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %start = block.const() {elem = i32, value = 2147483647} : i32
  %last = for(%zero, %n, %start) do (%i: i64, %at: i32) {
    %next = block.add(%at, %step) : i32
    yield(%next)
  } : i32
  return(%last)
}

func @both_ends(%n: i64, %a: i64, %b: i64) {grid = 1} dims (n in 0..8, a in 0..9, b in 0..9) {
  %two = block.const() {elem = i64, value = 2} : i64
  %at = block.arange() {elem = i32, end = 4, start = 0} : tile<4xi32>
  for(%two, %n) {step = 3} do (%i: i64) {
    yield()
  }
  %v0 = block.index(%two, %n) {expr = (max(0, floordiv(high - 1*low + 2, 3))), names = ["low", "high"]} : i64
  %v1 = block.mul(%v0, %a) {nsw = true} : i64
  %v2 = block.add(%a, %v1) {nsw = true} : i64
  %v3 = block.mul(%v0, %b) {nsw = true} : i64
  %v4 = block.sub(%v2, %v3) {nsw = true} : i64
  %v5 = block.cast(%v0) {to = i32} : i32
  %v6 = block.const() {elem = i32, value = 3} : i32
  %v7 = block.mul(%v5, %v6) {nsw = true} : i32
  %v8 = block.splat(%v7) {shape = [4]} : tile<4xi32>
  %v9 = block.add(%at, %v8) {nsw = true} : tile<4xi32>
  return(%v4, %v9)
}

func @no_step(%n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %last = for(%zero, %n, %zero) do (%i: i64, %at: i64) {
    %next = block.add(%at, %i) : i64
    yield(%next)
  } : i64
  return(%last)
}
