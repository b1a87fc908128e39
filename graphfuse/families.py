"""Packages of operators: one module a family, all of which register what they know when they are imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Container, Iterable


def import_families(package: str, path: Iterable[str], but: Container[str] = ()) -> None:
    """Import every module that lies in a package, but those of which it only looks as if they were families."""
    for module in pkgutil.iter_modules(path):
        if module.name not in but:
            importlib.import_module(f"{package}.{module.name}")
