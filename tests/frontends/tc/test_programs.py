"""Random programs of scalar control flow: the block interpreter against the same program written in Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graphfuse.frontends.tc import compile_text
from graphfuse.interp.block import launch
from graphfuse.ir.verifier import verify

VARIABLES = ("a", "b", "c", "d")


class Program:
    """Statements of C and of Python side by side; every loop has a counter that ends it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.counters = 0

    def expression(self, depth=2):
        kind = self.rng.randrange(6 if depth else 2)
        if kind == 0:
            n = self.rng.randrange(-9, 10)
            return f"({n})", f"({n})"
        if kind == 1:
            v = self.rng.choice(VARIABLES)
            return v, v
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        if kind == 2:
            c = self.condition(depth - 1)
            return f"({c[0]} ? {x[0]} : {y[0]})", f"({x[1]} if {c[1]} else {y[1]})"
        op = self.rng.choice(("+", "-", "&", "|", "^"))
        return f"(({x[0]} {op} {y[0]}) % 1000)", f"rem({x[1]} {op} {y[1]}, 1000)"

    def condition(self, depth=1):
        x, y = self.expression(depth), self.expression(depth)
        op = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
        if depth and self.rng.random() < 0.2:
            c, d = self.condition(0), self.condition(0)
            both = self.rng.choice((("&&", "and"), ("||", "or")))
            return f"({c[0]} {both[0]} {d[0]})", f"({c[1]} {both[1]} {d[1]})"
        return f"({x[0]} {op} {y[0]})", f"({x[1]} {op} {y[1]})"

    def block(self, depth, loop):
        c, py = [], []
        for _ in range(self.rng.randrange(1, 5)):
            one = self.statement(depth, loop)
            c += one[0]
            py += one[1]
        return c, py

    def statement(self, depth, loop):
        kind = self.rng.randrange(11 if depth else 4)
        if kind < 3:
            v, x = self.rng.choice(VARIABLES), self.expression()
            return [f"{v} = {x[0]};"], [f"{v} = {x[1]}"]
        if kind == 3:
            return self.jump(loop)
        if kind < 6:
            c = self.condition()
            then, other = self.block(depth - 1, loop), self.block(depth - 1, loop)
            return (
                [f"if {c[0]} {{", *then[0], "} else {", *other[0], "}"],
                [f"if {c[1]}:", *indented(then[1]), "else:", *indented(other[1])],
            )
        self.counters += 1
        return self.loop(kind, depth, f"i{self.counters}")

    def jump(self, loop):
        kind = self.rng.randrange(4)
        if kind == 0:
            return ["return;"], ["raise Return"]
        if kind == 1 and loop is not None:
            return ["break;"], ["break"]
        if kind == 2 and loop is not None:
            return ["continue;"], [*loop, "continue"]
        return [";"], ["pass"]

    def loop(self, kind, depth, i):
        n, c = self.rng.randrange(5), self.condition()
        match kind:
            case 6:
                step = self.rng.choice((1, 2, 3))
                body = self.block(depth - 1, [])
                head = f"for (int {i} = 0; {i} < {n}; {i} += {step}) {{"
                return [head, *body[0], "}"], [f"for {i} in range(0, {n}, {step}):", *indented(body[1])]
            case 7:
                body = self.block(depth - 1, [f"{i} -= 1"])
                c_text = [f"for (int {i} = {n}; {i} > 0 && {c[0]}; {i}--) {{", *body[0], "}"]
                py = [f"{i} = {n}", f"while {i} > 0 and {c[1]}:", *indented([*body[1], f"{i} -= 1"])]
                return c_text, py
            case 8:
                body = self.block(depth - 1, [])
                c_text = [f"int {i} = {n};", f"while ({i}-- > 0) {{", *body[0], "}"]
                return c_text, [f"{i} = {n}", f"while {i} > 0:", *indented([f"{i} -= 1", *body[1]]), f"{i} = -1"]
            case 9:
                v, x = self.rng.choice(VARIABLES), self.expression()
                body = self.block(depth - 1, [])
                head = f"while (({v} = {x[0]}) > 0 && {i}-- > 0) {{"
                test = [f"{v} = {x[1]}", f"if {v} <= 0: break", f"{i} -= 1", f"if {i} < 0: break"]
                return [f"int {i} = {n};", head, *body[0], "}"], [
                    f"{i} = {n}",
                    "while True:",
                    *indented([*test, *body[1]]),
                ]
            case _:
                test = [f"if not ({i} > 0 and {c[1]}):", "    break"]
                body = self.block(depth - 1, test)
                c_text = [f"int {i} = {n};", "do {", f"{i} -= 1;", *body[0], f"}} while ({i} > 0 && {c[0]});"]
                return c_text, [f"{i} = {n}", "while True:", *indented([f"{i} -= 1", *body[1], *test])]


def indented(lines):
    return ["    " + line for line in lines]


class Return(Exception):  # noqa: N818
    """What a return is in Python."""


def rem(a, b):
    return int(np.fmod(a, b))


def check(seed):
    program = Program(seed)
    c, py = program.block(3, None)
    # a result even after `return`: the variables are stored by whoever calls
    helper = "\n".join(["void f(int *out, int a, int b) {", "int c = 3, d = -4;", *c,
                        "*out = a; *(out + 1) = b; *(out + 2) = c; *(out + 3) = d;", "}"])  # fmt: skip
    source = f"{helper}\n__global__ void k(int *out, int n) {{ *(out + 4) = 1; f(out, n, 2); *(out + 5) = 1; }}"
    (kernel,) = compile_text(source, "k.tc")
    verify(kernel.func)
    got = np.full(6, 7777, np.int32)
    launch(kernel.func, [got], {"n": 5}, grid=(1,))
    scope = {"Return": Return, "rem": rem, "a": 5, "b": 2, "c": 3, "d": -4}
    want = [7777] * 4
    try:
        exec("\n".join(py), scope)
        want = [scope[v] for v in VARIABLES]
    except Return:
        pass
    np.testing.assert_array_equal(got, [*want, 1, 1], err_msg=f"seed {seed}\n{source}\n" + "\n".join(py))


def test_programs():
    for seed in range(150):
        check(seed)


@pytest.mark.full
def test_many_programs():
    for seed in range(150, 5000):
        check(seed)
