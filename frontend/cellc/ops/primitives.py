"""Primitive classes: `ops.ReLU()`, `ops.MatMul(transpose_b=True)`, ...

A primitive is a function of the functional API with some of its arguments fixed when it is made.
The tables at the end give each one as (function, arguments of its init with their defaults); ops
that map one to one get theirs from the op definition.

Source: the classes of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cellc_compiler.ir.op import REQUIRED, all_ops
from cellc_runtime.dtypes import DType, int32, int64
from cellc_runtime.lazy import names_of

from ..core.dispatch import apply, apply_one
from ..tensors.parameter import Parameter
from ..tensors.promotion import cast_to, fresh, operands
from ..tensors.seed import Generator
from ..tensors.tensor import Tensor, tensor_of
from ..tensors.views import viewing
from . import functional_control as control
from . import functional_loss as loss
from . import methods_overloaded
from ._generated import make_function
from .arguments import axis_of, tensor
from .families import fa, fc, fg, fi, fj, fl, fn, fo, fr, fs, fx, m, rnd, win
from .primitive import Primitive as Primitive
from .primitive import SeededPrimitive
from .viewing import VIEWS

Seed = Generator | None


def make_primitive(
    name: str, function: Callable[..., Any], parameters: Mapping[str, Any] | None = None,
    base: type[Primitive] = Primitive,
) -> type[Primitive]:
    """A Primitive class: `function(*operands, **arguments of init)`."""
    doc = function.__doc__ or f"The primitive {name}."
    body = {"function": staticmethod(function), "parameters": dict(parameters or {}),
            "__doc__": doc, "__module__": __name__, "__qualname__": name}
    if {"seed2", "Seed1"} & set(parameters or ()):
        base = SeededPrimitive
    return type(name, (base,), body)


def make_primitives(
    plain: Mapping[str, Callable[..., Any]],
    with_init: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]],
    base: type[Primitive] = Primitive,
) -> dict[str, type[Primitive]]:
    """The classes of tables: of functions, and of functions with the arguments of an init."""
    return {name: make_primitive(name, f, base=base) for name, f in plain.items()} | {
        name: make_primitive(name, f, parameters, base)
        for name, (f, parameters) in with_init.items()}


# --- functions that only primitives need ----------------------------------------------------------


def _reduce_sum(x: Tensor, axis: Any = (), keep_dims: bool = False, skip_mode: bool = False
                ) -> Tensor:
    if skip_mode and axis == ():
        return fresh(x)
    return fr.sum(x, axis, keep_dims, dtype=x.dtype)


def _copy_of(x: Tensor) -> Tensor:
    """A tensor of the same value with elements of its own."""
    return fresh(tensor(x, "Identity", "x"))


def _reduce_prod(x: Tensor, axis: Any = (), keep_dims: bool = False) -> Tensor:
    return fr.prod(x, axis, keep_dims, x.dtype)


def _reduce_std(x: Tensor, axis: Any, unbiased: bool, keep_dims: bool) -> tuple[Tensor, Tensor]:
    return fr.std_mean(x, axis, int(unbiased), keep_dims)


def _argmax(input_x: Tensor, axis: int, output_type: DType) -> Tensor:
    return cast_to(fr.argmax(input_x, axis), output_type)


def _argmin(x: Tensor, axis: int, output_type: DType) -> Tensor:
    return cast_to(fr.argmin(x, axis), output_type)


def _arg_max_with_value(input: Tensor, axis: int, keep_dims: bool) -> tuple[Tensor, Tensor]:
    return fr.max(input, axis, keep_dims)[::-1]


def _arg_min_with_value(input: Tensor, axis: int, keep_dims: bool) -> tuple[Tensor, Tensor]:
    return fr.min(input, axis, keep_dims)[::-1]


def _matmul(x: Tensor, y: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError(f"For 'MatMul', operands must have 2 axes or more, got {x.shape} and "
                         f"{y.shape}.")
    a, b = m.as_numbers(*operands("MatMul", x, y))
    inner = a.shape[-2] if transpose_a else a.shape[-1]
    if inner != (b.shape[-1] if transpose_b else b.shape[-2]):
        raise ValueError(f"For 'MatMul', the inner lengths of {x.shape} and {y.shape} differ "
                         f"(transpose_a={transpose_a}, transpose_b={transpose_b}).")
    return apply_one("matmul", a, b, transpose_a=bool(transpose_a), transpose_b=bool(transpose_b))


def _running_sum(op: str) -> Callable[..., Tensor]:
    def function(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
        return apply_one(op, x, axis=axis_of(axis, x.ndim, op), exclusive=bool(exclusive),
                         reverse=bool(reverse))

    return function


def _conv2d(
    x: Tensor, weight: Tensor, out_channel: int, kernel_size: Any, mode: int, pad_mode: str,
    pad: Any, stride: Any, dilation: Any, group: int, data_format: str,
) -> Tensor:
    return win.conv2d(x, weight, None, _pair(stride), pad_mode, pad, _pair(dilation), group)


def _pair(v: Any) -> Any:
    """Rows and columns of a stride that may be given for all four axes."""
    return tuple(v)[-2:] if isinstance(v, (list, tuple)) and len(v) == 4 else v


def conv_transpose(
    dout: Tensor, weight: Tensor, size: Any, out_channel: int, kernel_size: Any, pad_mode: str,
    pad: Any, pad_list: Any, mode: int, stride: Any, dilation: Any, group: int,
    data_format: str,
) -> Tensor:
    return win.conv2d_adjoint(dout, weight, tuple(size)[-2:], _pair(stride), pad_mode,
                              pad if pad_list is None else pad_list, _pair(dilation), group)


def _pooled(kind: str) -> Callable[..., Tensor]:
    def function(
        x: Tensor, kernel_size: Any, strides: Any, pad_mode: str, data_format: str
    ) -> Tensor:
        return win.pool2d(kind, x, _pair(kernel_size), _pair(strides), pad_mode)

    return function


def _max_pool_argmax(
    x: Tensor, kernel_size: Any, strides: Any, pads: Any, dilation: Any, ceil_mode: bool,
    argmax_type: DType,
) -> tuple[Tensor, Tensor]:
    values, index = win.max_pool2d(x, kernel_size, strides, pads, dilation, True, ceil_mode)
    return values, cast_to(index, argmax_type)


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, is_training: bool,
    epsilon: float, momentum: float, data_format: str,
) -> tuple[Tensor, ...]:
    out = fn.batch_norm(x, mean, variance, scale, bias, is_training, momentum, epsilon)
    if not is_training:
        return out, mean, variance, mean, variance
    axes = tuple(a for a in range(x.ndim) if a != 1)
    var, center = fr.var_mean(x, axes)
    return out, center, var, center, var


def _layer_norm(
    input_x: Tensor, gamma: Tensor, beta: Tensor, begin_norm_axis: int, begin_params_axis: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    first = begin_norm_axis % input_x.ndim
    var, center = fr.var_mean(input_x, tuple(range(first, input_x.ndim)), 0, True)
    shape = input_x.shape[first:]
    out = fn.layer_norm(input_x, shape, fa.reshape(gamma, shape), fa.reshape(beta, shape), epsilon)
    return out, center, var


def _l2_normalize(x: Tensor, axis: Any, epsilon: float) -> Tensor:
    wide = m.wide(x)
    total = fr.sum(m.mul(wide, wide), axis, True)
    return cast_to(m.mul(wide, apply("rsqrt", m.maximum(total, float(epsilon)))), x.dtype)


def _lp_norm(x: Tensor, axis: Any, p: float, keep_dims: bool, epsilon: float) -> Tensor:
    return m.maximum(fr._vector_norm(x, float(p), axis, keep_dims), float(epsilon))


def _dropout(x: Tensor, keep_prob: float, seed: Seed) -> tuple[Tensor, Tensor]:
    ones = fc.ones_like(x)
    mask = rnd.dropout(ones, 1.0 - keep_prob, True, seed)
    return m.mul(x, mask), mask


def _dropout2d(x: Tensor, keep_prob: float) -> tuple[Tensor, Tensor]:
    ones = fc.ones((*x.shape[:-2], 1, 1), x.dtype)
    mask = rnd.dropout2d(ones, 1.0 - keep_prob)
    return m.mul(x, mask), fa.broadcast_to(m.ne(mask, 0), x.shape)


def _softmax_cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    out = loss.softmax_cross_entropy(logits, labels)
    return out, m.sub(fn.softmax(logits, 1), labels)


def _sparse_cross_entropy(logits: Tensor, labels: Tensor, is_grad: bool) -> Tensor:
    if not is_grad:
        return loss.cross_entropy(logits, labels)
    hot = cast_to(fg.one_hot(labels, logits.shape[1], 1.0, 0.0), logits.dtype)
    return m.div(m.sub(fn.softmax(logits, 1), hot), float(logits.shape[0]))


def _nll(logits: Tensor, labels: Tensor, weight: Tensor, reduction: str, ignore_index: int
         ) -> tuple[Tensor, Tensor]:
    counts = cast_to(m.ne(labels, ignore_index), logits.dtype)
    known = m.where(m.ne(labels, ignore_index), labels, 0)
    total = fr.sum(m.mul(fi.gather(weight, known, 0), counts))
    return loss.nll_loss(logits, labels, weight, ignore_index, reduction), total


def _bce(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str) -> Tensor:
    return loss.binary_cross_entropy(input, target, weight, reduction)


def _bce_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, posWeight: Tensor | None = None,
    *, reduction: str,
) -> Tensor:
    return loss.binary_cross_entropy_with_logits(input, target, weight, posWeight, reduction)


def _sigmoid_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    labels = fi.stop_gradient(label)
    return loss.binary_cross_entropy_with_logits(logits, labels, None, None, "none")


def _gelu(x: Tensor) -> Tensor:
    """gelu through tanh: what MindSpore's primitive computes."""
    return fn.gelu(x, "tanh")


def _l2_loss(input_x: Tensor) -> Tensor:
    return m.div(fr.sum(m.mul(input_x, input_x)), 2.0)


def _pad(x: Tensor, paddings: Any) -> Tensor:
    flat = tuple(int(v) for pair in reversed(tuple(paddings)) for v in pair)
    return fa.pad(x, flat)


def _mirror_pad(input_x: Tensor, paddings: Any, mode: str) -> Tensor:
    pairs = paddings.tolist() if isinstance(paddings, Tensor) else paddings
    low, high = (tuple(int(p[i]) for p in pairs) for i in (0, 1))
    return apply_one("pad_border", input_x, low=low, high=high, mode=mode.lower())


def _pad_v3(x: Tensor, paddings: Any, constant_value: Any = None, *, mode: str,
            paddings_contiguous: bool) -> Tensor:
    counts = paddings.tolist() if isinstance(paddings, Tensor) else list(paddings)
    if not paddings_contiguous:
        half = len(counts) // 2
        counts = [c for pair in zip(counts[:half], counts[half:], strict=True) for c in pair]
    return fa.pad(x, counts, "replicate" if mode == "edge" else mode, constant_value)


def _depth_to_space(x: Tensor, block_size: int) -> Tensor:
    n, c, h, w = x.shape
    s = block_size
    blocks = fa.reshape(x, (n, s, s, c // (s * s), h, w))
    return fa.reshape(fa.transpose(blocks, (0, 3, 4, 1, 5, 2)), (n, c // (s * s), h * s, w * s))


def _space_to_depth(x: Tensor, block_size: int) -> Tensor:
    n, c, h, w = x.shape
    s = block_size
    blocks = fa.reshape(x, (n, c, h // s, s, w // s, s))
    return fa.reshape(fa.transpose(blocks, (0, 3, 5, 1, 2, 4)), (n, c * s * s, h // s, w // s))


def _split(input_x: Tensor, axis: int, output_num: int) -> tuple[Tensor, ...]:
    length = input_x.shape[axis]
    if output_num < 1 or length % output_num:
        raise ValueError(f"For 'Split', axis {axis} of {input_x.shape} cannot be divided into "
                         f"{output_num} equal parts.")
    return fj.split(input_x, length // output_num or 1, axis)


def _unstack(input_x: Tensor, axis: int, num: int | None = None) -> tuple[Tensor, ...]:
    return fj.unstack(input_x, axis)


def _topk(input_x: Tensor, k: int, sorted: bool) -> tuple[Tensor, Tensor]:
    return fo.topk(input_x, k)


def _one_hot(indices: Tensor, depth: int, on_value: Any, off_value: Any, axis: int) -> Tensor:
    return fg.one_hot(indices, depth, on_value, off_value, axis)


def _strided_slice(input_x: Tensor, begin: Any, end: Any, strides: Any, **masks: int) -> Tensor:
    return fj.strided_slice(input_x, begin, end, strides, **masks)


def _tensor_shape(input_x: Tensor) -> Tensor:
    return tensor_of(np.array(input_x.shape, np.int64))


def _uniform_real(shape: Any, seed: Seed) -> Tensor:
    return rnd.rand(shape, seed=seed)


def _uniform_int(shape: Any, minval: Any, maxval: Any, seed: Seed) -> Tensor:
    return rnd.randint(int(minval), int(maxval), shape, seed, dtype=int32)


def _multinomial(x: Tensor, num_samples: int, seed: Seed, dtype: DType) -> Tensor:
    return cast_to(rnd.multinomial(x, num_samples, True, seed), dtype)


def _shuffle(input_x: Tensor, seed: Seed) -> Tensor:
    return rnd.shuffle(input_x, seed)


def _bernoulli(x: Tensor, p: Any, seed: int, offset: int) -> Tensor:
    return rnd.bernoulli(x, p, None if seed == -1 else seed)


def _embedding_lookup(input_params: Tensor, input_indices: Tensor, offset: int) -> Tensor:
    index = m.sub(input_indices, offset)
    inside = m.logical_and(m.ge(index, 0), m.lt(index, input_params.shape[0]))
    rows = fi.gather(input_params, m.where(inside, index, 0), 0)
    keep = fa.reshape(inside, inside.shape + (1,) * (rows.ndim - inside.ndim))
    return m.where(keep, rows, 0)


def _scatter_with(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(x: Parameter, indices: Tensor, updates: Tensor, use_locking: bool) -> Tensor:
        return function(x, indices, updates)

    return call


def _resize_nearest(input_x: Tensor, size: Any, align_corners: bool, half_pixel_centers: bool
                    ) -> Tensor:
    return win.interpolate(input_x, tuple(size), None, "nearest")


def _scatter_with_axis(input_x: Tensor, indices: Tensor, update: Tensor, axis: int) -> Tensor:
    return fi.scatter_add_ext(input_x, axis, indices, update)


def _index_put(x1: Tensor, x2: Tensor, indices: Any, accumulate: int) -> Tensor:
    return methods_overloaded.index_put(x1, indices, x2, accumulate)


def _index_fill(x: Tensor, dim: Any, index: Tensor, value: Any) -> Tensor:
    return fi.index_fill(x, int(dim), index, value)


def _diag_part(input_x: Tensor) -> Tensor:
    half = input_x.shape[: input_x.ndim // 2]
    square = fa.reshape(input_x, (int(np.prod(half)),) * 2)
    return fa.reshape(fg.diagonal(square), half)


def _square_sum_all(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return fr.sum(m.mul(x, x)), fr.sum(m.mul(y, y))


def _squared_difference(x: Any, y: Any) -> Tensor:
    return m.square(m.sub(x, y))


def _div_no_nan(x: Any, y: Any) -> Tensor:
    zero = m.eq(y, 0)
    return m.where(zero, 0, m.true_divide(x, m.where(zero, 1, y)))


def _mul_no_nan(x: Any, y: Any) -> Tensor:
    return m.where(m.eq(y, 0), 0, m.mul(x, y))


# --- the tables -----------------------------------------------------------------------------------

_PLAIN: dict[str, Callable[..., Any]] = {
    "WhileLoop": control.while_loop, "ForiLoop": control.fori_loop, "Scan": control.scan,
    "Add": m.add, "TensorAdd": m.add, "Sub": m.sub, "Mul": m.mul, "Div": m.true_divide,
    "RealDiv": m.true_divide, "FloorDiv": m.floor_divide, "FloorMod": m.remainder,
    "Mod": m.fmod, "TruncateMod": m.fmod, "Pow": m.pow, "Maximum": m.maximum,
    "Minimum": m.minimum, "Fmax": m.fmax, "Fmin": m.fmin, "Neg": m.neg, "Abs": m.abs,
    "Sign": m.sign, "Square": m.square, "Sqrt": m.sqrt, "Reciprocal": m.reciprocal,
    "Inv": m.inv, "Floor": m.floor, "Ceil": m.ceil, "Round": m.round, "Rint": m.round,
    "Trunc": m.trunc, "Equal": m.eq, "NotEqual": m.ne, "Less": m.lt, "LessEqual": m.le,
    "Greater": m.gt, "GreaterEqual": m.ge, "LogicalAnd": m.logical_and,
    "LogicalOr": m.logical_or, "LogicalNot": m.logical_not, "LogicalXor": m.logical_xor,
    "BitwiseAnd": m.bitwise_and, "BitwiseOr": m.bitwise_or, "BitwiseXor": m.bitwise_xor,
    "Invert": m.bitwise_not, "LeftShift": m.bitwise_left_shift,
    "RightShift": m.bitwise_right_shift, "IsNan": m.isnan, "IsInf": m.isinf,
    "IsFinite": m.isfinite, "Select": m.where, "MaskedFill": m.masked_fill, "Cast": m.cast,
    "AddN": fx.addn, "AccumulateNV2": fx.addn, "Addcmul": fx.addcmul, "Addcdiv": fx.addcdiv,
    "Lerp": fx.lerp, "Xlogy": fx.xlogy, "Xdivy": fx.xdivy, "Heaviside": fx.heaviside,
    "Hypot": fx.hypot, "Sinc": fx.sinc, "Real": m.real, "Imag": m.imag, "Conj": m.conj,
    "Complex": m.complex, "Polar": fx.polar, "SquaredDifference": _squared_difference,
    "DivNoNan": _div_no_nan, "MulNoNan": _mul_no_nan, "SquareSumAll": _square_sum_all,
    **{name: VIEWS[function] for name, function in (
        ("Reshape", "reshape"), ("Transpose", "transpose"), ("ExpandDims", "expand_dims"))},
    "Flatten": fa.flatten, "Tile": fj.tile, "Shape": fa.shape, "DType": fa.dtype, "Rank": fa.rank,
    "Size": fa.size,
    "TensorShape": _tensor_shape, "Diag": fg.diag, "DiagPart": _diag_part, "Trace": fg.trace,
    "Slice": VIEWS["slice"], "Identity": _copy_of, "Eye": fc.eye, "Fill": fc.fill,
    "Fills": fc.fills, "Ones": fc.ones, "Zeros": fc.zeros, "OnesLike": fc.ones_like,
    "ZerosLike": fc.zeros_like, "LinSpace": fc.linspace, "ScalarToTensor": fc.scalar_to_tensor,
    "GatherD": fi.gather_elements, "GatherNd": fi.gather_nd, "ScatterNd": fi.scatter_nd,
    "IndexFill": _index_fill, "MaskedScatter": methods_overloaded.masked_scatter,
    "PopulationCount": fs.population_count,
    "TensorScatterUpdate": fi.tensor_scatter_update, "TensorScatterAdd": fi.tensor_scatter_add,
    "TensorScatterSub": fi.tensor_scatter_sub, "TensorScatterMul": fi.tensor_scatter_mul,
    "TensorScatterDiv": fi.tensor_scatter_div, "TensorScatterMax": fi.tensor_scatter_max,
    "TensorScatterMin": fi.tensor_scatter_min, "Assign": fi.assign, "AssignAdd": fi.assign_add,
    "AssignSub": fi.assign_sub, "StopGradient": fi.stop_gradient, "Depend": fi.depend,
    "UnsortedSegmentSum": fi.unsorted_segment_sum, "UnsortedSegmentMax": fi.unsorted_segment_max,
    "UnsortedSegmentMin": fi.unsorted_segment_min,
    "UnsortedSegmentProd": fi.unsorted_segment_prod, "MaskedSelect": fo.masked_select,
    "NonZero": fo.nonzero, "Unique": fo.unique, "Dense": fn.dense, "Ger": fl.ger,
    "ReLU": fn.relu, "ReLU6": fn.relu6, "GeLU": _gelu, "Gelu": _gelu, "FastGeLU": fn.fast_gelu,
    "SeLU": fn.selu, "Softplus": fn.softplus,
    "Softsign": fn.softsign, "Mish": fn.mish, "PReLU": fn.prelu, "L2Loss": _l2_loss,
    "SoftmaxCrossEntropyWithLogits": _softmax_cross_entropy,
    "SigmoidCrossEntropyWithLogits": _sigmoid_cross_entropy,
}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "ReduceSum": (_reduce_sum, {"keep_dims": False, "skip_mode": False}),
    "ReduceMean": (fr.mean, {"keep_dims": False}),
    "ReduceProd": (_reduce_prod, {"keep_dims": False}),
    "ReduceMax": (lambda x, axis=(), *, keep_dims: fr.amax(x, axis, keep_dims),
                  {"keep_dims": False}),
    "ReduceMin": (lambda x, axis=(), *, keep_dims: fr.amin(x, axis, keep_dims),
                  {"keep_dims": False}),
    "ReduceAll": (fr.all, {"keep_dims": False}), "ReduceAny": (fr.any, {"keep_dims": False}),
    "ReduceStd": (_reduce_std, {"axis": (), "unbiased": True, "keep_dims": False}),
    "Argmax": (_argmax, {"axis": -1, "output_type": int32}),
    "Argmin": (_argmin, {"axis": -1, "output_type": int32}),
    "ArgMaxWithValue": (_arg_max_with_value, {"axis": 0, "keep_dims": False}),
    "ArgMinWithValue": (_arg_min_with_value, {"axis": 0, "keep_dims": False}),
    "CountNonZero": (lambda x, dims: fr.count_nonzero(x, dims), {"dims": None}),
    "CumSum": (_running_sum("cumsum"), {"exclusive": False, "reverse": False}),
    "CumProd": (_running_sum("cumprod"), {"exclusive": False, "reverse": False}),
    "Cummax": (fr.cummax, {"axis": REQUIRED}), "Cummin": (fr.cummin, {"axis": REQUIRED}),
    "Sort": (fo.sort, {"axis": -1, "descending": False}), "TopK": (_topk, {"sorted": True}),
    "LpNorm": (_lp_norm, {"axis": REQUIRED, "p": 2, "keep_dims": False, "epsilon": 1e-12}),
    "L2Normalize": (_l2_normalize, {"axis": 0, "epsilon": 1e-4}),
    "IsClose": (m.isclose, {"rtol": 1e-05, "atol": 1e-08, "equal_nan": False}),
    "NanToNum": (fx.nan_to_num, {"nan": None, "posinf": None, "neginf": None}),
    "MatMul": (_matmul, {"transpose_a": False, "transpose_b": False}),
    "BatchMatMul": (_matmul, {"transpose_a": False, "transpose_b": False}),
    "Einsum": (lambda xs, equation: fl.einsum(equation, *xs), {"equation": REQUIRED}),
    "Cross": (lambda x, y, dim: fl.cross(x, y, None if dim == -65530 else dim), {"dim": -65530}),
    "Cdist": (fr.cdist, {"p": 2.0}), "Softmax": (fn.softmax, {"axis": -1}),
    "LogSoftmax": (fn.log_softmax, {"axis": -1}), "Elu": (fn.elu, {"alpha": 1.0}),
    "CeLU": (fn.celu, {"alpha": 1.0}), "GLU": (fn.glu, {"axis": -1}),

    "BiasAdd": (lambda x, bias, data_format: fn.bias_add(x, bias), {"data_format": "NCHW"}),
    "RmsNorm": (fn.rms_norm, {"epsilon": 1e-06}),
    "LRN": (win.lrn, {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5,
                      "norm_region": "ACROSS_CHANNELS"}),
    "BatchNorm": (_batch_norm, {"is_training": False, "epsilon": 1e-05, "momentum": 0.1,
                                "data_format": "NCHW"}),
    "LayerNorm": (_layer_norm, {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-07}),
    "Conv2D": (_conv2d, {"out_channel": REQUIRED, "kernel_size": REQUIRED, "mode": 1,
                         "pad_mode": "valid", "pad": 0, "stride": 1, "dilation": 1, "group": 1,
                         "data_format": "NCHW"}),
    "Conv2DTranspose": (conv_transpose, {
        "out_channel": REQUIRED, "kernel_size": REQUIRED, "pad_mode": "valid", "pad": 0,
        "pad_list": None, "mode": 1, "stride": 1, "dilation": 1, "group": 1,
        "data_format": "NCHW"}),
    "MaxPool": (_pooled("max"), {"kernel_size": 1, "strides": 1, "pad_mode": "valid",
                                 "data_format": "NCHW"}),
    "AvgPool": (_pooled("avg"), {"kernel_size": 1, "strides": 1, "pad_mode": "VALID",
                                 "data_format": "NCHW"}),
    "MaxPoolWithArgmaxV2": (_max_pool_argmax, {
        "kernel_size": REQUIRED, "strides": None, "pads": 0, "dilation": (1, 1),
        "ceil_mode": False, "argmax_type": int64}),
    "AdaptiveAvgPool2D": (win.adaptive_avg_pool2d, {"output_size": REQUIRED}),
    "AdaptiveMaxPool2D": (lambda x, output_size: win.adaptive_max_pool2d(x, output_size, True),
                          {"output_size": REQUIRED}),
    "ResizeNearestNeighbor": (_resize_nearest, {"size": REQUIRED, "align_corners": False,
                                                "half_pixel_centers": False}),
    "BinaryCrossEntropy": (_bce, {"reduction": "mean"}),
    "BCEWithLogitsLoss": (_bce_logits, {"reduction": "mean"}),
    "KLDivLoss": (loss.kl_div, {"reduction": "mean"}),
    "NLLLoss": (_nll, {"reduction": "mean", "ignore_index": -100}),
    "SmoothL1Loss": (loss.smooth_l1_loss, {"beta": 1.0, "reduction": "none"}),
    "SoftMarginLoss": (loss.soft_margin_loss, {"reduction": "mean"}),
    "SparseSoftmaxCrossEntropyWithLogits": (_sparse_cross_entropy, {"is_grad": False}),
    "BroadcastTo": (VIEWS["broadcast_to"], {"shape": REQUIRED}), "Concat": (fj.concat, {"axis": 0}),
    "Stack": (fj.stack, {"axis": 0}), "Pack": (fj.stack, {"axis": 0}),
    "Unstack": (viewing(_unstack), {"axis": 0, "num": None}),
    "Unpack": (viewing(_unstack), {"axis": 0}),
    "Split": (viewing(_split), {"axis": 0, "output_num": 1}),
    "Squeeze": (VIEWS["squeeze"], {"axis": ()}),
    "ReverseV2": (lambda x, axis: fa.flip(x, axis), {"axis": REQUIRED}),
    "Roll": (fj.roll, {"shifts": REQUIRED, "dims": None}),
    "Tril": (fg.tril, {"diagonal": 0}), "Triu": (fg.triu, {"diagonal": 0}),
    "Pad": (_pad, {"paddings": REQUIRED}), "MirrorPad": (_mirror_pad, {"mode": "REFLECT"}),
    "PadV3": (_pad_v3, {"mode": "constant", "paddings_contiguous": True}),
    "DepthToSpace": (_depth_to_space, {"block_size": REQUIRED}),
    "SpaceToDepth": (_space_to_depth, {"block_size": REQUIRED}),
    "StridedSlice": (viewing(_strided_slice), {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0,
                                      "new_axis_mask": 0, "shrink_axis_mask": 0}),
    "OneHot": (_one_hot, {"axis": -1}),
    "Meshgrid": (lambda inputs, indexing: fg.meshgrid(*inputs, indexing=indexing),
                 {"indexing": "xy"}),
    "Range": (fc.range, {"maxlen": 1000000}),
    "Gather": (lambda x, indices, axis, *, batch_dims: fi.gather(x, indices, axis, batch_dims),
               {"batch_dims": 0}),
    "EmbeddingLookup": (_embedding_lookup, {}),
    "InplaceAdd": (fs.inplace_add, {"indices": REQUIRED}),
    "InplaceSub": (fs.inplace_sub, {"indices": REQUIRED}),
    "InplaceIndexAdd": (fs.inplace_index_add, {"axis": REQUIRED}),
    "ScatterAddWithAxis": (_scatter_with_axis, {"axis": 0}),
    "IndexPut": (_index_put, {"accumulate": 0}),
    "ReverseSequence": (fs.reverse_sequence, {"seq_dim": REQUIRED, "batch_dim": 0}),
    "FillDiagonal": (methods_overloaded.fill_diagonal, {"fill_value": REQUIRED, "wrap": False}),
    "IndexAdd": (fi.index_add, {"axis": REQUIRED, "use_lock": True, "check_index_bound": True}),
    "InplaceUpdate": (fi.inplace_update, {"indices": REQUIRED}),
    "TensorScatterElements": (
        lambda x, indices, updates, *, axis, reduction: fi.tensor_scatter_elements(
            x, indices, updates, axis, reduction), {"axis": 0, "reduction": "none"}),
    "SearchSorted": (
        lambda seq, values, sorter=None, *, dtype, right: fo.searchsorted(
            seq, values, out_int32=dtype is int32, right=right, sorter=sorter),
        {"dtype": int64, "right": False}),
    "Dropout": (_dropout, {"keep_prob": 0.5, "Seed0": 0, "Seed1": 0}),
    "Dropout2D": (_dropout2d, {"keep_prob": 0.5}),
    "Bernoulli": (_bernoulli, {"seed": -1, "offset": 0}),
    "Multinomial": (_multinomial, {"seed": 0, "seed2": 0, "dtype": int32}),
    "RandomShuffle": (_shuffle, {"seed": 0, "seed2": 0}),
    "StandardNormal": (rnd.standard_normal, {"seed": 0, "seed2": 0}),
    "StandardLaplace": (rnd.standard_laplace, {"seed": 0, "seed2": 0}),
    "UniformReal": (_uniform_real, {"seed": 0, "seed2": 0}),
    "UniformInt": (_uniform_int, {"seed": 0, "seed2": 0}),
}

_SCATTERS: dict[str, Callable[..., Tensor]] = {
    "ScatterAdd": fi.scatter_add, "ScatterSub": fi.scatter_sub, "ScatterMul": fi.scatter_mul,
    "ScatterDiv": fi.scatter_div, "ScatterMax": fi.scatter_max, "ScatterMin": fi.scatter_min,
    "ScatterUpdate": fi.scatter_update, "ScatterNdAdd": fi.scatter_nd_add,
    "ScatterNdUpdate": fi.scatter_nd_update, "ScatterNdSub": fs.scatter_nd_sub,
    "ScatterNdMul": fs.scatter_nd_mul, "ScatterNdDiv": fs.scatter_nd_div,
    "ScatterNdMax": fs.scatter_nd_max, "ScatterNdMin": fs.scatter_nd_min,
}


PRIMITIVES: Mapping[str, type[Primitive]] = {
    **make_primitives({}, {
        op.primitive: (make_function(op), {name: a.default for name, a in op.attrs.items()})
        for op in all_ops() if op.primitive}),
    **make_primitives(_PLAIN, _WITH_INIT | {
        name: (_scatter_with(f), {"use_locking": name in ("ScatterUpdate", "ScatterNdUpdate")})
        for name, f in _SCATTERS.items()}),
}
"""Every primitive class by name."""

__getattr__ = names_of(__name__, PRIMITIVES)
