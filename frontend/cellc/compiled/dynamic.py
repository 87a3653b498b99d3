"""Calls whose sizes are not fixed: traced once with symbols, then instantiated for each call.

A pattern says which sizes of the arguments are open. A call that fits one is traced with a symbol
for each open size; the questions the trace asks about them become guards. One trace serves every
call whose sizes satisfy the guards: its graph is worked out for these sizes
(`passes/instantiate.py`) and compiled, without the frontend or autodiff.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.dims import (
    Dim,
    Size,
    SymbolInfo,
    Undecided,
    evaluate,
    substitute,
    symbols_of,
)
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType, show_shape
from cellc_runtime.dtypes import DType
from cellc_runtime.errors import counted
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.program import ProgramAtSizes
from cellc_runtime.records import dataclass, field, replace

from .. import context
from ..core.later import instantiate, open_sizes
from ..core.lru import LRU
from ..core.module_names import plain
from ..tensors.symbol import Axis, Described, Symbol
from ..tensors.tensor import Tensor, Tensors, ir_type
from ..tracing.guards import Guards
from ..tracing.pytree import Box, Leaf, Structure
from . import causes
from .causes import Cause

if TYPE_CHECKING:
    from .found_sizes import OpenStages
    from .traced import Traced
with lazy_imports(__name__):  # networks of fixed sizes need none of these
    from .. import lang
    from . import found_sizes

Axes = tuple[Axis, ...]

KEPT = 64  # Instances of one Cell or function that are kept; the oldest goes when there are more
MOST_OPEN = 8  # Programs for all sizes of one trace: each serves the sizes that its guards allow
_STAND_INS = (10007, 10009)
"""Sizes that replace 0 and 1 in a first trace: these fit in places where others do not (an axis of
1 is repeated), so a trace with them would serve few calls."""


# --- what is open ---------------------------------------------------------------------------------


def open_axes(
    spec: Any, position: str, out: dict[int, Axes | None], structure: Structure, leaves: Tensors
) -> None:
    """Note the axes that `spec` (as of `set_inputs`) gives each tensor of an argument."""
    if isinstance(structure, Leaf):
        leaf = leaves[structure.number]
        if not isinstance(spec, Tensor):
            raise TypeError(
                f"{position} was declared as {type(spec).__name__} {spec!r}, but a "
                f"Tensor {ir_type(leaf)} came"
            )
        out[structure.number] = _checked(ir_type(leaf), spec, position)
    elif isinstance(structure, Box) and isinstance(spec, (tuple, list, dict)):
        inner = list(spec.values()) if isinstance(spec, dict) else list(spec)
        if len(inner) != len(structure.parts):
            raise ValueError(
                f"{position} was declared with {counted(len(inner), 'element')}, but "
                f"{len(structure.parts)} came"
            )
        for i, (part, s) in enumerate(zip(structure.parts, inner, strict=True)):
            open_axes(s, f"{position}[{i}]", out, part, leaves)
    elif isinstance(spec, Tensor):
        raise TypeError(f"{position} was declared as a Tensor, but something else came")


def _checked(ty: TensorType, spec: Tensor, position: str) -> Axes | None:
    axes: Axes | None = spec.shape
    dtype: DType = spec.dtype
    if isinstance(spec, Described):
        axes = spec.axes
    if dtype is not ty.dtype:
        raise TypeError(
            f"{position} was declared as a Tensor of {dtype}, but one of {ty.dtype} came"
        )
    if axes is None:
        return (None,) * ty.rank
    if len(axes) != ty.rank:
        shown = show_shape(tuple("None" if a is None else str(a) for a in axes))
        raise ValueError(
            f"{position} was declared with {counted(len(axes), 'axis')} {shown}, but a tensor "
            f"of {ty.rank} axes came: {show_shape(ty.shape)}"
        )
    for i, (axis, size) in enumerate(zip(axes, ty.dims, strict=True)):
        _check_axis(axis, size, f"axis {i} of {position}")
    return axes


def _check_axis(axis: Axis, size: int, where: str) -> None:
    if isinstance(axis, int):
        if axis != size:
            raise ValueError(
                f"{where} is {size}, but it was declared as {axis}; declare it as None for an "
                f"axis of any size (set_inputs, input_signature, enable_dynamic)"
            )
    elif axis is not None:
        bad = None
        if size < axis.min:
            bad = f"at least {axis.min} (min)"
        elif axis.max >= axis.min and size > axis.max:
            bad = f"at most {axis.max} (max)"
        elif size % axis.divisor != axis.remainder:
            rest = f" + {axis.remainder}" if axis.remainder else ""
            bad = f"{axis.divisor} * n{rest} (divisor, remainder)"
        if bad:
            raise ValueError(f"{where} is {size}, but its Symbol says that it is {bad}")


# --- traced once ----------------------------------------------------------------------------------


@dataclass
class Pattern:
    """Arguments with open sizes: the dimensions of each tensor, and the symbols in them."""

    shapes: Shapes
    types: list[TensorType]

    def bind(self, given: Sequence[TensorType]) -> dict[str, int]:
        """The value of each symbol for tensors of these types."""
        sizes: dict[str, int] = {}
        for ty, actual in zip(self.types, given, strict=True):
            for d, size in zip(ty.shape, actual.dims, strict=True):
                if type(d) is Dim:
                    (name,) = symbols_of(d)
                    step = evaluate(d, {name: 1}) - evaluate(d, {name: 0})
                    sizes[name] = (size - evaluate(d, {name: 0})) // step
        return sizes


def make_pattern(
    types: Sequence[TensorType], names: Sequence[str], axes: Mapping[int, Axes | None],
    stand_ins: bool,
) -> Pattern:
    """Symbols for the open axes of arguments of these types.

    Args:
        names: of the arguments, for the names of symbols.
        axes: tensor number -> its axes; those not there are fixed.
        stand_ins: trace with other sizes where a size is 0 or 1.
    """
    shapes = Shapes()
    unique: dict[int, tuple[Size, int, str]] = {}
    out: list[TensorType] = []
    for k, ty in enumerate(types):
        dims: list[Size] = []
        for i, (size, axis) in enumerate(zip(ty.dims, axes.get(k) or ty.dims, strict=True)):
            where = f"axis {i} of {names[k]}"
            if isinstance(axis, int) or size == 0:
                dims.append(size)
                continue
            shared = unique.get(axis.id) if axis is not None and axis.unique else None
            if shared is not None:
                dims.append(_same(shared, size, where))
                continue
            dim = _symbol(shapes, axis or Symbol(), size, f"{names[k]}_{i}", where, stand_ins)
            dims.append(dim)
            if axis is not None and axis.unique:
                unique[axis.id] = dim, size, where
        out.append(ty.with_shape(dims))
    return Pattern(shapes, out)


def _same(shared: tuple[Size, int, str], size: int, where: str) -> Size:
    dim, other, first = shared
    if size != other:
        raise ValueError(
            f"{where} is {size} and {first} is {other}, but they hold one unique Symbol, so they "
            f"must be equal"
        )
    return dim


def _symbol(
    shapes: Shapes, axis: Symbol, size: int, name: str, where: str, stand_ins: bool
) -> Size:
    step, rest = axis.divisor, axis.remainder
    low = max(-(-(axis.min - rest) // step), 0 if rest else 1)
    high = (axis.max - rest) // step if axis.max >= axis.min else None
    value = (size - rest) // step
    stand_in = stand_ins and value < 2
    if stand_in:
        value = _STAND_INS[value]
    dim = shapes.new(name, value, SymbolInfo(low, high, where, stand_in))
    whole: Size = dim * step + rest
    return whole


@dataclass
class Once:
    """A call traced with symbols."""

    pattern: Pattern  # the symbols of its arguments
    traced: Traced  # its graph and what goes with it
    instances: int = 0  # how many sizes it has served
    # programs for all sizes; `per_size` says why the last size has a program of its own, if so
    open: list[ProgramAtSizes] = field(default_factory=list)
    per_size: str = ""
    refusals: list[str] = field(default_factory=list)  # why there was none for some sizes
    read_guards: Guards | None = None
    stages: OpenStages | None = None  # where sizes follow from elements: its stages

    @property
    def guards(self) -> list[Guard]:
        """The assumptions of the trace about sizes."""
        return self.pattern.shapes.guards

    def serves(self, types: Sequence[TensorType]) -> dict[str, int] | None:
        """The symbols' values if this serves arguments of these types."""
        sizes = self.pattern.bind(types)
        for ty, actual in zip(self.pattern.types, types, strict=True):
            if any((evaluate(d, sizes) if type(d) is Dim else d) != size
                   for d, size in zip(ty.shape, actual.dims, strict=True)):
                return None
        for name, info in self.pattern.shapes.symbols.items():
            if name in sizes and not info.low <= sizes[name] <= (info.high or sizes[name]):
                return None
        known = (g for g in self.guards if symbols_of(g.expr) <= set(sizes))
        return sizes if all(g.holds(sizes) for g in known) else None

    def at(self, sizes: Mapping[str, int], may_open: bool = False, at_once: bool = False) -> Traced:
        """The call for these sizes.

        Args:
            may_open: a program for all sizes may serve it, from the second sizes on.
            at_once: from the first ones on: others have come before.
        """
        self.instances += 1
        if self.instances == 1 and found_sizes.is_staged(self.traced.graph):
            self.stages = found_sizes.OpenStages(self.traced.graph, self.pattern.shapes, at_once)
        may_open = may_open and self.stages is None
        program = self._program(sizes) if may_open and (at_once or self.instances > 1) else None
        if self.read_guards is None or self.read_guards.cause:
            self.read_guards = Guards(self.traced.reads)
        open_ = [Guard(g.relation, substitute(g.expr, sizes), g.where) for g in self.guards
                 if not symbols_of(g.expr) <= set(sizes)]
        lazy = program is not None or self.stages is not None
        make = instantiate.Instance if lazy else instantiate.instantiate
        graph = make(self.traced.graph, sizes)
        return replace(self.traced, graph=graph, guards=open_, read_guards=self.read_guards,
                       program=None if program is None else program.at(sizes), sizes=sizes,
                       stages=self.stages)

    def _program(self, sizes: Mapping[str, int]) -> ProgramAtSizes | None:
        """A program for all sizes that serves these, compiled if need be; None if there is none."""
        self.per_size = ""
        for program in self.open:
            if program.serves(sizes):
                return program
        least = min(sizes.values(), default=0)
        if least < open_sizes.LEAST or len(self.open) >= MOST_OPEN:
            return None
        if len(self.refusals) >= found_sizes.MOST_REFUSALS:
            self.per_size = self.refusals[-1]
            return None
        shapes = self.pattern.shapes.copy()
        shapes.hints.update(sizes)
        try:
            self.open.append(ProgramAtSizes(open_sizes.compile_open(
                self.traced.graph, shapes, numerics=context.numerics())))
        except Undecided as e:  # one for each size is right, too; `explain` says why
            self.per_size = str(e)
            self.refusals.append(self.per_size)
            return None
        return self.open[-1]


Tracing = Callable[[Sequence[TensorType], Shapes], "Traced"]
"""Traces the call at hand with arguments of these types."""


@dataclass
class Dynamic:
    """The calls of one Cell or function that were traced with symbols."""

    # the arguments as `set_inputs` describes them: by position, or by name; None: each size that
    # has differed between calls is open
    spec: tuple[Any, ...] | dict[str, Any] | None = None
    once: dict[Any, list[Once]] = field(default_factory=dict)  # by what is fixed, the traces
    seen: dict[Any, list[Axes]] = field(default_factory=dict)
    recent: OrderedDict[Any, None] = field(default_factory=OrderedDict)
    per_size: str = ""  # Why the last call has code for its sizes alone
    refused: Cause | None = None
    """Why no trace served the last call that was traced, if there was one."""

    def axes(
        self, structure: Structure, leaves: Tensors, parameters: Sequence[str], key: Any
    ) -> dict[int, Axes | None]:
        """The open axes of a call."""
        out: dict[int, Axes | None] = {}
        if self.spec is not None:
            self._described(structure, leaves, parameters, out)
        else:
            dims: list[Axes] = [ir_type(t).dims for t in leaves]
            shapes, before = dims, self.seen.get(key)
            if before is not None:
                shapes = [tuple(a if a == b else None for a, b in zip(x, y, strict=True))
                          for x, y in zip(shapes, before, strict=True)]
            self.seen[key] = shapes
            out = _with_fixed_ones({i: s for i, s in enumerate(shapes) if None in s}, dims)
        return out

    def _described(
        self, structure: Structure, leaves: Tensors, parameters: Sequence[str],
        out: dict[int, Axes | None],
    ) -> None:
        assert isinstance(structure, Box)
        positional, keyword = structure.parts
        assert isinstance(positional, Box) and isinstance(keyword, Box)
        parts = {
            (parameters[i] if i < len(parameters) else f"argument {i}"): part
            for i, part in enumerate(positional.parts)
        }
        parts |= dict(zip(map(str, keyword.keys), keyword.parts, strict=True))
        if isinstance(self.spec, dict):
            pairs = [(n, s) for n, s in self.spec.items() if n in parts]
        else:
            assert self.spec is not None
            if len(self.spec) != len(parts):
                raise ValueError(
                    f"{len(self.spec)} inputs were declared (set_inputs, input_signature), but the "
                    f"call has {len(parts)}"
                )
            pairs = list(zip(parts, self.spec, strict=True))
        for name, spec in pairs:
            open_axes(spec, name, out, parts[name], leaves)

    def find(
        self, key: Any, axes: Mapping[int, Axes | None], types: Sequence[TensorType],
        names: Sequence[str], trace: Tracing, fresh: Callable[[Traced], bool],
    ) -> tuple[Once, dict[str, int]]:
        """A trace with symbols that serves these types, and the sizes; a new one if need be.

        Raises:
            CompileError: an error in the network.
        """
        known = self.once.setdefault(key, [])
        stale = [o for o in known if not fresh(o.traced)]
        known[:] = [o for o in known if o not in stale]
        for once in known:
            sizes = once.serves(types)
            if sizes is not None:
                return once, sizes
        if known:
            self.refused = causes.of_sizes(
                known[-1].guards, known[-1].pattern.shapes, known[-1].pattern.bind(types),
                causes.called_at())
        elif stale:
            self.refused = stale[-1].traced.out_of_date()
        for stand_ins in (True, False):
            pattern = make_pattern(types, names, axes, stand_ins)
            try:
                once = Once(pattern, trace(pattern.types, pattern.shapes))
            except Exception as e:
                bound = pattern.bind(types)
                same = bound == {s: pattern.shapes.hints[s] for s in bound}
                if not stand_ins or same or not _of_program(e):
                    raise
                continue
            sizes = once.serves(types)
            if sizes is not None:
                known.append(once)
                return once, sizes
        raise AssertionError("a trace serves the call it was made for")

    def used(self, key: Any, entries: LRU[Any, Any]) -> None:
        """Note that an instance was made; drop the oldest beyond `KEPT`."""
        self.recent[key] = None
        self.recent.move_to_end(key)
        while len(self.recent) > KEPT:
            old, _ = self.recent.popitem(last=False)
            entries.pop(old, None)


def _with_fixed_ones(
    axes: dict[int, Axes | None], dims: Sequence[Axes]
) -> dict[int, Axes | None]:
    """The open axes without those of size 1, if there are others: a program for all sizes serves
    none of 1. So a decoder's step, of one token after any number, has one program."""
    sizes: dict[tuple[int, int], Any] = {
        (i, k): dims[i][k] for i, shape in axes.items() if shape is not None
        for k, axis in enumerate(shape) if axis is None}
    if 1 not in sizes.values() or max(sizes.values()) < open_sizes.LEAST:
        return axes
    out: dict[int, Axes | None] = {}
    for i, shape in axes.items():
        assert shape is not None
        out[i] = tuple(1 if sizes.get((i, k)) == 1 else axis for k, axis in enumerate(shape))
    return out


def _of_program(error: Exception) -> bool:
    """Whether a trace ended by the program's own failure (which sizes may cause), not by one of
    the compiler: that of a program is a `CompileError`, or of a class of the user's own."""
    return isinstance(error, lang.CompileError) or lang.kind(type(error)) is None


def open_key(structure: Any, types: Sequence[TensorType], axes: Mapping[int, Axes | None]) -> Any:
    """Return the fixed part of a call: its structure, element types, ranks and fixed sizes."""
    return structure, tuple(
        (t.dtype, tuple(
            size if isinstance(a, int) or size == 0 else None
            for size, a in zip(t.dims, axes.get(i) or t.dims, strict=True)))
        for i, t in enumerate(types)
    )


def parameter_names(fn: Any) -> list[str]:
    """The names of the positional parameters of a function or of a Cell's `construct`."""
    own: list[str] | None = plain(fn, "argument_names")
    if own is not None:
        return own
    called = plain(fn, "construct", fn)
    code = plain(called, "__code__")
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    bound = plain(called, "__self__") is not None
    return names[1:] if bound or names[:1] == ["self"] else names


def closed_instead(error: lang.CompileError, trace_closed: Callable[[], Traced]) -> Traced:
    """A call as a graph for its own sizes, where one with open sizes has failed: what only Python
    can do, it does for the elements of one call, and a string says one size.

    Raises:
        CompileError: `error`, where it fails like this for its own sizes too.
    """
    try:
        return trace_closed()
    except lang.CompileError as e:
        if e.code == error.code:
            raise error from None
        raise
