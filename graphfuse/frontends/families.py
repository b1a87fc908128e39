"""Packages of operators: one module a family, all of which register what they know when they are imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable


def import_families(package: str, path: Iterable[str]) -> None:
    """Import every module that lies in a package."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
