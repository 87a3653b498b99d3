"""A stack machine that reads pickles without Python's unpickler, so that no code of a file runs.

A pickle is a program, and Python's machine calls what the program names; even `numpy.dtype` alone,
given a crafted state, reads beyond its arrays. The machine here knows the instructions that make
dicts, lists, tuples, numbers and texts, and refuses every other one. A subclass says which names a
file may use, and what calls of them make. Format: PEP 307, PEP 3154, comments of `pickletools`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cellc_runtime.errors import ArtifactError, CutOff

_MOST_BITS = 128  # Bits of an int


class Name(NamedTuple):
    """A function or class that a file names; it stands for itself and is never called."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:120]


class PickleMachine:
    """Runs the instructions of one pickle."""

    what = "data"  # The contents of a file, for errors
    most_steps = 1 << 20
    keys: tuple[type, ...] = (str,)  # The types of the keys of dicts

    def __init__(self) -> None:
        self.stack: list[Any] = []  # the values
        self.marks: list[int] = []  # the heights of the stack at which marks were set
        self.memo: dict[int, Any] = {}  # values that the file may use again, by its numbers

    # --- what a subclass says ---------------------------------------------------------------------

    def named(self, name: Name) -> Any:
        """Return the value that stands for a name, or raise."""
        raise ArtifactError(f"its pickle asks for {name}, which no {self.what} need")

    def called(self, function: Any, given: Any) -> Any:
        """Return the result of a call of a value that `named` gave."""
        raise ArtifactError(f"its pickle calls something that no {self.what} need")

    def build(self, target: Any, state: Any) -> None:
        """Give a value its state."""
        raise ArtifactError("its pickle sets the state of something that has none")

    def persistent(self, given: Any) -> Any:
        """Return the value of a persistent id."""
        raise ArtifactError(f"its pickle has a persistent id, which no {self.what} need")

    def old_text(self, text: bytes) -> Any:
        """Return a text of Python 2."""
        return text

    # --- running ----------------------------------------------------------------------------------

    def run(self, data: bytes) -> Any:
        """Return the object that a pickle makes. Raises ArtifactError if the pickle is damaged, or
        has an instruction that plain data need not."""
        steps = pickletools.genops(data)
        for _ in range(self.most_steps):
            code, value = _next(steps)
            if code.name == "STOP":
                return self.pop()
            action = _ACTIONS.get(code.name)
            if action is not None:
                action(self, value)
            elif code.name in _LITERALS:
                self.stack.append(value)
            else:
                raise ArtifactError(
                    f"its pickle has the instruction {code.name}, opcode {code.code.encode()!r}, "
                    f"which no {self.what} need")
        raise ArtifactError(f"its pickle has more than {self.most_steps} instructions")

    def pop(self) -> Any:
        """The top of the stack."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ArtifactError("its pickle is damaged: a value is missing")
        return self.stack.pop()

    def pops(self, count: int) -> list[Any]:
        """The values on top, the lowest first."""
        return [self.pop() for _ in range(count)][::-1]

    def above(self) -> list[Any]:
        """The values since the last mark."""
        if not self.marks:
            raise ArtifactError("its pickle is damaged: a mark is missing")
        height = self.marks.pop()
        found, self.stack[height:] = self.stack[height:], []
        return found

    def top(self, *kinds: type) -> Any:
        """The top of the stack, which must be of these types and stays there."""
        if not self.stack or not isinstance(self.stack[-1], kinds):
            raise ArtifactError("its pickle changes something that is no plain container")
        return self.stack[-1]

    def put(self, key: Any) -> None:
        """Note the top of the stack; without a key (MEMOIZE) under the next number."""
        self.memo[len(self.memo) if key is None else key] = self.top(object)

    def get(self, key: int) -> None:
        """Push a value that was noted."""
        if key not in self.memo:
            raise ArtifactError("its pickle is damaged: it reads a value that it has not stored")
        self.stack.append(self.memo[key])

    def pairs(self, many: list[Any]) -> dict[Any, Any]:
        """A dict of keys and values that follow each other."""
        keys, values = many[::2], many[1::2]
        if len(keys) != len(values) or not all(isinstance(k, self.keys) for k in keys):
            raise ArtifactError("its pickle has a dict whose keys are no texts or numbers")
        return dict(zip(keys, values, strict=True))

    def extend(self, many: list[Any]) -> None:
        """Append values to the list below them."""
        self.top(list).extend(many)

    def update(self, many: list[Any]) -> None:
        """Enter keys and values into the dict below them."""
        self.top(dict).update(self.pairs(many))

    def set_state(self, state: Any) -> None:
        """Give the top of the stack its state."""
        self.build(self.top(object), state)

    def find(self, module: Any, name: Any) -> None:
        """Push what a name stands for."""
        if not isinstance(name, str) or not isinstance(module, str):
            raise ArtifactError("its pickle is damaged: a name is no text")
        self.stack.append(self.named(Name(module, name)))

    def call(self) -> None:
        """Push the result of a call."""
        function, given = self.pops(2)
        self.stack.append(self.called(function, given))

    def long(self, value: int) -> None:
        """Push an int of several bytes."""
        if value.bit_length() > _MOST_BITS:
            raise ArtifactError("its pickle has an int of more than 16 bytes")
        self.stack.append(value)


def _next(steps: Iterator[Any]) -> tuple[Any, Any]:
    try:
        code, value, _ = next(steps)
    except (ValueError, IndexError, OverflowError, StopIteration, Warning) as error:
        # (`pickletools` warns of escapes in texts that it does not know.)
        raise CutOff(f"its pickle is cut off, or damaged: {error}") from None
    return code, value


_LITERALS = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "BINFLOAT", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"))
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}


def _push(make: Callable[[], Any]) -> Callable[[PickleMachine, Any], None]:
    return lambda m, _: m.stack.append(make())


_ACTIONS: dict[str, Callable[[PickleMachine, Any], Any]] = {
    "PROTO": lambda m, _: None, "FRAME": lambda m, _: None,
    **{name: _push(make) for name, make in _CONSTANTS.items()},
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"),  # (pickletools gives str)
                    lambda m, text: m.stack.append(m.old_text(text.encode("latin-1")))),
    "LONG1": lambda m, value: m.long(value),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.above())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.pops(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.pops(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.pops(3))),
    "LIST": lambda m, _: m.stack.append(m.above()),
    "DICT": lambda m, _: m.stack.append(m.pairs(m.above())),
    "APPEND": lambda m, _: m.extend(m.pops(1)), "APPENDS": lambda m, _: m.extend(m.above()),
    "SETITEM": lambda m, _: m.update(m.pops(2)), "SETITEMS": lambda m, _: m.update(m.above()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), PickleMachine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), PickleMachine.get),
    "GLOBAL": lambda m, names: m.find(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.find(*m.pops(2)),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.set_state(m.pop()),
    "BINPERSID": lambda m, _: m.stack.append(m.persistent(m.pop())),
}
