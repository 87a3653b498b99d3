"""`mint`'s functions: those of `ops` under the names and parameters of PyTorch.

Where the parameters are the same, the function is the same object.

Source: the functions of the same names in `mindspore.mint`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import bool_, float32, int64
from cellc_runtime.lazy import names_of

from .. import ops
from ..core.declared import misuse
from ..ops.arguments import dtype_of, is_int, own_axis, tensor
from ..ops.functional import arith, creation, reductions
from ..ops.functional.divisors import gcd
from ..ops.functional.orthogonal import triangular_solve
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from . import _more, _random
from .linalg import inv
from .nn import _norms, _windows
from .tables import Table, named


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else cast_to(x, dtype)


def _size(size: Any) -> Any:
    if not isinstance(size, (tuple, list)):
        return size
    return size[0] if len(size) == 1 and not is_int(size[0]) else size


def _select(input: Tensor, dim: int, index: Any) -> Tensor:
    """The slice at a position along an axis, which goes."""
    x = tensor(input, "select")
    axis = own_axis(dim, x.ndim, "select", "dim")
    n = x.shape[axis]
    if is_int(index) and type(n) is int and not -n <= index < n:
        raise IndexError(f"For 'select', 'index' must be in [{-n}, {n}), but got {index}.")
    at = index % n if is_int(index) else index
    return ops.squeeze(ops.narrow(x, axis, at, 1), axis)


def _clone(input: Tensor) -> Tensor:
    """The same elements in memory of their own; gradients pass through it unchanged."""
    made: Tensor = tensor(input, "clone").copy()
    return made


def _mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over axes; ints need a float `dtype`."""
    x = _cast(tensor(input, "mint.mean"), dtype_of(dtype, "mint.mean") if dtype else None)
    if not x.dtype.is_inexact:
        raise misuse("mint.mean", "a float tensor or a float 'dtype' is needed", x.dtype, TypeError)
    return reductions.mean(x, dim, keepdim)


def _extreme(kind: str) -> Any:
    reduce, arg, pair = (
        (ops.amax, ops.max, ops.maximum) if kind == "max" else (ops.amin, ops.min, ops.minimum))

    def function(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if "other" in kwargs or (args and isinstance(args[0], Tensor)):
            return pair(input, *args, **kwargs)
        if not args and not kwargs:
            return reduce(input)
        given = dict(zip(("dim", "keepdim"), args, strict=False)) | kwargs
        return arg(input, given["dim"], given.get("keepdim", False))

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = (f"The {kind}imum of all elements, with `dim` values and positions along "
                        f"an axis, or with `other` of each pair. Source: `mindspore.mint.{kind}`.")
    return function


def _spread(function: Any) -> Any:
    return lambda input, dim=None, *, correction=1, keepdim=False: function(
        input, dim, correction, keepdim)


def _median(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return ops.median(ops.ravel(input), 0)[0]
    return ops.median(input, dim, keepdim)


def _cat(tensors: Any, dim: int = 0) -> Tensor:
    out: Tensor = ops.cat(tensors, dim)
    return out


def _arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    return creation.arange(start, end, step, dtype=dtype)


def _split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    return ops.split(tensor, split_size_or_sections, dim)


def _scaled(function: Any) -> Any:
    """A sum or difference whose second operand is scaled."""
    def call(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        out: Tensor = function(input, other if alpha == 1 else ops.mul(other, alpha))
        return out

    return call


_SAME = ("abs", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
         "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
         "bitwise_or", "bitwise_xor", "broadcast_to", "ceil", "cos", "cosh",
         "clamp", "clip", "dot", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1",
         "float_power", "floor", "fmod", "ge", "greater", "greater_equal", "gt", "hstack",
         "imag", "isclose", "isfinite", "isinf", "isneginf", "le", "lerp", "less",
         "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
         "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "lt",
         "masked_select", "matmul", "maximum", "minimum", "mm", "mul", "nan_to_num", "ne",
         "neg", "negative", "nonzero", "not_equal", "outer", "polar", "pow", "ravel", "real",
         "reciprocal", "remainder", "reshape", "round", "rsqrt", "searchsorted", "sigmoid",
         "sign", "sin", "sinc", "sinh", "square", "sum", "swapaxes", "t", "take", "tan",
         "tanh", "tile", "trace", "trunc", "unsqueeze", "where", "xlogy", "cross",
         "flip", "histc", "addmm", "addmv",
         "addbmm", "argmax", "roll", "unbind", "dstack")
"""Functions that are those of `ops`, parameters included."""


def _arithmetic() -> Table:
    """Element by element, and products."""
    return {
        "add": _scaled(ops.add), "sub": _scaled(ops.sub),
        "div": lambda input, other, *, rounding_mode=None: ops.div(
            input, other, rounding_mode=rounding_mode),
        "divide": lambda input, other, *, rounding_mode=None: ops.div(
            input, other, rounding_mode=rounding_mode),
        "floor_divide": lambda input, other: ops.floor_divide(input, other),
        "sqrt": lambda input: ops.sqrt(input),
        "diff": lambda input, n=1, dim=-1, prepend=None, append=None: ops.diff(
            input, n, dim, prepend, append),
        "fix": lambda input: ops.trunc(input), "frac": lambda input: ops.frac(input),
        "isnan": lambda tensor: ops.isnan(tensor),
        "clone": _clone,
        "addcdiv": lambda input, tensor1, tensor2, *, value=1: ops.addcdiv(
            input, tensor1, tensor2, value),
        "addcmul": lambda input, tensor1, tensor2, *, value=1: ops.addcmul(
            input, tensor1, tensor2, value),
        "baddbmm": lambda input, batch1, batch2, *, beta=1, alpha=1: ops.baddbmm(
            input, batch1, batch2, beta, alpha),
        "cdist": lambda x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary":
            ops.cdist(x1, x2, p),
        "bmm": lambda input, mat2: ops.bmm(input, mat2),
        "mv": lambda input, vec: ops.mv(input, vec),
        "vdot": lambda input, other: ops.vecdot(input, other),
    }


def _arranged() -> Table:
    """Elements put together, apart, elsewhere, and chosen by position."""
    return {
        "cat": _cat, "concat": _cat, "stack": lambda tensors, dim=0: ops.stack(tensors, dim),
        "split": _split, "chunk": lambda input, chunks, dim=0: ops.chunk(input, chunks, dim),
        "narrow": lambda input, dim, start, length: ops.narrow(input, dim, start, length),
        "permute": lambda input, dims: ops.permute(input, dims),
        "transpose": lambda input, dim0, dim1: ops.swapaxes(input, dim0, dim1),
        "squeeze": lambda input, dim=None: ops.squeeze(input, dim),
        "flatten": lambda input, start_dim=0, end_dim=-1: Tensor.flatten(
            input, start_dim=start_dim, end_dim=end_dim),
        "meshgrid": lambda *tensors, indexing=None: ops.meshgrid(
            *(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
              else tensors), indexing=indexing or "ij"),
        "diag": lambda input, diagonal=0: (
            ops.diagflat(input, diagonal) if tensor(input, "diag").ndim == 1
            else ops.diagonal(input, diagonal)),
        "tril": lambda input, diagonal=0: ops.tril(input, diagonal),
        "triu": lambda input, diagonal=0: ops.triu(input, diagonal),
        "select": _select,
        "index_select": lambda input, dim, index: ops.index_select(input, dim, index),
        "gather": lambda input, dim, index: ops.gather_elements(input, dim, index),
        "scatter": lambda input, dim, index, src: ops.scatter(input, dim, index, src),
        "scatter_add": lambda input, dim, index, src: ops.tensor_scatter_elements(
            input, index, src, dim, "add"),
        "index_add": lambda input, dim, index, source, *, alpha=1: ops.index_add(
            input, index, source if alpha == 1 else ops.mul(source, alpha), dim),
        "repeat_interleave": lambda input, repeats, dim=None, *, output_size=None:
            ops.repeat_interleave(input, repeats, dim),
    }


def _reduced() -> Table:
    """Reductions, orders and running sums along an axis."""
    return {
        "all": lambda input, dim=None, keepdim=False: ops.all(input, dim, keepdim),
        "any": lambda input, dim=None, keepdim=False: ops.any(input, dim, keepdim),
        "allclose": lambda input, other, rtol=1e-05, atol=1e-08, equal_nan=False: bool(
            ops.all(ops.isclose(input, other, rtol, atol, equal_nan))),
        "amax": lambda input, dim=(), keepdim=False: ops.amax(input, dim, keepdim),
        "amin": lambda input, dim=(), keepdim=False: ops.amin(input, dim, keepdim),
        "argmin": lambda input, dim=None, keepdim=False: cast_to(
            ops.argmin(input, dim, keepdim), int64),
        "argsort": lambda input, dim=-1, descending=False, stable=False: cast_to(
            ops.argsort(input, dim, descending), int64),
        "sort": lambda input, *, dim=-1, descending=False, stable=False: _pair_of_int64(
            ops.sort(input, dim, descending)),
        "topk": lambda input, k, dim=-1, largest=True, sorted=True: _pair_of_int64(
            ops.topk(input, k, dim, largest, sorted)),
        "max": _extreme("max"), "min": _extreme("min"), "mean": _mean, "median": _median,
        "prod": lambda input, dim=None, keepdim=False, *, dtype=None: ops.prod(
            input, dim, keepdim, dtype),
        "std": _spread(ops.std), "var": _spread(ops.var), "std_mean": _spread(ops.std_mean),
        "var_mean": _spread(ops.var_mean),
        "norm": lambda input, p="fro", dim=None, keepdim=False, *, dtype=None: ops.norm(
            input, None if p == "fro" else p, dim, keepdim, dtype=dtype),
        "nansum": lambda input, dim=None, keepdim=False, *, dtype=None: ops.nansum(
            input, dim, keepdim, dtype=None if dtype is None else dtype_of(dtype, "nansum")),
        "cumsum": lambda input, dim, dtype=None: ops.cumsum(input, dim, dtype),
        "cumprod": lambda input, dim, dtype=None: ops.cumprod(input, dim, dtype),
        "cummax": lambda input, dim: _pair_of_int64(ops.cummax(input, dim)),
        "cummin": lambda input, dim: _pair_of_int64(ops.cummin(input, dim)),
        "count_nonzero": lambda input, dim=None: ops.count_nonzero(
            input, () if dim is None else dim, dtype=int64),
        "softmax": lambda input, dim, *, dtype=None: ops.softmax(input, dim, dtype=dtype),
        "unique_consecutive": lambda input, return_inverse=False, return_counts=False, dim=None:
            ops.unique_consecutive(input, return_inverse, return_counts, dim),
    }


def _created() -> Table:
    """Tensors from sizes and numbers."""
    return {
        "arange": _arange,
        "zeros": lambda *sizes, size=None, dtype=None: ops.zeros(
            _size(sizes if size is None else size), dtype or float32),
        "ones": lambda *sizes, size=None, dtype=None: ops.ones(
            _size(sizes if size is None else size), dtype or float32),
        "full": lambda size, fill_value, *, dtype=None: ops.full(
            size, fill_value, dtype=dtype or (
                bool_ if isinstance(fill_value, bool) else
                int64 if is_int(fill_value) else float32)),
        "zeros_like": lambda input, *, dtype=None: ops.zeros_like(input, dtype=dtype),
        "ones_like": lambda input, *, dtype=None: ops.ones_like(input, dtype=dtype),
        "full_like": lambda input, fill_value, *, dtype=None: ops.full_like(
            input, fill_value, dtype=dtype),
        "eye": lambda n, m=None, dtype=None: ops.eye(n, m, dtype),
        "linspace": lambda start, end, steps, *, dtype=None: _cast(
            ops.linspace(start, end, steps), dtype),
    }


def _table() -> Table:
    shared = {n: getattr(ops, n) for n in _SAME}
    return {
        **shared, **_random.TABLE, **_more.TABLE, "gcd": gcd,
        "inverse": inv, "triangular_solve": triangular_solve, "bitwise_not": arith.bitwise_not,
        "conv2d": _windows.conv2d, "conv_tbc": _windows.conv_tbc,
        "batch_norm_stats": _norms.batch_norm_stats,
        "batch_norm_elemt": _norms.batch_norm_elemt,
        "batch_norm_gather_stats_with_counts": _norms.batch_norm_gather_stats_with_counts,
        **_arithmetic(), **_arranged(), **_reduced(), **_created(),
    }


def _pair_of_int64(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return pair[0], cast_to(pair[1], int64)


_TEXTS = {
    "gather": "The elements at positions along an axis: out[i][j] = input[i][index[i][j]] for two "
              "axes and `dim` 1. As `ops.gather_elements`.",
    "scatter_add": "A copy of `input` with elements added at positions along an axis: "
                   "out[i][index[i][j]] += src[i][j] for two axes and `dim` 1.",
    "transpose": "Two axes exchanged, as `ops.swapaxes`.",
}
"""Docstrings of functions that differ from those of `ops` with their names."""
FUNCTIONS = named(_table(), __name__, "mint", _TEXTS)
"""Every function by name."""
__all__ = sorted(FUNCTIONS)
__getattr__ = names_of(__name__, FUNCTIONS)
