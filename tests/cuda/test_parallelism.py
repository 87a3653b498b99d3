"""How long one thread works where an op has one long line: what is done side by side, and what is a
chain whatever the machine. `python -m tests.cuda.test_parallelism` prints the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cellc_compiler.driver import compile_program, lower, optimize
from cellc_compiler.ir.op import all_ops
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.executable import Executable
from cellc_runtime.target import CHECKED

from ..backends.test_scalar import BLOCKED
from ..modes.law import bits
from .accesses import CheckedDevice
from .emulation import CPU, arrays_for, run_fresh

Array = np.ndarray[Any, Any]

N = 4096
"""Elements of the line."""
SHORT = 640
"""Accesses of one thread at most: runs of 128 elements that are read twice and written, or a sort's
stages. One that did a line alone would have twice as many as there are elements, or more."""

_POOL = "pads=(0, 0, 0, 0), ceil_mode=False"
_IMAGE = "%x: float32[1,1,64,64] input"


def _line(op: str, attrs: str = "", dtype: str = "float32", results: str = "") -> str:
    given = f"%x: {dtype}[1,{N}] input"
    outs = results or f"{dtype}[1,{N}]"
    names = [f"%{i}" for i in range(outs.count("[") or 1)]
    typed = ", ".join(f"{n}: {t}" for n, t in zip(names, outs.split(";"), strict=True))
    return (f"graph g({given}) {{\n  {typed} = {op}(%x) {{{attrs}}}\n"
            f"  return {', '.join(names)}\n}}")


def _graph(inputs: str, out: str, call: str) -> str:
    return f"graph g({inputs}) {{\n  %0: {out} = {call}\n  return %0\n}}"


def _scatter(op: str, mode: str, dtype: str, attrs: str) -> str:
    return _graph(f"%x: {dtype}[512] input, %i: int32[{N}] input, %u: {dtype}[{N}] input",
                  f"{dtype}[512]", f'{op}(%x, %i, %u) {{axis=0, mode="{mode}"{attrs}}}')


_WALK = "axis=1, exclusive=False, reverse=False"
_BOTH = f"float32[1,{N}];int32[1,{N}]"
LINES = {
    **{f"{op} of {what}": _line(op, f"{key}={axis}, keepdims=False", dtype, f"{out}[1]")
       for op, key, axis, dtype, out in (
           ("argmax", "axis", "1", "float32", "int64"), ("argmin", "axis", "1", "float32", "int64"),
           ("reduce_all", "axes", "(1,)", "bool", "bool"),
           ("reduce_any", "axes", "(1,)", "bool", "bool"),
           ("reduce_max", "axes", "(1,)", "float32", "float32"),
           ("reduce_min", "axes", "(1,)", "float32", "float32"),
           ("reduce_prod", "axes", "(1,)", "float32", "float32"),
           ("reduce_sum", "axes", "(1,)", "float32", "float32")) for what in ("a row",)},
    "reduce_sum of a column": _graph(f"%x: float32[{N},1] input", "float32[1]",
                                     "reduce_sum(%x) {axes=(0,), keepdims=False}"),
    "reduce_sum of few columns": _graph(f"%x: float32[{N},4] input", "float32[4]",
                                        "reduce_sum(%x) {axes=(0,), keepdims=False}"),
    "cumsum": _line("cumsum", _WALK),
    "cumsum of integers": _line("cumsum", _WALK, "int32"),
    "cumprod": _line("cumprod", _WALK),
    "cumprod of integers": _line("cumprod", _WALK, "int32"),
    "cummax": _line("cummax", "axis=1", results=_BOTH),
    "cummin": _line("cummin", "axis=1", results=_BOTH),
    "logcumsumexp": _line("logcumsumexp", "axis=1"),
    "linear_recurrence": _graph(
        f"%x: float32[1,{N}] input, %a: float32[1,{N}] input", f"float32[1,{N}]",
        "linear_recurrence(%x, %a) {axis=1, reverse=False}"),
    "sort_lines": _line("sort_lines", "descending=False", results=_BOTH),
    "topk": _line("topk", "k=4, axis=-1, largest=True", results="float32[1,4];int32[1,4]"),
    "true_positions": _graph(f"%x: bool[{N}] input, %n: int64[] input", "int64[100]",
                             "true_positions(%x, %n) {size=100}"),
    "random_permutation": _graph("%k: uint64[2] input", f"int32[{N}]",
                                 f"random_permutation(%k) {{n={N}}}"),
    **{f"scatter, {mode}": _scatter("scatter", mode, "float32", ", batch_dims=0")
       for mode in ("update", "add", "mul", "max")},
    "scatter, integers added": _scatter("scatter", "add", "int32", ", batch_dims=0"),
    "scatter_lines, update": _scatter("scatter_lines", "update", "float32", ""),
    "scatter_lines, add": _scatter("scatter_lines", "add", "float32", ""),
    "scatter to one place": _graph(
        f"%x: float32[1] input, %i: int32[{N}] input, %u: float32[{N}] input", "float32[1]",
        'scatter(%x, %i, %u) {axis=0, mode="add", batch_dims=0}'),
    "scatter of integers to one place": _graph(
        f"%x: int32[1] input, %i: int32[{N}] input, %u: int32[{N}] input", "int32[1]",
        'scatter(%x, %i, %u) {axis=0, mode="add", batch_dims=0}'),
    "join_copy": _graph(f"%x: float32[{N}] input, %y: float32[1] input", f"float32[{N + 1}]",
                        "join_copy(%x, %y) {axis=0}"),
    "matmul": _graph(f"%x: float32[1,{N}] input, %y: float32[{N},1] input", "float32[1,1]",
                     "matmul(%x, %y) {transpose_a=False, transpose_b=False}"),
    "matmul of integers": _graph(
        f"%x: int32[1,{N}] input, %y: int32[{N},1] input", "int32[1,1]",
        "matmul(%x, %y) {transpose_a=False, transpose_b=False}"),
    "dequantized_matmul": _graph(
        f"%x: float32[1,{N}] input, %w: float16[1,{N},64] input", "float32[1,2]",
        "dequantized_matmul(%x, %w) {columns=2, group=0}"),
    "avg_pool2d": _graph(
        _IMAGE, "float32[1,1,1,1]", "avg_pool2d(%x) {kernel=(64, 64), stride=(64, 64), "
        f"{_POOL}, count_include_pad=True, divisor=None}}"),
    "avg_pool2d_backward": _graph(
        "%x: float32[1,1,1,1] input", "float32[1,1,64,64]",
        "avg_pool2d_backward(%x) {size=(64, 64), kernel=(64, 64), stride=(64, 64), "
        f"{_POOL}, count_include_pad=True, divisor=None}}"),
    "adaptive_avg_pool2d": _graph(_IMAGE, "float32[1,1,1,1]",
                                  "adaptive_avg_pool2d(%x) {output_size=(1, 1)}"),
    "adaptive_avg_pool2d_backward": _graph(
        "%x: float32[1,1,1,1] input", "float32[1,1,64,64]",
        "adaptive_avg_pool2d_backward(%x) {size=(64, 64), output_size=(1, 1)}"),
    "adaptive_max_pool2d": _graph(
        _IMAGE, "float32[1,1,1,1]",
        "adaptive_max_pool2d(%x) {output_size=(1, 1), indices=False}"),
    "adaptive_max_pool2d_backward": _graph(
        f"{_IMAGE}, %y: float32[1,1,2,2] input", "float32[1,1,64,64]",
        "adaptive_max_pool2d_backward(%x, %y) {output_size=(2, 2)}"),
    "max_pool2d": _graph(
        _IMAGE, "float32[1,1,1,1]", "max_pool2d(%x) {kernel=(64, 64), stride=(64, 64), "
        f"{_POOL}, dilation=(1, 1), indices=False}}"),
    "max_pool2d_backward": _graph(
        f"{_IMAGE}, %y: float32[1,1,4,4] input", "float32[1,1,64,64]",
        "max_pool2d_backward(%x, %y) {kernel=(16, 16), stride=(16, 16), "
        f"{_POOL}, dilation=(1, 1)}}"),
    "conv2d": _graph(
        "%x: float32[1,256,4,4] input, %w: float32[1,256,4,4] input", "float32[1,1,1,1]",
        "conv2d(%x, %w) {stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1}"),
    "conv2d_backward_data": _graph(
        "%y: float32[1,256,4,4] input, %w: float32[256,1,4,4] input", "float32[1,1,7,7]",
        "conv2d_backward_data(%y, %w) {size=(7, 7), stride=(1, 1), pads=(0, 0, 0, 0), "
        "dilation=(1, 1), groups=1}"),
    "conv2d_backward_weight": _graph(
        "%x: float32[1,1,64,64] input, %y: float32[1,1,64,64] input", "float32[1,1,1,1]",
        "conv2d_backward_weight(%x, %y) {kernel=(1, 1), stride=(1, 1), pads=(0, 0, 0, 0), "
        "dilation=(1, 1), groups=1}"),
}

ELSEWHERE = {"custom_kernel"}
"""What a user's kernel does is the user's."""


@dataclass(frozen=True)
class Work:
    """What the kernels of a graph do.

    Attributes:
        threads: of each launch.
        longest: accesses of memory by one thread of a launch at most.
        right: whether they give the CPU's bits, and nothing is raced for.
    """

    threads: list[int]
    longest: int
    right: bool


def survey(text: str) -> Work:
    """A graph on a checked device."""
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 512, a.shape).astype(np.int32) if a.dtype == np.int32 else a
              for a in arrays_for(text, lambda shape: rng.normal(size=shape))]
    if "[1] input" in text:
        arrays[1][:] = 0
    want = Executable(compile_program(parse_graph(text), CPU, use_cache=False)).call(arrays)
    device = CheckedDevice(seed=1, capacity=1 << 23)
    got = run_fresh(device, text, arrays)
    found = device.accesses()
    assert not found.lost
    who = np.stack([found.records[k] for k in ("launch", "block", "tid")])
    longest = int(np.unique(who, axis=1, return_counts=True)[1].max())
    target = CHECKED["checked-sm_90a"]
    lowered = lower(optimize(parse_graph(text), target=target), target)
    codes = [i.kernel.code for i in walk(lowered.instructions) if isinstance(i, Call)]
    right = not found.faults() and all(
        bits(a) == bits(b) for a, b in zip(got, want, strict=True))
    return Work([c.blocks * c.threads for c in codes], longest, right)


_WINDOW = "a window is a thread's: networks have many small ones"
CHAINS = {
    "reduce_sum of few columns": "a column is one chain, up to 2^18 elements",
    "cumprod": "floats: products of runs may leave the range that the whole one stays in",
    "logcumsumexp": "each sum is scaled by the largest element before it",
    "linear_recurrence": "each element is rounded before it is multiplied",
    "scatter to one place": "floats are added in their order",
    "dequantized_matmul": "an element is one chain a segment, in the order of segments",
    "conv2d": "an element is one chain", "conv2d_backward_data": "an element is one chain",
    "avg_pool2d": _WINDOW, "adaptive_avg_pool2d": _WINDOW, "max_pool2d": _WINDOW,
    "adaptive_max_pool2d": _WINDOW, "adaptive_max_pool2d_backward": _WINDOW,
}
"""What one thread does alone, and why."""


@pytest.mark.parametrize("name", LINES)
def test_long_lines(name: str) -> None:
    """No thread does a line alone but where the bits ask for it."""
    work = survey(LINES[name])
    assert work.right
    assert (work.longest > SHORT) == (name in CHAINS), work


def test_every_op_is_there() -> None:
    """All that is no elementwise function of its operands, of whose elements each is a thread's."""
    ops = {op.name for op in all_ops() if op.reduction or op.opaque} - BLOCKED - ELSEWHERE
    assert ops <= {name.split()[0].strip(",") for name in LINES}


def main() -> None:
    """See the module."""
    for name, text in LINES.items():
        work = survey(text)
        print(f"{name:34} {work.longest:6} {work.threads} {'' if work.right else 'WRONG'}")


if __name__ == "__main__":
    main()
