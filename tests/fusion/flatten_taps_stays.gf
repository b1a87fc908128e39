// RUN: flatten-taps
// Elements that tensor cores do not multiply; few positions; positions of one dim; the whole image; two slices.
func @f(%y: tensor<2x5x32x32xf32>, %p: tensor<2x3x34x34xf32>, %z: tensor<2x5x31x32xf16>, %q: tensor<2x3x34x34xf16>, %u: tensor<4096x8xf16>, %v: tensor<4098x8xf16>, %w: tensor<2x5x34x34xf16>) {
  %a = graph.slice(%p) {sizes = [2, 3, 32, 32], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<2x3x32x32xf32>
  %b = graph.slice(%q) {sizes = [2, 3, 31, 32], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<2x3x31x32xf16>
  %c = graph.slice(%v) {sizes = [4096, 8], starts = [1, 0], steps = [1, 1]} : tensor<4096x8xf16>
  %d = graph.slice(%q) {sizes = [2, 3, 32, 32], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<2x3x32x32xf16>
  %e = graph.slice(%w) {sizes = [2, 5, 32, 32], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<2x5x32x32xf16>
  %0 = graph.contract(%y, %a) {spec = "nohw,nchw->oc"} : tensor<5x3xf32>
  %1 = graph.contract(%z, %b) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  %2 = graph.contract(%u, %c) {spec = "no,nc->oc"} : tensor<8x8xf16>
  %3 = graph.contract(%w, %q) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  %4 = graph.contract(%e, %d) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  return(%0, %1, %2, %3, %4)
}

func @g(%y: tensor<2x5x32x32xf16>, %p: tensor<2x5x34x34xf16>) {
  %a = graph.slice(%p) {sizes = [2, 4, 32, 32], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<2x4x32x32xf16>
  %b = graph.slice(%p) {sizes = [2, 5, 32, 32], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<2x5x32x32xf16>
  %0 = graph.contract(%y, %a) {spec = "nohw,nchw->oc"} : tensor<5x4xf16>
  %1 = graph.contract(%y, %b) {spec = "nchw,nchw->c"} : tensor<5xf16>
  %2 = graph.contract(%y, %b) {spec = "nohw,nchw->o"} : tensor<5xf16>
  %3 = graph.contract(%y, %b) {spec = "nohw,nchw->hwoc"} : tensor<32x32x5x5xf16>
  return(%0, %1, %2, %3)
}

func @batch(%y: tensor<(n)x5x64x64xf16>, %p: tensor<(n)x3x66x66xf16>) dims (n in 1..4) {
  %a = graph.slice(%p) {sizes = [(n), 3, 64, 64], starts = [0, 0, 1, 1], steps = [1, 1, 1, 1]} : tensor<(n)x3x64x64xf16>
  %g = graph.contract(%y, %a) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  return(%g)
}
