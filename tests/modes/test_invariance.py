"""Equal bits whatever the machine's vectors and whatever the batch that a row comes in.

Which order elements are added in is `loops/order.py`; the small back end of `tests/backends` keeps
that table with plain loops. Here code for every target that this machine runs is compared, and rows
of batches of several sizes, in both modes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.compiled.traced import trace
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import Op
from cellc_compiler.loops import order
from cellc_runtime.target import host_targets

from ..ops.test_matrix import batch_of, every_op, fused
from ..samples.networks import NETWORKS
from .law import MODES, Array, assert_same, mode

TARGETS = host_targets()
two_targets = pytest.mark.skipif(len(TARGETS) < 2, reason="this machine runs one target only")
F32, F16, F64 = np.float32, np.float16, np.float64
BF16 = ml_dtypes.bfloat16


def normal(*shape: int, dtype: Any = F32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def on_all_targets(graph: Graph, arrays: list[Array], what: object) -> None:
    """Each target's code gives the bits of the best one's."""
    best, *others = (compile_graph(graph, t)([np.array(a) for a in arrays]) for t in TARGETS)
    for other in others:
        assert_same(other, best, what)


# --- the machine --------------------------------------------------------------------------------


@two_targets
@pytest.mark.parametrize("op", every_op())
def test_ops_on_every_target(op: Op) -> None:
    batch = batch_of(op)
    arrays = [np.asarray(True), *(a for case in batch for a in case.arrays)]
    on_all_targets(fused(batch), arrays, op.name)


ROWS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(-1),
    "prod": lambda x: ops.prod(x * 0.0001 + 1, -1),
    "extremes": lambda x: (x.max(axis=-1), ops.argmax(x, -1)),
    "softmax": lambda x: ops.softmax(x, -1),
    "logsumexp": lambda x: ops.logsumexp(x, -1),
    "std": lambda x: ops.std(x, -1),
    "norm": lambda x: ops.layer_norm(x, (x.shape[-1],), ops.ones((x.shape[-1],), x.dtype),
                                     ops.zeros((x.shape[-1],), x.dtype), 1e-5),
}
LENGTHS = (1, 5, 9, 17, 31, 33, 100, 1000, 65536, 100_003, 3 * 65536)


@two_targets
@pytest.mark.parametrize("dtype", [F32, F16, F64, BF16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", ROWS)
def test_rows_on_every_target(name: str, dtype: Any) -> None:
    for n in LENGTHS:
        for rows in (1, 9):
            x = normal(rows, n, dtype=dtype)
            traced = trace(ROWS[name], [Tensor(x)], {})
            on_all_targets(traced.graph, traced.fed([x]), (name, rows, n))


AXES = ((0,), (1,), (0, 1), (1, 2), (0, 2), (1, 3), (0, 2, 3), (0, 1, 3))


@two_targets
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (4, 64, 9, 9), (2, 70, 30, 31), (2, 8, 300, 300)],
                         ids=str)
def test_sums_along_axes_on_every_target(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    for axes in AXES:
        traced = trace(lambda x, axes=axes: x.sum(axes), [Tensor(x)], {})
        on_all_targets(traced.graph, traced.fed([x]), (shape, axes))


@two_targets
@pytest.mark.parametrize("dtype", [F32, F16, F64, np.complex64], ids=lambda d: np.dtype(d).name)
def test_products_on_every_target(dtype: Any) -> None:
    for m, k, n in ((1, 40, 1), (1, 130, 7), (5, 33, 16), (3, 500, 10), (33, 129, 40), (7, 800, 70),
                    (2, 1000, 1), (1, 70_000, 1), (40, 1200, 130)):
        for ta, tb in ((False, False), (False, True), (True, False), (True, True)):
            product = ops.BatchMatMul(ta, tb)
            x = normal(*((k, m) if ta else (m, k)), dtype=dtype)
            y = normal(*((n, k) if tb else (k, n)), dtype=dtype, seed=1)
            traced = trace(lambda x, y, f=product: f(x, y), [Tensor(x), Tensor(y)], {})
            on_all_targets(traced.graph, traced.fed([x, y]), (m, k, n, ta, tb))


CONVOLUTIONS = (  # images, channels, side, output channels, window, stride, groups
    (1, 3, 9, 8, 3, 1, 1), (5, 16, 8, 32, 3, 2, 1), (4, 32, 14, 32, 1, 1, 1),
    (3, 24, 7, 24, 3, 1, 24), (17, 16, 12, 16, 5, 1, 4), (2, 64, 28, 64, 3, 1, 1),
    (40, 3, 16, 9, 3, 1, 1), (20, 1, 28, 6, 5, 1, 1),
)


@two_targets
@pytest.mark.parametrize("sizes", CONVOLUTIONS, ids=str)
def test_convolutions_on_every_target(sizes: tuple[int, ...]) -> None:
    n, c, side, oc, window, stride, groups = sizes

    def conv(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, None, stride, "pad", window // 2, 1, groups)

    def gradients(x: Any, w: Any) -> Any:
        return ms.grad(lambda x, w: (conv(x, w) ** 2).sum(), (0, 1))(x, w)

    x, w = normal(n, c, side, side), normal(oc, c // groups, window, window, seed=1)
    for f in (conv, gradients):
        traced = trace(f, [Tensor(x), Tensor(w)], {})
        on_all_targets(traced.graph, traced.fed([x, w]), f.__name__)


@two_targets
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_every_target(name: str) -> None:
    """A training step of the sample networks, and inference."""
    sample = NETWORKS[name]
    ms.set_context(mode=ms.GRAPH_MODE)
    for net, inputs in ((sample.make().set_train(False), sample.input()),
                        (sample.train_step(sample.make()), sample.batch())):
        traced = trace(net, inputs, {})
        arrays = [t.asnumpy() for t in (*inputs, *traced.parameters)]
        on_all_targets(traced.graph, arrays, name)


# --- the batch ----------------------------------------------------------------------------------


class Images(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.SequentialCell(
            nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, group=3),
            nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(24, 10))

    def construct(self, x: Any) -> Any:
        return ops.softmax(self.body(x), -1)


class Attention(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Dense(32, 3)

    def construct(self, x: Any) -> Any:
        return self.head(self.block(x).mean(1))


class Recurrent(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 10, batch_first=True), nn.Dense(10, 1)

    def construct(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


def mlp(*sizes: int) -> nn.Cell:
    layers: list[nn.Cell] = []
    for a, b in pairwise(sizes):
        layers += [nn.Dense(a, b), nn.GELU(), nn.LayerNorm((b,))]
    return nn.SequentialCell(layers[:-2])


NETS: dict[str, tuple[Callable[[], nn.Cell], tuple[int, ...]]] = {
    "mlp": (lambda: mlp(20, 64, 32, 5), (20,)),
    "wide mlp": (lambda: mlp(900, 300, 1), (900,)),
    "deep products": (lambda: mlp(2500, 40, 700), (2500,)),
    "images": (Images, (3, 16, 16)),
    "attention": (Attention, (9, 32)),
    "recurrent": (Recurrent, (7, 6)),
}


def of_rows(f: Callable[[Tensor], Any], x: Array) -> Array:
    return np.array(f(Tensor(x)).asnumpy())


@pytest.mark.parametrize("how", MODES, ids=["pynative", "graph"])
@pytest.mark.parametrize("name", NETS)
def test_a_row_of_a_network_does_not_see_its_batch(name: str, how: int) -> None:
    make, shape = NETS[name]
    ms.set_seed(2)
    with mode(how):
        net, x = make().set_train(False), normal(33, *shape)
        whole = of_rows(net, x)
        for n in (1, 2, 3, 8, 17):
            assert_same([of_rows(net, x[:n])], [whole[:n]], (name, n))
            assert_same([of_rows(net, x[n : n + 1])], [whole[n : n + 1]], (name, "row", n))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_a_reduction_does_not_see_its_batch(name: str) -> None:
    for n in (7, 1000, 65536, 100_003, 3 * 65536):
        x = normal(20, n)
        f = ms.jit(lambda x: ops.stack([r.astype(ms.float32).reshape(x.shape[0], -1)[:, 0]
                                        for r in _several(ROWS[name](x))], 1))
        whole = of_rows(f, x)
        for rows in (1, 3, 9):
            assert_same([of_rows(f, x[:rows])], [whole[:rows]], (name, n, rows))


def _several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", [F32, F16, np.complex64], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_row_of_a_product_does_not_see_its_batch(transposed: bool, dtype: Any) -> None:
    """Weights that are not known ahead, too."""
    product = ops.BatchMatMul(False, transposed)
    for k, n in ((33, 10), (130, 1), (500, 20), (800, 100), (1500, 2)):
        w = Tensor(normal(*((n, k) if transposed else (k, n)), dtype=dtype, seed=1))
        x = normal(33, k, dtype=dtype)
        whole = of_rows(lambda x, w=w: product(x, w), x)
        for m in (1, 2, 7):
            assert_same([of_rows(lambda x, w=w: product(x, w), x[:m])], [whole[:m]], (k, n, m))


# --- the table ----------------------------------------------------------------------------------


def test_segments_cover_k_and_are_few_and_long() -> None:
    for n in (1, 2, 16, 17, 64, 100, 128, 5000):
        for k in (0, 1, 63, 64, 127, 128, 384, 385, 1000, 4096, 100_000):
            segment = order.product_segment(n, k, 4)
            if not segment:
                assert k <= order.LONGEST_SEGMENT
                continue
            assert segment % 32 == 0 and order.SHORTEST_SEGMENT <= segment < k
            assert segment <= order.LONGEST_SEGMENT + 31


def test_parts_of_rows_divide_them() -> None:
    for extent in (1, 65535, 65536, 100_003, 131_074, 1 << 20, 12_845_056):
        parts = order.row_parts(extent)
        assert extent % parts == 0 and (parts == 1 or extent // parts >= order.PART)
        assert order.row_parts(extent // parts) == 1, "a part is not cut again"


def test_runs_of_images_are_not_empty() -> None:
    for n in (0, 1, 2, 7, 17, 31, 33, 128):
        for elements in (9, 150, 9408, 1 << 20):
            runs = order.image_runs(n, elements, n * elements * 784)
            each = -(-n // runs)
            assert 1 <= runs <= max(n, 1) and (runs - 1) * each < max(n, 1)
