// RUN: loop-over-windows {registers = 16, vector_bytes = 32}
func @fires(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..32) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero, %n) {limited = [0], shape = [32, 64], strides = [64, 1]} : tile<32x64xf32>
  %b = block.exp(%a) : tile<32x64xf32>
  block.store_view(%out, %zero, %b, %n) {limited = [0], strides = [64, 1]}
  return()
}
// It fits.
func @declines(%x: ptr<f32>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 16], strides = [16, 1]} : tile<4x16xf32>
  %b = block.exp(%a) : tile<4x16xf32>
  block.store_view(%out, %zero, %b) {strides = [16, 1]}
  return()
}
// A sum of all before any element is stored.
func @two_walks(%x: ptr<f32>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [2048], strides = [1]} : tile<2048xf32>
  %s = block.reduce(%a) {axis = 0, kind = "sum"} : f32
  %t = block.splat(%s) {shape = [2048]} : tile<2048xf32>
  %b = block.sub(%a, %t) : tile<2048xf32>
  block.store_view(%out, %zero, %b) {strides = [1]}
  return()
}
// -----
func @fires(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1} dims (n in 0..32) {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.const() {elem = i64, value = 32} : i64
  for(%v0, %v1) {step = 1} do (%w: i64) {
    %v2 = block.const() {elem = i64, value = 64} : i64
    %v3 = block.index(%w, %n) {expr = (-1*_w0 + _w1 - 1), names = ["_w0", "_w1"]} : i64
    %v4 = block.index(%v3) {expr = (64*max(-1, min(0, _w0)) + 64), names = ["_w0"]} : i64
    %v5 = block.index(%v4) {expr = (32*floordiv(max(0, min(64, _w0)), 32)), names = ["_w0"]} : i64
    for(%v0, %v5) {step = 32} do (%w_0: i64) {
      %v6 = block.index(%w, %w_0, %v0) {expr = (64*_w0 + _w1 + _w2), names = ["_w0", "_w1", "_w2"]} : i64
      %v7 = block.load_view(%x, %v6) {limited = [], shape = [1, 32], strides = [64, 1]} : tile<1x32xf32>
      %v8 = block.exp(%v7) : tile<1x32xf32>
      block.store_view(%out, %v6, %v8) {limited = [], strides = [64, 1]}
      yield()
    }
    for(%v5, %v2) {step = 32} do (%w_1: i64) {
      %v9 = block.index(%w, %w_1, %v0) {expr = (64*_w0 + _w1 + _w2), names = ["_w0", "_w1", "_w2"]} : i64
      %v10 = block.index(%w, %n) {expr = (-1*_w0 + _w1), names = ["_w0", "_w1"]} : i64
      %v11 = block.load_view(%x, %v9, %v10) {limited = [0], shape = [1, 32], strides = [64, 1]} : tile<1x32xf32>
      %v12 = block.exp(%v11) : tile<1x32xf32>
      block.store_view(%out, %v9, %v12, %v10) {limited = [0], strides = [64, 1]}
      yield()
    }
    yield()
  }
  return()
}

func @declines(%x: ptr<f32>, %out: ptr<f32>) {grid = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %zero) {shape = [4, 16], strides = [16, 1]} : tile<4x16xf32>
  %b = block.exp(%a) : tile<4x16xf32>
  block.store_view(%out, %zero, %b) {strides = [16, 1]}
  return()
}

func @two_walks(%x: ptr<f32>, %out: ptr<f32>) {grid = 1} {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.const() {elem = f32, value = 0.0} : f32
  %v2 = block.splat(%v1) {shape = [32]} : tile<32xf32>
  %v3 = block.const() {elem = i64, value = 2048} : i64
  %v8 = for(%v0, %v3, %v2) {step = 32} do (%w: i64, %v4: tile<32xf32>) {
    %v5 = block.index(%w, %v0) {expr = (w0 + w1), names = ["w0", "w1"]} : i64
    %v6 = block.load_view(%x, %v5) {limited = [], shape = [32], strides = [1]} : tile<32xf32>
    %v7 = block.add(%v4, %v6) : tile<32xf32>
    yield(%v7)
  } : tile<32xf32>
  %v9 = block.reduce(%v8) {axis = 0, kind = "sum"} : f32
  for(%v0, %v3) {step = 32} do (%w_0: i64) {
    %v10 = block.index(%w_0, %v0) {expr = (w0 + w1), names = ["w0", "w1"]} : i64
    %v11 = block.load_view(%x, %v10) {limited = [], shape = [32], strides = [1]} : tile<32xf32>
    %v12 = block.splat(%v9) {shape = [32]} : tile<32xf32>
    %v13 = block.sub(%v11, %v12) : tile<32xf32>
    block.store_view(%out, %v10, %v13) {limited = [], strides = [1]}
    yield()
  }
  return()
}
