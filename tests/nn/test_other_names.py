"""Hints: names of PyTorch, a `construct` without return or with numpy, a compilation that was
interrupted, errors of layers, counts."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled import entries
from cellc.core import construct_checks, other_names
from cellc_runtime.errors import counted


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
    (lambda: ms.Tensor(1.0).cpu(), AttributeError, "hint: write x.asnumpy()"),
    (lambda: nn.Module, AttributeError, "'Module': cellc does not have it; use nn.Cell"),
    (lambda: ms.no_grad, AttributeError, "only where ms.grad"),
    (lambda: ms.compile, AttributeError, "'compile': cellc does not have it; use ms.jit, or"),
    (lambda: ms.load_checkpoint("model.pt"), ValueError, "; load_torch_weights reads files"),
    (lambda: ms.export(nn.Dense(2, 2), ms.Tensor([[1.0, 2.0]]), file_name="net",
                       file_format="CELLC"), ValueError, "compile_artifact('NET.cellc', ("),
])
def test_a_name_of_torch(wrong: Callable[[], object], kind: type[Exception], hint: str) -> None:
    with pytest.raises(kind, match=r".") as caught:
        wrong()
    assert hint in said(caught.value)


@pytest.mark.parametrize(("line", "hint"), [
    ("from cellc.nn import Module", "'Module' from 'cellc.nn': cellc does not have it; use nn.C"),
    ("from cellc import no_grad", "'no_grad' from 'cellc': .* only where ms.grad"),
    ("from cellc import Conv2d", "'Conv2d' from 'cellc'; it is nn.Conv2d"),
    ("from cellc.ops import Conv2d", "'Conv2d' .*; did you mean 'Conv2D', or nn.Conv2d?"),
    ("from cellc.ops import DataLoader", "'DataLoader' .*: .*; use GeneratorDataset"),
    ("from cellc.mint.nn import ModuleList", "'ModuleList' from 'cellc.mint.nn': .* nn.CellList"),
    ("from cellc.nn import Dens", "'Dens' from 'cellc.nn'; did you mean 'Dense'?"),
])
def test_an_import_of_a_name_of_torch(line: str, hint: str) -> None:
    with pytest.raises(ImportError, match=f"^cannot import name {hint}"):
        exec(line)


@pytest.mark.parametrize(("line", "kind", "text"), [
    ("import cellc.nn.Module", ModuleNotFoundError, "use nn.Cell$"),
    ("import cellc.nn.Dense", ModuleNotFoundError, "^No module named 'cellc.nn.Dense'"),
    ("import cellc.nn.nodir", ModuleNotFoundError, "^No module named 'cellc.nn.nodir'"),
    ("from cellc.nn import nodir", ImportError, "^cannot import name 'nodir' from 'cellc.nn' "),
])
def test_other_imports_fail_as_ever(line: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        exec(line)


def test_no_module_has_a_name_that_hints_call_missing() -> None:
    """Except those that a module has beside the hint for the others."""
    there = {name for name in other_names.NAMES for path in other_names._PLACES
             if hasattr(importlib.import_module(path), name)}
    assert there == {"Parameter", "functional", "optim"}


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
    """A hint is read where the name is missing: at a Tensor or at a Cell."""
    assert not [name for name in other_names.ATTRIBUTES
                if hasattr(ms.Tensor(1.0), name) and hasattr(nn.Cell(), name)]
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


class Changes(nn.Cell):
    def __init__(self):
        super().__init__()
        self.kept = ms.Parameter(np.zeros(2, np.float32))

    def construct(self, x):
        self.kept += x + 1


class Abstract(nn.Cell):
    def construct(self, x):
        raise NotImplementedError(x + 1)


class Sometimes(nn.Cell):
    def construct(self, x):
        if x.shape[0] > 2:
            return x + 1
        return None


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize("cell", [Silent, Assigns, Prints, Changes, Abstract, Sometimes])
def test_a_construct_without_return_warns_once(
    cell: type[nn.Cell], mode: int, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(construct_checks, "_told", set())
    ms.set_context(mode=mode)
    with caplog.at_level(logging.WARNING, "cellc"):
        for _ in range(2 if mode == ms.PYNATIVE_MODE else 1):
            with pytest.raises(NotImplementedError, match=r".") if cell is Abstract else \
                    nullcontext():
                assert cell()(ops.ones(2)) is None
    said = [r.getMessage() for r in caplog.records if "without return" in r.getMessage()]
    warned = "Silent computes values and gives None: does it end without return?"
    assert said == ([warned] if cell is Silent else [])


def test_an_interrupted_compilation_shows_the_users_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entries.EntryTable, "_made", interrupted)
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(KeyboardInterrupt, match="Silent was being compiled") as caught:
        Silent()(ops.ones(2))
    assert caught.value.__suppress_context__
    assert len(traceback.extract_tb(caught.value.__traceback__)) < 8


class Numpy(nn.Cell):
    def construct(self, x):
        return ms.Tensor(np.exp(x)) + ms.Tensor(np.unwrap(x))


def test_numpy_that_computes_with_tensors_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Numpy()
    with caplog.at_level(logging.WARNING, "cellc"):
        net(ops.ones(1))
        net(ops.ones(1))
    said = [r.getMessage() for r in caplog.records if "numpy" in r.getMessage()]
    assert len(said) == 2
    assert said[0].startswith("Numpy: numpy.exp(), test_other_names.py:")
    assert said[0].endswith("no gradient passes through it; ops.exp is compiled")
    assert "numpy.unwrap()" in said[1] and said[1].endswith("no gradient passes through it")


@pytest.mark.parametrize("call", [
    lambda: nn.Dense(4, 2)(np.ones((3, 4), np.float32)),
    lambda: nn.CrossEntropyLoss()(ops.ones((3, 2)), ms.Tensor([0.0, 1.0, 1.0])),
    lambda: nn.TrainOneStepCell(
        nn.WithLossCell(net := nn.Dense(4, 2), nn.CrossEntropyLoss()),
        nn.SGD(net.trainable_params(), 0.1))(ops.ones((3, 4)), ms.Tensor([0.0, 1.0, 1.0])),
])
def test_an_error_of_a_layer_stands_at_the_call_of_it(call: Callable[[], object]) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises((TypeError, ValueError), match="note: raised in ") as caught:
        call()
    place = re.search(r'File "(.*)", line (\d+), in <lambda>\n', str(caught.value))
    assert place is not None and place[1] == __file__
    line = inspect.getsource(inspect.getmodule(call)).splitlines()[int(place[2]) - 1].strip()
    assert re.search(rf"\n +{re.escape(line)}\n +\^+\n", str(caught.value))


def test_a_damaged_checkpoint_is_named_once(tmp_path: Path) -> None:
    ms.save_checkpoint(nn.Dense(3, 4), str(tmp_path / "net.ckpt"))
    data = (tmp_path / "net.ckpt").read_bytes()
    (tmp_path / "cut.ckpt").write_bytes(data[:len(data) // 2])
    with pytest.raises(ValueError, match="ends too early") as caught:
        ms.load_checkpoint(str(tmp_path / "cut.ckpt"))
    assert str(caught.value).count("cut.ckpt") == 1


@pytest.mark.parametrize(("n", "what", "text"), [
    (1, "weight", "1 weight"), (0, "entry", "0 entries"), (1, "entry", "1 entry"),
    (2, "axis", "2 axes"), (3, "node", "3 nodes"),
])
def test_counts(n: int, what: str, text: str) -> None:
    assert counted(n, what) == text


class Reads(nn.Cell):
    def construct(self, x):
        return np.median(x) + np.exp(x).sum() + np.sqrt(len(x))


def test_numpy_that_reads_tensors_warns_once_in_pynative_mode(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(construct_checks, "_told", set())
    ms.set_context(mode=ms.PYNATIVE_MODE)
    x = ops.ones(1)
    with caplog.at_level(logging.WARNING, "cellc"):
        Reads()(x)
        Reads()(x)
        np.exp(x)
    said = [r.getMessage() for r in caplog.records]
    assert [s.partition(",")[0] for s in said] == ["Reads: np.median(x)", "Reads: np.exp(x)"]
    assert "test_other_names.py:" in said[0] and said[0].endswith(
        "is run by numpy in each call, and no gradient passes through it; use functions of ops")


def test_python_suggests_nothing_beside_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"^The 'Dense' object has no attribute 'zero_grad'\n"
                       ) as caught:
        nn.Dense(2, 2).zero_grad()
    shown = "".join(traceback.format_exception(caught.value))
    assert "hint: remove the call: gradients are results of" in shown
    assert "Did you mean" not in shown


@pytest.mark.parametrize("inputs, said", [
    ((), r"^Dense.construct\(\) is missing 1 argument: 'x' \[CE601\]\n"),
    ((1, 2), r"^Dense.construct\(\) takes 2 positional arguments but 3 were given"),
])
def test_wrong_arguments_of_a_network_stand_at_the_call(inputs: tuple[int, ...], said: str) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = nn.Dense(2, 2)
    with pytest.raises(TypeError, match=said) as caught:
        net(*inputs)
    text = str(caught.value)
    assert "test_other_names.py" in text and "    net(*inputs)\n    ^^^^" in text
    assert text.endswith("note: it is construct(x)")


def test_an_error_of_pynative_mode_names_the_cell() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    inner = nn.SequentialCell(nn.ReLU(), nn.Dense(3, 2))
    net = nn.SequentialCell(nn.Dense(2, 2), inner)
    with pytest.raises(ValueError, match="matmul") as caught:
        net(ops.ones((1, 2)))
    assert caught.value.__notes__ == [
        "note: raised in Dense.construct (cell 1.1)",
        "hint: transpose or reshape one of them (x.T, swapaxes), or mend the size of the layer"]


@pytest.mark.parametrize("call", [
    lambda x: nn.Dense(3, 2)(x), lambda x: nn.SequentialCell(nn.ReLU())(x), ops.relu,
])
@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_an_array_has_the_same_hint_in_both_modes(mode: int, call: Callable[..., object]) -> None:
    ms.set_context(mode=mode)
    with pytest.raises(TypeError, match="must be a Tensor, but got ndarray") as caught:
        call(np.ones((2, 3), np.float32))
    shown = "".join(traceback.format_exception_only(caught.value))
    assert shown.count("hint: make one before the call: ms.Tensor(value)") == 1


def test_an_error_that_the_user_raises_has_no_hint() -> None:
    class Checks(nn.Cell):
        def construct(self, x):
            raise TypeError("For 'Checks', 'x' must be a Tensor, but got a bag.")

    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(TypeError, match="a bag") as caught:
        nn.SequentialCell(Checks())(ops.ones(2))
    assert not any("hint" in note for note in caught.value.__notes__)


def test_the_truth_of_many_elements_has_a_hint() -> None:
    with pytest.raises(ValueError, match="only one element") as caught:
        bool(ops.ones(2))
    assert caught.value.__notes__ == ["hint: reduce it first, as by .any(), .all() or .sum()"]


class CallsNothingAbove(nn.Cell):
    def construct(self, x):
        return super().construct(x)


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_super_without_a_construct_above(mode: int) -> None:
    ms.set_context(mode=mode)
    with pytest.raises(AttributeError, match="'construct' is not defined in the classes above "
                                             "'CallsNothingAbove', which calls it by super"):
        CallsNothingAbove()(ops.ones(2))


@pytest.mark.parametrize("name, instead", [
    ("net.safetensors", "give format='safetensors'"), ("net.onnx", "load reads networks"),
    ("net.cellc", "cellc_runtime.load reads artifacts"), ("net.pt", "load_torch_weights reads"),
])
def test_a_file_of_another_kind_than_a_checkpoint(name: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"must end in the value of 'format', .*{instead}"):
        ms.load_checkpoint(name)


class Misspelled(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(2, 2)

    def construct(self, x, wrong):
        return ops.softmax(x, dim=1) if wrong == "argument" else self.dens(x)


@pytest.mark.parametrize(("args", "said"), [
    ((), "note: it is construct(x, wrong)"),
    ((ops.ones((2, 2)), "argument"), "hint: did you mean 'axis'?"),
    ((ops.ones((2, 2)), "attribute"), "hint: did you mean 'dense'?"),
])
@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_wrong_names_have_the_same_hint_in_both_modes(
    mode: int, args: tuple[object, ...], said: str
) -> None:
    ms.set_context(mode=mode)
    with pytest.raises((TypeError, AttributeError), match=r"construct|dim|dens") as caught:
        Misspelled()(*args)
    shown = "".join(traceback.format_exception_only(caught.value))
    assert shown.count(said) == 1


@pytest.mark.parametrize(("call", "kind", "said"), [
    (lambda: nn.Adam(nn.Dense(2, 2), 0.1), TypeError, "hint: pass net.trainable_params()"),
    (lambda: ms.value_and_grad(nn.Dense(2, 2), None, nn.Dense(2, 2)), TypeError,
     "hint: pass net.trainable_params()"),
    (lambda: ops.cat(ops.ones(2), ops.ones(2)), TypeError, "hint: write a tuple: ((a, b))"),
    (lambda: nn.Conv2d(3, 8, 3)(ops.ones((3, 8, 8))), ValueError, "batch axis: x[None]"),
    (lambda: float(ops.ones(2)), ValueError, "hint: it has shape (2,): reduce it first"),
    (lambda: nn.Dense(4, 3, weight_init="xavier"), ValueError, "did you mean 'xavier_normal'?"),
    (lambda: nn.LSTM(4, 8)(ops.ones((2, 4))), ValueError, "For 'LSTM'"),
])
def test_mistakes_of_newcomers(
    call: Callable[[], object], kind: type[Exception], said: str
) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(kind, match=r"must|Only one element|was not found") as caught:
        call()
    assert said in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.parametrize("make", [
    lambda: nn.Embedding(10, 4), lambda: nn.SequentialCell(nn.Embedding(10, 4))])
def test_a_run_error_in_a_layer_names_the_layer(make: Callable[[], nn.Cell]) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(IndexError, match="but got 12") as caught:
        make()(ops.full((2,), 12, dtype=ms.int32)).asnumpy()
    shown = "".join(traceback.format_exception_only(caught.value))
    assert "note: raised in Embedding.construct" in shown and "embedding.py" not in shown
