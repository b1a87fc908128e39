"""Where a model runs, as users say it: `cpu`, `cuda`, `cuda:1`, `emulator`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from graphfuse import usage
from graphfuse.errors import UsageError, meant

KINDS = ("cpu", "cuda", "emulator")


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device and, for GPUs, which one."""

    kind: str = "cpu"
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.kind == "cuda" else self.kind

    @property
    def is_gpu(self) -> bool:
        """Whether it runs a GPU's code."""
        return self.kind != "cpu"

    @property
    def is_emulated(self) -> bool:
        """Whether what it takes says nothing of a machine."""
        return self.kind == "emulator"

    @staticmethod
    def parse(text: str) -> Device:
        """Read what a user wrote; nothing means the CPU."""
        text = usage.text("device", text or "cpu")
        m = re.fullmatch(r"(?P<kind>[a-z]+)(?::(?P<index>\d{1,3}))?", text)
        if m is None or m["kind"] not in KINDS or (m["index"] and m["kind"] != "cuda"):
            hint = meant(text, KINDS) or f"; expected one of {', '.join(KINDS)}, or cuda:N"
            raise UsageError(f"unknown device {text!r}{hint}")
        return Device(m["kind"], int(m["index"] or 0))


def on_host(value: Any) -> Any:
    """A copy of a torch tensor on a GPU; anything else as it is."""
    device = getattr(value, "device", None)
    return value.cpu() if getattr(device, "type", "cpu") == "cuda" else value
