"""What the words of the language say when one hovers over them: functions with their arguments, types, qualifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphfuse.frontends.tc.builtins import BUILTINS
from graphfuse.frontends.tc.parser import ATTRIBUTES
from graphfuse.frontends.tc.reader import KEYWORDS, QUALIFIERS, STORAGE, TYPE_NAMES, TYPE_WORDS


@dataclass(frozen=True, slots=True)
class Word:
    """`kind` is function, type, qualifier, keyword or macro; `form` is how it is written, `text` what it does."""

    kind: str
    form: str
    text: str

    @property
    def params(self) -> tuple[str, ...]:
        """The arguments of a function as `form` writes them; those in brackets may be left out."""
        inner = self.form.partition("(")[2].rpartition(")")[0]
        return tuple(p.strip() for p in inner.replace("[", "").replace("]", "").split(",") if p.strip())


_EACH = "Element by element; of a scalar or a tile. Integers are taken as `float`."
_FLOAT_FUNCTIONS = {
    "acos": "the arc cosine", "acosh": "the inverse hyperbolic cosine", "asin": "the arc sine",
    "asinh": "the inverse hyperbolic sine", "atan": "the arc tangent", "atanh": "the inverse hyperbolic tangent",
    "cbrt": "the cube root", "ceil": "the least integer that is not below x", "cos": "the cosine",
    "cosh": "the hyperbolic cosine", "erf": "the error function", "erfc": "1 - erf(x)",
    "erfinv": "the inverse of the error function", "exp": "e to the power x", "exp10": "10 to the power x",
    "exp2": "2 to the power x", "expm1": "exp(x) - 1", "fabs": "the absolute value",
    "floor": "the largest integer that is not above x", "isinf": "whether x is infinite",
    "isnan": "whether x is not a number", "lgamma": "the logarithm of the absolute gamma function",
    "log": "the natural logarithm", "log10": "the logarithm to base 10", "log1p": "log(1 + x)",
    "log2": "the logarithm to base 2", "nearbyint": "the nearest integer, halves to the even one",
    "rint": "the nearest integer, halves to the even one", "round": "the nearest integer, halves away from zero",
    "rsqrt": "1 / sqrt(x)", "sigmoid": "1 / (1 + exp(-x))", "sin": "the sine", "sinh": "the hyperbolic sine",
    "sqrt": "the square root", "tan": "the tangent", "tanh": "the hyperbolic tangent",
    "trunc": "the integer part of x",
}  # fmt: skip
"""What functions of one floating-point number are."""
_OF_MORE = {
    "atan2(y, x)": "The angle of the point (x, y).",
    "copysign(x, y)": "The size of x with the sign of y.",
    "div_rn(a, b)": "The number nearest to a / b, on every machine.",
    "fma(a, b, c)": "a * b + c, rounded once.",
    "fmax(a, b)": "The larger one; NaN is passed over.",
    "fmin(a, b)": "The smaller one; NaN is passed over.",
    "fmod(a, b)": "The remainder of a / b with the sign of a, exact.",
    "hypot(a, b)": "sqrt(a * a + b * b) without overflow.",
    "nextafter(a, b)": "The number next to a on the way to b.",
    "pow(a, b)": "a to the power b.",
}
"""What functions of several floating-point numbers are."""
_CHANGES = {
    "atomic_add": "Adds to memory", "atomic_and": "Memory & values", "atomic_max": "The larger one stays in memory",
    "atomic_min": "The smaller one stays in memory", "atomic_or": "Memory | values",
    "atomic_sub": "Subtracts from memory", "atomic_xchg": "Stores", "atomic_xor": "Memory ^ values",
    "f32_atomic_add": "The old spelling of atomic_add: adds",
}  # fmt: skip
_OTHERS = {
    **{
        f"{name}(pointers, values, [mask], [order], [scope])": f"{text}; gives what was there before."
        for name, text in _CHANGES.items()
    },
    "atomic_cas(pointers, compare, values, [mask], [order], [scope])": "Stores where memory equals `compare`.",
    "load(pointers, [mask], [cache])": "What pointers point at; the word is a hint for the caches of a GPU.",
    "store(pointers, values, [mask], [cache])": "Stores values; the word is a hint for the caches of a GPU.",
    "__debug_barrier()": "Stores in front of it are seen by loads behind it in the same program.",
    "abs(x)": "The absolute value, of integers too.",
    "argsort(x, [axis], [descending])": "The places of the elements in order; NaN is the largest.",
    "argtopk(x, k, [axis])": "The places of the k largest elements, the largest first.",
    "assert(condition, [message])": "With -g and under --check, an error where the condition does not hold.",
    "cat(a, b, [axis])": "One tile behind another along an axis.",
    "cdiv(a, b)": "The quotient of integers, rounded up.",
    "clamp(x, low, high)": "min(max(x, low), high), but NaN stays.",
    "clz(x)": "How many bits in front of the first 1 are 0.",
    "cummax(x, [axis], [reverse])": "The largest of the elements up to each along an axis.",
    "cummin(x, [axis], [reverse])": "The smallest of the elements up to each along an axis.",
    "cumprod(x, [axis], [reverse])": "The product of the elements up to each along an axis.",
    "cumsum(x, [axis], [reverse])": "The sum of the elements up to each along an axis.",
    "dot(a, b, [acc], [precision])": "acc + a @ b in the type of `acc`; the precision is ieee, tf32 or tf32x3.",
    "flip(x, [axis])": "The elements the other way round along an axis.",
    "gather(x, index, [axis])": "Elements by their places along an axis; where there is no such place, 0.",
    "get_num_program(axis)": "The old spelling of get_num_programs.",
    "get_num_programs(axis)": "How many programs the grid has along axis 0, 1 or 2.",
    "get_program_id(axis)": "The number of this program along axis 0, 1 or 2 of the grid.",
    "histogram(x, bins)": "How many elements of integers are 0, 1, ... bins - 1.",
    "interleave(a, b)": "The elements of two tiles in turns along the last axis.",
    "join(a, b)": "Pairs of elements along a new last axis.",
    "max(a, b)": "The larger one.",
    "min(a, b)": "The smaller one.",
    "mulhi(a, b)": "The upper half of the product of integers.",
    "philox(seed, offset, [word], [subsequence])": "A word of 32 random bits of Philox-4x32-10.",
    "popc(x)": "How many bits are 1.",
    "popcount(x)": "How many bits are 1.",
    "printf(format, ...)": "With -g and under --check, prints values; of tiles a line an element.",
    "rand(seed, offset, [subsequence])": "A random `float` in [0, 1).",
    "randn(seed, offset, [subsequence])": "A normally distributed random `float`.",
    "reduce(x, axis, f)": "The elements along an axis combined by a function of the source.",
    "scan(x, axis, f, [reverse])": "The elements up to each along an axis combined by a function of the source.",
    "select(condition, a, b)": "a where the condition holds, b elsewhere; both are computed.",
    "softmax(x, [axis])": "exp(x - m) over its sum along an axis, m being the largest element.",
    "sort(x, [axis], [descending])": "The elements in order along an axis; NaN is the largest.",
    "topk(x, k, [axis])": "The k largest elements along an axis, the largest first.",
    "umulhi(a, b)": "The upper half of the product of integers.",
    "where(condition, a, b)": "a where the condition holds, b elsewhere; both are computed.",
}


def _functions() -> dict[str, Word]:
    forms = {f"{name}(x)": f"{text[0].upper()}{text[1:]}. {_EACH}" for name, text in _FLOAT_FUNCTIONS.items()}
    forms |= {form: f"{text} {_EACH}" for form, text in _OF_MORE.items()} | _OTHERS
    out = {form.partition("(")[0]: Word("function", form, text) for form, text in forms.items()}
    for name in BUILTINS - out.keys():
        # C's spelling for float
        base = out[name.removesuffix("f")]
        out[name] = Word("function", base.form.replace("(", "f(", 1), base.text)
    return out


FUNCTIONS: Mapping[str, Word] = _functions()
"""The functions of the language."""

_BITS = {
    "void": "No value.", "bool": "True or false; a macro for `_Bool`.", "_Bool": "True or false.",
    "char": "An integer of 8 bits.", "short": "An integer of 16 bits.", "int": "An integer of 32 bits.",
    "long": "An integer of 64 bits.", "half": "A floating-point number of 16 bits.",
    "float": "A floating-point number of 32 bits.", "double": "A floating-point number of 64 bits.",
    "signed": "An integer with a sign.", "unsigned": "An integer without a sign; alone of 32 bits.",
    "bf16": "A number of 16 bits with the range of `float`.",
    "fp8e4m3": "A number of 8 bits, which is only stored: arithmetic is `float`.",
    "fp8e5m2": "A number of 8 bits, which is only stored: arithmetic is `float`.",
    "_Complex": "Complex numbers, which are not supported.",
}  # fmt: skip
TYPES = {
    name: Word("type", name, _BITS.get(name) or f"An integer of {name.lstrip('uint')} bits, {_sign}.")
    for name in sorted(TYPE_WORDS | TYPE_NAMES | {"bool"})
    for _sign in ["without a sign" if name.startswith("u") else "with a sign"]
}
"""Names of types."""

_PROMISES = {
    "multipleof": "__multipleof(n): the value is a multiple of n.",
    "aligned": "__aligned(n): the address is a multiple of n bytes.",
    "readonly": "__readonly: nothing is stored through the pointer.",
    "writeonly": "__writeonly: nothing is read through the pointer.",
    "noalias": "__noalias: what it points at is reached through no other pointer.",
    "retune": "__retune: the tuner chooses anew for other values.",
}
_QUALIFIERS = {
    "const": "The value is not assigned; of a pointer, nothing is stored through it.",
    "constexpr": "A constant, or a function that has a constant value for constants.",
    "restrict": "What the pointer points at is reached through no other pointer.",
    "__constant__": "In the constant bank: char __constant__ *NAME = calloc(BYTES);",
    "__global__": "A kernel: it is launched, once for each program of a grid.",
    "typedef": "Gives a type a name.",
}
_STATEMENTS = {
    "if": "if (condition) statement [else statement]; the condition is a scalar.",
    "else": "What is done where the condition of `if` does not hold.",
    "for": "for (init; condition; step) statement; the condition is a scalar.",
    "while": "while (condition) statement; the condition is a scalar.",
    "do": "do statement while (condition);",
    "switch": "switch (value) { case 0: ... default: ... }; the value is a scalar integer.",
    "case": "A case of `switch`, with a constant.",
    "default": "The case of `switch` for all other values.",
    "break": "Leaves the innermost loop or switch.",
    "continue": "Goes on with the next turn of the innermost loop.",
    "return": "Leaves the function, with its value.",
    "sizeof": "The bytes of a type or a value.",
    "_Alignof": "The alignment of a type in bytes.",
    "_Generic": "_Generic(control, type: value, default: value): a value by the type of another.",
    "_Static_assert": "_Static_assert(condition, message): an error unless the constant condition holds.",
    "bitcast": "bitcast<type>(x): the bits of x as another type of the same width.",
    "enum": "enum tag { A, B = 3 }: constants of type int.",
}


def _words() -> dict[str, Word]:
    out = {name: Word("keyword", name, _STATEMENTS.get(name, "A word of C.")) for name in sorted(KEYWORDS)}
    for name in sorted(QUALIFIERS | STORAGE):
        out[name] = Word("qualifier", name, _QUALIFIERS.get(name) or _QUALIFIERS.get(name.strip("_"), "A word of C."))
    for name in ATTRIBUTES:
        form, _, text = _PROMISES[name].partition(": ")
        out[f"__{name}"] = Word("qualifier", form, f"A promise: {text}")
    out["newaxis"] = Word("keyword", "x[:, newaxis]", "A new axis of length 1 in a subscript.")
    return out | TYPES


WORDS: Mapping[str, Word] = _words()
"""Keywords, qualifiers, attributes, types."""
