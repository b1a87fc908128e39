"""Programs of torch that hypothesis draws: some inputs, up to ten lines, and what is returned.

A line reads values that were made before it and makes a new one. Which lines are possible is found by running them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st

SIZES = (1, 2, 3, 4, 5, 8, 17)
MOST_ELEMENTS = 4000
UNARY = (
    "torch.sin({0})", "torch.tanh({0})", "torch.sigmoid({0})", "F.relu({0})", "F.gelu({0})", "F.silu({0})", "-{0}",
    "{0}.abs()", "({0}.abs() + 1).sqrt()", "({0} * {0} + 1).rsqrt()", "torch.exp(-{0}.abs())", "torch.erf({0})",
    "{0} * 0.5 + 1", "{0}.clamp(-0.9, 1.1)", "F.leaky_relu({0}, 0.1)", "{0}.pow(2)", "torch.log1p({0}.abs())",
    "2 - {0}", "F.softplus({0})", "{0}.square().add(1).reciprocal()", "F.hardswish({0})", "F.elu({0})",
    "{0}.to(torch.float64).cos().to({0}.dtype)", "{0}.clone().mul_(2)", "{0}.contiguous()", "{0}.detach() + {0}",
    "F.gelu({0}, approximate='tanh')", "torch.where({0} > 0.123, {0}, 0.0)", "F.mish({0})", "torch.expm1(-{0}.abs())",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / ({1}.abs() + 1)", "torch.maximum({0}, {1})", "{0} @ {1}",
    "torch.minimum({0}, {1})", "torch.atan2({0}, {1}.abs() + 1)", "torch.lerp({0}, {1}, 0.3)", "torch.outer({0}, {1})",
    "torch.addcmul({0}, {1}, {1}, value=0.5)", "torch.where(x0.flatten()[:1] > 0, {0}, {1})", "torch.cat([{0}, {1}])",
    "torch.hypot({0}, {1}.abs() + 1)", "F.mse_loss({0}, {1})", "{0}.add({1}, alpha=3)",
)  # fmt: skip
REDUCTIONS = (
    "{0}.sum({1})", "{0}.mean({1}, keepdim=True)", "{0}.amax({1})", "{0}.amin({1}, keepdim=True)",
    "torch.logsumexp({0}, {1})", "{0}.var({1}, correction=0)", "torch.linalg.vector_norm({0} + 3, dim={1})",
)  # fmt: skip
ALONG = (
    "torch.softmax({0}, {1})", "torch.log_softmax({0}, {1})", "{0}.cumsum({1})", "{0}.flip({1})", "{0}.roll(1, {1})",
    "torch.cat([{0}, {0} * 2], {1})", "torch.stack([{0}, {0} + 1], {1})", "{0}.unsqueeze({1})", "{0}.select({1}, 0)",
    "{0}.repeat_interleave(2, {1})", "{0}.transpose({1}, 0)", "{0}.movedim({1}, -1)", "{0}.narrow({1}, 0, 1)",
    "{0}.index_select({1}, torch.tensor([0, 0]))", "{0}.gather({1}, {0}.detach().argsort({1}))", "{0}.unbind({1})[-1]",
    "{0}.argmax({1}) * 1.0", "{0}.scatter_add({1}, torch.zeros_like({0}, dtype=torch.int64), {0})",
    "{0}.topk(1, {1})[0]", "{0}.chunk(2, {1})[0]", "{0} - {0}.mean({1}, keepdim=True)", "F.normalize({0} + 2, dim={1})",
    "{0}.sort({1})[0]", "{0}.cumprod({1})", "{0}.index_add({1}, torch.tensor([0]), {0}.narrow({1}, 0, 1))",
)  # fmt: skip
"""Functions of a tensor and a dim."""
WHOLE = (
    "{0}.flatten()", "{0}.sum()", "{0}.mean()", "{0}.reshape(-1, {0}.shape[-1])", "{0}.squeeze()", "{0}[..., ::2]",
    "{0}.expand(2, *{0}.shape)", "F.layer_norm({0}, {0}.shape[-1:])", "F.pad({0}, (1, 2))", "F.pad({0}, (-1, 1))",
    "{0}[..., 1:]", "{0}[None]", "{0}.tril()", "{0} @ {0}.transpose(-1, -2)", "{0}.mT", "torch.diagonal({0})",
    "F.glu(torch.cat([{0}, {0}], -1))", "{0}.repeat(2, *[1] * ({0}.dim() - 1))", "F.avg_pool1d({0}, 2)",
    "F.max_pool1d({0}, 2)", "F.avg_pool2d({0}, 2)", "{0}.unfold(-1, 2, 1)", "F.embedding(torch.tensor([0, 0]), {0})",
    "F.unfold({0}, 2)", "F.interpolate({0}, scale_factor=2)", "F.group_norm({0}, 1)", "set_row({0})",
    "F.rms_norm({0}, {0}.shape[-1:])", "{0}[torch.tensor([0, -1])]", "torch.triu({0}, 1)",
)  # fmt: skip
"""Functions of a tensor, where its rank allows them."""
PRODUCTS = (
    "{0} @ weight({0}.shape[-1], 5)", "F.linear({0}, weight(4, {0}.shape[-1]), weight(4))",
    "F.conv1d({0}, weight(4, {0}.shape[1], 2))", "F.conv2d({0}, weight(4, {0}.shape[1], 3, 3), padding=1)",
    "F.conv2d({0}, weight({0}.shape[1], 1, 2, 2), groups={0}.shape[1])",
    "F.conv_transpose1d({0}, weight({0}.shape[1], 2, 3), stride=2)",
    "F.bilinear({0}, {0}, weight(2, *2 * {0}.shape[-1:]))", "F.scaled_dot_product_attention({0}, {0} * 0.5, {0})",
    "torch.einsum('...i,ji->...j', {0}, weight(3, {0}.shape[-1]))",
    "F.batch_norm({0}, None, None, training=True)",
)  # fmt: skip
LAYOUTS = ("{0}", "{0}.transpose(0, -1)", "torch.cat([{0}, {0}], -1)[..., ::2]", "{0}[:1].expand({0}.shape)")
"""How an input lies in memory."""


def set_row(x: torch.Tensor) -> torch.Tensor:
    """Writes to a view."""
    y = x.clone()
    y[0] = y[-1] * 2
    return y


def weight(*shape: int) -> torch.Tensor:
    """The same numbers whenever a shape is asked for."""
    numbers = torch.linspace(-1, 1, math.prod(shape), dtype=torch.float64).mul(7).sin()
    return numbers.reshape(shape).to(torch.get_default_dtype())


NAMES = {"torch": torch, "F": torch.nn.functional, "set_row": set_row, "weight": weight}


@dataclass
class Program:
    """Inputs' shapes and layouts, expressions that make one value each, and the names of what is returned."""

    inputs: list[tuple[tuple[int, ...], str]]
    lines: list[tuple[str, str]] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        inputs = [f"# x{i}: {list(shape)}, as {how.format(f'x{i}')}" for i, (shape, how) in enumerate(self.inputs)]
        return "\n".join(["", *inputs, self.text()])

    def text(self) -> str:
        """The program as a function."""
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = [f"    {name} = {expression}" for name, expression in self.lines]
        return "\n".join([f"def fn({names}):", *body, f"    return {', '.join(self.returned)},", ""])

    def function(self):
        """What computes it."""
        names = dict(NAMES)
        exec(compile(self.text(), "<fuzz>", "exec"), names)
        return names["fn"]

    def leaves(self) -> list[torch.Tensor]:
        """Numbers for the inputs before they are laid out, in float64."""
        made = torch.Generator().manual_seed(len(self.lines))
        return [torch.randn(shape, generator=made, dtype=torch.float64) for shape, _ in self.inputs]

    def laid_out(self, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs, of the leaves."""
        return [eval(how.format("x"), NAMES | {"x": x}) for x, (_, how) in zip(leaves, self.inputs, strict=True)]


@st.composite
def programs(draw) -> Program:
    """Programs of up to ten lines."""
    shapes = st.lists(st.sampled_from(SIZES), min_size=1, max_size=4).filter(
        lambda s: math.prod(s) <= MOST_ELEMENTS // 4
    )
    program = Program(draw(st.lists(st.tuples(shapes.map(tuple), st.sampled_from(LAYOUTS)), min_size=1, max_size=3)))
    values = {f"x{i}": x for i, x in enumerate(program.laid_out(program.leaves()))}
    torch.set_default_dtype(torch.float64)
    try:
        for _ in range(draw(st.integers(2, 10))):
            expression = _line(draw, values)
            made = _result(expression, values)
            if made is not None:
                name = f"v{len(program.lines)}"
                program.lines.append((name, expression))
                values[name] = made
    finally:
        torch.set_default_dtype(torch.float32)
    made = [name for name, _ in program.lines] or ["x0"]
    program.returned = sorted({made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))})
    return program


def _line(draw, values: dict[str, torch.Tensor]) -> str:
    names = list(values)
    a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    dim = draw(st.integers(-1, max(values[a].dim() - 1, 0)))
    dims = draw(st.sampled_from([f"{dim}", f"({dim},)", str(tuple(range(values[a].dim())))]))
    templates, second = draw(
        st.sampled_from([(UNARY, ""), (BINARY, b), (REDUCTIONS, dims), (ALONG, dim), (WHOLE, ""), (PRODUCTS, "")])
    )
    return draw(st.sampled_from(templates)).format(a, second)


def _result(expression: str, values: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """What a line makes, if it makes anything of use."""
    try:
        out = eval(expression, NAMES | values)
    except (RuntimeError, IndexError, ValueError, TypeError, AttributeError):
        return None
    is_small = out.dim() <= 5 and 0 < out.numel() <= MOST_ELEMENTS
    return out if is_small and bool(out.abs().max() < 1e4) else None
