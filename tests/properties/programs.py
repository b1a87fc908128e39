"""Random programs, as text, so that a shrunk failure is a file to keep.

Text is written here and not printed, so that a printer that loses something is caught. Every program returns all
values it computes: a wrong rewrite cannot hide in dead code.
"""

from __future__ import annotations

from hypothesis import strategies as st

FLOATS = ["0.0", "-0.0", "1.0", "-1.5", "inf", "nan", "1e-45", "3"]
INTEGERS = ["0", "1", "-1", "7", "(n)", "(2*n + 1)"]
FLOAT_BINARY = ["add", "sub", "mul", "max", "min", "div", "truncmod", "floormod"]
INTEGER_BINARY = ["add", "sub", "mul", "max", "min", "xor", "floordiv", "truncdiv", "shl"]
FLOAT_UNARY = ["neg", "abs", "floor", "tanh", "erf", "sign"]


class Program:
    """Lines of a function under construction: names are handed out in the order in which the printer would."""

    def __init__(self, draw):
        self.draw = draw
        self.lines = []
        self.values = []
        self.count = 0
        self.depth = 1

    def emit(self, text, *types):
        """One op; its results become values that later ops may read."""
        names = [self.fresh() for _ in types]
        head = f"{', '.join(names)} = " if names else ""
        tail = f" : {', '.join(types)}" if types else ""
        self.lines.append(f"{'  ' * self.depth}{head}{text}{tail}")
        self.values += zip(names, types, strict=True)
        return names

    def fresh(self):
        self.count += 1
        return f"%v{self.count - 1}"

    def pick(self, *types):
        """A value of one of the types, or None."""
        fitting = [(n, t) for n, t in self.values if t in types]
        return self.draw(st.sampled_from(fitting)) if fitting else (None, None)

    def one_of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def body(self, head, params, fill, *, isolated=False):
        """An op with one body; `fill` writes it and returns the yielded names and the op's result types."""
        outer, outer_lines = list(self.values), self.lines
        self.lines = []
        declared = [(self.fresh(), t) for t in params]
        self.values = [*([] if isolated else outer), *declared]
        self.depth += 1
        yielded, types = fill()
        self.lines.append(f"{'  ' * self.depth}yield({', '.join(yielded)})")
        self.depth -= 1
        pad, inner = "  " * self.depth, self.lines
        names = [self.fresh() for _ in types]
        self.lines, self.values = outer_lines, [*outer, *zip(names, types, strict=True)]
        results = f"{', '.join(names)} = " if names else ""
        takes = ", ".join(f"{n}: {t}" for n, t in declared)
        tail = f" : {', '.join(types)}" if types else ""
        self.lines += [f"{pad}{results}{head} do ({takes}) {{", *inner, f"{pad}}}{tail}"]


def tensor(shape, elem):
    return f"tensor<{shape}x{elem}>"


SHAPES = ["(n)x4", "4"]
GRAPH_TYPES = [tensor(s, e) for s in SHAPES for e in ("f32", "i32", "bool", "bf16")]


@st.composite
def graph_programs(draw):
    p = Program(draw)
    params = [("%a", "tensor<(n)x4xf32>"), ("%b", "tensor<(n)x4xi32>"), ("%c", "tensor<4xf32>")]
    p.values += params
    for _ in range(draw(st.integers(1, 10))):
        graph_op(p, nested=True)
    return finish(p, params, " dims (n in 1..8)")


def finish(p, params, tail):
    takes = ", ".join(f"{n}: {t}" for n, t in params)
    returned = ", ".join(n for n, t in p.values if not t.startswith("ptr"))
    return "\n".join([f"func @f({takes}){tail} {{", *p.lines, f"  return({returned})", "}", ""])


def graph_op(p, *, nested):
    name, t = p.pick(*GRAPH_TYPES)
    if name is None:
        return
    shape, elem = t.removeprefix("tensor<").removesuffix(">").rsplit("x", 1)
    choice = p.draw(st.integers(0, 11 if nested else 9))
    if choice <= 2:
        graph_arithmetic(p, name, t, shape, elem)
    elif choice == 3:
        values = {"i32": INTEGERS, "bool": ["true", "false"]}.get(elem, FLOATS)
        dims = shape.replace("x", ", ")
        p.emit(f"graph.full() {{elem = {elem}, shape = [{dims}], value = {p.one_of(*values)}}}", t)
    elif choice == 4:
        to = p.one_of("f32", "i32", "bool", "bf16")
        p.emit(f"graph.cast({name}) {{{p.one_of('', 'saturate = true, ')}to = {to}}}", tensor(shape, to))
    elif choice == 5 and shape == "4":
        p.emit(f"graph.broadcast({name}) {{shape = [(n), 4]}}", tensor("(n)x4", elem))
    elif choice == 5:
        p.emit(f"graph.slice({name}) {{sizes = [(n), 4], starts = [0, 0], steps = [1, 1]}}", t)
    elif choice == 6:
        axes = "[0]" if shape == "4" else p.one_of("[0, 1]", "[1]")
        p.emit(f"graph.flip({name}) {{axes = {axes}}}", t)
    elif choice == 7 and shape == "(n)x4" and elem != "bool":
        kind = p.one_of("sum", "max", "min", "prod")
        p.emit(f'graph.reduce({name}) {{axes = [0], kind = "{kind}"}}', tensor("4", elem))
    elif choice == 8 and elem != "bool":
        extra = p.one_of("", "exclusive = true, ")
        p.emit(f'graph.cumulate({name}) {{axis = 0, {extra}kind = "{p.one_of("sum", "max")}"}}', t)
    elif choice == 9:
        (flat,) = p.emit(
            f"graph.reshape({name}) {{shape = [{'2, 2' if shape == '4' else '(4*n)'}]}}",
            tensor("2x2" if shape == "4" else "(4*n)", elem),
        )
        p.emit(f"graph.reshape({flat}) {{shape = [{shape.replace('x', ', ')}]}}", t)
    elif choice == 10:
        graph_region(p)
    elif choice == 11:
        graph_loop(p, name, t)


def graph_arithmetic(p, name, t, shape, elem):
    other, _ = p.pick(t)
    if elem == "bool":
        p.emit(f"graph.{p.one_of('and', 'or', 'xor', 'eq')}({name}, {other})", t)
        return
    kind = p.draw(st.integers(0, 3))
    if kind == 0:
        (c,) = p.emit(f"graph.{p.one_of('lt', 'eq', 'ne')}({name}, {other})", tensor(shape, "bool"))
        p.emit(f"graph.select({c}, {name}, {other})", t)
    elif kind == 1 and elem != "i32":
        p.emit(f"graph.{p.one_of(*FLOAT_UNARY)}({name})", t)
    else:
        names = INTEGER_BINARY if elem == "i32" else FLOAT_BINARY
        p.emit(f"graph.{p.one_of(*names)}({name}, {other})", t)


def graph_region(p):
    inputs = [p.pick(*GRAPH_TYPES) for _ in range(p.draw(st.integers(1, 2)))]

    def fill():
        before = len(p.values)
        for _ in range(p.draw(st.integers(1, 3))):
            graph_op(p, nested=False)
        made = p.values[before:] or p.values
        return [n for n, _ in made], [t for _, t in made]

    head = f'graph.region({", ".join(n for n, _ in inputs)}) {{kernel = "k", kind = "pointwise"}}'
    p.body(head, [t for _, t in inputs], fill, isolated=True)


def graph_loop(p, name, t):
    def fill():
        before = len(p.values)
        for _ in range(p.draw(st.integers(0, 2))):
            graph_op(p, nested=False)
        made = p.values[before:]
        carried = [n for n, have in p.values if have == t][-1]
        stacked = [
            tensor(f"3x{have.removeprefix('tensor<').rsplit('x', 1)[0]}", have.rsplit("x", 1)[1][:-1])
            for _, have in made
        ]
        return [carried, *(n for n, _ in made)], [t, *stacked]

    p.body(f'graph.loop({name}) {{count = 3, symbol = "t"}}', [t], fill)


TILES = ["tile<4xf32>", "tile<4xi64>", "tile<4xbool>"]
SCALARS = ["f32", "i64", "bool"]


@st.composite
def block_programs(draw):
    p = Program(draw)
    params = [("%p", "ptr<f32>"), ("%q", "ptr<i64>"), ("%n", "i64")]
    p.values += params
    for _ in range(draw(st.integers(1, 10))):
        block_op(p, nested=True)
    return finish(p, params, " {grid = 2}")


def block_op(p, *, nested):
    name, t = p.pick(*TILES, *SCALARS)
    elem = t.removeprefix("tile<4x").removesuffix(">")
    tile = t.startswith("tile")
    choice = p.draw(st.integers(0, 10 if nested else 8))
    if choice <= 1:
        block_arithmetic(p, name, t, elem)
    elif choice == 2:
        values = {"i64": ["0", "1", "-1", "7"], "bool": ["true", "false"]}.get(elem, FLOATS)
        p.emit(f"block.const() {{elem = {elem}, {'shape = [4], ' if tile else ''}value = {p.one_of(*values)}}}", t)
    elif choice == 3:
        p.emit("block.program_id()", "i64")
        p.emit(
            p.one_of("block.arange() {end = 4, start = 0}", "block.arange() {elem = i64, end = 5, start = 1}"),
            "tile<4xi64>",
        )
    elif choice == 4:
        block_memory(p)
    elif choice == 5 and elem == "i64":
        expr = p.one_of("2*i", "i*i + n", "mod(i, 3)", "min(4, i)", "floordiv(i + 1, 2)")
        p.emit(f'block.index({name}) {{expr = ({expr}), names = ["i"]}}', t)
    elif choice == 6:
        p.emit(
            f"block.splat({name}) {{shape = [4]}}" if not tile else f"block.trans({name}) {{perm = [0]}}",
            f"tile<4x{elem}>",
        )
    elif choice == 7 and tile:
        kinds = ["any", "all"] if elem == "bool" else ["sum", "max", "min"]
        p.emit(f'block.reduce({name}) {{axis = 0, kind = "{p.one_of(*kinds)}"}}', elem)
    elif choice == 8:
        to = p.one_of("f32", "i64", "bool")
        p.emit(f"block.cast({name}) {{to = {to}}}", f"tile<4x{to}>" if tile else to)
    elif choice == 9:
        block_loop(p, name, t)
    elif choice == 10:
        block_branch(p)


def block_arithmetic(p, name, t, elem):
    other, _ = p.pick(t)
    if elem == "bool":
        p.emit(f"block.{p.one_of('and', 'or', 'eq')}({name}, {other})", t)
        return
    if p.draw(st.booleans()):
        (c,) = p.emit(f"block.{p.one_of('lt', 'ne')}({name}, {other})", t.replace(elem, "bool"))
        p.emit(f"block.select({c}, {name}, {other})", t)
    else:
        names = INTEGER_BINARY if elem == "i64" else FLOAT_BINARY
        p.emit(f"block.{p.one_of(*names)}({name}, {other})", t)


def block_memory(p):
    pointer, elem = p.one_of(("%p", "f32"), ("%q", "i64"))
    (base,) = p.emit(f"block.const() {{elem = i64, value = {p.one_of('0', '3', '64')}}}", "i64")
    value, _ = p.pick(f"tile<4x{elem}>")
    stride = p.one_of("1", "2", "(n)")
    if value is None or p.draw(st.booleans()):
        operand, limited = p.one_of(("", ""), (", %n", "limited = [0], "))
        attrs = f"{{{limited}shape = [4], strides = [{stride}]}}"
        p.emit(f"block.load_view({pointer}, {base}{operand}) {attrs}", f"tile<4x{elem}>")
    else:
        p.emit(f"block.store_view({pointer}, {base}, {value}) {{strides = [{stride}]}}")


def block_loop(p, name, t):
    (zero,) = p.emit("block.const() {elem = i64, value = 0}", "i64")

    def fill():
        for _ in range(p.draw(st.integers(0, 3))):
            block_op(p, nested=False)
        return [[n for n, have in p.values if have == t][-1]], [t]

    p.body(f"for({zero}, %n, {name}){p.one_of('', ' {step = 2}')}", ["i64", t], fill)


def block_branch(p):
    (zero,) = p.emit("block.const() {elem = i64, value = 1}", "i64")
    (condition,) = p.emit(f"block.lt({zero}, %n)", "bool")

    def fill():
        for _ in range(p.draw(st.integers(0, 3))):
            block_op(p, nested=False)
        return [], []

    p.body(f"if({condition})", [], fill)


programs = st.one_of(graph_programs(), block_programs())
