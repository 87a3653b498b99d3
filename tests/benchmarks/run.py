"""cellc against its peers: one command, interleaved rounds, ratios.

    python tests/benchmarks/run.py [CASE ...] [--all] [--rounds N] [--peers NAME ...] [--json FILE]

Peers are torch (eager and torch.compile), MindSpore (graph and PyNative), JAX and, for the matrix
product, numpy; those that are not installed are left out. `CELLC_PEERS_PYTHON` names the
interpreter that has torch and JAX, `CELLC_ORACLE_PYTHON` the one that has MindSpore (default: this
one). Every peer runs each case in a process of its own with two threads, and all of them stay
alive: each round asks them one after the other for a slice of time, so a slow or busy machine
slows all alike. Times are medians over rounds of the time per call; `ratio` is a peer's time over
that of cellc in graph mode (above 1: cellc is faster). Caches on disk are empty at the first call
(`cold`), and filled by it for the first call of a second process (`warm`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from cases import CASES
from worker import PEERS

HERE = Path(__file__).parent
THREADS = 2
SLICE = 0.3  # seconds a peer measures in a round
PAUSE = 0.1  # seconds between peers: idle workers of the one before stop spinning
OURS = PEERS[0]


@dataclass(slots=True)
class Result:
    """What was measured of one peer on one case. Times in seconds, memory in MiB."""

    peer: str
    imported: float = 0.0
    cold: float = 0.0
    warm: float | None = None
    value: float = 0.0
    memory: float | None = None
    rounds: list[float] = field(default_factory=list)

    @property
    def time(self) -> float:
        """Per call."""
        return statistics.median(self.rounds)


class Worker:
    """A process that runs one peer on one case.

    Raises:
        RuntimeError: it failed; with the end of what it wrote.
    """

    def __init__(self, peer: str, case: str, caches: Path) -> None:
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [interpreter(peer), str(HERE / "worker.py"), peer, case], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            env=environment(caches),
            preexec_fn=two_processors if hasattr(os, "sched_setaffinity") else None,
        )
        self.started = self.answer()

    def ask(self, seconds: float) -> float:
        """Seconds per call, measured for about that long."""
        self._write(json.dumps({"seconds": seconds}))
        return float(self.answer()["seconds"])

    def answer(self) -> dict[str, Any]:
        """The next line of the process."""
        line = _pipe(self.process.stdout).readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            lines = self.log.read().strip().splitlines() or ["no message"]
            said = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise RuntimeError(f"exit status {self.process.returncode}: {said[:200]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> float | None:
        """End the process; its peak memory."""
        self._write("")
        memory: float | None = self.answer()["memory"]
        self.process.communicate(timeout=60)
        self.log.close()
        return memory

    def _write(self, line: str) -> None:
        pipe = _pipe(self.process.stdin)
        pipe.write(line + "\n")
        pipe.flush()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def interpreter(peer: str) -> str:
    """Which Python runs a peer."""
    library = peer.split()[0]
    if library in ("torch", "jax"):
        return os.environ.get("CELLC_PEERS_PYTHON", sys.executable)
    if library == "mindspore":
        return os.environ.get("CELLC_ORACLE_PYTHON", sys.executable)
    return sys.executable


def installed(peer: str) -> bool:
    """Whether the peer's interpreter has its library."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({peer.split()[0]!r}) is None)"
    return subprocess.run([interpreter(peer), "-c", code], check=False).returncode == 0


def environment(caches: Path) -> dict[str, str]:
    """Two threads for everyone, caches in a folder of this run."""
    count = str(THREADS)
    return os.environ | {
        "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
        "CELLC_NUM_THREADS": count, "CELLC_CACHE_DIR": str(caches / "cellc"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"), "GLOG_v": "4",
        "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(caches / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def cache_folder(folder: str, peer: str) -> Path:
    """Where a peer's caches are; without spaces, which torch.compile's compiler cannot have."""
    return Path(folder) / peer.replace(" ", "_")


def two_processors() -> None:
    """Keep the process on two processors; runs in the child, where the platform can do it."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


def run_case(name: str, peers: list[str], rounds: int, warm: bool) -> list[Result]:
    """Measure one case with all peers."""
    results: list[Result] = []
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory() as folder:
        for peer in peers:
            note(f"{name}: {peer} starts")
            try:
                worker = Worker(peer, name, cache_folder(folder, peer))
            except RuntimeError as error:
                print(f"  {peer}: left out: {error}", flush=True)
                continue
            s = worker.started
            workers.append(worker)
            results.append(Result(peer, s["imported"], s["first"], value=s["value"]))
        for i in range(rounds):
            note(f"{name}: round {i + 1} of {rounds}")
            for worker, result in zip(workers, results, strict=True):
                result.rounds.append(worker.ask(SLICE))
                time.sleep(PAUSE)
        for worker, result in zip(workers, results, strict=True):
            result.memory = worker.close()
        if warm:
            for result in results:
                note(f"{name}: {result.peer} starts again")
                again = Worker(result.peer, name, cache_folder(folder, result.peer))
                result.warm = again.started["first"]
                again.close()
    note("")
    return results


def note(text: str) -> None:
    """A line of progress, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def span(seconds: float | None) -> str:
    """A time with a unit."""
    if seconds is None:
        return "-"
    scale, unit = next((s for s in ((1.0, "s"), (1e-3, "ms")) if seconds >= s[0]), (1e-6, "us"))
    value = seconds / scale
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def table(name: str, results: list[Result]) -> str:
    """The results of a case as lines."""
    base = next((r for r in results if r.peer == OURS), results[0])
    lines = [CASES[name].title, f"  {'':19}{'time':>9}{'ratio':>9}{'cold':>10}{'warm':>10}"
             f"{'import':>10}{'memory':>10}"]
    for r in results:
        memory = "-" if r.memory is None else f"{r.memory:.0f} MiB"
        differs = "" if abs(r.value - base.value) <= 1e-3 * abs(base.value) else \
            f"  RESULT DIFFERS: {r.value:.6g}, not {base.value:.6g}"
        lines.append(f"  {r.peer:19}{span(r.time):>9}{r.time / base.time:9.2f}{span(r.cold):>10}"
                     f"{span(r.warm):>10}{span(r.imported):>10}{memory:>10}{differs}")
    others = [r for r in results if not r.peer.startswith("cellc")]
    if others and base.peer == OURS:
        best = min(others, key=lambda r: r.time)
        lines.append(f"  best peer: {best.peer}, cellc is {best.time / base.time:.2f}x as fast")
    return "\n".join(lines)


def main() -> int:
    """Measure the cases asked for; the exit status."""
    parser = argparse.ArgumentParser(description="cellc against its peers.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--all", action="store_true", help="the larger networks too")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--no-warm", action="store_true", help="leave out the second process")
    parser.add_argument("--json", metavar="FILE", help="write everything measured there")
    args = parser.parse_args()
    names = args.cases or [n for n, c in CASES.items() if args.all or not c.extra]
    if unknown := [n for n in names if n not in CASES]:
        parser.error(f"unknown case {unknown[0]!r}; there are {', '.join(CASES)}")
    peers = [p for p in args.peers if installed(p)]
    if missing := sorted(set(args.peers) - set(peers)):
        print(f"not installed: {', '.join(missing)}")
    print(f"{THREADS} threads, {args.rounds} rounds; ratio: time over that of {OURS}\n")
    everything = {}
    for name in names:
        able = [p for p in peers if p != "numpy" or name == "gemm"]
        results = run_case(name, able, args.rounds, not args.no_warm)
        if not results:
            return 1
        print(table(name, results) + "\n", flush=True)
        everything[name] = [asdict(r) for r in results]
    if args.json:
        Path(args.json).write_text(json.dumps(everything, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
