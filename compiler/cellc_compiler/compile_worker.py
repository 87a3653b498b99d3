"""A process that turns LLVM text into objects, asked over its standard input.

A request is the name of a target, a line feed and the text; an answer is a status byte and the
object, or the error text. Both are preceded by their length. The process ends when its input does.
Before the first request it says hello, so that a process that could not start is told from one
that LLVM ended. Requests are read while one is compiled: whoever sends them never waits.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from queue import SimpleQueue
from typing import IO

from cellc_runtime.target import TARGETS

from .emit_object import EmitError, emit_object

OK, FAILED = 0, 1
HELLO = b"cellc"


def request(target: str, text: str) -> bytes:
    """The message that asks for an object."""
    return f"{target}\n{text}".encode()


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
    """What is sent back for a request."""
    target, _, text = message.decode().partition("\n")
    try:
        return bytes([OK]) + emit_object(text, TARGETS[target])
    except EmitError as error:
        return bytes([FAILED]) + str(error).encode()


def main() -> None:
    """Answer requests until the input ends, or nobody takes the answers."""
    try:
        _serve()
    except BrokenPipeError:
        # Whoever asked is gone, or was interrupted while it started us. What is left in the
        # buffer must not fail again when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _serve() -> None:
    requests: SimpleQueue[bytes | None] = SimpleQueue()

    def read() -> None:
        while (message := receive(sys.stdin.buffer)) is not None:
            requests.put(message)
        requests.put(None)

    answers = sys.stdout.buffer
    send(answers, HELLO)
    threading.Thread(target=read, daemon=True).start()
    while (message := requests.get()) is not None:
        send(answers, answer(message))


if __name__ == "__main__":
    main()
