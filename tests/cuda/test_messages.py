"""Messages between GPUs by NCCL: on emulated GPUs, and on stand-ins of the driver and of NCCL.

What is sent by the stand-in of NCCL waits until it is received, as by NCCL itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn
from cellc.compiled.pipelines import planned
from cellc.compiled.traced import trace
from cellc.testing.ranks import run_ranks
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_runtime import collectives, executable
from cellc_runtime.cuda import nccl, on_stream
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import float32
from cellc_runtime.executable import Executable
from cellc_runtime.target import CUDA, EMULATED
from cellc_runtime.world import CollectiveError, world

from .emulation import CPU
from .fake_driver import FakeDriver
from .fake_nccl import FakeNccl
from .programs import addresses

Array = np.ndarray[Any, Any]
Make = Callable[[int], Graph]
TARGET = EMULATED["emulated-sm_90a"]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EmulatedDevice]]:
    """One of the same kind for each rank."""
    made = [EmulatedDevice(TARGET) for _ in range(4)]
    host = executable.device_of
    monkeypatch.setattr(executable, "device_of", lambda target: made[world().rank]
                        if target == TARGET.name else host(target))
    yield made


def on_ranks(
    count: int, make: Make, given: Callable[[int], Sequence[Array]], folder: Path | None,
    calls: int = 1, use: Callable[[FakeNccl], None] = lambda fake: None, introduced: bool = True,
) -> tuple[list[list[bytes]], list[list[str]]]:
    """The bits of the results of a program on each rank, and the calls of NCCL there.

    Args:
        folder: of NCCL's stand-in; None: on CPUs.
        introduced: whether ranks tell each other what connects them, as those of a pipeline do.
    """
    def run(rank: int) -> tuple[list[bytes], list[str]]:
        fake = FakeNccl(folder or Path())
        use(fake)
        if folder is not None:
            on_stream.use(lambda: nccl.Nccl(fake))
        try:
            program = Executable(compile_program(make(rank), TARGET if folder else CPU))
            if introduced:
                on_stream.introduce(tuple(range(count)))
            out = [a for _ in range(calls) for a in program.call(given(rank))]
            arrays = [a if isinstance(a, np.ndarray) else a.numpy() for a in out]
        finally:
            on_stream.disconnect()
        return [np.asarray(a).tobytes() for a in arrays], [call[0] for call in fake.log]

    bits, logs = zip(*run_ranks(count, run), strict=True)
    return list(bits), list(logs)


def exchange(
    orders: Sequence[Sequence[str]], shapes: Sequence[tuple[int, ...]] = (), met: bool = False
) -> Make:
    """A program, by rank, of messages in an order: `">1:5"` sends to rank 1 with the tag 5,
    `"<0:5"` receives. What is sent is the sum of all that was received before, and so is the
    result; each has a shape of its tag's. Ranks that have `met` have added what they were given."""
    def make(rank: int) -> Graph:
        graph = Graph("exchange")
        x, b = graph.add_input(TensorType((2, 3), float32), "x"), Builder(graph)
        total = b.neg(x)
        if met:
            total = b.all_reduce(total, reduction="sum", ranks=tuple(range(len(orders))))
        for step in orders[rank]:
            peer, tag = map(int, step[1:].split(":"))
            shape = shapes[rank] if shapes else (1 + tag, 3)
            if step[0] == ">":
                row = b.slice(total, start=(0, 0), stop=(1, 3))
                b.emit("send_to", b.broadcast_to(row, shape=shape), rank=peer, tag=tag)
            else:
                came = b.receive_from(rank=peer, tag=tag, dtype=float32, shape=shape)
                total = b.add(total, b.slice(came, start=(0, 0), stop=(1, 3)))
        graph.outputs = [b.neg(total)]
        return graph

    return make


def drawn(rank: int) -> list[Array]:
    return [np.random.RandomState(rank).randn(2, 3).astype(np.float32)]


PROGRAMS = {
    "there and back": [[">1:0", "<1:1"], ["<0:0", ">0:1"]],
    "sends cross": [[">1:0", "<1:0"], [">0:0", "<0:0"]],
    "a ring": [[">1:0", "<2:0"], [">2:0", "<0:0"], [">0:0", "<1:0"]],
    "received in another order": [[">1:3", ">1:1", ">1:3", "<1:2"],
                                  ["<0:1", ">0:2", "<0:3", "<0:3"]],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_messages_have_the_bits_of_the_host(
    name: str, tmp_path: Path, gpus: list[EmulatedDevice]
) -> None:
    orders = PROGRAMS[name]
    found, logs = on_ranks(len(orders), exchange(orders), drawn, tmp_path, calls=2)
    want, _ = on_ranks(len(orders), exchange(orders), drawn, None, calls=2)
    assert found == want
    for order, log in zip(orders, logs, strict=True):
        assert log.count("ncclSend") == 2 * sum(step[0] == ">" for step in order)
        assert log.count("ncclRecv") == 2 * sum(step[0] == "<" for step in order)


@pytest.mark.parametrize("met", [False, True])
def test_ranks_that_do_not_know_each_other_begin_by_the_host(
    met: bool, tmp_path: Path, gpus: list[EmulatedDevice]
) -> None:
    """Who has heard of the other, by a message or in a collective, sends by NCCL."""
    make = exchange([[">1:0", "<1:1", ">1:2"], ["<0:0", ">0:1", "<0:2"]], met=met)
    found, logs = on_ranks(2, make, drawn, tmp_path, introduced=False)
    assert found == on_ranks(2, make, drawn, None)[0]
    assert [log.count("ncclSend") for log in logs] == [1 + met, 1]


def test_ranks_whose_libraries_differ_go_by_the_host(
    tmp_path: Path, gpus: list[EmulatedDevice]
) -> None:
    def use(fake: FakeNccl) -> None:
        fake.version += world().rank

    orders = PROGRAMS["received in another order"]
    found, logs = on_ranks(2, exchange(orders), drawn, tmp_path, use=use)
    assert found == on_ranks(2, exchange(orders), drawn, None)[0]
    assert not any(logs)


def test_another_type_is_told(
    tmp_path: Path, gpus: list[EmulatedDevice], monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The sender leaves without waiting for ever."""
    monkeypatch.setattr("cellc_runtime.cuda.messages._UNDER_WAY", 0.1)
    make = exchange([[">1:7"], ["<0:7"]], [(2, 3), (3, 3)])
    with pytest.raises(CollectiveError, match=r"collective mismatch: rank 0 at send_to of "
                       r"float32\[2,3\]; rank 1 at receive_from of float32\[3,3\], both with the "
                       "tag 7"):
        on_ranks(2, make, drawn, tmp_path)
    assert "rank 1 has ended and not received all that rank 0 has sent" in capfd.readouterr().err


def test_another_tag_is_told(
    tmp_path: Path, gpus: list[EmulatedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the one that is waited for does not come."""
    monkeypatch.setattr("cellc.testing.ranks._PATIENCE", 0.3)
    monkeypatch.setattr("cellc_runtime.cuda.messages._UNDER_WAY", 0.1)
    with pytest.raises(CollectiveError, match=r"collective mismatch: rank 1 waits for a message of "
                       r"rank 0 with the tag 4, but nobody has received what that one has sent: "
                       r"float32\[6,3\] with the tag 5\. receive_from of float32\[5,3\] with the "
                       "tag 4: rank 1 waits for"):
        on_ranks(2, exchange([[">1:5"], ["<0:4"]]), drawn, tmp_path)
    with pytest.raises(CollectiveError, match="the tag 32766 is cellc's own"):
        on_ranks(2, exchange([[">1:32766"], []], [(1, 3)] * 2), drawn, tmp_path)


@pytest.mark.parametrize("function", ["ncclCommInitRank", "ncclSend"])
def test_what_fails_while_the_program_goes_on_is_told_later(
    function: str, tmp_path: Path, gpus: list[EmulatedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next message, or when the rank leaves."""
    monkeypatch.setattr("cellc.testing.ranks._PATIENCE", 2.0)
    monkeypatch.setattr("tests.cuda.fake_nccl.PATIENCE", 1.0)

    def use(fake: FakeNccl) -> None:
        if world().rank == 0:
            fake.fails[function] = [2]

    with pytest.raises(CollectiveError, match=rf"(?s)send_to of float32\[1,3\]: {function}: "
                       "unhandled system error.*NCCL_DEBUG=WARN"):
        on_ranks(2, exchange([[">1:0", ">1:2"], ["<0:0", "<0:2"]]), drawn, tmp_path, use=use)


# --- pipelines ------------------------------------------------------------------------------------


class Layer(nn.Cell):
    """Of one stage; it gives the next one two tensors."""

    def __init__(self, stage: int) -> None:
        super().__init__(auto_prefix=False)
        self.w = Parameter(drawn(stage)[0][0], name=f"w{stage}")
        self.pipeline_stage = stage

    def construct(self, x: Any, y: Any) -> Any:
        return x * self.w, x + y


class Deep(nn.Cell):
    """Layers, each a stage."""

    def __init__(self, stages: int) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer(stage) for stage in range(stages)])

    def construct(self, x: Any) -> Any:
        y = x
        for layer in self.layers:
            x, y = layer(x, y)
        return (x * y).sum()


def parts(stages: int, schedule: str) -> tuple[list[Graph], dict[str, Array], Graph, list[int]]:
    """The graphs of the stages of a training step, what their inputs are by name, the graph of the
    whole, and how many messages each stage sends; parameters are inputs, and what they become
    results."""
    ms.set_auto_parallel_context(pipeline_config={"pipeline_scheduler": schedule})
    try:
        net = nn.PipelineCell(Deep(stages).set_train(), 4)
        step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
        x = np.random.RandomState(5).randn(4, 3).astype(np.float32)
        traced = trace(step, [Tensor(x)], {})
        plan = planned(traced, stages)
    finally:
        ms.reset_auto_parallel_context()
    named = zip(traced.graph.inputs[traced.arguments:], traced.parameters, strict=True)
    values = {v.name: p.asnumpy() for v, p in named} | {traced.graph.inputs[0].name: x}
    for graph in (*plan.graphs, traced.graph):
        for v in graph.inputs:
            v.kind = "input"
        graph.outputs += [new for _, new in graph.updates]
        graph.updates = []
    sent = [sum(c.source == stage for c in plan.crossings) for stage in range(stages)]
    return plan.graphs, values, traced.graph, sent


@pytest.mark.parametrize(("stages", "schedule"), [(2, "gpipe"), (4, "1f1b")])
def test_pipelines_have_the_bits_of_one_process(
    stages: int, schedule: str, tmp_path: Path, gpus: list[EmulatedDevice]
) -> None:
    graphs, values, whole, sent = parts(stages, schedule)
    names = [[v.name for v in g.inputs] for g in graphs]

    def given(rank: int) -> list[Array]:
        return [values[name] for name in names[rank]]

    found, logs = on_ranks(stages, lambda rank: graphs[rank], given, tmp_path, calls=2)
    assert found == on_ranks(stages, lambda rank: graphs[rank], given, None, calls=2)[0]
    alone = Executable(compile_program(whole, CPU)).call([values[v.name] for v in whole.inputs])
    loss, *weights = (np.asarray(a).tobytes() for a in alone)
    assert found[-1][0] == loss
    assert all(set(own[1 : len(own) // 2]) <= set(weights) for own in found)
    assert [log.count("ncclSend") for log in logs] == [2 * n for n in sent]
    assert sum(log.count("ncclRecv") for log in logs) == 2 * sum(sent)
    assert all(sent)


# --- streams, on a stand-in for the driver --------------------------------------------------------


class Host:
    """See `on_stream.Called`."""

    def __init__(self, function: Any, inputs: Any, outputs: Any) -> None:
        self.function = function
        self.types = [(*t, False) for t in inputs] + [(*t, True) for t in outputs]
        self.errors: list[BaseException] = []
        self.failed = self.errors.append

    def __call__(self, buffers: int) -> int:
        raise AssertionError("nothing goes by the host")


def relay(rank: int) -> Graph:
    """What is given goes to the other rank, twice, and what comes, last first, back."""
    graph = Graph("relay")
    x, b = graph.add_input(TensorType((4,), float32), "x"), Builder(graph)

    def received(tag: int) -> Value:
        came: Value = b.receive_from(rank=1 - rank, tag=tag, dtype=float32, shape=(4,))
        return came

    for tag in (0, 1):
        b.emit("send_to", x, rank=1 - rank, tag=tag)
    second, first = received(1), received(0)
    b.emit("send_to", second, rank=1 - rank, tag=2)
    graph.outputs = [first, second, received(2)]
    return graph


def test_nobody_waits_for_a_message_on_the_stream(tmp_path: Path) -> None:
    """A program is launched before anything of it is done; its operands may then be written."""
    def run(rank: int) -> list[Array]:
        fake = FakeDriver()
        fake.first_bus = 1 + rank
        library = FakeNccl(tmp_path, fake)
        on_stream.use(lambda: nccl.Nccl(library))
        device = CudaDevice(Driver(fake))
        program = compile_program(relay(rank), CUDA["cuda-sm_90a"], use_cache=False)
        called = [Host(collectives.callback(c.name), c.inputs, c.outputs)
                  for c in program.callbacks]
        code = device.load(program, called)
        on_stream.introduce((0, 1))
        arena, x = device.allocate(program.arena_bytes), device.allocate(16)
        outs = [device.allocate(16) for _ in range(3)]
        found = []
        for number in range(3):
            device.copy(x.address, np.full(4, rank + 10 * number, np.float32).data)
            slots = addresses(x.address, *(out.address for out in outs))
            done = len(fake.done)
            assert code.launch(ctypes.addressof(slots), arena.address, 0) == 0
            assert len(fake.done) == done
            device.copy(x.address, np.full(4, -1, np.float32).data)
            for out in outs:
                found.append(np.zeros(4, np.float32))
                device.read(out.address, found[-1].data)
        on_stream.disconnect()
        assert not library.comms
        return found

    for rank, found in enumerate(run_ranks(2, run)):
        want = [v + 10 * number for number in range(3) for v in (1 - rank, 1 - rank, rank)]
        assert [a.tolist() for a in found] == [[float(v)] * 4 for v in want]
