"""The page of `graphfuse inspect --html` in Chromium at 1280x800: what a reader sees, and gets to by clicks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from graphfuse.cli import main
from models import bert_base
from tests.cli.traced_gpu import SLOWEST, traced_bert, traced_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [pytest.mark.full, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

LOOK = """{
const all = (s, e) => [...(e ?? document).querySelectorAll(s)], seen = {};
const isShown = e => e.checkVisibility();
seen.first = document.querySelector("details.k b").textContent;
const row = document.querySelector("details.k");
seen.before = all("li", row).filter(isShown).length;
row.querySelector("summary").click();
seen.reasons = all("li", row).filter(isShown).map(e => e.textContent);
seen.cells = all("summary i", row).slice(0, all(".k.head i").length).map(e => e.textContent.trim());
seen.body = row.querySelector("div > p").innerText;
seen.texts = all("details > summary", row).map(e => e.textContent);
const link = row.querySelector("li a");
link?.click();
setTimeout(() => {
  const others = all("details.k[open] b").filter(e => e != row.querySelector("b"));
  seen.neighbour = link && others.some(e => e.textContent == link.textContent);
  for (const e of all("details")) { e.open = true; }
  seen.outside = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, range = document.createRange();
    if (!node.data.trim() || node.parentElement.closest("pre, script, title")) { continue; }
    range.selectNodeContents(node);
    const at = range.getBoundingClientRect();
    const to = node.parentElement.closest("g.box, a.box, svg, td, th, i, p, li, div, h1, h2, summary");
    let box = (to.querySelector("use") ?? to).getBoundingClientRect();
    if (node.parentElement.classList.contains("s")) { box = to.closest("svg").getBoundingClientRect(); }
    if (at.width && (at.right > box.right + 1 || at.left < box.left - 1 || at.bottom > box.bottom + 2)) {
      seen.outside.push(node.data);
    }
  }
  seen.wide = document.documentElement.scrollWidth - innerWidth;
  seen.fetched = performance.getEntriesByType("resource").length;
  const words = document.querySelector(".tools input");
  if (words) {
    words.value = seen.first;
    words.dispatchEvent(new Event("input"));
    seen.found = all("details.k").filter(isShown).map(e => e.querySelector("b").textContent);
    const svg = document.querySelector(".graph svg"), width = svg?.clientWidth;
    all("button")[0]?.click();
    seen.grew = svg ? svg.clientWidth / width : 0;
  }
  document.title = "seen:" + JSON.stringify(seen);
}, 200);
}"""


def looked_at(text, tmp_path):
    """What the script above sees on a page."""
    page = tmp_path / "looked_at.html"
    page.write_text(text.replace("</body>", f"<script>{LOOK}</script></body>"))
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,800", "--virtual-time-budget=2000", "--dump-dom",
        page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    shown = re.search(r"<title>seen:(.*?)</title>", done.stdout, re.DOTALL)
    assert shown, done.stdout[:500]
    unescaped = shown[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    return json.loads(unescaped)


def page_of(model, tmp_path, *more):
    out = tmp_path / "page.html"
    assert main(["inspect", str(model), "--html", str(out), *more]) == 0
    return out.read_text()


def saved(nodes, inputs, outputs, weights, path):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def value(name, shape, elem=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, elem, shape)


def layers(path, count):
    """A chain of products, each of another width, with a positive part behind it."""
    rng, nodes, weights, before, width = np.random.default_rng(0), [], [], "x", 32
    for i in range(count):
        after = 17 + int(rng.integers(0, 40))
        weights.append(onnx.numpy_helper.from_array(rng.standard_normal((width, after), np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [before, f"w{i}"], [f"a{i}"], name=f"product{i}"))
        nodes.append(helper.make_node("Relu", [f"a{i}"], [f"r{i}"], name=f"positive{i}"))
        before, width = f"r{i}", after
    return saved(nodes, [value("x", ["b", 32])], [value(before, ["b", width])], weights, path)


def bert(path):
    bert_base.build(path, small=True)
    return path


def host(path):
    """Between compiled parts Python runs what has a shape that only a run knows."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], name="/a/name/as/long/as/those/that/exporters/write/Exp"),
        helper.make_node("NonZero", ["e"], ["nz"], name="nonzero"),
        helper.make_node("Transpose", ["nz"], ["y"], name="turned"),
    ]
    return saved(nodes, [value("x", [5, 7])], [value("y", ["m", 2], TensorProto.INT64)], [], path)


def texts(path):
    nodes = [helper.make_node("StringConcat", ["a", "a"], ["b"], name="twice")]
    return saved(nodes, [value("a", ["n"], TensorProto.STRING)], [value("b", ["n"], TensorProto.STRING)], [], path)


def for_gpu(path):
    out = path.with_suffix(".gfx")
    assert main(["compile", str(bert(path)), "--target", "cuda:sm_90a", "-o", str(out)]) == 0
    return out


@pytest.mark.parametrize(
    ("make", "more"),
    [
        (bert, ("--dim", "batch=2", "--dim", "seq=64")),
        (lambda p: layers(p, 500), ()),
        (for_gpu, ()),
        (host, ()),
        (texts, ()),
    ],
    ids=["bert", "1000 nodes", "gpu", "host", "texts"],
)
def test_a_page_is_whole_and_leads_on(tmp_path, make, more):
    text = page_of(make(tmp_path / "model.onnx"), tmp_path, *more)
    assert len(text.encode()) <= 500_000
    seen = looked_at(text, tmp_path)
    assert seen["outside"] == [] and seen["wide"] <= 0 and seen["fetched"] == 0
    assert seen["first"] == re.search(r'<details class="k"><summary><i><b>([^<]*)', text)[1]
    assert seen["before"] == 0 and seen["reasons"], "a click leads to the neighbours"
    assert seen["neighbour"] in (True, None), "and another to the neighbour's own row"
    assert seen["first"] in seen["found"] and seen["grew"] > 1.3


def test_the_slowest_kernel_of_a_gpu_is_the_first_and_leads_on(tmp_path, monkeypatch):
    artifact, library = traced_bert(tmp_path, monkeypatch)
    text = traced_page(artifact, tmp_path)
    assert len(text.encode()) <= 500_000
    seen = looked_at(text, tmp_path)
    assert seen["outside"] == [] and seen["wide"] <= 0 and seen["fetched"] == 0
    took = library.known[SLOWEST]["took"]
    assert seen["cells"][:3] == [SLOWEST, "reduction", "2"] and seen["cells"][4:7] == [f"{2 * took / 1e3:.1f} us"] * 3
    assert seen["cells"][-1] == "168"
    assert "A thread takes 168 registers and 64 B of local memory, a block 3.0 KiB of shared memory." in seen["body"]
    reads, *readers = seen["reasons"]
    assert reads.startswith("reads contraction_3 f32[") and ": a reduction does not follow a contraction" in reads
    assert any(r.startswith("is read by contraction_0 ") for r in readers) and seen["neighbour"]
    assert SLOWEST in seen["found"] and seen["grew"] > 1.3


def test_a_page_needs_no_script(tmp_path):
    text = page_of(layers(tmp_path / "model.onnx", 20), tmp_path)
    seen = looked_at(re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL), tmp_path)
    assert seen["neighbour"] and seen["outside"] == [] and "found" not in seen
    assert [t for t in seen["texts"] if t in ("region", "block IR", "assembly")] == ["region", "block IR", "assembly"]
    assert any(": " in reason for reason in seen["reasons"])
