"""The operators and methods of Tensor: each is a function of the functional API.

`install()` sets them on the class once, when `cellc.ops` is imported; Tensor itself stands below
this package. A function whose first parameter is the tensor is the method as it is; the
wrappers here are for methods whose arguments differ.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.op import lookup
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType, bool_, float32, int64
from cellc_runtime.errors import counted

from ...core.declared import misuse
from ...core.invalidation import own_members
from ...core.native import native, native_body, native_of_any_shape, native_of_types
from ...tensors.dtype import convert
from ...tensors.indexing import become, getitem, setitem, write
from ...tensors.parameter import Parameter
from ...tensors.promotion import cast_to, fresh, is_scalar, listed
from ...tensors.tensor import Tensor
from ...tensors.views import recipe_of
from ..arguments import is_int, own_axis, tensor
from ..functional import (
    activation,
    arith,
    creation,
    draws,
    grid,
    indexing,
    joining,
    linalg,
    reductions,
    scattering,
    shapes,
    sorting,
    special,
    statistics,
    window,
)
from ..functional.generated import ALIASES, generated_methods, make_function
from ..viewing import as_views
from .bookkeeping import BOOKKEEPING
from .overloaded import METHODS, add, aliased, in_place, index_add, placed

# --- operators ------------------------------------------------------------------------------------

_OPERANDS = (Tensor, bool, int, float, complex, np.number, np.bool_, list, tuple)


_KEEP_TYPE = ("add", "sub", "floordiv", "pow")
"""Operators in which a list takes the element type of the tensor (all but
`//` not that of bools)."""


def _beside(self: Tensor, other: Any, name: str) -> Any:
    """The other operand; a list as a tensor, where the operator gives it the tensor's type."""
    if isinstance(other, (list, tuple)) and name in _KEEP_TYPE and (
            self.dtype is not bool_ or name == "floordiv"):
        return cast_to(listed(other), self.dtype)
    if isinstance(other, (str, bytes)) and name == "mul":
        raise TypeError(f"a tensor cannot be multiplied with a {type(other).__name__}")
    return other


def _operator(name: str, fn_: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, np.ndarray):  # else numpy would answer, with an array
            raise TypeError("a tensor does not combine with a numpy array; make a Tensor of it")
        other = other if isinstance(other, Tensor) else _beside(self, other, name)
        return fn_(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return method


def _make_reflected(
    name: str, fn_: Callable[[Any, Any], Tensor], plain: Callable[[Any, Any], Any]
) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, np.ndarray):  # numpy's operator gave way: its result is an array
            return plain(other, self.asnumpy())
        other = _beside(self, other, name)
        return fn_(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return method


def _comparison(
    fn_: Callable[[Any, Any], Tensor], plain: Callable[[Any, Any], Any], unequal: bool | None
) -> Any:
    """A comparison; == and != with something that is no number, tensor or array are False and
    True."""
    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, (Tensor, bool, int, float, complex, np.number, np.bool_)):
            return fn_(self, other)
        if isinstance(other, np.ndarray):  # numpy's operator gave way: its result is an array
            return plain(self.asnumpy(), other)
        return NotImplemented if unequal is None else unequal

    return method


_BINARY: dict[str, tuple[Callable[[Any, Any], Tensor], Callable[[Any, Any], Any]]] = {
    "add": (arith.add, operator.add), "sub": (arith.sub, operator.sub),
    "mul": (arith.mul, operator.mul),
    "truediv": (arith.true_divide, operator.truediv),
    "floordiv": (arith.floor_divide, operator.floordiv), "mod": (arith.remainder, operator.mod),
    "pow": (arith.pow, operator.pow), "matmul": (linalg.matmul, operator.matmul),
    "and": (arith.bitwise_and, operator.and_), "or": (arith.bitwise_or, operator.or_),
    "xor": (arith.bitwise_xor, operator.xor), "lshift": (arith.bitwise_left_shift, operator.lshift),
    "rshift": (arith.bitwise_right_shift, operator.rshift),
}


def _operators() -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, (fn_, plain) in _BINARY.items():
        out[f"__{name}__"] = _operator(name, fn_)
        out[f"__r{name}__"] = _make_reflected(name, fn_, plain)
    for name, compare, unequal in (
        ("eq", arith.eq, False), ("ne", arith.ne, True), ("lt", arith.lt, None),
        ("le", arith.le, None),
        ("gt", arith.gt, None), ("ge", arith.ge, None),
    ):
        out[f"__{name}__"] = _comparison(compare, getattr(operator, name), unequal)
    out |= {
        "__neg__": arith.neg, "__pos__": arith.positive, "__abs__": arith.abs, "__round__": _round,
        "__invert__": arith.logical_not, "__getitem__": getitem, "__setitem__": write,
        # A numpy scalar on the left gives way to `__rmul__` and the rest.
        "__array_priority__": 100,
    }
    return out


def _round(self: Tensor, decimals: int = 0) -> Tensor:
    return arith.round(self, decimals=decimals)


# --- conversion -----------------------------------------------------------------------------------


@native
def astype(self: Tensor, dtype: Any, copy: bool = True) -> Tensor:
    """The tensor in another element type, given as such, by name, or as a Python or numpy type.

    Args:
        copy: False returns the tensor itself if it has the type already.
    """
    to = convert(dtype, "Tensor.astype")
    if self.dtype is to:
        return fresh(self) if copy else self
    return cast_to(self, to)


@native
def to(
    self: Tensor, *args: Any, dtype: Any = None, device: str | None = None,
    other: Tensor | None = None, non_blocking: bool = False, copy: bool = False,
) -> Tensor:
    """The tensor in another element type, and on a device (which in a graph has no effect).

    Called as `to(dtype)`, `to(device, dtype)` or `to(other)`, for the type and device of another.

    Args:
        non_blocking: whether the copy may go on in the background; whoever reads it waits for it.
        copy: whether there is a new tensor even if nothing changes.
    """
    given = dtype
    for a in args if other is None else (*args, other):
        if isinstance(a, DType):
            given = a
        elif isinstance(a, Tensor):
            given, device = a.dtype, a.device if a._eager else None
        elif isinstance(a, str):
            device = a
    if device is not None and not isinstance(device, str):
        raise misuse("to", "'device' must be a string", type(device).__name__, TypeError)
    if device is not None and device.lower().partition(":")[0] not in ("cpu", "gpu", "ascend"):
        raise ValueError(f"Failed to convert the value {device!r} of input 'device' of 'to'.")
    out = self if given is None else cast_to(self, convert(given, "Tensor.to"))
    if device is not None and self._eager:
        out = placed(out, device)
    return fresh(out) if copy and out is self else out


def _converter(dtype: DType) -> Callable[[Tensor], Tensor]:
    @native_of_any_shape
    def method(self: Tensor) -> Tensor:
        return cast_to(self, dtype)

    method.__doc__ = f"The tensor in {dtype.name}."
    return method


def type_(self: Tensor, dtype: Any = None) -> Any:
    """The name of the element type; with an argument, the tensor in that type."""
    return str(self.dtype) if dtype is None else cast_to(self, convert(dtype, "Tensor.type"))


@native_of_types
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the element type of another."""
    return cast_to(self, tensor(other, "type_as", "other").dtype)


# --- shapes given as arguments --------------------------------------------------------------------


def _dims(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 and not is_int(args[0]) else args


@native
def reshape(self: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements under another shape, given as one tuple or as arguments."""
    return shapes.reshape(self, _dims(sizes) if shape is None else shape)


def transpose(self: Tensor, *axes: Any, dim0: int | None = None, dim1: int | None = None) -> Tensor:
    """Axes permuted (reversed if none are given); two ints name two axes to be swapped."""
    return _transpose(self, axes, dim0, dim1)


@native_body()
def _transpose(self: Tensor, axes: tuple[Any, ...], dim0: int | None, dim1: int | None) -> Tensor:
    if dim0 is not None and dim1 is not None:
        axes = (dim0, dim1)
    if len(axes) == 2:
        return shapes.swapaxes(self, *axes)
    dims = _dims(axes)
    return shapes.transpose(self, dims if len(dims) else tuple(reversed(range(self.ndim))))


@native
def permute(self: Tensor, *order: Any, dims: Any = None, axis: Any = None) -> Tensor:
    """Axes permuted, in an order given as one tuple (`dims` or `axis`) or as arguments."""
    named = axis if dims is None else dims
    return shapes.transpose(self, _dims(order) if named is None else named)


@native
def expand(self: Tensor, *size: Any) -> Tensor:
    """Broadcast to a shape; -1 keeps a length."""
    return shapes.broadcast_to(self, _dims(size))


@native
def repeat(self: Tensor, *times: Any, repeats: Any = None) -> Tensor:
    """Tiled: repeats[i] times along axis i."""
    return joining.tile(self, _dims(times) if repeats is None else repeats)


@native
def tile(self: Tensor, *times: Any, dims: Any = None, reps: Any = None) -> Tensor:
    """Tiled: dims[i] (or reps[i]) times along axis i."""
    named = reps if dims is None else dims
    return joining.tile(self, _dims(times) if named is None else named)


@native
def flip(self: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The order of elements reversed along axes, given as one tuple or as arguments."""
    return shapes.flip(self, _dims(axes) if dims is None else dims)


@native_of_types
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of another tensor."""
    return shapes.reshape(self, tensor(other, "view_as", "other").shape)


def stride(self: Tensor, dim: int | None = None) -> Any:
    """Elements to step along each axis in memory, or along one: of a view in that of its root."""
    recipe = recipe_of(self)
    steps = [s // self.itemsize for s in self.strides] if recipe is None else list(recipe.strides)
    return steps if dim is None else steps[own_axis(dim, self.ndim, "stride", "dim")]


# --- methods whose arguments differ from the function's -------------------------------------------


@native
def sum_(
    self: Tensor, axis: Any = None, dtype: DType | None = None, keepdims: bool = False,
    initial: Any = None, *, dim: Any = None, keepdim: bool = False,
) -> Tensor:
    """The sum over axes.

    Args:
        axis, dim: an axis or several; all if None.
        dtype: element type to convert to first.
        keepdims, keepdim: keep reduced axes as size 1.
        initial: added to the result.
    """
    out = reductions.total(
        "reduce_sum", self, axis if dim is None else dim, keepdims or keepdim, dtype)
    return out if initial is None else arith.add(out, initial)


@native
def mean(
    self: Tensor, axis: Any = None, keep_dims: bool = False, *, keepdims: bool = False,
    dim: Any = None, keepdim: bool = False, dtype: DType | None = None,
) -> Tensor:
    """The mean over axes."""
    x = self if dtype is None else cast_to(self, dtype)
    return reductions.mean(x, axis if dim is None else dim, keep_dims or keepdims or keepdim)


def prod(
    self: Tensor, axis: Any = None, keep_dims: bool = False, dtype: DType | None = None, *,
    dim: Any = None, keepdim: bool = False, keepdims: bool = False,
) -> Tensor:
    """The product over axes."""
    return reductions.total("reduce_prod", self, axis if dim is None else dim,
                            keep_dims or keepdim or keepdims, dtype)


def all_(
    self: Tensor, axis: Any = None, keep_dims: bool = False, *, dim: Any = None,
    keepdim: bool = False,
) -> Tensor:
    """Whether all elements over `axis` (all axes if None) are non-zero, as bools; True of no
    elements. NaN counts as non-zero."""
    return reductions.truth("reduce_all", self, axis if dim is None else dim, keep_dims or keepdim)


def any_(
    self: Tensor, axis: Any = None, keep_dims: bool = False, *, dim: Any = None,
    keepdim: bool = False,
) -> Tensor:
    """Whether at least one element over `axis` (all axes if None) is non-zero, as bools; False of
    no elements. NaN counts as non-zero."""
    return reductions.truth("reduce_any", self, axis if dim is None else dim, keep_dims or keepdim)


def _extreme_method(name: str, between: Callable[[Any, Any], Tensor]) -> Callable[..., Any]:
    values = f"reduce_{name}"

    def method(
        self: Tensor, *args: Any, axis: Any = None, keepdims: bool = False, initial: Any = None,
        where: Any = True, return_indices: bool = False, dim: Any = None, keepdim: bool = False,
    ) -> Any:
        if len(args) > 2:
            raise TypeError(f"{name}() takes at most 2 positional arguments, 'dim' and 'keepdim', "
                            f"but got {len(args)}.")
        if args or dim is not None:  # max(dim, keepdim): values and positions
            along = args[0] if args else dim
            if isinstance(along, Tensor):
                return between(self, along)
            if along is not None:
                return reductions.with_index(
                    name, self, along, bool(args[1]) if len(args) > 1 else keepdim or keepdims,
                    None, None)
        condition = None if where is True else where
        if return_indices:
            return reductions.with_index(name, self, axis, keepdims, initial, condition)
        if is_int(axis) and initial is None and condition is None:
            return reductions.with_index(name, self, axis, keepdims, None, None)[0]
        return reductions.extreme(values, self, axis, keepdims, initial, condition)

    kind = "largest" if name == "max" else "smallest"
    method.__doc__ = (
        f"The {kind} element over the axes; given an axis by position or `dim`, or with "
        f"`return_indices`, values and positions along it; given a Tensor, the {kind} of each pair."
    )
    return method


@native
def argmax(
    self: Tensor, axis: int | None = None, keepdims: bool = False, *, dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The position of the first largest element along an axis; of all if it is None."""
    return reductions.position("argmax", self, axis if dim is None else dim, keepdims or keepdim)


def argmin(
    self: Tensor, axis: int | None = None, keepdims: bool = False, *, dim: int | None = None,
    keepdim: bool = False,
) -> Tensor:
    """The position of the first smallest element along an axis; of all if it is None."""
    return reductions.position("argmin", self, axis if dim is None else dim, keepdims or keepdim)


def var(
    self: Tensor, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, dim: Any = None,
    unbiased: bool | None = None, correction: int | None = None, keepdim: bool = False,
) -> Tensor:
    """The variance over axes, over n - ddof."""
    less = correction if correction is not None else ddof if unbiased is None else int(unbiased)
    return reductions.spread("var", self, axis if dim is None else dim, less, keepdims or keepdim)


def std(
    self: Tensor, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, dim: Any = None,
    unbiased: bool | None = None, correction: int | None = None, keepdim: bool = False,
) -> Tensor:
    """The standard deviation over axes, over n - ddof."""
    less = correction if correction is not None else ddof if unbiased is None else int(unbiased)
    return reductions.spread("std", self, axis if dim is None else dim, less, keepdims or keepdim)


def where(self: Tensor, condition: Any, y: Any = None, *, other: Any = None) -> Tensor:
    """This tensor where the condition holds, y (or other) elsewhere."""
    return arith.where(condition, self, other if y is None else y)


@native
def select(
    self: Tensor, *args: Any, condition: Any = None, y: Any = None, dim: Any = None,
    index: Any = None,
) -> Tensor:
    """`select(condition, y)`: this tensor or y; `select(dim, index)`: one slice of an axis."""
    first, second = _place_arguments("select", args, (condition, y), (dim, index))
    if isinstance(first, Tensor) and first.dtype is bool_:
        return arith.where(first, self, second)
    axis = int(first) % max(self.ndim, 1)
    return self[(slice(None),) * axis + (second,)]


def _place_arguments(what: str, args: tuple[Any, ...], *forms: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments by position, followed by those by keyword of the form that is thereby complete."""
    named = sum(value is not None for form in forms for value in form)
    for form in forms:
        rest = form[len(args):]
        if named == len(rest) == sum(value is not None for value in rest):
            return (*args, *rest)
    raise TypeError(f"{what}() got arguments that make none of its forms complete: see its text.")


@native
def gather(
    self: Tensor, *args: Any, input_indices: Any = None, axis: Any = None, batch_dims: int = 0,
    dim: Any = None, index: Any = None,
) -> Tensor:
    """`gather(indices, axis, batch_dims=0)` takes slices; `gather(dim, index)` takes elements."""
    first, second = _place_arguments("gather", args[:2], (input_indices, axis), (dim, index))
    if isinstance(second, Tensor):
        return indexing.gather_elements(self, first, second)
    return indexing.gather(self, first, second, args[2] if len(args) > 2 else batch_dims)


def take(self: Tensor, indices: Any, axis: int | None = None, mode: str = "clip") -> Tensor:
    """Elements of the flattened tensor, or slices along an axis, at positions."""
    index = indices if isinstance(indices, Tensor) else Tensor(indices)
    x = shapes.ravel(self) if axis is None else self
    a = 0 if axis is None else axis
    if mode == "clip":  # within the axis; negative ones count from the end
        index = arith.clamp(index, -x.shape[a], x.shape[a] - 1)
    elif mode == "wrap":
        index = arith.remainder(index, x.shape[a])
    return indexing.gather(x, index, a)


def scatter_add(
    self: Tensor, *args: Any, dim: Any = None, index: Any = None, src: Any = None,
    indices: Any = None, updates: Any = None,
) -> Tensor:
    """`scatter_add(dim, index, src)` along an axis; `scatter_add(indices, updates)` at points."""
    values = _place_arguments("scatter_add", args, (indices, updates), (dim, index, src))
    if len(values) == 3:
        return indexing.scatter_add_ext(self, values[0], values[1], values[2])
    return indexing.tensor_scatter_add(self, values[0], values[1])


@native
def split(
    self: Tensor, split_size_or_sections: Any = None, axis: int = 0, *, split_size: Any = None,
    dim: int | None = None,
) -> tuple[Tensor, ...]:
    """Parts along an axis, of a given length or of given lengths."""
    size = split_size_or_sections if split_size is None else split_size
    return joining.split(self, size, axis if dim is None else dim)


def copy(self: Tensor) -> Tensor:
    """A tensor of the same value with memory of its own."""
    return fresh(self)


def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: DType | None = None) -> Tensor:
    """A filled tensor of this one's type."""
    return creation.full(size, fill_value, dtype=dtype or self.dtype)


def new_zeros(self: Tensor, size: Any, dtype: DType | None = None) -> Tensor:
    """Zeros of this tensor's type."""
    return creation.zeros(size, dtype or self.dtype)


def new_ones(self: Tensor, size: Any, dtype: DType | None = None) -> Tensor:
    """Ones of this tensor's type."""
    return creation.ones(size, dtype or self.dtype)


# --- methods that change the tensor ---------------------------------------------------------------


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Take the value of another tensor (broadcast, in this one's type)."""
    source = src if isinstance(src, Tensor) else Tensor(src)
    return become(self, shapes.broadcast_to(cast_to(source, self.dtype), self.shape))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Fill with one number."""
    return become(self, creation.full_like(self, value))


def zero_(self: Tensor) -> Tensor:
    """Fill with zeros."""
    return fill_(self, 0)


def itemset(self: Tensor, *args: Any) -> Tensor:
    """A copy with one element set: `itemset(value)`, `itemset(position, value)`."""
    if len(args) not in (1, 2):
        raise misuse("itemset", "a value, or a position and a value are needed",
                     counted(len(args), 'argument'), TypeError)
    value = args[-1]
    if not is_scalar(value):
        raise misuse("itemset", "the value must be a number", type(value).__name__, TypeError)
    key: Any = (0,) * self.ndim
    if len(args) > 1:
        at = args[0]
        key = at if isinstance(at, tuple) else tuple(
            int(i) for i in np.unravel_index(at, self.shape))
    return setitem(self, key, value)


def _axes(self: Tensor) -> int:
    """Number of axes."""
    return self.ndim


def _is_contiguous(self: Tensor) -> bool:
    """Whether the elements lie one after another: those of a view in the memory of its root."""
    recipe = recipe_of(self)
    return recipe is None or recipe.is_contiguous()


def contiguous(self: Tensor) -> Tensor:
    """The tensor itself if `is_contiguous()`, else a copy."""
    return self if _is_contiguous(self) else fresh(self)


def _is_signed(self: Tensor) -> bool:
    """Whether the element type has negative numbers."""
    return self.dtype.kind in ("int", "float", "complex")


def _element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self.itemsize


@native
def _transposed(self: Tensor) -> Tensor:
    """All axes in reverse order."""
    return shapes.transpose(self, tuple(reversed(range(self.ndim))))


def _hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.ndim != 2:
        raise ValueError(f"For tensor.H, only 2-D Tensor is supported, but got {self.ndim}-D.")
    return arith.conj(_transposed(self))


# --- the table ------------------------------------------------------------------------------------

_AS_THEY_ARE: dict[Any, str] = {
    activation: "softmax",
    arith:
        "abs bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
        "bitwise_xor ceil clamp clip conj div eq floor floor_divide fmax fmin fmod frac ge gt "
        "imag isclose isfinite isinf isnan isneginf isposinf isreal le logical_and logical_not "
        "logical_or logical_xor lt masked_fill maximum minimum mul ne neg positive pow real "
        "reciprocal round sgn sign signbit sqrt square subtract true_divide trunc divide=div "
        "absolute=abs negative=neg equal=eq not_equal=ne less=lt less_equal=le greater=gt "
        "greater_equal=ge invert=bitwise_not",
    creation: "fills fill=fills",
    draws: "multinomial",
    grid: "diag diagflat tril triu",
    indexing:
        "gather_elements gather_nd index_fill index_select inplace_update unsorted_segment_max "
        "unsorted_segment_min unsorted_segment_prod scatter_sub=tensor_scatter_sub "
        "scatter_mul=tensor_scatter_mul scatter_div=tensor_scatter_div "
        "scatter_max=tensor_scatter_max scatter_min=tensor_scatter_min",
    joining: "dsplit hsplit narrow roll rot90 tensor_split unbind view vsplit",
    linalg:
        "addbmm addmm addmv addr baddbmm bmm dot cross inner matmul mm outer adjoint "
        "matrix_power",
    reductions: "amax amin aminmax cummax cummin cumprod diff logcumsumexp logsumexp nanmean",
    scattering: "argwhere select_scatter slice_scatter diagonal_scatter",
    shapes:
        "broadcast_to expand_dims fliplr flipud is_complex is_floating_point moveaxis ravel "
        "squeeze swapaxes swapdims t unsqueeze reverse movedim=moveaxis nelement=size "
        "numel=size",
    sorting: "bincount kthvalue masked_select msort nonzero topk unique unique_consecutive",
    special:
        "atan2 addcdiv addcmul angle copysign deg2rad heaviside hypot lerp logaddexp logaddexp2 "
        "logit nan_to_num rad2deg sinc xdivy xlogy ldexp arctan2=atan2",
    statistics: "cov histc nanquantile norm quantile renorm top_k",
    window: "unfold fold",
}
"""Functions that are methods as they are, by module; `absolute=abs` has another name here."""

_METHODS: dict[str, Any] = {
    "astype": astype, "to": to, "type": type_, "type_as": type_as, "copy": copy, "clone": copy,
    "contiguous": contiguous, "reshape": reshape, "view_as": view_as, "reshape_as": view_as,
    "transpose": transpose, "permute": permute, "expand": expand, "repeat": repeat, "tile": tile,
    "flip": flip, "stride": stride, "sum": sum_, "mean": mean, "prod": prod, "all": all_,
    "any": any_, "argmax": argmax, "argmin": argmin, "var": var, "std": std,
    "max": _extreme_method("max", arith.maximum), "min": _extreme_method("min", arith.minimum),
    "where": where, "select": select, "gather": gather, "take": aliased(take, index="indices"),
    "scatter_add": scatter_add, "split": split, "new_full": new_full, "new_zeros": new_zeros,
    "new_ones": new_ones, "copy_": copy_, "fill_": fill_, "zero_": zero_, "itemset": itemset,
    "float": _converter(float32), "double": _converter(dtypes.float64),
    "half": _converter(dtypes.float16), "bfloat16": _converter(dtypes.bfloat16),
    "int": _converter(dtypes.int32), "long": _converter(int64), "short": _converter(dtypes.int16),
    "byte": _converter(dtypes.uint8), "bool": _converter(bool_), "dim": _axes, "ndimension": _axes,
    "is_contiguous": _is_contiguous, "is_signed": _is_signed, "item_size": _element_size,
    "element_size": _element_size,
}

_IN_PLACE: dict[str, Any] = {
    **{f"{name}_": getattr(arith, name) for name in (
        "mul", "div", "floor_divide", "remainder", "clamp", "floor", "masked_fill", "sign")},
    "add_": add, "sub_": arith.subtract, "index_add_": index_add,
    "index_fill_": aliased(indexing.index_fill, dim="axis"),
}


def tensor_methods() -> dict[str, Any]:
    """Every operator, method and property of Tensor that stands on ops, by name."""
    named = {}
    for module, names in _AS_THEY_ARE.items():
        for name, _, theirs in (row.partition("=") for row in names.split()):
            named[name] = getattr(module, theirs or name)
    generated = generated_methods()
    changing = {name: in_place(f) for name, f in _IN_PLACE.items()}
    for name in ("exp", "log", "tanh", "sigmoid", "erfinv"):
        if name in generated:
            changing[f"{name}_"] = in_place(generated[name])
    for alias, name in ALIASES.items():
        if name in generated:
            changing[alias] = generated[name]
    named["soft_shrink"], named["hardshrink"] = (
        make_function(lookup(n)) for n in ("soft_shrink", "hard_shrink"))
    properties = {
        "T": property(_transposed), "H": property(_hermitian),
        "mT": property(shapes.matrix_transpose), "mH": property(
            lambda self: arith.conj(shapes.matrix_transpose(self, "mH")),
            doc="The conjugate, its last two axes exchanged."),
    }
    return as_views({**generated, **named, **_METHODS, **METHODS, **BOOKKEEPING, **changing,
                     **_operators(), **properties})


def install() -> None:
    """Set the methods on Tensor; what the class defines itself stays."""
    own = set(vars(Tensor)) - {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    for name, method in tensor_methods().items():
        if name not in own:
            setattr(Tensor, name, method)
    own_members(Tensor)
    own_members(Parameter)
