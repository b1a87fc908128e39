// RUN: load-where-used, dead-code

func @fires(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, shape = [4], value = 0.0} : tile<4xf32>
  %a0 = block.load_view(%x, %zero) {shape = [4], strides = [1]} : tile<4xf32>
  %last, %sum = for(%zero, %n, %a0, %none) do (%i: i64, %a: tile<4xf32>, %s: tile<4xf32>) {
    %t = block.add(%s, %a) : tile<4xf32>
    %at = block.index(%i) {expr = (4*i + 4), names = ["i"]} : i64
    %b = block.load_view(%x, %at) {shape = [4], strides = [1]} : tile<4xf32>
    yield(%b, %t)
  } : tile<4xf32>, tile<4xf32>
  block.store_view(%out, %zero, %sum) {strides = [1]}
  return()
}

// what is read after the loop has to be loaded ahead
func @declines(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a0 = block.load_view(%x, %zero) {shape = [4], strides = [1]} : tile<4xf32>
  %last = for(%zero, %n, %a0) do (%i: i64, %a: tile<4xf32>) {
    block.store_view(%out, %i, %a) {strides = [1]}
    %at = block.index(%i) {expr = (4*i + 4), names = ["i"]} : i64
    %b = block.load_view(%x, %at) {shape = [4], strides = [1]} : tile<4xf32>
    yield(%b)
  } : tile<4xf32>
  block.store_view(%out, %zero, %last) {strides = [1]}
  return()
}

// two rounds ahead is not where the next one begins
func @too_far(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a0 = block.load_view(%x, %zero) {shape = [4], strides = [1]} : tile<4xf32>
  %last = for(%zero, %n, %a0) do (%i: i64, %a: tile<4xf32>) {
    block.store_view(%out, %i, %a) {strides = [1]}
    %at = block.index(%i) {expr = (4*i + 8), names = ["i"]} : i64
    %b = block.load_view(%x, %at) {shape = [4], strides = [1]} : tile<4xf32>
    yield(%b)
  } : tile<4xf32>
  return()
}
// -----
func @fires(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %none = block.const() {elem = f32, shape = [4], value = 0.0} : tile<4xf32>
  %v2 = for(%zero, %n, %none) do (%i: i64, %s: tile<4xf32>) {
    %v0 = block.index(%i) {expr = (4*i), names = ["i"]} : i64
    %v1 = block.load_view(%x, %v0) {limited = [], shape = [4], strides = [1]} : tile<4xf32>
    %t = block.add(%s, %v1) : tile<4xf32>
    yield(%t)
  } : tile<4xf32>
  block.store_view(%out, %zero, %v2) {strides = [1]}
  return()
}

func @declines(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a0 = block.load_view(%x, %zero) {shape = [4], strides = [1]} : tile<4xf32>
  %last = for(%zero, %n, %a0) do (%i: i64, %a: tile<4xf32>) {
    block.store_view(%out, %i, %a) {strides = [1]}
    %at = block.index(%i) {expr = (4*i + 4), names = ["i"]} : i64
    %b = block.load_view(%x, %at) {shape = [4], strides = [1]} : tile<4xf32>
    yield(%b)
  } : tile<4xf32>
  block.store_view(%out, %zero, %last) {strides = [1]}
  return()
}

func @too_far(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..8) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a0 = block.load_view(%x, %zero) {shape = [4], strides = [1]} : tile<4xf32>
  %last = for(%zero, %n, %a0) do (%i: i64, %a: tile<4xf32>) {
    block.store_view(%out, %i, %a) {strides = [1]}
    %at = block.index(%i) {expr = (4*i + 8), names = ["i"]} : i64
    %b = block.load_view(%x, %at) {shape = [4], strides = [1]} : tile<4xf32>
    yield(%b)
  } : tile<4xf32>
  return()
}
