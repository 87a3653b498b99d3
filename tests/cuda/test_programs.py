"""Programs on a GPU: kernels loaded and launched, graphs, errors that name what failed."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from cellc_runtime import knobs
from cellc_runtime.abi import DEVICE_FAILED
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import CudaError, DeviceLost, Driver
from cellc_runtime.device import Memory
from cellc_runtime.loader import Host
from cellc_runtime.program import Program

from .fake_driver import FakeDriver, GraphExec
from .programs import KERNELS, Call, Copy, Launch, Map, Put, Wait, addresses, floats, program

N = 64
BYTES = 4 * N
CHAIN = (Launch(0, (0, "+0"), N), Launch(0, ("+0", "+1024"), N), Launch(0, ("+1024", 1), N))


class Running:
    """A program on a stand-in for a GPU, called with arrays of the host."""

    def __init__(self, program: Program, fake: FakeDriver | None = None,
                 callbacks: Sequence[Host] = ()) -> None:
        self.program = program
        self.fake = fake or FakeDriver(KERNELS)
        self.device = CudaDevice(Driver(self.fake))
        self.device.check(program)
        self.code: Any = self.device.load(program, callbacks)
        self.arena = self.device.allocate(program.arena_bytes)
        self.inputs = [self.device.allocate(BYTES) for _ in program.of_kind("input")]

    def put(self, *arrays: Any) -> None:
        """Fill the inputs."""
        for memory, array in zip(self.inputs, arrays, strict=True):
            self.device.copy(memory.address, array.data)

    def launch(self, output: Memory) -> int:
        """Start it."""
        slots = addresses(*(m.address for m in self.inputs), output.address)
        code: int = self.code.launch(ctypes.addressof(slots), self.arena.address, 0)
        return code

    def result(self, output: Memory) -> Any:
        """What is in an output."""
        out = np.zeros(N, np.float32)
        self.device.read(output.address, out.data)
        return out

    def __call__(self, *arrays: Any) -> Any:
        self.put(*arrays)
        output = self.device.allocate(BYTES)
        assert self.launch(output) == 0
        return self.result(output)


def test_a_program_runs_behind_its_caller() -> None:
    run = Running(program(CHAIN, arena=2048))
    run.put(floats())
    output = run.device.allocate(BYTES)
    assert run.launch(output) == 0
    assert run.fake.done == [] and len(run.fake.launches) == 3, "it was only asked for"
    assert np.array_equal(run.result(output), 8 * floats())
    assert run.fake.done == ["scale"] * 3
    launch = run.fake.launches[0]
    assert (launch.grid, launch.block, launch.shared) == ((1, 1, 1), (128, 1, 1), 0)


def test_several_kernels_and_a_copy() -> None:
    steps = (Launch(1, (0, 1, "+0"), N), Copy("+512", "+0", BYTES), Launch(0, ("+512", 2), N))
    run = Running(program(steps, ("scale", "add"), slots=("input", "input", "output"), arena=1024))
    a = floats()
    assert np.array_equal(run(a, a + 1), 2 * (2 * a + 1))


def test_callbacks_wait_where_the_program_says() -> None:
    seen: list[Any] = []
    held = np.zeros(N, np.float32)
    steps = (Launch(0, (0, "+0"), N), Copy(1, "+0", BYTES), Wait(), Call((1,)))
    calls = program(steps, slots=("input", "output"), arena=BYTES)

    def host(buffers: int) -> int:
        pointers = (ctypes.c_void_p * 1).from_address(buffers)
        seen.append(np.frombuffer((ctypes.c_float * N).from_address(pointers[0] or 0),
                                  np.float32).copy())
        return 0

    run = Running(calls, callbacks=[host])
    run.put(floats())
    slots = addresses(run.inputs[0].address, held.ctypes.data)
    for _ in range(3):
        assert run.code.launch(ctypes.addressof(slots), run.arena.address, 0) == 0
    assert all(np.array_equal(s, 2 * floats()) for s in seen) and len(seen) == 3
    assert not run.code.graphs.possible and run.code.graphs.captures == 0


# --- modules -------------------------------------------------------------------------------------


def test_kernels_are_loaded_once() -> None:
    run = Running(program(CHAIN, arena=2048))
    more = run.device.load(program(CHAIN, ("scale", "add"), arena=2048), ())
    assert run.fake.log.count("cuModuleLoadDataEx") == 2, "scale is shared"
    del more
    gc.collect()
    assert run.fake.log.count("cuModuleUnload") == 0
    run.device.wait()
    assert run.fake.log.count("cuModuleUnload") == 1, "add goes when nothing runs"
    assert np.array_equal(run(floats()), 8 * floats())


def test_shared_memory_beyond_48_kib_is_asked_for() -> None:
    run = Running(program((Launch(0, (0, 1), N, shared=100 << 10),), shared=100 << 10))
    assert np.array_equal(run(floats()), 2 * floats())
    assert run.fake.launches[0].shared == 100 << 10
    with pytest.raises(CudaError, match=r"'net' wants 235,520 bytes.* at most 232,448"):
        run.device.load(program(CHAIN, shared=230 << 10, arena=2048), ())


def test_ptx_is_assembled_by_the_driver() -> None:
    assert np.array_equal(Running(program(CHAIN, as_ptx=True, arena=2048))(floats()),
                          8 * floats())
    run = Running(program(CHAIN, arena=2048))
    bad = program(CHAIN, as_ptx=True, arena=2048)
    object.__setattr__(bad.kernels[0], "code", b".version 99")
    said = r"(?s)kernel 1 of 1 \(scale at net.py:3\) of program 'net' cannot be loaded.*" \
           r"INVALID_PTX.*line 1: what is that.*the driver serves CUDA 13.0"
    with pytest.raises(CudaError, match=said):
        run.device.load(bad, ())


# --- what a GPU runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("capability, target, as_ptx, fits", [
    ((9, 0), "sm_90a", False, True), ((9, 0), "sm_90a", True, True),
    ((9, 0), "sm_80", True, True), ((9, 0), "sm_80", False, False),
    ((8, 9), "sm_80", False, True), ((8, 0), "sm_80", False, True), ((8, 6), "sm_90a", True, False),
    ((10, 0), "sm_90a", True, False), ((10, 0), "sm_100a", False, True),
    ((10, 3), "sm_100a", True, False), ((12, 0), "sm_80", True, True),
])  # fmt: skip
def test_architectures(
    capability: tuple[int, int], target: str, as_ptx: bool, fits: bool
) -> None:
    """`a` runs on its own architecture, machine code on its generation, PTX on all later ones."""
    made = program(CHAIN, target=f"cuda-{target}", as_ptx=as_ptx, arena=2048)
    device = CudaDevice(Driver(FakeDriver(KERNELS, capability=capability)))
    if fits:
        device.check(made)
        assert device.load(made, ())
        assert made.target in device.targets
        return
    major, minor = capability
    gpu = rf"cuda:0 \(Fake GPU, sm_{major}{minor}\)"
    said = rf"compiled for cuda-{target}.*this GPU is {gpu} and runs"
    with pytest.raises(ValueError, match=said):
        device.check(made)


def test_best_target_first() -> None:
    def targets(major: int, minor: int) -> list[str]:
        return [*CudaDevice(Driver(FakeDriver(capability=(major, minor)))).targets]

    assert targets(9, 0) == ["cuda-sm_90a", "cuda-sm_80"]
    assert targets(10, 0) == ["cuda-sm_100a", "cuda-sm_80"]
    assert targets(8, 6) == targets(12, 0) == ["cuda-sm_80"]
    with pytest.raises(RuntimeError, match=r"sm_75.* is older than cellc's targets: cuda-sm_80"):
        targets(7, 5)


def test_a_cubin_wants_a_driver_of_its_version() -> None:
    device = CudaDevice(Driver(FakeDriver(version=12080)))
    device.check(program(CHAIN, as_ptx=True, arena=2048))
    with pytest.raises(ValueError, match=r"serves CUDA 12.8; cubins.* need CUDA 13.0: .*580"):
        device.check(program(CHAIN, arena=2048))


def test_a_program_that_cannot_fit() -> None:
    device = CudaDevice(Driver(FakeDriver(memory=1 << 20)))
    with pytest.raises(MemoryError, match=r"needs 2.0 MiB \(.*temporaries 2.0 MiB.*has 1.0 MiB"):
        device.check(program(CHAIN, arena=2 << 20))


# --- errors --------------------------------------------------------------------------------------


def test_a_launch_that_is_refused_names_kernel_and_program() -> None:
    steps = (Launch(0, (0, "+0"), N), Launch(1, (0, "+0", 1), N, threads=2048))
    run = Running(program(steps, ("scale", "add"), arena=BYTES, name="Net"))
    run.put(floats())
    assert run.launch(run.device.allocate(BYTES)) == DEVICE_FAILED
    said = (r"kernel 2 of 2 \(add at net.py:4\) of program 'Net': grid 1x1x1, block 2048x1x1, "
            r"0 bytes of shared memory: CUDA_ERROR_INVALID_VALUE")
    with pytest.raises(CudaError, match=said):
        run.device.wait()
    run.device.wait()  # told once; the device goes on
    assert np.array_equal(Running(program(CHAIN, arena=2048))(floats()), 8 * floats())


def test_tensor_maps() -> None:
    steps = (Map(0), Launch(0, (0, "+0"), N), Map("+0"), Launch(0, ("+0", 1), N))
    run = Running(program(steps, arena=BYTES))
    for _ in range(4):
        assert np.array_equal(run(floats()), 4 * floats())
    bad = Running(program((Map(0, stride=100), Launch(0, (0, 1), N)), name="Net"))
    assert bad.launch(bad.device.allocate(BYTES)) == DEVICE_FAILED
    with pytest.raises(CudaError, match=r"a tensor map of program 'Net', rank 2, at 0x.*INVALID_V"):
        bad.device.wait()


def test_several_threads() -> None:
    """One program, called by several threads at once with memory of their own, graphs and all."""
    run = Running(program(CHAIN, arena=2048))
    failures: list[str] = []

    def calls(seed: int) -> None:
        source, arena = run.device.allocate(BYTES), run.device.allocate(2048)
        given = floats() * seed
        for _ in range(20):
            run.device.copy(source.address, given.data)
            output = run.device.allocate(BYTES)
            slots = addresses(source.address, output.address)
            if run.code.launch(ctypes.addressof(slots), arena.address, 0):
                failures.append("failed")
            if not np.array_equal(run.result(output), 8 * given):
                failures.append(f"wrong for {seed}")
            if seed % 2:
                run.device.wait()

    threads = [threading.Thread(target=calls, args=(i,)) for i in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and run.code.graphs.launches > 0


def test_a_kernel_that_breaks_is_told_by_the_wait_with_what_was_launched() -> None:
    fine = program(CHAIN, arena=2048, name="Fine")
    run = Running(program((Launch(0, (0, 1), N),), ("breaks",), name="Bad"))
    output = run.device.allocate(BYTES)
    run.device.context.launched("Earlier")
    run.device.wait()
    before: Any = run.device.load(fine, ())
    assert run.launch(output) == 0
    slots = addresses(run.inputs[0].address, output.address)
    arena = run.device.allocate(2048)
    assert before.launch(ctypes.addressof(slots), arena.address, 0) == 0
    with pytest.raises(DeviceLost, match=r"(?s)ILLEGAL_ADDRESS.*launched since the last wait: Bad, "
                                         r"Fine; CELLC_GPU_BLOCKING=1"):
        run.device.wait()
    with pytest.raises(DeviceLost, match="Bad, Fine"):
        run.launch(output)


def test_blocking_names_the_kernel_that_breaks() -> None:
    steps = (Launch(0, (0, "+0"), N), Launch(1, ("+0", 1), N))
    with knobs.override(gpu_blocking=True):
        run = Running(program(steps, ("scale", "breaks"), arena=BYTES, name="Net"))
    assert run.launch(run.device.allocate(BYTES)) == DEVICE_FAILED
    with pytest.raises(DeviceLost, match=r"kernel 2 of 2 \(breaks at net.py:4\) of program 'Net'"):
        run.device.wait()


def test_a_later_failure_is_told_too() -> None:
    """From the second call on the driver is called without Python between."""
    with knobs.override(gpu_graphs=False):
        run = Running(program(CHAIN, arena=2048, name="Net"))
    assert np.array_equal(run(floats()), 8 * floats())
    run.fake.fails["cuLaunchKernel"] = [701]
    assert run.launch(run.device.allocate(BYTES)) == DEVICE_FAILED
    with pytest.raises(CudaError, match="'Net': the driver refused a launch or a copy"):
        run.device.wait()
    assert np.array_equal(run(floats()), 8 * floats())


# --- graphs --------------------------------------------------------------------------------------


@contextmanager
def no_launches(fake: FakeDriver) -> Iterator[None]:
    """Nothing inside calls `cuLaunchKernel`."""
    before = fake.log.count("cuLaunchKernel")
    yield
    assert fake.log.count("cuLaunchKernel") == before


def test_the_second_call_is_taken_down_and_later_ones_are_one_launch() -> None:
    run = Running(program(CHAIN, arena=2048))
    assert np.array_equal(run(floats()), 8 * floats())
    assert run.code.graphs.captures == 0
    assert np.array_equal(run(floats() + 1), 8 * floats() + 8)
    assert (run.code.graphs.captures, run.code.graphs.launches) == (1, 1)
    with no_launches(run.fake):
        for i in range(5):
            assert np.array_equal(run(floats() + i), 8 * floats() + 8 * i)
    assert (run.code.graphs.captures, run.code.graphs.launches) == (1, 6)
    assert run.fake.count(GraphExec) == 1


def test_the_knob_turns_graphs_off() -> None:
    with knobs.override(gpu_graphs=False):
        run = Running(program(CHAIN, arena=2048))
    for i in range(4):
        assert np.array_equal(run(floats() + i), 8 * floats() + 8 * i)
    assert run.code.graphs.launches == 0 and len(run.fake.launches) == 12


def test_results_that_take_turns_have_a_graph_each() -> None:
    run = Running(program(CHAIN, arena=2048))
    run.put(floats())
    outputs = [run.device.allocate(BYTES) for _ in range(2)]
    for i in range(10):
        assert run.launch(outputs[i % 2]) == 0
    assert run.code.graphs.captures == 2 and len(run.fake.launches) == 12
    assert all(np.array_equal(run.result(o), 8 * floats()) for o in outputs)


def test_new_addresses_update_the_oldest_graph() -> None:
    run = Running(program(CHAIN, arena=2048))
    run.put(floats())
    outputs = [run.device.allocate(BYTES) for _ in range(7)]
    for _ in range(2):
        for output in outputs:
            assert run.launch(output) == 0
    assert run.code.graphs.captures == 7
    assert run.fake.log.count("cuGraphInstantiateWithFlags") == 4
    assert run.fake.log.count("cuGraphExecUpdate_v2") == 3
    assert run.fake.count(GraphExec) == 4
    assert all(np.array_equal(run.result(o), 8 * floats()) for o in outputs)


def test_a_graph_that_cannot_be_updated_is_made_anew() -> None:
    run = Running(program(CHAIN, arena=2048))
    run.put(floats())
    outputs = [run.device.allocate(BYTES) for _ in range(5)]
    run.fake.fails["cuGraphExecUpdate_v2"] = [910]
    for _ in range(2):
        for output in outputs:
            assert run.launch(output) == 0
    assert run.fake.log.count("cuGraphInstantiateWithFlags") == 5
    run.device.wait()
    assert run.fake.count(GraphExec) == 4
    assert all(np.array_equal(run.result(o), 8 * floats()) for o in outputs)


def test_addresses_that_never_repeat_are_launched_plainly() -> None:
    run = Running(program(CHAIN, arena=2048))
    kept = []
    for _ in range(40):
        kept.append(run.device.allocate(BYTES))
        assert run.launch(kept[-1]) == 0
    assert run.code.graphs.captures == 0 and run.code.graphs.possible


def test_a_program_that_waits_goes_on_kernel_by_kernel() -> None:
    """The wait is refused while launches are taken down: nothing has run by then."""
    steps = (Launch(0, (0, 0), N), Wait(), Launch(0, (0, 1), N))
    run = Running(program(steps))
    run.put(floats())
    output = run.device.allocate(BYTES)
    for i in range(1, 5):
        assert run.launch(output) == 0
        # The first step doubles the input in place: twice would show.
        assert np.array_equal(run.result(output), floats() * 2.0 ** (i + 1))
    assert not run.code.graphs.possible and run.fake.count(GraphExec) == 0


def test_a_program_that_copies_from_its_stack_goes_on_kernel_by_kernel() -> None:
    """A graph would read what is there when it runs."""
    steps = (Put(0, 7.0), Launch(0, (0, "+0"), N), Put(0, 9.0), Launch(1, (0, "+0", 1), N))
    run = Running(program(steps, ("scale", "add"), arena=BYTES))
    want = 3 * floats()
    want[0] = 2 * 7 + 9
    for _ in range(4):
        assert np.array_equal(run(floats()), want)
    assert not run.code.graphs.possible and run.fake.count(GraphExec) == 0


def test_one_launch_is_no_graph() -> None:
    run = Running(program((Launch(0, (0, 1), N),)))
    for i in range(4):
        assert np.array_equal(run(floats() + i), 2 * floats() + 2 * i)
    assert not run.code.graphs.possible and run.fake.count(GraphExec) == 0


@pytest.mark.parametrize("function, code", [
    ("cuStreamBeginCapture_v2", 1), ("cuStreamEndCapture", 901),
    ("cuGraphInstantiateWithFlags", 2),
])
def test_graphs_that_cannot_be_had(function: str, code: int) -> None:
    run = Running(program(CHAIN, arena=2048))
    run.fake.fails[function] = [code]
    for i in range(4):
        assert np.array_equal(run(floats() + i), 8 * floats() + 8 * i)
    assert not run.code.graphs.possible and run.fake.log.count(function) == 1


def test_a_graph_that_fails_is_told() -> None:
    run = Running(program(CHAIN, arena=2048, name="Net"))
    for _ in range(3):
        run(floats())
    run.fake.fails["cuGraphLaunch"] = [719]
    assert run.launch(run.device.allocate(BYTES)) == DEVICE_FAILED
    with pytest.raises(DeviceLost, match=r"(?s)launching a graph: CUDA_ERROR_LAUNCH_FAILED.*Net"):
        run.device.wait()


def test_graphs_go_with_their_program() -> None:
    run = Running(program(CHAIN, arena=2048))
    for _ in range(3):
        run(floats())
    device, fake = run.device, run.fake
    assert fake.count(GraphExec) == 1
    del run
    gc.collect()
    device.wait()
    assert fake.count(GraphExec) == 0


# --- streams and events --------------------------------------------------------------------------


def test_events() -> None:
    run = Running(program(CHAIN, arena=2048))
    start, end = run.device.event(timing=True), run.device.event(timing=True)
    with pytest.raises(RuntimeError, match="must have been recorded"):
        start.elapsed_time(end)
    start.record()
    run.put(floats())
    assert run.launch(run.device.allocate(BYTES)) == 0
    end.record()
    assert not end.query() and not run.device.default_stream().query()
    with pytest.raises(RuntimeError, match="synchronize with the later one"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    assert len(run.fake.done) == 3
    with pytest.raises(RuntimeError, match="with timing"):
        start.elapsed_time(run.device.event())


def test_a_stream_waits_for_an_event() -> None:
    run = Running(program(CHAIN, arena=2048))
    run.put(floats())
    assert run.launch(run.device.allocate(BYTES)) == 0
    other = run.device.stream()
    other.wait_stream(run.device.default_stream())
    behind = other.record_event()
    behind.synchronize()
    assert len(run.fake.done) == 3 and other.query()
    handle = other.handle
    del other
    run.device.wait()
    assert handle not in run.fake.handles
