// RUN:
// Regions, and loops that carry, stack, read an outer value, and use their own dim.
func @main(%x: tensor<(n)x4xf32>, %w: tensor<4xf32>) {attribute = "kept", list = [1, 2.5, "three", [(n), f32]]} dims (n in 1..64) {
  %r = graph.region(%x, %w) {kernel = "pointwise_0", kind = "pointwise"} do (%a: tensor<(n)x4xf32>, %c: tensor<4xf32>) {
    %b = graph.broadcast(%c) {shape = [(n), 4]} : tensor<(n)x4xf32>
    %s = graph.mul(%a, %b) : tensor<(n)x4xf32>
    yield(%s)
  } : tensor<(n)x4xf32>
  %sum, %rows = graph.loop(%w) {count = (n), symbol = "t"} do (%acc: tensor<4xf32>) {
    %row = graph.slice(%r) {sizes = [1, 4], starts = [(t), 0], steps = [1, 1]} : tensor<1x4xf32>
    %flat = graph.reshape(%row) {shape = [4]} : tensor<4xf32>
    %time = graph.full() {elem = f32, shape = [4], value = (t)} : tensor<4xf32>
    %y = graph.add(%acc, %flat) : tensor<4xf32>
    %z = graph.add(%y, %time) : tensor<4xf32>
    yield(%z, %time)
  } : tensor<4xf32>, tensor<(n)x4xf32>
  %same = graph.loop(%w) {count = 0, symbol = "t"} do (%acc_0: tensor<4xf32>) {
    yield(%acc_0)
  } : tensor<4xf32>
  return(%sum, %rows, %same)
}
