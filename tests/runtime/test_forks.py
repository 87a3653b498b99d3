"""A child forked at any moment does what its parent could: no lock of ours stays held in it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cellc_runtime import forks

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
              pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def child(work: Callable[[], object], seconds: int = 20) -> int:
    """How a child ends that does some work: 0, or the signal of its alarm, negative."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def held(enter: Callable[[], object], leave: Callable[[], object]) -> Callable[[], None]:
    """Do something in a thread and undo it there when the function that is returned is called."""
    here, end = threading.Event(), threading.Event()

    def run() -> None:
        enter()
        here.set()
        end.wait(30)
        leave()

    thread = threading.Thread(target=run)
    thread.start()
    here.wait(30)

    def stop() -> None:
        end.set()
        thread.join()

    return stop


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Condition])
def test_a_lock_of_another_thread_is_free_in_a_child(make):
    lock = forks.renewed(make())
    stop = held(lock.acquire, lock.release)

    def work() -> None:
        with lock:
            pass

    assert child(work) == 0
    assert not lock.acquire(False)  # it is still the thread's
    stop()
    with lock:
        pass


def test_what_cannot_be_renewed_is_refused():
    with pytest.raises(TypeError, match="BoundedSemaphore cannot be made free"):
        forks.renewed(threading.BoundedSemaphore())


def test_a_lock_of_the_forking_thread_stays_its_own():
    lock = forks.renewed(threading.RLock())
    with lock:
        assert child(lock.release) == 0


def test_a_fork_waits_for_what_cannot_be_renewed(monkeypatch):
    inside = forks.no_fork()
    stop = held(inside.__enter__, lambda: inside.__exit__(None, None, None))
    threading.Timer(0.3, stop).start()
    start = time.monotonic()
    assert child(lambda: None) == 0
    assert time.monotonic() - start > 0.2
    with forks.no_fork(), forks.no_fork():  # one's own does not count
        assert child(lambda: None) == 0
    monkeypatch.setattr(forks, "_PATIENCE", 0.05)
    other = forks.no_fork()
    stop = held(other.__enter__, lambda: other.__exit__(None, None, None))
    assert child(lambda: forks.no_fork().__enter__()) == 0  # (it waits no longer than that)
    stop()


_SIGNALS = {"runtime/cellc_runtime/channel.py": 1}
"""Locks that say that something is done, which are no locks."""


def test_every_lock_is_registered():
    made = re.compile(r"(?<!renewed\()\bthreading\.(?:R?Lock|Condition|Event|\w*Semaphore|Barrier)"
                      r"\(|default_factory=threading\.[A-Z]")
    found = {}
    for room in ("frontend", "compiler", "runtime"):
        for path in (ROOT / room).rglob("*.py"):
            if count := len(made.findall(path.read_text())):
                found[path.relative_to(ROOT).as_posix()] = count
    assert found == _SIGNALS, "wrap them: cellc_runtime.forks.renewed(threading.Lock())"


STORM = """
import itertools, os, random, signal, sys, tempfile, threading, time, warnings
import numpy as np
import cellc as ms
import cellc.dataset as ds
from cellc import Tensor, nn, ops
from cellc.mindrecord import FileWriter

warnings.simplefilter("ignore")
ms.set_context(mode=ms.GRAPH_MODE)
folder, number = sys.argv[1], itertools.count()

class Net(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Dense(8, width), nn.Dense(width, 3)
    def construct(self, x):
        return self.b(ops.tanh(self.a(x)))

net = Net(4)

def given():
    return Tensor(np.ones((next(number) % 7 + 1, 8), np.float32))

def path():
    return f"{folder}/{os.getpid()}_{threading.get_ident()}_{next(number)}"

def record():
    writer = FileWriter(path(), 1)
    writer.add_schema({"i": {"type": "int64"}}, "numbers")
    writer.add_index(["i"])
    writer.write_raw_data([{"i": i} for i in range(20)])
    writer.commit()

def data():
    rows = ds.GeneratorDataset(list(np.arange(12)), ["x"], shuffle=False)
    assert len(list(rows.map(lambda v: v * 2, "x", num_parallel_workers=2).batch(3))) == 4

def read():
    assert len(list(ds.MindDataset(base))) == 20

base = f"{folder}/base"
writer = FileWriter(base, 1)
writer.add_schema({"i": {"type": "int64"}}, "numbers")
writer.write_raw_data([{"i": i} for i in range(20)])
writer.commit()
work = [
    lambda: Net(next(number) % 9 + 1)(given()).asnumpy(),
    lambda: net(given()).asnumpy(),
    lambda: ms.grad(lambda a: ops.sin(a).sum())(given()),
    lambda: ms.save_checkpoint(net, path() + ".ckpt"),
    lambda: ms.save_checkpoint(net, path() + ".ckpt", async_save=True),
    lambda: ops.standard_normal((1 << 18,)).asnumpy(),
    record, read, data,
]
end, failed = time.monotonic() + float(sys.argv[2]), []

def go_on(what):
    while time.monotonic() < end:
        try:
            what()
        except BaseException as error:
            failed.append(repr(error))
            return

threads = [threading.Thread(target=go_on, args=(w,), daemon=True) for w in work]
for t in threads:
    t.start()
children, turns = [], itertools.cycle(work)
while time.monotonic() < end:
    time.sleep(random.random() * 0.1)
    what = next(turns)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            what()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    children.append(pid)
    while len(children) > 4:
        failed += [f"a child: {s}" for s in [os.waitpid(children.pop(0), 0)[1]] if s]
failed += [f"a child: {s}" for s in [os.waitpid(c, 0)[1] for c in children] if s]
print(failed)
os._exit(0)
"""


def test_forks_at_random_moments(tmp_path):
    """Threads compile, train, save and read meanwhile."""
    (tmp_path / "storm.py").write_text(textwrap.dedent(STORM))
    done = subprocess.run([sys.executable, tmp_path / "storm.py", tmp_path, "6"],
                          capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CELLC_CACHE_DIR": str(tmp_path / "cache")})
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr[-2000:]


def test_a_child_that_ends_leaves_its_parents_files(tmp_path):
    """The finalizer of a writer runs at the end of a child, too, and its database is closed."""
    program = f"""
        import os, sys, warnings
        warnings.simplefilter("ignore")
        from cellc.mindrecord import FileReader, FileWriter
        writer = FileWriter({str(tmp_path / "rows")!r}, 1)
        writer.add_schema({{"i": {{"type": "int64"}}}}, "numbers")
        writer.write_raw_data([{{"i": 1}}])
        pid = os.fork()
        if pid == 0:
            sys.exit()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        writer.write_raw_data([{{"i": 2}}])
        writer.commit()
        print([row["i"] for row in FileReader({str(tmp_path / "rows")!r}).get_next()])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True,
                          text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("[1, 2]", "")
