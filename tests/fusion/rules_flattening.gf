// RUN: recognise-flattening
// RULES
// Each function shows the rule of its name; finer forms end in a reshape.
func @reshape_to_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v1 = graph.neg(%v0) : tensor<(n)x2x12xf32>
  %v2 = graph.reshape(%v1) {shape = [(n), 4, 2, 3]} : tensor<(n)x4x2x3xf32>
  return(%v2)
}
func @reduce_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v1 = graph.reduce(%v0) {axes = [2], keepdims = true, kind = "sum"} : tensor<(n)x2x1xf32>
  return(%v1)
}
func @map_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v1 = graph.full() {elem = f32, shape = [(n), 2, 12], value = 2.0} : tensor<(n)x2x12xf32>
  %v2 = graph.mul(%v0, %v1) : tensor<(n)x2x12xf32>
  return(%v2)
}
func @broadcast_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v1 = graph.reshape(%x) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v2 = graph.reduce(%v1) {axes = [2], keepdims = true, kind = "sum"} : tensor<(n)x2x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v4 = graph.sub(%v0, %v3) : tensor<(n)x2x12xf32>
  return(%v4)
}
func @contract_parts(%x: tensor<(n)x5x4xf32>, %w: tensor<4x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(5*n), 4]} : tensor<(5*n)x4xf32>
  %v1 = graph.contract(%v0, %w) {spec = "mk,ko->mo"} : tensor<(5*n)x3xf32>
  %v2 = graph.reshape(%v1) {shape = [(n), 5, 3]} : tensor<(n)x5x3xf32>
  return(%v2)
}
// -----
func @reshape_to_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 2, 2, 3]} : tensor<(n)x2x2x2x3xf32>
  %v1 = graph.neg(%v0) : tensor<(n)x2x2x2x3xf32>
  %v2 = graph.reshape(%v1) {shape = [(n), 4, 2, 3]} : tensor<(n)x4x2x3xf32>
  return(%v2)
}

func @reduce_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 2, 2, 3]} : tensor<(n)x2x2x2x3xf32>
  %v1 = graph.reduce(%v0) {axes = [2, 3, 4], keepdims = true, kind = "sum"} : tensor<(n)x2x1x1x1xf32>
  %v2 = graph.reshape(%v1) {shape = [(n), 2, 1]} : tensor<(n)x2x1xf32>
  return(%v2)
}

func @map_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 2, 2, 3]} : tensor<(n)x2x2x2x3xf32>
  %v1 = graph.full() {elem = f32, shape = [(n), 2, 2, 2, 3], value = 2.0} : tensor<(n)x2x2x2x3xf32>
  %v2 = graph.mul(%v0, %v1) : tensor<(n)x2x2x2x3xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  return(%v3)
}

func @broadcast_parts(%x: tensor<(n)x4x2x3xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 2, 2, 2, 3]} : tensor<(n)x2x2x2x3xf32>
  %v1 = graph.reshape(%x) {shape = [(n), 2, 2, 2, 3]} : tensor<(n)x2x2x2x3xf32>
  %v2 = graph.reduce(%v1) {axes = [2, 3, 4], keepdims = true, kind = "sum"} : tensor<(n)x2x1x1x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2, 2, 2, 3]} : tensor<(n)x2x2x2x3xf32>
  %v4 = graph.sub(%v0, %v3) : tensor<(n)x2x2x2x3xf32>
  %v5 = graph.reshape(%v4) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  return(%v5)
}

func @contract_parts(%x: tensor<(n)x5x4xf32>, %w: tensor<4x3xf32>) dims (n in 1..64) {
  %v0 = graph.contract(%x, %w) {spec = "abk,ko->abo"} : tensor<(n)x5x3xf32>
  %v1 = graph.reshape(%v0) {shape = [(n), 5, 3]} : tensor<(n)x5x3xf32>
  return(%v1)
}
