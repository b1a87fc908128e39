"""Object code into the running process. Uses llvmlite and nothing of graphfuse but its errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import llvmlite.binding as llvm

from graphfuse.errors import ArtifactError
from graphfuse.llvm.elf import check_object

_numbers = itertools.count()


class Library:
    """A linked object. The code lives as long as this does."""

    def __init__(self, jit: llvm.LLJIT, tracker: object, addresses: dict[str, int]) -> None:
        self._jit = jit
        self._tracker = tracker
        self._addresses = addresses

    def address(self, name: str) -> int:
        """Where an exported function starts."""
        if name not in self._addresses:
            raise ArtifactError(f"the object exports no function {name!r}")
        return self._addresses[name]


def load_object(code: bytes, names: Iterable[str]) -> Library:
    """Link `code` into this process and look up `names`; raises ArtifactError, and LLVM says nothing."""
    wanted = list(names)
    check_object(code, wanted)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # JITLink puts an object's sections side by side; RuntimeDyld maps each where there is room, and aborts the process
    # when code ends up more than 2 GiB from its constants
    jit = llvm.create_lljit_compiler(use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in wanted:
        builder.export_symbol(name)
    try:
        tracker = builder.link(jit, f"graphfuse{next(_numbers)}")
    except RuntimeError as e:
        raise ArtifactError(f"the object cannot be linked: {e}") from None
    return Library(jit, tracker, {name: tracker[name] for name in wanted})
