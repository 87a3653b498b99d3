"""`msrun`: a script on several processes of this machine, started by MPI's `mpirun`.

The options are those of MindSpore's `msrun`. Each worker writes a log; what `mpirun` says goes to
`scheduler.log`. Source: `mindspore.parallel.cluster.run`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cellc_compiler.build.workers import ISOLATED_PYTHON

from .errors import UserError

_TAIL = 20  # Lines of a log that are shown when a job fails
_CORES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_FAILED = re.compile(r"rank (\d+)\b|@\d+,(\d+)\]")  # How `mpirun` names the rank that ended a job
_LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]", "0.0.0.0")


def parser() -> argparse.ArgumentParser:
    """The parser of `msrun`."""
    p = argparse.ArgumentParser(
        prog="msrun", description="Start a script of MindSpore on several processes of this "
        "machine, with cellc in MindSpore's place, by mpirun (cellc[mpi]).")
    p.add_argument("--worker_num", type=int, default=8, help="processes of all (default 8)")
    p.add_argument("--local_worker_num", type=int, default=8, help="processes on this machine: all "
                   "of them (default 8); MPI itself starts processes on other machines")
    p.add_argument("--master_addr", default="127.0.0.1", help="this machine's name or address")
    p.add_argument("--master_port", type=int, default=8118, help="handed to the script as "
                   "MS_SCHED_PORT; MPI finds ports itself")
    p.add_argument("--node_rank", type=int, default=-1, help="0, as there is one machine")
    p.add_argument("--log_dir", default="", help="the folder for worker_N.log and scheduler.log")
    p.add_argument("--join", type=_truth, default=False, metavar="{True,False}",
                   help="wait for the end, show the logs, and fail if a worker does")
    p.add_argument("--cluster_time_out", type=int, default=600, help="seconds that a worker waits "
                   "in init() for the others (default 600; negative: for ever)")
    p.add_argument("--bind_core", type=_cores, default=False, help="True: each worker has its part "
                   'of the processors; or which: \'{"device0": ["0-3"], "device1": ["4-7"]}\'')
    p.add_argument("--bind_numa", type=_truth, default=False, metavar="{False}", help="not here: "
                   "use --bind_core")
    p.add_argument("--sim_level", type=int, default=-1, choices=(-1, 0, 1, 2, 3), help="not here: "
                   "`cellc plan` predicts what many processes would do")
    p.add_argument("--sim_rank_id", type=int, default=-1, help="see --sim_level")
    p.add_argument("--rank_table_file", default="", help="handed to the script as RANK_TABLE_FILE")
    p.add_argument("--worker_log_name", default="", help="the name of logs in the place of worker; "
                   "{ip} and {hostname} stand for this machine's")
    p.add_argument("--tail_worker_log", default="-1", metavar="N,N,...", help="with --join=True: "
                   "show the logs of these workers only")
    p.add_argument("task_script", help="the script (or: python SCRIPT.py, pytest)")
    p.add_argument("task_script_args", nargs=argparse.REMAINDER, metavar="...",
                   help="its arguments")
    return p


def _truth(text: str) -> bool:
    if text.capitalize() not in ("True", "False"):
        raise argparse.ArgumentTypeError(f"expected True or False, got {text!r}")
    return text.capitalize() == "True"


def _cores(text: str) -> bool | dict[str, list[str]]:
    """`True`, `False`, or the processors of devices as JSON."""
    if text.capitalize() in ("True", "False"):
        return _truth(text)
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not all(
            re.fullmatch(r"device\d+|scheduler", key) and isinstance(value, list)
            and all(isinstance(c, str) and _CORES.fullmatch(c.replace(" ", "")) for c in value)
            for key, value in found.items()):
        raise argparse.ArgumentTypeError(
            'expected True, False or {"device0": ["0-3"], "device1": ["4,5"]}, got ' + repr(text))
    return found


def _refused(args: argparse.Namespace) -> str | None:
    """Why these options cannot be followed; None if they can."""
    if args.worker_num <= 0:
        return f"--worker_num must be greater than 0, but got {args.worker_num}"
    if args.local_worker_num > args.worker_num:
        return (f"--local_worker_num={args.local_worker_num} is more than --worker_num="
                f"{args.worker_num}")
    if args.local_worker_num < args.worker_num:
        return (f"--worker_num={args.worker_num} with --local_worker_num={args.local_worker_num} "
                "is for several machines, on which MPI starts processes itself: mpirun -n "
                f"{args.worker_num} -H HOST1:{args.local_worker_num},HOST2:{args.local_worker_num} "
                f"cellc run {args.task_script}")
    if args.master_addr not in (*_LOCAL, socket.gethostname(), _address()):
        return (f"--master_addr={args.master_addr} is another machine, but all workers run on "
                "this one")
    if args.bind_numa:
        return "--bind_numa is not there: give processors by --bind_core"
    if args.sim_level != -1 or args.sim_rank_id != -1:
        return ("--sim_level and --sim_rank_id ask for a dry run, which is not there: `cellc plan` "
                "predicts what many processes would do")
    return None


def _address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return _LOCAL[0]


def mpirun() -> str:
    """The `mpirun` of this Python's environment, or of the machine."""
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        raise UserError("there is no mpirun beside this Python or in PATH: pip install "
                        "'cellc[mpi]' brings it")
    return found


def mpi_command(count: int) -> list[str]:
    """Return the command that starts `count` processes on this machine, bound to nothing."""
    program = mpirun()
    about = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    own = ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in about.stdout else []
    return [program, "-n", str(count), *own]


def mpi_environment(count: int) -> dict[str, str]:
    """The environment in which they start: each has its part of the processors, as threads."""
    threads = max(1, len(os.sched_getaffinity(0)) // count)
    return {"CELLC_NUM_THREADS": str(threads), **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _bound(choice: bool | Mapping[str, Sequence[str]], count: int) -> list[list[int]] | None:
    """The processors of each worker; an empty list: all. None: nothing is bound."""
    if choice is False:
        return None
    mine = sorted(os.sched_getaffinity(0))
    if choice is True:
        each = max(1, len(mine) // count)
        return [[mine[(i * each + k) % len(mine)] for k in range(each)] for i in range(count)]
    out = [_numbers(choice.get(f"device{i}", ())) for i in range(count)]
    absent = sorted({c for cores in out for c in cores} - set(mine))
    if absent:
        raise UserError(f"--bind_core: this process may not use the processors {absent}; it has "
                        f"{mine}")
    return out


def _numbers(texts: Sequence[str]) -> list[int]:
    found: set[int] = set()
    for part in ",".join(texts).replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def _environment(args: argparse.Namespace) -> dict[str, str]:
    out = {**mpi_environment(args.worker_num), "RANK_SIZE": str(args.worker_num),
           "MS_WORKER_NUM": str(args.worker_num), "MS_SCHED_HOST": args.master_addr,
           "MS_SCHED_PORT": str(args.master_port), "MS_TOPO_TIMEOUT": str(args.cluster_time_out)}
    if args.rank_table_file:
        out["RANK_TABLE_FILE"] = args.rank_table_file
    return out


class _Job:
    """The workers of a command line, once started."""

    def __init__(self, args: argparse.Namespace) -> None:
        folder = Path(args.log_dir)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise UserError(f"--log_dir {folder}: {e.strerror}") from e
        name = args.worker_log_name.replace("{ip}", _address()).replace(
            "{hostname}", socket.gethostname()) or "worker"
        self.folder = folder
        self.log = str((folder / f"{name}_{{rank}}.log").absolute())
        self.scheduler = folder / "scheduler.log"
        self.logs = [Path(self.log.replace("{rank}", str(i))) for i in range(args.worker_num)]
        for path in self.logs:
            path.unlink(missing_ok=True)
        cores = json.dumps(_bound(args.bind_core, args.worker_num))
        command = [*mpi_command(args.worker_num), *ISOLATED_PYTHON, "-m", "cellc.cli.worker",
                   self.log, cores, args.task_script, *args.task_script_args]
        with open(self.scheduler, "wb") as out:
            self.process: subprocess.Popen[Any] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=_environment(args), start_new_session=True)

    def join(self, shown: Sequence[int]) -> int:
        """Show the logs of some workers until all have ended; the exit status."""
        read = dict.fromkeys(shown, 0)
        try:
            while self.process.poll() is None:
                self._show(read)
                time.sleep(0.1)
        except KeyboardInterrupt:
            self.process.terminate()
            self.process.wait()
            raise
        self._show(read)
        return self._told() if self.process.returncode else 0

    def _show(self, read: dict[int, int]) -> None:
        """Print what has come to logs since."""
        for worker, at in read.items():
            if self.logs[worker].exists():
                with open(self.logs[worker], "rb") as log:
                    log.seek(at)
                    text = log.read()
                sys.stdout.write(text.decode(errors="replace"))
                read[worker] = at + len(text)
        sys.stdout.flush()

    def _told(self) -> int:
        """Say which worker failed, with the end of its log."""
        said = self.scheduler.read_text(errors="replace")
        found = dict.fromkeys(int(a or b) for a, b in _FAILED.findall(said))
        failed = [r for r in found if r < len(self.logs)]
        err = sys.stderr
        print(f"msrun: the job failed with exit status {self.process.returncode}", file=err)
        for rank in failed[:1] or range(len(self.logs)):
            if self.logs[rank].exists():
                print(f"msrun: worker {rank}, the end of {self.logs[rank]}:", file=err)
                lines = self.logs[rank].read_text(errors="replace").splitlines()
                print("\n".join(lines[-_TAIL:]), file=err)
        print(f"msrun: mpirun said, in {self.scheduler}:\n{said[-2000:]}", file=err)
        return 1


def _shown(text: str, count: int) -> list[int]:
    """The workers of `--tail_worker_log`."""
    if text == "-1":
        return list(range(count))
    numbers = text.split(",")
    if not all(n.isdigit() and int(n) < count for n in numbers):
        raise UserError(f"--tail_worker_log {text}: expected numbers of workers, 0 to {count - 1}, "
                        "as 0,1")
    return sorted({int(n) for n in numbers})


def start(args: argparse.Namespace) -> int:
    """Start a job; wait for its end with `--join=True`."""
    refused = _refused(args)
    if refused is not None:
        raise UserError(refused)
    shown = _shown(args.tail_worker_log, args.worker_num)
    job = _Job(args)
    for worker, log in enumerate(job.logs):
        print(f"msrun: worker {worker}, log {log}", flush=True)
    return job.join(shown) if args.join else 0


def main(argv: Sequence[str] | None = None) -> int:
    """`msrun`; the exit status (0 good, 1 a worker failed, 2 bad usage)."""
    try:
        return start(parser().parse_args(argv))
    except UserError as e:
        print(f"msrun: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("msrun: interrupted; all workers are ended", file=sys.stderr)
        return 130
