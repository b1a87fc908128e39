"""The backend torch.compile calls: AOTAutograd makes functional graphs, forward and backward, which are compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from graphfuse.torch.compile import compile_graph
from graphfuse.torch.decompositions import decompositions
from graphfuse.torch.options import TorchOptions, options_of


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
    chosen = options_of(mode, options)
    compilers = {
        f"{kind}_compiler": functools.partial(_compile, kind=kind, options=chosen) for kind in ("fw", "bw", "inference")
    }
    return aot_autograd(
        **compilers,
        partition_fn=functools.partial(min_cut_rematerialization_partition, compiler="inductor"),
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)


def _compile(gm: fx.GraphModule, example_inputs: Sequence[Any], *, kind: str, options: TorchOptions) -> Any:
    compiled = compile_graph(gm, options)

    def run(args: list[Any]) -> Any:
        return compiled.run(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
