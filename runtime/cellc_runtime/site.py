"""Native call sites: functions over Tensors that answer usual calls without the interpreter.

The code is `cellc_site` of any image (`site.ll` of the compiler's `host`). A site learns cases
from calls that went the long way: what the arguments were, and the native entry that answers such
a call. A case is only ever added for what determines the call completely, so a site gives what its
Python callable would give.

`STATE` is read by every site: whether some thread traces or records (then calls are not usual),
and the tape of the one thread that records. The interpreter lock guards all of it.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .abi import SITE
from .executable import Executable
from .fastcall import MethodDef, canonical, native_function, structure
from .forks import renewed
from .lazy import lazy_imports
from .records import dataclass
from .words import Table

with lazy_imports(__name__):
    from . import methods

MAX_OPERANDS = 16
_CASES = 32  # Cases of one bucket; the oldest goes when one more comes
_FASTCALL_KEYWORDS = 0x80 | 0x02


_State, _Site, _Argument, _Case = map(structure, ("state", "site", "argument", "case"))


class Activity:
    """Counts what makes calls unusual, and lends a recording's tape to the sites."""

    def __init__(self) -> None:
        self.raw = _State()
        self.graph_mode = ctypes.c_int64(0)  # 1 while Cells run compiled
        self._lock = renewed(threading.Lock())
        # (a function of its own: what others declare of `pythonapi`'s does not change it)
        self._current = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))

    def begin(self) -> None:
        """Some thread starts to trace or to record."""
        with self._lock:
            self.raw.busy += 1

    def end(self) -> None:
        """It is done."""
        with self._lock:
            self.raw.busy -= 1

    def advance(self, weights_version: int) -> None:
        """Parameters have changed: the number of their present version (the highest given)."""
        with self._lock:
            self.raw.weights_version = max(self.raw.weights_version, weights_version)

    def idle(self) -> bool:
        """Whether no thread traces or records."""
        return bool(self.raw.busy == 0)

    def alone(self) -> bool:
        """Whether exactly one thread does, once."""
        return bool(self.raw.busy == 1)

    def lend(self, tape: list[Any] | None) -> None:
        """Calls of this thread go to `tape` (None: they are unusual); the caller keeps it."""
        with self._lock:
            self.raw.tape = None
            if tape is not None:
                self.raw.thread = self._current()
                self.raw.tape = id(tape)


STATE = Activity()


@dataclass(frozen=True, slots=True)
class Argument:
    """The requirement on one argument of a case."""

    # "same" (this very object), "equal" (its type and value, of a float its bits), "tensor" (a
    # tensor of a type), "any" (a tensor of any shape, for an entry that serves any), or "items" (a
    # tuple or list of such arguments, or a slice)
    kind: str
    value: Any  # the object; the numpy type and shape of the tensor; the numpy type; the arguments
    place: int = -1  # which operand of the entry it is, or -1
    # array, tensor: the operand that stands for an object
    array: Any = None
    tensor: Any = None
    made: type = tuple  # the type of "items"

    def operands(self) -> int:
        """How many operands of the entry it gives."""
        if self.kind == "items":
            return sum(a.operands() for a in self.value)
        return int(self.place >= 0)


@dataclass(frozen=True, slots=True)
class Taped:
    """How a call of several ops is answered while a thread records."""

    executable: Executable  # gives what every op gave, more than one array
    pick: int  # which of them is the result of the call


class _Kept:
    """A case in memory with all it points to."""

    def __init__(
        self, arguments: Sequence[Argument], kwnames: tuple[str, ...] | None,
        executable: Executable, info: object, params: Sequence[tuple[Any, Any]],
        weights_version: int, weak: object, several: bool, taped: Taped | None,
        words: Table | None,
    ) -> None:  # fmt: skip
        native = executable.native
        assert native is not None
        self.raw = raw = _Case()
        specs = (_Argument * max(len(arguments), 1))()
        pairs = (ctypes.c_void_p * max(2 * len(params), 1))(
            *(id(x) for pair in params for x in pair)
        )
        self.forgotten = False
        self.keep: list[Any] = [kwnames, executable, native, info, params, specs, pairs]
        self.keep += [a for a in arguments if a.value is not weak]
        for spec, argument in zip(specs, arguments, strict=False):
            self._fill(spec, argument)
        raw.nargs = len(arguments) - len(kwnames or ())
        raw.kwnames = id(kwnames) if kwnames else None
        raw.total = len(arguments)
        raw.arguments = ctypes.addressof(specs)
        raw.function, raw.capsule = native[0], id(native[1])
        raw.entry = id(executable.entry)
        raw.noperands = sum(a.operands() for a in arguments)
        raw.info = id(info)
        raw.params, raw.nparams = ctypes.addressof(pairs), len(params)
        raw.weights_version = weights_version
        raw.sized = int(bool(executable.program.broadcasts))
        raw.nouts = len(executable.program.of_kind("output"))
        raw.again = int(several)
        if words is not None:
            raw.words, raw.nwords, kept = words.raw
            self.keep += [kept, words]
        if not several:
            self._record_by(executable, -1)
        elif taped is not None:
            self._record_by(taped.executable, taped.pick)

    def _record_by(self, executable: Executable, pick: int) -> None:
        """Set the function that answers while a thread records."""
        native, raw = executable.native, self.raw
        assert native is not None
        self.keep += [executable, native]
        raw.tape_function, raw.tape_capsule = native[0], id(native[1])
        raw.tape_entry = id(executable.entry)
        raw.tape_nouts, raw.pick = len(executable.program.of_kind("output")), pick

    def _fill(self, spec: Any, argument: Argument) -> None:
        spec.place = argument.place
        if argument.kind == "items":
            items = (_Argument * max(len(argument.value), 1))()
            self.keep.append(items)
            for item, inner in zip(items, argument.value, strict=False):
                self._fill(item, inner)
            spec.kind = {tuple: 5, list: 6, slice: 7}[argument.made]
            spec.object, spec.ndim = id(argument.made), len(argument.value)
            spec.more = ctypes.addressof(items)
            return
        if argument.kind == "tensor":
            dtype, shape = argument.value
            dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
            self.keep.append(dims)
            spec.kind, spec.object = 1, id(dtype)
            spec.ndim, spec.more = len(shape), ctypes.addressof(dims)
            return
        if argument.kind == "any":
            spec.kind, spec.object = 3, id(argument.value)
            return
        spec.kind = 0 if argument.kind == "same" else 4 if type(argument.value) is float else 2
        spec.object, spec.more, spec.tensor = (
            id(argument.value), id(argument.array), id(argument.tensor)
        )


class Sites:
    """State that all sites share: the code, and how a Tensor holds its array.

    Args:
        home: any loaded program with a native entry; it is kept.
        tensor, parameter: the types whose instances are taken apart.
        sample: an instance, and `array`, which it holds.
    """

    def __init__(
        self, home: Executable, tensor: type, parameter: type, sample: object, array: object
    ) -> None:
        self.home = home
        self.types = tensor, parameter
        self.offset = _offset(sample, array)

    def usable(self) -> bool:
        """Whether Tensors are laid out so that a site can read them."""
        return self.offset > 0 and self.home.native is not None and _float_holds()

    def make(
        self, name: str, slow: Callable[..., Any], buckets: int = 1,
        guard: tuple[ctypes.c_int64, int] | None = None, plain: Callable[..., Any] | None = None,
    ) -> Site:
        """A site that falls back to `slow`; it is usual only while `guard` has its value.

        Args:
            buckets: a power of two: cases are spread by the identity of the first argument.
            plain: answers calls that are not usual (None: `slow` does).
        """
        return Site(self, name, slow, buckets, guard or (ctypes.c_int64(0), 0), plain or slow)


class Site:
    """One native function and its cases.

    Attributes:
        function: the function.
    """

    def __init__(
        self, sites: Sites, name: str, slow: Callable[..., Any], buckets: int,
        guard: tuple[ctypes.c_int64, int], plain: Callable[..., Any],
    ) -> None:
        self._kept: dict[int, list[_Kept]] = {}
        self._lock = renewed(threading.RLock())
        self._buckets = buckets
        self._table = (ctypes.c_void_p * buckets)()
        self._guard = guard[0]
        self._slow, self._plain = slow, plain
        raw = self._raw = _Site()
        raw.state = ctypes.addressof(STATE.raw)
        raw.slow, raw.plain, raw.ndarray = id(slow), id(plain), id(np.ndarray)
        raw.tensor, raw.parameter = (id(t) for t in sites.types)
        raw.offset = sites.offset
        raw.table, raw.mask = ctypes.addressof(self._table), buckets - 1
        raw.guard, raw.wanted = ctypes.addressof(guard[0]), guard[1]
        self._sites = sites
        self.function = self._make(name, sites.home.address(SITE))

    def _make(self, name: str, address: int) -> Callable[..., Any]:
        self._definition = MethodDef(name.encode(), address, _FASTCALL_KEYWORDS, None)
        return native_function(self._definition, self._raw, self)[0]

    def method(self) -> Any:
        """The function as something that binds when it is read from an instance."""
        return methods.bindable(self.function)

    def learn(
        self, arguments: Sequence[Argument], executable: Executable, info: object = None,
        kwnames: tuple[str, ...] | None = None, params: Sequence[tuple[Any, Any]] = (),
        first: int | None = None, weights_version: int = -1, weak: object = None,
        several: bool = False, taped: Taped | None = None, words: Table | None = None,
    ) -> Callable[[], None]:
        """Add a case, newest first; a function that takes it away again.

        Args:
            arguments: positional ones, then those of `kwnames`.
            executable: answers; operands in the order of `place`.
            info: what the tape gets before the result and the operands.
            params: (tensor, array it must still hold).
            first: address of the first argument, for more than one bucket.
            weights_version: the only one for which the case holds, or -1.
            weak: an argument that the case does not keep; the case goes when that does.
            words: have to be what they were; what they lie in is kept as long as the case is there.
            several: it answers for several ops: `plain` repeats a call that fails and names the
                place, and while a thread records `taped` answers (None: `plain` does).
        """
        case = _Kept(arguments, kwnames, executable, info, params, weights_version, weak, several,
                     taped, words)
        bucket = ((first or 0) >> 4) & (self._buckets - 1)
        with self._lock:
            self._kept.setdefault(bucket, []).insert(0, case)
            self._link(bucket)

        def forget() -> None:
            case.forgotten = True
            with self._lock:
                self._link(bucket)

        if weak is not None:
            case.keep.append(weakref.ref(weak, lambda _: forget()))
        return forget

    def _link(self, bucket: int) -> None:
        """Chain the cases of a bucket in memory. Other threads may be looking at the chain
        meanwhile, so a case that goes is freed only when none leads to it; what the collector
        runs may make one be forgotten meanwhile."""
        cases = self._kept[bucket]
        while True:
            stay = [case for case in cases if not case.forgotten][:_CASES]
            after: int | None = None
            for case in reversed(stay):
                case.raw.next = after
                after = ctypes.addressof(case.raw)
            self._table[bucket] = after
            if not any(case.forgotten for case in stay):
                break
        cases[:] = stay


def plain(array: Any) -> bool:
    """Whether an array is one that cases can match: exactly numpy's, of numpy's own type."""
    return type(array) is np.ndarray and canonical(array.dtype)


def _float_holds() -> bool:
    """Whether a float keeps its number where native code looks for it."""
    x = 1.25e-7
    return float.__basicsize__ == 24 and ctypes.c_double.from_address(id(x) + 16).value == x


def _offset(sample: object, array: object) -> int:
    """Where `sample` keeps its reference to `array`, or 0 if it is not found."""
    size = type(sample).__basicsize__
    words = (ctypes.c_void_p * (size // 8)).from_address(id(sample))
    places = [8 * i for i, word in enumerate(words) if word == id(array)]
    return places[0] if len(places) == 1 and places[0] >= 16 else 0
