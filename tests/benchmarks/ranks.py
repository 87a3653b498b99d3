"""Training on several ranks: what communication costs, beside torch's DDP, and weak scaling.

    python tests/benchmarks/ranks.py [CASE ...] [--ranks 1 2 4] [--rounds N] [--steps N]

Each rank has one thread and a batch of its own. Jobs are resident and take turns, so that all of
them see the same machine:

- `cellc`: data parallel by `mpirun`, gradients summed while the backward pass goes on;
- `cellc apart`: the same ranks, which exchange nothing;
- `torch`: DistributedDataParallel over gloo, and `torch apart`, in the interpreter that
  `CELLC_PEERS_PYTHON` names; left out without it.

A step takes as long as on the slowest rank. Printed are medians over rounds, the part of a step
that is computation (the time of the ranks apart over that of the ranks together), and the time of
one rank over that of n (weak scaling). See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
CASES = ("resnet18_train", "gpt_train")
LOOK = 0.05  # seconds between a rank's looks at whose turn it is
LIMIT = 600.0  # seconds that a job may take to begin, and to answer


# --- a rank ---------------------------------------------------------------------------------------


def rank_of(job: str, case: str, folder: Path) -> None:
    """One rank of a job: build, then measure whenever it is this job's turn."""
    library, together = job.split()[0], not job.endswith("apart")
    rank, step = (_cellc if library == "cellc" else _torch)(case, together)
    for _ in range(2):
        step()
    _answer(folder, job, rank, "ready", 0.0)
    done = ""
    while True:
        turn = _read(folder / "turn")
        if turn["job"] == "":
            return
        if turn["job"] != job or turn["round"] == done:
            time.sleep(LOOK)
            continue
        step()  # ranks see their turn at different moments, and caches hold what others used
        start = time.perf_counter()
        for _ in range(turn["steps"]):
            step()
        spent = (time.perf_counter() - start) / turn["steps"]
        done = turn["round"]
        _answer(folder, job, rank, done, spent)


def _cellc(case: str, together: bool) -> tuple[int, Callable[[], Any]]:
    import cases  # each rank's interpreter has one library
    import peer_cell

    import cellc as ms
    from cellc.communication import get_rank, init

    init()
    if together:
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    return get_rank(), peer_cell.build("cellc", "graph", case, cases.data(case))


def _torch(case: str, together: bool) -> tuple[int, Callable[[], Any]]:
    import cases
    import peer_torch
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    plain = peer_torch.network
    if together:
        peer_torch.network = lambda *given: DistributedDataParallel(plain(*given))
    step = peer_torch.build("eager", case, cases.data(case))
    torch.set_num_threads(1)
    return torch.distributed.get_rank(), step


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _write(file: Path, value: Any) -> None:
    """Whole, whoever reads meanwhile."""
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    aside.write_text(json.dumps(value))
    aside.replace(file)


def _answer(folder: Path, job: str, rank: int, what: str, seconds: float) -> None:
    _write(folder / f"{job.replace(' ', '_')}.{rank}.{what}", seconds)


# --- jobs -----------------------------------------------------------------------------------------


@dataclass
class Job:
    """Ranks that train together, or apart.

    Attributes:
        times: seconds of a step in each round, on the slowest rank.
    """

    name: str
    case: str
    ranks: int
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def start(self) -> None:
        """Start its processes, and wait until all have done steps."""
        command = [str(HERE), "--rank-of", self.name, self.case, "--folder", str(self.folder)]
        env = {**os.environ, "CELLC_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        if self.name.startswith("cellc"):
            root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
            mpirun = [str(Path(sys.executable).parent / "mpirun"), "-n", str(self.ranks),
                      "--oversubscribe", sys.executable]
            self.processes = [subprocess.Popen([*mpirun, *command], env={**env, **root})]
        else:
            port = str(_free_port())
            self.processes = [
                subprocess.Popen(
                    [os.environ["CELLC_PEERS_PYTHON"], *command],
                    env={**env, "RANK": str(rank), "WORLD_SIZE": str(self.ranks),
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                for rank in range(self.ranks)]
        self.answers("ready")

    def measure(self, number: int, steps: int) -> None:
        """Its turn."""
        name = f"round{number}"
        _write(self.folder / "turn", {"job": self.name, "round": name, "steps": steps})
        self.times.append(max(self.answers(name)))

    def answers(self, what: str) -> list[float]:
        """What each rank says.

        Raises:
            RuntimeError: a process has ended, or it takes too long.
        """
        files = [self.folder / f"{self.name.replace(' ', '_')}.{rank}.{what}"
                 for rank in range(self.ranks)]
        start = time.monotonic()
        while not all(f.exists() for f in files):
            if any(p.poll() is not None for p in self.processes) \
                    or time.monotonic() - start > LIMIT:
                raise RuntimeError(f"{self.name}: no answer from {self.ranks} ranks")
            time.sleep(LOOK)
        return [json.loads(f.read_text()) for f in files]

    def end(self) -> None:
        """Wait for its processes, which have been told."""
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def measured(case: str, ranks: int, names: Sequence[str], rounds: int, steps: int) -> list[Job]:
    """Jobs of so many ranks, which have taken turns."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        jobs = [Job(name, case, ranks, folder) for name in names]
        _write(folder / "turn", {"job": "nobody", "round": "", "steps": 0})
        try:
            for job in jobs:
                job.start()
            for number in range(rounds):
                for job in jobs if number % 2 == 0 else reversed(jobs):
                    job.measure(number, steps)
        finally:
            _write(folder / "turn", {"job": "", "round": "", "steps": 0})
            for job in jobs:
                job.end()
    return jobs


def shown(jobs: Sequence[Job], alone: dict[tuple[str, str], float]) -> list[str]:
    """A line for each job; `alone` has the times of one rank, and gets them."""
    medians = {job.name: statistics.median(job.times) for job in jobs}
    out = []
    for job in jobs:
        library = job.name.split()[0]
        text = f"  {job.name:<12}{job.ranks} ranks  {1e3 * medians[job.name]:9.1f} ms a step"
        if job.name == library:
            if job.ranks == 1:
                alone[job.case, library] = medians[library]
            if f"{library} apart" in medians:
                share = medians[f"{library} apart"] / medians[library]
                text += f"  computation {share:6.1%}"
            if (job.case, library) in alone:
                scaling = alone[job.case, library] / medians[library]
                text += f"  weak scaling {scaling:6.1%}"
            if library == "cellc" and "torch" in medians:
                text += f"  torch / cellc {medians['torch'] / medians['cellc']:.2f}"
        out.append(text)
    return out


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--ranks", nargs="*", type=int, default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10, help="steps of a job in a round")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank_of:
        rank_of(args.rank_of, args.cases[0], args.folder)
        return
    names = ["cellc", "cellc apart"]
    if os.environ.get("CELLC_PEERS_PYTHON"):
        names += ["torch", "torch apart"]
    alone: dict[tuple[str, str], float] = {}
    for case in args.cases:
        print(case, flush=True)
        for ranks in args.ranks:
            for line in shown(measured(case, ranks, names, args.rounds, args.steps), alone):
                print(line, flush=True)


if __name__ == "__main__":
    main()
