"""Damaged files, full disks, interrupts, threads and forks: nothing lost, never a crash."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import Parameter, Tensor, cli, ops
from cellc.compiled.traced import trace
from cellc.nn.cell import Cell
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import print_graph
from cellc_runtime import artifact, cache, checkpoint, files, knobs, platform
from cellc_runtime.errors import ArtifactError

from ..modes.law import mode


class Net(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.linspace(-1, 1, 20).reshape(4, 5).astype(np.float32)),
                           name="w")

    def construct(self, x: Tensor) -> Tensor:
        h = ops.tanh(ops.matmul(x, self.w))
        for _ in range(3):
            h = ops.softmax(h * 2.0, axis=-1)
        return h


X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def result() -> bytes:
    """What the network gives, compiled anew unless it is cached."""
    with mode(ms.GRAPH_MODE):
        out: bytes = Net()(Tensor(X)).asnumpy().tobytes()
    return out


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of the network."""
    path = tmp_path_factory.mktemp("world") / "net.cellc"
    net = Net()
    traced = trace(net, (Tensor(X),), {})
    entry = artifact.Entry([compile_program(traced.graph)], [print_graph(traced.graph)])
    artifact.save(path, {"infer": entry}, {"w": net.w.asnumpy()})
    return path


def test_damaged_artifacts(file: Path, tmp_path: Path) -> None:
    """Whatever byte changes, running it is an ArtifactError: no code with a flipped bit runs."""
    whole, bad = file.read_bytes(), tmp_path / "bad.cellc"
    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 5))):
            data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        bad.write_bytes(data)
        with pytest.raises(ArtifactError, match="artifact"):
            cellc_runtime.load(bad, trust_native_code=True)(X)
    for _ in range(60):
        bad.write_bytes(whole[: rng.randrange(len(whole))])
        with pytest.raises(ArtifactError, match=r"bytes|corrupt"):
            cellc_runtime.load(bad, trust_native_code=True)(X)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("text", b"hello\n" * 100), ("zip", b"PK\x03\x04" * 50),
                       ("zeros", bytes(4096)), ("ones", b"\xff" * 4096)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ArtifactError, match="this is not a cellc artifact"):
            cellc_runtime.load(tmp_path / name)
        with pytest.raises(ArtifactError, match="the checkpoint"):
            checkpoint.load(tmp_path / name)
    with pytest.raises(OSError, match="Is a directory"):
        cellc_runtime.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="No such file"):
        cellc_runtime.load(tmp_path / "nothing")


def test_damaged_checkpoints(tmp_path: Path) -> None:
    """The header is checked; elements have no checksum in safetensors, so they may change."""
    good = tmp_path / "good"
    checkpoint.save(good, {"w": X, "n": np.arange(5), "flag": np.array([True, False])})
    whole, bad, rng = good.read_bytes(), tmp_path / "bad", random.Random(2)
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= rng.randrange(1, 256)
        bad.write_bytes(data)
        try:
            loaded = checkpoint.load(bad)
        except ArtifactError:
            continue
        assert all(a.nbytes <= len(whole) for a in loaded.values())
    for length in range(len(whole)):
        bad.write_bytes(whole[:length])
        with pytest.raises(ArtifactError, match="the checkpoint"):
            checkpoint.load(bad)


def test_a_damaged_cache(tmp_path: Path) -> None:
    """Entries with flipped bytes, cut off, emptied, or replaced by folders: compiled anew."""
    with knobs.override(cache_dir=tmp_path / "cache"):
        want = result()
        entries = list((tmp_path / "cache").rglob("*.bin"))
        assert entries
        rng = random.Random(3)
        for round_ in range(8):
            for p in entries:
                data = bytearray(p.read_bytes())
                if round_ % 3 == 0:
                    data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
                p.write_bytes(data if round_ % 3 == 0 else data[: rng.randrange(len(data))]
                              if round_ % 3 == 1 else b"")
            assert result() == want
            assert all(p.stat().st_size for p in entries), "written again"
        for p in entries:
            p.unlink()
            p.mkdir()
        assert result() == want


# --- disks ---------------------------------------------------------------------------------------


def test_a_full_disk_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = result()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("fdopen", "replace", "mkdir"):
        with monkeypatch.context() as patch, knobs.override(cache_dir=tmp_path / name):
            patch.setattr(cache.os, name, full)
            assert result() == want


def test_a_full_disk_for_an_artifact(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "net.py"
    source.write_text("from cellc import ops\ndef f(x):\n    return ops.exp(x)\n")
    out = tmp_path / "out.cellc"
    out.write_bytes(file.read_bytes())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    assert cli.main(["compile", f"{source}:f", "-i", "x=float32[3]", "-o", str(out)]) == 2
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert out.read_bytes() == file.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["net.py", "out.cellc"]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this user may mount one."""
    place = tmp_path / "tiny"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", place],
                          capture_output=True) if sys.platform == "linux" else None
    if made is None or made.returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_really_full(tiny: Path) -> None:
    want = result()
    old = {"a": np.arange(3)}
    checkpoint.save(tiny / "w", old)
    (tiny / "fill").write_bytes(bytes(52 << 10))
    with knobs.override(cache_dir=tiny / "cache"):
        assert result() == want
    with pytest.raises(OSError, match="space"):
        checkpoint.save(tiny / "w", {"a": np.zeros(1 << 16)})
    np.testing.assert_array_equal(checkpoint.load(tiny / "w")["a"], old["a"])
    assert sorted(p.name for p in tiny.iterdir() if p.is_file()) == ["fill", "w"]


# --- interrupts ----------------------------------------------------------------------------------

BUSY = """
import sys, time
import numpy as np
import cellc as ms
from cellc import ops, Tensor
print("ready", flush=True)
x = Tensor(np.ones((3, 4), np.float32))
for n in range(1, 10_000):
    def f(x, n=n):
        for i in range(20):
            x = ops.exp(ops.matmul(x, Tensor(np.ones((4, 4), np.float32))) * (n + i / 7))
        return ops.softmax(x.reshape(n % 4 + 1, -1) if 12 % (n % 4 + 1) == 0 else x, axis=0)
    ms.jit(f)(x)
    print("compiled", n, flush=True)
"""


def _busy_environment(cache_dir: Path) -> dict[str, str]:
    """Where the busy program has processes that compile for it, and a cache of its own."""
    return {**os.environ, "CELLC_CACHE_DIR": str(cache_dir), "CELLC_COMPILE_JOBS": "2"}


def _interruptible() -> None:
    """Interrupts end the child, also where whoever runs these tests ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(child: subprocess.Popen[str]) -> str:
    """Ctrl-C until the process ends, at most three times; what it wrote to stderr.

    Python drops an interrupt that arrives within a destructor or a weak reference's callback
    ("Exception ignored in ..."), whatever the program does; the next one must do.
    """
    for _ in range(3):
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: workers get it too
        try:
            return child.communicate(timeout=40)[1]
        except subprocess.TimeoutExpired:
            continue
    os.killpg(child.pid, signal.SIGKILL)
    raise AssertionError(f"still running after three interrupts: {child.communicate()}")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_a_limit_of_memory_is_named() -> None:
    """llvmlite says that it could not find its library where there is no memory for it."""
    program = """
import resource
from cellc_compiler.build import emit
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (40 << 20), now + (40 << 20)))
emit.load_llvm()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.stderr.splitlines()[-1].startswith(
        "MemoryError: LLVM, which takes 150 MB, does not fit into the memory"), done.stderr


def test_without_threads_one_process_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tight limit has no room for a thread's stack."""
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CELLC_COMPILE_JOBS", "2")
    x = Tensor(np.linspace(0, 1, 8, dtype=np.float32))
    with monkeypatch.context() as tight:
        tight.setattr(threading.Thread, "start", refused)
        found = ms.jit(lambda x: ops.softmax(ops.sin(x), -1) * 7.25)(x)
    np.testing.assert_array_equal(found.asnumpy(), (ops.softmax(ops.sin(x), -1) * 7.25).asnumpy())


def test_a_thread_that_begins_late_is_waited_for() -> None:
    """An interrupt within `start` leaves one that begins a moment later."""
    ran: list[int] = []
    thread = threading.Thread(target=lambda: ran.append(1))
    threading.Timer(0.02, thread.start).start()
    assert platform.joined(thread)
    assert ran and not thread.is_alive()


def test_ctrl_c_while_compiling(tmp_path: Path) -> None:
    """The process ends as interrupted ones do, soon, and the cache is whole."""
    env = _busy_environment(tmp_path / "cache")
    (tmp_path / "busy.py").write_text(BUSY)
    for compiled, delay in ((0, 0.15), (1, 0.1), (2, 0.03)):
        child = subprocess.Popen([sys.executable, tmp_path / "busy.py"], env=env, text=True,
                                 preexec_fn=_interruptible,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 start_new_session=True)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for _ in range(compiled):
            assert child.stdout.readline().startswith("compiled")
        time.sleep(delay)
        err = _interrupt(child)
        assert child.returncode in (130, -signal.SIGINT), err
        assert err.strip().splitlines()[-1].startswith("KeyboardInterrupt"), err
        # An interrupt inside of the interpreter's own import is shown with what that handled.
        chained = err.count("During handling of the above exception")
        assert err.count("Traceback") - err.count("Exception ignored") - chained == 1, err
    store = cache.Cache(tmp_path / "cache", 1 << 30)
    entries = store.entries()
    assert entries
    for entry in entries:
        assert store.get(entry.key) is not None
    assert not list((tmp_path / "cache").rglob(".new-*"))


def test_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    child = subprocess.Popen([sys.executable, "-m", "cellc", "run", str(tmp_path / "busy.py")],
                             preexec_fn=_interruptible, env=_busy_environment(tmp_path / "cache"),
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    err = _interrupt(child)
    assert child.returncode == 130 and "interrupted" in err, err
    assert err.count("Traceback") == err.count("Exception ignored"), err


def test_an_interrupt_leaves_the_network_usable() -> None:
    """KeyboardInterrupt in the middle of tracing: the next call compiles as if nothing was."""
    class Interrupts(Cell):
        def construct(self, x: Tensor) -> Tensor:
            return helper(x) * 2

    @ms.jit
    def helper(x: Tensor) -> Tensor:
        return ops.exp(x)

    net = Interrupts()

    def interrupted(x: Tensor) -> Tensor:
        raise KeyboardInterrupt("while tracing")

    with mode(ms.GRAPH_MODE):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ops, "exp", interrupted)
            with pytest.raises(KeyboardInterrupt, match="while tracing"):
                net(Tensor([0.0]))
        assert net(Tensor([0.0])).asnumpy() == 2
    assert Tensor([1.0]) + 1 == 2  # no tracer is left active


# --- threads and forks ---------------------------------------------------------------------------


@pytest.mark.parametrize("m", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["eager", "graph"])
def test_many_threads_call_one_network(m: int) -> None:
    """The first call (the compilation) and all later ones, from eight threads at once."""
    with mode(m):
        net = Net()
        xs = [Tensor(X + i) for i in range(4)]
        want = [Net()(x).asnumpy() for x in xs]
        start, wrong = threading.Barrier(8), []

        def work(k: int) -> None:
            start.wait()
            for i in range(200):
                j = (i + k) % 4
                if not np.array_equal(net(xs[j]).asnumpy(), want[j]):
                    wrong.append((k, i))

        pool = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in pool:
            t.start()
        for t in pool:
            t.join()
        assert not wrong


def test_threads_compile_different_networks_at_once() -> None:
    out: dict[int, Any] = {}

    def work(k: int) -> None:
        @ms.jit
        def f(x: Tensor) -> Tensor:
            for i in range(k + 1):
                x = x * 2 + i
            return x

        out[k] = f(Tensor([1.0])).asnumpy()

    pool = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    for k in range(6):
        x = 1.0
        for i in range(k + 1):
            x = x * 2 + i
        assert out[k] == x


def test_threads_take_gradients_apart() -> None:
    """Recordings and tracers belong to their threads."""
    wrong: list[int] = []

    def work(k: int) -> None:
        for i in range(30):
            g = ms.grad(lambda x: (x * x * float(k + 1)).sum())(Tensor([1.0 + i]))
            if g.asnumpy()[0] != np.float32(2 * (k + 1) * (1.0 + i)):
                wrong.append(k)

    pool = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    assert not wrong


FORK = """
import os, sys
import numpy as np
import cellc as ms
from cellc import ops, Tensor
import cellc_runtime
cellc_runtime.set_num_threads(3)
ms.set_context(mode=ms.GRAPH_MODE)

@ms.jit
def f(x):
    return ops.matmul(ops.exp(x * 0.001), x).sum()

@ms.jit
def later(x):
    return ops.cumsum(ops.tanh(x), 0)

x = Tensor(np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32))
want = f(x).asnumpy()
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        good = f(x).asnumpy() == want           # compiled before the fork, threads gone
        later(x)                                # compiled in the child
        good &= bool((ops.sin(x).asnumpy() == np.sin(x.asnumpy())).mean() > 0.5)
        os._exit(0 if good else 3)
    assert f(x).asnumpy() == want               # the parent goes on meanwhile
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert f(x).asnumpy() == want

import multiprocessing
def child(i):
    return float(f(x).asnumpy())
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(child, range(6)) == [float(want)] * 6
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_after_first_use(tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(FORK)
    done = subprocess.run([sys.executable, tmp_path / "forks.py"], capture_output=True, text=True,
                          timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_several_processes_share_a_cache(tmp_path: Path) -> None:
    program = """
        import numpy as np, cellc as ms
        from cellc import ops, Tensor
        f = ms.jit(exec_f := (lambda x: ops.exp(ops.matmul(x, x.T)).sum(axis=0)))
        print(f(Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 9)).asnumpy().tolist())
    """
    (tmp_path / "p.py").write_text(textwrap.dedent(program))
    env = {**os.environ, "CELLC_CACHE_DIR": str(tmp_path / "cache")}
    children = [subprocess.Popen([sys.executable, tmp_path / "p.py"], env=env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(4)]
    outs = [c.communicate(timeout=120) for c in children]
    assert all(c.returncode == 0 for c in children), outs
    assert len({o for o, _ in outs}) == 1 and outs[0][0].startswith("[")
