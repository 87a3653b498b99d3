"""Collectives between GPUs by NCCL: the library's declarations, and programs on a stand-in."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc.testing.ranks import run_ranks
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import collectives, knobs
from cellc_runtime import device as devices
from cellc_runtime.cuda import nccl, on_stream
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, complex64, float16, float32, int32
from cellc_runtime.executable import Executable
from cellc_runtime.target import CUDA, EMULATED
from cellc_runtime.world import CollectiveError, world

from .fake_driver import FakeDriver
from .fake_nccl import FakeNccl
from .programs import addresses

Array = np.ndarray[Any, Any]
TARGETS = tuple(EMULATED.values())[:3]
"""One for each rank: ranks that are threads need a device each."""


# --- the library ----------------------------------------------------------------------------------

KINDS: dict[Any, str] = {ctypes.c_void_p: "pointer", ctypes.c_int: "int", ctypes.c_size_t: "size_t",
                         nccl.UniqueId: "ncclUniqueId"}


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The folder of the package."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(p, "nccl") for p in (spec.submodule_search_locations or ())] if spec else []
    found = [f for f in folders if (f / "include" / "nccl.h").exists()]
    if not found:
        pytest.skip("nvidia-nccl-cu13 is not installed")
    return found[0]


def test_declarations(wheel: Path) -> None:
    """Against nccl.h."""
    header = (wheel / "include" / "nccl.h").read_text()
    for name, types in {**nccl.SIGNATURES, **nccl.TEXTS}.items():
        found = re.search(rf"^(ncclResult_t|const char\*) +{name}\(([^)]*)\);", header, re.M)
        assert found is not None, name
        assert (found[1] == "const char*") == (name in nccl.TEXTS)
        expected = []
        for declared in filter(None, found[2].split(",")):
            words = declared.replace("const", "").split()
            pointer = "*" in declared or words[0] in ("ncclComm_t", "cudaStream_t")
            enum = words[0] in ("ncclDataType_t", "ncclResult_t", "ncclRedOp_t")
            expected.append("pointer" if pointer else "int" if enum else words[0])
        assert [KINDS[t] for t in types] == expected, name
    numbers = {f"nccl{name.capitalize()}": n
               for name, n in (*nccl.TYPES.items(), *nccl.REDUCTIONS.items())}
    for name, value in (*numbers.items(), ("NCCL_UNIQUE_ID_BYTES", nccl.ID_BYTES),
                        ("ncclInProgress", 7), ("ncclRemoteError", 6), ("ncclInvalidUsage", 5)):
        assert re.search(rf"{name}\s*=?\s*{value}\b", header), name


def test_the_library_loads_without_a_gpu(wheel: Path) -> None:
    path = nccl.found()
    assert Path(path) == wheel / "lib" / "libnccl.so.2"
    library = nccl.load(path)
    assert library.version >= nccl.LEAST_VERSION
    one, other = library.unique_id(), library.unique_id()
    assert len(one) == nccl.ID_BYTES and one != other
    with pytest.raises(nccl.NcclError,
                       match=r"outside: ncclCommInitRank: (unhandled cuda error|inval)"):
        library.communicator(one, 2, 5, "a place outside")


def test_what_is_not_there() -> None:
    with pytest.raises(nccl.NoNccl, match=r"cannot be loaded .*pip install 'cellc\[nccl\]'"):
        nccl.load("/nowhere/libnccl.so.2")
    fake = FakeNccl(Path())
    fake.version = 21703
    with pytest.raises(nccl.NoNccl, match=r"NCCL 2\.17\.3: cellc needs 2\.18\.0 or newer"):
        nccl.Nccl(fake)
    fake.missing.add("ncclSend")
    with pytest.raises(nccl.NoNccl, match="has no ncclSend"):
        nccl.Nccl(fake)
    with knobs.override(nccl="none"):
        assert nccl.found() == ""
    assert "NCCL" not in on_stream.connect()  # one process without a GPU needs none


# --- programs on the emulated GPU -----------------------------------------------------------------


@pytest.fixture(scope="module")
def gpus() -> Iterator[list[EmulatedDevice]]:
    """One for each rank."""
    with ExitStack() as stack:
        made = [EmulatedDevice(target) for target in TARGETS]
        for device in made:
            devices.register(device)
            stack.callback(devices.unregister, device)
        yield made


def values(rank: int, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Of all sizes, so that the order of a sum shows; of zeros of both signs and NaN in the first
    and second row, so that it does of an extreme."""
    draw = np.random.RandomState(rank)
    made = draw.randn(*shape) * 10.0 ** draw.randint(-3, 4, shape)
    if len(shape) > 1 and np.dtype(dtype).kind != "i":
        made[0] = draw.choice([0.0, -0.0], shape[1:])
        made[1] = np.where(draw.rand(*shape[1:]) < 0.3, np.nan, made[1])
    return made.astype(dtype)


Made = Callable[[int], Graph]


def a_collective(op: str, shape: tuple[int, ...], dtype: DType = float32, **attrs: Any) -> Made:
    """A graph, by rank, of one collective between two ops; attributes that are functions are of the
    rank."""
    def make(rank: int) -> Graph:
        graph = Graph("g")
        x, b = graph.add_input(TensorType(shape, dtype), "x"), Builder(graph)
        given = {k: v(rank) if callable(v) else v for k, v in attrs.items()}
        graph.outputs = [b.neg(b.emit(op, b.neg(x), **given))]
        return graph

    return make


def on_gpus(
    folder: Path, make: Made, ranks: tuple[int, ...], sent: bool = True,
    use: Callable[[FakeNccl], None] = lambda fake: None, numerics: str = "strict",
) -> dict[int, tuple[bytes, list[str]]]:
    """The bits that a graph gives on each rank, and the calls of NCCL there.

    Args:
        sent: whether there is NCCL.
        use: called with the library of each rank.
    """
    def run(rank: int) -> tuple[bytes, list[str]] | None:
        if rank not in ranks:
            return None
        fake = FakeNccl(folder)
        use(fake)
        if sent:
            on_stream.use(lambda: nccl.Nccl(fake))
        graph = make(rank)
        x = values(rank, graph.inputs[0].shape, graph.inputs[0].dtype.numpy)
        try:
            out = Executable(compile_program(
                graph, TARGETS[rank], use_cache=False, numerics=numerics)).call([x])
            return np.asarray(out[0].numpy()).tobytes(), [call[0] for call in fake.log]
        finally:
            on_stream.disconnect()

    found = run_ranks(1 + max(ranks), run)
    return {rank: found[rank] for rank in ranks}


ALL, MESSAGES = (0, 1, 2), {"ncclSend", "ncclRecv"}
SIZES = ((1, 0, 3), (2, 0, 0), (0, 4, 1))
"""Rows that each rank sends to each."""
CASES: dict[str, tuple[Made, tuple[int, ...], set[str]]] = {
    "large sum": (a_collective("all_reduce", (5003,), reduction="sum", ranks=ALL), ALL,
                  {*MESSAGES, "ncclAllGather"}),
    "small sum": (a_collective("all_reduce", (3, 5), bfloat16, reduction="sum", ranks=ALL), ALL,
                  {"ncclAllGather"}),
    "product": (a_collective("all_reduce", (70, 70), int32, reduction="prod", ranks=(2, 0)),
                (0, 2), {*MESSAGES, "ncclAllGather"}),
    "extreme": (a_collective("all_reduce", (4, 1500), reduction="max", ranks=ALL), ALL,
                {*MESSAGES, "ncclAllGather"}),
    "small extreme": (a_collective("all_reduce", (5, 8), bfloat16, reduction="min", ranks=(2, 0)),
                      (0, 2), {"ncclAllGather"}),
    "complex product": (a_collective("all_reduce", (7,), complex64, reduction="prod", ranks=ALL),
                        ALL, set()),
    "reduce_scatter": (a_collective("reduce_scatter", (6, 4), float16, reduction="sum", ranks=ALL),
                       ALL, MESSAGES),
    "reduce_to": (a_collective("reduce_to", (6,), reduction="sum", root=1, ranks=(0, 1)), (0, 1),
                  {"ncclSend"}),
    "large reduce_to": (a_collective("reduce_to", (71, 71), reduction="max", root=2, ranks=ALL),
                        ALL, MESSAGES),
    "all_gather": (a_collective("all_gather", (2, 3), ranks=(2, 0, 1)), ALL, {"ncclAllGather"}),
    "broadcast_from": (a_collective("broadcast_from", (9,), root=2, ranks=ALL), ALL,
                       {"ncclBroadcast"}),
    "gather_to": (a_collective("gather_to", (2, 2), root=0, ranks=(2, 0)), (0, 2), set()),
    "scatter_from": (a_collective("scatter_from", (6, 2), root=1, ranks=ALL), ALL, set()),
    "all_to_all": (a_collective("all_to_all", (2, 6, 3), split_axis=1, concat_axis=2, ranks=ALL),
                   ALL, MESSAGES),
    "all_to_all_v": (
        lambda rank: a_collective(
            "all_to_all_v", (sum(SIZES[rank]), 5), send_sizes=SIZES[rank], ranks=ALL,
            receive_sizes=tuple(sizes[rank] for sizes in SIZES))(rank), ALL, MESSAGES),
}


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_host(name: str, tmp_path: Path, gpus: list[EmulatedDevice]) -> None:
    make, ranks, functions = CASES[name]
    by_nccl, by_host = (on_gpus(tmp_path, make, ranks, sent) for sent in (True, False))
    for rank in ranks:
        bits, calls = by_nccl[rank]
        assert (bits, []) == by_host[rank]
        assert functions <= set(calls)
        assert bool(calls) == (name != "complex product")


@pytest.mark.parametrize("name", ["large sum", "product", "reduce_scatter", "extreme", "reduce_to"])
def test_fast_numerics_let_the_library_add(
    name: str, tmp_path: Path, gpus: list[EmulatedDevice]
) -> None:
    """In its own order, here that from the last rank on; extremes have none."""
    make, ranks, _ = CASES[name]
    found, strict = (on_gpus(tmp_path, make, ranks, numerics=n) for n in ("fast", "strict"))
    dtype = make(0).inputs[0].dtype.numpy
    adds = {"reduce_scatter": "ncclReduceScatter", "extreme": "", "reduce_to": ""}.get(
        name, "ncclAllReduce")
    for rank in ranks:
        (bits, calls), (other, before) = found[rank], strict[rank]
        assert calls == (["ncclCommInitRank", adds] if adds else before)
        assert not {"ncclAllReduce", "ncclReduceScatter"} & set(before)
        got, want = (np.frombuffer(b, dtype).astype(np.float64) for b in (bits, other))
        np.testing.assert_allclose(got, want, 2e-3 if name == "reduce_scatter" else 1e-4, 1e-3)
    assert name in ("product", "extreme", "reduce_to") or found != strict


def test_ranks_on_one_gpu_go_by_the_host(
    tmp_path: Path, gpus: list[EmulatedDevice], monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """And say so once."""
    make, ranks, _ = CASES["small sum"]
    expected = on_gpus(tmp_path, make, ranks)
    monkeypatch.setattr(EmulatedDevice, "queue_name", "the one GPU")
    found = on_gpus(tmp_path, make, ranks)
    assert {r: bits for r, (bits, _) in found.items()} == {r: b for r, (b, _) in expected.items()}
    assert not any(calls for _, calls in found.values())
    assert capfd.readouterr().err.count("ranks 0, 1, 2 do not have a GPU each") == 1


def _another_version(fake: FakeNccl) -> None:
    fake.version += world().rank


def _too_old(fake: FakeNccl) -> None:
    if world().rank == 1:
        fake.missing.add("ncclSend")


@pytest.mark.parametrize(("use", "said"), [
    (_another_version, "ranks 0, 1, 2 have different versions of NCCL (2.32.3, 2.32.4, 2.32.5)"),
    (_too_old, "ranks 0, 1, 2 are not connected by NCCL, for on rank 1 the library of NCCL has no "
               "ncclSend")])
def test_ranks_whose_libraries_do_not_fit_go_by_the_host(
    use: Callable[[FakeNccl], None], said: str, tmp_path: Path, gpus: list[EmulatedDevice],
    capfd: pytest.CaptureFixture[str],
) -> None:
    make, ranks, _ = CASES["small sum"]
    expected = on_gpus(tmp_path, make, ranks)
    found = on_gpus(tmp_path, make, ranks, use=use)
    assert {r: (bits, []) for r, (bits, _) in expected.items()} == found
    assert capfd.readouterr().err.count(said) == 1


def test_nothing_is_loaded_before_the_first_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that meet look whether there is a driver: they may compute on CPUs."""
    def load(path: str) -> nccl.Nccl:
        raise AssertionError(f"{path} was loaded")

    def meet(rank: int) -> tuple[str, bool]:
        try:
            return on_stream.connect(), on_stream.engine() is not None
        finally:
            on_stream.disconnect()

    monkeypatch.setattr(nccl, "load", load)
    assert run_ranks(2, meet) == [("", False)] * 2
    monkeypatch.setattr(on_stream, "gpu_driver_version", lambda: "580.1")
    assert run_ranks(2, meet) == [("", True)] * 2
    monkeypatch.setattr(nccl, "found", lambda: "" if world().rank else "libnccl.so.2")
    assert run_ranks(2, meet) == [("rank 1: CELLC_NCCL=none", False)] * 2


@pytest.mark.parametrize(("function", "code", "said"), [
    ("ncclCommInitRank", 5, "invalid usage .*two of them use one GPU"),
    ("ncclSend", 1, r"all_to_all 0 0 of float32\[3,1668\].*ncclSend: unhandled cuda error \(as the "
                    "test wanted it\\)\n.*NCCL_DEBUG=WARN"),
    ("ncclGroupEnd", 2, "ncclGroupEnd: unhandled system error"),
    ("asynchronous", 6, "what was asked for before: remote process exited"),
])
def test_errors_say_what_to_do(
    function: str, code: int, said: str, tmp_path: Path, gpus: list[EmulatedDevice]
) -> None:
    def use(fake: FakeNccl) -> None:
        if function == "asynchronous":
            fake.asynchronous = code
        else:
            fake.fails[function] = [code]

    make, ranks, _ = CASES["large sum"]
    with pytest.raises(CollectiveError, match=f"(?s){said}"):
        on_gpus(tmp_path, make, ranks, use=use)


def test_ranks_that_disagree_are_told(tmp_path: Path, gpus: list[EmulatedDevice]) -> None:
    """By the world, before NCCL would wait for ever."""
    def make(rank: int) -> Graph:
        return a_collective("all_gather", (2 + rank, 3), ranks=(0, 1))(rank)

    with pytest.raises(CollectiveError, match=r"collective mismatch: rank 0 at all_gather of "
                       r"float32\[2,3\]; rank 1 at all_gather of float32\[3,3\]"):
        on_gpus(tmp_path, make, (0, 1))


# --- streams and graphs, on a stand-in for the driver ---------------------------------------------


class Gpu:
    """A program of three gathers on a rank's own stand-in for a GPU, of number 0 for each rank, at
    a place on the bus; `calls` gives its results."""

    def __init__(self, rank: int, folder: Path, bus: int) -> None:
        graph = Graph("gathers")
        value, b = graph.add_input(TensorType((4,), float32), "x"), Builder(graph)
        for _ in range(3):
            value = b.emit("all_gather", value, ranks=(0, 1))
        graph.outputs = [value]
        self.fake, self.rank = FakeDriver(), rank
        self.fake.first_bus = bus
        self.nccl = FakeNccl(folder, self.fake)
        on_stream.use(lambda: nccl.Nccl(self.nccl))
        self.device = CudaDevice(Driver(self.fake))
        self.program = compile_program(graph, CUDA["cuda-sm_90a"], use_cache=False)
        called = [_Host(collectives.callback(c.name, " (at the test)"), c.inputs, c.outputs)
                  for c in self.program.callbacks]
        self.code: Any = self.device.load(self.program, called)
        self.arena = self.device.allocate(self.program.arena_bytes)
        self.x = self.device.allocate(16)

    def call(self, out: Any, number: int) -> Array:
        """Call it, with another operand each time."""
        self.device.copy(self.x.address, np.full(4, self.rank + 10 * number, np.float32).data)
        slots = addresses(self.x.address, out.address)
        assert self.code.launch(ctypes.addressof(slots), self.arena.address, 0) == 0
        found = np.zeros(32, np.float32)
        self.device.read(out.address, found.data)
        return found


class _Host:
    """See `on_stream.Called`."""

    def __init__(self, function: Any, inputs: Any, outputs: Any) -> None:
        self.function = function
        self.types = [(*t, False) for t in inputs] + [(*t, True) for t in outputs]
        self.errors: list[BaseException] = []
        self.failed = self.errors.append

    def __call__(self, buffers: int) -> int:
        raise AssertionError("nothing goes by the host")


def test_collectives_run_on_the_stream_and_in_graphs(tmp_path: Path) -> None:
    """All ranks launch graphs or none does, whatever addresses each of them has seen."""
    def run(rank: int) -> tuple[list[Array], list[tuple[int, int]]]:
        gpu = Gpu(rank, tmp_path, 1 + rank)
        blocks = [gpu.device.allocate(128) for _ in range(3)]
        # The results of rank 1 lie elsewhere once, while rank 0 has a graph for its addresses.
        places = [0, 0, 0, 0, 0, 0] if rank == 0 else [0, 0, 0, 1, 1, 0]
        found, counts = [], []
        for number, place in enumerate(places):
            found.append(gpu.call(blocks[place], number))
            together = gpu.code._together
            counts.append((together.captures, together.launches))
        on_stream.disconnect()
        assert not gpu.nccl.comms
        return found, counts

    for found, counts in run_ranks(2, run):
        for number, got in enumerate(found):
            expected = np.repeat([10.0 * number, 1 + 10.0 * number] * 4, 4)
            assert np.array_equal(got, expected), number
        # Seen first, made, launched, new for one of them, made again, and again.
        assert counts == [(0, 0), (1, 1), (1, 2), (1, 2), (2, 3), (3, 4)]


def test_a_rank_that_cannot_make_a_graph_keeps_all_from_it(tmp_path: Path) -> None:
    def run(rank: int) -> tuple[list[Array], bool]:
        gpu = Gpu(rank, tmp_path, 1 + rank)
        if rank == 1:
            gpu.fake.fails["cuGraphInstantiateWithFlags"] = [2]
        out = gpu.device.allocate(128)
        return [gpu.call(out, number) for number in range(3)], gpu.code._together.possible

    for found, possible in run_ranks(2, run):
        assert not possible
        for number, got in enumerate(found):
            assert np.array_equal(got, np.repeat([10.0 * number, 1 + 10.0 * number] * 4, 4))


def test_nobody_waits_for_a_collective(tmp_path: Path) -> None:
    """It is put on the stream, and done when somebody reads."""
    def run(rank: int) -> tuple[int, list[str]]:
        gpu = Gpu(rank, tmp_path, 1 + rank)
        out = gpu.device.allocate(128)
        slots = addresses(gpu.x.address, out.address)
        before = gpu.fake.pending()
        gpu.fake.log.clear()
        assert gpu.code.launch(ctypes.addressof(slots), gpu.arena.address, 0) == 0
        pending, log = gpu.fake.pending() - before, list(gpu.fake.log)
        gpu.device.read(out.address, np.zeros(32, np.float32).data)
        return pending, log

    for pending, log in run_ranks(2, run):
        assert pending == 3
        assert set(log) == {"cuCtxSetCurrent"}
