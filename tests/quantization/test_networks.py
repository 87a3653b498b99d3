"""Networks with small weights: both modes, checkpoints, gradients, precision, artifacts, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.quantization import compare, left_as_they_are
from cellc.quantization.layers import SmallAttention, SmallDense, SmallEmbedding
from cellc_runtime import artifact

Array = np.ndarray[Any, Any]
KINDS = ("bfloat16", "float16", "int8", "int4")


class Net(nn.Cell):
    """An embedding, a block of layers, attention, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 96)
        self.body = nn.SequentialCell(nn.Dense(96, 130, activation="relu"), nn.Linear(130, 96))
        self.attention = nn.MultiheadAttention(96, 4, batch_first=True)
        self.head = nn.Dense(96, 10, has_bias=False)

    def construct(self, ids: ms.Tensor) -> ms.Tensor:
        x = self.body(self.tokens(ids))
        return self.head(self.attention(x, x, x, need_weights=False)[0])


def network() -> Any:
    ms.set_seed(7)
    return Net().set_train(False)


IDS = np.random.default_rng(0).integers(0, 50, (2, 9)).astype(np.int32)


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def in_both(run: Any) -> Array:
    """The result, the same bits in both modes."""
    got = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        got.append(run().asnumpy())
    assert got[0].tobytes() == got[1].tobytes()
    return got[0]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind, error", [*zip(KINDS, (2e-2, 2e-3, 3e-2, 0.5), strict=True)])
def test_both_modes(kind: Any, error: float, symmetric: bool) -> None:
    want = in_both(lambda: network()(ms.Tensor(IDS)))
    net = ms.quantize(network(), kind, symmetric=symmetric)
    got = in_both(lambda: net(ms.Tensor(IDS)))
    assert 0 < np.abs(got - want).max() < error * np.abs(want).max()
    small = [type(c) for _, c in net.cells_and_names()]
    assert small.count(SmallDense) == 7 and small.count(SmallEmbedding) == 1
    assert not [*left_as_they_are(net)]


@pytest.mark.parametrize("sizes", [{}, {"kdim": 32, "vdim": 48, "has_bias": False}])
def test_attention(sizes: dict[str, Any]) -> None:
    """Its three projections are small, whether one matrix holds them or three; the layer's own
    matrices in the report are without those of the layer inside."""
    ms.set_seed(3)
    net = nn.MultiheadAttention(64, 4, **sizes).set_train(False)
    lengths = {"kdim": 64, "vdim": 64, **sizes}
    rng = np.random.default_rng(0)
    q, k, v = (ms.Tensor(rng.standard_normal((5, 2, n)).astype(np.float32))
               for n in (64, lengths["kdim"], lengths["vdim"]))
    wide = (net.in_proj_weight if net.same_dims else net.q_proj_weight).asnumpy()
    found = compare(net, q, k, v, weights="int8")
    assert [layer.name for layer in found.layers] == ["", "out_proj"]
    matrices = 4 * 64 * (64 + lengths["kdim"] + lengths["vdim"])
    assert found.layers[0].before == matrices + (4 * 192 if not sizes else 0)
    want = in_both(lambda: net(q, k, v)[0])
    assert type(net.out_proj) is nn.Dense
    small = ms.quantize(net, "int8")
    got = in_both(lambda: small(q, k, v)[0])
    away = np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2))
    assert 0 < away < 2e-2 and away == pytest.approx(found.whole, rel=0.2)
    assert type(small) is SmallAttention and type(small.out_proj) is SmallDense
    rows = small.q_proj.weight.asnumpy()
    np.testing.assert_allclose(rows, wide[:64], atol=np.abs(wide).max() / 127)
    other = nn.MultiheadAttention(64, 4, **sizes).set_train(False)
    other = ms.quantize(other, "int8")
    assert ms.load_param_into_net(other, small.parameters_dict()) == ([], [])
    assert other(q, k, v)[0].asnumpy().tobytes() == got.tobytes()


def test_a_layer_alone_and_what_it_reads() -> None:
    layer = nn.Dense(40, 6, activation="relu")
    rows = np.random.default_rng(1).standard_normal((3, 5, 40)).astype(np.float32)
    for kind in KINDS:
        small = ms.quantize(layer, kind, group_size=32 if kind[:3] == "int" else None)
        assert isinstance(small, SmallDense) and isinstance(layer, nn.Dense)
        weight = in_both(lambda small=small: small.weight)
        want = np.maximum(rows @ weight.T + layer.bias.asnumpy(), 0)
        np.testing.assert_allclose(small(ms.Tensor(rows)).asnumpy(), want, atol=1e-5)
        one = small(ms.Tensor(rows[0, 0])).asnumpy()
        assert one.tobytes() == small(ms.Tensor(rows)).asnumpy()[0, 0].tobytes()
        table = ms.quantize(nn.Embedding(6, 40), kind)
        whole = in_both(lambda table=table: table.embedding_table)
        got = in_both(lambda table=table: table(ms.Tensor([[5, 0]], ms.int32)))
        assert got.tobytes() == whole[[[5, 0]]].tobytes()


class Tied(nn.Cell):
    """An embedding whose table is the matrix of the last layer, too."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(100, 96)
        self.head = nn.Dense(96, 100, has_bias=False)
        self.head.weight = self.tokens.embedding_table

    def construct(self, ids: ms.Tensor) -> ms.Tensor:
        return self.head(self.tokens(ids))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_tied_head_shares_the_small_table(kind: Any, symmetric: bool) -> None:
    net = ms.quantize(Tied(), kind, symmetric=symmetric)
    assert net.head.panels is net.tokens.panels and net.head.scales is net.tokens.scales
    floats = kind not in ("int8", "int4")
    assert len(net.parameters_dict()) == (1 if floats else 3 - symmetric)
    ids = np.array([[0, 1, 63, 64], [99, -1, -100, 5]], np.int32)
    rows = in_both(lambda: net.tokens(ms.Tensor(ids)))
    table = net.head.weight.asnumpy()
    assert rows.tobytes() == table[ids].tobytes()
    want = rows.astype(np.float64) @ table.astype(np.float64).T
    np.testing.assert_allclose(in_both(lambda: net(ms.Tensor(ids))), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("number", [100, -101, 2**31 - 1])
def test_rows_that_a_table_has_not(number: int, mode: int) -> None:
    ms.set_context(mode=mode)
    small = ms.quantize(nn.Embedding(100, 96), "int4")
    with pytest.raises(IndexError, match=rf"must be in \[-100, 100\), but got {number}"):
        small(ms.Tensor([3, number], ms.int32)).asnumpy()


def test_weights_take_few_bytes() -> None:
    dense = nn.Dense(256, 128, has_bias=False)
    bytes_of = {kind: sum(p.nbytes for p in ms.quantize(dense, kind).get_parameters())
                for kind in KINDS}
    assert bytes_of == {"bfloat16": 65536, "float16": 65536, "int8": 32768 + 256,
                        "int4": 16384 + 1024}


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints(kind: Any, tmp_path: Path) -> None:
    net = ms.quantize(network(), kind, symmetric=False)
    want = net(ms.Tensor(IDS)).asnumpy()
    for file in ("net.ckpt", "net.safetensors"):
        ms.save_checkpoint(net, str(tmp_path / file), format=file.partition(".")[2])
        ms.set_seed(8)
        other = ms.quantize(Net().set_train(False), kind, symmetric=False)
        assert other(ms.Tensor(IDS)).asnumpy().tobytes() != want.tobytes()
        loaded = ms.load_checkpoint(str(tmp_path / file), format=file.partition(".")[2])
        left, _ = ms.load_param_into_net(other, loaded)
        assert not left and other(ms.Tensor(IDS)).asnumpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_artifacts(kind: Any, tmp_path: Path) -> None:
    net, path = ms.quantize(network(), kind), tmp_path / "net.cellc"
    ms.compile_artifact(path, (net, "int32[B,9]"))
    loaded = artifact.load(path, trust_native_code=True)
    assert loaded(IDS).tobytes() == net(ms.Tensor(IDS)).asnumpy().tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_inputs(kind: Any) -> None:
    small = ms.quantize(nn.Dense(70, 33), kind, symmetric=False)
    x = ms.Tensor(np.random.default_rng(1).standard_normal((4, 70)), ms.float32)
    got = in_both(lambda: ms.grad(lambda x: ops.sum(small(x)))(x))
    want = np.broadcast_to(small.weight.asnumpy().astype(np.float64).sum(0), (4, 70))
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("name", ["panels", "scales"])
@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_weights_have_no_gradient(mode: int, name: str) -> None:
    ms.set_context(mode=mode)
    kind: Any = "bfloat16" if name == "panels" else "int8"
    small = ms.quantize(nn.Dense(70, 33), kind)
    assert [p.name for p in small.trainable_params()] == ["bias"]
    wanted = getattr(small, name)
    x = ms.Tensor(np.ones((4, 70)), ms.float32)
    with pytest.raises(Exception, match="weights stored in few bits, and their scales, have no "
                                        "gradient"):
        ms.grad(lambda x: ops.sum(small(x)), None, ms.ParameterTuple((wanted,)))(x)


def test_biases_are_trained() -> None:
    small = ms.quantize(nn.Dense(70, 33), "int8")
    optimizer = nn.SGD(small.trainable_params(), 0.1)
    step = nn.TrainOneStepCell(nn.WithLossCell(small, nn.MSELoss()), optimizer)
    x, y = (ms.Tensor(np.random.default_rng(i).standard_normal((8, n)), ms.float32)
            for i, n in enumerate((70, 33)))
    losses = [float(step(x, y).asnumpy()) for _ in range(20)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("kind", KINDS)
def test_to_float_keeps_the_small_weights(kind: Any, mode: int) -> None:
    """Under `to_float` inputs and biases are of 16 bits; weights and scales are as stored."""
    ms.set_context(mode=mode)
    dense = nn.Dense(70, 33)
    x = ms.Tensor(np.random.default_rng(1).standard_normal((4, 70)), ms.float32)
    small = ms.quantize(dense, kind)
    want = small(x.astype(ms.float16))
    assert want.dtype == ms.float16
    got = small.to_float(ms.float16)(x)
    assert got.dtype == ms.float16 and got.asnumpy().tobytes() == want.asnumpy().tobytes()


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    net = ms.quantize(nn.Dense(500, 900), "int4")
    x = ms.Tensor(np.random.default_rng(1).standard_normal((33, 500)), ms.float32)
    got = []
    for threads in (1, 2, 3):
        ms.runtime.dispatch_threads_num(threads)
        got.append(net(x).asnumpy().tobytes())
    assert len(set(got)) == 1


def test_shared_layers_stay_shared() -> None:
    dense = nn.Dense(32, 32)
    net = ms.quantize(nn.CellList([dense, nn.Dense(32, 32), dense]))
    assert net[0] is net[2] and net[0] is not net[1]


def test_skipped_layers() -> None:
    net = ms.quantize(network(), skip=["body.*", "tokens"])
    kinds = [type(c) for _, c in net.cells_and_names()]
    assert kinds.count(nn.Dense) == kinds.count(nn.Linear) == kinds.count(nn.Embedding) == 1
    assert kinds.count(SmallDense) == 5
    left = [name for name, _ in left_as_they_are(net)]
    assert left == ["tokens", "body.0", "body.1"]


def test_rows_that_are_scaled_to_a_norm_stay() -> None:
    net = ms.quantize(nn.SequentialCell(ms.mint.nn.Embedding(8, 32, max_norm=1.0),
                                        nn.Dense(32, 32)))
    assert [name for name, _ in left_as_they_are(net)] == ["0"]


def with_weight(value: float) -> nn.Cell:
    dense = nn.Dense(8, 4)
    array = dense.weight.asnumpy().copy()
    array[1, 2] = value
    dense.weight.set_data(ms.Tensor(array))
    return nn.SequentialCell(dense)


class _Training(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Dense(8, 4)
        self.optimizer = nn.SGD(self.net.trainable_params(), 0.1)


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: ms.quantize(network(), "int7"), ValueError,
     "For 'quantize', 'weights' must be one of 'bfloat16', 'float16', 'int8', 'int4', but got "
     "'int7'."),
    (lambda: ms.quantize(network(), "int8", group_size=48), ValueError,
     "For 'quantize', 'group_size' must be a multiple of 32, 0 for one scale a row, or None, but "
     "got 48."),
    (lambda: ms.quantize(network(), "int8", skip="boby.0"), ValueError,
     "For 'quantize', 'skip' must name layers of the network ('tokens', 'body.0', 'body.1', "
     "'attention', 'attention.out_proj', 'head'), but got 'boby.0'."),
    (lambda: ms.quantize(with_weight(np.nan)), ValueError,
     "For 'quantize', '0.weight' must be finite, but got nan at [1, 2]."),
    (lambda: ms.quantize(with_weight(-np.inf), "bfloat16"), ValueError,
     "For 'quantize', '0.weight' must be finite, but got -inf at [1, 2]."),
    (lambda: ms.quantize(with_weight(1e5), "float16"), ValueError,
     "For 'quantize', '0.weight' must fit into float16, but got 100000.0."),
    (lambda: ms.quantize(nn.LayerNorm((3,))), ValueError,
     "For 'quantize', 'network' must have a Dense, Linear, Embedding, MultiheadAttention, "
     "convolution or recurrent layer of float32 or 16-bit floats, but got LayerNorm."),
    (lambda: ms.quantize(nn.Dense(3, 4), skip=""), ValueError,
     "For 'quantize', 'network' must have a Dense, Linear, Embedding, MultiheadAttention, "
     "convolution or recurrent layer of float32 or 16-bit floats that is not skipped, but got "
     "Dense."),
    (lambda: ms.quantize(_Training()), TypeError,
     "For 'quantize', 'network' must be without an optimizer, whose Parameters stay floats, but "
     "got SGD in it."),
    (lambda: ms.quantize(lambda x: x), TypeError,
     "For 'quantize', 'network' must be a Cell, but got a function."),
    (lambda: ms.quantize(nn.Dense(8, 4))(ms.Tensor(np.ones((2, 9), np.float32))), ValueError,
     "For 'SmallDense', the last axis of 'x' must be 8, but got (2, 9)."),
    (lambda: ms.quantize(nn.Dense(8, 4))(ms.Tensor(np.ones((2, 8), np.int32))), TypeError,
     "For 'SmallDense', 'x' must be of float32, float16 or bfloat16, but got Int32."),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    call, kind, text = BAD[case]
    with pytest.raises(kind, match=re.escape(text) + r"\Z"):
        call()
