"""Random networks: graphs grown from the samples of all registered ops.

A sample says what an op takes: shapes, element types, domains, attributes. To put the op into a
graph, each operand is either a new input or a value that is there already, fitted to what the
sample wants by a cast, a view, a repetition and a squash into the domain. So any op can read
any other, and what is grown is valid by construction (Liu et al., "NNSmith: Generating Diverse
and Valid Test Cases for Deep Learning Compilers", 2023, solve constraints for this; here
inference refuses what does not fit). Sizes are renamed all at once, attributes changed one at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import Op, Sample, Spec, all_ops
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ...modes.law import Array, draw, type_of

SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64)
"""What a size becomes: none, one, primes, and those around vectors."""
LARGEST = 1 << 13
"""Elements of a value: small networks, many of them."""
FRESH = 0.3
"""How often an operand is a new input."""
RENAMED, CHANGED = 0.4, 0.25
"""How often the sizes of a sample are renamed, and an attribute changed."""
EDGES = (-0.0, 0.0, 1.0, -1.0, 1e-40, np.inf, -np.inf, np.nan, 88.0, 3e38)
MOVES = ("reshape", "broadcast_to", "slice")
"""Ops that only move elements."""
GROWN = tuple(op for op in all_ops() if op.samples() and not op.effect)
"""Ops that networks have. Those with an effect take part in programs."""


class Faulty(Exception):
    """An op that fails otherwise than by refusing its operands."""

    def __init__(self, text: str, error: Exception) -> None:
        super().__init__(f"{text}: {type(error).__name__}: {error}")


@dataclass
class Growth:
    """A graph that grows.

    Attributes:
        graph: what there is so far; inputs are what the network is given.
        arrays: the elements of its inputs.
        ops: how often each op was put in.
        fitted: nodes that only move elements, put in to fit a value to its reader.
        sizes: what a size becomes.
        renamed, changed: how often the sizes of a sample are renamed, and an attribute changed.
    """

    rng: np.random.Generator
    graph: Graph = field(default_factory=lambda: Graph("network"))
    arrays: list[Array] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    fitted: set[Node] = field(default_factory=set)
    sizes: Sequence[int] = SIZES
    renamed: float = RENAMED
    changed: float = CHANGED

    @property
    def builder(self) -> Builder:
        """What appends to the graph."""
        return Builder(self.graph)

    def values(self) -> list[Value]:
        """All values that a new node may read."""
        return [*self.graph.inputs, *(r for n in self.graph.nodes for r in n.results)]

    def input(self, array: Array) -> Value:
        """A new input with these elements."""
        self.arrays.append(array)
        return self.graph.add_input(type_of(array), f"x{len(self.arrays) - 1}")

    def chance(self, share: float) -> bool:
        """True so often."""
        return bool(self.rng.random() < share)

    def pick(self, options: Sequence[Any]) -> Any:
        """One of some things."""
        return options[int(self.rng.integers(len(options)))]


def network(
    seed: int, ops: Sequence[Op] = GROWN, most: int = 40, sizes: Sequence[int] = SIZES
) -> Growth:
    """A network of 5 to `most` ops, the same for a seed.

    Raises:
        Faulty: an op failed on operands instead of taking or refusing them.
    """
    rng = np.random.default_rng(seed)
    growth = Growth(rng, sizes=sizes)
    wanted = int(np.clip(rng.gamma(3.0, 5.0) + 2, 5, most))
    for _ in range(3 * wanted):
        if sum(growth.ops.values()) >= wanted:
            break
        add(growth, growth.pick(ops))
    growth.graph.outputs = outputs(growth)
    return growth


def outputs(growth: Growth) -> list[Value]:
    """The last value, those that nobody reads, and some others: what is read and given out has two
    readers."""
    read = {v for n in growth.graph.nodes for v in n.operands}
    made = [r for n in growth.graph.nodes for r in n.results]
    last = [v for v in made if v not in read]
    others = [v for v in made if v in read and growth.chance(0.1)]
    return [*last, *others] or list(growth.graph.inputs)


# --- one more op ----------------------------------------------------------------------------------


def add(growth: Growth, op: Op) -> bool:
    """Put an op into the graph; whether its operands were accepted."""
    sample = growth.pick(op.samples())
    dtype = growth.pick(op.dtypes)
    for specs, attrs in forms(growth, op, sample):
        types = [TensorType(s.shape, s.dtype or dtype) if isinstance(s, Spec) else type_of(s)
                 for s in specs]
        if accepted(op, types, attrs):
            before = len(growth.graph.nodes)
            operands = [operand(growth, s, t) for s, t in zip(specs, types, strict=True)]
            growth.fitted.update(n for n in growth.graph.nodes[before:] if n.op in MOVES)
            growth.builder.node(op.name, operands, attrs)
            growth.ops[op.name] = growth.ops.get(op.name, 0) + 1
            return True
    return False


def accepted(op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> bool:
    """Whether inference takes these types, and nothing becomes too large.

    Raises:
        Faulty: it neither takes nor refuses them.
    """
    probe = Graph("probe")
    given = [probe.add_input(t, f"x{i}") for i, t in enumerate(types)]
    try:
        node = Builder(probe).node(op.name, given, attrs)
    except (TypeError, ValueError):
        return False
    except Exception as e:
        raise Faulty(f"{op.name}({', '.join(map(str, types))}) {dict(attrs)}", e) from e
    return all(v.type.is_static and v.type.size <= LARGEST for v in (*given, *node.results))


def forms(
    growth: Growth, op: Op, sample: Sample
) -> Iterator[tuple[Sequence[Spec | Array], dict[str, Any]]]:
    """A sample and variations of it, the boldest first; the last is the sample."""
    specs, attrs = list(sample.operands), dict(sample.attrs)
    changed = {**attrs, **change(growth, op, attrs)} if growth.chance(growth.changed) else attrs
    if growth.chance(growth.renamed):
        for _ in range(3):
            sizes = renaming(growth, specs)
            renamed = [rename(s, sizes) for s in specs]
            yield renamed, {k: rename_attr(v, sizes) for k, v in changed.items()}
            yield renamed, changed
    if changed is not attrs:
        yield specs, changed
    yield specs, attrs


def renaming(growth: Growth, specs: Sequence[Spec | Array]) -> dict[int, int]:
    """Another size for some of the sizes of a sample: equal ones stay equal."""
    sizes = {d for s in specs if isinstance(s, Spec) for d in s.shape}
    return {d: int(growth.pick(growth.sizes)) for d in sorted(sizes) if growth.chance(0.6)}


def rename(spec: Spec | Array, sizes: Mapping[int, int]) -> Spec | Array:
    """An operand with other sizes; elements that a sample fixes stay."""
    if not isinstance(spec, Spec):
        return spec
    return Spec(tuple(sizes.get(d, d) for d in spec.shape), spec.low, spec.high, spec.dtype)


def rename_attr(value: Any, sizes: Mapping[int, int]) -> Any:
    """An attribute that speaks of the sizes: a tuple of them."""
    if isinstance(value, tuple) and value and all(type(v) is int for v in value):
        return tuple(sizes.get(v, v) for v in value)
    return value


def change(growth: Growth, op: Op, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """One attribute with another value: of another sample, or near its own."""
    names = sorted(op.attrs)
    if not names:
        return {}
    name = growth.pick(names)
    if name == "constants":  # of a kernel: only compiling tells which its types have
        return {}
    known = [s.attrs[name] for s in op.samples() if name in s.attrs]
    value = growth.pick(known) if known else attrs.get(name, op.attrs[name].default)
    return {name: near(growth, value)} if growth.chance(0.5) or not known else {name: value}


def near(growth: Growth, value: Any) -> Any:
    """A value next to an attribute's."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return growth.pick((value - 1, value + 1, -value, 0, 1))
    if isinstance(value, float):
        return growth.pick((0.0, -value, 2 * value, 0.5))
    if isinstance(value, tuple) and value:
        at = int(growth.rng.integers(len(value)))
        return (*value[:at], near(growth, value[at]), *value[at + 1:])
    return value


# --- operands -------------------------------------------------------------------------------------


def operand(growth: Growth, spec: Spec | Array, want: TensorType) -> Value:
    """What an op reads: a new input, or a value fitted to what is wanted."""
    if not isinstance(spec, Spec):
        array = np.array(spec)
        return growth.builder.literal(array) if growth.chance(0.5) else growth.input(array)
    values = [v for v in growth.values() if v.type.size and not v.dtype.is_complex]
    fitting = [v for v in values if v.type == want]
    if fitting and growth.chance(0.5):
        return squash(growth, growth.pick(fitting), spec)
    if growth.chance(FRESH) or not values or want.dtype.is_complex:
        return growth.input(elements(growth, spec, want.dtype))
    return fit(growth, growth.pick(values), spec, want)


def elements(growth: Growth, spec: Spec, dtype: DType) -> Array:
    """Elements in the domain; some floats are edges, where the domain is as wide as usual."""
    array = draw(spec, dtype, growth.rng)
    wide = dtype.is_float and (spec.low, spec.high) == (-2.0, 2.0)
    if wide and array.size and growth.chance(0.15):
        flat = array.reshape(-1)
        with np.errstate(over="ignore"):
            flat[int(growth.rng.integers(array.size))] = growth.pick(EDGES)
    return array


def fit(growth: Growth, v: Value, spec: Spec, want: TensorType) -> Value:
    """A value with another type, shape and domain."""
    b = growth.builder
    v = to_shape(b, v, want.shape)
    if want.dtype.is_integer and v.dtype.is_float:
        v = squash(growth, v, spec, always=True)
    if v.dtype != want.dtype:
        v = b.cast(v, dtype=want.dtype)
    return squash(growth, v, spec)


def to_shape(b: Builder, v: Value, shape: tuple[int, ...]) -> Value:
    """A value's elements, repeated or cut to fill a shape."""
    if v.shape == shape:
        return v
    size, have = TensorType(shape, v.dtype).size, v.type.size
    flat = b.reshape(v, shape=(have,))
    if size > have:
        times = -(-size // have)
        flat = b.reshape(b.broadcast_to(b.reshape(flat, shape=(1, have)), shape=(times, have)),
                         shape=(times * have,))
    if flat.shape[0] > size:
        flat = b.slice(flat, start=(0,), stop=(size,), step=(1,))
    return b.reshape(flat, shape=shape)


def squash(growth: Growth, v: Value, spec: Spec, always: bool = False) -> Value:
    """A value within the domain of an operand; now and then as it is, if it is a float."""
    b, wide = growth.builder, (spec.low, spec.high) == (-2.0, 2.0)
    if v.dtype.is_float:
        if not always and (growth.chance(0.7) if wide else growth.chance(0.1)):
            return v
        inside = b.sigmoid(b.cast(v, dtype=dtypes.float32))
        number = b.literal(np.asarray(spec.high - spec.low, np.float32))
        low = b.literal(np.asarray(spec.low, np.float32))
        return b.cast(b.add(b.mul(inside, number), low), dtype=v.dtype)
    if v.dtype.is_integer:
        low = max(0, int(np.ceil(spec.low))) if v.dtype.kind == "uint" else int(np.ceil(spec.low))
        high = max(int(np.ceil(spec.high)) - 1, low)
        bounds = (b.literal(np.asarray(n, v.dtype.numpy)) for n in (low, high))
        return b.minimum(b.maximum(v, next(bounds)), next(bounds))
    return v
