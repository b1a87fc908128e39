"""`torch.compile(model, backend="graphfuse")`: graphs of torch as fused kernels, forward and backward."""

from graphfuse.torch.backend import backend

__all__ = ["backend"]
