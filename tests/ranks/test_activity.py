"""Whether a process does anything: what others see of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from cellc_runtime import activity, knobs
from cellc_runtime.activity import Signs, Watch, signs
from cellc_runtime.platform import machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows it")

KINDS = {
    "sleeps": "time.sleep(60)",
    "deadlocked": "l = threading.Lock(); l.acquire(); l.acquire()",
    "polls": "while True: time.sleep(0.2)",
    "computes": "while True: pass",
    "child computes": "subprocess.run([sys.executable, '-c', 'while True: pass'], timeout=60)",
    "thread writes": "threading.Thread(target=write).start(); time.sleep(60)",
    "reads": "sys.stdin.readline()",
    "prints": "[sys.stdout.write('x' * 9999) for _ in range(99)]",
}
IDLE = "sleeps", "deadlocked", "polls"
START = """
import os, subprocess, sys, threading, time
def write():
    a, b = os.pipe()
    while True:
        os.write(b, b"1"); os.read(a, 1); time.sleep(0.1)
print("ready", flush=True)
"""


@pytest.fixture
def processes() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One of each kind, in a session of its own."""
    made = {kind: subprocess.Popen([sys.executable, "-c", START + text], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, start_new_session=True)
            for kind, text in KINDS.items()}
    yield made
    for process in made.values():
        os.killpg(process.pid, 9)
        process.communicate()


def test_who_does_nothing(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    watches = {kind: Watch(process.pid) for kind, process in processes.items()}
    for watch in watches.values():
        assert watch.idle() == 0
    time.sleep(0.8)
    idle = {kind: watch.idle() for kind, watch in watches.items()}
    assert {kind for kind, seconds in idle.items() if seconds} == set(IDLE)
    assert all((idle[kind] or 0) >= 0.8 for kind in IDLE)
    if machine() in ("x86_64", "aarch64"):
        waits = {kind: signs(process.pid) for kind, process in processes.items()}
        assert waits["reads"] is not None
        assert waits["reads"].waits == "input"
        assert waits["prints"] is not None
        assert waits["prints"].waits == "whoever reads its output"


def test_what_a_thread_does_need_not_count() -> None:
    """The thread that answers questions reads files to do so."""
    here = threading.get_native_id()
    before = signs(os.getpid(), here), signs(os.getpid())
    sum(range(10**7))
    after = signs(os.getpid(), here), signs(os.getpid())
    assert before[0] and before[1] and after[0] and after[1]
    assert before[0].moved == after[0].moved
    used = [b.processor - a.processor for a, b in zip(before, after, strict=True) if a and b]
    assert used[0] < 0.05 < used[1]
    assert after[1].moved > before[1].moved


def test_bytes_of_connections_count() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, \
            socket.create_connection(server.getsockname()) as one, server.accept()[0] as other:
        before = signs(os.getpid())
        one.sendall(b"x" * 50_000)
        left = 50_000
        while left:
            left -= len(other.recv(left))
        after = signs(os.getpid())
        assert before and after
        assert after.sockets - before.sockets >= 50_000


def test_bytes_that_the_caller_moves_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that went over connections since the last look."""
    looks = iter([Signs(float(at), 0.0, 0, at_sockets, "")
                  for at, at_sockets in enumerate((0, 90_000, 180_000, 180_000))])
    monkeypatch.setattr(activity, "signs", lambda *args: next(looks))
    watch, idle = Watch(1), []
    for own in (90_000, 90_000, 0, 0):  # before each look
        watch.own += own
        idle.append(watch.idle())
    assert idle == [0.0, 1.0, 0.0, 1.0]


def test_a_debugger_is_waited_for() -> None:
    """Of Python: its frames are on the stack of the main thread."""
    seen: list[str] = []
    scope = {"look": lambda: seen.append(getattr(signs(os.getpid()), "waits", ""))}
    for file in ("script.py", "lib/bdb.py", "site-packages/pydevd/main.py"):
        exec(compile("def stopped(): look()\nstopped()", file, "exec"), scope)
    assert "a debugger" not in seen[0]
    assert seen[1:] == ["a debugger", "a debugger"]


def test_the_process_is_gone() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert Watch(done.pid).idle() is None


def test_the_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, seconds in (("", 10), ("0", 0), ("3", 3)):
        monkeypatch.setenv("CELLC_HANG_TIMEOUT", text)
        assert knobs.read().hang_timeout == seconds
    monkeypatch.setenv("CELLC_HANG_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="CELLC_HANG_TIMEOUT='soon' is not a whole number"):
        knobs.read()
