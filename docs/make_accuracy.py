"""Measure the largest errors of functions and their gradients: `docs/accuracy.md`.

    python docs/make_accuracy.py                   # all rows: an hour
    python docs/make_accuracy.py --only exp,gelu   # rows of these ops, the others as they are
    python docs/make_accuracy.py --check           # exit status 1 and a line if an op has no row

Needs python-flint. torch's columns are measured by the interpreter that `CELLC_PEERS_PYTHON` names
(it has torch); without one they stay as they are. `tests/ops/test_accuracy.py` holds the numbers.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from accuracy_points import FORMATS, Array, binary, unary, widened, worst
from accuracy_references import BINARY, UNARY, Function

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.graph import Builder, Graph, clone_into
from cellc_compiler.ir.op import FLOATS, REQUIRED, Op
from cellc_compiler.ir.op import all_ops as every_op
from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import ALL
from cellc_runtime.target import Target, host_targets

PAGE = Path(__file__).parent / "accuracy.md"
DTYPES = {t.name: t for t in ALL}
TORCH_PROGRAM = Path(__file__).parent / "accuracy_torch.py"
CHUNK = 1 << 14
SLOW = {2: 8, 4: 64, 8: 64}
"""Of Bessel functions and `trigamma` one point in so many, by the bytes of the type: a reference
costs up to two milliseconds."""

HEAD = """\
# Accuracy

This page is made by `docs/make_accuracy.py`, which measures; do not edit it by hand. After a change
to a function run `python docs/make_accuracy.py --only NAME,...`. `tests/ops/test_accuracy.py` holds
that no function is worse than it says here.

The largest error of each function of one or two floats, and of its gradient for a cotangent of 1,
in ulps: units in the last place of the exact number in the element type. A correctly rounded result
is within 0.50. The column next to ours is what torch has on a CPU, at the same points.

- **Points**: of float16 and bfloat16 all finite numbers; of float32 1.4 million, of float64
  230,000: all exponents alike, ordinary ranges, and neighbours of zeros, kinks, poles and extremes
  (`docs/accuracy_points.py`). Of Bessel functions and `trigamma` one in 64, of 16 bits one in 8. Of
  pairs 2 million of float32 and 260,000 of the others: all pairs of exponents, equal and nearly
  equal ones, powers that nearly overflow. Where a function or a derivative is not defined, or
  jumps, nothing is measured.
- **References**: long doubles, and balls of Arb for special functions
  (`docs/accuracy_references.py`).
- **Near a zero** of a function that is no number of the type, an ulp of the result is far smaller
  than the effect of an error of half an ulp in any step: such rows are large (`digamma`, Bessel
  functions, the slope of `gelu`). So are those of functions that decay by cancelling.
- **Types**: functions of float16 and bfloat16 are computed in float32 and rounded once; a gradient
  rule reads rounded results, as torch's does, and may round in between.
- `-`: torch has no such function, or not for the type. `NaN`: a NaN came where a number should be.
  `inf`: an infinite or a huge result where the exact one is tiny.
"""

_IN_TORCH = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 "
    "floor lgamma log log10 log1p log2 logit neg reciprocal relu round rsqrt sigmoid sign sin sinc "
    "sinh "
    "sqrt square tan tanh trunc")
_FUNCTIONAL = "celu elu selu mish silu softsign softplus relu6 gelu"
TORCH = {
    **{n: f"torch.{n}(x)" for n in _IN_TORCH.split()},
    **{n: f"F.{n}(x)" for n in _FUNCTIONAL.split()},
    "gelu tanh": "F.gelu(x, approximate='tanh')", "clamp": "torch.clamp(x, 2, 5)",
    "hard_shrink": "F.hardshrink(x)", "hard_sigmoid": "F.hardsigmoid(x)",
    "hard_swish": "F.hardswish(x)", "hard_tanh": "F.hardtanh(x)",
    "leaky_relu": "F.leaky_relu(x, 0.2)", "log_sigmoid": "F.logsigmoid(x)",
    "soft_shrink": "F.softshrink(x)", "tanh_shrink": "F.tanhshrink(x)",
    "threshold": "F.threshold(x, 0.5, 2.0)", "trigamma": "torch.polygamma(1, x)",
    "one_plus_square": "x * x + 1", "log1pexp": "torch.logaddexp(x, torch.zeros_like(x))",
    "selu_slope": "torch.where(x < 0, 1.7580993408473766 * torch.exp(x), 1.0507009873554805)",
    "gauss": "torch.exp(-x * x)", "exp_square": "torch.exp(x * x)",
    "quick_gelu": "x * torch.sigmoid(1.702 * x)",
    **{f"bessel_{n}": f"torch.special.{n}(x)" for n in ("i0", "i1", "i0e", "i1e")},
    **{f"bessel_{n}": f"torch.special.bessel_{n}(x)" for n in ("j0", "j1", "y0", "y1")},
    **{f"bessel_{n}": f"torch.special.modified_bessel_{n}(x)" for n in ("k0", "k1")},
    **{f"bessel_{n}e": f"torch.special.scaled_modified_bessel_{n}(x)" for n in ("k0", "k1")},
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "atan2": "torch.atan2(x, y)",
    "maximum": "torch.maximum(x, y)", "minimum": "torch.minimum(x, y)", "pow": "torch.pow(x, y)",
    "fmod": "torch.fmod(x, y)", "mod": "torch.remainder(x, y)", "xlogy": "torch.xlogy(x, y)",
}
"""The same in torch, of `x` and `y`."""


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A function: an op with attributes; `of` is the operand whose gradient it is, -1 its value."""

    name: str
    op: str
    operands: int
    attrs: Mapping[str, Any] = field(compare=False)
    of: int = -1

    @property
    def label(self) -> str:
        """How the page names it."""
        if self.of < 0:
            return self.name
        return f"{self.name} of {'xy'[self.of]}" if self.operands > 1 else self.name

    @property
    def exact(self) -> Function:
        """The reference."""
        value, slope = (UNARY if self.operands == 1 else BINARY)[self.name]
        if self.of < 0:
            return value
        found: Any = slope if self.operands == 1 else slope[self.of]  # type: ignore[index]
        assert found is not None
        return found  # type: ignore[no-any-return]


def _measured(op: Op) -> bool:
    """Whether the op is a function of one or two floats that gives a float of the same type."""
    if not op.elementwise or len(op.operands) > 2 or not set(FLOATS) <= set(op.dtypes):
        return False
    if op.name in ("floor_div", "trunc_div"):
        return False  # the rounded quotient is rounded again, by definition
    if any(a.default is REQUIRED for a in op.attrs.values()) and op.name != "threshold":
        return False  # casts, and the shorter functions inside of compositions
    kind = TensorType((1,), DTYPES["float32"])
    result = op.infer(*[kind] * len(op.operands), **op.complete(op.samples()[0].attrs))
    return result == kind


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the page, values first."""
    values = []
    for op in filter(_measured, every_op()):
        attrs = op.complete(op.samples()[0].attrs)
        values.append(Row(op.name, op.name, len(op.operands), attrs))
        if op.name == "gelu":
            values.append(Row("gelu tanh", "gelu", 1, {"approximate": "tanh"}))
    slopes = [Row(v.name, v.op, v.operands, v.attrs, i) for v in values
              for i in range(v.operands)
              if (UNARY if v.operands == 1 else BINARY)[v.name][1] is not None]
    return (*values, *slopes)


# --- our results ----------------------------------------------------------------------------------


def _one(row: Row, dtype: str, size: int) -> Graph:
    """A graph of one row."""
    graph = Graph("row")
    operands = [graph.add_input(TensorType((size,), DTYPES[dtype]), n)
                for n in "xy"[:row.operands]]
    graph.outputs = list(Builder(graph).node(row.op, operands, row.attrs).results)
    if row.of < 0:
        return graph
    back = gradient_graph(graph, [row.of])
    back.outputs = back.outputs[1:]
    return back


def compiled(
    some: Sequence[Row], dtype: str, target: Target, size: int = CHUNK,
) -> Callable[[Sequence[Array]], list[Array]]:
    """Rows of as many operands each as one program over `size` elements."""
    whole = Graph("rows")
    args = [whole.add_input(TensorType((size,), DTYPES[dtype]), n)
            for n in "xy"[:some[0].operands]]
    b = Builder(whole)
    for row in some:
        outputs, _ = clone_into(b, _one(row, dtype, size), args)
        whole.outputs += outputs
    return compile_graph(whole, target)


def results(some: Sequence[Row], dtype: str, target: Target, operands: Sequence[Array],
            size: int = CHUNK) -> list[Array]:
    """What each row gives at all points; of any number of them, a chunk after the other."""
    run, n = compiled(some, dtype, target, size), len(operands[0])
    whole = [np.resize(x, -(-n // size) * size) for x in operands]
    parts = [run([x[i:i + size] for x in whole]) for i in range(0, len(whole[0]), size)]
    return [np.concatenate(p)[:n] for p in zip(*parts, strict=True)]


def _slow(name: str) -> bool:
    return name.startswith(("bessel", "trigamma"))


def points(operands: int, dtype: str, name: str = "") -> tuple[Array, ...]:
    """Where a function is measured."""
    found = (unary(dtype),) if operands == 1 else binary(dtype)
    if _slow(name):
        return tuple(x[::SLOW[x.itemsize]] for x in found)
    return found


def same_bits(a: Array, b: Array) -> bool:
    """Whether two results are equal, NaNs alike."""
    word = f"u{a.itemsize}"
    real = a == a
    return bool((real == (b == b)).all() and (a.view(word) == b.view(word))[real].all())


# --- torch's --------------------------------------------------------------------------------------


def torch_results(some: Sequence[Row], dtype: str, operands: Sequence[Array]) -> dict[Row, Array]:
    """What torch gives for the rows it has; nothing without an interpreter that has it."""
    python = os.environ.get("CELLC_PEERS_PYTHON", "")
    asked = [(i, row) for i, row in enumerate(some) if row.name in TORCH]
    if not python or not asked:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        for n, x in zip("xy", operands, strict=False):
            np.save(Path(folder) / f"{n}.npy", x.view(np.uint16) if x.itemsize == 2 else x)
        given = {"folder": folder, "dtype": dtype,
                 "rows": [(str(i), TORCH[row.name], row.of) for i, row in asked]}
        done = subprocess.run([python, str(TORCH_PROGRAM)], input=json.dumps(given), check=True,
                              capture_output=True, text=True)
        return {some[int(i)]: np.load(Path(folder) / f"{i}.npy").view(operands[0].dtype)
                for i in json.loads(done.stdout.splitlines()[-1])}


# --- the table ------------------------------------------------------------------------------------

Cell = tuple[str, str]
"""What the page says of a row and a type: ours, torch's."""


def shown(error: float | None) -> str:
    """An error, rounded up."""
    if error is None:
        return "-"
    if math.isnan(error):
        return "NaN"
    if error < 100:
        return f"{math.ceil(error * 100 - 1e-9) / 100:.2f}"
    if error > 1e20:
        return "inf"
    digits = 10 ** math.floor(math.log10(error) - 1)
    return f"{math.ceil(error / digits) * digits:.1e}".replace("e+0", "e").replace("e+", "e")


def bound(cell: str) -> float:
    """The number that a cell of ours says; NaN is any."""
    return math.inf if cell in ("NaN", "inf") else float(cell)


def measure(some: Sequence[Row], dtype: str, old: Mapping[tuple[int, str, str], Cell]
            ) -> Iterator[tuple[Row, Cell]]:
    """Cells of rows that have the same points."""
    operands = points(some[0].operands, dtype, some[0].name)
    targets = host_targets()
    ours = results(some, dtype, targets[0], operands)
    for target in targets[1:]:
        for row, a, b in zip(some, ours, results(some, dtype, target, operands), strict=True):
            assert same_bits(a, b), f"{row} differs on {target.name}"
    theirs = torch_results(some, dtype, operands)
    wide = [widened(x) for x in operands]
    for row, got in zip(some, ours, strict=True):
        with np.errstate(all="ignore"):
            exact = row.exact(*wide)
        mine, where = worst(got, exact, dtype, *operands)
        peer = old.get((row.of < 0, row.label, dtype), ("", "-"))[1]
        if row in theirs:
            other, at = worst(theirs[row], exact, dtype, *operands)
            peer = shown(other)
            where = [*where, *at]
        print(f"{row.label:16}{'value' if row.of < 0 else 'slope':6}{dtype:9}{shown(mine):>9}"
              f"{peer:>9}  {where}", flush=True)
        yield row, (shown(mine), peer)


def groups(some: Iterable[Row], most: int = 12) -> list[list[Row]]:
    """Rows with the same points, at most so many together."""
    out: list[list[Row]] = []
    ordered = sorted(some, key=lambda r: (r.operands, _slow(r.name)))
    for row in ordered:
        last = out[-1][-1] if out else None
        new = last is None or len(out[-1]) == most or last.operands != row.operands or (
            _slow(last.name) != _slow(row.name))
        if new:
            out.append([])
        out[-1].append(row)
    return out


def parse(text: str) -> dict[tuple[bool, str, str], Cell]:
    """The cells of a page, by whether it is a value, label and type."""
    out: dict[tuple[bool, str, str], Cell] = {}
    value = True
    for line in text.splitlines():
        value = value and line != "## Gradients"
        found = re.match(r"\| `([\w ]+)` \|(.*)\|$", line)
        if found is None:
            continue
        cells = [c.strip() for c in found[2].split("|")]
        for i, dtype in enumerate(FORMATS):
            out[value, found[1], dtype] = (cells[2 * i], cells[2 * i + 1])
    return out


def page(table: Mapping[tuple[bool, str, str], Cell]) -> str:
    """The whole page."""
    lines = [HEAD, _measured_on()]
    for value, title in ((True, "Values"), (False, "Gradients")):
        lines += [f"## {title}", "", "| function |" + "".join(f" {d} | torch |" for d in FORMATS),
                  "|---|" + "--:|" * 8]
        for row in rows():
            if (row.of < 0) == value and (value, row.label, "float32") in table:
                cells = [c for d in FORMATS for c in table[value, row.label, d]]
                lines.append(f"| `{row.label}` | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _measured_on() -> str:
    return ("Measured on x86-64, with code for AVX-512 and AVX2, which gave the same bits at all "
            "points. Code\nfor aarch64 and for GPUs does the same operations "
            "([back ends](architecture/backends.md)); it was not\nmeasured here. torch 2.13.0, one "
            "thread. `gelu tanh` is `gelu` with `approximate=\"tanh\"`; other\nattributes are the "
            "defaults, or those of an op's first sample (`leaky_relu` 0.2, `clamp` to [2, 5],\n"
            "`threshold` 0.5).\n")


def missing(table: Mapping[tuple[bool, str, str], Cell]) -> list[str]:
    """What is wrong with a page's rows."""
    want = {(r.of < 0, r.label) for r in rows()}
    have = {key[:2] for key in table}
    return sorted({f"{label} has no row" for _, label in want - have}
                  | {f"{label} is no function" for _, label in have - want})


def main() -> int:
    """Measure, or check; 1 if the page is stale."""
    old = parse(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    if "--check" in sys.argv[1:]:
        wrong = missing(old)
        if not wrong and PAGE.read_text(encoding="utf-8") != page(old):
            wrong = ["the text is not that of the script"]
        for line in wrong:
            print(f"docs/accuracy.md is stale: {line}; run `python docs/make_accuracy.py`",
                  file=sys.stderr)
        return int(bool(wrong))
    only = sys.argv[2].split(",") if sys.argv[1:2] == ["--only"] else None
    some = [r for r in rows() if only is None or r.op in only]
    for group in groups(some):
        for dtype in FORMATS:
            for row, cell in measure(group, dtype, old):
                old[row.of < 0, row.label, dtype] = cell
        PAGE.write_text(page(old), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
