"""`block.atomic` and `block.atomic_cas`: `red` where nobody reads the result, else `atom`, or a loop that swaps.

What lies side by side in global memory is added at once: pairs of halves, and up to four f32 from sm_90 on.
Each element is changed by one thread, also where several hold it; those that hold copies get the result through shared
memory. A scalar's is done by the first thread. All threads meet before one that releases and after one that acquires:
a barrier hands on what the one thread's access ordered (PTX ISA, memory consistency model: causality order is
transitive).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphfuse.codegen.arith import elementwise
from graphfuse.codegen.kernel import register_type
from graphfuse.dialects import effects
from graphfuse.gpu.convert import holding, plan
from graphfuse.gpu.kernel import Kernel, layout_of, lowers, places, space_of, vector_of, when
from graphfuse.gpu.lower_convert import convert
from graphfuse.gpu.lower_memory import Access, element_accesses, ptx_version
from graphfuse.gpu.words import as_bits, from_bits, gather_words
from graphfuse.ir.core import Op
from graphfuse.ir.layout import LANE, WARP
from graphfuse.ir.types import F32, Scalar, Tile
from graphfuse.llvm.module import Reg

_PAIRS = {"f16": 80, "bf16": 90}
"""Halves that are added in pairs, and from which architecture on; single ones from the same."""
_VECTORS, _VECTORS_PTX = 90, 81
"""The first architecture and PTX version with sums of several f32."""
_OPPOSITE = {"max": "min", "min": "max"}
_INFINITY = {32: 0x7F80 << 16, 64: 0x7FF0 << 48}


@lowers(effects.atomic, effects.atomic_cas)
def lower_atomic(kernel: Kernel, op: Op) -> None:
    """One element after another of what the thread holds, some at once."""
    pointer = kernel.pointer(op.operands[0])
    value, type_ = kernel.registers(op.operands[2]), op.types[0]
    order = str(op.attrs.get("order", "relaxed"))
    if order in ("release", "acq_rel"):
        kernel.barrier()
    kernel.order(pointer.root, writes=True, atomic=True)
    returns = op.result in kernel.read
    out: dict[int, Reg] = {}
    most = 1 if returns else _together(kernel, op, value.elem, space_of(pointer.reg))
    mask = op.operands[4 if op.kind is effects.atomic_cas else 3 :]
    for access in list(element_accesses(kernel, op, type_, mask, stores=True, most=most)):
        done = _perform(kernel, op, value.elem, access, returns=returns)
        out.update(zip(access.registers, done, strict=False))
    if returns and isinstance(type_, Tile):
        kernel.set(op, _shared_out(kernel, type_, out))
    elif returns:
        kernel.set(op, [_from_first_thread(kernel, value.elem, out[0])])  # all meet
    elif order in ("acquire", "acq_rel"):
        kernel.barrier()


def _together(kernel: Kernel, op: Op, elem: Scalar, space: str) -> int:
    """Elements that one `red` changes at most."""
    if op.attrs.get("kind") not in ("add", "sub"):
        return 1
    if elem == F32 and space == "global" and kernel.compute_capability >= _VECTORS:
        return 4 if ptx_version(kernel) >= _VECTORS_PTX else 1
    return 2 if elem.name in _PAIRS and kernel.compute_capability >= _PAIRS[elem.name] else 1


def _perform(kernel: Kernel, op: Op, elem: Scalar, access: Access, *, returns: bool) -> list[Reg]:
    """One instruction or one loop; what was there before, if anyone asks."""
    operands = [[kernel.registers(v).vectors[r] for r in access.registers] for v in op.operands[2:4]]
    order, scope = str(op.attrs.get("order", "relaxed")), str(op.attrs.get("scope", "gpu"))
    how = f"{order}.{scope}"
    if op.kind is effects.atomic_cas:
        swaps = [as_bits(kernel, operands[i][0]) for i in (0, 1)]
        olds = _predicated(kernel, f"atom.{how}", f"cas.b{elem.bits}", access, swaps)
        return [from_bits(kernel, old, register_type(elem)) for old in olds]
    kind, values = str(op.attrs["kind"]), operands[0]
    name = _instruction(kernel, kind, elem, len(values))
    if not name and kind in _OPPOSITE and elem.bits >= 32:
        return [from_bits(kernel, _extreme(kernel, kind, elem, values[0], access, how), register_type(elem))]
    if not name:
        return [_loop(kernel, kind, elem, values[0], access, how)]
    taken = [_operand(kernel, kind, elem, v) for v in values]
    x = taken[0]
    if len(values) > 1:
        words = taken if elem == F32 else gather_words(kernel, taken)
        return _predicated(kernel, f"red.{how}", name, access, words, returns=False)
    # `red` cannot acquire
    if not returns and kind != "exchange" and order in ("relaxed", "release"):
        return _predicated(kernel, f"red.{how}", name, access, [x], returns=False)
    olds = _predicated(kernel, f"atom.{how}", name, access, [x])
    return [from_bits(kernel, old, register_type(elem)) if x.type != register_type(elem) else old for old in olds]


def _operand(kernel: Kernel, kind: str, elem: Scalar, x: Reg) -> Reg:
    """A value as the instruction takes it."""
    if kind == "sub":
        return elementwise(kernel, "neg", elem, [x])
    return as_bits(kernel, x) if kind == "exchange" else x


def _instruction(kernel: Kernel, kind: str, elem: Scalar, count: int) -> str:
    """What `atom` and `red` call an operation on so many elements; nothing if they do not have it."""
    if kind in ("add", "sub"):
        if elem.name in _PAIRS:
            known = kernel.compute_capability >= _PAIRS[elem.name]
            return f"add.noftz.{elem.name}{'x2' if count == 2 else ''}" if known else ""
        if elem.is_float:
            return f"add{vector_of(0, count)[0]}.{elem.name}"
        return f"add.u{elem.bits}" if elem.bits >= 32 else ""
    if elem.bits < 32 or kind == "mul":
        return ""
    if kind in ("exchange", "and", "or", "xor"):
        return f"{'exch' if kind == 'exchange' else kind}.b{elem.bits}"
    return "" if elem.is_float else f"{kind}.{'s' if elem.is_signed else 'u'}{elem.bits}"


def _predicated(
    kernel: Kernel, name: str, operation: str, access: Access, operands: Sequence[Reg], *, returns: bool = True
) -> list[Reg]:
    """The instruction under the access' predicate; its result, if any, is 0 where that does not hold."""
    gives = [operands[0].type] if returns else []
    first = len(gives)
    target = f"$0, [${first}]" if returns else f"[${first}]"
    given = places(first + 1, len(operands))
    given = f"{{{given}}}" if ".v" in operation else given
    text = f"{name}.{space_of(access.address)}.{operation} {target}, {given};"
    if access.predicate is None:
        return kernel.assembly(text, access.address, *operands, gives=gives, early=returns)
    text = when(text, first + 1 + len(operands), f"mov.{_zero(gives[0])};\n" if returns else "")
    return kernel.assembly(text, access.address, *operands, kernel.flag(access.predicate), gives=gives, early=returns)


def _extreme(kernel: Kernel, kind: str, elem: Scalar, value: Reg, access: Access, how: str) -> Reg:
    """The bits before, of a float's by integers: positive floats are in the order of their bits, negative in the other.

    A NaN becomes the one that is beyond all others of both; one in memory that is not would be lost, and becomes it.
    """
    sign, is_min = 1 << elem.bits - 1, kind == "min"
    nan, infinity = (-1, _INFINITY[elem.bits]) if is_min else (sign - 1, _INFINITY[elem.bits] - sign)
    is_nan = kernel.compare("fcmp uno", value, value)
    bits = kernel.choose(is_nan, nan, as_bits(kernel, value))
    is_negative = kernel.compare("icmp slt", bits, 0)

    def where(condition: Reg, name: str, given: Reg, *, returns: bool) -> list[Reg]:
        inside = replace(access, predicate=kernel.both(access.predicate, condition))
        instruction = f"atom.{how}" if returns else f"red.relaxed.{how.partition('.')[2]}"
        return _predicated(kernel, instruction, f"{name}{elem.bits}", inside, [given], returns=returns)

    is_positive = kernel.compare("icmp sge", bits, 0)
    (above,) = where(is_positive, f"{kind}.s", bits, returns=True)
    (below,) = where(is_negative, f"{_OPPOSITE[kind]}.u", bits, returns=True)
    old = kernel.choose(is_negative, below, above)
    was_nan = kernel.compare("icmp sgt" if is_min else "icmp ugt", old, infinity)
    where(was_nan, "max.u" if is_min else "max.s", kernel.choose(was_nan, nan, old), returns=False)
    return old


def _zero(type_: str) -> str:
    return {"float": "f32 $0, 0f00000000", "double": "f64 $0, 0d0000000000000000"}.get(type_, f"b{type_[1:]} $0, 0")


def _loop(kernel: Kernel, kind: str, elem: Scalar, value: Reg, access: Access, how: str) -> Reg:
    """Read, combine, and swap in if nothing has changed, until that is so. What changes nothing is not swapped in."""
    order, _, scope = how.partition(".")
    text, skips = kernel.text, kind in _OPPOSITE and order == "relaxed"
    bits, space = f"i{elem.bits}", space_of(access.address)
    before, source = text.reserve(), text.label
    begin, again, after = text.fresh("begin"), text.fresh("again"), text.fresh("swapped")
    if access.predicate is None:
        text.line(f"br label %{begin}")
    else:
        text.line(f"br {access.predicate}, label %{begin}, label %{after}")
    with text.scope(before):
        text.start(begin)
        read = f"ld.relaxed.{scope}.{space}.b{elem.bits} $0, [$1];"
        (seen,) = kernel.assembly(read, access.address, gives=[bits])
        inner = text.reserve()
        text.line(f"br label %{again}")
        with text.scope(inner):
            text.start(again)
            heads = text.reserve()
            old = text.phi(bits, f"%{text.fresh('old')}")
            new = value if kind == "exchange" else _combined(kernel, kind, elem, old, value)
            wanted, head = as_bits(kernel, new), text.label
            if skips:
                is_there, differs = kernel.compare("icmp eq", wanted, old), text.fresh("differs")
                text.line(f"br {is_there}, label %{after}, label %{differs}")
                text.start(differs)
            swap = f"atom.{how}.{space}.cas.b{elem.bits} $0, [$1], $2, $3;"
            (got,) = kernel.assembly(swap, access.address, old, wanted, gives=[bits])
            same = kernel.compare("icmp eq", got, old)
            latch = text.label
            text.line(f"br {same}, label %{after}, label %{again}")
            heads.append(f"  {old.text} = phi {bits} [ {seen.text}, %{begin} ], [ {got.text}, %{latch} ]")
    text.start(after)
    skipped = "" if access.predicate is None else f", [ 0, %{source} ]"
    skipped += f", [ {old.text}, %{head} ]" if skips else ""
    return from_bits(kernel, text.emit(bits, f"phi {bits} [ {got.text}, %{latch} ]{skipped}"), register_type(elem))


def _combined(kernel: Kernel, kind: str, elem: Scalar, old: Reg, value: Reg) -> Reg:
    return elementwise(kernel, kind, elem, [from_bits(kernel, old, register_type(elem)), value])


# results


def _shared_out(kernel: Kernel, type_: Tile, out: dict[int, Reg]) -> list[Reg]:
    """The results to all registers and threads that hold the same elements."""
    layout = layout_of(type_)
    values = [out[r] for r in holding(layout, layout)]
    free = layout.free_masks()
    if not (free.get(LANE, 0) or free.get(WARP, 0)):
        return values
    return convert(kernel, values, plan(layout, layout, 8 * type_.elem.bytes, route="shared"))


def _from_first_thread(kernel: Kernel, elem: Scalar, value: Reg) -> Reg:
    """One thread's value for all."""
    place, root = kernel.exchange(8)
    kernel.order(root, writes=True)
    bits = as_bits(kernel, value)
    kernel.assembly("@$1 st.shared.b64 [$0], $2;", place, kernel.is_first_thread, kernel.convert("zext", bits, "i64"))
    kernel.order(root, writes=False)
    loaded = kernel.text.emit("i64", f"load i64, {place}, align 8")
    return from_bits(kernel, kernel.convert("trunc", loaded, bits.type), register_type(elem))


@lowers(effects.barrier)
def lower_barrier(kernel: Kernel, op: Op) -> None:
    """All threads meet."""
    kernel.barrier()
