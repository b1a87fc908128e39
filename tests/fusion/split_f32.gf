// RUN: split-f32
// HALVES
func @fires(%x: tensor<640x1024xf32>, %w: tensor<1024x640xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<640x640xf32>
  return(%y)
}
// Halves are multiplied as they are, and so is a batch.
func @declines(%x: tensor<640x1024xf16>, %w: tensor<1024x640xf16>, %b: tensor<2x64x64xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<640x640xf16>
  %z = graph.contract(%b, %b) {spec = "bmk,bkn->bmn"} : tensor<2x64x64xf32>
  return(%y, %z)
}
// Splitting takes longer than it saves.
func @small(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<64x64xf32>
  return(%y)
}
// -----
func @fires(%x: tensor<640x1024xf32>, %w: tensor<1024x640xf32>) {
  %v0 = graph.bitcast(%x) {to = i32} : tensor<640x1024xi32>
  %v1 = graph.full() {elem = i32, shape = [640, 1024], value = -65536} : tensor<640x1024xi32>
  %v2 = graph.and(%v0, %v1) : tensor<640x1024xi32>
  %v3 = graph.bitcast(%v2) {to = f32} : tensor<640x1024xf32>
  %v4 = graph.cast(%v3) {to = bf16} : tensor<640x1024xbf16>
  %v5 = graph.abs(%x) : tensor<640x1024xf32>
  %v6 = graph.full() {elem = f32, shape = [640, 1024], value = inf} : tensor<640x1024xf32>
  %v7 = graph.lt(%v5, %v6) : tensor<640x1024xbool>
  %v8 = graph.sub(%x, %v3) : tensor<640x1024xf32>
  %v9 = graph.full() {elem = f32, shape = [640, 1024], value = 9.313225746154785e-10} : tensor<640x1024xf32>
  %v10 = graph.mul(%v3, %v9) : tensor<640x1024xf32>
  %v11 = graph.add(%v8, %v10) : tensor<640x1024xf32>
  %v12 = graph.select(%v7, %v11, %x) : tensor<640x1024xf32>
  %v13 = graph.bitcast(%v12) {to = i32} : tensor<640x1024xi32>
  %v14 = graph.full() {elem = i32, shape = [640, 1024], value = -65536} : tensor<640x1024xi32>
  %v15 = graph.and(%v13, %v14) : tensor<640x1024xi32>
  %v16 = graph.bitcast(%v15) {to = f32} : tensor<640x1024xf32>
  %v17 = graph.cast(%v16) {to = bf16} : tensor<640x1024xbf16>
  %v18 = graph.sub(%v12, %v16) : tensor<640x1024xf32>
  %v19 = graph.full() {elem = f32, shape = [640, 1024], value = 9.313225746154785e-10} : tensor<640x1024xf32>
  %v20 = graph.mul(%v16, %v19) : tensor<640x1024xf32>
  %v21 = graph.add(%v18, %v20) : tensor<640x1024xf32>
  %v22 = graph.select(%v7, %v21, %x) : tensor<640x1024xf32>
  %v23 = graph.cast(%v22) {to = bf16} : tensor<640x1024xbf16>
  %v24 = graph.bitcast(%w) {to = i32} : tensor<1024x640xi32>
  %v25 = graph.full() {elem = i32, shape = [1024, 640], value = -65536} : tensor<1024x640xi32>
  %v26 = graph.and(%v24, %v25) : tensor<1024x640xi32>
  %v27 = graph.bitcast(%v26) {to = f32} : tensor<1024x640xf32>
  %v28 = graph.cast(%v27) {to = bf16} : tensor<1024x640xbf16>
  %v29 = graph.abs(%w) : tensor<1024x640xf32>
  %v30 = graph.full() {elem = f32, shape = [1024, 640], value = inf} : tensor<1024x640xf32>
  %v31 = graph.lt(%v29, %v30) : tensor<1024x640xbool>
  %v32 = graph.sub(%w, %v27) : tensor<1024x640xf32>
  %v33 = graph.full() {elem = f32, shape = [1024, 640], value = 9.313225746154785e-10} : tensor<1024x640xf32>
  %v34 = graph.mul(%v27, %v33) : tensor<1024x640xf32>
  %v35 = graph.add(%v32, %v34) : tensor<1024x640xf32>
  %v36 = graph.select(%v31, %v35, %w) : tensor<1024x640xf32>
  %v37 = graph.bitcast(%v36) {to = i32} : tensor<1024x640xi32>
  %v38 = graph.full() {elem = i32, shape = [1024, 640], value = -65536} : tensor<1024x640xi32>
  %v39 = graph.and(%v37, %v38) : tensor<1024x640xi32>
  %v40 = graph.bitcast(%v39) {to = f32} : tensor<1024x640xf32>
  %v41 = graph.cast(%v40) {to = bf16} : tensor<1024x640xbf16>
  %v42 = graph.sub(%v36, %v40) : tensor<1024x640xf32>
  %v43 = graph.full() {elem = f32, shape = [1024, 640], value = 9.313225746154785e-10} : tensor<1024x640xf32>
  %v44 = graph.mul(%v40, %v43) : tensor<1024x640xf32>
  %v45 = graph.add(%v42, %v44) : tensor<1024x640xf32>
  %v46 = graph.select(%v31, %v45, %w) : tensor<1024x640xf32>
  %v47 = graph.cast(%v46) {to = bf16} : tensor<1024x640xbf16>
  %y = graph.contract_parts(%v4, %v17, %v23, %v28, %v41, %v47) {spec = "mk,kn->mn"} : tensor<640x640xf32>
  return(%y)
}

func @declines(%x: tensor<640x1024xf16>, %w: tensor<1024x640xf16>, %b: tensor<2x64x64xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<640x640xf16>
  %z = graph.contract(%b, %b) {spec = "bmk,bkn->bmn"} : tensor<2x64x64xf32>
  return(%y, %z)
}

func @small(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) {
  %y = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<64x64xf32>
  return(%y)
}
