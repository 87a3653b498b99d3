"""A process that turns LLVM text into objects, asked over its standard input.

A request is a JSON header and the text; an answer is a status byte and the object, or the error
text. Both are preceded by their length. The process ends when its input does.
Before the first request it says hello, so that a process that could not start is told from one
that LLVM ended.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import IO

from cellc_runtime.target import TARGETS

from .emit_object import EmitError, emit_object

OK, FAILED = 0, 1
HELLO = b"cellc"


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


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    send(answers, HELLO)
    while (request := receive(requests)) is not None:
        target, text = json.loads(request)
        try:
            answer = bytes([OK]) + emit_object(text, TARGETS[target])
        except EmitError as error:
            answer = bytes([FAILED]) + str(error).encode()
        send(answers, answer)


if __name__ == "__main__":
    main()
