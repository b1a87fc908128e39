// RUN: short-functions
// HALVES

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @fires(%x: ptr<f32>, %out: ptr<f16>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.mul(%a, %s) : tile<64xf32, #l0>
  %h = block.cast(%g) {to = f16} : tile<64xf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}

// a sum may cancel
layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @declines(%x: ptr<f32>, %out: ptr<f16>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.add(%a, %s) : tile<64xf32, #l0>
  %h = block.cast(%g) {to = f16} : tile<64xf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @strict(%x: ptr<f32>, %out: ptr<f16>) {grid = 1, numerics = "strict", warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.mul(%a, %s) : tile<64xf32, #l0>
  %h = block.cast(%g) {to = f16} : tile<64xf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}

// nobody rounds
layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @stored_as_it_is(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.mul(%a, %s) : tile<64xf32, #l0>
  block.store_view(%out, %z, %g) {strides = [1]}
  return()
}

// its error counts as often as it occurs: four times at most
layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @powers(%x: ptr<f32>, %out: ptr<bf16>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %t = block.sigmoid(%a) : tile<64xf32, #l0>
  %s2 = block.mul(%s, %s) : tile<64xf32, #l0>
  %s4 = block.mul(%s2, %s2) : tile<64xf32, #l0>
  %s4t = block.mul(%s4, %t) : tile<64xf32, #l0>
  %t2 = block.mul(%t, %t) : tile<64xf32, #l0>
  %s4t3 = block.mul(%s4t, %t2) : tile<64xf32, #l0>
  %s5t3 = block.mul(%s4t3, %s) : tile<64xf32, #l0>
  %h = block.cast(%s5t3) {to = bf16} : tile<64xbf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}
// -----
layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @fires(%x: ptr<f32>, %out: ptr<f16>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = gpu.short(%a) {function = "sigmoid"} : tile<64xf32, #l0>
  %g = block.mul(%a, %s) : tile<64xf32, #l0>
  %h = block.cast(%g) {to = f16} : tile<64xf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @declines(%x: ptr<f32>, %out: ptr<f16>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.add(%a, %s) : tile<64xf32, #l0>
  %h = block.cast(%g) {to = f16} : tile<64xf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @strict(%x: ptr<f32>, %out: ptr<f16>) {grid = 1, numerics = "strict", warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.mul(%a, %s) : tile<64xf32, #l0>
  %h = block.cast(%g) {to = f16} : tile<64xf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @stored_as_it_is(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.sigmoid(%a) : tile<64xf32, #l0>
  %g = block.mul(%a, %s) : tile<64xf32, #l0>
  block.store_view(%out, %z, %g) {strides = [1]}
  return()
}

layout #l0 = 64 linear {register = [[1]], lane = [[2], [4], [8], [16], [32]]}
func @powers(%x: ptr<f32>, %out: ptr<bf16>) {grid = 1, warps = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %t = gpu.short(%a) {function = "sigmoid"} : tile<64xf32, #l0>
  %s2 = block.mul(%s, %s) : tile<64xf32, #l0>
  %s4 = block.mul(%s2, %s2) : tile<64xf32, #l0>
  %s4t = block.mul(%s4, %t) : tile<64xf32, #l0>
  %t2 = block.mul(%t, %t) : tile<64xf32, #l0>
  %s4t3 = block.mul(%s4t, %t2) : tile<64xf32, #l0>
  %s5t3 = block.mul(%s4t3, %s) : tile<64xf32, #l0>
  %h = block.cast(%s5t3) {to = bf16} : tile<64xbf16, #l0>
  block.store_view(%out, %z, %h) {strides = [1]}
  return()
}
