// RUN: bytes-along-channels
func @floats_stay(%x: tensor<2x3x5xf32>, %w: tensor<4x2xf32>) {
  %q = graph.pad(%x) {high = [0, 1, 0], low = [0, 0, 0], value = 0.0} : tensor<2x4x5xf32>
  %t = graph.permute(%q) {perm = [0, 2, 1]} : tensor<2x5x4xf32>
  %c = graph.contract(%t, %w) {spec = "mwc,co->mwo"} : tensor<2x5x2xf32>
  return(%c)
}
// What was last before is dense as it is.
func @channels_stay_last(%x: tensor<2x3x5xi8>, %w: tensor<6x2xi8>) {
  %q = graph.pad(%x) {high = [0, 0, 1], low = [0, 0, 0], value = 0} : tensor<2x3x6xi8>
  %t = graph.permute(%q) {perm = [1, 0, 2]} : tensor<3x2x6xi8>
  %c = graph.contract(%t, %w) {elem = i32, spec = "wmc,co->wmo"} : tensor<3x2x2xi32>
  return(%c)
}
// -----
func @floats_stay(%x: tensor<2x3x5xf32>, %w: tensor<4x2xf32>) {
  %q = graph.pad(%x) {high = [0, 1, 0], low = [0, 0, 0], value = 0.0} : tensor<2x4x5xf32>
  %t = graph.permute(%q) {perm = [0, 2, 1]} : tensor<2x5x4xf32>
  %c = graph.contract(%t, %w) {spec = "mwc,co->mwo"} : tensor<2x5x2xf32>
  return(%c)
}

func @channels_stay_last(%x: tensor<2x3x5xi8>, %w: tensor<6x2xi8>) {
  %q = graph.pad(%x) {high = [0, 0, 1], low = [0, 0, 0], value = 0} : tensor<2x3x6xi8>
  %t = graph.permute(%q) {perm = [1, 0, 2]} : tensor<3x2x6xi8>
  %c = graph.contract(%t, %w) {elem = i32, spec = "wmc,co->wmo"} : tensor<3x2x2xi32>
  return(%c)
}
