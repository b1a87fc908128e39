// RUN: layout
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @channels_last(%x: tensor<(n)x2x4x4xf32>, %w: tensor<3x2x3x3xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [1, 1], input_dilation = [1, 1], low = [1, 1], strides = [1, 1]} : tensor<(n)x3x4x4xf32>
  return(%v0)
}
func @sink_permute(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.neg(%v0) : tensor<(n)x3x5x6xf32>
  %v2 = graph.permute(%v1) {perm = [0, 2, 3, 1]} : tensor<(n)x5x6x3xf32>
  return(%v2)
}
func @sink_elementwise(%x: tensor<(n)x5x6x3xf32>, %y: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.exp(%v0) : tensor<(n)x3x5x6xf32>
  %v2 = graph.permute(%y) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v3 = graph.add(%v1, %v2) : tensor<(n)x3x5x6xf32>
  return(%v3)
}
func @sink_reduce(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.reduce(%v0) {axes = [2, 3], keepdims = true, kind = "sum"} : tensor<(n)x3x1x1xf32>
  %v2 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v3 = graph.reduce(%v2) {axes = [1], keepdims = false, kind = "max"} : tensor<(n)x5x6xf32>
  return(%v1, %v3)
}
func @sink_along_axis(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.arg_reduce(%v0) {axis = 1, kind = "max"} : tensor<(n)x5x6xi64>
  %v2 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v3 = graph.cumulate(%v2) {axis = 2, kind = "sum"} : tensor<(n)x3x5x6xf32>
  %v4 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v5, %v6 = graph.topk(%v4) {axis = 3, k = 2} : tensor<(n)x3x5x2xf32>, tensor<(n)x3x5x2xi64>
  return(%v1, %v3, %v5)
}
func @sink_per_dim(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.pad(%v0) {high = [0, 0, 3, 4], low = [0, 0, 1, 2], value = 0.0} : tensor<(n)x3x9x12xf32>
  %v2 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v3 = graph.slice(%v2) {sizes = [(n), 2, 3, 3], starts = [0, 1, 2, 0], steps = [1, 1, 1, 2]} : tensor<(n)x2x3x3xf32>
  %v4 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v5 = graph.reduce_window(%v4) {dilation = [1, 1, 1, 1], high = [0, 0, 1, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 1, 2, 3], window = [1, 1, 2, 3]} : tensor<(n)x3x3x2xf32>
  return(%v1, %v3, %v5)
}
func @sink_flip(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.flip(%v0) {axes = [1, 3]} : tensor<(n)x3x5x6xf32>
  return(%v1)
}
func @sink_broadcast(%x: tensor<1x5x6x3xf32>) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<1x3x5x6xf32>
  %v1 = graph.broadcast(%v0) {shape = [2, 4, 3, 5, 6]} : tensor<2x4x3x5x6xf32>
  return(%v1)
}
func @sink_concat(%x: tensor<(n)x5x6x3xf32>, %y: tensor<(n)x5x6x2xf32>) dims (n in 1..64) {
  %v0 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v2 = graph.neg(%y) : tensor<(n)x5x6x2xf32>
  %v3 = graph.permute(%v2) {perm = [0, 3, 1, 2]} : tensor<(n)x2x5x6xf32>
  %v4 = graph.concat(%v1, %v3) {axis = 1} : tensor<(n)x5x5x6xf32>
  return(%v4)
}
func @sink_concat__of_parameters(%x: tensor<(n)x5x6x3xf32>, %y: tensor<(n)x2x5x6xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.concat(%v0, %y) {axis = 1} : tensor<(n)x5x5x6xf32>
  %v2 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v3 = graph.permute(%v2) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v4 = graph.flip(%v3) {axes = [1]} : tensor<(n)x3x5x6xf32>
  %v5 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v6 = graph.permute(%v5) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v7 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v8 = graph.permute(%v7) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v9 = graph.exp(%v8) : tensor<(n)x3x5x6xf32>
  %v10 = graph.concat(%v6, %v9) {axis = 1} : tensor<(n)x6x5x6xf32>
  return(%v1, %v4, %v10)
}
func @sink_take(%x: tensor<(n)x5x6x3xf32>, %i: tensor<2x4xi64>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.take(%v0, %i) {axis = 2} : tensor<(n)x3x2x4x6xf32>
  return(%v1)
}
func @sink_reshape(%x: tensor<(n)x5x6x4xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x4x5x6xf32>
  %v1 = graph.reshape(%v0) {shape = [(n), 2, 2, 5, 6]} : tensor<(n)x2x2x5x6xf32>
  return(%v1)
}
func @unflatten_into_weights(%x: tensor<(n)x2x2x2xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x2x2x2xf32>
  %v1 = graph.reshape(%v0) {shape = [(n), 8]} : tensor<(n)x8xf32>
  %v2 = graph.constant() {value = dense<8x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0 12.0 13.0 14.0 15.0 16.0]>} : tensor<8x2xf32>
  %v3 = graph.contract(%v1, %v2) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%v3)
}
// -----
func @channels_last(%x: tensor<(n)x2x4x4xf32>, %w: tensor<3x2x3x3xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<(n)x4x4x2xf32>
  %v1 = graph.permute(%w) {perm = [2, 3, 1, 0]} : tensor<3x3x2x3xf32>
  %v2 = graph.conv(%v0, %v1) {dilation = [1, 1], high = [1, 1], input_dilation = [1, 1], layout = "nhwc", low = [1, 1], strides = [1, 1]} : tensor<(n)x4x4x3xf32>
  %v3 = graph.permute(%v2) {perm = [0, 3, 1, 2]} : tensor<(n)x3x4x4xf32>
  return(%v3)
}

func @sink_permute(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  return(%v0)
}

func @sink_elementwise(%x: tensor<(n)x5x6x3xf32>, %y: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.exp(%x) : tensor<(n)x5x6x3xf32>
  %v1 = graph.add(%v0, %y) : tensor<(n)x5x6x3xf32>
  %v2 = graph.permute(%v1) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  return(%v2)
}

func @sink_reduce(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.reduce(%x) {axes = [1, 2], keepdims = true, kind = "sum"} : tensor<(n)x1x1x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 3, 1, 2]} : tensor<(n)x3x1x1xf32>
  %v2 = graph.reduce(%x) {axes = [3], keepdims = false, kind = "max"} : tensor<(n)x5x6xf32>
  return(%v1, %v2)
}

func @sink_along_axis(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.arg_reduce(%x) {axis = 3, kind = "max"} : tensor<(n)x5x6xi64>
  %v1 = graph.cumulate(%x) {axis = 1, kind = "sum"} : tensor<(n)x5x6x3xf32>
  %v2 = graph.permute(%v1) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v3, %v4 = graph.topk(%x) {axis = 2, k = 2} : tensor<(n)x5x2x3xf32>, tensor<(n)x5x2x3xi64>
  %v5 = graph.permute(%v3) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x2xf32>
  return(%v0, %v2, %v5)
}

func @sink_per_dim(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 3, 4, 0], low = [0, 1, 2, 0], value = 0.0} : tensor<(n)x9x12x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 3, 1, 2]} : tensor<(n)x3x9x12xf32>
  %v2 = graph.slice(%x) {sizes = [(n), 3, 3, 2], starts = [0, 2, 0, 1], steps = [1, 1, 2, 1]} : tensor<(n)x3x3x2xf32>
  %v3 = graph.permute(%v2) {perm = [0, 3, 1, 2]} : tensor<(n)x2x3x3xf32>
  %v4 = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 1, 0, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 2, 3, 1], window = [1, 2, 3, 1]} : tensor<(n)x3x2x3xf32>
  %v5 = graph.permute(%v4) {perm = [0, 3, 1, 2]} : tensor<(n)x3x3x2xf32>
  return(%v1, %v3, %v5)
}

func @sink_flip(%x: tensor<(n)x5x6x3xf32>) dims (n in 1..64) {
  %v0 = graph.flip(%x) {axes = [2, 3]} : tensor<(n)x5x6x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  return(%v1)
}

func @sink_broadcast(%x: tensor<1x5x6x3xf32>) {
  %v0 = graph.broadcast(%x) {shape = [2, 4, 5, 6, 3]} : tensor<2x4x5x6x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 1, 4, 2, 3]} : tensor<2x4x3x5x6xf32>
  return(%v1)
}

func @sink_concat(%x: tensor<(n)x5x6x3xf32>, %y: tensor<(n)x5x6x2xf32>) dims (n in 1..64) {
  %v0 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v1 = graph.neg(%y) : tensor<(n)x5x6x2xf32>
  %v2 = graph.concat(%v0, %v1) {axis = 3} : tensor<(n)x5x6x5xf32>
  %v3 = graph.permute(%v2) {perm = [0, 3, 1, 2]} : tensor<(n)x5x5x6xf32>
  return(%v3)
}

func @sink_concat__of_parameters(%x: tensor<(n)x5x6x3xf32>, %y: tensor<(n)x2x5x6xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v1 = graph.concat(%v0, %y) {axis = 1} : tensor<(n)x5x5x6xf32>
  %v2 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v3 = graph.flip(%v2) {axes = [3]} : tensor<(n)x5x6x3xf32>
  %v4 = graph.permute(%v3) {perm = [0, 3, 1, 2]} : tensor<(n)x3x5x6xf32>
  %v5 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v6 = graph.neg(%x) : tensor<(n)x5x6x3xf32>
  %v7 = graph.exp(%v6) : tensor<(n)x5x6x3xf32>
  %v8 = graph.concat(%v5, %v7) {axis = 3} : tensor<(n)x5x6x6xf32>
  %v9 = graph.permute(%v8) {perm = [0, 3, 1, 2]} : tensor<(n)x6x5x6xf32>
  return(%v1, %v4, %v9)
}

func @sink_take(%x: tensor<(n)x5x6x3xf32>, %i: tensor<2x4xi64>) dims (n in 1..64) {
  %v0 = graph.take(%x, %i) {axis = 1} : tensor<(n)x2x4x6x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 4, 1, 2, 3]} : tensor<(n)x3x2x4x6xf32>
  return(%v1)
}

func @sink_reshape(%x: tensor<(n)x5x6x4xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 5, 6, 2, 2]} : tensor<(n)x5x6x2x2xf32>
  %v1 = graph.permute(%v0) {perm = [0, 3, 4, 1, 2]} : tensor<(n)x2x2x5x6xf32>
  return(%v1)
}

func @unflatten_into_weights(%x: tensor<(n)x2x2x2xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 8]} : tensor<(n)x8xf32>
  %v1 = graph.constant() {value = dense<8x2xf32, [1.0 2.0 9.0 10.0 3.0 4.0 11.0 12.0 5.0 6.0 13.0 14.0 7.0 8.0 15.0 16.0]>} : tensor<8x2xf32>
  %v2 = graph.contract(%v0, %v1) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%v2)
}
