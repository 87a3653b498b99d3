"""Trials of random Cells with state: Parameters that are assigned, views that are written through,
tensors changed in place, draws, and sizes left open; called some times, in both modes.

A program is a list of statements. Each is made from a form that says what kinds of values it reads
and gives: rows (any number of them, of 4), a table of 3 by 4, a row, a number. Leaving statements
out one by one makes it small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn
from cellc_runtime import loader

from ...modes.law import Array, arrays_of, mode
from .finding import Finding, Trial
from .network import Different, same

SUFFIX = ".cell"
_AT_ONCE = 5
"""Cells of a trial."""

FORMS = {
    "rows": (
        "ops.relu({rows}) - {row}", "{rows} * {number}", "ops.softmax({rows}, -1)",
        "ops.matmul(ops.matmul({rows}, {table}.T), {table})", "ops.tanh({rows}.cumsum(0))",
        "ops.cat(({rows}, {rows}), 0)[:x.shape[0]]", "{rows}.reshape(-1, 2).reshape(-1, 4)",
        "{rows} * x.shape[0]", "ops.sort({rows}, 0)[0]", "ops.flip({rows}, (0,))",
        "ops.dropout({rows}, 0.3, training=True)", "{rows} + ops.rand_like({rows})",
        "ops.where({rows} > {number}, {rows}, {rows})", "self.norm({rows})",
        "{rows} if x.shape[0] > 2 else {rows} * 2", "{rows} - {rows}.mean(0, keep_dims=True)",
        "ops.dropout(ops.pad({rows}, (0, 0, 1, 1)), 0.5)[1:-1]", "ops.stack(({rows}, {rows}))[1]",
        "ops.masked_fill({rows}, {rows} < 0, {number})", "ops.gather({rows}, {rows}.argmax(0), 0)"
        "[:1] + {rows}"),
    "table": (
        "ops.tanh({table})", "{table} + ops.rand(3, 4)", "{table} - {row}", "self.p * 1",
        "ops.outer({row}[:3], {row})", "{table}.view(4, 3).T", "{table}[::-1]",
        "ops.broadcast_to({row}, (3, 4))"),
    "row": (
        "ops.tanh({rows}.sum(0))", "{rows}.mean(0)", "{table}[{i}]", "{rows}[0]", "{rows}[-1]",
        "{table}.amax(0)", "self.n + {number}", "{table}.T[:, {i}]", "ops.sigmoid({row})"),
    "number": ("ops.tanh({rows}.sum())", "{row}.mean()", "{table}.max()", "{table}[{i}, {j}]",
               "ops.rand(1)[0]"),
}
EFFECTS = (
    "ops.assign(self.p, ops.tanh({table}))", "ops.assign_add(self.n, ops.tanh({row}))",
    "ops.assign_sub(self.n, {row} * 0.1)", "self.p[{i}] = {row}", "self.p[:, {j}] = {number}",
    "self.n[{j}] = {number}", "{rows}[0] = {row}", "{rows}[:, {j}] = {number}",
    "{rows}[:, 1:3] += {number}", "{table}[{i}, 1:] = {number}", "{table}.T[{j}] = {row}[:3]",
    "{rows}.view(-1)[{j}] = {number}", "{table}.view(-1)[{i}:9] = {number}", "{rows}.add_({row})",
    "{table}.mul_(0.5)", "{row}.sub_({number})", "{row}[{rows}[0] > {number}] = 0.5",
    "self.n.set_data(ops.tanh({row}))", "self.count += 1", "self.p.copy_(ops.tanh({table}))",
)
"""What changes a Parameter, a local or what it is a view of."""
CLASS = '''import cellc as ms
from cellc import Parameter, Tensor, nn, ops
import numpy as np


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor(np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float32)), "p")
        self.n = Parameter(Tensor(np.linspace(0.5, 1.5, 4).astype(np.float32)), "n")
        self.count = Parameter(Tensor(0, ms.int32), "count", requires_grad=False)
        self.norm = nn.BatchNorm1d(4)

    def construct(self, x):
'''


Fill = Callable[[str], str]
"""Puts values of a program into a form."""


def simple_effect(rng: np.random.Generator, filled: Fill) -> str:
    """A statement that changes something."""
    return filled(EFFECTS[int(rng.integers(len(EFFECTS)))])


def statements(
    rng: np.random.Generator,
    effect: Callable[[np.random.Generator, Fill], str] = simple_effect,
) -> list[str]:
    """Some statements, the last of which gives results."""
    known = {"rows": ["x"], "table": ["self.p"], "row": ["self.n"], "number": ["x.mean()"]}
    lines = []

    def filled(form: str) -> str:
        while "{" in form:
            before, _, rest = form.partition("{")
            kind, _, after = rest.partition("}")
            named = known.get(kind)
            value = named[int(rng.integers(len(named)))] if named else str(rng.integers(3))
            form = before + value + after
        return form

    for number in range(int(rng.integers(3, 14))):
        if rng.random() < 0.35:
            lines.append(effect(rng, filled))
            continue
        kind = ("rows", "rows", "table", "row", "number")[int(rng.integers(5))]
        form = FORMS[kind][int(rng.integers(len(FORMS[kind])))]
        lines.append(f"v{number} = {filled(form)}")
        known[kind].append(f"v{number}")
    given = [names[-1] for names in known.values()]
    return [*lines, f"return {', '.join(given)}, self.p * 1, self.n + 0"]


def program(lines: Sequence[str]) -> str:
    """The source of a Cell."""
    return CLASS + "".join(f"        {line}\n" for line in lines)


def made(source: str) -> nn.Cell:
    """A Cell from its source."""
    space: dict[str, Any] = {"__source__": source, "__name__": "states"}
    exec(compile(source, "<states>", "exec"), space)
    net: nn.Cell = space["Net"]()
    return net.set_train()


def calls(source: str, way: int, in_mode: int) -> tuple[list[Array], str]:
    """Results and state of some calls in a mode, or the error.

    Args:
        way: 0 plainly, 1 with gradients, 2 with the number of rows left open.
    """
    rng = np.random.default_rng(way)
    found: list[Array] = []
    with mode(in_mode):
        ms.set_seed(3)
        try:
            net = made(source)
            run: Any = net
            if way == 1:
                run = ms.value_and_grad(lambda x: sum(r.sum() for r in net(x)), 0,
                                        net.trainable_params())
            if way == 2 and in_mode == ms.GRAPH_MODE:
                net.set_inputs(Tensor(shape=[None, 4], dtype=ms.float32))
            for rows in (3, 3, 5) if way < 2 else (3, 1, 7, 2):
                x = Tensor(rng.uniform(-1, 1, (rows, 4)).astype(np.float32))
                found += [*arrays_of(run(x)), np.array(x._data)]
            found += [np.array(p._data) for p in net.get_parameters()]
            found.append(np.array(ms.default_generator().state._data))
        except Exception as e:
            return [], f"{type(e).__name__}: {e}".splitlines()[0]
    return found, ""


def told_by(source: str, way: int, threads: int) -> str:
    """What is wrong with a program; "" if nothing is."""
    before = loader.num_threads()
    eager, raised = calls(source, way, ms.PYNATIVE_MODE)
    try:
        loader.set_num_threads(threads)
        graph, refused = calls(source, way, ms.GRAPH_MODE)
    finally:
        loader.set_num_threads(before)
    if bool(raised) != bool(refused):
        return (f"Raises: PyNative {raised or 'gives results'}; graph mode "
                f"{refused or 'gives results'}")
    try:
        same(graph, eager, f"way {way}: graph mode and PyNative")
    except Different as e:
        return f"Different: {e}"
    return ""


def without(lines: Sequence[str], shows: Callable[[list[str]], bool]) -> list[str]:
    """The statements, but for the last, that a fault needs."""
    kept = list(lines)
    for at in range(len(kept) - 2, -1, -1):
        fewer = kept[:at] + kept[at + 1:]
        if shows(fewer):
            kept = fewer
    return kept


def smallest(lines: Sequence[str], way: int, threads: int, told: str) -> list[str]:
    """The program without the statements that the fault does not need."""
    kind = told.split(":")[0]
    return without(lines, lambda fewer: (
        (shown := told_by(program(fewer), way, threads)).split(":")[0] == kind
        and "NameError" not in shown))


def trial(seed: int) -> Trial:
    """Some Cells, each in one way."""
    rng = np.random.default_rng([seed, 5])
    for _ in range(_AT_ONCE):
        lines, way = statements(rng), int(rng.integers(3))
        threads = (1, 2, 4)[int(rng.integers(3))]
        told = told_by(program(lines), way, threads)
        if told:
            source = program(smallest(lines, way, threads, told))
            return Trial(finding=Finding("states", seed, told.splitlines()[0],
                                         f"# {way} {threads}\n{source}", SUFFIX))
    return Trial({"programs": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    head, source = path.read_text().split("\n", 1)
    way, threads = map(int, head[1:].split())
    return told_by(source, way, threads)
