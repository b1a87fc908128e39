"""Which ops share a kernel, and what the ledger says of those that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphfuse.fusion.regions.dataflow import MOST_REPEATED_OPS
from graphfuse.fusion.regions.partition import GATHERED_BYTES, MOST_GATHERED, Partition, partition
from graphfuse.fusion.regions.rules import Rules, always_together
from graphfuse.ir.parser import parse
from graphfuse.targets.machine import Machine

ROWS = "tensor<(n)x8xf32>"


def parted(params: str, body: str, dims: str = "dims (n in 1..64)", **rules: Any) -> Partition:
    """The partition of a function given by its ops' lines."""
    lines = "\n".join(f"  {s.strip()}" for s in body.strip().splitlines())
    func = parse(f"func @main({params}) {dims} {{\n{lines}\n}}\n")
    return partition(func.body, Rules(**rules))


def shapes(part: Partition) -> list[str]:
    """Each group as `kind: op op ...`."""
    return [f"{g.kind}: {' '.join(op.kind.name.removeprefix('graph.') for op in g.ops)}" for g in part.groups]


def reasons(part: Partition) -> list[str]:
    return [d.reason for d in part.ledger if not d.fused]


EXPONENTIALS = f"""
    %m = graph.reduce(%x) {{axes = [1], keepdims = true, kind = "max"}} : tensor<(n)x1xf32>
    %b = graph.broadcast(%m) {{shape = [(n), 8]}} : {ROWS}
    %s = graph.sub(%x, %b) : {ROWS}
    %e = graph.exp(%s) : {ROWS}
    %t = graph.reduce(%e) {{axes = [1], keepdims = true, kind = "sum"}} : tensor<(n)x1xf32>"""


def test_a_softmax_is_one_reduction() -> None:
    part = parted(
        f"%x: {ROWS}",
        f"""
        {EXPONENTIALS}
        %c = graph.broadcast(%t) {{shape = [(n), 8]}} : {ROWS}
        %y = graph.div(%e, %c) : {ROWS}
        return(%y)""",
    )
    assert shapes(part) == ["reduction: reduce sub exp reduce div"]
    assert not reasons(part)


LOSS = f"""
    %j = graph.cast(%i) {{to = i64}} : tensor<(n)x1xi64>
    %p = graph.take_along(%x, %j) {{axis = 1}} : tensor<(n)x1xf32>
    {EXPONENTIALS}
    %d = graph.sub(%p, %m) : tensor<(n)x1xf32>
    %y = graph.sub(%d, %t) : tensor<(n)x1xf32>"""


def test_an_element_that_is_looked_up_for_each_row_joins_what_reduces_the_rows() -> None:
    part = parted(f"%x: {ROWS}, %i: tensor<(n)x1xi32>", LOSS + "\n    return(%y)")
    assert shapes(part) == ["reduction: cast take_along reduce sub exp reduce sub sub"]
    assert not reasons(part)


def test_each_pass_over_a_row_would_repeat_what_is_looked_up_along_it() -> None:
    part = parted(
        f"%x: {ROWS}, %i: tensor<(n)x8xi64>",
        f"""
        %m = graph.reduce(%x) {{axes = [1], keepdims = true, kind = "max"}} : tensor<(n)x1xf32>
        %b = graph.broadcast(%m) {{shape = [(n), 8]}} : {ROWS}
        %s = graph.sub(%x, %b) : {ROWS}
        %p = graph.take_along(%x, %i) {{axis = 1}} : {ROWS}
        %y = graph.add(%s, %p) : {ROWS}
        return(%y)""",
    )
    assert shapes(part) == ["reduction: reduce", "pointwise: sub take_along add"]
    assert "each pass over the row would repeat a gather" in reasons(part)


def test_what_a_row_is_reduced_to_is_looked_up_behind_it() -> None:
    part = parted(
        f"%x: {ROWS}, %i: tensor<(n)x1xi64>",
        """
        %m = graph.reduce(%x) {axes = [1], keepdims = true, kind = "max"} : tensor<(n)x1xf32>
        %y = graph.take_along(%m, %i) {axis = 0} : tensor<(n)x1xf32>
        return(%y)""",
    )
    assert shapes(part) == ["reduction: reduce", "pointwise: take_along"]
    assert reasons(part) == ["it reads the region's results at other places"]


def test_an_epilogue_joins_its_product() -> None:
    part = parted(
        f"%x: {ROWS}, %w: tensor<8x8xf32>, %r: {ROWS}",
        f"""
        %m = graph.contract(%x, %w) {{spec = "mk,kn->mn"}} : {ROWS}
        %a = graph.add(%m, %r) : {ROWS}
        %y = graph.tanh(%a) : {ROWS}
        return(%y)""",
    )
    assert shapes(part) == ["contraction: contract add tanh"]
    assert [d.saved_bytes for d in part.ledger if d.fused] == ["64*n", "64*n"]


def test_a_product_does_not_recompute_its_operand() -> None:
    part = parted(
        f"%x: {ROWS}, %w: tensor<8x8xf32>",
        f"""
        %e = graph.exp(%x) : {ROWS}
        %m = graph.contract(%e, %w) {{spec = "mk,kn->mn"}} : {ROWS}
        return(%m)""",
    )
    assert shapes(part) == ["pointwise: exp", "contraction: contract"]


@pytest.mark.parametrize(("middle", "shape", "reason"), [
    ("permute(%e) {perm = [1, 0]}", "tensor<8x8xf32>", "graph.permute lies between"),
    ("flip(%e) {axes = [0]}", "tensor<8x8xf32>", "graph.flip lies between"),
    (
        "slice(%e) {sizes = [4, 8], starts = [0, 0], steps = [1, 1]}", "tensor<4x8xf32>",
        "shapes differ: [4, 8] against [8, 8]",
    ),
])  # fmt: skip
def test_what_moves_elements_cuts(middle: str, shape: str, reason: str) -> None:
    part = parted(
        "%x: tensor<8x8xf32>",
        f"""
        %c = graph.cumulate(%x) {{axis = 1, kind = "sum"}} : tensor<8x8xf32>
        %m = graph.contract(%c, %x) {{spec = "mk,kn->mn"}} : tensor<8x8xf32>
        %e = graph.exp(%m) : tensor<8x8xf32>
        %v = graph.{middle} : {shape}
        %y = graph.neg(%v) : {shape}
        return(%y)""",
        "",
    )
    assert reason in reasons(part)


def test_a_reshape_does_not_cut() -> None:
    part = parted(
        f"%x: {ROWS}",
        f"""
        %e = graph.exp(%x) : {ROWS}
        %r = graph.reshape(%e) {{shape = [(8*n)]}} : tensor<(8*n)xf32>
        %y = graph.neg(%r) : tensor<(8*n)xf32>
        return(%y)""",
    )
    assert shapes(part) == ["pointwise: exp neg"]


def test_a_row_value_returns_along_its_row_only() -> None:
    body = """
        %s = graph.reduce(%x) {{axes = [1], kind = "sum"}} : tensor<8xf32>
        %r = graph.reshape(%s) {{shape = {shape}}} : tensor<{dims}xf32>
        %b = graph.broadcast(%r) {{shape = [8, 8]}} : tensor<8x8xf32>
        %y = graph.sub(%x, %b) : tensor<8x8xf32>
        return(%y)"""
    along = parted("%x: tensor<8x8xf32>", body.format(shape="[8, 1]", dims="8x1"), "")
    across = parted("%x: tensor<8x8xf32>", body.format(shape="[1, 8]", dims="1x8"), "")
    assert shapes(along) == ["reduction: reduce sub"]
    assert shapes(across) == ["reduction: reduce", "pointwise: sub"]
    assert reasons(across) == ["a row value is broadcast along other dims than the row"]


NORMALISED = """
    %q = graph.reduce(%x) {axes = [1], keepdims = true, kind = "sum"} : tensor<8x1xf32>
    %r = graph.broadcast(%q) {shape = [8, 8]} : tensor<8x8xf32>
    %g = graph.broadcast(%b) {shape = [8, 8]} : tensor<8x8xf32>
    %o = graph.mul(%r, %g) : tensor<8x8xf32>
    %s = graph.neg(%o) : tensor<8x8xf32>
    %m = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<8x8xf32>
    %y = graph.add(%m, %s) : tensor<8x8xf32>"""


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        # as wide as the rows by chance: what is made of vectors is made where it is read
        (("", ""), ["reduction: reduce", "contraction: mul neg contract add"]),
        (("%m, %s", "%x, %s"), ["reduction: mul neg reduce add", "contraction: contract"]),
        # written in any case, it need not be read
        (("return(%y)", "return(%y, %s)"), ["reduction: reduce", "contraction: mul neg contract add"]),
        # so it is where a matrix is read again, which is less than to write and read what is made of it
        (("mul(%r, %g)", "mul(%r, %x)"), ["reduction: reduce", "contraction: mul neg contract add"]),
    ],
)
def test_products_of_vectors_leave_the_kernel_of_their_rows(change: tuple[str, str], wanted: list[str]) -> None:
    text = f"{NORMALISED}\n    return(%y)".replace(*change)
    part = parted("%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>", text)
    assert sorted(" ".join(sorted(s.split())) for s in shapes(part)) == sorted(
        " ".join(sorted(s.split())) for s in wanted
    )


def test_other_rows_cut() -> None:
    part = parted(
        "%x: tensor<4x8x8xf32>",
        """
        %m = graph.reduce(%x) {axes = [2], keepdims = true, kind = "max"} : tensor<4x8x1xf32>
        %b = graph.broadcast(%m) {shape = [4, 8, 8]} : tensor<4x8x8xf32>
        %s = graph.sub(%x, %b) : tensor<4x8x8xf32>
        %t = graph.reduce(%s) {axes = [1, 2], kind = "sum"} : tensor<4xf32>
        return(%t)""",
        "",
    )
    assert shapes(part) == ["reduction: reduce", "reduction: sub reduce"]  # nothing is as large as what is subtracted
    assert "rows are along dims [1, 2], the region's along [2]" in reasons(part)


def test_work_whose_elements_depend_on_each_other_takes_no_epilogue() -> None:
    part = parted(
        "%x: tensor<8xf32>",
        """
        %c = graph.cumulate(%x) {axis = 0, kind = "sum"} : tensor<8xf32>
        %y = graph.neg(%c) : tensor<8xf32>
        return(%y)""",
        "",
    )
    assert "a scan region takes no epilogue" in reasons(part)


@pytest.mark.parametrize(
    ("more", "wanted"), [("", ["scan: exp cumulate"]), ("%e, ", ["pointwise: exp", "scan: cumulate"])]
)
def test_scans_begin_with_work_that_they_alone_read(more: str, wanted: list[str]) -> None:
    part = parted(
        "%x: tensor<8xf32>",
        f"""
        %e = graph.exp(%x) : tensor<8xf32>
        %c = graph.cumulate(%e) {{axis = 0, kind = "sum"}} : tensor<8xf32>
        return({more}%c)""",
        "",
    )
    assert shapes(part) == wanted


def test_a_way_out_and_back_is_not_closed() -> None:
    """Joining would make the region wait for the scan, and the scan for the region."""
    part = parted(
        "%x: tensor<8x8xf32>",
        """
        %m = graph.contract(%x, %x) {spec = "mk,kn->mn"} : tensor<8x8xf32>
        %c = graph.cumulate(%m) {axis = 0, kind = "sum"} : tensor<8x8xf32>
        %y = graph.mul(%c, %m) : tensor<8x8xf32>
        return(%y)""",
        "",
    )
    assert "contraction: contract" in shapes(part)
    assert any(r.startswith("another operand depends on the region through scan") for r in reasons(part))


ATTENTION = """
    %s = graph.contract(%q, %k) {spec = "bqd,bkd->bqk"} : tensor<2x8x8xf32>
    %m = graph.reduce(%s) {axes = [2], keepdims = true, kind = "max"} : tensor<2x8x1xf32>
    %b = graph.broadcast(%m) {shape = [2, 8, 8]} : tensor<2x8x8xf32>
    %c = graph.sub(%s, %b) : tensor<2x8x8xf32>
    %e = graph.exp(%c) : tensor<2x8x8xf32>
    %t = graph.reduce(%e) {axes = [2], keepdims = true, kind = "sum"} : tensor<2x8x1xf32>
    %u = graph.broadcast(%t) {shape = [2, 8, 8]} : tensor<2x8x8xf32>
    %p = graph.div(%e, %u) : tensor<2x8x8xf32>
    %o = graph.contract(%p, %v) {spec = "bqk,bkd->bqd"} : tensor<2x8x4xf32>
    return(%o)"""
QKV = "%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>"


def test_attention_is_one_region() -> None:
    assert shapes(parted(QKV, ATTENTION, "")) == ["attention: contract reduce sub exp reduce div contract"]


@pytest.mark.parametrize(("old", "new"), [
    ("return(%o)", "return(%o, %p)"),  # the probabilities are read elsewhere
    ("bqk,bkd->bqd", "bkq,bkd->bqd"),  # the second product sums the queries
    ('kind = "sum"', 'kind = "prod"'),  # no softmax
    ("%o = graph.contract(%p, %v)", "%o = graph.contract(%s, %v)"),  # the scores themselves
    ("bqd,bkd->bqk", "bqd,bqd->bqk"),  # not a product of queries and keys
])  # fmt: skip
def test_what_is_not_attention(old: str, new: str) -> None:
    body = ATTENTION.replace(old, new)
    if new == "bqd,bqd->bqk":
        body = ATTENTION.replace(old, "bqd,bkd->bkq")  # keys and queries exchanged: rows run over keys
        body = body.replace("bqk,bkd->bqd", "bqk,bqd->bkd")
    assert not any(s.startswith("attention") for s in shapes(parted(QKV, body, "")))


def test_attention_per_head_without_queries_is_three_regions() -> None:
    """One query per head has nothing to share a tile of keys with."""
    body = ATTENTION.replace("bqd,bkd->bqk", "bqd,bqkd->bqk").replace("bqk,bkd->bqd", "bqk,bqkd->bqd")
    params = "%q: tensor<2x8x4xf32>, %k: tensor<2x8x8x4xf32>, %v: tensor<2x8x8x4xf32>"
    assert [s.split(":")[0] for s in shapes(parted(params, body, ""))] == ["contraction", "reduction", "contraction"]


GATE = f"""
    %a = graph.contract(%x, %w) {{spec = "mk,kn->mn"}} : {ROWS}
    %b = graph.contract(%x, %v) {{spec = "mk,kn->mn"}} : {ROWS}
    %s = graph.sigmoid(%a) : {ROWS}
    %y = graph.mul(%s, %b) : {ROWS}"""
OPERANDS = f"%x: {ROWS}, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>"


def at_once(params: str, body: str) -> Partition:
    """The partition for a target that makes any products at once."""
    func = parse(f"func @main({params}) dims (n in 1..64) {{\n{body}\n}}\n")
    return partition(func.body, Rules(saved_together=always_together))


def test_products_that_meet_are_one_kernel_where_there_is_a_schedule() -> None:
    assert shapes(at_once(OPERANDS, GATE + "\nreturn(%y)")) == ["contraction: contract contract sigmoid mul"]
    part = parted(OPERANDS, GATE + "\nreturn(%y)")
    assert shapes(part) == ["contraction: contract sigmoid", "contraction: contract mul"]
    assert reasons(part) == ["no schedule for 2 products"]


@pytest.mark.parametrize(("change", "reason"), [
    (("return(%y)", "return(%y, %s)"), "its results are read elsewhere"),
    (("%b = graph.contract(%x, %v) {spec = \"mk,kn->mn\"}", "%b = graph.contract(%x, %v) {spec = \"mk,nk->mn\"}"),
     "the products are of different forms"),
])  # fmt: skip
def test_products_that_stay_apart(change: tuple[str, str], reason: str) -> None:
    part = at_once(OPERANDS, (GATE + "\nreturn(%y)").replace(*change))
    assert [g.kind for g in part.groups] == ["contraction", "contraction"]
    assert reasons(part) == [reason]


def test_products_of_different_operands_are_no_candidates() -> None:
    part = at_once(OPERANDS + f", %z: {ROWS}", (GATE + "\nreturn(%y)").replace("contract(%x, %v)", "contract(%z, %v)"))
    assert len(part.groups) == 2
    assert not reasons(part)


def test_products_that_do_not_wait_for_each_other_may_be_one_kernel_too() -> None:
    body = GATE.replace("%s = graph.sigmoid(%a)", "%s = graph.sigmoid(%x)").replace("mul(%s, %b)", "sub(%x, %b)")
    part = at_once(OPERANDS, body + "\nreturn(%a, %y, %s)")
    assert shapes(part) == ["contraction: contract contract sub", "pointwise: sigmoid"]
    assert shapes(parted(OPERANDS, body + "\nreturn(%a, %y, %s)")) == [
        "contraction: contract", "contraction: contract sub", "pointwise: sigmoid",
    ]  # fmt: skip


def test_a_product_that_waits_for_another_has_a_kernel_of_its_own() -> None:
    body = GATE.replace("contract(%x, %v)", "contract(%x, %u)").replace(
        "%b =", "%r = graph.reduce(%a) {axes = [0], keepdims = true, kind = \"max\"} : tensor<1x8xf32>\n"
        "%u = graph.broadcast(%r) {shape = [8, 8]} : tensor<8x8xf32>\n%b =")  # fmt: skip
    part = at_once(OPERANDS, body + "\nreturn(%y)")
    assert [g.kind for g in part.groups] == ["contraction", "reduction", "contraction"]


SCALED = """
    %v = graph.cast(%g) {to = f32} : tensor<8xf32>
    %s = graph.sqrt(%v) : tensor<8xf32>
    %b = graph.broadcast(%s) {shape = [(n), 8]} : tensor<(n)x8xf32>
    %m = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<(n)x8xf32>
    %y = graph.mul(%m, %b) : tensor<(n)x8xf32>"""
GIVEN = f"%x: {ROWS}, %w: tensor<8x8xf32>, %g: tensor<8xf16>"


@pytest.mark.parametrize(
    ("most", "returned", "wanted"),
    [
        (0, "%y", ["pointwise: cast sqrt", "contraction: contract mul"]),
        (7, "%y", ["pointwise: cast sqrt", "contraction: contract mul"]),
        (8, "%y", ["contraction: contract mul"]),
        # what is returned has to be written
        (8, "%y, %s", ["contraction: contract mul", "pointwise: sqrt"]),
    ],
)
def test_arithmetic_on_short_rows_is_done_again_by_its_readers(most: int, returned: str, wanted: list[str]) -> None:
    assert sorted(shapes(parted(GIVEN, f"{SCALED}\n    return({returned})", most_repeated=most))) == sorted(wanted)


def test_rows_that_are_operands_of_products_are_computed_once() -> None:
    body = """
        %v = graph.cast(%g) {to = f32} : tensor<8xf32>
        %y = graph.contract(%x, %v) {spec = "mk,k->m"} : tensor<(n)xf32>
        return(%y)"""
    assert shapes(parted(GIVEN, body, most_repeated=8)) == ["pointwise: cast", "contraction: contract"]


def test_long_chains_on_rows_are_kernels() -> None:
    chain = "\n".join(f"%v{i + 1} = graph.neg(%v{i}) : tensor<8xf32>" for i in range(20))
    body = f"""
        {chain.replace("%v0", "%g")}
        %b = graph.broadcast(%v20) {{shape = [(n), 8]}} : {ROWS}
        %y = graph.mul(%x, %b) : {ROWS}
        return(%y)"""
    part = parted(f"%x: {ROWS}, %g: tensor<8xf32>", body, most_repeated=8)
    assert [len(g.ops) for g in part.groups] == [20 - MOST_REPEATED_OPS, 1]


# what is saved decides


def test_a_square_is_computed_where_it_is_summed() -> None:
    """Not behind the product, which would write it beside its result."""
    part = parted(
        "%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %r: tensor<8x8xf32>",
        """
        %m = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<8x8xf32>
        %s = graph.add(%m, %r) : tensor<8x8xf32>
        %q = graph.mul(%s, %s) : tensor<8x8xf32>
        %t = graph.reduce(%q) {axes = [1], keepdims = true, kind = "sum"} : tensor<8x1xf32>
        %b = graph.broadcast(%t) {shape = [8, 8]} : tensor<8x8xf32>
        %y = graph.mul(%s, %b) : tensor<8x8xf32>
        return(%y, %s)""",
        "",
    )
    assert shapes(part) == ["contraction: contract add", "reduction: mul reduce mul"]


@pytest.mark.parametrize("last", ["%c", "%d"])
def test_an_op_joins_the_kernel_whose_result_is_larger(last: str) -> None:
    """Four bytes an element, not the one of a condition, whichever comes last."""
    products = [f'{v} = graph.contract(%x, %w) {{spec = "{spec}"}} : tensor<8x8xf32>' for v, spec in
                (("%c", "mk,kn->mn"), ("%d", "mk,nk->mn"))]  # fmt: skip
    lines = sorted(products, key=lambda line: line.startswith(last))
    part = parted(
        "%x: tensor<8x8xf32>, %w: tensor<8x8xf32>",
        "\n".join(lines)
        + """
        %l = graph.lt(%d, %x) : tensor<8x8xbool>
        %s = graph.select(%l, %c, %x) : tensor<8x8xf32>
        return(%s)""",
        "",
    )
    assert shapes(part) == ["contraction: contract lt", "contraction: contract select"]


@pytest.mark.parametrize(
    ("rows", "before", "wanted"),
    [
        (64, "exp", ["pointwise: exp concat"]),
        (1 << 20, "exp", ["pointwise: exp concat"]),
        (64, "contract", ["contraction: contract", "stack: concat"]),  # it writes its part
    ],
)
def test_elementwise_work_is_joined_by_one_kernel(rows: int, before: str, wanted: list[str]) -> None:
    how = {"exp": "exp(%x)", "contract": 'contract(%x, %w) {spec = "mk,kn->mn"}'}[before]
    part = parted(
        f"%x: tensor<{rows}x8xf32>, %w: tensor<8x8xf32>",
        f"""
        %e = graph.{how} : tensor<{rows}x8xf32>
        %c = graph.concat(%e, %x) {{axis = 0}} : tensor<{2 * rows}x8xf32>
        return(%c)""",
        "",
        joins_at_once=True,
    )
    assert shapes(part) == wanted


LONG = """
    %s = graph.add(%a, %b) : tensor<2x{n}xf32>
    %t = graph.add(%s, %c) : tensor<2x{n}xf32>
    %m = graph.reduce(%t) {{axes = [1], keepdims = true, kind = "max"}} : tensor<2x1xf32>
    %v = graph.broadcast(%m) {{shape = [2, {n}]}} : tensor<2x{n}xf32>
    %d = graph.sub(%t, %v) : tensor<2x{n}xf32>
    %e = graph.exp(%d) : tensor<2x{n}xf32>
    %r = graph.reduce(%e) {{axes = [1], keepdims = true, kind = "sum"}} : tensor<2x1xf32>
    %w = graph.broadcast(%r) {{shape = [2, {n}]}} : tensor<2x{n}xf32>
    %y = graph.div(%e, %w) : tensor<2x{n}xf32>
    return(%y)"""


@pytest.mark.parametrize(
    ("n", "wanted"),
    [
        (1 << 10, ["reduction: add add reduce sub exp reduce div"]),
        # rows that no cache holds: a pass over the sum reads less than one over what it is made of
        (1 << 22, ["pointwise: add add", "reduction: reduce sub exp reduce div"]),
    ],
)
def test_long_rows_are_made_once(n: int, wanted: list[str]) -> None:
    matrix = f"tensor<2x{n}xf32>"
    part = parted(f"%a: {matrix}, %b: {matrix}, %c: {matrix}", LONG.format(n=n), "")
    assert shapes(part) == wanted
    cuts = [r for r in reasons(part) if r.startswith("one kernel would take")]
    assert len(cuts) == len(wanted) - 1


def test_moments_of_one_tensor_are_one_kernel() -> None:
    """Neither reads the other; what reads both brings them together."""
    part = parted(
        "%x: tensor<8x8xf32>",
        """
        %a = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<8xf32>
        %q = graph.mul(%x, %x) : tensor<8x8xf32>
        %b = graph.reduce(%q) {axes = [1], kind = "sum"} : tensor<8xf32>
        %y = graph.sub(%b, %a) : tensor<8xf32>
        return(%y)""",
        "",
    )
    assert shapes(part) == ["reduction: reduce mul reduce sub"]


def test_the_ledger_has_what_is_saved() -> None:
    part = parted(
        "%x: tensor<8x8xf32>",
        "%e = graph.exp(%x) : tensor<8x8xf32>\n%y = graph.neg(%e) : tensor<8x8xf32>\nreturn(%y)",
        "",
    )
    costs = Machine().kernels
    assert [d.saved_ns for d in part.ledger] == [costs.launch + 2 * 256 * costs.byte]


LOOK_UPS = """
    %a = graph.take(%x, %i) {axis = 0} : tensor<6x4xf32>
    %e = graph.exp(%a) : tensor<6x4xf32>
    %b = graph.take(%x, %j) {axis = 0} : tensor<6x4xf32>
    %m = graph.mul(%b, %b) : tensor<6x4xf32>
    %s = graph.add(%e, %m) : tensor<6x4xf32>"""
TABLES = "%x: tensor<9x4xf32>, %i: tensor<6xi64>, %j: tensor<6xi64>"


def test_look_ups_over_one_domain_are_one_kernel() -> None:
    assert shapes(parted(TABLES, LOOK_UPS + "\nreturn(%s)", "")) == ["pointwise: take exp take mul add"]


def test_what_is_looked_up_in_is_written_before() -> None:
    body = (
        LOOK_UPS
        + "\n%t = graph.take(%s, %i) {axis = 0} : tensor<6x4xf32>\n%n = graph.neg(%t) : tensor<6x4xf32>\nreturn(%n)"
    )
    part = parted(TABLES, body, "")
    assert shapes(part) == ["pointwise: take exp take mul add", "pointwise: take neg"]


def test_work_that_is_read_in_another_order_once_is_no_kernel_of_its_own() -> None:
    body = """
        %e = graph.exp(%x) : tensor<4x6xf32>
        %p = graph.permute(%e) {perm = [1, 0]} : tensor<6x4xf32>
        %s = graph.add(%p, %y) : tensor<6x4xf32>"""
    given = "%x: tensor<4x6xf32>, %y: tensor<6x4xf32>"
    assert shapes(parted(given, body + "\nreturn(%s)", "")) == ["pointwise: exp add"]
    assert shapes(parted(given, body + "\nreturn(%s, %e)", "")) == ["pointwise: exp", "pointwise: add"]


@pytest.mark.parametrize(
    ("rows", "row", "order", "computes", "wanted"),
    [
        ("6", "", "", True, ["scatter: neg tanh scatter_nd"]),
        ("6", "", "", False, ["pointwise: neg", "scatter: tanh scatter_nd"]),
        ("6", "", ", ordered = true", True, ["pointwise: neg", "scatter: tanh scatter_nd"]),
        # an index is for all of a row
        ("6x8", "x8", "", True, ["pointwise: neg", "scatter: tanh scatter_nd"]),
    ],
)
def test_indices_that_are_read_once_are_computed_by_their_scatter(
    rows: str, row: str, order: str, computes: bool, wanted: list[str]
) -> None:
    body = f"""
        %j = graph.neg(%i) : tensor<6x1xi64>
        %v = graph.tanh(%u) : tensor<{rows}xf32>
        %y = graph.scatter_nd(%x, %j, %v) {{kind = "add"{order}}} : tensor<9{row}xf32>
        return(%y)"""
    given = f"%x: tensor<9{row}xf32>, %i: tensor<6x1xi64>, %u: tensor<{rows}xf32>"
    assert sorted(shapes(parted(given, body, dims="", computes_places=computes))) == wanted


@pytest.mark.parametrize(
    ("whole", "wanted"),
    [
        ("", ["pointwise: cast", "pointwise: cast", "scatter: cast scatter_along"]),
        (", whole = true", ["scatter: cast cast scatter_along cast"]),
    ],
)
def test_a_scatter_that_makes_all_of_its_result_takes_what_is_before_and_behind(whole: str, wanted: list[str]) -> None:
    body = f"""
        %w = graph.cast(%x) {{to = f32}} : tensor<9x8xf32>
        %v = graph.cast(%u) {{to = f32}} : tensor<6x8xf32>
        %s = graph.scatter_along(%w, %i, %v) {{axis = 0, kind = "add"{whole}}} : tensor<9x8xf32>
        %y = graph.cast(%s) {{to = f16}} : tensor<9x8xf16>
        return(%y)"""
    given = "%x: tensor<9x8xf16>, %i: tensor<6x8xi64>, %u: tensor<6x8xf16>"
    assert sorted(shapes(parted(given, body, dims=""))) == wanted


def test_other_work_than_elements_does_not_follow_a_whole_scatter() -> None:
    given = "%x: tensor<9x8xf32>, %i: tensor<6x8xi64>, %u: tensor<6x8xf32>"
    scatter = '%s = graph.scatter_along(%x, %i, %u) {axis = 0, kind = "add", whole = true} : tensor<9x8xf32>'
    for line, reason in (
        ('%y = graph.reduce(%s) {axes = [1], kind = "sum"} : tensor<9xf32>', "only elementwise work follows a scatter"),
        ("%r = graph.reshape(%s) {shape = [72]} : tensor<72xf32>\n%y = graph.exp(%r) : tensor<72xf32>",
         "shapes differ: [72] against [9, 8]"),
        ("%r = graph.flip(%s) {axes = [1]} : tensor<9x8xf32>\n%y = graph.exp(%r) : tensor<9x8xf32>",
         "graph.flip lies between"),
    ):  # fmt: skip
        part = parted(given, f"{scatter}\n{line}\nreturn(%y)", dims="")
        assert reason in reasons(part), part.ledger


def sums(rows: int, **rules: int) -> list[str]:
    """Groups of two sums of different tensors, and of what turns a third around."""
    wide = f"tensor<{rows}x64xf32>"
    part = parted(
        f"%x: {wide}, %y: {wide}, %z: tensor<64xf32>",
        """
        %a = graph.reduce(%x) {axes = [0], keepdims = false, kind = "sum"} : tensor<64xf32>
        %b = graph.reduce(%y) {axes = [0], keepdims = false, kind = "sum"} : tensor<64xf32>
        %c = graph.exp(%z) : tensor<64xf32>
        %d = graph.flip(%c) {axes = [0]} : tensor<64xf32>
        return(%a, %b, %d)""",
        "",
        **rules,
    )
    return shapes(part)


def test_short_kernels_over_one_domain_are_one() -> None:
    assert sums(8, gathers=True) == ["reduction: reduce reduce", "pointwise: exp"]
    apart = ["reduction: reduce", "reduction: reduce", "pointwise: exp"]
    assert sums(8) == apart
    assert sums(1 << 20, gathers=True) == apart


def test_a_kernel_has_few_sums_that_have_nothing_in_common() -> None:
    """Each holds registers, and what it reads stays until the last can begin."""
    given = ", ".join(f"%x{i}: tensor<8x64xf32>" for i in range(19))
    body = "".join(
        f'%a{i} = graph.reduce(%x{i}) {{axes = [0], keepdims = false, kind = "sum"}} : tensor<64xf32>\n'
        for i in range(19)
    )
    part = parted(given, f"{body}return({', '.join(f'%a{i}' for i in range(19))})", "", gathers=True)
    assert max(len(g.ops) for g in part.groups) == MOST_GATHERED
    assert len(part.groups) == 3


def roots(products: int, columns: int) -> list[str]:
    """Groups of four roots; so many are read by a product each, the others are returned."""
    wide = f"tensor<{columns}x8xf32>"
    given = [f"%x{i}: {wide}, %w{i}: {wide}" for i in range(4)]
    body = [f"%a{i} = graph.sqrt(%x{i}) : {wide}" for i in range(4)]
    body += [f'%m{i} = graph.contract(%a{i}, %w{i}) {{spec = "km,kn->mn"}} : tensor<8x8xf32>' for i in range(products)]
    body.append(f"return({', '.join(f'%m{i}' if i < products else f'%a{i}' for i in range(4))})")
    part = parted(", ".join(given), "\n".join(body), "", gathers=True, costs=replace(Rules().costs, byte=1e-6))
    return [s for s in shapes(part) if s.startswith("pointwise")]


def test_one_kernel_has_few_large_results_that_are_read_later() -> None:
    """Each is kept until the last is read; what is returned is kept anyway."""
    assert roots(4, 8) == ["pointwise: sqrt sqrt sqrt sqrt"]
    large = GATHERED_BYTES // (8 * 4) // 2
    assert roots(0, large) == ["pointwise: sqrt sqrt sqrt sqrt"]
    assert roots(4, large) == ["pointwise: sqrt sqrt", "pointwise: sqrt sqrt"]


def test_kernels_that_wait_for_others_stay_apart() -> None:
    part = parted(
        "%x: tensor<8x64xf32>, %y: tensor<64x8xf32>",
        """
        %a = graph.reduce(%x) {axes = [0], keepdims = false, kind = "sum"} : tensor<64xf32>
        %r = graph.reshape(%a) {shape = [1, 64]} : tensor<1x64xf32>
        %m = graph.contract(%r, %y) {spec = "mk,kn->mn"} : tensor<1x8xf32>
        %w = graph.reshape(%m) {shape = [8, 1]} : tensor<8x1xf32>
        %b = graph.broadcast(%w) {shape = [8, 64]} : tensor<8x64xf32>
        %c = graph.reduce(%b) {axes = [0], keepdims = false, kind = "sum"} : tensor<64xf32>
        return(%c)""",
        "",
        gathers=True,
    )
    assert [g.kind for g in part.groups] == ["reduction", "contraction", "reduction"]


MASKED = f"""
    %t0 = graph.permute(%k) {{perm = [1, 0]}} : tensor<(n)x8xbool>
    %z = graph.full() {{elem = f32, shape = [(n), 8], value = -1e30}} : {ROWS}
    %x = graph.select(%t0, %y, %z) : {ROWS}"""


@pytest.mark.parametrize(
    ("rest", "rules", "kernels"),
    [
        (f"{EXPONENTIALS}\nreturn(%e, %t)", {}, ["pointwise: permute", "reduction: select reduce sub exp reduce"]),
        (f"{EXPONENTIALS}\nreturn(%e, %t)", {"reads_padded": True}, ["reduction: select reduce sub exp reduce"]),
        (
            '%s = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<(n)xf32>\nreturn(%s)',
            {},
            ["reduction: select reduce"],
        ),
    ],
    ids=["rows", "gpu", "sum"],
)
def test_a_cpu_writes_down_what_is_turned_before_it_walks_the_rows_more_than_once(
    rest: str, rules: dict[str, Any], kernels: list[str]
) -> None:
    part = parted(f"%y: {ROWS}, %k: tensor<8x(n)xbool>", MASKED + "\n" + rest, **rules)
    assert shapes(part) == kernels
