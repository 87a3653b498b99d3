"""Parameter: a named Tensor that a network trains or keeps, and ParameterTuple."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..core import writes
from ..core.dispatch import active_tracer, assign
from .tensor import Array, Tensor, aligned_copy, cast_array

PARAMETER_NAME_DEFAULT = "Parameter"
_serial = count()


def _initial(value: Any) -> Tensor:
    """The Tensor of a parameter's `default_input`."""
    if isinstance(value, Tensor):
        return value.init_data()
    if isinstance(value, bool):
        raise ValueError("Parameter data can not be `bool`")
    if isinstance(value, int):
        return Tensor(value, dtypes.int32)
    if isinstance(value, (float, np.ndarray, list, str)) or value is None:
        return Tensor(value)
    raise TypeError(
        "The type of the argument 'default_input' must be in ['Tensor', 'int', 'float', "
        f"'numpy.ndarray', 'list']. But got type {type(value)}."
    )


class Parameter(Tensor):
    """A Tensor with a name, whose buffer stays in place when it is assigned.

    Args:
        default_input: a Tensor (also one with a pending initializer), int, float, numpy array or
            list; copied.
        name: its name; Cells give their attribute's name to a parameter made without one.
        requires_grad: whether gradients are taken with respect to it.
        layerwise_parallel, parallel_optimizer, storage_format, device: kept, without effect.

    Raises:
        TypeError: `default_input` or `requires_grad` has a wrong type.
        ValueError: the name is no string, or the data are a bool.
    """

    is_state: bool = False
    """Whether this is generator state, not a weight."""
    auto_named: bool = True
    """Whether the name was made up because none was given."""

    _lease: weakref.ref[writes.Lease] | None = None

    def __init__(
        self,
        default_input: Any,
        name: str | None = None,
        requires_grad: bool = True,
        layerwise_parallel: bool = False,
        parallel_optimizer: bool = True,
        storage_format: str = "",
        device: str | None = None,
    ) -> None:
        self._serial = next(_serial)
        self.name = name
        self._data = aligned_copy(_initial(default_input)._data)
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer
        self.storage_format = storage_format
        self.comm_fusion = 1
        self.key = -1
        self.unique = self.sliced = self.cache_enable = self.is_in_parallel = False
        self.init_mode: Any = None
        self.inited_param: Parameter | None = None

    __hash__ = object.__hash__

    # --- name and flags -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self._name

    @name.setter
    def name(self, value: str | None) -> None:
        if value is not None and not isinstance(value, str):
            raise ValueError(
                "The type of the Parameter's name should be 'string' or 'None', "
                f"but got {type(value)}."
            )
        self.auto_named = not value
        self._name = value or f"{PARAMETER_NAME_DEFAULT}#{self._serial}"

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are taken with respect to this parameter."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError("The argument `requires_grad` must be bool type")
        self._requires_grad = value

    # --- value ----------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The value as a plain Tensor that shares this parameter's memory."""
        return self.value()

    @data.setter
    def data(self, value: Any) -> None:
        self.set_data(value)

    def value(self) -> Tensor:
        """The value as a plain Tensor that shares this parameter's memory."""
        return self if active_tracer() is not None else Tensor._from_array(self._lent())

    def _lent(self) -> Array:
        array, self._lease = writes.lend(self._data)
        writes.written((self,))  # it may be, before anyone looks
        return array

    @property
    def _is_lent(self) -> bool:
        """Whether someone holds an array that shares the memory."""
        return self._lease is not None and self._lease() is not None

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Give the parameter a new value, converted to its dtype; itself.

        A value of the same shape is copied into the buffer; one of another shape replaces it.

        Args:
            data: a Tensor, int or float.
            slice_shape: accepted for compatibility: a change of shape is always allowed.

        Raises:
            TypeError: `data` is something else.
        """
        if not isinstance(data, (Tensor, int, float)):
            raise TypeError(
                "Parameter data must be [`Tensor`, `int`, `float`] or a kind of `Tensor`. "
                f"But with type {type(data)}."
            )
        if isinstance(data, Tensor):
            given = data.init_data() if active_tracer() is None else data
            value = given if given.dtype is self.dtype else given.astype(self.dtype)
        else:
            value = Tensor(data, self.dtype)
        if active_tracer() is not None or value.shape == self.shape:
            assign(self, value)  # where a recording sees it: old elements may be needed yet
        else:
            self._replace(value._data)
        return self

    def _replace(self, array: Array) -> None:
        self._data = aligned_copy(array)
        writes.written((self,))

    def assign_value(self, value: Tensor) -> Parameter:
        """`set_data` under its older name."""
        return self.set_data(value)

    def set_dtype(self, dtype: DType) -> DType:
        """Convert the parameter in place to another element type; that type."""
        self._replace(cast_array(self._data, dtype))
        return dtype

    def init_data(
        self, layout: Any = None, set_sliced: bool = False, opt_shard_group: Any = None
    ) -> Parameter:
        """The parameter itself: its value is set when it is made."""
        return self

    def clone(self, init: Any = "same") -> Parameter:
        """A new parameter with the same name and flags.

        Args:
            init: `"same"` copies the value; otherwise an initializer, its name, or a number.
        """
        out = Parameter(Tensor._from_array(self._data), self._name, self.requires_grad,
                        self.layerwise_parallel, self.parallel_optimizer, self.storage_format)
        out.auto_named, out.is_state = self.auto_named, self.is_state
        if init != "same":
            out._fill(init)
        return out

    def _fill(self, init: Any) -> None:
        if isinstance(init, Tensor):
            self.set_data(init)
        elif isinstance(init, (int, float)):
            self._data.fill(init)
        elif init in ("zeros", "ones"):
            self._data.fill(init == "ones")
        elif callable(init):
            init(self._data)
        else:
            raise ValueError(f"clone takes an initializer, its name or a number, got {init!r}")

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set `requires_grad`; itself."""
        self.requires_grad = requires_grad
        return self

    # --- copies and printing --------------------------------------------------------------------

    def __copy__(self) -> Parameter:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._data, self._name, self.requires_grad, self.layerwise_parallel,
                          self.parallel_optimizer)

    def __repr__(self) -> str:
        return (f"Parameter (name={self._name}, shape={self.shape}, dtype={self.dtype!s}, "
                f"requires_grad={self.requires_grad})")

    __str__ = __repr__


def _restore(
    data: np.ndarray[Any, Any], name: str, requires_grad: bool, layerwise: bool, parallel: bool
) -> Parameter:
    return Parameter(Tensor._from_array(data), name, requires_grad, layerwise, parallel)


class ParameterTuple(tuple[Parameter, ...]):
    """A tuple of parameters with distinct names.

    Args:
        iterable: the parameters.

    Raises:
        TypeError: an element is no Parameter.
        ValueError: two have one name.
    """

    __slots__ = ()

    def __new__(cls, iterable: Iterable[Parameter]) -> ParameterTuple:
        data = tuple(iterable)
        names: set[str] = set()
        for p in data:
            if not isinstance(p, Parameter):
                raise TypeError(
                    "For ParameterTuple initialization, ParameterTuple input should be "
                    f"'Parameter' collection, but got a {type(iterable)}."
                )
            if p.name in names:
                raise ValueError(
                    f"The value {p} , its name '{p.name}' already exists. "
                    "Please set a unique name for the parameter."
                )
            names.add(p.name)
        return super().__new__(cls, data)

    def clone(self, prefix: str, init: Any = "same") -> ParameterTuple:
        """Copies named `prefix.name`.

        Args:
            prefix: put before each name, with a dot.
            init: as in `Parameter.clone`.
        """
        copies = []
        for p in self:
            copy = p.clone(init)
            copy.name = f"{prefix}.{p.name}"
            copies.append(copy)
        return ParameterTuple(copies)

    def __reduce__(self) -> tuple[Any, ...]:
        return ParameterTuple, (tuple(self),)
