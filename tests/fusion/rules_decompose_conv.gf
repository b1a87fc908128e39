// RUN: decompose-conv
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @lift_to_two_dims(%x: tensor<(n)x9x2xf32>, %w: tensor<3x2x4xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1], high = [1], input_dilation = [1], layout = "nhwc", low = [1], strides = [2]} : tensor<(n)x5x4xf32>
  return(%v0)
}
func @phases(%x: tensor<(n)x3x4x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [2, 2], input_dilation = [2, 2], layout = "nhwc", low = [1, 1], strides = [1, 1]} : tensor<(n)x6x8x5xf32>
  return(%v0)
}
func @phases__strided(%x: tensor<(n)x3x4x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [2, 2], input_dilation = [2, 2], layout = "nhwc", low = [1, 1], strides = [3, 3]} : tensor<(n)x2x3x5xf32>
  return(%v0)
}
func @phases__groups(%x: tensor<(n)x3x4x4xf32>, %w: tensor<3x3x2x6xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [2, 2], input_dilation = [2, 2], layout = "nhwc", low = [1, 1], strides = [1, 1]} : tensor<(n)x6x8x6xf32>
  return(%v0)
}
func @pad_conv(%x: tensor<(n)x6x6x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [1, 2], input_dilation = [1, 1], layout = "nhwc", low = [1, -1], strides = [1, 1]} : tensor<(n)x6x5x5xf32>
  return(%v0)
}
func @pad_window(%x: tensor<(n)x6x6x2xf32>) dims (n in 1..64) {
  %v0 = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 1, 1, 0], kind = "max", low = [0, 1, 1, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x3x3x2xf32>
  %v1 = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 1, 1, 0], kind = "min", low = [0, 1, 1, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x3x3x2xf32>
  %v2 = graph.reduce_window(%x) {dilation = [1, 1, 1, 1], high = [0, 1, 1, 0], kind = "sum", low = [0, 1, 1, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x3x3x2xf32>
  return(%v0, %v1, %v2)
}
func @one_by_one(%x: tensor<(n)x6x6x2xf32>, %w: tensor<1x1x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x6x6x5xf32>
  %v1 = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [2, 3]} : tensor<(n)x3x2x5xf32>
  return(%v0, %v1)
}
func @one_by_one__groups(%x: tensor<(n)x6x6x6xf32>, %w: tensor<1x1x2x12xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], groups = 3, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 2]} : tensor<(n)x6x3x12xf32>
  return(%v0)
}
func @whole_window(%x: tensor<(n)x3x3x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x1x1x5xf32>
  return(%v0)
}
// -----
func @lift_to_two_dims(%x: tensor<(n)x9x2xf32>, %w: tensor<3x2x4xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 1, 9, 2]} : tensor<(n)x1x9x2xf32>
  %v1 = graph.pad(%v0) {high = [0, 0, 1, 0], low = [0, 0, 1, 0], value = 0.0} : tensor<(n)x1x11x2xf32>
  %v2 = graph.reshape(%w) {shape = [1, 3, 2, 4]} : tensor<1x3x2x4xf32>
  %v3 = graph.conv(%v1, %v2) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 2]} : tensor<(n)x1x5x4xf32>
  %v4 = graph.reshape(%v3) {shape = [(n), 5, 4]} : tensor<(n)x5x4xf32>
  return(%v4)
}

func @phases(%x: tensor<(n)x3x4x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x5x2xf32>
  %v1 = graph.pad(%w) {high = [1, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<4x4x2x5xf32>
  %v2 = graph.constant() {value = dense<2x2xi64, [1 3 0 2]>} : tensor<2x2xi64>
  %v3 = graph.take(%v1, %v2) {axis = 0} : tensor<2x2x4x2x5xf32>
  %v4 = graph.constant() {value = dense<2x2xi64, [1 3 0 2]>} : tensor<2x2xi64>
  %v5 = graph.take(%v3, %v4) {axis = 2} : tensor<2x2x2x2x2x5xf32>
  %v6 = graph.reshape(%v5) {shape = [2, 2, 2, 2, 2, 1, 5]} : tensor<2x2x2x2x2x1x5xf32>
  %v7 = graph.permute(%v6) {perm = [1, 3, 4, 5, 0, 2, 6]} : tensor<2x2x2x1x2x2x5xf32>
  %v8 = graph.reshape(%v7) {shape = [2, 2, 2, 20]} : tensor<2x2x2x20xf32>
  %v9 = graph.conv(%v0, %v8) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x20xf32>
  %v10 = graph.reshape(%v9) {shape = [(n), 3, 4, 2, 2, 5]} : tensor<(n)x3x4x2x2x5xf32>
  %v11 = graph.permute(%v10) {perm = [0, 1, 3, 2, 4, 5]} : tensor<(n)x3x2x4x2x5xf32>
  %v12 = graph.reshape(%v11) {shape = [(n), 6, 8, 5]} : tensor<(n)x6x8x5xf32>
  return(%v12)
}

func @phases__strided(%x: tensor<(n)x3x4x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x5x2xf32>
  %v1 = graph.pad(%w) {high = [1, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<4x4x2x5xf32>
  %v2 = graph.constant() {value = dense<2x2xi64, [1 3 0 2]>} : tensor<2x2xi64>
  %v3 = graph.take(%v1, %v2) {axis = 0} : tensor<2x2x4x2x5xf32>
  %v4 = graph.constant() {value = dense<2x2xi64, [1 3 0 2]>} : tensor<2x2xi64>
  %v5 = graph.take(%v3, %v4) {axis = 2} : tensor<2x2x2x2x2x5xf32>
  %v6 = graph.reshape(%v5) {shape = [2, 2, 2, 2, 2, 1, 5]} : tensor<2x2x2x2x2x1x5xf32>
  %v7 = graph.permute(%v6) {perm = [1, 3, 4, 5, 0, 2, 6]} : tensor<2x2x2x1x2x2x5xf32>
  %v8 = graph.reshape(%v7) {shape = [2, 2, 2, 20]} : tensor<2x2x2x20xf32>
  %v9 = graph.conv(%v0, %v8) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x20xf32>
  %v10 = graph.reshape(%v9) {shape = [(n), 3, 4, 2, 2, 5]} : tensor<(n)x3x4x2x2x5xf32>
  %v11 = graph.permute(%v10) {perm = [0, 1, 3, 2, 4, 5]} : tensor<(n)x3x2x4x2x5xf32>
  %v12 = graph.reshape(%v11) {shape = [(n), 6, 8, 5]} : tensor<(n)x6x8x5xf32>
  %v13 = graph.slice(%v12) {sizes = [(n), 2, 3, 5], starts = [0, 0, 0, 0], steps = [1, 3, 3, 1]} : tensor<(n)x2x3x5xf32>
  return(%v13)
}

func @phases__groups(%x: tensor<(n)x3x4x4xf32>, %w: tensor<3x3x2x6xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x5x4xf32>
  %v1 = graph.pad(%w) {high = [1, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<4x4x2x6xf32>
  %v2 = graph.constant() {value = dense<2x2xi64, [1 3 0 2]>} : tensor<2x2xi64>
  %v3 = graph.take(%v1, %v2) {axis = 0} : tensor<2x2x4x2x6xf32>
  %v4 = graph.constant() {value = dense<2x2xi64, [1 3 0 2]>} : tensor<2x2xi64>
  %v5 = graph.take(%v3, %v4) {axis = 2} : tensor<2x2x2x2x2x6xf32>
  %v6 = graph.reshape(%v5) {shape = [2, 2, 2, 2, 2, 2, 3]} : tensor<2x2x2x2x2x2x3xf32>
  %v7 = graph.permute(%v6) {perm = [1, 3, 4, 5, 0, 2, 6]} : tensor<2x2x2x2x2x2x3xf32>
  %v8 = graph.reshape(%v7) {shape = [2, 2, 2, 24]} : tensor<2x2x2x24xf32>
  %v9 = graph.conv(%v0, %v8) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x24xf32>
  %v10 = graph.reshape(%v9) {shape = [(n), 3, 4, 2, 2, 2, 3]} : tensor<(n)x3x4x2x2x2x3xf32>
  %v11 = graph.permute(%v10) {perm = [0, 1, 4, 2, 5, 3, 6]} : tensor<(n)x3x2x4x2x2x3xf32>
  %v12 = graph.reshape(%v11) {shape = [(n), 6, 8, 6]} : tensor<(n)x6x8x6xf32>
  return(%v12)
}

func @pad_conv(%x: tensor<(n)x6x6x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 6, 5, 2], starts = [0, 0, 1, 0], steps = [1, 1, 1, 1]} : tensor<(n)x6x5x2xf32>
  %v1 = graph.pad(%v0) {high = [0, 1, 2, 0], low = [0, 1, 0, 0], value = 0.0} : tensor<(n)x8x7x2xf32>
  %v2 = graph.conv(%v1, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x6x5x5xf32>
  return(%v2)
}

func @pad_window(%x: tensor<(n)x6x6x2xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = -inf} : tensor<(n)x8x8x2xf32>
  %v1 = graph.reduce_window(%v0) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "max", low = [0, 0, 0, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x3x3x2xf32>
  %v2 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = inf} : tensor<(n)x8x8x2xf32>
  %v3 = graph.reduce_window(%v2) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "min", low = [0, 0, 0, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x3x3x2xf32>
  %v4 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 1, 1, 0], value = 0.0} : tensor<(n)x8x8x2xf32>
  %v5 = graph.reduce_window(%v4) {dilation = [1, 1, 1, 1], high = [0, 0, 0, 0], kind = "sum", low = [0, 0, 0, 0], strides = [1, 2, 2, 1], window = [1, 3, 3, 1]} : tensor<(n)x3x3x2xf32>
  return(%v1, %v3, %v5)
}

func @one_by_one(%x: tensor<(n)x6x6x2xf32>, %w: tensor<1x1x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%w) {shape = [2, 5]} : tensor<2x5xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nhwc,co->nhwo"} : tensor<(n)x6x6x5xf32>
  %v2 = graph.slice(%x) {sizes = [(n), 3, 2, 2], starts = [0, 0, 0, 0], steps = [1, 2, 3, 1]} : tensor<(n)x3x2x2xf32>
  %v3 = graph.reshape(%w) {shape = [2, 5]} : tensor<2x5xf32>
  %v4 = graph.contract(%v2, %v3) {spec = "nhwc,co->nhwo"} : tensor<(n)x3x2x5xf32>
  return(%v1, %v4)
}

func @one_by_one__groups(%x: tensor<(n)x6x6x6xf32>, %w: tensor<1x1x2x12xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 6, 3, 6], starts = [0, 0, 0, 0], steps = [1, 1, 2, 1]} : tensor<(n)x6x3x6xf32>
  %v1 = graph.reshape(%v0) {shape = [(n), 6, 3, 3, 2]} : tensor<(n)x6x3x3x2xf32>
  %v2 = graph.reshape(%w) {shape = [2, 3, 4]} : tensor<2x3x4xf32>
  %v3 = graph.permute(%v2) {perm = [1, 0, 2]} : tensor<3x2x4xf32>
  %v4 = graph.contract(%v1, %v3) {spec = "nhwgc,gco->nhwgo"} : tensor<(n)x6x3x3x4xf32>
  %v5 = graph.reshape(%v4) {shape = [(n), 6, 3, 12]} : tensor<(n)x6x3x12xf32>
  return(%v5)
}

func @whole_window(%x: tensor<(n)x3x3x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 18]} : tensor<(n)x18xf32>
  %v1 = graph.reshape(%w) {shape = [18, 5]} : tensor<18x5xf32>
  %v2 = graph.contract(%v0, %v1) {spec = "nc,co->no"} : tensor<(n)x5xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 1, 1, 5]} : tensor<(n)x1x1x5xf32>
  return(%v3)
}
