"""Fit the polynomials of `graphfuse/codegen/vecmath_tables.py`; prints that file's table.

Offline only: needs mpmath, which graphfuse itself does not. Remez exchange on a dense grid, in
50 digits, on the error that the function built from the polynomial will see (relative, unless
said otherwise). Coefficients are then rounded to the element type one by one from the lowest
order up, refitting the rest each time, so that the rest makes up for each rounding.

Run: python tools/fit_vecmath.py > table.txt
"""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from mpmath import mp, mpf

mp.dps = 50
TWO_OVER_PI_BITS = 1200
WIDTH = 120
"""Columns of a line."""
Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """Minimize max |weight(x) * (poly(variable(x)) - target(x))| over [low, high]."""

    target: Real
    weight: Real
    low: mpf
    high: mpf
    degree: dict[str, int]
    variable: Real = lambda x: x


def _remez(points: list[mpf], target: list[mpf], weight: list[mpf], degree: int) -> list[mpf]:
    """Return the weighted minimax coefficients on a set of points, lowest order first."""
    count = degree + 2
    n = len(points)
    chosen = sorted({round((n - 1) * (1 - np.cos(np.pi * i / (count - 1))) / 2) for i in range(count)})
    coefficients: list[mpf] = []
    for _ in range(30):
        rows = [
            [weight[i] * points[i] ** k for k in range(degree + 1)] + [mpf((-1) ** j)] for j, i in enumerate(chosen)
        ]
        wanted = [weight[i] * target[i] for i in chosen]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix(wanted))
        coefficients = [solution[k] for k in range(degree + 1)]
        level = abs(solution[degree + 1])
        errors = [w * (mp.polyval(coefficients[::-1], p) - t) for p, t, w in zip(points, target, weight, strict=True)]
        extrema: list[int] = []
        for i, error in enumerate(errors):
            if extrema and (error > 0) == (errors[extrema[-1]] > 0):
                if abs(error) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) < count or max(map(abs, errors)) < level * mpf("1.001"):
            break
        chosen = extrema
    return coefficients


def _rounded(value: mpf, elem: str) -> float:
    nearest = float(value)
    return float(np.float32(nearest)) if elem == "f32" else nearest


def _lawson(points: np.ndarray, exact: list[mpf], weight: np.ndarray) -> list[float]:
    """Round to f32 from the lowest order up, refitting the rest by reweighted least squares."""
    exact_values = np.polyval(np.array(exact[::-1], float), points)
    best: tuple[float, list[float]] = (np.inf, [])
    done: list[float] = []
    powers = points[:, None] ** np.arange(len(exact))
    for k in range(len(exact)):
        rest = exact_values - powers[:, :k] @ np.array(done[:k])
        scale = np.ones_like(points)
        best = (np.inf, [])
        for _ in range(60):
            root = np.sqrt(scale) * weight
            solution = np.linalg.lstsq(powers[:, k:] * root[:, None], rest * root, rcond=None)[0]
            error = np.abs(weight * (powers[:, k:] @ solution - rest))
            best = min(best, (float(error.max()), list(solution)))
            if error.max() == 0:
                break
            scale = scale * (error / error.max() + 1e-3)
            scale /= scale.max()
        done.append(float(np.float32(best[1][0])))
    return done


def fit(job: Fit, elem: str) -> tuple[list[float], float]:
    """Return rounded coefficients, lowest order first, and the largest weighted error."""
    n = 300
    xs = [job.low + (job.high - job.low) * (1 - mp.cos(mp.pi * (i + mpf(1) / 2) / n)) / 2 for i in range(n)]
    points = [job.variable(x) for x in xs]
    target = [job.target(x) for x in xs]
    weight = [abs(job.weight(x)) for x in xs]
    exact = _remez(points, target, weight, job.degree[elem])
    done = [_rounded(c, elem) for c in exact]
    if elem == "f32":
        done = _lawson(np.array(points, float), exact, np.array(weight, float))
    errors = [
        w * (mp.polyval([mpf(c) for c in done[::-1]], p) - t) for p, t, w in zip(points, target, weight, strict=True)
    ]
    return done, float(max(map(abs, errors)))


def _square(x: mpf) -> mpf:
    return x * x


def _odd(f: Real, low: mpf, high: mpf, f32: int, f64: int) -> Fit:
    """f(x) = x + x^3 P(x^2), relative error."""
    return Fit(
        lambda x: (f(x) - x) / x**3,
        lambda x: x**3 / f(x),
        low,
        high,
        {"f32": f32, "f64": f64},
        _square,
    )


LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mpf("1.001")
SQRT2 = mp.sqrt(2)
ELEMS = ("f32", "f64")
ERF_SPLIT = {"f32": mpf("0.9"), "f64": mpf("1.4")}
ERF_TOP = {"f32": mpf(4), "f64": mpf(6)}
TINY = mpf(10) ** -6


def _erfc_log(elem: str) -> Fit:
    """log2(erfc(x)), in x - middle; the error is that of erf, absolute."""
    top = ERF_TOP[elem]
    middle = mpf(0) if elem == "f32" else mpf("3.7")
    return Fit(
        lambda x: mp.log(mp.erfc(x), 2),
        lambda x: mp.erfc(x) * LN2,
        ERF_SPLIT[elem],
        top,
        {"f32": 6, "f64": 22},
        lambda x: x - middle,
    )


def _erfc(elem: str) -> Fit:
    """(1 + 2 a) exp(a^2) erfc(a) in (a - 4) / (a + 4), up to where erfc rounds to 0 (Shepherd and Laframboise)."""
    return Fit(
        lambda a: (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a),
        lambda a: 1 / ((1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)),
        mpf(0),
        {"f32": mpf("10.1"), "f64": mpf("27.25")}[elem],
        {"f32": 10, "f64": 22},
        lambda a: (a - 4) / (a + 4),
    )


def _erfinv(variable: Real, low: mpf, high: mpf) -> Fit:
    """erfinv(x) / x in a function of w = -log(1 - x^2), for w from low to high (Giles)."""

    def slope(w: mpf) -> mpf:
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x if x else mp.sqrt(mp.pi) / 2

    return Fit(slope, lambda w: 1 / slope(w), low, high, {"f32": 9, "f64": 8}, variable)


def _gamma() -> dict[str, dict[str, Fit]]:
    """Of lgamma, which is made in f64 alone."""
    fits = {
        # log gamma(x) = (x - 1) (x - 2) P(x - 3/2)
        "lgamma_low": Fit(
            lambda x: mp.loggamma(x).real / ((x - 1) * (x - 2)),
            lambda x: (x - 1) * (x - 2) / mp.loggamma(x).real,
            1 + TINY,
            2 - TINY,
            {"f64": 21},
            lambda x: x - mpf("1.5"),
        ),
        # log gamma(2 + u) = u P(u - 1/2)
        "lgamma_middle": Fit(
            lambda u: mp.loggamma(2 + u).real / u,
            lambda u: u / mp.loggamma(2 + u).real,
            TINY,
            mpf(1),
            {"f64": 15},
            lambda u: u - mpf("0.5"),
        ),
        # log gamma(1 / z) = (1/z - 1/2) (log(1/z) - 1) + (log(2 pi) - 1) / 2 + z P(z^2), the error absolute
        "stirling": Fit(
            lambda z: (mp.loggamma(1 / z).real - _stirling_head(1 / z)) / z,
            lambda z: z,
            mpf(10) ** -4,
            mpf(1) / 8,
            {"f64": 5},
            _square,
        ),
        # sin(pi f) = pi f P(f^2)
        "sin_pi": Fit(mp.sincpi, lambda f: 1 / mp.sincpi(f), TINY, mpf("0.5"), {"f64": 8}, _square),
    }  # fmt: skip
    return {name: {"f64": job} for name, job in fits.items()}


def _stirling_head(x: mpf) -> mpf:
    return (x - mpf("0.5")) * (mp.log(x) - 1) + (mp.log(2 * mp.pi) - 1) / 2


def jobs() -> dict[str, dict[str, Fit]]:
    """Return name -> element -> fit."""
    both: dict[str, Fit] = {
        # exp(r) = 1 + r + r^2 P(r)
        "exp": Fit(
            lambda r: (mp.expm1(r) - r) / r**2,
            lambda r: r**2 / mp.exp(r),
            -HALF_LN2,
            HALF_LN2,
            {"f32": 4, "f64": 10},
        ),
        # exp2(r) = 1 + r P(r)
        "exp2": Fit(
            lambda r: mp.expm1(r * LN2) / r,
            lambda r: r / mp.exp(r * LN2),
            mpf("-0.5005"),
            mpf("0.5005"),
            {"f32": 5, "f64": 12},
        ),
        "tanh": _odd(mp.tanh, TINY, mpf("0.625"), 4, 11),
        "sinh": _odd(mp.sinh, TINY, mpf(1), 3, 8),
        "asin": _odd(mp.asin, TINY, mpf("0.5"), 4, 11),
        "atan": _odd(mp.atan, TINY, mp.tan(mp.pi / 8), 4, 11),
        "sin": _odd(mp.sin, TINY, mp.pi / 4 * mpf("1.001"), 2, 5),
        # cos(r) = 1 - r^2/2 + r^4 P(r^2)
        "cos": Fit(
            lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4,
            lambda r: r**4 / mp.cos(r),
            mpf(10) ** -4,
            mp.pi / 4 * mpf("1.001"),
            {"f32": 2, "f64": 5},
            _square,
        ),
    }
    table = {name: {"f32": job, "f64": job} for name, job in both.items()}
    # as exp, for where its error is scaled down (tanh)
    table["exp_short"] = {elem: replace(both["exp"], degree={"f32": 3, "f64": 9}) for elem in ELEMS}
    # erf(x) = x + x P(x^2)
    table["erf"] = {
        elem: Fit(
            lambda x: mp.erf(x) / x - 1,
            lambda x: x / mp.erf(x),
            TINY,
            ERF_SPLIT[elem],
            {"f32": 5, "f64": 17},
            _square,
        )
        for elem in ELEMS
    }
    table["erfc_log2"] = {elem: _erfc_log(elem) for elem in ELEMS}
    # f32: log(1 + f) = f - f^2/2 + f^3 P(f)
    table["log"] = {
        "f32": Fit(
            lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
            lambda f: f**3 / mp.log1p(f),
            SQRT2 / 2 - 1,
            SQRT2 - 1,
            {"f32": 7},
        ),
        # f64: s = f / (2 + f), log(1 + f) = 2 s + s z P(z), z = s^2
        "f64": Fit(
            lambda s: (2 * mp.atanh(s) - 2 * s) / s**3,
            lambda s: s**3 / (2 * mp.atanh(s)),
            TINY,
            mpf("0.17158"),
            {"f64": 6},
            _square,
        ),
    }
    table["pow_log"] = {
        # f32 pow works in f64: log2(1 + f) = f P(f)
        "f32": Fit(
            lambda f: mp.log1p(f) / LN2 / f,
            lambda f: LN2 * f / mp.log1p(f),
            SQRT2 / 2 - 1,
            SQRT2 - 1,
            {"f32": 11},
        ),
        # f64: 2 atanh(s) = 2 s + 2/3 s^3 + s^5 P(s^2)
        "f64": Fit(
            lambda s: (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5,
            lambda s: s**5 / (2 * mp.atanh(s)),
            mpf(10) ** -3,
            mpf("0.17158"),
            {"f64": 7},
            _square,
        ),
    }
    table["pow_exp2"] = {
        "f32": Fit(
            lambda r: mp.expm1(r * LN2) / r,
            lambda r: r / mp.exp(r * LN2),
            mpf("-0.5005"),
            mpf("0.5005"),
            {"f32": 6},
        ),
    }
    table["erfc"] = {elem: _erfc(elem) for elem in ELEMS}
    # erfinv(x) = x P(w - 2.5) or x P(sqrt(w) - 3), w = -log(1 - x^2); in f64 one of Halley's steps follows
    table["erfinv"] = {elem: _erfinv(lambda w: w - mpf("2.5"), mpf(0), mpf(5)) for elem in ELEMS}
    table["erfinv_tail"] = {
        elem: _erfinv(lambda w: mp.sqrt(w) - 3, mpf(5), top)
        for elem, top in (("f32", mpf(17)), ("f64", mpf(37)))
    }  # fmt: skip
    return table | _gamma()


def _parts(value: mpf, count: int, elem: str) -> list[float]:
    """Split a constant into a sum of rounded parts, each the best there is for what is left."""
    parts: list[float] = []
    for _ in range(count):
        parts.append(_rounded(value - sum(map(mpf, parts)), elem))
    return parts


def _text(value: float, elem: str) -> str:
    return str(np.float32(value)) if elem == "f32" else repr(value)


def _print_entry(name: str, note: str, values: list[float], elem: str) -> None:
    numbers = [_text(value, elem) for value in values]
    note = f"  # {note}" if note else ""
    line = f'    "{name}": ({", ".join(numbers)}{"," * (len(numbers) == 1)}),{note}'
    if len(line) > WIDTH:
        indent = " " * 8
        rows = textwrap.fill(", ".join(numbers) + ",", WIDTH, initial_indent=indent, subsequent_indent=indent)
        line = f'    "{name}": ({note}\n{rows}\n    ),'
    print(line, flush=True)


def main() -> None:
    """Print the tables."""
    for elem in ELEMS:
        print(f"{elem.upper()}: Final[Table] = {{")
        for name, by_elem in jobs().items():
            if elem not in by_elem:
                continue
            job, stored = by_elem[elem], elem
            if elem == "f32" and name.startswith("pow"):
                job, stored = replace(job, degree={"f64": job.degree["f32"]}), "f64"
            coefficients, error = fit(job, stored)
            _print_entry(name, f"fitted to 2^{np.log2(error):.1f}", coefficients, stored)
        print("}\n")
        print(f"{elem.upper()}_PARTS: Final[Table] = {{")
        for name, value, count in (
            ("ln2", LN2, 2),
            ("log2e", 1 / LN2, 2),
            ("pi_half", mp.pi / 2, 4),
            ("two_over_pi", 2 / mp.pi, 1),
            ("sqrt_half", mp.sqrt(mpf(1) / 2), 1),
            ("tan_pi_8", mp.tan(mp.pi / 8), 1),
            ("tan_3pi_8", mp.tan(3 * mp.pi / 8), 1),
            ("two_thirds", mpf(2) / 3, 2),
            ("log2_10", mp.log(10, 2), 1),
            ("log10_2", mp.log10(2), 2),
            ("log10e", 1 / mp.log(10), 2),
            ("ln10", mp.log(10), 2),
        ):
            _print_entry(name, "", _parts(value, count, elem), elem)
        print("}\n")
    mp.dps = 400
    bits = int(mp.floor(2 / mp.pi * mpf(2) ** TWO_OVER_PI_BITS))
    print(f"TWO_OVER_PI: Final = int(\n    # floor(2 / pi * 2^{TWO_OVER_PI_BITS})")
    digits = f"{bits:x}"
    for i in range(0, len(digits), 64):
        print(f'    "{digits[i : i + 64]}"')
    print("    , 16)")


if __name__ == "__main__":
    main()
