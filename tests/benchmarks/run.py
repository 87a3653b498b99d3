"""cellc against its peers: one command, interleaved rounds, ratios. See docs/benchmarks.md.

    python tests/benchmarks/run.py [CASE ...] [--aside] [--micro] [--peers NAME ...] [--json FILE]

Peers are torch (eager and torch.compile), MindSpore (graph and PyNative), JAX, ONNX Runtime,
OpenVINO and, for the matrix product, numpy; those that are not installed are left out.
`CELLC_PEERS_PYTHON` names the interpreter that has torch, JAX, ONNX Runtime and OpenVINO,
`CELLC_ORACLE_PYTHON` the one that has MindSpore (default: this one).
`--against DIR` runs the cellc of another checkout beside this one, to see what a change costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import issue
import memory
import report
import roofline
from cases import CASES
from report import OURS, Result, Start
from worker import PEERS

HERE = Path(__file__).parent
THREADS = 2
SLICE = 0.3  # seconds a peer measures in a round
PAUSE = 0.05  # seconds between peers
STOLEN = 0.02  # part of the processors' time that other guests of a virtual machine may take
AGAIN = 4  # times a slice is measured again that lost more
LOOK = 0.05  # seconds between looks at the memory of a peer that starts
BEFORE = " before"  # ends the names of peers that are the cellc of another checkout
STARTS = 3
"""Processes of each checkout one after the other, with `--against`. Processes of equal code may
differ by 8 to 14 % for as long as they live, whatever the order of turns: by the places of their
memory, it seems."""
STOPS = hasattr(signal, "SIGSTOP")


class LimitError(RuntimeError):
    """A peer took longer than it may."""


class Worker:
    """A process that runs one peer on one case; stopped while others measure.

    Raises:
        RuntimeError: it failed; with the end of what it wrote.
        LimitError: no answer within `limit` seconds.
    """

    def __init__(self, peer: str, case: str, folder: Path, plan: Plan,
                 program: str = "worker.py") -> None:
        self.limit = plan.limit
        tree = plan.against if peer.endswith(BEFORE) else ""
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [interpreter(peer), str(HERE / program), peer.removesuffix(BEFORE), case,
             str(folder)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, cwd=folder,
            env=environment(folder, plan.threads) | sources(tree),
            preexec_fn=processors(plan.threads),
        )
        self.together = 0.0
        answer = self.answer(LOOK)
        self.values: list[float] = answer.pop("values")
        self.started = Start(**answer)
        self.sleep()

    def ask(self, seconds: float, **which: int) -> float:
        """Seconds per call, measured for about that long."""
        self.wake()
        self._write(json.dumps({"seconds": seconds, **which}))
        found = float(self.answer()["seconds"])
        self.sleep()
        self.look()
        return found

    def look(self) -> None:
        """See how much memory the process and all that it has started have now."""
        self.together = max(self.together, memory.resident(self.process.pid) or 0.0)

    def answer(self, every: float | None = None) -> dict[str, Any]:
        """The next line of the process; meanwhile `look` again and again, so many seconds apart."""
        stdout = _pipe(self.process.stdout)
        end = time.monotonic() + self.limit
        while not select.select([stdout], [], [], every or self.limit)[0]:
            self.look()
            if time.monotonic() > end:
                self.process.kill()
                self.process.wait()
                raise LimitError(f"no result in {self.limit:.0f} s")
        line = stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            lines = self.log.read().strip().splitlines() or ["no message"]
            said = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise RuntimeError(f"exit status {self.process.returncode}: {said[:200]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> Start:
        """End the process; how it started, with its peak memory."""
        self.look()
        self.wake()
        self._write("")
        self.started.memory = self.answer()["memory"]
        self.started.together = self.together or None
        self.process.communicate(timeout=60)
        self.log.close()
        return self.started

    def sleep(self) -> None:
        """Take no processor time, not even in idle threads."""
        if STOPS:
            self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Go on."""
        if STOPS:
            self.process.send_signal(signal.SIGCONT)

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
    if library in ("torch", "jax", "onnxruntime", "openvino"):
        found = os.environ.get("CELLC_PEERS_PYTHON", sys.executable)
    elif library == "mindspore":
        found = os.environ.get("CELLC_ORACLE_PYTHON", sys.executable)
    else:
        found = sys.executable
    return os.path.abspath(os.path.expanduser(found))


def installed(peer: str) -> bool:
    """Whether the peer's interpreter has its library."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({peer.split()[0]!r}) is None)"
    return subprocess.run([interpreter(peer), "-c", code], check=False).returncode == 0


def able(peer: str, case: str) -> bool:
    """Whether a peer takes part in a case."""
    if peer == "numpy":
        return case == "gemm"
    if CASES[case].dtype != "float32" and peer.split()[0] not in ("cellc", "torch"):
        return False
    return peer not in ("onnxruntime", "openvino") or CASES[case].kind == "infer"


def environment(folder: Path, threads: int = THREADS) -> dict[str, str]:
    """As many threads for everyone, caches in a folder of this run."""
    count = str(threads)
    return os.environ | {
        "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
        "CELLC_NUM_THREADS": count, "CELLC_CACHE_DIR": str(folder / "cellc"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "GLOG_v": "4",
        "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def sources(tree: str) -> dict[str, str]:
    """Where Python finds cellc in a checkout; as it is if none is named."""
    roots = [os.path.abspath(os.path.join(tree, r)) for r in ("frontend", "compiler", "runtime")]
    return {"PYTHONPATH": os.pathsep.join(roots)} if tree else {}


def processors(count: int) -> Callable[[], None] | None:
    """What keeps a process on as many processors; it runs in the child. None where the platform
    cannot do it."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


@dataclass(slots=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: of interleaved measuring.
        again: start every peer a second time, with warm caches.
        limit: seconds a peer may take for one answer.
        budget: seconds a peer may take for all its rounds; it ends with the round that exceeds it.
        caches: a folder to keep, or empty.
        against: another checkout, or empty.
        threads: of every peer.
        seconds: a peer measures for in a round.
    """

    rounds: int
    again: bool
    limit: float
    budget: float
    caches: str
    against: str = ""
    threads: int = THREADS
    seconds: float = SLICE


def folder_of(root: Path, case: str, peer: str) -> tuple[Path, bool]:
    """Where a peer has its caches (torch.compile's cannot have spaces), and whether it is new."""
    folder = root / case / peer.replace(" ", "_")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if peer in ("onnxruntime", "openvino"):
        _export(case, root / case / "onnx", folder / "onnx")
    return folder, new


def _export(case: str, shared: Path, link: Path) -> None:
    """The ONNX file of a case, made once for both of its readers; that is not timed."""
    if not (shared / "model.onnx").exists():
        note(f"{case}: torch exports to ONNX")
        done = subprocess.run(
            [interpreter("torch"), str(HERE / "peer_torch.py"), case, str(shared / "model.onnx")],
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"no ONNX file: {(done.stderr.strip() or '?').splitlines()[-1]}")
    if not link.exists():
        link.symlink_to(shared, target_is_directory=True)


Running = tuple[Worker, Result, bool]  # the last: whether its caches were empty


def run_case(case: str, peers: list[str], plan: Plan) -> list[Result]:
    """Measure one case with all peers."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(plan.caches or temporary).absolute()
        results = [Result(peer) for peer in peers]
        running: list[Running] = []
        try:
            start_peers(case, results, root, plan, running)
            take_rounds(case, running, plan, lambda: replace_checkouts(case, root, plan, running))
            for worker, result, new in running:
                if worker.process.poll() is None:
                    setattr(result, "cold" if new else "warm", worker.close())
        finally:
            for worker, _, _ in running:
                worker.process.kill()  # one that is stopped would stay for ever
        for _, result, new in running:
            if plan.again and new:
                start_again(case, result, root, plan)
    note("")
    return results


def start_peers(case: str, results: list[Result], root: Path, plan: Plan,
                running: list[Running]) -> None:
    """Start one process for each peer; those that fail have a note why."""
    for result in results:
        try:
            folder, new = folder_of(root, case, result.peer)
            note(f"{case}: {result.peer} starts")
            worker = Worker(result.peer, case, folder, plan)
        except (RuntimeError, OSError) as error:
            result.note = f"left out: {error}"
            continue
        result.values = worker.values
        running.append((worker, result, new))


def replace_checkouts(case: str, root: Path, plan: Plan, running: list[Running]) -> None:
    """New processes for both checkouts, started in the other order than those before; their places
    in `running` change with it. One that fails has a note why."""
    both = [r for r in running if r[1].peer.startswith("cellc ")]
    others = [r for r in running if r not in both]
    for worker, result, new in both:
        if worker.process.poll() is None:
            setattr(result, "cold" if new else "warm", worker.close())
    running[:] = others
    for _, result, _ in reversed(both):
        try:
            folder, _ = folder_of(root, case, result.peer)
            running.append((Worker(result.peer, case, folder, plan), result, False))
        except (RuntimeError, OSError) as error:
            result.note = str(error)


def take_rounds(case: str, running: list[Running], plan: Plan,
                replace: Callable[[], None] | None = None) -> None:
    """Ask the peers in turn for times, each second round from the last to the first. One whose time
    is used up is asked no more.

    Args:
        replace: starts new processes of two checkouts, between rounds.
    """
    spent: dict[str, float] = {}
    gauge = issue.Gauge()
    each = -(-plan.rounds // STARTS)
    for i in range(plan.rounds):
        note(f"{case}: round {i + 1} of {plan.rounds}")
        if replace and plan.against and i and i % each == 0:
            replace()
        for worker, result, _ in (running if i % 2 == 0 else running[::-1]):
            if spent.get(result.peer, 0.0) > plan.budget or worker.process.poll() is not None:
                continue
            start = time.perf_counter()
            try:
                rates = gauge.each()
                seconds, lost = quiet_slice(worker, plan.seconds)
                result.rounds.append(seconds)
                result.stolen.append(lost)
                result.issued.append(sum(rates) / len(rates))
            except RuntimeError as error:
                result.note = str(error)
            spent[result.peer] = spent.get(result.peer, 0.0) + time.perf_counter() - start
            time.sleep(PAUSE)


def quiet_slice(worker: Worker, wanted: float = SLICE, **which: int) -> tuple[float, float]:
    """Seconds per call and what part of the processors' time the host took meanwhile.

    A slice that lost much is measured again; the one that lost least counts, whatever its time.
    """
    found: list[tuple[float, float]] = []
    for _ in range(1 + AGAIN):
        before, start = stolen(), time.perf_counter()
        seconds = worker.ask(wanted, **which)
        passed = (time.perf_counter() - start) * THREADS
        found.append((seconds, (stolen() - before) / passed))
        if found[-1][1] <= STOLEN:
            break
    return min(found, key=lambda f: f[1])


def stolen() -> float:
    """Seconds of processor time that the host of a virtual machine gave to others; 0 if unknown."""
    stat = Path("/proc/stat")
    fields = stat.read_text(encoding="ascii").split(maxsplit=9) if stat.exists() else []
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


def start_again(case: str, result: Result, root: Path, plan: Plan) -> None:
    """A second process, which finds the caches of the first."""
    folder, _ = folder_of(root, case, result.peer)
    try:
        note(f"{case}: {result.peer} starts again")
        worker = Worker(result.peer, case, folder, plan)
        worker.ask(0.0)
        result.warm = worker.close()
    except RuntimeError as error:
        result.note = str(error)


def peaks() -> dict[str, dict[str, float]]:
    """What the machine can do, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / "peaks.py"), str(THREADS)], capture_output=True, text=True,
        check=True, preexec_fn=processors(THREADS))
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def note(text: str) -> None:
    """A line of progress, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="cellc against its peers.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--aside", action="store_true", help="networks that nobody tunes for")
    parser.add_argument("--micro", action="store_true", help="small parts of networks")
    parser.add_argument("--half", action="store_true", help="networks in 16-bit floats")
    parser.add_argument("--all", action="store_true", help="every case")
    parser.add_argument("--peers", nargs="+", default=None, choices=PEERS, metavar="PEER",
                        help=", ".join(f'"{p}"' if " " in p else p for p in PEERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true",
                        help="one round of cellc graph and, unless --peers says, torch eager")
    parser.add_argument("--caches", metavar="DIR", default="", help="keep caches there")
    parser.add_argument("--no-warm", action="store_true", help="leave out the second process")
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS",
                        help="that a peer may take to its first result (300)")
    parser.add_argument("--budget", type=float, default=20.0, metavar="SECONDS",
                        help="that a peer may take for its rounds of a case (20)")
    parser.add_argument("--json", metavar="FILE", help="put the figures into this file")
    parser.add_argument("--markdown", metavar="FILE", help="put the tables into this file")
    parser.add_argument("--roofline", metavar="FILE", help="draw the roofline (matplotlib)")
    parser.add_argument("--against", metavar="DIR", default="",
                        help="a checkout whose cellc takes part too, as `cellc graph before`")
    parser.add_argument("--report", action="store_true",
                        help="measure nothing, write from the figures of --json")
    return parser


def chosen(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    """The cases asked for."""
    if unknown := [n for n in args.cases if n not in CASES]:
        parser.error(f"unknown case {unknown[0]!r}; there are {', '.join(CASES)}")
    groups = {"aside"} if args.aside else set()
    groups |= {"micro"} if args.micro else set()
    groups |= {"half"} if args.half else set()
    groups |= {"workload", "aside", "micro", "half"} if args.all else set()
    if not groups and not args.cases:
        groups = {"workload"}
    return list(dict.fromkeys([*args.cases, *(n for n, c in CASES.items() if c.group in groups)]))


def main() -> int:
    """Measure the cases asked for; the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # peers must not stay behind
    parser = arguments()
    args = parser.parse_args()
    figures = report.read(Path(args.json)) if args.json else report.Figures()
    if not args.report:
        names = chosen(args, parser)
        wanted = args.peers or ([OURS, "torch eager"] if args.quick else list(PEERS))
        if args.quick and OURS not in wanted:
            wanted = [OURS, *wanted]
        present = [p for p in wanted if installed(p)]
        if args.against:
            present += [p + BEFORE for p in present if p.startswith("cellc ")]
        if missing := sorted(set(wanted) - set(present)):
            print(f"not installed: {', '.join(missing)}")
        plan = Plan(1 if args.quick else args.rounds, not (args.no_warm or args.quick),
                    args.limit, args.budget, args.caches, args.against)
        print(f"{THREADS} threads, {plan.rounds} rounds; ratio: time over that of {OURS}\n")
        figures.machine = processor()
        for name in names:
            figures.see(peaks())
            figures.add(name, run_case(name, [p for p in present if able(p, name)], plan))
            print(report.table(figures, name) + "\n", flush=True)
            if args.json:
                figures.write(Path(args.json))
    print(report.summary(figures))
    if args.markdown:
        report.put_markdown(figures, Path(args.markdown))
    if args.roofline:
        roofline.draw(figures, Path(args.roofline))
    return 0


if __name__ == "__main__":
    sys.exit(main())
