"""Which rows a DataLoader takes, and in which order.

Draws are those of numpy's generators, so they are MindSpore's where the generator or its seed is
given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

import numpy as np

from ...core.declared import Flag, Int, NonNegative, Positive, checks_arguments, instance
from ...core.native import names_itself
from ...ranks.management import get_group_size, get_rank

T_co = TypeVar("T_co", covariant=True)
Generated = Annotated[np.random.Generator, instance(np.random.Generator)]
_MOST = np.iinfo(np.int64).max
_TOGETHER = 32  # Positions that are drawn at once with replacement


@names_itself
class Sampler(Generic[T_co]):
    """Base of samplers: subclasses have `__iter__`, and `__len__` where it is known.

    Args:
        data_source: what is sampled; kept by subclasses that need it.
    """

    def __init__(self, data_source: Any = None) -> None:
        pass


class SequentialSampler(Sampler[int]):
    """All positions in order.

    Args:
        data_source: something with a length.
    """

    def __init__(self, data_source: Any) -> None:
        super().__init__(data_source)
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Positions in random order.

    Args:
        data_source: something with a length.
        replacement: whether a position may be drawn several times.
        num_samples: how many are drawn; None: as many as there are. Without replacement, more than
            there are means several orders one after the other.
        generator: what draws; None: one seeded by numpy's global generator.
    """

    def __init__(
        self, data_source: Any, replacement: Flag = False, num_samples: Positive | None = None,
        generator: Generated | None = None,
    ) -> None:
        super().__init__(data_source)
        self.data_source = data_source
        self.replacement, self._num_samples, self.generator = replacement, num_samples, generator

    @property
    def num_samples(self) -> int:
        """How many positions are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted, random = len(self.data_source), self.num_samples, self.generator
        if random is None:
            random = np.random.default_rng(np.random.randint(0, _MOST + 1, dtype=np.int64))
        if not count:
            return
        while self.replacement and wanted >= _TOGETHER:
            yield from random.integers(0, count, _TOGETHER).tolist()
            wanted -= _TOGETHER
        while not self.replacement and wanted >= count:
            yield from random.permutation(count).tolist()
            wanted -= count
        # Drawn even if nothing is left to give: what the generator gives next depends on it.
        left = random.integers(0, count, wanted) if self.replacement else \
            random.permutation(count)[:wanted]
        yield from left.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of the positions of another sampler.

    Args:
        sampler: gives positions.
        batch_size: how many are in a list.
        drop_last: whether a last list with fewer is left out.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: Positive, drop_last: Flag) -> None:
        super().__init__()
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        positions = iter(self.sampler)
        while batch := list(islice(positions, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        """How many lists there are.

        Raises:
            TypeError: the sampler does not say how many positions it gives.
        """
        if not isinstance(self.sampler, Sized):
            raise TypeError(f"{type(self.sampler).__name__} has no length, so the number of "
                            "batches is not known.")
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The positions that one of several processes takes: every so manieth, equally many each.

    Args:
        dataset: something with a length.
        num_replicas: how many processes there are; None: as many as run together.
        rank: which of them; None: this one.
        shuffle: whether positions come in random order, another for each `set_epoch`.
        seed: of that order.
        drop_last: whether positions that are left over are dropped; else some are given twice.
    """

    def __init__(
        self, dataset: Any, num_replicas: Positive | None = None, rank: NonNegative | None = None,
        shuffle: Flag = True, seed: Int = 0, drop_last: Flag = False,
    ) -> None:
        super().__init__(dataset)
        self.dataset = dataset
        self.num_replicas = get_group_size() if num_replicas is None else num_replicas
        self.rank = get_rank() if rank is None else rank
        if self.rank >= self.num_replicas:
            raise ValueError(f"For 'DistributedSampler', 'rank' must be below num_replicas "
                             f"{self.num_replicas}, but got {self.rank}.")
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        count = len(dataset)
        self.num_samples = count // self.num_replicas if self.drop_last else \
            -(-count // self.num_replicas)
        self.total_samples = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = np.arange(count)
        if self.shuffle:
            order = np.random.default_rng(self.seed + self.epoch).permutation(count)
        if count:
            order = np.resize(order, self.total_samples)  # from the beginning again
        return iter(order[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples

    @checks_arguments
    def set_epoch(self, epoch: int) -> None:
        """Draw another order from now on."""
        self.epoch = epoch
