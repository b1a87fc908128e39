"""Frontends: each turns one foreign format into IR: ONNX models into the graph dialect, Triton-C into the block one."""
