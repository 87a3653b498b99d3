"""Convolutions and recurrent layers with small weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import mint, nn, ops
from cellc.quantization import compare, left_as_they_are
from cellc.quantization.layers import SmallDense, SmallKernel
from cellc.tracing.pytree import take_apart
from cellc_runtime import artifact

Array = np.ndarray[Any, Any]
KINDS = ("bfloat16", "float16", "int8", "int4")
_rng = np.random.default_rng(0)


def tensor(*shape: int) -> ms.Tensor:
    return ms.Tensor(_rng.standard_normal(shape).astype(np.float32))


CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Conv1d": (lambda: nn.Conv1d(8, 16, 3, has_bias=True), (2, 8, 9)),
    "Conv2d": (lambda: nn.Conv2d(8, 16, 3, has_bias=True), (2, 8, 9, 9)),
    "grouped": (lambda: nn.Conv2d(8, 16, 3, group=4), (2, 8, 9, 9)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, group=8), (2, 8, 9, 9)),
    "Conv3d": (lambda: nn.Conv3d(8, 16, 3), (2, 8, 5, 6, 7)),
    "Conv1dTranspose": (lambda: nn.Conv1dTranspose(8, 16, 3), (2, 8, 9)),
    "Conv2dTranspose": (lambda: nn.Conv2dTranspose(8, 16, 3, 2, group=2, has_bias=True),
                        (2, 8, 9, 9)),
    "Conv3dTranspose": (lambda: nn.Conv3dTranspose(4, 6, 3, group=2), (2, 4, 5, 6, 4)),
    "mint.Conv1d": (lambda: mint.nn.Conv1d(8, 16, 3), (2, 8, 9)),
    "mint.Conv2d": (lambda: mint.nn.Conv2d(8, 16, 3, padding_mode="reflect", padding=1),
                    (2, 8, 9, 9)),
    "mint.Conv3d": (lambda: mint.nn.Conv3d(8, 16, 3), (2, 8, 5, 6, 7)),
    "mint.ConvTranspose2d": (lambda: mint.nn.ConvTranspose2d(8, 16, 3, groups=2), (2, 8, 9, 9)),
}
RECURRENT: dict[str, tuple[Any, Any]] = {
    "LSTM": (lambda: nn.LSTM(24, 20, 2, bidirectional=True), (tensor(7, 3, 24),)),
    "GRU": (lambda: nn.GRU(24, 20), (tensor(7, 3, 24), None, ms.Tensor([7, 2, 5], ms.int32))),
    "RNN": (lambda: nn.RNN(24, 20, has_bias=False, batch_first=True), (tensor(3, 7, 24),)),
    "LSTMCell": (lambda: nn.LSTMCell(24, 20), (tensor(3, 24), (tensor(3, 20), tensor(3, 20)))),
    "GRUCell": (lambda: nn.GRUCell(24, 20), (tensor(3, 24), tensor(3, 20))),
    "RNNCell": (lambda: nn.RNNCell(24, 20, nonlinearity="relu"), (tensor(3, 24), tensor(3, 20))),
}
LAYERS = {**{n: (make, (tensor(*shape),)) for n, (make, shape) in CONVOLUTIONS.items()},
          **RECURRENT}
layers = pytest.mark.parametrize("name", LAYERS)
kinds = pytest.mark.parametrize("kind", KINDS)


def layer(name: str) -> tuple[Any, Any]:
    make, args = LAYERS[name]
    ms.set_seed(3)
    return make().set_train(False), args


def arrays(result: Any) -> list[Array]:
    return [t.asnumpy() for t in take_apart(result)[1]]


def flattened(results: Any) -> list[Array]:
    return [a for r in results for a in ([r] if isinstance(r, np.ndarray) else flattened(r))]


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def in_both(net: Any, *args: Any) -> list[Array]:
    """The results, the same bits in both modes."""
    got = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        got.append(arrays(net(*args)))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert [a.tobytes() for a in got[0]] == [a.tobytes() for a in got[1]]
    return got[0]


ERRORS = {"bfloat16": 8e-3, "float16": 1e-3, "int8": 1.5e-2, "int4": 0.3}


@layers
@kinds
def test_both_modes(name: str, kind: Any) -> None:
    net, args = layer(name)
    want = arrays(net(*args))
    small = ms.quantize(net, kind, symmetric=False)
    assert type(small).__name__ == f"Small{type(net).__name__}" and isinstance(small, type(net))
    for got, exact in zip(in_both(small, *args), want, strict=True):
        away = np.abs(got - exact).max() / np.abs(exact).max()
        assert 0 < away < ERRORS[kind]
    assert not [*left_as_they_are(small)]


@pytest.mark.parametrize("name", CONVOLUTIONS)
@kinds
def test_a_convolution_is_that_by_its_widened_weight(name: str, kind: Any) -> None:
    """To the bit; and each output channel has a scale of its own."""
    net, args = layer(name)
    own = net.weight.asnumpy().copy()
    channel = [slice(None)] * own.ndim
    channel[1 if "Transpose" in name else 0] = slice(0, 1)
    own[tuple(channel)] *= 1000
    net.weight.set_data(ms.Tensor(own))
    small: Any = ms.quantize(net, kind, group_size=0 if kind[:3] == "int" else None)
    weight = small.weight.asnumpy()
    step = {"int8": 1 / 127, "int4": 1 / 7}.get(kind, 1 / 128)
    rest = np.ones(own.shape, bool)
    rest[tuple(channel)] = False
    assert np.abs(weight - own)[rest].max() < step * np.abs(own[rest]).max()
    net.weight.set_data(ms.Tensor(weight))
    assert net(*args).asnumpy().tobytes() == small(*args).asnumpy().tobytes()


@layers
def test_artifacts(name: str, tmp_path: Path) -> None:
    net, args = layer(name)
    small, path = ms.quantize(net, "int4"), tmp_path / "net.cellc"
    ms.compile_artifact(path, (small, *args))
    loaded = artifact.load(path, trust_native_code=True)
    flat = [t.asnumpy() for t in take_apart(args)[1]]
    got = loaded(*flat)
    found = [a.tobytes() for a in ([got] if isinstance(got, np.ndarray) else flattened(got))]
    assert found == [a.tobytes() for a in arrays(small(*args))]


class Chain(nn.Cell):
    """Convolutions of the same sizes, and an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.SequentialCell(*(nn.Conv2d(64, 64, 3) for _ in range(6)))
        self.steps = nn.LSTM(64, 256)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = self.images(x)
        return self.steps(ops.reshape(x, (16, 1, 64)))[0]


@kinds
def test_memory(kind: Any, tmp_path: Path) -> None:
    """Weights take their bits in files and in memory; one at a time is widened, as it is packed."""
    ms.set_seed(1)
    net, x = Chain().set_train(False), tensor(1, 64, 4, 4)
    floats = sum(p.nbytes for p in net.get_parameters() if p.ndim > 1)
    biases = sum(p.nbytes for p in net.get_parameters() if p.ndim == 1)
    want = in_both(net, x)[0]
    small = ms.quantize(net, kind)
    got = in_both(small, x)[0]
    assert np.abs(got - want).max() < 0.3 * np.abs(want).max()
    path = tmp_path / "net.cellc"
    ms.compile_artifact(path, (small, x))
    bits = {"bfloat16": 16, "float16": 16, "int8": 8, "int4": 4}[kind]
    groups = 2 * floats // 4 // 64 if kind == "int4" else 2 * 64 * 30
    assert path.stat().st_size < floats * bits // 32 + groups + biases + 120_000
    loaded = artifact.load(path, trust_native_code=True)
    assert loaded(x.asnumpy()).tobytes() == got.tobytes()
    one = 64 * 64 * 9 * 4
    program, = loaded.programs()
    kept = sum(s.nbytes for s in program.slots if s.kind == "kept")
    assert program.arena_bytes < 1.3 * one and kept < 0.1 * one  # (the weight as it is packed)


@pytest.mark.parametrize("name", ["grouped", "Conv2dTranspose", "LSTM", "GRUCell"])
def test_gradients_of_inputs(name: str) -> None:
    net, args = layer(name)
    small = ms.quantize(net, "int8")
    first, *others = args

    def total(run: Any) -> Any:
        return lambda x: sum(ops.sum(t * t) for t in take_apart(run(x, *others))[1])

    got = in_both(lambda x: ms.grad(total(small))(x), first)[0]
    near = arrays(ms.grad(total(net))(first))[0]
    assert 0 < np.abs(got - near).max() < 0.05 * np.abs(near).max()


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("kind, part", [("bfloat16", "panels"), ("int8", "scales")])
@pytest.mark.parametrize("name, owner", [("Conv2d", "kernel"), ("GRU", "weight_hh_l0"),
                                         ("LSTMCell", "weight_ih")])
def test_weights_have_no_gradient(name: str, owner: str, kind: Any, part: str, mode: int) -> None:
    ms.set_context(mode=mode)
    net, args = layer(name)
    small = ms.quantize(net, kind)
    assert all("bias" in p.name for p in small.trainable_params())
    wanted = getattr(getattr(small, owner), part)
    with pytest.raises(Exception, match="weights stored in few bits, and their scales, have no "
                                        "gradient"):
        ms.grad(lambda *given: ops.sum(take_apart(small(*given))[1][0]), None,
                ms.ParameterTuple((wanted,)))(*args)


@pytest.mark.parametrize("name", ["Conv2d", "LSTM", "GRUCell"])
def test_to_float(name: str) -> None:
    """`to_float` before or after; weights and scales are read as they are stored."""
    net, args = layer(name)
    before = in_both(ms.quantize(net.to_float(ms.float16), "int8"), *args)
    again, _ = layer(name)
    after = in_both(ms.quantize(again, "int8").to_float(ms.float16), *args)
    assert all(a.dtype == np.float16 for a in after)
    assert [a.tobytes() for a in before] == [a.tobytes() for a in after]


@layers
def test_checkpoints(name: str, tmp_path: Path) -> None:
    net, args = layer(name)
    small = ms.quantize(net, "int8")
    want = arrays(small(*args))
    path = str(tmp_path / "net.ckpt")
    ms.save_checkpoint(small, path)
    ms.set_seed(4)
    other = ms.quantize(LAYERS[name][0]().set_train(False), "int8")
    left, _ = ms.load_param_into_net(other, ms.load_checkpoint(path))
    assert not left and [a.tobytes() for a in arrays(other(*args))] == [a.tobytes() for a in want]


def test_errors_of_each_layer() -> None:
    ms.set_seed(1)
    net = Chain().set_train(False)
    found = compare(net, tensor(1, 64, 4, 4), weights="int8", skip="images.[1-5]")
    assert [x.name for x in found.layers] == ["images.0", "steps"]
    image, steps = found.layers
    assert 0 < image.own < 0.02 and 0 < steps.own < 0.02
    assert (image.before, image.after) == (64 * 64 * 9 * 4, 64 * 64 * 9 + 64 * 2)
    assert 0 < image.whole < image.own and 0 < steps.whole < 0.02
    assert steps.after < steps.before / 3
    assert type(net.images[0]) is nn.Conv2d and type(net.steps) is nn.LSTM


def test_what_holds_the_weights() -> None:
    net = ms.quantize(nn.SequentialCell(nn.Conv2d(64, 8, 1), nn.Conv1d(8, 8, 3)), "int4")
    kernels = [c for _, c in net.cells_and_names() if isinstance(c, SmallKernel)]
    assert [c.panels.shape for c in kernels] == [(8, 32, 1), (8, 12, 1)]
    assert [p.name for p in kernels[0].get_parameters()] == ["0.kernel.panels", "0.kernel.scales"]
    cell: Any = ms.quantize(nn.LSTMCell(24, 20))
    assert isinstance(cell.weight_hh, SmallDense)
    assert cell.weight_hh.panels.name == "weight_hh.panels"


def test_layers_that_share_a_weight() -> None:
    first, second = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3, stride=2)
    second.weight = first.weight
    net = ms.quantize(nn.SequentialCell(first, second))
    assert net[0].kernel.panels is net[1].kernel.panels


@pytest.fixture
def _fast() -> Iterator[None]:
    ms.set_context(numerics="fast")
    yield
    ms.set_context(numerics="strict")


@pytest.mark.usefixtures("_fast")
def test_fast_numerics_keep_weights_small(tmp_path: Path) -> None:
    """Winograd's weights, four times as many floats, are not made of small ones."""
    net, x = nn.Conv2d(256, 256, 3).set_train(False), tensor(1, 256, 16, 16)
    floats = net.weight.nbytes
    want, used = net(x).asnumpy(), []
    for kind in ("float32", "int8"):
        net = net if kind == "float32" else ms.quantize(net, "int8")
        path = tmp_path / f"{kind}.cellc"
        ms.compile_artifact(path, (net, x))
        loaded = artifact.load(path, trust_native_code=True)
        program, = loaded.programs()
        used.append(program.arena_bytes + sum(
            s.nbytes for s in program.slots if s.kind == "kept"))
        got = loaded(x.asnumpy())
        assert np.abs(got - want).max() < 2e-2 * np.abs(want).max()
    assert used[1] < 3 * floats < 4 * floats <= used[0]


@pytest.mark.parametrize("format", ["ONNX", "MINDIR"])
def test_files_of_other_formats(tmp_path: Path, format: str) -> None:
    if format == "ONNX":
        pytest.importorskip("onnx")
    net = nn.SequentialCell(nn.Conv2d(8, 16, 3, has_bias=True), nn.ReLU(),
                            nn.Conv2dTranspose(16, 8, 3, stride=2, group=2)).set_train(False)
    small, x = ms.quantize(net, "int4"), tensor(1, 8, 6, 6)
    path = str(tmp_path / f"net.{format.lower()}")
    ms.export(small, x, file_name=path, file_format=format)
    got = nn.GraphCell(ms.load(path))(x).asnumpy()
    np.testing.assert_allclose(got, small(x).asnumpy(), rtol=1e-5, atol=1e-6)
