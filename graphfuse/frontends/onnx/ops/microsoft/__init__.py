"""ONNX Runtime's own operators, domain `com.microsoft`; importing the package registers them all."""

from graphfuse.frontends.families import import_families

import_families(__name__, __path__)
