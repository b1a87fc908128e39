"""A model that keeps state: its calls read caches and write them in place.

    model = graphfuse.compile("decoder.onnx", state={"past_key_values.*": "present.*"})
    session = graphfuse.Session(model, {"batch_size": 1, "past_sequence_length": 2048})
    logits = session({"input_ids": tokens, "attention_mask": mask})["logits"]

The arrays are the session's own, on the model's device, at their full size from the beginning: no call moves them.
"""

from __future__ import annotations

import os
import threading
import zipfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphfuse import usage
from graphfuse.artifact import Array, elem_dtype
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import FileError, InputError, Loc, UsageError
from graphfuse.files import told, writing
from graphfuse.runtime.report import given_dims
from graphfuse.symbolic import evaluate, symbols

if TYPE_CHECKING:
    from graphfuse.runtime.gpu.session import GpuSession
    from graphfuse.runtime.session import Session as CpuSession


class Session:
    """The state of one use of a model, such as a conversation, which is zeros at first.

    Several sessions of one model share its code and weights. A call that another one of the same session has not
    returned from is an error. If a call raises for what its inputs are, the state is what it was before, but for what
    `ScatterND` and its like wrote at other indices than that which is out of range.
    """

    def __init__(self, model: CompiledModel, dims: Mapping[str, int]) -> None:
        """Allocate the state.

        Args:
            model: Compiled with `state`.
            dims: A number for each symbolic dim of the states, by name.

        Raises:
            UsageError: The model has no state, or a dim of a state has no number, or there is no such dim.
            InputError: A number is out of a dim's range.
        """
        self.model, self._lock = model, threading.Lock()
        signature, shared = model.signature, model.executable.shared
        if not shared:
            raise UsageError("the model has no state: expected one compiled with `state`")
        self._session = cast("CpuSession | GpuSession", model.session)  # a model that Python runs parts of has no state
        self._outputs = {signature.outputs[output].name for output, _ in shared}
        specs = [signature.inputs[number] for _, number in shared]
        self.dims = given_dims(signature, dims)
        for symbol in (s for spec in specs for dim in spec.shape for s in symbols(dim)):
            if symbol not in self.dims:
                raise UsageError(f"dims: {signature.shown(symbol)!r}, a dim of the state, has no number")
        self._elems = {s.name: s.elem for s in specs}
        self._state: dict[str, Any] = {}
        for s in specs:
            zeros = np.zeros(tuple(evaluate(d, self.dims) for d in s.shape), elem_dtype(s.elem))
            self._state[s.name] = self._session.resident(s.elem, zeros)

    def __call__(self, *given: Any, **named: Any) -> dict[str, Any]:
        """Run on inputs without the states, as `CompiledModel` takes them by name; outputs without the states."""
        feed = self.model.feed(given, named)
        if ours := sorted(feed.keys() & self._state.keys()):
            raise InputError(f"input {ours[0]!r} is the session's own")
        with self._alone():
            outputs: dict[str, Any] = self._session.run({**feed, **self._state}, over=True)
        return {name: value for name, value in outputs.items() if name not in self._outputs}

    @contextmanager
    def _alone(self) -> Generator[None]:
        """While the state is read or written. Raises UsageError."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("the session is in another call, which reads and writes the same state")
        try:
            yield
        finally:
            self._lock.release()

    def state(self) -> dict[str, Array]:
        """Copies of the arrays in host memory, by the names of inputs."""
        with self._alone():
            return {name: np.array(value) for name, value in self._state.items()}

    def reset(self) -> None:
        """Make the state zeros."""
        self.restore({name: np.zeros(value.shape, value.dtype) for name, value in self._state.items()})

    def restore(self, state: Mapping[str, Array]) -> None:
        """Make the state what `state` is, which has an array of the right shape and dtype for each name."""
        given = usage.mapping("state", state)
        if given.keys() != self._state.keys():
            raise InputError(f"state: expected arrays for {', '.join(self._state)}, found {', '.join(given) or 'none'}")
        for name, value in self._state.items():
            array = np.asarray(given[name])
            if (array.shape, array.dtype) != (value.shape, value.dtype):
                found = f"{array.dtype} of shape {array.shape}"
                raise InputError(f"state {name!r}: expected {value.dtype} of shape {value.shape}, found {found}")
        with self._alone():
            made = {n: self._session.resident(elem, np.ascontiguousarray(given[n])) for n, elem in self._elems.items()}
            self._state = made

    def fork(self) -> Session:
        """Another session, whose state is what this one's is now."""
        other = Session(self.model, self.dims)
        other.restore(self.state())
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file (numpy's .npz), whole or not at all."""
        words: dict[str, Any] = {name: np.frombuffer(array.tobytes(), np.uint8) for name, array in self.state().items()}
        with writing(usage.path("path", path)) as file:
            np.savez(file, **words)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a state that a session of the same model and dims wrote."""
        file = usage.path("path", path)
        with told("read", file), file.open("rb") as opened:
            try:
                kept = np.load(opened, allow_pickle=False)
                found = {name: kept[name] for name in kept.files}
            except (ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as e:
                raise FileError(f"not a session's state: {str(e).lower()}", Loc(str(file))) from None
        state: dict[str, Array] = {}
        for name, value in self._state.items():
            words, nbytes = found.get(name), int(value.nbytes)
            if words is None or (words.dtype, words.shape) != (np.uint8, (nbytes,)):
                has = "none" if words is None else f"{words.dtype} of shape {words.shape}"
                raise FileError(f"state {name!r}: expected {nbytes} bytes, found {has}", Loc(str(file)))
            state[name] = words.view(value.dtype).reshape(value.shape)
        self.restore(state)
