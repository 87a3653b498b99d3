"""Primitive classes: `ops.ReLU()`, `ops.MatMul(transpose_b=True)`, ...

A primitive is a function of the functional API with some of its arguments fixed when it is made.
The tables at the end give each one as (function, arguments of its init with their defaults); ops
that map one to one get theirs from the op definition.

Source: the classes of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Signature, cleandoc, isfunction, signature, unwrap
from typing import Any

import numpy as np

from cellc_compiler.ir.op import REQUIRED, all_ops
from cellc_runtime.dtypes import DType, int32, int64
from cellc_runtime.lazy import imported, names_of

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...tensors.parameter import Parameter
from ...tensors.promotion import cast_to, fresh, operands
from ...tensors.seed import Generator
from ...tensors.tensor import Tensor, tensor_of
from ...tensors.views import viewing
from ..arguments import axis_of, tensor
from ..functional import (
    activation,
    arith,
    control,
    creation,
    draws,
    grid,
    indexing,
    joining,
    linalg,
    loss,
    reductions,
    scattering,
    shapes,
    sorting,
    special,
    statistics,
    window,
)
from ..functional.generated import make_function
from ..methods import overloaded
from ..primitive import Primitive as Primitive
from ..primitive import SeededPrimitive
from ..viewing import VIEWS

Seed = Generator | None


class _Text:
    """The docstring of a Primitive class: that of its function, or of the function of `ops` with
    its name, and what a call takes. Made when it is read."""

    __slots__ = ("_function", "_name")

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __get__(self, instance: Any, owner: type[Primitive]) -> str:
        texts = imported(".texts", __package__).TEXTS
        text = texts.get(self._name) or self._function.__doc__ or self._of_ops() \
            or f"The primitive {self._name}."
        if not isfunction(self._function):
            return cleandoc(text)
        known = signature(self._function).parameters.values()
        taken = [p.replace(annotation=p.empty) for p in known
                 if p.kind is not p.KEYWORD_ONLY and p.name not in owner.parameters]
        return f"{cleandoc(text)}\n\nAn object of it is called with {Signature(taken)}."

    def _of_ops(self) -> str | None:
        """The docstring of the function of `ops` with this name, if there is one."""
        ops: Any = imported("cellc.ops")
        names = (n for n in ops.__all__ if n.replace("_", "") == self._name.lower())
        alike = (unwrap(f) for f in (getattr(ops, n) for n in names) if isfunction(f))
        return next((f.__doc__ for f in alike if ".functional." in f.__module__), None)


def make_primitive(
    name: str, function: Callable[..., Any], parameters: Mapping[str, Any] | None = None,
    base: type[Primitive] = Primitive,
) -> type[Primitive]:
    """A Primitive class: `function(*operands, **arguments of init)`."""
    body = {"function": staticmethod(function), "parameters": dict(parameters or {}),
            "__doc__": _Text(name, function), "__module__": __package__, "__qualname__": name}
    if {"seed2", "Seed1"} & set(parameters or ()):
        base = SeededPrimitive
    return type(name, (base,), body)


def make_primitives(
    plain: Mapping[str, Callable[..., Any]],
    with_init: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]],
    own: Mapping[str, Callable[..., Any]] | None = None, base: type[Primitive] = Primitive,
) -> dict[str, type[Primitive]]:
    """The classes of tables.

    Args:
        plain: functions without arguments of an init.
        with_init: functions, and those of their parameters that the init takes, with defaults.
        own: functions whose keyword-only parameters the init takes; `seed` without a default is
            the stream of a `SeededPrimitive`, whose init takes two seeds.
    """
    rows: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
        **{name: (f, {}) for name, f in plain.items()}, **with_init,
        **{name: (f, _keywords(f)) for name, f in (own or {}).items()}}
    return {name: make_primitive(name, f, init, base) for name, (f, init) in rows.items()}


def functions_like(names: Mapping[Any, str]) -> dict[str, Callable[..., Any]]:
    """The functions of primitives that have their names: `GatherNd` is `gather_nd`; by module."""
    found: dict[str, Callable[..., Any]] = {}
    for module, primitives in names.items():
        known = {n.replace("_", ""): f for n, f in vars(module).items() if n[:1] != "_"}
        found.update((name, known[name.lower()]) for name in primitives.split())
    return found


def _keywords(function: Any) -> dict[str, Any]:
    """The keyword-only parameters of a function, with their defaults."""
    code, given = function.__code__, function.__kwdefaults__ or {}
    names = code.co_varnames[code.co_argcount:][:code.co_kwonlyargcount]
    taken = {name: given.get(name, REQUIRED) for name in names}
    return {key: value for name, default in taken.items() for key, value in (
        (("seed", 0), ("seed2", 0)) if (name, default) == ("seed", REQUIRED)
        else ((name, default),))}


# --- functions that only primitives need ----------------------------------------------------------


def _reduce_sum(
    x: Tensor, axis: Any = (), *, keep_dims: bool = False, skip_mode: bool = False
) -> Tensor:
    if skip_mode and axis == ():
        return fresh(x)
    return reductions.sum(x, axis, keep_dims, dtype=x.dtype)


def _copy_of(x: Tensor) -> Tensor:
    """A tensor of the same value with elements of its own."""
    return fresh(tensor(x, "Identity", "x"))


def _matmul(
    x: Tensor, y: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    if x.ndim < 2 or y.ndim < 2:
        raise misuse("MatMul", "operands must have 2 axes or more", f"{x.shape} and {y.shape}")
    a, b = arith.as_numbers(*operands("MatMul", x, y))
    inner = a.shape[-2] if transpose_a else a.shape[-1]
    if inner != (b.shape[-1] if transpose_b else b.shape[-2]):
        raise misuse("MatMul", f"the inner lengths of {x.shape} and {y.shape} differ "
                     f"(transpose_a={transpose_a}, transpose_b={transpose_b})")
    return apply_one("matmul", a, b, transpose_a=bool(transpose_a), transpose_b=bool(transpose_b))


def _running_sum(op: str) -> Callable[..., Tensor]:
    def function(
        x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
    ) -> Tensor:
        return apply_one(op, x, axis=axis_of(axis, x.ndim, op), exclusive=bool(exclusive),
                         reverse=bool(reverse))

    return function


def _pair(v: Any) -> Any:
    """Rows and columns of a stride that may be given for all four axes."""
    return tuple(v)[-2:] if isinstance(v, (list, tuple)) and len(v) == 4 else v


def conv_transpose(
    dout: Tensor, weight: Tensor, size: Any, *, out_channel: int, kernel_size: Any,
    pad_mode: str = "valid", pad: Any = 0, pad_list: Any = None, mode: int = 1, stride: Any = 1,
    dilation: Any = 1, group: int = 1, data_format: str = "NCHW",
) -> Tensor:
    return window.conv2d_adjoint(dout, weight, tuple(size)[-2:], _pair(stride), pad_mode,
                                 pad if pad_list is None else pad_list, _pair(dilation), group)


def _pooled(kind: str, mode: str) -> Callable[..., Tensor]:
    def function(
        x: Tensor, *, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = mode,
        data_format: str = "NCHW",
    ) -> Tensor:
        return window.pool2d(kind, x, _pair(kernel_size), _pair(strides), pad_mode)

    return function


def _max_pool_argmax(
    x: Tensor, *, kernel_size: Any, strides: Any = None, pads: Any = 0, dilation: Any = (1, 1),
    ceil_mode: bool = False, argmax_type: DType = int64,
) -> tuple[Tensor, Tensor]:
    values, index = window.max_pool2d(x, kernel_size, strides, pads, dilation, True, ceil_mode)
    return values, cast_to(index, argmax_type)


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *,
    is_training: bool = False, epsilon: float = 1e-05, momentum: float = 0.1,
    data_format: str = "NCHW",
) -> tuple[Tensor, ...]:
    out = activation.batch_norm(x, mean, variance, scale, bias, is_training, momentum, epsilon)
    if not is_training:
        return out, mean, variance, mean, variance
    axes = tuple(a for a in range(x.ndim) if a != 1)
    var, center = reductions.var_mean(x, axes)
    return out, center, var, center, var


def _layer_norm(
    input_x: Tensor, gamma: Tensor, beta: Tensor, *, begin_norm_axis: int = 1,
    begin_params_axis: int = 1, epsilon: float = 1e-07,
) -> tuple[Tensor, Tensor, Tensor]:
    first = begin_norm_axis % input_x.ndim
    var, center = reductions.var_mean(input_x, tuple(range(first, input_x.ndim)), 0, True)
    shape = input_x.shape[first:]
    out = activation.layer_norm(
        input_x, shape, shapes.reshape(gamma, shape), shapes.reshape(beta, shape), epsilon)
    return out, center, var


class _Along(Primitive):
    """A Primitive whose `axis` is a tuple of one, as MindSpore keeps it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        axis = self.attrs["axis"]
        self.attrs["axis"] = axis if isinstance(axis, tuple) else (axis,)


def _softmax(input: Tensor, axis: int | tuple[int, ...] = -1) -> Tensor:
    one: Any = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    return activation.softmax(input, one)


def _l2_normalize(x: Tensor, *, axis: Any = 0, epsilon: float = 1e-4) -> Tensor:
    wide = arith.wide(x)
    total = reductions.sum(wide * wide, axis, True)
    return cast_to(wide * apply("rsqrt", arith.maximum(total, float(epsilon))), x.dtype)


def _dropout(x: Tensor, keep_prob: float, seed: Seed) -> tuple[Tensor, Tensor]:
    ones = creation.ones_like(x)
    mask = draws.dropout(ones, 1.0 - keep_prob, True, seed)
    return arith.mul(x, mask), mask


def _dropout2d(x: Tensor, *, keep_prob: float = 0.5) -> tuple[Tensor, Tensor]:
    ones = creation.ones((*x.shape[:-2], 1, 1), x.dtype)
    mask = draws.dropout2d(ones, 1.0 - keep_prob)
    return x * mask, shapes.broadcast_to(mask != 0, x.shape)


def _softmax_cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    out = loss.softmax_cross_entropy(logits, labels)
    return out, arith.sub(activation.softmax(logits, 1), labels)


def _sparse_cross_entropy(logits: Tensor, labels: Tensor, *, is_grad: bool = False) -> Tensor:
    rows, t = loss.label_rows(logits, labels, "SparseSoftmaxCrossEntropyWithLogits")
    if not is_grad:
        return loss.cross_entropy(rows, t)
    hot = cast_to(grid.one_hot(t, rows.shape[1], 1.0, 0.0), rows.dtype)
    gradient = (activation.softmax(rows, 1) - hot) / float(rows.shape[0])
    return gradient if logits.ndim == 2 else shapes.reshape(gradient, logits.shape)


def _nll(
    logits: Tensor, labels: Tensor, weight: Tensor, *, reduction: str = "mean",
    ignore_index: int = -100,
) -> tuple[Tensor, Tensor]:
    counts = cast_to(arith.ne(labels, ignore_index), logits.dtype)
    known = arith.where(arith.ne(labels, ignore_index), labels, 0)
    total = reductions.sum(indexing.gather(weight, known, 0) * counts)
    return loss.nll_loss(logits, labels, weight, ignore_index, reduction), total


def _sigmoid_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    labels = indexing.stop_gradient(label)
    return loss.binary_cross_entropy_with_logits(logits, labels, None, None, "none")


def _gelu(x: Tensor) -> Tensor:
    """gelu through tanh: what MindSpore's primitive computes."""
    return activation.gelu(x, "tanh")


def _pad(x: Tensor, *, paddings: Any) -> Tensor:
    flat = tuple(int(v) for pair in reversed(tuple(paddings)) for v in pair)
    return shapes.pad(x, flat)


def _mirror_pad(input_x: Tensor, paddings: Any, *, mode: str = "REFLECT") -> Tensor:
    pairs = paddings.tolist() if isinstance(paddings, Tensor) else paddings
    low, high = (tuple(int(p[i]) for p in pairs) for i in (0, 1))
    return apply_one("pad_border", input_x, low=low, high=high, mode=mode.lower())


def _pad_v3(
    x: Tensor, paddings: Any, constant_value: Any = None, *, mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Tensor:
    counts = paddings.tolist() if isinstance(paddings, Tensor) else list(paddings)
    if not paddings_contiguous:
        half = len(counts) // 2
        counts = [c for pair in zip(counts[:half], counts[half:], strict=True) for c in pair]
    return shapes.pad(x, counts, "replicate" if mode == "edge" else mode, constant_value)


def _depth_to_space(x: Tensor, *, block_size: int) -> Tensor:
    n, c, h, w = x.shape
    s = block_size
    blocks = shapes.reshape(x, (n, s, s, c // (s * s), h, w))
    return shapes.reshape(
        shapes.transpose(blocks, (0, 3, 4, 1, 5, 2)), (n, c // (s * s), h * s, w * s))


def _space_to_depth(x: Tensor, *, block_size: int) -> Tensor:
    n, c, h, w = x.shape
    s = block_size
    blocks = shapes.reshape(x, (n, c, h // s, s, w // s, s))
    return shapes.reshape(
        shapes.transpose(blocks, (0, 3, 5, 1, 2, 4)), (n, c * s * s, h // s, w // s))


def _split(input_x: Tensor, axis: int, output_num: int) -> tuple[Tensor, ...]:
    length = input_x.shape[axis]
    if output_num < 1 or length % output_num:
        raise misuse("Split", f"axis {axis} of {input_x.shape} cannot be divided into {output_num} "
                     "equal parts")
    return joining.split(input_x, length // output_num or 1, axis)


def _unstack(input_x: Tensor, axis: int, num: int | None = None) -> tuple[Tensor, ...]:
    return joining.unstack(input_x, axis)


def _embedding_lookup(input_params: Tensor, input_indices: Tensor, offset: int) -> Tensor:
    index = arith.sub(input_indices, offset)
    inside = arith.logical_and(index >= 0, arith.lt(index, input_params.shape[0]))
    rows = indexing.gather(input_params, arith.where(inside, index, 0), 0)
    keep = shapes.reshape(inside, inside.shape + (1,) * (rows.ndim - inside.ndim))
    return arith.where(keep, rows, 0)


def _scatter_with(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(x: Parameter, indices: Tensor, updates: Tensor, use_locking: bool) -> Tensor:
        return function(x, indices, updates)

    return call


def _diag_part(input_x: Tensor) -> Tensor:
    half = input_x.shape[: input_x.ndim // 2]
    square = shapes.reshape(input_x, (int(np.prod(half)),) * 2)
    return shapes.reshape(grid.diagonal(square), half)


def _div_no_nan(x: Any, y: Any) -> Tensor:
    zero = arith.eq(y, 0)
    return arith.where(zero, 0, arith.true_divide(x, arith.where(zero, 1, y)))


# --- the tables -----------------------------------------------------------------------------------

_PLAIN: dict[str, Callable[..., Any]] = {
    **functions_like({
        control: "WhileLoop ForiLoop Scan",
        arith:
            "Add Sub Mul Pow Maximum Minimum Fmax Fmin Neg Abs Sign Square Sqrt Reciprocal Inv "
            "Floor Ceil Round Trunc LogicalAnd LogicalOr LogicalNot LogicalXor BitwiseAnd "
            "BitwiseOr BitwiseXor IsNan IsInf IsFinite MaskedFill Cast Real Imag Conj Complex",
        special:
            "AddN Addcmul Addcdiv Equal FloorDiv FloorMod Greater GreaterEqual Heaviside Hypot "
            "Lerp Less LessEqual NotEqual Polar Sinc TensorAdd Xdivy Xlogy",
        shapes: "Flatten Shape DType Rank Size",
        joining: "Tile",
        grid: "Diag Trace",
        creation: "Eye Fill Fills Ones Zeros OnesLike ZerosLike LinSpace ScalarToTensor",
        indexing:
            "GatherNd ScatterNd TensorScatterUpdate TensorScatterAdd TensorScatterSub "
            "TensorScatterMul TensorScatterDiv TensorScatterMax TensorScatterMin Assign AssignAdd "
            "AssignSub StopGradient Depend UnsortedSegmentSum UnsortedSegmentMax "
            "UnsortedSegmentMin UnsortedSegmentProd",
        overloaded: "MaskedScatter",
        scattering: "PopulationCount",
        sorting: "MaskedSelect NonZero Unique",
        activation: "Dense ReLU ReLU6 FastGeLU SeLU Softplus Softsign Mish PReLU",
        linalg: "Ger",
    }),
    "Div": arith.true_divide, "RealDiv": arith.true_divide, "Mod": arith.fmod,
    "TruncateMod": arith.fmod, "Rint": arith.round, "Invert": arith.bitwise_not,
    "LeftShift": arith.bitwise_left_shift, "RightShift": arith.bitwise_right_shift,
    "Select": arith.where, "AccumulateNV2": special.addn,
    "SquaredDifference": lambda x, y: arith.square(arith.sub(x, y)), "DivNoNan": _div_no_nan,
    "MulNoNan": lambda x, y: arith.where(arith.eq(y, 0), 0, arith.mul(x, y)),
    "SquareSumAll": lambda x, y: (reductions.sum(arith.mul(x, x)), reductions.sum(arith.mul(y, y))),
    **{name: VIEWS[function] for name, function in (
        ("Reshape", "reshape"), ("Transpose", "transpose"), ("ExpandDims", "expand_dims"))},
    "TensorShape": lambda input_x: tensor_of(np.array(input_x.shape, np.int64)),
    "DiagPart": _diag_part, "Slice": VIEWS["slice"], "Identity": _copy_of,
    "GatherD": indexing.gather_elements,
    "IndexFill": lambda x, dim, index, value: indexing.index_fill(x, int(dim), index, value),
    "GeLU": _gelu, "Gelu": _gelu,
    "L2Loss": lambda input_x: arith.div(reductions.sum(arith.mul(input_x, input_x)), 2.0),
    "EmbeddingLookup": _embedding_lookup, "SoftmaxCrossEntropyWithLogits": _softmax_cross_entropy,
    "SigmoidCrossEntropyWithLogits": _sigmoid_cross_entropy,
}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "ReduceMean": (reductions.mean, {"keep_dims": False}),
    "ReduceAll": (reductions.all, {"keep_dims": False}),
    "ReduceAny": (reductions.any, {"keep_dims": False}),
    "Cummax": (reductions.cummax, {"axis": REQUIRED}),
    "Cummin": (reductions.cummin, {"axis": REQUIRED}),
    "Sort": (sorting.sort, {"axis": -1, "descending": False}),
    "IsClose": (arith.isclose, {"rtol": 1e-05, "atol": 1e-08, "equal_nan": False}),
    "NanToNum": (special.nan_to_num, {"nan": None, "posinf": None, "neginf": None}),
    "Cdist": (statistics.cdist, {"p": 2.0}),
    "LogSoftmax": (activation.log_softmax, {"axis": -1}), "Elu": (activation.elu, {"alpha": 1.0}),
    "CeLU": (activation.celu, {"alpha": 1.0}), "GLU": (activation.glu, {"axis": -1}),
    "RmsNorm": (activation.rms_norm, {"epsilon": 1e-06}),
    "LRN": (window.lrn, {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5,
                         "norm_region": "ACROSS_CHANNELS"}),
    "AdaptiveAvgPool2D": (window.adaptive_avg_pool2d, {"output_size": REQUIRED}),
    "KLDivLoss": (loss.kl_div, {"reduction": "mean"}),
    "SmoothL1Loss": (loss.smooth_l1_loss, {"beta": 1.0, "reduction": "none"}),
    "SoftMarginLoss": (loss.soft_margin_loss, {"reduction": "mean"}),
    "BroadcastTo": (VIEWS["broadcast_to"], {"shape": REQUIRED}),
    "Concat": (joining.concat, {"axis": 0}), "Stack": (joining.stack, {"axis": 0}),
    "Pack": (joining.stack, {"axis": 0}),
    "Unstack": (viewing(_unstack), {"axis": 0, "num": None}),
    "Unpack": (viewing(_unstack), {"axis": 0}),
    "Split": (viewing(_split), {"axis": 0, "output_num": 1}),
    "Squeeze": (VIEWS["squeeze"], {"axis": ()}),
    "Roll": (joining.roll, {"shifts": REQUIRED, "dims": None}),
    "Tril": (grid.tril, {"diagonal": 0}), "Triu": (grid.triu, {"diagonal": 0}),
    "StridedSlice": (viewing(joining.strided_slice), dict.fromkeys(
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)),
    "Range": (creation.range, {"maxlen": 1000000}),
    "InplaceAdd": (scattering.inplace_add, {"indices": REQUIRED}),
    "InplaceSub": (scattering.inplace_sub, {"indices": REQUIRED}),
    "InplaceIndexAdd": (scattering.inplace_index_add, {"axis": REQUIRED}),
    "ReverseSequence": (scattering.reverse_sequence, {"seq_dim": REQUIRED, "batch_dim": 0}),
    "FillDiagonal": (overloaded.fill_diagonal, {"fill_value": REQUIRED, "wrap": False}),
    "IndexAdd": (indexing.index_add,
                 {"axis": REQUIRED, "use_lock": True, "check_index_bound": True}),
    "InplaceUpdate": (indexing.inplace_update, {"indices": REQUIRED}),
    "Dropout": (_dropout, {"keep_prob": 0.5, "Seed0": 0, "Seed1": 0}),
    "StandardNormal": (draws.standard_normal, {"seed": 0, "seed2": 0}),
    "StandardLaplace": (draws.standard_laplace, {"seed": 0, "seed2": 0}),
}

_OWN: dict[str, Callable[..., Any]] = {
    "ReduceSum": _reduce_sum,
    "ReduceProd": lambda x, axis=(), *, keep_dims=False:
        reductions.prod(x, axis, keep_dims, x.dtype),
    "ReduceMax": lambda x, axis=(), *, keep_dims=False: reductions.amax(x, axis, keep_dims),
    "ReduceMin": lambda x, axis=(), *, keep_dims=False: reductions.amin(x, axis, keep_dims),
    "ReduceStd": lambda x, *, axis=(), unbiased=True, keep_dims=False:
        reductions.std_mean(x, axis, int(unbiased), keep_dims),
    "Argmax": lambda input_x, *, axis=-1, output_type=int32:
        cast_to(reductions.argmax(input_x, axis), output_type),
    "Argmin": lambda x, *, axis=-1, output_type=int32:
        cast_to(reductions.argmin(x, axis), output_type),
    "ArgMaxWithValue": lambda input, *, axis=0, keep_dims=False:
        reductions.max(input, axis, keep_dims)[::-1],
    "ArgMinWithValue": lambda input, *, axis=0, keep_dims=False:
        reductions.min(input, axis, keep_dims)[::-1],
    "CountNonZero": lambda x, *, dims=None: reductions.count_nonzero(x, dims),
    "CumSum": _running_sum("cumsum"), "CumProd": _running_sum("cumprod"),
    "TopK": lambda input_x, k, *, sorted=True: sorting.topk(input_x, k),
    "LpNorm": lambda x, *, axis, p=2, keep_dims=False, epsilon=1e-12:
        arith.maximum(statistics.vector_norms(x, float(p), axis, keep_dims), float(epsilon)),
    "L2Normalize": _l2_normalize,
    "MatMul": _matmul, "BatchMatMul": _matmul,
    "Einsum": lambda xs, *, equation: linalg.einsum(equation, *xs),
    "Cross": lambda x, y, *, dim=-65530: linalg.cross(x, y, None if dim == -65530 else dim),
    "BiasAdd": lambda x, bias, *, data_format="NCHW": activation.bias_add(x, bias),
    "BatchNorm": _batch_norm, "LayerNorm": _layer_norm,
    "Conv2D": lambda x, weight, *, out_channel, kernel_size, mode=1, pad_mode="valid", pad=0,
    stride=1, dilation=1, group=1, data_format="NCHW": window.conv2d(
        x, weight, None, _pair(stride), pad_mode, pad, _pair(dilation), group),
    "Conv2DTranspose": conv_transpose, "MaxPool": _pooled("max", "valid"),
    "AvgPool": _pooled("avg", "VALID"), "MaxPoolWithArgmaxV2": _max_pool_argmax,
    "AdaptiveMaxPool2D": lambda x, *, output_size: window.adaptive_max_pool2d(x, output_size, True),
    "ResizeNearestNeighbor": lambda input_x, *, size, align_corners=False, half_pixel_centers=False:
        window.interpolate(input_x, tuple(size), None, "nearest"),
    "BinaryCrossEntropy": lambda input, target, weight=None, *, reduction="mean":
        loss.binary_cross_entropy(input, target, weight, reduction),
    "BCEWithLogitsLoss": lambda input, target, weight=None, posWeight=None, *, reduction="mean":
        loss.binary_cross_entropy_with_logits(input, target, weight, posWeight, reduction),
    "NLLLoss": _nll,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
    "ReverseV2": lambda x, *, axis: shapes.flip(x, axis),
    "Pad": _pad, "MirrorPad": _mirror_pad, "PadV3": _pad_v3, "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "OneHot": lambda indices, depth, on_value, off_value, *, axis=-1:
        grid.one_hot(indices, depth, on_value, off_value, axis),
    "Meshgrid": lambda inputs, *, indexing="xy": grid.meshgrid(*inputs, indexing=indexing),
    "Gather": lambda x, indices, axis, *, batch_dims=0:
        indexing.gather(x, indices, axis, batch_dims),
    "ScatterAddWithAxis": lambda input_x, indices, update, *, axis=0:
        indexing.scatter_add_ext(input_x, axis, indices, update),
    "IndexPut": lambda x1, x2, indices, *, accumulate=0:
        overloaded.index_put(x1, indices, x2, accumulate),
    "TensorScatterElements": lambda x, indices, updates, *, axis=0, reduction="none":
        indexing.tensor_scatter_elements(x, indices, updates, axis, reduction),
    "SearchSorted": lambda seq, values, sorter=None, *, dtype=int64, right=False:
        sorting.searchsorted(seq, values, out_int32=dtype is int32, right=right, sorter=sorter),
    "Dropout2D": _dropout2d,
    "Multinomial": lambda x, num_samples, *, seed, dtype=int32:
        cast_to(draws.multinomial(x, num_samples, True, seed), dtype),
    "RandomShuffle": lambda input_x, *, seed: draws.shuffle(input_x, seed),
    "UniformReal": lambda shape, *, seed: draws.rand(shape, seed=seed),
    "UniformInt": lambda shape, minval, maxval, *, seed:
        draws.randint(int(minval), int(maxval), shape, seed, dtype=int32),
    "Bernoulli": lambda x, p, *, seed=-1, offset=0:
        draws.bernoulli(x, p, None if seed == -1 else seed),
}

_SCATTERS = functions_like({
    indexing:
        "ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMax ScatterMin ScatterUpdate "
        "ScatterNdAdd ScatterNdUpdate",
    scattering: "ScatterNdSub ScatterNdMul ScatterNdDiv ScatterNdMax ScatterNdMin",
})


PRIMITIVES: Mapping[str, type[Primitive]] = {
    **make_primitives({}, {
        op.primitive: (make_function(op), {name: a.default for name, a in op.attrs.items()})
        for op in all_ops() if op.primitive}),
    **make_primitives(_PLAIN, _WITH_INIT | {
        name: (_scatter_with(f), {"use_locking": name in ("ScatterUpdate", "ScatterNdUpdate")})
        for name, f in _SCATTERS.items()}, _OWN),
    **make_primitives({}, {"Softmax": (_softmax, {"axis": -1})}, base=_Along),
}
"""Every primitive class by name."""

__getattr__ = names_of(__name__, PRIMITIVES)
