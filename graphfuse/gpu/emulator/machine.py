"""Executes one kernel launch: CTAs in batches, warps that are at the same instruction as one array.

Warps are scheduled in a seeded random order and switch at memory and barrier instructions. Lanes that diverge come
together at the branch's immediate post-dominator; until then each side makes progress on its own.
What instructions do is in `instructions`; this file knows only where control goes and who is resident.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from graphfuse.errors import Loc
from graphfuse.findings import About, Finding, Who, finding_of
from graphfuse.gpu.emulator import flow
from graphfuse.gpu.emulator.barriers import MBarrier, Meeting
from graphfuse.gpu.emulator.clocks import Clocks
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.events import Events
from graphfuse.gpu.emulator.gang import FULL, LANES, STOP, Gang, Join, Split, Step
from graphfuse.gpu.emulator.hazards import Hazards
from graphfuse.gpu.emulator.heap import Heap
from graphfuse.gpu.emulator.heap_hazards import Flags, HeapHazards, Stale
from graphfuse.gpu.emulator.layout import Layout
from graphfuse.gpu.emulator.parse import Instruction, Kernel, Module
from graphfuse.gpu.emulator.report import Report, Traffic
from graphfuse.gpu.emulator.tensormap import TensorMap
from graphfuse.gpu.emulator.types import Array, register_dtype

SHARED_BASE = 1024
"""Shared addresses start here, as on sm_90, whose first KiB is the system's."""
MOST_TURNS = 1 << 20
"""Of a loop, by a warp, as in the interpreter."""
ROUNDS = 1024
"""Of the scheduler, between looks at whether loops end."""
LOCAL_BASE = 64
"""The first address of local memory: 0 is no address."""
STRONG = frozenset({"relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"})
"""What makes an access one that does not race with others such (PTX ISA 8.4)."""
SWITCHING = frozenset({"ld", "st", "atom", "red", "ldmatrix", "stmatrix", "fence", "membar"})
"""Where a gang may be set aside for another."""


class Part:
    """What a family of instructions keeps of a batch of CTAs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def leave(self, warp: int) -> None:
        """A warp ends."""


def is_fence(i: Instruction) -> bool:
    """Whether an instruction orders a lane's accesses of memory, whatever they are."""
    return i.name == "membar" or (
        i.name == "fence" and not {"acq_rel", "sc"}.isdisjoint(i.mods) and "proxy" not in i.mods
    )


def orders(i: Instruction) -> bool:
    """Whether an instruction orders accesses of several CTAs."""
    accesses = i.name in ("ld", "st", "atom", "red")
    return is_fence(i) or (accesses and not {"acquire", "release", "acq_rel"}.isdisjoint(i.mods))


SomePart = TypeVar("SomePart", bound=Part)


class Machine:
    """The state of a launch: memories, registers, barriers, who runs where."""

    def __init__(
        self,
        module: Module,
        kernel: Kernel,
        layout: Layout,
        heap: Heap,
        *,
        seed: int,
        checks: bool,
        most_turns: int,
    ) -> None:
        self.module, self.kernel, self.layout, self.heap, self.checks = module, kernel, layout, heap, checks
        self.most_turns = most_turns
        self.rng = np.random.default_rng(seed)
        self.tensor_maps: dict[int, tuple[TensorMap, int]] = {}
        self.made_maps: dict[int, set[tuple[int, ...]]] = {}
        """By place: the blocks that may use tensor maps that the kernel has made."""
        self.param_address = 0
        self.param_offsets: dict[str, int] = {}
        self.symbols: dict[str, tuple[str, int]] = {}
        warps = layout.resident_warps
        self.registers: dict[str, Array] = {
            name: np.zeros((warps, LANES), register_dtype(kind)) for name, kind in kernel.registers.items()
        }
        self.special: dict[str, Array] = {}
        self.carry: Array = np.zeros((warps, LANES), np.bool_)
        """Of extended-precision arithmetic (CC.CF)."""
        self.wgmma_registers: frozenset[str] = frozenset()
        self.shared: Array = np.zeros(layout.resident_ctas * layout.shared_stride, np.uint8)
        self.local: Array = np.zeros(warps * LANES * layout.local_stride, np.uint8)
        self.local_written: Array = np.zeros(len(self.local), np.bool_)
        self.waited: Array | None = None
        """Which lanes have waited for earlier launches, if the kernel is one that does."""
        if any(i.name == "griddepcontrol" and "wait" in i.mods for i in kernel.code):
            self.waited = np.zeros((warps, LANES), np.bool_)
        self.steps: list[Step] = []
        code = kernel.code
        self.loads_strongly = any(i.name == "ld" and not STRONG.isdisjoint(i.mods) for i in code)
        self.hits = [0] * len(code)
        self.traffic: dict[int, Traffic] = {}
        self.warned: dict[tuple[int, str], Finding] = {}
        self.report = Report(kernel.name)
        self.reconvergence = flow.reconvergence(kernel)
        self.is_join = [False] * (len(code) + 1)
        for pc in self.reconvergence.values():
            if pc >= 0:
                self.is_join[pc] = True
        self.loops = {pc: n for n, pc in enumerate(flow.loops(kernel))}
        """By the branch that goes back."""
        self.switches = [i.name in SWITCHING for i in code]
        self.heap_hazards = HeapHazards(self) if checks else None
        self.reset()

    def reset(self) -> None:
        """Forget the last batch of CTAs."""
        layout = self.layout
        for register in self.registers.values():
            register.fill(0 if register.dtype == np.bool_ else np.iinfo(register.dtype).max)
        self.local_written[...] = False
        if self.waited is not None:
            self.waited[...] = False
        self.ctas: list[tuple[int, int, int]] = []
        self.ready: dict[int, list[Split]] = {}
        self.live_lanes: Array = np.zeros((layout.resident_warps, LANES), np.bool_)
        self.blocked: set[Split] = set()
        self.turns: Array = np.zeros((layout.resident_warps, len(self.loops)), np.int64)
        """How often warps went round each loop."""
        self.mbarriers: dict[int, MBarrier] = {}
        self.operations: list[str] = ["nothing"]
        self.parts: dict[type[Part], Part] = {}
        self.events = Events(self.rng, polls=layout.ordered)
        self.hazards: Hazards | None = None
        self.flags = Flags(self) if self.checks and layout.ordered else None
        # a scatter stores strongly, too, and very often: where nobody loads so, nothing is kept of that
        self.stale = Stale(self, self.heap_hazards) if self.heap_hazards and self.loads_strongly else None
        self.clocks = Clocks(layout, ordered=layout.ordered)
        if self.checks:
            self.shared[...] = self.rng.integers(0, 256, dtype=np.uint8)
            self.hazards = Hazards(self)

    def part(self, kind: type[SomePart]) -> SomePart:
        """The one of its kind; a new batch of CTAs starts afresh."""
        if kind not in self.parts:
            self.parts[kind] = kind(self)
        return cast("SomePart", self.parts[kind])

    # running

    def run(self) -> None:
        """Execute the whole grid."""
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            for first in range(0, self.layout.clusters, self.layout.resident_clusters):
                self.run_batch(first)
        self.finish_report()
        self.report.seconds = time.perf_counter() - start

    def run_batch(self, first_cluster: int) -> None:
        """Execute clusters from this one on, as many as are resident."""
        layout = self.layout
        self.reset()
        if self.heap_hazards:
            self.heap_hazards.first_cluster = first_cluster
        count = min(layout.resident_clusters, layout.clusters - first_cluster)
        self.ctas = [layout.cta_of(first_cluster, slot) for slot in range(count * layout.ctas_per_cluster)]
        layout.set_special(self.special, self.ctas)
        for warp in range(len(self.ctas) * layout.warps_per_cta):
            mask = layout.mask_of_warp(warp)
            self.live_lanes[warp] = mask
            self.push(Split(warp, 0, mask, None), 0)
        self.report.warps += len(self.ctas) * layout.warps_per_cta
        self.schedule()

    def schedule(self) -> None:
        """Run gangs until no lane is left."""
        rounds = 0
        while True:
            self.events.tick()
            rounds += 1
            if self.ready:
                self.run_gang(self.pick())
            elif not self.blocked:
                break
            elif not self.events.fire_one():
                self.deadlock()
            if rounds % ROUNDS == 0 and self.turns.size and int(self.turns.max()) > self.most_turns:
                self.livelock()
        while self.events.fire_one():
            pass

    def pick(self) -> Gang:
        """The next gang: mostly of those furthest behind, so that warps meet again; sometimes any, sometimes a part."""
        pcs = self.ready.keys()
        pc = min(pcs) if len(pcs) == 1 or self.rng.random() < 0.7 else list(pcs)[int(self.rng.integers(len(pcs)))]
        splits = self.ready.pop(pc)
        if len(splits) > 1:
            seen: set[int] = set()
            chosen: list[Split] = []
            rest: list[Split] = []
            some = self.rng.random() < 0.1
            keep = self.rng.random(len(splits)) < 0.5 if some else None
            for i, split in enumerate(splits):
                if split.warp in seen or (keep is not None and not keep[i] and (chosen or i + 1 < len(splits))):
                    rest.append(split)
                else:
                    seen.add(split.warp)
                    chosen.append(split)
            if rest:
                self.ready[pc] = rest
            splits = chosen
        return Gang(self, splits, pc)

    def run_gang(self, gang: Gang) -> None:
        """Execute from the gang's instruction until it must be taken apart."""
        steps, hits, count = self.steps, self.hits, len(gang)
        pc, budget = gang.pc, int(self.rng.integers(1, 16))
        end = len(steps)
        while True:
            if self.is_join[pc] and any(s.join is not None and s.join.pc == pc for s in gang.splits):
                self.arrive(gang.splits, pc)
                return
            if pc >= end:
                self.exit_lanes(gang, gang.mask)
                return
            hits[pc] += count
            gang.pc = pc
            jump = steps[pc](gang)
            if jump is None:
                pc += 1
            elif jump == STOP:
                return
            else:
                if jump <= pc:
                    self.turns[gang.rows, self.loops[pc]] += 1
                pc = jump
                budget -= 1
            if self.switches[pc - 1]:
                budget -= 1
            if budget <= 0 and (len(self.ready) > 0 or self.events.pending or jump is not None):
                self.push_all(gang.splits, pc)
                return

    def push(self, split: Split, pc: int) -> None:
        """This split can run, from there on."""
        self.push_all([split], pc)

    def push_all(self, splits: list[Split], pc: int) -> None:
        """These go on there."""
        for split in splits:
            split.pc = pc
        self.ready.setdefault(pc, []).extend(splits)

    def block(self, split: Split, pc: int, waiting: list[Split], why: Callable[[], str]) -> None:
        """This split waits at an instruction, among others; whoever ends the wait calls `wake`."""
        split.pc, split.waits_for = pc, why
        self.blocked.add(split)
        waiting.append(split)

    def wake(self, waiting: list[Split], ahead: int) -> None:
        """End the wait of all of these: they go on so many instructions further."""
        for split in waiting:
            self.blocked.discard(split)
            split.waits_for = None
            self.push(split, split.pc + ahead)
        waiting.clear()

    def publish(self, meeting: Meeting, warp: int, lanes: Array) -> None:
        """Who arrives carries what these lanes know."""
        if self.hazards:
            meeting.carry(self.clocks.published(warp, lanes))

    def learn(self, meeting: Meeting, warp: int, lanes: Array, *, meets: bool = False) -> None:
        """Lanes that waited know what is carried; those that met, together."""
        if self.hazards and meeting.known is not None:
            to = self.clocks.meet if meets else self.clocks.learn
            to(warp, lanes, self.live_lanes[warp], meeting.known)

    # control flow

    def arrive(self, splits: list[Split], pc: int) -> None:
        """Those whose sides meet here wait for the rest; the others go on."""
        for split in splits:
            join = split.join
            if join is None or join.pc != pc:
                self.push(split, pc)
                continue
            join.arrived |= split.mask
            self.complete(join, split.warp)

    def complete(self, join: Join | None, warp: int) -> None:
        """Go on behind a join if all of its lanes are there."""
        while join is not None and (join.arrived == join.expected).all():
            if not join.expected.any():
                return
            parent, pc, mask = join.parent, join.pc, join.arrived
            join.expected = np.zeros(LANES, np.bool_)
            join.arrived = np.zeros(LANES, np.bool_)
            if parent is None or parent.pc != pc:
                self.push(Split(warp, pc, mask, parent), pc)
                return
            parent.arrived |= mask
            join = parent

    def jump(self, gang: Gang, where: Array, choices: list[int]) -> int | None:
        """Lanes go to `where[warp, lane]`, one of `choices`."""
        sides = [(target, (where == target) & gang.mask) for target in choices]
        present = [(target, mask) for target, mask in sides if mask.any()]
        if len(present) == 1:
            target = present[0][0]
            return target if target != gang.pc + 1 else None
        for target, mask in present:
            if target <= gang.pc:
                self.turns[gang.rows, self.loops[gang.pc]] += mask.any(1)
        per_warp = np.stack([mask.any(1) for _, mask in present])
        for i, split in enumerate(gang.splits):
            taken = np.flatnonzero(per_warp[:, i]).tolist()
            if len(taken) == 1:
                self.push(split, present[taken[0]][0])
            else:
                self.diverge(split, gang.pc, [(present[t][0], present[t][1][i]) for t in taken])
        return STOP

    def diverge(self, split: Split, pc: int, sides: list[tuple[int, Array]]) -> None:
        """Lanes of one warp part."""
        meet, join = self.reconvergence[pc], split.join
        if meet >= 0 and (join is None or join.pc != meet):
            join = Join(meet, split.mask.copy(), np.zeros(LANES, np.bool_), join)
        for target, mask in sides:
            self.push(Split(split.warp, target, mask, join), target)

    def exit_lanes(self, gang: Gang, leaving: Array) -> int | None:
        """Lanes end; the rest goes on."""
        for i, split in enumerate(gang.splits):
            lanes = leaving[i]
            rest = split.mask & ~lanes
            self.live_lanes[split.warp] &= ~lanes
            join = split.join
            if rest.any():
                split.mask = FULL if rest.all() else rest
                self.push(split, gang.pc + 1)
            chain: list[Join] = []
            while join is not None:
                join.expected &= ~lanes
                chain.append(join)
                join = join.parent
            for join in chain:
                self.complete(join, split.warp)
            if not self.live_lanes[split.warp].any():
                self.warp_ends(split.warp)
        return STOP

    def warp_ends(self, warp: int) -> None:
        """A warp's last lane is gone: barriers expect fewer, and what the CTA left in flight is an error."""
        slot = self.layout.slot_of(warp)
        for part in list(self.parts.values()):
            part.leave(warp)
        if self.checks and not self.live_lanes[self.layout.warps_of(slot)].any():
            if self.waited is not None and not self.waited[self.layout.warps_of(slot)].any():
                message = "the CTA ends without griddepcontrol.wait: its end says nothing of earlier launches"
                raise self.error(message, len(self.kernel.code) - 1, warp, about="fence")
            for event in self.events.pending:
                if event.slot == slot:
                    message = f"the CTA ends with {event.what} still in flight to its shared memory"
                    raise self.error(message, self.pc_of_operation(event.what), warp, about="in-flight")

    # words

    def error(
        self, message: str, pc: int, warp: int | None = None, lane: int | None = None, about: About | str = "rule"
    ) -> EmulatorError:
        """What to raise: the instruction, what is wrong, who; `about` may be a kind."""
        about = About(about) if isinstance(about, str) else about
        if warp is not None:
            message = f"{message}: {self.who(warp, lane)}"
            about = replace(about, by=about.by or self.who_of(warp, lane))
        return self.error_at(self.kernel.code[pc], message, about)

    def error_at(self, instruction: Instruction, message: str, about: About | None = None) -> EmulatorError:
        """What to raise: the instruction, what is wrong."""
        code = Loc(self.module.name, instruction.line, instruction.column)
        return EmulatorError(f"{instruction.opcode}: {message}", instruction.source, about, code)

    def warn(self, message: str, pc: int, warp: int) -> None:
        """Once per instruction and kind."""
        self.note((pc, message.split(":", maxsplit=1)[0]), self.error(message, pc, warp))

    def note(self, key: tuple[int, str], error: EmulatorError) -> None:
        """Keep the first such error, which is none."""
        self.warned.setdefault(key, replace(finding_of(error), is_note=True))

    def note_same(self, pc: int, error: EmulatorError) -> None:
        """Keep the first race of an instruction whose writers agree."""
        found, key = finding_of(error), (pc, "same")
        message = f"{found.message.replace('race: ', '', 1)}: both write the same"
        self.warned.setdefault(key, replace(found, message=message, is_note=True))

    def who_of(self, warp: int, lane: int | None = None) -> Who:
        """A resident warp, as findings have it."""
        return Who(self.ctas[self.layout.slot_of(warp)], warp % self.layout.warps_per_cta, lane)

    def who(self, warp: int, lane: int | None) -> str:
        """`CTA (0, 0, 0) warp 1 lane 3`."""
        who = self.who_of(warp, lane)
        return f"CTA {who.program} warp {who.warp}" + (f" lane {lane}" if lane is not None else "")

    def unit(self, unit: int) -> str:
        """A shared-memory address."""
        slot, offset = divmod(unit * self.layout.unit, self.layout.shared_stride)
        rank = slot % self.layout.ctas_per_cluster
        owner = f" of CTA rank {rank}" if self.layout.ctas_per_cluster > 1 else ""
        return f"shared byte {offset + SHARED_BASE:#x}{self.symbol_at(offset)}{owner}"

    def symbol_at(self, offset: int) -> str:
        """` (red + 12)` for an offset into shared memory."""
        below = [(at, name) for name, (space, at) in self.symbols.items() if space == "shared" and at <= offset]
        if not below:
            return ""
        at, name = max(below)
        return f" ({name} + {offset - at})"

    def agent(self, agent: int) -> str:
        """Who acts."""
        layout = self.layout
        if agent < layout.warps_per_cluster:
            rank, warp = divmod(agent, layout.warps_per_cta)
            return f"warp {warp}" + (f" of CTA rank {rank}" if layout.ctas_per_cluster > 1 else "")
        if agent < layout.warps_per_cluster + layout.groups_per_cluster:
            return f"a wgmma of warpgroup {agent - layout.warps_per_cluster} not waited for"
        if agent < layout.readers:
            return f"a bulk store of warp {agent - layout.warps_per_cluster - layout.groups_per_cluster} not waited for"
        found = next((b for b in self.mbarriers.values() if b.agent == agent), None)
        return f"a bulk copy on the mbarrier at {found.address:#x}" if found else "a bulk copy"

    def instruction(self, pc: int) -> str:
        """Where, for messages."""
        return f"line {self.kernel.code[pc].line}"

    def new_operation(self, pc: int) -> int:
        """A number for an asynchronous operation that starts."""
        code = self.kernel.code[pc]
        self.operations.append(f"{code.opcode} (line {code.line})")
        return len(self.operations) - 1

    def pc_of_operation(self, what: str) -> int:
        """The instruction that a description names."""
        line = int(what.rsplit("line ", 1)[1].rstrip(")"))
        return next(pc for pc, i in enumerate(self.kernel.code) if i.line == line)

    def deadlock(self) -> None:
        """Every warp waits for what nobody will do."""
        waits = sorted(self.blocked, key=lambda s: (s.warp, s.pc))
        lines = [
            f"{self.who(s.warp, None)} at line {self.kernel.code[s.pc].line}: {s.waits_for()}"
            for s in waits[:8]
            if s.waits_for
        ]
        more = f" and {len(waits) - 8} more" if len(waits) > 8 else ""
        raise self.error("deadlock: " + "; ".join(lines) + more, waits[0].pc, about="deadlock")

    def livelock(self) -> None:
        """A warp goes round a loop again and again."""
        warp, number = np.unravel_index(int(self.turns.argmax()), self.turns.shape)
        branch = next(pc for pc, n in self.loops.items() if n == number)
        head = self.kernel.code[flow.targets(self.kernel, self.kernel.code[branch])[0]]
        begins = head.source or f"line {head.line}"
        message = f"went round the loop that begins at {begins} {int(self.turns.max())} times, and it has not ended"
        raise self.error(message, branch, int(warp), about="endless")

    def finish_report(self) -> None:
        """Counts by opcode."""
        report = self.report
        for pc, hits in enumerate(self.hits):
            if hits:
                opcode = self.kernel.code[pc].opcode
                report.instructions[opcode] = report.instructions.get(opcode, 0) + hits
        report.traffic = [self.traffic[pc] for pc in sorted(self.traffic)]
        report.notes = list(self.warned.values())
