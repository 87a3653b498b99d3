"""Sources of a DataLoader's rows: by position, or one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from ...core.native import names_itself
from ...tensors.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


@names_itself
class Dataset(Generic[T_co]):
    """Base of data with positions: subclasses have `__getitem__`, and `__len__` for samplers."""

    def __getitem__(self, index: Any) -> T_co:
        """The row at a position.

        Raises:
            TypeError: the subclass does not say it.
        """
        raise TypeError(f"{type(self).__name__} must implement the __getitem__ method.")


class IterableDataset(Dataset[T_co]):
    """Base of data that come one after the other: subclasses have `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        """The rows.

        Raises:
            TypeError: the subclass does not say it.
        """
        raise TypeError(f"{type(self).__name__} must implement the __iter__ method.")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of Tensors: those at one position of their first axes.

    Args:
        tensors: of equally long first axes.

    Raises:
        ValueError: there are none, or their lengths differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if len({t.shape[:1] for t in tensors}) != 1:
            raise ValueError("All tensors must have the same size in the first dimension, but got "
                             f"shapes {[t.shape for t in tensors]}.")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])
