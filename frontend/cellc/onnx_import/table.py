"""The table of rules: what each ONNX operator is in ops of cellc.

A rule is a function of the call and its inputs. Inputs are Tensors, or None where they are left
out; at the positions `known` they are arrays, since they decide the form of a result. A rule that
takes `raw` inputs gets them as they are: `Known` or Tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from ..core.dispatch import apply_one
from ..ops.arguments import ints_in, need_known
from ..ops.functional.arith import wide as wide
from ..tensors.index_plan import known_elements
from ..tensors.parameter import Parameter
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor, tensor_of
from ..tracing.tracer import BAKED
from .arrays import HALVES, element_type
from .wire import Node, OnnxError, RawTensor, Refer

if TYPE_CHECKING:
    from .network import Run

Array = np.ndarray[Any, Any]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
OPSETS = range(1, 29)
"""Versions of ONNX's own operators that the rules follow."""


class Known:
    """A value that is known while the graph is built: an initializer, a constant, or a size.

    Attributes:
        array: its elements; of the kind `object` if some are open sizes.
        dtype: their type.
    """

    __slots__ = ("_tensor", "array", "dtype")

    def __init__(self, array: Array, dtype: DType | None = None) -> None:
        if array.dtype == object and not any(is_symbolic(d) for d in array.flat):
            array = array.astype((dtype or dtypes.int64).numpy)
        self.array: Array = array
        self.dtype = dtype or dtypes.from_numpy(array.dtype)
        self._tensor: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def is_open(self) -> bool:
        """Whether some elements are open sizes."""
        return bool(self.array.dtype == object)

    def tensor(self) -> Tensor:
        """The same as a Tensor."""
        if self.is_open:
            parts = [apply_one("size_number", value=d, dtype=self.dtype) if is_symbolic(d) else
                     tensor_of(np.array(d, self.dtype.numpy)) for d in self.array.flat]
            whole = [apply_one("reshape", p, shape=(1,)) for p in parts]
            joined = whole[0] if len(whole) == 1 else apply_one("concat", *whole, axis=0)
            return apply_one("reshape", joined, shape=self.array.shape)
        if self._tensor is None:
            array = np.ascontiguousarray(self.array).reshape(self.array.shape)
            made = tensor_of(array if array.flags.writeable else array.copy())
            # (Parameters may be packed once for all calls; nobody else has this one.)
            self._tensor = made if made.size <= BAKED or not made.dtype.is_float else \
                Parameter(made, name="constant", requires_grad=False)
        return self._tensor


class Weight(Known):
    """An initializer that is a Parameter of the network: `tensor()` is that of the run."""

    __slots__ = ("name",)

    def __init__(self, array: Array, name: str) -> None:
        super().__init__(array)
        self.name = name


Value = Known | Tensor | None


@dataclass(frozen=True, slots=True)
class Rule:
    """How calls of an operator are translated."""

    fn: Callable[..., Any]
    known: frozenset[int]  # positions of inputs that must be known; -1 for all
    frozen: frozenset[int]  # positions whose initializers are kept, not trained
    stored: frozenset[int]  # positions whose initializers become no Parameters: rules prepare them
    raw: bool  # whether inputs come as they are
    # least, most: how many inputs there may be
    least: int
    most: int

    def is_known(self, position: int) -> bool:
        """Whether an input must be known."""
        return position in self.known or -1 in self.known


RULES: dict[str, Rule] = {}
"""By name of the operator, with its domain where that is not ONNX's own (`domain::Name`)."""


def rule(
    *names: str, known: Sequence[int] = (), frozen: Sequence[int] = (), stored: Sequence[int] = (),
    raw: bool = False,
) -> Callable[[F], F]:
    """Register a rule for operators."""
    def register(fn: F) -> F:
        given = list(inspect.signature(fn).parameters.values())[1:]
        given = given[1:] if given and given[0].name == "scope" else given
        most = 1 << 30 if any(p.kind is p.VAR_POSITIONAL for p in given) else len(given)
        least = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in given)
        for name in names:
            assert name not in RULES, name
            RULES[name] = Rule(fn, frozenset(known), frozenset(frozen), frozenset(stored), raw,
                               least, most)
        return fn

    return register


def rules(table: Mapping[str, Callable[..., Any]], **options: Any) -> None:
    """Register rules: each row has the names of its operators, apart by spaces."""
    for names, fn in table.items():
        rule(*names.split(), **options)(fn)


class Call:
    """One node as a rule sees it.

    Attributes:
        run: what interprets the graph.
        node: the node; `attrs` its attributes.
        opset: the version of its domain.
        given: its inputs.
        whole_numbers: whether no known input is of floats.
    """

    __slots__ = ("attrs", "given", "node", "opset", "run", "whole_numbers")

    def __init__(self, run: Run, node: Node, opset: int, attrs: dict[str, Any]) -> None:
        self.run, self.node, self.opset, self.attrs = run, node, opset, attrs
        self.given: Sequence[Value] = ()
        self.whole_numbers = True

    def refuse(self, why: str) -> OnnxError:
        """An error about this node."""
        return OnnxError(why)

    def once(self, build: Callable[[], T]) -> T:
        """A value that follows from the attributes of this node, worked out once for all walks."""
        if any(isinstance(v, Refer) for v in self.node.attrs.values()):
            return build()  # (of a function: each call has its own)
        facts = self.run.network.facts
        if id(self.node) not in facts:
            facts[id(self.node)] = build()
        found: T = facts[id(self.node)]
        return found

    def stored(self, position: int) -> Array | None:
        """The elements of an input that is the same in each call; None for other inputs."""
        found = self.given[position] if position < len(self.given) else None
        return found.array if type(found) is Known and not found.is_open else None

    def once_for(self, arrays: Sequence[Array | None], build: Callable[[], T]) -> T:
        """A value that follows from these arrays, worked out once for walks that have them."""
        kept = self.run.network.facts.get((id(self.node), "for"))
        if kept is None or any(a is not b for a, b in zip(kept[0], arrays, strict=True)):
            kept = self.run.network.facts[id(self.node), "for"] = arrays, build()
        found: T = kept[1]
        return found

    def wants(self, output: int) -> bool:
        """Whether the graph reads an output."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def whole(self, name: str, default: int) -> int:
        """An attribute that is an int."""
        return int(self._of(name, int, default))

    def flag(self, name: str, default: int = 0) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.whole(name, default))

    def real(self, name: str, default: float) -> float:
        """An attribute that is a float: what the 32 bits of the file stand for."""
        return float(self._of(name, (float, int), default))

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        return str(self._of(name, str, default))

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """An attribute that lists ints; the default if there is none."""
        found = self._of(name, list, default)
        return None if found is None else tuple(map(int, found))

    def reals(self, name: str) -> Array:
        """An attribute that lists floats, or has them in a tensor; empty if there is none."""
        tensor = self.attrs.get(f"{name}_as_tensor")
        if tensor is not None:
            return self.array(tensor).reshape(-1)
        return np.array(self._of(name, list, []), np.float32)

    def _of(self, name: str, kind: Any, default: Any) -> Any:
        value = self.attrs.get(name, default)
        if value is not default and (
            not isinstance(value, kind)
            or (isinstance(value, list) and not all(isinstance(v, int | float) for v in value))
        ):
            wanted = getattr(kind, "__name__", "float")
            raise self.refuse(f"its attribute {name!r} must be of the kind {wanted}, but is "
                              f"{type(value).__name__}")
        return value

    def need(self, name: str) -> Any:
        """An attribute that must be there."""
        if name not in self.attrs:
            raise self.refuse(f"it lacks the attribute {name!r}")
        return self.attrs[name]

    def count(self, name: str) -> int:
        """An attribute that must be there: a positive int."""
        self.need(name)
        found = self.whole(name, 0)
        if found < 1:
            raise self.refuse(f"its {name!r} must be positive, but is {found}")
        return found

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """An attribute that is the number of an element type."""
        if name not in self.attrs and default is not None:
            return default
        code = int(self._of(name, int, 0)) if name in self.attrs else self.need(name)
        return HALVES[code][0] if code in HALVES else element_type(code, f"its {name!r}")

    def array(self, tensor: Any) -> Array:
        """The elements of a tensor in an attribute."""
        if not isinstance(tensor, RawTensor):
            raise self.refuse("it has something else for a tensor in an attribute")
        return self.run.array(tensor)

    def axis(self, rank: int, default: int = 0, name: str = "axis", more: int = 0) -> int:
        """An axis from an attribute, counted from 0."""
        return axis_of(self.whole(name, default), rank + more, name)


def axis_of(axis: Any, rank: int, name: str = "axis") -> int:
    """An axis counted from 0."""
    a = int(axis)
    if not -rank <= a < max(rank, 1):
        raise OnnxError(f"its {name!r} must be in [{-rank}, {rank}), but is {a}")
    return a + rank if a < 0 else a


def border_of(axis: int, rank: int) -> int:
    """A place between axes, from before the first to after the last, counted from 0."""
    if not -rank <= axis <= rank:
        raise OnnxError(f"its 'axis' must be in [{-rank}, {rank}], but is {axis}")
    return axis + rank if axis < 0 else axis


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Distinct axes, counted from 0, in ascending order."""
    out = sorted({axis_of(a, rank, "axes") for a in axes})
    if len(out) != len(list(axes)):
        raise OnnxError(f"its 'axes' name an axis twice: {list(map(int, axes))}")
    return tuple(out)


MOST_COUNTED = 1 << 22  # Positions that are worked out one by one while a graph is built


def counted(n: int, what: str) -> int:
    """A number of positions that are worked out one by one, bounded."""
    if not 0 <= n <= MOST_COUNTED:
        raise OnnxError(f"{what} must be from 0 to {MOST_COUNTED}, but is {n}")
    return n


def sizes(array: Array) -> tuple[int, ...]:
    """The elements of a known input as sizes: ints, or open ones."""
    return tuple(d if is_symbolic(d) else int(d) for d in array.reshape(-1))


def elements(value: Known | Tensor, what: str) -> Array:
    """The elements of an input that decides the form of a result. Where only the run knows them,
    the run is asked, as for sizes in a Cell."""
    if isinstance(value, Known):
        return value.array
    known = known_elements(value)
    if known is None and value.dtype.is_integer:
        return np.array(ints_in(value, what), value.dtype.numpy).reshape(value.shape)
    return need_known(value, what)


def like(number: float, x: Tensor) -> Tensor:
    """A number as a scalar of the element type of a tensor."""
    return tensor_of(np.array(number).astype(x.dtype.numpy))


def to(x: Tensor, dtype: DType) -> Tensor:
    """A tensor in another element type."""
    return cast_to(x, dtype)
