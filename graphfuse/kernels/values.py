"""Arguments as a command line gives them: `n=1024`, `x=random(1024, 64)`, `y=zeros(n)`, `w=file.npy`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphfuse.artifact import ELEMS, Array, elem_dtype
from graphfuse.errors import FileError, Loc, UsageError
from graphfuse.frontends.tc.defines import split_at_commas
from graphfuse.frontends.tc.expression import evaluate
from graphfuse.ir.types import scalar
from graphfuse.kernels.signature import Parameter

FILLS = ("random", "zeros", "ones", "arange", "empty")
"""`empty` is memory that nobody wrote: to read it is an error under `--check`."""
MOST_ELEMENTS = 1 << 31
"""Of an array that a word of a command line asks for."""


def read_values(
    wanted: Sequence[Parameter], texts: Sequence[str], macros: Mapping[str, str], seed: int = 0
) -> tuple[dict[str, Any], frozenset[str]]:
    """Values by name, and which of them nobody has written; shapes are C expressions over macros and other numbers."""
    given: dict[str, str] = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        if not has_value or not name.strip().isidentifier():
            raise UsageError(f"--arg: expected NAME=VALUE, got {text!r}")
        given[name.strip()] = value.strip()
    known = {p.name: p for p in wanted}
    if unknown := sorted(set(given) - set(known)):
        raise UsageError(f"--arg: the kernel has no parameter {unknown[0]!r} ({', '.join(map(str, wanted))})")
    if missing := [p for p in wanted if p.name not in given]:
        raise UsageError(f"--arg: no value for {missing[0].name!r} ({missing[0]})")
    rng = np.random.default_rng(seed)
    numbers: dict[str, str] = dict(macros)
    out: dict[str, Any] = {}
    for p in sorted(wanted, key=lambda p: p.is_pointer):  # shapes are made of numbers
        if p.is_pointer:
            out[p.name] = _arrays(p, given[p.name], numbers, rng)
        else:
            out[p.name] = _number(p, given[p.name], numbers)
            numbers.setdefault(p.name, str(out[p.name]))
    texts_of = {p.name: given[p.name] for p in wanted if p.is_pointer and p.entry is None}
    texts_of |= {f"{p.name}[{i}]": t for p in wanted if p.entry for i, t in enumerate(_listed(given[p.name]) or ())}
    empty = frozenset(name for name, text in texts_of.items() if text.startswith("empty"))
    return {p.name: out[p.name] for p in wanted}, empty


def integer(what: str, text: str, known: Mapping[str, str]) -> int:
    """The value of a C expression over names with values."""
    used = {name: value for name, value in known.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    return evaluate(text, used, f"{what}: ")


def grid_of(text: str, known: Mapping[str, str]) -> tuple[int, ...]:
    """`(M+TM-1)/TM, 4` as numbers."""
    return tuple(integer("--grid", part, known) for part in split_at_commas(text) if part)


def typed_value(name: str, text: str, rng: np.random.Generator) -> tuple[Any, bool]:
    """`f32:random(8, 64)`, `FILE.npy` or a number, where nothing says what is taken; and whether it is `empty`."""
    elem, has_elem, fill = text.partition(":")
    if has_elem and elem in ELEMS:
        p = Parameter(name, scalar(elem), is_pointer=True)
        return _array(p, fill.strip(), {}, rng), fill.strip().startswith("empty")
    if text.endswith(".npy"):
        return _loaded(Path(text)), False
    try:
        return (int(text, 0) if re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)", text) else float(text)), False
    except ValueError:
        fills = ", ".join(f"ELEM:{f}(...)" for f in FILLS)
        raise UsageError(f"--arg {name}: expected a number, FILE.npy or one of {fills}, got {text!r}") from None


def _number(p: Parameter, text: str, known: Mapping[str, str]) -> int | float:
    if p.elem.is_float:
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"--arg {p.name}: expected a number, got {text!r}") from None
    return integer(f"--arg {p.name}", text, known)


def _arrays(p: Parameter, text: str, known: Mapping[str, str], rng: np.random.Generator) -> Any:
    """An array, or for a table of pointers `[random(3), null, zeros(4)]`; of addresses there is no telling ahead."""
    if p.entry is None:
        return _array(p, text, known, rng)
    listed = _listed(text)
    if listed is None:
        raise UsageError(f"--arg {p.name}: expected a list of arrays such as [random(8), null], got {text!r}")
    return [
        None if t == "null" else _array(replace(p.entry, name=f"{p.name}[{i}]"), t, known, rng)
        for i, t in enumerate(listed)
    ]


def _listed(text: str) -> list[str] | None:
    """What is between brackets."""
    return split_at_commas(text[1:-1]) if text.startswith("[") and text.endswith("]") else None


def _array(p: Parameter, text: str, known: Mapping[str, str], rng: np.random.Generator) -> Array:
    m = re.fullmatch(rf"({'|'.join(FILLS)})\s*\((.*)\)", text)
    if m is None:
        if text.endswith(".npy"):
            return _file(p, Path(text))
        fills = ", ".join(f"{f}(...)" for f in FILLS)
        raise UsageError(f"--arg {p.name}: expected FILE.npy or one of {fills}, got {text!r}")
    shape = tuple(integer(f"--arg {p.name}", d, known) for d in split_at_commas(m[2]) if d)
    if min(shape, default=0) < 0 or math.prod(shape) > MOST_ELEMENTS:
        raise UsageError(f"--arg {p.name}: expected dims that multiply to at most {MOST_ELEMENTS}, got {shape}")
    return _filled(p, m[1], shape, rng)


def _filled(p: Parameter, how: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    dtype, count = elem_dtype(p.elem.name), math.prod(shape)
    if how == "zeros" or (how == "empty" and p.elem.name == "bool"):
        return np.zeros(shape, dtype)
    if how == "ones":
        return np.ones(shape, dtype)
    if how == "arange":
        return np.arange(count).astype(dtype).reshape(shape)
    if how == "empty":
        return np.full(count * dtype.itemsize, 0xCD, np.uint8).view(dtype).reshape(shape)
    if p.elem.is_float:
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if p.elem.name == "bool" else 100, shape).astype(dtype)


def _file(p: Parameter, path: Path) -> Array:
    found = _loaded(path)
    if found.dtype != elem_dtype(p.elem.name):
        raise UsageError(f"--arg {p.name}: expected an array of {p.elem}, found one of {found.dtype} in {path}")
    return found


def _loaded(path: Path) -> Array:
    try:
        return np.ascontiguousarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as e:
        raise FileError(f"cannot read: {str(e).lower()}", Loc(str(path))) from None
