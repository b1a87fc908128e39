"""Loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphfuse.codegen.kernel import Kernel, PointerValue, lowers
from graphfuse.dialects import control
from graphfuse.ir.core import Op, Value, attr_int
from graphfuse.ir.types import Ptr
from graphfuse.llvm.module import Reg
from graphfuse.symbolic import INF


def _registers(kernel: Kernel, values: Iterable[Value]) -> list[Reg]:
    """Those of all values, one after another."""
    out: list[Reg] = []
    for found in map(kernel.values.__getitem__, values):
        out += [found.reg] if isinstance(found, PointerValue) else found.vectors
    return out


def _deal(kernel: Kernel, values: Iterable[Value], registers: Iterable[Reg]) -> None:
    """Give values their registers; where a merged pointer points is not known."""
    left = iter(registers)
    for v in values:
        own = [next(left) for _ in kernel.type_parts(v.type)]
        kernel.values[v] = PointerValue(own[0], "") if isinstance(v.type, Ptr) else kernel.make(v.type, own)


def _share(kernel: Kernel, values: Iterable[Value], sources: Iterable[Value]) -> None:
    """Give values what others have."""
    kernel.values.update(zip(values, [kernel.values[s] for s in sources], strict=True))


def loop_metadata(kernel: Kernel) -> str:
    """Keeps LLVM from unrolling what was unrolled on purpose, or vectorising it again."""
    module = kernel.text.module
    unroll = module.metadata('!{!"llvm.loop.unroll.disable"}')
    return module.distinct(f"!{{!self, {unroll}}}", kernel.text.fresh(kernel.func.name))


def emit_loop(
    kernel: Kernel,
    start: Reg,
    stop: Reg,
    step: int | Reg,
    inits: Sequence[Reg],
    body: Callable[[Reg, list[Reg]], Sequence[Reg]],
    *,
    is_certain: bool,
) -> list[Reg]:
    """A bottom-tested loop that carries registers; guarded unless it is certain to run."""
    text = kernel.text
    label, after = text.fresh("loop"), text.fresh("done")
    before = text.reserve()
    source = text.label
    if is_certain:
        text.line(f"br label %{label}")
    else:
        some = text.emit("i1", f"icmp slt {start}, {stop.text}")
        text.line(f"br {some}, label %{label}, label %{after}")
    with text.scope(before):
        text.start(label)
        heads = text.reserve()
        i = text.phi("i64", f"%{text.fresh('i')}")
        phis = [text.phi(r.type, f"%{text.fresh('c')}") for r in inits]
        yielded = body(i, phis)
        following = text.emit("i64", f"add nsw {i}, {step.text if isinstance(step, Reg) else step}")
        more = text.emit("i1", f"icmp slt {following}, {stop.text}")
        latch = text.label
        text.line(f"br {more}, label %{label}, label %{after}, !llvm.loop {loop_metadata(kernel)}")
        heads.append(f"  {i.text} = phi i64 [ {start.text}, %{source} ], [ {following.text}, %{latch} ]")
        for phi, init, last in zip(phis, inits, yielded, strict=True):
            heads.append(f"  {phi.text} = phi {phi.type} [ {init.text}, %{source} ], [ {last.text}, %{latch} ]")
    text.start(after)
    results: list[Reg] = []
    for init, last in zip(inits, yielded, strict=True):
        ends = f"[ {last.text}, %{latch} ]" + ("" if is_certain else f", [ {init.text}, %{source} ]")
        results.append(text.emit(init.type, f"phi {init.type} {ends}"))
    return results


@lowers(control.for_)
def lower_for(kernel: Kernel, op: Op) -> None:
    """A loop; none at all for a single trip."""
    lower, upper, *carried = op.operands
    step = attr_int(op, "step", 1)
    low = kernel.bounds.get(lower, (-INF, INF))
    high = kernel.bounds.get(upper, (-INF, INF))
    counter, *params = op.body.params.values
    kernel.bounds[counter] = (low[0], max(low[0], high[1] - 1))
    inits = _registers(kernel, carried)
    if low[0] == low[1] and high[0] == high[1] and high[0] - low[0] <= step:
        _lower_constant_trip(kernel, op, runs=high[0] > low[0])
        return

    def body(i: Reg, phis: list[Reg]) -> list[Reg]:
        kernel.values[counter] = kernel.make(counter.type, [i])
        _deal(kernel, params, phis)
        kernel.lower_ops(op.body.ops[:-1])
        return _registers(kernel, op.body.terminator.operands)

    results = emit_loop(
        kernel, kernel.scalar(lower), kernel.scalar(upper), step, inits, body, is_certain=low[1] < high[0]
    )
    _deal(kernel, op.results, results)


def _lower_constant_trip(kernel: Kernel, op: Op, *, runs: bool) -> None:
    """No trip or one."""
    lower, _, *carried = op.operands
    if not runs:
        _deal(kernel, op.results, _registers(kernel, carried))
        return
    kernel.bounds[op.body.params.values[0]] = kernel.bounds[lower]
    _share(kernel, op.body.params.values, (lower, *carried))
    kernel.lower_ops(op.body.ops[:-1])
    _share(kernel, op.results, op.body.terminator.operands)


@lowers(control.while_)
def lower_while(kernel: Kernel, op: Op) -> None:
    """A loop tested at the top, behind the blocks of its condition."""
    text = kernel.text
    condition, body = op.bodies
    inits = _registers(kernel, op.operands)
    head, inside, after = text.fresh("while"), text.fresh("do"), text.fresh("done")
    before = text.reserve()
    source = text.label
    text.line(f"br label %{head}")
    with text.scope(before):
        text.start(head)
        heads = text.reserve()
        phis = [text.phi(r.type, f"%{text.fresh('c')}") for r in inits]
        _deal(kernel, condition.params.values, phis)
        kernel.lower_ops(condition.ops[:-1])
        goes_on, *yielded = condition.terminator.operands
        regs = _registers(kernel, yielded)
        behind, tested = text.reserve(), text.label
        text.line(f"br {kernel.scalar(goes_on)}, label %{inside}, label %{after}")
        with text.scope(behind):
            text.start(inside)
            _share(kernel, body.params.values, yielded)
            kernel.lower_ops(body.ops[:-1])
            lasts = _registers(kernel, body.terminator.operands)
            latch = text.label
            text.line(f"br label %{head}, !llvm.loop {loop_metadata(kernel)}")
        for phi, init, last in zip(phis, inits, lasts, strict=True):
            heads.append(f"  {phi.text} = phi {phi.type} [ {init.text}, %{source} ], [ {last.text}, %{latch} ]")
    text.start(after)
    results = [text.emit(r.type, f"phi {r.type} [ {r.text}, %{tested} ]") for r in regs]
    _deal(kernel, op.results, results)


@lowers(control.if_)
def lower_if(kernel: Kernel, op: Op) -> None:
    """Two blocks that meet in phis."""
    emit_if(kernel, op, lambda: None)


def emit_if(kernel: Kernel, op: Op, begin: Callable[[], None]) -> None:
    """A branch; `begin` is called ahead of each side."""
    text = kernel.text
    condition = kernel.scalar(op.operands[0])
    yes, no, after = text.fresh("then"), text.fresh("else"), text.fresh("endif")
    before = text.reserve()
    has_else = len(op.bodies) == 2
    text.line(f"br {condition}, label %{yes}, label %{no if has_else else after}")
    ends: list[tuple[str, list[Reg]]] = []
    for label, body in zip((yes, no), op.bodies, strict=False):
        with text.scope(before):
            text.start(label)
            begin()
            kernel.lower_ops(body.ops[:-1])
            ends.append((text.label, _registers(kernel, body.terminator.operands)))
            text.line(f"br label %{after}")
    text.start(after)
    results: list[Reg] = []
    for regs in zip(*(e[1] for e in ends), strict=True):
        sources = ", ".join(f"[ {r.text}, %{end[0]} ]" for r, end in zip(regs, ends, strict=True))
        results.append(text.emit(regs[0].type, f"phi {regs[0].type} {sources}"))
    _deal(kernel, op.results, results)
