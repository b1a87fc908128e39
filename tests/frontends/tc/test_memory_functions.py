"""Loads and stores with hints, atomics with orders and scopes: values on every machine, and what GPUs are told."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphfuse.dialects.block import LOAD_CACHES, STORE_CACHES
from graphfuse.dialects.effects import ORDERS, SCOPES
from graphfuse.findings import CheckError
from graphfuse.frontends.tc import SourceError, compile_text
from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from tests.frontends.tc.tiles import _MACHINES, array, check
from tests.gpu.launching import SM_80, SM_90A, compiled

pytestmark = pytest.mark.filterwarnings("ignore:.*is never called:graphfuse.SourceWarning")
NUMBERS = np.arange(32) % 7 - 2


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def func_of(text):
    (kernel,) = compile_text(text, "k.tc", {})
    assert to_text(parse(to_text(kernel.func))) == to_text(kernel.func)
    return kernel.func


def everywhere(text, arrays, want, n=0):
    """What is left in arrays, on every machine."""
    func = func_of(text)
    for name, run in _MACHINES.items():
        made = [x.copy() for x in arrays]
        run(text, func, made, n)
        for got, wanted in zip(made, want, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=f"on {name}\n{text}")


def ptx(text, target):
    return compiled(to_text(func_of(text)), target)[0]


# hints


@pytest.mark.parametrize("cache", ["", *LOAD_CACHES])
@pytest.mark.parametrize("elem", ["float", "half", "char"])
def test_loads_with_hints_are_loads(cache, elem):
    x, word = array(NUMBERS, elem), f", {cache}" if cache else ""
    check(f"load(A + (0 ... 32){word})", [x], [elem], x, elem)
    odd = np.where(np.arange(32) % 3 == 1, x, 0)
    check(f"load(A + (0 ... 32), (0 ... 32) % 3 == 1{word})", [x], [elem], odd, elem)
    check(f"load(A + 5{word})", [x], [elem], x[5], elem)
    check(f"load(A + (31 - (0 ... 32)){word})", [x], [elem], x[::-1], elem)


@pytest.mark.parametrize("cache", ["", *STORE_CACHES])
def test_stores_with_hints_are_stores(cache):
    word = f", {cache}" if cache else ""
    lines = f"float v[32] = *(x + 0 ... 32); store(y + 0 ... 32, v * 2{word}); store(y + 40, 3{word});"
    lines += f" store(y + 64 + 0 ... 32, v, 0 ... 32 < n{word});"
    x, y = NUMBERS.astype("f4"), np.full(96, 77, "f4")
    want = y.copy()
    want[:32], want[40], want[64:84] = 2 * x, 3, x[:20]
    everywhere(f"__global__ void k(float *x, float *y, int n) {{ {lines} }}", [x, y], [x, want], n=20)


@pytest.mark.parametrize(
    ("target", "word", "load", "store"),
    [
        (SM_80, "cg", "ld.global.cg.v4.b32", "st.global.cg.v4.b32"),
        (SM_80, "cs", "ld.global.cs.v4.b32", "st.global.cs.v4.b32"),
        (SM_80, "evict_first", "ld.global.cs.v4.b32", "st.global.cs.v4.b32"),
        (SM_80, "evict_last", "ld.global.v4.b32", "st.global.v4.b32"),
        (SM_90A, "cg", "ld.global.cg.v4.b32", "st.global.cg.v4.b32"),
        (SM_90A, "evict_first", "ld.global.L1::evict_first.v4.b32", "st.global.L1::evict_first.v4.b32"),
        (SM_90A, "evict_last", "ld.global.L1::evict_last.v4.b32", "st.global.L1::evict_last.v4.b32"),
    ],
    ids=str,
)
def test_instructions_have_the_hint(target, word, load, store):
    at = "get_program_id(0) * 1024 + (0 ... 1024)"
    text = "__global__ void k(float *x __aligned(16), float *y __aligned(16), int n) "
    found = ptx(f"{text} {{ store(y + {at}, load(x + {at}, {word}) + 1, {word}); }}", target)
    assert found.count(f"{load} ") == found.count(f"{store} ") == 2
    masked = ptx(f"{text} {{ int i[1024] = {at}; store(y + i, load(x + i, i < n, {word}), i < n, {word}); }}", target)
    prefix = load.partition(".v4")[0].removesuffix(".b32")
    assert re.search(rf"{re.escape(prefix)}\.(v4\.)?b32", masked)


def test_words_that_are_no_hints():
    def message(call, before=""):
        with pytest.raises(SourceError) as found:
            compile_text(f"__global__ void k(float *x, const float *c) {{ {before} {call}; }}", "k.tc", {})
        return str(found.value)

    assert "undefined" in message("load(x, wt)") or "wt" in message("load(x, wt)")
    assert "expected one of ca, cg, cs, evict_first, evict_last, found two" in message("load(x, cg, cs)")
    assert "load: expected 1 to 2 arguments, found 3" in message("load(x, 1 > 0, 2)")
    assert "operand of 'load': expected a pointer, found int" in message("load(1)")
    assert "mask of 'load': expected bool, found int" in message("load(x, 1)")
    assert "const memory" in message("store(c, 1)")
    # what the source declares is a value
    compile_text("__global__ void k(float *x) { bool cg = true; *x = load(x + 1, cg); }", "k.tc", {})


# atomics


@pytest.mark.parametrize("scope", ["", *SCOPES])
@pytest.mark.parametrize("order", ["", *ORDERS])
def test_scalar_atomics_of_every_order_and_scope(order, scope):
    words = "".join(f", {w}" for w in (order, scope) if w)
    lines = f"int a = atomic_add(x, 5{words}); int b = atomic_cas(x + 1, 1, 9{words}); atomic_max(x + 2, 7{words});"
    lines += f" atomic_xchg(x + 3, 4, n > 0{words});"
    text = f"__global__ void k(int *x, int *y, int n) {{ {lines} *y = a; *(y + 1) = b; }}"
    x, y = np.arange(4, dtype="i4"), np.zeros(2, "i4")
    everywhere(text, [x, y], [np.array([5, 9, 7, 3], "i4"), np.array([0, 1], "i4")])


@pytest.mark.parametrize("scope", ["", *SCOPES])
@pytest.mark.parametrize(("elem", "kind"), [("float", "add"), ("float", "max"), ("half", "add"), ("int", "min")])
def test_tiles_of_atomics(elem, kind, scope):
    words = ", relaxed" + (f", {scope}" if scope else "")
    text = f"__global__ void k({elem} *x, {elem} *y, int n) {{ {elem} v[32] = *(x + 0 ... 32);"
    text += f" atomic_{kind}(y + (0 ... 32) / 4, v, 0 ... 32 < n{words}); }}"
    x, y = array(NUMBERS, elem), array(np.ones(8), elem)
    want, function = y.copy(), {"add": np.add, "max": np.maximum, "min": np.minimum}[kind]
    function.at(want, np.arange(20) // 4, x[:20])
    everywhere(text, [x, y], [x, want], n=20)


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)
def test_instructions_have_order_and_scope(target):
    text = "__global__ void k(int *x, int *y, int n) {{ {} }}"
    assert "red.release.sys.global.add.u32" in ptx(text.format("atomic_add(x, 1, release, sys);"), target)
    assert "atom.acquire.gpu.global.add.u32" in ptx(text.format("atomic_add(x, 1, acquire);"), target)
    assert "atom.acq_rel.cta.global.exch.b32" in ptx(text.format("*y = atomic_xchg(x, 1, cta);"), target)
    assert "red.relaxed.cta.global" in ptx(text.format("atomic_add(x + 0 ... 32, 1, cta);"), target)
    # all threads meet before it releases, and after it acquires
    for word, before, after in (("release", 1, 0), ("acquire", 0, 1), ("acq_rel", 1, 1), ("relaxed", 0, 0)):
        first, _, second = ptx(text.format(f"atomic_or(x, n, {word});"), target).partition(".global.or.b32")
        assert (first.count("bar.sync"), second.count("bar.sync")) == (before, after)


def test_tiles_are_relaxed():
    with pytest.raises(SourceError, match="expected relaxed for a tile, whose elements are in no order, found acquire"):
        compile_text("__global__ void k(int *x) { atomic_add(x + 0 ... 32, 1, acquire); }", "k.tc", {})


# what orders and scopes promise, as a check of a launch sees it

HANDED = """
__global__ void k(float *x, int *flag, float *y) {{
  if (get_program_id(0) == 0) {{ *x = 5; atomic_xchg(flag, 1, {0}); }}
  else {{ while (atomic_add(flag, 0, {1}) == 0) ; *y = *x; }}
}}
"""


def ran(give, take):
    x, flag, y = np.zeros(1, "f4"), np.zeros(1, "i4"), np.zeros(1, "f4")
    launch(func_of(HANDED.format(give, take)), [x, flag, y], {}, grid=(2,), races=[])
    return float(y[0])


def test_what_is_released_is_seen_by_who_acquires():
    assert ran("release", "acquire") == ran("acq_rel, sys", "acquire, gpu") == 5


@pytest.mark.parametrize(
    ("give", "take"),
    [("relaxed", "acquire"), ("release", "relaxed"), ("acquire", "acquire"), ("release, cta", "acquire")],
)
def test_half_of_an_order_is_a_race(give, take):
    with pytest.raises(CheckError, match="race: "):
        ran(give, take)


def test_atomics_of_one_program_are_none_for_others():
    text = "__global__ void k(int *x) {{ atomic_add(x, 1, relaxed, {}); }}"
    x = np.zeros(1, "i4")
    launch(func_of(text.format("gpu")), [x], {}, grid=(3,), races=[])
    assert x[0] == 3
    with pytest.raises(CheckError, match="race: element 0 of x is changed here .*, and was written by program 0 at"):
        launch(func_of(text.format("cta")), [x], {}, grid=(3,), races=[])
