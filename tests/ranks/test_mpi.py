"""Real ranks by mpirun: collectives, training, and what happens when one of them fails."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from .conftest import Launch

COLLECTIVES = """
import numpy as np, sys
import cellc as ms
from cellc import Tensor, nn
from cellc.communication import init, get_rank, get_group_size, get_local_rank, comm_func as c
from cellc.communication import create_group
from cellc.parallel.distributed import DistributedDataParallel
init()
rank, size = get_rank(), get_group_size()
assert size == int(sys.argv[1]) and get_local_rank() == rank

def of(r, n=70001):
    return np.random.RandomState(r).randn(n).astype(np.float32)

class Sum(nn.Cell):
    def construct(self, x):
        return c.all_reduce(x * 2)[0] + 1

total = of(0) * 2
for r in range(1, size):
    total = total + of(r) * 2
for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
    ms.set_context(mode=mode)
    assert np.array_equal(Sum()(Tensor(of(rank))).asnumpy(), total + 1)
    assert np.array_equal(ms.grad(Sum())(Tensor(of(rank, 3))).asnumpy(), [2 * size] * 3)
large = np.random.RandomState(rank).randint(-9, 9, 2_500_001)
assert np.array_equal(c.all_reduce(Tensor(large))[0].asnumpy(), sum(
    np.random.RandomState(r).randint(-9, 9, 2_500_001) for r in range(size)))
assert np.array_equal(c.all_gather_into_tensor(Tensor(of(rank, 4)))[0].asnumpy(),
                      np.concatenate([of(r, 4) for r in range(size)]))
assert np.array_equal(c.broadcast(Tensor(of(rank)), size - 1).asnumpy(), of(size - 1))
c.isend(Tensor(of(rank)), (rank + 1) % size)
out, handle = c.irecv(Tensor(of(0)), (rank - 1) % size)
handle.wait()
assert np.array_equal(out.asnumpy(), of((rank - 1) % size))
if rank in (0, size - 1):
    create_group("ends", [size - 1, 0])
    assert c.all_reduce(Tensor([rank + 1]), group="ends")[0].asnumpy() == [size + 1]
net = nn.Dense(4, 3, Tensor(of(rank, 12).reshape(3, 4)), "zeros")
whole = DistributedDataParallel(net)
for step in range(3):
    whole.zero_grad()
    found = ms.grad(lambda x: whole(x).sum(), None, net.weight)(Tensor(of(rank, 8).reshape(2, 4)))
parts = [of(r, 8).reshape(2, 4).sum(0) * np.float32(1 / size) for r in range(size)]
assert np.array_equal(found.asnumpy(), np.tile(sum(parts[1:], parts[0]), (3, 1)))
assert np.array_equal(net.weight.asnumpy().ravel(), of(0, 12))
c.barrier()
print("rank", rank, "is right")
"""

TRAINING = """
import hashlib, sys
import numpy as np
import mindspore as ms
from mindspore import nn, Tensor, Model
from mindspore.communication import init, get_rank, get_group_size
import mindspore.dataset as ds
ms.set_context(mode=int(sys.argv[1]), device_target="CPU")
if sys.argv[2] == "ranks":
    init()
    rank, size = get_rank(), get_group_size()
    ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
else:
    rank, size = 0, 1
ms.set_seed(1)
draw = np.random.RandomState(5)
x, y = draw.randn(48, 8).astype(np.float32), draw.randint(0, 4, 48).astype(np.int32)
data = ds.NumpySlicesDataset((x, y), shuffle=False, num_shards=size, shard_id=rank).batch(4)
net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9)).train(2, data)
bits = b"".join(p.asnumpy().tobytes() for p in net.get_parameters())
print("weights", hashlib.sha256(bits).hexdigest())
"""

STAGES = """
import hashlib, sys
import numpy as np
import cellc as ms
from cellc import Tensor, nn, ops
from cellc.communication import init, get_rank, comm_func as c
from cellc.storage.elsewhere import is_elsewhere
stages = int(sys.argv[1])
ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
init()
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=stages,
                             pipeline_config={"pipeline_scheduler": sys.argv[2]})

def dense(seed):
    drawn = np.random.RandomState(seed).randn(4, 4).astype(np.float32) / 2
    return nn.Dense(4, 4, Tensor(drawn), "zeros")

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([dense(i) for i in range(stages)])
        for i, layer in enumerate(self.layers):
            layer.pipeline_stage = i

    def construct(self, x):
        for layer in self.layers:
            x = ops.relu(layer(x)) + x
        return x

net = Net().set_train()
loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
step = nn.TrainOneStepCell(nn.PipelineCell(loss, 4), nn.Adam(net.trainable_params(), 0.01))
for i in range(3):
    draw = np.random.RandomState(i)
    got = step(Tensor(draw.randn(8, 4).astype(np.float32)),
               Tensor(draw.randint(0, 4, 8).astype(np.int32)))
held = (p.asnumpy().tobytes() for p in step.get_parameters() if not is_elsewhere(p))
print("stage", get_rank(), hashlib.sha256(b"".join([*held, got.asnumpy()])).hexdigest())
ms.set_context(mode=ms.PYNATIVE_MODE)
peer = get_rank() ^ 1
sent = Tensor(np.full(3, get_rank(), np.float32))
came = c.batch_isend_irecv([c.P2POp("isend", sent, peer), c.P2POp("irecv", sent, peer)])[1]
assert (came.asnumpy() == peer).all()
"""

FAULTS = """
import ctypes, os, sys, time
import numpy as np
from cellc import Tensor
from cellc.communication import init, get_rank, comm_func as c
init()
rank = get_rank()
c.barrier()
if rank == 1:
    if sys.argv[1] == "raise":
        raise ValueError("of rank 1")
    if sys.argv[1] == "die":
        os.kill(os.getpid(), 9)
    if sys.argv[1] == "leave":
        sys.exit(0)
    if sys.argv[1] == "stop":
        os.kill(os.getpid(), 19)
    if sys.argv[1] == "late":
        time.sleep(600)
    if sys.argv[1] == "held":
        ctypes.PyDLL(None).sleep(600)
    if sys.argv[1] == "crossed":
        c.irecv(Tensor(np.zeros(2, np.float32)), 0)[1].wait()
    while sys.argv[1] == "loop":
        pass
    if sys.argv[1] == "locked":
        sum(range(3 * 10**8))
c.all_reduce(Tensor(np.zeros(3 + (rank if sys.argv[1] == "shape" else 0), np.float32)))
if sys.argv[1] == "locked":
    sys.exit(0)
time.sleep(600)
"""

OVERLAPPED = """
import os, sys, time
import numpy as np
import cellc as ms
from cellc import Tensor, nn, ops
from cellc.communication import init, get_rank, comm_func
from cellc.ops.functional import collectives as c
ms.set_context(mode=ms.GRAPH_MODE)
init()
rank, fault = get_rank(), sys.argv[1]

class Net(nn.Cell):
    def construct(self, x):
        sums, y = [], x
        for i in range(7):  # more than are under way at once
            y = ops.tanh(ops.matmul(y, y))
            sums.append(c.all_reduce(y))
        total = comm_func.all_gather_into_tensor(sums[0])[0].sum() + sums[0].sum()
        for s in sums[1:]:
            total = total + s.sum()
        return total

def given(rows):
    return Tensor(np.random.RandomState(rank).randn(rows, rows).astype(np.float32) / 9)

net, x = Net(), given(128)
want = net(x).asnumpy()
for _ in range(3):
    assert (net(x).asnumpy() == want).all()
ms.set_context(mode=ms.PYNATIVE_MODE)
assert (net(x).asnumpy() == want).all()
ms.set_context(mode=ms.GRAPH_MODE)
print("right")
comm_func.barrier()
if rank == 1:
    if fault == "die":
        os.kill(os.getpid(), 9)
    if fault == "leave":
        sys.exit(0)
    if fault == "late":
        time.sleep(600)
    if fault in ("shape", "small"):
        net(given(130 if fault == "shape" else 8))
net(x)
"""

RESTART = """
import hashlib, os, sys
from pathlib import Path
import numpy as np
import cellc as ms
from cellc import Tensor, nn
from cellc.communication import init, get_rank, comm_func as c
init()
rank, folder, dies = get_rank(), Path(sys.argv[1]), [int(a) for a in sys.argv[2:]]
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
ms.set_seed(1)
net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
step = nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
first = 0
if found := sorted(folder.glob("step*.ckpt")):
    first = int(found[-1].stem[4:]) + 1
    ms.load_param_into_net(step, ms.load_checkpoint(str(found[-1])), strict_load=True)
for i in range(first, 6):
    draw = np.random.RandomState(10 * i + rank)
    x, y = draw.randn(4, 8).astype(np.float32), draw.randint(0, 4, 4).astype(np.int32)
    step(Tensor(x), Tensor(y))
    if i in dies and rank == 1:
        os.kill(os.getpid(), 9)
    c.barrier()
    if rank == 0:
        ms.save_checkpoint(step, str(folder / f"step{i}.ckpt"))
bits = b"".join(p.asnumpy().tobytes() for p in step.get_parameters())
print("weights", hashlib.sha256(bits).hexdigest())
"""


@pytest.mark.parametrize("count", [2, 4])
def test_collectives(mpirun: Launch, count: int) -> None:
    done = mpirun(count, COLLECTIVES, str(count))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == [f"rank {r} is right" for r in range(count)]


def test_a_script_of_mindspore_trains_on_two_ranks(mpirun: Launch) -> None:
    found = set()
    for mode in "01":
        text = "from cellc import shim; shim.install()\n" + TRAINING
        done = mpirun(2, text, mode, "ranks")
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if line.startswith("weights")]
        assert len(lines) == 2
        found.update(lines)
    assert len(found) == 1  # both ranks, both modes


def _by_nccl(text: str) -> str:
    """A script that calls `init()` on a line of its own, with a stand-in of NCCL."""
    return re.sub(r"^( *)init\(\)\n", r"""\1init()
\1from cellc_runtime.cuda import nccl, on_stream
\1from tests.cuda.fake_nccl import of_environment
\1fake = of_environment()
\1on_stream.use(lambda: nccl.Nccl(fake))
""", text.replace('device_target="CPU"', 'device_target="GPU"'), flags=re.M)


def test_training_by_nccl(mpirun: Launch, tmp_path: Path) -> None:
    """On emulated GPUs and a stand-in of NCCL the weights are those of CPUs, in both modes."""
    root = Path(__file__).parents[2]
    by_nccl = _by_nccl(TRAINING) + 'print("calls", len(fake.log))\n'
    found = set()
    for text, mode in ((TRAINING, "0"), (by_nccl, "0"), (by_nccl, "1")):
        done = mpirun(2, f"from cellc import shim; shim.install()\n{text}", mode, "ranks",
                      CELLC_GPU="emulated", FAKE_NCCL=str(tmp_path), PYTHONPATH=str(root))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        found.update(line for line in lines if line.startswith("weights"))
        assert sum(line.startswith("calls") for line in lines) == 2 * (text is by_nccl)
        assert "calls 0" not in lines
    assert len(found) == 1


@pytest.mark.parametrize(("count", "schedule"), [(2, "1f1b"), (4, "gpipe")])
def test_training_by_nccl_in_stages(
    mpirun: Launch, tmp_path: Path, count: int, schedule: str
) -> None:
    """Stages on emulated GPUs, which send each other all by a stand-in of NCCL, as on CPUs."""
    by_nccl = _by_nccl(STAGES) + \
        'sent = [call for call in fake.log if call[0] == "ncclSend"]\n' \
        'print("all by NCCL" if len(sent) > 12 and sent[-1][1] == 12 else sent)\n'
    found = []
    for text in (STAGES, by_nccl):
        done = mpirun(count, text, str(count), schedule, CELLC_GPU="emulated",
                      FAKE_NCCL=str(tmp_path), PYTHONPATH=str(Path(__file__).parents[2]))
        assert done.returncode == 0, done.stderr
        lines = sorted(done.stdout.splitlines())
        found.append([line for line in lines if line.startswith("stage")])
        assert len(found[-1]) == count
        assert lines.count("all by NCCL") == count * (text is by_nccl)
    assert found[0] == found[1]


@pytest.mark.parametrize(("fault", "said"), [
    ("raise", ["rank 1: ValueError: of rank 1"]),
    ("die", ["signal 9", "rank 0: ended while it waited in all_reduce sum of float32[3]"]),
    ("shape", ["collective mismatch: rank 0 at all_reduce sum of float32[3]; rank 1 at all_reduce "
               "sum of float32[4]"]),
    ("late", ["rank 0 waits in all_reduce sum of float32[3]", "rank 1 hangs. For ",
              "Rank 1 sleeps or waits at", "script.py:19: "]),
    ("held", ["rank 0 waits in all_reduce sum of float32[3]", "rank 1 hangs. For ",
              "its code holds the interpreter's lock"]),
    ("crossed", ["collective mismatch: rank 0 waits in all_reduce sum of float32[3] for rank 1",
                 "rank 1 waits in receive_from", "for rank 0"]),
    ("loop", ["rank 0 has waited", "s for rank 1", "Rank 1 computes at", "script.py:2"]),
    ("leave", ["all_reduce sum of float32[3]", "rank 1 has left without coming to it"]),
    ("stop", ["rank 0 waits in all_reduce sum of float32[3]: rank 1 has not answered for",
              "its process is stopped"]),
])
def test_a_fault_ends_all_ranks(mpirun: Launch, fault: str, said: list[str]) -> None:
    start = time.monotonic()
    done = mpirun(2, FAULTS, fault, CELLC_COLLECTIVE_TIMEOUT="4", CELLC_SILENCE_TIMEOUT="1",
                  CELLC_HANG_TIMEOUT="2")
    assert done.returncode != 0
    assert time.monotonic() - start < 60
    for text in said:
        assert text in done.stderr


@pytest.mark.parametrize(("fault", "said"), [
    ("die", ["signal 9", "rank 0: ended while it waited in all_reduce sum of float32[128,128]"]),
    ("shape", ["collective mismatch: rank 0 at all_reduce sum of float32[128,128]; rank 1 at "
               "all_reduce sum of float32[130,130]"]),
    ("small", ["collective mismatch: rank 0 at all_reduce sum of float32[128,128]; rank 1 at "
               "all_reduce sum of float32[8,8]"]),
    ("late", ["rank 0 waits in all_reduce sum of float32[128,128]", "rank 1 hangs. For ",
              "Rank 1 sleeps or waits at", "script.py:4"]),
    ("leave", ["all_reduce sum of float32[128,128]", "rank 1 has left without coming to it"]),
])
def test_a_fault_ends_ranks_whose_collectives_are_under_way(
    mpirun: Launch, fault: str, said: list[str]
) -> None:
    """By programs that take them on by themselves, and by some that leave them to the thread."""
    threads = "2" if fault in ("small", "leave") else "1"
    start = time.monotonic()
    done = mpirun(2, OVERLAPPED, fault, CELLC_SILENCE_TIMEOUT="1", CELLC_HANG_TIMEOUT="2",
                  CELLC_NUM_THREADS=threads)
    assert done.returncode != 0
    assert time.monotonic() - start < 60
    assert done.stdout.split().count("right") == 2
    for text in said:
        assert text in done.stderr


def test_a_long_wait_is_told(mpirun: Launch) -> None:
    """Within ten seconds, with the rank, its line and the collective."""
    done = mpirun(2, FAULTS, "loop", CELLC_COLLECTIVE_TIMEOUT="10", CELLC_HANG_TIMEOUT="1")
    text, more, _ = done.stderr.partition("It goes on waiting, up to 10 s.")
    assert more and "all_reduce sum of float32[3]" in text
    assert "rank 0 has waited 8 s for rank 1" in text and "Rank 1 computes at" in text


def test_a_rank_that_computes_is_waited_for(mpirun: Launch) -> None:
    """Even where nothing else of it can run meanwhile."""
    done = mpirun(2, FAULTS, "locked", CELLC_SILENCE_TIMEOUT="1")
    assert done.returncode == 0, done.stderr


def test_an_mpi_for_one_thread_is_refused(mpirun: Launch) -> None:
    done = mpirun(1, "import mpi4py\nmpi4py.rc.thread_level = 'funneled'\n"
                  "from mpi4py import MPI\nMPI.Query_thread = lambda: MPI.THREAD_FUNNELED\n"
                  "from cellc_runtime.mpi import MpiWorld\nMpiWorld()\n")
    assert done.returncode != 0
    assert "lets no thread but the main one communicate" in done.stderr


def test_a_job_goes_on_from_its_last_whole_checkpoint(mpirun: Launch, tmp_path: Path) -> None:
    """A rank that dies between two checkpoints ends the first one."""
    def weights(folder: str, *faults: str) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        done = mpirun(2, RESTART, folder, *faults)
        assert (done.returncode == 0) is not bool(faults), done.stderr
        return [line for line in done.stdout.splitlines() if line.startswith("weights")]

    want = weights("whole")
    assert len(want) == 2
    assert len(set(want)) == 1
    assert weights("broken", "3") == []
    assert weights("broken") == want


def test_ranks_of_another_launcher_are_refused(mpirun: Launch) -> None:
    done = mpirun(1, "from cellc.communication import init\ninit()\n", RANK_SIZE="2")
    assert done.returncode != 0
    assert "RANK_SIZE=2 says that 2 processes take part" in done.stderr
    assert "mpirun -n 2 python SCRIPT" in done.stderr
