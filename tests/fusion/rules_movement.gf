// RUN: canonicalize
// RULES
// Each function shows the rule of its name; `__` begins a variant.
func @merge_reshape(%x: tensor<(n)x2x6xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 12]} : tensor<(n)x12xf32>
  %v1 = graph.reshape(%v0) {shape = [(n), 3, 4]} : tensor<(n)x3x4xf32>
  %v2 = graph.reshape(%x) {shape = [(n), 12]} : tensor<(n)x12xf32>
  %v3 = graph.reshape(%v2) {shape = [(n), 2, 6]} : tensor<(n)x2x6xf32>
  return(%v1, %v3)
}
func @merge_permute(%x: tensor<2x3x4xf32>, %y: tensor<2x1x4xf32>, %z: tensor<3x1xf32>) {
  %v0 = graph.permute(%x) {perm = [2, 0, 1]} : tensor<4x2x3xf32>
  %v1 = graph.permute(%v0) {perm = [1, 2, 0]} : tensor<2x3x4xf32>
  %v2 = graph.permute(%x) {perm = [2, 0, 1]} : tensor<4x2x3xf32>
  %v3 = graph.permute(%v2) {perm = [2, 1, 0]} : tensor<3x2x4xf32>
  %v4 = graph.permute(%y) {perm = [1, 0, 2]} : tensor<1x2x4xf32>
  %v5 = graph.broadcast(%z) {shape = [2, 3, 4]} : tensor<2x3x4xf32>
  %v6 = graph.permute(%v5) {perm = [2, 0, 1]} : tensor<4x2x3xf32>
  return(%v1, %v3, %v4, %v6)
}
func @merge_permute__reshaped(%x: tensor<(n)x4x3x2xf32>) dims (n in 1..64) {
  %v0 = graph.permute(%x) {perm = [0, 3, 1, 2]} : tensor<(n)x2x4x3xf32>
  %v1 = graph.reshape(%v0) {shape = [(n), 2, 12]} : tensor<(n)x2x12xf32>
  %v2 = graph.permute(%v1) {perm = [0, 2, 1]} : tensor<(n)x12x2xf32>
  return(%v2)
}
func @permute_of_take(%i: tensor<3xi64>) {
  %v0 = graph.constant() {value = dense<2x3xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<2x3xf32>
  %v1 = graph.take(%v0, %i) {axis = 0} : tensor<3x3xf32>
  %v2 = graph.permute(%v1) {perm = [1, 0]} : tensor<3x3xf32>
  return(%v2)
}
func @permute_of_take__two_dims_of_indices(%i: tensor<3x2xi64>) {
  %v0 = graph.constant() {value = dense<2x2x2xf32, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]>} : tensor<2x2x2xf32>
  %v1 = graph.take(%v0, %i) {axis = 0} : tensor<3x2x2x2xf32>
  %v2 = graph.permute(%v1) {perm = [3, 0, 1, 2]} : tensor<2x3x2x2xf32>
  return(%v2)
}
func @merge_broadcast__of_a_number(%x: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.constant() {value = dense<1xf32, [2.5]>} : tensor<1xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v2 = graph.mul(%x, %v1) : tensor<(n)x4xf32>
  return(%v2)
}
func @merge_broadcast(%x: tensor<4xf32>, %y: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.broadcast(%x) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v1 = graph.broadcast(%v0) {shape = [3, (n), 4]} : tensor<3x(n)x4xf32>
  %v2 = graph.full() {elem = f32, shape = [4], value = 2.0} : tensor<4xf32>
  %v3 = graph.broadcast(%v2) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v4 = graph.broadcast(%y) {shape = [(n), 4]} : tensor<(n)x4xf32>
  return(%v1, %v3, %v4)
}
func @broadcast_of_reshape(%x: tensor<4xf32>, %y: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [1, 4]} : tensor<1x4xf32>
  %v1 = graph.broadcast(%v0) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v2 = graph.add(%y, %v1) : tensor<(n)x4xf32>
  return(%v2)
}
func @slice_of_all(%x: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 4], starts = [0, 0], steps = [1, 1]} : tensor<(n)x4xf32>
  %v1 = graph.slice(%x) {sizes = [(n), 3], starts = [0, 1], steps = [1, 1]} : tensor<(n)x3xf32>
  return(%v0, %v1)
}
func @slice_of_slice(%x: tensor<(n)x20xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 6], starts = [0, 2], steps = [1, 3]} : tensor<(n)x6xf32>
  %v1 = graph.slice(%v0) {sizes = [(n), 2], starts = [0, 1], steps = [1, 2]} : tensor<(n)x2xf32>
  return(%v1)
}
func @slice_of_concat(%x: tensor<(n)x3xf32>, %y: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.concat(%x, %y) {axis = 1} : tensor<(n)x7xf32>
  %v1 = graph.slice(%v0) {sizes = [(n), 2], starts = [0, 4], steps = [1, 1]} : tensor<(n)x2xf32>
  %v2 = graph.concat(%x, %y) {axis = 1} : tensor<(n)x7xf32>
  %v3 = graph.slice(%v2) {sizes = [(n), 2], starts = [0, 2], steps = [1, 1]} : tensor<(n)x2xf32>
  return(%v1, %v3)
}
func @slice_of_pad(%x: tensor<(n)x5xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 3], low = [0, 2], value = 1.0} : tensor<(n)x10xf32>
  %v1 = graph.slice(%v0) {sizes = [(n), 5], starts = [0, 2], steps = [1, 1]} : tensor<(n)x5xf32>
  %v2 = graph.slice(%v0) {sizes = [(n), 2], starts = [0, 4], steps = [1, 2]} : tensor<(n)x2xf32>
  %v3 = graph.slice(%v0) {sizes = [(n), 6], starts = [0, 2], steps = [1, 1]} : tensor<(n)x6xf32>
  return(%v1, %v2, %v3)
}
func @slice_of_uniform(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n), 8], value = 1.5} : tensor<(n)x8xf32>
  %v1 = graph.slice(%v0) {sizes = [(n), 3], starts = [0, 2], steps = [1, 1]} : tensor<(n)x3xf32>
  %v2 = graph.concat(%x, %v1) {axis = 1} : tensor<(n)x6xf32>
  return(%v2)
}
func @slice_of_broadcast(%x: tensor<1x8xf32>) {
  %v0 = graph.broadcast(%x) {shape = [5, 8]} : tensor<5x8xf32>
  %v1 = graph.slice(%v0) {sizes = [3, 4], starts = [1, 2], steps = [1, 1]} : tensor<3x4xf32>
  return(%v1)
}
func @pad_of_nothing(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 0], low = [0, 0], value = 0.0} : tensor<(n)x3xf32>
  %v1 = graph.full() {elem = f32, shape = [(n), 3], value = 2.0} : tensor<(n)x3xf32>
  %v2 = graph.pad(%v1) {high = [0, 1], low = [0, 1], value = 2.0} : tensor<(n)x5xf32>
  %v3 = graph.concat(%x, %v2) {axis = 1} : tensor<(n)x8xf32>
  return(%v0, %v3)
}
func @pad_of_pad(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 2], low = [0, 1], value = 0.0} : tensor<(n)x6xf32>
  %v1 = graph.pad(%v0) {high = [0, 0], low = [0, 1], value = 0.0} : tensor<(n)x7xf32>
  %v2 = graph.pad(%x) {high = [0, 2], low = [0, 1], value = 0.0} : tensor<(n)x6xf32>
  %v3 = graph.pad(%v2) {high = [0, 0], low = [0, 1], value = 1.0} : tensor<(n)x7xf32>
  return(%v1, %v3)
}
func @concat_of_one(%x: tensor<(n)x3xf32>, %y: tensor<(n)x0xf32>) dims (n in 1..64) {
  %v0 = graph.concat(%x) {axis = 1} : tensor<(n)x3xf32>
  %v1 = graph.concat(%x, %y, %x) {axis = 1} : tensor<(n)x6xf32>
  return(%v0, %v1)
}
func @concat_of_concat(%x: tensor<(n)x3xf32>, %y: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.concat(%x, %y) {axis = 1} : tensor<(n)x5xf32>
  %v1 = graph.concat(%v0, %x) {axis = 1} : tensor<(n)x8xf32>
  %v2 = graph.concat(%x, %x) {axis = 0} : tensor<(2*n)x3xf32>
  %v3 = graph.concat(%y, %y) {axis = 0} : tensor<(2*n)x2xf32>
  %v4 = graph.concat(%v2, %v3) {axis = 1} : tensor<(2*n)x5xf32>
  return(%v1, %v4)
}
func @concat_of_slices(%x: tensor<(n)x8xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 2], starts = [0, 1], steps = [1, 1]} : tensor<(n)x2xf32>
  %v1 = graph.slice(%x) {sizes = [(n), 4], starts = [0, 3], steps = [1, 1]} : tensor<(n)x4xf32>
  %v2 = graph.slice(%x) {sizes = [(n), 1], starts = [0, 0], steps = [1, 1]} : tensor<(n)x1xf32>
  %v3 = graph.concat(%v0, %v1, %v2) {axis = 1} : tensor<(n)x7xf32>
  %v4 = graph.slice(%x) {sizes = [(n), 2], starts = [0, 1], steps = [1, 1]} : tensor<(n)x2xf32>
  %v5 = graph.slice(%x) {sizes = [(n), 1], starts = [0, 4], steps = [1, 1]} : tensor<(n)x1xf32>
  %v6 = graph.concat(%v4, %v5) {axis = 1} : tensor<(n)x3xf32>
  return(%v3, %v6)
}
func @flip_of_flip(%x: tensor<(n)x4xf32>, %y: tensor<(n)x1xf32>) dims (n in 1..64) {
  %v0 = graph.flip(%x) {axes = [0, 1]} : tensor<(n)x4xf32>
  %v1 = graph.flip(%v0) {axes = [1]} : tensor<(n)x4xf32>
  %v2 = graph.flip(%x) {axes = [1]} : tensor<(n)x4xf32>
  %v3 = graph.flip(%v2) {axes = [1]} : tensor<(n)x4xf32>
  %v4 = graph.flip(%y) {axes = [1]} : tensor<(n)x1xf32>
  return(%v1, %v3, %v4)
}
func @reduce_of_nothing(%x: tensor<(n)x1x4xf32>) dims (n in 1..64) {
  %v0 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "sum"} : tensor<(n)x4xf32>
  %v1 = graph.reduce(%x) {axes = [1], keepdims = true, kind = "max"} : tensor<(n)x1x4xf32>
  %v2 = graph.reduce(%x) {axes = [1, 2], keepdims = false, kind = "sum"} : tensor<(n)xf32>
  return(%v0, %v1, %v2)
}
func @reduce_across_ones(%x: tensor<1x5x1x4xf32>) {
  %v0 = graph.reduce(%x) {axes = [1, 3], keepdims = false, kind = "sum"} : tensor<1x1xf32>
  %v1 = graph.reduce(%x) {axes = [0, 3], keepdims = true, kind = "max"} : tensor<1x5x1x1xf32>
  %v2 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "max"} : tensor<1x1x4xf32>
  return(%v0, %v1, %v2)
}
func @contract_of_permute(%q: tensor<2x8x4x3xf32>, %k: tensor<2x4x8x3xf32>) {
  %v0 = graph.permute(%k) {perm = [0, 2, 1, 3]} : tensor<2x8x4x3xf32>
  %v1 = graph.contract(%q, %v0) {spec = "bhqd,bhkd->bhqk"} : tensor<2x8x4x4xf32>
  return(%v1)
}
func @merge_permute__constant_as_it_is(%x: tensor<2x3xf32>) {
  %v0 = graph.constant() {value = dense<2x3xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<2x3xf32>
  %v1 = graph.permute(%v0) {perm = [0, 1]} : tensor<2x3xf32>
  %v2 = graph.add(%x, %v1) : tensor<2x3xf32>
  return(%v2)
}
func @pad_of_nothing__edge(%x: tensor<3xf32>) {
  %v0 = graph.full() {elem = f32, shape = [3], value = 0.0} : tensor<3xf32>
  %v1 = graph.pad(%v0) {high = [1], low = [1], mode = "edge"} : tensor<5xf32>
  %v2 = graph.concat(%x, %v1) {axis = 0} : tensor<8xf32>
  return(%v2)
}
func @widen_what_was_looked_up(%x: tensor<6x5xf16>, %i: tensor<3xi64>, %j: tensor<6x2xi64>, %k: tensor<4x1xi64>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<6x5xf32>
  %v1 = graph.take(%v0, %i) {axis = 0} : tensor<3x5xf32>
  %v2 = graph.take_along(%v0, %j) {axis = 1} : tensor<6x2xf32>
  %v3 = graph.gather_nd(%v0, %k) : tensor<4x5xf32>
  %v4 = graph.reduce_window(%v0) {dilation = [1, 1], high = [0, 0], kind = "max", low = [0, 0], strides = [2, 1], window = [2, 1]} : tensor<3x5xf32>
  return(%v1, %v2, %v3, %v4)
}
func @widen_what_was_looked_up__a_part(%x: tensor<6x5xf16>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<6x5xf32>
  %v1 = graph.slice(%v0) {sizes = [5, 5], starts = [1, 0], steps = [1, 1]} : tensor<5x5xf32>
  return(%v1)
}
func @take_few_of_elementwise(%x: tensor<2x3x8xf16>, %m: tensor<6x8xf32>, %i: tensor<6x1xi64>) {
  %v0 = graph.cast(%x) {to = f32} : tensor<2x3x8xf32>
  %v1 = graph.reshape(%v0) {shape = [6, 8]} : tensor<6x8xf32>
  %v2 = graph.sub(%v1, %m) : tensor<6x8xf32>
  %v3 = graph.take_along(%v2, %i) {axis = 1} : tensor<6x1xf32>
  return(%v3)
}
func @take_of_equals(%x: tensor<6x1xf32>, %y: tensor<8xf32>, %i: tensor<6x2xi64>, %j: tensor<3x2xi64>) {
  %v0 = graph.broadcast(%x) {shape = [6, 8]} : tensor<6x8xf32>
  %v1 = graph.take_along(%v0, %i) {axis = 1} : tensor<6x2xf32>
  %v2 = graph.full() {elem = f32, shape = [6, 8], value = 2.0} : tensor<6x8xf32>
  %v3 = graph.take_along(%v2, %i) {axis = 1} : tensor<6x2xf32>
  %v4 = graph.add(%v1, %v3) : tensor<6x2xf32>
  %v5 = graph.broadcast(%y) {shape = [6, 8]} : tensor<6x8xf32>
  %v6 = graph.take_along(%v5, %i) {axis = 1} : tensor<6x2xf32>
  %v7 = graph.take_along(%v0, %j) {axis = 1} : tensor<3x2xf32>
  return(%v4, %v6, %v7)
}
func @widen_what_was_looked_up__not_what_is_summed(%x: tensor<6x5xf16>, %y: tensor<6x5xf32>, %i: tensor<3xi64>) {
  %v0 = graph.cast(%y) {to = f16} : tensor<6x5xf16>
  %v1 = graph.take(%v0, %i) {axis = 0} : tensor<3x5xf16>
  %v2 = graph.cast(%x) {to = f32} : tensor<6x5xf32>
  %v3 = graph.reduce_window(%v2) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0, 0], strides = [2, 1], window = [2, 1]} : tensor<3x5xf32>
  %v4 = graph.take(%v2, %i) {axis = 0} : tensor<3x5xf32>
  return(%v1, %v3, %v4)
}
// -----
func @merge_reshape(%x: tensor<(n)x2x6xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 3, 4]} : tensor<(n)x3x4xf32>
  return(%v0, %x)
}

func @merge_permute(%x: tensor<2x3x4xf32>, %y: tensor<2x1x4xf32>, %z: tensor<3x1xf32>) {
  %v0 = graph.permute(%x) {perm = [1, 0, 2]} : tensor<3x2x4xf32>
  %v1 = graph.reshape(%y) {shape = [1, 2, 4]} : tensor<1x2x4xf32>
  %v2 = graph.reshape(%z) {shape = [3]} : tensor<3xf32>
  %v3 = graph.broadcast(%v2) {shape = [4, 2, 3]} : tensor<4x2x3xf32>
  return(%x, %v0, %v1, %v3)
}

func @merge_permute__reshaped(%x: tensor<(n)x4x3x2xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 12, 2]} : tensor<(n)x12x2xf32>
  return(%v0)
}

func @permute_of_take(%i: tensor<3xi64>) {
  %v0 = graph.constant() {value = dense<3x2xf32, [1.0 4.0 2.0 5.0 3.0 6.0]>} : tensor<3x2xf32>
  %v1 = graph.take(%v0, %i) {axis = 1} : tensor<3x3xf32>
  return(%v1)
}

func @permute_of_take__two_dims_of_indices(%i: tensor<3x2xi64>) {
  %v0 = graph.constant() {value = dense<2x2x2xf32, [1.0 3.0 5.0 7.0 2.0 4.0 6.0 8.0]>} : tensor<2x2x2xf32>
  %v1 = graph.take(%v0, %i) {axis = 1} : tensor<2x3x2x2xf32>
  return(%v1)
}

func @merge_broadcast__of_a_number(%x: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n), 4], value = 2.5} : tensor<(n)x4xf32>
  %v1 = graph.mul(%x, %v0) : tensor<(n)x4xf32>
  return(%v1)
}

func @merge_broadcast(%x: tensor<4xf32>, %y: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.broadcast(%x) {shape = [3, (n), 4]} : tensor<3x(n)x4xf32>
  %v1 = graph.full() {elem = f32, shape = [(n), 4], value = 2.0} : tensor<(n)x4xf32>
  return(%v0, %v1, %y)
}

func @broadcast_of_reshape(%x: tensor<4xf32>, %y: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.broadcast(%x) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v1 = graph.add(%y, %v0) : tensor<(n)x4xf32>
  return(%v1)
}

func @slice_of_all(%x: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 3], starts = [0, 1], steps = [1, 1]} : tensor<(n)x3xf32>
  return(%x, %v0)
}

func @slice_of_slice(%x: tensor<(n)x20xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 2], starts = [0, 5], steps = [1, 6]} : tensor<(n)x2xf32>
  return(%v0)
}

func @slice_of_concat(%x: tensor<(n)x3xf32>, %y: tensor<(n)x4xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%y) {sizes = [(n), 2], starts = [0, 1], steps = [1, 1]} : tensor<(n)x2xf32>
  %v1 = graph.concat(%x, %y) {axis = 1} : tensor<(n)x7xf32>
  %v2 = graph.slice(%v1) {sizes = [(n), 2], starts = [0, 2], steps = [1, 1]} : tensor<(n)x2xf32>
  return(%v0, %v2)
}

func @slice_of_pad(%x: tensor<(n)x5xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 3], low = [0, 2], value = 1.0} : tensor<(n)x10xf32>
  %v1 = graph.slice(%x) {sizes = [(n), 2], starts = [0, 2], steps = [1, 2]} : tensor<(n)x2xf32>
  %v2 = graph.slice(%v0) {sizes = [(n), 6], starts = [0, 2], steps = [1, 1]} : tensor<(n)x6xf32>
  return(%x, %v1, %v2)
}

func @slice_of_uniform(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n), 3], value = 1.5} : tensor<(n)x3xf32>
  %v1 = graph.concat(%x, %v0) {axis = 1} : tensor<(n)x6xf32>
  return(%v1)
}

func @slice_of_broadcast(%x: tensor<1x8xf32>) {
  %v0 = graph.slice(%x) {sizes = [1, 4], starts = [0, 2], steps = [1, 1]} : tensor<1x4xf32>
  %v1 = graph.broadcast(%v0) {shape = [3, 4]} : tensor<3x4xf32>
  return(%v1)
}

func @pad_of_nothing(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.full() {elem = f32, shape = [(n), 5], value = 2.0} : tensor<(n)x5xf32>
  %v1 = graph.concat(%x, %v0) {axis = 1} : tensor<(n)x8xf32>
  return(%x, %v1)
}

func @pad_of_pad(%x: tensor<(n)x3xf32>) dims (n in 1..64) {
  %v0 = graph.pad(%x) {high = [0, 2], low = [0, 2], value = 0.0} : tensor<(n)x7xf32>
  %v1 = graph.pad(%x) {high = [0, 2], low = [0, 1], value = 0.0} : tensor<(n)x6xf32>
  %v2 = graph.pad(%v1) {high = [0, 0], low = [0, 1], value = 1.0} : tensor<(n)x7xf32>
  return(%v0, %v2)
}

func @concat_of_one(%x: tensor<(n)x3xf32>, %y: tensor<(n)x0xf32>) dims (n in 1..64) {
  %v0 = graph.concat(%x, %x) {axis = 1} : tensor<(n)x6xf32>
  return(%x, %v0)
}

func @concat_of_concat(%x: tensor<(n)x3xf32>, %y: tensor<(n)x2xf32>) dims (n in 1..64) {
  %v0 = graph.concat(%x, %y, %x) {axis = 1} : tensor<(n)x8xf32>
  %v1 = graph.concat(%x, %x) {axis = 0} : tensor<(2*n)x3xf32>
  %v2 = graph.concat(%y, %y) {axis = 0} : tensor<(2*n)x2xf32>
  %v3 = graph.concat(%v1, %v2) {axis = 1} : tensor<(2*n)x5xf32>
  return(%v0, %v3)
}

func @concat_of_slices(%x: tensor<(n)x8xf32>) dims (n in 1..64) {
  %v0 = graph.slice(%x) {sizes = [(n), 1], starts = [0, 0], steps = [1, 1]} : tensor<(n)x1xf32>
  %v1 = graph.slice(%x) {sizes = [(n), 6], starts = [0, 1], steps = [1, 1]} : tensor<(n)x6xf32>
  %v2 = graph.concat(%v1, %v0) {axis = 1} : tensor<(n)x7xf32>
  %v3 = graph.slice(%x) {sizes = [(n), 2], starts = [0, 1], steps = [1, 1]} : tensor<(n)x2xf32>
  %v4 = graph.slice(%x) {sizes = [(n), 1], starts = [0, 4], steps = [1, 1]} : tensor<(n)x1xf32>
  %v5 = graph.concat(%v3, %v4) {axis = 1} : tensor<(n)x3xf32>
  return(%v2, %v5)
}

func @flip_of_flip(%x: tensor<(n)x4xf32>, %y: tensor<(n)x1xf32>) dims (n in 1..64) {
  %v0 = graph.flip(%x) {axes = [0]} : tensor<(n)x4xf32>
  return(%v0, %x, %y)
}

func @reduce_of_nothing(%x: tensor<(n)x1x4xf32>) dims (n in 1..64) {
  %v0 = graph.reshape(%x) {shape = [(n), 4]} : tensor<(n)x4xf32>
  %v1 = graph.reduce(%x) {axes = [1, 2], keepdims = false, kind = "sum"} : tensor<(n)xf32>
  return(%v0, %x, %v1)
}

func @reduce_across_ones(%x: tensor<1x5x1x4xf32>) {
  %v0 = graph.reduce(%x) {axes = [1, 2, 3], keepdims = false, kind = "sum"} : tensor<1xf32>
  %v1 = graph.reshape(%v0) {shape = [1, 1]} : tensor<1x1xf32>
  %v2 = graph.reduce(%x) {axes = [3], keepdims = true, kind = "max"} : tensor<1x5x1x1xf32>
  %v3 = graph.reduce(%x) {axes = [1], keepdims = false, kind = "max"} : tensor<1x1x4xf32>
  return(%v1, %v2, %v3)
}

func @contract_of_permute(%q: tensor<2x8x4x3xf32>, %k: tensor<2x4x8x3xf32>) {
  %v0 = graph.contract(%q, %k) {spec = "bhqd,bkhd->bhqk"} : tensor<2x8x4x4xf32>
  return(%v0)
}

func @merge_permute__constant_as_it_is(%x: tensor<2x3xf32>) {
  %v0 = graph.constant() {value = dense<2x3xf32, [1.0 2.0 3.0 4.0 5.0 6.0]>} : tensor<2x3xf32>
  %v1 = graph.add(%x, %v0) : tensor<2x3xf32>
  return(%v1)
}

func @pad_of_nothing__edge(%x: tensor<3xf32>) {
  %v0 = graph.full() {elem = f32, shape = [5], value = 0.0} : tensor<5xf32>
  %v1 = graph.concat(%x, %v0) {axis = 0} : tensor<8xf32>
  return(%v1)
}

func @widen_what_was_looked_up(%x: tensor<6x5xf16>, %i: tensor<3xi64>, %j: tensor<6x2xi64>, %k: tensor<4x1xi64>) {
  %v0 = graph.take(%x, %i) {axis = 0} : tensor<3x5xf16>
  %v1 = graph.cast(%v0) {to = f32} : tensor<3x5xf32>
  %v2 = graph.take_along(%x, %j) {axis = 1} : tensor<6x2xf16>
  %v3 = graph.cast(%v2) {to = f32} : tensor<6x2xf32>
  %v4 = graph.gather_nd(%x, %k) : tensor<4x5xf16>
  %v5 = graph.cast(%v4) {to = f32} : tensor<4x5xf32>
  %v6 = graph.reduce_window(%x) {dilation = [1, 1], high = [0, 0], kind = "max", low = [0, 0], strides = [2, 1], window = [2, 1]} : tensor<3x5xf16>
  %v7 = graph.cast(%v6) {to = f32} : tensor<3x5xf32>
  return(%v1, %v3, %v5, %v7)
}

func @widen_what_was_looked_up__a_part(%x: tensor<6x5xf16>) {
  %v0 = graph.slice(%x) {sizes = [5, 5], starts = [1, 0], steps = [1, 1]} : tensor<5x5xf16>
  %v1 = graph.cast(%v0) {to = f32} : tensor<5x5xf32>
  return(%v1)
}

func @take_few_of_elementwise(%x: tensor<2x3x8xf16>, %m: tensor<6x8xf32>, %i: tensor<6x1xi64>) {
  %v0 = graph.reshape(%x) {shape = [6, 8]} : tensor<6x8xf16>
  %v1 = graph.take_along(%v0, %i) {axis = 1} : tensor<6x1xf16>
  %v2 = graph.cast(%v1) {to = f32} : tensor<6x1xf32>
  %v3 = graph.take_along(%m, %i) {axis = 1} : tensor<6x1xf32>
  %v4 = graph.sub(%v2, %v3) : tensor<6x1xf32>
  return(%v4)
}

func @take_of_equals(%x: tensor<6x1xf32>, %y: tensor<8xf32>, %i: tensor<6x2xi64>, %j: tensor<3x2xi64>) {
  %v0 = graph.broadcast(%x) {shape = [6, 8]} : tensor<6x8xf32>
  %v1 = graph.broadcast(%x) {shape = [6, 2]} : tensor<6x2xf32>
  %v2 = graph.full() {elem = f32, shape = [6, 2], value = 2.0} : tensor<6x2xf32>
  %v3 = graph.add(%v1, %v2) : tensor<6x2xf32>
  %v4 = graph.broadcast(%y) {shape = [6, 8]} : tensor<6x8xf32>
  %v5 = graph.take_along(%v4, %i) {axis = 1} : tensor<6x2xf32>
  %v6 = graph.take_along(%v0, %j) {axis = 1} : tensor<3x2xf32>
  return(%v3, %v5, %v6)
}

func @widen_what_was_looked_up__not_what_is_summed(%x: tensor<6x5xf16>, %y: tensor<6x5xf32>, %i: tensor<3xi64>) {
  %v0 = graph.cast(%y) {to = f16} : tensor<6x5xf16>
  %v1 = graph.take(%v0, %i) {axis = 0} : tensor<3x5xf16>
  %v2 = graph.cast(%x) {to = f32} : tensor<6x5xf32>
  %v3 = graph.reduce_window(%v2) {dilation = [1, 1], high = [0, 0], kind = "sum", low = [0, 0], strides = [2, 1], window = [2, 1]} : tensor<3x5xf32>
  %v4 = graph.take(%x, %i) {axis = 0} : tensor<3x5xf16>
  %v5 = graph.cast(%v4) {to = f32} : tensor<3x5xf32>
  return(%v1, %v3, %v5)
}
