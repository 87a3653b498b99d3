"""Tensor methods with arguments of their own, or in two forms.

Methods that MindSpore gives two sets of arguments (`axis` and `keepdims`, or `dim` and
`keepdim`), methods about memory and bookkeeping, and small compositions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.dtypes import DType, bool_, float32, int64
from cellc_runtime.lazy import imported, lazy_module

from ... import context
from ...calls.hooks import register_on_tensor
from ...core.declared import misuse
from ...core.dispatch import active_tracer, apply, apply_one, same_value
from ...core.later import naming
from ...core.native import native, native_of_any_shape
from ...storage import device as on_device
from ...storage import storage_of, writes
from ...tensors.dtype import convert
from ...tensors.indexing import become, setitem
from ...tensors.promotion import cast_to
from ...tensors.tensor import (
    Tensor,
    cast_array,
    copy_of,
    elements_now,
    elements_of,
    result_of,
    shared_of,
    tensor_of,
)
from ...tensors.views import recipe_of, view_of
from ..arguments import choice, is_int, number, sequence, tensor
from ..functional import (
    arith,
    band,
    classes,
    creation,
    draws,
    elimination,
    grid,
    indexing,
    joining,
    linalg,
    reductions,
    scattering,
    shapes,
    sorting,
    special,
)

_orthogonal = lazy_module("cellc.ops.functional.orthogonal")
Method = Callable[..., Any]


def aliased(fn_: Method, **names: str) -> Method:
    """`fn_` as a method that takes arguments under other names too: `names[other] = its own`."""
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        own = {names.get(name, name): value for name, value in kwargs.items()}
        if len(own) != len(kwargs):
            raise TypeError(f"{fn_.__name__}() got one argument under two names: {list(kwargs)}")
        try:
            return fn_(self, *args, **own)
        except Exception as error:
            naming.raise_told(error, fn_.__name__, fn_, (self, *args), own)

    method.__name__, method.__doc__ = fn_.__name__, fn_.__doc__
    return method


def in_place(fn_: Method) -> Method:
    """`fn_` as a method that writes its result into the tensor."""
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            return become(self, cast_to(fn_(self, *args, **kwargs), self.dtype))
        except Exception as error:
            naming.raise_told(error, fn_.__name__, fn_, (self, *args), kwargs)

    method.__doc__ = f"`{fn_.__name__}`, with the result written into this tensor."
    return method


# --- two sets of arguments ------------------------------------------------------------------------


@native_of_any_shape
def add(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """self + alpha * other."""
    return arith.add(self, other if alpha == 1 else arith.mul(other, alpha))


@native
def matmul(self: Tensor, other: Any = None, *, tensor2: Any = None) -> Tensor:
    """The matrix product with `other` (or `tensor2`); see `ops.matmul`."""
    return linalg.matmul(self, other if tensor2 is None else tensor2)


def diag(self: Tensor, diagonal: int = 0) -> Tensor:
    """A tensor of twice the axes with the elements on its diagonal, zeros elsewhere."""
    if diagonal != 0:
        raise misuse("Tensor.diag", "the argument 'diagonal' should be '0'",
                     f"{diagonal}. For others there is diag_embed(offset)")
    return grid.diag(self)


@native
def flatten(
    self: Tensor, order: Any = "C", end: Any = None, *, start_dim: int = 0, end_dim: int = -1
) -> Tensor:
    """Axes merged into one: `flatten(order)`, `flatten(start_dim, end_dim)`; all by default."""
    if is_int(order):
        order, start_dim = "C", order
    return shapes.flatten(self, order, start_dim=start_dim, end_dim=end_dim if end is None else end)


@native
def repeat_interleave(
    self: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated, along an axis or of all elements in one."""
    out = joining.repeat_interleave(self, repeats, dim)
    if output_size is not None and out.shape[dim or 0] != output_size:
        raise misuse("repeat_interleave", f"'output_size' is {output_size}, but the result has "
                     f"{out.shape[dim or 0]} elements along the axis")
    return out


@native
def scatter(self: Tensor, axis: int, index: Tensor, src: Any, reduce: str | None = None) -> Tensor:
    """Elements replaced (or, with reduce, added or multiplied) at positions along an axis."""
    if reduce is None:
        return indexing.scatter(self, axis, index, src)
    mode = {"add": "add", "multiply": "mul"}[
        choice(reduce, ("add", "multiply"), "scatter", "reduce")]
    value = src if isinstance(src, Tensor) else creation.full(index.shape, src, dtype=self.dtype)
    return indexing.tensor_scatter_elements(self, index, value, axis, mode)


def allclose(
    self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether all elements differ from those of `other` by at most atol + rtol * abs(other)."""
    return bool(reductions.all(arith.isclose(self, other, rtol, atol, equal_nan)))


@native_of_any_shape
def sub(self: Tensor, other: Any = None, *, alpha: float = 1, y: Any = None) -> Tensor:
    """self - alpha * other; or self - y."""
    taken = y if other is None else other
    return arith.sub(self, taken if alpha == 1 else arith.mul(taken, alpha))


@native
def sort(
    self: Tensor, axis: int = -1, descending: bool = False, stable: bool = False, *,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Sorted values along an axis and their positions; equal ones keep their order in any case."""
    return sorting.sort(self, axis if dim is None else dim, descending)


@native
def argsort(
    self: Tensor, axis: int = -1, descending: bool = False, stable: bool = False, *,
    dim: int | None = None,
) -> Tensor:
    """The positions that sort an axis; equal elements keep their order in any case."""
    return sorting.argsort(self, axis if dim is None else dim, descending)


def qr(self: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:
    """Q and R: of the smaller of both lengths with `some`, else Q is square; see `ops.qr`."""
    found: tuple[Tensor, Tensor] = _orthogonal.qr(self, "reduced" if some else "complete")
    return found


# --- compositions ---------------------------------------------------------------------------------


def argmax_with_value(
    self: Tensor, axis: int | None = 0, keep_dims: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest elements along an axis and their positions."""
    return reductions.max(self, axis, keep_dims)


def argmin_with_value(
    self: Tensor, axis: int | None = 0, keep_dims: bool = False
) -> tuple[Tensor, Tensor]:
    """The smallest elements along an axis and their positions."""
    return reductions.min(self, axis, keep_dims)


@native
def ptp(self: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest minus the smallest element over axes."""
    return reductions.amax(self, axis, keepdims) - reductions.amin(self, axis, keepdims)


def choose(self: Tensor, choices: Any, mode: str = "clip") -> Tensor:
    """Element i of the result is element i of `choices[self[i]]`.

    Args:
        choices: tensors or nested lists, of shapes that broadcast with this tensor's.
        mode: what a position out of range does: `"clip"` or `"wrap"`.
    """
    if mode not in ("clip", "wrap"):
        raise misuse("choose", "'mode' must be 'clip' or 'wrap'", repr(mode))
    given = choices if isinstance(choices, (list, tuple)) else joining.unbind(choices)
    parts = [c if isinstance(c, Tensor) else Tensor(c) for c in given]
    index, *same = shapes.broadcast_tensors(self, *parts)
    last = len(same) - 1
    index = arith.clamp(index, 0, last) if mode == "clip" else arith.remainder(index, last + 1)
    picked = indexing.gather_elements(joining.stack(list(same), 0), 0, shapes.unsqueeze(index, 0))
    return shapes.squeeze(picked, 0)


@native
def fill_diagonal(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """The main diagonal replaced by a number.

    Args:
        wrap: restart the diagonal below the end of a tall matrix.
    """
    mask = np.zeros(self.shape, np.bool_)
    np.fill_diagonal(mask, True, wrap)
    value = number(fill_value, "fill_diagonal", "fill_value")
    return arith.masked_fill(self, Tensor(mask), value)


def index_put(
    self: Tensor, indices: tuple[Tensor, ...] | list[Tensor], values: Tensor,
    accumulate: bool | int = False,
) -> Tensor:
    """Elements at positions replaced or, with `accumulate`, added to.

    Args:
        indices: positions along each of the first axes, of shapes that broadcast together.
        values: the new elements.
    """
    sequence(indices, "index_put", "indices")
    if not accumulate:
        return setitem(self, tuple(indices), values)
    points = joining.stack(list(shapes.broadcast_tensors(*indices)), -1)
    shape = points.shape[:-1] + self.shape[len(indices):]
    return indexing.tensor_scatter_add(self, points, shapes.broadcast_to(values, shape))


def index_add(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Slices added along an axis at positions.

    Called `index_add(dim, index, source, *, alpha=1)`, which adds alpha times the source, or
    `index_add(indices, y, axis)`.
    """
    if "dim" in kwargs or (args and is_int(args[0])):
        return _index_add_along(self, *args, **kwargs)
    return indexing.index_add(self, *args, **kwargs)


def _index_add_along(
    self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    scaled = source if alpha == 1 else cast_to(arith.mul(source, alpha), self.dtype)
    return indexing.index_add(self, index, scaled, dim)


@native
def masked_scatter(self: Tensor, mask: Tensor, tensor: Tensor) -> Tensor:
    """Where the mask holds, the next element of `tensor`; elsewhere the element itself."""
    if mask.dtype is not bool_ or tensor.dtype is not self.dtype:
        raise misuse("masked_scatter", "the mask must be of bool and 'tensor' of the input's type",
                     f"{mask.dtype} and {tensor.dtype}", TypeError)
    chosen = shapes.ravel(shapes.broadcast_to(mask, self.shape))
    position = arith.clamp(reductions.cumsum(cast_to(chosen, int64), 0) - 1, 0,
                           max(tensor.size - 1, 0))
    taken = indexing.gather(shapes.ravel(tensor), position, 0)
    return shapes.reshape(arith.where(chosen, taken, shapes.ravel(self)), self.shape)


@native
def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`index_put` with positions in the flattened tensor."""
    flat = index_put(shapes.ravel(self), (shapes.ravel(index),), shapes.ravel(source), accumulate)
    return shapes.reshape(flat, self.shape)


@native
def index_copy(self: Tensor, dim: int, index: Tensor, tensor: Tensor) -> Tensor:
    """Slices along an axis replaced."""
    return setitem(self, (slice(None),) * (dim % self.ndim) + (index,), tensor)


def resize(self: Tensor, *new_shape: Any) -> Tensor:
    """The elements in order under a shape of any size: cut off, or zeros added at the end."""
    given = new_shape[0] if len(new_shape) == 1 and not is_int(new_shape[0]) else new_shape
    shape = tuple(int(d) for d in given)
    size, flat = math.prod(shape), shapes.ravel(self)
    if size > self.size:
        flat = joining.concat([flat, creation.zeros((size - self.size,), self.dtype)])
    return shapes.reshape(flat[:size], shape)


@native
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the axes along which `size`, broadcast to this shape, repeats."""
    shape = tuple(size[0] if len(size) == 1 and not is_int(size[0]) else size)
    extra = self.ndim - len(shape)
    if extra < 0 or broadcast_all(self.shape, shape) != self.shape:
        raise ValueError(f"For sum_to_size, size {shape} is not expandable to {self.shape}.")
    axes = tuple(i for i, d in enumerate(self.shape)
                 if i < extra or (d != 1 and shape[i - extra] == 1))
    return shapes.reshape(reductions.sum(self, axes, True) if axes else self, shape)


# --- random values --------------------------------------------------------------------------------


def random(
    self: Tensor, from_: int = 0, to: int | None = None, *, generator: Any = None
) -> Tensor:
    """Integers from `from_` on and below `to` (below the first argument if it is the only one)."""
    low, high = (0, from_) if to is None and from_ else (from_, to)
    limit = 2 ** min(31, 8 * self.itemsize - 1) - 1
    return cast_to(draws.randint(low, limit if high is None else high, self.shape), self.dtype)


def uniform(self: Tensor, from_: float = 0.0, to: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers distributed evenly between two bounds, in this tensor's shape and type."""
    low, high = number(from_, "uniform", "from_"), number(to, "uniform", "to")
    drawn = draws.rand(self.shape, dtype=float32)
    return cast_to(arith.add(arith.mul(drawn, high - low), low), self.dtype)


def normal(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Normally distributed numbers, in this tensor's shape and type."""
    return cast_to(arith.add(arith.mul(draws.randn(self.shape, dtype=float32), std), mean),
                   self.dtype)


def exponential(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Exponentially distributed numbers of rate `lambd`."""
    drawn = draws.rand(self.shape, dtype=float32)  # in [0, 1), so that 1 - drawn is not 0
    return cast_to(arith.div(arith.neg(apply("log1p", -drawn)), lambd), self.dtype)


def cauchy(self: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    """Numbers of a Cauchy distribution, in this tensor's shape and type."""
    turn = (draws.rand(self.shape, dtype=float32) - 0.5) * math.pi
    return cast_to(arith.add(arith.mul(apply("tan", turn), sigma), median), self.dtype)


def log_normal(self: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    """Numbers whose logarithms are normally distributed, in this tensor's shape and type."""
    drawn = draws.randn(self.shape, dtype=float32)
    return cast_to(apply("exp", arith.add(arith.mul(drawn, std), mean)), self.dtype)


# --- memory and bookkeeping -----------------------------------------------------------------------


def plain(self: Tensor) -> Tensor:
    """The value as a Tensor that shares this one's memory."""
    return self if not self._eager else shared_of(self)


def value(self: Tensor) -> Tensor:
    """The value: the tensor itself (that of a Parameter is another, see there)."""
    return self


def assign_value(self: Tensor, value: Tensor) -> Tensor:
    """Take the value of another tensor; one of another shape or type replaces it. Itself."""
    tensor(value, "assign_value", "value")
    if value.shape == self.shape and value.dtype is self.dtype:
        return become(self, value)
    self._set_data(elements_of(value).copy())
    writes.written((self,))
    return self


def set_dtype(self: Tensor, dtype: DType) -> DType:
    """Convert the tensor in place to another element type; that type."""
    to = convert(dtype, "Tensor.set_dtype")
    self._set_data(cast_array(self._snapshot(), to))
    writes.written((self,))
    return to


def get_bytes(self: Tensor) -> bytes:
    """The elements' memory, row-major."""
    return self._snapshot().tobytes()


def storage_offset(self: Tensor) -> int:
    """Elements between the start of the memory and the first element: of a view, of its root's."""
    recipe = recipe_of(self)
    return 0 if recipe is None else recipe.offset


def is_pinned(self: Tensor) -> bool:
    """Whether the memory is locked for copies to a device: never, here."""
    return False


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes: never, here."""
    return False


def data_ptr(self: Tensor) -> int:
    """Where the elements are; from now on they stay there. Those of a view are where those of its
    root are."""
    if active_tracer() is not None:
        raise RuntimeError("For 'data_ptr', a compiled function has no addresses: its program says "
                           "where elements are; ask outside of it.")
    view = view_of(self)
    if view is None:
        return storage_of(self).pin(self)
    return storage_of(view.root).pin(view.root) + storage_offset(self) * self.itemsize


def convert_bytes_to_tensor(
    bytes_data: bytes, shape: tuple[int, ...], dtype: DType = float32
) -> Tensor:
    """A tensor from memory as `get_bytes` gives it."""
    if not isinstance(bytes_data, bytes):
        raise TypeError(f"'bytes_data' must be bytes, but got {type(bytes_data).__name__}.")
    return Tensor(np.frombuffer(bytes_data, dtype.numpy).reshape(shape))


def placed(x: Tensor, device: str) -> Tensor:
    """A tensor on a device, by its name: itself if it is there, else a copy, whose gradient is
    that of the tensor."""
    gpu, held = context.gpu_named(device), on_device.elements_of(x)
    if (None if held is None else held.device) is gpu:
        return x
    array = elements_now(x)
    out = tensor_of(array) if gpu is None else result_of(DeviceArray.of(gpu, array))
    same_value(out, x)
    return out


def move_to(self: Tensor, to: str, blocking: bool = True) -> Tensor:
    """A copy of the tensor on a device, `"CPU"` or `"GPU"`.

    Args:
        blocking: whether the copy is done when this returns; without, who reads it waits.
    """
    if not isinstance(blocking, bool):
        raise misuse("move_to", "'blocking' must be bool", repr(blocking))
    try:
        out = placed(self, str(to))
    except (ValueError, RuntimeError) as e:
        raise ValueError(f"For 'move_to', 'to' must be 'CPU', but got {to!r}: {e}") from None
    if out is self:
        out = copy_of(self)
        same_value(out, self)
    gpu = context.gpu_named(str(to))
    if blocking and gpu is not None:
        gpu.wait()
    return out


def set_const_arg(self: Tensor, const_arg: bool = True) -> Tensor:
    """Set the attribute `const_arg`, which has no effect; itself."""
    self.const_arg = const_arg
    return self


def new_empty(self: Tensor, size: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor of this one's type for values to come (zeros until then), on `device` if given."""
    context.check_device(device)
    out = creation.zeros(size, dtype or self.dtype)
    return out if device is None else out.to(device)


_AXES = {"dim": "axis", "keepdim": "keepdims"}


def _later(name: str, home: str = "cellc.ops") -> Method:
    """A function of `ops` (or of a module in it) as a method; it loads when first called."""
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(imported(home), name)(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"`ops.{name}` of this tensor."
    return method


def searchsorted(
    self: Tensor, v: Any = None, side: str = "left", sorter: Tensor | None = None, **more: Any
) -> Tensor:
    """Where values `v` (or `values`) belong in this ordered tensor; see `ops.searchsorted`."""
    values = more.pop("values", v)
    if more.get("right"):
        side = more.pop("right") and "right"
    return sorting.searchsorted(self, values, side=side, sorter=sorter, **more)


@native
def trace(
    self: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DType | None = None
) -> Tensor:
    """The sums of the diagonals of two axes (of a matrix by default).

    Args:
        offset: how far above the main diagonal.
        axis1, axis2: the axes.
        dtype: element type to convert to first.
    """
    x = self if dtype is None else cast_to(self, dtype)
    line = grid.diagonal(x, offset, axis1, axis2)
    return apply_one("reduce_sum", line, axes=(line.ndim - 1,), keepdims=False)


def reverse_sequence(
    self: Tensor, seq_lengths: Tensor, seq_dim: int = 0, batch_dim: int = 0
) -> Tensor:
    """The first elements of each row in reverse order; see `ops.reverse_sequence`."""
    return scattering.reverse_sequence(self, seq_lengths, seq_dim, batch_dim)


def bernoulli(self: Tensor, p: Any = None, seed: Any = None, *, generator: Any = None) -> Tensor:
    """1 with probability p (or with that of each element), else 0."""
    return draws.bernoulli(self, self if p is None else p, seed if generator is None else generator)


def register_hook(self: Tensor, hook: Callable[..., Any]) -> Any:
    """Pass every gradient of this tensor through a function.

    Args:
        hook: called with the gradient; gives None or the new gradient (of the same type). In a
            compiled function it is called back when the network runs.

    Returns:
        A handle whose `remove()` takes the hook away; in a compiled function, the tensor (its
        uses from then on have the hook).
    """
    return register_on_tensor(self, hook)


METHODS: dict[str, Any] = {
    "register_hook": aliased(register_hook, hook_fn="hook"),
    "searchsorted": searchsorted, "trace": trace, "reverse_sequence": reverse_sequence,
    "bernoulli": bernoulli, "diagonal": aliased(grid.diagonal, axis1="dim1", axis2="dim2"),
    "float_power": aliased(special.float_power, other="exponent"),
    "multiply": aliased(arith.mul, value="other"),
    "approximate_equal": aliased(special.approximate_equal, other="y"),
    "cholesky": elimination.cholesky, "cholesky_inverse": elimination.cholesky_inverse,
    "cholesky_solve": elimination.cholesky_solve, "col2im": band.col2im, "det": elimination.det,
    "ger": linalg.ger, "igamma": classes.igamma, "igammac": classes.igammac, "inv": arith.inv,
    "inverse": elimination.inverse, "logdet": elimination.logdet, "slogdet": elimination.slogdet,
    "matrix_determinant": elimination.matrix_determinant,
    "log_matrix_determinant": elimination.log_matrix_determinant,
    "random_categorical": draws.random_categorical,
    "qr": qr, "svd": _later("svd"),
    "eigvals": _later("eigvals"), "geqrf": _later("geqrf"), "lstsq": _later("lstsq"),
    "lu_solve": _later("lu_solve"), "orgqr": _later("orgqr"),
    "ormqr": aliased(_later("ormqr"), input2="tau", input3="other"),
    "triangular_solve": _later("triangular_solve", "cellc.ops.functional.orthogonal"),
    "mvlgamma": classes.mvlgamma, "gcd": _later("gcd"), "to_coo": _later("dense_to_sparse_coo"),
    "to_csr": _later("dense_to_sparse_csr"), "lcm": _later("lcm"),
    **{name: _later(name) for name in ("i0", "nanmedian", "nextafter", "unique_with_pad")},
    "add": add, "sub": sub, "flatten": flatten, "repeat_interleave": repeat_interleave,
    "allclose": allclose, "argmax_with_value": argmax_with_value,
    "argmin_with_value": argmin_with_value, "ptp": ptp, "choose": choose,
    "fill_diagonal": fill_diagonal, "index_add": index_add, "index_put": index_put,
    "masked_scatter": aliased(masked_scatter, source="tensor"),
    "resize": resize, "sum_to_size": sum_to_size,
    "scatter": aliased(scatter, dim="axis", value="src"),
    "chunk": aliased(joining.chunk, dim="axis"), "cumsum": aliased(reductions.cumsum, dim="axis"),
    "count_nonzero": aliased(reductions.count_nonzero, dim="axis", keepdim="keep_dims"),
    "median": aliased(sorting.median, **_AXES), "nansum": aliased(reductions.nansum, **_AXES),
    "sort": sort, "argsort": argsort, "index_select": aliased(indexing.index_select, dim="axis"),
    "index_fill": aliased(indexing.index_fill, dim="axis"),
    "true_divide": aliased(arith.true_divide, other="divisor"),
    "isclose": aliased(arith.isclose, x2="other"), "diag": diag, "matmul": matmul,
    "unique": _later("unique", "cellc.ops.functional.distinct"),
    "narrow": aliased(joining.narrow, dim="axis"),
    "remainder": aliased(arith.remainder, divisor="other"),
    "expand_as": aliased(shapes.expand_as, x="other"),
    "cauchy": cauchy, "log_normal": log_normal, "uniform": uniform,
    "data": property(plain), "value": value, "assign_value": assign_value,
    "set_dtype": set_dtype, "get_bytes": get_bytes,
    "convert_bytes_to_tensor": staticmethod(convert_bytes_to_tensor), "move_to": move_to,
    "set_const_arg": set_const_arg, "new_empty": new_empty,
    "data_ptr": data_ptr, "storage_offset": storage_offset,
    "is_pinned": is_pinned, "is_shared": is_shared,
    "random_": in_place(random), "uniform_": in_place(uniform), "normal_": in_place(normal),
    "exponential_": in_place(exponential), "scatter_": in_place(aliased(scatter, dim="axis",
                                                                      value="src")),
    "scatter_add_": in_place(indexing.scatter_add_ext), "index_put_": in_place(index_put),
    "masked_scatter_": in_place(aliased(masked_scatter, source="tensor")),
    "fill_diagonal_": in_place(fill_diagonal),
    "bernoulli_": in_place(bernoulli), "put_": in_place(put), "index_copy_": in_place(index_copy),
}
"""Methods by name, as `Tensor` gets them."""
