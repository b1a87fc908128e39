// RUN: multiply-vector
// A panel that is copied serves several rows.
func @rows(%x: tensor<4x512xf32>, %w: tensor<100x512xf32>) {
  %r = graph.contract(%x, %w) {spec = "mk,nk->mn"} : tensor<4x100xf32>
  return(%r)
}

// Columns of the result are dense already, or rows too short.
func @dense(%x: tensor<1x512xf32>, %w: tensor<512x100xf32>, %s: tensor<100x63xf32>, %y: tensor<1x63xf32>) {
  %r = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<1x100xf32>
  %t = graph.contract(%y, %s) {spec = "mk,nk->mn"} : tensor<1x100xf32>
  return(%r, %t)
}

// What is computed, or known, lies as the product wants it.
func @computed(%x: tensor<1x512xf32>, %w: tensor<100x512xf32>) {
  %e = graph.exp(%w) : tensor<100x512xf32>
  %r = graph.contract(%x, %e) {spec = "mk,nk->mn"} : tensor<1x100xf32>
  return(%r)
}

// A matrix that several vectors share; what the result has in another order; integers wrap in their own element.
func @others(%x: tensor<2x4x512xf32>, %w: tensor<2x100x512xf32>, %y: tensor<2x512xf32>, %i: tensor<1x512xi32>, %j: tensor<100x512xi32>) {
  %r = graph.contract(%x, %w) {spec = "bmk,bnk->bmn"} : tensor<2x4x100xf32>
  %s = graph.contract(%y, %w) {spec = "bk,bnk->nb"} : tensor<100x2xf32>
  %t = graph.contract(%i, %j) {spec = "mk,nk->mn"} : tensor<1x100xi32>
  return(%r, %s, %t)
}
