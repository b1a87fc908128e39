"""What is generated with: a file, or a folder as ONNX Runtime GenAI writes them, and its `genai_config.json`.

{"model": {"decoder": {"filename": "model.onnx", "inputs": {...}, "outputs": {...}}, "context_length": 4096,
           "eos_token_id": [2]}, "search": {"do_sample": true, "temperature": 0.7, ...}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from graphfuse import api, devices, usage
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import FileError, Loc, ParseError, UnsupportedError, UsageError
from graphfuse.files import exists, read_source, told
from graphfuse.generation.config import GenerationConfig
from graphfuse.generation.decoder import Decoder, Interface
from graphfuse.generation.generator import Generator
from graphfuse.generation.text import FileTokenizer, Tokenizer
from graphfuse.runtime import gfx
from graphfuse.runtime.device import Device

T = TypeVar("T")
CONFIG, TOKENIZER = "genai_config.json", "tokenizer.json"
WRITTEN_IN_PLACE = ("GroupQueryAttention", "TensorScatter")
"""Operators whose caches may be a state: what else exporters write joins past and new, which is longer."""


@dataclass(frozen=True)
class Folder:
    """A model's file and what was found beside it."""

    model: Path
    interface: Interface = field(default_factory=Interface)
    config: GenerationConfig = field(default_factory=GenerationConfig)
    context_length: int | None = None
    tokenizer: Path | None = None

    @staticmethod
    def read(path: Path) -> Folder:
        """Look at a folder, or at the one that a model is in.

        Raises:
            FileError: There is no such file or folder, or no `genai_config.json` in it.
            ParseError: The config is none.
            UnsupportedError: It asks for a search that there is none of.
        """
        with told("read", path):
            is_folder = path.is_dir()
            path.stat()
        folder = path if is_folder else path.parent
        tokenizer = folder / TOKENIZER if exists(folder / TOKENIZER) else None
        if not is_folder and not exists(folder / CONFIG):
            return Folder(path, tokenizer=tokenizer)
        top = _Node(_json(folder / CONFIG), "", folder / CONFIG)
        model, search = top.node("model"), top.node("search")
        decoder = model.node("decoder")
        inputs, outputs = decoder.node("inputs"), decoder.node("outputs")
        names = (inputs, "input_ids"), (inputs, "attention_mask"), (inputs, "position_ids"), (outputs, "logits")
        caches = tuple(
            (inputs.get(f"past_{k}_names", usage.text, f"past_key_values.%d.{k}"),
             outputs.get(f"present_{k}_names", usage.text, f"present.%d.{k}"))
            for k in ("key", "value")
        )  # fmt: skip
        file = path if not is_folder else folder / decoder.get("filename", usage.text)
        if not exists(file):
            raise FileError("no such file", Loc(str(file)))
        return Folder(
            file,
            Interface(*(node.get(name, usage.text, name) for node, name in names), caches=caches),
            _config(model, search),
            model.get("context_length", usage.integer, 0) or None,
            tokenizer,
        )


def _config(model: _Node, search: _Node) -> GenerationConfig:
    for name, plain in (("num_beams", 1), ("num_return_sequences", 1), ("no_repeat_ngram_size", 0), ("min_length", 0)):
        if (found := search.get(name, usage.integer, plain)) != plain:
            raise UnsupportedError(f"{search.path(name)}: expected {plain}, found {found}", search.loc)
    names = ("temperature", "top_k", "top_p") if search.value.get("do_sample") else ()
    options: dict[str, Any] = {n: search.value[n] for n in ("repetition_penalty", *names) if n in search.value}
    if names:
        options.setdefault("temperature", 1.0)
    eos = model.value.get("eos_token_id", [])
    options["eos_token_ids"] = eos if isinstance(eos, list) else [eos]
    try:
        return GenerationConfig(**options)
    except UsageError as e:
        raise ParseError(e.message, search.loc) from None


@dataclass(frozen=True)
class _Node:
    """An object of the JSON, and where it is."""

    value: Any
    where: str
    file: Path

    def __post_init__(self) -> None:
        if not isinstance(self.value, dict):
            what = f"{self.where}: expected an object" if self.where else "expected an object"
            raise ParseError(f"{what}, found {type(self.value).__name__}", self.loc)

    @property
    def loc(self) -> Loc:
        return Loc(str(self.file))

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def node(self, name: str) -> _Node:
        """An object in it; an empty one where there is none."""
        return _Node(self.value.get(name, {}), self.path(name), self.file)

    def get(self, name: str, read: Callable[[str, Any], T], default: T | None = None) -> T:
        """A value, or what it is by default. Raises ParseError."""
        if name not in self.value and default is not None:
            return default
        if name not in self.value:
            raise ParseError(f"{self.path(name)}: expected a value, found none", self.loc)
        try:
            return read(self.path(name), self.value[name])
        except UsageError as e:
            raise ParseError(e.message, self.loc) from None


def _json(file: Path) -> Any:
    text = read_source(file)
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise ParseError(f"not JSON: {e.msg.lower()}", Loc(str(file), e.lineno, e.colno)) from None
    except RecursionError:
        raise ParseError("not JSON that can be read: it is too deep", Loc(str(file))) from None


def load(
    path: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | str | os.PathLike[str] | None = None,
    draft: str | os.PathLike[str] | None = None,
    device: str = "",
    threads: int | None = None,
    context_length: int | None = None,
    progress: api.Progress | None = None,
    **options: Any,
) -> Generator:
    """A generator from files, whose code and weights are loaded when it is returned.

    Args:
        path: A folder with a `genai_config.json`, an ONNX model, which is compiled, or an artifact. Such a config
            beside a file holds for it too.
        tokenizer: What to use instead of a `tokenizer.json` beside the model, or such a file.
        draft: A smaller model of the same tokens, whose proposals are checked: the same kinds of path.
        device: Where they run.
        threads: How many threads run them.
        context_length: How many tokens a sequence may have; by default what the config says, else what the models' dims
            allow.
        progress: Called with the name of each stage of compiling.
        options: What else `graphfuse.compile` takes.

    Raises:
        GraphfuseError: A file cannot be read, is not what it should be, or cannot be compiled for generation.
    """
    devices.begin(Device.parse(device))
    folder = Folder.read(usage.path("path", path))
    if isinstance(tokenizer, (str, os.PathLike)):
        tokenizer = FileTokenizer(Path(tokenizer))
    elif tokenizer is None and folder.tokenizer is not None:
        tokenizer = FileTokenizer(folder.tokenizer)
    if context_length is not None and usage.integer("context_length", context_length) < 1:
        raise UsageError(f"context_length: expected a number of at least 1, found {context_length}")

    def decoder(folder: Folder) -> Decoder:
        model = _model(folder, device, threads, progress, options)
        lengths = [n for n in (context_length, folder.context_length) if n is not None]
        made = Decoder(model, folder.interface, context_length=min(lengths, default=None))
        model.prepare()
        return made

    smaller = decoder(Folder.read(usage.path("draft", draft))) if draft is not None else None
    return Generator(decoder(folder), tokenizer, folder.config, draft=smaller)


def _model(
    folder: Folder, device: str, threads: int | None, progress: api.Progress | None, options: dict[str, Any]
) -> CompiledModel:
    """The artifact, or what the model is compiled to, with its caches as its state where they may be."""
    if gfx.is_artifact(folder.model):
        if given := sorted(name for name, value in options.items() if value):
            raise UsageError(f"{given[0]}: {folder.model} is an artifact: expected a model to compile")
        return api.load(folder.model, threads, device)
    if "state" not in options and (found := _names(folder.model)) is not None:
        inputs, outputs, ops = found
        if not ops.isdisjoint(WRITTEN_IN_PLACE):
            options = {**options, "state": folder.interface.pairs(inputs, outputs)}
    return api.compile(folder.model, device=device, threads=threads, progress=progress, **options)


def _names(file: Path) -> tuple[Sequence[str], Sequence[str], set[str]] | None:
    """Inputs, outputs and operators of an ONNX model; of what is none, compiling says what it is."""
    # artifacts need no onnx
    from graphfuse.frontends.onnx.load import DecodeError, onnx
    from graphfuse.frontends.onnx.wire import read_without_weights

    model = onnx.ModelProto()
    try:
        model.ParseFromString(read_without_weights(file, 1)[0])
    except (DecodeError, RuntimeError, ValueError, OSError):
        return None
    graph = model.graph
    weights = {t.name for t in graph.initializer}
    inputs = [i.name for i in graph.input if i.name not in weights]
    return inputs, [o.name for o in graph.output], {n.op_type for n in graph.node}
