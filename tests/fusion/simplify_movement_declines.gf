// RUN: simplify-movement
// What has to be 1 when it runs is not what repeats: the element that is left of it does.
func @f(%x: tensor<(n)xf32>, %y: tensor<2x3xf32>) dims (n in 1..64) {
  %one = graph.broadcast(%x) {shape = [1]} : tensor<1xf32>
  %v0 = graph.broadcast(%one) {shape = [2, 3]} : tensor<2x3xf32>
  %v1 = graph.add(%y, %v0) : tensor<2x3xf32>
  return(%v1)
}
// -----
func @f(%x: tensor<(n)xf32>, %y: tensor<2x3xf32>) dims (n in 1..64) {
  %one = graph.broadcast(%x) {shape = [1]} : tensor<1xf32>
  %v0 = graph.broadcast(%one) {shape = [2, 3]} : tensor<2x3xf32>
  %v1 = graph.add(%y, %v0) : tensor<2x3xf32>
  return(%v1)
}
