"""Train the digit classifier and write `models/digits.onnx`: `python -m models.train_digits`.

Needs torch and scikit-learn. Ten seconds on two cores; prints the held-out accuracy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

from models import digits
from models._builder import Builder, Value

_CHANNELS = (16, 32, 40)
_EPOCHS = 40
_BATCH = 64


def network() -> nn.Sequential:
    """Three conv-bn-relu, a max pool after the second, global average, linear."""
    layers: list[nn.Module] = []
    c_in = 1
    for i, c_out in enumerate(_CHANNELS):
        layers += [nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out)]
        layers += [nn.ReLU()] + [nn.MaxPool2d(2)] * (i == 1)
        c_in = c_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c_in, 10))


def train(seed: int) -> nn.Sequential:
    """Return the trained network."""
    torch.manual_seed(seed)
    data = digits.training()
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    net = network()
    steps = _EPOCHS * (len(labels) // _BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(_EPOCHS):
        order = torch.randperm(len(labels))
        for step in range(len(labels) // _BATCH):
            chosen = order[step * _BATCH : (step + 1) * _BATCH]
            loss = nn.functional.cross_entropy(net(_shift(images[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def _shift(images: torch.Tensor) -> torch.Tensor:
    """Move the batch by at most one pixel either way."""
    down, right = (int(n) for n in torch.randint(0, 3, (2,)))
    return nn.functional.pad(images, (1, 1, 1, 1))[:, :, down : down + 8, right : right + 8]


def _answers(net: nn.Sequential, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        logits: torch.Tensor = net(torch.from_numpy(images))
    return logits.argmax(dim=1).numpy()


def write(net: nn.Sequential, path: Path) -> None:
    """Write the network as ONNX, batch norms as trained."""
    g = Builder("digits", opset=17, seed=0)
    x = g.input("image", ["batch", 1, 8, 8])
    for i, layer in enumerate(net):
        with g.scope(str(i)):
            x = _node(g, x, layer)
    g.output(x, "logits", ["batch", 10])
    g.save(path)


def _node(g: Builder, x: Value, layer: nn.Module) -> Value:
    parameters = {
        name: g.initializer(tensor.detach().numpy(), name)
        for name, tensor in layer.state_dict().items()
        if tensor.dim() > 0  # not the norm's batch counter
    }
    match layer:
        case nn.Conv2d():
            return g.Conv(x, parameters["weight"], kernel_shape=[3, 3], pads=[1] * 4)
        case nn.BatchNorm2d():
            return g.BatchNormalization(x, *parameters.values(), epsilon=layer.eps)
        case nn.ReLU():
            return g.Relu(x)
        case nn.MaxPool2d():
            return g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
        case nn.AdaptiveAvgPool2d():
            return g.GlobalAveragePool(x)
        case nn.Flatten():
            return g.Flatten(x, axis=1)
        case nn.Linear():
            return g.Gemm(x, parameters["weight"], parameters["bias"], transB=1)
        case _:
            raise NotImplementedError(type(layer).__name__)


def main() -> None:
    """Train, report and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=digits.FILE)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    net = train(args.seed)
    held = digits.held_out()
    write(net, args.output)
    accuracy = float(np.mean(np.equal(_answers(net, held.images), held.labels)))
    kilobytes = args.output.stat().st_size / 1e3
    print(f"{args.output}: {kilobytes:.0f} kB, held-out accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
