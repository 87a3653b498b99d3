"""Settings of primitives within a layer (`net.fc.matmul.shard(...)`), applied where it is traced.

MindSpore's layers call primitives that they hold as attributes, to which scripts give strategies
and `recompute`. Ours compute the same by functions. While one that has such marks is traced, each
op that a primitive of it stands for is laid out, or computed again, as a call of the primitive is;
`_OPS` says which ops those are. Where nothing is marked, nothing of this runs.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_compiler.ir.op import all_ops
from cellc_runtime.records import dataclass, field

from ..core import dispatch
from ..ranks.layout import Placement
from ..tensors.tensor import Tensor
from . import sharding
from .recompute import result_again

Attrs = Mapping[str, Any]

_OPS: dict[str, tuple[str, ...]] = {
    "AvgPool": ("avg_pool2d",), "BatchMatMul": ("matmul",),
    "BatchNorm": ("batch_norm", "batch_norm_inference"), "BiasAdd": ("add",), "Cast": ("cast",),
    "Concat": ("concat",), "Conv2D": ("conv2d",), "Conv2DBackpropInput": ("conv2d_backward_data",),
    "Conv2DTranspose": ("conv2d_backward_data",), "Dropout": ("dropout",),
    "EmbeddingLookup": ("gather",), "ExpandDims": ("reshape",), "Gather": ("gather",),
    "GatherD": ("gather_elements",), "LayerNorm": ("layer_norm",), "LogSoftmax": ("log_softmax",),
    "LogSoftmaxExt": ("log_softmax",), "MatMul": ("matmul",), "MaxPool": ("max_pool2d",),
    "OneHot": ("one_hot",), "Pad": ("pad",), "PadV3": ("pad", "pad_border"),
    "ReduceMax": ("reduce_max",), "ReduceMean": ("reduce_mean",),
    "ReduceProd": ("reduce_prod",), "ReduceSum": ("reduce_sum",),
    "Roll": ("roll",), "Select": ("where",), "SmoothL1Loss": ("smooth_l1",),
    "Softmax": ("softmax",),
    "SoftmaxCrossEntropyWithLogits": ("softmax_cross_entropy",), "SparseGatherV2": ("gather",),
    "SparseSoftmaxCrossEntropyWithLogits": ("sparse_softmax_cross_entropy",),
    "Square": ("square", "mul"), "Squeeze": ("reshape",), "Transpose": ("transpose",),
}
"""By primitives: the ops that they are in layers of `cellc.nn`."""
_WHOLE: dict[str, tuple[str, ...]] = {
    "AdaptiveAvgPool2D": (), "AdaptiveAvgPool3D": (), "AdaptiveMaxPool3D": (), "AvgPool3D": (),
    "ClipByNorm": (), "Conv3D": ("weight",), "Conv3DTranspose": ("weight",),
    "Dense": ("weight", "bias"), "Dropout2D": (), "Dropout3D": (), "ExtractImagePatches": (),
    "InstanceNorm": ("gamma", "beta", "moving_mean", "moving_variance"), "LRN": (),
    "MaxPool3D": (), "MultiMarginLoss": (), "MultilabelMarginLoss": (),
}
"""Primitives that are several ops here: what they read is what the layer is called with, then its
parameters of these names."""
_ALL = frozenset[str]()
_AS_LAYER: dict[str, frozenset[str]] = {
    "GLU": _ALL, "LogSigmoid": _ALL, "MAELoss": frozenset({"abs"}),
    "Moments": frozenset({"square_diff"}), "Norm": _ALL, "ReduceLogSumExp": _ALL,
    "Tril": frozenset({"mul"}), "Triu": frozenset({"mul"}),
}
"""By layers that are computed in other ways: primitives (none: all) whose operands or results lie
as what the layer is called with or gives, whichever has as many axes."""
_OTHERWISE: dict[str, frozenset[str]] = {
    "Conv3d": frozenset({"concat", "split_0", "split_1"}),
    "FocalLoss": frozenset({"expand_dims", "gather_d", "squeeze", "tile"}),
    "TimeDistributed": frozenset({"transpose"}),
}
"""Primitives that layers here have nothing of."""
_ANYHOW = frozenset({"DType", "Reshape", "Shape"})
"""Primitives whose strategies say nothing: a shape lies nowhere, and what a reshape gives lies as
what it is given (so it is in MindSpore)."""
_HAS = {"Dropout": 1, "OneHot": 1}
"""Operands of an op that a primitive has a strategy for, where that is not all of them."""


def hold(layer: Any, primitives: dict[str, Any]) -> None:
    """Attach MindSpore's inner primitives to a layer, so that settings of them (`shard`,
    `recompute`) apply to the layer."""
    layer.__dict__["_inner"] = primitives
    for value in primitives.values():
        if hasattr(value, "sharded") and not any(held() is layer for held in value._layers):
            living = (held for held in value._layers if held() is not None)
            value.__dict__["_layers"] = (*living, weakref.ref(layer))


def marked(layer: Any) -> dict[str, Any]:
    """The primitives within a layer with settings that the present trace must follow."""
    held = layer.__dict__.get("_inner")
    if not held:
        return {}
    laying = sharding.laying_out()
    return {name: p for name, p in held.items()
            if hasattr(p, "sharded") and (p.recomputed or (laying and p.sharded))}


def within(layer: Any, here: Callable[[], bool]) -> Within | None:
    """Return the runner of a layer's ops while it is traced; None: its primitives have no settings,
    or it is active already. `here`: whether what runs is code of the layer itself."""
    said = marked(layer)
    outer = dispatch.scope().around
    if not said or (isinstance(outer, Within) and outer.layer is layer):
        return None
    roles = [_role(layer, name, p) for name, p in said.items()]
    return Within(layer, here, [r for r in roles if r is not None])


@dataclass(slots=True, eq=False)
class _Role:
    """The settings of one primitive."""

    what: str  # the layer and the attribute, for messages
    primitive: Any
    ops: tuple[str, ...]  # those that it stands for; none: it is the layer as a whole
    parameters: tuple[str, ...] = ()  # names of those that it reads as a whole
    # given, made: how operands and results are to lie
    given: list[Placement] = field(default_factory=list)
    made: list[Placement] = field(default_factory=list)
    # shapes of operands of such ops that have other axes
    met: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)
    done: bool = False  # whether something was

    def shapes(self, op: str, operands: Sequence[Tensor]) -> list[tuple[int, ...]] | None:
        """As what the operands lie, one for each layout; None: these are others."""
        count = _HAS.get(self.primitive.name, len(operands))
        if self.given and len(self.given) < count:
            return None
        found = [_seen_as(x, len(layout), op == "add")
                 for x, (_, layout) in zip(operands[:count], self.given, strict=False)]
        return None if None in found else [f for f in found if f is not None]

    def run(
        self, op: str, operands: Sequence[Tensor], attrs: Attrs, shapes: Sequence[tuple[int, ...]]
    ) -> Any:
        """The op, laid out and computed again as the primitive says."""
        self.done = True

        def laid() -> Any:
            given = [*(_laid(x, shape, p) for x, shape, p in zip(
                operands, shapes, self.given, strict=False)), *operands[len(shapes) :]]
            out = dispatch.apply(op, *given, **attrs)
            sharding.check_rows(self.primitive, self.what, self.given, out)
            return self.results(out, op == "add")

        return result_again((operands, {}), laid) if self.primitive.recomputed else laid()

    def results(self, out: Any, rows: bool = False) -> Any:
        """Lay out the results of an op."""
        if not self.made:
            return out
        results = out if isinstance(out, tuple) else (out,)
        laid = []
        for x, placement in zip(results, self.made, strict=False):
            shape = _seen_as(x, len(placement[1]), rows)
            if shape is None:
                _, said = self.primitive.sharded or (None, None)
                raise ValueError(f"For '{self.what}', 'out_strategy' is {said}, but a result has "
                                 f"the shape {x.shape}.")
            laid.append(_laid(x, shape, placement))
        laid += results[len(laid) :]
        return tuple(laid) if isinstance(out, tuple) else laid[0]


def _role(layer: Any, name: str, primitive: Any) -> _Role | None:
    """Return the settings of a primitive; None: nothing that matters."""
    kind = primitive.name
    what = f"{type(layer).__name__}.{name}"
    kinds = {c.__name__ for c in type(layer).__mro__}
    whole = kind in _WHOLE or any(k in kinds and (not names or name in names)
                                  for k, names in _AS_LAYER.items())
    ops = () if whole else _OPS.get(kind) or tuple(
        op.name for op in all_ops() if op.primitive == kind)
    if kind in _ANYHOW:
        return None
    if (not ops and not whole) or any(k in kinds and name in names
                                      for k, names in _OTHERWISE.items()):
        raise ValueError(f"For '{what}', this layer computes without a {kind}, so that nothing can "
                         "be said of it: lay out the layer's operands by ops.reshard or Cell.shard,"
                         " or let Cell.recompute compute it again.")
    given: list[Placement] = []
    made: list[Placement] = []
    if primitive.sharded and sharding.laying_out():
        given, made = sharding.placements_of(primitive, what)
    return _Role(what, primitive, ops, _WHOLE.get(kind, ()), given, made)


def _seen_as(x: Tensor, rank: int, rows: bool) -> tuple[int, ...] | None:
    """Return the shape of `rank` axes as which a tensor lies: its own, without trailing axes of one
    element (a bias, ready to be added), or rows (a `Dense` of MindSpore with more axes)."""
    if x.ndim == rank:
        return x.shape
    if x.ndim > rank and all(d == 1 for d in x.shape[rank:]):
        return x.shape[:rank]
    if rows and rank == 2 and x.ndim > 2:
        return math.prod(x.shape[:-1]), x.shape[-1]
    return None


def _laid(x: Tensor, shape: tuple[int, ...], placement: Placement) -> Tensor:
    if not shape:
        return x
    if shape == x.shape:
        return sharding.lay_out(x, placement)
    own = x.shape
    flat = sharding.lay_out(dispatch.apply_one("reshape", x, shape=shape), placement)
    return dispatch.apply_one("reshape", flat, shape=own)


class Within:
    """Runs the ops of a layer while it is traced, as its primitives say; see `within`."""

    def __init__(self, layer: Any, here: Callable[[], bool], roles: Sequence[_Role]) -> None:
        self.layer, self.here = layer, here
        self.roles = [r for r in roles if r.ops]
        self.whole = [r for r in roles if not r.ops]
        self.outer = dispatch.scope().around

    def call(self, run: Callable[[list[Any]], Any], args: list[Any]) -> Any:
        """`run(args)`, a method of the layer, its ops run here. `args`: the layer, then what it is
        called with."""
        def laid() -> Any:
            with dispatch.saving(self):
                out = run([args[0], *self._entered(args[1:])])
            for role in self.whole:
                out = self._left(role, out)
            return out

        again = any(r.primitive.recomputed for r in self.whole)
        out = result_again((tuple(args[1:]), {}), laid) if again else laid()
        for role in (*self.roles, *self.whole):
            if role.met and not role.done:
                said, _ = role.primitive.sharded or (None, None)
                raise ValueError(f"For '{role.what}', 'in_strategy' is {said}, but the operands "
                                 f"have the shapes {', '.join(map(str, role.met))}.")
        return out

    def _entered(self, args: Sequence[Any]) -> list[Any]:
        """Return the layer's arguments, laid out for primitives that are all of it."""
        out = list(args)
        for role in self.whole:
            given = iter(role.given[:1] if role.parameters else role.given)
            for i, x in enumerate(out):
                placement = next(given, None) if isinstance(x, Tensor) else None
                if placement is not None and self._fits(role, x, placement):
                    out[i] = sharding.lay_out(x, placement)
        return out

    def _left(self, role: _Role, out: Any) -> Any:
        """Return the layer's result, laid out for a primitive that is all of it."""
        if role.given and not role.made and isinstance(out, Tensor) and not role.done and \
                len(role.given[0][1]) == out.ndim:
            role.done = True
            return sharding.lay_out(out, role.given[0])
        return role.results(out)

    def _fits(self, role: _Role, x: Tensor, placement: Placement) -> bool:
        """Whether an operand has the axes that a layout is for."""
        if len(placement[1]) != x.ndim:
            role.met.append((x.shape,))
            return False
        role.done = True
        return True

    def __call__(self, op: str, operands: Sequence[Tensor], attrs: Attrs) -> Any:
        """The results of an op, as `dispatch.apply` gives them."""
        with dispatch.saving(self.outer):
            if not self.here():
                return dispatch.apply(op, *operands, **attrs)
            operands = [self._read(x) for x in operands]
            for role in self.roles:
                if op not in role.ops:
                    continue
                shapes = role.shapes(op, operands)
                if shapes is not None:
                    return role.run(op, operands, attrs, shapes)
                role.met.append(tuple(x.shape for x in operands))
            return dispatch.apply(op, *operands, **attrs)

    def _read(self, x: Tensor) -> Tensor:
        """A parameter of the layer, laid out for primitives that are all of it."""
        for role in self.whole:
            for name, placement in zip(role.parameters, role.given[1:], strict=False):
                if x is getattr(self.layer, name, None) and len(placement[1]) == x.ndim:
                    return sharding.lay_out(x, placement)
        return x
