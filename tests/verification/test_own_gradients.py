"""Gradients that users write (`bprop`): wrong ones are findings, declared ones are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops, testing
from cellc.verification import verify

X = Tensor(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32))
KEY = "gradient: as a whole it is not the derivative, as bprop_differs of Declared declares"


class Half(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x * x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout * x,)


class Right(Half):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout * 2 * x,)


class OneElement(Half):
    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        wrong = ops.zeros_like(x)
        wrong[2, 1] = 50.0
        return (dout * 2 * x + wrong,)


class Declared(nn.Cell):
    """A straight-through estimator."""

    bprop_differs = True

    def construct(self, x: Tensor) -> Tensor:
        return ops.tanh(x * 3)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout,)


class Uses(nn.Cell):
    def __init__(self, inner: nn.Cell) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.inner = inner

    def construct(self, x: Tensor) -> Tensor:
        return self.inner(self.fc(x)).sum()


@pytest.mark.parametrize("cell", [Half, OneElement])
def test_a_wrong_bprop_is_a_finding(cell: type[nn.Cell]) -> None:
    for net in (cell(), Uses(cell())):
        report = verify(net, X)
        assert report.status == 1
        (found,) = [f for f in report.findings if f.where == f"gradient: bprop of {cell.__name__}"]
        assert "the worst element: input 0[" in found.message and "by bprop" in found.message
        if cell is OneElement:
            assert "input 0[2, 1]" in found.message


class WrongLater(nn.Cell):
    """A bprop that is right in the first call only."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def construct(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, ...]:
        return (dout,)


def test_a_bprop_that_is_wrong_in_the_second_call() -> None:
    report = verify(WrongLater(), X)
    assert report.status == 1
    assert "bprop of WrongLater" in report.findings[0].where


def test_right_and_declared_ones_are_none() -> None:
    assert verify(Uses(Right()), X).status == 0
    report = verify(Uses(Declared()), X)
    assert (report.status, report.findings, report.notes) == (0, [], [KEY]), report
    one = Declared()
    one.bprop_differs = False
    assert verify(Uses(one), X).status == 1


def test_bisect_names_the_rule(tmp_path: Path) -> None:
    found = testing.bisect(Uses(Half()), X, grad=True, isolate=False)
    assert (found.symptom, found.stage) == ("rule", "bprop of Half"), found
    assert not testing.bisect(Uses(Right()), X, grad=True, isolate=False).found
    found.save(tmp_path / "s.cellcase")
    assert testing.replay(tmp_path / "s.cellcase", isolate=False).status == 1


class ModeDependent(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        if ms.get_context("mode") == ms.GRAPH_MODE:
            return x + 1
        return x


@pytest.mark.parametrize("name", ["s.txt", "s.cellcase"])
def test_bisect_of_a_network_that_reads_the_mode(name: str, tmp_path: Path) -> None:
    found = testing.bisect(ModeDependent(), X, isolate=False)
    assert (found.symptom, found.op, found.stage) == ("mode", "add", "the network"), found
    assert "construct reads the mode" in str(found) and "smallest graph: 1 node, 1 graph " in \
        str(found)
    found.save(tmp_path / name)
    again: Any = testing.replay(tmp_path / name, isolate=False)
    assert again.status == 1 and "construct in PyNative gave something else" in str(again)
