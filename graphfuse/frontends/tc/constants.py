"""Integers as C computes them at compile time, and the numbers and characters a source spells."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_INT = re.compile(r"(?:(0[xX][0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))([uUlL]*)\Z")
_FLOAT = re.compile(r"((?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)([fFlL]?)\Z")
_HEX_FLOAT = re.compile(r"(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][-+]?[0-9]+)([fFlL]?)\Z")
_SUFFIXES = frozenset(("", "u", "l", "ul", "lu", "ll", "ull", "llu"))
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE = {
    "n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63,
}  # fmt: skip
MAX_DIGITS = 400
"""The largest f64 written out has 309; Python's own conversion of texts takes time quadratic in their length."""


@dataclass(frozen=True, slots=True)
class IntLiteral:
    """An integer: `bits` is 32 or 64."""

    value: int
    bits: int
    signed: bool


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    """A floating-point number; `suffix` is "", "f" or "l"."""

    value: float
    suffix: str


def parse_number(text: str) -> IntLiteral | FloatLiteral | str:
    """What a pp-number means, or why it means nothing."""
    if len(text) > MAX_DIGITS:
        return f"number is too long: expected at most {MAX_DIGITS} characters, found {len(text)}"
    if m := _INT.match(text):
        return _int_literal(m)
    if m := _FLOAT.match(text):
        return FloatLiteral(float(m[1]), m[2].lower())
    if m := _HEX_FLOAT.match(text):
        try:
            return FloatLiteral(float.fromhex(m[1]), m[2].lower())
        except OverflowError:
            return FloatLiteral(math.inf, m[2].lower())
    m = re.match(r"0[xX][0-9a-fA-F]*|[0-9]*\.?[0-9]*", text)
    suffix = text[m.end() :] if m else text
    return f"invalid suffix {suffix!r} of number {text!r}" if suffix else f"invalid number {text!r}"


def _int_literal(m: re.Match[str]) -> IntLiteral | str:
    suffix = m[4].lower()
    if suffix not in _SUFFIXES or "lL" in m[4] or "Ll" in m[4]:
        return f"invalid suffix {m[4]!r} of number {m[0]!r}"
    value = int(m[1], 16) if m[1] else int(m[2], 8) if m[2] else int(m[3])
    decimal = m[3] is not None
    for bits, signed in ((32, True), (32, False), (64, True), (64, False)):
        if (
            (bits == 32 and "l" in suffix)
            or (signed and "u" in suffix)
            or (not signed and decimal and "u" not in suffix)
        ):
            continue
        if value < 1 << (bits - signed):
            return IntLiteral(value, bits, signed)
    return f"integer {m[0]!r} does not fit in 64 bits"


def parse_char(text: str) -> int | str:
    """The value of a character constant with its quotes, or why it has none."""
    data = unescape(text[1:-1])
    if len(data) != 1:
        return f"character constant: expected one character, found {len(data)}"
    code = ord(data)
    # char is signed
    return code - 256 if 128 <= code < 256 else code


def unescape(text: str) -> str:
    """The inside of a string or character constant with its escapes resolved."""

    def one(m: re.Match[str]) -> str:
        if m[1]:
            return chr(int(m[1][-2:], 16))
        if m[2]:
            return chr(int(m[2], 8) & 0xFF)
        return chr(_SIMPLE[m[3]]) if m[3] in _SIMPLE else m[3]

    return _ESCAPE.sub(one, text)


def wrap(value: int, bits: int, *, signed: bool) -> int:
    """The integer of that width that `value` is congruent to."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
"""Infix operators on integers from loosest to tightest."""
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def int_binary(op: str, a: int, b: int, bits: int, *, signed: bool) -> int | str:
    """`a op b` on integers of one type, wrapped to it; a text says why there is no value."""
    match op:
        case "+" | "-" | "*" | "&" | "|" | "^":
            value = _PLAIN[op](a, b)
        case "/" | "%" if b == 0:
            return f"division by zero in {'remainder' if op == '%' else 'quotient'}"
        case "/":
            value = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        case "%":
            value = abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "<<" | ">>" if not 0 <= b < bits:
            return f"shift count: expected 0 to {bits - 1}, found {b}"
        case "<<":
            value = a << b
        case ">>":
            value = a >> b
        case _:
            return int(compare(op, a, b))
    return wrap(value, bits, signed=signed)


_PLAIN = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__,
    "&": int.__and__, "|": int.__or__, "^": int.__xor__,
}  # fmt: skip


def compare(op: str, a: float, b: float) -> bool:
    """A comparison of two numbers."""
    return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def float_binary(op: str, a: float, b: float) -> float:
    """`a op b` in double precision."""
    if op != "/":
        return {"+": a + b, "-": a - b, "*": a * b}[op]
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b
