// RUN: compute-again
// A widened half is not stored: what a row was reduced to is, and the half is read again.
func @widened(%x: tensor<64x512xbf16>) {
  %c, %s = graph.region(%x) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<64x512xbf16>) {
    %w = graph.cast(%h) {to = f32} : tensor<64x512xf32>
    %m = graph.reduce(%w) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x512xf32>
    %b = graph.broadcast(%m) {shape = [64, 512]} : tensor<64x512xf32>
    %d = graph.sub(%w, %b) : tensor<64x512xf32>
    %q = graph.reduce(%d) {axes = [0], keepdims = true, kind = "max"} : tensor<1x512xf32>
    yield(%d, %q)
  } : tensor<64x512xf32>, tensor<1x512xf32>
  %r = graph.region(%c, %s) {kernel = "pointwise_0", kind = "pointwise"} do (%d: tensor<64x512xf32>, %q: tensor<1x512xf32>) {
    %b = graph.broadcast(%q) {shape = [64, 512]} : tensor<64x512xf32>
    %p = graph.mul(%d, %b) : tensor<64x512xf32>
    %t = graph.permute(%p) {perm = [1, 0]} : tensor<512x64xf32>
    yield(%t)
  } : tensor<512x64xf32>
  return(%r)
}

// A kernel that only made what is cheap is none.
func @cheap(%x: tensor<64x512xbf16>) {
  %c = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<64x512xbf16>) {
    %w = graph.cast(%h) {to = f32} : tensor<64x512xf32>
    yield(%w)
  } : tensor<64x512xf32>
  %r = graph.region(%c) {kernel = "reduction_0", kind = "reduction"} do (%w: tensor<64x512xf32>) {
    %t = graph.permute(%w) {perm = [1, 0]} : tensor<512x64xf32>
    %m = graph.reduce(%t) {axes = [0], keepdims = false, kind = "sum"} : tensor<64xf32>
    yield(%m)
  } : tensor<64xf32>
  return(%r)
}

// The same elements in their order are stored once.
func @ordered(%x: tensor<64x512xf16>, %y: tensor<512xf16>) {
  %c, %s = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<64x512xf16>, %e: tensor<512xf16>) {
    %b = graph.broadcast(%e) {shape = [64, 512]} : tensor<64x512xf16>
    %w = graph.mul(%a, %b) : tensor<64x512xf16>
    %v = graph.exp(%w) : tensor<64x512xf16>
    %r = graph.reshape(%a) {shape = [4, 16, 512]} : tensor<4x16x512xf16>
    %f = graph.reshape(%e) {shape = [1, 1, 512]} : tensor<1x1x512xf16>
    %g = graph.broadcast(%f) {shape = [4, 16, 512]} : tensor<4x16x512xf16>
    %u = graph.mul(%r, %g) : tensor<4x16x512xf16>
    %z = graph.exp(%u) : tensor<4x16x512xf16>
    yield(%v, %z)
  } : tensor<64x512xf16>, tensor<4x16x512xf16>
  %m = graph.region(%s) {kernel = "reduction_0", kind = "reduction"} do (%z: tensor<4x16x512xf16>) {
    %n = graph.reduce(%z) {axes = [1], keepdims = false, kind = "max"} : tensor<4x512xf16>
    yield(%n)
  } : tensor<4x512xf16>
  return(%c, %m)
}
// -----
func @widened(%x: tensor<64x512xbf16>) {
  %v1, %v2 = graph.region(%x) {kernel = "reduction_0", kind = "reduction"} do (%v0: tensor<64x512xbf16>) {
    %w = graph.cast(%v0) {to = f32} : tensor<64x512xf32>
    %m = graph.reduce(%w) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x512xf32>
    %b = graph.broadcast(%m) {shape = [64, 512]} : tensor<64x512xf32>
    %d = graph.sub(%w, %b) : tensor<64x512xf32>
    %q = graph.reduce(%d) {axes = [0], keepdims = true, kind = "max"} : tensor<1x512xf32>
    yield(%q, %m)
  } : tensor<1x512xf32>, tensor<1x512xf32>
  %v6 = graph.region(%x, %v2, %v1) {kernel = "pointwise_0", kind = "pointwise"} do (%v3: tensor<64x512xbf16>, %v4: tensor<1x512xf32>, %v5: tensor<1x512xf32>) {
    %w_0 = graph.cast(%v3) {to = f32} : tensor<64x512xf32>
    %b_0 = graph.broadcast(%v4) {shape = [64, 512]} : tensor<64x512xf32>
    %d_0 = graph.sub(%w_0, %b_0) : tensor<64x512xf32>
    %b_1 = graph.broadcast(%v5) {shape = [64, 512]} : tensor<64x512xf32>
    %p = graph.mul(%d_0, %b_1) : tensor<64x512xf32>
    %t = graph.permute(%p) {perm = [1, 0]} : tensor<512x64xf32>
    yield(%t)
  } : tensor<512x64xf32>
  return(%v6)
}

func @cheap(%x: tensor<64x512xbf16>) {
  %v1 = graph.region(%x) {kernel = "reduction_0", kind = "reduction"} do (%v0: tensor<64x512xbf16>) {
    %w = graph.cast(%v0) {to = f32} : tensor<64x512xf32>
    %t = graph.permute(%w) {perm = [1, 0]} : tensor<512x64xf32>
    %m = graph.reduce(%t) {axes = [0], keepdims = false, kind = "sum"} : tensor<64xf32>
    yield(%m)
  } : tensor<64xf32>
  return(%v1)
}

func @ordered(%x: tensor<64x512xf16>, %y: tensor<512xf16>) {
  %v2 = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%v0: tensor<64x512xf16>, %v1: tensor<512xf16>) {
    %b = graph.broadcast(%v1) {shape = [64, 512]} : tensor<64x512xf16>
    %w = graph.mul(%v0, %b) : tensor<64x512xf16>
    %v = graph.exp(%w) : tensor<64x512xf16>
    yield(%v)
  } : tensor<64x512xf16>
  %v5 = graph.region(%v2) {kernel = "reduction_0", kind = "reduction"} do (%v3: tensor<64x512xf16>) {
    %v4 = graph.reshape(%v3) {shape = [4, 16, 512]} : tensor<4x16x512xf16>
    %n = graph.reduce(%v4) {axes = [1], keepdims = false, kind = "max"} : tensor<4x512xf16>
    yield(%n)
  } : tensor<4x512xf16>
  return(%v2, %v5)
}
