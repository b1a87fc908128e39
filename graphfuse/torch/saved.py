"""A compiled graph as torch's caches keep it: AOTAutogradCache, and `aot_compile`.

It pickles as the graph that runs, without what torch knew of its nodes, with the executables of its parts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._inductor.output_code import OutputCode
from torch._subclasses import FakeTensorMode
from torch.fx._graph_pickler import GraphPickler, Options
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.graph import _BoxedCodeGen
from torch.fx.graph_module import GraphModule

from graphfuse.torch.check import Promises, checked
from graphfuse.torch.compiled_part import CompiledPart
from graphfuse.torch.cuda_graphs import Boxed, Recording, recorded, telling
from graphfuse.torch.kept import AsKept

_aten = torch.ops.aten
QUICK: dict[Any, Any] = {
    _aten.view.default: torch.Tensor.view,
    _aten.permute.default: torch.Tensor.permute,
    _aten.transpose.int: torch.Tensor.transpose,
    _aten.unsqueeze.default: torch.Tensor.unsqueeze,
    _aten.expand.default: torch.Tensor.expand,
    _aten.select.int: torch.Tensor.select,
    _aten.as_strided.default: torch.Tensor.as_strided,
    _aten.copy_.default: torch.Tensor.copy_,
}
"""What parses arguments in half the time of an operator."""


@dataclasses.dataclass
class SavedGraph(OutputCode):
    """A boxed callable that can be pickled."""

    module: GraphModule | None = dataclasses.field(default=None, repr=False)
    """The graph that runs."""
    payload: bytes = dataclasses.field(default=b"", repr=False)
    """The graph as bytes, in its place, where this is kept."""
    promises: Promises | None = None
    """What outputs are compared with, if they are."""
    recording: Recording | None = None
    """How it is recorded as a CUDA graph, if it is as a whole."""
    stretches: Mapping[str, Recording] = dataclasses.field(default_factory=dict[str, Recording])
    """How submodules are, if it is not."""
    begins_backward: int | None = None
    """The GPU whose recordings must be told that a backward runs which is none itself."""
    inputs: int = 0
    fn: Any = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._boxed_call = True

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run. The list is cleared."""
        return self.fn(inputs)

    def prepare_for_serialization(self) -> None:
        """Make the graph bytes, and drop what does not pickle. torch calls this on a copy, if it keeps the graph."""
        if self.module is not None:
            self.payload = GraphPickler.dumps(self.module, Options(ops_filter=None))
        self.fn = self.module = None

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is no Triton here."""

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Load after a hit in the cache."""
        if self.fn is None:
            mode = detect_fake_mode(example_inputs) or FakeTensorMode(shape_env=ShapeEnv())
            module = GraphPickler.loads(self.payload, mode)
            assert isinstance(module, GraphModule)
            self.load(module)
            self.payload = b""

    def load(self, module: GraphModule) -> None:
        """Be what runs a module."""
        self.module, run = module, boxed(module, self.stretches)
        if self.recording is not None:
            run = recorded(run, self.recording, self.inputs)
        elif self.begins_backward is not None:
            run = telling(run, self.begins_backward)
        self.fn = run if self.promises is None else checked(self.promises, run)


def saved(module: GraphModule, **how: Any) -> SavedGraph:
    """What runs a rewritten graph, boxed; `how` are fields of `SavedGraph`. Nodes lose their metadata."""
    for node in module.graph.nodes:
        node.meta.clear()
    inputs = sum(n.op == "placeholder" for n in module.graph.nodes)
    made = SavedGraph(inputs=inputs, **how)
    made.load(module)
    return made


def boxed(module: GraphModule, stretches: Mapping[str, Recording] | None = None) -> Any:
    """The function of a module that takes its arguments as one list, which it clears.

    Compiled parts are called as functions: a module's own call looks for hooks first. Those that run in pieces, and
    submodules that are recorded, are given a list, and names that are not read again are forgotten before the call
    instead of after it. Operators of torch's are looked up here instead of in each call.
    """
    graph = module.graph
    graph.set_codegen(_BoxedCodeGen())
    code = graph.python_code("self")
    source, names = code.src, dict(code.globals)
    lists: dict[str, Boxed] = {
        n: part.run for n, part in module.named_children() if isinstance(part, CompiledPart) and part.in_pieces
    }
    for name, recording in (stretches or {}).items():
        body = module.get_submodule(name)
        assert isinstance(body, GraphModule)
        lists[name] = recorded(boxed(body), recording, sum(n.op == "placeholder" for n in body.graph.nodes))
    for name, part in module.named_children():
        if name in lists:
            call = re.compile(rf"(\w+) = self\.{name}\(([^()]*)\)(?:;  ((?:\w+ = )+None))?$", re.MULTILINE)
            source = call.sub(rf"held_{name} = [\2]; \3; \1 = run_{name}(held_{name})", source).replace("; ; ", "; ")
            names[f"run_{name}"] = lists[name]
        elif isinstance(part, CompiledPart):
            source = source.replace(f"self.{name}(", f"call_{name}(")
            names[f"call_{name}"] = part.forward
            part.hastened = partial(names.__setitem__, f"call_{name}")
        elif isinstance(part, AsKept):
            source = source.replace(f"self.{name}(", f"call_{name}(")
            names[f"call_{name}"] = part.forward

    def found(call: re.Match[str]) -> str:
        op = attrgetter(call[1])(torch.ops)
        if not isinstance(op, torch._ops.OpOverload):
            return call[0]
        name = f"op_{call[1].replace('.', '_')}"
        names[name] = QUICK.get(op, op._op)
        return f"{name}("

    source = re.sub(r"torch\.ops\.(\w+\.\w+\.\w+)\(", found, source)
    exec(compile(source, "<graphfuse.torch>", "exec"), names)  # noqa: S102 (torch's own code for its graph)
    return names["forward"].__get__(module)
