// RUN: write-over
// A chain of kernels: each writes over what the one before it wrote, but for the first, whose operand is the caller's.
func @chain(%x: tensor<1024x512xbf16>, %b: tensor<512xbf16>) {
  %y = graph.region(%x, %b) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>, %a: tensor<512xbf16>) {
    %w = graph.broadcast(%a) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s = graph.add(%h, %w) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %z = graph.region(%y, %b) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>, %a: tensor<512xbf16>) {
    %w = graph.broadcast(%a) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s = graph.add(%h, %w) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %r = graph.region(%z) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<1024x512xbf16>) {
    %m = graph.reduce(%h) {axes = [1], keepdims = true, kind = "max"} : tensor<1024x1xbf16>
    %w = graph.broadcast(%m) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s = graph.sub(%h, %w) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %o = graph.region(%r) {kernel = "pointwise_1", kind = "pointwise"} do (%h: tensor<1024x512xbf16>) {
    %s = graph.exp(%h) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  return(%o)
}

// A parameter that nobody needs afterwards, as the logits of a gradient of them.
func @donated(%x: tensor<1024x512xbf16>, %m: tensor<1024x1xbf16>, %w: tensor<512x64xbf16>) {donated = [0]} {
  %g = graph.region(%x, %m) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>, %a: tensor<1024x1xbf16>) {
    %b = graph.broadcast(%a) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s = graph.sub(%h, %b) : tensor<1024x512xbf16>
    %e = graph.exp(%s) : tensor<1024x512xbf16>
    yield(%e)
  } : tensor<1024x512xbf16>
  %r = graph.region(%g, %w) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<1024x512xbf16>, %v: tensor<512x64xbf16>) {
    %p = graph.contract(%h, %v) {elem = bf16, spec = "mk,kn->mn"} : tensor<1024x64xbf16>
    yield(%p)
  } : tensor<1024x64xbf16>
  return(%r)
}

// Elements elsewhere than at the result's place are read; or another element than the result's; or what is small.
func @turned(%x: tensor<1024x1024xbf16>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x1024xbf16>) {
    %s = graph.exp(%h) : tensor<1024x1024xbf16>
    yield(%s)
  } : tensor<1024x1024xbf16>
  %z = graph.region(%y) {kernel = "pointwise_1", kind = "pointwise"} do (%h: tensor<1024x1024xbf16>) {
    %t = graph.permute(%h) {perm = [1, 0]} : tensor<1024x1024xbf16>
    %s = graph.add(%h, %t) : tensor<1024x1024xbf16>
    yield(%s)
  } : tensor<1024x1024xbf16>
  %f = graph.region(%z) {kernel = "pointwise_2", kind = "pointwise"} do (%h: tensor<1024x1024xbf16>) {
    %s = graph.cast(%h) {to = f32} : tensor<1024x1024xf32>
    yield(%s)
  } : tensor<1024x1024xf32>
  %r = graph.region(%f) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<1024x1024xf32>) {
    %s = graph.reduce(%h) {axes = [1], keepdims = false, kind = "sum"} : tensor<1024xf32>
    yield(%s)
  } : tensor<1024xf32>
  %q = graph.region(%r) {kernel = "pointwise_3", kind = "pointwise"} do (%h: tensor<1024xf32>) {
    %s = graph.exp(%h) : tensor<1024xf32>
    yield(%s)
  } : tensor<1024xf32>
  %u = graph.region(%q) {kernel = "pointwise_3", kind = "pointwise"} do (%h: tensor<1024xf32>) {
    %s = graph.exp(%h) : tensor<1024xf32>
    yield(%s)
  } : tensor<1024xf32>
  return(%u)
}

// What somebody reads later stays, and what becomes an output is written there.
func @read_later(%x: tensor<1024x512xbf16>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>) {
    %s = graph.exp(%h) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %z = graph.region(%y) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>) {
    %s = graph.exp(%h) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %r = graph.region(%y, %z) {kernel = "pointwise_1", kind = "pointwise"} do (%h: tensor<1024x512xbf16>, %g: tensor<1024x512xbf16>) {
    %s = graph.add(%h, %g) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  return(%r)
}
// -----
func @chain(%x: tensor<1024x512xbf16>, %b: tensor<512xbf16>) {
  %y = graph.region(%x, %b) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>, %a: tensor<512xbf16>) {
    %w = graph.broadcast(%a) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s = graph.add(%h, %w) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %z = graph.region(%y, %b) {kernel = "pointwise_0_over1", kind = "pointwise", over = [[0, 0]]} do (%h_0: tensor<1024x512xbf16>, %a_0: tensor<512xbf16>) {
    %w_0 = graph.broadcast(%a_0) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s_0 = graph.add(%h_0, %w_0) : tensor<1024x512xbf16>
    yield(%s_0)
  } : tensor<1024x512xbf16>
  %r = graph.region(%z) {kernel = "reduction_0", kind = "reduction", over = [[0, 0]]} do (%h_1: tensor<1024x512xbf16>) {
    %m = graph.reduce(%h_1) {axes = [1], keepdims = true, kind = "max"} : tensor<1024x1xbf16>
    %w_1 = graph.broadcast(%m) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s_1 = graph.sub(%h_1, %w_1) : tensor<1024x512xbf16>
    yield(%s_1)
  } : tensor<1024x512xbf16>
  %o = graph.region(%r) {kernel = "pointwise_1", kind = "pointwise"} do (%h_2: tensor<1024x512xbf16>) {
    %s_2 = graph.exp(%h_2) : tensor<1024x512xbf16>
    yield(%s_2)
  } : tensor<1024x512xbf16>
  return(%o)
}

func @donated(%x: tensor<1024x512xbf16>, %m: tensor<1024x1xbf16>, %w: tensor<512x64xbf16>) {donated = [0]} {
  %g = graph.region(%x, %m) {kernel = "pointwise_0", kind = "pointwise", over = [[0, 0]]} do (%h: tensor<1024x512xbf16>, %a: tensor<1024x1xbf16>) {
    %b = graph.broadcast(%a) {shape = [1024, 512]} : tensor<1024x512xbf16>
    %s = graph.sub(%h, %b) : tensor<1024x512xbf16>
    %e = graph.exp(%s) : tensor<1024x512xbf16>
    yield(%e)
  } : tensor<1024x512xbf16>
  %r = graph.region(%g, %w) {kernel = "contraction_0", kind = "contraction"} do (%h_0: tensor<1024x512xbf16>, %v: tensor<512x64xbf16>) {
    %p = graph.contract(%h_0, %v) {elem = bf16, spec = "mk,kn->mn"} : tensor<1024x64xbf16>
    yield(%p)
  } : tensor<1024x64xbf16>
  return(%r)
}

func @turned(%x: tensor<1024x1024xbf16>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x1024xbf16>) {
    %s = graph.exp(%h) : tensor<1024x1024xbf16>
    yield(%s)
  } : tensor<1024x1024xbf16>
  %z = graph.region(%y) {kernel = "pointwise_1", kind = "pointwise"} do (%h_0: tensor<1024x1024xbf16>) {
    %t = graph.permute(%h_0) {perm = [1, 0]} : tensor<1024x1024xbf16>
    %s_0 = graph.add(%h_0, %t) : tensor<1024x1024xbf16>
    yield(%s_0)
  } : tensor<1024x1024xbf16>
  %f = graph.region(%z) {kernel = "pointwise_2", kind = "pointwise"} do (%h_1: tensor<1024x1024xbf16>) {
    %s_1 = graph.cast(%h_1) {to = f32} : tensor<1024x1024xf32>
    yield(%s_1)
  } : tensor<1024x1024xf32>
  %r = graph.region(%f) {kernel = "reduction_0", kind = "reduction"} do (%h_2: tensor<1024x1024xf32>) {
    %s_2 = graph.reduce(%h_2) {axes = [1], keepdims = false, kind = "sum"} : tensor<1024xf32>
    yield(%s_2)
  } : tensor<1024xf32>
  %q = graph.region(%r) {kernel = "pointwise_3", kind = "pointwise"} do (%h_3: tensor<1024xf32>) {
    %s_3 = graph.exp(%h_3) : tensor<1024xf32>
    yield(%s_3)
  } : tensor<1024xf32>
  %u = graph.region(%q) {kernel = "pointwise_3", kind = "pointwise"} do (%h_4: tensor<1024xf32>) {
    %s_4 = graph.exp(%h_4) : tensor<1024xf32>
    yield(%s_4)
  } : tensor<1024xf32>
  return(%u)
}

func @read_later(%x: tensor<1024x512xbf16>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1024x512xbf16>) {
    %s = graph.exp(%h) : tensor<1024x512xbf16>
    yield(%s)
  } : tensor<1024x512xbf16>
  %z = graph.region(%y) {kernel = "pointwise_0", kind = "pointwise"} do (%h_0: tensor<1024x512xbf16>) {
    %s_0 = graph.exp(%h_0) : tensor<1024x512xbf16>
    yield(%s_0)
  } : tensor<1024x512xbf16>
  %r = graph.region(%y, %z) {kernel = "pointwise_1", kind = "pointwise"} do (%h_1: tensor<1024x512xbf16>, %g: tensor<1024x512xbf16>) {
    %s_1 = graph.add(%h_1, %g) : tensor<1024x512xbf16>
    yield(%s_1)
  } : tensor<1024x512xbf16>
  return(%r)
}
