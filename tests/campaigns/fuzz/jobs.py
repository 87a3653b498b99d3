"""Trials of jobs of several ranks that a fault ends at any moment, and that are started again.

Real ranks of `mpirun` train and write checkpoints of all of them. One is killed or stopped, raises,
hangs, leaves, or comes to another collective. Soon all have ended, with words that name it; the job
that is started again goes on from the last whole checkpoint and ends with the bits of one that
nothing happened to.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .finding import Finding, Trial

SUFFIX = ".seed"
STEPS = 10
"""A checkpoint follows every third one, so a job that is started again does one at least (ranks of
stages have the Parameters of all of them before their first step)."""
_SECONDS = 120.0
"""After which a job hangs."""
_ENDING = 20.0
"""Seconds in which all ranks have ended after a fault: ten that a hanging one is given, and what
starting and ending processes takes on a machine that is busy."""

JOB = '''
import hashlib, json, os, signal, sys, threading, time
import numpy as np
import cellc as ms
from cellc import Tensor, nn, ops, train
from cellc.communication import init, get_rank, comm_func
from cellc_runtime import collectives
told, folder = json.loads(sys.argv[1]), sys.argv[2]
if told["read"]:  # small sums, too, by reading what others have
    collectives.SMALL = 0
init()
rank = get_rank()
ms.set_context(mode=told["mode"])
way = told["way"]
ms.set_auto_parallel_context(
    gradients_mean=True, parallel_mode="data_parallel" if way in ("summed", "parted")
    else "semi_auto_parallel", **{
        "summed": {}, "cut": {}, "staged": {"pipeline_stages": told["ranks"]},
        "parted": {"enable_parallel_optimizer": True,
                   "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}}[way])
ms.set_seed(7)
cells = [nn.SequentialCell(nn.Dense(8, 8), nn.LayerNorm((8,)), nn.Tanh()) for _ in range(4)]
if way == "staged":
    for i, cell in enumerate(cells):
        cell.pipeline_stage = i * told["ranks"] // 4
if way == "cut":
    for cell in cells[1:3]:
        cell[0].matmul.shard(((1, 1), (told["ranks"], 1)))
net = nn.SequentialCell(cells)
loss = nn.WithLossCell(net, nn.MSELoss())
if way == "staged":
    loss = nn.PipelineCell(loss, 4)
step = nn.TrainOneStepCell(loss, nn.Adam(net.trainable_params(), 0.01)).set_train()
first = 0
found = train.latest_checkpoint(folder)
if found:
    first = int(os.path.basename(found).split(".")[0][4:])
    ms.load_distributed_checkpoint(step, found)
if rank == 0:
    print("begins at", first, flush=True)

def happen(fault):
    with open(os.path.join(folder, "fault"), "w") as f:
        f.write(repr(time.time()))
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "exit":
        os._exit(3)

fault, at = told["fault"], told["at"]
for i in range(first, told["steps"]):
    if fault and rank == told["rank"] and i == at:
        if fault in ("kill", "stop", "exit"):
            threading.Timer(told["late"], happen, [fault]).start()
        else:
            happen(fault)
            if fault == "raise":
                raise ValueError("of the faulty rank")
            if fault == "leave":
                sys.exit(0)
            if fault == "hang":
                time.sleep(600)
            if fault == "mismatch":
                comm_func.all_reduce(Tensor(np.zeros(3, np.float32)))
    draw = np.random.RandomState(100 * i + (rank if way != "staged" else 0))
    step(*(Tensor(draw.randn(8, 8).astype(np.float32)) for _ in range(2)))
    if (i + 1) % 3 == 0:
        ms.save_checkpoint(step, os.path.join(folder, f"step{i + 1}"), integrated_save=False)
held = {p.name: p for p in step.get_parameters()}
bits = hashlib.sha256()
for name in sorted(held):
    try:
        bits.update(held[name].asnumpy().tobytes())
    except RuntimeError:  # another stage has it
        bits.update(name.encode())
print("digest", rank, bits.hexdigest(), flush=True)
if fault:  # one that comes after the last step
    time.sleep(told["late"] + 1)
'''

FAULTS = ("kill", "kill", "stop", "exit", "raise", "leave", "hang", "mismatch")
WAYS = ("summed", "parted", "staged", "cut")


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        ranks, mode, way, steps: how many ranks train how, for how long.
        fault: what happens; "" for nothing.
        rank, at: to whom, in which step.
        late: so many seconds after its start, where it comes from outside.
        read: small sums are read of the others' memory, too.
        threads: a rank computes by so many; with one, programs take on their collectives.
    """

    ranks: int
    mode: int
    way: str
    steps: int = STEPS
    fault: str = ""
    rank: int = 0
    at: int = 0
    late: float = 0.0
    read: bool = False
    threads: int = 1


def job_of(seed: int) -> Job:
    """The job of a seed."""
    rng = np.random.default_rng([seed, 23])

    def pick(options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    ranks, way = pick((2, 2, 3, 4)), pick(WAYS)  # (numbers of modes: 0 is that of graphs)
    eager = way in ("summed", "parted") and rng.random() < 0.4
    return Job(2 if way == "cut" else ranks, int(eager), way, STEPS, pick(FAULTS),
               int(rng.integers(ranks if way != "cut" else 2)), int(rng.integers(STEPS)),
               float(rng.uniform(0, 0.1) * rng.random()), bool(rng.random() < 0.7),
               pick((1, 1, 2)))


def run(job: Job, folder: Path) -> tuple[int, str, str, float]:
    """What `mpirun` ends with, what it says on both streams, and when it ended.

    Raises:
        AssertionError: it does not end.
    """
    script = folder / "job.py"
    script.write_text(JOB)
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "mpirun"), "-n", str(job.ranks), "--oversubscribe",
         sys.executable, str(script), json.dumps(asdict(job)), str(folder)],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "CELLC_NUM_THREADS": str(job.threads), "OMPI_ALLOW_RUN_AS_ROOT": "1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        out, err = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"the job did not end in {_SECONDS:g} s: {err[-500:]!r}") from None
    return process.returncode, out, err, time.time()


def digests(out: str) -> list[str]:
    """What ranks say of what they have computed, in their order."""
    return sorted(line for line in out.splitlines() if line.startswith("digest"))


@cache
def undisturbed(ranks: int, mode: int, way: str) -> tuple[str, ...]:
    """What ranks say where nothing happens."""
    with tempfile.TemporaryDirectory() as made:
        code, out, err, _ = run(Job(ranks, mode, way), Path(made))
    found = digests(out)
    if code or len(found) != ranks:
        raise AssertionError(f"the undisturbed job fails: {err[-500:]!r}")
    return tuple(found)


def check(job: Job) -> None:
    """Let a fault happen, then start the job again.

    Raises:
        AssertionError: not all of it is as it must be.
    """
    want = undisturbed(job.ranks, job.mode, job.way)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        code, out, err, end = run(job, folder)
        mark = folder / "fault"
        if not mark.exists():
            raise AssertionError(f"the fault did not happen: {err[-300:]!r}")
        after = end - float(mark.read_text())
        if after > _ENDING:
            raise AssertionError(f"all ranks had ended {after:.1f} s after the fault")
        if not code:  # it came behind the last collective
            if tuple(digests(out)) != want:
                raise AssertionError(f"it ends with 0: {out!r}")
        elif f"rank {job.rank}" not in err and f"@1,{job.rank}]" not in err:  # (so says mpirun)
            raise AssertionError(f"nobody names rank {job.rank}: {err[-800:]!r}")
        code, out, err, _ = run(replace(job, fault=""), folder)
        if code or tuple(digests(out)) != want:
            raise AssertionError(f"started again it ends with {code}: {out!r}, {err[-500:]!r}")


def trial(seed: int) -> Trial:
    """One job to which one thing happens."""
    job = job_of(seed)
    try:
        check(job)
    except AssertionError as e:
        told = f"{job}: {e}".replace("\n", " ")
        return Trial(finding=Finding("jobs", seed, told, f"{seed}\n{told}\n", SUFFIX))
    return Trial({"processes": 2 * job.ranks, f"way {job.fault}": 1})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    found = trial(int(path.read_text().split()[0])).finding
    return found.what if found else ""
