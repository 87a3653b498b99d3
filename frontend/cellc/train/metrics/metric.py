"""The base of metrics, and what they share: conversion and checks of predictions and labels.

Source: `mindspore.train`.
"""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ...core.declared import Arguments, one_of
from ...core.native import names_itself
from ...tensors.tensor import Tensor

Array = npt.NDArray[Any]
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


def counted(who: str, inputs: tuple[Any, ...], count: int, what: str) -> tuple[Any, ...]:
    """The inputs of an `update`."""
    if len(inputs) != count:
        raise ValueError(
            f"For '{who}.update', it needs {count} inputs ({what}), but got {len(inputs)}.")
    return inputs


def check_fit(good: bool, who: str, rule: str, first: Any, second: Any) -> None:
    """Raise unless the shapes of two inputs of an `update` fit."""
    if not good:
        raise ValueError(f"For '{who}.update', {rule} {first.shape} and {second.shape}.")


def updated(who: str, seen: T | None, samples: bool = True) -> T:
    """Return the state that `update` has set."""
    if seen is None:
        none = "there are no samples: " if samples else ""
        raise RuntimeError(f"For '{who}.eval', {none}call 'update' first.")
    return seen


def rearrange_inputs(func: Function) -> Function:
    """Decorates a method so that it gets the inputs that `self.indexes` names, in that order."""

    @functools.wraps(func)
    def rearranged(self: Any, *inputs: Any) -> Any:
        indexes = self.indexes
        chosen = inputs if not indexes else [inputs[i] for i in indexes]
        return func(self, *chosen)

    return rearranged  # type: ignore[return-value]  # a TypeVar keeps the signature for users


@names_itself
class Metric(metaclass=ABCMeta):
    """The base of metrics: `clear()`, then `update(...)` for each batch, then `eval()`.

    Source: `mindspore.train.Metric`; metrics have the names that they have there.
    """

    _indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """Which inputs of `update` are used, in order; None for all."""
        return self._indexes

    def set_indexes(self, indexes: list[int]) -> Metric:
        """Choose and order the inputs of `update`; itself."""
        if not isinstance(indexes, list) or not all(type(i) is int for i in indexes):
            raise ValueError("For 'set_indexes', the argument 'indexes' must be a list of int, "
                             f"but got {indexes}.")
        self._indexes = indexes
        return self

    def __call__(self, *inputs: Any) -> Any:
        """The value for these inputs alone."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    @abstractmethod
    def clear(self) -> None:
        """Forget all inputs."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Take a batch into account."""

    @abstractmethod
    def eval(self) -> Any:
        """The value for all inputs since `clear`."""

    def _name(self) -> str:
        return type(self).__name__

    def _take(self, inputs: tuple[Any, ...], count: int, what: str) -> tuple[Array, ...]:
        """The inputs as arrays."""
        return tuple(as_array(x, self._name()) for x in counted(self._name(), inputs, count, what))


def as_array(value: Any, who: str) -> Array:
    """A Tensor, array, list or number as an array."""
    if isinstance(value, Tensor):
        return value.asnumpy()
    if isinstance(value, (list, tuple, np.ndarray, int, float, np.number)):
        return np.asarray(value)
    raise TypeError(f"For '{who}', the inputs must be Tensor, list or numpy.ndarray, but got "
                    f"{type(value)}.")


def one_hot(labels: Array, count: int) -> Array:
    """Rows of zeros with a one at each label: (N,) to (N, count)."""
    out = np.zeros((labels.size, count), np.int64)
    out[np.arange(labels.size), labels.reshape(-1).astype(np.int64)] = 1
    return out


class Kept(Arguments, Metric):
    """Base of metrics whose arguments are fields."""

    def __post_init__(self) -> None:
        self.clear()


class Mean(Arguments, Metric):
    """A sum over samples, divided by their number."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all inputs."""
        self._sum, self._count = 0.0, 0

    def eval(self) -> float:
        """The mean.

        Raises:
            RuntimeError: there are no samples.
        """
        return self._sum / updated(self._name(), self._count or None)


EvalType = Annotated[str, one_of("classification", "multilabel").always(TypeError)]


class Evaluated(Arguments, Metric):
    """Base of metrics of predictions of classes: single-label or several labels at once.

    Args:
        eval_type: "classification" or "multilabel".
    """

    def __init__(self, eval_type: EvalType = "classification") -> None:
        self._type = eval_type
        self.clear()

    def _checked(self, inputs: tuple[Any, ...]) -> tuple[Array, Array]:
        """Predictions (N, C...) and labels of a batch."""
        y_pred, y = self._take(inputs, 2, "predictions and labels")
        if self._type == "multilabel":
            check_fit(y_pred.shape == y.shape, self._name(), "multilabel predictions and labels "
                      "must have one shape, but got", y_pred, y)
            if not np.isin(y_pred, (0, 1)).all() or not np.isin(y, (0, 1)).all():
                raise ValueError(f"For '{self._name()}.update', multilabel predictions and labels "
                                 "must be 0 or 1.")
            return y_pred, y
        if y_pred.ndim == y.ndim and y_pred.shape == y.shape:
            return y_pred, y.argmax(axis=1)  # one-hot labels
        check_fit(
            y_pred.ndim == y.ndim + 1 and y_pred.shape[:1] + y_pred.shape[2:] == y.shape,
            self._name(), "predictions of shape (N, C, ...) need labels of shape (N, ...) or "
            "one-hot labels of shape (N, C, ...), but got", y_pred, y)
        return y_pred, y
