"""Trials of what may happen to a process: killed, interrupted, out of disk, memory, descriptors.

A *job* is a program of its own that compiles, trains, and writes checkpoints and a cache, and tells
a digest of all that it computed. Whatever is done to it, it tells that digest or ends with an error
in words; no file is torn, the cache serves the next process, and nothing is left lying about.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from .finding import Finding, Trial

SUFFIX = ".seed"
ROOT = Path(__file__).parents[3]
_SECONDS = 150.0
"""After which a job hangs."""
_ENDING = 120.0
"""Seconds in which an interrupted job must have ended, on a machine that is busy."""

JOB = '''
import hashlib, os, sys
import numpy as np
import cellc as ms
from cellc import Tensor, nn, ops
ms.set_seed(5)
net = nn.SequentialCell(nn.Dense(6, 5), nn.LayerNorm((5,)), nn.Tanh(), nn.Dense(5, 3))
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                           nn.Adam(net.trainable_params(), 0.01))
rng = np.random.default_rng(1)
told = hashlib.sha256()
print("begun", flush=True)
for k in range(4):
    x = Tensor(rng.standard_normal((k + 2, 6)).astype(np.float32))
    y = Tensor(rng.standard_normal((k + 2, 3)).astype(np.float32))
    told.update(step(x, y).asnumpy().tobytes())
    told.update(ops.softmax(net(x), -1).asnumpy().tobytes())
    if len(sys.argv) > 1:
        ms.save_checkpoint(net, sys.argv[1])
for p in net.get_parameters():
    told.update(p.asnumpy().tobytes())
print("digest", told.hexdigest(), flush=True)
'''

CHECK = '''
import sys
import cellc as ms
from cellc import nn
net = nn.SequentialCell(nn.Dense(6, 5), nn.LayerNorm((5,)), nn.Tanh(), nn.Dense(5, 3))
ms.load_param_into_net(net, ms.load_checkpoint(sys.argv[1]), strict_load=True)
'''

LIMITED = '''
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_{name}, ({value}, {value}))
'''

FEW_THREADS = '''
import ctypes, os, resource
if os.getuid() == 0:  # whom the limit does not hold for: another real user, without two privileges
    os.setresuid(65534, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, sets) == 0
    for i in (0, 1):
        sets[i] &= ~(1 << 21 | 1 << 24)  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE
    assert libc.capset(head, sets) == 0
resource.setrlimit(resource.RLIMIT_NPROC, ({value}, {value}))
'''


def start(
    source: str, folder: Path, *arguments: str, more: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A process that runs a program, with the cache of a folder."""
    path = folder / "job.py"
    path.write_text(source)
    return subprocess.Popen(
        [sys.executable, str(path), *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "CELLC_CACHE_DIR": str(folder / "cache"),
                                     "PYTHONPATH": os.pathsep.join(sys.path), **(more or {})})


def ended(process: subprocess.Popen[str], seconds: float = _SECONDS) -> tuple[str, str]:
    """What a process printed, on both streams.

    Raises:
        AssertionError: it does not end.
    """
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"the job did not end in {seconds:g} s") from None


@cache
def digest() -> str:
    """What an undisturbed job tells."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = ended(start(JOB, Path(folder)))
    if "digest" not in out:
        raise AssertionError(f"the undisturbed job fails: {err[-500:]}")
    return out.split()[-1]


def right(out: str, err: str, what: str) -> None:
    """A job that nothing hinders tells the digest."""
    if out.split()[-1:] != [digest()]:
        raise AssertionError(f"{what}: {out.strip()[-100:]!r} {err.strip()[-300:]!r}")


def in_words(process: subprocess.Popen[str], out: str, err: str, what: str) -> None:
    """A job that is hindered tells the digest, or an error that has words."""
    if process.returncode == 0:
        right(out, err, what)
        return
    last = err.strip().splitlines()[-1:] or [""]
    if process.returncode < 0 or ":" not in last[0]:
        raise AssertionError(f"{what}: ends with {process.returncode}: {err.strip()[-300:]!r}")


def whole(folder: Path) -> None:
    """A checkpoint is there whole or not at all; the next process is right and tidies up."""
    path = folder / "net.ckpt"
    if path.exists():
        process = start(CHECK, folder, str(path))
        _, err = ended(process)
        if process.returncode:
            raise AssertionError(f"a torn checkpoint: {err.strip()[-300:]}")
    left = [p for p in folder.iterdir() if p.name.endswith(".cellc-new")]
    for p in left:  # as if they had been there for some hours
        os.utime(p, (time.time() - 9999,) * 2)
    out, err = ended(start(JOB, folder, str(path)))
    right(out, err, "the next process")
    if any(p.exists() for p in left):
        raise AssertionError(f"left behind: {[p.name for p in left]}")


# --- what happens ---------------------------------------------------------------------------------


def killed(folder: Path, rng: np.random.Generator) -> None:
    """Killed at any time."""
    process = start(JOB, folder, str(folder / "net.ckpt"))
    wait_and(process, signal.SIGKILL, rng)
    ended(process)
    whole(folder)


def interrupted(folder: Path, rng: np.random.Generator) -> None:
    """Interrupted at any time after it has begun: it ends soon, as Python does."""
    process = start(JOB, folder, str(folder / "net.ckpt"))
    wait_and(process, signal.SIGINT, rng)
    out, err = ended(process, _ENDING)
    if process.returncode and "KeyboardInterrupt" not in err:
        raise AssertionError(f"interrupted: ends with {process.returncode}: {err.strip()[-300:]!r}")
    if not process.returncode:
        right(out, err, "interrupted too late")
    whole(folder)


def wait_and(
    process: subprocess.Popen[str], number: signal.Signals, rng: np.random.Generator
) -> None:
    """Send a signal some time after a job has begun."""
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(float(rng.uniform(0, 4)) * float(rng.random() ** 2))
    process.send_signal(number)


def full(folder: Path, rng: np.random.Generator) -> None:
    """No file can be longer than so much: a disk that is full."""
    size = int(2 ** rng.uniform(6, 15))
    process = start(LIMITED.format(name="FSIZE", value=size) + JOB, folder,
                    *[str(folder / "net.ckpt")] * int(rng.integers(2)))
    out, err = ended(process)
    in_words(process, out, err, f"files of {size} bytes at most")
    whole(folder)


def short_of_memory(folder: Path, rng: np.random.Generator) -> None:
    """So much address space only."""
    size = int(rng.uniform(200, 1500)) << 20
    process = start(LIMITED.format(name="AS", value=size) + JOB, folder)
    in_words(process, *ended(process), f"{size >> 20} MiB of address space")
    whole(folder)


def short_of_files(folder: Path, rng: np.random.Generator) -> None:
    """So many descriptors only."""
    count = int(rng.integers(4, 40))
    process = start(LIMITED.format(name="NOFILE", value=count) + JOB, folder)
    in_words(process, *ended(process), f"{count} descriptors")
    whole(folder)


def short_of_threads(folder: Path, rng: np.random.Generator) -> None:
    """So many threads and processes only, this one included (and what else the user runs)."""
    count = int(rng.integers(1, 8))
    process = start(FEW_THREADS.format(value=count) + JOB, folder,
                    more={"CELLC_NUM_THREADS": "4", "CELLC_COMPILE_JOBS": "2",
                          "OPENBLAS_NUM_THREADS": "1"})  # (whose threads are numpy's own)
    in_words(process, *ended(process), f"{count} threads and processes")
    whole(folder)


def two_writers(folder: Path, rng: np.random.Generator) -> None:
    """Some processes write one cache and one checkpoint."""
    jobs = [start(JOB, folder, str(folder / "net.ckpt")) for _ in range(int(rng.integers(2, 4)))]
    for job in jobs:
        right(*ended(job), "one of several writers")
    whole(folder)


PARENT = '''
import multiprocessing, sys
source = open({path!r}).read()
def child():
    exec(compile(source, __file__, "exec"), {{"__name__": "child", "__file__": __file__}})
if __name__ == "__main__":
    {before}
    own = multiprocessing.get_context({method!r}).Process(target=child)
    own.start()
    own.join()
    sys.exit(own.exitcode)
'''


def forked(folder: Path, rng: np.random.Generator) -> None:
    """A child of a process that has computed computes the same; one that is spawned too."""
    method = ("fork", "spawn", "forkserver")[int(rng.integers(3))]
    (folder / "inner.py").write_text(JOB)
    before = "import inner" if rng.random() < 0.7 else ""
    source = PARENT.format(path=str(folder / "inner.py"), method=method, before=before)
    process = start(source, folder)
    out, err = ended(process)
    if process.returncode:
        raise AssertionError(f"{method}: ends with {process.returncode}: {err.strip()[-300:]!r}")
    right(out, err, f"a child by {method}")


INNER = '''
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
{before}
inner = interpreters.create()
told = interpreters.{run}(inner, "import {name}")
if told is not None:
    sys.stderr.write(str(told))
'''


def inner_interpreter(folder: Path, rng: np.random.Generator) -> None:
    """A sub-interpreter is refused in words, and the main one is none the worse."""
    run = "exec" if sys.version_info >= (3, 13) else "run_string"
    name = ("cellc", "cellc_runtime")[int(rng.integers(2))]
    before = ("", "import numpy", "import cellc")[int(rng.integers(3))]
    source = "import sys\n" + INNER.format(before=before, run=run, name=name)
    tried = textwrap.indent(source, "    ")
    process = start(f"try:\n{tried}\nexcept Exception as e:\n    sys.stderr.write(str(e))\n{JOB}",
                    folder)
    out, err = ended(process)
    if "cellc runs in the main interpreter" not in err:
        raise AssertionError(f"a sub-interpreter is not refused: {err.strip()[-300:]!r}")
    right(out, err, "beside a sub-interpreter")


HAPPENS: tuple[Callable[[Path, np.random.Generator], None], ...] = (
    killed, interrupted, full, short_of_memory, short_of_files, two_writers, forked,
    inner_interpreter, short_of_threads)


def trial(seed: int) -> Trial:
    """One process, or some, to which one thing happens."""
    happens = HAPPENS[seed % len(HAPPENS)]
    rng = np.random.default_rng([seed, 11])
    try:
        with tempfile.TemporaryDirectory() as folder:
            happens(Path(folder), rng)
    except AssertionError as e:
        told = f"{happens.__name__}: {e}".replace("\n", " ")
        return Trial(finding=Finding("processes", seed, told, f"{seed}\n{told}\n", SUFFIX))
    return Trial({"processes": 1, f"way {happens.__name__}": 1})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    found = trial(int(path.read_text().split()[0])).finding
    return found.what if found else ""
