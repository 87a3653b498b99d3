"""The definition of an op, and the registry of all ops.

An op is one class in one place: name, operands and attributes, type inference, numpy reference,
gradient, value at an index or expansion into other ops, sample inputs, docstring. Everything else -
functional API, printer, parser, interpreter, autodiff, tests, docs - reads that one definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cellc_runtime import dtypes
from cellc_runtime.dtypes import Array as Array
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, field

from . import registry
from .attributes import REQUIRED as REQUIRED
from .attributes import Attr, check_attributes
from .batch_axis import BatchAxisRule
from .graph import Builder, Graph, Node, Value
from .types import TensorType, check_size

if TYPE_CHECKING:
    from ..loops.expr import Expr, Reader, Reduction
    from ..loops.index import Index
    from .sharding import Factors, Part

Cost = Literal["free", "cheap", "moderate", "heavy"]


FLOATS: tuple[DType, ...] = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTS: tuple[DType, ...] = (
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
)
COMPLEX: tuple[DType, ...] = (dtypes.complex64, dtypes.complex128)
BOOL: tuple[DType, ...] = (dtypes.bool_,)
REAL = FLOATS + INTS
NUMBERS = REAL + COMPLEX
ANY = NUMBERS + BOOL


@dataclass(frozen=True, slots=True)
class Spec:
    """A sample operand: drawn uniformly from [low, high) (ints inclusive of low only).

    `dtype` None means the dtype under test.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs for the tests every op passes: operand specs (or exact arrays) and attributes."""

    operands: tuple[Spec | Array, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    grad: bool = True  # Whether to check the gradient by finite differences at this sample


class Op:
    """Base of op definitions: a subclass with a `name` of its own is an op, and is registered.

    An op has exactly one of: `value` (value at an index: elementwise, views, pads, gathers; it
    fuses with its neighbours), `reduction` (a fused reduction), `opaque` (each back end has a rule
    for it), `expand` (a composition), or it is control flow, known to the driver by name.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[str, ...]] = ("input",)
    """Operand names; a last name starting with `*` takes any number."""
    attrs: ClassVar[Mapping[str, Attr]] = {}
    """Attributes: the type, range and default of each (`ir/attributes.py`)."""
    dtypes: ClassVar[tuple[DType, ...]] = FLOATS  # Accepted element types of the first operand
    effect: ClassVar[bool] = False  # Kept even if no result is used; never merged (host callbacks)
    collective: ClassVar[bool] = False  # Several processes do it together (`ops/collective.py`)
    unique: ClassVar[bool] = False  # Never merged with an equal one
    may_fail: ClassVar[bool] = False  # A run may end at it with an error
    inlined: ClassVar[bool] = False
    """Runs as its first region, which the pass `expand` puts in its place."""
    gradient_regions: ClassVar[int] = 0
    """How many of its regions, the last ones, only a gradient looks at: they run nowhere."""
    commutative: ClassVar[bool] = False  # Its two operands may change places
    leading_size: ClassVar[str] = ""
    """The attribute whose first entry is the size of the result's first axis."""
    amp: ClassVar[str] = "promote"
    """Mixed-precision class: `"low"` (wants float16), `"high"` (wants float32), `"promote"`."""
    cost: ClassVar[Cost] = "moderate"
    """The cost of an element: `"free"` (views), `"cheap"` (an instruction or two: computed again
    rather than stored and read), `"moderate"`, `"heavy"` (contractions)."""
    exact: ClassVar[bool] = False
    """IEEE 754 or integer arithmetic defines every bit, so that `reference` gives those of the
    kernels: constants may be folded."""
    may_alias: ClassVar[bool] = False  # The result may be another name of the operand's memory
    opaque: ClassVar[bool] = False
    """Computed from whole operands, by a rule that each back end has for it: it does not fuse."""
    elementwise: ClassVar[bool] = False
    """Each element of the only result follows from those that the operands, broadcast, have at its
    place, and from no size: PyNative compiles the op once for all shapes."""
    differentiable: ClassVar[bool] = True
    first_constant: ClassVar[int | None] = None
    """From which operand on they have no gradient, though they are floats (`why_no_gradient`)."""
    function: ClassVar[str | None] = None
    """Name in `cellc.ops` generated from this definition (None: written by hand there)."""
    method: ClassVar[str | None] = None  # Name of the Tensor method generated from this definition
    primitive: ClassVar[str | None] = None
    """Name of the Primitive class generated from this definition (attributes to its init)."""
    tolerance: ClassVar[float] = 4.0
    """Allowed error against the float64 reference, in ulps of the largest |output|."""

    window: ClassVar[bool] = False
    """The result is the first operand with a window, from `start` on, replaced by the second."""
    sums: ClassVar[bool] = False
    """Each element of the result is a sum of products of elements of the operands, none of them
    taken away: the reference on absolute values says how much was summed (`as_sum`)."""

    discontinuous: ClassVar[bool] = False
    """The result jumps where the rounding of an inner step decides: it is judged by a reference on
    operands of their own type, for a wider one decides otherwise."""

    # --- to be given by each op ---------------------------------------------------------------

    def infer(self, *types: TensorType, **attrs: Any) -> TensorType | tuple[TensorType, ...]:
        """Result type(s). Raises ValueError/TypeError with what was expected and what came."""
        raise TypeError(f"the op {self.name} has no type inference")

    def reference(self, *arrays: Array, **attrs: Any) -> Any:
        """The result(s) in numpy: the independent judge, run in float64 by `verify`."""
        raise TypeError(f"the op {self.name} has no reference evaluation")

    def as_sum(self, attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Attributes with which the op on absolute values says how much was summed; None: the op
        is no such sum."""
        return attrs if self.sums else None

    def summed(self, *arrays: Array, **attrs: Any) -> Array | None:
        """How much was added up for each element of the only result, in magnitude, where `as_sum`
        cannot say it: terms that cancel leave the rounding of what they were."""
        return None

    def terms(self, node: Node) -> int:
        """How many numbers an element of the result is a chain of: what roundings grow with."""
        size = max(1, max((r.type.size for r in node.results), default=1))
        if self.flops is not None:
            return max(1, self.flops(node) // (2 * size))
        if self.opaque or self.reduction is not None:
            return max(1, max((v.type.size for v in node.operands), default=1) // size)
        return 1

    def limit(self, node: Node) -> float:
        """The error that `verify` allows, in ulps: `tolerance`, and for long sums five standard
        deviations of the random walk of their roundings (0.29 ulps each)."""
        return max(self.tolerance, 1.5 * math.sqrt(self.terms(node)))

    def gradient(
        self, b: Builder, node: Node, dys: Sequence[Value | None]
    ) -> Sequence[Value | None]:
        """Cotangents of the operands from those of the results (None: no gradient)."""
        raise TypeError(f"the op {self.name} is not differentiable")

    def samples(self) -> Sequence[Sample]:
        """Inputs for the tests every op passes."""
        return ()

    value: Callable[[Reader, tuple[Index, ...]], Expr | tuple[Expr, ...]] | None = None
    """`value(r, idx)`: the element at `idx` of the result, reading operands through `r`."""
    reduction: Callable[[Node], Reduction] | None = None
    """`reduction(node)`: the reduction this node is."""
    of_complex: Callable[[Builder, Node], Value | None] | None = None
    """`of_complex(b, node)`: the result for a complex operand, by ops whose kernels take one; None
    where an open size decides how."""
    expand: Callable[..., Any] | None = None
    """`expand(b, *operands, **attrs)`: the composition, built with `b`."""

    composition: Callable[..., Any] | None = None
    """`composition(b, *operands, **attrs)`: what an opaque op is in files that have no such op, in
    another order of sums."""

    batch: Callable[..., Any] | None = None
    """`batch(b, node, operands, mapped, n)`: the op on `n` examples; see `ops/batching.py`.
    Without it a composition is expanded, and anything else runs in a loop over the examples."""

    flops: Callable[[Node], int] | None = None
    """`flops(node)`: the operations of a contraction (a multiplication and an addition are two)."""
    weight_axes: Callable[[Node], tuple[int, int] | None] | None = None
    """`weight_axes(node)`: of a contraction of data with weights, along which axis of the result
    and which axis of the weights (its second operand) the outputs lie; None: this one has no
    weights."""
    simplify: Callable[[Builder, Node], Value | None] | None = None
    """`simplify(b, node)`: an equal value that is simpler, to the bit, or None; see
    `ops/_identities.py`."""
    batch_axis: BatchAxisRule | None = None
    """`batch_axis(marks, node)`: along which axis of the results the examples of a batch lie if
    each is treated on its own; see `ir/batch_axis.py`. None: the op mixes them."""
    contracted: Callable[[Node], Sequence[Sequence[tuple[int, int]]]] | None = None
    """`contracted(node)`: the axes, as (operand, axis), whose parts give partial results; those
    that are walked together are one entry. See `ir/sharding.py`."""
    combine: ClassVar[Literal["sum", "prod", "min", "max"]] = "sum"
    """How partial results of ranks become the result."""
    factors: Callable[[Node], Factors] | None = None
    """`factors(node)`: along what the op splits over ranks, where `batch_axis` and `contracted` do
    not say it."""
    part: Callable[[Builder, Node, Sequence[Value], Part], Value | Sequence[Value]] | None = None
    """`part(b, node, operands, part)`: a rank's part of the result, or of all results, from its
    parts of the operands; without it that is the op on them."""

    # --- derived --------------------------------------------------------------------------------

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            registry.register(cls.name, cls())

    def complete(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """`attrs` with defaults filled in. Raises TypeError if an attribute is unknown or
        missing."""
        unknown = set(attrs) - set(self.attrs)
        if unknown:
            raise TypeError(f"{self.name} has no attribute {sorted(unknown)[0]!r}")
        full = {k: attrs.get(k, a.default) for k, a in self.attrs.items()}
        for k, v in full.items():
            if v is REQUIRED:
                raise TypeError(f"{self.name} needs the attribute {k!r}")
        return full

    def result_types(self, node: Node) -> tuple[TensorType, ...]:
        """The inferred types of a node's results.

        Raises:
            TypeError, ValueError: operands or attributes that do not fit; attributes are checked
                before anything is computed from them.
        """
        self._check_count(node)
        check_attributes(self.name, node.attrs, self.attrs)
        found = self.infer(*[v.type for v in node.operands], **node.attrs)
        types = found if isinstance(found, tuple) else (found,)
        for ty in types:
            check_size(f"a result of {self.name}", ty)
        return types

    def unrolled(self, node: Node) -> bool:
        """Whether gradients pass the regions of a node as if what runs in them stood in its place:
        what they read gets their contributions one by one."""
        return False

    def captures(self, node: Node) -> int:
        """How many operands, the last ones, the regions of a node take as their last inputs, the
        same in every run."""
        return 0

    def _check_count(self, node: Node) -> None:
        names = self.operands
        variadic = bool(names) and names[-1].startswith("*")
        least = len(names) - variadic
        if len(node.operands) < least or (not variadic and len(node.operands) > least):
            raise TypeError(
                f"{self.name} takes {least}{' or more' if variadic else ''} operands "
                f"({', '.join(names)}), got {len(node.operands)}"
            )

    def has_gradient(self) -> bool:
        """Whether the op states its own gradient rule (else a composition is expanded first)."""
        return type(self).gradient is not Op.gradient

    def callback_name(self, node: Node) -> str:
        """By what a program calls back for a node that the host computes: what it does follows from
        the name and the types."""
        raise TypeError(f"the op {self.name} is not computed by the host")

    def why_no_gradient(self, node: Node) -> str:
        """Return the error text for the gradient of an op that is not differentiable, or for that
        of an operand for which `gradient` gives None."""
        return ""


lookup: Callable[[str], Op] = registry.lookup
"""The op of a name, asked for at every step of a compilation. A KeyError if there is none."""
load_all = registry.load_all


def run_regions(node: Node) -> tuple[Graph, ...]:
    """The regions of a node that run (autodiff copies the others where they are used)."""
    return node.regions[: len(node.regions) - lookup(node.op).gradient_regions]


def has_effect(node: Node) -> bool:
    """Whether the node, or one inside it, has an effect (calls the host)."""
    return lookup(node.op).effect or (bool(node.regions) and any(
        has_effect(n) for r in run_regions(node) for n in r.nodes))


def all_ops() -> Iterator[Op]:
    """Every registered op, by name."""
    return registry.every_op()


def user_ops() -> Iterator[Op]:
    """The ops that networks of one process are written in, by name: the modules of others load when
    such an op is looked up."""
    return registry.every_op(but=registry.WHEN_USED)
