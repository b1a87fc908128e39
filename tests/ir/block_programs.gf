// RUN:
// Grids, scalar parameters and promises about parameters, pointers, atomics, and what serves debugging.
func @grid(%x: ptr<f32>, %n: i64, %alpha: f32, %lda: i32, %flag: bool, %half: f16) {assume = [["x", 16], ["lda", 8]], grid = [(n), 2, 3], noalias = ["x"], readonly = ["x"]} {
  %i = block.program_id() : i64
  %j = block.program_id() {axis = 1} : i64
  %k = block.program_id() {axis = 2} : i64
  %nj = block.num_programs() {axis = 1} : i64
  %wide = block.cast(%lda) {to = i64} : i64
  %eight = block.const() {elem = i64, value = 8} : i64
  %row = block.mul(%wide, %eight) {nsw = true} : i64
  %even = block.assume(%row) {multiple_of = 8} : i64
  return(%i, %j, %k, %nj, %alpha, %even, %flag, %half)
}

func @pointers(%x: ptr<f32>, %y: ptr<f32>, %flag: bool) {
  %four = block.const() {elem = i64, value = 4} : i64
  %p = block.select(%flag, %x, %y) : ptr<f32>
  %q = block.offset(%p, %four) : ptr<f32>
  %d = block.pointer_diff(%q, %p) : i64
  %b = block.pointer_cast(%q) {to = i16} : ptr<i16>
  %h = block.load(%b, %four) : i16
  %at = block.address(%q) : i64
  %from = block.address(%p) : i64
  %r = block.pointer_at(%at) {to = f64} : ptr<f64>
  %bytes = block.sub(%at, %from) : i64
  return(%d, %h, %bytes)
}

func @atomics(%x: ptr<i32>, %y: ptr<f16>, %lock: ptr<i32>) {
  %i = block.arange() {end = 4, start = 0} : tile<4xi64>
  %zero = block.const() {elem = i64, value = 0} : i64
  %same = block.const() {elem = i64, shape = [4], value = 9} : tile<4xi64>
  %v = block.const() {elem = i32, shape = [4], value = 3} : tile<4xi32>
  %add = block.atomic(%x, %same, %v) {kind = "add"} : tile<4xi32>
  %sub = block.atomic(%x, %same, %v) {kind = "sub"} : tile<4xi32>
  %two = block.const() {elem = i64, shape = [4], value = 2} : tile<4xi64>
  %mask = block.lt(%i, %two) : tile<4xbool>
  %max = block.atomic(%x, %i, %v, %mask) {kind = "max"} : tile<4xi32>
  %min = block.atomic(%x, %i, %v) {kind = "min"} : tile<4xi32>
  %and = block.atomic(%x, %i, %v) {kind = "and"} : tile<4xi32>
  %or = block.atomic(%x, %i, %v) {kind = "or"} : tile<4xi32>
  %xor = block.atomic(%x, %i, %v) {kind = "xor"} : tile<4xi32>
  %half = block.const() {elem = f16, shape = [4], value = 0.5} : tile<4xf16>
  %sum = block.atomic(%y, %same, %half) {kind = "add"} : tile<4xf16>
  %free = block.const() {elem = i32, value = 0} : i32
  %taken = block.const() {elem = i32, value = 1} : i32
  %set = block.atomic(%lock, %zero, %free) {kind = "exchange", order = "acq_rel"} : i32
  %got = block.atomic_cas(%lock, %zero, %free, %taken) {order = "acq_rel"} : i32
  %told = block.atomic(%lock, %zero, %taken) {kind = "add", order = "release", scope = "sys"} : i32
  %seen = block.load(%x, %i, %mask) {cache = "evict_first"} : tile<4xi32>
  block.store(%x, %i, %seen) {cache = "cs"}
  block.barrier()
  %ok = block.eq(%got, %free) : bool
  block.assert(%ok) {message = "the lock is free"}
  block.print() {text = ""}
  return(%add, %sub, %max, %min, %and, %or, %xor, %sum, %set, %got)
}

func @spin(%n: i64, %p: ptr<f32>) {
  %zero = block.const() {elem = i64, value = 0} : i64
  %one = block.const() {elem = i64, value = 1} : i64
  %t = block.const() {elem = f32, shape = [4], value = 1.0} : tile<4xf32>
  %count, %sum = while(%zero, %t) do (%i: i64, %a: tile<4xf32>) {
    %more = block.lt(%i, %n) : bool
    yield(%more, %i, %a)
  } do (%i_0: i64, %a_0: tile<4xf32>) {
    %next = block.add(%i_0, %one) : i64
    %double = block.add(%a_0, %a_0) : tile<4xf32>
    yield(%next, %double)
  } : i64, tile<4xf32>
  return(%count, %sum)
}

func @combine(%x: ptr<f32>, %y: ptr<i8>) {
  %z = block.const() {elem = i64, value = 0} : i64
  %a = block.load_view(%x, %z) {shape = [2, 4, 8], strides = [32, 8, 1]} : tile<2x4x8xf32>
  %b = block.trans(%a) {perm = [0, 2, 1]} : tile<2x8x4xf32>
  %c = block.const() {elem = f32, shape = [2, 4, 4], value = 1.0} : tile<2x4x4xf32>
  %dot = block.dot(%a, %b, %c) : tile<2x4x4xf32>
  %m = block.load_view(%y, %z) {shape = [4, 4], strides = [4, 1]} : tile<4x4xi8>
  %i = block.const() {elem = i32, shape = [4, 4], value = 0} : tile<4x4xi32>
  %whole = block.dot(%m, %m, %i) : tile<4x4xi32>
  %top = block.reduce(%a) {axis = 2, kind = "maxnum"} : tile<2x4xf32>
  %low = block.reduce(%a) {axis = 0, kind = "minnum"} : tile<4x8xf32>
  %odd = block.reduce(%m) {axis = 1, kind = "xor"} : tile<4xi8>
  %where = block.arg_reduce(%a) {axis = 2, kind = "max"} : tile<2x4xi64>
  %there = block.arg_reduce(%m) {axis = 0, elem = i32, kind = "min"} : tile<4xi32>
  %after = block.scan(%a) {axis = 1, kind = "sum", reverse = true} : tile<2x4x8xf32>
  return(%dot, %whole, %top, %low, %odd, %where, %there, %after)
}

func @machine(%x: ptr<f32>, %y: ptr<i32>) {
  %i = block.arange() {end = 8, start = 0} : tile<8xi64>
  %a = block.load(%x, %i) : tile<8xf32>
  %m = block.load(%y, %i) : tile<8xi32>
  %max = block.maxnum(%a, %a) : tile<8xf32>
  %min = block.minnum(%a, %a) : tile<8xf32>
  %e = block.exp(%a) : tile<8xf32>
  %root = block.rsqrt(%e) : tile<8xf32>
  %sum = block.logaddexp(%a, %root) : tile<8xf32>
  %ratio = block.div_rn(%a, %root) : tile<8xf32>
  %side = block.hypot(%a, %root) : tile<8xf32>
  %sign = block.copysign(%a, %root) : tile<8xf32>
  %third = block.cbrt(%a) : tile<8xf32>
  %ten = block.exp10(%a) : tile<8xf32>
  %digits = block.log10(%e) : tile<8xf32>
  %rest = block.erfc(%a) : tile<8xf32>
  %back = block.erfinv(%a) : tile<8xf32>
  %gamma = block.lgamma(%a) : tile<8xf32>
  %high = block.mulhi(%m, %m) : tile<8xi32>
  %ones = block.popcount(%m) : tile<8xi32>
  %zeros = block.clz(%m) : tile<8xi32>
  return(%max, %min, %root, %sum, %ratio, %side, %sign, %third, %ten, %digits, %rest, %back, %gamma, %high, %ones, %zeros)
}
