"""Trials of Cells that print, check, assign, change in place and draw, in branches and loops.

Statements are those of `states.py`, some of them under a condition or in a loop that only the run
knows. In both modes the same is printed in the same order, the same call fails with the same error,
and all results and states are the same, to the bit. A call that fails changes nothing in graph
mode.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

import cellc as ms
from cellc import Tensor
from cellc_runtime import loader

from ...modes.law import Array, arrays_of, mode
from .finding import Finding, Trial
from .network import Different, same
from .states import EFFECTS, Fill, made, program, statements, without

SUFFIX = ".cell"
_AT_ONCE = 4
"""Cells of a trial."""

TOLD = (
    'print("row", {row} * 1)', 'print("number", {number}, "shape", {rows}.shape)',
    'ops.print_("table", {table}[{i}] * 1)', 'print("count", self.count + 1)',
    'assert {number} < 0.02, "a number is high"', 'assert ops.all({row} > -0.3), f"row {i}"',
    'ops.Assert()({number} < 0.1, [{row}])', 'assert self.count < 1',
    "self.p.copy_(ops.rand(3, 4))", "self.n.add_(ops.randn(4))",
    "ops.assign(self.n, ops.dropout(self.n + 1, 0.5))",
)
"""What the outside sees, what may fail, and draws that stay."""
AROUND = (
    "if {number} > 0.2:\n            {effect}",
    "if {number} < {number}:\n            {effect}\n        else:\n            {effect}",
    "for k in range(2):\n            {effect}\n            {effect}",
    "left = {number} * 0\n        while left < 2:\n            {effect}\n"
    "            left = left + 1",
    "if self.count > 1:\n            {effect}\n            if {number} > 0:\n"
    "                {effect}",
)
"""Conditions and loops of the run around other statements."""
AT_RUN = "\n            "
"""What programs have in them of which a part may not be taken."""


def effect(rng: np.random.Generator, filled: Fill) -> str:
    """One statement that has an effect, or some under a condition or in a loop."""
    def simple() -> str:
        every = TOLD if rng.random() < 0.5 else EFFECTS
        return filled(every[int(rng.integers(len(every)))])

    if rng.random() < 0.6:
        return simple()
    form = filled(AROUND[int(rng.integers(len(AROUND)))].replace("{effect}", "@"))
    while "@" in form:
        form = form.replace("@", simple(), 1)
    return form


Call = tuple[list[Array], list[str], str]
"""Results and state, what was printed, and the error."""


def calls(source: str, in_mode: int) -> list[Call]:
    """Some calls in a mode, before them the state; a number of rows is compiled anew."""
    rng = np.random.default_rng(1)
    found: list[Call] = []
    with mode(in_mode):
        ms.set_seed(3)
        net = made(source)

        def state() -> list[Array]:
            return [*(np.array(p._data) for p in net.get_parameters()),
                    np.array(ms.default_generator().state._data)]

        found.append((state(), [], ""))
        for rows in (3, 3, 2, 3):
            x = Tensor(rng.uniform(-1, 1, (rows, 4)).astype(np.float32))
            arrays: list[Array] = []
            raised = ""
            with redirect_stdout(io.StringIO()) as stream:
                try:
                    arrays += [*arrays_of(net(x)), np.array(x._data)]
                except Exception as e:
                    name = type(e).__name__.removeprefix("Run")  # a subclass, with the line
                    raised = f"{name}: {e}".splitlines()[0]
            found.append((arrays + state(), stream.getvalue().splitlines(), raised))
    return found


def told_by(source: str, threads: int) -> str:
    """What is wrong with a program; "" if nothing is."""
    before = loader.num_threads()
    eager = calls(source, ms.PYNATIVE_MODE)
    try:
        loader.set_num_threads(threads)
        graph = calls(source, ms.GRAPH_MODE)
    finally:
        loader.set_num_threads(before)
    state = graph.pop(0)[0]
    for number, ((want, said, raised), (got, heard, refused)) in enumerate(
            zip(eager[1:], graph, strict=True)):
        untaken = refused.startswith("Compile") and AT_RUN in source
        if bool(raised) != bool(refused) and not untaken:
            return (f"Raises: call {number}: PyNative {raised or 'gives results'}; graph mode "
                    f"{refused or 'gives results'}")
        if refused.startswith("Compile"):
            return ""  # before it has done anything, maybe for a branch that is not taken
        if raised != refused:
            return f"Raises: call {number}: PyNative {raised}; graph mode {refused}"
        if said != heard:
            return f"Prints: call {number}: PyNative {said}; graph mode {heard}"
        try:
            if raised:  # PyNative stops in the middle
                same(got, state, f"call {number} that fails, in graph mode: state and before")
                return ""
            same(got, want, f"call {number}: graph mode and PyNative")
        except Different as e:
            return f"Different: {e}"
        state = got[-len(state):]
    return ""


def smallest(lines: Sequence[str], threads: int, told: str) -> list[str]:
    """The program without the statements that the fault does not need."""
    kind = told.split(":")[0]
    return without(lines, lambda fewer: (
        (shown := told_by(program(fewer), threads)).split(":")[0] == kind
        and "NameError" not in shown))


def trial(seed: int) -> Trial:
    """Some Cells."""
    rng = np.random.default_rng([seed, 19])
    for _ in range(_AT_ONCE):
        lines, threads = statements(rng, effect), (1, 2, 4)[int(rng.integers(3))]
        try:
            told = told_by(program(lines), threads)
        except Exception as e:
            told = f"{type(e).__name__}: {e}".splitlines()[0]
        if told:
            source = program(smallest(lines, threads, told))
            return Trial(finding=Finding("effects", seed, told.splitlines()[0],
                                         f"# {threads}\n{source}", SUFFIX))
    return Trial({"programs": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    head, source = path.read_text().split("\n", 1)
    return told_by(source, int(head[1:]))
