"""A process that turns LLVM text into objects, asked over its standard input.

A request is what LLVM wants to know of a target, a line each, and the text; an answer is a status
byte and the object, or the error text. Both are preceded by their length. The process ends when its
input does, or, saying goodbye, when nothing has been requested a while. Before the first request it
says hello, which distinguishes a process that could not start from one that LLVM ended. Requests
are read while one is compiled: whoever sends them never waits.

Where a second process is wanted it is forked off once LLVM is loaded, before there are threads:
LLVM loads once for both, and its memory is theirs in common until one of them writes to it.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, NoReturn

from .emit import EmitError, Machine, emit_object, load_llvm

if TYPE_CHECKING:  # what targets are made of would take as long to load as half of LLVM
    from cellc_runtime.target import Target

OK, FAILED = 0, 1
HELLO = b"cellc"  # The first output of a process; a forked one adds its number
GOODBYE = b"goodbye"
"""Instead of an answer: requests that it has not answered must go to another process."""
PATIENCE = 5.0  # Seconds without a request after which it ends: it holds 100 MB


def request(target: Target, text: str) -> bytes:
    """The message that asks for an object."""
    return f"{target.triple}\n{target.cpu}\n{target.features}\n{text}".encode()


def send(stream: IO[bytes], data: bytes) -> None:
    """Write one length-prefixed message."""
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = struct.unpack("<Q", head)[0]
    data = stream.read(size)
    return data if len(data) == size else None


def answer(message: bytes) -> bytes:
    """Return the answer to a request."""
    triple, cpu, features, text = message.decode().split("\n", 3)
    try:
        return bytes([OK]) + emit_object(text, Machine(triple, cpu, features))
    except EmitError as error:
        return bytes([FAILED]) + str(error).encode()


def main(*descriptors: int) -> None:
    """Answer requests until the input ends, or nobody takes the answers. `descriptors`: where a
    second process is asked and answers, if there is to be one."""
    try:
        load_llvm()
    except MemoryError:
        return  # without a hello: who asked compiles by itself, and says what is missing
    try:
        _serve(_split(*descriptors) if descriptors else HELLO)
    except BrokenPipeError:
        # The process that asked has ended, or was interrupted while it started us.
        _leave()


def _split(requests: int, answers: int) -> bytes:
    """Go on as two processes, each with its own input and output; what each is to say first."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for the other
    child = os.fork() == 0
    if child:
        os.dup2(requests, sys.stdin.fileno())
        os.dup2(answers, sys.stdout.fileno())
    os.close(requests)
    os.close(answers)
    return HELLO + (b" %d" % os.getpid() if child else b"")


def _serve(hello: bytes) -> None:
    requests: SimpleQueue[bytes | None] = SimpleQueue()

    def read() -> None:
        while (message := receive(sys.stdin.buffer)) is not None:
            requests.put(message)
        requests.put(None)

    answers = sys.stdout.buffer
    send(answers, hello)
    threading.Thread(target=read, daemon=True).start()
    try:
        while (message := requests.get(timeout=PATIENCE)) is not None:
            send(answers, answer(message))
    except Empty:
        send(answers, GOODBYE)
        _leave()


def _leave() -> NoReturn:
    """End at once: an ordinary exit flushes a broken output, and takes the input from its thread.

    Python aborts the process if that thread is reading.
    """
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
