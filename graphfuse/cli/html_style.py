"""How the page of `graphfuse inspect --html` looks, and the script in it: one document with two places to fill."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{title}</title>
<style>
:root { --ink: #1c2126; --soft: #5c6670; --paper: #fff; --card: #f3f5f7; --line: #c3cad1; --hot: #e15759; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaed; --soft: #a3adb7; --paper: #14181c; --card: #1f252b; --line: #48525c; }
}
* { box-sizing: border-box; }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 24px; }
h1 { font-size: 22px; margin: 0 0 12px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 24px 0 8px; }
p, li { color: var(--soft); overflow-wrap: anywhere; } p { margin: 6px 0; } ul { margin: 4px 0; padding-left: 20px; }
a { color: inherit; }
.cards { display: flex; flex-wrap: wrap; gap: 8px; }
.cards div { background: var(--card); border-radius: 8px; padding: 6px 12px; overflow-wrap: anywhere; }
.cards b { display: block; font-size: 15px; } .cards span { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 14px; margin: 12px 0; }
.legend i { display: inline-block; background: currentColor; width: 12px; height: 12px; margin-right: 6px; }
.legend b { color: var(--ink); font-weight: normal; }
.tools { position: sticky; top: 0; z-index: 1; background: var(--paper); padding: 6px 0; }
.tools input, button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); }
.tools input { width: 320px; padding: 3px 8px; border-radius: 6px; } button { border-radius: 6px; margin-right: 4px; }
.k { border-bottom: 1px solid var(--card); font-variant-numeric: tabular-nums; }
.k.head, .k > summary { display: grid; gap: 0 12px; padding: 3px 0; }
.untimed { --columns: 150px 84px 66px minmax(110px, 1fr) 76px 68px 68px; }
.timed { --columns: 150px 84px 66px minmax(110px, 1fr) 72px 72px 72px 108px 62px 62px 72px; }
.traced { --columns: 150px 84px 66px minmax(110px, 1fr) 72px 72px 72px 108px 62px 62px 72px 66px; }
.k.head, .k > summary { grid-template-columns: var(--columns); }
.k > summary { color: var(--ink); } .k i { font-style: normal; } .k.head { font: 600 13px/1.35 system-ui, sans-serif; }
.k.head { position: sticky; top: 0; background: var(--paper); } .tools + .kernels > .head { top: 40px; }
.k > summary:hover, .k[open] { background: var(--card); }
.k i { overflow-wrap: anywhere; } .k b { font: 600 12px ui-monospace, monospace; }
.k i:nth-child(n+5), .k i:nth-child(3) { text-align: right; } summary i:nth-child(n+5) { white-space: nowrap; }
.k > summary i:nth-child(4) { word-break: break-all; }
.k > div { padding: 4px 16px 12px; scroll-margin-top: 90px; }
.k u { float: left; width: 48px; height: 9px; margin-top: 6px; background: var(--card); text-decoration: none; }
.k u { background: linear-gradient(var(--hot), var(--hot)) 0 / var(--w) 100% no-repeat var(--line); }
.graph { overflow: auto; max-height: 85vh; border: 1px solid var(--line); border-radius: 8px; margin: 6px 0; }
.graph svg { display: block; margin: auto; }
.graph path { fill: none; stroke: var(--line); stroke-width: 1.3; marker-end: url(#a); } .tip { fill: var(--line); }
.back { fill: var(--paper); stroke: currentColor; stroke-width: 1.5; }
.heat { fill: currentColor; fill-opacity: var(--h, .18); }
.box:hover text { text-decoration: underline; } .dim { opacity: .15; }
/* kinds */
svg text { font: 600 12px ui-monospace, monospace; text-anchor: middle; fill: var(--ink); }
svg .t { font: 10px ui-monospace, monospace; }
svg .s { font: 9px ui-monospace, monospace; fill: var(--soft); text-anchor: start; }
svg .s { stroke: var(--paper); stroke-width: 3px; paint-order: stroke; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 3px 14px 3px 0; border-bottom: 1px solid var(--card); }
td { overflow-wrap: anywhere; } .launches td:nth-child(n+4) { white-space: nowrap; text-align: right; }
pre { font: 12px/1.4 ui-monospace, monospace; overflow: auto; max-height: 70vh; padding: 10px; margin: 6px 0; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 6px; }
summary { cursor: pointer; color: var(--soft); }
</style>
</head>
<body>
<!-- shapes -->
{body}
<script>
const all = s => [...document.querySelectorAll(s)];
function add(to, name, text) { const e = document.createElement(name); e.textContent = text; to.append(e); return e; }
const tools = document.createElement("div"), first = document.querySelector(".kernels");
tools.className = "tools";
first.before(tools);
const words = add(tools, "input", ""), found = add(tools, "span", "");
words.type = "search";
words.placeholder = "search kernels, operators, shapes";
const rows = all("details.k").map(e => [e, [e.querySelector("summary"),
  ...e.querySelectorAll(":scope > div > p, :scope > div > ul")].map(x => x.textContent).join(" ").toLowerCase()]);
const boxes = all(".box").map(e => [e, e.textContent.toLowerCase()]);
const lines = all(".launches tbody tr").map(e => [e, e.textContent.toLowerCase()]);
words.oninput = () => {
  const text = words.value.trim().toLowerCase(), has = ([e, t]) => t.includes(text);
  rows.forEach(r => { r[0].hidden = !has(r); });
  lines.forEach(r => { r[0].hidden = !has(r); });
  boxes.forEach(r => r[0].classList.toggle("dim", !has(r)));
  found.textContent = text ? "  " + rows.filter(has).length + " kernels" : "";
};
function show() {
  const at = document.getElementById(location.hash.slice(1)), row = at?.closest("details");
  if (row) { row.hidden = false; row.open = true; row.scrollIntoView({ block: "center" }); }
}
addEventListener("hashchange", show);
show();
for (const graph of all(".graph")) {
  const svg = graph.querySelector("svg"), whole = [svg.width.baseVal.value, svg.height.baseVal.value];
  let scale = 1;
  function zoom(by, x, y) {
    const old = scale, at = [x ?? graph.clientWidth / 2, y ?? graph.clientHeight / 2];
    scale = Math.min(4, Math.max(.05, by));
    const middle = [graph.scrollLeft + at[0], graph.scrollTop + at[1]];
    whole.forEach((n, i) => svg.setAttribute(i ? "height" : "width", n * scale));
    graph.scrollLeft = middle[0] * scale / old - at[0];
    graph.scrollTop = middle[1] * scale / old - at[1];
  }
  const bar = document.createElement("div");
  graph.before(bar);
  add(bar, "button", "+").onclick = () => zoom(scale * 1.4);
  add(bar, "button", "-").onclick = () => zoom(scale / 1.4);
  add(bar, "button", "1:1").onclick = () => zoom(1);
  add(bar, "button", "fit").onclick = () => {
    zoom(Math.min((graph.clientWidth - 4) / whole[0], innerHeight * .85 / whole[1]));
  };
  graph.addEventListener("wheel", e => {
    if (!e.ctrlKey) { return; }
    e.preventDefault();
    const box = graph.getBoundingClientRect();
    zoom(scale * Math.exp(-e.deltaY / 300), e.clientX - box.left, e.clientY - box.top);
  }, { passive: false });
}
</script>
</body>
</html>
"""
"""The document."""
