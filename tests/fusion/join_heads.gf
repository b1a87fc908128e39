// RUN: join-heads
// Heads repeated for each query head, a head of keys for all, and more queries than one with another order of results.
func @f(%q: tensor<2x4x1x8xf32>, %k: tensor<2x2x5x8xf32>) {
  %k1 = graph.reshape(%k) {shape = [2, 2, 1, 5, 8]} : tensor<2x2x1x5x8xf32>
  %k2 = graph.broadcast(%k1) {shape = [2, 2, 2, 5, 8]} : tensor<2x2x2x5x8xf32>
  %k4 = graph.reshape(%k2) {shape = [2, 4, 5, 8]} : tensor<2x4x5x8xf32>
  %s = graph.contract(%q, %k4) {spec = "bhqd,bhkd->bhqk"} : tensor<2x4x1x5xf32>
  %m = graph.reduce(%s) {axes = [3], keepdims = true, kind = "max"} : tensor<2x4x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [2, 4, 1, 5]} : tensor<2x4x1x5xf32>
  %c = graph.sub(%s, %mb) : tensor<2x4x1x5xf32>
  %e = graph.exp(%c) : tensor<2x4x1x5xf32>
  %t = graph.reduce(%e) {axes = [3], keepdims = true, kind = "sum"} : tensor<2x4x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [2, 4, 1, 5]} : tensor<2x4x1x5xf32>
  %p = graph.div(%e, %tb) : tensor<2x4x1x5xf32>
  %y = graph.contract(%p, %k4) {spec = "bhqk,bhkd->bhqd"} : tensor<2x4x1x8xf32>
  return(%y)
}

func @all(%q: tensor<4x1x8xf32>, %k: tensor<1x5x8xf32>, %mask: tensor<1x5xf32>) {
  %k4 = graph.broadcast(%k) {shape = [4, 5, 8]} : tensor<4x5x8xf32>
  %z = graph.contract(%q, %k4) {spec = "hqd,hkd->hqk"} : tensor<4x1x5xf32>
  %n = graph.broadcast(%mask) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %s = graph.add(%z, %n) : tensor<4x1x5xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<4x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %c = graph.sub(%s, %mb) : tensor<4x1x5xf32>
  %e = graph.exp(%c) : tensor<4x1x5xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<4x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %p = graph.div(%e, %tb) : tensor<4x1x5xf32>
  %y = graph.contract(%p, %k4) {spec = "hqk,hkd->hqd"} : tensor<4x1x8xf32>
  return(%y)
}

func @turned(%q: tensor<4x3x8xf32>, %k: tensor<5x8xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,kd->hqk"} : tensor<4x3x5xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<4x3x1xf32>
  %mb = graph.broadcast(%m) {shape = [4, 3, 5]} : tensor<4x3x5xf32>
  %c = graph.sub(%s, %mb) : tensor<4x3x5xf32>
  %e = graph.exp(%c) : tensor<4x3x5xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<4x3x1xf32>
  %tb = graph.broadcast(%t) {shape = [4, 3, 5]} : tensor<4x3x5xf32>
  %p = graph.div(%e, %tb) : tensor<4x3x5xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,kd->qhd"} : tensor<3x4x8xf32>
  return(%y)
}
// -----
func @f(%q: tensor<2x4x1x8xf32>, %k: tensor<2x2x5x8xf32>) {
  %v0 = graph.reshape(%q) {shape = [2, 2, 2, 8]} : tensor<2x2x2x8xf32>
  %v1 = graph.contract(%v0, %k) {spec = "bhqd,bhkd->bhqk"} : tensor<2x2x2x5xf32>
  %v2 = graph.reduce(%v1) {axes = [3], keepdims = true, kind = "max"} : tensor<2x2x2x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [2, 2, 2, 5]} : tensor<2x2x2x5xf32>
  %v4 = graph.sub(%v1, %v3) : tensor<2x2x2x5xf32>
  %v5 = graph.exp(%v4) : tensor<2x2x2x5xf32>
  %v6 = graph.reduce(%v5) {axes = [3], keepdims = true, kind = "sum"} : tensor<2x2x2x1xf32>
  %v7 = graph.broadcast(%v6) {shape = [2, 2, 2, 5]} : tensor<2x2x2x5xf32>
  %v8 = graph.div(%v5, %v7) : tensor<2x2x2x5xf32>
  %v9 = graph.contract(%v8, %k) {spec = "bhqk,bhka->bhqa"} : tensor<2x2x2x8xf32>
  %v10 = graph.reshape(%v9) {shape = [2, 4, 1, 8]} : tensor<2x4x1x8xf32>
  return(%v10)
}

func @all(%q: tensor<4x1x8xf32>, %k: tensor<1x5x8xf32>, %mask: tensor<1x5xf32>) {
  %n = graph.broadcast(%mask) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %v0 = graph.reshape(%q) {shape = [1, 4, 8]} : tensor<1x4x8xf32>
  %v1 = graph.contract(%v0, %k) {spec = "hqd,hkd->hqk"} : tensor<1x4x5xf32>
  %v2 = graph.reshape(%n) {shape = [1, 4, 5]} : tensor<1x4x5xf32>
  %v3 = graph.add(%v1, %v2) : tensor<1x4x5xf32>
  %v4 = graph.reduce(%v3) {axes = [2], keepdims = true, kind = "max"} : tensor<1x4x1xf32>
  %v5 = graph.broadcast(%v4) {shape = [1, 4, 5]} : tensor<1x4x5xf32>
  %v6 = graph.sub(%v3, %v5) : tensor<1x4x5xf32>
  %v7 = graph.exp(%v6) : tensor<1x4x5xf32>
  %v8 = graph.reduce(%v7) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x4x1xf32>
  %v9 = graph.broadcast(%v8) {shape = [1, 4, 5]} : tensor<1x4x5xf32>
  %v10 = graph.div(%v7, %v9) : tensor<1x4x5xf32>
  %v11 = graph.contract(%v10, %k) {spec = "hqk,hka->hqa"} : tensor<1x4x8xf32>
  %v12 = graph.reshape(%v11) {shape = [4, 1, 8]} : tensor<4x1x8xf32>
  return(%v12)
}

func @turned(%q: tensor<4x3x8xf32>, %k: tensor<5x8xf32>) {
  %v0 = graph.reshape(%q) {shape = [1, 12, 8]} : tensor<1x12x8xf32>
  %v1 = graph.contract(%v0, %k) {spec = "hqd,kd->hqk"} : tensor<1x12x5xf32>
  %v2 = graph.reduce(%v1) {axes = [2], keepdims = true, kind = "max"} : tensor<1x12x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [1, 12, 5]} : tensor<1x12x5xf32>
  %v4 = graph.sub(%v1, %v3) : tensor<1x12x5xf32>
  %v5 = graph.exp(%v4) : tensor<1x12x5xf32>
  %v6 = graph.reduce(%v5) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x12x1xf32>
  %v7 = graph.broadcast(%v6) {shape = [1, 12, 5]} : tensor<1x12x5xf32>
  %v8 = graph.div(%v5, %v7) : tensor<1x12x5xf32>
  %v9 = graph.contract(%v8, %k) {spec = "hqk,ka->hqa"} : tensor<1x12x8xf32>
  %v10 = graph.reshape(%v9) {shape = [4, 3, 8]} : tensor<4x3x8xf32>
  %v11 = graph.permute(%v10) {perm = [1, 0, 2]} : tensor<3x4x8xf32>
  return(%v11)
}
