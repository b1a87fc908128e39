"""Kernels that stay inside of what they are told, launched with arguments that do not fit: refused, or right."""

from __future__ import annotations

import random
from pathlib import Path

import ml_dtypes
import numpy as np
import torch

import graphfuse
from graphfuse.errors import GraphfuseError

N = 96
SOURCES = {
    "scale": """__global__ void scale(float *x, float *y, int n, float a) {
  long i[32] = (long)get_program_id(0) * 32 + 0 ... 32;
  bool m[32] = i >= 0 && i < n;
  *?(m)(y + i) = *?(m)(x + i) * a;
}""",
    "add": """__global__ void add(half *x __readonly __aligned(4), float *b, float *y __writeonly __noalias,
                    int n __multipleof(4)) {
  long i[64] = ((long)get_program_id(1) * get_num_programs(0) + get_program_id(0)) * 64 + 0 ... 64;
  bool m[64] = i >= 0 && i < n;
  float v[64] = *?(m)(x + i);
  if (b) v += *?(m)(b + i);
  *?(m)(y + i) = v;
}""",
    "total": """__global__ void total(int *x, long *y, int n) {
  int s[16] = 0;
  for (int k = 0; k < n; k += 16) s += (k + 0 ... 16 < n) ? *?(k + 0 ... 16 < n)(x + k + 0 ... 16) : 0;
  if (get_program_id(0) == 0 && get_program_id(1) == 0 && get_program_id(2) == 0) *y = s[+];
}""",
}
ELEMENTS = {"scale": ("f4", "f4"), "add": ("f2", "f4", "f4"), "total": ("i4", "i8")}
OTHERS = ("f8", "f4", "f2", "i4", "i8", "u4", "?", ">f4", "c8", "O", "S4", "M8[s]")
KERNELS = {
    (name, device): graphfuse.kernel(text + "\n", device=device, threads=1)
    for name, text in SOURCES.items()
    for device in ("", "emulator")
}
STRANGE = [
    None, 0, -1, 1, 1 << 31, -(1 << 31) - 1, 1 << 70, 1.5, float("nan"), float("inf"), True, "1", b"1", [], [1.0], {},
    1j, object(), np.float32(2), np.int64(4), np.array(4), np.array([4]), torch.tensor(4), torch.ones(1), range(3),
]  # fmt: skip
GRIDS = [
    1, (1,), (2, 1), 5, (3, 2, 1), 0, (0, 7), (0, 1 << 40), -1, (), (1,) * 4, 1 << 40, "1", None, 1.5, (1, None),
    4096, 4, 7,
]  # fmt: skip
OF_TORCH = [torch.float64, torch.bfloat16, torch.bool, torch.complex64]


def shifted(a: np.ndarray, by: int) -> np.ndarray:
    """The same, at an address that is no multiple of its element."""
    raw = np.zeros(a.nbytes + 16, np.uint8)
    raw[by:][: a.nbytes] = a.reshape(-1).view(np.uint8)
    return raw[by:][: a.nbytes].view(a.dtype)


def frozen(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


ODD = (
    lambda rng, a: None,
    lambda rng, a: a[::-1],
    lambda rng, a: np.repeat(a, 2)[::2],
    lambda rng, a: frozen(a),
    lambda rng, a: shifted(a, rng.randrange(1, 8)),
    lambda rng, a: np.zeros(a.size, rng.choice(OTHERS)),
    lambda rng, a: rng.choice(STRANGE),
    lambda rng, a: torch.from_numpy(a),
    lambda rng, a: torch.from_numpy(a).flip(0),
    lambda rng, a: torch.from_numpy(a).to(rng.choice(OF_TORCH)),
    lambda rng, a: torch.from_numpy(a).clone().requires_grad_(a.dtype.kind == "f"),
    lambda rng, a: torch.from_numpy(a).expand(3, -1),
    lambda rng, a: torch.from_numpy(np.repeat(a, 2)).reshape(-1, 2).t(),
    lambda rng, a: torch.ones(a.size, device="meta"),
    lambda rng, a: torch.ones(a.size).to_sparse(),
    lambda rng, a: np.asfortranarray(np.repeat(a, 2).reshape(-1, 2)),
    lambda rng, a: np.ma.masked_array(a),
    lambda rng, a: a.astype(ml_dtypes.bfloat16),
    lambda rng, a: a.byteswap().view(a.dtype.newbyteorder()),
)
"""What may be odd about memory; where it is taken it has as many elements as before, from its first one on."""


def pointers_of(rng: random.Random, name: str, n: int, base: np.ndarray) -> list:
    """Arrays of n elements, some of them odd, or over one another."""
    elements = ELEMENTS[name]
    pointers: list = [base[: max(n, name == "total")].astype(e) for e in elements]
    for i, a in enumerate(pointers):
        if rng.random() < 0.2:
            pointers[i] = rng.choice(ODD)(rng, a)
    if name != "total" and rng.random() < 0.15:
        room, shift = np.zeros(4 * N, elements[-1]), rng.choice([-n, -4, -1, 0, 1, 3, n])
        pointers[-1], pointers[-2] = room[2 * N :][:n], room[2 * N + shift :][:n]
    return pointers


def case(seed: int, folder: Path) -> str:
    rng = random.Random(seed)
    name = rng.choice(sorted(SOURCES))
    kernel = KERNELS[name, rng.choice(["", "", "", "emulator"])]
    n = rng.choice([0, 1, 4, 31, 32, 64, N, N])
    base = np.random.default_rng(seed).integers(-8, 8, 2 * N)
    pointers = pointers_of(rng, name, n, base)
    numbers: list[object] = [n] + ([2.0] if name == "scale" else [])
    if rng.random() < 0.2:
        at, value = rng.randrange(len(numbers)), rng.choice(STRANGE)
        numbers[at] = value if at or not _is_above(value, n) else n
    grid = rng.choice(GRIDS)
    args: list[object] = [*pointers, *numbers]
    named: dict[str, object] = {}
    match rng.randrange(20):
        case 0:
            args.pop()
        case 1:
            args.append(1)
        case 2:
            named["n"] = args.pop()
        case 3:
            named["q"] = 1
        case _:
            pass
    before = [p.copy() if isinstance(p, np.ndarray) else None for p in pointers]
    try:
        kernel[grid](*args, **named)
    except GraphfuseError as e:
        assert "\n" not in str(e)
        for p, b in zip(pointers, before, strict=True):
            assert b is None or p.tobytes() == b.tobytes(), "what is refused changes nothing"
        return f"refused: {type(e).__name__}"
    _compare(name, pointers, before, n, numbers, grid)
    return "ran"


def _is_above(value: object, n: int) -> bool:
    """Whether a number would let a kernel leave its arrays."""
    try:
        return int(np.asarray(value).reshape(-1)[0]) > n
    except (IndexError, TypeError, ValueError, OverflowError):
        return False


def _compare(name: str, pointers: list, before: list, n: int, numbers: list, grid: object) -> None:
    """Dense arrays of numpy that lie apart hold what they should."""
    if not all(isinstance(p, np.ndarray) and p.flags.c_contiguous and p.size >= n for p in pointers):
        return
    if numbers[0] is not n or any(np.may_share_memory(p, q) for p in pointers for q in pointers if p is not q):
        return
    axes = grid if isinstance(grid, tuple) else (grid,)
    lanes = int(np.prod(axes)) * {"scale": 32, "add": 64, "total": 1 << 40}[name]
    count = min(n, lanes)
    if name == "scale" and isinstance(numbers[1], float):
        want = before[0].reshape(-1)[:count] * np.float32(numbers[1])
        np.testing.assert_array_equal(pointers[1].reshape(-1)[:count], want)
    if name == "add":
        a, b = (x.reshape(-1)[:count] for x in before[:2])
        np.testing.assert_array_equal(pointers[2].reshape(-1)[:count], a.astype(np.float32) + b)
    if name == "total" and lanes:
        assert pointers[1].reshape(-1)[0] == before[0].reshape(-1)[:n].sum()
