"""Samplers: which rows of a source an epoch has, and in which order.

A sampler may have a child; it then chooses among what the child chose. Source: `mindspore.dataset`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Annotated, Any

import numpy as np

from ..core.declared import Flag, Int, NonNegative, Positive, checks_arguments, instance
from ..core.native import names_itself
from . import config
from .rules import INT32_MAX, POSITIONS
from .streams import MinimalStandard, Mt19937, Stream

Ids = Sequence[int]


class Shuffle(str, Enum):  # noqa: UP042 (a StrEnum prints its value, MindSpore's its name)
    """How a source of files is shuffled."""

    FALSE = "false"
    ADAPTIVE = "adaptive"
    GLOBAL = "global"
    PARTIAL = "partial"
    FILES = "files"
    INFILE = "infile"


class Draw:
    """The inputs of a sampler in one pass over the rows of a source.

    Args:
        seed: of the pipeline.
        number: which pass of the iterator it is, counted from 0.
        orders: of the passes before, by whose they are: they are shuffled further, as in MindSpore.
        labels: the labels of all rows, by column name.
    """

    def __init__(
        self, seed: int, number: int, orders: dict[Any, list[Any]], labels: Callable[[str], Any]
    ) -> None:
        self.seed, self.number, self.orders, self.labels = seed, number, orders, labels

    def stream(self, shift: int = 0) -> Stream:
        """The stream of this pass; `shift` is added to the seed."""
        return Mt19937(self.seed + self.number + shift)

    def first_stream(self) -> Stream:
        """The stream of the first pass."""
        return Mt19937(self.seed)

    def shuffled(self, owner: object, items: Sequence[Any], stream: Stream) -> list[Any]:
        """Items in an order that is that of the pass before, shuffled."""
        order = self.orders.get(owner)
        if order is None or len(order) != len(items):
            order = list(items)
        stream.shuffle(order)
        self.orders[owner] = order
        return list(order)

    def shuffled_part(self, owner: object, count: int, shift: int) -> list[int]:
        """Numbers below `count` in the order that all processes that share the rows have."""
        return self.shuffled(owner, range(count), self.stream(shift))


class RecordDraw(Draw):
    """As `Draw`, for rows of MindRecord files, which MindSpore shuffles in another way."""

    def stream(self, shift: int = 0) -> Stream:
        """The stream of this pass."""
        return MinimalStandard(self.seed + self.number + 1)

    def shuffled_part(self, owner: object, count: int, shift: int) -> list[int]:
        """Numbers below `count`, shuffled again in each pass."""
        return self.stream().order(count)


@names_itself
class Sampler:
    """Base of samplers: a subclass gives positions of rows in `__iter__`.

    Args:
        num_samples: the most rows; None for all.

    Attributes:
        dataset_size: how many rows there are to choose among.
    """

    _shuffles = False

    def __init__(self, num_samples: NonNegative | None = None) -> None:
        self.num_samples, self.dataset_size = num_samples, 0
        self.child_sampler: Sampler | None = None

    def __iter__(self) -> Iterator[Any]:
        """The positions of an epoch, for a subclass to give."""
        raise TypeError(f"the sampler {type(self).__name__} must define __iter__, which gives the "
                        "positions of rows.")

    @checks_arguments
    def add_child(self, sampler: Sampler | None) -> None:
        """Choose among what `sampler` chooses.

        Raises:
            RuntimeError: there is a child already.
        """
        if sampler is not None and self.child_sampler is not None:
            raise RuntimeError("Cannot add child sampler, this sampler already has a child.")
        self.child_sampler = sampler

    def get_child(self) -> Sampler | None:
        """The child; None if there is none."""
        return self.child_sampler

    def get_num_samples(self) -> int | None:
        """At most how many rows are chosen, as far as the arguments say; None for all."""
        own, child = self._limit(), self.child_sampler
        below = child.get_num_samples() if child is not None else None
        return own if below is None else below if own is None else min(own, below)

    def reset(self) -> None:
        """For a subclass: called before each epoch."""

    def is_shuffled(self) -> bool:
        """Whether rows come in random order."""
        below = self.child_sampler is not None and self.child_sampler.is_shuffled()
        return self._shuffles or below

    def is_sharded(self) -> bool:
        """Whether this is a part of the data for one of several processes."""
        return self.child_sampler is not None and self.child_sampler.is_sharded()

    def select(self, size: int, draw: Draw) -> Ids:
        """Which rows, in order, of a source with `size` rows.

        Raises:
            RuntimeError: a position is out of range.
        """
        ids: Ids = self.child_sampler.select(size, draw) if self.child_sampler else range(size)
        self.dataset_size = len(ids)
        chosen = self._positions(ids, draw)
        if self.num_samples:
            chosen = chosen[: self.num_samples]
        for p in chosen:
            if not 0 <= p < len(ids):
                raise RuntimeError(f"{type(self).__name__}: Sample ID ({p}) is out of bound, "
                                   f"expected range [0, {len(ids) - 1}].")
        return [ids[p] for p in chosen]

    def _limit(self) -> int | None:
        return self.num_samples or None

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        self.reset()
        found: list[int] = []
        for each in self:
            found.extend(POSITIONS(np.asarray(each), type(self).__name__, "a position"))
            if self.num_samples and len(found) >= self.num_samples:
                break
        return found


class BuiltinSampler(Sampler):
    """Base of the samplers that need no Python of the user's."""

    def __iter__(self) -> Iterator[Any]:
        """The positions in `dataset_size` rows, in an order of its own draw."""
        def no_labels(column: str) -> Any:
            raise RuntimeError(f"{type(self).__name__} needs a source with a column {column!r}.")

        chosen = config.chosen_seed()
        seed = int.from_bytes(os.urandom(4), "little") if chosen is None else chosen
        draw = Draw(seed, 0, {}, no_labels)
        return iter(self._positions(range(self.dataset_size), draw))


class SequentialSampler(BuiltinSampler):
    """Rows in order.

    Args:
        start_index: the first; None for 0.
        num_samples: the most rows; None for all.
    """

    def __init__(
        self, start_index: NonNegative | None = None, num_samples: int | None = None
    ) -> None:
        self.start_index = start_index
        super().__init__(num_samples)

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        start = self.start_index or 0
        if start and start >= len(ids):
            raise RuntimeError("SequentialSampler: start_index must be less than the number of "
                               f"rows, but got start_index: {start}, rows: {len(ids)}.")
        return range(start, len(ids))


class RandomSampler(BuiltinSampler):
    """Rows in random order.

    Args:
        replacement: whether a row may come more than once.
        num_samples: the most rows; None for all.
        shuffle: accepted for compatibility.
    """

    _shuffles = True

    def __init__(
        self, replacement: Flag = False, num_samples: int | None = None,
        shuffle: Shuffle = Shuffle.GLOBAL,
    ) -> None:
        self.replacement, self.shuffle = replacement, shuffle
        super().__init__(num_samples)

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        if self.replacement:
            stream = draw.stream()
            many = min(self.num_samples or len(ids), len(ids))
            return [stream.below(len(ids)) for _ in range(many)]
        return draw.shuffled(self, range(len(ids)), draw.stream())


class DistributedSampler(BuiltinSampler):
    """The rows of one of several processes: all take part, in turn.

    Args:
        num_shards: how many processes.
        shard_id: which of them.
        shuffle: whether rows are shuffled first; the same way in all processes, which have the
            same seed.
        num_samples: the most rows; None for all.
        offset: -1: each process gets equally many rows, some of them twice. Otherwise the process
            that gets the first row; then some processes may get fewer.
    """

    def __init__(
        self, num_shards: Positive, shard_id: NonNegative, shuffle: Flag = True,
        num_samples: int | None = None, offset: Int = -1,
    ) -> None:
        if shard_id >= num_shards:
            raise ValueError(f"shard_id should be less than num_shards, but got shard_id: "
                             f"{shard_id}, num_shards: {num_shards}.")
        if not -1 <= offset < num_shards:
            raise ValueError(f"offset should be -1 or below num_shards, but got offset: {offset}, "
                             f"num_shards: {num_shards}.")
        self.num_shards, self.shard_id = num_shards, shard_id
        self.shuffle = self._shuffles = shuffle
        self.offset = offset
        super().__init__(num_samples)

    def is_sharded(self) -> bool:
        """Whether there are several processes."""
        return self.num_shards > 1 or super().is_sharded()

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        order: Any = np.arange(len(ids))
        if self.shuffle:
            if config.chosen_seed() is None:  # all processes must draw the same
                draw.seed = config.get_seed()
            order = np.array(draw.shuffled_part(self, len(ids), 1), np.int64)
        if self.offset >= 0:
            first = (self.shard_id - self.offset) % self.num_shards
            return _listed(order[first :: self.num_shards])
        each = -(-len(ids) // self.num_shards)
        turns = self.shard_id + self.num_shards * np.arange(each)
        return _listed(order[turns % len(ids)]) if len(ids) else []


class SubsetSampler(BuiltinSampler):
    """Rows at given positions.

    Args:
        indices: the positions.
        num_samples: the most rows; None for all.
    """

    def __init__(
        self, indices: Annotated[Any, POSITIONS], num_samples: int | None = None
    ) -> None:
        self.indices: list[int] = indices
        super().__init__(num_samples)

    def _limit(self) -> int | None:
        return min(len(self.indices), self.num_samples or INT32_MAX)

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        return self.indices


class SubsetRandomSampler(SubsetSampler):
    """Rows at given positions, in random order; arguments are those of `SubsetSampler`."""

    _shuffles = True

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        return draw.shuffled(self, self.indices, draw.first_stream())


class WeightedRandomSampler(BuiltinSampler):
    """Rows drawn with given weights.

    Args:
        weights: of the rows, need not add up to 1.
        num_samples: how many; None for as many as there are weights.
        replacement: whether a row may come more than once.
    """

    _shuffles = True

    def __init__(
        self, weights: Annotated[Any, instance(list, tuple, np.ndarray)],
        num_samples: int | None = None, replacement: Flag = True,
    ) -> None:
        self.weights = [float(w) for w in weights]
        if not self.weights or min(self.weights) < 0 or not sum(self.weights) > 0:
            raise ValueError("WeightedRandomSampler: weights must be at least one number of 0 or "
                             "more, not all of them 0.")
        self.replacement = replacement
        super().__init__(num_samples)

    def _limit(self) -> int | None:
        return self.num_samples or len(self.weights)

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        if len(self.weights) > len(ids):
            raise RuntimeError("WeightedRandomSampler: there are more weights "
                               f"({len(self.weights)}) than rows ({len(ids)}).")
        many = min(self.num_samples or len(self.weights), len(ids))
        weights = np.array(self.weights)
        stream = draw.first_stream()
        if self.replacement:
            sums = np.cumsum(weights / weights.sum())
            return [stream.one_of(sums) for _ in range(many)]
        # The order of exponential clocks is a draw without replacement (Efraimidis, Spirakis,
        # 2006); clocks of weight 0 ring last.
        times = -np.log1p(-np.array([stream.unit() for _ in self.weights]))
        with np.errstate(divide="ignore"):
            return _listed(np.argsort(times / weights, kind="stable")[:many])


class PKSampler(BuiltinSampler):
    """Some rows of each of some classes.

    Args:
        num_val: rows of each class.
        num_class: how many classes; must be None, for all.
        shuffle: whether the classes come in random order.
        class_column: the labels.
        num_samples: the most rows; None for all.
    """

    def __init__(
        self, num_val: Positive, num_class: int | None = None, shuffle: Flag = False,
        class_column: Annotated[str, instance(str)] = "label", num_samples: int | None = None,
    ) -> None:
        if num_class is not None:
            raise ValueError("PKSampler: num_class must be None, which means all classes, as in "
                             "MindSpore.")
        self.shuffle = self._shuffles = shuffle
        self.num_val, self.class_column = num_val, class_column
        super().__init__(num_samples)

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        labels = np.asarray(draw.labels(self.class_column))[np.asarray(ids, np.int64)]
        classes, stream = np.unique(labels).tolist(), draw.stream()
        if self.shuffle:  # once: passes to come have the same order
            classes = draw.orders[self] if self in draw.orders else \
                draw.shuffled(self, classes, stream)
        found: list[int] = []
        for each in classes:
            rows = np.flatnonzero(labels == each)
            found += [int(rows[stream.below(len(rows))]) for _ in range(self.num_val)]
        return found


class IterSampler(Sampler):
    """Positions from something iterable.

    Args:
        sampler: gives them, epoch after epoch.
        num_samples: the most rows; None for all.
    """

    def __init__(self, sampler: Any, num_samples: int | None = None) -> None:
        if not hasattr(sampler, "__iter__"):
            raise TypeError(f"IterSampler: sampler must be iterable, but got {type(sampler)}.")
        super().__init__(num_samples)
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)


class FixedSampler(BuiltinSampler):
    """The choice of another sampler, the same in each epoch.

    Args:
        seed: what it draws from.
        shuffled: whether its rows are shuffled, once for all.
    """

    def __init__(self, sampler: Sampler, seed: int, shuffled: bool) -> None:
        super().__init__()
        self.fixed, self.seed, self.shuffled = sampler, seed, shuffled

    def select(self, size: int, draw: Draw) -> Ids:
        """As the other does, with a stream that restarts each time."""
        ids = self.fixed.select(size, Draw(self.seed, 0, {}, draw.labels))
        return [ids[p] for p in Mt19937(self.seed).order(len(ids))] if self.shuffled else ids


def _listed(positions: Any) -> list[int]:
    return list(positions.tolist())


def as_sampler(given: Any) -> Sampler:
    """Return the sampler for a user's `sampler`."""
    if isinstance(given, Sampler):
        return given
    if isinstance(given, (list, tuple, np.ndarray)):
        return SubsetSampler(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return SubsetSampler([given])
    if hasattr(given, "__iter__") and not isinstance(given, (str, bytes)):
        return IterSampler(given)
    raise TypeError(f"Unsupported sampler object of type {type(given)}: expected a Sampler, a list "
                    "of positions, or something iterable that gives them.")


def choose(
    num_samples: int | None, sampler: Any, shuffle: Any, num_shards: int | None,
    shard_id: int | None,
) -> Sampler:
    """The sampler that a source's arguments ask for.

    Raises:
        ValueError: a sampler, and what it takes the place of.
    """
    if sampler is not None:
        if any(x is not None for x in (num_samples, shuffle, num_shards, shard_id)):
            raise ValueError(
                "Conflicting arguments during sampler assignments. num_samples: "
                f"{num_samples}, num_shards: {num_shards}, shard_id: {shard_id}, shuffle: "
                f"{shuffle}.")
        return as_sampler(sampler)
    mixed = shuffle is None or (shuffle != Shuffle.FALSE if isinstance(shuffle, Shuffle)
                                else bool(shuffle))
    many = num_samples or None
    if num_shards is not None and shard_id is not None:
        return DistributedSampler(num_shards, shard_id, mixed, many)
    return RandomSampler(num_samples=many) if mixed else SequentialSampler(num_samples=many)
