// RUN: split-keys
// So few keys are no work for another kernel.
func @short(%q: tensor<1x1x64xf32>, %k: tensor<1x128x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<1x1x128xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 1, 128]} : tensor<1x1x128xf32>
  %c = graph.sub(%s, %mb) : tensor<1x1x128xf32>
  %e = graph.exp(%c) : tensor<1x1x128xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [1, 1, 128]} : tensor<1x1x128xf32>
  %p = graph.div(%e, %tb) : tensor<1x1x128xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<1x1x64xf32>
  return(%y)
}

// Weights of parts would not be their sums.
func @more_than_the_sum(%q: tensor<1x1x64xf32>, %k: tensor<1x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<1x1x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<1x1x2048xf32>
  %e = graph.exp(%c) : tensor<1x1x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1xf32>
  %one = graph.full() {elem = f32, shape = [1, 1, 1], value = 1.0} : tensor<1x1x1xf32>
  %more = graph.add(%t, %one) : tensor<1x1x1xf32>
  %tb = graph.broadcast(%more) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %p = graph.div(%e, %tb) : tensor<1x1x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<1x1x64xf32>
  return(%y)
}

// Tiles of queries are programs enough.
func @many(%q: tensor<80x256x64xf32>, %k: tensor<80x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<80x256x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<80x256x1xf32>
  %mb = graph.broadcast(%m) {shape = [80, 256, 2048]} : tensor<80x256x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<80x256x2048xf32>
  %e = graph.exp(%c) : tensor<80x256x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<80x256x1xf32>
  %tb = graph.broadcast(%t) {shape = [80, 256, 2048]} : tensor<80x256x2048xf32>
  %p = graph.div(%e, %tb) : tensor<80x256x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<80x256x64xf32>
  return(%y)
}

// There are no queries, and no keys of them.
func @none(%q: tensor<0x0x64xf32>, %k: tensor<0x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<0x0x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<0x0x1xf32>
  %mb = graph.broadcast(%m) {shape = [0, 0, 2048]} : tensor<0x0x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<0x0x2048xf32>
  %e = graph.exp(%c) : tensor<0x0x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<0x0x1xf32>
  %tb = graph.broadcast(%t) {shape = [0, 0, 2048]} : tensor<0x0x2048xf32>
  %p = graph.div(%e, %tb) : tensor<0x0x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<0x0x64xf32>
  return(%y)
}
// -----
func @short(%q: tensor<1x1x64xf32>, %k: tensor<1x128x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<1x1x128xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 1, 128]} : tensor<1x1x128xf32>
  %c = graph.sub(%s, %mb) : tensor<1x1x128xf32>
  %e = graph.exp(%c) : tensor<1x1x128xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [1, 1, 128]} : tensor<1x1x128xf32>
  %p = graph.div(%e, %tb) : tensor<1x1x128xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<1x1x64xf32>
  return(%y)
}

func @more_than_the_sum(%q: tensor<1x1x64xf32>, %k: tensor<1x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<1x1x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<1x1x2048xf32>
  %e = graph.exp(%c) : tensor<1x1x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1xf32>
  %one = graph.full() {elem = f32, shape = [1, 1, 1], value = 1.0} : tensor<1x1x1xf32>
  %more = graph.add(%t, %one) : tensor<1x1x1xf32>
  %tb = graph.broadcast(%more) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %p = graph.div(%e, %tb) : tensor<1x1x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<1x1x64xf32>
  return(%y)
}

func @many(%q: tensor<80x256x64xf32>, %k: tensor<80x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<80x256x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<80x256x1xf32>
  %mb = graph.broadcast(%m) {shape = [80, 256, 2048]} : tensor<80x256x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<80x256x2048xf32>
  %e = graph.exp(%c) : tensor<80x256x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<80x256x1xf32>
  %tb = graph.broadcast(%t) {shape = [80, 256, 2048]} : tensor<80x256x2048xf32>
  %p = graph.div(%e, %tb) : tensor<80x256x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<80x256x64xf32>
  return(%y)
}

func @none(%q: tensor<0x0x64xf32>, %k: tensor<0x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<0x0x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<0x0x1xf32>
  %mb = graph.broadcast(%m) {shape = [0, 0, 2048]} : tensor<0x0x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<0x0x2048xf32>
  %e = graph.exp(%c) : tensor<0x0x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<0x0x1xf32>
  %tb = graph.broadcast(%t) {shape = [0, 0, 2048]} : tensor<0x0x2048xf32>
  %p = graph.div(%e, %tb) : tensor<0x0x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<0x0x64xf32>
  return(%y)
}
