"""Tensors, programs and both modes on a device with memory of its own.

The device is `far` (`far_device.py`), or what `CELLC_GPU` names (`emulated`): all but what looks
into the device itself is the same for each.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.core import device as devices
from cellc.core import dispatch
from cellc.tools import taps
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import artifact, device
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.executable import Executable
from cellc_runtime.platform import Scratch
from cellc_runtime.records import replace
from cellc_runtime.site import STATE
from cellc_runtime.target import host_target

from ..frontend.test_methods_more import CASES
from ..samples.networks import NETWORKS
from .far_device import TARGET, FarDevice, registered, same_bits

KIND = os.environ.get("CELLC_GPU") or "far"
A = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], np.float32)


@pytest.fixture(autouse=True)
def _kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLC_GPU", KIND)


@pytest.fixture
def gpu() -> Iterator[Any]:
    """A test runs on the device; the device."""
    if KIND == "far":
        with registered(FarDevice()):
            ms.set_device("GPU")
            try:
                yield device.gpu()
            finally:
                ms.set_device("CPU")
        return
    ms.set_device("GPU")
    try:
        yield device.gpu()
    finally:
        ms.set_device("CPU")


@pytest.fixture
def far(gpu: Any) -> FarDevice:
    """A test looks into the device."""
    if not isinstance(gpu, FarDevice):
        pytest.skip("looks into the device 'far', which is not such a machine")
    return gpu


def on_cpu(work: Callable[[], Any]) -> Any:
    """What something gives on the processor."""
    ms.set_device("CPU")
    try:
        return work()
    finally:
        ms.set_device("GPU")


# --- networks ------------------------------------------------------------------------------------


def _inference(name: str) -> list[np.ndarray[Any, Any]]:
    out = NETWORKS[name].make().set_train(False)(*NETWORKS[name].input())
    return [t.asnumpy() for t in (out if isinstance(out, tuple) else (out,))]


def _training(name: str) -> tuple[list[Any], Any]:
    sample = NETWORKS[name]
    net = sample.make()
    step, batch = sample.train_step(net), sample.batch()
    losses = [step(*batch) for _ in range(3)]
    held = [*losses, *net.get_parameters()]
    return [t.asnumpy() for t in held], held


@pytest.mark.parametrize("name", ["lenet", "lstm", "gpt"])
def test_inference(gpu: Any, mode: int, name: str) -> None:
    for mine, theirs in zip(_inference(name), on_cpu(lambda: _inference(name)), strict=True):
        assert same_bits(mine, theirs)


@pytest.mark.parametrize("name", ["lenet", "mlp"])
def test_training(gpu: Any, mode: int, name: str) -> None:
    """The bits of the processor; the weights are on the device."""
    (mine, held), (theirs, _) = _training(name), on_cpu(lambda: _training(name))
    assert all(map(same_bits, mine, theirs))
    assert {t.device for t in held} == {"GPU:0"}


def test_nothing_leaves_in_a_step(far: FarDevice, mode: int) -> None:
    """After the first steps neither weights nor state are copied, in either direction."""
    x, y = (Tensor(a).to("GPU") for a in (np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)))
    net = nn.Dense(3, 2)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Adam(net.trainable_params(), 0.01))
    step.set_train()
    for _ in range(4):
        step(x, y)
    before = far.reads, {p.name: p._storage.state.elements for p in step.get_parameters()
                         if p.device != "CPU"}
    copies = far.copies
    losses = [step(x, y) for _ in range(3)]
    assert far.reads == before[0] and far.copies - copies <= 3 * 4  # (numbers: seeds, exponents)
    assert {p.name: p._storage.state.elements for p in step.get_parameters()
            if p.device != "CPU"} == before[1]
    assert len(before[1]) >= 6 and all(loss.device == "GPU:0" for loss in losses)


def test_model_train(gpu: Any, mode: int) -> None:
    """`Model.train` from a dataset, with a sink, and `predict`."""
    def run() -> Any:
        ms.set_seed(1)
        rows = np.arange(24, dtype=np.float32).reshape(12, 2) / 24
        data = ms.dataset.NumpySlicesDataset((rows, rows[:, :1]), ["x", "y"], shuffle=False)
        net = nn.Dense(2, 1)
        model = ms.Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9))
        model.train(2, data.batch(4), dataset_sink_mode=True)
        return model.predict(Tensor(rows)).asnumpy(), net.weight.asnumpy()

    assert all(map(same_bits, run(), on_cpu(run)))


# --- tensors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_methods(gpu: Any, name: str) -> None:
    """Methods of Tensor, eagerly and compiled, on a tensor of the device."""
    method, reference = CASES[name]
    x = Tensor(A).to("GPU")
    for out in (method(x), ms.jit(method)(x)):
        assert out.device == "GPU:0" or out is x
        assert np.array_equal(out.asnumpy(), reference(A))
    assert x.device == "GPU:0" and np.array_equal(x.asnumpy(), A)


def _checkpoint(x: Tensor) -> Any:
    ms.save_checkpoint([{"name": "x", "data": x}], "x.ckpt")
    return ms.load_checkpoint("x.ckpt")["x"].asnumpy()


LOOKS: dict[str, tuple[Callable[[Tensor], Any], Any]] = {
    "asnumpy": (lambda x: x.asnumpy(), A), "numpy": (lambda x: x.numpy(), A),
    "array": (np.asarray, A), "array of a type": (lambda x: np.asarray(x, np.float64), A),
    "tolist": (lambda x: x.tolist(), A.tolist()), "print": (str, str(Tensor(A))),
    "repr": (repr, repr(Tensor(A))), "item": (lambda x: x[1, 1].item(), 5.0),
    "float": (lambda x: float(x[1, 1]), 5.0), "int": (lambda x: int(x[1, 1]), 5),
    "bool": (lambda x: bool(x[1, 0]), False), "contains": (lambda x: 5.0 in x, True),
    "iterate": (lambda x: [r.tolist() for r in x], A.tolist()), "bytes":
    (lambda x: x.get_bytes(), A.tobytes()), "dlpack":
    (lambda x: np.from_dlpack(x, device="cpu"), A),
    "pickle": (lambda x: pickle.loads(pickle.dumps(x)).asnumpy(), A),
    "copy": (lambda x: copy.copy(x).asnumpy(), A),
    "deepcopy": (lambda x: copy.deepcopy(x).asnumpy(), A),
    "tensor": (lambda x: Tensor(x).asnumpy(), A), "checkpoint": (_checkpoint, A),
    "parameter": (lambda x: ms.Parameter(x, name="p").asnumpy(), A),
    "nested": (lambda x: Tensor([x[0], x[1]]).asnumpy(), A),
    "shape": (lambda x: (*x.shape, x.ndim, x.size, x.nbytes), (2, 3, 2, 6, 24)),
    "type": (lambda x: str(x.dtype), "Float32"),
}


@pytest.mark.parametrize("kind", [Tensor, ms.Parameter])
@pytest.mark.parametrize("name", LOOKS)
def test_looking_leaves_it_where_it_is(gpu: Any, folder: Path, kind: Any, name: str) -> None:
    look, wanted = LOOKS[name]
    x = (Tensor(A) if kind is Tensor else ms.Parameter(Tensor(A), name="p"))
    x = x.to("GPU") if kind is Tensor else nn.CellList([Holder(x)]).to("GPU")[0].p
    held = x._storage.state.elements
    if name in ("print", "repr") and kind is ms.Parameter:
        wanted = look(ms.Parameter(Tensor(A), name=x.name))
    assert np.array_equal(look(x), wanted)
    assert x.device == "GPU:0" and x._storage.state.elements is held


class Holder(nn.Cell):
    """Holds a parameter."""

    def __init__(self, p: ms.Parameter) -> None:
        super().__init__()
        self.p = p

    def construct(self, x: Tensor) -> Tensor:
        return x * self.p


def test_what_is_looked_at_is_a_copy(gpu: Any) -> None:
    x = Tensor(A) * 1
    x.asnumpy()[:] = 7
    assert np.array_equal(x.asnumpy(), A)


WRITES: dict[str, Callable[[Any], Any]] = {
    "set_data": lambda p: p.set_data(Tensor(A * 2)),
    "assign_value": lambda p: p.assign_value(Tensor(A * 2)),
    "data": lambda p: setattr(p, "data", Tensor(A * 2)),
    "ops.assign": lambda p: ops.assign(p, Tensor(A * 2)),
    "assign_add": lambda p: ops.assign_add(p, p),
    "a part": lambda p: [p.__setitem__(i, Tensor(A[i] * 2)) for i in range(2)],
    "in place": lambda p: p.mul_(2),
    "by its value": lambda p: p.value().mul_(2),
    "load_param_into_net": lambda p: ms.load_param_into_net(
        Holder(p), {"p": ms.Parameter(Tensor(A * 2), name="p")}),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_stays_on_the_device(gpu: Any, mode: int, name: str) -> None:
    """A compiled network and ops see what was written."""
    p = ms.Parameter(Tensor(A), name="p")
    net, x = Holder(p), Tensor(np.ones_like(A))
    assert np.array_equal(net(x).asnumpy(), A)
    held = p._storage.state.elements
    WRITES[name](p)
    assert p.device == "GPU:0" and p._storage.state.elements is held
    assert np.array_equal(p.asnumpy(), A * 2)
    assert np.array_equal(net(x).asnumpy(), A * 2) and np.array_equal((p + 0).asnumpy(), A * 2)


def test_a_view_on_the_host_writes_what_is_on_the_device(gpu: Any) -> None:
    p = on_cpu(lambda: ms.Parameter(Tensor(A), name="p"))
    rows = on_cpu(lambda: (p[0], p[1]))
    Holder(p)(Tensor(A))
    assert (p.device, rows[0].device) == ("GPU:0", "CPU")
    on_cpu(lambda: rows[0].__setitem__(slice(1, None), 7.0))
    assert np.array_equal(p.asnumpy(), [[3, 7, 7], A[1]])
    assert np.array_equal(rows[1].asnumpy(), A[1])


def test_another_shape_replaces_it(gpu: Any) -> None:
    p = ms.Parameter(Tensor(A), name="p")
    net = Holder(p)
    net(Tensor(A))
    p.set_data(Tensor(A[:1]), slice_shape=True)
    assert np.array_equal(net(Tensor(A)).asnumpy(), A * A[:1])
    p.set_dtype(ms.float16)
    assert np.array_equal(net(Tensor(A).astype(ms.float16)).asnumpy(), (A * A[:1]).astype("f2"))


def test_clones_have_memory_of_their_own(gpu: Any) -> None:
    p = ms.Parameter(Tensor(A), name="p")
    Holder(p)(Tensor(A))
    other = p.clone()
    assert other.device == "GPU:0"
    p.set_data(p * 2)
    assert np.array_equal(other.asnumpy(), A) and np.array_equal(p.asnumpy(), A * 2)


def test_moving(gpu: Any) -> None:
    host = Tensor(A)
    x = host.move_to("GPU")
    assert (host.device, x.device) == ("CPU", "GPU:0")
    assert x.to("GPU:0") is x and host.to("CPU") is host and x.move_to("GPU") is not x
    assert x.to(host).device == "CPU" and host.to(x).device == "GPU:0"
    half = host.to("GPU", ms.float16)
    assert (half.dtype, half.device) == (ms.float16, "GPU:0")
    assert np.array_equal(x.move_to("CPU", blocking=False).asnumpy(), A)
    for wrong, text in (("TPU", "must be 'CPU', but got 'TPU'"), ("GPU:x", "and a number")):
        with pytest.raises(ValueError, match=text):
            x.move_to(wrong)
    with pytest.raises(ValueError, match="'blocking' must be bool"):
        x.move_to("GPU", blocking=1)
    gradient = ms.grad(lambda t: (t.to("CPU") * t.move_to("GPU")).sum())(x)
    assert np.array_equal(gradient.asnumpy(), 2 * A)


def test_cells_move(gpu: Any) -> None:
    net = nn.Dense(3, 2).to("GPU")
    assert {p.device for p in net.get_parameters()} == {"GPU:0"}
    assert {p.device for p in net.to("CPU").get_parameters()} == {"CPU"}


def test_an_address_is_that_on_the_device(far: FarDevice) -> None:
    assert far.owns((Tensor(A) * 2).data_ptr(), A.nbytes)


def test_memory_goes_with_the_last_reference(far: FarDevice) -> None:
    gc.collect()
    before = far.used()
    x = Tensor(np.ones((64, 1024), np.float32)).to("GPU")
    assert far.used() == before + x.nbytes
    y = x.move_to("GPU")
    del x
    assert far.used() == before + y.nbytes
    del y
    assert far.used() == before


def test_threads(gpu: Any, mode: int) -> None:
    """Several threads call one network and write its parameter."""
    net = Holder(ms.Parameter(Tensor(A), name="p"))
    net(Tensor(A))
    out: list[bool] = []

    def work(k: int) -> None:
        for i in range(20):
            net.p.set_data(Tensor(A))
            out.append(np.array_equal(net(Tensor(A) * (k + i)).asnumpy(), A * A * (k + i)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(out) == 80 and all(out)


# --- what ops and graphs do besides --------------------------------------------------------------


def _flipped(a: Any) -> Any:
    return np.flip(a).copy()


class Branches(nn.Cell):
    """Control flow by values, a print, a check and a Python function."""

    def construct(self, x: Tensor) -> Tensor:
        if x.sum() > 3:
            x = x * 2
        n = 0
        while x.max() > 4:
            x = x / 2
            n += 1
        print("sum", x.sum(), n)
        x = ops.py_func(_flipped, x, out_shape=(2, 3), out_dtype=ms.float32)
        if x.min() < -1:
            raise ValueError(f"{x.min()} is too small")
        return x + n


def test_control_flow(gpu: Any, mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    x = Tensor(A).to("GPU")
    mine, said = Branches()(x).asnumpy(), capsys.readouterr().out
    theirs = on_cpu(lambda: Branches()(Tensor(A)).asnumpy())
    assert same_bits(mine, theirs) and said == capsys.readouterr().out and "sum" in said


def test_errors_of_the_program(gpu: Any, mode: int) -> None:
    with pytest.raises(ValueError, match=r"-9.* is too small"):
        Branches()(Tensor(-3 * np.ones_like(A)) * 3)


def test_a_failing_call_writes_nothing(gpu: Any, mode: int) -> None:
    class Step(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.p = ms.Parameter(Tensor(A), name="p")

        def construct(self, x: Tensor) -> Tensor:
            if x.sum() < 0:
                raise ValueError("negative")
            self.p += x
            return self.p * 1

    step = Step()
    assert np.array_equal(step(Tensor(A)).asnumpy(), A * 2)
    with pytest.raises(ValueError, match="negative"):
        step(Tensor(-A))
    assert np.array_equal(step(Tensor(A)).asnumpy(), A * 3)


def test_gradients(gpu: Any, mode: int) -> None:
    def run() -> list[Any]:
        ms.set_seed(2)
        net, x = nn.Dense(3, 3), Tensor(A)
        loss, (dx, dw) = ms.value_and_grad(
            lambda t: ops.tanh(net(t)).sum(), 0, net.trainable_params())(x)
        second = ms.grad(lambda t: ms.grad(lambda u: (u ** 3).sum())(t).sum())(x)
        old = ops.GradOperation(get_by_list=True)(net, net.trainable_params())(x)
        many = ms.vmap(lambda row: ops.softmax(net(row)))(x)
        hooked = Tensor(A)
        hooked.register_hook(lambda g: g * 3)
        third = ms.grad(lambda t: (t * t).sum())(hooked)
        return [t.asnumpy() for t in (loss, dx, *dw, second, *old, many, third)]

    assert all(map(same_bits, run(), on_cpu(run)))


def test_gradients_of_each_device(gpu: Any) -> None:
    """What was compiled for a structure on the processor does not serve it here."""
    net = nn.SequentialCell(nn.Dense(3, 3), nn.Tanh(), nn.Dense(3, 2), nn.Sigmoid())
    net[0].recompute()
    step = ms.value_and_grad(lambda t: (net(t) ** 2).sum(), None, net.trainable_params())
    on_cpu(lambda: [step(Tensor(A)) for _ in range(4)])
    for _ in range(4):
        loss, grads = step(Tensor(A))
        assert {loss.device, *(g.device for g in grads)} == {"GPU:0"}
    loss, grads = on_cpu(lambda: step(Tensor(A)))
    assert {loss.device, *(g.device for g in grads)} == {"CPU"}


def test_dynamic_shapes(gpu: Any, mode: int) -> None:
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            found = ops.nonzero(x > 1)
            return ops.softmax(x) + found.shape[0]

    net = Net()
    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
    for rows in (1, 2, 5, 3, 7, 9):
        a = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        theirs = on_cpu(lambda a=a: Net()(Tensor(a)).asnumpy())
        assert same_bits(net(Tensor(a)).asnumpy(), theirs)


def test_mixed_precision(gpu: Any, mode: int) -> None:
    def run() -> Any:
        ms.set_seed(4)
        net = ms.amp.auto_mixed_precision(nn.SequentialCell(nn.Dense(3, 8), nn.Dense(8, 2)), "O2")
        return net(Tensor(A)).asnumpy()

    assert same_bits(run(), on_cpu(run))


def test_random_numbers(gpu: Any, mode: int) -> None:
    """The draws of the processor, from one seed on, whatever device the draws before were on."""
    def run(move: bool) -> list[Any]:
        ms.set_seed(5)
        drop, out = nn.Dropout(p=0.5).set_train(), []
        for i in range(4):
            ms.set_device("GPU" if move and i % 2 else "CPU")
            out.append(drop(Tensor(np.ones((4, 5), np.float32))).asnumpy())
            out.append(ops.rand(3).asnumpy())
        return out

    assert all(map(same_bits, run(True), run(False)))


def test_watching(gpu: Any) -> None:
    with pytest.raises(FloatingPointError, match="log"), ms.watch_nans():
        ops.log(Tensor([-1.0]) * 2)


def test_watching_follows_the_device(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it was first used on this device: the processor's engine comes back after it."""
    monkeypatch.setattr(taps, "_taps", [])
    monkeypatch.setattr(devices, "_followers", devices._followers[:])
    engine = on_cpu(dispatch.installed)
    with ms.watch_nans():
        for work in (on_cpu, lambda log: log(), on_cpu):
            with pytest.raises(FloatingPointError, match="log"):
                work(lambda: ops.log(Tensor(-A)))
    assert on_cpu(dispatch.installed) is engine
    with pytest.raises(FloatingPointError, match="log"), ms.watch_nans():
        ops.log(Tensor(-A))
    assert on_cpu(dispatch.installed) is engine


def test_watching_leaves_the_engine_of_another_device(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taps, "_taps", [])
    monkeypatch.setattr(devices, "_followers", devices._followers[:])
    engine = on_cpu(dispatch.installed)
    with ms.watch_nans():
        assert ops.log(Tensor(A + 1)).device == "GPU:0"
    ms.set_device("CPU")
    try:
        with ms.watch_nans():
            p = ms.Parameter(Tensor(A))
            assert same_bits(ops.assign(p, p + 1).asnumpy(), A + 1)
        assert dispatch.installed() is engine
    finally:
        ms.set_device("GPU")



# --- which device --------------------------------------------------------------------------------


def test_the_context(gpu: Any) -> None:
    assert ms.get_context("device_target") == "GPU"
    assert tuple(ms.get_current_device()) == ("GPU", 0)
    assert devices.current() is gpu and not STATE.idle()
    ms.set_context(device_target="CPU")
    assert devices.current() is None and STATE.idle()
    assert (Tensor(A) + 1).device == "CPU"
    ms.set_context(device_target="GPU", device_id=0)
    assert (Tensor(A) + 1).device == "GPU:0"
    with pytest.raises(TypeError, match="one CPU device"):
        ms.set_context(device_target="CPU", device_id=1)
    assert ms.get_context("device_target") == "GPU"


def test_changing_the_device_between_calls(gpu: Any, mode: int) -> None:
    """One network on both, in turn; parameters go where they are used."""
    net = nn.Dense(3, 2)
    want = on_cpu(lambda: net(Tensor(A)).asnumpy())
    for _ in range(3):
        assert same_bits(net(Tensor(A)).asnumpy(), want) and net.weight.device == "GPU:0"
        assert same_bits(on_cpu(lambda: net(Tensor(A)).asnumpy()), want)
    if mode == ms.GRAPH_MODE:
        assert any("the device was" in c.cause for c in net._entries.history)


def test_native_sites_do_not_answer(gpu: Any) -> None:
    x = Tensor(A)
    on_cpu(lambda: [x + x for _ in range(50)])
    assert (x + x).device == "GPU:0" and ops.relu(x).device == "GPU:0"
    y = x + x
    assert on_cpu(lambda: [(y + x).device for _ in range(50)]) == ["CPU"] * 50


def test_queries(gpu: Any) -> None:
    hal, run = ms.hal, ms.runtime
    assert hal.is_available("GPU") and hal.is_initialized("GPU")
    assert hal.device_count() == hal.device_count("GPU") >= 1
    assert ms.device_context.gpu.is_available()
    assert hal.get_device_name(0) == gpu.properties().name
    found = hal.get_device_properties(0, "GPU")
    assert hal.get_device_capability(0, "GPU") == (found.major, found.minor)
    assert "sm_90a" in hal.get_arch_list("GPU") and hal.get_arch_list("CPU") is None
    run.reset_peak_memory_stats()
    before = run.memory_allocated()
    x = Tensor(np.ones(1 << 16, np.float32)).to("GPU")
    assert run.memory_allocated() >= before + x.nbytes
    peak = run.max_memory_allocated()
    del x
    gc.collect()
    assert run.max_memory_allocated() == peak > run.memory_allocated()
    assert run.memory_stats()["max_allocated_memory"] == peak
    assert run.memory_reserved() >= run.memory_allocated() and run.max_memory_reserved() >= peak
    assert len({len(line) for line in run.memory_summary().split("\n")}) == 1
    run.empty_cache()
    assert run.memory_allocated("CPU") == 0


def test_streams_and_events(gpu: Any) -> None:
    run = ms.runtime
    start, end = run.Event(enable_timing=True), run.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    stream = run.Stream()
    start.record()
    with run.StreamCtx(stream):
        assert run.current_stream() == stream != run.default_stream()
        y = ops.matmul(Tensor(A), Tensor(A.T))
        end.record(stream)
    assert run.current_stream() == run.default_stream()
    stream.wait_stream(run.default_stream())
    stream.wait_event(end)
    end.synchronize()
    stream.synchronize()
    run.synchronize()
    assert end.query() and stream.query() and start.elapsed_time(end) >= 0
    assert stream.record_event().query() and np.array_equal(y.asnumpy(), A @ A.T)
    assert (stream.device_name, stream.device_id) == ("GPU", 0)
    for wrong in (lambda: run.StreamCtx(3), lambda: run.set_cur_stream("s"),
                  lambda: stream.wait_event(3), lambda: end.record(3),
                  lambda: start.elapsed_time(3)):
        with pytest.raises(TypeError, match="must be a"):
            wrong()


# --- programs ------------------------------------------------------------------------------------

ADDS = """
graph adds(%x: float32[2,3] input, %w: float32[2,3] param) {
  %0: float32[2,3] = add(%x, %w) {}
  return %0
  update %w = %0
}
"""


def _program(text: str = ADDS) -> Any:
    return compile_program(parse_graph(text))


def test_programs_take_both_kinds(gpu: Any) -> None:
    """Arrays of the host are copied in; what is on the device is used in place."""
    executable = Executable(_program())
    w = A.copy()
    executable.bind([w])
    there = DeviceArray.of(gpu, A)
    for given, want in ((A, 2 * A), (there, 3 * A)):
        out = executable(given)
        assert isinstance(out, DeviceArray) and np.array_equal(out.numpy(), want)
    assert np.array_equal(np.asarray(executable.params[0]), 3 * A) and np.array_equal(w, A)
    mine = DeviceArray.of(gpu, A)
    executable.bind([mine])
    executable(A)
    assert executable.params == (mine,) and np.array_equal(mine.numpy(), 2 * A)
    assert repr(mine) == f"<DeviceArray float32[2, 3] on {gpu.name}>"
    for wrong, error in ((A.astype("f8"), TypeError), (A[:1], ValueError), ([1], TypeError),
                         (DeviceArray.of(gpu, A[:1]), ValueError)):
        with pytest.raises(error, match="expected"):
            executable(wrong)


def test_an_input_that_is_updated_comes_back(gpu: Any) -> None:
    executable = Executable(_program(ADDS.replace("param", "input")))
    w = A.copy()
    assert np.array_equal(executable(A, w).numpy(), 2 * A) and np.array_equal(w, 2 * A)


def test_programs_of_the_processor_take_tensors_of_the_device(gpu: Any) -> None:
    program = compile_program(parse_graph(ADDS), host_target())
    executable = Executable(program)
    executable.bind([A.copy()])
    assert np.array_equal(executable(DeviceArray.of(gpu, A)), 2 * A)


def test_artifacts(gpu: Any, tmp_path: Path) -> None:
    """A file with code for both runs on the device, and gives arrays of the host."""
    graph = parse_graph(ADDS.replace("adds", "train"))
    reads = parse_graph(ADDS.replace("adds", "infer").replace("  update %w = %0\n", ""))
    entries = {g.name: artifact.Entry([compile_program(g), compile_program(g, host_target())])
               for g in (graph, reads)}
    path = tmp_path / "both.cellc"
    artifact.save(path, entries, {"w": A})
    loaded = artifact.load(path, trust_native_code=True)
    assert loaded.executable("train").program.target in gpu.targets
    for k in (2, 3):
        out = loaded.call("train", A)
        assert type(out) is np.ndarray and np.array_equal(out, k * A)
    assert np.array_equal(loaded(A), 4 * A) and np.array_equal(loaded.weights["w"], 3 * A)
    there = loaded.call("train", DeviceArray.of(gpu, A))
    assert isinstance(there, DeviceArray) and np.array_equal(loaded.weights["w"], 4 * A)
    loaded.save(tmp_path / "more.cellc")
    assert np.array_equal(artifact.load(tmp_path / "more.cellc").weights["w"], 4 * A)


def test_sessions_and_donated_inputs(gpu: Any, tmp_path: Path) -> None:
    """State on the device belongs to a session; a donated array of the device takes the result."""
    path = tmp_path / "state.cellc"
    over = compile_program(parse_graph(ADDS.replace("param", "input")))
    artifact.save(path, {"step": artifact.Entry([compile_program(parse_graph(ADDS))]),
                         "over": artifact.Entry([over], donated=[(1, 1)])}, {"w": A})
    net = artifact.load(path, trust_native_code=True)
    other = net.session()
    for k in (2, 3):
        assert np.array_equal(net.call("step", A), k * A)
    assert np.array_equal(other.call("step", A), 2 * A)
    net.reset()
    assert np.array_equal(net.weights["w"], A) and np.array_equal(other.weights["w"], 2 * A)
    assert np.array_equal(net.call("step", A), 2 * A)
    out = np.empty_like(A)
    for w in (A.copy(), DeviceArray.of(gpu, A)):
        result, same = net.call("over", A, w)
        assert same is w and np.array_equal(np.asarray(w), 2 * A)
        taken, same = net.call("over", A, w, out=[out, None])
        assert taken is out and same is w and np.array_equal(out, 3 * A)
        assert np.array_equal(np.asarray(w), 3 * A) and type(result) is type(w)


def test_an_artifact_in_parts(gpu: Any, tmp_path: Path) -> None:
    """One entry on the device, one on the processor: each sees what the other wrote."""
    there = compile_program(parse_graph(ADDS))
    here = compile_program(parse_graph(ADDS), host_target())
    entries = {"there": artifact.Entry([there]), "here": artifact.Entry([here])}
    artifact.save(tmp_path / "a", entries, {"w": A})
    loaded = artifact.load(tmp_path / "a", trust_native_code=True)
    for k, entry in enumerate(["there", "here", "here", "there", "there", "here"], 2):
        assert np.array_equal(loaded.call(entry, A), k * A), entry
        assert np.array_equal(loaded.weights["w"], k * A)


# --- what goes wrong -----------------------------------------------------------------------------


def test_two_devices(far: FarDevice) -> None:
    target = replace(TARGET, name="far2")
    other = FarDevice("far2", 1, target)
    with registered(other):
        x = ops.relu(Tensor(A))
        p = ms.Parameter(Tensor(A), name="p")
        x._set_data(DeviceArray.of(other, A))
        text = r"the device in use is GPU:0, but a tensor float32\[2, 3\] is on GPU:1; move it"
        with pytest.raises(ValueError, match=text):
            x + 1
        p._set_data(DeviceArray.of(other, A))
        with pytest.raises(ValueError, match=text):
            p + 1
        net = Holder(p)
        ms.set_context(mode=ms.GRAPH_MODE)
        with pytest.raises(ValueError, match=text):
            net(Tensor(A))
        with pytest.raises(ValueError, match=r"on far \(number 0\) is expected, but it is on far2"):
            Executable(_program(ADDS.replace("param", "input")))(x._storage.state.elements, A)
        assert np.array_equal((x.move_to("CPU") + 1).asnumpy(), A + 1)
        with pytest.raises(ValueError, match="is compiled for far; far2 runs far2"):
            other.check(_program())


def test_no_memory(far: FarDevice, mode: int) -> None:
    """What was planned, and what there is; the parameters are as before."""
    net = Holder(ms.Parameter(Tensor(A), name="p"))
    net(Tensor(A))
    far.room = far.used() + 1000
    text = (r"far has no memory for .* of 4000000 bytes; of its \d+ bytes \d+ are in use by arrays "
            r"and programs and 1000 are free: 4000000 bytes are more than there is room for")
    with pytest.raises(MemoryError, match=text):
        Tensor(np.ones((1000, 1000), np.float32)).to("GPU")
    large = ms.Parameter(Tensor(np.ones((1000, 1000), np.float32)), name="large")
    with pytest.raises(MemoryError, match="no memory for"):
        large * 2
    assert large.device == "CPU" and large.asnumpy().sum() == 1e6
    assert np.array_equal(net(Tensor(A)).asnumpy(), A * A)


def test_a_launch_that_fails(far: FarDevice, mode: int) -> None:
    x = Tensor(A) + 1
    far.failure = "an illegal address was read"
    with pytest.raises(RuntimeError, match="far: an illegal address was read"):
        x + 1
    far.failure = ""
    assert np.array_equal((x + 1).asnumpy(), A + 2)


def test_a_device_that_is_gone(far: FarDevice) -> None:
    x = Tensor(A) + 1
    far.gone = "it fell off the bus"
    for use in (lambda: x + 1, x.asnumpy, lambda: Tensor(A).to("GPU"), lambda: str(x),
                ms.runtime.synchronize):
        with pytest.raises(RuntimeError, match="far: it fell off the bus"):
            use()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork(gpu: Any) -> None:
    """The child gets an error that says what to do; the processor still computes there."""
    x = Tensor(A) + 1
    read, write = os.pipe()
    child = os.fork()
    if not child:
        said = []
        try:
            for use in (lambda: x + 1, x.asnumpy):
                try:
                    use()
                    said.append("no error")
                except RuntimeError as e:
                    said.append(str(e))
            ms.set_device("CPU")
            said.append(str((Tensor(A) + 1).asnumpy().sum()))
        finally:
            os.write(write, "\n".join(said).encode())
            os._exit(0)
    os.waitpid(child, 0)
    first, second, third = os.read(read, 10000).decode().split("\n")
    os.close(read)
    os.close(write)
    text = "this process was forked from one that had used the GPU"
    assert text in first and text in second and third == str((A + 1).sum())
    assert np.array_equal((x + 1).asnumpy(), A + 2)


@pytest.mark.parametrize(("kind", "text"), [
    ("cuda", ""), ("", ""), ("emulated-sm_12", "'emulated-sm_12' is none of checked"),
    ("voodoo", "CELLC_GPU='voodoo' is none of")])
def test_no_gpu(monkeypatch: pytest.MonkeyPatch, kind: str, text: str) -> None:
    monkeypatch.setenv("CELLC_GPU", kind)
    if not text and ms.hal.is_available("GPU"):
        pytest.skip("there is a GPU, which such a machine has not")
    words = re.escape("device_target='GPU': this installation of cellc runs on the CPU only")
    with pytest.raises(RuntimeError, match=words + ".*" + re.escape(text)):
        ms.set_device("GPU")
    assert not ms.hal.is_available("GPU") and ms.hal.device_count("GPU") == 0
    assert ms.get_context("device_target") == "CPU"
    with pytest.raises(RuntimeError, match="CPU only"):
        Tensor(A).to("GPU")


def test_a_program_without_its_device(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = replace(_program(), target="cuda-sm_80")
    ms.set_device("CPU")
    monkeypatch.setenv("CELLC_GPU", "voodoo")
    with pytest.raises(device.NoDevice, match="voodoo"):
        Executable(program)
    ms.set_device("CPU")


def test_a_host_address_is_found_out(far: FarDevice) -> None:
    """What this file rests on: the device sees an address that is not its own."""
    executable = Executable(_program())
    executable.bind([A])
    wrong = DeviceArray.of(far, A)
    held = Scratch(A.nbytes)
    wrong.address = held.address
    with pytest.raises(AssertionError, match=r"x of adds: 24 bytes at .* are not far's"):
        executable(wrong)


@pytest.mark.parametrize(("setting", "good"), [
    ("op_tuning.conv_fprop_algo", "implicit_gemm"), ("op_tuning.conv_dgrad_algo", "algo_1"),
    ("op_tuning.conv_wgrad_algo", "algo_3"), ("op_precision.conv_allow_tf32", True),
    ("op_precision.matmul_allow_tf32", False),
])
def test_settings_of_a_gpu_are_checked(setting: str, good: Any) -> None:
    module, _, name = setting.partition(".")
    change = getattr(getattr(ms.device_context.gpu, module), name)
    assert change is getattr(ms.device_context.gpu, name)
    change(good)
    with pytest.raises(TypeError, match=name):
        change(1.5)
    if isinstance(good, str):
        with pytest.raises(ValueError, match="must be one of"):
            change("fastest")
