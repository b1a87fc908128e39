"""The call of a small part as one Python function, written for its inputs, outputs and arguments.

A kernel on a few elements takes less time than the Python around it: loops over inputs, lists of addresses and nested
calls are most of that. For `add(x, y)` the function is

    def call(in_0, in_1):
        at_0 = in_0.data_ptr()
        at_1 = in_1.data_ptr()
        if not (at_0 and at_1) or (at_0 | at_1) & 3: return general(in_0, in_1)
        if not home.lock.acquire(False): return general(in_0, in_1)
        try:
            out_0 = make_0(size_0, stride_0, dtype_0)
            args[0] = at_0
            args[1] = at_1
            args[2] = out_0.data_ptr()
            home.run(records, 1, 0)
        finally:
            home.lock.release()
        return (out_0,)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphfuse.runtime.direct import Direct
from graphfuse.torch.runners import Allocation
from graphfuse.value_checks import FINE


@dataclass(frozen=True)
class Around:
    """What is done to some of the tensors before and after the launches."""

    arrays: Sequence[tuple[int, tuple[int, int] | None]] = ()
    """Inputs that are parts of arrays: elements before them, and in all. None: it is made contiguous."""
    shared: Sequence[tuple[int, int]] = ()
    """Outputs that are inputs."""
    look: Callable[[torch.Tensor], None] | None = None
    """Is given the last of what is allocated, a report, where that is not `FINE` throughout, and raises."""


def quick_call(
    direct: Direct,
    allocations: Sequence[Allocation],
    promised: Sequence[torch.dtype],
    masks: Sequence[int],
    general: Callable[..., Any],
    around: Around,
) -> Callable[..., Any]:
    """A function of as many tensors as are `promised` to the tensors of `allocations`, for a part without symbols.

    It calls `general` where an input has no address (it may be empty, or in no memory), or one with bits of its mask,
    or its array is not there, and where another thread is at home. So does all where arguments are too many to be
    written one by one.
    """
    inputs = len(masks)
    ready = direct.at_home(())
    if ready.few is None:
        return general
    names: dict[str, Any] = {"general": general, "home": direct.shared.home, "ready": ready, "args": ready.args}
    given = [f"in_{i}" for i in range(inputs)]
    otherwise = f"return general({', '.join(given)})"
    read = sorted({index for _, index, _ in ready.few if index < inputs})
    body: list[str] = []
    leads: dict[int, int] = {}
    for i, array in around.arrays:
        if array is None:
            body.append(f"in_{i} = in_{i}.contiguous()")
            continue
        lead, count = array
        leads[i] = lead * promised[i].itemsize
        body.append(f"begin = in_{i}.storage_offset() - {lead}")
        size = f"(begin + {count}) * {promised[i].itemsize}"
        body.append(f"if begin < 0 or {size} > in_{i}.untyped_storage().nbytes(): {otherwise}")
    body += [f"at_{i} = in_{i}.data_ptr(){f' - {leads[i]}' if leads.get(i) else ''}" for i in read]
    if read:
        bits = sorted({masks[i] for i in read} - {0})
        crooked = [f"({' | '.join(f'at_{i}' for i in read if masks[i] == mask)}) & {mask}" for mask in bits]
        bad = " or ".join([f"not ({' and '.join(f'at_{i}' for i in read)})", *crooked])
        body.append(f"if {bad}: {otherwise}")
    body += [f"if not home.lock.acquire(False): {otherwise}", "try:"]
    inputs_of = dict(around.shared)
    for i, (make, *how) in enumerate(allocations):
        if i in inputs_of:
            body.append(f"    out_{i} = in_{inputs_of[i]}")
            continue
        names |= {f"make_{i}": make, f"size_{i}": how[0], f"stride_{i}": how[1], f"dtype_{i}": how[2]}
        body.append(f"    out_{i} = make_{i}(size_{i}, stride_{i}, dtype_{i})")
    for slot, index, offset in ready.few:
        address = f"at_{index}" if index < inputs else f"out_{index - inputs}.data_ptr()"
        body.append(f"    args[{slot}] = {address}{f' + {offset}' if offset else ''}")
    if ready.peak:
        body.append(f"    ready.place_arena(home.arena({ready.peak}))")
    body.append(f"    home.run({ready.records}, {ready.count}, {ready.scratch_bytes})")
    body += ["finally:", "    home.lock.release()"]
    outputs = len(allocations)
    if around.look is not None:
        outputs -= 1
        names |= {"look": around.look, "fine": [FINE] * allocations[-1][1][0]}
        body.append(f"if out_{outputs}.tolist() != fine: look(out_{outputs})")
    body.append(f"return ({''.join(f'out_{i}, ' for i in range(outputs))})")
    source = "\n    ".join([f"def call({', '.join(given)}):", *body])
    exec(compile(source, "<graphfuse.torch.quick_call>", "exec"), names)  # noqa: S102 (written above)
    return names["call"]
