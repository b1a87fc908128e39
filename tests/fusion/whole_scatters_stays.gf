// RUN: whole-scatters
// An index for all of a row, stores, an order, what may be written over.
func @rows(%x: tensor<900x512xf32>, %i: tensor<700x1xi64>, %u: tensor<700x512xf32>) {
  %b = graph.broadcast(%i) {shape = [700, 512]} : tensor<700x512xi64>
  %y = graph.scatter_along(%x, %b, %u) {axis = 0, kind = "add"} : tensor<900x512xf32>
  return(%y)
}

func @stores(%x: tensor<900x512xf32>, %i: tensor<700x512xi64>, %u: tensor<700x512xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "set"} : tensor<900x512xf32>
  return(%y)
}

func @in_order(%x: tensor<900x512xf32>, %i: tensor<700x512xi64>, %u: tensor<700x512xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add", ordered = true} : tensor<900x512xf32>
  return(%y)
}

func @shared(%x: tensor<900x512xf32>, %i: tensor<700x512xi64>, %u: tensor<700x512xf32>) {shared = [[0, 0]]} {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<900x512xf32>
  return(%y)
}

// Columns that do not fit into shared memory, few of them, few updates, a corner of what there is, an unknown size.
func @long(%x: tensor<90000x512xf32>, %i: tensor<90000x512xi64>, %u: tensor<90000x512xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<90000x512xf32>
  return(%y)
}

func @narrow(%x: tensor<900x64xf32>, %i: tensor<700x64xi64>, %u: tensor<700x64xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<900x64xf32>
  return(%y)
}

func @few(%x: tensor<900x512xf32>, %i: tensor<70x512xi64>, %u: tensor<70x512xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<900x512xf32>
  return(%y)
}

func @corner(%x: tensor<900x512xf32>, %i: tensor<700x500xi64>, %u: tensor<700x500xf32>) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<900x512xf32>
  return(%y)
}

func @unknown(%x: tensor<900x(n)xf32>, %i: tensor<700x(n)xi64>, %u: tensor<700x(n)xf32>) dims (n in 1..4096) {
  %y = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add"} : tensor<900x(n)xf32>
  return(%y)
}
