// RUN: whole-scatters
// Neighbours go to rows of their own; lines that are scattered by themselves.
func @columns(%x: tensor<900x512xbf16>, %i: tensor<700x512xi64>, %u: tensor<700x512xbf16>) {
  %w = graph.cast(%x) {to = f32} : tensor<900x512xf32>
  %v = graph.cast(%u) {to = f32} : tensor<700x512xf32>
  %s = graph.scatter_along(%w, %i, %v) {axis = 0, kind = "add"} : tensor<900x512xf32>
  %y = graph.cast(%s) {to = bf16} : tensor<900x512xbf16>
  return(%y)
}

func @lines(%x: tensor<80x5000xf32>, %i: tensor<80x700xi64>, %u: tensor<80x700xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 1, kind = "max"} : tensor<80x5000xf32>
  return(%y)
}
// -----
func @columns(%x: tensor<900x512xbf16>, %i: tensor<700x512xi64>, %u: tensor<700x512xbf16>) {
  %w = graph.cast(%x) {to = f32} : tensor<900x512xf32>
  %v = graph.cast(%u) {to = f32} : tensor<700x512xf32>
  %s = graph.scatter_along(%w, %i, %v) {axis = 0, kind = "add", whole = true} : tensor<900x512xf32>
  %y = graph.cast(%s) {to = bf16} : tensor<900x512xbf16>
  return(%y)
}

func @lines(%x: tensor<80x5000xf32>, %i: tensor<80x700xi64>, %u: tensor<80x700xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 1, kind = "max", whole = true} : tensor<80x5000xf32>
  return(%y)
}
