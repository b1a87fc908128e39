// RUN: split-keys
// Parts that are equal, and a last one that is filled up: its mask is padded, what indices decide is made for more.
func @equal(%q: tensor<1x1x64xf32>, %k: tensor<1x2048x64xf32>) {
  %s = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<1x1x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<1x1x2048xf32>
  %e = graph.exp(%c) : tensor<1x1x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %p = graph.div(%e, %tb) : tensor<1x1x2048xf32>
  %y = graph.contract(%p, %k) {spec = "hqk,hkd->hqd"} : tensor<1x1x64xf32>
  return(%y)
}

func @filled(%q: tensor<1x3x64xf16>, %k: tensor<1x1999x64xf16>, %mask: tensor<1999xf32>) {
  %z = graph.contract(%q, %k) {elem = f32, spec = "hqd,hkd->hqk"} : tensor<1x3x1999xf32>
  %i = graph.iota() {axis = 2, elem = i64, shape = [1, 3, 1999]} : tensor<1x3x1999xi64>
  %n = graph.full() {elem = i64, shape = [1, 3, 1999], value = 7} : tensor<1x3x1999xi64>
  %seen = graph.ge(%i, %n) : tensor<1x3x1999xbool>
  %a = graph.broadcast(%mask) {shape = [1, 3, 1999]} : tensor<1x3x1999xf32>
  %zm = graph.add(%z, %a) : tensor<1x3x1999xf32>
  %none = graph.full() {elem = f32, shape = [1, 3, 1999], value = -inf} : tensor<1x3x1999xf32>
  %s = graph.select(%seen, %zm, %none) : tensor<1x3x1999xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x3x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 3, 1999]} : tensor<1x3x1999xf32>
  %c = graph.sub(%s, %mb) : tensor<1x3x1999xf32>
  %e = graph.exp(%c) : tensor<1x3x1999xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x3x1xf32>
  %tb = graph.broadcast(%t) {shape = [1, 3, 1999]} : tensor<1x3x1999xf32>
  %p = graph.div(%e, %tb) : tensor<1x3x1999xf32>
  %h = graph.cast(%p) {to = f16} : tensor<1x3x1999xf16>
  %y = graph.contract(%h, %k) {spec = "hqk,hkd->qhd"} : tensor<3x1x64xf16>
  return(%y)
}

func @guarded(%q: tensor<1x1x64xf32>, %k: tensor<1x2048x64xf32>, %row: tensor<1x1x1xf32>) {
  %z = graph.contract(%q, %k) {spec = "hqd,hkd->hqk"} : tensor<1x1x2048xf32>
  %r = graph.broadcast(%row) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %s = graph.mul(%z, %r) : tensor<1x1x2048xf32>
  %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1xf32>
  %mb = graph.broadcast(%m) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %c = graph.sub(%s, %mb) : tensor<1x1x2048xf32>
  %e = graph.exp(%c) : tensor<1x1x2048xf32>
  %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1xf32>
  %tb = graph.broadcast(%t) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %p = graph.div(%e, %tb) : tensor<1x1x2048xf32>
  %isnan = graph.isnan(%p) : tensor<1x1x2048xbool>
  %zero = graph.full() {elem = f32, shape = [1, 1, 2048], value = 0.0} : tensor<1x1x2048xf32>
  %g = graph.select(%isnan, %zero, %p) : tensor<1x1x2048xf32>
  %y = graph.contract(%g, %k) {spec = "hqk,hkd->hqd"} : tensor<1x1x64xf32>
  return(%y)
}
// -----
func @equal(%q: tensor<1x1x64xf32>, %k: tensor<1x2048x64xf32>) {
  %v0 = graph.reshape(%k) {shape = [1, 32, 64, 64]} : tensor<1x32x64x64xf32>
  %v1 = graph.contract(%q, %v0) {spec = "hqd,hbkd->hqbk"} : tensor<1x1x32x64xf32>
  %v2 = graph.reduce(%v1) {axes = [3], keepdims = true, kind = "max"} : tensor<1x1x32x1xf32>
  %v3 = graph.broadcast(%v2) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v4 = graph.full() {elem = f32, shape = [1, 1, 32, 64], value = -inf} : tensor<1x1x32x64xf32>
  %v5 = graph.eq(%v3, %v4) : tensor<1x1x32x64xbool>
  %v6 = graph.full() {elem = f32, shape = [1, 1, 32, 64], value = 0.0} : tensor<1x1x32x64xf32>
  %v7 = graph.full() {elem = f32, shape = [1, 1, 32, 1], value = -inf} : tensor<1x1x32x1xf32>
  %v8 = graph.eq(%v2, %v7) : tensor<1x1x32x1xbool>
  %v9 = graph.full() {elem = f32, shape = [1, 1, 32, 1], value = 0.0} : tensor<1x1x32x1xf32>
  %v10 = graph.select(%v8, %v9, %v2) : tensor<1x1x32x1xf32>
  %v11 = graph.broadcast(%v10) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v12 = graph.sub(%v1, %v11) : tensor<1x1x32x64xf32>
  %v13 = graph.exp(%v12) : tensor<1x1x32x64xf32>
  %v14 = graph.reduce(%v13) {axes = [3], keepdims = true, kind = "sum"} : tensor<1x1x32x1xf32>
  %v15 = graph.broadcast(%v14) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v16 = graph.div(%v13, %v15) : tensor<1x1x32x64xf32>
  %v17 = graph.reshape(%k) {shape = [1, 32, 64, 64]} : tensor<1x32x64x64xf32>
  %v18 = graph.contract(%v16, %v17) {elem = f32, spec = "hqbk,hbka->hqba"} : tensor<1x1x32x64xf32>
  %v19 = graph.broadcast(%v14) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v20 = graph.reduce(%v3) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1x64xf32>
  %v21 = graph.broadcast(%v20) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v22 = graph.sub(%v3, %v21) : tensor<1x1x32x64xf32>
  %v23 = graph.exp(%v22) : tensor<1x1x32x64xf32>
  %v24 = graph.mul(%v19, %v23) : tensor<1x1x32x64xf32>
  %v25 = graph.select(%v5, %v6, %v24) : tensor<1x1x32x64xf32>
  %v26 = graph.mul(%v18, %v25) : tensor<1x1x32x64xf32>
  %v27 = graph.select(%v5, %v6, %v26) : tensor<1x1x32x64xf32>
  %v28 = graph.reduce(%v27) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1x64xf32>
  %v29 = graph.reduce(%v25) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1x64xf32>
  %v30 = graph.div(%v28, %v29) : tensor<1x1x1x64xf32>
  %v31 = graph.reshape(%v30) {shape = [1, 1, 64]} : tensor<1x1x64xf32>
  return(%v31)
}

func @filled(%q: tensor<1x3x64xf16>, %k: tensor<1x1999x64xf16>, %mask: tensor<1999xf32>) {
  %v0 = graph.iota() {axis = 0, elem = i64, shape = [2048]} : tensor<2048xi64>
  %v1 = graph.full() {elem = i64, shape = [2048], value = 1999} : tensor<2048xi64>
  %v2 = graph.lt(%v0, %v1) : tensor<2048xbool>
  %v3 = graph.reshape(%v2) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xbool>
  %v4 = graph.broadcast(%v3) {shape = [1, 3, 32, 64]} : tensor<1x3x32x64xbool>
  %v5 = graph.iota() {axis = 2, elem = i64, shape = [1, 3, 2048]} : tensor<1x3x2048xi64>
  %v6 = graph.reshape(%v5) {shape = [1, 3, 32, 64]} : tensor<1x3x32x64xi64>
  %v7 = graph.full() {elem = i64, shape = [1, 3, 32, 64], value = 7} : tensor<1x3x32x64xi64>
  %v8 = graph.ge(%v6, %v7) : tensor<1x3x32x64xbool>
  %v9 = graph.pad(%k) {high = [0, 49, 0], low = [0, 0, 0]} : tensor<1x2048x64xf16>
  %v10 = graph.reshape(%v9) {shape = [1, 32, 64, 64]} : tensor<1x32x64x64xf16>
  %v11 = graph.contract(%q, %v10) {elem = f32, spec = "hqd,hbkd->hqbk"} : tensor<1x3x32x64xf32>
  %v12 = graph.reshape(%mask) {shape = [1999, 1]} : tensor<1999x1xf32>
  %v13 = graph.pad(%v12) {high = [49, 0], low = [0, 0]} : tensor<2048x1xf32>
  %v14 = graph.reshape(%v13) {shape = [32, 64, 1]} : tensor<32x64x1xf32>
  %v15 = graph.reshape(%v14) {shape = [32, 64]} : tensor<32x64xf32>
  %v16 = graph.broadcast(%v15) {shape = [1, 3, 32, 64]} : tensor<1x3x32x64xf32>
  %v17 = graph.add(%v11, %v16) : tensor<1x3x32x64xf32>
  %v18 = graph.full() {elem = f32, shape = [1, 3, 32, 64], value = -inf} : tensor<1x3x32x64xf32>
  %v19 = graph.select(%v8, %v17, %v18) : tensor<1x3x32x64xf32>
  %v20 = graph.full() {elem = f32, shape = [1, 3, 32, 64], value = -inf} : tensor<1x3x32x64xf32>
  %v21 = graph.select(%v4, %v19, %v20) : tensor<1x3x32x64xf32>
  %v22 = graph.reduce(%v21) {axes = [3], keepdims = true, kind = "max"} : tensor<1x3x32x1xf32>
  %v23 = graph.reshape(%v22) {shape = [3, 1, 32, 1]} : tensor<3x1x32x1xf32>
  %v24 = graph.broadcast(%v23) {shape = [3, 1, 32, 64]} : tensor<3x1x32x64xf32>
  %v25 = graph.full() {elem = f32, shape = [3, 1, 32, 64], value = -inf} : tensor<3x1x32x64xf32>
  %v26 = graph.eq(%v24, %v25) : tensor<3x1x32x64xbool>
  %v27 = graph.full() {elem = f32, shape = [3, 1, 32, 64], value = 0.0} : tensor<3x1x32x64xf32>
  %v28 = graph.full() {elem = f32, shape = [1, 3, 32, 1], value = -inf} : tensor<1x3x32x1xf32>
  %v29 = graph.eq(%v22, %v28) : tensor<1x3x32x1xbool>
  %v30 = graph.full() {elem = f32, shape = [1, 3, 32, 1], value = 0.0} : tensor<1x3x32x1xf32>
  %v31 = graph.select(%v29, %v30, %v22) : tensor<1x3x32x1xf32>
  %v32 = graph.broadcast(%v31) {shape = [1, 3, 32, 64]} : tensor<1x3x32x64xf32>
  %v33 = graph.sub(%v21, %v32) : tensor<1x3x32x64xf32>
  %v34 = graph.exp(%v33) : tensor<1x3x32x64xf32>
  %v35 = graph.reduce(%v34) {axes = [3], keepdims = true, kind = "sum"} : tensor<1x3x32x1xf32>
  %v36 = graph.broadcast(%v35) {shape = [1, 3, 32, 64]} : tensor<1x3x32x64xf32>
  %v37 = graph.div(%v34, %v36) : tensor<1x3x32x64xf32>
  %v38 = graph.cast(%v37) {to = f16} : tensor<1x3x32x64xf16>
  %v39 = graph.pad(%k) {high = [0, 49, 0], low = [0, 0, 0]} : tensor<1x2048x64xf16>
  %v40 = graph.reshape(%v39) {shape = [1, 32, 64, 64]} : tensor<1x32x64x64xf16>
  %v41 = graph.contract(%v38, %v40) {elem = f32, spec = "hqbk,hbka->hqba"} : tensor<1x3x32x64xf32>
  %v42 = graph.reshape(%v41) {shape = [3, 1, 32, 64]} : tensor<3x1x32x64xf32>
  %v43 = graph.reshape(%v35) {shape = [3, 1, 32, 1]} : tensor<3x1x32x1xf32>
  %v44 = graph.broadcast(%v43) {shape = [3, 1, 32, 64]} : tensor<3x1x32x64xf32>
  %v45 = graph.reduce(%v24) {axes = [2], keepdims = true, kind = "max"} : tensor<3x1x1x64xf32>
  %v46 = graph.broadcast(%v45) {shape = [3, 1, 32, 64]} : tensor<3x1x32x64xf32>
  %v47 = graph.sub(%v24, %v46) : tensor<3x1x32x64xf32>
  %v48 = graph.exp(%v47) : tensor<3x1x32x64xf32>
  %v49 = graph.mul(%v44, %v48) : tensor<3x1x32x64xf32>
  %v50 = graph.select(%v26, %v27, %v49) : tensor<3x1x32x64xf32>
  %v51 = graph.mul(%v42, %v50) : tensor<3x1x32x64xf32>
  %v52 = graph.select(%v26, %v27, %v51) : tensor<3x1x32x64xf32>
  %v53 = graph.reduce(%v52) {axes = [2], keepdims = true, kind = "sum"} : tensor<3x1x1x64xf32>
  %v54 = graph.reduce(%v50) {axes = [2], keepdims = true, kind = "sum"} : tensor<3x1x1x64xf32>
  %v55 = graph.div(%v53, %v54) : tensor<3x1x1x64xf32>
  %v56 = graph.reshape(%v55) {shape = [3, 1, 64]} : tensor<3x1x64xf32>
  %v57 = graph.cast(%v56) {to = f16} : tensor<3x1x64xf16>
  return(%v57)
}

func @guarded(%q: tensor<1x1x64xf32>, %k: tensor<1x2048x64xf32>, %row: tensor<1x1x1xf32>) {
  %r = graph.broadcast(%row) {shape = [1, 1, 2048]} : tensor<1x1x2048xf32>
  %v0 = graph.reshape(%k) {shape = [1, 32, 64, 64]} : tensor<1x32x64x64xf32>
  %v1 = graph.contract(%q, %v0) {spec = "hqd,hbkd->hqbk"} : tensor<1x1x32x64xf32>
  %v2 = graph.reshape(%r) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v3 = graph.mul(%v1, %v2) : tensor<1x1x32x64xf32>
  %v4 = graph.reduce(%v3) {axes = [3], keepdims = true, kind = "max"} : tensor<1x1x32x1xf32>
  %v5 = graph.broadcast(%v4) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v6 = graph.full() {elem = f32, shape = [1, 1, 32, 64], value = -inf} : tensor<1x1x32x64xf32>
  %v7 = graph.eq(%v5, %v6) : tensor<1x1x32x64xbool>
  %v8 = graph.full() {elem = f32, shape = [1, 1, 32, 64], value = 0.0} : tensor<1x1x32x64xf32>
  %v9 = graph.full() {elem = f32, shape = [1, 1, 32, 1], value = -inf} : tensor<1x1x32x1xf32>
  %v10 = graph.eq(%v4, %v9) : tensor<1x1x32x1xbool>
  %v11 = graph.full() {elem = f32, shape = [1, 1, 32, 1], value = 0.0} : tensor<1x1x32x1xf32>
  %v12 = graph.select(%v10, %v11, %v4) : tensor<1x1x32x1xf32>
  %v13 = graph.broadcast(%v12) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v14 = graph.sub(%v3, %v13) : tensor<1x1x32x64xf32>
  %v15 = graph.exp(%v14) : tensor<1x1x32x64xf32>
  %v16 = graph.reduce(%v15) {axes = [3], keepdims = true, kind = "sum"} : tensor<1x1x32x1xf32>
  %v17 = graph.broadcast(%v16) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v18 = graph.reduce(%v5) {axes = [2], keepdims = true, kind = "max"} : tensor<1x1x1x64xf32>
  %v19 = graph.broadcast(%v18) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v20 = graph.sub(%v5, %v19) : tensor<1x1x32x64xf32>
  %v21 = graph.exp(%v20) : tensor<1x1x32x64xf32>
  %v22 = graph.mul(%v17, %v21) : tensor<1x1x32x64xf32>
  %v23 = graph.select(%v7, %v8, %v22) : tensor<1x1x32x64xf32>
  %v24 = graph.reduce(%v23) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1x64xf32>
  %v25 = graph.full() {elem = f32, shape = [1, 1, 1, 64], value = 0.0} : tensor<1x1x1x64xf32>
  %v26 = graph.gt(%v24, %v25) : tensor<1x1x1x64xbool>
  %v27 = graph.broadcast(%v16) {shape = [1, 1, 32, 64]} : tensor<1x1x32x64xf32>
  %v28 = graph.div(%v15, %v27) : tensor<1x1x32x64xf32>
  %v29 = graph.isnan(%v28) : tensor<1x1x32x64xbool>
  %v30 = graph.full() {elem = f32, shape = [1, 1, 32, 64], value = 0.0} : tensor<1x1x32x64xf32>
  %v31 = graph.select(%v29, %v30, %v28) : tensor<1x1x32x64xf32>
  %v32 = graph.reshape(%k) {shape = [1, 32, 64, 64]} : tensor<1x32x64x64xf32>
  %v33 = graph.contract(%v31, %v32) {elem = f32, spec = "hqbk,hbka->hqba"} : tensor<1x1x32x64xf32>
  %v34 = graph.mul(%v33, %v23) : tensor<1x1x32x64xf32>
  %v35 = graph.select(%v7, %v8, %v34) : tensor<1x1x32x64xf32>
  %v36 = graph.reduce(%v35) {axes = [2], keepdims = true, kind = "sum"} : tensor<1x1x1x64xf32>
  %v37 = graph.div(%v36, %v24) : tensor<1x1x1x64xf32>
  %v38 = graph.select(%v26, %v37, %v25) : tensor<1x1x1x64xf32>
  %v39 = graph.reshape(%v38) {shape = [1, 1, 64]} : tensor<1x1x64xf32>
  return(%v39)
}
