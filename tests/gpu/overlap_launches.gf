// RUN: overlap-launches

// the weights are read while launches before it run; the next one begins when there is but a store left
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @late(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {constants = [0], grid = 1, trigger = "late", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @early(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {constants = [0], grid = 1, trigger = "early", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

// nothing is known to be constant: it waits first of all, and lets go by ending
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @nothing_constant(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1, trigger = "end", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

// loads of what may not be constant do not move over a wait for these
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @declines(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1, noalias = ["x"], warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

// what is constant is read before the wait wherever it stands; in each branch, where there are branches
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @branches(%w: ptr<f32>, %x: ptr<f32>, %g: ptr<f32>, %out: ptr<f32>) {constants = [0, 2], grid = 2, trigger = "early", warps = 4} {
  %p = block.program_id() : i64
  %z = block.const() {elem = i64, value = 0} : i64
  %c = block.eq(%p, %z) : bool
  if(%c) do () {
    %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    %d = block.load_view(%g, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    %e = block.fma(%a, %b, %d) : tile<64xf32, #l0>
    block.store_view(%out, %z, %e) {strides = [1]}
    yield()
  } do () {
    yield()
  }
  return()
}

// what a branch gives is read behind it: the wait is in front
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @chosen(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {constants = [0], grid = 1, trigger = "early", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %c = block.eq(%n, %z) : bool
  %b = if(%c) do () {
    %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    yield(%a)
  } do () {
    %a = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    yield(%a)
  } : tile<64xf32, #l0>
  %d = block.exp(%b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %d) {strides = [1]}
  return()
}
// -----
layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @late(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {constants = [0], grid = 1, trigger = "late", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  gpu.wait_launches()
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  gpu.next_launch()
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @early(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {constants = [0], grid = 1, trigger = "early", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  gpu.wait_launches()
  gpu.next_launch()
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @nothing_constant(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1, trigger = "end", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  gpu.wait_launches()
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  gpu.next_launch()
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @declines(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 1, noalias = ["x"], warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %s = block.exp(%a) : tile<64xf32, #l0>
  %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
  %c = block.add(%s, %b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %c) {strides = [1]}
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @branches(%w: ptr<f32>, %x: ptr<f32>, %g: ptr<f32>, %out: ptr<f32>) {constants = [0, 2], grid = 2, trigger = "early", warps = 4} {
  %p = block.program_id() : i64
  %z = block.const() {elem = i64, value = 0} : i64
  %c = block.eq(%p, %z) : bool
  if(%c) do () {
    %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    %d = block.load_view(%g, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    gpu.wait_launches()
    gpu.next_launch()
    %b = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    %e = block.fma(%a, %b, %d) : tile<64xf32, #l0>
    block.store_view(%out, %z, %e) {strides = [1]}
    yield()
  } do () {
    gpu.wait_launches()
    gpu.next_launch()
    yield()
  }
  return()
}

layout #l0 = 64 linear {lane = [[1], [2], [4], [8], [16]], warp = [[32], [0]]}
func @chosen(%w: ptr<f32>, %x: ptr<f32>, %out: ptr<f32>, %n: i64) {constants = [0], grid = 1, trigger = "early", warps = 4} {
  %z = block.const() {elem = i64, value = 0} : i64
  %c = block.eq(%n, %z) : bool
  gpu.wait_launches()
  gpu.next_launch()
  %b = if(%c) do () {
    %a = block.load_view(%w, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    yield(%a)
  } do () {
    %a_0 = block.load_view(%x, %z) {layout = #l0, shape = [64], strides = [1]} : tile<64xf32, #l0>
    yield(%a_0)
  } : tile<64xf32, #l0>
  %d = block.exp(%b) : tile<64xf32, #l0>
  block.store_view(%out, %z, %d) {strides = [1]}
  return()
}
