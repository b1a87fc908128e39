"""Block functions that the interpreter, CPUs and GPUs are tested with."""

IDS = """func @ids(%out: ptr<i64>) {assume = [], warps = 1} {
  %x = block.program_id() : i64
  %y = block.program_id() {axis = 1} : i64
  %z = block.program_id() {axis = 2} : i64
  %nx = block.num_programs() : i64
  %ny = block.num_programs() {axis = 1} : i64
  %at = block.index(%x, %y, %z, %nx, %ny) {expr = ((z*ny + y)*nx + x), names = ["x", "y", "z", "nx", "ny"]} : i64
  %v = block.index(%x, %y, %z) {expr = (100*z + 10*y + x), names = ["x", "y", "z"]} : i64
  block.store(%out, %at, %v)
  return()
}"""
"""Every program writes who it is, to a place of its own; to be launched over a grid of up to three axes."""
