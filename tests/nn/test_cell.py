"""What Cells do beyond the recorded facts: pickling, buffers, several devices, graphs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn
from cellc.calls.precision import float_type
from cellc_compiler import interpret
from cellc_compiler.ir.binary import graph_from_bytes, graph_to_bytes
from cellc_compiler.ir.text import print_graph
from cellc_runtime.errors import ArtifactError

BOTH = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "pynative"])
X = Tensor([1.0, 2.0])


class Leaf(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor([2.0, 3.0]), name="w")
        self.frozen = Parameter(Tensor([1.0, 1.0]), name="frozen", requires_grad=False)

    def construct(self, x: Any) -> Any:
        return x * self.w + self.frozen


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a = Leaf()
        self.b = self.a
        self.more = nn.CellList([Leaf(), nn.SequentialCell(Leaf(), nn.ReLU())])
        self.half = Parameter(Tensor(np.ones(2, np.float16)), name="half")

    def construct(self, x: Any) -> Any:
        for cell in self.more:
            x = cell(x)
        return self.a(x) + self.b(x)


@BOTH
def test_pickled_cells_compute_the_same(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Net().set_train()
    expected = net(X).asnumpy()
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert repr(other) == repr(net) and other.training and other.a is other.b
        assert [(p.name, p.requires_grad) for p in other.get_parameters()] == \
            [(p.name, p.requires_grad) for p in net.get_parameters()]
        np.testing.assert_array_equal(other(X).asnumpy(), expected)
        other.a.w.set_data(Tensor([0.0, 0.0]))
        np.testing.assert_array_equal(net(X).asnumpy(), expected)


@BOTH
def test_a_changed_attribute_is_seen(mode: int) -> None:
    class Scaled(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.factor = Tensor([2.0])
            self.times = 3

        def construct(self, x: Any) -> Any:
            return x * self.factor * self.times

    ms.set_context(mode=mode)
    net = Scaled()
    assert net(X).asnumpy().tolist() == [6.0, 12.0]
    net.factor, net.times = Tensor([4.0]), 1
    assert net(X).asnumpy().tolist() == [4.0, 8.0]


def test_buffers_take_tensors_and_none_only() -> None:
    net = nn.Cell()
    net.register_buffer("a", Tensor([1.0]))
    net.a = Tensor([2.0, 3.0])
    assert net.get_buffer("a").shape == (2,)
    net.a = None
    assert list(net.state_dict()) == []
    with pytest.raises(TypeError, match="buffer 'a' takes a Tensor or None, but got int"):
        net.a = 3
    with pytest.raises(KeyError, match="is a buffer already"):
        net.a = Parameter(Tensor([1.0]), name="p")


def test_names_that_cannot_be_told_apart_become_paths() -> None:
    class Twins(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = Parameter(Tensor([1.0]), name="same")
            self.b = Parameter(Tensor([1.0]), name="same")

        def construct(self, x: Any) -> Any:
            return x + self.a + self.b

    net = Twins()
    with pytest.raises(ValueError, match="'same' already exists"):
        net.check_names()
    with pytest.raises(ValueError, match="unique name"):
        ms.ParameterTuple(net.trainable_params())
    net(X)
    assert [p.name for p in net.get_parameters()] == ["a", "b"]


# --- precision and recomputation, as they are recorded --------------------------------------------


def test_the_last_to_float_counts() -> None:
    net = Net()
    assert float_type(net) is None
    net.to_float(ms.float16)
    net.more.to_float(ms.float32)
    assert [float_type(c) for c in (net, net.a, net.more, net.more[1][0])] == [
        ms.float16, ms.float16, ms.float32, ms.float32]
    assert net.cast_param(net.a.w).dtype is ms.float16
    assert net.more.cast_param(net.half).dtype is ms.float32
    assert net.cast_param(net.half) is net.half
    with pytest.raises(TypeError, match="a Parameter is wanted"):
        net.cast_param(X)
    assert [str(t.dtype) for t in net.cast_inputs([X, X], ms.float64)] == ["Float64"] * 2


def test_marks_of_recompute() -> None:
    net = Net()
    net.a.recompute(output_recompute=True, mp_comm_recompute=False)
    assert (net.get_scope(), net.a.get_scope()) == (None, "recompute_")
    outer = nn.SequentialCell(nn.Dense(2, 2), nn.ReLU())
    outer.recompute()
    outer[0].recompute()
    assert [c.get_scope() for c in (outer, *outer)] == ["recompute_"] * 3
    marked = [n for n, c in net.cells_and_names() if c._recompute_options is not None]
    assert marked == ["a"]
    assert net.a._recompute_options.output_recompute
    assert net.a._recompute_options.communication == (("mp_comm_recompute", False),)
    with pytest.raises(TypeError, match="'output_recompute' must be a bool, but got 1"):
        net.more.recompute(output_recompute=1)


# --- settings of several devices ------------------------------------------------------------------


@BOTH
def test_flat_weights_share_blocks_and_compute_the_same(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Net()
    before = net(X).asnumpy()
    net.flatten_weights()
    spans = [(p._data.ctypes.data, p.nbytes) for p in net.get_parameters() if p.dtype is ms.float32]
    for (start, size), (following, _) in pairwise(spans):
        assert following - start == -(-size // 64) * 64
    np.testing.assert_array_equal(net(X).asnumpy(), before)
    net.a.w.set_data(Tensor([0.0, 0.0]))
    assert not np.array_equal(net(X).asnumpy(), before)
    net.flatten_weights(fusion_size=8)
    with pytest.raises(ValueError, match="negative"):
        net.flatten_weights(-1)
    with pytest.raises(TypeError, match="'fusion_size' must be a non-negative int, but got"):
        net.flatten_weights(1.5)


def test_what_needs_several_processes_says_so() -> None:
    net = Net()
    with pytest.raises(RuntimeError, match="no parameter servers, as in MindSpore"):
        net.set_param_ps()
    with pytest.raises(RuntimeError, match="save_checkpoint"):
        net.exec_checkpoint_graph()
    net.load_parameter_slice(net.parameters_dict())
    net.load_parameter_slice(None)
    net.parameter_layout_dict = {"b.w": [[2], [0]]}
    with pytest.raises(RuntimeError, match="there is 1 rank"):
        net.load_parameter_slice(None)
    with pytest.raises(TypeError, match="Parameter"):
        net.load_parameter_slice({"a": 3})


def test_what_one_process_can_record() -> None:
    net = Net()
    net.set_auto_parallel()
    net.set_data_parallel()
    assert net.get_flags()["auto_parallel"] is True
    net.set_parallel_input_with_inputs(X, 3)
    assert net._parallel_inputs_run[0].asnumpy().tolist() == X.asnumpy().tolist()
    assert net._parallel_inputs_run[1] == 3
    assert net.shard(((1,),), ((1,),), {"a.w": (1,)}) is net
    with pytest.raises(TypeError, match="in_strategy"):
        net.shard([(1,)])
    assert net(X).shape == (2,)


# --- compiled graphs ------------------------------------------------------------------------------


def test_the_binary_graph_is_the_graph() -> None:
    net = Leaf()
    assert net.get_func_graph_proto() is None and not net.compiled
    net.compile(X)
    assert net.compiled and len(net.compile_cache) == 1
    data = net.get_func_graph_proto()
    graph = graph_from_bytes(data)
    assert graph_to_bytes(graph) == data and "mul" in print_graph(graph)
    out = interpret.run(graph, [X.asnumpy(), net.w.asnumpy(), net.frozen.asnumpy()])
    np.testing.assert_array_equal(out[0], net(X).asnumpy())


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:90] + b"?" + d[91:],
                                    lambda d: b"x" + d[1:], lambda d: b""])
def test_a_damaged_binary_graph_is_an_error(damage: Any) -> None:
    net = Leaf()
    net.compile(X)
    with pytest.raises(ArtifactError, match="graph"):
        graph_from_bytes(damage(net.get_func_graph_proto()))


@BOTH
def test_compile_and_run(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Leaf()
    np.testing.assert_array_equal(net.compile_and_run(X).asnumpy(), net(X).asnumpy())
    np.testing.assert_array_equal(net.run_construct((X,), {}).asnumpy(), net(X).asnumpy())


# --- parameters made without a value --------------------------------------------------------------


@BOTH
def test_parameters_without_a_value_get_one_when_they_are_needed(mode: int) -> None:
    ms.set_context(mode=mode)
    with nn.utils.no_init_parameters():
        net = nn.Dense(3, 2, weight_init="ones", bias_init="ones")
        filled = Parameter(Tensor([4.0]), name="filled")
    assert net.weight.has_init and not filled.has_init
    net.bias.set_data(Tensor([5.0, 6.0]))
    assert not net.bias.has_init
    assert net(Tensor([[1.0, 1.0, 1.0]])).asnumpy().tolist() == [[8.0, 9.0]]
    assert not net.weight.has_init and net.weight.inited_param is net.weight


def test_values_come_with_init_data_and_with_a_look() -> None:
    with nn.utils.no_init_parameters():
        a, b, c = (nn.Dense(3, 2, weight_init="ones") for _ in range(3))
    found = a.init_parameters_data()
    assert all(k is v for k, v in found.items()) and a.weight.asnumpy().sum() == 6
    assert b.weight.asnumpy().sum() == 6
    state = a.state_dict()
    c.load_state_dict(state)
    assert not c.weight.has_init and not c.bias.has_init
    step = ms.jit(lambda x: ms.ops.matmul(x, b.weight.T) + 0)
    assert step(Tensor([[1.0, 2.0, 3.0]])).asnumpy().tolist() == [[6.0, 6.0]]


@BOTH
@pytest.mark.parametrize("look", [
    lambda p: p + 0, lambda p: p.sum() / 6, lambda p: p[0], Tensor, lambda p: p.value(),
    lambda p: p.astype(ms.float16), lambda p: p.clone(), copy.deepcopy,
    lambda p: pickle.loads(pickle.dumps(p)), lambda p: ms.ops.reshape(p, (6,))])
def test_whatever_looks_at_a_parameter_without_a_value_gets_that_of_the_initializer(
    mode: int, look: Callable[[Any], Any]
) -> None:
    ms.set_context(mode=mode)
    with nn.utils.no_init_parameters():
        p = nn.Dense(3, 2, weight_init="ones").weight
    assert (look(p).asnumpy() == 1).all()
    assert p.asnumpy().sum() == 6 and p.inited_param is p
    with nn.utils.no_init_parameters():
        q = nn.Dense(3, 2, weight_init="ones").weight
    assert q.clone().has_init and q.has_init  # a copy draws nothing
    q.set_data(ms.ops.zeros((2, 3)))
    assert q.asnumpy().sum() == 0 and not q.has_init and q.inited_param is None


def test_whoever_looks_first_parameters_get_the_values_of_their_turn() -> None:
    """Those of a network that is made at once; a stage of a pipeline looks at its own alone."""
    def made() -> nn.Cell:
        return nn.SequentialCell(nn.Dense(4, 4), nn.Dense(4, 300), nn.Dense(300, 2))

    def seen(net: nn.Cell, order: Sequence[int]) -> list[bytes]:
        found = {i: list(net.get_parameters())[i].asnumpy().tobytes() for i in order}
        return [found[i] for i in sorted(found)]

    ms.set_seed(1)
    want = seen(made(), range(6))
    for order in ([5, 0, 4, 1, 3, 2], [3], [0, 1, 2, 3, 4, 5]):
        with nn.utils.no_init_parameters():
            net = made()
        ms.set_seed(1)
        assert seen(net, order) == [want[i] for i in sorted(order)]


def test_a_function_that_reads_a_parameter_without_a_value() -> None:
    with nn.utils.no_init_parameters():
        net = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        weights = ms.ParameterTuple(net.trainable_params())
        step = ms.value_and_grad(lambda x: net(x).sum(), None, weights)
        value, _ = step(Tensor([[1.0, 2.0, 3.0]]))
        assert float(value) == 12.0


def test_a_pending_initializer_fills_the_parameters_own_memory() -> None:
    ms.set_seed(1)
    first = ms.common.initializer.initializer("normal", [300])
    p = Parameter(first, name="p")
    assert p._data.ctypes.data % 64 == 0 and not p.has_init and p.asnumpy().std() > 0
