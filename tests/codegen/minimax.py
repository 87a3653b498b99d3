"""The fits behind the coefficients of `codegen.llvm.math_*`: run it to print one or all.

    python tests/codegen/minimax.py [NAME ...]      (needs mpmath)

Remez exchange in 120 digits: solve for the polynomial whose weighted error equioscillates on
n + 2 points, move the points to the extremes of that error, repeat. Fits near 0 avoid the
removable singularity by evaluating the function slightly off it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp  # type: ignore[import-not-found]

Real = Any
Fun = Callable[[Real], Real]


def _extremes(error: Fun, a: Real, b: Real, count: int) -> list[Real]:
    """The largest point of each sign run of `error` on a Chebyshev grid."""
    steps = 16 * count
    grid = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (steps - i) / steps)
            for i in range(steps + 1)]
    runs: list[list[tuple[Real, Real]]] = [[]]
    for x in grid:
        e = error(x)
        if runs[-1] and mp.sign(e) != mp.sign(runs[-1][-1][1]):
            runs.append([])
        runs[-1].append((x, e))
    points = [max(run, key=lambda p: abs(p[1]))[0] for run in runs]
    while len(points) > count:
        points.pop(0 if abs(error(points[0])) < abs(error(points[-1])) else -1)
    return points


def remez(fun: Fun, a: Real, b: Real, degree: int, weight: Fun) -> tuple[list[Real], Real]:
    """Coefficients minimising the largest |weight (fun - p)| on [a, b], and that error."""
    a, b = mp.mpf(a), mp.mpf(b)
    floor = max(abs(weight(a + (b - a) * i / 32)) for i in range(33)) / 1000
    count = degree + 2
    points = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (count - 1 - i) / (count - 1))
              for i in range(count)]

    def w(x: Real) -> Real:
        return max(abs(weight(x)), floor)

    coefficients: list[Real] = []
    for _ in range(12):
        rows = [[x**j for j in range(degree + 1)] + [(-1) ** i / w(x)]
                for i, x in enumerate(points)]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([fun(x) for x in points]))
        coefficients = list(solution[: degree + 1])

        def error(x: Real, c: list[Real] = coefficients) -> Real:
            return w(x) * (fun(x) - mp.polyval(c[::-1], x))

        new = _extremes(error, a, b, count)
        worst = max(abs(error(x)) for x in new)
        if len(new) < count or worst < abs(solution[degree + 1]) * 1.001:
            return coefficients, worst
        points = new
    return coefficients, worst


def off_zero(fun: Fun, eps: str = "1e-25") -> Fun:
    """`fun` with a removable singularity at 0 stepped over."""
    small = mp.mpf(eps)
    return lambda x: fun(x if abs(x) > small else small)


def odd(fun: Fun, keep: Real = 1) -> Fun:
    """(fun(s) - keep s)/s^3 as a function of s^2."""
    return off_zero(lambda z: (fun(mp.sqrt(z)) - keep * mp.sqrt(z)) / mp.sqrt(z) ** 3)


def _stirling(z: Real) -> Real:
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def _erfcx(t: Real) -> Real:
    x = mp.mpf(3.75) * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _erfinv_far(t: Real) -> Real:
    """erfinv(1 - e^(-r^2)) - r."""
    r = mp.mpf(2.2) * (1 + t) / (1 - t)
    return mp.erfinv(-mp.expm1(-r * r)) - r


_GELU_LEAST = "0.75179152469356445745790490468341"


def _gelu_slope(a: Real) -> Real:
    """log2 of the slope of gelu at -a over a0 - a."""
    a0 = mp.findroot(_gelu_slope_at, mp.mpf(_GELU_LEAST))
    a = a if abs(a - a0) > mp.mpf("1e-30") else a0 + mp.mpf("1e-30")
    return mp.log(_gelu_slope_at(a) / (a0 - a), 2)


def _gelu_slope_at(a: Real) -> Real:
    return mp.erfc(a / mp.sqrt(2)) / 2 - a * mp.npdf(a)


def _one(_: Real) -> Real:
    return mp.mpf(1)


def fits() -> dict[str, tuple[Fun, Real, Real, int, Fun]]:
    """name -> (function, from, to, degree, weight)."""
    h, quarter = mp.log(2) / 2, (mp.pi / 4) ** 2 * 1.002
    s2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    root = mp.sqrt(0.5)
    e = off_zero(lambda r: (mp.expm1(r) - r) / r**2)
    e2 = off_zero(lambda r: mp.expm1(r * mp.log(2)) / r)
    cosine = off_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2)
    cosine_h = off_zero(lambda z: (mp.cosh(mp.sqrt(z)) - 1 - z / 2) / z**2)
    erf = off_zero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1)
    log_erfc = lambda a: -mp.log(mp.erfc(a)) / a  # noqa: E731
    digamma = off_zero(lambda z: (-mp.log(z) / 2 - mp.sqrt(z) / 2
                                  - mp.digamma(1 / mp.sqrt(z))) / z)
    log3 = off_zero(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3)
    log1p = off_zero(lambda e: mp.log1p(e) / e)
    normal = lambda a: mp.log(mp.erfc(a / mp.sqrt(2)) / 2, 2)  # noqa: E731
    atanh5 = off_zero(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - z * 2 / 3) / z**2)

    def far(fun: Fun, limit: str, degree: int) -> Any:
        """An odd function over its argument, in t of x^2 = (1 + t) limit^2 / 2."""
        def f(t: Real) -> Real:
            x = mp.sqrt((1 + t) / 2) * mp.mpf(limit)
            return fun(x) / x if x else off_zero(lambda s: fun(s) / s)(x)

        return f, -1, 1, degree, lambda t: 1 / f(t)

    def reduced(low: str, centre: str, high: str = "6.08") -> tuple[Real, Real]:
        """(x - c)/(x + c) of both ends."""
        c = mp.mpf(centre)
        a, b = ((mp.mpf(x) - c) / (mp.mpf(x) + c) for x in (low, high))
        return a, b

    return {
        "exp f64": (e, -h, h, 9, lambda r: r * r / mp.exp(r)),
        "exp f32": (e, -h * 1.01, h * 1.01, 4, lambda r: r * r / mp.exp(r)),
        "expm1 f64": (e, -h, h, 10, abs), "expm1 f32": (e, -h * 1.01, h * 1.01, 5, abs),
        "exp2 f64": (e2, -0.5, 0.5, 11, lambda r: abs(r) / mp.mpf(2) ** r),
        "exp2 f32": (e2, -0.5, 0.5, 5, lambda r: abs(r) / mp.mpf(2) ** r),
        "exp2 half": (lambda r: mp.mpf(2) ** r, -0.5, 0.5, 4, lambda r: mp.mpf(2) ** -r),
        "reciprocal half": (lambda e: 1 / (1 + e), 0, 1, 3, lambda e: 1 + e),
        "tanh half": far(mp.tanh, "4.7", 17), "tanh bfloat16": far(mp.tanh, "4.7", 13),
        "erf half": far(mp.erf, "2.75", 8),
        "exp2 short float16": (e2, -0.5, 0.5, 3, lambda r: abs(r) / mp.mpf(2) ** r),
        "exp2 short bfloat16": (e2, -0.5, 0.5, 2, lambda r: abs(r) / mp.mpf(2) ** r),
        # What 0x7EB50000 minus a number's bits is, times the number.
        "reciprocal short float16": (lambda t: 1 / t, 0.7070312, 0.728489, 2, abs),
        "reciprocal short bfloat16": (lambda t: 1 / t, 0.7070312, 0.728489, 1, abs),
        "log1p short float16": (log1p, 0, 1, 5, lambda e: 1 / log1p(e)),
        "log1p short bfloat16": (log1p, 0, 1, 4, lambda e: 1 / log1p(e)),
        "normal short float16": (normal, 0, mp.mpf("5.85"), 7, _one),
        "normal short bfloat16": (normal, 0, mp.mpf("14.25"), 8, _one),
        "gelu slope short float16": (_gelu_slope, 0, mp.mpf("6.1"), 7, _one),
        "gelu slope short bfloat16": (_gelu_slope, 0, mp.mpf("13.9"), 8, _one),
        "atanh f64": (odd(mp.atanh), 0, mp.mpf("0.2001") ** 2, 7, lambda z: z),
        "log f64": (odd(lambda s: 2 * mp.atanh(s), 2), 0, s2 * 1.001, 6, lambda z: z),
        "log tail f64": (atanh5, 0, s2 * 1.001, 7, lambda z: z),
        "log f32": (log3, root - 1, 2 * root - 1, 8, lambda f: f * f),
        "sin f64": (odd(mp.sin), 0, quarter, 5, lambda z: z),
        "sin f32": (odd(mp.sin), 0, quarter, 2, lambda z: z),
        "cos f64": (cosine, 0, quarter, 5, lambda z: z * z),
        "cos f32": (cosine, 0, quarter, 2, lambda z: z * z),
        "atan f64": (odd(mp.atan), 0, (mp.mpf(7) / 16) ** 2, 10, lambda z: z),
        "asin f64": (odd(mp.asin), 0, 0.25, 12, lambda z: z),
        "tanh f32": (odd(mp.tanh), 0, mp.mpf("1.02") ** 2, 6, lambda z: z),
        "sinh f64": (odd(mp.sinh), 0, (h * 1.01) ** 2, 4, lambda z: z),
        "sinh f32": (odd(mp.sinh), 0, (h * 1.01) ** 2, 1, lambda z: z),
        "cosh f64": (cosine_h, 0, (h * 1.01) ** 2, 4, lambda z: z * z),
        "cosh f32": (cosine_h, 0, (h * 1.01) ** 2, 1, lambda z: z * z),
        "erf f64": (erf, 0, mp.mpf("0.751") ** 2, 10, _one),
        "erf f32": (erf, 0, mp.mpf("0.9") ** 2, 6, _one),
        "erf middle f64": (lambda s: mp.erf(s + 1.125) - 0.8883882164955139, -0.375, 0.375, 15,
                           _one),
        "erf tail f32": (log_erfc, 0.86, 4, 8, lambda a: a * mp.erfc(a) / mp.erf(a)),
        "erfcx f64": (_erfcx, *reduced("0.6249", "3.75", "28"), 21, _one),
        "erfinv near f64": (off_zero(lambda z: mp.erfinv(mp.sqrt(z)) / mp.sqrt(z) - 1), 0,
                            mp.mpf("0.36036"), 16, _one),
        "erfinv far f64": (_erfinv_far, *reduced("0.9571", "2.2"), 22, _one),
        "lgamma f64": (off_zero(lambda d: mp.loggamma(2 + d) / d), -0.7501, 0.5, 21, _one),
        "lgamma two parts f64": (off_zero(lambda d: mp.loggamma(2 + d) / d, "1e-40"), -0.5, 0.5,
                                 22, _one),
        "stirling f64": (off_zero(_stirling), 0, 1 / mp.mpf(7.5) ** 2, 7, _one),
        "digamma f64": (digamma, 0, mp.mpf(1) / 64, 7, _one),
    }


def main() -> None:
    """Print the fits named on the command line, or all."""
    mp.mp.dps = 120
    table = fits()
    for name in sys.argv[1:] or table:
        coefficients, error = remez(*table[name])
        print(f"{name}: 2^{mp.nstr(mp.log(error, 2), 4)}")
        print(*(f"    {float(c)!r}," for c in coefficients), sep="\n", flush=True)


if __name__ == "__main__":
    main()
