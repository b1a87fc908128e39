// RUN: bytes-along-channels
// Nothing multiplies them.
func @no_product(%x: tensor<2x3x5xi8>) {
  %q = graph.pad(%x) {high = [0, 1, 0], low = [0, 0, 0], value = 0} : tensor<2x4x5xi8>
  %r = graph.permute(%q) {perm = [0, 2, 1]} : tensor<2x5x4xi8>
  return(%r)
}
