// RUN: flatten-taps
// RULES
// Two taps of 3 x 3 read the same copies.
func @taps_of_one_number(%y: tensor<2x5x32x32xf16>, %p: tensor<2x3x34x34xf16>) {
  %a = graph.slice(%p) {sizes = [2, 3, 32, 32], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x3x32x32xf16>
  %b = graph.slice(%p) {sizes = [2, 3, 32, 32], starts = [0, 0, 1, 2], steps = [1, 1, 1, 1]} : tensor<2x3x32x32xf16>
  %g = graph.contract(%y, %a) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  %h = graph.contract(%y, %b) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  return(%g, %h)
}
// Channels are last, and the image is on the left. One image grows by lines, not by images.
func @taps_of_one_number__channels_last(%y: tensor<1x48x48x16xbf16>, %p: tensor<1x50x49x9xbf16>) {
  %a = graph.slice(%p) {sizes = [1, 48, 48, 9], starts = [0, 2, 1, 0], steps = [1, 1, 1, 1]} : tensor<1x48x48x9xbf16>
  %g = graph.contract(%a, %y) {elem = f32, spec = "nhwc,nhwo->co"} : tensor<9x16xf32>
  return(%g)
}
// By steps of 2 and 3: the tap (1, 4) is the tap (0, 1) of every so many positions from (1, 1) on.
func @taps_of_one_number__steps(%y: tensor<3x4x24x32xf16>, %p: tensor<3x6x50x99xf16>) {
  %a = graph.slice(%p) {sizes = [3, 6, 24, 32], starts = [0, 0, 1, 4], steps = [1, 1, 2, 3]} : tensor<3x6x24x32xf16>
  %g = graph.contract(%y, %a) {spec = "nohw,nchw->oc"} : tensor<4x6xf16>
  return(%g)
}
// Of groups, and of one spatial dim.
func @taps_of_one_number__groups(%y: tensor<2x3x4x1200xf16>, %p: tensor<2x3x5x1202xf16>) {
  %a = graph.slice(%p) {sizes = [2, 3, 5, 1200], starts = [0, 0, 0, 1], steps = [1, 1, 1, 1]} : tensor<2x3x5x1200xf16>
  %g = graph.contract(%y, %a) {spec = "ngow,ngcw->goc"} : tensor<3x4x5xf16>
  return(%g)
}
// The tap in the middle meets no border, and reads the copy that the others do.
func @taps_of_one_number__middle(%y: tensor<2x5x32x32xf16>, %x: tensor<2x3x32x32xf16>) {
  %p = graph.pad(%x) {high = [0, 0, 1, 1], low = [0, 0, 1, 1], value = 0.0} : tensor<2x3x34x34xf16>
  %a = graph.slice(%p) {sizes = [2, 3, 32, 32], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<2x3x32x32xf16>
  %g = graph.contract(%y, %a) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  %h = graph.contract(%y, %x) {spec = "nohw,nchw->oc"} : tensor<5x3xf16>
  return(%g, %h)
}
// -----
func @taps_of_one_number(%y: tensor<2x5x32x32xf16>, %p: tensor<2x3x34x34xf16>) {
  %v0 = graph.permute(%y) {perm = [0, 2, 3, 1]} : tensor<2x32x32x5xf16>
  %v1 = graph.pad(%v0) {high = [1, 2, 2, 11], low = [0, 0, 0, 0], value = 0.0} : tensor<3x34x34x16xf16>
  %v2 = graph.reshape(%v1) {shape = [3468, 16]} : tensor<3468x16xf16>
  %v3 = graph.slice(%v2) {sizes = [3072, 5], starts = [0, 0], steps = [1, 1]} : tensor<3072x5xf16>
  %v4 = graph.permute(%p) {perm = [0, 2, 3, 1]} : tensor<2x34x34x3xf16>
  %v5 = graph.pad(%v4) {high = [1, 0, 0, 13], low = [0, 0, 0, 0], value = 0.0} : tensor<3x34x34x16xf16>
  %v6 = graph.reshape(%v5) {shape = [3468, 16]} : tensor<3468x16xf16>
  %v7 = graph.slice(%v6) {sizes = [3072, 3], starts = [0, 0], steps = [1, 1]} : tensor<3072x3xf16>
  %g = graph.contract(%v3, %v7) {spec = "no,nc->oc"} : tensor<5x3xf16>
  %v8 = graph.slice(%v6) {sizes = [3072, 3], starts = [36, 0], steps = [1, 1]} : tensor<3072x3xf16>
  %h = graph.contract(%v3, %v8) {spec = "no,nc->oc"} : tensor<5x3xf16>
  return(%g, %h)
}

func @taps_of_one_number__channels_last(%y: tensor<1x48x48x16xbf16>, %p: tensor<1x50x49x9xbf16>) {
  %v0 = graph.pad(%p) {high = [1, 0, 0, 7], low = [0, 0, 0, 0], value = 0.0} : tensor<2x50x49x16xbf16>
  %v1 = graph.reshape(%v0) {shape = [4900, 16]} : tensor<4900x16xbf16>
  %v2 = graph.slice(%v1) {sizes = [3072, 9], starts = [99, 0], steps = [1, 1]} : tensor<3072x9xbf16>
  %v3 = graph.pad(%y) {high = [1, 2, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<2x50x49x16xbf16>
  %v4 = graph.reshape(%v3) {shape = [4900, 16]} : tensor<4900x16xbf16>
  %v5 = graph.slice(%v4) {sizes = [3072, 16], starts = [0, 0], steps = [1, 1]} : tensor<3072x16xbf16>
  %g = graph.contract(%v2, %v5) {elem = f32, spec = "nc,no->co"} : tensor<9x16xf32>
  return(%g)
}

func @taps_of_one_number__steps(%y: tensor<3x4x24x32xf16>, %p: tensor<3x6x50x99xf16>) {
  %v0 = graph.permute(%y) {perm = [0, 2, 3, 1]} : tensor<3x24x32x4xf16>
  %v1 = graph.pad(%v0) {high = [1, 1, 1, 12], low = [0, 0, 0, 0], value = 0.0} : tensor<4x25x33x16xf16>
  %v2 = graph.reshape(%v1) {shape = [3300, 16]} : tensor<3300x16xf16>
  %v3 = graph.slice(%v2) {sizes = [3072, 4], starts = [0, 0], steps = [1, 1]} : tensor<3072x4xf16>
  %v4 = graph.slice(%p) {sizes = [3, 6, 25, 33], starts = [0, 0, 1, 1], steps = [1, 1, 2, 3]} : tensor<3x6x25x33xf16>
  %v5 = graph.permute(%v4) {perm = [0, 2, 3, 1]} : tensor<3x25x33x6xf16>
  %v6 = graph.pad(%v5) {high = [1, 0, 0, 10], low = [0, 0, 0, 0], value = 0.0} : tensor<4x25x33x16xf16>
  %v7 = graph.reshape(%v6) {shape = [3300, 16]} : tensor<3300x16xf16>
  %v8 = graph.slice(%v7) {sizes = [3072, 6], starts = [1, 0], steps = [1, 1]} : tensor<3072x6xf16>
  %g = graph.contract(%v3, %v8) {spec = "no,nc->oc"} : tensor<4x6xf16>
  return(%g)
}

func @taps_of_one_number__groups(%y: tensor<2x3x4x1200xf16>, %p: tensor<2x3x5x1202xf16>) {
  %v0 = graph.permute(%y) {perm = [0, 3, 1, 2]} : tensor<2x1200x3x4xf16>
  %v1 = graph.pad(%v0) {high = [1, 2, 0, 12], low = [0, 0, 0, 0], value = 0.0} : tensor<3x1202x3x16xf16>
  %v2 = graph.reshape(%v1) {shape = [3606, 3, 16]} : tensor<3606x3x16xf16>
  %v3 = graph.slice(%v2) {sizes = [3072, 3, 4], starts = [0, 0, 0], steps = [1, 1, 1]} : tensor<3072x3x4xf16>
  %v4 = graph.permute(%p) {perm = [0, 3, 1, 2]} : tensor<2x1202x3x5xf16>
  %v5 = graph.pad(%v4) {high = [1, 0, 0, 11], low = [0, 0, 0, 0], value = 0.0} : tensor<3x1202x3x16xf16>
  %v6 = graph.reshape(%v5) {shape = [3606, 3, 16]} : tensor<3606x3x16xf16>
  %v7 = graph.slice(%v6) {sizes = [3072, 3, 5], starts = [1, 0, 0], steps = [1, 1, 1]} : tensor<3072x3x5xf16>
  %g = graph.contract(%v3, %v7) {spec = "ngo,ngc->goc"} : tensor<3x4x5xf16>
  return(%g)
}

func @taps_of_one_number__middle(%y: tensor<2x5x32x32xf16>, %x: tensor<2x3x32x32xf16>) {
  %p = graph.pad(%x) {high = [0, 0, 1, 1], low = [0, 0, 1, 1], value = 0.0} : tensor<2x3x34x34xf16>
  %v0 = graph.permute(%y) {perm = [0, 2, 3, 1]} : tensor<2x32x32x5xf16>
  %v1 = graph.pad(%v0) {high = [1, 2, 2, 11], low = [0, 0, 0, 0], value = 0.0} : tensor<3x34x34x16xf16>
  %v2 = graph.reshape(%v1) {shape = [3468, 16]} : tensor<3468x16xf16>
  %v3 = graph.slice(%v2) {sizes = [3072, 5], starts = [0, 0], steps = [1, 1]} : tensor<3072x5xf16>
  %v4 = graph.permute(%p) {perm = [0, 2, 3, 1]} : tensor<2x34x34x3xf16>
  %v5 = graph.pad(%v4) {high = [1, 0, 0, 13], low = [0, 0, 0, 0], value = 0.0} : tensor<3x34x34x16xf16>
  %v6 = graph.reshape(%v5) {shape = [3468, 16]} : tensor<3468x16xf16>
  %v7 = graph.slice(%v6) {sizes = [3072, 3], starts = [0, 0], steps = [1, 1]} : tensor<3072x3xf16>
  %g = graph.contract(%v3, %v7) {spec = "no,nc->oc"} : tensor<5x3xf16>
  %v8 = graph.slice(%v6) {sizes = [3072, 3], starts = [35, 0], steps = [1, 1]} : tensor<3072x3xf16>
  %h = graph.contract(%v3, %v8) {spec = "no,nc->oc"} : tensor<5x3xf16>
  return(%g, %h)
}
