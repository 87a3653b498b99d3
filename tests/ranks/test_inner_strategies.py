"""Strategies and `recompute` of primitives within layers: `net.fc.matmul.shard(...)`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.calls import inner_primitives, sharding
from cellc.compiled.traced import trace
from cellc.nn import layer
from cellc.nn.layer.inner import INNER
from cellc.ops import operations
from cellc.ops.primitive import Primitive
from cellc.parallel import Layout
from cellc.testing.ranks import run_ranks
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import all_ops
from cellc_compiler.passes.sharding.plan import LAY_OUT

RANKS = 4


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    ms.set_seed(1)
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.reset_auto_parallel_context()


def floats(*shape: int) -> Tensor:
    return Tensor(np.random.RandomState(shape[0]).randn(*shape).astype(np.float32))


def ints(*shape: int) -> Tensor:
    return Tensor(np.random.RandomState(shape[0]).randint(0, 3, shape).astype(np.int32))


IMG, ROWS, CUBE = floats(4, 4, 8, 8), floats(4, 8), floats(4, 4, 4, 4, 4)
PAIR = (ROWS, ROWS)
IDS = ints(4, 3)
ROW, NONE = (4, 1), (1, 1)
BY_BATCH = (4, 1, 1, 1)
LAYERS: list[tuple[Callable[[], nn.Cell], tuple[Tensor, ...], dict[str, Any], int]] = [
    # (layer, inputs, strategies by attributes, tensors that are laid out)
    (lambda: nn.Dense(8, 8), (ROWS,), {"matmul": ((2, 1), (2, 1)), "bias_add": ((2, 2), (2,))}, 4),
    (lambda: nn.Dense(8, 8), (floats(2, 4, 8),), {
        "matmul": ((2, 1), (2, 1)), "bias_add": ((2, 2), (2,)), "reshape": ((4, 1),)}, 4),
    (lambda: nn.Linear(8, 8), (floats(4, 3, 8),), {"dense": ((2, 1, 1), (2, 1), (2,))}, 3),
    (lambda: nn.Embedding(8, 4), (ints(4, 3),), {"gather": ((4, 1), (1, 1))}, 2),
    (lambda: nn.Embedding(8, 4, True), (ints(4, 3),), {
        "one_hot": ((4, 1), (), ()), "array_mul": (ROW, NONE)}, 4),
    (lambda: nn.EmbeddingLookup(8, 4), (ints(4, 3),), {"gatherv2": (NONE, ROW)}, 2),
    (lambda: nn.LayerNorm((4,)), (floats(4, 3, 4),), {"layer_norm": ((4, 1, 1), (1,), (1,))}, 3),
    (lambda: nn.BatchNorm2d(4), (IMG,), {"bn_infer": ((2, 2, 1, 1), (2,), (2,), (2,), (2,))}, 5),
    (lambda: nn.BatchNorm2d(4).set_train(), (IMG,), {
        "bn_train": ((1, 4, 1, 1), (4,), (4,), (4,), (4,)), "bn_infer": ((1, 4, 1, 1),)}, 3),
    (lambda: nn.Conv2d(4, 8, 3, has_bias=True), (IMG,), {
        "conv2d": ((2, 1, 1, 1), (2, 1, 1, 1)), "bias_add": ((2, 2, 1, 1), (2,))}, 4),
    (lambda: nn.Conv1d(4, 8, 3), (floats(4, 4, 8),), {
        "conv2d": (BY_BATCH, (1, 1, 1, 1)), "expand_dims": ((4, 1, 1),), "squeeze": (BY_BATCH,)},
     4),
    (lambda: nn.Conv3d(4, 8, 3), (CUBE,), {"conv3d": ((2, 1, 1, 1, 1), (2, 1, 1, 1, 1))}, 4),
    (lambda: nn.Conv2dTranspose(4, 8, 3), (IMG,), {
        "conv2d_transpose": (BY_BATCH, (1, 1, 1, 1))}, 2),
    (lambda: nn.Dropout(p=0.4).set_train(), (ROWS,), {"dropout": ((2, 2),)}, 1),
    (lambda: nn.Dropout2d(p=0.4).set_train(), (IMG,), {"dropout2d": (BY_BATCH,)}, 1),
    (lambda: nn.MaxPool2d(2, 2), (IMG,), {"max_pool": ((2, 2, 1, 1),)}, 1),
    (lambda: nn.AvgPool1d(2, 2), (floats(4, 4, 8),), {"avg_pool": (BY_BATCH,)}, 1),
    (lambda: nn.MaxPool3d(2, 2), (CUBE,), {"max_pool": ((2, 2, 1, 1, 1),)}, 1),
    (lambda: nn.PReLU(4), (IMG,), {"prelu": ((2, 2, 1, 1), (2,))}, 2),
    (lambda: nn.InstanceNorm2d(4), (IMG,), {
        "instance_bn": ((2, 2, 1, 1), (2,), (2,), (2,), (2,))}, 3),
    (lambda: nn.ReplicationPad2d(1), (IMG,), {"padv3": ((2, 2, 1, 1),)}, 1),
    (lambda: nn.Roll(1, 0), (ROWS,), {"roll": ((1, 4),)}, 1),
    (lambda: nn.LogSigmoid(), (ROWS,), {"mul": ((2, 2), ()), "exp": ((2, 2),)}, 2),
    (lambda: nn.ReduceLogSumExp(1), (ROWS,), {"exp": (ROW,), "log": ((4,),)}, 2),
    (lambda: nn.SoftmaxCrossEntropyWithLogits(), PAIR, {"softmax_cross_entropy": (ROW, ROW)}, 2),
    (lambda: nn.SoftmaxCrossEntropyWithLogits(True, "mean"), (ROWS, ints(4)), {
        "sparse_softmax_cross_entropy": (ROW, (4,)), "one_hot": (ROW, (), ())}, 2),
    (lambda: layer.CosineSimilarity(), PAIR, {"mul": (ROW, ROW), "maximum": ((4,), ())}, 7),
    (lambda: nn.MSELoss(), PAIR, {"reduce_mean": (NONE,), "mul": (ROW, ())}, 2),
    (lambda: nn.OneHot(depth=8), (ints(4),), {"onehot": (ROW, (), ())}, 2),
    *((lambda kind=kind: kind(), (ROWS,), {name: ((2, 2),)}, 1) for kind, name in (
        (nn.ReLU, "relu"), (nn.Tanh, "tanh"), (nn.Sigmoid, "sigmoid"), (nn.HSwish, "hswish"),
        (nn.ELU, "elu"), (nn.FastGelu, "fast_gelu"), (nn.Softmax, "softmax"),
        (nn.LogSoftmax, "log_softmax"))),
]


def marked(layer: nn.Cell, said: dict[str, Any]) -> nn.Cell:
    for name, strategy in said.items():
        getattr(layer, name).shard(strategy)
    return layer


def laid_out(graph: Graph) -> int:
    return sum(n.op == LAY_OUT for n in graph.walk())


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces are as those of four ranks."""
    monkeypatch.setattr(sharding, "cuts_networks", lambda: True)
    monkeypatch.setattr(sharding, "ranks_of_a_stage", lambda: RANKS)


@pytest.mark.parametrize(("make", "args", "said", "count"), LAYERS)
def test_layers_follow_strategies(
    make: Callable[[], nn.Cell], args: tuple[Tensor, ...], said: dict[str, Any], count: int,
    request: pytest.FixtureRequest,
) -> None:
    """Operands of the ops that a primitive stands for are laid out; else the graph is the same."""
    plain = trace(make(), args, {}).graph
    assert not laid_out(trace(marked(make(), said), args, {}).graph)
    request.getfixturevalue("cut")
    graph = trace(marked(make(), said), args, {}).graph
    assert laid_out(graph) == count
    kept = (LAY_OUT, "reshape")
    assert [n.op for n in graph.walk() if n.op not in kept] == \
        [n.op for n in plain.walk() if n.op not in kept]


RANKED = Layout((2, 2, 3), ("dp", "mp", "interleaved_parallel"))
PRIMITIVES: list[tuple[Callable[[], Any], Callable[..., Any], tuple[Tensor, ...], int]] = [
    # (primitive, how it is called, with what, tensors that are laid out)
    (lambda: ops.BiasAdd().shard(((1, 4, 1, 1), (4,))), lambda p, *a: p(*a), (IMG, floats(4)), 2),
    (lambda: ops.PReLU().shard(((2, 2, 1, 1), (2,))), lambda p, *a: p(*a), (IMG, floats(4)), 2),
    (lambda: ops.BatchNorm().shard(((1, 4, 1, 1), *((4,),) * 4)),
     lambda p, *a: p(*a, *a[1:], *a[1:], *a[1:])[0], (IMG, floats(4)), 5),
    (lambda: ops.Dense().shard(((2, 1), (2, 1), (2,))), lambda p, x, w: p(x, w, w[:, 0]),
     (ROWS, floats(8, 8)), 3),
    (lambda: ops.Conv3D(8, 3).shard(((2, 1, 1, 1, 1), (2, 1, 1, 1, 1))), lambda p, *a: p(*a),
     (CUBE, floats(8, 4, 3, 3, 3)), 2),
    (lambda: ops.SparseSoftmaxCrossEntropyWithLogits().shard(((4, 1), (4,))),
     lambda p, *a: p(*a), (ROWS, ints(4)), 2),
    (lambda: ops.OneHot().shard(((2, 2), (), ())), lambda p, x: p(x, 8, Tensor(1.0), Tensor(0.0)),
     (ints(4),), 2),
    (lambda: ops.Concat(1).shard(((4, 1), (4, 1))), lambda p, *a: p(a), PAIR, 2),
    (lambda: ops.Pow().shard(((2, 2), ())), lambda p, x: p(x, 2.0), (ROWS,), 1),
    (lambda: ops.ReLU().shard((RANKED(("dp", "interleaved_parallel"), "mp"),)), lambda p, x: p(x),
     (ROWS,), 1),
    (lambda: ops.Morph(lambda x: x * 2.0, lambda x: x, lambda x: x).shard(((4, 1),), ((1, 4),)),
     lambda p, x: p(x), (ROWS,), 2),
]


@pytest.mark.parametrize(("make", "call", "args", "count"), PRIMITIVES)
def test_primitives_share_axes(
    cut: None, make: Callable[[], Any], call: Callable[..., Any], args: tuple[Tensor, ...],
    count: int,
) -> None:
    """What operands share is cut alike: no more parts than ranks."""
    class Calls(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.primitive = make()

        def construct(self, *args: Tensor) -> Any:
            return call(self.primitive, *args)

    assert laid_out(trace(Calls(), args, {}).graph) == count


def test_functions_for_parts_are_refused(cut: None) -> None:
    """A Morph computes of whole tensors: one that says that it is for parts would be wrong."""
    morph = ops.Morph(lambda x: x * 2.0, lambda x: x, lambda x: x)
    morph.add_prim_attr("self_define_shard", True)
    with pytest.raises(ValueError, match="written for the parts of one rank"):
        trace(lambda x: morph(x), (ROWS,), {})


def test_tables_name_what_there_is() -> None:
    """Ops, layers and primitives of the tables are there."""
    ops_there = {op.name for op in all_ops()}
    assert {op for names in inner_primitives._OPS.values() for op in names} <= ops_there
    named = {*inner_primitives._OPS, *inner_primitives._WHOLE, *inner_primitives._ANYHOW}
    assert all(issubclass(getattr(operations, name), Primitive) for name in named)
    for kinds in (inner_primitives._AS_LAYER, inner_primitives._OTHERWISE):
        for kind, names in kinds.items():
            assert names <= set(INNER[kind])


class Net(nn.Cell):
    """Words through layers, by the model's axis in the middle."""

    def __init__(self, said: bool) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(6, 16), nn.LayerNorm((16,))
        self.up, self.act, self.last = nn.Dense(16, 64), nn.ReLU(), nn.Softmax()
        if said:
            self.words.gather.shard(((2, 1), (1, 1)))
            self.norm.layer_norm.shard(((2, 1, 1), (1,), (1,))).recompute()
            self.up.matmul.shard((NONE, (2, 1)))
            self.up.bias_add.shard(((1, 2), (2,)))
            self.act.relu.shard(((1, 1, 2),))
            self.last.softmax.shard(((2, 1, 1),))

    def construct(self, ids: Tensor) -> Tensor:
        return self.last(self.act(self.up(self.norm(self.words(ids)))))


def step(said: bool) -> Any:
    ms.set_seed(3)
    net = Net(said)
    return ms.value_and_grad(net, None, net.trainable_params()), net


def test_bits_of_one_process() -> None:
    """Results, where no sum is split; gradients, whose sums over the batch are; layouts of
    parameters follow."""
    out, slopes = step(False)[0](IDS)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    made = [step(True) for _ in range(2)]
    for own, found in run_ranks(2, lambda rank: made[rank][0](IDS)):
        assert own.asnumpy().tobytes() == out.asnumpy().tobytes()
        for a, b in zip(found, slopes, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 1e-5, 1e-6)
    assert made[0][1].parameter_layout_dict["up.weight"][2] == [32, 16]


def test_copies_carry_strategies(cut: None) -> None:
    """Deep copies, shallow ones and what was pickled; layers print as ever."""
    layer = marked(nn.Dense(8, 8), {"matmul": ((2, 1), (2, 1))})
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.copy(layer)):
        assert repr(other) == repr(layer) == repr(nn.Dense(8, 8))
        assert laid_out(trace(other, (ROWS,), {}).graph) == 2
        other.matmul.shard()
        assert not laid_out(trace(other, (ROWS,), {}).graph)
        assert laid_out(trace(layer, (ROWS,), {}).graph) == 2
    assert [name for name, _ in layer.cells_and_names()] == [""]
    assert [p.name for p in layer.get_parameters()] == ["weight", "bias"]


def test_what_is_said_later_is_seen() -> None:
    """A graph that was compiled before is stale, also where equal layers were traced once."""
    net = nn.SequentialCell(*(nn.Dense(8, 8) for _ in range(5)))
    kept = net[4].matmul
    net(ROWS)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    nets = [copy.deepcopy(net) for _ in range(RANKS)]
    run_ranks(RANKS, lambda rank: nets[rank](ROWS))
    shapes = [(8, 8)] * 5
    for at, strategy in ((4, (NONE, (4, 1))), (2, (NONE, (2, 1)))):
        nets = [copy.deepcopy(net) for _ in range(RANKS)]
        for other in nets:
            other(ROWS) if at == 0 else None
            other[at].matmul.shard(strategy)
        run_ranks(RANKS, lambda rank, nets=nets: nets[rank](ROWS))
        wanted = list(shapes)
        wanted[at] = (8 // strategy[1][0], 8)
        assert [layer.weight.shape for layer in nets[0]] == wanted
    ms.reset_auto_parallel_context()
    assert net.compiled and kept is net[4].matmul
    stale = [e for e in net._entries.entries.values() if e.traced.flag.stale]
    assert not stale
    kept.recompute()
    assert all(e.traced.flag.stale for e in net._entries.entries.values())


class Scaled(nn.Conv2d):
    """A derived layer that computes by itself, and by its base."""

    def construct(self, x: Tensor) -> Tensor:
        return self.conv2d(x, self.weight) + super().construct(x) * 2.0 + ops.conv2d(x, self.weight)


def test_derived_layers(cut: None) -> None:
    """Of their own code only calls of the primitive are laid out, besides what the base does."""
    layer = marked(Scaled(4, 4, 3, pad_mode="valid"), {"conv2d": (BY_BATCH, (1, 1, 1, 1))})
    assert laid_out(trace(layer, (IMG,), {}).graph) == 4


def test_recompute_of_inner_primitives() -> None:
    """Gradients compute their results again."""
    layer = nn.Softmax()
    layer.softmax.recompute()
    graph = trace(layer, (ROWS,), {}).graph
    assert [n.op for n in graph.nodes] == ["recompute"]
    layer.softmax.recompute(False)
    assert [n.op for n in trace(layer, (ROWS,), {}).graph.nodes] == ["softmax"]


@pytest.mark.parametrize(("make", "args", "said", "told"), [
    (lambda: nn.ReLU(), (IMG,), {"relu": ((2, 2),)}, r"'ReLU.relu'.*shapes \(\(4, 4, 8, 8\),\)"),
    (lambda: nn.Dense(8, 8), (ROWS,), {"matmul": ((2, 2),)}, "'Dense.matmul'.*the shapes"),
    (lambda: nn.Dense(8, 8), (ROWS,), {"matmul": ((3, 1), (1, 1))}, "3 devices, but 4 ranks"),
    (lambda: nn.Linear(8, 8), (IMG,), {"dense": ((4, 1), (1, 1), (1,))}, "'Linear.dense'.*shapes"),
    (lambda: nn.FocalLoss(), (floats(4, 3), ints(4, 1)), {"gather_d": (ROW, ROW)},
     "computes without a GatherD"),
    (lambda: nn.Conv2d(4, 4, 3, pad_mode="valid"), (IMG,), {
        "conv2d": ((1, 1, 4, 1), (1, 1, 1, 1))}, "'Conv2d.conv2d'.* 2 of the image into 4 parts"),
])
def test_errors(
    cut: None, make: Callable[[], nn.Cell], args: tuple[Tensor, ...], said: dict[str, Any],
    told: str,
) -> None:
    with pytest.raises(ValueError, match=told):
        trace(marked(make(), said), args, {})
