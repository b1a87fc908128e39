"""FX frontend: functional ATen graphs, as AOTAutograd and export make them, into graph IR."""

from graphfuse.frontends.fx.importer import Part, import_part
from graphfuse.frontends.fx.lowering import Unsupported
from graphfuse.frontends.fx.ops import lowering_of

__all__ = ["Part", "Unsupported", "import_part", "lowering_of"]
