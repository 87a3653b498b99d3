"""Planted examples: each is sorted as it must be. MindSpore is not needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from ...oracle.doc_examples import Outcome, outcomes
from . import __main__ as campaign
from .__main__ import judge, report, sort
from .collecting import Example, collect, place_of

TEXT = '''
class Planted:
    """Examples:
        >>> net = mindspore.nn.ReLU()
        >>> net.set_train()
        >>> print(net(mindspore.Tensor([-1.0, 3.0])))
        [0.    3.00001]
    """
    def wrong(self):
        """Supported Platforms:
            ``Ascend`` ``CPU``

        Examples:
            >>> print(mindspore.ops.abs(mindspore.Tensor([-1.0, 2.0])))
            [1. 3.]
        """
    def _private(self):
        """Examples:
            >>> print(1)
            1
        """
def raises():
    """Examples:
        >>> mindspore.ops.no_such_function(1)
    """
def raises_elsewhere():
    """Supported Platforms:
        ``Ascend``

    Examples:
        >>> mindspore.ops.no_such_function(2)
    """
def drawn():
    """Examples:
        >>> mindspore.set_seed(3)
        >>> print(mindspore.ops.standard_normal((2,)))
        [0.5 1.5]
    """
attach_docstr("attached", """Examples:
    >>> print({}, "abc")
    {...abc
""")
'''


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, Example]:
    package = tmp_path / "mindspore"
    for name in ("ops/planted.py", "ops/_private.py"):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT)
    return collect(package)


def test_public_examples_are_collected(planted: dict[str, Example]) -> None:
    assert {n.removeprefix("mindspore."): e.on_cpu for n, e in planted.items()} == {
        "ops.planted.Planted": True, "ops.planted.Planted.wrong": True, "ops.planted.raises": True,
        "ops.planted.raises_elsewhere": False, "ops.planted.drawn": True, "Tensor.attached": True}
    assert {place_of(n) for n in planted} == {"mindspore.ops", "mindspore.Tensor"}
    assert "\n_ = net.set_train()\n" in planted["mindspore.ops.planted.Planted"].program


def test_planted_examples_are_sorted(planted: dict[str, Example]) -> None:
    def mindspore(programs: Mapping[str, str]) -> dict[str, Outcome]:
        assert "mindspore.ops.planted.Planted" not in programs  # asked only where it is needed
        return {n: Outcome("[1. 2.]\n" if "drawn" in n else "", "E: x" if "elsewhere" in n else "")
                for n in programs}

    judged = judge(planted, partial(outcomes, sys.executable, "cellc", "pynative"), mindspore)
    assert {n.rpartition(".")[2]: j.kind for n, j in judged.items()} == {
        "Planted": "equal", "wrong": "differs", "raises": "raises", "raises_elsewhere": "device",
        "drawn": "equal", "attached": "equal"}
    lines = report(judged)
    assert "differs mindspore.ops.planted.Planted.wrong: " in lines
    assert "raises mindspore.ops.planted.raises: AttributeError: " in "".join(lines)
    assert lines[-1] == \
        "all: 60.0 % of 5 (3 equal, 1 differs, 1 raises, 1 device, 0 needs, 0 broken)"


@pytest.mark.parametrize(("program", "ours", "theirs", "kind"), [
    ("f()", Outcome("", "E: x"), Outcome("", "E: y"), "broken"),
    ("f()", Outcome("", "E: x"), None, "raises"),
    ("f('/path/to/file')", Outcome("", "E: x"), Outcome("", "E: y"), "needs"),
    ("init()", Outcome("2", ""), Outcome("", "E: y"), "needs"),
    ("f()", Outcome("2", ""), Outcome("", "E: y"), "differs"),
    ("f()", Outcome("2", ""), Outcome("2", ""), "equal"),
    ("f()", Outcome("2", ""), Outcome("3", ""), "differs"),
    ("f()", Outcome("[1, 5]", ""), Outcome("", "E: y"), "equal"),
    ("f()", Outcome("[1, 5]", ""), Outcome("", ""), "differs"),
])
def test_kinds(program: str, ours: Outcome, theirs: Outcome | None, kind: str) -> None:
    assert sort(Example(program, "1 5", True), ours, theirs, False).kind == kind


def test_nothing_runs_without_mindspore(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(campaign, "ORACLE", "")
    monkeypatch.setattr(sys, "argv", ["examples"])
    assert campaign.main() == 0
    assert capsys.readouterr().out == "nothing runs: CELLC_ORACLE_PYTHON is not set\n"
