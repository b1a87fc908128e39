"""What the emulated driver refuses."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from graphfuse.artifact import TensorMap
from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.emulator.driver import EmulatedDriver

MAP = TensorMap(0, "f16", 0, (64, 64), (64,), (64, 8), 128)


@pytest.mark.parametrize(
    ("spec", "dims", "message"),
    [
        (replace(MAP, elem="i4"), (64, 64), "tensor map: expected one of "),
        (MAP, (64, 0), "tensor map: dims (64, 0): expected each in 1 to 2^32"),
    ],
)
def test_tensor_maps(spec: TensorMap, dims: tuple[int, ...], message: str) -> None:
    with pytest.raises(EmulatorError, match=re.escape(message)):
        EmulatedDriver().encode_tensor_map(spec, 0, dims, (128,))


def test_memory() -> None:
    driver = EmulatedDriver(memory_bytes=1 << 20)
    with pytest.raises(EmulatorError, match="1000000 bytes of shared memory: a block has at most "):
        driver.allow_shared(0, 1_000_000)
    with pytest.raises(MemoryError, match="2097152 bytes of device memory"):
        driver.alloc(1 << 21)
