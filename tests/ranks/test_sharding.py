"""Networks whose graphs are cut over ranks: they compute what one process does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.lang.errors import CompileError
from cellc.ops import reshard
from cellc.parallel import Layout, shard
from cellc.parallel.auto_parallel import AutoParallel
from cellc.parallel.strategy import (
    clear_strategy_metadata,
    enable_save_strategy_online,
    get_current_strategy_metadata,
    get_strategy_metadata,
)
from cellc.ranks.layout import placements
from cellc.testing.ranks import run_ranks
from cellc_runtime.world import world

from ..samples.networks import load
from .conftest import Launch

SAMPLE = load("tensor_parallel")
a_step = SAMPLE.training_step
RANKS, STEPS, BATCH, TIME, WIDTH = 4, 3, 8, 6, 16


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    ms.set_seed(1)
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.reset_auto_parallel_context()


def weight(*shape: int) -> Parameter:
    draw = np.random.RandomState(shape[0])
    return Parameter(draw.randn(*shape).astype(np.float32) * 0.2)


def block(laid: bool) -> nn.Cell:
    """A transformer over words: heads and inner columns by the model axis, vocabulary too."""
    made: nn.Cell = SAMPLE.Block(Layout((2, 2), ("dp", "mp")) if laid else None)
    return made


def on_ranks(make: Callable[[int], Any], use: Callable[[int, Any], Any], count: int = RANKS) -> Any:
    """What each rank gives of what it has made. All make it first: threads play ranks here, and no
    network is made while another is traced."""
    made = run_ranks(count, make)
    return run_ranks(count, lambda rank: use(rank, made[rank]))


def trained(step: nn.Cell, rank: int, ranks: int) -> tuple[list[float], nn.Cell]:
    """Losses of some steps on data that so many ranks feed their parts of, and the network."""
    net = step.network.network.net if isinstance(step, AutoParallel) else step.network.net
    own = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    losses = [float(step(*(Tensor(a[own]) for a in SAMPLE.batch(i))).asnumpy())
              for i in range(STEPS)]
    return losses, net


def whole_of(parts: list[Parameter]) -> np.ndarray[Any, Any]:
    """A parameter from the ranks' parts, by the layouts that are in the interface."""
    out = np.full(parts[0].cut.shape, np.nan, np.float32)
    matrix, names, shape, *_ = parts[0].cut.described()
    for rank, p in enumerate(parts):
        assert list(p.shape) == shape
        here = np.unravel_index(rank, matrix)
        last = len(matrix) - 1
        place = tuple(slice(0, None) if n == -1 else
                      slice(here[last - n] * d, (here[last - n] + 1) * d)
                      for n, d in zip(names, shape, strict=True))
        out[place] = p.asnumpy()
    return out


def test_tensor_parallel_by_data_parallel(tmp_path: Path) -> None:
    """A transformer on 2 x 2 ranks trains as one process does; each rank has parts of weights and
    of the optimizer's state."""
    want, alone = trained(a_step(block(laid=False)), 0, 1)
    file = str(tmp_path / "strategy.ckpt")
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel",
                                 strategy_ckpt_config={"save_file": file, "load_file": ""})
    enable_save_strategy_online()
    steps = []

    def make(rank: int) -> nn.Cell:
        steps.append(a_step(block(laid=True)))
        return steps[-1]

    found = on_ranks(make, lambda rank, step: (
        *trained(step, rank, RANKS), get_strategy_metadata(step),
        get_current_strategy_metadata(step)))
    _check_strategies(steps[0], found[0][2], [one for *_, one in found], file)
    found = [(losses, net) for losses, net, *_ in found]
    for losses, _ in found:
        np.testing.assert_allclose(losses, want, 1e-5)
    nets = [net for _, net in found]
    layouts = nets[0].parameter_layout_dict
    assert layouts["net.qkv"] == [[2, 2], [-1, 0], [WIDTH, 24], 0, True, ""]
    assert layouts["net.down"] == [[2, 2], [0, -1], [32, WIDTH], 0, True, ""]
    assert layouts["net.up_bias"][2] == [32] and layouts["net.norm.gamma"][2] == [WIDTH]
    for p in alone.get_parameters():
        parts = [net.parameters_dict()[p.name] for net in nets]
        np.testing.assert_allclose(whole_of(parts), p.asnumpy(), 2e-3, 2e-4)


def _check_strategies(step: nn.Cell, every: Any, own: list[Any], file: str) -> None:
    """What is said of layouts in the job and in the file is what `parameter_layout_dict` says."""
    assert list(every) == list(range(RANKS))
    for rank, one in enumerate(own):
        assert list(one) == [0] and one[0].keys() == every[rank].keys()
    saved = ms.build_searched_strategy(file)
    for name, (matrix, tensor_map, part, *_) in step.parameter_layout_dict.items():
        layout, kind, shape = every[RANKS - 1][name]
        told = layout.to_dict()
        assert [*told["device_matrix"]] == matrix and told["rank_list"] == list(range(RANKS))
        assert [*told["tensor_map"]] == [tuple(a) if isinstance(a, list) else a
                                         for a in tensor_map]
        parameter = step.parameters_dict()[name]
        assert kind == str(parameter.dtype) and len(shape) == len(part)
        assert (name in saved) == parameter.requires_grad
        if name in saved and all(isinstance(a, int) for a in tensor_map):
            assert saved[name].dev_matrix[0].dim == matrix
            assert saved[name].tensor_map[0].dim == tensor_map
    assert every[0]["net.qkv"][2] == [WIDTH, 48]
    clear_strategy_metadata()
    assert get_strategy_metadata(step) is get_current_strategy_metadata(step) is None
    for kind, given in ((TypeError, (3,)), (TypeError, (step, "0")), (ValueError, (step, 9))):
        with pytest.raises(kind, match="For 'get_strategy_metadata'"):
            get_strategy_metadata(*given)


def test_network_is_called_again_for_other_sizes_and_after_training() -> None:
    """What is compiled later takes the parameters as they are cut."""
    want = trained(a_step(block(laid=False)), 0, 1)[1](Tensor(SAMPLE.batch(9)[0])).asnumpy()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")

    ids = SAMPLE.batch(9)[0]

    def play(rank: int, step: Any) -> Any:
        net = trained(step, rank, RANKS)[1]
        own = ids[rank * 2 : rank * 2 + 2]
        return net, net(Tensor(own)).asnumpy(), net(Tensor(np.tile(own, (2, 1)))).asnumpy()

    played = on_ranks(lambda rank: a_step(block(laid=True)), play)
    for rank, (_, part, twice) in enumerate(played):
        rows = slice(rank * 2 * TIME, (rank + 1) * 2 * TIME)
        np.testing.assert_allclose(part, want[rows], 2e-3, 2e-4)
        np.testing.assert_allclose(twice, np.tile(part, (2, 1)), 1e-5, 1e-6)
    ms.set_seed(1)
    nets = [net for net, *_ in played]
    more = on_ranks(
        lambda rank: nn.TrainOneStepCell(
            SAMPLE.Loss(nets[rank]), nn.Momentum(nets[rank].trainable_params(), 0.1, 0.9)),
        lambda rank, step: trained(step, rank, RANKS)[0])
    assert all(losses == more[0] for losses in more)


def columns(laid: bool) -> nn.Cell:
    """Rows by data, columns by the model: no sum is split."""
    class Columns(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b, self.drop = weight(16, 64), weight(64), nn.Dropout(p=0.4)
            self.product = ops.MatMul()
            if laid:
                self.product.shard(((2, 1), (1, 2)))

        def construct(self, x: Any) -> Any:
            return self.drop(ops.tanh(self.product(x, self.w) + self.b)) * ops.rand(1)

    net = Columns()
    net.set_train()
    return net


def test_bits_of_one_process_where_no_sum_is_split() -> None:
    """Products by columns and rows, and draws: dropout keeps what one process keeps."""
    x = np.random.RandomState(0).randn(8, 16).astype(np.float32)
    ms.set_seed(5)
    want = columns(False)(Tensor(x)).asnumpy()
    assert (want == 0).any() and (want != 0).any()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", dataset_strategy="full_batch")
    nets = []
    for _ in range(RANKS):  # ranks are threads here, which share a generator
        ms.set_seed(5)
        nets.append(columns(True))

    def play(rank: int) -> Any:
        return nets[rank](Tensor(x)).asnumpy()

    ms.set_seed(5)
    for got in run_ranks(RANKS, play):
        assert got.tobytes() == want.tobytes()


def test_sums_are_split_in_the_order_of_the_ranks() -> None:
    """A product by rows gives the bits of partial products that one process adds up."""
    draw = np.random.RandomState(0)
    x, w = (draw.randn(*s).astype(np.float32) for s in ((8, 32), (32, 16)))
    product = ops.MatMul()
    parts = [product(Tensor(x[:, i : i + 8]), Tensor(w[i : i + 8])) for i in range(0, 32, 8)]
    want = (((parts[0] + parts[1]) + parts[2]) + parts[3]).asnumpy()
    assert want.tobytes() != product(Tensor(x), Tensor(w)).asnumpy().tobytes()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.product = ops.MatMul().shard(((1, 4), (4, 1)))

        def construct(self, x: Any, w: Any) -> Any:
            return self.product(x, w)

    for got in on_ranks(lambda rank: Net(),
                        lambda rank, net: net(Tensor(x), Tensor(w)).asnumpy()):
        assert got.tobytes() == want.tobytes()


IMAGES = np.random.RandomState(3).randn(4, 8, 6, 6).astype(np.float32)


def images(strategy: Any = None, groups: int = 1) -> Callable[..., Any]:
    """Images through a convolution that is cut so, and a gradient of its weights."""
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = weight(64, 8 // groups, 3, 3)
            self.convolution = ops.Conv2D(64, 3, group=groups)
            if strategy is not None:
                self.convolution.shard(strategy)

        def construct(self, x: Any) -> Any:
            return ops.relu(self.convolution(x, self.w))

    net = Net()
    slopes = ops.value_and_grad(lambda x: ops.sin(net(x)).sum((0, 2, 3)), None,
                                net.trainable_params())

    class Both(nn.Cell):
        def construct(self, x: Any) -> Any:
            return net(x), slopes(x)[1]

    return Both()


@pytest.mark.parametrize(("strategy", "groups"), [
    (((1, 1, 1, 1), (4, 1, 1, 1)), 1), (((1, 1, 1, 1), (2, 1, 1, 1)), 1),
    (((1, 4, 1, 1), (4, 1, 1, 1)), 8), (((1, 4, 1, 1), (4, 1, 1, 1)), 4)])
def test_channels_of_convolutions(strategy: Any, groups: int) -> None:
    """Output channels and groups on ranks of their own: the bits of one process, of the gradient of
    the weights too."""
    want = images(None, groups)(Tensor(IMAGES))
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    nets: list[Any] = [images(strategy, groups) for _ in range(RANKS)]
    for got in run_ranks(RANKS, lambda rank: nets[rank](Tensor(IMAGES))):
        assert got[0].asnumpy().tobytes() == want[0].asnumpy().tobytes()
        (slope,), (wanted,) = got[1], want[1]
        assert slope.asnumpy().tobytes() == wanted.asnumpy().tobytes()


def test_input_channels_are_added_in_the_order_of_the_ranks() -> None:
    """Input channels on ranks of their own, two to one: sums of two channels, added up. Images and
    output channels may be cut besides."""
    w = weight(64, 8, 3, 3)
    conv = ops.Conv2D(64, 3)
    parts = [conv(Tensor(IMAGES[:, i : i + 2]), Tensor(w.asnumpy()[:, i : i + 2]))
             for i in range(0, 8, 2)]
    four = ops.relu(((parts[0] + parts[1]) + parts[2]) + parts[3]).asnumpy()
    two = [conv(Tensor(IMAGES[:, i : i + 4]), Tensor(w.asnumpy()[:, i : i + 4])) for i in (0, 4)]
    assert four.tobytes() != ops.relu(two[0] + two[1]).asnumpy().tobytes()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    for strategy, want in ((((1, 4, 1, 1), (1, 4, 1, 1)), four),
                           (((2, 2, 1, 1), (1, 2, 1, 1)), ops.relu(two[0] + two[1]).asnumpy()),
                           (((1, 2, 1, 1), (2, 2, 1, 1)), ops.relu(two[0] + two[1]).asnumpy())):
        nets: list[Any] = [images(strategy) for _ in range(RANKS)]
        for out, _ in run_ranks(RANKS, lambda rank, n=nets: n[rank](Tensor(IMAGES))):
            assert out.asnumpy().tobytes() == want.tobytes()


class Windows(nn.Cell):
    """Windows over images whose rows and columns are cut into so many parts, and gradients."""

    def __init__(self, *parts: int) -> None:
        super().__init__()
        self.a, self.b = weight(6, 8, 3, 3), weight(4, 6, 5, 3)
        self.one, self.pool = ops.Conv2D(6, 3, pad_mode="same"), ops.MaxPool(3, 2, "same")
        self.two = ops.Conv2D(4, (5, 3), pad_mode="pad", pad=(2, 2, 1, 1))
        self.mean = ops.AvgPool(2, 1, "same")
        if parts:
            image, w = (1, 1, *parts), (1, 1, 1, 1)
            self.one.shard((image, w))
            self.pool.shard((image,))
            self.two.shard((image, w), (image,))
            self.mean.shard((image,))

    def construct(self, x: Any, a: Any, b: Any) -> Any:
        def run(x: Any, a: Any, b: Any) -> Any:
            return self.mean(self.two(self.pool(ops.relu(self.one(x, a))), b))

        return run(x, a, b), ops.grad(lambda *xs: ops.sin(run(*xs)).sum(), (0, 1, 2))(x, a, b)


def test_rows_and_columns_of_images() -> None:
    """The bits of one process, of the gradient of the image too; that of weights is a sum of
    parts."""
    net = Windows()
    given = (Tensor(np.random.RandomState(1).randn(1, 8, 16, 16).astype(np.float32)), net.a, net.b)
    want, slopes = net(*given)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    for out, (image, *ours) in on_ranks(lambda rank: Windows(2, 2), lambda rank, n: n(*given)):
        assert out.asnumpy().tobytes() == want.asnumpy().tobytes()
        assert image.asnumpy().tobytes() == slopes[0].asnumpy().tobytes()
        for a, b in zip(ours, slopes[1:], strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 1e-4, 1e-5)


def cut(op: str, *strategy: tuple[int, ...]) -> tuple[Any, ...]:
    """The ranks by axes, and of two operands what cuts their axes (of images the first two)."""
    (matrix, x), (_, w) = placements(strategy, op, 4, op)
    axes = [a for a, n in enumerate(matrix) if n > 1]
    return (tuple(matrix[a] for a in axes),
            *(tuple(tuple(map(axes.index, cut)) for cut in v[:3 if len(v) == 3 else 2])
              for v in (x, w)))


def test_strategies_of_products_of_batches() -> None:
    """Examples together with what is summed, rows or columns."""
    cases = {(2, 1, 2): (2, 2, 1), (2, 2, 1): (2, 1, 1), (2, 1, 1): (2, 1, 2)}
    found = [cut("BatchMatMul", x, w) for x, w in cases.items()]
    assert found[0] == ((2, 2), ((0,), (), (1,)), ((0,), (1,), ()))
    assert found[1] == ((2, 2), ((0,), (1,), ()), ((0,), (), ()))
    assert found[2] == ((2, 2), ((0,), (), ()), ((0,), (), (1,)))


def test_strategies_of_convolutions_name_channels() -> None:
    """Images by batch, weights by output channels; or what both share. A transposed convolution's
    images have the channels that are the first axis of the weights."""
    assert cut("Conv2D", (2, 1, 1, 1), (2, 1, 1, 1)) == ((2, 2), ((0,), ()), ((1,), ()))
    assert cut("Conv2D", (1, 2, 1, 1), (2, 2, 1, 1)) == ((2, 2), ((), (0,)), ((1,), (0,)))
    assert cut("Conv2D", (1, 4, 1, 1), (4, 1, 1, 1)) == ((4,), ((), (0,)), ((0,), ()))
    assert cut("Conv2DTranspose", (1, 2, 1, 1), (2, 2, 1, 1)) == ((2, 2), ((), (0,)), ((0,), (1,)))
    with pytest.raises(ValueError, match="operands share into 2 and 4 parts"):
        cut("Conv2D", (1, 2, 1, 1), (1, 4, 1, 1))


# --- ways to say it ------------------------------------------------------------------------------


class Mlp(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = weight(WIDTH, 32), weight(32, WIDTH)

    def construct(self, x: Any) -> Any:
        return ops.matmul(ops.relu(ops.matmul(x, self.up)), self.down)


X = np.random.RandomState(2).randn(8, WIDTH).astype(np.float32)


def _planned(net: nn.Cell) -> Any:
    lay = Layout((2, 2), ("dp", "mp"))
    return net.shard((lay("dp", "None"),), parameter_plan={"up": lay("None", "mp"), "down": (2, 1)})


def _function(net: nn.Cell) -> Any:
    return shard(lambda x: net(x) * 2.0, ((4, 1),), ((1, 4),))


def _resharded(net: nn.Cell) -> Any:
    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.layout = net, Layout((2, 2), ("dp", "mp"))
            self.again = ops.Reshard((self.layout("None", "mp"),), (self.layout("dp", "mp"),), None)

        def construct(self, x: Any) -> Any:
            return self.again(reshard(self.net(x), self.layout("None", ("dp", "mp"))))

    return Outer()


@pytest.mark.parametrize(("way", "factor"), [(_planned, 1), (_function, 2), (_resharded, 1)])
@pytest.mark.parametrize("strategy", ["data_parallel", "full_batch", ((2, 2),)])
def test_ways_to_lay_out(way: Callable[[nn.Cell], Any], factor: int, strategy: Any) -> None:
    want = Mlp()(Tensor(X)).asnumpy() * factor
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", dataset_strategy=strategy)

    def make(rank: int) -> Any:
        net = Mlp()
        return net, way(net)

    def play(rank: int, made: Any) -> Any:
        net, laid = made
        rows, part = slice(0, None), X
        if strategy == "data_parallel":
            rows = slice(2 * rank, 2 * rank + 2)
            part = X[rows]
        elif strategy != "full_batch":
            rows = slice(4 * (rank // 2), 4 * (rank // 2) + 4)
            part = X[rows, rank % 2 * 8 : rank % 2 * 8 + 8]
        return laid(Tensor(part)).asnumpy(), rows, net

    for out, rows, net in on_ranks(make, play):
        np.testing.assert_allclose(out, want[rows], 1e-4, 1e-5)
        if way is _planned:
            assert (net.up.shape, net.down.shape) == ((WIDTH, 16), (16, WIDTH))
            assert net.up.sliced and not Mlp().up.sliced


@pytest.mark.parametrize("mode", ["semi_auto", "sharding_propagation", "recursive_programming"])
def test_auto_parallel(mode: str) -> None:
    """A network with settings of its own; the context stays as it is."""
    want, _ = trained(a_step(block(laid=False)), 0, 1)
    for losses, _ in on_ranks(lambda rank: AutoParallel(a_step(block(laid=False)), mode),
                              lambda rank, step: trained(step, rank, 2), 2):
        np.testing.assert_allclose(losses, want, 1e-5)
    assert ms.get_auto_parallel_context("parallel_mode") == "stand_alone"


class Around(nn.Cell):
    """A network with another one inside."""

    def __init__(self, inner: nn.Cell) -> None:
        super().__init__()
        self.inner = inner

    def construct(self, x: Tensor) -> Tensor:
        return self.inner(x)


@pytest.mark.parametrize(("mode", "told"), [(ms.GRAPH_MODE, "around the outermost one"),
                                            (ms.PYNATIVE_MODE, "use GRAPH_MODE")])
def test_auto_parallel_that_would_cut_nothing(mode: int, told: str) -> None:
    """Ranks that would train alone are told so."""
    ms.set_context(mode=mode)
    nets = [Around(AutoParallel(Mlp())) for _ in range(2)]
    with pytest.raises(RuntimeError, match=told):
        run_ranks(2, lambda rank: nets[rank](Tensor(X)))


def test_layouts_are_shown_as_dicts() -> None:
    layout = Layout((2, 2), ("dp", "mp"))
    shown = repr(ops.MatMul().shard((layout("dp", "None"), layout("None", "mp"))))
    assert shown.endswith(
        "in_layout=({'device_matrix': (2, 2), 'tensor_map': (1, -1), 'interleaved_parallel': "
        "False, 'alias_name': ('dp', 'mp')}, {'device_matrix': (2, 2), 'tensor_map': (-1, 0), "
        "'interleaved_parallel': False, 'alias_name': ('dp', 'mp')})>")


def test_strategies_change_nothing_elsewhere() -> None:
    """In one process, in other modes and in PyNative mode."""
    product = ops.MatMul().shard(((2, 1), (1, 2)), ((2, 2),))
    assert repr(product).endswith("in_strategy=((2, 1), (1, 2)), out_strategy=((2, 2),)>")
    x, w = Tensor(X), Tensor(X.T.copy())
    want = ops.matmul(x, w).asnumpy()
    assert product(x, w).asnumpy().tobytes() == want.tobytes()
    net = Mlp()
    assert net.shard(((4, 1),)) is net and shard(net, ((4, 1),)) is net
    assert Around(AutoParallel(net))(x).tolist() == net(x).tolist()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for got in run_ranks(2, lambda rank: product(x, w).asnumpy()):
        assert got.tobytes() == want.tobytes()


# --- errors --------------------------------------------------------------------------------------


def _calls(fn: Callable[..., Any], x: Any = X) -> Callable[[], Any]:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return fn(x)

    nets = [Net() for _ in range(RANKS)]
    return lambda: nets[world().rank](Tensor(x))


LAY8 = Layout((4, 2), ("a", "b"))
ERRORS: list[tuple[type[Exception], Callable[[], Any], str]] = [
    (ValueError, _calls(ops.ReLU().shard(((3, 1),))), r"3 devices, but 4 ranks run"),
    (ValueError, _calls(lambda x: ops.ReLU().shard(((4, 1),))(x[:6])),
     r"axis 0 of float32\[6,16\] cannot be divided into 4 equal parts"),
    (ValueError, _calls(lambda x: reshard(x, LAY8("a", "b"))), "8 devices, but 4 ranks run"),
    (ValueError, _calls(lambda x: reshard(x, Layout((4,), ("a",))("a"))), "layout of 1 axes"),
    (ValueError, _calls(ops.MatMul().shard(((1, 2), (4, 1)))), "operands share into 2 and 4 parts"),
    (ValueError, _calls(lambda x: ops.Add().shard(((1, 1),))(x, x)), "1 entries, but there are 2"),
    (TypeError, lambda: ops.ReLU().shard([(1, 1)]), "'in_strategy' must be a tuple"),
    (TypeError, lambda: ops.ReLU().shard(((1.0, 1),)), "must hold ints"),
    (ValueError, lambda: ops.ReLU().shard(((0, 1),)), "at least 1"),
    (ValueError, lambda: ops.ReLU().shard(None, ((1, 1),)), "needs an 'in_strategy'"),
    (TypeError, lambda: reshard(Tensor(X), (1, 1)), "'layout' must be a Layout"),
    (ValueError, lambda: Mlp().shard(((1, 1),), parameter_plan={"w": (1, 1)}), "parameter 'w'"),
    (ValueError, lambda: Mlp().shard(((1, 1),), parameter_plan={"up": (1, 4, 1)}), "divisible"),
    (ValueError, lambda: AutoParallel(Mlp(), "automatic"), "must be one of"),
    (TypeError, lambda: AutoParallel(Mlp()).dataset_strategy([1]), "must be a tuple"),
]


@pytest.mark.parametrize(("kind", "call", "text"), ERRORS)
def test_errors(kind: type[Exception], call: Callable[[], Any], text: str) -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)

    def play(rank: int) -> None:
        with pytest.raises(kind, match=text) as raised:
            call()
        if isinstance(raised.value, CompileError):
            assert "test_sharding.py" in str(raised.value)

    run_ranks(RANKS, play)


def test_data_strategies_are_checked() -> None:
    for value, kind in (("some", ValueError), (((1, "a"),), TypeError), (3, TypeError)):
        with pytest.raises(kind, match="dataset_strategy"):
            ms.set_auto_parallel_context(dataset_strategy=value)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel",
                                 dataset_strategy=((4, 1), (4, 1)))
    with pytest.raises(ValueError, match="2 entries, but the network takes 1"):
        on_ranks(lambda rank: Mlp(), lambda rank, net: net(Tensor(X)))


def test_data_strategies_of_tensors_with_fewer_axes() -> None:
    """Their first axes are the rows that the ranks share out."""
    class Weighed(Mlp):
        def construct(self, x: Any, by: Any) -> Any:
            return super().construct(x) * by.reshape((-1, 1))

    by = np.arange(8, dtype=np.float32)
    want = Weighed()(Tensor(X), Tensor(by)).asnumpy()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel",
                                 dataset_strategy=((4, 1), (4,)))

    def play(rank: int, net: nn.Cell) -> Any:
        rows = slice(2 * rank, 2 * rank + 2)
        return net(Tensor(X[rows]), Tensor(by[rows])).asnumpy(), rows

    for out, rows in on_ranks(lambda rank: Weighed(), play):
        np.testing.assert_allclose(out, want[rows], 1e-4, 1e-5)


# --- real ranks ----------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.communication import get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
rank = get_rank()

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(np.arange(32, dtype=np.float32).reshape(4, 8) / 32)
        self.product = ops.MatMul().shard(((1, 2), (2, 1)))

    def construct(self, x):
        return self.product(x, self.w).sum()

net = Net()
step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
x = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4)[rank : rank + 1])
losses = [float(step(x).asnumpy()) for _ in range(2)]
print("rank", rank, net.w.shape, losses, flush=True)
"""


def test_under_mpirun(mpirun: Launch) -> None:
    done = mpirun(2, SCRIPT)
    assert done.returncode == 0, done.stderr
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    w = np.arange(32, dtype=np.float32).reshape(4, 8) / 32
    losses = []
    for _ in range(2):
        losses.append(float((x @ w).sum()))
        w -= 0.1 * x.T @ np.ones((2, 8), np.float32)
    lines = sorted(done.stdout.splitlines())
    assert [line.split(" [")[0] for line in lines] == ["rank 0 (2, 8)", "rank 1 (2, 8)"]
    for line in lines:
        found = [float(v) for v in line.split("[")[1].rstrip("]").split(",")]
        np.testing.assert_allclose(found, losses, 1e-5)


@pytest.mark.parametrize("late", [False, True])
def test_state_is_parted_by_what_does_not_cut_weights(late: bool) -> None:
    """ZeRO's first stage beside tensor parallelism: a state lies as its weight, cut once more by
    the ranks that have the same part; weights have the same bits. Scripts with `AutoParallel` say
    it when the optimizer is made."""
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    whole = on_ranks(lambda rank: a_step(block(laid=True)),
                     lambda rank, step: (trained(step, rank, RANKS), step))
    asked: dict[str, Any] = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {
        "parallel_optimizer_threshold": 0}}
    ms.set_auto_parallel_context(**{} if late else asked)
    steps = run_ranks(RANKS, lambda rank: a_step(block(laid=True)))
    ms.set_auto_parallel_context(**asked)
    parted = run_ranks(RANKS, lambda rank: (trained(steps[rank], rank, RANKS), steps[rank]))
    for ((losses, net), step), ((same, other), before) in zip(parted, whole, strict=True):
        assert losses == same
        for p, q in zip(net.trainable_params(), other.trainable_params(), strict=True):
            assert p.asnumpy().tobytes() == q.asnumpy().tobytes(), p.name
        layouts = step.parameter_layout_dict
        assert layouts["moment1.net.qkv"][1:3] == [[1, 0], [WIDTH // 2, 24]]
        assert layouts["moment1.net.down"][1:3] == [[[0, 1], -1], [16, WIDTH]]
        state = [sum(p.nbytes for p in s.get_parameters() if p.name.startswith("moment"))
                 for s in (step, before)]
        assert state[0] * 2 <= state[1]
