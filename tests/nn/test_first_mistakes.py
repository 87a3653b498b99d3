"""Mistakes of the first days: each message says what is likely wrong and what to write instead."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, mint, nn, ops

MODES = (ms.GRAPH_MODE, ms.PYNATIVE_MODE)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "name", "meant"), [
    (nn, "Conv2D", "Conv2d"), (nn, "Dens", "Dense"), (ops, "ReLu", "ReLU"),
    (ops, "reduce_meann", "reduce_mean"), (ms, "tensro", "tensor"), (ms, "parameter", "Parameter"),
    (mint, "matmull", "matmul"), (mint.nn, "Conv2D", "Conv2d"), (mint.nn, "Linar", "Linear"),
    (mint.nn.functional, "rellu", "relu"), (mint.optim, "Adamm", "Adam"),
    (ms.numpy, "aranje", "arange"), (ms.train, "LossMonitr", "LossMonitor"),
    (ms.dataset, "GeneratorDatset", "GeneratorDataset"), (ms.common, "Tensr", "Tensor"),
    (ms.amp, "DynamicLossScalr", "DynamicLossScaler"), (nn.optim, "Adamm", "Adam"),
])
def test_a_name_that_was_meant(module: Any, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; did you mean '{meant}'"):
        getattr(module, name)


def test_no_name_is_meant() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Blub'$"):
        nn.Blub  # noqa: B018
    assert not hasattr(nn, "__wrapped__")


def test_a_name_in_construct() -> None:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.reluu(x)

    for mode in MODES:
        ms.set_context(mode=mode)
        with pytest.raises(AttributeError, match=r"(?s)reluu.*relu"):
            Net()(Tensor([1.0]))


# --- Cells in lists ------------------------------------------------------------------------------


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "cellc"]


def test_a_plain_list_of_cells_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    class Stack(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Dense(2, 2), nn.ReLU(), nn.Dense(2, 2)]

    with caplog.at_level(logging.WARNING, "cellc"):
        net = Stack()
        Stack()
        assert net.trainable_params() == []
    (said,) = _said(caplog)
    assert said.startswith("the attribute 'layers' of Stack is a plain list that holds 2 Cells:")
    assert "not part of the network" in said and "Use nn.CellList" in said


@pytest.mark.parametrize("collect", [
    lambda net, path: net.trainable_params(), lambda net, path: net.parameters_dict(),
    lambda net, path: ms.save_checkpoint(net, str(path / "net.ckpt")),
])
def test_a_list_that_grew_warns_when_parameters_are_collected(
    collect: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Inner(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Dense(2, 2)
            self.blocks: list[Any] = []
            for _ in range(2):
                self.blocks.append(nn.Dense(2, 2))

    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

    with caplog.at_level(logging.WARNING, "cellc"):
        net = Outer()
        assert _said(caplog) == []
        collect(net, tmp_path)
    (said,) = _said(caplog)
    assert said.startswith("the attribute 'blocks' of Inner is a plain list that holds 2 Cells:")


def test_dicts_and_tuples(caplog: pytest.LogCaptureFixture) -> None:
    class Both(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.pair = (nn.Dense(2, 2), 3)
            self.table = {"a": nn.Dense(2, 2)}

    with caplog.at_level(logging.WARNING, "cellc"):
        Both()
    first, second = _said(caplog)
    assert "'pair' of Both is a plain tuple that holds 1 Cell:" in first
    assert "'table' of Both is a plain dict" in second and "nn.CellDict" in second


def test_lists_that_are_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    class Fine(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Dense(2, 2)
            self.order = [self.a, self.a]
            self.activations = [nn.ReLU(), nn.Tanh()]
            self.sizes = [1, 2, 3]
            self.cells_ = nn.CellList([nn.Dense(2, 2)])
            self.late: list[Any] = []
            for i in range(2):
                self.late.append(nn.Dense(2, 2))
                self.insert_child_to_cell(f"late{i}", self.late[-1])

    with caplog.at_level(logging.WARNING, "cellc"):
        net = Fine()
        assert len(net.trainable_params()) == 8
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2).trainable_params()
    assert _said(caplog) == []


# --- nothing to train ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: nn.Adam([], 0.1), lambda: nn.SGD(iter(()), 0.1),
    lambda: nn.Momentum([{"params": []}], 0.1, 0.9), lambda: mint.optim.Adam([]),
    lambda: ms.experimental.optim.SGD([], lr=0.1),
])
def test_an_optimizer_of_nothing_says_why(make: Any) -> None:
    with pytest.raises(ValueError, match="must not be empty") as caught:
        make()
    for part in ("requires_grad=False", "plain list (use nn.CellList)", "in __init__", "iterator"):
        assert part in str(caught.value)


# --- labels --------------------------------------------------------------------------------------


X = Tensor(np.ones((2, 3), np.float32))
FLOATS = Tensor(np.array([0.0, 1.0], np.float32))


@pytest.mark.parametrize("loss", [
    ops.cross_entropy, ops.nll_loss, nn.CrossEntropyLoss(), nn.NLLLoss(), ops.multi_margin_loss,
    nn.SoftmaxCrossEntropyWithLogits(sparse=True), nn.SoftmaxCrossEntropyWithLogits(sparse=False),
    ops.SparseSoftmaxCrossEntropyWithLogits(), mint.nn.functional.cross_entropy,
    mint.nn.CrossEntropyLoss(), mint.nn.functional.nll_loss,
])
@pytest.mark.parametrize("mode", MODES)
def test_float_class_labels(loss: Any, mode: int) -> None:
    ms.set_context(mode=mode)

    class Net(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return loss(x, y)

    with pytest.raises((TypeError, ValueError), match=r"ints.*labels\.astype\(ms\.int32\)"):
        Net()(X, FLOATS)


def test_int_labels_of_probabilities() -> None:
    with pytest.raises(TypeError, match="class labels take sparse=True"):
        nn.SoftmaxCrossEntropyWithLogits()(X, FLOATS.astype(ms.int32))


# --- damaged checkpoints -------------------------------------------------------------------------


WEB = b"<!DOCTYPE html><html>404</html>" * 4
DAMAGED: dict[str, tuple[Any, str]] = {
    "empty": (lambda raw: b"", "it is empty"),
    "cut off": (lambda raw: raw[: len(raw) // 2], "it ends too early: a copy, a download"),
    "last bytes": (lambda raw: raw[:-3], "it ends too early|are not those that were saved"),
    "head": (lambda raw: raw[:5], "it ends too early"),
    "web page": (lambda raw: WEB, "it is a web page"),
    "pointer": (lambda raw: b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
                "it is a pointer of Git LFS"),
    "zip": (lambda raw: b"PK\x03\x04" + bytes(range(200)), "it is a zip file, as PyTorch"),
    "pickle": (lambda raw: b"\x80\x02}q\x00" + bytes(range(200)), "it is a pickle of Python"),
    "gzip": (lambda raw: b"\x1f\x8b\x08" + bytes(range(200)), "it is compressed"),
    "hdf5": (lambda raw: b"\x89HDF\r\n\x1a\n" + bytes(200), "it is an HDF5 file"),
    "npy": (lambda raw: b"\x93NUMPY" + bytes(200), "it is an array of numpy"),
    "zeros": (lambda raw: bytes(len(raw)), "it begins with zeros"),
}


@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_checkpoints_in_plain_words(name: str, format: str, tmp_path: Path) -> None:
    damage, expected = DAMAGED[name]
    file = tmp_path / f"net.{format}"
    ms.save_checkpoint({"w": Parameter(Tensor(np.ones((30, 20), np.float32)), name="w")},
                       str(file), format=format)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=f"checkpoint net.{format} cannot be loaded: .*{expected}"):
        ms.load_checkpoint(str(file), format=format)


def test_the_other_format(tmp_path: Path) -> None:
    weights = {"w": Parameter(Tensor(np.ones((30, 20), np.float32)), name="w")}
    for own, other in (("ckpt", "safetensors"), ("safetensors", "ckpt")):
        made, named = tmp_path / f"a.{own}", tmp_path / f"b.{other}"
        ms.save_checkpoint(weights, str(made), format=own)
        named.write_bytes(made.read_bytes())
        with pytest.raises(ValueError, match=f"it is a .*{own} file: give format='{own}'"):
            ms.load_checkpoint(str(named), format=other)


# --- arrays beside tensors -----------------------------------------------------------------------


A = np.array([1.0, 2.0, 3.0], np.float32)
T = Tensor(np.array([1.0, 5.0, 2.0], np.float32))
B = T.asnumpy()


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%",
                                "**"])
def test_an_array_on_the_left_gives_an_array(op: str) -> None:
    for t in (T, Parameter(T, name="t")):
        found = eval(f"a {op} t", {"a": A, "t": t})
        wanted = eval(f"a {op} b", {"a": A, "b": B})
        assert type(found) is np.ndarray and found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons_with_an_array_on_the_right(op: str) -> None:
    found = eval(f"t {op} a", {"a": A, "t": T})
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, eval(f"b {op} a", {"a": A, "b": B}))


def test_comparisons_broadcast_and_fail_as_arrays_do() -> None:
    assert (np.ones((2, 1)) == Tensor([1.0, 2.0])).tolist() == [[True, False], [True, False]]
    assert (np.arange(6).reshape(2, 3) == Tensor(2)).sum() == 1
    assert ((np.array(["a", "b"]) == Tensor([1.0, 2.0])) == np.array([False, False])).all()
    with pytest.raises(ValueError, match="broadcast"):
        np.ones(3) == Tensor([1.0, 2.0])  # noqa: B015
    assert (T == "text") is False and (T != None) is True  # noqa: E711
    assert isinstance(np.float32(1) == T, Tensor) and isinstance(np.float32(1) + T, Tensor)


def test_a_comparison_with_an_array_in_a_graph() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(TypeError, match="not known while a graph is compiled"):
        ms.jit(lambda x: x == A)(T)
