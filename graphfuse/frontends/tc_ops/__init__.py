"""Kernels of `.tc` files as operators of graphs: the header that binds a kernel to an operator, and its calls."""

from graphfuse.frontends.tc_ops.header import Header, parse_headers
from graphfuse.frontends.tc_ops.operator import Operator, read_operators

__all__ = ["Header", "Operator", "parse_headers", "read_operators"]
