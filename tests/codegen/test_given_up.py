"""Weights that inference holds packed only: nothing of them is lost, whoever asks, whenever."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.common.parameter import Parameter
from cellc.storage import Storage, prepacked
from cellc_compiler import driver
from cellc_compiler.build.emit import emit_object
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import platform
from cellc_runtime.errors import ArtifactError
from cellc_runtime.packing import Packing
from cellc_runtime.program import Program
from cellc_runtime.records import replace
from cellc_runtime.target import host_target

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def given_up(p: Any) -> bool:
    """Whether a parameter has no array of its own."""
    return isinstance(p._storage.state, prepacked.Prepacked)


class Product(nn.Cell):
    """x times a weight."""

    def __init__(self, weight: Array, transposed: bool) -> None:
        super().__init__()
        self.w = ms.Parameter(ms.Tensor(weight), name="w")
        self.transposed = transposed

    def construct(self, x: Any) -> Any:
        w = self.w.T if self.transposed else self.w
        return ops.matmul(x, w)


class Layers(nn.Cell):
    """Layers whose weights are worth giving up."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(200, 300)
        self.conv = nn.Conv2d(32, 70, 3, has_bias=True)
        self.last = nn.Dense(300, 130)

    def construct(self, x: Any, image: Any) -> Any:
        return self.last(ops.relu(self.first(x))), self.conv(image)


def bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Elements of any bits: NaNs with payloads, signed zeros, denormals."""
    raw = rng.integers(0, 256, (*shape[:-1], shape[-1] * np.dtype(dtype).itemsize), np.uint8)
    return raw.view(dtype)


def layers() -> tuple[Layers, list[Any], dict[str, bytes]]:
    """A network that has been called, its inputs, and the bytes its weights had."""
    net = Layers().set_train(False)
    rng = np.random.default_rng(4)
    inputs = [ms.Tensor(rng.standard_normal(s).astype(np.float32))
              for s in ((64, 200), (1, 32, 30, 30))]
    before = {p.name: p.asnumpy().tobytes() for p in net.get_parameters()}
    net(*inputs)
    assert given_up(net.first.weight) and given_up(net.last.weight)
    assert given_up(net.conv.weight)
    assert not given_up(net.first.bias)  # small
    return net, inputs, before


def weights(net: Any) -> dict[str, bytes]:
    return {p.name: p.asnumpy().tobytes() for p in net.get_parameters()}


def same_in_both_modes(net: Any, inputs: list[Any]) -> None:
    graph = [o.asnumpy().tobytes() for o in net(*inputs)]
    ms.set_context(mode=ms.PYNATIVE_MODE)
    eager = [o.asnumpy().tobytes() for o in net(*inputs)]
    ms.set_context(mode=ms.GRAPH_MODE)
    assert graph == eager


@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize(("n", "k"), [(256, 300), (131, 257), (1024, 64), (2051, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_every_bit_comes_back(dtype: Any, n: int, k: int, transposed: bool) -> None:
    rng = np.random.default_rng(n + k)
    given = bits(rng, (n, k) if transposed else (k, n), dtype)
    net = Product(given, transposed)
    net(ms.Tensor(np.ones((48, k), dtype)))
    assert given_up(net.w)
    assert (net.w.shape, net.w.ndim, net.w.size) == (given.shape, 2, given.size)
    assert net.w.dtype is ms.Tensor(given).dtype
    assert given_up(net.w)
    assert net.w.asnumpy().tobytes() == given.tobytes()
    assert not given_up(net.w)


def test_who_reads_once_gets_a_copy_and_who_keeps_gets_the_array(tmp_path: Path) -> None:
    net, inputs, before = layers()
    file = str(tmp_path / "net.ckpt")
    ms.save_checkpoint(net, file)
    copies = [copy.deepcopy(net.first.weight), net.first.weight.clone(),
              pickle.loads(pickle.dumps(net.first.weight))]
    assert given_up(net.first.weight) and given_up(net.conv.weight)
    assert all(type(c) is Parameter for c in copies)
    assert all(c.asnumpy().tobytes() == before["first.weight"] for c in copies)
    found = ms.load_checkpoint(file)
    assert {name: p.asnumpy().tobytes() for name, p in found.items()} == before
    assert weights(net) == before
    same_in_both_modes(net, inputs)


def test_it_is_a_parameter_all_the_time() -> None:
    net, _, before = layers()
    p = net.first.weight
    assert isinstance(p, ms.Parameter)
    assert p.__class__ is ms.Parameter
    assert type(p).__name__ == "Parameter"
    assert "shape=(300, 200)" in repr(p)
    assert p.requires_grad
    assert hash(p) == object.__hash__(p)
    assert given_up(p)
    assert p.data.asnumpy().tobytes() == before["first.weight"]
    assert not given_up(p)


def test_tensors_may_change_places_and_classes() -> None:
    net, inputs, before = layers()
    other = ms.Parameter(ms.Tensor(np.full((300, 200), 2, np.float32)), name="other")
    ms.swap_tensors(net.first.weight, other)
    assert other.asnumpy().tobytes() == before["first.weight"]
    assert type(other) is Parameter
    assert net.first.weight.asnumpy().min() == 2
    same_in_both_modes(net, inputs)

    class Own(ms.Parameter):
        pass

    net(*inputs)
    assert given_up(net.conv.weight)
    net.conv.weight.__class__ = Own
    assert type(net.conv.weight) is Own
    assert net.conv.weight.asnumpy().tobytes() == before["conv.weight"]
    same_in_both_modes(net, inputs)


def set_data(net: Layers) -> None:
    net.first.weight.set_data(ms.Tensor(np.full((300, 200), 0.01, np.float32)))


def assign(net: Layers) -> None:
    ops.assign(net.conv.weight, ms.Tensor(np.full((70, 32, 3, 3), 0.5, np.float32)))


def through_numpy(net: Layers) -> None:
    net.last.weight.asnumpy()[3] = 2


def through_item(net: Layers) -> None:
    net.last.weight[5] = 7.0


def another_shape(net: Layers) -> None:
    net.last.weight.data = ms.Tensor(np.full((130, 300), -1, np.float32))


def loaded(net: Layers) -> None:
    values = {p.name: ms.Parameter(p.asnumpy() * 2, name=p.name) for p in net.get_parameters()}
    ms.load_param_into_net(net, values)


def trained(net: Layers) -> None:
    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def construct(self, x: Any, image: Any) -> Any:
            a, b = self.net(x, image)
            return a.mean() + b.mean()

    step = nn.TrainOneStepCell(Loss(), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step.set_train()(ms.Tensor(np.ones((64, 200), np.float32)),
                     ms.Tensor(np.ones((1, 32, 30, 30), np.float32)))
    net.set_train(False)


@pytest.mark.parametrize(
    "change", [set_data, assign, through_numpy, through_item, another_shape, loaded, trained],
    ids=lambda c: c.__name__)
def test_writes_are_seen(change: Callable[[Layers], None]) -> None:
    net, inputs, before = layers()
    first = [o.asnumpy().tobytes() for o in net(*inputs)]
    change(net)
    after = [o.asnumpy().tobytes() for o in net(*inputs)]
    assert after != first
    same_in_both_modes(net, inputs)
    assert weights(net) != before


def test_memory_that_others_hold_stays() -> None:
    net = Layers().set_train(False)
    view = net.first.weight.asnumpy()[10:].T
    address = net.last.weight.data_ptr()
    raw = net.conv.weight._data
    inputs = [ms.Tensor(np.ones((64, 200), np.float32)),
              ms.Tensor(np.ones((1, 32, 30, 30), np.float32))]
    net(*inputs)
    assert not any(given_up(p) for p in net.get_parameters())
    assert net.last.weight.data_ptr() == address
    view[:] = 3
    raw[:] = 0.25
    ops.assign(net.conv.weight, net.conv.weight + 0)  # it has a new version
    net(*inputs)
    same_in_both_modes(net, inputs)
    del raw
    ops.assign(net.conv.weight, net.conv.weight + 0)
    net(*inputs)
    assert given_up(net.conv.weight)
    assert not given_up(net.last.weight)  # someone has its address


def test_programs_for_other_sizes_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    net, inputs, before = layers()
    wider = [ms.Tensor(np.ones((640, 200), np.float32)), inputs[1]]
    unpacked: list[Any] = []
    original = Storage.load
    monkeypatch.setattr(Storage, "load", lambda self, p: unpacked.append(p) or original(self, p))
    net(*wider)
    monkeypatch.undo()
    names = [p.name for p in unpacked]
    assert len(net._entries.entries) == 2
    assert "conv.weight" not in names
    assert all(given_up(p) for p in net.get_parameters() if p.ndim > 1 and p.name not in names)
    same_in_both_modes(net, wider)
    assert weights(net) == before


def test_explain_says_what_is_kept_and_what_is_given_up() -> None:
    net, _, before = layers()
    (facts,) = ms.explain(net).entries
    packed_weights = sum(len(before[n]) for n in ("first.weight", "conv.weight", "last.weight"))
    assert facts.released_bytes == packed_weights
    assert facts.precomputed_bytes >= packed_weights
    text = str(ms.explain(net))
    assert f"{packed_weights / 1024:.0f} KiB of original weights are freed" in text


def test_what_is_read_over_and_over_keeps_its_array() -> None:
    net, inputs, before = layers()
    for _ in range(prepacked.OFTEN):
        assert weights(net) == before
        net(*inputs)
    assert not any(given_up(p) for p in net.get_parameters())


def test_a_weight_that_calls_read_as_it_was_given_stays() -> None:
    class Tied(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = ms.Parameter(ms.Tensor(np.ones((300, 128), np.float32)), name="table")

        def construct(self, i: Any) -> Any:
            return ops.matmul(ops.gather(self.table, i, 0), self.table.T)

    net = Tied()
    i = ms.Tensor(np.arange(64, dtype=np.int32))
    assert net(i).asnumpy()[0, 0] == 128
    assert not given_up(net.table)
    ops.assign(net.table, net.table * 2)
    assert net(i).asnumpy()[0, 0] == 512


def test_threads_that_call_read_and_write_lose_nothing() -> None:
    net, inputs, _ = layers()
    weight = net.first.weight
    failed: list[BaseException] = []
    steps = 60

    def calls() -> None:
        for _ in range(steps):
            net(*inputs)

    def reads() -> None:
        for _ in range(steps):
            weight._storage.unpacked = 0
            found = weight.clone().asnumpy() if weight.shape == (300, 200) else None
            assert found is not None
            assert found.min() == found.max() or found[0, 0] != found[299, 199]

    def writes() -> None:
        for value in range(1, steps + 1):
            weight.set_data(ms.Tensor(np.full((300, 200), value, np.float32)))
            assert float(weight.asnumpy()[7, 9]) == value

    def watched(work: Callable[[], None]) -> None:
        try:
            ms.set_context(mode=ms.GRAPH_MODE)
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=watched, args=(w,)) for w in (calls, reads, writes, calls)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    assert weight.asnumpy().min() == weight.asnumpy().max() == steps
    same_in_both_modes(net, inputs)


GROWTH = """
import sys
import numpy as np
import cellc as ms
from cellc import nn

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(l.split()[1]) / 1024 for l in lines if l.startswith("VmRSS"))

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([nn.Dense(2048, 2048, has_bias=False) for _ in range(8)])
    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

net = Net().set_train(False)
ms.set_context(mode=ms.GRAPH_MODE)
x = ms.Tensor(np.ones((64, 2048), np.float32))
net.compile(x)  # the compiler itself is not what is measured
before = resident()
net(x)
print(before, resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_system_gets_the_memory_back(tmp_path: Path) -> None:
    script = tmp_path / "growth.py"
    script.write_text(GROWTH)
    for _ in range(2):  # the second time nothing is compiled
        ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                             check=True)
    before, after = map(float, ran.stdout.split())
    # 128 MiB of weights, once.
    assert after < before + 40, ran.stdout
    assert after < 128 + 110, ran.stdout


TEXT = """graph P(%x: float32[64,96] input, %w: float32[160,96] param) {
  %0: float32[64,160] = matmul(%x, %w) {transpose_a=False, transpose_b=True}
  return %0
}"""


def test_a_program_says_how_it_packs_and_a_file_that_lies_is_refused() -> None:
    program = driver.compile_program(parse_graph(TEXT))
    (precomputed,) = program.precomputed
    assert (precomputed.sources, program.unread) == ((1,), (1,))
    assert isinstance(precomputed.packing, Packing)
    assert replace(Program.from_bytes(program.to_bytes()), image=program.image) == program
    wrong = [
        {"precomputed": (replace(precomputed, packing=replace(precomputed.packing, n=1 << 30)),)},
        {"precomputed": (replace(precomputed, packing=replace(precomputed.packing, width=0)),)},
        {"precomputed": (replace(precomputed, packing=replace(precomputed.packing, itemsize=3)),)},
        {"precomputed": (replace(precomputed, sources=(0,)),)},
        {"precomputed": (replace(precomputed, sources=(3,)),)},
        {"precomputed": (replace(precomputed, sources=()),)},
        {"precomputed": ()},
        {"unread": (0,)},
        {"unread": (9,)},
    ]
    for fields in wrong:
        with pytest.raises(ArtifactError, match="slot"):
            replace(program, **fields)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_code_of_llvm_goes_and_comes_back() -> None:
    text = "define i32 @one() {\n  ret i32 1\n}\n"
    first = emit_object(text, host_target())
    assert platform.release_code("llvmlite") > 1 << 20
    assert platform.release_code("no such library") == 0
    platform.trim_memory()
    assert emit_object(text, host_target()) == first


def test_a_weight_that_is_replaced_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    net, inputs, _ = layers()
    p = net.first.weight
    before, new = p.clone(), ms.Tensor(np.ones(p.shape, np.float32))
    assert given_up(p)
    p.set_data(p)  # itself: its elements are needed
    np.testing.assert_array_equal(p.asnumpy(), before.asnumpy())
    net(*inputs)
    net.first.weight.set_data(before)
    net(*inputs)
    assert given_up(p)
    monkeypatch.setattr(prepacked.Prepacked, "array", lambda self: pytest.fail("unpacked"))
    p.set_data(new)
    monkeypatch.undo()
    np.testing.assert_array_equal(p.asnumpy(), new.asnumpy())
    same_in_both_modes(net, inputs)
