"""Tensor: a typed array. Its arithmetic, methods and indexing are installed by `cellc.ops.methods`.

An eager tensor owns a C-contiguous, native-endian, writeable numpy array. While a graph is
traced its subclass GraphTensor (tracing/tracer.py) has only a type, so nothing here reads elements
except what must return Python or numpy values.

Source: `mindspore.Tensor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from inspect import currentframe
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.types import TensorType, check_size
from cellc_runtime import dtypes
from cellc_runtime.device import Device
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.parallel_copy import copy_array

from ..context import gpu_named, in_graph_mode
from ..core.declared import misuse
from ..core.later import construct_checks, naming, other_names
from ..storage import Storage, storage_of
from ..storage import device as on_device
from ..storage.deferred import Pending
from ..storage.memory import Array as Array
from .printing import tensor_repr, tensor_str
from .symbol import ANY_RANK, Axis, Described, Symbol, checked_axes, describes

if TYPE_CHECKING:
    from ..stubs.methods import TensorMethods
else:
    TensorMethods = object  # `cellc.ops.methods` sets them, which stands on this class
with lazy_imports(__name__):
    from cellc_runtime.cuda import dlpack

    from . import display

Elements = Array | DeviceArray
"""Elements as programs take them: on the host, or on a device."""

_OWN = dtypes.OWN

_INPUTS = "Tensor, ndarray, list, tuple, float, int, bool, complex"


@lru_cache(maxsize=4096)
def _type_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> TensorType:
    return TensorType(shape, dtypes.from_numpy(dtype))


def own(array: Array) -> Array:
    """A contiguous, native-endian, writeable copy of an array."""
    dtype = dtypes.from_numpy(array.dtype).numpy
    out = np.empty(array.shape, dtype)
    copy_array(out, array)
    return out


def cast_array(array: Array, dtype: DType | None) -> Array:
    """`array`, converted to `dtype` unless it is None (out-of-range values as the CPU gives)."""
    if dtype is None or array.dtype == dtype.numpy:
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _nested(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data._snapshot()
    if isinstance(data, (list, tuple)):
        return [_nested(x) for x in data]
    return data


def short(data: Any) -> str:
    """A value in a message: its text, or the beginning of it."""
    text = repr(data)
    return text if len(text) <= 200 else text[:197] + "..."


def _from_sequence(data: list[Any] | tuple[Any, ...], narrow: bool) -> Array:
    """The array of a nested list; float64 becomes float32 (`narrow`), as MindSpore does."""
    try:
        array = np.array(_nested(data))
    except ValueError:
        array = np.empty(0, np.object_)
    if array.dtype.kind not in "biufcV":
        raise TypeError(f"For Tensor, the input_data is {short(data)} that contain unsupported "
                        "element: pass nested lists of numbers, all of one length on each level.")
    return array.astype(np.float32) if narrow and array.dtype == np.float64 else array


def _to_array(data: Any, narrow: bool) -> Array:
    """A fresh array of what `Tensor(data)` accepts; Python floats in float32 if `narrow`."""
    if isinstance(data, Tensor):
        return own(data._snapshot())
    if isinstance(data, (np.ndarray, np.number, np.bool_)):
        return own(np.asarray(data))
    if isinstance(data, (list, tuple)):
        return own(_from_sequence(data, narrow))
    if isinstance(data, bool):
        return np.array(data)
    if isinstance(data, int):
        if not -(2**63) <= data < 2**64:
            raise RuntimeError(f"the integer {data} does not fit into 64 bits")
        return np.array(data, np.int64 if data < 2**63 else np.uint64)
    if isinstance(data, float):
        return np.array(data, np.float32 if narrow else np.float64)
    if isinstance(data, complex):
        return np.array(data, np.complex128)
    if type(data).__name__ == "bfloat16":
        return np.asarray(data)
    raise misuse("Tensor", f"the type of 'input_data' should be one of '{_INPUTS}'",
                 f"type '{type(data).__name__}'", TypeError)


def _check_dtype(dtype: DType | None) -> DType | None:
    if dtype is not None and not (isinstance(dtype, DType) and dtype in dtypes.ALL):
        names = ", ".join(d.name for d in dtypes.ALL)
        raise misuse("Tensor", f"the 'dtype' should be one of [{names}]", naming.described(dtype),
                     TypeError)
    return dtype


def _check_shape(shape: Any, dtype: DType) -> tuple[int, ...]:
    dims = (shape,) if isinstance(shape, int) else shape
    if not isinstance(dims, (list, tuple)) or not all(isinstance(d, int) for d in dims):
        raise TypeError(f"For Tensor, the 'shape' must be int, tuple or list of int, got {shape}")
    if any(d < 0 for d in dims):
        raise ValueError(f"For Tensor, the 'shape' must hold non-negative ints, but got {shape}")
    check_size("For Tensor, 'shape'", TensorType(tuple(dims), dtype))
    return tuple(dims)


_HOST, _CUDA = (1, 0), 2  # DLPack's device of the host, and its kind of GPUs


class NotHere:
    """An attribute of PyTorch's tensors: there is none, and the error says what to write. (A
    `__getattr__` would make all attributes slower.)"""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        kind = f"{owner.__name__!r} object" if instance is not None else \
            f"type object {owner.__name__!r}"
        raise other_names.missing(instance, self._name, f"{kind} has no attribute {self._name!r}")


class Tensor(TensorMethods):
    """An n-dimensional array of one element type.

    Args:
        input_data: a Tensor, numpy array, number, or nested list or tuple of numbers. Python
            floats give float32, ints int64; numpy data keep their type. The data are copied.
        dtype: element type of the tensor; None keeps that of the data.
        shape: with `dtype` and without `input_data`, the shape of a tensor of zeros, or of one
            that `init` fills at the first look at its elements, or by `init_data()`. With None or a
            `Symbol` for a size it is no tensor but a type, for `set_inputs`; None alone leaves the
            rank open too.
        init: an initializer: called with a numpy array, it fills it.
        const_arg: accepted for compatibility.
        device: `"CPU"` or `"GPU"`, where the elements are; None is `"CPU"`. (MindSpore's `"meta"`,
            a tensor without elements, has elements here.)

    Raises:
        RuntimeError: a device this installation cannot use.
    """

    __module__ = "cellc.common.tensor"  # MindSpore's import path, which printed forms show

    __slots__ = ("__dict__", "__weakref__", "_host")
    backward, cpu, cuda, detach = NotHere(), NotHere(), NotHere(), NotHere()
    _number: Any = None
    """The kind of Python number it stands for, if it is one of a graph (`tracing/numbers.py`)."""

    _host: Array | None
    """The elements, as native code finds them; None while they are elsewhere (`cellc.storage`), and
    where there are none."""
    _storage: Storage | None = None  # The state of their memory; None where there is none
    _eager: bool = True  # Whether it has elements; a tensor of a graph has none
    _hooks: dict[int, Any] | None = None
    """Functions that gradients of this tensor pass through; see `register_hook`."""
    _literal: bool = False  # Whether it stands for a number in the source
    const_arg: bool = False

    def __init__(
        self, input_data: Any = None, dtype: DType | None = None, shape: Any = None,
        init: Any = None, const_arg: bool = False, device: str | None = None,
    ) -> None:
        _check_dtype(dtype)
        if not isinstance(const_arg, bool):
            raise misuse("Tensor", "'const_arg' must be a bool", repr(const_arg), TypeError)
        if input_data is None and dtype is not None and init is None and (
            shape is None or describes(shape)
        ) and type(self) is Tensor:
            self.__class__ = OpenTensor  # a type without elements
            self.axes, self.element = shape if shape is None else checked_axes(shape), dtype
            return
        if input_data is None and shape is not None and dtype is not None:
            dims = _check_shape(shape, dtype)
            if init is None:
                self._host = np.zeros(dims, dtype.numpy)
            elif callable(init):
                storage_of(self).defer(self, Pending(dims, dtype.numpy, init))
            else:
                raise misuse("Tensor", "'init' must be an initializer, which fills an array when "
                             "it is called", repr(init), TypeError)
            if device is not None:
                self._place(device)
            return
        if init is not None:
            raise ValueError("For 'Tensor', init, dtype and shape must have values at the same "
                             f"time, but got dtype: {dtype}, shape: {shape}")
        if input_data is not None and shape is not None:
            raise ValueError("When initializing a tensor with 'input_data', 'shape' should be set "
                             f"to None. But got shape: {shape}.")
        self._host = cast_array(_to_array(input_data, dtype is None), dtype)
        if device is not None:
            self._place(device)

    # --- where its elements are -----------------------------------------------------------------

    @property
    def _data(self) -> Array:
        """The elements as an array; it is made now where there is none."""
        array = self._host
        return array if array is not None else storage_of(self).load(self)

    def _set_data(self, array: Elements) -> None:
        """Take the elements of an array (contiguous, native-endian, writeable) or of one on a
        device, wherever those before are."""
        if isinstance(array, DeviceArray):
            on_device.hold(self, array)
        elif self._storage is None:
            self._host = array
        else:
            self._storage.put(self, array)

    def _place(self, device: str) -> None:
        """Move the elements to a device, by its name."""
        name = type(self).__name__
        if not isinstance(device, str):
            raise TypeError(
                f"For '{name}', 'device' must be None, 'CPU' or 'GPU', but got {device!r}")
        try:
            gpu = None if device == "meta" else gpu_named(device)
        except ValueError as e:
            raise ValueError(f"For '{name}', {e}") from None
        if gpu is not None:
            on_device.to_device(self, gpu)

    @property
    def _layout(self) -> Any:
        """Return an object with the shape and the element type."""
        array = self._host
        return array if array is not None else storage_of(self).layout(self)

    @property
    def _version(self) -> int:
        """Another one whenever the elements have been written in place; see `storage.writes`."""
        storage = self._storage
        return 0 if storage is None else storage.version

    @property
    def _is_written(self) -> bool:
        """Whether the elements have been written in place, as far as it was noted."""
        storage = self._storage
        return storage is not None and storage.version != storage.number

    @property
    def _is_lent(self) -> bool:
        """Whether someone holds an array that shares the memory."""
        storage = self._storage
        return storage is not None and bool(storage.leases) and storage.lent

    # --- what it is -----------------------------------------------------------------------------

    @property
    def _type(self) -> TensorType:
        array = self._host
        layout = array if array is not None else self._layout
        return _type_of(layout.shape, layout.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        array = self._host
        dims: tuple[int, ...] = self._layout.shape if array is None else array.shape
        return dims

    @property
    def dtype(self) -> DType:
        """Element type."""
        array = self._host
        kind = (array if array is not None else self._layout).dtype
        return _OWN.get(id(kind)) or dtypes.from_numpy(kind)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        array = self._host
        return array.ndim if array is not None else len(self._layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._type.size

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._type.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes to step along each axis."""
        step, out = self.itemsize, []
        for d in reversed(self.shape):
            out.append(step)
            step *= max(d, 1)
        return tuple(reversed(out))

    @property
    def device(self) -> str:
        """Where the elements live: `"CPU"`, or `"GPU:0"`."""
        elements = on_device.elements_of(self)
        return "CPU" if elements is None else on_device.named(elements.device)

    @property
    def init(self) -> Any:
        """The initializer that is still to fill it; None else."""
        state = self._storage.state if self._storage is not None else None
        return state.fill if isinstance(state, Pending) else None

    @property
    def has_init(self) -> bool:
        """Whether an initializer is still to be run by `init_data`."""
        return self.init is not None

    init_flag: bool = False  # A mark that `set_init_flag` sets; nothing here depends on it

    def is_init(self) -> bool:
        """The mark `init_flag`."""
        return self.init_flag

    def set_init_flag(self, value: bool = False) -> None:
        """Set the mark `init_flag`."""
        self.init_flag = value

    @property
    def is_meta(self) -> bool:
        """Whether it has a type but no elements: never, here."""
        return False

    def hooks(self) -> list[Any]:
        """The functions registered by `register_hook`, in order."""
        return list((self._hooks or {}).values())

    def init_data(
        self, slice_index: int | None = None, shape: Any = None, opt_shard_group: Any = None
    ) -> Tensor:
        """Run the pending initializer, if there is one; this tensor.

        Args:
            slice_index, shape, opt_shard_group: accepted for compatibility (no sharding).
        """
        if self.init is not None:
            self._snapshot()
        return self

    # --- its elements, as Python and numpy values -----------------------------------------------

    def asnumpy(self) -> Array:
        """The elements as a numpy array that shares this tensor's memory; of a tensor on a GPU,
        a copy, when the GPU has done what was launched."""
        return self._lent()

    def numpy(self) -> Array:
        """`asnumpy`."""
        return self._lent()

    def _lent(self) -> Array:
        """The elements, for someone who may write them."""
        array = self._host
        if array is None:
            return storage_of(self).peek(self)
        return array

    def _snapshot(self) -> Array:
        """The elements, for someone who reads them now and keeps nothing."""
        array = self._host
        return array if array is not None else storage_of(self).peek(self)

    def _overwrite(self, elements: Array) -> Array:
        """Write all elements; the array that holds them now."""
        array = self._host
        if array is None:
            return storage_of(self).overwrite(self, elements)
        copy_array(array, elements)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if not in_graph_mode():
            construct_checks.warn_of_numpy(currentframe())
        if on_device.elements_of(self) is not None:
            data = self._snapshot()
            return data if dtype is None else data.astype(dtype)
        data = self._data
        if dtype is not None and np.dtype(dtype) != data.dtype:
            return data.astype(dtype)
        return data.copy() if copy else self._lent()

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the memory, also of a GPU; a copy on the host if `dl_device` asks
        for it.

        Raises:
            BufferError: another device is requested, or elements that numpy has no capsule for.
        """
        held = on_device.elements_of(self)
        if held is None or dl_device == _HOST:
            array = self._lent() if held is None else self._snapshot()
            return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the tensor is on {self.device}, and is given there or on the host, "
                              f"but DLPack's device {dl_device} was asked for")
        return dlpack.give(held.copy() if copy else held, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        held = on_device.elements_of(self)
        return _HOST if held is None else (_CUDA, held.device.number)

    @staticmethod
    def from_numpy(array: Array) -> Tensor:
        """A tensor that shares the memory of `array` where its layout allows, else a copy."""
        if not isinstance(array, np.ndarray):
            raise TypeError(f"The input of from_numpy must be a numpy.ndarray, got {type(array)}")
        dtype = dtypes.from_numpy(array.dtype).numpy
        shared = array.flags.c_contiguous and array.flags.writeable and array.dtype.isnative
        return tensor_of(array.view(dtype) if shared else own(array))

    def item(self) -> Any:
        """The only element as a Python number."""
        array = self._host
        if array is not None and array.size == 1:
            return array.item()
        return self._one().item()

    def tolist(self) -> Any:
        """The elements as a nested list of Python numbers (a number for a 0-d tensor)."""
        array = self._host
        return (array if array is not None else self._snapshot()).tolist()

    def _one(self) -> Array:
        if self.size != 1:
            error = ValueError(
                f"The tensor should have only one element, but got {self.size}, "
                "more than one element is ambiguous."
            )
            error.add_note("hint: reduce it first, as by .any(), .all() or .sum()")
            raise error
        return self._snapshot().reshape(())

    def __bool__(self) -> bool:
        array = self._host
        if array is not None and array.size == 1:
            return bool(array.item())
        return bool(self._one())

    def __int__(self) -> int:
        array = self._host
        if array is not None and array.size == 1 and array.dtype.kind != "c":
            return int(array.item())
        return int(self._scalar())

    def __float__(self) -> float:
        array = self._host
        if array is not None and array.size == 1 and array.dtype.kind != "c":
            return float(array.item())
        return float(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def _scalar(self) -> Array:
        if self.size != 1:
            error = ValueError("Only one element tensors can be converted to Python scalars")
            error.add_note(f"hint: it has shape {self.shape}: reduce it first, as by .sum() or "
                           ".mean(), or take one element by an index")
            raise error
        return self._snapshot().reshape(())

    def __index__(self) -> int:
        if self.size != 1 or not (self.dtype.is_integer or self.dtype is dtypes.bool_):
            raise ValueError("Only integer tensors of a single element can be converted to an "
                             "index.")
        return int(self._snapshot().reshape(()))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("Not support len of a 0-D tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, element: Any) -> bool:
        return bool(np.any(self._snapshot() == np.asarray(element)))

    # --- identity, copies, printing -------------------------------------------------------------

    __hash__ = object.__hash__

    def __copy__(self) -> Tensor:
        return copy_of(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return copy_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor._unpickled, (self._snapshot(),)

    @classmethod
    def _unpickled(cls, array: Array) -> Tensor:
        # A method of the class, whose public path loads what a Tensor needs besides.
        return tensor_of(array)

    def __repr__(self) -> str:
        if self.init is not None:
            gap = "\n" if self.ndim > 1 else ""
            return (f"Tensor(shape={list(self.shape)}, dtype={self.dtype!s}, "
                    f"value={gap}<uninitialized>)")
        return tensor_repr(self._snapshot(), self.dtype)

    def __str__(self) -> str:
        if self.init is not None:
            return repr(self)
        return tensor_str(self._snapshot(), self.dtype)

    def _repr_html_(self) -> str | None:
        """Return the elements for notebooks; None where there are none."""
        if self.init is not None or not self._eager or isinstance(self, OpenTensor):
            return None
        title = getattr(self, "name", "") or type(self).__name__
        return display.tensor_html(self._snapshot(), self.dtype.name, title)

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
        return str(self)


Tensors = Sequence[Tensor]
Grads = Sequence[Tensor | None]  # Cotangents, each None where nothing has contributed to it


def tensor_of(array: Array) -> Tensor:
    """A Tensor that owns `array` (contiguous, native-endian, writeable), without checks."""
    self = object.__new__(Tensor)
    self._host = array
    return self


def result_of(elements: Any) -> Tensor:
    """A Tensor that owns what a program gave, on the host or on a device."""
    if not isinstance(elements, DeviceArray):
        return tensor_of(elements)
    self = object.__new__(Tensor)
    on_device.hold(self, elements)
    return self


def ir_type(tensor: Tensor) -> TensorType:
    """The type that a tensor has in a graph."""
    return tensor._type


def number_kind(tensor: Tensor) -> Any:
    """The kind of Python number that a tensor of a graph stands for; None for other tensors."""
    return tensor._number


def host_array(tensor: Tensor) -> Array:
    """The array of a tensor's elements on the host, which writes change in place."""
    return tensor._data


def use_elements(tensor: Tensor, elements: Elements) -> None:
    """Let a tensor have these elements, in their memory; the caller notes the write."""
    tensor._set_data(elements)


def elements_now(tensor: Tensor) -> Array:
    """The elements on the host, for a caller who reads them now and keeps nothing."""
    return tensor._snapshot()


def elements_of(tensor: Tensor) -> Elements:
    """The elements where they are: on the host, where an array is made now if there is none, or on
    a device."""
    found = on_device.elements_of(tensor)
    return tensor._data if found is None else found


def elements_for(tensor: Tensor, device: Device) -> Elements:
    """The elements as a program on a device takes them: of a constant there, once."""
    if tensor._literal:  # never written
        storage = storage_of(tensor)
        twin = storage.twin
        if twin is None or twin.device is not device:
            twin = storage.twin = DeviceArray.of(device, tensor._snapshot())
        return twin
    found = elements_of(tensor)
    return on_device.checked(found, device) if isinstance(found, DeviceArray) else found


def arrays_of(tensors: Iterable[Tensor]) -> list[Any]:
    """The elements of tensors, as programs take them (`elements_of`)."""
    return [elements_of(t) if (array := t._host) is None else array for t in tensors]


def host_arrays_of(tensors: Iterable[Tensor]) -> list[Array]:
    """The elements of tensors on the host, for someone who reads them now."""
    return [t._snapshot() for t in tensors]


def alias_of(tensor: Tensor) -> Tensor:
    """Another Tensor over the same memory."""
    return result_of(elements_of(tensor))


def shared_of(tensor: Tensor) -> Tensor:
    """Another Tensor over the same memory, for someone who may write it."""
    if on_device.elements_of(tensor) is not None:
        return alias_of(tensor)
    return tensor_of(tensor._lent())


def copy_of(tensor: Tensor) -> Tensor:
    """A Tensor with a copy of the elements, where they are."""
    return result_of(elements_of(tensor).copy())


class OpenTensor(Tensor, Described):
    """The type of a tensor whose shape is not all known: what `Tensor(shape=[None, 3], ...)` is."""

    __slots__ = ()
    _host = None

    @classmethod
    def of(cls, ty: TensorType) -> OpenTensor:
        """The type of a tensor, without its elements."""
        self = object.__new__(cls)
        self.axes, self.element = ty.dims, ty.dtype
        return self

    @property
    def _data(self) -> Any:
        raise ValueError(f"{self!r} has no elements: a tensor with sizes left open is for "
                         "set_inputs")

    @property
    def _layout(self) -> Any:
        return self._data

    def _lent(self) -> Any:
        return self._data

    def _snapshot(self) -> Any:
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis, -1 where it is open."""
        if self.axes is None:
            return ANY_RANK
        return tuple(d if isinstance(d, int) else -1 for d in self.axes)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.element

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements: none are there."""
        return 0

    @property
    def symbolic_shape(self) -> list[Any] | None:
        """The axes with what the symbols say; None without symbols."""
        axes: tuple[Axis, ...] = self.axes or ()
        if not any(isinstance(d, Symbol) for d in axes):
            return None
        return [d.to_dict() if isinstance(d, Symbol) else -1 if d is None else d for d in axes]

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"Tensor(shape=[{dims}], dtype={str(self.element).capitalize()}, value=\n)"

    __str__ = __repr__
