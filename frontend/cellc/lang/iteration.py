"""The sources that a loop, star or comprehension walks over.

The iterators of a program are Python's: they look at a list when they are asked, so a list that
changes meanwhile is seen as it is then. Theirs know their place, so that a journal can take a
step back (both branches of a run-time `if` start at the same one).
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from cellc_compiler.ir.dims import Dim

from ..core.module_names import is_exactly
from ..tensors.tensor import Tensor
from ..tracing.numbers import as_number
from ..tracing.pytree import RunObject
from ..tracing.reads import in_class, is_iterator
from . import _model
from .asking import asked_int
from .errors import CompileError
from .pieces import operations
from .protocols import checked
from .trust import is_own_class
from .values import MISSING, Position, RuntimeRange, Text, scalar, with_parts
from .world import refuse_iterators

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

LIMIT = 1_000_000  # Elements of a static loop before it is taken to be endless


class Rows(Sequence[Any]):
    """The rows of a tensor, each made when it is asked for."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        return self.tensor.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.tensor[index]

    def __iter__(self) -> Iterator[Any]:
        return (self.tensor[i] for i in range(len(self)))


_ITEMS: Any = type({}.items())
VIEWS: tuple[Any, ...] = (_ITEMS, type({}.keys()), type({}.values()))


class Walk:
    """An iterator of the program. It is also the slot of its place (see `journal.Slot`)."""

    __slots__ = ("place", "vm")

    def __init__(self, vm: Interpreter) -> None:
        self.vm = vm
        self.place: Any = Position(0)
        vm.fresh(self)

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError

    def _taken(self) -> int:
        """How many steps were made, before one more; -1 after the last."""
        if self.place is MISSING:
            self._unknown("how far an iterator has come depends on a condition known only at "
                          "run time")
        self.vm.note(self)
        taken: int = self.place.taken
        return taken

    def _unknown(self, message: str) -> NoReturn:
        frame = self.vm.frame
        assert frame is not None
        raise self.vm.error("CE404", TypeError, message, frame,
                            hint="take the element before the condition")

    def _over(self) -> NoReturn:
        self.place = Position(-1)
        raise StopIteration

    def leaves(self) -> list[Elements] | None:
        """The walks over sequences it reads, if all it does is to read them; else None."""
        return None

    def end(self) -> None:
        """Take what is left."""
        for _ in self:
            pass

    def key(self) -> Hashable:
        return "walk", id(self)

    def get(self) -> Any:
        return self.place

    def put(self, value: Any) -> None:
        self.place = value

    def owner(self) -> Any:
        return self

    def label(self) -> str:
        return "an iterator"


class Elements(Walk):
    """Over a sequence, from either end, with the length it has at each step. As Python's iterators
    of lists and tuples, it calls no `__len__` and `__getitem__` of a derived class."""

    __slots__ = ("first", "kind", "source", "step")

    def __init__(self, vm: Interpreter, source: Sequence[Any], backwards: bool = False) -> None:
        super().__init__(vm)
        self.source = source
        kind: Any = next((k for k in (list, tuple) if isinstance(source, k)), type(source))
        self.kind = kind
        length: int = kind.__len__(source)
        self.first, self.step = (length - 1, -1) if backwards else (0, 1)

    def __next__(self) -> Any:
        taken = self._taken()
        at = self.first + self.step * taken
        if taken < 0 or not 0 <= at < self.kind.__len__(self.source):
            self._over()
        self.place = Position(taken + 1)
        return self.kind.__getitem__(self.source, at)

    def end(self) -> None:
        self.vm.note(self)
        self.place = Position(-1)

    def leaves(self) -> list[Elements] | None:
        return [self]


_KEYED: tuple[Any, ...] = (OrderedDict, dict, set, frozenset)


class Keys(Walk):
    """Over a set, a dict or a view of one, whose keys must stay what they are.

    Raises:
        RuntimeError: the keys, or their order, are not what they were at the first step.
    """

    __slots__ = ("box", "keys", "native", "order", "own", "source")

    def __init__(self, vm: Interpreter, source: Any) -> None:
        super().__init__(vm)
        self.source = source
        self.box = getattr(source, "mapping", source)
        self.own: Any = next((k for k in _KEYED if isinstance(self.box, k)), type(self.box))
        self.keys = [*self.own.__iter__(self.box)]
        self._rewind(0)

    def _rewind(self, taken: int) -> None:
        self.native, self.order = iter(self.source), self.own.__iter__(self.box)
        for _ in range(taken):
            next(self.native)
            next(self.order)

    def __next__(self) -> Any:
        taken = self._taken()
        if taken < 0:
            raise StopIteration
        found = next(self.native, MISSING)  # refuses another size as Python does
        key = next(self.order, MISSING)
        if found is MISSING and taken == len(self.keys):
            self._over()
        if found is MISSING or taken == len(self.keys) or key is not self.keys[taken]:
            raise RuntimeError("dictionary keys changed during iteration")
        self.place = Position(taken + 1)
        return found

    def put(self, value: Any) -> None:
        self.place = value
        if value is not MISSING and self.own.__len__(self.box) == len(self.keys):
            self._rewind(value.taken)


class Through(Walk):
    """A builtin iterator that keeps nothing but the iterators it reads (`zip`, `map`, `filter`).

    Args:
        plain: it only reads them, and calls nothing of the program.
        gives: what a function that returns it gives: a list or tuple of its elements.
    """

    __slots__ = ("gives", "native", "plain", "under")

    def __init__(
        self, vm: Interpreter, native: Iterator[Any], under: Sequence[Walk], plain: bool,
        gives: type[list[Any] | tuple[Any, ...]] = list,
    ) -> None:
        super().__init__(vm)
        self.native, self.under, self.plain, self.gives = native, under, plain, gives

    def __next__(self) -> Any:
        return next(self.native)

    def leaves(self) -> list[Elements] | None:
        found: list[Elements] = []
        for walk in self.under if self.plain else ():
            inner = walk.leaves()
            if inner is None:
                return None
            found += inner
        return found or None


class Foreign(Walk):
    """Any other iterator. Its elements cannot be taken back, so none of its steps may be under a
    condition that only the run knows (except where it was made there)."""

    __slots__ = ("native",)
    native: Any

    def __init__(self, vm: Interpreter, native: Iterator[Any]) -> None:
        super().__init__(vm)
        self.native = native

    def __next__(self) -> Any:
        self._advance()
        return next(self.native)

    def _advance(self) -> None:
        """One step more.

        Raises:
            CompileTypeError: it might be undone.
            ValueError: there are too many.
        """
        journal = self.vm.journal
        if journal is not None and not (id(self) in journal.fresh and id(self.native)
                                        in journal.fresh):
            self._unknown(f"a {type(self.native).__name__} cannot be undone, so it cannot advance "
                          "under a condition known only at run time")
        taken = self._taken()
        if taken >= LIMIT:
            raise ValueError(f"the loop does not end: {type(self.native).__name__} gave {LIMIT} "
                             "elements")
        self.place = Position(taken + 1)


_SEQUENCES: tuple[Any, ...] = (list, tuple, range, str, bytes, np.ndarray)
_EMPTY: dict[Any, Any] = {}
_EMPTY_VIEWS: tuple[Any, ...] = (_EMPTY, _EMPTY.values(), _EMPTY.items(), frozenset())
_VIEWED = tuple(type(iter(view)) for view in _EMPTY_VIEWS)


def _is_sequence(value: Any) -> bool:
    """Whether a value is a sequence of Python's, and walked as such."""
    cls = type(value)
    return is_exactly(value, _SEQUENCES) or any(
        isinstance(value, k) and cls.__iter__ is k.__iter__ and cls.__getitem__ is k.__getitem__
        for k in _SEQUENCES
    )


def walk(vm: Interpreter, value: Any) -> Walk:
    """`iter(value)`; a tensor gives its rows.

    Raises:
        TypeError: it is not iterable, or its length depends on run-time values.
    """
    if isinstance(value, Walk):
        return value
    if vm.pieces is not None and is_exactly(value, (RunObject, RuntimeRange)):
        assert vm.frame is not None
        known = operations.items if type(value) is RunObject else operations.known_range
        return Elements(vm, known(vm, value, vm.frame))
    if isinstance(value, Tensor):
        if not value.shape:
            raise TypeError("iteration over a 0-d tensor")
        return Elements(vm, Rows(value))
    if isinstance(value, RuntimeRange):
        value = asked_range(vm, value)
    if isinstance(value, Text):
        raise TypeError("a string that holds tensors has no characters")
    if _is_sequence(value):
        return Elements(vm, value)
    assert vm.frame is not None
    refuse_iterators(vm, [value], vm.frame)
    if _model.is_cell(value):
        vm.report(value, "_cells")
    found = vm.special(value, "__iter__")
    if found is not None and not is_iterator(value):
        given = vm.call(found, [value], {}, vm.frame)
        if not isinstance(given, Walk) and not is_iterator(given):
            raise TypeError(f"iter() returned non-iterator of type '{type(given).__name__}'")
        return given if isinstance(given, Walk) else Foreign(vm, given)
    return _walk_natively(vm, value, vm.frame)


def _walk_natively(vm: Interpreter, value: Any, frame: Frame) -> Walk:
    if vm.special(value, "__getitem__") is not None and \
            in_class(type(value), "__iter__", None) is None:  # positions from 0 on
        return Elements(vm, vm.state.whole(vm, list, (value,), frame, lambda: list(value)))
    native = iter(value)
    if native is not value:
        vm.fresh(native)
        if is_exactly(native, _VIEWED):
            return Keys(vm, value)
    return Foreign(vm, native)


def returned(value: Any, depth: int = 4) -> Any:
    """Return a compiled function's result as MindSpore does: iterators and views of dicts become
    tuples or lists, since outside there is nothing to walk through."""
    if isinstance(value, Walk):
        elements = [returned(v) for v in value]
        return tuple(elements) if getattr(value, "gives", list) is tuple else elements
    if isinstance(value, VIEWS):
        elements = list(value)
        return elements if isinstance(value, _ITEMS) else tuple(elements)
    if type(value) is Dim:
        return as_number(scalar(value), int)
    return with_parts(value, lambda v: returned(v, depth - 1)) if depth else value


def asked_range(vm: Interpreter, source: RuntimeRange) -> range:
    """A range whose bounds only the run knows, as it is in this call."""
    return range(asked_int(vm, source.start), asked_int(vm, source.stop), source.step)


def asked_ranges(vm: Interpreter, value: Any, depth: int = 3) -> Any:
    """A value without ranges whose bounds only the run knows: those are asked."""
    if type(value) is RuntimeRange:
        return asked_range(vm, value)
    return with_parts(value, lambda v: asked_ranges(vm, v, depth - 1)) if depth else value


def backwards(vm: Interpreter, value: Any) -> Walk:
    """`reversed(value)`."""
    if isinstance(value, Tensor):
        return Elements(vm, Rows(value), backwards=True)
    if _is_sequence(value):
        return Elements(vm, value, backwards=True)
    return Foreign(vm, vm.fresh(reversed(value)))


def walked(vm: Interpreter, value: Any, how: Callable[[Interpreter, Any], Any]) -> Any:
    """An object of the user as what its `__iter__` gives, so that it is interpreted, for a function
    in C that walks through it; other values as they are."""
    if _model.is_cell(value) or is_iterator(value) or vm.special(value, "__iter__") is None:
        return value
    return how(vm, value)


def items(vm: Interpreter, value: Any) -> list[Any]:
    """All elements of anything iterable; a tensor gives its rows.

    Raises:
        TypeError: it is not iterable, or its length depends on run-time values.
    """
    return list(value) if is_exactly(value, (list, tuple)) else list(walk(vm, value))


def listed(vm: Interpreter, value: Any) -> list[Any]:
    """As `items`, where Python makes a list or a tuple of them: before the first element it asks an
    object for the length as a hint, which may have effects."""
    if is_exactly(value, (list, tuple)):
        return list(value)
    source = walk(vm, value)
    if is_own_class(type(value)):
        vm.catching += 1
        try:
            _ask_for_length(vm, value)
        finally:
            vm.catching -= 1
    return list(source)


def in_list(vm: Interpreter, box: Any, value: Any) -> Any:
    """The value that is put at the end of a list: the elements of an object of the user."""
    return listed(vm, value) if isinstance(box, list) and is_own_class(type(value)) else value


def _ask_for_length(vm: Interpreter, value: Any) -> None:
    """Call `__len__` or `__length_hint__` of an object: a TypeError means that it has none."""
    frame = vm.frame
    assert frame is not None
    for name in ("__len__", "__length_hint__"):
        found = vm.special(value, name)
        if found is None and in_class(type(value), name, None) is not None:
            return  # Python's own, without effects
        if found is None:
            continue
        try:
            hint = vm.call(found, [value], {}, frame)
            if name == "__len__":
                checked(name, hint)
                return
        except CompileError:
            raise
        except TypeError:
            vm.frame = frame
        else:
            operator.length_hint(type("Checked", (), {name: lambda _, hint=hint: hint})())


def ahead(source: Walk) -> tuple[list[Any], list[Sequence[Any]]] | None:
    """Return the future elements of a walk if nothing changes, and the sequences it reads; None if
    that is not known without running anything of the program."""
    leaves = source.leaves()
    if leaves is None or any(isinstance(leaf.source, (Rows, operations.RunItems))
                            for leaf in leaves):
        return None
    places = [leaf.place for leaf in leaves]
    try:
        return list(source), [leaf.source for leaf in leaves]
    finally:
        for leaf, place in zip(leaves, places, strict=True):
            leaf.place = place
