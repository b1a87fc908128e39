// RUN: launch-together
// Two that read the same, of different sizes, and what reads both.
func @products(%x: tensor<256xbf16>, %a: tensor<512x256xbf16>, %b: tensor<128x256xbf16>) {
  %q = graph.region(%x, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<256xbf16>, %w: tensor<512x256xbf16>) {
    %p = graph.contract(%h, %w) {elem = bf16, spec = "k,nk->n"} : tensor<512xbf16>
    yield(%p)
  } : tensor<512xbf16>
  %k = graph.region(%x, %b) {kernel = "contraction_1", kind = "contraction"} do (%h: tensor<256xbf16>, %w: tensor<128x256xbf16>) {
    %p = graph.contract(%h, %w) {elem = bf16, spec = "k,nk->n"} : tensor<128xbf16>
    yield(%p)
  } : tensor<128xbf16>
  %s = graph.region(%q, %k) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<512xbf16>, %w: tensor<128xbf16>) {
    %c = graph.slice(%h) {sizes = [128], starts = [128], steps = [1]} : tensor<128xbf16>
    %p = graph.add(%c, %w) : tensor<128xbf16>
    yield(%p)
  } : tensor<128xbf16>
  return(%s)
}

// What is written in place comes first of the results. The reader of a cache before it is changed stays before that.
func @caches(%k: tensor<8x64xf32>, %v: tensor<8x64xf32>, %x: tensor<64xf32>, %i: tensor<1xi64>) {shared = [[0, 0], [1, 1]]} {
  %m = graph.region(%v) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<8x64xf32>) {
    %s = graph.reduce(%h) {axes = [0], keepdims = false, kind = "max"} : tensor<64xf32>
    yield(%s)
  } : tensor<64xf32>
  %o = graph.region(%k, %i, %x) {in_place = [0], kernel = "scatter_0", kind = "scatter"} do (%h: tensor<8x64xf32>, %j: tensor<1xi64>, %u: tensor<64xf32>) {
    %w = graph.reshape(%j) {shape = [1, 1]} : tensor<1x1xi64>
    %r = graph.reshape(%u) {shape = [1, 64]} : tensor<1x64xf32>
    %s = graph.scatter_nd(%h, %w, %r) {kind = "set"} : tensor<8x64xf32>
    yield(%s)
  } : tensor<8x64xf32>
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<64xf32>) {
    %s = graph.neg(%h) : tensor<64xf32>
    yield(%s)
  } : tensor<64xf32>
  %p = graph.region(%v, %i, %y) {in_place = [0], kernel = "scatter_0", kind = "scatter"} do (%h: tensor<8x64xf32>, %j: tensor<1xi64>, %u: tensor<64xf32>) {
    %w = graph.reshape(%j) {shape = [1, 1]} : tensor<1x1xi64>
    %r = graph.reshape(%u) {shape = [1, 64]} : tensor<1x64xf32>
    %s = graph.scatter_nd(%h, %w, %r) {kind = "set"} : tensor<8x64xf32>
    yield(%s)
  } : tensor<8x64xf32>
  return(%o, %p, %m)
}

// A cache that one of them changes and the other reads would have to be copied.
func @read(%k: tensor<8x64xf32>, %x: tensor<64xf32>, %i: tensor<1xi64>) {
  %o = graph.region(%k, %i, %x) {in_place = [0], kernel = "scatter_0", kind = "scatter"} do (%h: tensor<8x64xf32>, %j: tensor<1xi64>, %u: tensor<64xf32>) {
    %w = graph.reshape(%j) {shape = [1, 1]} : tensor<1x1xi64>
    %r = graph.reshape(%u) {shape = [1, 64]} : tensor<1x64xf32>
    %s = graph.scatter_nd(%h, %w, %r) {kind = "set"} : tensor<8x64xf32>
    yield(%s)
  } : tensor<8x64xf32>
  %y = graph.region(%k) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<8x64xf32>) {
    %s = graph.neg(%h) : tensor<8x64xf32>
    yield(%s)
  } : tensor<8x64xf32>
  return(%o, %y)
}

// Products of matrices have blocks of their own kind.
func @matrices(%x: tensor<256x256xbf16>, %a: tensor<512x256xbf16>, %b: tensor<64xf32>) {
  %q = graph.region(%x, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<256x256xbf16>, %w: tensor<512x256xbf16>) {
    %p = graph.contract(%h, %w) {elem = bf16, spec = "mk,nk->mn"} : tensor<256x512xbf16>
    yield(%p)
  } : tensor<256x512xbf16>
  %y = graph.region(%b) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<64xf32>) {
    %s = graph.neg(%h) : tensor<64xf32>
    yield(%s)
  } : tensor<64xf32>
  return(%q, %y)
}

// In each turn of a loop.
func @turns(%x: tensor<64xf32>, %y: tensor<32xf32>) {
  %a, %b = graph.loop(%x, %y) {count = 5, symbol = "t"} do (%h: tensor<64xf32>, %g: tensor<32xf32>) {
    %c = graph.region(%h) {kernel = "pointwise_0", kind = "pointwise"} do (%z: tensor<64xf32>) {
      %s = graph.neg(%z) : tensor<64xf32>
      yield(%s)
    } : tensor<64xf32>
    %d = graph.region(%g) {kernel = "pointwise_1", kind = "pointwise"} do (%z: tensor<32xf32>) {
      %s = graph.exp(%z) : tensor<32xf32>
      yield(%s)
    } : tensor<32xf32>
    yield(%c, %d)
  } : tensor<64xf32>, tensor<32xf32>
  return(%a, %b)
}
// -----
func @products(%x: tensor<256xbf16>, %a: tensor<512x256xbf16>, %b: tensor<128x256xbf16>) {
  %v3, %v4 = graph.region(%x, %a, %b) {kernel = "together_0", kind = "together"} do (%v0: tensor<256xbf16>, %v1: tensor<512x256xbf16>, %v2: tensor<128x256xbf16>) {
    %q = graph.region(%v0, %v1) {kernel = "part_0", kind = "contraction"} do (%h: tensor<256xbf16>, %w: tensor<512x256xbf16>) {
      %p = graph.contract(%h, %w) {elem = bf16, spec = "k,nk->n"} : tensor<512xbf16>
      yield(%p)
    } : tensor<512xbf16>
    %k = graph.region(%v0, %v2) {kernel = "part_1", kind = "contraction"} do (%h_0: tensor<256xbf16>, %w_0: tensor<128x256xbf16>) {
      %p_0 = graph.contract(%h_0, %w_0) {elem = bf16, spec = "k,nk->n"} : tensor<128xbf16>
      yield(%p_0)
    } : tensor<128xbf16>
    yield(%q, %k)
  } : tensor<512xbf16>, tensor<128xbf16>
  %s = graph.region(%v3, %v4) {kernel = "pointwise_0", kind = "pointwise"} do (%h_1: tensor<512xbf16>, %w_1: tensor<128xbf16>) {
    %c = graph.slice(%h_1) {sizes = [128], starts = [128], steps = [1]} : tensor<128xbf16>
    %p_1 = graph.add(%c, %w_1) : tensor<128xbf16>
    yield(%p_1)
  } : tensor<128xbf16>
  return(%s)
}

func @caches(%k: tensor<8x64xf32>, %v: tensor<8x64xf32>, %x: tensor<64xf32>, %i: tensor<1xi64>) {shared = [[0, 0], [1, 1]]} {
  %v4, %v5, %v6 = graph.region(%v, %k, %i, %x) {in_place = [1], kernel = "together_0", kind = "together"} do (%v0: tensor<8x64xf32>, %v1: tensor<8x64xf32>, %v2: tensor<1xi64>, %v3: tensor<64xf32>) {
    %m = graph.region(%v0) {kernel = "part_0", kind = "reduction"} do (%h: tensor<8x64xf32>) {
      %s = graph.reduce(%h) {axes = [0], keepdims = false, kind = "max"} : tensor<64xf32>
      yield(%s)
    } : tensor<64xf32>
    %o = graph.region(%v1, %v2, %v3) {in_place = [0], kernel = "part_1", kind = "scatter"} do (%h_0: tensor<8x64xf32>, %j: tensor<1xi64>, %u: tensor<64xf32>) {
      %w = graph.reshape(%j) {shape = [1, 1]} : tensor<1x1xi64>
      %r = graph.reshape(%u) {shape = [1, 64]} : tensor<1x64xf32>
      %s_0 = graph.scatter_nd(%h_0, %w, %r) {kind = "set"} : tensor<8x64xf32>
      yield(%s_0)
    } : tensor<8x64xf32>
    %y = graph.region(%v3) {kernel = "part_2", kind = "pointwise"} do (%h_1: tensor<64xf32>) {
      %s_1 = graph.neg(%h_1) : tensor<64xf32>
      yield(%s_1)
    } : tensor<64xf32>
    yield(%o, %m, %y)
  } : tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>
  %p = graph.region(%v, %i, %v6) {in_place = [0], kernel = "scatter_0", kind = "scatter"} do (%h_2: tensor<8x64xf32>, %j_0: tensor<1xi64>, %u_0: tensor<64xf32>) {
    %w_0 = graph.reshape(%j_0) {shape = [1, 1]} : tensor<1x1xi64>
    %r_0 = graph.reshape(%u_0) {shape = [1, 64]} : tensor<1x64xf32>
    %s_2 = graph.scatter_nd(%h_2, %w_0, %r_0) {kind = "set"} : tensor<8x64xf32>
    yield(%s_2)
  } : tensor<8x64xf32>
  return(%v4, %p, %v5)
}

func @read(%k: tensor<8x64xf32>, %x: tensor<64xf32>, %i: tensor<1xi64>) {
  %o = graph.region(%k, %i, %x) {in_place = [0], kernel = "scatter_0", kind = "scatter"} do (%h: tensor<8x64xf32>, %j: tensor<1xi64>, %u: tensor<64xf32>) {
    %w = graph.reshape(%j) {shape = [1, 1]} : tensor<1x1xi64>
    %r = graph.reshape(%u) {shape = [1, 64]} : tensor<1x64xf32>
    %s = graph.scatter_nd(%h, %w, %r) {kind = "set"} : tensor<8x64xf32>
    yield(%s)
  } : tensor<8x64xf32>
  %y = graph.region(%k) {kernel = "pointwise_0", kind = "pointwise"} do (%h_0: tensor<8x64xf32>) {
    %s_0 = graph.neg(%h_0) : tensor<8x64xf32>
    yield(%s_0)
  } : tensor<8x64xf32>
  return(%o, %y)
}

func @matrices(%x: tensor<256x256xbf16>, %a: tensor<512x256xbf16>, %b: tensor<64xf32>) {
  %q = graph.region(%x, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<256x256xbf16>, %w: tensor<512x256xbf16>) {
    %p = graph.contract(%h, %w) {elem = bf16, spec = "mk,nk->mn"} : tensor<256x512xbf16>
    yield(%p)
  } : tensor<256x512xbf16>
  %y = graph.region(%b) {kernel = "pointwise_0", kind = "pointwise"} do (%h_0: tensor<64xf32>) {
    %s = graph.neg(%h_0) : tensor<64xf32>
    yield(%s)
  } : tensor<64xf32>
  return(%q, %y)
}

func @turns(%x: tensor<64xf32>, %y: tensor<32xf32>) {
  %a, %b = graph.loop(%x, %y) {count = 5, symbol = "t"} do (%h: tensor<64xf32>, %g: tensor<32xf32>) {
    %v2, %v3 = graph.region(%h, %g) {kernel = "together_0", kind = "together"} do (%v0: tensor<64xf32>, %v1: tensor<32xf32>) {
      %c = graph.region(%v0) {kernel = "part_0", kind = "pointwise"} do (%z: tensor<64xf32>) {
        %s = graph.neg(%z) : tensor<64xf32>
        yield(%s)
      } : tensor<64xf32>
      %d = graph.region(%v1) {kernel = "part_1", kind = "pointwise"} do (%z_0: tensor<32xf32>) {
        %s_0 = graph.exp(%z_0) : tensor<32xf32>
        yield(%s_0)
      } : tensor<32xf32>
      yield(%c, %d)
    } : tensor<64xf32>, tensor<32xf32>
    yield(%v2, %v3)
  } : tensor<64xf32>, tensor<32xf32>
  return(%a, %b)
}
