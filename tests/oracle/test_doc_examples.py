"""MindSpore's documentation examples print the same under cellc.

In PyNative mode, in graph mode, and in PyNative mode with the documented call under `jit`, each in
pieces: four to eight minutes of one core for a mode, most of it MindSpore's (`CELLC_ORACLE_CACHE`).
`known_differences.txt` lists the examples that differ, each with its reason: "graph:NAME" those
that differ there alone. The list may only shrink: an example that comes to agree must leave it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..others import ORACLE, needs_oracle
from .doc_examples import alike, collect, compare
from .jit_examples import under_jit

LEFT_OUT = ("mindspore.profiler.", "mindspore.hal.", "mindspore.communication.",
            "mindspore.mint.distributed.")
"""What is about devices and processes."""
PIPELINES = "mindspore.dataset."
"""Has no modes, so its examples run in the first alone."""
UNSTEADY = {"mindspore.dataset.DSCallback", "mindspore.dataset.uuid"}
"""Examples of which MindSpore itself prints now this, now that: threads race, ids are new."""
LONG = {"mindspore.nn.Conv2d", "mindspore.nn.Conv2dBnAct",
        "mindspore.nn.probability.bnn_layers.ConvReparam"}
"""Examples of several hundred thousand million operations: they may not end in time."""
PIECES = 4
KNOWN = Path(__file__).with_name("known_differences.txt")


def known(mode: str) -> dict[str, bool]:
    """The names in the list, and whether they are listed for this mode alone."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    names = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    return {n.removeprefix(f"{mode}:"): ":" in n for n in names
            if ":" not in n or n.startswith(f"{mode}:")}


@needs_oracle
@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.parametrize("mode", ["pynative", "graph", "jit"])
def test_examples_print_the_same(mode: str, piece: int) -> None:
    assert ORACLE
    examples = {n: t for n, t in collect(ORACLE).items()
                if not n.startswith(LEFT_OUT) and n not in LONG | UNSTEADY
                and (mode == "pynative" or not n.startswith(PIPELINES))}
    chosen = dict(list(examples.items())[piece::PIECES])
    report = compare(ORACLE, mode, chosen)
    different = {n: c.found.error or c.found.out for n, c in report.items() if c.verdict != "same"}
    listed = {n: alone for n, alone in known(mode).items() if n in chosen}
    assert len(report) > 250
    assert {n: why for n, why in different.items() if n not in listed} == {}
    own = {n for n, alone in listed.items() if alone or mode == "pynative"}
    assert own - set(different) == set(), "these agree now: take them off the list"


EXAMPLE = """\
>>> x = mindspore.tensor([1.0])
>>> net = nn.Dense(2, 3)
>>> out = net(x)
>>> print(ops.add(x, out, alpha=2), x.add(x))
"""


@pytest.mark.parametrize(("subject", "call", "outer"), [
    ("mindspore.ops.add", "return ops.add(a0, a1, alpha=2)",
     "print(jitted_0(x, out), jitted_1(x, x))"),
    ("mindspore.Tensor.add", "return a0.add(a1)", "print(jitted_0(x, out), jitted_1(x, x))"),
    ("mindspore.nn.Dense", "return net(a0)", "out = jitted_0(x)"),
])
def test_calls_go_under_jit(subject: str, call: str, outer: str) -> None:
    text = "".join(line.removeprefix(">>> ") for line in EXAMPLE.splitlines(keepends=True))
    lines = [line.strip() for line in under_jit(subject, text).splitlines()]
    assert call in lines and outer in lines
    assert lines[lines.index(call) - 2] == "@mindspore.jit"


def test_examples_without_the_call_stay_out() -> None:
    assert under_jit("mindspore.ops.mul", "x = ops.add(1, 2)") == ""
    assert under_jit("mindspore.ops.mul", "x = [ops.mul(i, 2) for i in y]") == ""
    assert "return mindspore.grad(net)(a0)" in under_jit(
        "mindspore.grad", "mindspore.grad(net)(x)")


@pytest.mark.parametrize(("expected", "found", "drawn", "same"), [
    ("[1. 2.]", "[1.00001 2.]", False, True),
    ("[1. 2.]", "[1.01 2.]", False, False),
    ("[1. 2.]", "[7. -3.]", True, True),
    ("[1. 2.]", "[1 2]", True, False),
    ("[1. 2.]", "[1. 2. 3.]", True, False),
    ("nan", "nan", False, True),
    ("nan", "1.0", False, False),
    ("Float32", "Float64", False, False),
])
def test_outputs_are_compared(expected: str, found: str, drawn: bool, same: bool) -> None:
    assert alike(expected, found, drawn) is same
