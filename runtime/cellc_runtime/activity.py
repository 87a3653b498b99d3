"""Whether a process does anything, as far as the operating system shows it.

A process that computes uses a processor, one that loads data or writes a checkpoint moves bytes or
waits for a disk. One that does none of that for long waits for something that nobody may ever give
it: a lock, a sleep, a queue. Linux alone shows all of it (`/proc`); elsewhere nothing is said.
"""

from __future__ import annotations

import faulthandler
import os
import re
import socket
import sys
import tempfile
import threading
import time

from . import platform
from .records import dataclass

_SHARE, _NOISE = 0.01, 0.03
"""Less than this share of a processor, or these seconds (ticks are of 0.01), counts as idle:
threads that poll take as much."""
_CHATTER = 2048
"""Bytes a second of TCP that are nothing: libraries ask whether their other side is alive."""
_DEBUGGERS = ("pdb", "bdb", "pydevd", "debugpy")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in ', re.MULTILINE)
_INFO: int = getattr(socket, "TCP_INFO", 11)

# Calls of the system, by their numbers: those that read, or wait until something can be read; and
# those in which a thread waits for a file system (one in user space, say: its state does not tell).
_READS = {"x86_64": (0, 7, 23, 270, 271), "aarch64": (63, 72, 73)}
_OF_DESCRIPTORS = {"x86_64": (0, 1, 17, 18, 19, 20, 74, 75),
                   "aarch64": (63, 64, 65, 66, 67, 68, 82, 83)}
_OF_PATHS = {"x86_64": (2, 4, 6, 76, 82, 83, 84, 87, 257, 258, 262, 263, 264, 316, 332),
             "aarch64": (34, 35, 38, 45, 56, 79, 276, 291)}


@dataclass(frozen=True, slots=True)
class Signs:
    """The work of a process and its children so far."""

    at: float  # when this was read, in seconds of `time.monotonic`
    processor: float  # seconds of processor time
    # bytes read and written, by calls of the system and at disks; -1 where that is hidden
    moved: int
    sockets: int  # bytes of the TCP connections of this process
    waits: str  # what is waited for that is no fault of the process; "" for nothing


class Watch:
    """Since when a process has done nothing.

    Args:
        but: a thread (`threading.get_native_id`) whose doings do not count.
    """

    def __init__(self, process: int, but: int = 0) -> None:
        self.own = 0  # bytes that the caller has moved itself over connections, which do not count
        self._process, self._but = process, but
        self._base: tuple[Signs, int] | None = None

    def forget(self) -> None:
        """It counts from the next look."""
        self._base = None

    def idle(self) -> float | None:
        """For how many seconds of those in which this was asked the process has done nothing; None
        where that cannot be known."""
        now = signs(self._process, self._but)
        if now is None:
            self._base = None
            return None
        if self._base is None or now.waits or self._busy(*self._base, now):
            self._base = now, self.own
        return now.at - self._base[0].at

    def _busy(self, before: Signs, own: int, now: Signs) -> bool:
        passed = now.at - before.at
        return (now.moved != before.moved
                or now.processor - before.processor > _NOISE + _SHARE * passed
                or abs(now.sockets - before.sockets) - (self.own - own) > _CHATTER * (1 + passed))


def signs(process: int, but: int = 0) -> Signs | None:
    """Return the work of a process of this machine; None where the system does not show it.

    Args:
        but: a thread that does not count.
    """
    try:
        used, moved, waits = _of_process(process, but)
        sockets = _through_sockets() if process == os.getpid() else 0
    except (OSError, ValueError, IndexError):
        return None
    if process == os.getpid() and _in_debugger():
        waits = "a debugger"
    return Signs(time.monotonic(), used, moved, sockets, waits)


def _of_process(process: int, but: int) -> tuple[float, int, str]:
    """Processor time, bytes and waits of a process and, one after the other, of its children."""
    folder = f"/proc/{process}"
    used, moved, waits = _processor(f"{folder}/stat"), 0, _traced(folder)
    for task in os.listdir(f"{folder}/task"):
        thread = f"{folder}/task/{task}"
        if int(task) == but:
            used -= _processor(f"{thread}/stat", waited_for=False)
        else:
            moved += _bytes(f"{thread}/io")
            waits = waits or _waits_for(process, thread)
        for child in _text(f"{thread}/children").split():
            try:
                more = _of_process(int(child), 0)
            except OSError:  # it has ended meanwhile
                continue
            used, moved, waits = used + more[0], moved + more[1], waits or more[2]
    return used, moved, waits


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _processor(path: str, waited_for: bool = True) -> float:
    """Seconds of processor time; children that have ended and been waited for count, too."""
    fields = _text(path).rpartition(")")[2].split()
    ticks: int = sum(map(int, fields[11 : 15 if waited_for else 13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _bytes(path: str) -> int:
    return sum(int(line.split()[1]) for line in _text(path).splitlines()
               if line.startswith(("rchar", "wchar", "read_bytes", "write_bytes")))


def _traced(folder: str) -> str:
    return "a debugger" if "TracerPid:\t0\n" not in _text(f"{folder}/status") else ""


def _waits_for(process: int, thread: str) -> str:
    """Return the reason why a thread waits for something that comes by itself or from a person."""
    if _text(f"{thread}/stat").rpartition(")")[2].split()[0] == "D":
        return "a disk"
    try:
        call = _text(f"{thread}/syscall").split()
    except OSError:  # hidden: its state is all there is
        return ""
    if not call or not call[0].isdecimal():  # it runs
        return ""
    number, machine = int(call[0]), platform.machine()
    if number in _OF_PATHS.get(machine, ()):
        return "a file system"
    if number in _OF_DESCRIPTORS.get(machine, ()):
        target = _target(process, int(call[1], 16))
        if target.startswith("/") and not target.startswith("/dev/"):
            return "a file system"
        if int(call[1], 16) in (1, 2):
            return "whoever reads its output"
    if number in _READS.get(machine, ()) and thread.endswith(f"/{process}"):
        terminal = "/dev/tty", "/dev/pts/", "/dev/console"
        if _target(process, 0).startswith(terminal) or (
                call[0] == str(_READS[machine][0]) and int(call[1], 16) == 0):
            return "input"
    return ""


def _target(process: int, descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/{process}/fd/{descriptor}")
    except OSError:
        return ""


def _through_sockets() -> int:
    """Bytes that the TCP connections of this process have sent and received."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        if not _target(os.getpid(), int(name)).startswith("socket:"):
            continue
        try:
            found = socket.socket(fileno=int(name))
        except OSError:  # closed meanwhile
            continue
        try:
            info = found.getsockopt(socket.IPPROTO_TCP, _INFO, 136)
            total += sum(int.from_bytes(info[at : at + 8], sys.byteorder) for at in (120, 128))
        except OSError:  # no TCP, or closed meanwhile
            continue
        finally:
            found.detach()  # it belongs to who opened it
    return total


def _in_debugger() -> bool:
    """Whether the main thread of this process stands in a debugger of Python."""
    return any(part.removesuffix(".py") in _DEBUGGERS
               for file, _ in main_thread() for part in file.split(os.sep))


def main_thread() -> list[tuple[str, int]]:
    """The files and lines of the functions that the main thread of this process is in, innermost
    first."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        text = file.read()
    main = f"0x{threading.main_thread().ident or 0:016x}"
    stack = next((part for part in text.split("hread ") if part.startswith(main)), "")
    return [(name, int(line)) for name, line in _FRAME.findall(stack)]
