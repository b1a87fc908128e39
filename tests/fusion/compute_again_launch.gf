// RUN: compute-again {launch_bytes = 1000000}
// As many bytes as are stored: that a kernel is none decides. Where it stays for something else, nothing is saved.
func @repeated(%x: tensor<50x72xf16>, %y: tensor<50x72xf16>) {
  %c = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<50x72xf16>, %b: tensor<50x72xf16>) {
    %s = graph.add(%a, %b) : tensor<50x72xf16>
    yield(%s)
  } : tensor<50x72xf16>
  %r = graph.region(%c) {kernel = "pointwise_1", kind = "pointwise"} do (%a: tensor<50x72xf16>) {
    %o = graph.reshape(%a) {shape = [50, 72, 1]} : tensor<50x72x1xf16>
    %b = graph.broadcast(%o) {shape = [50, 72, 2]} : tensor<50x72x2xf16>
    yield(%b)
  } : tensor<50x72x2xf16>
  return(%r)
}

func @stays(%x: tensor<50x72xf16>, %y: tensor<50x72xf16>) {
  %c, %d = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<50x72xf16>, %b: tensor<50x72xf16>) {
    %s = graph.add(%a, %b) : tensor<50x72xf16>
    %e = graph.exp(%s) : tensor<50x72xf16>
    yield(%s, %e)
  } : tensor<50x72xf16>, tensor<50x72xf16>
  %r = graph.region(%c) {kernel = "pointwise_1", kind = "pointwise"} do (%a: tensor<50x72xf16>) {
    %o = graph.reshape(%a) {shape = [50, 72, 1]} : tensor<50x72x1xf16>
    %b = graph.broadcast(%o) {shape = [50, 72, 2]} : tensor<50x72x2xf16>
    yield(%b)
  } : tensor<50x72x2xf16>
  return(%r, %d)
}
// -----
func @repeated(%x: tensor<50x72xf16>, %y: tensor<50x72xf16>) {
  %v2 = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%v0: tensor<50x72xf16>, %v1: tensor<50x72xf16>) {
    %s = graph.add(%v0, %v1) : tensor<50x72xf16>
    %o = graph.reshape(%s) {shape = [50, 72, 1]} : tensor<50x72x1xf16>
    %b = graph.broadcast(%o) {shape = [50, 72, 2]} : tensor<50x72x2xf16>
    yield(%b)
  } : tensor<50x72x2xf16>
  return(%v2)
}

func @stays(%x: tensor<50x72xf16>, %y: tensor<50x72xf16>) {
  %c, %d = graph.region(%x, %y) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<50x72xf16>, %b: tensor<50x72xf16>) {
    %s = graph.add(%a, %b) : tensor<50x72xf16>
    %e = graph.exp(%s) : tensor<50x72xf16>
    yield(%s, %e)
  } : tensor<50x72xf16>, tensor<50x72xf16>
  %r = graph.region(%c) {kernel = "pointwise_1", kind = "pointwise"} do (%a_0: tensor<50x72xf16>) {
    %o = graph.reshape(%a_0) {shape = [50, 72, 1]} : tensor<50x72x1xf16>
    %b_0 = graph.broadcast(%o) {shape = [50, 72, 2]} : tensor<50x72x2xf16>
    yield(%b_0)
  } : tensor<50x72x2xf16>
  return(%r, %d)
}
