"""ONNX Runtime's own operators, domain `com.microsoft`; importing the package registers them all."""

from graphfuse.families import import_families

import_families(__name__, __path__)
