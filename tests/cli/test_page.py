"""The page of `graphfuse inspect --html`: what is on it, and that it is small; `test_browser.py` looks at it."""

from __future__ import annotations

import re
import xml.dom.minidom
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphfuse
from graphfuse.cli import main
from graphfuse.cli.html import PAGE_BYTES
from graphfuse.cli.html_code import MOST_ASSEMBLED, assembly, edge_types
from graphfuse.cli.html_graph import layered, layers, representatives
from graphfuse.cli.html_kernels import NO_BODY, KernelRows, Made
from graphfuse.cli.html_text import Anchors, ending, short, us_text
from graphfuse.runtime import gfx
from graphfuse.runtime.report import edges, kernel_costs, launched, report
from models import bert_base
from tests.cli.traced_gpu import DIMS, PEAKS, SLOWEST, traced_bert, traced_page
from tests.runtime.sample import executable


@pytest.fixture
def artifact(tmp_path):
    path = tmp_path / "m.gfx"
    gfx.save(executable(), path)
    return path


def value(name, shape, elem=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, elem, shape)


def saved(path, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def products(tmp_path):
    """Two products and a softmax, x: f32[batch, 8]."""
    w = onnx.numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="positive"),
        helper.make_node("MatMul", ["b", "w"], ["c"], name="second"),
        helper.make_node("Softmax", ["c"], ["y"], name="weights"),
    ]
    return saved(tmp_path / "m.onnx", nodes, [value("x", ["batch", 8])], [value("y", ["batch", 8])], [w])


def page_of(model, tmp_path, *more):
    out = tmp_path / "m.html"
    assert main(["inspect", str(model), "--html", str(out), *more]) == 0
    return out.read_text()


def parsed(text):
    return xml.dom.minidom.parseString(text.removeprefix("<!DOCTYPE html>\n"))


def classed(page, tag, kind):
    return [e for e in page.getElementsByTagName(tag) if kind in e.getAttribute("class").split()]


def test_a_page_is_well_formed_and_fetches_nothing(artifact, tmp_path):
    text = page_of(artifact, tmp_path)
    page = parsed(text)
    assert len([*classed(page, "a", "box"), *classed(page, "g", "box")]) == 4 + 2 + 2
    assert len(edges(gfx.load(artifact))) == 9
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "") and "src=" not in text and "url(#a)" in text
    assert "A run takes" not in text  # an artifact is code, which is not run to be looked at
    assert "A run takes" in page_of(artifact, tmp_path, "--profile")


def test_rows_begin_with_the_slowest_and_hold_neighbours_reasons_and_code(products, tmp_path):
    text = page_of(products, tmp_path, "--dim", "batch=100")
    page = parsed(text)
    rows = classed(page, "details", "k")
    names = [r.getElementsByTagName("b")[0].firstChild.data for r in rows]
    assert sorted(names) == ["contraction_0", "contraction_1", "reduction_0"]
    times = [float(r.getElementsByTagName("i")[4].firstChild.data.split()[0]) for r in rows]
    assert times == sorted(times, reverse=True) and times[-1] > 0
    second = rows[names.index("contraction_1")].toxml()
    assert "From second." in second and "first + positive" in rows[names.index("contraction_0")].toxml()
    assert re.search(r"reads <a [^>]*>contraction_0</a> f32\[batch, 8\].*: a region of kind contraction begins", second)
    assert "graph.contract(" in second and "func @contraction_1(" in second
    assert re.search(r"contraction_1:\n +\w+ ", second.split("assembly")[1])
    assert re.search(r"is read by <a [^>]*>reduction_0</a> f32\[batch, 8\]: ", second)
    places = {d.getAttribute("id") for d in page.getElementsByTagName("div")} - {""}
    assert {a.getAttribute("href")[1:] for a in page.getElementsByTagName("a")} == places and len(places) == 3


def test_figures_of_a_gpu_are_those_of_its_profile(tmp_path, monkeypatch):
    artifact, library = traced_bert(tmp_path, monkeypatch)
    text = traced_page(artifact, tmp_path)
    launches = launched(report(gfx.load(artifact), DIMS)["steps"])
    took = {k.kernel: len(k.steps) * library.known[k.kernel]["took"] / 1e3 for k in kernel_costs(launches)}
    rows = [[i.firstChild for i in r.getElementsByTagName("i")] for r in classed(parsed(text), "details", "k")]
    assert [r[0].firstChild.data for r in rows] == sorted(took, key=lambda name: -took[name])
    assert rows[0][0].firstChild.data == SLOWEST != kernel_costs(launches)[0].kernel
    assert [r[4].data for r in rows] == [f"{took[r[0].firstChild.data]:.1f} us" for r in rows]
    assert [int(r[11].data) for r in rows] == [library.known[r[0].firstChild.data]["registers"] for r in rows]
    for kernel in kernel_costs(launches):
        row = next(r for r in rows if r[0].firstChild.data == kernel.kernel)
        moved, us = kernel.read + kernel.written, took[kernel.kernel]
        bound = sum(
            PEAKS.bound_us(r["bytes_read"] + r["bytes_written"], r["flops"])
            for r in launches
            if r["kernel"] == kernel.kernel
        )
        assert row[7].nextSibling.data == f"{100 * us / sum(took.values()):.1f} %"
        assert (row[8].data, row[9].data) == (f"{kernel.flops / us / 1e6:.1f}", f"{moved / us / 1e3:.1f}")
        assert row[10].data == us_text(bound)
    span, idle = sum(took.values()) + 0.05 * (len(launches) - 1), 0.05 * (len(launches) - 1)
    said = f"{span:.1f} us from the first to the last, {idle:.2f} us idle, 0.00 us overlapped."
    assert f"Launches were measured by CUPTI: {said}" in text
    (together,) = (r.toxml() for r in classed(parsed(text), "details", "k") if "<b>together_0</b>" in r.toxml())
    assert "From node_Cast + node_Sub + node_Mul + node_embeddings.Gather_1 + " in together
    assert re.search("is read by <a [^>]*>reduction_0</a> [^<]*: shapes differ: ", together)
    hottest = re.findall(r'<a href="#(k\d+)" class="box \w+" transform="[^"]*" style="--h:0.70">', text)
    assert set(hottest) == {"k0"}, "the slowest kernel's row"


def test_events_measure_a_gpu_without_cupti(tmp_path, monkeypatch):
    artifact, library = traced_bert(tmp_path, monkeypatch)
    library.results["cuptiActivityEnable"] = 35
    text = traced_page(artifact, tmp_path)
    assert "Launches were measured by events, each by itself: CUPTI cannot be used: the driver lets" in text
    assert "<i>registers</i>" not in text and "<i>p99</i>" in text


def test_what_goes_along_edges_is_what_regions_make(tmp_path):
    bert_base.build(tmp_path / "bert.onnx", small=True)
    model = graphfuse.compile(tmp_path / "bert.onnx", dims={"batch": (1, 8), "seq": (1, 64)})
    types = edge_types(model.executable)
    assert list(types) == edges(model.executable) and all(types.values())
    (made,) = {text for (_, end), text in types.items() if end == "output last_hidden_state"}
    assert made == "f32[batch, seq, 32]"
    assert types["input input_ids", 1] == "i64[batch, seq]"


def test_code_of_a_gpu_is_that_of_the_artifact(products):
    made = graphfuse.compile(products, target="cuda:sm_90a").executable
    kernels = [k.name for k in made.kernels]
    code = assembly(made, kernels[:1])
    assert list(code) == kernels[:1] and code[kernels[0]].startswith(f".visible .entry {kernels[0]}(")
    assert code[kernels[0]].rstrip().endswith("}") and "ld.global" in code[kernels[0]]


@pytest.mark.parametrize("count", [500, 2500])
def test_a_page_stays_small(tmp_path, count):
    """Of as many different kernels, with names as long as real ones."""
    source = executable()
    kernel, step = source.kernels[0], next(s for _, s in source.plan.walk() if s.kernel == source.kernels[0].name)
    names = [f"contraction_{i}" for i in range(count)]
    kernels = tuple(replace(kernel, name=n) for n in names)
    steps = tuple(replace(step, kernel=n, label=f"/model/layers.{i}/mlp/MatMul") for i, n in enumerate(names))
    buffers = tuple(replace(b, last=count - 1) if b.kind == "arena" else b for b in source.plan.buffers)
    plan = replace(source.plan, steps=steps, buffers=buffers)
    many = replace(source, kernels=(*source.kernels, *kernels), plan=plan)
    gfx.save(many, tmp_path / "many.gfx")
    text = page_of(tmp_path / "many.gfx", tmp_path)
    assert 0.5 * PAGE_BYTES < len(text.encode()) <= PAGE_BYTES
    assert text.count('<details class="k">') >= 500
    parsed(text)


def test_equal_layers_are_folded():
    assert layers("ab" + "xyz" * 4 + "c" + "pq" * 5) == [(2, 3, 4), (15, 2, 5)]
    assert layers("abcabd") == [] and layers("") == [] and layers("aabb") == []
    assert representatives("ab" + "xyz" * 3) == [0, 1, *[2, 3, 4] * 3]


def test_layers_are_one_box_and_all_boxes_are_a_click_away(tmp_path):
    bert_base.build(tmp_path / "bert.onnx", small=True)
    text = page_of(tmp_path / "bert.onnx", tmp_path, "--no-profile")
    graphs = text.split('<div class="graph">')[1:]
    folded, whole = (g.split("</svg>")[0].count('class="box') for g in graphs)
    assert whole - folded == 7 and "2 x 7 launches" in text and "contraction_0 × 2<" in graphs[0]


def test_kernels_are_in_the_order_of_what_all_their_launches_move():
    row = {"kind": "", "label": "n", "flops": 1, "bytes_written": 1, "bound_us": 1.0}
    steps = [
        {"step": i, "kernel": k, "bytes_read": n, **row} for i, (k, n) in enumerate([("a", 5), ("b", 3), ("b", 4)])
    ]
    b, a = kernel_costs(steps)
    assert (b.kernel, b.steps, b.bound_us, b.flops, a.kernel) == ("b", [1, 2], 2.0, 2, "a")


def test_texts_that_would_make_a_page_too_large_are_left_out():
    steps = [
        {"step": i, "kernel": f"k{i}", "kind": "pointwise", "label": f"n{i}", "grid": "1", "flops": 0,
         "bytes_read": 8 - i, "bytes_written": 0}
        for i in range(3)
    ]  # fmt: skip
    kernels, facts = kernel_costs(steps), {"steps": steps, "not_fused": []}
    rows = KernelRows(
        kernels, facts, Made(texts={f"k{i}": ("<" * 10, "", "") for i in range(3)}), Anchors(["k0", "k1", "k2"])
    )
    lines, bodies = rows.within(1 << 20)
    one = len("<details><summary>region</summary><pre></pre></details>") + len("&lt;" * 10)
    kept = ["".join(rows.markup(lines, bodies, n)).count("&lt;" * 10) for n in (0, one, 3 * one - 1, 3 * one)]
    assert kept == [0, 1, 2, 3]
    assert [len(part) for part in rows.within(len(lines[0]) + 20)] == [1, 0], "neighbours come behind rows"
    assert "And 2 more." in "".join(rows.markup(lines[:1], [], 0))


def test_rows_without_a_body_are_counted():
    """And say so."""
    steps = [
        {"step": i, "kernel": f"k{i}", "kind": "", "label": "n", "grid": "1", "flops": 0, "bytes_read": 9 - i,
         "bytes_written": 0}
        for i in range(3)
    ]  # fmt: skip
    rows = KernelRows(kernel_costs(steps), {"steps": steps, "not_fused": []}, Made(), Anchors(["k0", "k1", "k2"]))
    lines, bodies = rows.within(1 << 20)
    text = "\n".join(rows.markup(lines, bodies[:1], 0))
    assert text.count(NO_BODY) == 2 and 0 <= rows.size(lines, bodies[:1]) - len(text) < 200


def test_ir_that_cannot_be_read_has_no_types(products):
    made = graphfuse.compile(products).executable
    broken = replace(made, ir={**made.ir, "regions": made.ir["regions"].replace("} : tensor<", "} : tensor<?")})
    assert list(edge_types(broken)) == edges(made)


def test_html_escapes_names(tmp_path):
    source = executable()
    steps = (replace(source.plan.steps[0], label="<b>&</b>"), *source.plan.steps[1:])
    gfx.save(replace(source, plan=replace(source.plan, steps=steps)), tmp_path / "m.gfx")
    assert "<b>&</b>" not in page_of(tmp_path / "m.gfx", tmp_path)


def test_boxes_stand_below_what_they_read():
    layout = layered(["in", 0, 1, 2, "out"], [("in", 0), (0, 1), (0, 2), (1, 2), (2, "out"), (2, 0)])
    assert [len(level) for level in layout.levels] == [1, 1, 1, 1, 1]
    assert layout.y["in"] < layout.y[0] < layout.y[1] < layout.y[2] < layout.y["out"]


def test_texts_are_cut_by_the_columns_that_they_take():
    assert [ending(t, 4) for t in ("abcd", "abcde", "x漢字")] == ["abcd", "…cde", "…字"]
    assert [short(t, 4) for t in ("abcd", "abcde", "漢字", "漢字x", "")] == ["abcd", "abc…", "漢字", "漢…", ""]


def test_host_code_has_edges_between_its_steps(tmp_path):
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], name="exp"),
        helper.make_node("NonZero", ["e"], ["nz"], name="nonzero"),
        helper.make_node("Transpose", ["nz"], ["y"], name="turned"),
    ]
    model = saved(tmp_path / "m.onnx", nodes, [value("x", [5, 7])], [value("y", ["m", 2], TensorProto.INT64)])
    made = graphfuse.compile(model).executable
    assert edges(made) == [("input x", 0), (0, 1), (1, 2), (2, "output y")]
    text = page_of(model, tmp_path)
    assert re.search("is read by <a [^>]*>NonZero</a>: Python runs NonZero", text)
    assert MOST_ASSEMBLED and assembly(made, ["NonZero"]) == {}
