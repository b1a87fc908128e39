"""Imports point down: the table of docs/ARCHITECTURE.md as a program."""

from __future__ import annotations

import ast
import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "graphfuse"
LEVEL_0 = {
    "__version__",
    "errors",
    "findings",
    "families",
    "files",
    "knobs",
    "targets",
    "targets.nvidia",
    "symbolic",
    "value_checks",
    "artifact",
    "artifact_json",
    "artifact_rules",
    "constraints",
    "host.program",
    "host.program_json",
    "gallery",
    "usage",
}
IR = LEVEL_0 | {"ir"}
DIALECTS = IR | {"dialects"}
INTERP = DIALECTS | {"interp"}
BACKENDS = {"llvm", "codegen", "cpu", "gpu"}
BLOCK = {"blockgen", "blockopt"}
TOP = {
    "torch",
    "api",
    "compiled_model",
    "stages",
    "devices",
    "inference_session",
    "stateful",
    "generation",
    "onnx_backend",
    "host",
    "host.control",
    "cli",
    "compiler",
    "tuner",
    "quantization",
    "peaks",
    "profiling",
    "pipelines",
    "checking",
    "kernels",
    "lsp",
}
OF_TARGETS = {
    "targets.backend",
    "cpu.backend",
    "cpu.graph_passes",
    "gpu.backend",
    "gpu.graph_passes",
    "gpu.launch_groups",
}
"""What makes code for a target, from graph to launches."""
EVERYTHING = INTERP | BACKENDS | BLOCK | TOP | OF_TARGETS | {"frontends", "fusion", "runtime"}

MAY_IMPORT = {
    **dict.fromkeys(LEVEL_0, LEVEL_0),
    "ir": IR,
    "dialects": DIALECTS,
    "interp": INTERP,
    "frontends": INTERP | {"frontends"},
    "fusion": INTERP | {"fusion"},
    "blockgen": DIALECTS | {"blockgen"},
    "blockopt": DIALECTS | {"blockopt"},
    "llvm": LEVEL_0 | {"llvm"},
    "codegen": DIALECTS | {"llvm", "codegen"},
    "cpu": DIALECTS | {"blockopt", "llvm", "codegen", "cpu"},
    "gpu": DIALECTS | {"llvm", "codegen", "gpu"},
    **dict.fromkeys(OF_TARGETS, DIALECTS | BLOCK | BACKENDS | OF_TARGETS | {"fusion"}),
    "targets.nvidia": LEVEL_0 | {"gpu"},
    "runtime": LEVEL_0 | {"llvm", "runtime"},
    "devices": LEVEL_0 | {"llvm", "runtime"},
    "compiler": EVERYTHING,
    "tuner": EVERYTHING,
    "peaks": EVERYTHING,
    "profiling": EVERYTHING,
    "pipelines": EVERYTHING,
    "kernels": EVERYTHING,
    "lsp": LEVEL_0 | {"frontends", "lsp"},
    "checking": EVERYTHING,
    "api": EVERYTHING,
    "quantization": EVERYTHING,
    "compiled_model": EVERYTHING,
    "stages": EVERYTHING,
    "torch": EVERYTHING,
    "inference_session": EVERYTHING,
    "stateful": EVERYTHING,
    "generation": EVERYTHING,
    "onnx_backend": EVERYTHING,
    "host": EVERYTHING,
    "host.control": LEVEL_0,
    "cli": EVERYTHING,
    "__main__": {"cli"},
    "__init__": EVERYTHING,
}
"""Package, or module where it differs from its package, to what it may import."""

ONLY_IN = {
    "networkx": ("fusion", "gpu/emulator/flow.py"),
    "onnx": ("frontends/onnx", "onnx_backend.py"),
    "onnx_ir": ("frontends/onnx",),
    "pygls": ("lsp",),
    "lsprotocol": ("lsp",),
    "tokenizers": ("generation/text.py",),
    "torch": ("frontends/fx", "torch", "kernels/torch_op.py"),
    "llvmlite": ("llvm", "cpu", "gpu", "runtime"),
}
"""Third parties and where they may be imported; runtime links the stored object code."""

FILES = sorted(ROOT.rglob("*.py"))


def module_name(file):
    """The dotted name of a module or package."""
    return ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(f): f for f in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_down(file):
    where = file.relative_to(ROOT).as_posix()
    layer = layer_of(where.removesuffix(".py").replace("/", "."))
    assert layer in MAY_IMPORT, f"{layer} is not in the table"
    for line, name in imports(file):
        package, _, rest = name.partition(".")
        if package in ONLY_IN:
            assert where.startswith(ONLY_IN[package]), f"{where}:{line}: {package} belongs in {ONLY_IN[package]}"
        elif package == "graphfuse":
            target = layer_of(rest)
            assert target in MAY_IMPORT[layer], f"{where}:{line}: {layer} may not import {name}"


def layer_of(module):
    """The row of the table that a dotted name is in: its own, or its package's."""
    return module if module in MAY_IMPORT else module.split(".")[0]


@functools.cache
def tree_of(file):
    return ast.parse(file.read_text())


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    """Millions of nodes, which collections of garbage in later tests would look at."""
    yield
    tree_of.cache_clear()


def imports(file):
    """(line, dotted name) of every import, those inside functions too, with `from a import b` as `a.b`."""
    for node in ast.walk(tree_of(file)):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                packages = {"graphfuse"}
                yield from ((node.lineno, f"{module}.{n.name}" if module in packages else module) for n in names)
            case ast.Import(names=names):
                yield from ((node.lineno, n.name) for n in names)


def test_import_is_light():
    """`import graphfuse` loads no framework, no code generator, no graph library."""
    code = (
        "import graphfuse, sys; print(*sorted({'torch', 'onnx', 'onnx_ir', 'llvmlite', 'networkx'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert out.stdout.split() == []


SCRIPTS = sorted(f for folder in ("tools", "benchmarks", "models") for f in (ROOT.parent / folder).rglob("*.py"))


def test_scripts_hide_no_module_of_python():
    """What runs as `python tools/name.py` finds the folder's modules before Python's own."""
    assert {f.stem for f in SCRIPTS}.isdisjoint(sys.stdlib_module_names)


def test_scripts_import_what_is_there():
    """Nothing else runs all of them; torch's own are left out, as torch need not be there."""
    for file in SCRIPTS:
        for node in ast.walk(tree_of(file)):
            if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("graphfuse"):
                continue
            if str(node.module).startswith(("graphfuse.torch", "graphfuse.frontends.fx")):
                continue
            module = importlib.import_module(str(node.module))
            for name in node.names:
                found = hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}")
                assert found, f"{file.name}:{node.lineno}: {node.module} has no {name.name}"


def test_level_0_loads_no_numpy():
    """Symbolic dims and errors are plain Python."""
    code = "import graphfuse.symbolic, graphfuse.errors, sys; print('numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert out.stdout.strip() == "False"


def test_no_modules_import_each_other():
    """Not even by imports inside of functions; what only type checkers see does not count."""
    arrows = {name: {n for _, n in own_imports(file, MODULES)} - {name} for name, file in MODULES.items()}
    left = dict(arrows)
    while leaves := {name for name, to in left.items() if not to & left.keys()}:
        left = {name: to for name, to in left.items() if name not in leaves}
    # what is left is in a cycle, or imports one
    seen = [min(left)] if left else []
    while left and (following := min(arrows[seen[-1]] & left.keys())) not in seen:
        seen.append(following)
    assert not left, " -> ".join([*seen[seen.index(following) :], following])


def own_imports(file, modules):
    """(line, module) of every import of one of `modules`, but for those under `if TYPE_CHECKING`."""
    tree = tree_of(file)
    typed = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    unseen = {id(x) for n in typed for x in ast.walk(n)}
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                full = [f"{module}.{n.name}" for n in names]
                yield from ((node.lineno, m) for f in full if (m := f if f in modules else module) in modules)
            case ast.Import(names=names):
                yield from ((node.lineno, n.name) for n in names if n.name in modules)


# targets own their machines

OWN = ("targets/", "cpu/", "gpu/", "runtime/cuda/", "cli/check.py")
"""Where a target's own name, kind and modules are known; `graphfuse check` takes the code of one."""
OWN_CODE = ("graphfuse.cpu.", "graphfuse.gpu.", "graphfuse.runtime.cuda.")
DEVICES = (
    "runtime/device.py",
    "runtime/gpu/arrays.py",
    "devices.py",
    "inference_session.py",
    "llvm/host.py",
    "frontends/fx/",
    "torch/",
)
"""Where devices are told apart that users name, or that torch's tensors are on; those are no targets."""
WORDS = {"cuda", "cpu", "nvptx64", "x86_64", "aarch64", "emulator"}


def asked_of_targets(file):
    """(line, text) where a module asks for which target it is, by its name or kind or the class of its machine."""
    for node in ast.walk(tree_of(file)):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                words = {s.value for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str)}
                named = any(isinstance(s, ast.Attribute) and ast.unparse(s).endswith("target.kind") for s in sides)
                if named or words & WORDS or any(w.startswith("sm_") for w in words):
                    yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if "Machine" in ast.unparse(kinds):
                yield node.lineno, ast.unparse(node)


def modules_of_targets(file):
    """(line, module) of what makes code for a target, or drives it: backends and drivers are asked for instead."""
    return [(line, name) for line, name in own_imports(file, MODULES) if f"{name}.".startswith(OWN_CODE)]


@pytest.mark.parametrize(
    "file",
    [f for f in FILES if not f.relative_to(ROOT).as_posix().startswith(OWN)],
    ids=lambda f: str(f.relative_to(ROOT)),
)
def test_only_targets_know_which_they_are(file):
    where = file.relative_to(ROOT).as_posix()
    if not where.startswith((*DEVICES, "kernels/arguments.py", "cli/kernel.py")):
        assert not list(asked_of_targets(file))
    assert not modules_of_targets(file)


def test_a_question_is_seen(tmp_path):
    asking = tmp_path / "asking.py"
    asking.write_text(
        'a = target.kind == kind\nb = x == "cuda"\nc = isinstance(m, GpuMachine)\nd = x.cpu == "sm_80"\ne = x == "y"\n'
    )
    assert [line for line, _ in asked_of_targets(asking)] == [1, 2, 3, 4]


def test_a_driver_is_seen(tmp_path):
    opening = tmp_path / "opening.py"
    opening.write_text(
        "from graphfuse.runtime.cuda.bindings import open_driver\nfrom graphfuse.runtime.cuda import bindings\n"
        "from graphfuse.gpu import graph_passes\nimport graphfuse.cpu.lower\n"
        "from graphfuse.runtime.gpu import session\nfrom graphfuse.devices import driver_of\n"
    )
    assert [line for line, _ in modules_of_targets(opening)] == [1, 2, 3, 4]
