"""`Storage`: what is known of a tensor's memory, and the state while it has no array."""

from __future__ import annotations

import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import numpy as np

from cellc_runtime.device_array import DeviceArray
from cellc_runtime.forks import renewed
from cellc_runtime.parallel_copy import copy_array

from .memory import Array, Lease, Owner, aligned_copy, owner_of

LOCK = renewed(threading.RLock())
"""Held while a tensor with a Storage gets an array or gives one up."""
versions = count(1)
"""Never the same number twice, also from two threads."""


class Stored(Protocol):
    """An object with a Storage: a Tensor."""

    _host: Array | None  # the array of its elements; None while they are elsewhere
    _storage: Storage | None


class State(ABC):
    """Elements that are in no array of the tensor's.

    Attributes:
        shape, dtype: of the array that they make.
    """

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stays = False  # Whether the tensor stays in this state for one who only looks at its elements

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @abstractmethod
    def array(self) -> Array:
        """A new array of the elements."""

    def loaded(self, storage: Storage) -> None:  # noqa: B027 (most have nothing to do)
        """The tensor has an array of them now."""


class Storage:
    """The state of one tensor's memory.

    Attributes:
        number: no other Storage of this process has or will have it.
        version: another one after each write (`writes.written`), never one that it had before.
        state: where the elements are while the tensor has no array.
        unpacked: how many times the state was left that inference keeps weights in.
        pinned: somebody has the address of the array, so it stays where it is.
        prepacked: programs of single ops that are bound to the tensor (`eager/prepacking.py`).
        read_plain: the version that some op last read as an array beside these.
        leases: of arrays that were lent and are in use, or were when the last one was lent.
        twin: a copy on a device, of a constant.
    """

    state: State | None = None
    unpacked = 0
    pinned = False
    prepacked: dict[Any, Any] | None = None
    read_plain = -1
    leases: tuple[weakref.ref[Lease], ...] = ()
    twin: DeviceArray | None = None

    def __init__(self) -> None:
        self.number = self.version = next(versions)

    # --- reading and writing ----------------------------------------------------------------------

    def layout(self, tensor: Stored) -> State | Array:
        """Return an object with the shape and element type of a tensor without an array."""
        state = self.state
        return state if state is not None else self.load(tensor)

    def load(self, tensor: Stored) -> Array:
        """The array of the elements, which the tensor has from now on."""
        with LOCK:
            array, state = tensor._host, self.state
            if array is None:
                assert state is not None
                array = state.array()
                self._enter(tensor, array)
                state.loaded(self)
            return array

    def peek(self, tensor: Stored) -> Array:
        """The elements, for someone who reads them now and keeps nothing."""
        with LOCK:
            state = self.state
            if state is None or not state.stays:
                return self.load(tensor)
        return state.array()

    def put(self, tensor: Stored, array: Array) -> None:
        """Give the tensor other elements."""
        with LOCK:
            self._enter(tensor, array)

    def overwrite(self, tensor: Stored, elements: Array) -> Array:
        """Write all elements, of this type and shape; the array that holds them now.

        Those of a state are not made for that; nobody sees the new array before it is whole.
        """
        state = self.state
        if state is not None:
            made = aligned_copy(elements)
            with LOCK:
                if self.state is state:
                    self._enter(tensor, made)
                    return made
        array = self.load(tensor)
        copy_array(array, elements)
        return array

    def _enter(self, tensor: Stored, array: Array) -> None:
        """The tensor has an array; the lock is held. In this order: readers may look."""
        tensor._host = array
        self.state = None

    # --- doing without an array -------------------------------------------------------------------

    def defer(self, tensor: Stored, state: State) -> None:
        """The elements of a new tensor are those of a state."""
        self.state = state
        tensor._host = None

    def give_up(self, tensor: Stored, state: State, unchanged: Callable[[], bool]) -> Array | None:
        """Exchange the array for a state of the same elements, if nobody else can get at it.

        First nobody finds the array any more, then it is seen whether somebody holds it. A writer
        works until the version has grown, so a write that began earlier is seen either way.

        Args:
            unchanged: whether the elements are still those of the state.

        Returns:
            The memory that was given up, as bytes; None if the tensor keeps it.
        """
        with LOCK:
            owner = owner_of(tensor._host)
            held = owner() if owner is not None else None
            if self.state is not None or self.pinned or owner is None or held is None:
                return None
            memory = held.array
            del held
            self.state, tensor._host = state, None
            if self.state is not state:
                return None  # a finaliser of this thread has asked for the elements meanwhile
            held = owner()
            if held is None and unchanged():
                return memory
            view = (held or Owner(memory)).view()
            self._enter(tensor, view.view(state.dtype).reshape(state.shape))
            return None

    # --- sharing ----------------------------------------------------------------------------------

    @property
    def lent(self) -> bool:
        """Whether somebody holds an array that was lent: it can be written unseen."""
        return any(ref() is not None for ref in self.leases)

    def lend(self, tensor: Stored) -> Array:
        """A view of the array for someone who may write it; `lent` while any view of it lives."""
        with LOCK:
            array = self.load(tensor)
            alive = [lease for lease in (ref() for ref in self.leases) if lease is not None]
            lease = next((each for each in alive if each.array is array), None)
            if lease is None:
                lease = Lease(array)
                alive.append(lease)
            self.leases = tuple(map(weakref.ref, alive))
            return lease.view()

    def pin(self, tensor: Stored) -> int:
        """The address of the array, which stays there from now on."""
        with LOCK:
            self.pinned = True
            elements = getattr(self.state, "elements", None)
            if elements is not None:  # on a device
                return int(elements.address)
            address: int = self.load(tensor).ctypes.data
            return address


def state_of(tensor: Any) -> State | None:
    """Where the elements of a tensor are that has no array; None if it has one."""
    found: Storage | None = tensor._storage
    return None if found is None else found.state


def storage_of(tensor: Any) -> Storage:
    """The Storage of a tensor; a tensor that needs none until now gets one."""
    found: Storage | None = tensor._storage
    if found is None:
        found = tensor.__dict__.setdefault("_storage", Storage())
    return found
