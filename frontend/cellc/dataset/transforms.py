"""Transforms of values, for `map`: `cellc.dataset.transforms`.

A transform is called with numpy arrays and gives numpy arrays. One that draws is `bound` to a
stream of its own when rows are requested; called by itself it draws from a stream all such calls
share. Source: `mindspore.dataset.transforms`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from cellc_runtime.lazy import lazy_names, public_names

from ..core.declared import Positive, Rule, Share, integer, is_int, number
from ..core.native import names_itself
from ..tensors import dtype as dtypes
from ..tensors.tensor import Tensor
from . import config
from .batching import padded
from .declared import Fields, argument
from .rules import POSITIONS, Scalar, several
from .streams import Mt19937, Stream

F = TypeVar("F", bound=Callable[..., Any])
__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below


@names_itself
class Transform:
    """Base of transforms."""

    def __call__(self, *args: Any) -> Any:
        """Return the transformed values; several values are given, and come back, as such."""
        arrays = [self._array(a) for a in args]
        return self._apply(*arrays)

    def _array(self, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, Tensor):
            return value.asnumpy()
        return np.asarray(value)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        """The work, for a subclass to do; one of a user's has a method `_execute_py`."""
        work = getattr(self, "_execute_py", None)
        if work is None:
            raise TypeError(f"{type(self).__name__} is no transform by itself.")
        return work(*args, **kwargs)

    def _refused(self, message: str) -> RuntimeError:
        return RuntimeError(f"{type(self).__name__}: {message}")


TensorOperation = Transform  # MindSpore's inner name


class PyTensorOperation:
    """Base of users' transforms whose method `_execute_py` does the work on what it is given.
   ."""

    _execute_py: Callable[[Any], Any]

    def __init__(self) -> None:
        self.transforms: list[Any] = []
        self.output_type: Any = None

    def __call__(self, img: Any) -> Any:
        """Return the transformed value."""
        return self._execute_py(img)


class RandomTransform(Transform):
    """Base of transforms that draw."""

    _stream: Stream | None = None

    @property
    def random(self) -> Stream:
        """The stream that it draws from."""
        return config.chosen_stream() if self._stream is None else self._stream

    def bound(self, seed: int) -> RandomTransform:
        """The same transform, which draws from a stream of its own."""
        made = copy.copy(self)
        made._stream = Mt19937(seed)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_stream"}


_TRANSFORMS = Rule(
    "a list of transforms or functions",
    lambda value: isinstance(value, (list, tuple)) and all(map(callable, value)),
    bool, list)


class _Parts:
    """The attribute of transforms made of others."""

    transforms: Sequence[Callable[..., Any]]


class Chain(_Parts, Fields, RandomTransform):
    """Base of transforms made of others, which `transforms` lists."""

    def bound(self, seed: int) -> RandomTransform:
        """The same, and so its parts."""
        made = super().bound(seed)
        assert isinstance(made, Chain)
        made.transforms = [t.bound(seed) if hasattr(t, "bound") else t for t in self.transforms]
        return made

    def __call__(self, *args: Any) -> Any:
        """Return the values, transformed by the chosen parts in turn."""
        result: Any = args
        for transform in self._chosen():
            result = transform(*result) if isinstance(result, tuple) else transform(result)
        return result[0] if isinstance(result, tuple) and len(result) == 1 else result

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return self.transforms


class Several(Chain):
    """Base of transforms made of a list of others."""

    transforms: Annotated[Any, _TRANSFORMS] = argument(text="a list of transforms and functions.")


class Compose(Several):
    """Transforms one after the other."""


class RandomApply(Several):
    """All transforms, or none of them."""

    prob: Share = argument(default=0.5, text="how likely it is that they are applied.")

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return self.transforms if self.random.happens(self.prob) else ()


class RandomChoice(Several):
    """One of the transforms."""

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return [self.transforms[self.random.below(len(self.transforms))]]


class RandomOrder(Several):
    """The transforms in random order."""

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return [self.transforms[i] for i in self.random.order(len(self.transforms))]


def _numpy_type(given: Any) -> np.dtype[Any]:
    ours = hasattr(given, "numpy") or type(given).__module__.startswith("cellc")
    return np.dtype(dtypes.dtype_to_nptype(given) if ours else given)


def _is_type(given: Any) -> bool:
    try:
        _numpy_type(given)
    except (KeyError, TypeError, ValueError):
        return False
    return True


NumpyType = Annotated[Any, Rule("a dtype of cellc or numpy", _is_type, normal=_numpy_type)]


class TypeCast(Fields, Transform):
    """Another element type."""

    data_type: NumpyType = argument(text="a dtype of cellc or numpy.")

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if value.dtype.kind in "US" and self.data_type.kind not in "US":
            raise self._refused(f"strings cannot be cast to {self.data_type}: use a function "
                                "with int or float in 'map'.")
        return value.astype(self.data_type)


class OneHot(Fields, Transform):
    """Labels as vectors of zeros and a one.

    Returns:
        `[*shape, num_classes]`, where last axes of one label are left out: of the labels' type, or
        float64 with smoothing.

    Raises:
        RuntimeError: (when called) a label is out of range, or no integer.
    """

    num_classes: Positive = argument(text="how many labels there are.")
    smoothing_rate: Share = argument(
        default=0.0, text="what of the one is spread over all classes.")

    def _apply(self, *args: Any) -> Any:
        (labels,) = args
        if labels.dtype.kind not in "iu":
            raise self._refused(f"labels should be integers, but are {labels.dtype}.")
        if labels.size and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise self._refused(f"labels should be from 0 to {self.num_classes - 1}, but there are "
                                f"{labels.min()} to {labels.max()}.")
        while labels.ndim and labels.shape[-1] == 1:
            labels = labels[..., 0]
        ones = labels[..., None] == np.arange(self.num_classes)
        if not self.smoothing_rate:
            return ones.astype(labels.dtype)
        spread = self.smoothing_rate / self.num_classes
        return np.where(ones, 1 - self.smoothing_rate + spread, spread)


class Fill(Fields, Transform):
    """All elements replaced by one value."""

    fill_value: Scalar = argument(text="a number, bool, string or bytes.")

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if isinstance(self.fill_value, (str, bytes)) != (value.dtype.kind in "US"):
            raise self._refused(f"{value.dtype} cannot be filled with {self.fill_value!r}.")
        kind: Any = None if value.dtype.kind in "US" else value.dtype
        return np.full(value.shape, self.fill_value, kind)


class Concatenate(Fields, Transform):
    """Arrays joined along an axis.

    Raises:
        RuntimeError: (when called) types or shapes differ.
    """

    axis: Annotated[int, integer(-1, 0)] = argument(default=0, text="which; 0 or -1.")
    prepend: Any = argument(default=None, text="an array before the given ones; None for none.")
    append: Any = argument(default=None, text="an array after the given ones; None for none.")

    def _apply(self, *args: Any) -> Any:
        parts = [np.asarray(part) for part in (self.prepend, *args, self.append)
                 if part is not None]
        for each in parts[1:]:
            if each.dtype.kind != parts[0].dtype.kind or (
                    each.dtype != parts[0].dtype and each.dtype.kind not in "US"):
                raise self._refused(f"types differ: {parts[0].dtype} and {each.dtype}.")
        try:
            return np.concatenate(parts, self.axis)
        except ValueError as error:
            raise self._refused(str(error)) from error


class Duplicate(Fields, Transform):
    """The value twice."""

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        return value, value.copy()


class Relational(IntEnum):
    """How `Mask` compares."""

    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5


_COMPARISONS: dict[Relational, Callable[..., Any]] = {
    Relational.EQ: np.equal, Relational.NE: np.not_equal, Relational.GT: np.greater,
    Relational.GE: np.greater_equal, Relational.LT: np.less, Relational.LE: np.less_equal,
}


class Mask(Fields, Transform):
    """Where elements compare with a value."""

    operator: Relational
    constant: Scalar = argument(text="the value.")
    dtype: NumpyType = argument(default=dtypes.bool_, text="of the result.")

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if isinstance(self.constant, (str, bytes)) != (value.dtype.kind in "US"):
            raise self._refused(f"{value.dtype} cannot be compared with {self.constant!r}.")
        return np.asarray(_COMPARISONS[self.operator](value, self.constant)).astype(self.dtype)


class PadEnd(Fields, Transform):
    """A given shape: filled up at the end of axes, or cut off.

    Raises:
        RuntimeError: (when called) another number of axes, or a value of another kind.
    """

    pad_shape: Annotated[Any, several(Rule(
        "a positive int or None", lambda value: value is None or is_int(value),
        lambda value: value is None or value > 0))] = argument(
            text="the lengths; None for those that stay.")
    pad_value: Any = argument(
        default=None, text="what to fill up with; None for 0, or an empty string.")

    def _apply(self, *args: Any) -> Any:
        return padded(args[0], self.pad_shape, self.pad_value, "the value of PadEnd")


class Slice(Transform):
    """Parts of an array.

    Args:
        slices: for each axis an int, list of ints, slice, None or ... (all).

    Raises:
        RuntimeError: (when called) positions are out of range, or there are more than axes.
    """

    def __init__(self, *slices: Any) -> None:
        self.slices = [
            each if each is None or each is Ellipsis or isinstance(each, slice) else
            POSITIONS(each, "Slice", "slices") for each in slices]

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if len(self.slices) > value.ndim:
            raise self._refused(f"{len(self.slices)} slices for {value.ndim} axes.")
        for axis, chosen in enumerate(self.slices):
            if chosen is None or chosen is Ellipsis:
                continue
            if isinstance(chosen, slice):
                places = range(value.shape[axis])[chosen]
                if not places:
                    raise self._refused(f"{chosen} leaves nothing of axis {axis}, which has "
                                        f"{value.shape[axis]} elements.")
                value = value[(slice(None),) * axis + (chosen,)]
                continue
            if any(not -value.shape[axis] <= w < value.shape[axis] for w in chosen):
                raise self._refused(f"{chosen} is out of axis {axis}, which has "
                                    f"{value.shape[axis]} elements.")
            value = np.take(value, chosen, axis)
        return np.ascontiguousarray(value)


class Unique(Fields, Transform):
    """The different elements in the order they come, where each element is among them (int32), and
    how often each comes (int32); of an array with several axes all elements are taken."""

    def _apply(self, *args: Any) -> Any:
        flat = args[0].reshape(-1)
        _, first, inverse, counts = np.unique(
            flat, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return (flat[first[order]], rank[inverse.reshape(-1)].astype(np.int32),
                counts[order].astype(np.int32))


def check_random_transform_ops(method: F) -> F:
    """A decorator of an `__init__` whose argument `transforms` is a list of functions."""
    parameters = signature(method)

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(self, *args, **kwargs).arguments
        _TRANSFORMS(given.get("transforms"), type(self).__name__, "transforms")
        if "prob" in given:
            number(0, 1)(given["prob"], type(self).__name__, "prob")
        return method(self, *args, **kwargs)

    return checked  # type: ignore[return-value]  # the same function with checks before it


__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "RandomApply",
    "RandomChoice", "RandomOrder", "Relational", "Slice", "TypeCast", "Unique",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {".transforms": ""})  # a module of MindSpore's
