"""Renders docs/life-of-a-kernel.md: one small model at every stage, in the compiler's own text, so that it cannot rot.

python tools/render_docs.py > docs/life-of-a-kernel.md
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graphfuse import compiler
from graphfuse.cpu import lower as cpu
from graphfuse.frontends.onnx import import_model
from graphfuse.ir.printer import to_text
from graphfuse.knobs import Options
from graphfuse.targets import Target

INTRODUCTION = """# Life of a kernel

A linear layer with bias and ReLU, from ONNX to machine code. Every listing below is printed by the compiler
(`python tools/render_docs.py`); `graphfuse compile MODEL.onnx --emit graph|regions|block|llvm|asm` prints the same \
for any model.
"""


def example() -> onnx.ModelProto:
    """relu(x @ w + b) with a dynamic batch."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((64, 32), dtype=np.float32), "w"),
        numpy_helper.from_array(rng.standard_normal(32, dtype=np.float32), "b"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="/fc/MatMul"),
            helper.make_node("Add", ["product", "b"], ["biased"], name="/fc/Add"),
            helper.make_node("Relu", ["biased"], ["y"], name="/Relu"),
        ],
        "example",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def section(title: str, why: str, text: str) -> None:
    """One stage."""
    print(f"\n## {title}\n\n{why}\n\n```\n{text.strip()}\n```")


def main() -> None:
    """Print the page."""
    func = import_model(example(), dims={"batch": (1, 512)})
    target = Target.parse("cpu:x86-64-v3")
    done = compiler.stages(func, target, Options())
    (kernel,) = done.kernels.values()
    lowered = cpu.lower([kernel], target)
    asm = cpu.emit_assembly(lowered)
    print(INTRODUCTION, end="")
    section("Graph IR", "What the ONNX frontend makes: broadcasts are explicit, shapes symbolic.", to_text(done.graph))
    section(
        "Regions",
        "After canonicalisation, weight packing and partitioning. "
        "The weight is stored in panels of the width the kernel reads;\n"
        "the movement ops that undo the packing are inside the region, where index arithmetic cancels them.",
        to_text(done.regions),
    )
    section(
        "Block IR",
        "One program computes a block of rows. "
        "The innermost loop is the microkernel: a register tile, one `dot` per step of k.",
        to_text(kernel),
    )
    hot = [line for line in asm.splitlines() if "vfmadd" in line][:8]
    section(
        "Machine code",
        f"For {target}: the first fused multiply-adds of the microkernel, of {asm.count('vfmadd')} in the kernel.",
        "\n".join(line.strip() for line in hot),
    )


if __name__ == "__main__":
    main()
