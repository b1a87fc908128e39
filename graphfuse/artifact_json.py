"""The exact JSON of an executable: all but weights, code, IR and ledger. What is read may be hostile."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from graphfuse.artifact import (
    BUFFER_KINDS,
    ELEMS,
    HOST_VALUES,
    KERNEL_DIMS,
    MAX_SHARED_BYTES,
    Arg,
    Buffer,
    BufferKind,
    Code,
    Executable,
    Im2col,
    Json,
    KernelMeta,
    Launch,
    Loop,
    Plan,
    Pointer,
    Scalar,
    Signature,
    Step,
    TensorMap,
    TensorSpec,
    Weight,
)
from graphfuse.artifact_rules import check
from graphfuse.constraints import KINDS, Constraint, Kind
from graphfuse.errors import ArtifactError, ParseError
from graphfuse.symbolic import INF, Dim, bounds, parse_dim
from graphfuse.value_checks import Check

MAX_DIM_TEXT = 2048
"""Longest text of a symbolic dim; real ones have a few dozen characters."""

# to JSON. dims are numbers when static, their text when not; both come back exactly


def _dim(dim: Dim) -> Json:
    return int(dim) if isinstance(dim, int) else str(dim)


def program_to_json(executable: Executable) -> dict[str, Json]:
    """Everything about an executable but its weights' bytes, its code, its IR and its ledger."""
    out: dict[str, Json] = {
        "signature": signature_to_json(executable.signature),
        "plan": plan_to_json(executable.plan),
        "kernels": [_kernel_to_json(k) for k in executable.kernels],
        "target": executable.target,
        "meta": executable.meta,
    }
    return out | ({"checks": [_check_to_json(c) for c in executable.checks]} if executable.checks else {})


def _check_to_json(check: Check) -> Json:
    ends = () if check.low is None or check.high is None else (_dim(check.low), _dim(check.high))
    return [check.node, check.operand, check.what, *ends]


def signature_to_json(signature: Signature) -> dict[str, Json]:
    """The JSON of a signature."""
    out: dict[str, Json] = {
        "inputs": [_spec_to_json(s) for s in signature.inputs],
        "outputs": [_spec_to_json(s) for s in signature.outputs],
        "dims": [[name, lo, hi] for name, lo, hi in signature.dims],
    }
    listed = [[c.kind, _dim(c.a), _dim(c.b), c.what, c.node] for c in signature.constraints]
    names = [[symbol, name] for symbol, name in signature.names]
    return out | ({"constraints": listed} if listed else {}) | ({"names": names} if names else {})


def plan_to_json(plan: Plan) -> dict[str, Json]:
    """The JSON of a plan."""
    return {
        "buffers": [[b.kind, _dim(b.nbytes), b.index, b.first, b.last] for b in plan.buffers],
        "steps": [_step_to_json(s) for s in plan.steps],
    }


def _spec_to_json(spec: TensorSpec) -> Json:
    return {"name": spec.name, "elem": spec.elem, "shape": [_dim(d) for d in spec.shape]}


def _step_to_json(step: Step | Loop) -> Json:
    if isinstance(step, Loop):
        return {
            "symbol": step.symbol,
            "count": _dim(step.count),
            "steps": [_step_to_json(s) for s in step.steps],
        }
    args = [[a.buffer, _dim(a.offset)] if isinstance(a, Pointer) else [_dim(a.value)] for a in step.args]
    return {
        "kernel": step.kernel,
        "args": args,
        "grid": _dim(step.grid),
        "work": _dim(step.work),
        "label": step.label,
    }


def _kernel_to_json(kernel: KernelMeta) -> Json:
    out: dict[str, Json] = {k: getattr(kernel, k) for k in ("name", "params", "kind", "label")}
    out |= {k: _dim(getattr(kernel, k)) for k in KERNEL_DIMS}
    return out | ({"launch": _launch_to_json(kernel.launch)} if kernel.launch else {})


_LAUNCH_SHAPE = ("threads", "shared_bytes", "cluster", "split", "persistent")
_LAUNCH_NUMBERS = ("registers", "spill_bytes", "static_shared_bytes")


def _launch_to_json(launch: Launch) -> Json:
    out: dict[str, Json] = {k: getattr(launch, k) for k in (*_LAUNCH_SHAPE, "overlaps")}
    out |= {k: getattr(launch, k) for k in _LAUNCH_NUMBERS}
    out |= {"flags": launch.flags} if launch.flags else {}
    return out | {"symbols": list(launch.symbols), "tensor_maps": [_map_to_json(m) for m in launch.tensor_maps]}


def _map_to_json(m: TensorMap) -> Json:
    out: dict[str, Json] = {
        "param": m.param,
        "elem": m.elem,
        "offset": _dim(m.offset),
        "dims": [_dim(d) for d in m.dims],
        "strides": [_dim(d) for d in m.strides],
        "box": list(m.box),
        "swizzle": m.swizzle,
    }
    if m.im2col:
        out["im2col"] = {name: list(getattr(m.im2col, name)) for name in _IM2COL}
    return out


_IM2COL = ("lower", "upper", "steps")


# from JSON


class Node:
    """A JSON value and the path that leads to it, so that an error says where it is."""

    __slots__ = ("key", "parent", "value")

    def __init__(self, value: Any, key: str | int = "", parent: Node | None = None) -> None:
        self.value, self.key, self.parent = value, key, parent

    @property
    def path(self) -> str:
        """Such as `plan.steps[3].args[0]`."""
        if self.parent is None:
            return str(self.key)
        if isinstance(self.key, int):
            return f"{self.parent.path}[{self.key}]"
        return f"{self.parent.path}.{self.key}".lstrip(".")

    def fail(self, wanted: str) -> NoReturn:
        """Raise: this value is not what it has to be."""
        found = repr(self.value)
        found = found if len(found) <= 60 else found[:57] + "..."
        raise ArtifactError(f"{self.path}: expected {wanted}, found {found}")

    def __getitem__(self, key: str) -> Node:
        if not isinstance(self.value, dict) or key not in self.value:
            self.fail(f"an object with the key {key!r}")
        return Node(self.value[key], key, self)

    def items(self, least: int = 0, most: int | None = None) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            self.fail("a list")
        values = cast("list[Any]", self.value)
        if not least <= len(values) <= (len(values) if most is None else most):
            self.fail(f"{least} to {most} elements" if most != least else f"{least} elements")
        return [Node(v, i, self) for i, v in enumerate(values)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail("text")
        return self.value

    def one_of(self, words: Sequence[str]) -> str:
        """A string out of a fixed set."""
        if not isinstance(self.value, str) or self.value not in words:
            self.fail(f"one of {', '.join(words)}")
        return self.value

    def integer(self, lo: int = 0, hi: int = INF) -> int:
        """An integer inside inclusive bounds."""
        if type(self.value) is not int or not lo <= self.value <= hi:
            self.fail(f"an integer in {lo}..{hi}")
        return self.value

    def dim(self) -> Dim:
        """A dim: an integer, or the text of an expression."""
        if type(self.value) is int:
            return self.integer(-INF)
        try:
            return read_dim(self.text())
        except ArtifactError:
            self.fail("a dim")

    def object(self) -> dict[str, Any]:
        """An object with any keys."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        return cast("dict[str, Any]", self.value)


@functools.lru_cache(maxsize=8192)
def read_dim(text: str) -> Dim:
    """Parse a dim that may be hostile: whatever is wrong with it is an ArtifactError."""
    try:
        if len(text) > MAX_DIM_TEXT:
            raise ParseError(f"dim of {len(text)} characters")
        dim = parse_dim(text)
        if not -INF < bounds(dim, {})[1] <= INF:
            raise ParseError(f"dim {text!r}: out of range")
    # nesting, division by a constant 0, numbers of thousands of digits
    except (ParseError, RecursionError, ArithmeticError, ValueError, IndexError) as e:
        raise ArtifactError(f"malformed dim {text[:60]!r}: {e}") from None
    return dim


def program_from_json(root: Node, weights: tuple[Weight, ...], code: Mapping[str, Code], **lazy: Any) -> Executable:
    """Read what `program_to_json` wrote and check it; `lazy` gives `ir` and `ledger`."""
    executable = Executable(
        signature=signature_from_json(root["signature"]),
        plan=plan_from_json(root["plan"]),
        kernels=tuple(_kernel_from_json(k) for k in root["kernels"].items()),
        weights=weights,
        target=root["target"].text(),
        code=code,
        meta=root["meta"].object(),
        checks=tuple(_check_from_json(c) for c in root["checks"].items()) if "checks" in root.object() else (),
        **lazy,
    )
    check(executable)
    return executable


def _check_from_json(node: Node) -> Check:
    row = node.items(3, 5)
    if len(row) == 4:
        node.fail("a range or none")
    low, high = (d.dim() for d in row[3:]) if row[3:] else (None, None)
    return Check(row[0].text(), row[1].text(), row[2].text(), low, high)


def signature_from_json(root: Node) -> Signature:
    """Read a signature."""
    dims: list[tuple[str, int, int]] = []
    for row in root["dims"].items():
        name, lo, hi = row.items(3, 3)
        dims.append((name.text(), lo.integer(), hi.integer()))
    inputs = tuple(_spec_from_json(s) for s in root["inputs"].items())
    outputs = tuple(_spec_from_json(s) for s in root["outputs"].items())
    constraints: list[Constraint] = []
    for row in root["constraints"].items() if "constraints" in root.object() else ():
        kind, a, b, what, node = row.items(5, 5)
        word = cast("Kind", kind.one_of(KINDS))
        constraints.append(Constraint(word, a.dim(), b.dim(), what.text(), node.text()))
    named = [row.items(2, 2) for row in (root["names"].items() if "names" in root.object() else ())]
    names = tuple((symbol.text(), name.text()) for symbol, name in named)
    return Signature(inputs, outputs, tuple(dims), tuple(constraints), names)


def plan_from_json(root: Node) -> Plan:
    """Read a plan; `check` then says whether it fits its executable."""
    buffers: list[Buffer] = []
    for row in root["buffers"].items():
        kind, nbytes, index, first, last = row.items(5, 5)
        word = cast("BufferKind", kind.one_of(BUFFER_KINDS))
        buffers.append(Buffer(word, nbytes.dim(), index.integer(), first.integer(), last.integer()))
    return Plan(tuple(buffers), tuple(_step_from_json(s) for s in root["steps"].items()))


def _spec_from_json(node: Node) -> TensorSpec:
    shape = tuple(d.dim() for d in node["shape"].items())
    return TensorSpec(node["name"].text(), node["elem"].one_of((*ELEMS, *HOST_VALUES)), shape)


def _step_from_json(node: Node, depth: int = 0) -> Step | Loop:
    if "symbol" not in node.object():
        args = tuple(_arg_from_json(a) for a in node["args"].items())
        kernel, label = node["kernel"].text(), node["label"].text()
        return Step(kernel, args, node["grid"].dim(), node["work"].dim(), label)
    if depth >= 8:
        node.fail("loops nested at most 8 deep")
    steps = tuple(_step_from_json(s, depth + 1) for s in node["steps"].items())
    return Loop(node["symbol"].text(), node["count"].dim(), steps)


def _arg_from_json(node: Node) -> Arg:
    parts = node.items(1, 2)
    if len(parts) == 1:
        return Scalar(parts[0].dim())
    return Pointer(parts[0].integer(), parts[1].dim())


def _kernel_from_json(node: Node) -> KernelMeta:
    name, params, kind, label = (node[k].text() for k in ("name", "params", "kind", "label"))
    launch = _launch_from_json(node["launch"]) if "launch" in node.object() else None
    return KernelMeta(name, params, kind, label, **{k: node[k].dim() for k in KERNEL_DIMS}, launch=launch)


MAX_SPLIT = 1 << 16
"""More blocks than make any program; times a grid they stay within 64 bits."""


def _launch_from_json(node: Node) -> Launch:
    return Launch(
        threads=node["threads"].integer(1, 1024),
        shared_bytes=node["shared_bytes"].integer(0, MAX_SHARED_BYTES),
        cluster=node["cluster"].integer(1, 16),
        split=node["split"].integer(1, MAX_SPLIT),
        persistent=node["persistent"].integer(0, 32),
        flags=node["flags"].integer(1, 32) if "flags" in node.object() else 0,
        overlaps=node["overlaps"].value is True,
        symbols=tuple(s.text() for s in node["symbols"].items()),
        tensor_maps=tuple(_map_from_json(m) for m in node["tensor_maps"].items(0, 64)),
        **{k: node[k].integer(-1) for k in _LAUNCH_NUMBERS},
    )


def _map_from_json(node: Node) -> TensorMap:
    dims = tuple(d.dim() for d in node["dims"].items(1, 5))
    rank = len(dims)
    im2col = _im2col_from_json(node["im2col"], rank - 2) if "im2col" in node.object() else None
    sizes = rank if im2col is None else 2
    return TensorMap(
        param=node["param"].integer(),
        elem=node["elem"].one_of(ELEMS),
        offset=node["offset"].dim(),
        dims=dims,
        strides=tuple(d.dim() for d in node["strides"].items(rank - 1, rank - 1)),
        box=tuple(b.integer(1, 256) for b in node["box"].items(sizes, sizes)),
        swizzle=int(node["swizzle"].integer(0, 128)),
        im2col=im2col,
    )


def _im2col_from_json(node: Node, rank: int) -> Im2col:
    """Corners and steps of as many dims; how far a corner may lie outside depends on their number."""
    lower, upper, steps = (node[name].items(rank, rank) for name in _IM2COL)
    most = 1 << 16 // max(rank, 1) - 1
    low, high = (tuple(c.integer(-most, most - 1) for c in corner) for corner in (lower, upper))
    return Im2col(low, high, tuple(s.integer(1, 8) for s in steps))
