"""The wire format of Protocol Buffers, as far as checkpoints, strategy files and TFRecords have it.

A message is a row of fields; each has a number and is a varint, 4 or 8 bytes, or a length and that
number of bytes: a text or a message in turn. Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .errors import ArtifactError, CutOff

Content = int | memoryview  # Of a field: a number, or bytes
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def field_of(number: int, content: bytes) -> bytes:
    """A field that holds a text or a message."""
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def number_of(number: int, value: int) -> bytes:
    """A field that holds an int, negative ones as 64 bits of two's complement."""
    return varint(number << 3 | _VARINT) + varint(value % (1 << 64))


def varint(n: int) -> bytes:
    """A number of zero or more, 7 bits to a byte, the low ones first."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


class Message:
    """Fields of one message, none of them beyond its end."""

    def __init__(self, view: memoryview, what: str) -> None:
        self.view, self.what = view, what

    def bad(self, why: str, kind: type[ArtifactError] = ArtifactError) -> ArtifactError:
        """An error about this file."""
        return kind(f"the {self.what} is damaged or of another format: {why}")

    def varint(self, at: int) -> tuple[int, int]:
        """The number at a place, and where it ends."""
        n = shift = 0
        view = self.view
        while at < len(view) and shift < 70:
            byte = view[at]
            n |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return n & (1 << 64) - 1, at
        raise self.bad("a number has no end", CutOff)

    def packed(self) -> list[int]:
        """The numbers of a repeated field that is written in one piece."""
        out, at = [], 0
        while at < len(self.view):
            number, at = self.varint(at)
            out.append(number)
        return out

    def fields(self) -> Iterator[tuple[int, Content]]:
        """Number and content of each field, in their order."""
        at = 0
        while at < len(self.view):
            key, at = self.varint(at)
            kind = key & 7
            if kind == _VARINT:
                number, at = self.varint(at)
                yield key >> 3, number
                continue
            if kind == _BYTES:
                size, at = self.varint(at)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise self.bad(f"field {key >> 3} is of the unknown kind {kind}")
            if size > len(self.view) - at:
                raise self.bad(
                    f"it claims {size} bytes where {len(self.view) - at} are left", CutOff)
            yield key >> 3, self.view[at : at + size]
            at += size

    def inner(self, content: Content) -> Message:
        """The message that a field holds."""
        return Message(self.bytes(content), self.what)

    def bytes(self, content: Content) -> memoryview:
        """The bytes that a field holds."""
        if isinstance(content, int):
            raise self.bad("a number where a message or a text belongs")
        return content

    def text(self, content: Content) -> str:
        """The text that a field holds."""
        try:
            return str(self.bytes(content), "utf-8")
        except UnicodeDecodeError:
            raise self.bad("a name is not UTF-8") from None


def signed_numbers(message: Message, contents: Iterable[Content]) -> list[int]:
    """The numbers, with signs, in the contents of a repeated field of a message, packed or not."""
    numbers = (n for content in contents for n in (
        [content] if isinstance(content, int) else message.inner(content).packed()))
    return [n - (1 << 64) if n >> 63 else n for n in numbers]
