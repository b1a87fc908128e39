"""Instructions by family: each file registers the builders of its own."""

from graphfuse.families import import_families

import_families(__name__, __path__)
