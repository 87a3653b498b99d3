"""The weights of an artifact, and programs bound to them.

A training step writes weights in place. After that, values that another program precomputed from
them (packed weights, say) are old; so it is bound again before its next call, and results computed
from unchanged weights are kept and shared.

On a device with memory of its own the weights are there, for all programs that run on it; they come
back to the host when they are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any
from weakref import WeakSet

import numpy as np

from .device import Device
from .device_array import DeviceArray
from .dtypes import Array
from .errors import ArtifactError
from .executable import Executable
from .forks import renewed
from .program import Program, Slot


class Weights:
    """Arrays by name, and how often each was written.

    Args:
        first: their first values, which stay.
        fixed: whether no program writes any.

    Attributes:
        fixed: as given.
        lock: held while a program runs that writes some or may read what another writes.
        writes: how many calls have written some.
        written: those that some bound program writes.
    """

    def __init__(self, first: Mapping[str, Array], fixed: bool) -> None:
        self._first = first
        self.arrays = dict(first)
        self.fixed = fixed
        self.lock = renewed(RLock())
        self.writes = 0
        self.written: set[str] = set()
        self._versions: Counter[str] = Counter()
        self._programs: WeakSet[BoundProgram] = WeakSet()
        self._devices: set[str] = set()
        self._placed: dict[tuple[str, str], DeviceArray] = {}
        self._behind: dict[str, DeviceArray] = {}
        """Weights that were written on a device since they were copied to the host."""

    def versions(self, names: Iterable[str]) -> list[int]:
        """How often these were written."""
        return [self._versions[n] for n in names]

    def wrote(self, names: Sequence[str], device: Device) -> None:
        """Note that a call on a device has written these."""
        self._versions.update(names)
        self.writes += 1
        for key in [k for k in self._placed if k[1] in names and k[0] != device.name]:
            del self._placed[key]  # what another device has of them is old
        for name in names if device.own_memory else ():
            self._behind[name] = self._placed[device.name, name]

    def elements(self, name: str, device: Device) -> Array | DeviceArray:
        """A weight as it is now, where programs on a device read and write it."""
        if not device.own_memory:
            self.settled([name])
            return self.arrays[name]
        found = self._placed.get((device.name, name))
        if found is None:
            self.settled([name])
            found = DeviceArray.of(device, self.arrays[name], f"the weight {name!r}")
            self._placed[device.name, name] = found
        return found

    def settled(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """The arrays, after values that a device has written are copied back."""
        for name in list(self._behind) if names is None else names:
            behind = self._behind.pop(name, None)
            if behind is not None:
                self.arrays[name] = behind.numpy()
        return self.arrays

    def reset(self) -> None:
        """Give all weights their first values again."""
        for name in self.written:
            self.arrays[name] = np.array(self._first[name])
        self._behind.clear()
        self._placed = {k: a for k, a in self._placed.items() if k[1] not in self.written}
        self._versions.update(self.written)
        self.writes += 1
        for bound in self._programs:
            bound.bind()

    @property
    def mixed(self) -> bool:
        """Whether programs that read these run, or ran, on several devices."""
        return len(self._devices) > 1

    def bind(self, executable: Executable, like: BoundProgram | None = None) -> BoundProgram:
        """An executable with its parameters bound.

        Args:
            like: the same program at other sizes, bound to these weights.

        Raises:
            ArtifactError: there is no such weight.
        """
        program = executable.program
        self._devices.add(executable.device.name)
        kind = OnDevice if executable.device.own_memory else BoundProgram
        bound = kind(executable, self, like)
        if like is not None and bound.bind_like(like):
            self._programs.add(bound)
            return bound
        for slot in program.of_kind("param"):
            if not suits(slot, self.arrays.get(slot.name)):
                raise ArtifactError(f"there is no weight {slot.name!r}, {slot}")
        self.written.update(bound.updated)
        for name in () if executable.device.own_memory else bound.updated:
            if not self.arrays[name].flags.writeable:  # a view of the file
                self._own(name)
        bound.bind()
        self._programs.add(bound)
        return bound

    def _own(self, name: str) -> None:
        """Replace an array by memory of our own, for the programs that read it too."""
        self.arrays[name] = np.array(self.arrays[name])
        for bound in self._programs:
            if name in bound.names:
                bound.bind()


class BoundProgram:
    """An executable and the weights it is bound to."""

    def __init__(
        self, executable: Executable, weights: Weights, like: BoundProgram | None = None
    ) -> None:
        self.executable = executable
        self.program: Program = executable.program
        if like is None:
            slots = self.program.slots
            # of the weights, in the order of its slots
            self.names = tuple(s.name for s in self.program.of_kind("param"))
            self.updated = updated(self.program)  # those that a call writes
            self._watched = tuple(dict.fromkeys(
                slots[i].name for made in self.program.precomputed for i in made.sources
                if slots[i].kind == "param"))
        else:
            self.names, self.updated, self._watched = like.names, like.updated, like._watched
        self._weights = weights
        self._seen = 0
        self._versions: list[int] = []
        fixed = weights.fixed and not executable.device.own_memory
        self.entry: Callable[..., Any] = executable.entry if fixed else self
        """The cost of a call: if nobody writes weights, none need be bound again."""

    def bind(self) -> None:
        """Bind the weights as they are now."""
        w = self._weights
        device = self.executable.device
        self.executable.bind([w.elements(n, device) for n in self.names], w.versions(self.names))
        self._seen, self._versions = w.writes, w.versions(self._watched)

    def bind_like(self, other: BoundProgram) -> bool:
        """Bind what another program is bound to, if that is up to date and serves this one."""
        current = self._weights.versions(other._watched) == other._versions
        if not current or not self.executable.bind_like(other.executable):
            return False
        self._seen, self._versions = other._seen, other._versions
        return True

    def _refresh(self) -> None:
        if self._weights.mixed or self._weights.versions(self._watched) != self._versions:
            self.bind()
        self._seen = self._weights.writes

    def __call__(self, *arrays: Any) -> Any:
        """Run: one array, or a tuple."""
        return self._run(self.executable.entry, *arrays)

    def _run(self, entry: Callable[..., Any], *given: Any) -> Any:
        with self._weights.lock:
            if self._seen != self._weights.writes:
                self._refresh()
            if not self.updated:
                return entry(*given)
            try:
                return entry(*given)
            finally:
                self._weights.wrote(self.updated, self.executable.device)

    def call(self, arrays: Sequence[Array], out: Sequence[Array | None] = ()) -> list[Array]:
        """Run on these inputs; the outputs, as a list. `out`: arrays for them; see
        `Executable.call`."""
        if self.entry is not self:
            return self.executable.call(arrays, out)
        found: list[Array] = self._run(self.executable.call, arrays, out)
        return found


class OnDevice(BoundProgram):
    """A program on a device with memory of its own: it takes and gives arrays of the host, or
    `DeviceArray`s where it is given one."""

    def __call__(self, *arrays: Any) -> Any:
        out = self.call(arrays)
        return out[0] if len(out) == 1 else tuple(out)

    def call(self, arrays: Sequence[Any], out: Sequence[Array | None] = ()) -> list[Any]:
        """Run on these inputs; the outputs, as a list."""
        results: list[Any] = super().call(arrays)
        if any(isinstance(a, DeviceArray) for a in arrays):
            return results
        return [r.numpy(o) for r, o in zip(results, out or [None] * len(results), strict=True)]


def updated(program: Program) -> tuple[str, ...]:
    """The weights that a call of a program writes."""
    slots = program.slots
    aliased = {s.alias for s in slots if s.alias is not None}
    return tuple(slots[i].name for i in sorted(aliased) if slots[i].kind == "param")


def suits(slot: Slot, array: Array | None) -> bool:
    """Whether an array is what a slot takes."""
    return (array is not None and array.shape == slot.shape and array.dtype == slot.dtype.numpy)
