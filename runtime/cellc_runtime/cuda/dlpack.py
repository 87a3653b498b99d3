"""Arrays on a GPU given to other libraries and taken from them without a copy: DLPack.

The structures are those of DLPack 0.8 (dlpack.h), which every consumer still takes: a capsule of
the name `dltensor` around a `DLManagedTensor`. All programs of a GPU run on one stream, so whoever
takes an array sees what was launched before once the device has been waited for.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import dtypes
from ..device import Device
from ..device_array import DeviceArray
from ..dtypes import DType

CPU, CUDA = 1, 2  # Numbers of kinds of devices
_NAME, _USED = b"dltensor", b"used_dltensor"
_CODES = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}
_BFLOAT = 4
ALIGNED = 64  # Arrays of programs begin at multiples of this number of bytes; others are copied


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64))


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api))
# A destructor gets an object that nobody refers to any more: to count references would revive it.
_dying_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api))
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api))

_given: dict[int, tuple[_Managed, Any, DeviceArray]] = {}
"""Arrays that others hold, by the address of the structure that they were given."""


def _forget(managed: int) -> None:
    _given.pop(managed, None)


def _unused(capsule: int) -> None:
    """Free a capsule, and its contents if nobody took them."""
    if _dying_is_valid(capsule, _NAME):
        _forget(_dying_pointer(capsule, _NAME))


_forget_native = _DELETER(_forget)
_unused_native = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)


def _type_of(dtype: DType) -> _Type:
    code = _BFLOAT if dtype is dtypes.bfloat16 else _CODES[dtype.kind]
    return _Type(code, 8 * dtype.itemsize, 1)


_TYPES = {(t.code, t.bits): d for d in dtypes.ALL for t in [_type_of(d)]}


def give(array: DeviceArray, stream: Any = None) -> Any:
    """A capsule over the memory of an array, which lives until the consumer is done with it.

    Args:
        stream: the consumer's; -1 where it needs no order. Otherwise the device is waited for.

    Raises:
        RuntimeError: what was launched failed, or the device is gone.
    """
    array.device.check_usable()
    if stream != -1:
        array.device.wait()
    if array.device.lost:
        array.check_computed()
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    managed = _Managed(_Tensor(
        array.address, _Device(CUDA, array.device.number), array.ndim,
        _type_of(dtypes.from_numpy(array.dtype)),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0))
    managed.deleter = ctypes.cast(_forget_native, ctypes.c_void_p)
    address = ctypes.addressof(managed)
    _given[address] = (managed, shape, array)
    return _new(address, _NAME, ctypes.cast(_unused_native, ctypes.c_void_p))


def device_of(capsule: Any) -> tuple[int, int]:
    """Kind and number of the device of what is in a capsule; a processor's of one that is used or
    has a version, which numpy is left to judge."""
    if not _is_valid(capsule, _NAME):
        return CPU, 0
    device = _Managed.from_address(_pointer(capsule, _NAME)).tensor.device
    return device.kind, device.number


class _Taken:
    """Tells the producer when an array of its is used no more."""

    def __init__(self, managed: int) -> None:
        self._managed = managed

    def __del__(self) -> None:
        deleter = _Managed.from_address(self._managed).deleter
        if deleter:
            _DELETER(deleter)(self._managed)


def take(capsule: Any, device: Device) -> DeviceArray:
    """The array in a capsule, of memory on this device; a copy of one that begins at no multiple of
    64 bytes.

    Raises:
        ValueError: the capsule was used already, the elements have gaps, or no tensor has their
            type.
    """
    if not _is_valid(capsule, _NAME):
        raise ValueError("the capsule was used already (each one is for one consumer), or is none "
                         "of DLPack without a version")
    managed = _pointer(capsule, _NAME)
    tensor = _Managed.from_address(managed).tensor
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    dtype = _TYPES.get((tensor.type.code, tensor.type.bits))
    if dtype is None or tensor.type.lanes != 1:
        raise ValueError(f"no tensor has elements of DLPack's code {tensor.type.code} with "
                         f"{tensor.type.bits} bits and {tensor.type.lanes} lanes")
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if strides is not None and not _dense(shape, strides):
        raise ValueError(f"elements of the shape {shape} with the strides {strides} do not lie "
                         "densely, row by row; give a contiguous copy of them")
    _rename(capsule, _USED)
    address, nbytes = (tensor.data or 0) + tensor.byte_offset, dtype.itemsize * int(np.prod(shape))
    owner = _Taken(managed)
    if not nbytes:
        return DeviceArray(device, shape, dtype.numpy)
    memory = device.adopt(owner, address - address % ALIGNED, nbytes + address % ALIGNED)
    out = DeviceArray.over(device, shape, dtype.numpy, memory, address)
    return out.copy() if address % ALIGNED else out


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie row by row without gaps."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n not in (0, 1) and stride != step:
            return False
        step *= n
    return True
