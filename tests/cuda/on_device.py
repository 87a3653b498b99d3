"""The one command for a machine with a GPU: bits, ranks, compute-sanitizer, times; one table.

    python tests/cuda/on_device.py --pack FOLDER       where there is a network
    python FOLDER/tests/cuda/on_device.py --out DIR    on the machine with the GPU
    python tests/cuda/on_device.py --dry --out DIR     on an emulated one, peers left out

It needs Python 3.12, numpy, and for times torch and JAX; no network and no toolkit. It ends after
`--minutes` (8), and what was not done by then is said. Cases run in processes of their own: one
that crashes or hangs loses its row. The status is 0 if every row is as it should be.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPT = HERE / "device_worker.py"
sys.path.insert(0, str(HERE))

import device_ranks  # noqa: E402 (beside this file, which is run as a script)
import device_table  # noqa: E402
from device_table import Row  # noqa: E402

WHEELS = ("llvmlite", "ml_dtypes", "msgpack", "networkx", "rich", "markdown-it-py", "mdurl",
          "pygments", "pytest", "pluggy", "iniconfig", "packaging")  # fmt: skip
"""What cellc and the cases need beside numpy, taken along for machines that lack it."""
_OURS = ("cellc", "llvmlite")
"""What is taken along whatever there is: an older LLVM assembles no such kernels."""
PTXAS = "nvidia-cuda-nvcc==13.0.*"
"""37 MB more: without it, and without a toolkit there, the driver assembles the kernels."""
BITS_SECONDS, SPEED_SECONDS, JAX_SECONDS, SANITIZER_SECONDS = 60.0, 60.0, 25.0, 40.0
RANKS_SECONDS = 60.0
WARM_SECONDS, WARMERS = 150.0, 3
"""What compiling a case may take, and how many processes do that while bits are compared."""
BITS_SHARE = 0.45
"""Of the time, at most, for bits, where times are taken too."""
PARTS = ("bits", "ranks", "sanitizer", "speed")
MEASURING = 3.0
"""Seconds of the rounds of a case."""
SANITIZED = (("memcheck", "op softmax"), ("racecheck", "op softmax"), ("memcheck", "net lenet"),
             ("racecheck", "line sort down"))
STEPS = ("lenet", "gpt", "resnet50")
"""Whole steps, which are not written in JAX."""
DRY_BITS = (
    "op softmax", "line cumsum", "op matmul", "function tanh", "net lenet", "check lenet")
DRY_RANKS = ("messages",)
DRY_SPEED = ("launch*", "softmax*float32", "product 512*float32", "lenet*")


_KEEPING = threading.Lock()


@dataclass
class Run:
    """A run of the command.

    Attributes:
        deadline: when it must have ended, on the monotonic clock.
        environment: of its processes.
    """

    dry: bool
    deadline: float
    environment: dict[str, str]
    log: Path
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def found(self) -> dict[str, Any]:
        """All that is known so far."""
        return {"machine": self.facts, "rows": self.rows, "dry": self.dry,
                "seconds": round(time.monotonic() - self.begin, 1)}

    def keep(self, group: str, name: str, row: Row) -> None:
        """A row is known; it is on the disk at once, whatever happens to this process."""
        with _KEEPING:
            self.rows.setdefault(group, {})[name] = row
            self.log.with_name("on_device.json").write_text(json.dumps(self.found(), indent=1))
        why = row.get("said") or row.get("differ") or row.get("ms") or ""
        print(f"{group}: {name}: {row['status']} {str(why)[:200]}", flush=True)


class Worker:
    """A process that is asked for cases, started anew when it is gone.

    Args:
        kind: of cases, as `device_worker.py` has it.
    """

    def __init__(self, run: Run, kind: str) -> None:
        self._run, self._kind = run, kind
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def ask(self, name: str, limit: float, **more: Any) -> Row:
        """The row of a case; what happened to the process if there is none."""
        process = self._started()
        limit = min(limit, self._run.left())
        asked = {"case": name, "small": self._run.dry, **more}
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=max(limit, 0.1))
        except queue.Empty:
            self.close()
            return {"status": "hung", "said": f"no answer after {limit:.0f} s"}
        except OSError:
            line = ""
        if not line:
            status = process.wait()
            self.close()
            return {"status": "crashed", "said": f"the process ended with {status}"}
        row: Row = json.loads(line)
        if row.get("lost"):
            self.close()
        return row

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            with suppress(OSError):  # what was not read is no matter
                process.stdin.close()  # type: ignore[union-attr]

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            with self._run.log.open("a") as log:
                process = subprocess.Popen(
                    [sys.executable, str(SCRIPT), self._kind], text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    env=self._run.environment, cwd=ROOT)
            answers: queue.Queue[str] = queue.Queue()
            threading.Thread(target=_forward, args=(process, answers), daemon=True).start()
            self._process, self._answers = process, answers
        return self._process


def _forward(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    """Lines of a process, and an empty one when it ends."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            answers.put(line)
    answers.put("")


# --- what is done --------------------------------------------------------------------------------


def check_bits(run: Run, names: Sequence[str], timed: Sequence[str], args: argparse.Namespace,
               until: float) -> None:
    """Bits, by several processes at once; others compile what is timed later."""

    def bits(worker: Worker, name: str) -> None:
        late = time.monotonic() > until
        run.keep("bits", name, {"status": "not run", "said": "no time was left"} if late
                 else worker.ask(name, BITS_SECONDS))

    def warm(worker: Worker, name: str) -> None:
        if time.monotonic() < until:
            worker.ask(name, min(WARM_SECONDS, until - time.monotonic()),
                       peers="torch" in args.peers)

    # What takes longest to compile is compiled first.
    later = sorted(timed, key=lambda n: not n.startswith(STEPS))
    _together([*_pulling(run, "bits", names, bits, min(args.jobs, len(names))),
               *_pulling(run, "warm", later, warm, WARMERS)])
    run.rows["bits"] = {n: run.rows["bits"][n] for n in names if n in run.rows.get("bits", {})}


def _pulling(
    run: Run, kind: str, names: Sequence[str], do: Callable[[Worker, str], None], count: int
) -> list[threading.Thread]:
    """Threads, each with a process, that do cases until there are no more."""
    waiting: queue.Queue[str] = queue.Queue()
    for name in names:
        waiting.put(name)

    def work() -> None:
        worker = Worker(run, kind)
        try:
            while True:
                do(worker, waiting.get_nowait())
        except queue.Empty:
            worker.close()

    return [threading.Thread(target=work, daemon=True) for _ in range(count if names else 0)]


def _together(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sanitize(run: Run) -> None:
    """A few cases under compute-sanitizer, where it is."""
    tool = shutil.which("compute-sanitizer", path=os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
    if tool is None or run.dry:
        run.keep("sanitizer", "all", {"status": "not run", "said": "there is none here"})
        return
    for check, case in SANITIZED:
        asked = json.dumps({"case": case, "small": True})
        command = [tool, "--tool", check, "--error-exitcode", "99", "--target-processes", "all",
                   sys.executable, str(SCRIPT), "bits"]
        try:
            done = subprocess.run(command, input=asked + "\n", capture_output=True, text=True,
                                  check=False, cwd=ROOT,
                                  env={**run.environment, "CELLC_COMPILE_JOBS": "1"},
                                  timeout=max(1.0, min(SANITIZER_SECONDS, run.left())))
        except subprocess.TimeoutExpired:
            run.keep("sanitizer", f"{check} {case}", {"status": "hung"})
            continue
        clean = done.returncode == 0 and '"same"' in done.stdout
        said = " ".join((done.stdout + done.stderr).split())[-400:]
        run.keep("sanitizer", f"{check} {case}",
                 {"status": "clean"} if clean else {"status": "failed", "said": said})


def meet(run: Run, names: Sequence[str]) -> None:
    """Two ranks that share the GPU."""
    command = device_ranks.launch(sys.executable)
    if not Path(command[0]).exists():
        run.keep("ranks", "all", {"status": "not run", "said": "there is no mpirun (cellc[mpi])"})
        return
    for name in names:
        with tempfile.TemporaryDirectory() as folder, run.log.open("a") as log:
            try:
                done = subprocess.run(
                    [*command, *name.split()], stdout=subprocess.PIPE, stderr=log, text=True,
                    check=False, cwd=ROOT, timeout=max(1.0, min(RANKS_SECONDS, run.left())),
                    env={**run.environment, **device_ranks.environment(Path(folder))})
                row = device_ranks.merged(done.stdout, done.returncode)
            except subprocess.TimeoutExpired:
                row = {"status": "hung"}
        run.keep("ranks", name, row)


def time_cases(run: Run, names: Sequence[str], libraries: Sequence[str]) -> None:
    """Times, one case after the other; JAX right behind it, in its own process."""
    ours, jax = Worker(run, "speed"), Worker(run, "jax")
    for name in names:
        if run.left() < 10:
            run.keep("speed", name, {"status": "not run", "said": "no time was left"})
            continue
        row = ours.ask(name, SPEED_SECONDS, peers="torch" in libraries, seconds=MEASURING)
        if "jax" in libraries and run.left() > 10 and not name.startswith(STEPS):
            peer = jax.ask(name, JAX_SECONDS, seconds=MEASURING)
            row.setdefault("ms", {}).update(peer.get("ms", {}))
            said = peer.get("said")
            if said:
                own = row.get("said")
                row["said"] = {**(own if isinstance(own, dict) else {"cellc": own} if own else {}),
                               **(said if isinstance(said, dict) else {"JAX": said})}
        run.keep("speed", name, row)
    ours.close()
    jax.close()


# --- the machine ---------------------------------------------------------------------------------


def machine(environment: dict[str, str]) -> dict[str, Any]:
    """What the figures are of."""
    text = """
import json
from cellc_runtime import device
gpu = device.gpu()
facts = gpu.properties()
stats = gpu.statistics()
print(json.dumps({"GPU": facts.name, "architecture": f"sm_{facts.major}{facts.minor}",
                  "memory": f"{stats.total / 2**30:.0f} GiB",
                  "multiprocessors": facts.multi_processor_count,
                  "target": next(iter(gpu.targets))}))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False,
                          env=environment, cwd=ROOT, timeout=120)
    facts: dict[str, Any] = {"date": time.strftime("%Y-%m-%d")}
    if done.returncode:
        facts["GPU"] = "none: " + (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    else:
        facts.update(json.loads(done.stdout.splitlines()[-1]))
    driver = Path("/proc/driver/nvidia/version")
    if driver.exists():
        facts["driver"] = driver.read_text().splitlines()[0].split(":")[-1].strip()
    facts["Python"] = platform.python_version()
    for name in ("torch", "jax", "triton"):
        version = _version(name)
        if version:
            facts[name] = version
    return facts


def _version(name: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def environment(dry: bool, site: Path | None) -> dict[str, str]:
    """Of the processes: where cellc is, and which device."""
    own = dict(os.environ)
    source = [ROOT / p for p in ("frontend", "compiler", "runtime")]
    paths = [str(p) for p in source if p.exists()] + ([str(site)] if site else [])
    own["PYTHONPATH"] = os.pathsep.join([*paths, own.get("PYTHONPATH", "")]).strip(os.pathsep)
    own["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    own["CELLC_CACHE_DIR"] = own.get("CELLC_CACHE_DIR") or tempfile.mkdtemp(prefix="cellc-")
    if dry:
        own["CELLC_GPU"] = "emulated"
    return own


# --- the folder to carry -------------------------------------------------------------------------


def pack(folder: Path, ptxas: bool) -> None:
    """Make the folder: our wheel and those it needs, the cases and the samples."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)], check=True)
    platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in (28, 27, 17)]
    platforms.append("--platform=manylinux2014_x86_64")
    for name in (*WHEELS, *([PTXAS] if ptxas else [])):
        subprocess.run([*pip, "download", "-q", "--no-deps", "--only-binary=:all:",
                        "--python-version=3.12", "--implementation=cp", *platforms, "-d",
                        str(wheels), name], check=True)
    for part in ("tests", "samples"):
        shutil.copytree(ROOT / part, folder / part, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__", "*.html"))
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{folder}: {size / 2**20:.0f} MiB")


def unpack(folder: Path) -> Path | None:
    """Install what the carried wheels have and this Python lacks, beside the run; where it is."""
    wheels = folder / "wheels"
    if not wheels.exists():
        return None
    site = Path(tempfile.mkdtemp(prefix="cellc-site-"))
    named = {w: w.name.split("-")[0].replace("_", "-") for w in wheels.glob("*.whl")}
    lacking = [w for w, name in named.items() if name in _OURS or not _version(name)]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps",
                    "--target", str(site), *map(str, lacking)], check=True)
    ptxas = site / "nvidia" / "cu13" / "bin" / "ptxas"
    if ptxas.exists():
        ptxas.chmod(0o755)
    return site


# --- the command ---------------------------------------------------------------------------------


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--pack", type=Path, help="make the folder to carry, and no more")
    parser.add_argument("--ptxas", action="store_true", help="with --pack: NVIDIA's assembler too")
    parser.add_argument("--dry", action="store_true", help="on an emulated GPU, without peers")
    parser.add_argument("--minutes", type=float, default=8.0, help="that it may take (8)")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1),
                        help="processes that compare bits at once")
    parser.add_argument("--only", nargs="*", default=[], metavar="PATTERN", help="of cases")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--peers", nargs="*", default=["torch", "jax"], choices=["torch", "jax"])
    parser.add_argument("--docs", type=Path, help="page with marks for the tables")
    args = parser.parse_args(given)
    if args.out is None and args.pack is None:
        parser.error("--out or --pack is needed")
    return args


def chosen(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that fit one of the patterns, or all if there are none."""
    return [n for n in names if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


def bit_names(run: Run) -> list[str]:
    """Cases of bits, as a process that has cellc says."""
    worker = Worker(run, "bits")
    row = worker.ask("", BITS_SECONDS)
    worker.close()
    if "names" not in row:
        lines = run.log.read_text().strip().splitlines() or [str(row.get("said"))]
        raise SystemExit(f"cellc does not run here: {lines[-1]}\nmore is in {run.log}")
    names: list[str] = row["names"]
    return names


def perform(args: argparse.Namespace) -> dict[str, Any]:
    """Do all parts; what was found."""
    from device_cases import CASES  # needs numpy, which the carried folder may bring

    env = environment(args.dry, unpack(ROOT))
    begin = time.monotonic()
    run = Run(args.dry, begin + 60 * args.minutes, env, args.out / "processes.log")
    run.facts = machine(env)
    timed = chosen(list(CASES), args.only or (DRY_SPEED if args.dry else ())) \
        if "speed" in args.parts else []
    if "bits" in args.parts:
        names = chosen(bit_names(run), args.only or (DRY_BITS if args.dry else ()))
        share = BITS_SHARE if timed else 1.0
        check_bits(run, names, [] if args.dry else timed, args, begin + 60 * args.minutes * share)
    if "ranks" in args.parts:
        meet(run, chosen(device_ranks.CASES, args.only or (DRY_RANKS if args.dry else ())))
    if "sanitizer" in args.parts:
        sanitize(run)
    time_cases(run, timed, () if args.dry else args.peers)
    return run.found()


def main(given: Sequence[str]) -> int:
    """Run the command; 1 if a row is not as it should be."""
    args = arguments(given)
    if args.pack is not None:
        pack(args.pack.resolve(), args.ptxas)
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    # A terminal that is closed or a time limit ends the processes too: they read from here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    found = perform(args)
    text = device_table.markdown(found)
    (args.out / "on_device.json").write_text(json.dumps(found, indent=1))
    (args.out / "on_device.md").write_text(text)
    if args.docs is not None:
        args.docs.write_text(device_table.insert(args.docs.read_text(), text))
    print(text)
    wrong = [w for w in device_table.failures(found)
             if not (args.dry and w.startswith(("sanitizer", "ranks: all")))]
    print("\n".join(wrong) or f"all rows are as they should be, in {found['seconds']} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
