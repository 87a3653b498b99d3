"""The tracer: ops applied to symbolic tensors become nodes of the graph under construction.

A `GraphTensor` is a Tensor whose elements are not known; it stands for one IR value. Nested
graphs (branches, loop bodies) are closed: a value of an outer graph that an inner one reads is
captured, level by level, as an extra operand. Parameters are read through an environment, so a
read after an assignment sees the assigned value; what a branch or loop assigns joins its results.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_compiler.ir.dims import SymbolInfo, evaluate
from cellc_compiler.ir.graph import NOWHERE, Builder, Graph, Span, Value, clone_into
from cellc_compiler.ir.shapes import active_shapes
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, field

from ..core.dispatch import active_tracer, tracing
from ..tensors import views
from ..tensors.parameter import Parameter, name_of
from ..tensors.tensor import Tensor, tensor_of


class ElementsUnknown(TypeError):
    """Python needs elements that only the run knows."""


class GraphTensor(Tensor):
    """A tensor of the graph being traced: a shape and a dtype, but no elements."""

    __slots__ = ("ir_value",)
    _host = None
    ir_value: Value

    def __init__(self, value: Value) -> None:
        self.ir_value = value

    _eager = False

    @property
    def _type(self) -> TensorType:
        return self.ir_value.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.ir_value.type.dims

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.ir_value.type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.ir_value.type.rank

    @property
    def _data(self) -> Any:
        raise ElementsUnknown(
            "the elements of a tensor are not known while a graph is compiled; "
            "an operation here needs them (asnumpy, item, int(), float(), ...)"
        )

    @property
    def _layout(self) -> Any:
        return self._data

    def _lent(self) -> Any:
        return self._data

    def _snapshot(self) -> Any:
        return self._data

    def __copy__(self) -> GraphTensor:
        return GraphTensor(self.ir_value)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphTensor:
        return GraphTensor(self.ir_value)

    def __repr__(self) -> str:
        return f"<graph tensor {self.ir_value.type}>"

    __str__ = __repr__


def is_variable(value: object) -> bool:
    """Whether a tensor from outside, or that of which it is a view, is read and written by the
    graph at hand as a Parameter is."""
    if isinstance(value, Parameter):
        return True
    tracer = active_tracer()
    if tracer is None or type(value) is not Tensor:
        return False
    view = views.view_of(value)
    root = value if view is None else view.root
    return isinstance(root, Parameter) or id(root) in tracer.variables


def named(tensor: Tensor) -> str:
    """Return the name of an outside tensor in errors."""
    return f"the parameter {tensor.name}" if isinstance(tensor, Parameter) else "a Tensor"


BAKED = 64
"""Elements up to which a tensor from outside becomes a literal of the graph. A larger one is
bound like a parameter: it is not copied, and later changes of its elements are seen."""


@dataclass(frozen=True, slots=True)
class Entered:
    """How a run reaches a nested graph for the first time."""

    given: tuple[Tensor, ...] = ()  # what its inputs are then, in the graph around it
    test: Tensor | None = None  # a condition that must be as `wanted`; None without one
    wanted: bool = True
    # the nested graph that gives the condition (of a loop), if that is not around it
    beside: Region | None = None


@dataclass(slots=True)
class Region:
    """One graph under construction."""

    graph: Graph
    builder: Builder
    # outer value -> the input of this graph that stands for it
    captures: dict[Value, Value] = field(default_factory=dict)
    # parameter -> its current value in this graph
    env: dict[Tensor, Value] = field(default_factory=dict)
    # parameters assigned in this graph, in order
    assigned: dict[Tensor, None] = field(default_factory=dict)
    lifted: dict[int, tuple[Tensor, Value]] = field(default_factory=dict)
    owned: set[Value] = field(default_factory=set)
    entered: Entered | None = None  # how a run comes here; None where nobody has said


class SizeInside(TypeError):
    """A size that follows from elements is needed in a branch or loop of the run."""

    site: Hashable = None  # of the outermost of these (see `lang.asking`)


class Tracer:
    """Builds a graph from applied ops."""

    def __init__(self, name: str = "main") -> None:
        graph = Graph(name)
        self.regions: list[Region] = [Region(graph, Builder(graph))]
        self.failed: list[Region] = []  # those that were open when an error came up
        self.parameters: dict[Tensor, Value] = {}
        self.made: set[Tensor] = set()  # Parameters that the traced function makes
        # Tensors from outside that the graph changes in place, by identity: they are read and
        # written as Parameters are
        self.variables: dict[int, Tensor] = {}
        # those that it changes though it has taken them for constants: the trace is repeated, with
        # them as variables
        self.wanted: dict[int, Tensor] = {}
        # lists and tuples whose length counts as unknown, by identity (`mutables`)
        self.lengths: dict[int, Any] = {}
        # Tensors that `mutable` was given, by id: they count as unknown
        self.mutables: dict[int, Tensor] = {}
        self.functions: list[Callable[..., Any]] = []
        # the Parameters of each Cell whose `bprop` Python runs, with the error if the function that
        # is differentiated assigns one of them
        self.by_python: list[tuple[Sequence[Tensor], Exception]] = []
        self.ends_with_gradient = False  # no code of the user's runs after the gradient is computed
        self._taken: tuple[list[Value], int, set[str]] = graph.inputs, 0, set()
        self.span: Span = NOWHERE
        self.scope: str = ""
        # the Cell that scopes begin in, which they leave out; None without one
        self.root: Any = None
        # all Cells that no other one owns, with what scopes inside them begin with
        self.roots: list[tuple[str, Any]] = []
        self.whereabouts: Callable[[str], str] = lambda code: ""
        # hears of each tensor before it is changed in place
        self.changing: Callable[[GraphTensor], None] = lambda tensor: None
        # asks the run for the elements of a tensor that decide a form (`lang.asking`); None where
        # nobody can be asked
        self.asked: Callable[[Tensor, str], list[int] | None] = lambda tensor, name: None
        # calls a user's function, with a sequence and a mapping of arguments: from its source while
        # an interpreter is at work, else by Python
        self.interpret: Callable[[Any, Sequence[Any], Mapping[str, Any]], Any] = \
            lambda fn, args, kwargs: fn(*args, **kwargs)
        self.checks = 0
        self.budget: int | None = None
        self.gone: set[Value] = set()
        # input of a graph that is differentiated -> what it stands for outside
        self.stands: dict[Value, Value] = {}
        # in a `try` of the program: settles a check before the rest is traced, or raises; whether
        # it could
        self.caught: Callable[[Tensor, str, str, int, int], bool] | None = None
        self.unknown: set[Value] = set()

    def place(self) -> str:
        """Where in the source the trace is."""
        return "" if self.span is NOWHERE else f"{self.span.file}:{self.span.line}"

    def expression(self) -> str:
        """Return the source at the present place of the trace, if that is in one line."""
        span = self.span
        if span is NOWHERE or span.end_line != span.line:
            return ""
        text = linecache.getline(span.file, span.line).encode()
        return text[span.column : span.end_column].decode(errors="replace")

    # --- values ---------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The outermost graph."""
        return self.regions[0].graph

    def input(self, ty: TensorType, name: str) -> GraphTensor:
        """A new input of the outermost graph."""
        return GraphTensor(self.graph.add_input(ty, name))

    def lift(self, tensor: Tensor, level: int = -1) -> Value:
        """The IR value of a tensor in the region at `level`."""
        depth = level % len(self.regions)
        if isinstance(tensor, GraphTensor):
            return self._capture(tensor.ir_value, depth)
        if isinstance(tensor, Parameter) or id(tensor) in self.variables:
            return self._read(tensor, depth)
        if "_view" in tensor.__dict__ and is_variable(tensor):
            return self._of_root(tensor, depth)
        region = self.regions[depth]
        found = region.lifted.get(id(tensor))
        if found is None and tensor._layout.size > BAKED:
            return self._read(tensor, depth)
        if found is None:
            region.builder.span, region.builder.scope = self.span, self.scope
            found = tensor, region.builder.literal(tensor._snapshot())
            region.lifted[id(tensor)] = found
            if depth:
                region.owned.add(found[1])
        return found[1]

    def _of_root(self, tensor: Tensor, depth: int) -> Value:
        """A view from outside, taken of the present value of its root. It passes no gradient, as
        in PyNative, where the view was taken before."""
        inner = self.regions[depth + 1 :]
        del self.regions[depth + 1 :]
        try:
            with tracing(self):
                recipe = views.recipe_of(tensor)
                assert recipe is not None
                now = recipe.read(views.family(tensor)[0])
                return self._node("stop_gradient", [self.lift(now)], {}, ())[0].ir_value
        finally:
            self.regions += inner

    def _home(self, value: Value) -> int:
        """The level of the region whose graph defines `value`."""
        for level in range(len(self.regions) - 1, 0, -1):
            if value in self.regions[level].owned:
                return level
        if value in self.unknown:
            raise TypeError(
                "a view that was chosen by a run-time condition, or carried through a run-time "
                "loop, is read after the tensor that it may be a view of was changed in place: "
                "take the view again, or a copy before the change"
            )
        if value in self.gone:
            raise TypeError(
                "a tensor that was computed in a Cell marked by recompute() is read outside of it, "
                "where it is not kept: return it from the Cell"
            )
        return 0

    def reaches(self, value: Value) -> bool:
        """Whether a value belongs to a graph that is still open."""
        if any(value in r.owned for r in self.regions[1:]):
            return True
        if value.node is None:
            return any(v is value for v in self.graph.inputs)
        return any(n is value.node for n in reversed(self.graph.nodes))

    def _capture(self, value: Value, depth: int) -> Value:
        for level in range(self._home(value) + 1, depth + 1):
            region = self.regions[level]
            inner = region.captures.get(value)
            if inner is None:
                inner = region.graph.add_input(value.type, f"capture{len(region.captures)}")
                region.captures[value] = inner
                region.owned.add(inner)
            value = inner
        return value

    def _read(self, parameter: Tensor, depth: int) -> Value:
        region = self.regions[depth]
        found = region.env.get(parameter)
        if found is None:
            if depth == 0:
                ty = parameter._type
                name, kind = self._named(parameter)
                found = self.graph.add_input(ty, self._unique(name), kind)
                self.parameters[parameter] = found
            else:
                found = self._capture_one(self._read(parameter, depth - 1), depth)
            region.env[parameter] = found
        return found

    def _named(self, tensor: Tensor) -> tuple[str, str]:
        """The name and kind of the graph input that stands for a tensor from outside."""
        if isinstance(tensor, Parameter):
            return name_of(tensor), "state" if tensor.is_state else "param"
        if id(tensor) not in self.variables:
            return "constant", "constant"
        buffers = () if self.root is None else self.root.named_buffers()
        return next((name for name, value in buffers if value is tensor), "buffer"), "param"

    def _capture_one(self, outer: Value, depth: int) -> Value:
        region = self.regions[depth]
        inner = region.captures.get(outer)
        if inner is None:
            inner = region.graph.add_input(outer.type, f"capture{len(region.captures)}")
            region.captures[outer] = inner
            region.owned.add(inner)
        return inner

    def _unique(self, name: str) -> str:
        inputs = self.graph.inputs
        known, count, taken = self._taken
        if known is not inputs or count > len(inputs):
            count, taken = 0, set()  # part of the trace was taken back
        taken.update(v.name for v in inputs[count:])
        self._taken = inputs, len(inputs), taken
        if name not in taken:
            return name
        n = 1
        while f"{name}.{n}" in taken:
            n += 1
        return f"{name}.{n}"

    def let_go(self, tensor: Tensor) -> None:
        """Forget the value of a graph's tensor: reading it is an error."""
        assert isinstance(tensor, GraphTensor)
        self.changing(tensor)
        tensor.ir_value = Value(tensor.ir_value.type)
        self.unknown.add(tensor.ir_value)

    # --- ops ------------------------------------------------------------------------------------

    def apply(self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
        """Append a node; a GraphTensor, or a tuple of them."""
        values = [self.lift(t) for t in operands]
        out = self._node(op, values, attrs, ())
        return out[0] if len(out) == 1 else tuple(out)

    def _node(
        self, op: str, values: Sequence[Value], attrs: Mapping[str, Any], regions: Sequence[Graph]
    ) -> list[GraphTensor]:
        region = self.regions[-1]
        region.builder.span, region.builder.scope = self.span, self.scope
        node = region.builder.node(op, values, attrs, regions)
        if len(self.regions) > 1:
            region.owned.update(node.results)
        return [GraphTensor(v) for v in node.results]

    def check(
        self, checked: Tensor, error: str, parts: Sequence[str | int | None],
        shown: Sequence[Tensor] = (), *, low: int = 1, high: int = 2, own: str = "",
        code: str = "CE703", more: str = "",
    ) -> None:
        """Have the program raise unless every element of `checked` is in [low, high).

        See the op `check` for the arguments. The error has its place in the source, by
        `whereabouts`, and a code of `cellc.lang.CODES`, followed by `more`.
        """
        if self.caught is not None and not shown and self.caught(
                checked, error, "".join(map(str, parts)), low, high):
            return
        attrs = {"low": low, "high": high, "error": error, "parts": tuple(parts), "own": own,
                 "detail": self.whereabouts(code) + more}
        self.checks += 1
        self.apply("check", [checked, *shown], attrs)

    def host_call(
        self, function: Callable[..., Any], name: str, operands: Sequence[Tensor],
        results: Sequence[TensorType],
    ) -> list[Tensor]:
        """Append the call of a Python function at run time; see `calls.callbacks`."""
        self.functions.append(function)
        attrs = {"number": len(self.functions) - 1, "name": name,
                 "results": tuple((t.dtype, t.dims) for t in results)}
        return list(self._node("host_call", [self.lift(t) for t in operands], attrs, ()))

    def assign(self, parameter: Tensor, value: Tensor) -> None:
        """Later reads of a Parameter or variable see `value`."""
        if not is_variable(parameter):
            self.wanted[id(parameter)] = parameter
            raise TypeError(
                "a tensor made outside of the graph cannot be changed inside of it; write to a "
                "copy made in the graph, or use ops.tensor_scatter_update"
            )
        old, new = self.lift(parameter), self.lift(value)
        if old.type != new.type:
            raise ValueError(
                f"cannot assign {new.type} to {named(parameter)} of type {old.type}")
        self.regions[-1].env[parameter] = new
        self.regions[-1].assigned[parameter] = None

    def refuse_assigned(self, assigned: Iterable[Tensor]) -> None:
        """Raise if a Parameter is assigned that Python reads in a `bprop`: see `by_python`."""
        for owned, error in self.by_python:
            if any(p is q for p in assigned for q in owned):
                raise error

    def begin(self, parameter: Parameter) -> None:
        """A Parameter that the traced function makes: each run begins with its present value, and
        assignments are discarded after the run."""
        first = tensor_of(parameter._snapshot())
        for level, region in enumerate(self.regions):
            region.env[parameter] = self.lift(first, level)
        self.made.add(parameter)

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """Set outputs and updates; the finished outermost graph."""
        region = self.regions[0]
        region.graph.outputs = [self.lift(t) for t in outputs]
        region.graph.updates = [
            (self.parameters[p], region.env[p]) for p in region.assigned
            if p not in self.made and region.env[p] is not self.parameters[p]
        ]
        return region.graph

    def inside(self) -> bool:
        """Whether a branch or loop of the run is traced: what it may do or not, or repeat."""
        return any(r.graph.name != "grad" for r in self.regions[1:])

    def measure(
        self, count: Tensor, name: str, most: int | None, *, low: int = 0, hint: int | None = None
    ) -> tuple[int, Tensor]:
        """A size that follows from elements: a symbol for the value of an int64 scalar.

        Args:
            name: for the symbol.
            low, most: the least and the greatest it can be (None: any).
            hint: what it is in this call, if that is known.

        Returns:
            The symbol, and the tensor that what has this size depends on.

        Raises:
            SizeInside: in a branch or loop, which has no place where its size could be found out.
        """
        shapes = active_shapes()
        if self.inside() or shapes is None:
            raise SizeInside(
                f"the shape of the result of '{name}' depends on the elements of its input; that "
                f"cannot be in a run-time branch or loop: compute it before, or use a form of "
                f"fixed shape (where, masked_fill, tensor_scatter_update)"
            )
        known, place = len(shapes.met), self.place()
        met = place, sum(p == place for p, _ in shapes.met)
        shapes.met.append(met)
        # (A trace that is made for what was found may ask more than the one before, and earlier.)
        hint = shapes.answered.get(met, hint)
        if hint is None and known < len(shapes.measured):
            hint = shapes.measured[known]
        elif hint is None:
            guess = shapes.largest_guess
            many = guess if most is None else evaluate(most, shapes.hints)
            hint = min(guess, many - 1 if many > 3 else many)  # (within its bounds)
        bound = most if type(most) is int else None
        dim = shapes.new(f"found_{name}", hint, SymbolInfo(
            low, bound, f"the number that '{name}' found at {self.place()}", limit=most))
        shapes.asked[str(dim)] = met
        out: Tensor = self.apply("measure", [count], {"symbol": str(dim)})
        return dim, out  # type: ignore[return-value]  # a Dim behaves as an int

    # --- control flow ---------------------------------------------------------------------------

    @contextmanager
    def _open(
        self, name: str, types: Sequence[TensorType], entered: Entered | None = None
    ) -> Iterator[tuple[Region, list[Tensor]]]:
        graph = Graph(name)
        region = Region(graph, Builder(graph), entered=entered)
        self.regions.append(region)
        try:
            inputs: list[Tensor] = []
            for i, ty in enumerate(types):
                value = graph.add_input(ty, f"arg{i}")
                region.owned.add(value)
                inputs.append(GraphTensor(value))
            with tracing(self):
                yield region, inputs
        except Exception:
            self.failed = self.failed or list(self.regions)
            raise
        finally:
            self.regions.pop()

    def cond(
        self,
        pred: Tensor,
        then: Callable[[], Sequence[Tensor]],
        other: Callable[[], Sequence[Tensor]],
    ) -> list[Tensor]:
        """Run-time choice between two traced branches that return tensors of equal types."""
        built: list[tuple[Region, list[Tensor]]] = []
        for name, fn in (("then", then), ("else", other)):
            with self._open(name, ()) as (region, _):
                built.append((region, [GraphTensor(self.lift(t)) for t in fn()]))
        types = [[t._type for t in tensors] for _, tensors in built]
        if types[0] != types[1]:
            a, b = (", ".join(map(str, t)) for t in types)
            raise TypeError(f"the branches give different types: ({a}) and ({b})")
        return self.close_cond(pred, built)

    def close_cond(
        self, pred: Tensor, built: Sequence[tuple[Region, Sequence[Tensor]]]
    ) -> list[Tensor]:
        """The `cond` node of two traced branches and the tensors each gives; its results."""
        assigned = list(dict.fromkeys(p for region, _ in built for p in region.assigned))
        for region, tensors in built:
            with self.reopened(region):
                region.graph.outputs = [self.lift(t) for t in [*tensors, *assigned]]
        return self._adopt(self.close("cond", [pred], {}, [r for r, _ in built], 0), assigned)

    @contextmanager
    def reopened(self, region: Region) -> Iterator[None]:
        """Within the block, nodes go to a region that was left before."""
        self.regions.append(region)
        try:
            yield
        finally:
            self.regions.pop()

    def close(
        self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any],
        regions: Sequence[Region], fixed: int,
    ) -> list[GraphTensor]:
        """A node with traced regions, whose inputs from number `fixed` on are what they capture."""
        captures = list(dict.fromkeys(v for region in regions for v in region.captures))
        for region in regions:
            align_inputs(region, fixed, captures)
        values = [*map(self.lift, operands),
                  *(self._capture(v, len(self.regions) - 1) for v in captures)]
        return self._node(op, values, attrs, [region.graph for region in regions])

    def _adopt(self, results: Sequence[GraphTensor], assigned: Sequence[Tensor]) -> list[Tensor]:
        count = len(results) - len(assigned)
        for parameter, tensor in zip(assigned, results[count:], strict=True):
            self.assign(parameter, tensor)
        return list(results[:count])

    def scan(
        self,
        init: Sequence[Tensor],
        xs: Sequence[Tensor],
        length: int,
        body: Callable[
            [list[Tensor], list[Tensor], Tensor], tuple[Sequence[Tensor], Sequence[Tensor]]
        ],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """A loop of a known number of trips over the leading axis of `xs`.

        `body(carried, slices, i)` (i: int64 scalar) returns the next carried tensors and the
        outputs of the step, which come back stacked along a new leading axis.
        """
        def probe(args: list[Tensor]) -> Sequence[Tensor]:
            rows = [_row_like(self, x) for x in xs]
            return body(args, rows, args[0] if not args else self._index_like())[0]

        assigned = self._assigned_in(init, probe)
        carried = [*init, *assigned]
        types = [self.lift(t).type for t in carried]
        row_types = [self.lift(x).type.with_shape(self.lift(x).type.shape[1:]) for x in xs]
        index_type = TensorType((), dtypes.int64)
        count, n = len(init), len(types)
        with self._open("scan_body", [*types, *row_types, index_type]) as (region, args):
            self.enter_parameters(region, assigned, args[count:n])
            new, ys = body(args[:count], args[n:-1], args[-1])
            region.graph.outputs = [self.lift(t) for t in [*new, *assigned, *ys]]
        _check_carried(types, region.graph.outputs[:n])
        results = self.close(
            "scan", [*carried, *xs], {"carried": n, "sequences": len(xs), "length": length},
            [region], n + len(row_types) + 1)
        stacked: list[Tensor] = list(results[n:])
        return self._adopt(results[:n], assigned), stacked

    def region(
        self, name: str, types: Sequence[TensorType],
        fn: Callable[[list[Tensor]], Sequence[Tensor]], given: Sequence[Tensor] | None = None,
    ) -> tuple[Graph, list[Value], list[Tensor]]:
        """Trace `fn` into a graph of its own.

        Args:
            given: what its inputs are, if it is run once.

        Returns:
            The graph, whose inputs are `types`, then captures, and whose outputs are those of
            `fn`, then the parameters it assigned; the captured values; those parameters.
        """
        entered = None if given is None else Entered(tuple(given))
        with self._open(name, types, entered) as (region, inputs):
            out = [self.lift(t) for t in fn(inputs)]
            assigned = list(region.assigned)
            region.graph.outputs = out + [self.lift(p) for p in assigned]
        captures = list(region.captures)
        align_inputs(region, len(types), captures)
        return region.graph, [self._capture(v, len(self.regions) - 1) for v in captures], assigned

    def move_to_definition(self, old: Value, new: Value) -> None:
        """Let everything in the graph at hand that reads `old` read `new`, made from it."""
        region = self.regions[-1]
        nodes, maker = region.graph.nodes, new.node
        if maker is None or not (old in region.graph.inputs or old.node in nodes):
            return  # of a graph further out: only what follows reads the new value
        nodes.remove(maker)
        nodes.insert(0 if old.node is None else nodes.index(old.node) + 1, maker)
        for node in nodes:
            if node is not maker:
                node.operands = [new if v is old else v for v in node.operands]
        for parameter, value in region.env.items():
            if value is old and parameter in region.assigned:
                region.env[parameter] = new

    def inline(self, graph: Graph, values: Sequence[Value]) -> list[GraphTensor]:
        """Append a copy of a graph on values of this region."""
        region = self.regions[-1]
        region.builder.span, region.builder.scope = self.span, ""
        start = len(region.graph.nodes)
        outputs, _ = clone_into(region.builder, graph, values)
        self._own(start)
        return [GraphTensor(v) for v in outputs]

    def splice(self, graph: Graph, values: Sequence[Value]) -> list[GraphTensor]:
        """Move the nodes of a graph here, onto values of this region; the graph is used up."""
        region = self.regions[-1]
        table = dict(zip(graph.inputs, values, strict=True))
        start = len(region.graph.nodes)
        for node in graph.nodes:
            node.operands = [table.get(v, v) for v in node.operands]
        region.graph.nodes += graph.nodes
        self._own(start)
        return [GraphTensor(table.get(v, v)) for v in graph.outputs]

    def _own(self, start: int) -> None:
        """The nodes from number `start` on belong to this region."""
        region = self.regions[-1]
        if len(self.regions) > 1:
            for node in region.graph.nodes[start:]:
                region.owned.update(node.results)

    def custom_gradient(
        self,
        operands: Sequence[Tensor],
        forward: Callable[[list[Tensor]], Sequence[Tensor]],
        backward: Callable[[list[Tensor], list[Tensor], list[Tensor]], Sequence[Tensor | None]],
        **attrs: Any,
    ) -> list[Tensor]:
        """`forward(operands)` with the gradient `backward(operands, results, cotangents)`.

        Values that the two read from outside get no gradient. `attrs`: further ones of the node.
        """
        types = [self.lift(t).type for t in operands]
        n = len(types)
        first, outer_first, assigned = self.region("forward", types, forward, operands)
        results = [v.type for v in first.outputs]

        none: list[int] = []

        def grads(args: list[Tensor]) -> list[Tensor]:
            k = n + len(results)
            given = backward(args[:n], args[n:k], args[k:])
            none[:] = [i for i, g in enumerate(given) if g is None]
            return [g if g is not None else self._zeros(t)
                    for g, t in zip(given, types, strict=True)]

        second, outer_second, changed = self.region(
            "bprop", [*types, *results, *results], grads
        )
        if changed:
            raise TypeError(f"a bprop cannot assign {named(changed[0])}")
        outer = list(dict.fromkeys([*outer_first, *outer_second]))
        _reorder(first, n, outer_first, outer)
        captured = _reorder(second, n + 2 * len(results), outer_second, outer)
        fixed = second.inputs[: n + 2 * len(results)]
        second.inputs = [*fixed[:n], *captured, *fixed[n:]]
        b = Builder(second)
        second.outputs += [b.zeros_like(v) for v in captured]
        nodes = self._node(
            "custom_grad", [*(self.lift(t) for t in operands), *outer],
            {"none": (*none, *range(n, n + len(outer))), **attrs}, [first, second]
        )
        return self._adopt(nodes, assigned)

    def is_own(self, tensor: Tensor) -> bool:
        """Whether the graph at hand computes a tensor (a Parameter: assigns it)."""
        if isinstance(tensor, GraphTensor):
            return tensor.ir_value in self.regions[-1].owned and tensor.ir_value.node is not None
        return False

    def recomputed(
        self, fn: Callable[[], Sequence[Tensor]], results: bool = False
    ) -> list[Tensor]:
        """The tensors `fn` gives, in a graph of their own that its gradient computes again.

        With `results`, other gradients that read these tensors compute them again too.
        """
        graph, captures, assigned = self.region("recompute", [], lambda _: fn(), ())
        for node in graph.nodes:
            self.gone.update(node.results)
        out = self._node("recompute", captures, {"results": results}, [graph])
        return self._adopt(out, assigned)

    def _zeros(self, ty: TensorType) -> Tensor:
        region = self.regions[-1]
        value = region.builder.full(ty, 0)
        for node in region.graph.nodes[-2:]:
            region.owned.update(node.results)
        return GraphTensor(value)

    def _index_like(self) -> Tensor:
        import numpy as np

        return tensor_of(np.zeros((), np.int64))

    def enter_parameters(
        self, region: Region, assigned: Sequence[Tensor], values: Sequence[Tensor]
    ) -> None:
        """Make reads of parameters that a loop assigns see its inputs."""
        for parameter, tensor in zip(assigned, values, strict=True):
            region.env[parameter] = self.lift(tensor)

    def _assigned_in(
        self, init: Sequence[Tensor], body: Callable[[list[Tensor]], Sequence[Tensor]]
    ) -> list[Tensor]:
        """Parameters a loop body assigns, found by tracing it once into a graph thrown away."""
        known = dict(self.parameters), list(self.graph.inputs)
        saved = [(dict(r.captures), dict(r.env), list(r.graph.inputs), list(r.graph.nodes),
                  dict(r.lifted)) for r in self.regions]
        with self._open("probe", [self.lift(t).type for t in init]) as (region, args):
            body(args)
            assigned = list(region.assigned)
        self.parameters, self.graph.inputs = known
        for r, (captures, env, inputs, nodes, lifted) in zip(self.regions, saved, strict=True):
            r.captures, r.env, r.lifted = captures, env, lifted
            r.graph.inputs, r.graph.nodes = inputs, nodes
        return assigned


def call_here(fn: Any, args: Sequence[Any]) -> Any:
    """A call of a user's function in the mode at hand."""
    tracer = active_tracer()
    return fn(*args) if tracer is None else tracer.interpret(fn, args, {})


def _row_like(tracer: Tracer, x: Tensor) -> Tensor:
    ty = tracer.lift(x).type
    region = tracer.regions[-1]
    value = region.graph.add_input(ty.with_shape(ty.shape[1:]), f"row{len(region.graph.inputs)}")
    region.owned.add(value)
    return GraphTensor(value)


def align_inputs(region: Region, fixed: int, captures: Sequence[Value]) -> None:
    """Order a region's capture inputs as `captures`, adding those it does not read."""
    inputs = region.graph.inputs[:fixed]
    for i, outer in enumerate(captures):
        inner = region.captures.get(outer) or Value(outer.type, kind="input")
        inner.name = f"capture{i}"
        inputs.append(inner)
    region.graph.inputs = inputs


def _reorder(
    graph: Graph, fixed: int, have: Sequence[Value], want: Sequence[Value]
) -> list[Value]:
    """Make the captures of a graph those of `want`, in that order; its inputs for them."""
    table = dict(zip(have, graph.inputs[fixed:], strict=True))
    captured = [table.get(v) or Value(v.type, kind="input") for v in want]
    for i, v in enumerate(captured):
        v.name = f"capture{i}"
    graph.inputs = [*graph.inputs[:fixed], *captured]
    return captured


def _check_carried(types: Sequence[TensorType], outputs: Sequence[Value]) -> None:
    for i, (before, after) in enumerate(zip(types, outputs, strict=True)):
        if before != after.type:
            raise TypeError(
                f"a loop must keep the types of what it carries: value {i} enters an iteration "
                f"as {before} and leaves it as {after.type}"
            )
