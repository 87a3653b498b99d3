"""Methods of Tensor about memory, devices and MindSpore's notes on a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports

from ...calls.hooks import remove_from_tensor
from ...core.declared import instance
from ...tensors.indexing import become
from ...tensors.tensor import Tensor
from ..functional import linalg
from .overloaded import assign_value, placed

with lazy_imports(__name__):
    from cellc_runtime import files

    from ...tensors import sharing
    from .. import untyped


def untyped_storage(self: Tensor) -> untyped.UntypedStorage:
    """The bytes of the elements; see `UntypedStorage`."""
    return untyped.UntypedStorage(self)


def set_(
    self: Tensor, source: Tensor | None = None, storage_offset: int = 0, size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Take the elements of another tensor; itself.

    Args:
        source: the other tensor; None: no elements, (0,).
        storage_offset, size, stride: which of its elements in memory, in which order; all of
            them under its shape if `size` is None.

    Elements are copied: writing to one of both tensors leaves the other as it is.
    """
    return untyped.take(self, source, storage_offset, size, stride)


def to_dlpack(self: Tensor) -> Any:
    """A DLPack capsule over the memory; see `cellc.to_dlpack`."""
    return sharing.to_dlpack(self)


def from_dlpack(dlpack: Any) -> Tensor:
    """A Tensor over the memory of a DLPack capsule; see `cellc.from_dlpack`."""
    return sharing.from_dlpack(dlpack)


def addmm_(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2), written into this tensor."""
    return become(self, linalg.addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def to_(self: Tensor, device: str | None = None, non_blocking: bool = False) -> Tensor:
    """This tensor, whose elements are on a device from now on."""
    if device is not None and not isinstance(device, str):
        raise ValueError(f"The value of 'to' must be 'CPU' or 'GPU', but got {device!r}.")
    moved = self if device is None else placed(self, device)
    return self if moved is self else assign_value(self, moved)


def pin_memory(self: Tensor, device: str | None = None) -> Tensor:
    """Memory for copies to a device, which the CPU has no other kind of."""
    raise RuntimeError("pin_memory() prepares copies to an accelerator's memory; here a tensor is "
                       "copied with move_to or to as it is.")


def index(self: Tensor, indices: Any) -> Tensor:
    """Elements at positions: one tensor of positions for each of the first axes."""
    if not isinstance(indices, (tuple, list)) or not all(
            isinstance(i, Tensor) for i in indices):
        raise TypeError(f"index(): argument 'indices' must be tuple of Tensor, not {indices!r}.")
    found: Tensor = self[tuple(indices)]
    return found


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Itself: gradients are taken with respect to what `grad` is asked for."""
    return self


def offload(self: Tensor, file_path: str) -> bool:
    """Write the bytes of the elements to a file; True. They stay in memory, too.

    Raises:
        OSError: the file cannot be written.
    """
    instance(str)(file_path, "offload", "file_path")
    files.write_atomically(file_path, [self.get_bytes()])
    self.__dict__["_offloaded"] = file_path
    return True


def offload_file_path(self: Tensor) -> str:
    """The file `offload` has written, or an empty string."""
    return str(self.__dict__.get("_offloaded", ""))


def data_sync(self: Tensor, need_wait: bool = True) -> None:
    """Wait until the elements are computed."""
    self._snapshot()


def remove_hook(self: Tensor, handle_id: int) -> None:
    """Take a hook away; nothing if there is none of this number.

    Args:
        handle_id: the `id` of what `register_hook` has returned for this tensor.
    """
    remove_from_tensor(self, handle_id)


def set_device_address(self: Tensor, addr: int, shape: Any, dtype: DType) -> None:
    """Elements at an address of an Ascend device, which there is none of."""
    raise RuntimeError("set_device_address() is for memory of an Ascend device; to use memory that "
                       "another library owns, see Tensor.from_numpy, frombuffer and from_dlpack.")


def delete_(self: Tensor, non_blocking: bool = False) -> None:
    """Accepted for compatibility: memory is free when nothing refers to the tensor."""


def _nothing(name: str, why: str) -> Callable[..., None]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> None:
        return None

    method.__name__, method.__doc__ = name, f"Accepted for compatibility: {why}."
    return method


def _noted(value: Any, doc: str) -> property:
    return property(lambda self: value, doc=doc)


def set_cast_dtype(self: Tensor, dtype: DType | None = None) -> None:
    """Remember an element type, which has no effect."""


BOOKKEEPING: dict[str, Any] = {
    "addmm_": addmm_, "to_": to_, "pin_memory": pin_memory, "index": index,
    "requires_grad_": requires_grad_, "offload": offload, "offload_file_path": offload_file_path,
    "data_sync": data_sync, "set_cast_dtype": set_cast_dtype, "set_": set_,
    "untyped_storage": untyped_storage, "storage": untyped_storage,
    "to_dlpack": to_dlpack, "from_dlpack": staticmethod(from_dlpack),
    "assign_value_cpp": assign_value,
    "delete_": delete_,
    "flush_from_cache": _nothing("flush_from_cache", "elements are not cached elsewhere"),
    "wait_pipeline": _nothing("wait_pipeline", "whoever reads elements waits for them"),
    "remove_hook": remove_hook, "set_device_address": set_device_address,
    "set_param_info": _nothing("set_param_info", "a Parameter keeps its own options"),
    "delta_seed": _noted(0, "0: what draws takes its keys from a generator."),
    "init_finished": property(
        lambda self: not self.has_init, doc="Whether the elements are there."),
    "param_info": _noted(None, "None: a Parameter keeps its own options."),
    "parent_tensor_": _noted(None, "None: what an element was taken from is kept elsewhere."),
    "index_of_parent_": _noted(None, "None: what an element was taken from is kept elsewhere."),
    "symbolic_shape": _noted(None, "None: shapes of tensors are numbers."),
    "virtual_flag": _noted(False, "False: every tensor has elements."),
}
"""Methods and properties by name, as `Tensor` gets them."""
