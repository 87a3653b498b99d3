"""Hints: names of PyTorch, a `construct` without return, a compilation that was interrupted."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled import entries
from cellc.core import other_names


class Forward(nn.Cell):
    def forward(self, x):
        return x


class OfTensor(nn.Cell):
    def construct(self, x):
        return (x * x).backward()


class OfCell(nn.Cell):
    def construct(self, x):
        return self.eval()


def said(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error))


@pytest.mark.parametrize(("wrong", "kind", "hint"), [
    (lambda: nn.Conv2d(1, 2, 3, bias=True), TypeError, "hint: here it is 'has_bias'"),
    (lambda: nn.Adam([ms.Parameter(1.0)], lr=1), TypeError, "hint: here it is 'learning_rate'"),
    (lambda: nn.Dense(2, 2).eval(), AttributeError, "hint: write set_train(False)"),
    (lambda: nn.Dense(2, 2).parameters(), AttributeError, "hint: write trainable_params()"),
    (lambda: ms.Tensor(1.0).backward(), AttributeError, "hint: write ms.grad"),
    (lambda: ms.Tensor.cuda, AttributeError, "hint: write ms.set_context"),
    (lambda: nn.Module, AttributeError, "use nn.Cell"),
    (lambda: ms.no_grad, AttributeError, "only where ms.grad"),
])
def test_a_name_of_torch(wrong: Callable[[], object], kind: type[Exception], hint: str) -> None:
    with pytest.raises(kind, match=r".") as caught:
        wrong()
    assert hint in said(caught.value)


@pytest.mark.parametrize("cell", [OfTensor, OfCell, Forward])
@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_both_modes_give_the_hint(cell: type[nn.Cell], mode: int) -> None:
    ms.set_context(mode=mode)
    with pytest.raises(AttributeError, match=r".") as caught:
        cell()(ops.ones(2))
    hint = {OfTensor: "write ms.grad", OfCell: "write set_train(False)",
            Forward: "Rename its method 'forward' to 'construct'."}[cell]
    assert hint in said(caught.value)


def test_the_names_that_hints_speak_of_are_there() -> None:
    assert not [name for name in other_names.ATTRIBUTES if hasattr(ms.Tensor(1.0), name)]
    taken = {p for layer in (nn.Dense, nn.Conv2d, nn.Adam, nn.Embedding)
             for p in layer.__init__.__annotations__}
    assert {"has_bias", "learning_rate", "in_channels", "out_channels", "group"} <= taken


class Silent(nn.Cell):
    def construct(self, x):
        x + 1


class Assigns(nn.Cell):
    def __init__(self):
        super().__init__()
        self.kept = ms.Parameter(np.zeros(2, np.float32))
        self.calls = 0

    def construct(self, x):
        self.calls += 1
        ops.assign(self.kept, x + 1)


class Prints(nn.Cell):
    def construct(self, x):
        print(x + 1)


@pytest.mark.parametrize("cell", [Silent, Assigns, Prints])
def test_a_construct_without_return_warns(
    cell: type[nn.Cell], caplog: pytest.LogCaptureFixture
) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with caplog.at_level(logging.WARNING, "cellc"):
        assert cell()(ops.ones(2)) is None
    assert ("does it end without return?" in caplog.text) is (cell is Silent)


def test_an_interrupted_compilation_shows_the_users_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entries.EntryTable, "_made", interrupted)
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(KeyboardInterrupt, match="Silent was being compiled") as caught:
        Silent()(ops.ones(2))
    assert caught.value.__suppress_context__
    assert len(traceback.extract_tb(caught.value.__traceback__)) < 8
