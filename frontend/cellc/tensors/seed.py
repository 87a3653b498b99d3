"""Random generators: a seed and an offset, kept as a Parameter.

Random ops are functions of a key, so a draw is reproducible and the same in both modes: taking a
key reads the state and assigns it with the offset advanced, in program order.

Seeds have two levels. An op without a seed of its own draws from the global generator, which
`set_seed` and `manual_seed` restart. A function with a seed draws from the stream of that seed and
of the global one: the next call goes on, and `set_seed` restarts it. A Primitive made with seeds
has a stream of its own, which begins when it is made and which nothing restarts.

Source: `mindspore.set_seed`, `mindspore.Generator`; Salmon et al., "Parallel Random Numbers: As
Easy as 1, 2, 3", 2011 (Philox).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cellc_runtime.dtypes import int64, uint64

from ..core.declared import misuse
from ..core.dispatch import active_tracer, apply, assign
from ..core.journal import before_write
from .parameter import Parameter
from .tensor import Tensor, host_array, ir_type, tensor_of

_STATE_BYTES = 16  # Of a state as a Tensor: seed and offset, 8 bytes each, the lowest first


def _random_seed() -> int:
    return int.from_bytes(os.urandom(4), "little")


def _check_seed(seed: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise misuse("Generator", "Seed must be an integer", type(seed).__name__, TypeError)


class Generator:
    """A counter-based random generator (Philox keyed by a seed and an offset).

    Args:
        seed: where it starts.
        name: of its state in graphs.

    Attributes:
        state: Parameter uint64[2], (seed, offset).
    """

    __module__ = "cellc.common.generator"  # MindSpore's import path, which printed forms show

    def __init__(self, seed: int = 0, name: str = "generator") -> None:
        _check_seed(seed)
        if not isinstance(name, str):
            raise misuse("Generator", "'name' must be a str", type(name).__name__)
        self.state = Parameter(
            Tensor(np.array([seed % 2**64, 0], np.uint64)), name=name, requires_grad=False
        )
        self.state.is_state = True

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a seed; itself."""
        _check_seed(seed)
        host_array(self.state)[:] = (int(seed) % 2**64, 0)
        return self

    def __call__(self) -> Generator:
        """Return itself: `default_generator()` is `default_generator`."""
        return self

    def initial_seed(self) -> int:
        """The seed this generator runs from."""
        return int(host_array(self.state)[0])

    def seed(self) -> int:
        """Restart from a seed of the system's randomness; the seed."""
        self.manual_seed(_random_seed())
        return self.initial_seed()

    def get_state(self) -> Tensor:
        """The state, for `set_state`: uint8[16]."""
        return Tensor(host_array(self.state).astype("<u8").view(np.uint8))

    def set_state(self, state: Tensor) -> None:
        """Go on from a state of `get_state`.

        Raises:
            RuntimeError: no Tensor of its type and shape.
        """
        if not isinstance(state, Tensor) or state.asnumpy().dtype != np.uint8 or \
                state.shape != (_STATE_BYTES,):
            got = ir_type(state) if isinstance(state, Tensor) else type(state).__name__
            raise RuntimeError(f"The state must be a Tensor uint8[{_STATE_BYTES}], as get_state "
                               f"gives it, but got {got}.")
        host_array(self.state)[:] = np.frombuffer(state.asnumpy().tobytes(), "<u8")

    def next_key(self) -> Tensor:
        """The current state as a Tensor uint64[2]; the offset advances by one."""
        if active_tracer() is None:
            before_write(self.state)
            key = tensor_of(host_array(self.state).copy())
            host_array(self.state)[1] += np.uint64(1)
            return key
        # A node of its own: the value read must be the one before the assignment.
        before: Tensor = apply("reshape", self.state, shape=(2,))
        assign(self.state, apply("add", before, tensor_of(np.array([0, 1], np.uint64))))
        return before

    def _step(self, step: Tensor | int) -> tuple[Tensor, Tensor]:
        """The seed and the offset as Tensors int64; the offset advances by `step`. MindSpore's
        random functions and libraries over it take them from here."""
        by = Tensor(step).astype(uint64)
        before: Tensor = tensor_of(self.state.asnumpy().copy()) if active_tracer() is None else \
            apply("reshape", self.state, shape=(2,))
        assign(self.state, before + by.reshape((1,)) * tensor_of(np.array([0, 1], np.uint64)))
        now = before.astype(int64)
        return now[0], now[1]


default_generator = Generator(_random_seed(), "global_generator")
"""The generator random ops draw from when none is given."""


class _Global:
    """The process-wide seed set by the user, and the generators random ops draw from."""

    seed: int | None = None
    generator = default_generator
    streams: dict[int, Generator] = {}  # Of functions with a seed of their own, by that seed


def _mix_seeds(seed: int) -> int:
    """Where the stream of a function's seed starts: that seed with the global one mixed in.

    The finaliser of splitmix64 (Steele, Lea, Flood, 2014), so near seeds give far streams.
    """
    x = (seed + 0x9E3779B97F4A7C15 * ((_Global.seed or 0) + 1)) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def stream_of(seed: int) -> Generator:
    """The stream that functions called with this seed draw from."""
    found = _Global.streams.get(seed)
    if found is None:
        found = _Global.streams[seed] = Generator(_mix_seeds(seed), f"seed_{seed}")
    return found


def seeded(seed: int, seed2: int = 0) -> Generator | None:
    """A stream of its own for a Primitive made with these seeds; None if both are 0."""
    if not seed and not seed2:
        return None
    return Generator(seed ^ seed2 << 32, f"seeds_{seed}_{seed2}")


def state_named(name: str) -> Parameter:
    """The generator state a loaded graph goes on from, by the state's name in the graph."""
    kind, _, rest = name.partition("_")
    numbers = [int(n) for n in rest.split("_") if n.isdigit()]
    if kind == "seed" and len(numbers) == 1:
        return stream_of(numbers[0]).state
    made = seeded(*numbers) if kind == "seeds" and len(numbers) == 2 else None
    return (made or _Global.generator).state


def set_seed(seed: int) -> None:
    """Seed cellc's global generator and numpy's; streams of functions' own seeds start again.

    The seed is an int below 2**32.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"The argument 'seed' must be type of int, but got {type(seed)}.")
    if not 0 <= seed < 2**32:
        raise ValueError(f"The argument 'seed' must be between 0 and 2**32 - 1, but got {seed}.")
    _Global.seed = int(seed)
    np.random.seed(_Global.seed)
    _Global.generator.manual_seed(_Global.seed)
    for own, stream in _Global.streams.items():
        stream.manual_seed(_mix_seeds(own))


def streams() -> dict[int, Generator]:
    """The streams of functions with a seed of their own that there are so far, by that seed."""
    return _Global.streams


def restore_seed(seed: int | None) -> None:
    """Set the result of `get_seed` from now on; no generator restarts."""
    _Global.seed = seed


def get_seed() -> int | None:
    """The seed given to `set_seed`, or None."""
    return _Global.seed


def manual_seed(seed: int) -> Generator:
    """Seed the global generator only; the generator."""
    return _Global.generator.manual_seed(seed)


def seed() -> int:
    """Seed the global generator from the system's randomness; the seed."""
    return _Global.generator.seed()


def next_key() -> Tensor:
    """The next key of the global generator: uint64[2], (seed, offset)."""
    return _Global.generator.next_key()
