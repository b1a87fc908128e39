"""Operators that Python executes between compiled parts: strings, sequences, data-dependent shapes.

One file per family fills the table of `call.py`; why they are not compiled: docs/adr/0013-host-code-between-parts.md.
"""

from graphfuse.families import import_families
from graphfuse.frontends.onnx.python_ops.call import ON_STRINGS, PYTHON_OPS, Call, call_of

import_families(__name__, __path__, but=("interpreted",))

__all__ = ["ON_STRINGS", "PYTHON_OPS", "Call", "call_of"]
