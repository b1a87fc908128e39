"""The nine "light" graphs inside the onnx package, given weights that can expose a bug.

As shipped, every weight is a ConstantOfShape of 0.02 and every output a constant. Here each becomes
a seeded initialiser in keeping with its use, batch norms are calibrated, and the final softmax,
which would flatten what is left of a difference, is taken off. All else stays: opset 9, IR 3,
initialisers listed among the inputs. Registered as `light_<graph>`.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from models._builder import Builder

GRAPHS = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


@dataclass(frozen=True)
class LightModel:
    """One of the graphs, in the form of a model file; there is no small variant of it."""

    graph: str
    DIMS: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    TEST_DIMS: tuple[dict[str, int], ...] = ({},)

    @property
    def NAME(self) -> str:  # noqa: N802 - the interface's name
        """The registered name."""
        return f"light_{self.graph}"

    def build(self, path: Path, *, small: bool = False, seed: int = 0) -> None:
        """Write the model to `path`; `small` changes nothing."""
        del small
        model, rng = _load(self.graph), np.random.default_rng(seed)
        _remove_softmax(model)
        _install(model, _healthy_weights(model, rng))
        _calibrate(model, self.inputs(rng))
        onnx.save(model, path)

    def inputs(self, rng: np.random.Generator, *, small: bool = False) -> dict[str, np.ndarray]:
        """A random normalised image."""
        del small
        (info,) = _free_inputs(_load(self.graph))
        return {info.name: rng.standard_normal((1, 3, 224, 224), np.float32)}


def light_model(graph: str) -> LightModel:
    """Return the model of one graph."""
    if graph not in GRAPHS:
        raise KeyError(f"unknown light graph '{graph}'; known: {', '.join(GRAPHS)}")
    return LightModel(graph)


def _load(graph: str) -> onnx.ModelProto:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return onnx.load(folder / f"light_{graph}.onnx")


def _free_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that are not initialisers."""
    stored = {init.name for init in model.graph.initializer}
    return [info for info in model.graph.input if info.name not in stored]


def _remove_softmax(model: onnx.ModelProto) -> None:
    """Return the logits where the graph ends in a softmax."""
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.output[0].name = last.input[0]
        model.graph.node.remove(last)


def _healthy_weights(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A value for every ConstantOfShape, by what consumes it."""
    shapes = {init.name: numpy_helper.to_array(init) for init in model.graph.initializer}
    consumers: dict[str, tuple[onnx.NodeProto, int]] = {}
    for node in model.graph.node:
        consumers.update({edge: (node, slot) for slot, edge in enumerate(node.input)})
    weights: dict[str, np.ndarray] = {}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            name = node.output[0]
            user, slot = consumers[name]
            if user.op_type == "Unsqueeze":  # a per-channel scale or shift
                user, slot = consumers[user.output[0]]
            shape = tuple(int(dim) for dim in shapes[node.input[0]])
            weights[name] = _draw(user, slot, shape, rng).astype(np.float32)
    return weights


def _draw(user: onnx.NodeProto, slot: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    match user.op_type, slot:
        case "Conv", 1:
            return rng.standard_normal(shape) * 1.4 / math.sqrt(math.prod(shape[1:]))
        case "Gemm", 1:
            transposed = any(attr.name == "transB" and attr.i for attr in user.attribute)
            return rng.standard_normal(shape) * 1.4 / math.sqrt(shape[1 if transposed else 0])
        case ("BatchNormalization", 1 | 4) | ("Mul", _):
            return rng.uniform(0.5, 1.5, shape)
        case ("BatchNormalization", 2) | ("Add", _):
            return rng.normal(0.7, 0.2, shape)  # mostly positive, see Builder.batch_norm
        case _:
            return rng.standard_normal(shape) * 0.1


def _install(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> None:
    """Replace the ConstantOfShape nodes; IR 3 wants initialisers among the inputs too."""
    graph = model.graph
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        graph.node.remove(node)
    used = {edge for node in graph.node for edge in node.input}
    for init in [init for init in graph.initializer if init.name not in used]:
        graph.initializer.remove(init)
    for info in [info for info in graph.input if info.name not in used]:
        graph.input.remove(info)
    for name, value in weights.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
        graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape))


def _calibrate(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Set the batch norms' statistics by a forward pass."""
    builder = Builder.adopt(model)
    builder.calibrate(feeds)
    for init in model.graph.initializer:
        init.CopyFrom(numpy_helper.from_array(builder.initializers[init.name], init.name))


def main() -> None:
    """Write one of the graphs from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("graph", choices=GRAPHS)
    parser.add_argument("output", type=Path, help="ONNX file to write")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    light_model(args.graph).build(args.output, seed=args.seed)


if __name__ == "__main__":
    main()
