"""Two processes of MindSpore's `msrun` and two of ours run one script, and tell the same.

On a CPU MindSpore sums, gathers and broadcasts floats, and trains data parallel; it cuts no graphs.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ..others import ORACLE, needs_oracle

SCRIPT = '''
import sys
import numpy as np
import mindspore as ms
import mindspore.dataset as ds
from mindspore import Tensor, nn, ops
from mindspore import communication as c
from mindspore.train import Callback, Model
ms.set_device("CPU")
c.init()
rank, size = c.get_rank(), c.get_group_size()

def show(name, call):
    try:
        said = call()
        said = said.asnumpy().tolist() if isinstance(said, Tensor) else said
    except Exception as e:
        kinds = (KeyError, TypeError, RuntimeError, ValueError)
        said = next(k.__name__ for k in kinds if isinstance(e, k))
    print("said", name, said, flush=True)

def t(*numbers):
    return Tensor(np.float32(numbers))

show("rank", lambda: [rank, size, c.get_local_rank(), c.get_local_rank_size()])
show("sum", lambda: ops.AllReduce()(t(rank + 1, 2 - rank, 3)))
show("sum of float16", lambda: ops.AllReduce()(Tensor(np.float16([rank, 2]))))
show("gathered", lambda: ops.AllGather()(Tensor(np.full((2, 2), rank, np.float32))))
show("broadcast", lambda: ops.Broadcast(1)((t(rank, 5),))[0])
show("no rows", lambda: ops.ReduceScatter()(t(1, 2, 3)))
show("gradient", lambda: ms.grad(lambda x: (ops.AllReduce()(x) * t(1, 2)).sum())(t(rank, 1)))
for name in ("AllReduce", "AllGather", "ReduceScatter", "Barrier", "AlltoAllV", "AllGatherV",
             "ReduceScatterV", "CollectiveScatter"):
    show(name, lambda: str(getattr(ops, name)()))
show("of roots", lambda: [str(kind(0)) for kind in (
    ops.Broadcast, ops.Reduce, ops.CollectiveGather)])
show("AlltoAll", lambda: str(ops.AlltoAll(2, 0, 1)))
show("messages", lambda: [str(ops.Send(0, 1)), str(ops.Receive(0, 1, [2], ms.float32))])
show("no name", lambda: str(ops.AllReduce(group=3)))
show("no group", lambda: str(ops.AllGather("no")))
show("no reduction", lambda: str(ops.AllReduce(3)))
show("no root", lambda: str(ops.Broadcast("a")))
show("no axis", lambda: str(ops.AlltoAll(2, 0, 1.0)))
for function in (c.get_rank, c.get_group_size, c.get_local_rank, c.get_local_rank_size):
    show(function.__name__, lambda: function("no"))
show("group", lambda: c.create_group("both", [0, 1]))
show("again", lambda: c.create_group("both", [0, 1]))
show("its ranks", lambda: [c.get_world_rank_from_group_rank("both", 1),
                           c.get_group_rank_from_world_rank(1, "both")])
show("its sum", lambda: ops.AllReduce(group="both")(t(rank)))
show("none such", lambda: c.create_group("five", [0, 5]))
show("twice", lambda: c.create_group("twice", [0, 0]))
show("of all", lambda: c.destroy_group(c.GlobalComm.WORLD_COMM_GROUP))
show("destroyed", lambda: c.destroy_group("both"))

ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
rng = np.random.RandomState(3)
xs, ys = rng.rand(32, 8).astype(np.float32), rng.randint(0, 4, 32).astype(np.int32)

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Dense(8, 16), nn.BatchNorm1d(16), nn.Dense(16, 4)

    def construct(self, x):
        return self.last(ops.relu(self.norm(self.first(x))))

class Tell(Callback):
    def on_train_step_end(self, run_context):
        print("loss", float(run_context.original_args().net_outputs.asnumpy()), flush=True)

for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
    ms.set_context(mode=mode)
    ms.set_seed(1)
    net = Net()
    data = ds.GeneratorDataset(list(zip(xs, ys)), ["image", "label"], shuffle=False,
                               num_shards=size, shard_id=rank).batch(8)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9), metrics={"acc"})
    model.train(3, data, callbacks=[Tell()], dataset_sink_mode=False)
    for p in net.get_parameters():
        print("loss", float(np.abs(p.asnumpy()).sum()))
    show("accuracy", lambda: model.eval(data, dataset_sink_mode=False)["acc"])
'''


def told(folder: Path, python: str, script: str) -> list[list[str]]:
    """The lines of each worker."""
    folder.mkdir()
    (folder / "script.py").write_text(script)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    bin_ = str(Path(python).parent)
    done = subprocess.run(
        [f"{bin_}/msrun", "--worker_num=2", "--local_worker_num=2", f"--master_port={port}",
         "--log_dir=logs", "--join=True", "script.py"],
        cwd=folder, capture_output=True, text=True, timeout=240,
        env={**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
             "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "GLOG_v": "3",
             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    logs = [(folder / f"logs/worker_{rank}.log").read_text() for rank in range(2)]
    assert done.returncode == 0, "\n".join(logs)[-3000:]
    return [re.findall(r"^(?:said|loss) .*$", log, re.MULTILINE) for log in logs]


@needs_oracle
def test_two_processes(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    theirs = told(tmp_path / "theirs", ORACLE, SCRIPT)
    ours = told(tmp_path / "ours", sys.executable, SCRIPT)
    for want, found in zip(theirs, ours, strict=True):
        assert [line for line in found if line.startswith("said")] == [
            line for line in want if line.startswith("said")]
        numbers = [[float(line.split()[1]) for line in lines if line.startswith("loss")]
                   for lines in (found, want)]
        assert len(numbers[0]) > 20 and numbers[0] == pytest.approx(numbers[1], 1e-4)
