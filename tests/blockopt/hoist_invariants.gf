// RUN: hoist-invariants

func @fires(%x: ptr<f32>, %n: i64, %k: f32) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  for(%zero, %n) do (%i: i64) {
    %s = block.splat(%k) {shape = [4]} : tile<4xf32>
    %t = block.mul(%s, %s) : tile<4xf32>
    block.store_view(%x, %i, %t) {strides = [1]}
    yield()
  }
  return()
}

// memory may be written meanwhile, and what is computed of the counter changes
func @declines(%x: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  for(%zero, %n) do (%i: i64) {
    %a = block.load(%x, %zero) : f32
    %b = block.add(%a, %a) : f32
    %j = block.add(%i, %i) : i64
    block.store(%x, %j, %b)
    yield()
  }
  return()
}

// out of all loops at once, and out of a branch in one, that may never be taken
func @from_the_innermost(%x: ptr<i64>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  for(%zero, %n) do (%i: i64) {
    for(%zero, %i) do (%j: i64) {
      %c = block.lt(%i, %j) : bool
      if(%c) do () {
        %m = block.mul(%n, %n) : i64
        block.store(%x, %j, %m)
        yield()
      }
      %d = block.add(%i, %n) : i64
      block.store(%x, %i, %d)
      yield()
    }
    yield()
  }
  return()
}
// -----
func @fires(%x: ptr<f32>, %n: i64, %k: f32) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %s = block.splat(%k) {shape = [4]} : tile<4xf32>
  %t = block.mul(%s, %s) : tile<4xf32>
  for(%zero, %n) do (%i: i64) {
    block.store_view(%x, %i, %t) {strides = [1]}
    yield()
  }
  return()
}

func @declines(%x: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  for(%zero, %n) do (%i: i64) {
    %a = block.load(%x, %zero) : f32
    %b = block.add(%a, %a) : f32
    %j = block.add(%i, %i) : i64
    block.store(%x, %j, %b)
    yield()
  }
  return()
}

func @from_the_innermost(%x: ptr<i64>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %m = block.mul(%n, %n) : i64
  for(%zero, %n) do (%i: i64) {
    %d = block.add(%i, %n) : i64
    for(%zero, %i) do (%j: i64) {
      %c = block.lt(%i, %j) : bool
      if(%c) do () {
        block.store(%x, %j, %m)
        yield()
      }
      block.store(%x, %i, %d)
      yield()
    }
    yield()
  }
  return()
}
