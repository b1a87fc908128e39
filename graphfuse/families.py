"""Packages whose modules are families: each registers what it knows when it is imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Container, Iterable


def import_families(package: str, path: Iterable[str], but: Container[str] = (), prefix: str = "") -> None:
    """Import every module that lies in a package, but those of which it only looks as if they were families.

    With `prefix` families are those whose names begin so.
    """
    for module in pkgutil.iter_modules(path):
        if module.name.startswith(prefix) and module.name not in but:
            importlib.import_module(f"{package}.{module.name}")
