// RUN:
// Data-dependent indexing, with indices that count from the end, and the k largest.
func @gather(%x: tensor<4x(n + 1)x3xf32>, %i: tensor<5xi64>, %j: tensor<2x(n)x3xi32>, %k: tensor<6x2xi64>, %l: tensor<4x7x1xi64>) {
  %take = graph.take(%x, %i) {axis = 1} : tensor<4x5x3xf32>
  %along = graph.take_along(%x, %j) {axis = 0} : tensor<2x(n)x3xf32>
  %nd = graph.gather_nd(%x, %k) : tensor<6x3xf32>
  %batched = graph.gather_nd(%x, %l) {batch_dims = 1} : tensor<4x7x3xf32>
  return(%take, %along, %nd, %batched)
}

func @scatter(%x: tensor<4x(n + 1)xf32>, %i: tensor<4x(n)xi64>, %u: tensor<4x(n)xf32>, %j: tensor<3x1xi32>, %v: tensor<3x(n + 1)xf32>) {
  %set = graph.scatter_along(%x, %i, %u) {axis = 1} : tensor<4x(n + 1)xf32>
  %add = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<4x(n + 1)xf32>
  %mul = graph.scatter_along(%x, %i, %u) {axis = 1, kind = "mul"} : tensor<4x(n + 1)xf32>
  %max = graph.scatter_nd(%x, %j, %v) {kind = "max"} : tensor<4x(n + 1)xf32>
  %min = graph.scatter_nd(%x, %j, %v) {kind = "min"} : tensor<4x(n + 1)xf32>
  %rows = graph.scatter_nd(%x, %j, %v) : tensor<4x(n + 1)xf32>
  return(%set, %add, %mul, %max, %min, %rows)
}

func @topk(%x: tensor<3x(n + 4)xf32>, %i: tensor<6xi32>) {
  %v, %at = graph.topk(%x) {axis = 1, k = 2} : tensor<3x2xf32>, tensor<3x2xi64>
  %w, %bt = graph.topk(%i) {axis = 0, k = 6, largest = false} : tensor<6xi32>, tensor<6xi64>
  %s, %ct = graph.topk(%x) {axis = 1, k = (n)} : tensor<3x(n)xf32>, tensor<3x(n)xi64>
  return(%v, %at, %w, %bt, %s, %ct)
}
