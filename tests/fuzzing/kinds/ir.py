"""Artifacts whose IR or program is another one, with right digests: rebuilt, and what was rebuilt is run.

The IR is text with other tokens, or well-typed: ops with other numbers in their attributes, and other operands of the
same types.
"""

from __future__ import annotations

import random

from graphfuse.errors import GraphfuseError
from graphfuse.ir.core import Block, Op, Params
from graphfuse.ir.dense import Dense
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.runtime import gfx
from graphfuse.symbolic import Expr, sym
from tests.fuzzing.artifacts import SEEDS, mutate_text, rewritten
from tests.fuzzing.support import Patch, command, mutate_json
from tests.guarded import guard_runs


def _funcs():
    """The IR of every seed and part, by its text."""
    for data in SEEDS:
        loaded = gfx.loads(data)
        for executable in (loaded, *loaded.parts):
            if "regions" in executable.ir:
                constants = {(d := Dense(w.array)).digest: d for w in executable.weights}
                yield executable.ir["regions"], parse(executable.ir["regions"], "<seed>", constants)


FUNCS = dict(_funcs())
NUMBERS = (-(1 << 40), -8, -1, 0, 1, 2, 3, 4, 7, 8, 31, 64, 1000, 1 << 31, 1 << 62)


def mutate_ops(rng, func):
    """A function whose ops differ in a few places, with the types that follow; where there are none, as it was."""
    rate = rng.choice([0.5, 2, 5]) / max(1, sum(1 for _ in func.walk()))

    def attr(value):
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, Expr)):
            return rng.choice(
                [rng.choice(NUMBERS), value + rng.choice([-1, 1, 64]), value * 2, sym("n") - 1, sym("batch")]
            )
        if isinstance(value, tuple) and value:
            at = rng.randrange(len(value))
            return (*value[:at], attr(value[at]), *value[at + 1 :])
        return value

    def ops_of(block, values):
        visible = [*block.params.values]
        made = []
        for op in block.ops:
            operands, attrs = [values.get(v, v) for v in op.operands], dict(op.attrs)
            plain = list(operands), dict(attrs)
            if rng.random() < rate and attrs:
                name = rng.choice(list(attrs))
                attrs[name] = attr(attrs[name])
            if rng.random() < rate and operands:
                at = rng.randrange(len(operands))
                alike = [v for v in visible if v.type == operands[at].type]
                operands[at] = rng.choice(alike or [operands[at]])
            bodies = tuple(block_of(b, values) for b in op.bodies)
            for inputs, changed in ((operands, attrs), plain):
                try:
                    new = op.kind.build(inputs, changed, bodies=bodies, loc=op.loc)
                    break
                except (GraphfuseError, TypeError, AssertionError, KeyError):  # no such op: as before
                    continue
            else:
                new = Op(op.kind, tuple(plain[0]), op.attrs, op.types, bodies, op.hints, op.loc)
            values.update(zip(op.results, new.results, strict=False))
            visible += new.results
            made.append(new)
        return tuple(made)

    def block_of(block, values):
        params = Params(block.params.types, block.params.hints)
        values = {**values, **dict(zip(block.params.values, params.values, strict=True))}
        return Block(params, ops_of(Block(params, block.ops), values))

    return to_text(type(func)(func.name, Block(func.body.params, ops_of(func.body, {})), func.attrs, func.dims))


def case(seed, folder):
    rng = random.Random(seed)
    path, made = folder / "m.gfx", folder / "made.gfx"

    is_typed = rng.random() < 0.6

    def texts(tree):
        text = tree.get("regions")
        if text is None:  # a model with host code has the IR of its parts
            return tree
        return {**tree, "regions": mutate_ops(rng, FUNCS[text]) if is_typed else mutate_text(rng, text)}

    changes = {"ir": texts}
    if rng.random() < 0.2:
        changes = {"program": lambda tree: mutate_json(rng, tree)}
    path.write_bytes(rewritten(rng.choice(SEEDS), changes))
    outcome = command(folder, ["compile", "--recompile", str(path), "-o", str(made)], made)
    if outcome != "exit 0":
        return outcome
    guard_runs(Patch(), low=rng.random() < 0.5)  # outputs and what lies between end, or begin, at an unmapped page
    return "rebuilt, " + command(folder, ["run", "--random", str(made)])
