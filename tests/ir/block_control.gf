// RUN:
// Structured control flow: loops with carried values, branches with and without results, nesting.
func @control(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {grid = 2} {
  %pid = block.program_id() : i64
  %zero = block.const() {elem = i64, value = 0} : i64
  %acc = block.const() {elem = f32, value = 0.0} : f32
  %sum, %last = for(%zero, %n, %acc, %zero) {step = 2} do (%i: i64, %a: f32, %l: i64) {
    %v = block.load(%x, %i) : f32
    %b = block.add(%a, %v) : f32
    yield(%b, %i)
  } : f32, i64
  %first = block.eq(%pid, %zero) : bool
  %r = if(%first) do () {
    yield(%sum)
  } do () {
    %double = block.add(%sum, %sum) : f32
    yield(%double)
  } : f32
  if(%first) do () {
    for(%zero, %n) do (%j: i64) {
      block.store(%out, %j, %r)
      yield()
    }
    yield()
  }
  return(%sum, %last, %r)
}
