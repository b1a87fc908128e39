func @f(%x: tensor<4xf32>) {
  %r = graph.reshape(%x) {shape = [3]} : tensor<3xf32>  // error: graph.reshape: tensor<4xf32> has 4 elements, the new shape 3
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.permute(%x) {perm = [0, 0]} : tensor<2x(n)xf32>  // error: graph.permute: perm must be a permutation of 0..1, got (0, 0)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.broadcast(%x) {shape = [2]} : tensor<2xf32>  // error: graph.broadcast: cannot broadcast tensor<2x(n)xf32> to 1 dims
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.broadcast(%x) {shape = [3, (n)]} : tensor<3x(n)xf32>  // error: graph.broadcast: cannot broadcast dim 2 to 3
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.slice(%x) {sizes = [1, 1], starts = [0, 0], steps = [1]} : tensor<1x1xf32>  // error: graph.slice: steps must have 2 entries, got 1
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.slice(%x) {sizes = [1, 1], starts = [0, 0], steps = [1, -1]} : tensor<1x1xf32>  // error: graph.slice: steps must be positive, got -1
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.slice(%x) {sizes = [2, 1], starts = [1, 0], steps = [1, 1]} : tensor<2x1xf32>  // error: graph.slice: slice of 2 from 1 by 1 leaves a dim of 2
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.stretch(%x) {shape = [3, (n)]} : tensor<3x(n)xf32>  // error: graph.stretch: cannot broadcast dim 2 to 3
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.stretch(%x) {shape = [(n)]} : tensor<(n)xf32>  // error: graph.stretch: shape must have 2 entries, got 1
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.pad(%x) {high = [0, 0], low = [0]} : tensor<2x(n)xf32>  // error: graph.pad: low must have 2 entries, got 1
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.pad(%x) {high = [0, 0], low = [0, -1]} : tensor<2x(n)xf32>  // error: graph.pad: padding must not be negative, got (0, -1) and (0, 0)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.pad(%x) {high = [0, 0], low = [0, 0], mode = "zero"} : tensor<2x(n)xf32>  // error: graph.pad: mode must be constant, edge, reflect or wrap, got zero
  return()
}
// -----
func @f() {
  %r = graph.concat() {axis = 0} : tensor<2xf32>  // error: graph.concat: at least one operand is needed
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.concat(%x) {axis = 2} : tensor<2x(n)xf32>  // error: graph.concat: axis must be in 0..1, got 2
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %i: tensor<2x(n)xi64>) {
  %r = graph.concat(%x, %i) {axis = 1} : tensor<2x(2*n)xf32>  // error: graph.concat: operands differ: tensor<2x(n)xf32> and tensor<2x(n)xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %y: tensor<3x(n)xf32>) {
  %r = graph.concat(%x, %y) {axis = 1} : tensor<2x(2*n)xf32>  // error: graph.concat: dim 0 differs: 2 and 3
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.flip(%x) {axes = [0, -1]} : tensor<2x(n)xf32>  // error: graph.flip: axis must be in 0..1, got -1
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.take(%x, %x) {axis = 0} : tensor<2x(n)x(n)xf32>  // error: graph.take: indices must be i32 or i64, got tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: i64, %y: tensor<2xi64>) {
  %r = graph.take(%x, %y) {axis = 0} : tensor<2xi64>  // error: graph.take: operand must be a tensor, got i64
  return()
}
// -----
func @f(%x: i64, %y: tensor<2xi64>) {
  %r = graph.take(%y, %x) {axis = 0} : tensor<2xi64>  // error: graph.take: indices must be a tensor, got i64
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<2xi64>) {
  %r = graph.take_along(%x, %j) {axis = 0} : tensor<2xf32>  // error: graph.take_along: ranks differ: tensor<2x(n)xf32> and tensor<2xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<3x1xi64>) {
  %r = graph.take_along(%x, %j) {axis = 1} : tensor<3x1xf32>  // error: graph.take_along: dim 0 of the indices is 3, of the operand only 2
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %i: tensor<2x(n)xi64>) {
  %r = graph.gather_nd(%x, %i) : tensor<2xf32>  // error: graph.gather_nd: the last dim of indices must be static, got tensor<2x(n)xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<4x3xi64>) {
  %r = graph.gather_nd(%x, %j) : tensor<4xf32>  // error: graph.gather_nd: 3 indices after 0 batch dims do not fit tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<4x1xi64>) {
  %r = graph.gather_nd(%x, %j) {batch_dims = 1} : tensor<4xf32>  // error: graph.gather_nd: the first 1 dims differ: tensor<2x(n)xf32> and tensor<4x1xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %i: tensor<2x(n)xi64>) {
  %r = graph.scatter_along(%x, %i, %x) {axis = 0, kind = "sub"} : tensor<2x(n)xf32>  // error: graph.scatter_along: kind must be one of set, add, mul, max, min, got sub
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<1x(n)xi64>) {
  %r = graph.scatter_along(%x, %j, %x) {axis = 0} : tensor<2x(n)xf32>  // error: graph.scatter_along: indices tensor<1x(n)xi64> and updates tensor<2x(n)xf32> must have one shape, and updates x's element f32
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<2xi64>, %u: tensor<2xf32>) {
  %r = graph.scatter_along(%x, %j, %u) {axis = 0} : tensor<2x(n)xf32>  // error: graph.scatter_along: ranks differ: tensor<2x(n)xf32> and tensor<2xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<2x3xi64>) {
  %r = graph.scatter_nd(%x, %j, %x) : tensor<2x(n)xf32>  // error: graph.scatter_nd: the last dim of indices must be static and at most 2, got tensor<2x3xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %j: tensor<2x1xi64>, %u: tensor<2xf32>) {
  %r = graph.scatter_nd(%x, %j, %u) : tensor<2x(n)xf32>  // error: graph.scatter_nd: updates must be tensor<2x(n)xf32>, got tensor<2xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r, %s = graph.topk(%x) {axis = 0, k = 3} : tensor<3x(n)xf32>, tensor<3x(n)xi64>  // error: graph.topk: k is 3, the dim only 2
  return()
}
// -----
func @f(%x: tensor<4xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) {
  %r = graph.region(%x, %i, %u) {in_place = [0, 0], kernel = "k", kind = "scatter"} do (%a: tensor<4xf32>, %j: tensor<2x1xi64>, %v: tensor<2xf32>) {  // error: graph.region: in_place names an operand for each of the first results, got (0, 0)
    %s = graph.scatter_nd(%a, %j, %v) : tensor<4xf32>
    yield(%s)
  } : tensor<4xf32>
  return(%r)
}
// -----
func @f(%x: tensor<4xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) {
  %r = graph.region(%x, %i, %u) {in_place = [3], kernel = "k", kind = "scatter"} do (%a: tensor<4xf32>, %j: tensor<2x1xi64>, %v: tensor<2xf32>) {  // error: graph.region: in_place names operand 3 of 3
    %s = graph.scatter_nd(%a, %j, %v) : tensor<4xf32>
    yield(%s)
  } : tensor<4xf32>
  return(%r)
}
// -----
func @f(%x: tensor<4xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) {
  %r = graph.region(%x, %i, %u) {in_place = [2], kernel = "k", kind = "scatter"} do (%a: tensor<4xf32>, %j: tensor<2x1xi64>, %v: tensor<2xf32>) {  // error: graph.region: operand 2 is written in place, so one scatter and nothing else takes it
    %s = graph.scatter_nd(%a, %j, %v) : tensor<4xf32>
    yield(%s)
  } : tensor<4xf32>
  return(%r)
}
// -----
func @f(%x: tensor<4xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) {
  %r = graph.region(%x, %i, %u) {in_place = [0], kernel = "k", kind = "scatter"} do (%a: tensor<4xf32>, %j: tensor<2x1xi64>, %v: tensor<2xf32>) {  // error: graph.region: operand 0 is written in place, so one scatter and nothing else takes it
    %s = graph.neg(%a) : tensor<4xf32>
    yield(%s)
  } : tensor<4xf32>
  return(%r)
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.region(%x) {kernel = "k", kind = "pointwise"} : tensor<2x(n)xf32>  // error: graph.region: expected one body, got 0
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.region(%x) {kernel = "k", kind = "pointwise"} do () {  // error: graph.region: operands are (tensor<2x(n)xf32>), the body takes ()
    yield()
  } : tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.region(%x) {kernel = "k", kind = "pointwise"} do (%a: tensor<2x(n)xf32>) {
    %b = graph.add(%a, %x) : tensor<2x(n)xf32>  // error: graph.add: operand 1 does not dominate its use
    yield(%b)
  } : tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.loop(%x) {count = 3, symbol = "t"} do (%a: tensor<2x(n)xf32>) {  // error: graph.loop: carried types change: (tensor<2x(n)xf32>) to ()
    yield()
  } : tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.loop(%x) {count = 3, symbol = "t-1"} do (%a: tensor<2x(n)xf32>) {  // error: graph.loop: symbol must be a name, got 't-1'
    yield(%a)
  } : tensor<2x(n)xf32>
  return()
}
// -----
func @f() {
  %r = graph.loop() {count = 3, symbol = "t"} do () {  // error: graph.loop: a stacked tensor<(t)xf32> depends on t, the dim that counts
    %a = graph.full() {elem = f32, shape = [(t)], value = 0} : tensor<(t)xf32>
    yield(%a)
  } : tensor<3x(t)xf32>
  return()
}
// -----
func @f(%x: tensor<4xf32>) {
  %r = graph.region(%x) {kernel = "k", kind = "pointwise", over = [[0, 1]]} do (%a: tensor<4xf32>) {  // error: graph.region: over names an operand and a result of its size, got (0, 1)
    %s = graph.exp(%a) : tensor<4xf32>
    yield(%s)
  } : tensor<4xf32>
  return(%r)
}
// -----
func @f(%x: tensor<4xf32>) {
  %r = graph.region(%x) {kernel = "k", kind = "pointwise", over = [[0, 0]]} do (%a: tensor<4xf32>) {  // error: graph.region: over names an operand and a result of its size, got (0, 0)
    %s = graph.cast(%a) {to = f16} : tensor<4xf16>
    yield(%s)
  } : tensor<4xf16>
  return(%r)
}
