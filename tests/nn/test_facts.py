"""Facts about Cells, Parameters, containers and initializers, recorded from MindSpore 2.10.

`facts/` has a module of small programs for each subject, and beside it what MindSpore gave for
each, in each mode. Here they run under cellc in both modes; with CELLC_ORACLE_PYTHON set, MindSpore
is asked again. `python -m tests.nn.facts.record SUBJECT` records a subject.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..others import needs_oracle
from .facts import record, runner

SUBJECTS = [p.stem for p in sorted((Path(__file__).parent / "facts").glob("*.json"))]
DIFFERENT: dict[tuple[str, ...], str] = {
    ("cell", "pickles"): "MindSpore cannot pickle its Primitives; Cells of cellc can be pickled",
    ("cell", "to_float_results"): "MindSpore casts in PyNative mode only",
    ("containers", "called"): "MindSpore raises ValueError in graph mode",
    ("gradients", "integer_inputs"): "MindSpore gives integers a gradient, rounded; here zeros",
    ("gradients", "integer_outputs"): "MindSpore differentiates integers; here a TypeError",
    ("gradients", "identifiers_of_positions", "pynative"): "MindSpore: the form of a tuple of one "
    "position, and for position 1 a gradient without its shape",
    **{("gradients", name, "pynative"): "MindSpore gives zeros in PyNative mode, and the gradient "
       "in graph mode, of a Parameter with requires_grad=False; here both give the gradient"
       for name in ("identifiers_of_weights", "found_by_identifier", "unused_and_untrained",
                    "grad_operation_of_weights")},
}
"""What is otherwise here (in one mode, if a mode is named), and why; tests of its own say how."""


def _recorded(subject: str) -> dict[str, Any]:
    text = (Path(__file__).parent / "facts" / f"{subject}.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


CASES = [(s, name) for s in SUBJECTS for name in _recorded(s)]


@pytest.mark.parametrize("mode", ["graph", "pynative"])
@pytest.mark.parametrize(("subject", "name"), CASES, ids=[f"{s}-{n}" for s, n in CASES])
def test_the_same_as_mindspore(subject: str, name: str, mode: str) -> None:
    why = DIFFERENT.get((subject, name)) or DIFFERENT.get((subject, name, mode))
    if why:
        pytest.skip(why)
    recorded = _recorded(subject)[name]
    assert runner.run(runner.cases(subject)[name], mode) == recorded.get("both", recorded.get(mode))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_fact_is_recorded(subject: str) -> None:
    assert set(runner.cases(subject)) == set(_recorded(subject))


@needs_oracle
@pytest.mark.parametrize("subject", SUBJECTS)
def test_mindspore_still_says_so(subject: str) -> None:
    assert record.ask(subject) == _recorded(subject)
