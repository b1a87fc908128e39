// RUN: fold-batch-norm
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @scale_after(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [2.0 10.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v4 = graph.mul(%v1, %v3) : tensor<(n)x2xf32>
  return(%v4)
}
func @scale_after__bias_between(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [1.0 -1.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v4 = graph.add(%v1, %v3) : tensor<(n)x2xf32>
  %v5 = graph.constant() {value = dense<2xf32, [2.0 10.0]>} : tensor<2xf32>
  %v6 = graph.broadcast(%v5) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v7 = graph.mul(%v4, %v6) : tensor<(n)x2xf32>
  return(%v7)
}
func @scale_after__convolution(%x: tensor<(n)x2x4x4xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2x1x1xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2x1x1xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  %v2 = graph.constant() {value = dense<2x1x1xf32, [3.0 7.0]>} : tensor<2x1x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2, 4, 4]} : tensor<(n)x2x4x4xf32>
  %v4 = graph.mul(%v1, %v3) : tensor<(n)x2x4x4xf32>
  return(%v4)
}
func @scale_after__convolution_with_channels_last(%x: tensor<(n)x4x4x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<1x1x2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<1x1x2x2xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [3.0 7.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 4, 4, 2]} : tensor<(n)x4x4x2xf32>
  %v4 = graph.mul(%v1, %v3) : tensor<(n)x4x4x2xf32>
  return(%v4)
}
func @scale_after_scale__of_what_others_read(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [2.0 10.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v4 = graph.mul(%v1, %v3) : tensor<(n)x2xf32>
  %v5 = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %v6 = graph.broadcast(%v5) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v7 = graph.mul(%v4, %v6) : tensor<(n)x2xf32>
  return(%v1, %v7)
}
func @quotient_after(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [2.0 8.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v4 = graph.div(%v1, %v3) : tensor<(n)x2xf32>
  return(%v4)
}
func @shift_after_shift(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v2 = graph.add(%x, %v1) : tensor<(n)x2xf32>
  %v3 = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %v4 = graph.broadcast(%v3) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v5 = graph.add(%v2, %v4) : tensor<(n)x2xf32>
  %v6 = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %v7 = graph.broadcast(%v6) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v8 = graph.sub(%x, %v7) : tensor<(n)x2xf32>
  return(%v5, %v8)
}
func @scale_after_scale(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v2 = graph.mul(%x, %v1) : tensor<(n)x2xf32>
  %v3 = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %v4 = graph.broadcast(%v3) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v5 = graph.mul(%v2, %v4) : tensor<(n)x2xf32>
  %v6 = graph.constant() {value = dense<2xf32, [1.5 2.0]>} : tensor<2xf32>
  %v7 = graph.broadcast(%v6) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v8 = graph.mul(%x, %v7) : tensor<(n)x2xf32>
  %v9 = graph.constant() {value = dense<2xf32, [7.0 11.0]>} : tensor<2xf32>
  %v10 = graph.broadcast(%v9) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v11 = graph.add(%v8, %v10) : tensor<(n)x2xf32>
  %v12 = graph.constant() {value = dense<2xf32, [3.0 5.0]>} : tensor<2xf32>
  %v13 = graph.broadcast(%v12) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v14 = graph.mul(%v11, %v13) : tensor<(n)x2xf32>
  return(%v5, %v14)
}
func @scale_before_contract(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3xf32, [2.0 3.0 5.0]>} : tensor<3xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 3]} : tensor<(n)x3xf32>
  %v2 = graph.mul(%x, %v1) : tensor<(n)x3xf32>
  %v3 = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %v4 = graph.contract(%v2, %v3) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%v4)
}
func @scale_before_conv(%x: tensor<(n)x2x4x4xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x1x1xf32, [3.0 7.0]>} : tensor<2x1x1xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2, 4, 4]} : tensor<(n)x2x4x4xf32>
  %v2 = graph.mul(%x, %v1) : tensor<(n)x2x4x4xf32>
  %v3 = graph.constant() {value = dense<2x2x1x1xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2x1x1xf32>
  %v4 = graph.conv(%v2, %v3) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  return(%v4)
}
func @scale_before_conv__channels_last(%x: tensor<(n)x4x4x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2xf32, [3.0 7.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 4, 4, 2]} : tensor<(n)x4x4x2xf32>
  %v2 = graph.mul(%x, %v1) : tensor<(n)x4x4x2xf32>
  %v3 = graph.constant() {value = dense<1x1x2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<1x1x2x2xf32>
  %v4 = graph.conv(%v2, %v3) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x2xf32>
  return(%v4)
}
// Groups have channels of their own: one scale is that of all of them.
func @scale_before_conv__groups(%x: tensor<(n)x2x4x4xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n), 2, 4, 4], value = 3.0} : tensor<(n)x2x4x4xf32>
  %v1 = graph.mul(%x, %v0) : tensor<(n)x2x4x4xf32>
  %v2 = graph.constant() {value = dense<2x1x1x1xf32, [5.0 7.0]>} : tensor<2x1x1x1xf32>
  %v3 = graph.conv(%v1, %v2) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  return(%v3)
}
func @scale_after__twice(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.full() {elem = f32, shape = [(n), 2], value = 1.0} : tensor<(n)x2xf32>
  %v3 = graph.add(%v1, %v2) : tensor<(n)x2xf32>
  %v4 = graph.full() {elem = f32, shape = [(n), 2], value = 3.0} : tensor<(n)x2xf32>
  %v5 = graph.mul(%v3, %v4) : tensor<(n)x2xf32>
  %v6 = graph.full() {elem = f32, shape = [(n), 2], value = 5.0} : tensor<(n)x2xf32>
  %v7 = graph.mul(%v5, %v6) : tensor<(n)x2xf32>
  return(%v7)
}
func @scale_after__weights_on_the_left(%x: tensor<2x(n)xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v1 = graph.contract(%v0, %x) {spec = "ok,kn->on"} : tensor<2x(n)xf32>
  %v2 = graph.constant() {value = dense<2x1xf32, [3.0 7.0]>} : tensor<2x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [2, (n)]} : tensor<2x(n)xf32>
  %v4 = graph.mul(%v1, %v3) : tensor<2x(n)xf32>
  return(%v4)
}
func @scale_before_contract__weights_on_the_left(%x: tensor<2x(n)xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x1xf32, [3.0 7.0]>} : tensor<2x1xf32>
  %v1 = graph.broadcast(%v0) {shape = [2, (n)]} : tensor<2x(n)xf32>
  %v2 = graph.mul(%x, %v1) : tensor<2x(n)xf32>
  %v3 = graph.constant() {value = dense<2x2xf32, [1.0 2.0 3.0 4.0]>} : tensor<2x2xf32>
  %v4 = graph.contract(%v3, %v2) {spec = "ok,kn->on"} : tensor<2x(n)xf32>
  return(%v4)
}
// -----
func @scale_after(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [2.0 20.0 6.0 40.0 10.0 60.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%v1)
}

func @scale_after__bias_between(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [2.0 20.0 6.0 40.0 10.0 60.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [2.0 -10.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v4 = graph.add(%v1, %v3) : tensor<(n)x2xf32>
  return(%v4)
}

func @scale_after__convolution(%x: tensor<(n)x2x4x4xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2x1x1xf32, [3.0 6.0 21.0 28.0]>} : tensor<2x2x1x1xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  return(%v1)
}

func @scale_after__convolution_with_channels_last(%x: tensor<(n)x4x4x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<1x1x2x2xf32, [3.0 14.0 9.0 28.0]>} : tensor<1x1x2x2xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x2xf32>
  return(%v1)
}

func @scale_after_scale__of_what_others_read(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.constant() {value = dense<2xf32, [6.0 50.0]>} : tensor<2xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v4 = graph.mul(%v1, %v3) : tensor<(n)x2xf32>
  return(%v1, %v4)
}

func @quotient_after(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [0.5 0.25 1.5 0.5 2.5 0.75]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%v1)
}

func @shift_after_shift(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2xf32, [4.0 7.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v2 = graph.add(%x, %v1) : tensor<(n)x2xf32>
  %v3 = graph.constant() {value = dense<2xf32, [-1.0 -2.0]>} : tensor<2xf32>
  %v4 = graph.broadcast(%v3) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v5 = graph.add(%x, %v4) : tensor<(n)x2xf32>
  return(%v2, %v5)
}

func @scale_after_scale(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2xf32, [4.5 10.0]>} : tensor<2xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v2 = graph.mul(%x, %v1) : tensor<(n)x2xf32>
  %v3 = graph.constant() {value = dense<2xf32, [4.5 10.0]>} : tensor<2xf32>
  %v4 = graph.broadcast(%v3) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v5 = graph.mul(%x, %v4) : tensor<(n)x2xf32>
  %v6 = graph.constant() {value = dense<2xf32, [21.0 55.0]>} : tensor<2xf32>
  %v7 = graph.broadcast(%v6) {shape = [(n), 2]} : tensor<(n)x2xf32>
  %v8 = graph.add(%v5, %v7) : tensor<(n)x2xf32>
  return(%v2, %v8)
}

func @scale_before_contract(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<3x2xf32, [2.0 4.0 9.0 12.0 25.0 30.0]>} : tensor<3x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  return(%v1)
}

func @scale_before_conv(%x: tensor<(n)x2x4x4xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2x1x1xf32, [3.0 14.0 9.0 28.0]>} : tensor<2x2x1x1xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  return(%v1)
}

func @scale_before_conv__channels_last(%x: tensor<(n)x4x4x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<1x1x2x2xf32, [3.0 6.0 21.0 28.0]>} : tensor<1x1x2x2xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], high = [0, 0], input_dilation = [1, 1], layout = "nhwc", low = [0, 0], strides = [1, 1]} : tensor<(n)x4x4x2xf32>
  return(%v1)
}

func @scale_before_conv__groups(%x: tensor<(n)x2x4x4xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x1x1x1xf32, [15.0 21.0]>} : tensor<2x1x1x1xf32>
  %v1 = graph.conv(%x, %v0) {dilation = [1, 1], groups = 2, high = [0, 0], input_dilation = [1, 1], low = [0, 0], strides = [1, 1]} : tensor<(n)x2x4x4xf32>
  return(%v1)
}

func @scale_after__twice(%x: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2xf32, [15.0 30.0 45.0 60.0]>} : tensor<2x2xf32>
  %v1 = graph.contract(%x, %v0) {spec = "nk,ko->no"} : tensor<(n)x2xf32>
  %v2 = graph.full() {elem = f32, shape = [(n), 2], value = 15.0} : tensor<(n)x2xf32>
  %v3 = graph.add(%v1, %v2) : tensor<(n)x2xf32>
  return(%v3)
}

func @scale_after__weights_on_the_left(%x: tensor<2x(n)xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2xf32, [3.0 6.0 21.0 28.0]>} : tensor<2x2xf32>
  %v1 = graph.contract(%v0, %x) {spec = "ok,kn->on"} : tensor<2x(n)xf32>
  return(%v1)
}

func @scale_before_contract__weights_on_the_left(%x: tensor<2x(n)xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<2x2xf32, [3.0 14.0 9.0 28.0]>} : tensor<2x2xf32>
  %v1 = graph.contract(%v0, %x) {spec = "ok,kn->on"} : tensor<2x(n)xf32>
  return(%v1)
}
