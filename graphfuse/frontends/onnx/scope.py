"""What the names of a model stand for. Owns nesting; knows no nodes."""

from __future__ import annotations

from graphfuse.frontends.host_values import Tracked


class Scope:
    """What the names of one graph stand for; looks outwards for names it does not have."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, Tracked] = {}

    def __getitem__(self, name: str) -> Tracked:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise KeyError(name)
