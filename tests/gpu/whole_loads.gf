// RUN: whole-loads

// a part of 64 of 150 elements: all but the last are whole
func @fires(%x: ptr<f16>, %out: ptr<f16>) {grid = 3, warps = 4} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (64*p), names = ["p"]} : i64
  %n = block.index(%p) {expr = (-64*p + 150), names = ["p"]} : i64
  %v = block.load_view(%x, %at, %n) {limited = [0], shape = [64], strides = [1]} : tile<64xf16>
  %m = block.reduce(%v) {axis = 0, kind = "max"} : f16
  block.store(%out, %p, %m)
  return()
}

// limits that vectors divide
func @aligned(%x: ptr<f16>, %out: ptr<f16>) {grid = 3, warps = 4} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (64*p), names = ["p"]} : i64
  %n = block.index(%p) {expr = (-64*p + 152), names = ["p"]} : i64
  %v = block.load_view(%x, %at, %n) {limited = [0], shape = [64], strides = [1]} : tile<64xf16>
  %m = block.reduce(%v) {axis = 0, kind = "max"} : f16
  block.store(%out, %p, %m)
  return()
}

// a limit of rows cuts no vectors, a known one is never another, and a branch has been chosen already
func @declines(%x: ptr<f16>, %out: ptr<f16>) {grid = 3, warps = 4} {
  %p = block.program_id() : i64
  %z = block.const() {elem = i64, value = 0} : i64
  %k = block.const() {elem = i64, value = 61} : i64
  %n = block.index(%p) {expr = (-16*p + 61), names = ["p"]} : i64
  %rows = block.load_view(%x, %z, %n) {limited = [0], shape = [64, 64], strides = [64, 1]} : tile<64x64xf16>
  %known = block.load_view(%x, %z, %k) {limited = [1], shape = [64, 64], strides = [64, 1]} : tile<64x64xf16>
  %c = block.gt(%n, %z) : bool
  if(%c) do () {
    %v = block.load_view(%x, %z, %n) {limited = [1], shape = [64, 64], strides = [64, 1]} : tile<64x64xf16>
    block.store_view(%out, %z, %v) {strides = [64, 1]}
    yield()
  }
  %s = block.add(%rows, %known) : tile<64x64xf16>
  block.store_view(%out, %z, %s) {strides = [64, 1]}
  return()
}
// -----
func @fires(%x: ptr<f16>, %out: ptr<f16>) {grid = 3, warps = 4} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (64*p), names = ["p"]} : i64
  %n = block.index(%p) {expr = (-64*p + 150), names = ["p"]} : i64
  %v0 = block.const() {elem = i64, value = 64} : i64
  %v1 = block.ge(%n, %v0) : bool
  %v4 = if(%v1) do () {
    %v2 = block.load_view(%x, %at) {shape = [64], strides = [1]} : tile<64xf16>
    yield(%v2)
  } do () {
    %v3 = block.load_view(%x, %at, %n) {limited = [0], shape = [64], strides = [1]} : tile<64xf16>
    yield(%v3)
  } : tile<64xf16>
  %m = block.reduce(%v4) {axis = 0, kind = "max"} : f16
  block.store(%out, %p, %m)
  return()
}

func @aligned(%x: ptr<f16>, %out: ptr<f16>) {grid = 3, warps = 4} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (64*p), names = ["p"]} : i64
  %n = block.index(%p) {expr = (-64*p + 152), names = ["p"]} : i64
  %v = block.load_view(%x, %at, %n) {limited = [0], shape = [64], strides = [1]} : tile<64xf16>
  %m = block.reduce(%v) {axis = 0, kind = "max"} : f16
  block.store(%out, %p, %m)
  return()
}

func @declines(%x: ptr<f16>, %out: ptr<f16>) {grid = 3, warps = 4} {
  %p = block.program_id() : i64
  %z = block.const() {elem = i64, value = 0} : i64
  %k = block.const() {elem = i64, value = 61} : i64
  %n = block.index(%p) {expr = (-16*p + 61), names = ["p"]} : i64
  %rows = block.load_view(%x, %z, %n) {limited = [0], shape = [64, 64], strides = [64, 1]} : tile<64x64xf16>
  %known = block.load_view(%x, %z, %k) {limited = [1], shape = [64, 64], strides = [64, 1]} : tile<64x64xf16>
  %c = block.gt(%n, %z) : bool
  if(%c) do () {
    %v = block.load_view(%x, %z, %n) {limited = [1], shape = [64, 64], strides = [64, 1]} : tile<64x64xf16>
    block.store_view(%out, %z, %v) {strides = [64, 1]}
    yield()
  }
  %s = block.add(%rows, %known) : tile<64x64xf16>
  block.store_view(%out, %z, %s) {strides = [64, 1]}
  return()
}
