"""The processors that tests compile for: this one, or the lesser one that `GRAPHFUSE_TARGET` names."""

from __future__ import annotations

from graphfuse.knobs import settings
from graphfuse.llvm.host import parse_target
from graphfuse.targets import Target

HOST = parse_target(settings.target or "cpu")


def host_and(*names: str) -> list[Target]:
    """The host, then those of other targets that it runs."""
    others = (Target.parse(n) for n in names if n != str(HOST))
    return [HOST, *(t for t in others if t.arch == HOST.arch and t.feature_set <= HOST.feature_set)]
