// RUN:
// A kernel written by hand: pointers to operands and results, and an argument under the name that its indices use.
func @main(%M: tensor<(n)x4xf32>) dims (n in 1..64) {
  %r = graph.call(%M) {args = [(4*n)], elems = [f32], grid = [(floordiv(4*n + 7, 8))], name = "double", shapes = [[(n), 4]], symbols = ["M"], warps = 2} do (%x: ptr<f32>, %y: ptr<f32>, %M_0: i64) {
    %p = block.program_id() : i64
    %at = block.index(%p) {expr = (8*p), names = ["p"]} : i64
    %left = block.index(%p) {expr = (M - 8*p), names = ["p"]} : i64
    %v = block.load_view(%x, %at, %left) {limited = [0], shape = [8], strides = [1]} : tile<8xf32>
    %d = block.add(%v, %v) : tile<8xf32>
    block.store_view(%y, %at, %d, %left) {limited = [0], strides = [1]}
    yield()
  } : tensor<(n)x4xf32>
  return(%r)
}
