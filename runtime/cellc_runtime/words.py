"""Words of memory that tell whether an object of the interpreter is what it was.

CPython gives a class a new version number when an attribute of it or of a base changes, and a
dictionary one with every change. A function, a captured variable and an instance point to what they
hold. So a handful of loads answers whether Python would find the same values again: about a
nanosecond each, where a comparison in Python takes 50. That keeps a call of a small network at its
speed (0.6 us), though everything that it read from Python is checked.

The places are CPython's, not a documented interface. `_supported` tries every one of them on live
objects once; whatever this interpreter does differently has no words (None), and its user compares
in Python. A word is only read while its object lives: whoever keeps words keeps the object.
"""

from __future__ import annotations

import ctypes
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from .abi import WORDS
from .executable import Executable
from .fastcall import MethodDef, native_function, structure, supported

_METH_NOARGS = 0x4
_MANAGED = 1 << 4
"""The flag of types whose instances hold a reference to their `__dict__` before their head."""
_INLINE = 1 << 2
"""The flag of types whose instances hold the values of their attributes after themselves (3.13)."""
_WHOLE, _HALF = (1 << 64) - 1, (1 << 32) - 1
_TYPE, _DICT, _TAG, _BEFORE = 8, 24, 384, -24
_CODE, _DEFAULTS, _KEYWORD_DEFAULTS = 48, 56, 64
_KEYS, _SPLIT, _HELD = 32, 40, 16
_HEAD, _ENTRIES = 32, 24
"""Bytes of the head of a dictionary's keys, and where in it the number of entries in use is."""

Word = tuple[int, int, int]  # An address, which bits of the 8 bytes there count, and what they are


def _at(address: int) -> int:
    return int(ctypes.c_uint64.from_address(address).value)


def _word(address: int, mask: int = _WHOLE) -> Word:
    return address, mask, _at(address) & mask


@cache
def _supported() -> frozenset[str]:
    """Return the keys of `_TRIALS` that have words on this interpreter."""
    if not supported():
        return frozenset()
    return frozenset(kind for kind, tried in _TRIALS.items() if tried())


def of_class(cls: type) -> list[Word] | None:
    """Words that change when an attribute of a class or of one of its bases does."""
    return _of_class(cls) if "class" in _supported() else None


def _of_class(cls: type) -> list[Word] | None:
    getattr(cls, "__hash__", None)  # a look-up gives a class without a version number its next one
    word = _word(id(cls) + _TAG, _HALF)
    return [word] if word[2] else None


def of_dict(table: dict[Any, Any]) -> list[Word] | None:
    """Words that change when a dictionary does (but for the order of an OrderedDict)."""
    return [_word(id(table) + _DICT)] if "dict" in _supported() else None


def of_instance(owner: object, table: dict[str, Any]) -> list[Word] | None:
    """Words that change when `table`, the `__dict__` of `owner`, or its class is replaced, or when
    `table` changes."""
    return _of_instance(owner, table) if "instance" in _supported() else None


def _of_instance(owner: object, table: dict[str, Any]) -> list[Word] | None:
    held = id(owner) + (_BEFORE if type(owner).__flags__ & _MANAGED else type(owner).__dictoffset__)
    if held == id(owner) or _at(held) != id(table):
        return None
    return [_word(id(owner) + _TYPE), _word(held), _word(id(table) + _DICT), *_inline(owner)]


def _inline(owner: object) -> list[Word]:
    """Words of the values that an instance holds itself: how many there are, and each of them."""
    if not type(owner).__flags__ & _INLINE:
        return []
    place = id(owner) + type(owner).__basicsize__
    head = _word(place, _HALF)
    capacity, _, _, valid = head[2].to_bytes(4, "little")
    values = [_word(place + 8 * i) for i in range(1, capacity + 1)] if valid else []
    return [head, *(word for word in values if word[2])]


def of_type(owner: object) -> list[Word] | None:
    """Words that change when an object gets another class."""
    return [_word(id(owner) + _TYPE)] if "type" in _supported() else None


def of_name(table: dict[str, Any], name: str) -> list[Word] | None:
    """Words that change when the value of a name in a module's dictionary does, or when it comes
    there; changes of other names leave most of them alone."""
    return _of_name(table, name) if "name" in _supported() else None


def _of_name(table: dict[str, Any], name: str) -> list[Word] | None:
    place = id(table)
    if type(table) is not dict or _at(place + _SPLIT):
        return None
    keys = _at(place + _KEYS)
    words = [_word(place + _SPLIT), _word(place + _KEYS), _word(keys + 8, _HALF >> 8)]
    sizes = words[2][2]
    if name not in table:
        return [*words, _word(keys + _ENTRIES)]
    index_bytes, kind = (sizes >> 8) & 0xFF, (sizes >> 16) & 0xFF
    step, key_at = (16, 0) if kind else (24, 8)
    first = keys + _HEAD + (1 << index_bytes)
    own = id(next(k for k in table if k == name))
    for entry in range(first, first + step * _at(keys + _ENTRIES), step):
        if _at(entry + key_at) == own:
            return [*words, _word(entry + key_at), _word(entry + key_at + 8)]
    return None


def of_function(fn: types.FunctionType) -> list[Word] | None:
    """Words that change when a function's code or defaults are replaced."""
    return _of_function(fn) if "function" in _supported() else None


def _of_function(fn: types.FunctionType) -> list[Word]:
    return [_word(id(fn) + place) for place in (_CODE, _DEFAULTS, _KEYWORD_DEFAULTS)]


def of_cell(cell: types.CellType) -> list[Word] | None:
    """Words that change when a captured variable does."""
    return [_word(id(cell) + _HELD)] if "cell" in _supported() else None


# --- whether this interpreter has them -----------------------------------------------------------


def _differs(words: Callable[[], list[Word] | None], *changes: Callable[[], object]) -> bool:
    """Whether words stay the same without a change and are others after each of these."""
    for change in changes:
        before = words()
        if before is None or words() != before:
            return False
        change()
        if words() == before:
            return False
    return True


def _try_class() -> bool:
    base = type("Base", (), {"a": 1})
    cls = type("Derived", (base,), {"b": 1})
    return _differs(lambda: _of_class(cls), lambda: setattr(cls, "b", 2),
                    lambda: setattr(base, "a", 2), lambda: delattr(cls, "b"),
                    lambda: setattr(cls, "c", 1))


def _try_dict() -> bool:
    def kept(table: dict[Any, Any]) -> bool:
        return _differs(lambda: [_word(id(table) + _DICT)], lambda: table.update(a=2),
                        lambda: table.pop(2), lambda: table.setdefault("b", 1), table.clear,
                        lambda: table.update(c=1))

    return kept({"a": 1, 2: 3}) and kept(OrderedDict({"a": 1, 2: 3}))


def _try_instance() -> bool:
    class Plain:
        a: int

    class Sized(dict[str, int]):
        a: int

    def kept(owner: Any) -> bool:
        owner.a = 1
        return _differs(lambda: _of_instance(owner, owner.__dict__),
                        lambda: setattr(owner, "a", 2),
                        lambda: object.__setattr__(owner, "a", 3),
                        lambda: owner.__dict__.update(a=4), lambda: setattr(owner, "b", 1),
                        lambda: delattr(owner, "b"),
                        lambda: setattr(owner, "__class__", type("O", (type(owner),), {})),
                        lambda: setattr(owner, "__dict__", {"a": 4}))

    return kept(Plain()) and kept(Sized())


def _try_type() -> bool:
    module = types.ModuleType("module")
    kind = type("Kind", (types.ModuleType,), {})
    return _differs(lambda: [_word(id(module) + _TYPE)], lambda: setattr(module, "__class__", kind))


def _try_name() -> bool:
    names: dict[str, Any] = {"a": 1, "b": 2}
    mixed: dict[Any, Any] = {"a": 1, 5: 2}

    def kept(table: dict[Any, Any]) -> bool:
        return _differs(lambda: _of_name(table, "a"), lambda: table.update(a=3),
                        lambda: table.pop("a"), lambda: table.update(a=1))

    return kept(names) and kept(mixed) and _differs(
        lambda: _of_name(names, "z"), lambda: names.update(z=1))


def _try_function() -> bool:
    def example(x: int = 1, *, y: int = 2) -> int:
        return x + y

    fn: Any = example
    return _differs(lambda: _of_function(fn), lambda: setattr(fn, "__defaults__", (3,)),
                    lambda: setattr(fn, "__kwdefaults__", {"y": 3}),
                    lambda: setattr(fn, "__code__", fn.__code__.replace(co_name="other")))


def _try_cell() -> bool:
    cell = types.CellType(1)
    return _differs(lambda: [_word(id(cell) + _HELD)], lambda: setattr(cell, "cell_contents", 2))


_TRIALS = {"class": _try_class, "dict": _try_dict, "instance": _try_instance, "type": _try_type,
           "name": _try_name, "function": _try_function, "cell": _try_cell}


# --- tables of them ------------------------------------------------------------------------------


_Words, _Word = map(structure, ("words", "word"))


class Table:
    """Words that are compared by native code.

    Args:
        words: the words; who makes the table keeps the objects that they lie in.
        home: any loaded program with a native entry; it is kept.
    """

    def __init__(self, words: Sequence[Word], home: Executable) -> None:
        self._words = (_Word * max(len(words), 1))()
        self._home = home
        self._raw = _Words()
        self._raw.words, self._raw.count = ctypes.addressof(self._words), len(words)
        self.put(0, words)
        self._definition = MethodDef(b"first_changed", home.address(WORDS), _METH_NOARGS, None)
        self.first_changed: Callable[[], int] = native_function(
            self._definition, self._raw, (self._words, self._raw, self._definition, home))[0]
        """The position of the first word that is not what it was; -1 if all are."""

    def put(self, first: int, words: Sequence[Word]) -> None:
        """Replace words from a position on."""
        for i, (address, mask, value) in enumerate(words, first):
            word = self._words[i]
            word.mask = 0  # another thread may be comparing: never a new address with an old value
            word.at, word.value = address, value
            word.mask = ctypes.c_int64(mask).value

    @property
    def raw(self) -> tuple[int, int, Any]:
        """The address of the words and their number for native code, and what keeps them."""
        return self._raw.words, self._raw.count, self._words


def anything(word: Word) -> Word:
    """A word at the same place that holds whatever is there."""
    return word[0], 0, 0
