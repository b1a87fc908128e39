"""A part of an FX graph to a function of graph IR.

    part = Part(nodes, inputs, outputs)         nodes in order; inputs made outside; outputs used outside
    func = import_part(part)                    @main(inputs...) -> outputs

The function's tensors are dense and row-major, torch's may lie in any order. A tensor whose axes are permuted in memory
is taken and given as it lies, and permuted inside. One with gaps is taken as part of a dense array that is cut inside:
it is not copied. Symbols keep torch's names.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from graphfuse.dialects import control
from graphfuse.errors import GraphfuseError, Loc, VerifyError
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.fx.elements import element_of
from graphfuse.frontends.fx.lowering import Call, Unsupported, name_of
from graphfuse.frontends.fx.ops import lowering_of
from graphfuse.frontends.fx.refusals import MOST_USUAL, why_refused
from graphfuse.frontends.fx.sizes import (
    Equal,
    Stored,
    UnknownSize,
    dense_order,
    dim_of,
    dims_of,
    ranges_of,
    stored_as,
)
from graphfuse.frontends.watched import Watched
from graphfuse.ir.core import Attr, Func, Params, Value
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import Tensor
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import Dim, Expr, symbols

_INTO_VIEWS = frozenset({torch.ops.aten.select_scatter.default, torch.ops.aten.slice_scatter.default})


@dataclass(frozen=True)
class Part:
    """Nodes that are computed together, in order, the tensors they read and those that are read elsewhere."""

    nodes: Sequence[fx.Node]
    inputs: Sequence[fx.Node]
    outputs: Sequence[fx.Node]
    shared: Sequence[tuple[int, int]] = ()
    """Outputs that are copied into inputs, whose old values nobody needs: they may be written there, by number."""
    donated: Sequence[int] = ()
    """Inputs, by number, that nobody needs afterwards: other tensors may be where they are."""
    laid: Mapping[fx.Node, Any] = field(default_factory=dict[fx.Node, Any])
    """Outputs that lie otherwise than traced, as fake tensors."""

    def fake(self, output: fx.Node) -> Any:
        """An output as it lies."""
        return self.laid.get(output, output.meta["val"])

    @property
    def written(self) -> frozenset[fx.Node]:
        """Nodes that make such outputs of their inputs, step by step, and what these write into views of them."""
        out, inside = set[fx.Node](), set(self.nodes)
        pending: list[Any] = [self.outputs[number] for number, _ in self.shared]
        while pending:
            node = pending.pop()
            if isinstance(node, fx.Node) and node in inside and node not in out:
                out.add(node)
                pending += node.args[: 2 if node.target in _INTO_VIEWS else 1]
        return frozenset(out)


def order_of(fake: Any) -> tuple[int, ...] | None:
    """The axes of a fake tensor from slowest to fastest in memory; None if it has gaps or overlaps."""
    return dense_order(dims_of(fake.shape), dims_of(fake.stride()))


def stored_order(fake: Any) -> tuple[int, ...]:
    """The order in which a part gives a tensor; that of its axes, where gaps are promised."""
    order = order_of(fake)
    return tuple(range(fake.dim())) if order is None else order


def stored(fake: Any) -> Stored | None:
    """How a part takes a fake tensor; None if it is made contiguous before the call."""
    offset = fake.storage_offset()
    return stored_as(dims_of(fake.shape), dims_of(fake.stride()), offset if isinstance(offset, int) else 0)


def _contiguous(fake: Any) -> Stored:
    return Stored(dims_of(fake.shape), tuple(range(fake.dim())), (0,) * fake.dim())


def type_of(fake: Any) -> Tensor:
    """The type of a fake tensor. Raises `Unsupported` where we have no such element or size."""
    elem = element_of(fake.dtype)
    if elem is None:
        raise Unsupported(f"no kernels for {fake.dtype}")
    if fake.layout is not torch.strided:
        raise Unsupported(f"no kernels for {fake.layout}")
    try:
        return Tensor(dims_of(fake.shape), elem)
    except UnknownSize as e:
        raise Unsupported(str(e)) from None


def results_of(node: fx.Node) -> Sequence[Any]:
    """What torch says of all that a node computes."""
    value = node.meta.get("val")
    return value if isinstance(value, (tuple, list)) else (value,)


def why_not(node: fx.Node) -> str | None:
    """Why a node cannot be part of a function whatever its operands are; None if it may be tried."""
    if node.op != "call_function":
        return f"a {node.op}"
    if node.target is operator.getitem:
        return None
    if lowering_of(node.target) is None:
        return "it has no lowering"
    try:
        for fake in (*results_of(node), *(n.meta.get("val") for n in node.all_input_nodes)):
            if isinstance(fake, torch.Tensor):
                type_of(fake)
    except Unsupported as e:
        return str(e)
    return None


@dataclass(frozen=True, slots=True)
class Declined:
    """A node whose lowering declined, and why. `bug` is what it raised instead, if it should not have."""

    node: fx.Node
    reason: str
    bug: Exception | None = None


class PartError(Unsupported):
    """Lowerings declined: those of these nodes, in the part's order."""

    def __init__(self, declined: Sequence[Declined]) -> None:
        super().__init__("; ".join(f"{d.node.name}: {d.reason}" for d in declined))
        self.declined = tuple(declined)


def import_part(part: Part) -> Func:
    """The function of a part, verified. Raises `PartError` for all nodes whose lowerings decline."""
    importer = _Importer(part)
    params = importer.params(part.inputs)
    for node in part.nodes:
        importer.node(node)
    if importer.declined:
        raise PartError(list(importer.declined.values()))
    results = [importer.result(n) for n in part.outputs]
    importer.e.loc = None
    attrs: dict[str, Attr] = {
        "inputs": tuple(n.name for n in part.inputs),
        "outputs": tuple(n.name for n in part.outputs),
        "promised": True,  # torch's guards have checked what nodes need of dims
    }
    if part.shared:
        attrs["shared"] = tuple(part.shared)
    if part.donated:
        attrs["donated"] = tuple(part.donated)
    attrs |= importer.watched.output(results)
    importer.e.op(control.return_, *results)
    func = dead_code(Func("main", importer.e.root.block(params), attrs))
    used = _symbols(func).union(*(_symbols_in(dims_of(n.meta["val"].stride())) for n in part.outputs))
    func = replace(func, dims=tuple((s, *importer.e.ranges[s]) for s in importer.e.ranges if s in used))
    verify(func)
    return func


class _Importer:
    """Walks nodes; `values` has what each stands for: a tensor, or several. What declines stands for an input."""

    def __init__(self, part: Part) -> None:
        self.e = Emitter(promised=True)
        sizes = [s for n in (*part.inputs, *part.nodes) for s in _sizes(n)]
        for size in sizes:
            self.e.ranges.update(ranges_of(size))
        self.equal = Equal(sizes)
        """Sizes that differ as torch writes them, and are equal by its guards, are one dim inside of the function."""
        self.watched = Watched(self.e)
        self.values: dict[fx.Node, tuple[Value | None, ...]] = {}
        self.declined: dict[fx.Node, Declined] = {}
        self.part, self.written = part, part.written

    def params(self, nodes: Sequence[fx.Node]) -> Params:
        """Parameters as they lie in memory; each node stands for the tensor that torch means by it."""
        fakes = [n.meta["val"] for n in nodes]
        lie = [stored(fake) or _contiguous(fake) for fake in fakes]
        types = [Tensor(s.shape, type_of(fake).elem) for s, fake in zip(lie, fakes, strict=True)]
        params = Params(tuple(types), tuple(n.name for n in nodes))
        for node, fake, array, how in zip(nodes, fakes, params.values, lie, strict=True):
            self.values[node] = (self._sized(self._cut(array, how, dims_of(fake.shape)), self.tensor_type(fake)),)
        return params

    def _cut(self, array: Value, how: Stored, shape: Sequence[Dim]) -> Value:
        """A tensor of the array that it is part of."""
        for i, (axis, start) in enumerate(zip(how.axes, how.starts, strict=True)):
            array = self.e.slice(array, i, start, shape[axis], how.step if i == len(how.axes) - 1 else 1)
        present = sorted(how.axes)
        array = self.e.permute(array, [how.axes.index(i) for i in present])
        array = self.e.unsqueeze(array, *(i for i in range(len(shape)) if i not in present))
        return self.e.broadcast(array, shape)

    def _sized(self, x: Value, to: Tensor) -> Value:
        """A tensor under dims that are equal to its own."""
        for axis, size in enumerate(to.shape):
            x = self.e.slice(x, axis, 0, size)
        return x

    def result(self, node: fx.Node) -> Value:
        """An output as it lies in memory."""
        (value,) = self.values[node]
        assert value is not None, "outputs are tensors"
        value = self._sized(value, type_of(node.meta["val"]))
        return self.e.permute(value, stored_order(self.part.fake(node)))

    def tensor_type(self, fake: Any) -> Tensor:
        """The type of a fake tensor in the function."""
        found = type_of(fake)
        return Tensor(tuple(map(self.equal, found.shape)), found.elem)

    def node(self, node: fx.Node) -> None:
        """Emit the ops of one node, or note that it declines."""
        self.e.loc = loc_of(node)
        self.watched.node, self.watched.operator = node.name, str(node.target)
        try:
            if node.target is operator.getitem:
                self._pick(node)
            else:
                self.values[node] = self._lowered(node)
        except (Unsupported, UnknownSize) as e:
            self._decline(node, str(e))
        except VerifyError as e:
            self._decline(node, f"its lowering makes what has no type: {e.message}", e)
        except GraphfuseError as e:
            self._decline(node, e.message)
        except Exception as e:  # noqa: BLE001 - a bug here is no reason not to run the user's program: torch can
            self._decline(node, f"its lowering fails with {type(e).__name__}: {e}", e)

    def _decline(self, node: fx.Node, reason: str, bug: Exception | None = None) -> None:
        """Readers of its results have inputs instead, which these are once torch computes them."""
        self.declined.setdefault(node, Declined(node, reason, bug))
        outs = self._outs(node)
        inputs = iter(Params(tuple(t for t in outs if t is not None)).values)
        self.values[node] = tuple(None if t is None else next(inputs) for t in outs)

    def _pick(self, node: fx.Node) -> None:
        """One of several results."""
        of, index = node.args
        assert isinstance(of, fx.Node)
        assert isinstance(index, int)
        if self.values[of][index] is None:
            self._decline(of, f"its result {index} is not made")
        self.values[node] = (self.values[of][index],)

    def _lowered(self, node: fx.Node) -> tuple[Value | None, ...]:
        lowering = lowering_of(node.target)
        assert lowering is not None, "why_not asks first"
        result, outs = node.meta["val"], self._outs(node)
        fakes, values = self._arguments(node)
        if why := why_refused(node.target, fakes, result, MOST_USUAL):
            raise Unsupported(f"torch refuses it: {why}")
        wanted, returned = _wanted(node, len(outs)), _returned(node)
        call = Call(self.e, self.watched, outs, fakes, result, wanted, returned, node in self.written)
        made = lowering(call, **values)
        if isinstance(made, Value):
            made = (made,)
        return tuple(self._checked(v, t) for v, t in zip(made, outs, strict=True))

    def _outs(self, node: fx.Node) -> tuple[Tensor | None, ...]:
        """The types of a node's results; None for what is no tensor."""
        return tuple(self.tensor_type(t) if isinstance(t, torch.Tensor) else None for t in results_of(node))

    def _checked(self, value: Value | None, want: Tensor | None) -> Value | None:
        """What a lowering made is what torch says it is, up to how a size is written."""
        if value is None or want is None:
            return value
        got = value.type
        assert isinstance(got, Tensor)
        is_alike = got.elem == want.elem and got.rank == want.rank
        if not is_alike or not all(self.e.same(a, b) for a, b in zip(got.shape, want.shape, strict=True)):
            raise Unsupported(f"its lowering makes {got}, torch {want}")
        return value

    def _arguments(self, node: fx.Node) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments by the names of the schema: fake ones, and those for the lowering. Defaults are left out."""
        given = _given(node)
        fakes = {k: map_arg(v, lambda n: n.meta.get("val")) for k, v in given.items()}
        return fakes, {k: self._argument(v) for k, v in given.items()}

    def _argument(self, x: Any) -> Any:
        if isinstance(x, fx.Node):
            made, *_ = self.values.get(x, (None,))
            if made is not None:
                return made
            x = x.meta.get("val")
        if isinstance(x, (list, tuple)):
            return [self._argument(v) for v in x]
        if isinstance(x, torch.SymInt):
            return self.equal(dim_of(x))
        if isinstance(x, (torch.SymFloat, torch.SymBool, torch.Tensor)):
            raise Unsupported(f"an argument is known only when it runs: {x}")
        return x


def _sizes(node: fx.Node) -> Iterator[torch.SymInt]:
    """What is known by symbols of the sizes of a node's results and arguments."""
    for value in (*results_of(node), *(n.meta.get("val") for n in node.all_input_nodes)):
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                with suppress(UnknownSize):
                    dim_of(size)
                    yield size


def _given(node: fx.Node) -> dict[str, Any]:
    """A node's arguments by the names of the schema; defaults are left out."""
    overload: Any = node.target
    out: dict[str, Any] = dict(zip((name_of(a.name) for a in overload._schema.arguments), node.args, strict=False))
    return out | {name_of(k): v for k, v in node.kwargs.items()}


def _wanted(node: fx.Node, count: int) -> tuple[bool, ...]:
    """Which of a node's results are read."""
    picked = {i for u in node.users if u.target is operator.getitem and isinstance(i := u.args[1], int)}
    return tuple(i in picked or not picked for i in range(count))


def _returned(node: fx.Node) -> frozenset[str]:
    """The names of arguments that the graph returns as they are."""
    found = ((k, v) for k, v in _given(node).items() if isinstance(v, fx.Node))
    return frozenset(k for k, v in found if any(u.op == "output" for u in v.users))


def _symbols(func: Func) -> set[str]:
    """Every symbol in the types and attributes of a function."""
    inside = (x for op in func.walk() for x in (*op.types, *op.attrs.values()))
    return _symbols_in((*(v.type for v in func.params), *inside))


def _symbols_in(x: object) -> set[str]:
    if isinstance(x, Expr):
        return set(symbols(x))
    if isinstance(x, Tensor):
        x = x.shape
    return set[str]().union(*map(_symbols_in, x)) if isinstance(x, tuple) else set()


_TORCH = str(Path(torch.__file__).parent)


def loc_of(node: fx.Node) -> Loc | None:
    """The line of the user's program that a node comes from; of torch's own code where there is no other."""
    trace: str | None = node.stack_trace
    found: Loc | None = None
    for line in reversed((trace or "").splitlines()):
        text = line.strip()
        if text.startswith("File ") and ", line " in text:
            file, _, rest = text[5:].partition(", line ")
            number, file = rest.split(",")[0], file.strip('"')
            loc = Loc(file, int(number)) if number.isdigit() else None
            if loc is not None and not file.startswith(_TORCH):
                return loc
            found = found or loc
    return found
