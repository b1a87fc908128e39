// RUN: quiet

func @fires(%x: ptr<f32>, %n: i64) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load(%x, %zero) : f32
  %b = block.add(%a, %a) : f32
  %c = block.lt(%a, %b) : bool
  block.print(%b) {text = "twice %f\n"}
  block.assert(%c) {message = "positive"}
  return()
}

// who asks for it gets it
func @declines(%x: i64) {debug = true, grid = 1} {
  block.print(%x) {text = "x %d\n"}
  return()
}

// what also something else needs, and what is stored, stays
func @read_by_others(%x: ptr<f32>, %n: i64) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load(%x, %zero) : f32
  for(%zero, %n) do (%i: i64) {
    block.print(%i) {text = "round %d\n"}
    block.store(%x, %i, %a)
    yield()
  }
  return()
}
// -----
func @fires(%x: ptr<f32>, %n: i64) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load(%x, %zero) : f32
  return()
}

func @declines(%x: i64) {debug = true, grid = 1} {
  block.print(%x) {text = "x %d\n"}
  return()
}

func @read_by_others(%x: ptr<f32>, %n: i64) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load(%x, %zero) : f32
  for(%zero, %n) do (%i: i64) {
    block.store(%x, %i, %a)
    yield()
  }
  return()
}
