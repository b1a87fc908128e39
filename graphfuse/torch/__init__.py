"""`torch.compile(model, backend="graphfuse")`: graphs of torch as fused kernels, forward and backward."""

from graphfuse.torch.aot import backend

__all__ = ["backend"]
