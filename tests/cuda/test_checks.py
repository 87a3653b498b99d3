"""Checks on a GPU: nobody waits for them, they are told by the next wait, and nothing is lost."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.backends.cuda.machine import GpuMachine
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import knobs
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.errors import RunError
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program

from ..samples.networks import NETWORKS
from .accesses import CheckedDevice
from .emulation import CPU, using
from .fake_driver import FakeDriver
from .programs import KERNELS, Launch, P, addresses, floats, program

Array = np.ndarray[Any, Any]

STEP = """
graph step(%i: {dtype}[{n}] input, %x: float32[{n}] input, %w: float32[16,4] param, %s: float32[] param) {{
  check(%i, %x, %s) {{low={low}, high={high}, error="IndexError", parts=("got ", 0, " among ", None, " at ", None), own="", detail="  here"}}
  %0: float32[{n},4] = gather(%w, %i) {{axis=0, batch_dims=0}}
  %1: float32[4] = reduce_sum(%0) {{axes=(0,), keepdims=False}}
  %2: float32[16,4] = add(%w, %1) {{}}
  %3: float32[] = constant() {{value=lit<float32[]>[1.0e+00]}}
  %4: float32[] = add(%s, %3) {{}}
  return %1
  update %w = %2
  update %s = %4
}}
"""  # noqa: E501

DOUBLE = """
graph double(%x: float32[4] input) {
  %0: float32[4] = add(%x, %x) {}
  return %0
}
"""


class Stepping:
    """A step on a device that changes two parameters, and what it is called with."""

    def __init__(self, target: Any, n: int = 9, dtype: str = "int32", low: int = 0,
                 high: int = 16) -> None:
        text = STEP.format(n=n, dtype=dtype, low=low, high=high)
        self.run = Executable(compile_program(parse_graph(text), target, use_cache=False))
        self.run.bind([np.ones((16, 4), np.float32), np.zeros((), np.float32)])
        self.x = np.linspace(0, 1, n, dtype=np.float32)
        self.good: Array = np.arange(n).astype(dtype) % 8

    def bad(self, *places: int) -> Array:
        """Positions of which some are out of range: 100 and more."""
        out = self.good.copy()
        out[list(places)] = 100 + np.arange(len(places))
        return out

    def state(self) -> list[bytes]:
        """The bits of the parameters."""
        return [np.asarray(p).tobytes() for p in self.run.params]


def test_a_failed_check_changes_nothing() -> None:
    """Nor does what is launched behind it; the next wait tells, with the CPU's text."""
    want = Stepping(CPU)
    with using(EmulatedDevice()) as device:
        target = next(iter(device.targets.values()))
        run = Stepping(target)
        want.run(want.good, want.x)
        read = run.run(run.good, run.x)
        before, elements = run.state(), read.numpy()
        assert before == want.state()
        with pytest.raises(RunError, match="got 100 among") as theirs:
            want.run(want.bad(4, 7), want.x)
        out = run.run(run.bad(4, 7), run.x)
        assert out.shape == (4,)  # nothing is said before a wait
        with pytest.raises(IndexError, match="got 100 among") as ours:
            run.run(run.good, run.x)
        assert str(ours.value) == str(theirs.value)
        assert str(ours.value).startswith("got 100 among [0.") and "at 1" in str(ours.value)
        assert ours.value.__notes__ == theirs.value.__notes__ == ["  here"]
        assert run.state() == before == want.state()
        with pytest.raises(RuntimeError, match="has no elements: it is the result of a call"):
            out.numpy()
        with pytest.raises(RuntimeError, match="has no elements"):
            Executable(compile_program(parse_graph(DOUBLE), target))(out)
        assert np.array_equal(read.numpy(), elements), "it was there before"
        for each in (want, run):
            each.run(each.good, each.x)
        assert run.state() == want.state() != before


@pytest.mark.parametrize("dtype, low, high", [
    ("int32", 0, 16), ("int64", -5, 16), ("int8", -16, 16), ("uint8", 0, 16), ("int16", -1, 99),
])
@pytest.mark.parametrize("n, places", [
    (1, [0]), (3, [2]), (256, [255]), (257, [256, 3]), (4096, [4095]), (4097, [4096]),
    (9000, [8000, 4100, 8999]),
])  # fmt: skip
def test_the_first_bad_element(n: int, places: list[int], dtype: str, low: int, high: int) -> None:
    """Whatever the order of threads, in one block or by parts; no access that is not allowed."""
    device = CheckedDevice(seed=n)
    with using(device):
        run = Stepping(next(iter(device.targets.values())), n, dtype, low, high)
        run.run(run.good, run.x)
        before = run.state()
        run.run(run.bad(*places), run.x)
        told = 100 + int(np.argmin(places))
        with pytest.raises(RunError, match=f"got {told} among"):
            device.wait()
        assert run.state() == before
        device.wait()  # it is told once
        run.run(run.good, run.x)
        assert run.state() != before
    accesses = device.accesses()
    assert len(accesses.records)
    assert not accesses.lost
    assert not accesses.faults()


def test_without_guards_state_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above would see."""
    monkeypatch.setattr(GpuMachine, "guarded", lambda self, kernel: kernel)
    with using(EmulatedDevice()) as device:
        run = Stepping(next(iter(device.targets.values())))
        before = run.state()
        run.run(run.bad(4), run.x)
        with pytest.raises(RunError, match="got 100 among"):
            device.wait()
        assert run.state() != before


def test_blocking_tells_at_once() -> None:
    with knobs.override(gpu_blocking=True), using(EmulatedDevice()) as device:
        run = Stepping(next(iter(device.targets.values())))
        before = run.state()
        with pytest.raises(RunError, match="got 100 among"):
            run.run(run.bad(1), run.x)
        assert run.state() == before


LOOP = """
graph loop(%i: int32[8] input, %w: float32[] param) {
  %0: int64[] = constant() {value=lit<int64[]>[0]}
  %1: int64[], %2: float32[] = while(%0, %w, %i) {carried=2} [
    graph test(%n: int64[] input, %v: float32[] input, %j: int32[8] input) {
      %0: int64[] = constant() {value=lit<int64[]>[5]}
      %1: bool_[] = lt(%n, %0) {}
      return %1
    }
    graph body(%n: int64[] input, %v: float32[] input, %j: int32[8] input) {
      check(%j) {low=0, high=4, error="ValueError", parts=("bad ", 0), own="", detail=""}
      %0: int64[] = constant() {value=lit<int64[]>[1]}
      %1: int64[] = add(%n, %0) {}
      %2: float32[] = add(%v, %v) {}
      return %1, %2
    }
  ]
  return %1
  update %w = %2
}
"""


def test_a_loop_stops() -> None:
    """Where a program waits by itself it looks, too: no trip is made on what means nothing."""
    with using(EmulatedDevice()) as device:
        run = Executable(compile_program(parse_graph(LOOP), next(iter(device.targets.values())),
                                         use_cache=False))
        run.bind([np.ones((), np.float32)])
        assert run(np.zeros(8, np.int32)).numpy() == 5
        assert np.asarray(run.params[0]) == 32
        launches = device.state("launches")
        with pytest.raises(RunError, match="bad 9"):
            run(np.full(8, 9, np.int32))
        assert device.state("launches") - launches < 12
        assert np.asarray(run.params[0]) == 32


CALLS = """
graph calls(%i: int32[8] input) {
  check(%i) {low=0, high=4, error="ValueError", parts=("bad ", 0), own="", detail=""}
  %0: int32[8] = add(%i, %i) {}
  %1: int32[8] = host_call(%0) {number=0, name="f", results=((dtype.int32, (8,)),)}
  %2: int32[8] = add(%1, %i) {}
  return %2
}
"""


def test_the_host_is_not_called_behind_a_failed_check() -> None:
    seen = []

    def host(given: Array, out: Array) -> None:
        seen.append(given.copy())
        out[:] = given + 1

    with using(EmulatedDevice()) as device:
        text, target = parse_graph(CALLS), next(iter(device.targets.values()))
        run = Executable(compile_program(text, target, use_cache=False), {"call 0 (f)": host})
        assert run(np.ones(8, np.int32)).numpy().tolist() == [4] * 8
        with pytest.raises(RunError, match="bad 4"):
            run(np.full(8, 4, np.int32))
        assert len(seen) == 1
        assert run(np.ones(8, np.int32)).numpy().tolist() == [4] * 8


def test_programs_of_a_file() -> None:
    """What a program says travels with it."""
    with using(EmulatedDevice()) as device:
        program = compile_program(parse_graph(LOOP), next(iter(device.targets.values())))
        run = Executable(Program.from_bytes(program.to_bytes()))
        run.bind([np.ones((), np.float32)])
        with pytest.raises(RunError, match="bad 7"):
            run(np.full(8, 7, np.int32))


# --- asynchronous, on the stand-in of the driver --------------------------------------------------


class Late:
    """A program whose kernel finds something when it runs, which is not before a wait."""

    def __init__(self) -> None:
        def check(fake: FakeDriver, a: int, out: int, n: int) -> None:
            if fake.array(a, n)[0] < 0:
                fake.array(self.device.context.fault, 1, np.int64)[0] = 3
                seen = (ctypes.c_int64 * 2).from_address(self.device.context.fault_seen)
                seen[:] = 3, self.arena.address

        self.fake = FakeDriver({**KERNELS, "check": ((P, P, P), check)})
        self.device = CudaDevice(Driver(self.fake))
        net: Program = program([Launch(0, (0, 1), 64)], ("check",), arena=64)
        self.code: Any = self.device.load(net, ())
        self.arena = self.device.allocate(64)
        self.told: list[int] = []

    def __call__(self, first: float) -> None:
        memory = self.device.allocate(256), self.device.allocate(256)
        self.device.copy(memory[0].address, (floats() + first).data)
        self.device.launching(self.arena, self.tell)
        slots = addresses(*(m.address for m in memory))
        assert self.code.launch(ctypes.addressof(slots), self.arena.address, 0) == 0

    def tell(self, number: int, arena: int) -> None:
        """Raise the error of a check."""
        assert arena == self.arena.address
        self.told.append(number)
        raise IndexError(f"check {number}")


def waits(late: Late) -> dict[str, Callable[[], object]]:
    """All that waits."""
    event = late.device.event()
    event.record()
    memory = late.device.allocate(64)
    return {"wait": late.device.wait, "event": event.synchronize,
            "stream": late.device.default_stream().synchronize,
            "read": lambda: late.device.read(memory.address, memoryview(bytearray(64)))}


@pytest.mark.parametrize("how", ["wait", "event", "stream", "read"])
def test_the_next_wait_tells(how: str) -> None:
    late = Late()
    late(1)
    late.device.wait()
    late(-1)
    late(1)
    late.device.poll()  # nothing has run
    assert not late.told
    with pytest.raises(IndexError, match="check 3"):
        waits(late)[how]()
    assert late.told == [3]
    late.device.wait()
    assert late.fake.array(late.device.context.fault, 1, np.int64)[0] == 0, "kernels run again"
    late(1)
    late.device.wait()


def test_a_poll_tells_what_is_known() -> None:
    late = Late()
    late(-1)
    late.fake._run_all()
    with pytest.raises(IndexError, match="check 3"):
        late.device.poll()


# --- networks -------------------------------------------------------------------------------------


@pytest.fixture
def gpu() -> Iterator[None]:
    """"GPU" is the emulated one."""
    with knobs.override(gpu="emulated"):
        yield
    ms.set_context(device_target="CPU", mode=ms.PYNATIVE_MODE)


def said(device: str, mode: int, call: Callable[[], Any]) -> str:
    """What an IndexError says in the end."""
    ms.set_context(mode=mode, device_target=device)
    with pytest.raises(IndexError, match=r"must be|out of bounds") as error:
        out = call()
        out.asnumpy()
    return str(error.value)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_a_training_step(mode: int) -> None:
    """A label out of range: the CPU's text, and every parameter and state as it was."""
    sample = NETWORKS["lenet"]
    x, y = sample.batch()
    wrong = y.asnumpy().copy()
    wrong[1] = 1000
    bad = ms.Tensor(wrong)
    want = said("CPU", mode, lambda: sample.train_step(sample.make())(x, bad))
    ms.set_context(mode=mode, device_target="GPU")
    step = sample.train_step(sample.make())
    step(x, y)
    before = {p.name: p.asnumpy().tobytes() for p in step.get_parameters()}
    assert said("GPU", mode, lambda: [step(x.move_to("GPU"), bad.move_to("GPU")), step(x, y)][0]) \
        == want
    assert {p.name: p.asnumpy().tobytes() for p in step.get_parameters()} == before
    step(x, y)
    assert {p.name: p.asnumpy().tobytes() for p in step.get_parameters()} != before


TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
USES: dict[str, tuple[Array, Callable[[Any, Any], Any]]] = {
    "getitem": (np.array([0, 9, -1]), lambda t, i: t[i]),
    "getitem, two": (np.array([0, 5, 1]), lambda t, i: t[i, i]),
    "gather": (np.array([[0, 4]]), lambda t, i: ops.gather(t, i, 0)),
    "gather_nd": (np.array([[0, 1], [1, 3]]), ops.gather_nd),
    "embedding": (np.array([3, -7]), lambda t, i: ms.nn.Embedding(4, 3)(i)),
    "cross_entropy": (np.array([0, 1, 2, 3]), ops.cross_entropy),
    "nll_loss": (np.array([0, 1, 2, 8]), ops.nll_loss),
    "cross_entropy, ignoring": (
        np.array([255, 1, 2, 3]), lambda t, i: ops.cross_entropy(t, i, ignore_index=255)),
    "segments": (np.array([0, 1, 7, 1]), lambda t, i: ops.unsorted_segment_sum(t, i, 2)),
}


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", USES)
def test_pynative(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are not read back; what is wrong is told with the CPU's text and the line."""
    positions, use = USES[name]
    texts = []
    for device in ("CPU", "GPU"):
        ms.set_context(mode=ms.PYNATIVE_MODE, device_target=device)
        t, i = ms.Tensor(TABLE), ms.Tensor(positions)
        if device == "GPU":
            t, i = t.move_to("GPU"), i.move_to("GPU")
            reads: list[int] = []
            monkeypatch.setattr(EmulatedDevice, "read", _counted(reads))
            use(t, ms.ops.zeros_like(i))
            assert not reads
        texts.append(said(device, ms.PYNATIVE_MODE, lambda t=t, i=i: use(t, i)))  # type: ignore[misc]
    assert texts[0] == texts[1]
    with pytest.raises(IndexError, match=r"must be|out of bounds") as error:
        use(t, i).asnumpy()
    assert __file__ in error.value.__notes__[0]


def _counted(reads: list[int]) -> Callable[..., None]:
    """`EmulatedDevice.read`, which counts."""
    read = EmulatedDevice.read

    def counted(self: EmulatedDevice, source: int, to: memoryview) -> None:
        reads.append(source)
        read(self, source, to)

    return counted
