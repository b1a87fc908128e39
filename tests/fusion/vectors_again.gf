// RUN: vectors-again
// Two products read a norm, and nothing else does: each makes it.
func @norm(%x: tensor<1x256xbf16>, %g: tensor<256xbf16>, %a: tensor<512x256xbf16>, %b: tensor<300x256xbf16>) {
  %y = graph.region(%x, %g) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<1x256xbf16>, %s: tensor<256xbf16>) {
    %w = graph.cast(%h) {to = f32} : tensor<1x256xf32>
    %u = graph.mul(%w, %w) : tensor<1x256xf32>
    %t = graph.reduce(%u) {axes = [1], keepdims = true, kind = "sum"} : tensor<1x1xf32>
    %r = graph.sqrt(%t) : tensor<1x1xf32>
    %d = graph.broadcast(%r) {shape = [1, 256]} : tensor<1x256xf32>
    %n = graph.div(%w, %d) : tensor<1x256xf32>
    %c = graph.cast(%s) {to = f32} : tensor<256xf32>
    %e = graph.broadcast(%c) {shape = [1, 256]} : tensor<1x256xf32>
    %m = graph.mul(%n, %e) : tensor<1x256xf32>
    %o = graph.cast(%m) {to = bf16} : tensor<1x256xbf16>
    yield(%o)
  } : tensor<1x256xbf16>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<1x256xbf16>, %w: tensor<512x256xbf16>) {
    %c = graph.contract(%h, %w) {spec = "mk,nk->mn"} : tensor<1x512xbf16>
    yield(%c)
  } : tensor<1x512xbf16>
  %q = graph.region(%y, %b) {kernel = "contraction_1", kind = "contraction"} do (%h: tensor<1x256xbf16>, %w: tensor<300x256xbf16>) {
    %c = graph.contract(%h, %w) {spec = "mk,nk->mn"} : tensor<1x300xbf16>
    yield(%c)
  } : tensor<1x300xbf16>
  return(%p, %q)
}

// A matrix that lies along the columns is no walk over rows.
func @columns(%x: tensor<1x256xf32>, %a: tensor<256x512xf32>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1x256xf32>) {
    %o = graph.exp(%h) : tensor<1x256xf32>
    yield(%o)
  } : tensor<1x256xf32>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<1x256xf32>, %w: tensor<256x512xf32>) {
    %c = graph.contract(%h, %w) {spec = "mk,kn->mn"} : tensor<1x512xf32>
    yield(%c)
  } : tensor<1x512xf32>
  return(%p)
}

// Something else reads the vector: it is made once.
func @read_twice(%x: tensor<1x256xf32>, %a: tensor<512x256xf32>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1x256xf32>) {
    %o = graph.exp(%h) : tensor<1x256xf32>
    yield(%o)
  } : tensor<1x256xf32>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<1x256xf32>, %w: tensor<512x256xf32>) {
    %c = graph.contract(%h, %w) {spec = "mk,nk->mn"} : tensor<1x512xf32>
    yield(%c)
  } : tensor<1x512xf32>
  return(%p, %y)
}

// Parts that are many times as large are joined once.
func @parts(%x: tensor<16x256xf32>, %a: tensor<512x256xf32>) {
  %y = graph.region(%x) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<16x256xf32>) {
    %o = graph.reduce(%h) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x256xf32>
    yield(%o)
  } : tensor<1x256xf32>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h: tensor<1x256xf32>, %w: tensor<512x256xf32>) {
    %c = graph.contract(%h, %w) {spec = "mk,nk->mn"} : tensor<1x512xf32>
    yield(%c)
  } : tensor<1x512xf32>
  return(%p)
}
// -----
func @norm(%x: tensor<1x256xbf16>, %g: tensor<256xbf16>, %a: tensor<512x256xbf16>, %b: tensor<300x256xbf16>) {
  %p = graph.region(%x, %g, %a) {kernel = "contraction_0", kind = "contraction"} do (%v0: tensor<1x256xbf16>, %v1: tensor<256xbf16>, %v2: tensor<512x256xbf16>) {
    %w = graph.cast(%v0) {to = f32} : tensor<1x256xf32>
    %u = graph.mul(%w, %w) : tensor<1x256xf32>
    %t = graph.reduce(%u) {axes = [1], keepdims = true, kind = "sum"} : tensor<1x1xf32>
    %r = graph.sqrt(%t) : tensor<1x1xf32>
    %d = graph.broadcast(%r) {shape = [1, 256]} : tensor<1x256xf32>
    %n = graph.div(%w, %d) : tensor<1x256xf32>
    %c = graph.cast(%v1) {to = f32} : tensor<256xf32>
    %e = graph.broadcast(%c) {shape = [1, 256]} : tensor<1x256xf32>
    %m = graph.mul(%n, %e) : tensor<1x256xf32>
    %o = graph.cast(%m) {to = bf16} : tensor<1x256xbf16>
    %c_0 = graph.contract(%o, %v2) {spec = "mk,nk->mn"} : tensor<1x512xbf16>
    yield(%c_0)
  } : tensor<1x512xbf16>
  %q = graph.region(%x, %g, %b) {kernel = "contraction_1", kind = "contraction"} do (%v3: tensor<1x256xbf16>, %v4: tensor<256xbf16>, %v5: tensor<300x256xbf16>) {
    %w_0 = graph.cast(%v3) {to = f32} : tensor<1x256xf32>
    %u_0 = graph.mul(%w_0, %w_0) : tensor<1x256xf32>
    %t_0 = graph.reduce(%u_0) {axes = [1], keepdims = true, kind = "sum"} : tensor<1x1xf32>
    %r_0 = graph.sqrt(%t_0) : tensor<1x1xf32>
    %d_0 = graph.broadcast(%r_0) {shape = [1, 256]} : tensor<1x256xf32>
    %n_0 = graph.div(%w_0, %d_0) : tensor<1x256xf32>
    %c_1 = graph.cast(%v4) {to = f32} : tensor<256xf32>
    %e_0 = graph.broadcast(%c_1) {shape = [1, 256]} : tensor<1x256xf32>
    %m_0 = graph.mul(%n_0, %e_0) : tensor<1x256xf32>
    %o_0 = graph.cast(%m_0) {to = bf16} : tensor<1x256xbf16>
    %c_2 = graph.contract(%o_0, %v5) {spec = "mk,nk->mn"} : tensor<1x300xbf16>
    yield(%c_2)
  } : tensor<1x300xbf16>
  return(%p, %q)
}

func @columns(%x: tensor<1x256xf32>, %a: tensor<256x512xf32>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1x256xf32>) {
    %o = graph.exp(%h) : tensor<1x256xf32>
    yield(%o)
  } : tensor<1x256xf32>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h_0: tensor<1x256xf32>, %w: tensor<256x512xf32>) {
    %c = graph.contract(%h_0, %w) {spec = "mk,kn->mn"} : tensor<1x512xf32>
    yield(%c)
  } : tensor<1x512xf32>
  return(%p)
}

func @read_twice(%x: tensor<1x256xf32>, %a: tensor<512x256xf32>) {
  %y = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (%h: tensor<1x256xf32>) {
    %o = graph.exp(%h) : tensor<1x256xf32>
    yield(%o)
  } : tensor<1x256xf32>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h_0: tensor<1x256xf32>, %w: tensor<512x256xf32>) {
    %c = graph.contract(%h_0, %w) {spec = "mk,nk->mn"} : tensor<1x512xf32>
    yield(%c)
  } : tensor<1x512xf32>
  return(%p, %y)
}

func @parts(%x: tensor<16x256xf32>, %a: tensor<512x256xf32>) {
  %y = graph.region(%x) {kernel = "reduction_0", kind = "reduction"} do (%h: tensor<16x256xf32>) {
    %o = graph.reduce(%h) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x256xf32>
    yield(%o)
  } : tensor<1x256xf32>
  %p = graph.region(%y, %a) {kernel = "contraction_0", kind = "contraction"} do (%h_0: tensor<1x256xf32>, %w: tensor<512x256xf32>) {
    %c = graph.contract(%h_0, %w) {spec = "mk,nk->mn"} : tensor<1x512xf32>
    yield(%c)
  } : tensor<1x512xf32>
  return(%p)
}
