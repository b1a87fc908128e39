"""The backend torch.compile calls: AOTAutograd makes functional graphs, forward and backward, which are compiled."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._dynamo.aot_compile_types import BundledAOTAutogradSerializableCallable
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._guards import TracingContext
from torch._inductor.utils import count_tangents
from torch._prims_common import make_contiguous_strides_for

from graphfuse.api import configure_logging
from graphfuse.devices import compiled_key
from graphfuse.frontends.fx.lowering import KERNELS, fills_memory
from graphfuse.knobs import settings
from graphfuse.runtime.cache import default_cache
from graphfuse.torch.attention_masks import lay_out_masks
from graphfuse.torch.build import target_of
from graphfuse.torch.check import Promises
from graphfuse.torch.compile import CompiledGraph, compile_graph
from graphfuse.torch.cuda_graphs import recording_of
from graphfuse.torch.cut import DONATED
from graphfuse.torch.decompositions import decompositions
from graphfuse.torch.kept import is_row_major, kept_otherwise
from graphfuse.torch.options import TorchOptions, options_of
from graphfuse.torch.partition import partition
from graphfuse.torch.resizes import kept_whole
from graphfuse.torch.saved import SavedGraph, saved
from graphfuse.torch.stretches import in_stretches
from graphfuse.torch.whole_attention import keep_attention_whole

log = logging.getLogger(__name__)


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: `torch.compile(model, backend="graphfuse")`.

    Args:
        gm: The graph, with torch's functions.
        example_inputs: Tensors and SymInts it was traced with.
        mode: `default`, `reduce-overhead`, `max-autotune` or `max-autotune-no-cudagraphs`.
        options: Fields of `TorchOptions`, by name.
    """
    return compile_dynamo_graph(gm, example_inputs, options=options_of(mode, options))


Record = Callable[[str, CompiledGraph], None]
"""Is told of every graph that is compiled: `fw`, `bw` or `inference`, and what became of it."""


def compile_dynamo_graph(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: TorchOptions, record: Record | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's with these options."""
    configure_logging()
    keep_attention_whole(gm)
    lay_out_masks(gm)
    compilers = {
        f"{kind}_compiler": SerializableAOTDispatchCompiler(
            SavedGraph, functools.partial(_compile, kind=kind, options=options, record=record)
        )
        for kind in ("fw", "bw", "inference")
    }
    config = {"bundled_autograd_cache": True, "unlift_effect_tokens": True}
    # a graph for training is only kept in torch's cache if its backward is compiled with it
    config["force_non_lazy_backward_lowering"] = True
    if any(isinstance(n.meta.get("example_value"), torch.SymFloat) for n in gm.graph.nodes):
        # torch's cache does not look at what was decided by such a number (`scale > 0.5`)
        config["enable_autograd_cache"] = False
    if default_cache() is None and not functorch_config.bypass_autograd_cache_key:
        # nothing is to be kept, or passes are watched; `aot_compile` saves a graph as the cache would
        config["enable_autograd_cache"] = False
    if any(map(_may_overlap, _outputs(gm))):
        # torch would copy gradients into the strides of the output, where elements may share memory (`x.sin().unfold`)
        config["guess_tangent_strides_as_outputs"] = False
    compiler_config: Any = torch.compiler.config
    table = decompositions()  # torch remembers what it looks up for that, which `kept_whole` changes for a while
    with functorch_config.patch(config), compiler_config.patch(cache_key_tag=_tag(options)), kept_whole(gm):
        made = aot_autograd(
            **compilers,
            partition_fn=partition,
            decompositions=table,
            keep_inference_input_mutations=True,
        )(gm, example_inputs)
    if functorch_config.bypass_autograd_cache_key and getattr(made, "serialize", None) is not None:
        # for `aot_compile`; torch 2.13 does it itself
        return BundledAOTAutogradSerializableCallable(made)
    return made


def _may_overlap(value: object) -> bool:
    """Whether a static tensor is strided so that elements of it may lie in one place."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and not value._has_symbolic_sizes_strides
        and torch._debug_has_internal_overlap(value) != 0
    )


def _outputs(gm: fx.GraphModule) -> list[object]:
    """What a graph of Dynamo's returns, as it was traced."""
    returned = next(n for n in gm.graph.nodes if n.op == "output")
    return [n.meta.get("example_value") for n in returned.all_input_nodes]


def _tag(options: TorchOptions) -> str:
    """What torch's cache must know besides the graph: our version and sources, options, targets, knobs, kernels."""
    made_from = {"options": repr(options), "kernels": repr(sorted(KERNELS.items())), "fills": repr(fills_memory())}
    # a graph that is for a GPU was traced with tensors that are there
    devices = ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",)
    keys = [compiled_key(made_from, target_of(torch.device(d))) for d in devices]
    return f"graphfuse-{hashlib.sha256(''.join(keys).encode()).hexdigest()[:24]}"


def _compile(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    kind: str,
    options: TorchOptions,
    record: Record | None = None,
) -> SavedGraph:
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    row_major = [n for n in places if is_row_major(n.meta.get("val"))]
    for node, given in zip(places, example_inputs, strict=True):
        node.meta["val"] = given  # what is kept for the backward may lie otherwise than when it was traced
    kept = kept_otherwise(places[: count_tangents(gm)]) if kind == "bw" else {}
    context = TracingContext.try_get()
    if kind == "bw" and context is not None and context.fw_metadata is not None:
        for i in vars(context.fw_metadata).get(DONATED, ()):
            places[i].meta[DONATED] = True
    known = context.fw_metadata if context is not None and kind == "fw" else None
    compiled = compile_graph(
        gm, options, None if known is None else known.num_forward_returns, kept, [n for n in row_major if n in kept]
    )
    if known is not None and (donated := known.bw_donated_idxs):
        # a backward that may run again (`retain_graph=True`) writes over nothing that is kept for it: torch, which
        # looks at this list when it runs, has nothing to refuse
        vars(known)[DONATED] = tuple(donated)
        donated.clear()
    if record is not None:
        record(kind, compiled)
    for node in compiled.cut.compacted:
        value = node.meta["val"]
        node.meta["val"] = value.new_empty_strided(value.shape, make_contiguous_strides_for(value.shape))
    for region in compiled.cut.regions:
        for node, value in region.part.laid.items():
            node.meta["val"] = value
    if context is not None and context.output_strides is not None:
        context.output_strides.extend(_strides(gm))
    promises = Promises.of(gm, compiled.cut.reasons) if options.check or settings.torch_check else None
    if not options.cuda_graphs:
        return saved(compiled.module, promises=promises)
    static = _static(gm, kind)
    recording, why = recording_of(gm, kind, static, compiled.cut.reasons)
    if recording is not None:
        recording = replace(recording, overwrites=any(part.overwrites for part in compiled.parts))
        return saved(compiled.module, promises=promises, recording=recording)
    gpu = _gpu(gm)
    module, stretches = in_stretches(compiled.module, kind, static, gpu) if gpu else (compiled.module, {})
    log.info("not recorded as one CUDA graph but as %d: %s", len(stretches), why)
    begins = gpu.index if gpu and kind == "bw" else None
    return saved(module, promises=promises, stretches=stretches, begins_backward=begins)


def _gpu(gm: fx.GraphModule) -> torch.device | None:
    """The first GPU that tensors of a graph are on."""
    values = (n.meta.get("val") for n in gm.graph.nodes)
    return next((v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda"), None)


def _static(gm: fx.GraphModule, kind: str) -> Sequence[int]:
    """The inputs of a graph that never move."""
    if kind == "bw":
        return range(count_tangents(gm))
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return metadata.static_input_indices if metadata is not None else ()


def _strides(gm: fx.GraphModule) -> list[tuple[Any, ...] | None]:
    """The strides of every output."""
    (outputs,) = next(n for n in gm.graph.nodes if n.op == "output").args
    values = [o.meta.get("val") if isinstance(o, fx.Node) else None for o in outputs]
    return [tuple(v.stride()) if isinstance(v, torch.Tensor) else None for v in values]
