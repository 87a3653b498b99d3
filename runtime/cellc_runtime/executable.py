"""A program that can be called: validation, arenas, bound parameters, error codes.

`Executable.entry` is the fast way in (a native function for the usual call), and everything
here is the way for the unusual one: it accepts what can be converted without surprise and
explains what cannot.
"""

from __future__ import annotations

import ctypes
import math
import operator
import threading
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from . import dtypes, fastcall
from .abi import CALLBACK_FAILED, CHECK_FAILED, DEVICE_FAILED, ENTRY, LARGE, MAIN
from .device import Device, Memory, device_of
from .device_array import DeviceArray, allocate, on_device, on_host
from .dtypes import Array, DType
from .errors import counted, message_text, run_error
from .lazy import lazy_imports
from .loader import Host
from .prepacking import Blocks, Source
from .program import Callback, Program, Slot
from .records import dataclass, field
from .shape_polymorphic import measure

with lazy_imports(__name__):
    from . import collectives

Elements = Array | DeviceArray
"""Inputs and results of programs."""
HostFunction = Callable[..., object]
_Slots = list[tuple[int, Slot]]

_RELEASE_CYCLES = 30_000.0
"""A program this long (about 10 us) repays releasing the interpreter lock (about 0.1 us, and the
risk of waiting for it)."""


class Executable:
    """A program loaded into this process.

    Args:
        program: what to run.
        callbacks: the host function of each of the program's callbacks, by name. It is called
            with arrays that are views of the program's memory, valid during the call only:
            inputs (read-only) and then outputs (to be written).
        errors: how run-time errors of the program are raised.
        accept: converts the arguments of a call that the native entry does not take as they are.
        like: an executable of the same program at other sizes, whose code in memory serves.

    Raises:
        ValueError: this machine cannot run the program's target, or a callback is missing.
        NoDevice: the program is for a GPU, and there is none.
        MemoryError: the device has no room for it.

    A program for a device with memory of its own gives `DeviceArray`s, and takes those and arrays
    of the host, which are copied in. A call of it does not wait for the device.
    """

    def __init__(
        self, program: Program, callbacks: Mapping[str, HostFunction] | None = None,
        errors: Errors | None = None,
        accept: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
        like: Executable | None = None,
    ) -> None:
        if program.open is not None:
            raise ValueError(f"program {program.name!r} has open sizes: run it at certain ones, "
                             "Program.at(sizes)")
        device = device_of(program.target)
        device.check_usable()
        device.check(program)
        kind = _DeviceCore if device.own_memory else \
            _ShapePolymorphicCore if program.broadcasts else _Core
        self._core: _Core = kind(program, callbacks or {}, errors or Errors(), device,
                                 None if like is None else like._core)
        self._core.accept = accept
        # `entry(*inputs)` -> one array, or a tuple of arrays
        self.entry: Callable[..., Any] = self._core.make_entry()

    @property
    def program(self) -> Program:
        """The program."""
        return self._core.program

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._core._device

    @property
    def params(self) -> tuple[Elements | None, ...]:
        """The bound parameters; None for a `Source` that no call reads."""
        return self._core.params

    @property
    def states(self) -> dict[str, Elements]:
        """The executable's own state, by slot name; write into the arrays to set it."""
        return dict(self._core.states)

    def bind(
        self, params: Sequence[Elements | Source], versions: Sequence[int] | None = None
    ) -> None:
        """Use these arrays for the `param` slots, in order, from the next call on.

        A parameter that the program updates is written in place, so it must be an array it can
        write: contiguous, native byte order, aligned, writeable and apart from the others. Others
        may be anything of the right type and shape; what is not laid out right is copied now.

        Blocks computed from parameters alone (packed weights, say) are computed now, so bind again
        after the contents of one have changed. With `versions`, one number for each array that
        changes when its contents do, executables that compute the same share it. A `Source` is
        asked for its array where needed, and notified when it no longer is.

        On a device with memory of its own, an array of the host is copied there now; what a call
        updates is in `params` then.

        Raises:
            TypeError, ValueError: which parameter is wrong, what was expected and what came.
        """
        self._core.bind(params, versions)

    def bind_like(self, other: Executable) -> bool:
        """Use the parameters, and the blocks computed from them, that an executable of the same
        program at other sizes uses; whether these serve both."""
        return self._core.bind_like(other._core)

    def call(
        self, arrays: Sequence[Elements], out: Sequence[Array | None] = ()
    ) -> list[Any]:
        """Run on these inputs; the outputs, as a list.

        Args:
            out: on the processor, arrays for the outputs (None: a new one), apart from the inputs;
                a large one begins at a multiple of 64 bytes.

        Raises:
            TypeError, ValueError: which argument is wrong, what was expected and what came.
            RunError: the program stopped with an error of the user's making.
        """
        return self._core.call(arrays, out)

    @property
    def native(self) -> tuple[int, object] | None:
        """The address of the native entry's code and its context, or None if there is none."""
        context = self._core._context
        if context is None or self.entry is self._core:
            return None
        return self._core.address(ENTRY), context.capsule

    def timed(self) -> Callable[[], list[tuple[int, float]]]:
        """Time each launch of a kernel from now on; see `Device.timed`."""
        return self.device.timed(self._core._code)

    def address(self, symbol: str) -> int:
        """Where a function of the image is."""
        return self._core.address(symbol)

    def arena(self, start: int, nbytes: int) -> bytes:
        """A copy of bytes of the arena that the last `call` ran in (a profile's records, say).

        Raises:
            ValueError: they are outside the arena, or `call` has not run yet.
        """
        return self._core.arena(start, nbytes)

    def __call__(self, *arrays: Elements) -> Any:
        """`entry`, for those who hold the executable."""
        return self.entry(*arrays)


class _Core:
    """The callable part of an executable. The native entry keeps it alive, so it must not refer to
    the entry."""

    accept: Callable[[Sequence[Any]], Sequence[Any]] | None = None

    def __init__(
        self, program: Program, callbacks: Mapping[str, HostFunction], errors: Errors,
        device: Device, like: _Core | None,
    ) -> None:
        self.program = program
        self._device = device
        self._inputs: _Slots
        self._outputs: _Slots
        self._params: _Slots
        self._written: set[int]
        self.states: dict[str, Any] = {}
        self._raise = _Raise(program, errors, device)
        hosts = [self._host(c, callbacks) for c in program.callbacks]
        if like is None or hosts or like.program.image is not program.image:
            self._code = device.load(program, hosts)
        else:
            self._code = like._code
        self._consts = self._room(len(program.constants), "the constants")
        if program.constants:
            device.copy(self._consts.address, program.constants)
        self._arenas: list[Memory] = []
        similar = like
        if like is None or like.states or not _same_but_data(program, like.program):
            similar = None
        self._sort_slots(similar)
        self.params: tuple[Any, ...] = ()
        self._given: tuple[Any, ...] = ()
        # A source on a device keeps its elements; elsewhere what no call reads may go.
        self._absent = frozenset(() if device.own_memory else program.unread)
        self._blocks = Blocks(program, self._fill, device)
        self._bound: tuple[tuple[object, ...], list[tuple[int, int]], list[tuple[int, int]]]
        self._context: fastcall.Context | None = None
        self._ready = False
        if self._code.native:
            self._context = fastcall.Context(
                program, self._code.address(MAIN), self._consts.address, self, self._raise,
                None if similar is None else similar._context)
        if not self._params:
            self.bind(())

    def _sort_slots(self, like: _Core | None) -> None:
        """Set the lists of slots by kind, and make the state; `like` has such slots and no state,
        but other shapes of inputs and outputs."""
        slots = self.program.slots
        if like is not None:
            self._inputs, self._outputs = ([(i, slots[i]) for i, _ in given]
                                           for given in (like._inputs, like._outputs))
            self._params, self._written = like._params, like._written
            return
        self._inputs, self._outputs, self._params = (
            [(i, s) for i, s in enumerate(slots) if s.kind == kind]
            for kind in ("input", "output", "param"))
        self._written = {s.alias for s in slots if s.alias is not None}
        self.states = {s.name: self._zeros(s) for s in slots if s.kind == "state"}

    def address(self, symbol: str) -> int:
        """Where a function of the image is."""
        return self._code.address(symbol)

    def _room(self, nbytes: int, what: str) -> Memory:
        """Memory for the program."""
        return allocate(self._device, nbytes, f"{what} of program {self.program.name!r}")

    def _zeros(self, slot: Slot) -> Any:
        """The elements of a state at first."""
        return np.zeros(slot.shape, slot.dtype.numpy)

    def _host(self, callback: Callback, given: Mapping[str, HostFunction]) -> Host:
        function = given.get(callback.name)
        if function is None and collectives.is_collective(callback.name):
            function = collectives.callback(callback.name)
        if function is None:
            raise ValueError(
                f"program {self.program.name!r} calls back {callback.name!r}: pass it in callbacks"
            )
        return _HostCall(callback, function, self._raise)

    def make_entry(self) -> Callable[..., Any]:
        """The native entry, or this object where there is none for these slots."""
        # An input written in place could be another input too: the Python path compares them.
        if self._context is None or any(i in self._written for i, _ in self._inputs):
            return self
        return self._context.function(self.program.name, self._code.address(ENTRY), self)

    # --- parameters -------------------------------------------------------------------------

    def bind(
        self, params: Sequence[Elements | Source], versions: Sequence[int] | None = None
    ) -> None:
        if len(params) != len(self._params):
            raise TypeError(
                f"program {self.program.name!r} has {counted(len(self._params), 'parameter')}, "
                f"got {len(params)}"
            )
        # First of all: elements that are written from now on are of other contents.
        keys = {i: p.key() for p, (i, _) in zip(params, self._params, strict=True)
                if isinstance(p, Source)}
        sources = {i: p for p, (i, _) in zip(params, self._params, strict=True)
                   if isinstance(p, Source) and i in self._absent}
        given = tuple(
            None if i in sources else p.array() if isinstance(p, Source) else p
            for p, (i, _) in zip(params, self._params, strict=True)
        )
        arrays = self._accept_all(given, sources)
        keep = (*(a for a in arrays if a is not None), *self.states.values())
        places = [i for a, (i, _) in zip(arrays, self._params, strict=True) if a is not None]
        places += [i for i, s in enumerate(self.program.slots) if s.kind == "state"]
        addresses = [(i, _address(a)) for i, a in zip(places, keep, strict=True)]
        ranges = [(at, at + self.program.slots[i].nbytes, i) for i, at in addresses]
        self._refuse_overlaps(ranges)
        written = [(lo, hi) for lo, hi, i in ranges if i in self._written and hi > lo]
        blocks = self._blocks.bind(
            dict(addresses), {**self._keys(params, versions, dict(addresses)), **keys}, sources,
            lambda i: self._accept(sources[i].array(), *self._described_slot(i)),
        )
        first = len(self.program.slots) - len(blocks)
        addresses += [(first + n, block.address) for n, block in enumerate(blocks)]
        previous = getattr(self, "_bound", None)
        self._bound = ((*keep, *blocks), addresses, written)
        self._given, self.params, self._ready = given, arrays, True
        if self._context is not None:
            self._context.bind(self._bound[0], addresses, written, self._release())
        del previous  # the native entry may have used it up to here

    def bind_like(self, other: _Core) -> bool:
        """See `Executable.bind_like`."""
        if not other._ready or self.states or self._device.own_memory \
                or not _same_but_data(self.program, other.program):
            return False
        self._bound, self._given, self.params = other._bound, other._given, other.params
        self._ready = True
        if self._context is not None and other._context is not None:
            self._context.bind_like(other._context, self._bound[0], self._release())
        return True

    def _release(self) -> int:
        """Whether a call repays releasing the interpreter lock; see `Context.bind`."""
        return int(self.program.cost >= _RELEASE_CYCLES or bool(self.program.callbacks))

    def _accept_all(self, given: Sequence[Any], sources: Mapping[int, Source]) -> tuple[Any, ...]:
        """The arrays, checked, and copied where they are not laid out right."""
        old = zip(self._given, self.params, strict=True) if self._ready else ()
        # Keyed by identity, and only arrays whose layout cannot have changed since: themselves.
        kept = {id(g): p for g, p in old if g is p and p is not None and _direct(p)}
        arrays: list[Any] = []
        for array, (index, slot) in zip(given, self._params, strict=True):
            if index in sources:
                _check_type(sources[index], slot, self._described_slot(index)[2])
                arrays.append(None)
            elif array is not None and id(array) in kept and _suits(slot, array):
                arrays.append(kept[id(array)])
            else:
                arrays.append(self._accept(array, *self._described_slot(index)))
        return tuple(arrays)

    def _described_slot(self, index: int) -> tuple[Slot, bool, str]:
        """Return the facts about a parameter that `_accept` checks."""
        slot = self.program.slots[index]
        return slot, index in self._written, f"parameter {slot.name!r}"

    def _keys(
        self, params: Sequence[Elements | Source], versions: Sequence[int] | None,
        addresses: Mapping[int, int],
    ) -> dict[int, Hashable | None]:
        """Return keys of the arrays' contents, by slot."""
        # While a block lives so do the arrays it was computed from, at their addresses.
        return {
            index: None if versions is None else (addresses[index], versions[number])
            for number, (p, (index, _)) in enumerate(zip(params, self._params, strict=True))
            if not isinstance(p, Source)
        }

    def _fill(self, number: int, addresses: Mapping[int, int]) -> None:
        """Run the part of `cellc_ahead` that fills a block."""
        slots = (ctypes.c_void_p * len(self.program.slots))()
        for index, address in addresses.items():
            slots[index] = address
        arena = self._room(self.program.precompute_arena_bytes, "what is computed ahead")
        code = self._code.precompute(
            ctypes.addressof(slots), arena.address, self._consts.address, number
        )
        self._device.wait()
        if code:
            self._raise(code, arena.address)

    def _refuse_overlaps(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        last, owner = 0, -1
        for lo, hi, index in sorted(r for r in ranges if r[1] > r[0]):
            if lo < last and (index in self._written or owner in self._written):
                one, two = self.program.slots[owner].name, self.program.slots[index].name
                raise ValueError(f"parameters {one!r} and {two!r} share memory that is updated")
            if hi > last:
                last, owner = hi, index

    # --- calls ------------------------------------------------------------------------------

    def __call__(self, *arrays: Elements) -> Any:
        outputs = self.call(arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def call(self, arrays: Sequence[Elements], out: Sequence[Array | None] = ()) -> list[Any]:
        if self.accept is not None:
            arrays = self.accept(arrays)
        if len(arrays) != len(self._inputs):
            expected = ", ".join(f"{s.name}: {s}" for _, s in self._inputs)
            raise TypeError(
                f"{self.program.name} takes {counted(len(self._inputs), 'argument')} ({expected}), "
                f"got {len(arrays)}"
            )
        if not self._ready:
            raise RuntimeError(
                f"bind the {counted(len(self._params), 'parameter')} of {self.program.name!r} "
                "before a call"
            )
        bound = self._bound  # kept until the call ends, whatever is bound meanwhile
        slots = (ctypes.c_void_p * max(len(self.program.slots), 1))()
        for index, address in bound[1]:
            slots[index] = address
        inputs = self._take_inputs(arrays, bound[2])
        outputs = [self._output(s) if o is None else self._accept(o, s, True, f"output {s.name!r}")
                   for (_, s), o in zip(self._outputs, out or [None] * len(self._outputs),
                                        strict=True)]
        for (index, _), array in zip((*self._inputs, *self._outputs), (*inputs, *outputs),
                                     strict=True):  # fmt: skip
            slots[index] = _address(array)
        for index, slot in enumerate(self.program.slots):
            if slot.alias is not None:
                slots[index] = slots[slot.alias]
        self._run(slots)
        self._give_back(arrays, inputs)
        return outputs

    def _output(self, slot: Slot) -> Any:
        """Where an output goes."""
        return _output(slot)

    def _give_back(self, arrays: Sequence[Any], taken: Sequence[Any]) -> None:
        """A call has updated its inputs, which are the caller's own."""

    def _take_inputs(
        self, arrays: Sequence[Elements], written: Sequence[tuple[int, int]]
    ) -> list[Any]:
        taken: list[Any] = []
        ranges = list(written)
        for number, (array, (index, slot)) in enumerate(zip(arrays, self._inputs, strict=True), 1):
            where = f"argument {number} ({slot.name!r}) of {self.program.name}"
            taken.append(self._accept(array, slot, index in self._written, where))
            if index in self._written and slot.nbytes:
                at = _address(taken[-1])
                if any(at < hi and lo < at + slot.nbytes for lo, hi in ranges):
                    raise ValueError(f"{where} is updated and shares memory with another array")
                ranges.append((at, at + slot.nbytes))
        for i, (index, slot) in enumerate(self._inputs):
            at = _address(taken[i])
            if index not in self._written and any(
                at < hi and lo < at + slot.nbytes for lo, hi in ranges
            ):
                taken[i] = taken[i].copy()  # the program may write it before it has read it
        return taken

    def _run(self, slots: Any) -> None:
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = self._room(self.program.arena_bytes, "the temporaries")
        if self.program.messages:
            self._device.launching(arena, self._raise)
        try:
            code = self._code.launch(ctypes.addressof(slots), arena.address, self._consts.address)
            if code:
                self._raise(code, arena.address)
        finally:
            self._arenas.append(arena)

    def arena(self, start: int, nbytes: int) -> bytes:
        if not 0 <= start <= start + nbytes <= self.program.arena_bytes or not self._arenas:
            raise ValueError(f"no arena with bytes {start} to {start + nbytes}")
        out = bytearray(nbytes)
        self._device.read(self._arenas[-1].address + start, memoryview(out))
        return bytes(out)

    def _accept(self, value: Any, slot: Slot, written: bool, where: str) -> Any:
        """The array itself, or a copy laid out as the program needs it."""
        if not written:
            value = on_host(value)
        if not isinstance(value, (np.ndarray, np.generic)):
            raise TypeError(f"{where}: expected a numpy array {slot}, got {type(value).__name__}")
        array: Array = np.asarray(value)
        native = array.dtype.newbyteorder("=")
        if native != slot.dtype.numpy:
            raise TypeError(f"{where}: expected {slot}, got {dtypes.typed(array)}")
        if array.shape != slot.shape:
            raise ValueError(f"{where}: expected {slot}, got {dtypes.typed(array)}")
        direct = _direct(array) and array.dtype.isnative
        if not written:
            return array if direct else np.array(array, slot.dtype.numpy, order="C", copy=True)
        if array is not value and not isinstance(value, np.ndarray):
            raise ValueError(f"{where}: it is updated in place, which a numpy scalar cannot be")
        if not array.flags.writeable:
            raise ValueError(f"{where}: it is updated in place but the array is read-only")
        if not direct:
            raise ValueError(
                f"{where}: it is updated in place, so it must be contiguous, aligned and in "
                "native byte order"
            )
        return array


@dataclass(frozen=True, slots=True)
class _PlainCall:
    """The prepared part of calls whose inputs are on the device."""

    slots: Any  # the type of the array of addresses
    bound: bytes  # such an array with what is bound, as bytes
    # place, shape, element type and bytes of each
    inputs: tuple[tuple[int, tuple[int, ...], np.dtype[Any], int], ...]
    outputs: tuple[tuple[int, Slot, str], ...]  # place of each, its slot, and what errors call it
    # starts, ends: addresses of what the program writes, in order; no two overlap
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    held: tuple[Any, ...]  # keeps what is bound alive

    def writes(self, start: int, nbytes: int) -> bool:
        """Whether the program writes some of these bytes."""
        before = bisect_left(self.starts, start + nbytes)
        return before > 0 and self.ends[before - 1] > start


def _plain_call(program: Program, bound: Any, called: Callable[[Slot], str]) -> _PlainCall | None:
    """Prepare a program's calls with its bound parameters; None if inputs are written."""
    slots = program.slots
    inputs = [i for i, s in enumerate(slots) if s.kind == "input"]
    if any(s.alias in inputs for s in slots):
        return None
    held, addresses, written = bound
    kind = ctypes.c_void_p * max(len(slots), 1)
    filled = kind()
    for index, address in addresses:
        filled[index] = address
    for index, slot in enumerate(slots):
        if slot.alias is not None:
            filled[index] = filled[slot.alias]
    ranges = sorted(written)
    return _PlainCall(
        kind, bytes(filled),
        tuple((i, slots[i].shape, slots[i].dtype.numpy, slots[i].nbytes) for i in inputs),
        tuple((i, s, called(s)) for i, s in enumerate(slots) if s.kind == "output"),
        tuple(lo for lo, _ in ranges), tuple(hi for _, hi in ranges), held)


def _same_but_data(one: Program, two: Program) -> bool:
    """Whether the slots of programs at two sizes are the same but for inputs and outputs."""
    if len(one.slots) != len(two.slots):
        return False
    differing = compress(zip(one.slots, two.slots, strict=True),
                         map(operator.is_not, one.slots, two.slots))
    return all(a.kind == b.kind and a.kind in ("input", "output") for a, b in differing)


class _DeviceCore(_Core):
    """Runs a program on a device with memory of its own: all slots are there, and a call returns
    before the device has done it."""

    _plain: _PlainCall | None = None

    def _zeros(self, slot: Slot) -> Any:
        return DeviceArray.of(self._device, super()._zeros(slot), self._for(slot))

    def _for(self, slot: Slot) -> str:
        return f"{slot.name!r} of program {self.program.name!r}, {slot}"

    def _output(self, slot: Slot) -> Any:
        out = DeviceArray(self._device, slot.shape, slot.dtype.numpy, self._for(slot))
        out.launch = self._device.launches
        return out

    def bind(
        self, params: Sequence[Elements | Source], versions: Sequence[int] | None = None
    ) -> None:
        super().bind(params, versions)
        self._plain = _plain_call(self.program, self._bound, self._for)

    def call(self, arrays: Sequence[Elements], out: Sequence[Array | None] = ()) -> list[Any]:
        self._device.check_usable()
        self._device.poll()
        self._device.launches += 1
        plain = self._plain  # it keeps what is bound until the call ends, whatever is bound then
        slots = None if plain is None else self._slots_of(plain, arrays)
        if plain is None or slots is None:
            return super().call(arrays)
        outputs = []
        for index, slot, what in plain.outputs:
            memory = allocate(self._device, slot.nbytes, what, unset=True)
            made = DeviceArray.over(
                self._device, slot.shape, slot.dtype.numpy, memory, memory.address)
            made.launch, slots[index] = self._device.launches, memory.address
            outputs.append(made)
        self._run(slots)
        return outputs

    def _slots_of(self, plain: _PlainCall, arrays: Sequence[Elements]) -> Any:
        """Return the addresses of a call that needs no copy and no notification, without its
        outputs; None for another one."""
        device = self._device
        if len(arrays) != len(plain.inputs) or device.lost:
            return None
        slots = plain.slots.from_buffer_copy(plain.bound)
        for array, (index, shape, dtype, nbytes) in zip(arrays, plain.inputs, strict=True):
            if type(array) is not DeviceArray or array.device is not device \
                    or array.shape != shape or array.dtype != dtype \
                    or plain.writes(array.address, nbytes):
                return None
            slots[index] = array.address
        return slots

    def _accept(self, value: Any, slot: Slot, written: bool, where: str) -> Any:
        if not isinstance(value, DeviceArray):
            array = super()._accept(value, slot, False, where)
            return DeviceArray.of(self._device, array, self._for(slot))
        _check_type(value, slot, where)
        return on_device(value, self._device, where)

    def _give_back(self, arrays: Sequence[Any], taken: Sequence[Any]) -> None:
        """An array of the host that is updated gets what its copy on the device has."""
        for given, array, (index, slot) in zip(arrays, taken, self._inputs, strict=True):
            if index in self._written and given is not array:
                super()._accept(given, slot, True, f"argument {slot.name!r}")
                array.numpy(given)


class _ShapePolymorphicCore(_Core):
    """Runs a program for any sizes: slots have the shapes of the call."""

    def _release(self) -> int:
        return int(_RELEASE_CYCLES / max(self.program.cost, 0.1))

    def call(self, arrays: Sequence[Elements], out: Sequence[Array | None] = ()) -> list[Any]:
        program = self.program
        if len(arrays) != len(self._inputs):
            raise TypeError(
                f"{program.name} takes {counted(len(self._inputs), 'argument')}, got {len(arrays)}")
        shapes = [np.shape(a) for a in arrays]
        found = measure(program.broadcasts, shapes)
        if found is None:
            raise ValueError(f"{program.name}: shapes {shapes} do not fit the program")
        taken = [
            self._accept(a, Slot(s.name, s.dtype, np.shape(a), s.kind), False,
                         f"argument {i + 1} ({s.name!r}) of {program.name}")
            for a, (i, s) in zip(arrays, self._inputs, strict=True)
        ]
        last = program.slots[-1]
        output = _output(Slot(last.name, last.dtype, found[0], last.kind))
        slots = (ctypes.c_void_p * len(program.slots))(*map(_address, [*taken, output]))
        sizes = (ctypes.c_int64 * 2)(*found[1:])
        code = self._code.launch(ctypes.addressof(slots), 0, ctypes.addressof(sizes))
        if code:
            self._raise(code, 0)
        return [output]


@dataclass(frozen=True, slots=True)
class Errors:
    """How run-time errors are raised.

    Attributes:
        own: the user's exception classes, by qualified name.
        show: an array as its message shows it.
    """

    own: Mapping[str, type[Exception]] = field(default_factory=dict)
    show: Callable[[Array], str] = str


class _Raise:
    """Turns an error code into the exception it stands for."""

    def __init__(self, program: Program, errors: Errors, device: Device) -> None:
        self._device = device
        self._name = program.name
        self._messages = program.messages
        self._errors = errors
        self._failures: dict[int, BaseException] = {}
        self._collective = any(collectives.is_collective(c.name) for c in program.callbacks)

    def keep(self, error: BaseException) -> None:
        """Remember what a host callback of this thread raised."""
        self._failures[threading.get_ident()] = error

    def __call__(self, code: int, arena: int) -> None:
        error = self._failures.pop(threading.get_ident(), None)
        if self._collective:
            collectives.drain()
        if code == CALLBACK_FAILED and error is not None:
            raise error
        if code in (CHECK_FAILED, DEVICE_FAILED):
            self._device.wait()  # it says what is wrong
            raise RuntimeError(f"{self._name}: {self._device.name} took a launch, a copy or a "
                               "wait for an error, and has none to tell")
        if 1 <= code <= len(self._messages):
            m = self._messages[code - 1]
            values = [self._value(arena + v.place, v.dtype, v.shape) for v in m.values]
            text = message_text(m.parts, values[0] if values else 0, values[1:], self._errors.show)
            raise run_error(m.kind, text, m.file, m.line, m.detail, self._errors.own.get(m.own))
        raise run_error("RuntimeError", f"{self._name} stopped with unknown error {code}", "", 0)

    def _value(self, address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Read a value that a message shows from the arena."""
        out: Array = np.empty(shape, dtype.numpy)
        if out.nbytes:
            self._device.read(address, out.reshape(-1).view(np.uint8).data)
        return out


class _HostCall:
    """A host callback: the buffers' pointers become arrays, an exception a nonzero result."""

    def __init__(self, callback: Callback, function: HostFunction, failed: _Raise) -> None:
        self.function, self.failed = function, failed.keep
        self.types = [(*t, False) for t in callback.inputs]
        self.types += [(*t, True) for t in callback.outputs]

    def __call__(self, buffers: int) -> int:
        try:
            pointers = (ctypes.c_void_p * max(len(self.types), 1)).from_address(buffers)
            self.function(*(_view(p or 0, *t) for p, t in zip(pointers, self.types, strict=False)))
        except BaseException as error:  # it crosses native code, and is raised after it
            self.failed(error)
            return 1
        return 0


def _view(address: int, dtype: DType, shape: tuple[int, ...], writeable: bool) -> Array:
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype.numpy)
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    array: Array = np.frombuffer(memoryview(raw), dtype.numpy).reshape(shape)
    array.flags.writeable = writeable
    return array


def _output(slot: Slot) -> Array:
    """A new array; a large one begins at a multiple of 64 bytes (programs count on it)."""
    if slot.nbytes < LARGE:
        return np.empty(slot.shape, slot.dtype.numpy)
    try:
        raw = np.empty(slot.nbytes + 64, np.uint8)
    except MemoryError:
        raise MemoryError(f"the output {slot.name!r}, {slot}, needs {slot.nbytes >> 20} MiB, which "
                          "do not fit into the memory") from None
    at = -raw.ctypes.data % 64
    return raw[at : at + slot.nbytes].view(slot.dtype.numpy).reshape(slot.shape)


def _address(array: Elements) -> int:
    if isinstance(array, DeviceArray):
        return array.address
    return int(array.__array_interface__["data"][0]) if array.size else int(array.ctypes.data)


def _direct(array: Elements) -> bool:
    return isinstance(array, DeviceArray) or bool(array.flags.c_contiguous and array.flags.aligned)


def _check_type(source: Source | DeviceArray, slot: Slot, where: str) -> None:
    """Refuse a source of another type than the slot's."""
    if source.dtype != slot.dtype.numpy:
        raise TypeError(f"{where}: expected {slot}, got {source.dtype}")
    if source.shape != slot.shape:
        raise ValueError(f"{where}: expected {slot}, got shape {source.shape}")


def _suits(slot: Slot, array: Elements) -> bool:
    return array.shape == slot.shape and array.dtype == slot.dtype.numpy and (
        isinstance(array, DeviceArray) or array.flags.writeable)
