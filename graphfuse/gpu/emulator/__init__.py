"""Executes PTX on any machine, with numpy: how GPU code is tested where there is no GPU. See docs/emulator.md."""

from graphfuse.gpu.emulator.emulator import Emulator
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.im2col import Im2colMap
from graphfuse.gpu.emulator.report import Report, Traffic
from graphfuse.gpu.emulator.tensormap import Buffer, TensorMap

__all__ = ["Buffer", "Emulator", "EmulatorError", "Im2colMap", "Report", "TensorMap", "Traffic"]
