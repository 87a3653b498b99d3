"""Batches from whatever holds them: lists, loaders, generators of epochs, MindSpore's datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from ..core.later import naming
from ..tensors.tensor import Tensor

Batch = tuple[Any, ...]


class Batches:
    """The batches of one data set, epoch after epoch.

    Args:
        source: something to iterate over in each epoch (a list, a loader with `__iter__`), a
            function that gives an iterator, or a MindSpore dataset. Its elements are tuples,
            lists, dicts (their values, in order), or single arrays.
        what: how errors call it.
    """

    def __init__(self, source: Any, what: str) -> None:
        dataset = hasattr(source, "create_tuple_iterator")
        if not (dataset or isinstance(source, Iterable) or callable(source)):
            raise TypeError(f"'{what}' must be iterable (a list of batches, a loader), a function "
                            f"that gives an iterator, or a dataset, but got {type(source)}.")
        self.source, self.what = source, what
        self._epochs = 0
        self._iterator: Any = None

    def __len__(self) -> int:
        """Batches of an epoch; 0 if that is not known."""
        size: Callable[[], int] | None = getattr(self.source, "get_dataset_size", None)
        if size is not None:
            return int(size())
        if isinstance(self.source, Sized):
            return len(self.source)
        return 0

    def epoch(self) -> Iterator[Batch]:
        """The batches of the next epoch, as Tensors."""
        reset = getattr(self.source, "reset", None)
        if callable(reset) and self._epochs and (
                isinstance(self.source, Iterator)
                or not hasattr(self.source, "create_tuple_iterator")):
            reset()
        count = 0
        for element in self._iterate():
            count += 1
            yield as_batch(element)
        self._epochs += 1
        if count == 0:
            hint = ""
            if self._epochs > 1 and isinstance(self.source, Iterator):
                hint = " An iterator can be gone through once only: give a list, an object with " \
                    "__iter__, or a function that makes the iterator."
            raise ValueError(f"'{self.what}' gave no batch in epoch {self._epochs}.{hint}")

    def _iterate(self) -> Iterable[Any]:
        source = self.source
        if hasattr(source, "create_tuple_iterator"):
            return self._of_dataset()
        if isinstance(source, Iterable):
            return source
        made: Iterable[Any] = source()
        return made

    def _of_dataset(self) -> Iterator[Any]:
        """Rows of one iterator for all epochs, so that each epoch has another order under a seed. A
        new iterator is made if the last epoch was not finished or the old one is exhausted."""
        kept, self._iterator = self._iterator, None
        found = False
        for element in kept or ():
            found = True
            yield element
        if not found:
            kept = self.source.create_tuple_iterator(num_epochs=-1)
            yield from kept
        self._iterator = kept


def as_batch(element: Any) -> Batch:
    """An element of a data set as the arguments of a network."""
    if isinstance(element, Mapping):
        return tuple(as_tensor(v) for v in element.values())
    if isinstance(element, (tuple, list)):
        return tuple(as_tensor(v) for v in element)
    return (as_tensor(element),)


def as_tensor(value: Any) -> Any:
    """An array of any library as a Tensor; nested containers stay containers."""
    if isinstance(value, Tensor) or value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {k: as_tensor(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        kind = list if type(value) is list else tuple
        return kind(as_tensor(v) for v in value)
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return Tensor(value)
    convert = getattr(value, "numpy", None) or getattr(value, "asnumpy", None)
    if callable(convert):
        return Tensor(np.asarray(convert()))
    if hasattr(value, "__array__"):
        return Tensor(np.asarray(value))
    raise TypeError(f"a batch holds a {type(value)}, which is no array")


def note_batch(error: Exception, batch: Sequence[Any], source: Any, has_loss: bool) -> None:
    """Note on an error of a call with a batch what the data set gives.

    Args:
        error: that the network raised.
        batch: the arguments of the call.
        source: the data set, which may have names of columns.
        has_loss: whether the network stands under a loss function.
    """
    names: list[str] = getattr(source, "get_col_names", list)()
    if len(names) != len(batch):
        names = [f"column {i}" for i in range(len(batch))]
    shown = ", ".join(f"{k} = {naming.described(v)}" for k, v in zip(names, batch, strict=True))
    error.add_note(f"note: the data set gives {shown}")
    if has_loss and len(batch) != 2:
        error.add_note("hint: with a loss_fn it must give 2 columns, the data and the label: "
                       "choose them by project([...]), or give Model a network that returns the "
                       "loss, and no loss_fn")
