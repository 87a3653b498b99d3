"""Bad programs: the kind MindSpore raises, in both modes, and the messages of graph mode.

`bad_program_kinds.json` has what MindSpore 2.10 raises in PyNative and in graph mode, as printed by
`bad_programs.py`. Where its modes differ, PyNative (that is, Python) is right here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .bad_programs import PROGRAMS, failure, kind_of

RECORDED: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "bad_program_kinds.json").read_text(encoding="utf-8"))

OTHERWISE = {
    # Its documents say ValueError; what its kernels raise is a RuntimeError.
    "matmul_shapes": "ValueError", "matmul_operator": "ValueError", "conv_channels": "ValueError",
    "roll_axis": "ValueError", "dropout_p": "ValueError",
    "matmul_ints_floats": "",  # promoted here
    "slice_string": "TypeError",  # as its graph mode and as Python
    "assign_string": "TypeError",  # the value is wrong, not the index
}
"""What cellc raises where it leaves MindSpore's PyNative on purpose."""


def wanted(name: str) -> str:
    return OTHERWISE.get(name, RECORDED[name][0])


def test_enough_programs() -> None:
    assert set(RECORDED) == set(PROGRAMS) and set(OTHERWISE) <= set(PROGRAMS)
    assert len(PROGRAMS) >= 120
    assert all(OTHERWISE[n] != RECORDED[n][0] for n in OTHERWISE)


@pytest.mark.parametrize("graph", [False, True], ids=["pynative", "graph"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kind(name: str, graph: bool) -> None:
    assert kind_of(failure(name, PROGRAMS[name], "cellc", graph)) == wanted(name)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if wanted(n)])
def test_message(name: str, golden: Callable[[str, str], None]) -> None:
    """The message, with the notes of what is raised at run time."""
    error = failure(name, PROGRAMS[name], "cellc", True)
    assert error is not None
    golden(f"bad/{name}", "\n".join([str(error), *getattr(error, "__notes__", ())]))
