"""Transforms of values, for `map`: `cellc.dataset.transforms`.

A transform is called with numpy arrays and gives numpy arrays. One that draws is `bound` to a
stream of its own when rows are asked for; called by itself it draws from a stream all such calls
share. Source: `mindspore.dataset.transforms`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.lazy import lazy_names, public_names

from ..core.native import names_itself
from ..tensors import dtype as dtypes
from ..tensors.tensor import Tensor
from . import checks, config
from .batching import padded
from .streams import Mt19937, Stream

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


TensorOperation = Transform
"""MindSpore's inner name."""


class PyTensorOperation:
    """Base of users' transforms whose method `_execute_py` does the work on what it is given.
    Source: `mindspore.dataset.transforms.transforms.PyTensorOperation`."""

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


class Several(RandomTransform):
    """Base of transforms made of others.

    Args:
        transforms: a list of transforms and functions.
    """

    def __init__(self, transforms: Any) -> None:
        checks.of_type("transforms", transforms, (list, tuple))
        if not transforms:
            raise ValueError("transforms list can not be empty.")
        for i, each in enumerate(transforms):
            if not callable(each):
                raise TypeError(f"transforms[{i}] is neither a transforms op (TensorOperation) nor "
                                f"a callable pyfunc, but {each!r}.")
        self.transforms: list[Callable[..., Any]] = list(transforms)

    def bound(self, seed: int) -> RandomTransform:
        """The same, and so its parts."""
        made = super().bound(seed)
        assert isinstance(made, Several)
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


class Compose(Several):
    """Transforms one after the other.

    Args:
        transforms: a list of transforms and functions.

    Source: `mindspore.dataset.transforms.Compose`.
    """


class RandomApply(Several):
    """All transforms, or none of them.

    Args:
        transforms: a list of transforms and functions.
        prob: how likely it is that they are applied.

    Source: `mindspore.dataset.transforms.RandomApply`.
    """

    def __init__(self, transforms: Any, prob: float = 0.5) -> None:
        super().__init__(transforms)
        self.prob = checks.number("prob", prob, 0.0, 1.0)

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return self.transforms if self.random.happens(self.prob) else ()


class RandomChoice(Several):
    """One of the transforms.

    Args:
        transforms: a list of transforms and functions.

    Source: `mindspore.dataset.transforms.RandomChoice`.
    """

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return [self.transforms[self.random.below(len(self.transforms))]]


class RandomOrder(Several):
    """The transforms in random order.

    Args:
        transforms: a list of transforms and functions.

    Source: `mindspore.dataset.transforms.RandomOrder`.
    """

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        return [self.transforms[i] for i in self.random.order(len(self.transforms))]


class TypeCast(Transform):
    """Another element type.

    Args:
        data_type: a dtype of cellc or numpy.

    Source: `mindspore.dataset.transforms.TypeCast`.
    """

    def __init__(self, data_type: Any) -> None:
        self.data_type = numpy_type("data_type", data_type)

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if value.dtype.kind in "US" and self.data_type.kind not in "US":
            raise self._refused(f"strings cannot be cast to {self.data_type}: use a function "
                                "with int or float in 'map'.")
        return value.astype(self.data_type)


def numpy_type(what: str, given: Any) -> np.dtype[Any]:
    """The numpy dtype of what a user gave."""
    try:
        return np.dtype(dtypes.dtype_to_nptype(given)) if hasattr(given, "numpy") or \
            type(given).__module__.startswith("cellc") else np.dtype(given)
    except (KeyError, TypeError, ValueError) as error:
        raise TypeError(
            f"{what} should be a dtype of cellc or numpy, but got {given!r}.") from error


class OneHot(Transform):
    """Labels as vectors of zeros and a one.

    Args:
        num_classes: how many labels there are.
        smoothing_rate: what of the one is spread over all classes.

    Returns:
        `[*shape, num_classes]`, where last axes of one label are left out: of the labels' type, or
        float64 with smoothing.

    Raises:
        RuntimeError: (when called) a label is out of range, or no integer.

    Source: `mindspore.dataset.transforms.OneHot`.
    """

    def __init__(self, num_classes: int, smoothing_rate: float = 0.0) -> None:
        self.num_classes = checks.integer("num_classes", num_classes, 1)
        self.smoothing_rate = checks.number("smoothing_rate", smoothing_rate, 0.0, 1.0)

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


class Fill(Transform):
    """All elements replaced by one value.

    Args:
        fill_value: a number, bool, string or bytes.

    Source: `mindspore.dataset.transforms.Fill`.
    """

    def __init__(self, fill_value: Any) -> None:
        self.fill_value = checks.of_type("fill_value", fill_value, (str, float, bool, int, bytes))

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if isinstance(self.fill_value, (str, bytes)) != (value.dtype.kind in "US"):
            raise self._refused(f"{value.dtype} cannot be filled with {self.fill_value!r}.")
        kind: Any = None if value.dtype.kind in "US" else value.dtype
        return np.full(value.shape, self.fill_value, kind)


class Concatenate(Transform):
    """Arrays joined along an axis.

    Args:
        axis: which; 0 or -1.
        prepend, append: arrays before and after the given ones; None for none.

    Raises:
        RuntimeError: (when called) types or shapes differ.

    Source: `mindspore.dataset.transforms.Concatenate`.
    """

    def __init__(self, axis: int = 0, prepend: Any = None, append: Any = None) -> None:
        checks.integer("axis", axis, -1, 0)
        self.axis = axis
        self.prepend = [] if prepend is None else [np.asarray(prepend)]
        self.append = [] if append is None else [np.asarray(append)]

    def _apply(self, *args: Any) -> Any:
        parts = [*self.prepend, *args, *self.append]
        for each in parts[1:]:
            if each.dtype.kind != parts[0].dtype.kind or (
                    each.dtype != parts[0].dtype and each.dtype.kind not in "US"):
                raise self._refused(f"types differ: {parts[0].dtype} and {each.dtype}.")
        try:
            return np.concatenate(parts, self.axis)
        except ValueError as error:
            raise self._refused(str(error)) from error


class Duplicate(Transform):
    """The value twice. Source: `mindspore.dataset.transforms.Duplicate`."""

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        return value, value.copy()


class Relational(IntEnum):
    """How `Mask` compares. Source: `mindspore.dataset.transforms.Relational`."""

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


class Mask(Transform):
    """Where elements compare with a value.

    Args:
        operator: a `Relational`.
        constant: the value.
        dtype: of the result.

    Source: `mindspore.dataset.transforms.Mask`.
    """

    def __init__(self, operator: Relational, constant: Any, dtype: Any = dtypes.bool_) -> None:
        self.operator = checks.of_type("operator", operator, Relational)
        self.constant = checks.of_type("constant", constant, (str, float, bool, int, bytes))
        self.dtype = numpy_type("dtype", dtype)

    def _apply(self, *args: Any) -> Any:
        (value,) = args
        if isinstance(self.constant, (str, bytes)) != (value.dtype.kind in "US"):
            raise self._refused(f"{value.dtype} cannot be compared with {self.constant!r}.")
        return np.asarray(_COMPARISONS[self.operator](value, self.constant)).astype(self.dtype)


class PadEnd(Transform):
    """A given shape: filled up at the end of axes, or cut off.

    Args:
        pad_shape: the lengths; None for those that stay.
        pad_value: what to fill up with; None for 0, or an empty string.

    Raises:
        RuntimeError: (when called) another number of axes, or a value of another kind.

    Source: `mindspore.dataset.transforms.PadEnd`.
    """

    def __init__(self, pad_shape: Sequence[int | None], pad_value: Any = None) -> None:
        checks.of_type("pad_shape", pad_shape, (list, tuple))
        for i, length in enumerate(pad_shape):
            if length is not None:
                checks.integer(f"pad_shape[{i}]", length, 1)
        self.pad_shape, self.pad_value = list(pad_shape), pad_value

    def _apply(self, *args: Any) -> Any:
        return padded(args[0], self.pad_shape, self.pad_value, "the value of PadEnd")


class Slice(Transform):
    """Parts of an array.

    Args:
        slices: for each axis an int, list of ints, slice, None or ... (all).

    Raises:
        RuntimeError: (when called) positions are out of range, or there are more than axes.

    Source: `mindspore.dataset.transforms.Slice`.
    """

    def __init__(self, *slices: Any) -> None:
        for each in slices:
            if each is not None and each is not Ellipsis and not isinstance(each, slice):
                checks.indices("Slice", each)
        self.slices = slices

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
            wanted = checks.indices("Slice", chosen)
            if any(not -value.shape[axis] <= w < value.shape[axis] for w in wanted):
                raise self._refused(f"{wanted} is out of axis {axis}, which has "
                                    f"{value.shape[axis]} elements.")
            value = np.take(value, wanted, axis)
        return np.ascontiguousarray(value)


class Unique(Transform):
    """The different elements in the order they come, where each element is among them (int32), and
    how often each comes (int32); of an array with several axes all elements are taken.

    Source: `mindspore.dataset.transforms.Unique`.
    """

    def _apply(self, *args: Any) -> Any:
        flat = args[0].reshape(-1)
        _, first, inverse, counts = np.unique(
            flat, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return (flat[first[order]], rank[inverse.reshape(-1)].astype(np.int32),
                counts[order].astype(np.int32))


__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "RandomApply",
    "RandomChoice", "RandomOrder", "Relational", "Slice", "TypeCast", "Unique",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {".transforms": ""})  # a module of MindSpore's
