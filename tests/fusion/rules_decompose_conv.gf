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
func @one_by_one__as_many_channels_as_a_symbol_says(%x: tensor<(n)x4x4x4xf32>, %w: tensor<1x1x2x(2*q)xf32>) dims (n in 1..64, q in 1..8) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x(2*q)xf32>
  return(%v0)
}
// Positions of a line that is one tap high are as far apart as they like.
func @whole_window__dilated(%x: tensor<(n)x1x3x2xf32>, %w: tensor<1x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [2, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x1x1x5xf32>
  return(%v0)
}
// Taps 3 apart meet every second pixel of an image that is spread by 2: every third of the image itself.
func @phases__dilated(%x: tensor<(n)x1x8x2xf32>, %w: tensor<1x4x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 3], high = [0, 0], input_dilation = [1, 2], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x1x6x5xf32>
  return(%v0)
}
func @one_by_one__one_result(%x: tensor<(n)x4x4x2xf32>, %w: tensor<1x1x2x1xf32>) dims (n in 1..64) {
  %v0 = graph.conv(%x, %w) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x1xf32>
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
  %v0 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v1 = graph.take(%w, %v0) {axis = 0} : tensor<1x1x3x2x5xf32>
  %v2 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v3 = graph.take(%v1, %v2) {axis = 2} : tensor<1x1x1x1x2x5xf32>
  %v4 = graph.reshape(%v3) {shape = [2, 5]} : tensor<2x5xf32>
  %v5 = graph.contract(%x, %v4) {spec = "nhwc,co->nhwo"} : tensor<(n)x3x4x5xf32>
  %v6 = graph.reshape(%v5) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v7 = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x3x5x2xf32>
  %v8 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v9 = graph.take(%w, %v8) {axis = 0} : tensor<1x1x3x2x5xf32>
  %v10 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v11 = graph.take(%v9, %v10) {axis = 2} : tensor<1x1x1x2x2x5xf32>
  %v12 = graph.reshape(%v11) {shape = [1, 2, 2, 5]} : tensor<1x2x2x5xf32>
  %v13 = graph.conv(%v7, %v12) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x5xf32>
  %v14 = graph.reshape(%v13) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v15 = graph.concat(%v6, %v14) {axis = 4} : tensor<(n)x3x1x4x2x5xf32>
  %v16 = graph.pad(%x) {high = [0, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x4x2xf32>
  %v17 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v18 = graph.take(%w, %v17) {axis = 0} : tensor<1x2x3x2x5xf32>
  %v19 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v20 = graph.take(%v18, %v19) {axis = 2} : tensor<1x2x1x1x2x5xf32>
  %v21 = graph.reshape(%v20) {shape = [2, 1, 2, 5]} : tensor<2x1x2x5xf32>
  %v22 = graph.conv(%v16, %v21) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x5xf32>
  %v23 = graph.reshape(%v22) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v24 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x5x2xf32>
  %v25 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v26 = graph.take(%w, %v25) {axis = 0} : tensor<1x2x3x2x5xf32>
  %v27 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v28 = graph.take(%v26, %v27) {axis = 2} : tensor<1x2x1x2x2x5xf32>
  %v29 = graph.reshape(%v28) {shape = [2, 2, 2, 5]} : tensor<2x2x2x5xf32>
  %v30 = graph.conv(%v24, %v29) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x5xf32>
  %v31 = graph.reshape(%v30) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v32 = graph.concat(%v23, %v31) {axis = 4} : tensor<(n)x3x1x4x2x5xf32>
  %v33 = graph.concat(%v15, %v32) {axis = 2} : tensor<(n)x3x2x4x2x5xf32>
  %v34 = graph.reshape(%v33) {shape = [(n), 6, 8, 5]} : tensor<(n)x6x8x5xf32>
  return(%v34)
}

func @phases__strided(%x: tensor<(n)x3x4x2xf32>, %w: tensor<3x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v1 = graph.take(%w, %v0) {axis = 0} : tensor<1x1x3x2x5xf32>
  %v2 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v3 = graph.take(%v1, %v2) {axis = 2} : tensor<1x1x1x1x2x5xf32>
  %v4 = graph.reshape(%v3) {shape = [2, 5]} : tensor<2x5xf32>
  %v5 = graph.contract(%x, %v4) {spec = "nhwc,co->nhwo"} : tensor<(n)x3x4x5xf32>
  %v6 = graph.reshape(%v5) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v7 = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x3x5x2xf32>
  %v8 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v9 = graph.take(%w, %v8) {axis = 0} : tensor<1x1x3x2x5xf32>
  %v10 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v11 = graph.take(%v9, %v10) {axis = 2} : tensor<1x1x1x2x2x5xf32>
  %v12 = graph.reshape(%v11) {shape = [1, 2, 2, 5]} : tensor<1x2x2x5xf32>
  %v13 = graph.conv(%v7, %v12) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x5xf32>
  %v14 = graph.reshape(%v13) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v15 = graph.concat(%v6, %v14) {axis = 4} : tensor<(n)x3x1x4x2x5xf32>
  %v16 = graph.pad(%x) {high = [0, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x4x2xf32>
  %v17 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v18 = graph.take(%w, %v17) {axis = 0} : tensor<1x2x3x2x5xf32>
  %v19 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v20 = graph.take(%v18, %v19) {axis = 2} : tensor<1x2x1x1x2x5xf32>
  %v21 = graph.reshape(%v20) {shape = [2, 1, 2, 5]} : tensor<2x1x2x5xf32>
  %v22 = graph.conv(%v16, %v21) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x5xf32>
  %v23 = graph.reshape(%v22) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v24 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x5x2xf32>
  %v25 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v26 = graph.take(%w, %v25) {axis = 0} : tensor<1x2x3x2x5xf32>
  %v27 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v28 = graph.take(%v26, %v27) {axis = 2} : tensor<1x2x1x2x2x5xf32>
  %v29 = graph.reshape(%v28) {shape = [2, 2, 2, 5]} : tensor<2x2x2x5xf32>
  %v30 = graph.conv(%v24, %v29) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x5xf32>
  %v31 = graph.reshape(%v30) {shape = [(n), 3, 1, 4, 1, 5]} : tensor<(n)x3x1x4x1x5xf32>
  %v32 = graph.concat(%v23, %v31) {axis = 4} : tensor<(n)x3x1x4x2x5xf32>
  %v33 = graph.concat(%v15, %v32) {axis = 2} : tensor<(n)x3x2x4x2x5xf32>
  %v34 = graph.reshape(%v33) {shape = [(n), 6, 8, 5]} : tensor<(n)x6x8x5xf32>
  %v35 = graph.slice(%v34) {sizes = [(n), 2, 3, 5], starts = [0, 0, 0, 0], steps = [1, 3, 3, 1]} : tensor<(n)x2x3x5xf32>
  return(%v35)
}

func @phases__groups(%x: tensor<(n)x3x4x4xf32>, %w: tensor<3x3x2x6xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 3, 4, 2, 2]} : tensor<(n)x3x4x2x2xf32>
  %v1 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v2 = graph.take(%w, %v1) {axis = 0} : tensor<1x1x3x2x6xf32>
  %v3 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v4 = graph.take(%v2, %v3) {axis = 2} : tensor<1x1x1x1x2x6xf32>
  %v5 = graph.reshape(%v4) {shape = [2, 2, 3]} : tensor<2x2x3xf32>
  %v6 = graph.permute(%v5) {perm = [1, 0, 2]} : tensor<2x2x3xf32>
  %v7 = graph.contract(%v0, %v6) {spec = "nhwgc,gco->nhwgo"} : tensor<(n)x3x4x2x3xf32>
  %v8 = graph.reshape(%v7) {shape = [(n), 3, 1, 4, 1, 6]} : tensor<(n)x3x1x4x1x6xf32>
  %v9 = graph.pad(%x) {high = [0, 0, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x3x5x4xf32>
  %v10 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v11 = graph.take(%w, %v10) {axis = 0} : tensor<1x1x3x2x6xf32>
  %v12 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v13 = graph.take(%v11, %v12) {axis = 2} : tensor<1x1x1x2x2x6xf32>
  %v14 = graph.reshape(%v13) {shape = [1, 2, 2, 6]} : tensor<1x2x2x6xf32>
  %v15 = graph.conv(%v9, %v14) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x6xf32>
  %v16 = graph.reshape(%v15) {shape = [(n), 3, 1, 4, 1, 6]} : tensor<(n)x3x1x4x1x6xf32>
  %v17 = graph.concat(%v8, %v16) {axis = 4} : tensor<(n)x3x1x4x2x6xf32>
  %v18 = graph.pad(%x) {high = [0, 1, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x4x4xf32>
  %v19 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v20 = graph.take(%w, %v19) {axis = 0} : tensor<1x2x3x2x6xf32>
  %v21 = graph.constant() {value = dense<1x1xi64, [1]>} : tensor<1x1xi64>
  %v22 = graph.take(%v20, %v21) {axis = 2} : tensor<1x2x1x1x2x6xf32>
  %v23 = graph.reshape(%v22) {shape = [2, 1, 2, 6]} : tensor<2x1x2x6xf32>
  %v24 = graph.conv(%v18, %v23) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x6xf32>
  %v25 = graph.reshape(%v24) {shape = [(n), 3, 1, 4, 1, 6]} : tensor<(n)x3x1x4x1x6xf32>
  %v26 = graph.pad(%x) {high = [0, 1, 1, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<(n)x4x5x4xf32>
  %v27 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v28 = graph.take(%w, %v27) {axis = 0} : tensor<1x2x3x2x6xf32>
  %v29 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v30 = graph.take(%v28, %v29) {axis = 2} : tensor<1x2x1x2x2x6xf32>
  %v31 = graph.reshape(%v30) {shape = [2, 2, 2, 6]} : tensor<2x2x2x6xf32>
  %v32 = graph.conv(%v26, %v31) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x3x4x6xf32>
  %v33 = graph.reshape(%v32) {shape = [(n), 3, 1, 4, 1, 6]} : tensor<(n)x3x1x4x1x6xf32>
  %v34 = graph.concat(%v25, %v33) {axis = 4} : tensor<(n)x3x1x4x2x6xf32>
  %v35 = graph.concat(%v17, %v34) {axis = 2} : tensor<(n)x3x2x4x2x6xf32>
  %v36 = graph.reshape(%v35) {shape = [(n), 6, 8, 6]} : tensor<(n)x6x8x6xf32>
  return(%v36)
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

func @one_by_one__as_many_channels_as_a_symbol_says(%x: tensor<(n)x4x4x4xf32>, %w: tensor<1x1x2x(2*q)xf32>) dims (n in 1..64, q in 1..8) {
  %v0 = graph.reshape(%x) {shape = [(n), 4, 4, 2, 2]} : tensor<(n)x4x4x2x2xf32>
  %v1 = graph.reshape(%w) {shape = [2, 2, (q)]} : tensor<2x2x(q)xf32>
  %v2 = graph.permute(%v1) {perm = [1, 0, 2]} : tensor<2x2x(q)xf32>
  %v3 = graph.contract(%v0, %v2) {spec = "nhwgc,gco->nhwgo"} : tensor<(n)x4x4x2x(q)xf32>
  %v4 = graph.reshape(%v3) {shape = [(n), 4, 4, (2*q)]} : tensor<(n)x4x4x(2*q)xf32>
  return(%v4)
}

func @whole_window__dilated(%x: tensor<(n)x1x3x2xf32>, %w: tensor<1x3x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 6]} : tensor<(n)x6xf32>
  %v1 = graph.reshape(%w) {shape = [6, 5]} : tensor<6x5xf32>
  %v2 = graph.contract(%v0, %v1) {spec = "nc,co->no"} : tensor<(n)x5xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 1, 1, 5]} : tensor<(n)x1x1x5xf32>
  return(%v3)
}

func @phases__dilated(%x: tensor<(n)x1x8x2xf32>, %w: tensor<1x4x2x5xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 1, 6, 2], starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : tensor<(n)x1x6x2xf32>
  %v1 = graph.constant() {value = dense<1x1xi64, [0]>} : tensor<1x1xi64>
  %v2 = graph.take(%w, %v1) {axis = 0} : tensor<1x1x4x2x5xf32>
  %v3 = graph.constant() {value = dense<1x2xi64, [0 2]>} : tensor<1x2xi64>
  %v4 = graph.take(%v2, %v3) {axis = 2} : tensor<1x1x1x2x2x5xf32>
  %v5 = graph.reshape(%v4) {shape = [1, 2, 2, 5]} : tensor<1x2x2x5xf32>
  %v6 = graph.conv(%v0, %v5) {dilation = [1, 3], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x1x3x5xf32>
  %v7 = graph.reshape(%v6) {shape = [(n), 1, 1, 3, 1, 5]} : tensor<(n)x1x1x3x1x5xf32>
  %v8 = graph.slice(%x) {sizes = [(n), 1, 6, 2], starts = [0, 0, 2, 0], steps = [1, 1, 1, 1]} : tensor<(n)x1x6x2xf32>
  %v9 = graph.constant() {value = dense<1x1xi64, [0]>} : tensor<1x1xi64>
  %v10 = graph.take(%w, %v9) {axis = 0} : tensor<1x1x4x2x5xf32>
  %v11 = graph.constant() {value = dense<1x2xi64, [1 3]>} : tensor<1x2xi64>
  %v12 = graph.take(%v10, %v11) {axis = 2} : tensor<1x1x1x2x2x5xf32>
  %v13 = graph.reshape(%v12) {shape = [1, 2, 2, 5]} : tensor<1x2x2x5xf32>
  %v14 = graph.conv(%v8, %v13) {dilation = [1, 3], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x1x3x5xf32>
  %v15 = graph.reshape(%v14) {shape = [(n), 1, 1, 3, 1, 5]} : tensor<(n)x1x1x3x1x5xf32>
  %v16 = graph.concat(%v7, %v15) {axis = 4} : tensor<(n)x1x1x3x2x5xf32>
  %v17 = graph.reshape(%v16) {shape = [(n), 1, 6, 5]} : tensor<(n)x1x6x5xf32>
  return(%v17)
}

func @one_by_one__one_result(%x: tensor<(n)x4x4x2xf32>, %w: tensor<1x1x2x1xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%w) {shape = [2, 1]} : tensor<2x1xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nhwc,co->nhwo"} : tensor<(n)x4x4x1xf32>
  return(%v1)
}
