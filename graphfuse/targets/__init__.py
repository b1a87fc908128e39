"""Targets: their names, what is known of each, and what makes code for them.

A family of targets is a module here (`cpu`, `nvidia`), with profiles of machines in `profiles/`; it names the module
whose `Backend` makes code (`backend.py` has the protocol), which is loaded when something is compiled.
"""

from graphfuse.targets import cpu, nvidia
from graphfuse.targets.target import Target

__all__ = ["Target", "cpu", "nvidia"]
