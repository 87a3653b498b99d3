"""Parameter: a named Tensor that a network trains or keeps, and ParameterTuple.

Source: `mindspore.Parameter`, `mindspore.ParameterTuple`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports

from ..core.declared import misuse
from ..core.dispatch import active_tracer, precision, same_value
from ..core.invalidation import changed
from ..storage import Storage, deferred, storage_of, writes
from ..storage import device as on_device
from ..storage.memory import Array, aligned_copy
from .tensor import Tensor, cast_array, elements_now, shared_of
from .views import LINKS, change

with lazy_imports(__name__):  # few programs fill a clone again
    from ..ranks import parts
    from . import initializer as initializers

PARAMETER_NAME_DEFAULT = "Parameter"
_serial = count()
_PREFIX = re.compile(r"\w+[\w.]*", re.ASCII)


def _initial(value: Any) -> Tensor:
    """The Tensor of a parameter's `default_input`."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool):
        raise ValueError("Parameter data can not be `bool`")
    if isinstance(value, int):
        return Tensor(value, dtypes.int32)
    if isinstance(value, (float, np.ndarray, list)):
        return Tensor(value)
    raise misuse("Parameter", "the type of the argument 'default_input' must be in ['Tensor', "
                 f"'int', 'float', 'numpy.ndarray', 'list']. But got type {type(value)}",
                 kind=TypeError)


class _Checked:
    """A flag of a Parameter that takes values of one kind.

    Args:
        kind: `bool` or `int`.
        default: its value before it is set.
        least: the smallest int.
    """

    def __init__(self, kind: type, default: Any, least: int | None = None) -> None:
        self.kind, self.default, self.least = kind, default, least

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance.__dict__.get(self.name, self.default)

    def __set__(self, instance: Any, value: Any) -> None:
        if type(value) is not self.kind or not isinstance(value, int):
            raise misuse("Parameter",
                         f"the argument `{self.name}` must be {self.kind.__name__} type",
                         type(value).__name__, TypeError)
        if self.least is not None and value < self.least:
            raise misuse("Parameter", f"the argument `{self.name}` must be at least {self.least}",
                         value)
        own = instance.__dict__
        if own.get(self.name, value) != value:
            changed(instance, self.name)  # a network may have asked
        own[self.name] = value


_skipping: list[bool] = []  # Not empty within `no_init_parameters`


@contextmanager
def no_init_parameters() -> Iterator[None]:
    """Within the block, parameters made from an initializer are not filled.

    `Cell.init_parameters_data`, `Parameter.init_data` or the first look at their elements fills
    those that have got no value until then.
    """
    _skipping.append(True)
    try:
        yield
    finally:
        _skipping.pop()


class Names:
    """How often the name of a Parameter was requested: what depends on names is not taken over from
    one to another. (Not a member of Parameter: compiled networks notice changes of that class.)"""

    read: ClassVar[int] = 0


class Parameter(Tensor):
    """A Tensor with a name, whose buffer stays in place when it is assigned.

    Args:
        default_input: a Tensor (also one with a pending initializer), int, float, numpy array or
            list; copied.
        name: its name; Cells give their attribute's name to a parameter made without one.
        requires_grad: whether gradients are taken with respect to it.
        layerwise_parallel, storage_format: kept, without effect.
        parallel_optimizer: whether an optimizer may part its state among ranks.
        device: `"CPU"` or `"GPU"`, where the elements are at first (a program moves them to where
            it runs); None is `"CPU"`, and so is MindSpore's `"Remote"`.

    Raises:
        RuntimeError: a device this installation cannot use.
    """

    __module__ = "cellc.common.parameter"  # MindSpore's import path, which printed forms show

    is_state: bool = False  # Whether this is generator state, not a weight
    is_small: bool = False
    """Whether it is part of a weight in few bits, which keeps its type under `to_float`."""
    auto_named: bool = True  # Whether the name was made up because none was given
    requires_grad = _Checked(bool, True)
    layerwise_parallel = _Checked(bool, False)
    parallel_optimizer = _Checked(bool, True)
    parallel_optimizer_comm_recompute = _Checked(bool, False)
    cache_enable = _Checked(bool, False)
    comm_fusion = _Checked(int, 1, 0)
    key = _Checked(int, -1)
    storage_format: str = ""
    grad: Tensor | None = None
    """The sum of its gradients in `parallel.distributed.DistributedDataParallel`."""
    unique: bool = False  # type: ignore[assignment]  # in its place Tensor has a method
    sliced: bool = False
    cut: Any = None
    """How it is cut over ranks (`ranks.parts.Cut`), once a graph that is cut has read it."""
    planned: Any = None  # How it is to be cut (`ranks.layout.Placement`)
    state_of: Parameter | None = None
    """Of an optimizer's state that may be parted where graphs are cut over ranks: the parameter."""
    is_in_parallel: bool = False
    init_mode: Any = None
    _waited: bool = False
    """Whether it was made without a value, and has got none but that of its initializer."""

    def __init__(
        self, default_input: Any, name: str | None = None, requires_grad: bool = True,
        layerwise_parallel: bool = False, parallel_optimizer: bool = True, storage_format: str = "",
        device: str | None = None,
    ) -> None:
        self._serial, self._storage = next(_serial), Storage()
        self.name = name
        if not isinstance(default_input, Tensor) or not self._defers(default_input, not _skipping):
            self._host = aligned_copy(elements_now(_initial(default_input)))
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer
        if not isinstance(storage_format, str):
            raise misuse("Parameter", "the argument `storage_format` must be str type",
                         type(storage_format).__name__, TypeError)
        if storage_format:
            self.storage_format = storage_format
        if device is not None and device != "Remote":
            self._place(device)

    __hash__ = object.__hash__

    def _defers(self, pending: Tensor, now: bool) -> bool:
        """Put off making the values of an initializer until they are needed, if they are
        many and do not depend on when that is; whether it was done.

        Args:
            pending: may have an initializer.
            now: False puts off all.
        """
        if pending.init is None:
            return False
        shape, dtype = pending.shape, pending.dtype.numpy
        if not now:
            self._waited = True
            storage_of(self).defer(self, deferred.Pending(shape, dtype, pending.init, True))
            return True
        later = getattr(type(pending.init), "later", None)
        if type(pending) is Tensor and later is not None \
                and math.prod(shape) * dtype.itemsize >= deferred.LEAST:
            fill = later(pending.init, shape, dtype)
            if fill is not None:  # another Parameter that is made of the same Tensor has the same
                for t in (self, pending):
                    storage_of(t).defer(t, deferred.Deferred(shape, dtype, fill))
                return True
        return False

    # --- name and flags -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The parameter's name."""
        Names.read += 1
        return self._name

    @name.setter
    def name(self, value: str | None) -> None:
        if value is not None and not isinstance(value, str):
            raise ValueError("The type of the Parameter's name should be 'string' or 'None', but "
                             f"got {type(value)}.")
        value = value.strip() if value else value
        changed(self, "name")
        self.auto_named = not value
        self._name = value or f"{PARAMETER_NAME_DEFAULT}#{self._serial}"

    @property
    def cache_shape(self) -> list[int]:
        """The shape of the cache, where one is enabled; kept."""
        shape: list[int] = self.__dict__.get("cache_shape", [])
        return shape

    @cache_shape.setter
    def cache_shape(self, value: Sequence[int]) -> None:
        if not isinstance(value, (list, tuple)):
            raise misuse("Parameter", "the argument `cache_shape` must be list or tuple type",
                         type(value), TypeError)
        self.__dict__["cache_shape"] = list(value)

    def add_pipeline_stage(self, stage: int) -> None:
        """Record a stage of a pipeline that uses this parameter."""
        if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
            raise TypeError(f"`stage` must be an int of at least 0, but got {stage!r}")
        self.__dict__.setdefault("_pipeline_stages", []).append(stage)

    @property
    def pipeline_stages(self) -> list[int]:
        """The stages of a pipeline that use this parameter, as its Cells say."""
        return list(self.__dict__.get("_pipeline_stages", ()))

    @property
    def dtype(self) -> DType:
        """Element type; within a Cell under `to_float`, the one it is read in there."""
        array = self._host
        kind = (array if array is not None else self._layout).dtype
        return self._read_as(dtypes.from_numpy(kind), precision())

    def _read_as(self, own: DType, wanted: DType | None) -> DType:
        """The element type it is read in where floats are wanted in another one."""
        if wanted is None or not own.is_float or self.is_state or self.is_small:
            return own
        return wanted

    # --- value ----------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The value as a plain Tensor that shares this parameter's memory."""
        return self if active_tracer() is not None else shared_of(self)

    @data.setter
    def data(self, value: Any) -> None:
        self.set_data(value)

    def value(self) -> Tensor:
        """The value as a plain Tensor that shares this parameter's memory, and its gradient."""
        if active_tracer() is not None:
            return self
        plain = shared_of(self)
        same_value(plain, self)
        return plain

    def _lent(self) -> Array:
        if on_device.elements_of(self) is not None:
            return self._snapshot()  # a copy: nobody writes the elements by it
        writes.before()
        array = storage_of(self).lend(self)
        writes.written((self,))  # it may be, before anyone looks
        return array

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Give the parameter a new value, converted to its dtype; itself.

        A value of the same shape is copied into the buffer; one of another shape replaces it.

        Args:
            data: a Tensor, int or float.
            slice_shape: accepted for compatibility: a change of shape is always allowed.
        """
        if not isinstance(data, (Tensor, int, float)):
            raise TypeError("Parameter data must be [`Tensor`, `int`, `float`] or a kind of "
                            f"`Tensor`. But with type {type(data)}.")
        if isinstance(data, Tensor):
            value = data if data.dtype is self.dtype else data.astype(self.dtype)
        else:
            value = Tensor(data, self.dtype)
        self._waited = False
        if active_tracer() is not None or value.shape == self.shape:
            change(self, value)  # where a recording sees it: old elements may be needed yet
        else:
            self._replace(elements_now(value))
        return self

    def _replace(self, array: Array) -> None:
        self._move(aligned_copy(array))

    def _move(self, block: Array) -> None:
        """Use a block of memory that holds the new elements."""
        if block.shape != self.shape or block.dtype != self.dtype.numpy:
            changed(self, "shape")
        writes.before()
        self._set_data(block)
        writes.written((self,))

    def assign_value(self, value: Tensor) -> Parameter:
        """`set_data` under its older name."""
        return self.set_data(value)

    def set_dtype(self, dtype: DType) -> DType:
        """Convert the parameter in place to another element type; that type."""
        if dtype not in dtypes.ALL:
            raise TypeError(f"'set_dtype' takes an element type, but got {dtype!r}")
        self._replace(cast_array(self._snapshot(), dtype))
        return dtype

    def init_data(
        self, layout: Any = None, set_sliced: bool = False, opt_shard_group: Any = None
    ) -> Parameter:
        """Fill the parameter if it was made without a value (`no_init_parameters`); itself.

        Args:
            layout, opt_shard_group: accepted for compatibility (no sharding).
            set_sliced: the flag `sliced` afterwards, if True.
        """
        super().init_data()
        if set_sliced:
            self.sliced = True
        return self

    @property
    def inited_param(self) -> Parameter | None:
        """The parameter, once one that was made without a value has that of its initializer."""
        return self if self._waited and self.init is None else None

    # --- parts over ranks -----------------------------------------------------------------------

    def keep_part(self, place: tuple[slice, ...], cut: Any) -> None:
        """Hold this rank's part from now on.

        Args:
            place: where it lies in the whole.
            cut: see the attribute.
        """
        part = self._snapshot()[place]
        if part.shape != self.shape:
            self._replace(part)
            self.sliced = True
        self.cut = cut
        parts.hold(self)

    def show_whole(self) -> Array | None:
        """Have the shape of the whole and no elements, for a trace; what `show_part` takes."""
        saved = self._host
        self._host = np.broadcast_to(np.zeros((), self._layout.dtype), self.cut.shape)
        return saved

    def show_part(self, saved: Array | None) -> None:
        """Have the part again."""
        self._host = saved

    # --- copies and printing --------------------------------------------------------------------

    def clone(self, init: Any = "same") -> Parameter:
        """A new parameter with the same name and flags.

        Args:
            init: `"same"` copies the value; otherwise what `initializer` takes: an initializer,
                its alias, a number, or a Tensor of the same shape.
        """
        state = {k: v for k, v in self.__dict__.items() if k not in _OWN}
        out = _without_value(type(self), state)
        if isinstance(init, str) and init == "same":
            found = on_device.elements_of(self)
            if found is not None:
                on_device.hold(out, found.copy())
            elif not out._defers(self, False):
                out._host = aligned_copy(self._snapshot())
        else:
            filled = initializers.initializer(init, self.shape, self.dtype)
            if filled.dtype is not self.dtype or not out._defers(filled, True):
                out._host = aligned_copy(cast_array(filled._data, self.dtype))
        return out

    def copy(self) -> Parameter:
        """A copy with memory of its own."""
        return self.clone()

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set `requires_grad`; itself."""
        self.requires_grad = requires_grad
        return self

    def __copy__(self) -> Parameter:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        state = {k: v for k, v in self.__dict__.items() if k not in _OWN}
        return _restore, (type(self), self._snapshot(), state)

    def __repr__(self) -> str:
        return (f"Parameter (name={self._name}, shape={self.shape}, dtype={self.dtype!s}, "
                f"requires_grad={self.requires_grad})")

    __str__ = __repr__


_OWN = frozenset({"_serial", "_storage", "_waited"}) | LINKS
"""Attributes that belong to one parameter and not to copies of it."""


def _without_value(cls: type[Parameter], state: dict[str, Any]) -> Parameter:
    """A parameter with these attributes that is still to get its elements."""
    out = object.__new__(cls)
    out.__dict__.update(state)
    out._serial, out._storage = next(_serial), Storage()
    if out.cut is not None:
        parts.hold(out)
    return out


def _restore(cls: type[Parameter], data: Array, state: dict[str, Any]) -> Parameter:
    out = _without_value(cls, state)
    out._host = aligned_copy(data)
    return out


def name_of(parameter: Parameter) -> str:
    """The name of a parameter, for what does not depend on it: `Names.read` stays as it is."""
    return parameter._name


class ParameterTuple(tuple[Parameter, ...]):
    """A tuple of parameters; two different ones have different names.

    Args:
        iterable: the parameters.
    """

    __module__ = "cellc.common.parameter"  # MindSpore's import path, which printed forms show

    __slots__ = ()

    def __new__(cls, iterable: Iterable[Parameter]) -> ParameterTuple:
        data = tuple(iterable)
        names: dict[str, Parameter] = {}
        for p in data:
            if not isinstance(p, Parameter):
                raise TypeError("For ParameterTuple initialization, ParameterTuple input should be "
                                f"'Parameter' collection, but got a {type(iterable)}.")
            if names.setdefault(p.name, p) is not p:
                raise ValueError(f"The value {p} , its name '{p.name}' already exists. Please set "
                                 "a unique name for the parameter.")
        return super().__new__(cls, data)

    def clone(self, prefix: str, init: Any = "same") -> ParameterTuple:
        """Copies named `prefix.name`.

        Args:
            prefix: put before each name, with a dot: letters, digits, `_` and `.`.
            init: as in `Parameter.clone`.
        """
        copies = []
        if not isinstance(prefix, str):
            raise TypeError(f"the prefix must be str, but got {type(prefix).__name__}")
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(f"the prefix {prefix!r} must be letters, digits, '_' and '.', and not "
                             "be empty")
        for p in self:
            copy = p.clone(init)
            copy.name = f"{prefix}.{p.name}"
            copies.append(copy)
        return ParameterTuple(copies)

    def __reduce__(self) -> tuple[Any, ...]:
        return ParameterTuple, (tuple(self),)
