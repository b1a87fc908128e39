"""Where the arrays of a launch lie: numpy's, torch's, or another library's that has DLPack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Place:
    """How an array gets there, and back."""

    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]


HOST = Place(lambda a: a, lambda a: a)


class Foreign:
    """A torch tensor of which only the protocol is known."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        return self.tensor.__dlpack__(stream=stream)


def torch_tensors(torch: Any, device: str) -> Place:
    """On torch's device."""
    return Place(lambda a: torch.from_numpy(a).to(device), lambda t: t.cpu().numpy())


def dlpack(torch: Any, device: str) -> Place:
    """On torch's device, but not known to be torch's."""
    return Place(lambda a: Foreign(torch.from_numpy(a).to(device)), lambda f: f.tensor.cpu().numpy())


def placed(args: tuple[Any, ...], place: Place) -> tuple[list[Any], Callable[[np.ndarray], np.ndarray]]:
    """Arguments with their arrays there, and what says how one of the arrays is there now."""
    given = [place.put(a) if isinstance(a, np.ndarray) else a for a in args]
    by_id = {id(a): there for a, there in zip(args, given, strict=True)}
    return given, lambda a: place.get(by_id[id(a)])
