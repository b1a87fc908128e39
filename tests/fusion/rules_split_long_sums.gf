// RUN: split-long-sums
// RULES
func @reduce_in_parts(%x: tensor<2x262144xf16>, %y: tensor<2x262144xf16>) {
  %v0 = graph.mul(%x, %y) : tensor<2x262144xf16>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = true, kind = "sum"} : tensor<2x1xf16>
  return(%v1)
}
func @reduce_in_parts__columns(%x: tensor<65536x8xf32>, %h: tensor<65536x8xf16>) {
  %v0 = graph.reduce(%x) {axes = [0], kind = "max"} : tensor<8xf32>
  %v1 = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<65536xf32>
  %v2 = graph.reduce(%h) {axes = [0], kind = "sum"} : tensor<8xf16>
  return(%v0, %v1, %v2)
}
func @reduce_in_parts__odd_columns(%x: tensor<4000x33xf16>, %y: tensor<2000x32xf16>) {
  %v0 = graph.reduce(%x) {axes = [0], kind = "max"} : tensor<33xf16>
  %v1 = graph.reduce(%y) {axes = [0], kind = "max"} : tensor<32xf16>
  return(%v0, %v1)
}
func @choose_in_parts(%x: tensor<2x65536xf32>, %y: tensor<40007x2xi32>) {
  %v0, %v1 = graph.topk(%x) {axis = 1, k = 5} : tensor<2x5xf32>, tensor<2x5xi64>
  %v2, %v3 = graph.topk(%y) {axis = 0, k = 3, largest = false} : tensor<3x2xi32>, tensor<3x2xi64>
  return(%v0, %v1, %v2, %v3)
}
func @multiply_in_parts(%x: tensor<16x8192xf16>, %w: tensor<8192x64xf16>) {
  %v0 = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x64xf16>
  return(%v0)
}
func @multiply_in_parts__batch(%x: tensor<3x65536xf32>, %w: tensor<3x65536xf32>) {
  %v0 = graph.contract(%x, %w) {spec = "bp,bp->b"} : tensor<3xf32>
  return(%v0)
}
func @multiply_in_parts__row(%x: tensor<8192xf16>, %w: tensor<8192x320xf16>) {
  %v0 = graph.contract(%x, %w) {spec = "k,kn->n"} : tensor<320xf16>
  return(%v0)
}
// Positions are one dim, which lies behind the channels of an image: parts of it are whole vectors.
func @multiply_in_parts__two_dims(%x: tensor<3x8x48x30xf16>, %w: tensor<3x16x48x30xf16>) {
  %v0 = graph.contract(%x, %w) {spec = "nohw,nchw->oc"} : tensor<8x16xf16>
  return(%v0)
}
// Images, where they are enough.
func @multiply_in_parts__images(%x: tensor<8x16x16x17xf16>, %w: tensor<8x16x17x24xf16>) {
  %v0 = graph.contract(%x, %w) {spec = "nohw,nhwc->oc"} : tensor<16x24xf16>
  return(%v0)
}
func @reduce_in_parts__primes(%x: tensor<2x262147xf32>, %y: tensor<2x262147xf32>) {
  %v0 = graph.add(%x, %y) : tensor<2x262147xf32>
  %v1 = graph.reduce(%v0) {axes = [1], kind = "sum"} : tensor<2xf32>
  return(%v1)
}
func @reduce_in_parts__two_axes(%x: tensor<3x2x65536x2x3xbf16>) {
  %v0 = graph.reduce(%x) {axes = [0, 2, 4], keepdims = true, kind = "sum"} : tensor<1x2x1x2x1xbf16>
  return(%v0)
}
func @scan_in_parts(%x: tensor<2x40001xf32>) {
  %v0 = graph.cumulate(%x) {axis = 1, kind = "sum"} : tensor<2x40001xf32>
  return(%v0)
}
func @scan_in_parts__reverse(%x: tensor<16384x3xf16>) {
  %v0 = graph.cumulate(%x) {axis = 0, kind = "prod", reverse = true} : tensor<16384x3xf16>
  return(%v0)
}
func @search_in_parts(%x: tensor<262147xbf16>) {
  %v0 = graph.reduce(%x) {axes = [0], keepdims = false, kind = "min"} : tensor<bf16>
  %v1 = graph.arg_reduce(%x) {axis = 0, keepdims = false, kind = "min"} : tensor<i64>
  return(%v0, %v1)
}
func @search_in_parts__columns(%x: tensor<65536x8xi32>) {
  %v0 = graph.arg_reduce(%x) {axis = 0, keepdims = true, kind = "max", last = true} : tensor<1x8xi64>
  return(%v0)
}
// A batch norm's variance: a part has both sums, from its own mean.
func @deviations_in_parts(%x: tensor<8x512x32xf32>) {
  %s = graph.reduce(%x) {axes = [0, 1], keepdims = true, kind = "sum"} : tensor<1x1x32xf32>
  %n = graph.full() {elem = f32, shape = [1, 1, 32], value = 4096.0} : tensor<1x1x32xf32>
  %m = graph.div(%s, %n) : tensor<1x1x32xf32>
  %b = graph.broadcast(%m) {shape = [8, 512, 32]} : tensor<8x512x32xf32>
  %d = graph.sub(%x, %b) : tensor<8x512x32xf32>
  %q = graph.mul(%d, %d) : tensor<8x512x32xf32>
  %v = graph.reduce(%q) {axes = [0, 1], keepdims = true, kind = "sum"} : tensor<1x1x32xf32>
  return(%m, %v)
}
// A group norm's: channels are columns, which the second sum has of each group.
func @deviations_in_parts__groups(%x: tensor<1x4096x8x10xf32>) {
  %s = graph.reduce(%x) {axes = [1, 3], keepdims = true, kind = "sum"} : tensor<1x1x8x1xf32>
  %n = graph.full() {elem = f32, shape = [1, 1, 8, 1], value = 40960.0} : tensor<1x1x8x1xf32>
  %m = graph.div(%s, %n) : tensor<1x1x8x1xf32>
  %b = graph.broadcast(%m) {shape = [1, 4096, 8, 10]} : tensor<1x4096x8x10xf32>
  %d = graph.sub(%x, %b) : tensor<1x4096x8x10xf32>
  %q = graph.mul(%d, %d) : tensor<1x4096x8x10xf32>
  %v = graph.reduce(%q) {axes = [1, 3], keepdims = true, kind = "sum"} : tensor<1x1x8x1xf32>
  return(%m, %v)
}
func @sum_powers_in_parts(%x: tensor<2x65536xf16>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<2x65536xf32>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = true, kind = "max"} : tensor<2x1xf32>
  %v2 = graph.broadcast(%v1) {shape = [2, 65536]} : tensor<2x65536xf32>
  %v3 = graph.sub(%v0, %v2) : tensor<2x65536xf32>
  %v4 = graph.exp(%v3) : tensor<2x65536xf32>
  %v5 = graph.reduce(%v4) {axes = [1], keepdims = true, kind = "sum"} : tensor<2x1xf32>
  return(%v1, %v5)
}
func @sum_powers_in_parts__few(%x: tensor<1796x32xf32>) {
  %v0 = graph.reduce(%x) {axes = [0], keepdims = true, kind = "max"} : tensor<1x32xf32>
  %v1 = graph.broadcast(%v0) {shape = [1796, 32]} : tensor<1796x32xf32>
  %v2 = graph.sub(%x, %v1) : tensor<1796x32xf32>
  %v3 = graph.exp(%v2) : tensor<1796x32xf32>
  %v4 = graph.reduce(%v3) {axes = [0], kind = "sum"} : tensor<32xf32>
  return(%v4)
}

// No divisor will do: the last part is read over its end, and has a size of its own.
func @deviations_in_parts__primes(%x: tensor<9551x7xf16>) {
  %c = graph.cast(%x) {to = f32} : tensor<9551x7xf32>
  %s = graph.reduce(%c) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x7xf32>
  %n = graph.full() {elem = f32, shape = [1, 7], value = 9551.0} : tensor<1x7xf32>
  %m = graph.div(%s, %n) : tensor<1x7xf32>
  %b = graph.broadcast(%m) {shape = [9551, 7]} : tensor<9551x7xf32>
  %d = graph.sub(%c, %b) : tensor<9551x7xf32>
  %q = graph.mul(%d, %d) : tensor<9551x7xf32>
  %v = graph.reduce(%q) {axes = [0], keepdims = true, kind = "sum"} : tensor<1x7xf32>
  return(%m, %v)
}

func @reduce_in_parts__over_the_end(%x: tensor<16381x5xf32>) {
  %e = graph.exp(%x) : tensor<16381x5xf32>
  %s = graph.reduce(%e) {axes = [0], kind = "min"} : tensor<5xf32>
  return(%s)
}

// What is made of no memory, or repeats along the parts, is made for all of them.
func @reduce_in_parts__of_places(%x: tensor<2x140009xf32>, %r: tensor<2x1xf32>) {
  %i = graph.iota() {axis = 0, elem = i64, shape = [140009]} : tensor<140009xi64>
  %b = graph.broadcast(%i) {shape = [2, 140009]} : tensor<2x140009xi64>
  %n = graph.full() {elem = i64, shape = [2, 140009], value = 140001} : tensor<2x140009xi64>
  %e = graph.lt(%b, %n) : tensor<2x140009xbool>
  %o = graph.broadcast(%r) {shape = [2, 140009]} : tensor<2x140009xf32>
  %c = graph.select(%e, %x, %o) : tensor<2x140009xf32>
  %s = graph.reduce(%c) {axes = [1], kind = "max"} : tensor<2xf32>
  return(%s)
}

// -----
func @reduce_in_parts(%x: tensor<2x262144xf16>, %y: tensor<2x262144xf16>) {
  %v0 = graph.reshape(%x) {shape = [2, 64, 4096]} : tensor<2x64x4096xf16>
  %v1 = graph.reshape(%y) {shape = [2, 64, 4096]} : tensor<2x64x4096xf16>
  %v2 = graph.mul(%v0, %v1) : tensor<2x64x4096xf16>
  %v3 = graph.cast(%v2) {to = f32} : tensor<2x64x4096xf32>
  %v4 = graph.reduce(%v3) {axes = [2], keepdims = false, kind = "sum"} : tensor<2x64xf32>
  %v5 = graph.reduce(%v4) {axes = [1], kind = "sum"} : tensor<2xf32>
  %v6 = graph.cast(%v5) {to = f16} : tensor<2xf16>
  %v7 = graph.reshape(%v6) {shape = [2, 1]} : tensor<2x1xf16>
  return(%v7)
}

func @reduce_in_parts__columns(%x: tensor<65536x8xf32>, %h: tensor<65536x8xf16>) {
  %v0 = graph.reshape(%x) {shape = [128, 512, 8]} : tensor<128x512x8xf32>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = false, kind = "max"} : tensor<128x8xf32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "max"} : tensor<8xf32>
  %v3 = graph.reduce(%x) {axes = [1], kind = "max"} : tensor<65536xf32>
  %v4 = graph.reshape(%h) {shape = [128, 512, 8]} : tensor<128x512x8xf16>
  %v5 = graph.cast(%v4) {to = f32} : tensor<128x512x8xf32>
  %v6 = graph.reduce(%v5) {axes = [1], keepdims = false, kind = "sum"} : tensor<128x8xf32>
  %v7 = graph.reduce(%v6) {axes = [0], kind = "sum"} : tensor<8xf32>
  %v8 = graph.cast(%v7) {to = f16} : tensor<8xf16>
  return(%v2, %v3, %v8)
}

func @reduce_in_parts__odd_columns(%x: tensor<4000x33xf16>, %y: tensor<2000x32xf16>) {
  %v0 = graph.reshape(%x) {shape = [50, 80, 33]} : tensor<50x80x33xf16>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = false, kind = "max"} : tensor<50x33xf16>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "max"} : tensor<33xf16>
  %v3 = graph.reduce(%y) {axes = [0], kind = "max"} : tensor<32xf16>
  return(%v2, %v3)
}

func @choose_in_parts(%x: tensor<2x65536xf32>, %y: tensor<40007x2xi32>) {
  %v0 = graph.reshape(%x) {shape = [2, 16, 4096]} : tensor<2x16x4096xf32>
  %v1, %v2 = graph.topk(%v0) {axis = 2, k = 5, largest = true} : tensor<2x16x5xf32>, tensor<2x16x5xi64>
  %v3 = graph.reshape(%v1) {shape = [2, 80]} : tensor<2x80xf32>
  %v4, %v5 = graph.topk(%v3) {axis = 1, k = 5, largest = true} : tensor<2x5xf32>, tensor<2x5xi64>
  %v6 = graph.iota() {axis = 1, elem = i64, shape = [2, 16, 5]} : tensor<2x16x5xi64>
  %v7 = graph.full() {elem = i64, shape = [2, 16, 5], value = 4096} : tensor<2x16x5xi64>
  %v8 = graph.mul(%v6, %v7) : tensor<2x16x5xi64>
  %v9 = graph.add(%v8, %v2) : tensor<2x16x5xi64>
  %v10 = graph.reshape(%v9) {shape = [2, 80]} : tensor<2x80xi64>
  %v11 = graph.take_along(%v10, %v5) {axis = 1} : tensor<2x5xi64>
  %v12 = graph.slice(%y) {sizes = [39072, 2], starts = [0, 0], steps = [1, 1]} : tensor<39072x2xi32>
  %v13 = graph.reshape(%v12) {shape = [37, 1056, 2]} : tensor<37x1056x2xi32>
  %v14, %v15 = graph.topk(%v13) {axis = 1, k = 3, largest = false} : tensor<37x3x2xi32>, tensor<37x3x2xi64>
  %v16 = graph.slice(%y) {sizes = [935, 2], starts = [39072, 0], steps = [1, 1]} : tensor<935x2xi32>
  %v17 = graph.reshape(%v16) {shape = [1, 935, 2]} : tensor<1x935x2xi32>
  %v18, %v19 = graph.topk(%v17) {axis = 1, k = 3, largest = false} : tensor<1x3x2xi32>, tensor<1x3x2xi64>
  %v20 = graph.concat(%v14, %v18) {axis = 0} : tensor<38x3x2xi32>
  %v21 = graph.reshape(%v20) {shape = [114, 2]} : tensor<114x2xi32>
  %v22, %v23 = graph.topk(%v21) {axis = 0, k = 3, largest = false} : tensor<3x2xi32>, tensor<3x2xi64>
  %v24 = graph.iota() {axis = 0, elem = i64, shape = [38, 3, 2]} : tensor<38x3x2xi64>
  %v25 = graph.full() {elem = i64, shape = [38, 3, 2], value = 1056} : tensor<38x3x2xi64>
  %v26 = graph.mul(%v24, %v25) : tensor<38x3x2xi64>
  %v27 = graph.concat(%v15, %v19) {axis = 0} : tensor<38x3x2xi64>
  %v28 = graph.add(%v26, %v27) : tensor<38x3x2xi64>
  %v29 = graph.reshape(%v28) {shape = [114, 2]} : tensor<114x2xi64>
  %v30 = graph.take_along(%v29, %v23) {axis = 0} : tensor<3x2xi64>
  return(%v4, %v11, %v22, %v30)
}

func @multiply_in_parts(%x: tensor<16x8192xf16>, %w: tensor<8192x64xf16>) {
  %v0 = graph.reshape(%x) {shape = [16, 32, 256]} : tensor<16x32x256xf16>
  %v1 = graph.reshape(%w) {shape = [32, 256, 64]} : tensor<32x256x64xf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "mpk,pkn->pmn"} : tensor<32x16x64xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<16x64xf32>
  %v4 = graph.cast(%v3) {to = f16} : tensor<16x64xf16>
  return(%v4)
}

func @multiply_in_parts__batch(%x: tensor<3x65536xf32>, %w: tensor<3x65536xf32>) {
  %v0 = graph.reshape(%x) {shape = [3, 32, 2048]} : tensor<3x32x2048xf32>
  %v1 = graph.reshape(%w) {shape = [3, 32, 2048]} : tensor<3x32x2048xf32>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "bqp,bqp->qb"} : tensor<32x3xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<3xf32>
  return(%v3)
}

func @multiply_in_parts__row(%x: tensor<8192xf16>, %w: tensor<8192x320xf16>) {
  %v0 = graph.reshape(%x) {shape = [8, 1024]} : tensor<8x1024xf16>
  %v1 = graph.reshape(%w) {shape = [8, 1024, 320]} : tensor<8x1024x320xf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "pk,pkn->pn"} : tensor<8x320xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<320xf32>
  %v4 = graph.cast(%v3) {to = f16} : tensor<320xf16>
  return(%v4)
}

func @multiply_in_parts__two_dims(%x: tensor<3x8x48x30xf16>, %w: tensor<3x16x48x30xf16>) {
  %v0 = graph.reshape(%x) {shape = [3, 8, 15, 96]} : tensor<3x8x15x96xf16>
  %v1 = graph.reshape(%w) {shape = [3, 16, 15, 96]} : tensor<3x16x15x96xf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "nopw,ncpw->poc"} : tensor<15x8x16xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<8x16xf32>
  %v4 = graph.cast(%v3) {to = f16} : tensor<8x16xf16>
  return(%v4)
}

func @multiply_in_parts__images(%x: tensor<8x16x16x17xf16>, %w: tensor<8x16x17x24xf16>) {
  %v0 = graph.reshape(%x) {shape = [8, 1, 16, 272]} : tensor<8x1x16x272xf16>
  %v1 = graph.reshape(%w) {shape = [8, 1, 272, 24]} : tensor<8x1x272x24xf16>
  %v2 = graph.contract(%v0, %v1) {elem = f32, spec = "pnow,pnwc->poc"} : tensor<8x16x24xf32>
  %v3 = graph.reduce(%v2) {axes = [0], kind = "sum"} : tensor<16x24xf32>
  %v4 = graph.cast(%v3) {to = f16} : tensor<16x24xf16>
  return(%v4)
}

func @reduce_in_parts__primes(%x: tensor<2x262147xf32>, %y: tensor<2x262147xf32>) {
  %v0 = graph.iota() {axis = 1, elem = i64, shape = [1, 65, 4096]} : tensor<1x65x4096xi64>
  %v1 = graph.full() {elem = i64, shape = [1, 65, 4096], value = 4096} : tensor<1x65x4096xi64>
  %v2 = graph.mul(%v0, %v1) : tensor<1x65x4096xi64>
  %v3 = graph.iota() {axis = 2, elem = i64, shape = [1, 65, 4096]} : tensor<1x65x4096xi64>
  %v4 = graph.add(%v2, %v3) : tensor<1x65x4096xi64>
  %v5 = graph.full() {elem = i64, shape = [1, 65, 4096], value = 262147} : tensor<1x65x4096xi64>
  %v6 = graph.lt(%v4, %v5) : tensor<1x65x4096xbool>
  %v7 = graph.broadcast(%v6) {shape = [2, 65, 4096]} : tensor<2x65x4096xbool>
  %v8 = graph.pad(%x) {high = [0, 4093], low = [0, 0], value = 0} : tensor<2x266240xf32>
  %v9 = graph.reshape(%v8) {shape = [2, 65, 4096]} : tensor<2x65x4096xf32>
  %v10 = graph.pad(%y) {high = [0, 4093], low = [0, 0], value = 0} : tensor<2x266240xf32>
  %v11 = graph.reshape(%v10) {shape = [2, 65, 4096]} : tensor<2x65x4096xf32>
  %v12 = graph.add(%v9, %v11) : tensor<2x65x4096xf32>
  %v13 = graph.full() {elem = f32, shape = [2, 65, 4096], value = 0.0} : tensor<2x65x4096xf32>
  %v14 = graph.select(%v7, %v12, %v13) : tensor<2x65x4096xf32>
  %v15 = graph.reduce(%v14) {axes = [2], keepdims = false, kind = "sum"} : tensor<2x65xf32>
  %v16 = graph.reduce(%v15) {axes = [1], kind = "sum"} : tensor<2xf32>
  return(%v16)
}

func @reduce_in_parts__two_axes(%x: tensor<3x2x65536x2x3xbf16>) {
  %v0 = graph.reshape(%x) {shape = [3, 2, 32, 2048, 2, 3]} : tensor<3x2x32x2048x2x3xbf16>
  %v1 = graph.cast(%v0) {to = f32} : tensor<3x2x32x2048x2x3xf32>
  %v2 = graph.reduce(%v1) {axes = [0, 3, 5], keepdims = false, kind = "sum"} : tensor<2x32x2xf32>
  %v3 = graph.reduce(%v2) {axes = [1], kind = "sum"} : tensor<2x2xf32>
  %v4 = graph.cast(%v3) {to = bf16} : tensor<2x2xbf16>
  %v5 = graph.reshape(%v4) {shape = [1, 2, 1, 2, 1]} : tensor<1x2x1x2x1xbf16>
  return(%v5)
}

func @scan_in_parts(%x: tensor<2x40001xf32>) {
  %v0 = graph.slice(%x) {sizes = [2, 36864], starts = [0, 0], steps = [1, 1]} : tensor<2x36864xf32>
  %v1 = graph.reshape(%v0) {shape = [2, 9, 4096]} : tensor<2x9x4096xf32>
  %v2 = graph.cast(%v1) {to = f64} : tensor<2x9x4096xf64>
  %v3 = graph.reduce(%v2) {axes = [2], kind = "sum"} : tensor<2x9xf64>
  %v4 = graph.cumulate(%v3) {axis = 1, kind = "sum"} : tensor<2x9xf64>
  %v5 = graph.cumulate(%x, %v4) {axis = 1, kind = "sum", part = 4096} : tensor<2x40001xf32>
  return(%v5)
}

func @scan_in_parts__reverse(%x: tensor<16384x3xf16>) {
  %v0 = graph.slice(%x) {sizes = [15360, 3], starts = [1024, 0], steps = [1, 1]} : tensor<15360x3xf16>
  %v1 = graph.reshape(%v0) {shape = [15, 1024, 3]} : tensor<15x1024x3xf16>
  %v2 = graph.cast(%v1) {to = f64} : tensor<15x1024x3xf64>
  %v3 = graph.reduce(%v2) {axes = [1], kind = "prod"} : tensor<15x3xf64>
  %v4 = graph.flip(%v3) {axes = [0]} : tensor<15x3xf64>
  %v5 = graph.cumulate(%v4) {axis = 0, kind = "prod"} : tensor<15x3xf64>
  %v6 = graph.cumulate(%x, %v5) {axis = 0, kind = "prod", part = 1024, reverse = true} : tensor<16384x3xf16>
  return(%v6)
}

func @search_in_parts(%x: tensor<262147xbf16>) {
  %v0 = graph.iota() {axis = 0, elem = i64, shape = [65, 4096]} : tensor<65x4096xi64>
  %v1 = graph.full() {elem = i64, shape = [65, 4096], value = 4096} : tensor<65x4096xi64>
  %v2 = graph.mul(%v0, %v1) : tensor<65x4096xi64>
  %v3 = graph.iota() {axis = 1, elem = i64, shape = [65, 4096]} : tensor<65x4096xi64>
  %v4 = graph.add(%v2, %v3) : tensor<65x4096xi64>
  %v5 = graph.full() {elem = i64, shape = [65, 4096], value = 262147} : tensor<65x4096xi64>
  %v6 = graph.lt(%v4, %v5) : tensor<65x4096xbool>
  %v7 = graph.pad(%x) {high = [4093], low = [0], value = 0} : tensor<266240xbf16>
  %v8 = graph.reshape(%v7) {shape = [65, 4096]} : tensor<65x4096xbf16>
  %v9 = graph.full() {elem = bf16, shape = [65, 4096], value = inf} : tensor<65x4096xbf16>
  %v10 = graph.select(%v6, %v8, %v9) : tensor<65x4096xbf16>
  %v11 = graph.reduce(%v10) {axes = [1], keepdims = false, kind = "min"} : tensor<65xbf16>
  %v12 = graph.reduce(%v11) {axes = [0], kind = "min"} : tensor<bf16>
  %v13 = graph.broadcast(%v12) {shape = [65]} : tensor<65xbf16>
  %v14 = graph.eq(%v11, %v13) : tensor<65xbool>
  %v15 = graph.isnan(%v11) : tensor<65xbool>
  %v16 = graph.or(%v14, %v15) : tensor<65xbool>
  %v17 = graph.iota() {axis = 0, elem = i64, shape = [65]} : tensor<65xi64>
  %v18 = graph.full() {elem = i64, shape = [65], value = 4096} : tensor<65xi64>
  %v19 = graph.mul(%v17, %v18) : tensor<65xi64>
  %v20 = graph.arg_reduce(%v10) {axis = 1, kind = "min", last = false} : tensor<65xi64>
  %v21 = graph.add(%v19, %v20) : tensor<65xi64>
  %v22 = graph.full() {elem = i64, shape = [65], value = 9223372036854775807} : tensor<65xi64>
  %v23 = graph.select(%v16, %v21, %v22) : tensor<65xi64>
  %v24 = graph.reduce(%v23) {axes = [0], keepdims = false, kind = "min"} : tensor<i64>
  return(%v12, %v24)
}

func @search_in_parts__columns(%x: tensor<65536x8xi32>) {
  %v0 = graph.reshape(%x) {shape = [128, 512, 8]} : tensor<128x512x8xi32>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = false, kind = "max"} : tensor<128x8xi32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "max"} : tensor<8xi32>
  %v3 = graph.broadcast(%v2) {shape = [128, 8]} : tensor<128x8xi32>
  %v4 = graph.eq(%v1, %v3) : tensor<128x8xbool>
  %v5 = graph.iota() {axis = 0, elem = i64, shape = [128, 8]} : tensor<128x8xi64>
  %v6 = graph.full() {elem = i64, shape = [128, 8], value = 512} : tensor<128x8xi64>
  %v7 = graph.mul(%v5, %v6) : tensor<128x8xi64>
  %v8 = graph.arg_reduce(%v0) {axis = 1, kind = "max", last = true} : tensor<128x8xi64>
  %v9 = graph.add(%v7, %v8) : tensor<128x8xi64>
  %v10 = graph.full() {elem = i64, shape = [128, 8], value = -1} : tensor<128x8xi64>
  %v11 = graph.select(%v4, %v9, %v10) : tensor<128x8xi64>
  %v12 = graph.reduce(%v11) {axes = [0], keepdims = false, kind = "max"} : tensor<8xi64>
  %v13 = graph.reshape(%v12) {shape = [1, 8]} : tensor<1x8xi64>
  return(%v13)
}

func @deviations_in_parts(%x: tensor<8x512x32xf32>) {
  %v0 = graph.reshape(%x) {shape = [32, 128, 32]} : tensor<32x128x32xf32>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = false, kind = "sum"} : tensor<32x32xf32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "sum"} : tensor<32xf32>
  %v3 = graph.reshape(%v2) {shape = [1, 1, 32]} : tensor<1x1x32xf32>
  %n = graph.full() {elem = f32, shape = [1, 1, 32], value = 4096.0} : tensor<1x1x32xf32>
  %m = graph.div(%v3, %n) : tensor<1x1x32xf32>
  %v4 = graph.full() {elem = f32, shape = [32, 32], value = 128.0} : tensor<32x32xf32>
  %v5 = graph.div(%v1, %v4) : tensor<32x32xf32>
  %v6 = graph.reshape(%v5) {shape = [32, 1, 32]} : tensor<32x1x32xf32>
  %v7 = graph.broadcast(%v6) {shape = [32, 128, 32]} : tensor<32x128x32xf32>
  %v8 = graph.sub(%v0, %v7) : tensor<32x128x32xf32>
  %v9 = graph.mul(%v8, %v8) : tensor<32x128x32xf32>
  %v10 = graph.reduce(%v9) {axes = [1], keepdims = false, kind = "sum"} : tensor<32x32xf32>
  %v11 = graph.reduce(%v10) {axes = [0], kind = "sum"} : tensor<32xf32>
  %v12 = graph.reshape(%m) {shape = [1, 32]} : tensor<1x32xf32>
  %v13 = graph.broadcast(%v12) {shape = [32, 32]} : tensor<32x32xf32>
  %v14 = graph.sub(%v5, %v13) : tensor<32x32xf32>
  %v15 = graph.mul(%v14, %v14) : tensor<32x32xf32>
  %v16 = graph.mul(%v15, %v4) : tensor<32x32xf32>
  %v17 = graph.reduce(%v16) {axes = [0], kind = "sum"} : tensor<32xf32>
  %v18 = graph.add(%v11, %v17) : tensor<32xf32>
  %v19 = graph.reshape(%v18) {shape = [1, 1, 32]} : tensor<1x1x32xf32>
  return(%m, %v19)
}

func @deviations_in_parts__groups(%x: tensor<1x4096x8x10xf32>) {
  %v0 = graph.reshape(%x) {shape = [1, 32, 128, 8, 10]} : tensor<1x32x128x8x10xf32>
  %v1 = graph.reduce(%v0) {axes = [2], keepdims = false, kind = "sum"} : tensor<1x32x8x10xf32>
  %v2 = graph.reduce(%v1) {axes = [1, 3], kind = "sum"} : tensor<1x8xf32>
  %v3 = graph.reshape(%v2) {shape = [1, 1, 8, 1]} : tensor<1x1x8x1xf32>
  %n = graph.full() {elem = f32, shape = [1, 1, 8, 1], value = 40960.0} : tensor<1x1x8x1xf32>
  %m = graph.div(%v3, %n) : tensor<1x1x8x1xf32>
  %v4 = graph.full() {elem = f32, shape = [1, 32, 8, 10], value = 128.0} : tensor<1x32x8x10xf32>
  %v5 = graph.div(%v1, %v4) : tensor<1x32x8x10xf32>
  %v6 = graph.reshape(%v5) {shape = [1, 32, 1, 8, 10]} : tensor<1x32x1x8x10xf32>
  %v7 = graph.broadcast(%v6) {shape = [1, 32, 128, 8, 10]} : tensor<1x32x128x8x10xf32>
  %v8 = graph.sub(%v0, %v7) : tensor<1x32x128x8x10xf32>
  %v9 = graph.mul(%v8, %v8) : tensor<1x32x128x8x10xf32>
  %v10 = graph.reduce(%v9) {axes = [2], keepdims = false, kind = "sum"} : tensor<1x32x8x10xf32>
  %v11 = graph.reduce(%v10) {axes = [1, 3], kind = "sum"} : tensor<1x8xf32>
  %v12 = graph.broadcast(%m) {shape = [1, 32, 8, 10]} : tensor<1x32x8x10xf32>
  %v13 = graph.sub(%v5, %v12) : tensor<1x32x8x10xf32>
  %v14 = graph.mul(%v13, %v13) : tensor<1x32x8x10xf32>
  %v15 = graph.mul(%v14, %v4) : tensor<1x32x8x10xf32>
  %v16 = graph.reduce(%v15) {axes = [1, 3], kind = "sum"} : tensor<1x8xf32>
  %v17 = graph.add(%v11, %v16) : tensor<1x8xf32>
  %v18 = graph.reshape(%v17) {shape = [1, 1, 8, 1]} : tensor<1x1x8x1xf32>
  return(%m, %v18)
}

func @sum_powers_in_parts(%x: tensor<2x65536xf16>) {
  %v0 = graph.reshape(%x) {shape = [2, 16, 4096]} : tensor<2x16x4096xf16>
  %v1 = graph.cast(%v0) {to = f32} : tensor<2x16x4096xf32>
  %v2 = graph.reduce(%v1) {axes = [2], keepdims = false, kind = "max"} : tensor<2x16xf32>
  %v3 = graph.reduce(%v2) {axes = [1], kind = "max"} : tensor<2xf32>
  %v4 = graph.reshape(%v3) {shape = [2, 1]} : tensor<2x1xf32>
  %v5 = graph.isinf(%v2) : tensor<2x16xbool>
  %v6 = graph.full() {elem = f32, shape = [2, 16], value = 0.0} : tensor<2x16xf32>
  %v7 = graph.select(%v5, %v6, %v2) : tensor<2x16xf32>
  %v8 = graph.reshape(%v7) {shape = [2, 16, 1]} : tensor<2x16x1xf32>
  %v9 = graph.broadcast(%v8) {shape = [2, 16, 4096]} : tensor<2x16x4096xf32>
  %v10 = graph.sub(%v1, %v9) : tensor<2x16x4096xf32>
  %v11 = graph.exp(%v10) : tensor<2x16x4096xf32>
  %v12 = graph.reduce(%v11) {axes = [2], keepdims = false, kind = "sum"} : tensor<2x16xf32>
  %v13 = graph.broadcast(%v4) {shape = [2, 16]} : tensor<2x16xf32>
  %v14 = graph.sub(%v2, %v13) : tensor<2x16xf32>
  %v15 = graph.exp(%v14) : tensor<2x16xf32>
  %v16 = graph.mul(%v12, %v15) : tensor<2x16xf32>
  %v17 = graph.reduce(%v16) {axes = [1], kind = "sum"} : tensor<2xf32>
  %v18 = graph.reshape(%v17) {shape = [2, 1]} : tensor<2x1xf32>
  return(%v4, %v18)
}

func @sum_powers_in_parts__few(%x: tensor<1796x32xf32>) {
  %v0 = graph.reshape(%x) {shape = [4, 449, 32]} : tensor<4x449x32xf32>
  %v1 = graph.reduce(%v0) {axes = [1], keepdims = false, kind = "max"} : tensor<4x32xf32>
  %v2 = graph.reduce(%v1) {axes = [0], kind = "max"} : tensor<32xf32>
  %v3 = graph.isinf(%v1) : tensor<4x32xbool>
  %v4 = graph.full() {elem = f32, shape = [4, 32], value = 0.0} : tensor<4x32xf32>
  %v5 = graph.select(%v3, %v4, %v1) : tensor<4x32xf32>
  %v6 = graph.reshape(%v5) {shape = [4, 1, 32]} : tensor<4x1x32xf32>
  %v7 = graph.broadcast(%v6) {shape = [4, 449, 32]} : tensor<4x449x32xf32>
  %v8 = graph.sub(%v0, %v7) : tensor<4x449x32xf32>
  %v9 = graph.exp(%v8) : tensor<4x449x32xf32>
  %v10 = graph.reduce(%v9) {axes = [1], keepdims = false, kind = "sum"} : tensor<4x32xf32>
  %v11 = graph.broadcast(%v2) {shape = [4, 32]} : tensor<4x32xf32>
  %v12 = graph.sub(%v1, %v11) : tensor<4x32xf32>
  %v13 = graph.exp(%v12) : tensor<4x32xf32>
  %v14 = graph.mul(%v10, %v13) : tensor<4x32xf32>
  %v15 = graph.reduce(%v14) {axes = [0], kind = "sum"} : tensor<32xf32>
  return(%v15)
}

func @deviations_in_parts__primes(%x: tensor<9551x7xf16>) {
  %v0 = graph.pad(%x) {high = [49, 0], low = [0, 0], value = 0} : tensor<9600x7xf16>
  %v1 = graph.reshape(%v0) {shape = [30, 320, 7]} : tensor<30x320x7xf16>
  %v2 = graph.cast(%v1) {to = f32} : tensor<30x320x7xf32>
  %v3 = graph.reduce(%v2) {axes = [1], keepdims = false, kind = "sum"} : tensor<30x7xf32>
  %v4 = graph.reduce(%v3) {axes = [0], kind = "sum"} : tensor<7xf32>
  %v5 = graph.reshape(%v4) {shape = [1, 7]} : tensor<1x7xf32>
  %n = graph.full() {elem = f32, shape = [1, 7], value = 9551.0} : tensor<1x7xf32>
  %m = graph.div(%v5, %n) : tensor<1x7xf32>
  %v6 = graph.iota() {axis = 0, elem = i64, shape = [30, 320, 1]} : tensor<30x320x1xi64>
  %v7 = graph.full() {elem = i64, shape = [30, 320, 1], value = 320} : tensor<30x320x1xi64>
  %v8 = graph.mul(%v6, %v7) : tensor<30x320x1xi64>
  %v9 = graph.iota() {axis = 1, elem = i64, shape = [30, 320, 1]} : tensor<30x320x1xi64>
  %v10 = graph.add(%v8, %v9) : tensor<30x320x1xi64>
  %v11 = graph.full() {elem = i64, shape = [30, 320, 1], value = 9551} : tensor<30x320x1xi64>
  %v12 = graph.lt(%v10, %v11) : tensor<30x320x1xbool>
  %v13 = graph.broadcast(%v12) {shape = [30, 320, 7]} : tensor<30x320x7xbool>
  %v14 = graph.full() {elem = i64, shape = [30, 7], value = 9551} : tensor<30x7xi64>
  %v15 = graph.iota() {axis = 0, elem = i64, shape = [30, 7]} : tensor<30x7xi64>
  %v16 = graph.full() {elem = i64, shape = [30, 7], value = 320} : tensor<30x7xi64>
  %v17 = graph.mul(%v15, %v16) : tensor<30x7xi64>
  %v18 = graph.sub(%v14, %v17) : tensor<30x7xi64>
  %v19 = graph.min(%v18, %v16) : tensor<30x7xi64>
  %v20 = graph.full() {elem = i64, shape = [30, 7], value = 1} : tensor<30x7xi64>
  %v21 = graph.mul(%v19, %v20) : tensor<30x7xi64>
  %v22 = graph.cast(%v21) {to = f32} : tensor<30x7xf32>
  %v23 = graph.div(%v3, %v22) : tensor<30x7xf32>
  %v24 = graph.reshape(%v23) {shape = [30, 1, 7]} : tensor<30x1x7xf32>
  %v25 = graph.broadcast(%v24) {shape = [30, 320, 7]} : tensor<30x320x7xf32>
  %v26 = graph.sub(%v2, %v25) : tensor<30x320x7xf32>
  %v27 = graph.full() {elem = f32, shape = [30, 320, 7], value = 0.0} : tensor<30x320x7xf32>
  %v28 = graph.select(%v13, %v26, %v27) : tensor<30x320x7xf32>
  %v29 = graph.mul(%v28, %v28) : tensor<30x320x7xf32>
  %v30 = graph.reduce(%v29) {axes = [1], keepdims = false, kind = "sum"} : tensor<30x7xf32>
  %v31 = graph.reduce(%v30) {axes = [0], kind = "sum"} : tensor<7xf32>
  %v32 = graph.broadcast(%m) {shape = [30, 7]} : tensor<30x7xf32>
  %v33 = graph.sub(%v23, %v32) : tensor<30x7xf32>
  %v34 = graph.mul(%v33, %v33) : tensor<30x7xf32>
  %v35 = graph.mul(%v34, %v22) : tensor<30x7xf32>
  %v36 = graph.reduce(%v35) {axes = [0], kind = "sum"} : tensor<7xf32>
  %v37 = graph.add(%v31, %v36) : tensor<7xf32>
  %v38 = graph.reshape(%v37) {shape = [1, 7]} : tensor<1x7xf32>
  return(%m, %v38)
}

func @reduce_in_parts__over_the_end(%x: tensor<16381x5xf32>) {
  %v0 = graph.slice(%x) {sizes = [16224, 5], starts = [0, 0], steps = [1, 1]} : tensor<16224x5xf32>
  %v1 = graph.reshape(%v0) {shape = [39, 416, 5]} : tensor<39x416x5xf32>
  %v2 = graph.exp(%v1) : tensor<39x416x5xf32>
  %v3 = graph.reduce(%v2) {axes = [1], keepdims = false, kind = "min"} : tensor<39x5xf32>
  %v4 = graph.slice(%x) {sizes = [157, 5], starts = [16224, 0], steps = [1, 1]} : tensor<157x5xf32>
  %v5 = graph.reshape(%v4) {shape = [1, 157, 5]} : tensor<1x157x5xf32>
  %v6 = graph.exp(%v5) : tensor<1x157x5xf32>
  %v7 = graph.reduce(%v6) {axes = [1], keepdims = false, kind = "min"} : tensor<1x5xf32>
  %v8 = graph.concat(%v3, %v7) {axis = 0} : tensor<40x5xf32>
  %v9 = graph.reduce(%v8) {axes = [0], kind = "min"} : tensor<5xf32>
  return(%v9)
}

func @reduce_in_parts__of_places(%x: tensor<2x140009xf32>, %r: tensor<2x1xf32>) {
  %v0 = graph.iota() {axis = 1, elem = i64, shape = [1, 35, 4096]} : tensor<1x35x4096xi64>
  %v1 = graph.full() {elem = i64, shape = [1, 35, 4096], value = 4096} : tensor<1x35x4096xi64>
  %v2 = graph.mul(%v0, %v1) : tensor<1x35x4096xi64>
  %v3 = graph.iota() {axis = 2, elem = i64, shape = [1, 35, 4096]} : tensor<1x35x4096xi64>
  %v4 = graph.add(%v2, %v3) : tensor<1x35x4096xi64>
  %v5 = graph.full() {elem = i64, shape = [1, 35, 4096], value = 140009} : tensor<1x35x4096xi64>
  %v6 = graph.lt(%v4, %v5) : tensor<1x35x4096xbool>
  %v7 = graph.broadcast(%v6) {shape = [2, 35, 4096]} : tensor<2x35x4096xbool>
  %v8 = graph.broadcast(%v4) {shape = [2, 35, 4096]} : tensor<2x35x4096xi64>
  %v9 = graph.full() {elem = i64, shape = [2, 35, 4096], value = 140001} : tensor<2x35x4096xi64>
  %v10 = graph.lt(%v8, %v9) : tensor<2x35x4096xbool>
  %v11 = graph.pad(%x) {high = [0, 3351], low = [0, 0], value = 0} : tensor<2x143360xf32>
  %v12 = graph.reshape(%v11) {shape = [2, 35, 4096]} : tensor<2x35x4096xf32>
  %v13 = graph.reshape(%r) {shape = [2, 1, 1]} : tensor<2x1x1xf32>
  %v14 = graph.broadcast(%v13) {shape = [2, 35, 4096]} : tensor<2x35x4096xf32>
  %v15 = graph.select(%v10, %v12, %v14) : tensor<2x35x4096xf32>
  %v16 = graph.full() {elem = f32, shape = [2, 35, 4096], value = -inf} : tensor<2x35x4096xf32>
  %v17 = graph.select(%v7, %v15, %v16) : tensor<2x35x4096xf32>
  %v18 = graph.reduce(%v17) {axes = [2], keepdims = false, kind = "max"} : tensor<2x35xf32>
  %v19 = graph.reduce(%v18) {axes = [1], kind = "max"} : tensor<2xf32>
  return(%v19)
}
