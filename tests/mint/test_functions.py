"""Functions of `mint` that PyTorch cannot judge: draws, results of open size, one process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Generator, Tensor, mint, nn, ops
from cellc.mint import distributed as dist
from cellc.ops.functional.orthogonal import singular_values

DRAWS: tuple[tuple[str, Callable[[Any], Tensor]], ...] = (
    ("rand", lambda g: mint.rand(2, 3, generator=g)),
    ("randn", lambda g: mint.randn((2, 3), generator=g, dtype=ms.float64)),
    ("randint", lambda g: mint.randint(2, 9, (5,), generator=g)),
    ("randperm", lambda g: mint.randperm(6, generator=g)),
    ("normal", lambda g: mint.normal(Tensor([1.0, 2.0]), 0.5, generator=g)),
    ("multinomial", lambda g: mint.multinomial(Tensor([0.2, 0.3, 0.5]), 2, generator=g)),
    ("bernoulli", lambda g: mint.bernoulli(Tensor([0.5] * 8), generator=g)),
)


@pytest.mark.parametrize(("name", "draw"), DRAWS, ids=[d[0] for d in DRAWS])
def test_generators_repeat_and_go_on(name: str, draw: Callable[[Any], Tensor]) -> None:
    g = Generator().manual_seed(5)
    first, second = draw(g).asnumpy(), draw(g).asnumpy()
    g.manual_seed(5)
    assert draw(g).asnumpy().tobytes() == first.tobytes()
    assert draw(g).asnumpy().tobytes() == second.tobytes()
    ms.set_seed(11)
    state = ms.get_rng_state().asnumpy().tobytes()
    draw(g)
    assert ms.get_rng_state().asnumpy().tobytes() == state  # the global one is left alone
    with pytest.raises(TypeError, match="generator"):
        draw(3)


class _Drawing(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.generator = Generator().manual_seed(3)

    def construct(self, x: Tensor) -> tuple[Tensor, ...]:
        g = self.generator
        return (mint.rand(4, generator=g) + x, mint.randint(0, 100, (4,), generator=g),
                mint.randperm(5, generator=g), mint.normal(0.0, 2.0, (3,), g),
                mint.multinomial(x, 2, True, generator=g), mint.rand_like(x), mint.randn(2, 2))


def test_draws_are_the_same_in_both_modes() -> None:
    x, found = Tensor([0.1, 0.2, 0.3, 0.4]), []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        try:
            ms.set_seed(1)
            net = _Drawing()
            found.append([[t.asnumpy().tobytes() for t in net(x)] for _ in range(2)])
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_distributions() -> None:
    g = Generator().manual_seed(0)
    u = mint.rand(20000, generator=g).asnumpy()
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    z = mint.normal(2.0, 3.0, (20000,), g).asnumpy()
    assert abs(z.mean() - 2) < 0.1 and abs(z.std() - 3) < 0.1
    r = mint.randint(3, 7, (20000,), generator=g).asnumpy()
    assert set(r) == {3, 4, 5, 6} and r.dtype == np.int64
    assert sorted(mint.randperm(50, generator=g).asnumpy()) == list(range(50))
    c = mint.multinomial(Tensor([1.0, 0.0, 3.0]), 20000, True, generator=g).asnumpy()
    assert abs((c == 2).mean() - 0.75) < 0.02 and not (c == 1).any()


def test_kinds_and_shapes_of_draws() -> None:
    like = Tensor(np.zeros((2, 3), np.float16))
    assert (mint.rand_like(like).dtype, mint.randn_like(like, dtype=ms.float64).dtype) == (
        ms.float16, ms.float64)
    assert mint.randint(5, size=(2,)).shape == (2,) and mint.randint(high=5, size=[2]).shape == (2,)
    assert mint.randint_like(Tensor([1, 2]), 4).dtype == ms.int64
    assert mint.randint_like(like, low=1, high=4, dtype=ms.int32).dtype == ms.int32
    assert mint.rand(0).shape == (0,) and mint.randperm(0).shape == (0,)
    assert mint.normal(1.0, Tensor([0.0, 0.0])).asnumpy().tolist() == [1.0, 1.0]


def test_open_sizes_and_positions() -> None:
    assert mint.bincount(Tensor([0, 1, 1, 3, 2, 1, 7])).asnumpy().tolist() == [
        1, 3, 1, 1, 0, 0, 0, 1]
    weighed = mint.bincount(Tensor([0, 1, 1, 2, 2, 2]), Tensor(
        np.array([0.3, 0.5, 0.2, 0.7, 1.0, -0.6])), minlength=5)
    np.testing.assert_allclose(weighed.asnumpy(), [0.3, 0.7, 1.1, 0, 0])
    assert mint.bincount(Tensor(np.zeros(0, np.int64)), minlength=2).asnumpy().tolist() == [0, 0]
    values, inverse, counts = mint.unique(
        Tensor(np.array([[1, 2], [5, 2]], np.int32)), return_inverse=True, return_counts=True)
    assert values.asnumpy().tolist() == [1, 2, 5] and values.dtype == ms.int32
    assert inverse.asnumpy().tolist() == [[0, 1], [2, 1]] and counts.asnumpy().tolist() == [1, 2, 1]
    assert mint.unique(Tensor([[3, 1], [3, 1]]), dim=0).asnumpy().tolist() == [[3, 1]]
    assert mint.item(Tensor([[2.5]])) == 2.5
    assert mint.nn.functional.one_hot(Tensor([0, 2])).asnumpy().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_equal_and_lists_of_subscripts() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([1.0, 3.0, 5.0])
    assert mint.equal(x, x * 1) is True and mint.equal(x, y[:2]) is False
    assert mint.equal(x, y) is False
    both = ms.jit(lambda a, b: mint.where(mint.equal(a, b), a, b * 0))
    assert both(x, x).asnumpy().tolist() == [1.0, 2.0]
    assert both(x, x + 1).asnumpy().tolist() == [0.0, 0.0]
    outer = mint.einsum(x, [..., 1], y, [..., 2], [..., 1, 2])
    assert outer.asnumpy().tolist() == [[1.0, 3.0, 5.0], [2.0, 6.0, 10.0]]
    assert float(mint.einsum(x, [0], x, [0]).asnumpy()) == 5.0
    with pytest.raises(ValueError, match="52"):
        mint.einsum(x, [52])


def test_in_place_functions_change_their_input() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert mint.addr_(x, Tensor([1.0, 2.0]), Tensor([1.0, -1.0]), 2, 0.5) is x
    np.testing.assert_allclose(x.asnumpy(), [[2.5, 3.5], [7.0, 7.0]])
    functional = mint.nn.functional
    for name, want in (("relu_", [0.0, 2.0]), ("sigmoid_", [0.26894143, 0.880797]),
                       ("hardtanh_", [-1.0, 1.0])):
        y = Tensor([-1.0, 2.0])
        assert getattr(functional, name)(y) is y
        np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-6)


def test_statistics_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((6, 3, 4)).astype(np.float32))
    parts = [mint.batch_norm_stats(p, 1e-5) for p in (x[:2], x[2:])]
    running = Tensor(np.zeros(3, np.float32)), Tensor(np.ones(3, np.float32))
    mean, invstd = mint.batch_norm_gather_stats_with_counts(
        x, ops.stack([p[0] for p in parts]), ops.stack([p[1] for p in parts]), *running, 0.1, 1e-5,
        Tensor([8.0, 16.0]))
    whole = mint.batch_norm_stats(x, 1e-5)
    np.testing.assert_allclose(mean.asnumpy(), whole[0].asnumpy(), atol=1e-6)
    np.testing.assert_allclose(invstd.asnumpy(), whole[1].asnumpy(), rtol=1e-5)
    out = mint.batch_norm_elemt(x, Tensor([1.0, 2.0, 3.0]), None, mean, invstd, 1e-5)
    layer = mint.nn.BatchNorm1d(3).set_train()
    layer.weight.set_data(Tensor([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(out.asnumpy(), layer(x).asnumpy(), atol=1e-5)
    np.testing.assert_allclose(running[0].asnumpy(), layer.running_mean.asnumpy(), atol=1e-6)
    np.testing.assert_allclose(running[1].asnumpy(), layer.running_var.asnumpy(), rtol=1e-5)


# --- gradients of linear algebra ------------------------------------------------------------------

MATRIX = np.array([[2.0, -1.0, 0.5], [0.5, 3.0, -0.25], [1.0, 0.75, -2.0], [0.3, -0.4, 1.2]])
GRADIENTS: tuple[tuple[str, Callable[[Tensor], Any]], ...] = (
    ("qr", lambda x: mint.linalg.qr(x)),
    ("inverse", lambda x: mint.inverse(x[:3])),
    ("triangular", lambda x: mint.triangular_solve(x[1:, :2] * 2, x[:3])[0]),
    ("lower", lambda x: mint.triangular_solve(x[1:, :2], x[:3], False, True)[0]),
    ("nuclear", lambda x: mint.linalg.matrix_norm(x, "nuc")),
    ("largest", lambda x: mint.linalg.norm(x, 2)),
    ("smallest", lambda x: mint.linalg.norm(x[:, :2], -2)),
    ("vector", lambda x: mint.linalg.vector_norm(x, 3, 1)),
)


class _Scalar(nn.Cell):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, x: Tensor) -> Any:
        out = self.function(x)
        outs = out if isinstance(out, tuple) else (out,)
        total = 0.0
        for y in outs:
            total = total + (y * ops.cos(ops.arange(y.size).astype(y.dtype)).reshape(y.shape)).sum()
        return total


@pytest.mark.parametrize(("name", "function"), GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_gradients_of_linear_algebra(name: str, function: Callable[[Tensor], Any]) -> None:
    x, found = Tensor(MATRIX), []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        try:
            found.append(ms.grad(_Scalar(function))(x).asnumpy())
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
    assert found[0].tobytes() == found[1].tobytes()
    want, net, step = np.zeros_like(MATRIX), _Scalar(function), 1e-6
    for at in np.ndindex(*MATRIX.shape):
        high, low = MATRIX.copy(), MATRIX.copy()
        high[at] += step
        low[at] -= step
        want[at] = (float(net(Tensor(high)).asnumpy()) - float(net(Tensor(low)).asnumpy())) / (
            2 * step)
    np.testing.assert_allclose(found[0], want, rtol=2e-5, atol=1e-7)


def test_singular_values_of_larger_and_deficient_matrices() -> None:
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((20, 33)).astype(np.float32)
    got = np.sort(singular_values(Tensor(wide)).asnumpy())
    np.testing.assert_allclose(got, np.sort(np.linalg.svd(wide, compute_uv=False)), rtol=1e-4)
    flat = np.outer([1.0, 2.0, 3.0], [1.0, -1.0]).astype(np.float32)
    np.testing.assert_allclose(np.sort(singular_values(Tensor(flat)).asnumpy()),
                               [0.0, np.sqrt(28.0)], atol=1e-5)
    assert singular_values(Tensor(np.zeros((2, 3, 0), np.float32))).shape == (2, 0)
    assert [t.shape for t in mint.linalg.qr(Tensor(np.zeros((0, 3), np.float32)))] == [
        (0, 0), (0, 3)]


# --- one process ----------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group()
    yield
    dist.destroy_process_group()


def test_collectives_of_one_process(group: None) -> None:
    assert (dist.get_rank(), dist.get_world_size(), dist.is_initialized()) == (0, 1, True)
    x, out = Tensor([[1.0, 2.0]]), Tensor(np.zeros((1, 2), np.float32))
    for call in (lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0),
                 lambda: dist.reduce(x, 0, "max"), lambda: dist.barrier()):
        assert call() is None
    assert x.asnumpy().tolist() == [[1.0, 2.0]]
    for call in (
        lambda: dist.all_gather([out], x), lambda: dist.all_gather_into_tensor(out, x),
        lambda: dist.all_gather_into_tensor_uneven(out, x, [1]),
        lambda: dist.reduce_scatter(out, [x]), lambda: dist.reduce_scatter_tensor(out, x, "avg"),
        lambda: dist.reduce_scatter_tensor_uneven(out, x, [1]), lambda: dist.gather(x, [out]),
        lambda: dist.scatter(out, [x]), lambda: dist.all_to_all([out], [x]),
        lambda: dist.all_to_all_single(out, x, [1], [1]),
    ):
        out.copy_(Tensor(np.zeros((1, 2), np.float32)))
        assert call() is None
        assert out.asnumpy().tolist() == [[1.0, 2.0]]
    handle = dist.all_reduce(x, async_op=True)
    assert handle is not None and handle.wait() is None
    objects: list[Any] = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    dist.scatter_object_list(objects, ["b"])
    dist.broadcast_object_list(objects)
    assert objects == ["b"]
    dist.gather_object(7, objects)
    assert objects == [7]


def test_groups_of_one_process(group: None) -> None:
    first, second = dist.new_group([0]), dist.new_group([0])
    assert first != second and dist.get_process_group_ranks(first) == [0]
    assert dist.get_rank(first) == dist.get_global_rank(first, 0) == dist.get_group_rank(first, 0)
    assert dist.new_group() == "hccl_world_group"
    dist.destroy_process_group(first)
    with pytest.raises(ValueError, match="no group"):
        dist.get_rank(first)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda x: dist.send(x, 1), RuntimeError,
     "'dst' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.recv(x), RuntimeError,
     "'src' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.isend(x), RuntimeError,
     "'dst' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.irecv(x), RuntimeError,
     "'src' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.send_object_list([1], 1), RuntimeError,
     "'dst' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.recv_object_list([1]), RuntimeError,
     "'src' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.batch_isend_irecv([dist.P2POp("isend", x, 1)]), RuntimeError,
     "'dst' must be another process, but cellc runs in one: there is nobody to exchange with"),
    (lambda x: dist.batch_isend_irecv([]), TypeError,
     "For 'batch_isend_irecv', 'p2p_op_list' must be a list of P2POp, but got []"),
    (lambda x: dist.P2POp("put", x, 1), TypeError, "'op' must be isend or irecv, but got 'put'"),
    (lambda x: dist.all_reduce(3), TypeError, "'tensor' must be a Tensor, but got int"),
    (lambda x: dist.all_reduce(x, "mean"), TypeError,
     "For 'all_reduce', 'op' must be one of ('sum', 'prod', 'max', 'min', 'avg'), but got 'mean'"),
    (lambda x: dist.all_reduce(x, group=3), TypeError,
     "'group' must be a str, but got 3"),
    (lambda x: dist.all_reduce(x, async_op=1), TypeError, "'async_op' must be a bool, but got int"),
    (lambda x: dist.broadcast(x, 1), ValueError, "'src' must be one of the ranks [0], but got 1"),
    (lambda x: dist.broadcast(x, "a"), TypeError, "'src' must be an int, but got 'a'"),
    (lambda x: dist.all_gather([x, x], x), TypeError,
     "'tensor_list' must be a list of as many Tensors as there are processes, 1, but got 2"),
    (lambda x: dist.all_gather([Tensor([1])], x), TypeError,
     "output must have the type and shape of what arrives, Float32 (1,), but is Int64 (1,)"),
    (lambda x: dist.all_to_all_single(x, x, [2]), ValueError,
     "'output_split_sizes' must hold the rows for each of 1 processes, 1 together, but got [2]"),
    (lambda x: dist.new_group([0, 1]), ValueError,
     "For 'new_group', 'ranks' must be one of the ranks [0], but got 1"),
    (lambda x: dist.new_group([0, 0]), TypeError,
     "For 'new_group', 'ranks' must be a list of different ints, but got [0, 0]"),
    (lambda x: dist.init_process_group("nccl"), ValueError,
     "For 'init_process_group', 'backend' must be one of ('hccl', 'mccl'), but got 'nccl'"),
    (lambda x: dist.init_process_group(world_size=2), ValueError,
     "'world_size' must be -1 or 1, as the launcher has it, but got 2"),
])
def test_errors_of_one_process(
    call: Callable[[Tensor], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call(Tensor([1.0]))


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: mint.empty(2, device="TPU"), ValueError, "but got 'TPU'"),
    (lambda: mint.empty(2, device=0), TypeError, "must be None, 'CPU' or 'GPU', but got 0"),
    (lambda: mint.empty("a"), TypeError, "For 'empty', 'size' must be ints, but got 'a'"),
    (lambda: mint.rand(2, device="Ascend"), RuntimeError, "Ascend"),
    (lambda: mint.rand(-1), ValueError, "dimension 0 of 'size' must be non-negative, but got -1"),
    (lambda: mint.randint(0, 5, 3), TypeError, "'size' must be a tuple or a list, but got 3"),
    (lambda: mint.randint(0.5, 5, (3,)), TypeError, "'low' must be an int, but got float"),
    (lambda: mint.randint(3, 1, (2,)), ValueError, "'low' must be below 'high', but got 3 and 1"),
    (lambda: mint.randint((2,)), TypeError,
     "arguments must be (low, high, size) or (high, size), but got 1 by position and []"),
    (lambda: mint.randperm(-1), ValueError, "For 'randperm', 'n' must be non-negative, but got -1"),
    (lambda: mint.randperm(3.5), TypeError, "For 'randperm', 'n' must be an int, but got float"),
    (lambda: mint.randperm(300, dtype=ms.int8), ValueError, "299 does not fit Int8"),
    (lambda: mint.normal(0.0, 1.0), TypeError,
     "'size' must be a tuple or list where 'mean' and 'std' are numbers, but got None"),
    (lambda: mint.normal("a", 1.0), TypeError, "'mean' must be a number or a Tensor, but got str"),
    (lambda: mint.multinomial(Tensor([0.5, 0.5]), 3), ValueError,
     "For 'multinomial', 3 samples without replacement exceed 2"),
    (lambda: mint.bincount(Tensor([0, -1])), ValueError,
     "For 'bincount', 'input' must not hold negative numbers"),
    (lambda: mint.bincount(Tensor([[0, 1]])), ValueError,
     "For 'bincount', 'input' must be ints with one axis, but is Int64 of (1, 2)"),
    (lambda: mint.bincount(Tensor([0.5])), TypeError,
     "For 'bincount', 'input' must be ints with one axis, but is Float32 of (1,)"),
    *((f, ValueError, "the input must have at least one axis, but is a scalar") for f in (
        lambda: ops.chunk(Tensor(1.0), 1), lambda: ops.split(Tensor(1.0), 1),
        lambda: mint.unbind(Tensor(1.0)), lambda: mint.narrow(Tensor(1.0), 0, 0, 1),
        lambda: ops.gather(Tensor(1.0), Tensor([0]), 0), lambda: ops.topk(Tensor(1.0), 1),
        lambda: mint.repeat_interleave(Tensor(1.0), 2, 0), lambda: ops.sort(Tensor(1.0), 0),
        lambda: ops.tensor_split(Tensor(1.0), 1), lambda: mint.roll(Tensor(1.0), 1, 0),
        lambda: ops.cross(Tensor(1.0), Tensor(1.0), 0), lambda: ops.glu(Tensor(1.0), 0),
        lambda: ops.fft(Tensor(1.0), None, 0), lambda: ops.slice_scatter(Tensor(1.0), 1, 0))),
    (lambda: ops.shuffle(Tensor(1.0)), ValueError, "'x' must have shape (n, ...), but has"),
    (lambda: ops.polar(Tensor(1.0), 0.5), TypeError, "'angle' must be a Tensor, but got float"),
    (lambda: ops.trapz(Tensor([1.0, 2.0]), 0.5), TypeError, "'x' must be a Tensor, but got float"),
    (lambda: ops.bincount(Tensor([1]), 0.5), TypeError, "'weights' must be a Tensor"),
    (lambda: Tensor(1.0).clamp_(()), ValueError,
     "cannot assign float32[0] to a Tensor of type float32[]"),
    (lambda: mint.kthvalue(Tensor([1.0]), 2), ValueError, "'k' must be in [1, 1], but got 2"),
    (lambda: mint.kthvalue(Tensor(np.zeros(0, np.float32)), 1), ValueError,
     "For 'kthvalue', 'input' must not be empty, but has shape (0,)"),
    (lambda: mint.item(Tensor([1, 2])), RuntimeError,
     "For 'item', 'input' must have one element, but has 2: (2,)"),
    (lambda: mint.item(3), TypeError, "For 'item', 'input' must be a Tensor, but got int"),
    (lambda: mint.gcd(Tensor([1.5]), Tensor([1])), TypeError,
     "For 'gcd', Tensors of ints are needed, but got Float32"),
    (lambda: mint.special.round(3), TypeError, "'input' must be a Tensor, but got int"),
    (lambda: mint.inverse(ops.ones((2, 3))), ValueError,
     "For 'inverse', 'input' must have shape (..., n, n), but has shape (2, 3)"),
    (lambda: mint.linalg.qr(ops.ones((3,))), ValueError,
     "For 'qr', 'input' must have 2 axes or more, but has shape (3,)"),
    (lambda: mint.linalg.qr(Tensor([[1]])), TypeError,
     "For 'qr', 'input' must be float32 or float64, but got Int64"),
    (lambda: mint.linalg.qr(ops.ones((3, 3)), "full"), ValueError,
     "For 'qr', the 'mode' must be one of ['reduced', 'complete', 'r'], but got 'full'"),
    (lambda: mint.linalg.matrix_norm(ops.ones((3, 3)), "x"), ValueError,
     "'ord' must be one of (2, -2, 1, -1, inf, -inf, 'fro', 'nuc'), but got 'x'"),
    (lambda: mint.linalg.matrix_norm(ops.ones((3, 3)), dim=(0, 0)), ValueError,
     "For 'matrix_norm', 'dim' must hold different axes, but got (0, 0)"),
    (lambda: mint.linalg.matrix_norm(ops.ones((3, 3)), dim=(0,)), ValueError,
     "For 'matrix_norm', 'dim' must hold 2 axes, but got (0,)"),
    (lambda: mint.linalg.matrix_norm(ops.ones((3, 3)), dim=0), TypeError,
     "For 'matrix_norm', 'dim' must be a tuple of 2 ints, but got 0"),
    (lambda: mint.linalg.vector_norm(ops.ones((3, 3)), "a"), ValueError,
     "For 'vector_norm', 'ord' must be a bool, int or float, but got 'a'"),
    (lambda: mint.linalg.vector_norm(ops.ones((3, 3)), dim=(0, 0)), ValueError,
     "For 'vector_norm', 'axis' names an axis twice: (0, 0)"),
    (lambda: mint.linalg.norm(ops.ones((3,)), "fro"), TypeError,
     "For 'norm', 'ord' must be a number for vectors, but got 'fro'"),
    (lambda: mint.triangular_solve(ops.ones((2, 1)), ops.ones((3, 3))), ValueError,
     "'b' (..., n, k) and 'A' (..., n, n) of one type are needed"),
    (lambda: mint.triangular_solve(ops.ones((3,)), ops.ones((3, 3))), ValueError,
     "For 'triangular_solve', 'b' must have 2 to 6 axes, but has shape (3,)"),
    (lambda: mint.nn.functional.conv2d(ops.ones((1, 1, 3, 3)), ops.ones((1, 1, 2, 2)),
                                       padding="same", stride=2), ValueError,
     "For 'conv2d', padding 'same' needs a stride of 1, but got 2"),
    (lambda: mint.nn.functional.conv_transpose2d(
        ops.ones((1, 1, 3, 3)), ops.ones((1, 1, 2, 2)), output_padding=1), ValueError,
     "'output_padding' must be non-negative and below the stride 1 or the dilation 1, but got 1"),
    (lambda: mint.nn.functional.batch_norm(ops.ones((2, 3)), None, None), ValueError,
     "For 'batch_norm', 'running_mean' and 'running_var' are needed when not training"),
    (lambda: mint.nn.functional.one_hot(Tensor([0.5])), TypeError,
     "For 'one_hot', 'tensor' must be a Tensor of int32 or int64, but got Float32"),
    (lambda: mint.nn.functional.kl_div(Tensor([0.5]), Tensor([0.5]), "x", True), ValueError,
     "'reduction' must be one of ['mean', 'sum', 'none', 'batchmean'], but got 'x'"),
    (lambda: mint.nn.functional.interpolate(ops.ones((1, 1, 3, 3)), 2, 2.0), ValueError,
     "For 'interpolate', exactly one of 'size' and 'scale_factor' is needed"),
])
def test_errors(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()
