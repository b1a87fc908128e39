func @f(%x: tensor<2x(n)xf32>, %y: tensor<2x3xf32>) {
  %r = graph.add(%x, %y) : tensor<2x(n)xf32>  // error: graph.add: operand types differ: tensor<2x(n)xf32> and tensor<2x3xf32>
  return()
}
// -----
func @f(%i: tensor<2x(n)xi64>) {
  %r = graph.exp(%i) : tensor<2x(n)xi64>  // error: graph.exp: operand must have a float element, got tensor<2x(n)xi64>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.and(%x, %x) : tensor<2x(n)xf32>  // error: graph.and: operand must have a logical element, got tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.shl(%x, %x) : tensor<2x(n)xf32>  // error: graph.shl: operand must have an integer element, got tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2xbool>) {
  %r = graph.add(%x, %x) : tensor<2xbool>  // error: graph.add: operand must have a number element, got tensor<2xbool>
  return()
}
// -----
func @f(%x: ptr<f32>) {
  %r = graph.exp(%x) : f32  // error: graph.exp: operand must be a tensor, got ptr<f32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.exp(%x, %x) : tensor<2x(n)xf32>  // error: graph.exp: too many positional arguments
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.add(%x) : tensor<2x(n)xf32>  // error: graph.add: missing a required argument: 'b'
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.exp(%x) {fast = true} : tensor<2x(n)xf32>  // error: graph.exp: there is no attribute 'fast'
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.exp(%x) {a = true} : tensor<2x(n)xf32>  // error: graph.exp: there is no attribute 'a'
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.exp(%x) do () {  // error: graph.exp: takes no body
    yield()
  } : tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.exp(%x) : tensor<2x(n)xf16>  // error: graph.exp: result types are (tensor<2x(n)xf16>), the rule says (tensor<2x(n)xf32>)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.select(%x, %x, %x) : tensor<2x(n)xf32>  // error: graph.select: condition must have a bool element, got tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %c: tensor<2xbool>) {
  %r = graph.select(%c, %x, %x) : tensor<2x(n)xf32>  // error: graph.select: operand types differ: tensor<2xbool>, tensor<2x(n)xf32> and tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.bitcast(%x) {to = f16} : tensor<2x(n)xf16>  // error: graph.bitcast: widths differ: f32 and f16
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.cast(%x) {to = 3} : tensor<2x(n)xf32>  // error: graph.cast: attribute 'to' must be Scalar, got 3
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.cast(%x) : tensor<2x(n)xf32>  // error: graph.cast: missing a required argument: 'to'
  return()
}
// -----
func @f() {
  %r = graph.iota() {axis = 1, elem = i64, shape = [4]} : tensor<4xi64>  // error: graph.iota: axis must be in 0..0, got 1
  return()
}
// -----
func @f() {
  %r = graph.full() {elem = i64, shape = [-4], value = 0} : tensor<4xi64>  // error: graph.full: result tensor<-4xi64> has a negative dim
  return()
}
// -----
func @f() {
  %r = graph.full() {elem = i64, shape = 4, value = 0} : tensor<4xi64>  // error: graph.full: attribute 'shape' must be tuple[Dim, ...], got 4
  return()
}
// -----
func @f() {
  %r = graph.full() {elem = i64, shape = [true], value = 0} : tensor<4xi64>  // error: graph.full: attribute 'shape' must be tuple[Dim, ...], got (True,)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce(%x) {axes = [0], kind = "mean"} : tensor<(n)xf32>  // error: graph.reduce: kind must be one of sum, prod, max, min, any, all, logaddexp, got mean
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce(%x) {axes = [0], kind = "any"} : tensor<(n)xf32>  // error: graph.reduce: kind any does not combine f32
  return()
}
// -----
func @f(%x: tensor<2xbool>) {
  %r = graph.reduce(%x) {axes = [0], kind = "sum"} : tensor<bool>  // error: graph.reduce: kind sum does not combine bool
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce(%x) {axes = [2], kind = "sum"} : tensor<(n)xf32>  // error: graph.reduce: axis must be in 0..1, got 2
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce(%x) {axes = [0, 0], kind = "sum"} : tensor<(n)xf32>  // error: graph.reduce: axes repeat: (0, 0)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.arg_reduce(%x) {axis = 0, kind = "sum"} : tensor<(n)xi64>  // error: graph.arg_reduce: kind must be max or min, got sum
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.cumulate(%x) {axis = 0, kind = "any"} : tensor<2x(n)xf32>  // error: graph.cumulate: kind must be one of sum, prod, max, min, logaddexp, got any
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce_window(%x) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0], strides = [1, 1], window = [1, 1]} : tensor<2x(n)xf32>  // error: graph.reduce_window: low must have 2 entries, got 1
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce_window(%x) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0, 0], strides = [1, 0], window = [1, 1]} : tensor<2x(n)xf32>  // error: graph.reduce_window: strides must be positive, got (1, 0)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce_window(%x) {dilation = [1, 1], high = [0, 0], kind = "prod", low = [0, 0], strides = [1, 1], window = [1, 1]} : tensor<2x(n)xf32>  // error: graph.reduce_window: kind must be sum, max or min, got prod
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.reduce_window(%x) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0, 0], strides = [1, 1], window = [5, 1]} : tensor<2x(n)xf32>  // error: graph.reduce_window: result tensor<-2x(n)xf32> has a negative dim
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.contract(%x, %x) {spec = "mk"} : tensor<2x2xf32>  // error: graph.contract: spec must look like 'bmk,bkn->bmn', got 'mk'
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.contract(%x, %x) {spec = "mk,kn->mn"} : tensor<2x2xf32>  // error: graph.contract: result types are (tensor<2x2xf32>), the rule says (tensor<2x(n)xf32>)
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %y: tensor<3x4xf32>) {
  %r = graph.contract(%x, %y) {spec = "km,kn->mn"} : tensor<(n)x4xf32>  // error: graph.contract: dim 'k' differs: 2 and 3
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.contract(%x, %x) {spec = "mm,kn->mn"} : tensor<2x2xf32>  // error: graph.contract: operand 0: labels 'mm' do not fit tensor<2x(n)xf32>
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>) {
  %r = graph.contract(%x, %x) {spec = "mk,nk->mm"} : tensor<2x2xf32>  // error: graph.contract: output labels 'mm' must be distinct labels of the operands
  return()
}
// -----
func @f(%x: tensor<2x(n)xf32>, %i: tensor<2x(n)xi64>) {
  %r = graph.contract(%x, %i) {spec = "mk,nk->mn"} : tensor<2x2xf32>  // error: graph.contract: elements differ: f32 and i64
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1], layout = "chwn"} : tensor<1x6x7x7xf32>  // error: graph.conv: layout must be nchw or nhwc, got chwn
  return()
}
// -----
func @f(%x: tensor<1x4xf32>, %w: tensor<6x2xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x6x7x7xf32>  // error: graph.conv: operands must have the same rank of at least 3, got tensor<1x4xf32> and tensor<6x2xf32>
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x6x7x7xf32>  // error: graph.conv: dilation must have 2 entries, got 1
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 0]} : tensor<1x6x7x7xf32>  // error: graph.conv: strides must be positive, got (1, 0)
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1], groups = 0} : tensor<1x6x7x7xf32>  // error: graph.conv: groups must be positive, got (0,)
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<1x6x7x7xf32>  // error: graph.conv: input has 4 channels, the weight expects 2 x 1 groups
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<5x2x3x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1], groups = 2} : tensor<1x6x7x7xf32>  // error: graph.conv: 5 output channels do not divide into 2 groups
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf16>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1], groups = 2} : tensor<1x6x7x7xf32>  // error: graph.conv: elements differ: f32 and f16
  return()
}
// -----
func @f(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x(k)x3xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1], groups = 2} : tensor<1x6x7x7xf32>  // error: graph.conv: the window must be static, got k
  return()
}
// -----
func @f(%x: tensor<1x4x9x2xf32>, %w: tensor<6x2x3x5xf32>) {
  %r = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1], groups = 2} : tensor<1x6x7x7xf32>  // error: graph.conv: result tensor<1x6x7x-2xf32> has a negative dim
  return()
}
// -----
func @f(%x: tensor<4x8xbf16>, %q: tensor<3x8xi8>, %s: tensor<3x2xbf16>) {
  %r = graph.contract_blocks(%x, %q, %s) {spec = "mk,kn->mn"} : tensor<4x8xf32>  // error: graph.contract_blocks: expected a spec such as mk,nk->mn, got 'mk,kn->mn'
  return()
}
// -----
func @f(%x: tensor<4x8xbf16>, %q: tensor<3x8xi8>, %s: tensor<3x3xbf16>) {
  %r = graph.contract_blocks(%x, %q, %s) {spec = "mk,nk->mn"} : tensor<4x3xf32>  // error: graph.contract_blocks: the scales tensor<3x3xbf16> are no blocks of rows of tensor<3x8xi8>
  return()
}
// -----
func @f(%x: tensor<4x8xbf16>, %q: tensor<3x8xbf16>, %s: tensor<3x2xbf16>) {
  %r = graph.contract_blocks(%x, %q, %s) {spec = "mk,nk->mn"} : tensor<4x3xf32>  // error: graph.contract_blocks: expected floats, integers and floats, got bf16, bf16 and bf16
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%x, %s, %s) {bits = 4, columns = 8} : tensor<4x8xf32>  // error: graph.contract_packed: expected panels of words (i32) of 2, 4 or 8 bits, got tensor<2x1x4xf32> of 4
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%x, %p, %s) {bits = 3, columns = 8} : tensor<4x8xf32>  // error: graph.contract_packed: expected panels of words (i32) of 2, 4 or 8 bits, got tensor<2x1x4xi32> of 3
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%x, %p, %x) {bits = 4, columns = 8} : tensor<4x8xf32>  // error: graph.contract_packed: the scales tensor<4x8xf32> are no blocks of tensor<2x1x4xi32>
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%x, %p, %s) {bits = 8, columns = 8} : tensor<4x8xf32>  // error: graph.contract_packed: expected floats or i8 [.., 4], got tensor<4x8xf32>
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%i, %p, %s) {bits = 4, columns = 8} : tensor<4x8xf32>  // error: graph.contract_packed: expected scales [.., 1] in f32 of tensor<4x8xi8>
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%x, %p, %s, %z) {bits = 4, columns = 8} : tensor<4x8xf32>  // error: graph.contract_packed: expected one zero point, or as many as tensor<2x1x4xf32>, got tensor<2x1x3xu8> and 0
  return()
}
// -----
func @f(%x: tensor<4x8xf32>, %i: tensor<4x8xi8>, %t: tensor<4x1xf32>, %p: tensor<2x1x4xi32>, %s: tensor<2x1x4xf32>, %z: tensor<2x1x3xu8>) {
  %r = graph.contract_packed(%x, %p, %s) {bits = 4, columns = 4} : tensor<4x4xf32>  // error: graph.contract_packed: 2 panels of 4 have not 4 columns
  return()
}
// -----
func @f(%x: tensor<4xf32>) {
  %r = graph.call(%x) {elems = [f32], grid = [1], name = "k", shapes = [[4]]} do (%a: ptr<f32>) {  // error: graph.call: the body takes (ptr<f32>), expected (ptr<f32>, ptr<f32>) and 0 integers
    yield()
  } : tensor<4xf32>
  return()
}
// -----
func @f(%x: tensor<4xf32>) {
  %r = graph.call(%x) {args = [3], elems = [f32], grid = [1], name = "k", shapes = [[4]]} do (%a: ptr<f32>, %b: ptr<f32>, %n: i64) {  // error: graph.call: expected a name of its own for each argument, got () for 1
    yield()
  } : tensor<4xf32>
  return()
}
// -----
func @f(%x: tensor<4xf32>) {
  %r = graph.call(%x) {elems = [f32], grid = [1, 1, 1, 1], name = "k", shapes = [[4]]} do (%a: ptr<f32>, %b: ptr<f32>) {  // error: graph.call: a grid has 1 to 3 axes, got 4
    yield()
  } : tensor<4xf32>
  return()
}
// -----
func @f(%x: tensor<4xf32>) {
  %r = graph.call(%x) {elems = [f32], grid = [1], name = "k", shapes = [[4]]} do (%a: ptr<f32>, %b: ptr<f32>) {  // error: graph.call: the body yields nothing: its results are what it stores
    yield(%a)
  } : tensor<4xf32>
  return()
}
// -----
func @f(%x: tensor<4x4xbf16>) {
  %r = graph.contract_parts(%x, %x, %x) {spec = "mk,kn->mn"} : tensor<4x4xf32>  // error: graph.contract_parts: expected the terms of two sums, as many of each, of one type
  return()
}
// -----
func @f(%x: tensor<4xf32>, %n: tensor<f32>) {
  %r = graph.call(%x) {args = [3], elems = [f32], grid = [1], name = "k", shapes = [[4]], symbols = ["n"]} do (%a: ptr<f32>, %b: ptr<f32>, %c: f32) {  // error: graph.call: arguments are integers, the body takes (f32)
    yield()
  } : tensor<4xf32>
  return()
}
