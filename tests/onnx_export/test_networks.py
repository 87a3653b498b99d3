"""Networks exported to ONNX give in ONNX Runtime what they give here; and what is refused."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.onnx_export import to_model
from cellc_runtime import dtypes

from ..samples.networks import NETWORKS
from .peer import Peer


def same(got: list[np.ndarray[Any, Any]], want: Any) -> None:
    """Results of ONNX Runtime against those of a network."""
    flat = list(want) if isinstance(want, tuple) else [want]
    for a, b in zip(got, flat, strict=True):
        given = b.asnumpy()
        assert (a.shape, a.dtype) == (given.shape, given.dtype)
        np.testing.assert_allclose(a, given, 1e-4, 1e-4)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def opened(x: Tensor) -> Tensor:
    """The type of a batch of any size."""
    return Tensor(shape=[None, *x.shape[1:]], dtype=x.dtype)


def exported(net: Any, *inputs: Any, folder: Path, **kwargs: Any) -> Path:
    """The file of a network."""
    ms.export(net, *inputs, file_name=str(folder / "net"), file_format="ONNX", **kwargs)
    return folder / "net.onnx"


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_sample_networks(name: str, opset: int, peer: Peer, tmp_path: Path) -> None:
    net, inputs = NETWORKS[name].make(), NETWORKS[name].input()
    net.set_train(False)
    path = exported(net, *inputs, folder=tmp_path, opset_version=opset)
    same(peer.run(path, [x.asnumpy() for x in inputs]), net(*inputs))
    model = onnx.load(path)
    assert {p.name for p in net.get_parameters()} <= {t.name for t in model.graph.initializer}
    assert (model.producer_name, model.opset_import[0].version) == ("cellc", opset)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_any_size_of_batch(name: str, peer: Peer, tmp_path: Path) -> None:
    net, inputs = NETWORKS[name].make(), NETWORKS[name].input()
    net.set_train(False)
    path = exported(net, *map(opened, inputs), folder=tmp_path)
    for n in (1, 5):
        batch = [np.resize(x.asnumpy(), (n, *x.shape[1:])) for x in inputs]
        same(peer.run(path, batch), net(*map(Tensor, batch)))


def test_set_inputs_says_what_is_open(peer: Peer, tmp_path: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            z = x + y
            return z.reshape(-1, 2), z.mean(axis=0), ops.concat([z, x]) / z.shape[0]

    net = Net()
    net.set_inputs(Tensor(shape=[None, 4], dtype=ms.float32),
                   Tensor(shape=[None, 4], dtype=ms.float32))
    path = exported(net, normal(3, 4), normal(3, 4, seed=1), folder=tmp_path)
    model = onnx.load(path)
    sizes = [i.type.tensor_type.shape.dim[0].dim_param for i in model.graph.input]
    assert sizes == ["x_0", "y_0"]
    assert [p.value for p in model.metadata_props if p.key == "cellc.assumes"]
    for n in (2, 7):
        x, y = normal(n, 4), normal(n, 4, seed=2)
        same(peer.run(path, [x.asnumpy(), y.asnumpy()]), Net()(x, y))


def test_a_question_about_a_size_that_elements_decide(tmp_path: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = x[x > 0]
            return y.sum() / max(y.shape[0], 1)

    with pytest.raises(ValueError, match=r"would serve only where found_a_bool_index >= 1"):
        exported(Net(), Tensor(shape=[None, None], dtype=ms.float32), folder=tmp_path)


class Functions(nn.Cell):
    """Numbers that follow from sizes by Python's functions."""

    def construct(self, x: Any) -> Any:
        n, s = x.shape
        y = x * math.log2(n) + ms.Tensor([n, s / 3]).sum() * math.exp(-s)
        return x / math.sqrt(s) * min(1.0, 5 / n), y, ops.ones((int(s * 0.7) + 1,)), \
            ops.ones((math.ceil(s * 0.3), round(n * 0.4) + math.floor(n / 2)))


def test_functions_of_sizes(peer: Peer, tmp_path: Path) -> None:
    path = exported(Functions(), Tensor(shape=[None, None], dtype=ms.float32), folder=tmp_path)
    for n, s in ((2, 3), (7, 5), (3, 101)):
        x = normal(n, s)
        same(peer.run(path, [x.asnumpy()]), Functions()(x))


@pytest.mark.parametrize("net", [nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d((1, 1)),
                                 nn.AdaptiveAvgPool1d(1)], ids=lambda net: type(net).__name__)
def test_one_window_serves_images_of_any_size(net: nn.Cell, peer: Peer, tmp_path: Path) -> None:
    open_sizes = [None] * (1 if isinstance(net, nn.AdaptiveAvgPool1d) else 2)
    path = exported(net, Tensor(shape=[None, 3, *open_sizes], dtype=ms.float32), folder=tmp_path)
    for sizes in ((8, 12), (5, 3)):
        x = normal(2, 3, *sizes[: len(open_sizes)])
        same(peer.run(path, [x.asnumpy()]), net(x))


class Levels(nn.Cell):
    """Two levels of an image, of which the smaller is resized to the size of the larger."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(8, 2, 1)
        self.pool, self.mode = nn.MaxPool2d(2, 2), mode

    def construct(self, x: Any) -> Any:
        x = ops.relu(self.first(x))
        deep = ops.interpolate(self.pool(x), size=x.shape[2:], mode=self.mode)
        return self.last(ops.concat((x, deep), 1))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_layers_that_ask_about_sizes(mode: str, peer: Peer, tmp_path: Path) -> None:
    """What an op asks of its images is no question with two answers."""
    net = Levels(mode)
    path = exported(net, Tensor(shape=[None, 3, None, None], dtype=ms.float32), folder=tmp_path)
    (assumed,) = [p.value for p in onnx.load(path).metadata_props if p.key == "cellc.assumes"]
    assert "x_2 >= 2" in assumed and "x_3 >= 2" in assumed
    for shape in ((1, 3, 8, 12), (2, 3, 17, 9), (3, 3, 2, 40)):
        x = normal(*shape)
        same(peer.run(path, [x.asnumpy()]), net(x))


class Of(nn.Cell):
    """A function as a network."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fn = fn

    def construct(self, x: Any) -> Any:
        return self.fn(x)


def same_padding() -> nn.Cell:
    """The padding of a step of 2 follows from the size."""
    return nn.SequentialCell(
        nn.Conv2d(3, 8, 7, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, pad_mode="same"),
        nn.Conv2d(8, 8, 3, 2), nn.AvgPool2d(3, 2, pad_mode="same"), nn.AdaptiveAvgPool2d((2, 3)),
        nn.Flatten(), nn.Dense(48, 3))


OPEN_IMAGES: dict[str, Callable[[], nn.Cell]] = {
    "same": same_padding,
    "adaptive average": lambda: nn.AdaptiveAvgPool2d((3, 2)),
    "adaptive maximum": lambda: nn.AdaptiveMaxPool2d((2, 3)),
    "average of all": lambda: Of(lambda x: ops.avg_pool2d(x, (x.shape[2], x.shape[3]))),
    "maximum of all": lambda: Of(lambda x: ops.max_pool2d(x, (x.shape[2], x.shape[3]))),
}


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("name", OPEN_IMAGES)
def test_images_of_any_size(name: str, opset: int, peer: Peer, tmp_path: Path) -> None:
    net = OPEN_IMAGES[name]().set_train(False)
    path = exported(net, Tensor(shape=[None, 3, None, None], dtype=ms.float32), folder=tmp_path,
                    opset_version=opset)
    for shape in ((1, 3, 8, 9), (2, 3, 13, 12), (3, 3, 7, 7), (2, 3, 32, 31)):
        x = normal(*shape)
        same(peer.run(path, [x.asnumpy()]), net(x))


@pytest.mark.parametrize(("fn", "words"), [
    (lambda x: ops.avg_pool2d(x, (x.shape[2] // 2, 2)), "window has an open size, but is not the"),
    (lambda x: ops.adaptive_avg_pool2d(x, (x.shape[2] // 2, 2)), "windows of a known number"),
    (lambda x: ops.adaptive_max_pool2d(x, (2, 2), return_indices=True)[1], "places are not known"),
])
def test_windows_that_onnx_cannot_say(fn: Callable[[Any], Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=rf"test_networks.py:\d+: the op .*{words}"):
        exported(Of(fn), Tensor(shape=[None, 3, None, None], dtype=ms.float32), folder=tmp_path)
    assert not os.listdir(tmp_path)


def test_a_question_about_an_open_size_is_an_error(tmp_path: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2 if x.shape[0] > 3 else x

    with pytest.raises(ValueError, match="asks about a size that is open"):
        exported(Net(), Tensor(shape=[None, 2], dtype=ms.float32), folder=tmp_path)
    assert not os.listdir(tmp_path)


# --- control flow ---------------------------------------------------------------------------------


class Branch(nn.Cell):
    def construct(self, x: Any) -> Any:
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - self.shift()
        return y, x

    def shift(self) -> Any:
        return 3


class Repeat(nn.Cell):
    def construct(self, x: Any) -> Any:
        n = 0
        while ops.abs(x).sum() < 100:
            if x.max() > 5:
                x = x + 1
            else:
                x = x * 1.5
            n = n + 1
        return x, ops.full_like(x, 1) * n


class Rolled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weights = Parameter(np.linspace(-1, 1, 48 * 4).reshape(48, 4).astype(np.float32))

    def construct(self, x: Any) -> Any:
        rows = []
        for i in range(48):
            x = ops.tanh(x + self.weights[i]) * (i + 1) / 10
            rows.append(x)
        return x, ops.stack(rows)


class Early(nn.Cell):
    def construct(self, x: Any) -> Any:
        total = x * 0
        for row in range(64):
            total = total + x[row % 3]
            if total.sum() > 20:
                break
        return total


@pytest.mark.parametrize("make", [Branch, Repeat, Rolled, Early])
@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_control_flow(make: Callable[[], Any], shift: float, peer: Peer, tmp_path: Path) -> None:
    net, x = make(), normal(3, 4)
    path = exported(net, x, folder=tmp_path)
    x = x + shift
    same(peer.run(path, [x.asnumpy()]), net(x))


def scan_graph(reverse: bool, limited: bool) -> Graph:
    """Running sums of rows and of the step's number."""
    row, step = TensorType((3,), dtypes.float32), TensorType((), dtypes.int64)
    body = Graph("body")
    carried, x, i = (body.add_input(t, n) for t, n in ((row, "c"), (row, "x"), (step, "i")))
    b = Builder(body)
    total = b.add(carried, b.add(x, b.cast(i, dtype=dtypes.float32)))
    body.outputs = [total, b.mul(total, x)]
    graph = Graph("scan")
    operands = [graph.add_input(row, "start"), graph.add_input(row.with_shape((5, 3)), "xs")]
    if limited:
        operands.append(graph.add_input(step, "limit"))
    attrs = {"carried": 1, "sequences": 1, "length": 5, "reverse": reverse, "limited": limited}
    graph.outputs = list(Builder(graph).node("scan", operands, attrs, [body]).results)
    return graph


@pytest.mark.parametrize("limit", [None, 0, 3, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool, limit: int | None, peer: Peer, tmp_path: Path) -> None:
    graph = scan_graph(reverse, limit is not None)
    to_model(graph, {}, ["last", "rows"], 20).save(tmp_path / "m.onnx")
    xs = np.arange(15, dtype=np.float32).reshape(5, 3)
    arrays = [np.ones(3, np.float32), xs]
    trips = range(5 if limit is None else min(limit, 5))
    if limit is not None:
        arrays.append(np.array(limit))
    want, rows = arrays[0], np.zeros((5, 3), np.float32)
    for i in reversed(trips) if reverse else trips:
        want = want + xs[i] + i
        rows[i] = want * xs[i]
    if limit == 0:
        return  # ONNX Runtime has no Scan over no rows
    last, got = peer.run(tmp_path / "m.onnx", arrays)
    np.testing.assert_allclose(last, want)
    np.testing.assert_allclose(got, rows)


# --- the model ------------------------------------------------------------------------------------


def test_names_of_arguments_results_and_weights(tmp_path: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Dense(4, 3)

        def construct(self, image: Any, scale: Any) -> Any:
            y = self.body(image)
            return {"logits": y, "parts": (y * scale, y)}

    model = onnx.load(exported(Net(), normal(2, 4), normal(3), folder=tmp_path))
    assert [i.name for i in model.graph.input] == ["image", "scale"]
    assert [o.name for o in model.graph.output] == ["logits", "parts.0", "parts.1"]
    assert {"body.weight", "body.bias"} <= {t.name for t in model.graph.initializer}
    assert any(n.name.startswith("body.matmul") for n in model.graph.node)
    assert any(n.doc_string.startswith("test_networks.py:") for n in model.graph.node)


def test_compositions_are_one_node(tmp_path: Path) -> None:
    net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                            nn.Dense(64, 8), nn.LayerNorm((8,)), nn.GELU(), nn.Softmax())
    net.set_train(False)
    kinds = [n.op_type for n in onnx.load(
        exported(net, normal(1, 3, 4, 4), folder=tmp_path)).graph.node]
    for kind in ("Conv", "BatchNormalization", "Relu", "LayerNormalization", "Gelu", "Softmax"):
        assert kinds.count(kind) == 1, kinds


def test_weights_in_a_second_file(peer: Peer, tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType((2, 64), dtypes.float32), "x")
    weight = graph.add_input(TensorType((64, 32), dtypes.float32), "w", "param")
    bias = graph.add_input(TensorType((32,), dtypes.float32), "b", "param")
    b = Builder(graph)
    graph.outputs = [b.add(b.matmul(x, weight), bias)]
    rng = np.random.default_rng(0)
    given = {"w": rng.normal(size=(64, 32)).astype(np.float32), "b": np.ones(32, np.float32)}
    to_model(graph, given, ["y"], 20).save(tmp_path / "m.onnx", limit=1000)
    data, = tmp_path.glob("m.onnx.*.data")
    assert data.stat().st_size == 64 * 32 * 4
    assert (tmp_path / "m.onnx").stat().st_size < 4000
    a = rng.normal(size=(2, 64)).astype(np.float32)
    np.testing.assert_allclose(peer.run(tmp_path / "m.onnx", [a])[0], a @ given["w"] + 1, 1e-4)


def _sum_model(value: float) -> Any:
    graph = Graph("g")
    x = graph.add_input(TensorType((2000,), dtypes.float32), "x")
    w = graph.add_input(TensorType((2000,), dtypes.float32), "w", "param")
    graph.outputs = [Builder(graph).add(x, w)]
    return to_model(graph, {"w": np.full(2000, value, np.float32)}, ["y"], 20)


def _weight(path: Path) -> float:
    found = onnx.numpy_helper.to_array(onnx.load_model(path).graph.initializer[0])
    assert (found == found[0]).all()
    return float(found[0])


@pytest.mark.parametrize("files", [1, 2, 3, 4])
@pytest.mark.parametrize("limit", [0, 10**9])
def test_a_model_and_its_second_file_are_replaced_at_once(
    files: int, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full after some files: the older model, with its weights, is there."""
    path = tmp_path / "m.onnx"
    _sum_model(1).save(path, limit=0)
    (tmp_path / "m.onnx.abc.data").write_text("the user's")
    (tmp_path / "m.onnx.data").write_text("the user's")
    before, real, done = sorted(os.listdir(tmp_path)), os.fsync, []

    def fsync(handle: int) -> None:
        done.append(handle)
        if len(done) >= files:
            raise OSError(28, "No space left on device")
        real(handle)

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        full.setattr("cellc_runtime.files.sync_directory", lambda folder: None)
        if files <= (2 if limit == 0 else 1):
            with pytest.raises(OSError, match="No space left"):
                _sum_model(2).save(path, limit)
            assert _weight(path) == 1 and sorted(os.listdir(tmp_path)) == before
    _sum_model(3).save(path, limit)
    assert _weight(path) == 3 and len(os.listdir(tmp_path)) == (4 if limit == 0 else 3)
    assert (tmp_path / "m.onnx.data").read_text() == "the user's"


def test_data_of_killed_exports_go_and_those_of_renamed_models_stay(tmp_path: Path) -> None:
    path, moved = tmp_path / "m.onnx", tmp_path / "moved.bak"
    _sum_model(1).save(path, limit=0)
    path.rename(moved)
    left = tmp_path / "m.onnx.0123456789ab.data"
    left.write_bytes(b"of a killed export")
    for file in tmp_path.glob("*.data"):
        os.utime(file, (0, 0))
    written_now = tmp_path / "m.onnx.ab0123456789.data"
    written_now.write_bytes(b"of another export")
    _sum_model(2).save(path, limit=0)
    assert (_weight(path), _weight(moved)) == (2, 1)
    assert not left.exists() and written_now.exists()


@pytest.mark.parametrize("limit", [0, 10**9])
def test_the_checker_runs_before_anything_is_written(limit: int, tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType((2000,), dtypes.float32), "x")
    w = graph.add_input(TensorType((2000,), dtypes.float32), "w", "param")
    graph.outputs = [Builder(graph).add(x, w)]
    model = to_model(graph, {"w": np.ones(2000, np.float32)}, ["y"], 20)
    model.save(tmp_path / "m.onnx", limit)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    model.proto.graph.node[0].op_type = "Nonsense"
    with pytest.raises(Exception, match="Nonsense"):
        model.save(tmp_path / "m.onnx", limit)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_training_state_is_refused(tmp_path: Path) -> None:
    net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    net.set_train(True)
    with pytest.raises(TypeError, match=r"assigns .*moving_mean.*set_train\(False\)"):
        exported(net, normal(1, 3, 4, 4), folder=tmp_path)
    drop = nn.Dropout(p=0.5)
    drop.set_train(True)
    with pytest.raises(TypeError, match=r"the op dropout cannot be exported .*set_train\(False\)"):
        exported(drop, normal(3), folder=tmp_path)
    assert not os.listdir(tmp_path)


def test_the_error_names_the_op_and_the_line(tmp_path: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.lgamma(x)

    line = Net.construct.__code__.co_firstlineno + 1
    with pytest.raises(TypeError, match=rf"test_networks.py:{line}: the op lgamma cannot be"):
        exported(Net(), normal(3), folder=tmp_path)


def test_op_sets(tmp_path: Path) -> None:
    for bad in (16, 22, "20"):
        with pytest.raises(ValueError, match="op set must be from 17 to 21"):
            exported(nn.ReLU(), normal(3), folder=tmp_path, opset_version=bad)
    with pytest.raises(TypeError, match="op set 17 lacks"):
        net = ops.bitwise_and
        exported(lambda x: net(x, x), Tensor([1, 2]), folder=tmp_path, opset_version=17)
    with pytest.raises(ValueError, match="opset_version' goes with"):
        ms.export(nn.ReLU(), normal(3), file_name=str(tmp_path / "a"), file_format="MINDIR",
                  opset_version=20)


def test_checks_and_prints_are_left_out_and_noted(peer: Peer, tmp_path: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            assert x.sum() > 0, "no sum"
            print("x", x)
            return x + 1

    path = exported(Net(), Tensor([1.0, 2.0]), folder=tmp_path)
    (note,) = [p.value for p in onnx.load(path).metadata_props if p.key == "cellc.left_out"]
    assert note.startswith("check test_networks.py:") and "print test_networks.py:" in note
    np.testing.assert_array_equal(peer.run(path, [np.float32([1, 2])])[0], [2, 3])


def test_a_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"old")
    with pytest.raises(TypeError, match="the op lgamma cannot be exported to ONNX"):
        exported(lambda x: ops.lgamma(x), normal(3), folder=tmp_path)
    assert (tmp_path / "net.onnx").read_bytes() == b"old"
    with pytest.raises(OSError, match="its folder does not exist, create it first"):
        exported(nn.ReLU(), normal(3), folder=tmp_path / "missing")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cellc.train import export_onnx

    monkeypatch.setattr(export_onnx, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install cellc\[onnx\]"):
        exported(nn.ReLU(), normal(3), folder=tmp_path)
