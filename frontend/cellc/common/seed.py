"""The global random generator: a seed and an offset, kept as a Parameter.

Random ops are functions of a key, so a draw is reproducible and the same in both modes: taking a
key reads the state and assigns it with the offset advanced, in program order.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core.dispatch import active_tracer, apply, assign
from .parameter import Parameter
from .tensor import Tensor


class Generator:
    """A counter-based random generator (Philox keyed by a seed and an offset).

    Attributes:
        state: Parameter uint64[2], (seed, offset).
    """

    def __init__(self, seed: int | None = None, name: str = "generator") -> None:
        start = int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else seed
        self.state = Parameter(
            Tensor(np.array([start, 0], np.uint64)), name=name, requires_grad=False
        )
        self.state.is_state = True

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a seed; itself."""
        self.state._data[:] = (_check_seed(seed), 0)
        return self

    def initial_seed(self) -> int:
        """The seed this generator runs from."""
        return int(self.state._data[0])

    def seed(self) -> int:
        """Restart from a seed of the system's randomness; the seed."""
        self.manual_seed(int.from_bytes(os.urandom(4), "little"))
        return self.initial_seed()

    def get_state(self) -> Tensor:
        """The state, for `set_state`: uint64[2]."""
        return Tensor(self.state.asnumpy().copy())

    def set_state(self, state: Tensor) -> None:
        """Go on from a state of `get_state`.

        Raises:
            TypeError: no Tensor of its type and shape.
        """
        if not isinstance(state, Tensor) or state._type != self.state._type:
            raise TypeError("The 'state' must be a Tensor that 'get_state' gave.")
        self.state._data[:] = state.asnumpy()

    def next_key(self) -> Tensor:
        """The current state as a Tensor uint64[2]; the offset advances by one."""
        if active_tracer() is None:
            key = Tensor._from_array(self.state._data.copy())
            self.state._data[1] += np.uint64(1)
            return key
        # A node of its own: the value read must be the one before the assignment.
        before: Tensor = apply("reshape", self.state, shape=(2,))
        assign(self.state, apply("add", before, Tensor._from_array(np.array([0, 1], np.uint64))))
        return before


def _check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"The argument 'seed' must be type of int, but got {type(seed)}.")
    if seed < 0:
        raise ValueError(f"The argument 'seed' must be non-negative, but got {seed}.")
    return int(seed) % 2**64


class _Global:
    """The process-wide seed set by the user, and the generator random ops draw from."""

    seed: int | None = None
    generator = Generator(name="global_generator")


def default_generator() -> Generator:
    """The generator random ops draw from when none is given."""
    return _Global.generator


def set_seed(seed: int) -> None:
    """Seed cellc's global generator and numpy's.

    Raises:
        TypeError: not an int.
        ValueError: negative.
    """
    _Global.seed = _check_seed(seed)
    np.random.seed(_Global.seed % 2**32)
    _Global.generator.manual_seed(_Global.seed)


def get_seed() -> int | None:
    """The seed given to `set_seed`, or None."""
    return _Global.seed


def manual_seed(seed: int) -> Generator:
    """Seed the global generator only; the generator."""
    return _Global.generator.manual_seed(seed)


def next_key() -> Tensor:
    """The next key of the global generator: uint64[2], (seed, offset)."""
    return _Global.generator.next_key()
