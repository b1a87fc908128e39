// RUN: choose-in-loads, dead-code

func @fires(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) : tile<8xf32>
  %c = block.const() {elem = f32, shape = [8], value = 7.0} : tile<8xf32>
  %y = block.select(%in, %a, %c) : tile<8xf32>
  return(%y)
}

// what is loaded has another reader, which gets 0 there
func @declines(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) : tile<8xf32>
  %c = block.const() {elem = f32, shape = [8], value = 7.0} : tile<8xf32>
  %y = block.select(%in, %a, %c) : tile<8xf32>
  return(%y, %a)
}

// several readers, but what is chosen is what they get
func @the_same_constant(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) {other = 7.0} : tile<8xf32>
  %c = block.const() {elem = f32, value = 7.0} : f32
  %s = block.splat(%c) {shape = [8]} : tile<8xf32>
  %y = block.select(%in, %a, %s) : tile<8xf32>
  return(%y, %a)
}

// another mask than the load's
func @another_mask(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %upto = block.le(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) : tile<8xf32>
  %c = block.const() {elem = f32, shape = [8], value = 7.0} : tile<8xf32>
  %y = block.select(%upto, %a, %c) : tile<8xf32>
  return(%y)
}
// -----
func @fires(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) {other = 7.0} : tile<8xf32>
  return(%a)
}

func @declines(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) : tile<8xf32>
  %c = block.const() {elem = f32, shape = [8], value = 7.0} : tile<8xf32>
  %y = block.select(%in, %a, %c) : tile<8xf32>
  return(%y, %a)
}

func @the_same_constant(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) {other = 7.0} : tile<8xf32>
  return(%a, %a)
}

func @another_mask(%x: ptr<f32>, %n: i64) {grid = 1} {
  %at = block.arange() {end = 8, start = 0} : tile<8xi64>
  %most = block.splat(%n) {shape = [8]} : tile<8xi64>
  %in = block.lt(%at, %most) : tile<8xbool>
  %upto = block.le(%at, %most) : tile<8xbool>
  %a = block.load(%x, %at, %in) : tile<8xf32>
  %c = block.const() {elem = f32, shape = [8], value = 7.0} : tile<8xf32>
  %y = block.select(%upto, %a, %c) : tile<8xf32>
  return(%y)
}
