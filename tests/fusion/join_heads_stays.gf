// RUN: join-heads
// Heads with keys of their own.
func @own(%q: tensor<2x4x1x8xf32>, %k: tensor<2x4x5x8xf32>) {
  %s = graph.contract(%q, %k) {spec = "bhqd,bhkd->bhqk"} : tensor<2x4x1x5xf32>
  %m = graph.reduce(%s) {axes = [3], keepdims = true, kind = "max"} : tensor<2x4x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [2, 4, 1, 5]} : tensor<2x4x1x5xf32>
  %c = graph.sub(%s, %mb) : tensor<2x4x1x5xf32>
  %e = graph.exp(%c) : tensor<2x4x1x5xf32>
  %t = graph.reduce(%e) {axes = [3], keepdims = true, kind = "sum"} : tensor<2x4x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [2, 4, 1, 5]} : tensor<2x4x1x5xf32>
  %p = graph.div(%e, %tb) : tensor<2x4x1x5xf32>
  %y = graph.contract(%p, %k) {spec = "bhqk,bhkd->bhqd"} : tensor<2x4x1x8xf32>
  return(%y)
}

// Values that are not shared as keys are.
func @values(%q: tensor<4x1x8xf32>, %k: tensor<1x5x8xf32>, %v: tensor<4x5x8xf32>) {
  %k4 = graph.broadcast(%k) {shape = [4, 5, 8]} : tensor<4x5x8xf32>
  %s = graph.contract(%q, %k4) {spec = "hqd,hkd->hqk"} : tensor<4x1x5xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<4x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %c = graph.sub(%s, %mb) : tensor<4x1x5xf32>
  %e = graph.exp(%c) : tensor<4x1x5xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<4x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %p = graph.div(%e, %tb) : tensor<4x1x5xf32>
  %y = graph.contract(%p, %v) {spec = "hqk,hkd->hqd"} : tensor<4x1x8xf32>
  return(%y)
}

// So many queries fill a tile, and indices may say what they see.
func @many(%q: tensor<2x32x8xf32>, %k: tensor<5x8xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,kd->hqk"} : tensor<2x32x5xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<2x32x1xf32>
  %mb = graph.broadcast(%m) {shape = [2, 32, 5]} : tensor<2x32x5xf32>
  %c = graph.sub(%s, %mb) : tensor<2x32x5xf32>
  %e = graph.exp(%c) : tensor<2x32x5xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x32x1xf32>
  %tb = graph.broadcast(%t) {shape = [2, 32, 5]} : tensor<2x32x5xf32>
  %p = graph.div(%e, %tb) : tensor<2x32x5xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,kd->hqd"} : tensor<2x32x8xf32>
  return(%y)
}
// -----
func @own(%q: tensor<2x4x1x8xf32>, %k: tensor<2x4x5x8xf32>) {
  %s = graph.contract(%q, %k) {spec = "bhqd,bhkd->bhqk"} : tensor<2x4x1x5xf32>
  %m = graph.reduce(%s) {axes = [3], keepdims = true, kind = "max"} : tensor<2x4x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [2, 4, 1, 5]} : tensor<2x4x1x5xf32>
  %c = graph.sub(%s, %mb) : tensor<2x4x1x5xf32>
  %e = graph.exp(%c) : tensor<2x4x1x5xf32>
  %t = graph.reduce(%e) {axes = [3], keepdims = true, kind = "sum"} : tensor<2x4x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [2, 4, 1, 5]} : tensor<2x4x1x5xf32>
  %p = graph.div(%e, %tb) : tensor<2x4x1x5xf32>
  %y = graph.contract(%p, %k) {spec = "bhqk,bhkd->bhqd"} : tensor<2x4x1x8xf32>
  return(%y)
}

func @values(%q: tensor<4x1x8xf32>, %k: tensor<1x5x8xf32>, %v: tensor<4x5x8xf32>) {
  %k4 = graph.broadcast(%k) {shape = [4, 5, 8]} : tensor<4x5x8xf32>
  %s = graph.contract(%q, %k4) {spec = "hqd,hkd->hqk"} : tensor<4x1x5xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<4x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %c = graph.sub(%s, %mb) : tensor<4x1x5xf32>
  %e = graph.exp(%c) : tensor<4x1x5xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<4x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [4, 1, 5]} : tensor<4x1x5xf32>
  %p = graph.div(%e, %tb) : tensor<4x1x5xf32>
  %y = graph.contract(%p, %v) {spec = "hqk,hkd->hqd"} : tensor<4x1x8xf32>
  return(%y)
}

func @many(%q: tensor<2x32x8xf32>, %k: tensor<5x8xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,kd->hqk"} : tensor<2x32x5xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<2x32x1xf32>
  %mb = graph.broadcast(%m) {shape = [2, 32, 5]} : tensor<2x32x5xf32>
  %c = graph.sub(%s, %mb) : tensor<2x32x5xf32>
  %e = graph.exp(%c) : tensor<2x32x5xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x32x1xf32>
  %tb = graph.broadcast(%t) {shape = [2, 32, 5]} : tensor<2x32x5xf32>
  %p = graph.div(%e, %tb) : tensor<2x32x5xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,kd->hqd"} : tensor<2x32x8xf32>
  return(%y)
}
