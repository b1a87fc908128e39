// RUN: align-rows
func @whole_rows(%x: tensor<4x16xf16>, %w: tensor<4x16xf16>) {
  %r = graph.contract(%x, %w) {spec = "km,kn->mn"} : tensor<16x16xf16>
  return(%r)
}
