"""Equal calls are traced once: the layers of a deep network, the steps of an optimizer.

The second call of a Cell or function from one place is watched while it is traced. If all that it
does is append nodes and assign Parameters, what it appended becomes a template, and every further
call on arguments that are alike appends a copy on its own values instead of being interpreted.

Arguments are alike if they have the same structure, types and known values: Cells of one class
whose attributes are alike, tensors of one type in the same places (`Signature`). Numbers and
strings that a layer holds and does not read (its place in the network) may differ. The identity and
the names of Parameters and Cells still distinguish two such calls, so a call that looks at those
gives no template; neither does one that changes Python objects, calls Python at run time or stands
in a run-time branch. The copies read the same attributes as the calls would have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.passes.base import copy_graph
from cellc_runtime.records import dataclass, field

from ..core import dispatch
from ..core.module_names import is_exactly
from ..tensors.parameter import Names, Parameter
from ..tensors.tensor import Tensor
from ..tensors.views import view_of
from ..tracing.tracer import GraphTensor
from . import _model
from .call_signature import PLAIN, Signature, Unlike
from .reads_log import ReadsLog

if TYPE_CHECKING:
    from .interpreter import Interpreter

MOST_KINDS = 8  # Signatures of one call that are watched; if none came back until then, none will
MOST_SIGNATURES = 128  # Signatures of one call for which there are templates; each is watched once

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The stand-in for a tensor that a call returned: a value, or one of its argument tensors."""

    code: int | Value
    is_given: bool = False


@dataclass(slots=True)
class Template:
    """The nodes that a call appended to the graph."""

    tensors: list[Tensor]  # those that it reads besides the ones of its arguments
    # with what each operand is: a result of the template by its number, one of the tensors (of the
    # arguments, then `tensors`) by `~number`, or a constant of the graph
    nodes: list[tuple[Node, tuple[int | Value, ...]]]
    # numbers of tensors that it assigns, and what to; `result` what it returns
    assigned: list[tuple[int, int | Value]]
    result: Any
    # what it read of the objects of its arguments; `plain` what numbers and strings
    reads: ReadsLog
    scope: str  # the path of its nodes
    plain: dict[tuple[int, str], Hashable]

    def fits(self, signature: Signature) -> bool:
        """Whether what it read of numbers and strings is the same in another call."""
        return all(signature.plain[place] == value for place, value in self.plain.items())


@dataclass(slots=True)
class _Seen:
    """The calls of one thing from one place."""

    held: list[Any]  # what the keys name by identity, the graph among it
    # calls, tried: how many there were, and how many were compared with earlier ones
    calls: int = 0
    tried: int = 0
    found: bool = False  # whether one was like another
    # by the key of the signature
    templates: dict[Hashable, list[Template]] = field(default_factory=dict)

    @property
    def hopeless(self) -> bool:
        """Whether it is not worth comparing arguments any more."""
        return not self.found and self.tried >= MOST_KINDS


class CallTemplates:
    """The templates of one trace."""

    def __init__(self, vm: Interpreter) -> None:
        self.vm = vm
        self.seen: dict[Hashable, _Seen] = {}
        self.looked_at = 0
        self.given_away = 0
        self.watching = 0

    def give(self, *values: Any) -> None:
        """Values are given to code that is not interpreted: it may read any attribute of Cells."""
        if self.watching and any(map(_model.is_cell, values)):
            self.given_away += 1

    def look_at(self, *values: Any) -> None:
        """The identity of values may decide what is done: that makes no template."""
        if any(isinstance(v, Tensor) or _model.is_cell(v) for v in values):
            self.looked_at += 1

    def of_call(
        self, what: Any, args: Sequence[Any], kwargs: Mapping[str, Any], scope: str,
        run: Callable[[], Any],
    ) -> Any:
        """`run()`, or the copy of what it did before.

        Args:
            what: a Cell or a function.
            scope: the path of its nodes.
        """
        vm = self.vm
        if not self._usable():
            return run()
        how, region = dispatch.scope(), vm.tracer.regions[-1]
        if how.read is not None or how.around is not None:
            return run()
        place: Hashable = (what if isinstance(what, FunctionType) else id(type(what)), id(region),
                           vm.tracer.span, how.precision, how.auto)
        seen = self.seen.get(place)
        if seen is None:
            seen = self.seen[place] = _Seen([what, region])
        seen.calls += 1
        if seen.calls == 1 or seen.hopeless:
            return run()
        seen.tried += 1
        try:
            signature = Signature(vm.state, what, tuple(args), tuple(kwargs.items()),
                                  _captured(what))
        except Unlike:
            return run()
        if signature.key not in seen.templates and len(seen.templates) >= MOST_SIGNATURES:
            return run()
        known = seen.templates.setdefault(signature.key, [])
        for template in known:
            if template.fits(signature):
                seen.found = True
                return _Copy(vm, template, signature, scope).append()
        if len(known) >= MOST_KINDS:
            return run()
        seen.held.append(signature)
        watched = _Watched(vm, signature, scope)
        result = watched.run(run)
        made = watched.template(result)
        if made is not None:
            known.append(made)
        return result

    def _usable(self) -> bool:
        """Whether calls only append nodes now, as far as can be known before them."""
        vm = self.vm
        return not (vm.collect or vm.rolling or vm.journal is not None or vm.region_depth
                    or vm.catching or vm.state.first is not None or vm.state.inputs)


def _captured(what: Any) -> tuple[Any, ...]:
    """Return the captured values of a function."""
    cells = what.__closure__ if isinstance(what, FunctionType) else None
    try:
        return tuple([c.cell_contents for c in cells or ()])
    except ValueError:
        raise Unlike from None  # one that has no value yet


class _Watched:
    """A call that is traced and looked at."""

    def __init__(self, vm: Interpreter, signature: Signature, scope: str) -> None:
        self.vm, self.signature, self.scope = vm, signature, scope
        tracer = vm.tracer
        self.region = tracer.regions[-1]
        nodes = self.region.graph.nodes
        self.start, self.last = len(nodes), nodes[-1] if nodes else None
        self.env = dict(self.region.env)
        self.values = [t.ir_value if isinstance(t, GraphTensor) else None
                       for t in signature.tensors]
        self.before, self.given_away = self._marks(), vm.templates.given_away
        self.reads = ReadsLog(signature.objects, vm.state.log)
        self.roots: dict[int, Tensor] = {}

    def _marks(self) -> tuple[Any, ...]:
        """Return the facts that must be the same after the call."""
        vm = self.vm
        return (vm.templates.looked_at, Names.read, len(vm.tracer.functions),
                vm.tracer.checks, len(vm.tracer.regions), vm.state.first, len(vm.state.worlds),
                [type(t) for t in self.signature.tensors])

    def run(self, run: Callable[[], Result]) -> Result:
        """The call, what it reads noted."""
        vm = self.vm
        outer, vm.state.log = vm.state.log, self.reads
        vm.templates.watching += 1
        try:
            return run()
        finally:
            vm.state.log = outer
            vm.templates.watching -= 1

    def template(self, result: Any) -> Template | None:
        """Return the template of the call, if it can be repeated."""
        nodes = self.region.graph.nodes
        if self._marks() != self.before or self.vm.tracer.regions[-1] is not self.region:
            return None
        if self.start and (len(nodes) < self.start or nodes[self.start - 1] is not self.last):
            return None
        if not self.signature.unchanged() or any(
                isinstance(t, GraphTensor) and t.ir_value is not v
               for t, v in zip(self.signature.tensors, self.values, strict=True)):
            return None  # changed in place
        try:
            return self._template(nodes[self.start :], result)
        except Unlike:
            return None

    def _template(self, nodes: Sequence[Node], result: Any) -> Template:
        # A literal is made once: that of a tensor of the arguments again for that of another call.
        literals = {v for _, v in self.region.lifted.values()}
        nodes = [n for n in nodes if not (n.is_constant and n.result in literals)]
        made = {r: i for i, r in enumerate(r for n in nodes for r in n.results)}
        owners, tensors = self._owners(), list(self.signature.tensors)
        numbers = {id(t): i for i, t in enumerate(tensors)}

        def number(tensor: Tensor) -> int:
            found = numbers.setdefault(id(tensor), len(tensors))
            if found == len(tensors):
                tensors.append(tensor)
            return found

        def code(value: Value) -> int | Value:
            if value in made:
                return made[value]
            owner = owners.get(value)
            if owner is not None:
                return ~number(owner)
            if value in owners or value.node is None or not value.node.is_constant:
                raise Unlike  # of several tensors, which may differ in another call; from elsewhere
            return value

        if any(n.op == "measure" for n in nodes):
            raise Unlike  # each has a size of its own
        coded = [(n, tuple([code(v) for v in n.operands])) for n in nodes]
        assigned = [(number(p), code(new)) for p in self.region.assigned
                    if (new := self.region.env[p]) is not self._at_first(p)]
        return Template(tensors[len(self.signature.tensors) :], coded, assigned,
                        _mapped(result, lambda t: self._leaf(t, code)), self.reads, self.scope,
                        self._plain())

    def _owners(self) -> dict[Value, Tensor | None]:
        """The tensor that had each value when the call began; None for one of several."""
        owners: dict[Value, Tensor | None] = {}
        for t in (*self.signature.tensors, *self.region.env):
            value = self._at_first(t)
            if value is not None:
                owners[value] = t if value not in owners or owners[value] is t else None
        return owners

    def _plain(self) -> dict[tuple[int, str], Hashable]:
        """The numbers and strings that the call may have read."""
        every = self.vm.templates.given_away != self.given_away
        return {place: value for place, value in self.signature.plain.items()
                if every or self.reads.has(*place)}

    def _leaf(self, tensor: Tensor, code: Callable[[Value], int | Value]) -> _Leaf:
        """Return the stand-in for a tensor that is returned."""
        for i, t in enumerate(self.signature.tensors):
            if t is tensor:
                return _Leaf(~i, True)
        if type(tensor) is not GraphTensor:
            raise Unlike
        view = view_of(tensor)
        root = tensor if view is None else view.root
        known = self.roots.get(id(root))
        shared = known is not None and not (known is tensor and view is None)
        if shared or (view is not None and not self._is_made(root, code)):
            raise Unlike  # a view of a tensor that others know
        self.roots[id(root)] = tensor
        return _Leaf(code(self._here(tensor.ir_value)))

    def _is_made(self, root: Tensor, code: Callable[[Value], int | Value]) -> bool:
        """Whether the call has made a tensor."""
        found = code(self._here(root.ir_value)) if type(root) is GraphTensor else None
        return isinstance(found, int) and found >= 0

    def _at_first(self, tensor: Tensor) -> Value | None:
        """The value that a tensor had in this region when the call began, if it was read."""
        if tensor in self.env:
            return self.env[tensor]
        if isinstance(tensor, GraphTensor):
            return self._here(tensor.ir_value)
        if id(tensor) in self.region.lifted:
            return self.region.lifted[id(tensor)][1]
        if tensor not in self.region.env:
            return None
        outer = self.vm.tracer.regions[-2].env[tensor] if len(self.vm.tracer.regions) > 1 \
            else self.vm.tracer.parameters[tensor]
        return self.region.captures.get(outer, outer)

    def _here(self, value: Value) -> Value:
        """Return the value in this graph that captures one of an outer graph."""
        for region in self.vm.tracer.regions[1:]:
            value = region.captures.get(value, value)
        return value


class _Copy:
    """A template on the values of another call."""

    def __init__(
        self, vm: Interpreter, template: Template, signature: Signature, scope: str
    ) -> None:
        self.vm, self.template, self.objects, self.scope = vm, template, signature.objects, scope
        self.tensors = [*signature.tensors, *template.tensors]
        self.values: list[Value | None] = [None] * len(self.tensors)
        self.made: list[Value] = []
        self.scopes: dict[str, str] = {}

    def _read(self) -> None:
        """Read the same attributes of the objects of this call."""
        vm, log, objects = self.vm, self.template.reads, self.objects
        for number, name in log.noted:
            if vm.state.note_read(objects[number], name):
                vm.state.mark(getattr(objects[number], name, None))
        outer = vm.read_at
        for (number, name), place in log.reported.items():
            vm.read_at = place
            vm.report(objects[number], name)
        vm.read_at = outer

    def append(self) -> Any:
        """Append the nodes, assign what is assigned; what the call returns."""
        template, tracer = self.template, self.vm.tracer
        self._read()
        region = tracer.regions[-1]
        nodes, made = region.graph.nodes, self.made
        span, scope = tracer.span, tracer.scope
        for node, codes in template.nodes:
            tracer.span, tracer.scope = node.span, self._scope(node.scope)
            copy = node.clone([self._value(c) for c in codes],
                              tuple(map(self._graph, node.regions)), tracer.scope)
            nodes.append(copy)
            made.extend(copy.results)
        tracer.span, tracer.scope = span, scope
        if len(tracer.regions) > 1:
            region.owned.update(made)
        for number, code in template.assigned:
            parameter = self.tensors[number]
            assert isinstance(parameter, Parameter)
            tracer.assign(parameter, GraphTensor(self._value(code)))
        return _mapped(template.result, self._result)

    def _value(self, code: int | Value) -> Value:
        if not isinstance(code, int):
            return code
        if code >= 0:
            return self.made[code]
        found = self.values[~code]
        if found is None:
            found = self.values[~code] = self.vm.tracer.lift(self.tensors[~code])
        return found

    def _result(self, leaf: _Leaf) -> Tensor:
        if leaf.is_given:
            assert isinstance(leaf.code, int)
            return self.tensors[~leaf.code]
        return GraphTensor(self._value(leaf.code))

    def _graph(self, graph: Graph) -> Graph:
        """A region, its nodes with the paths of this call."""
        copy = copy_graph(graph)
        for node in copy.walk():
            node.scope = self._scope(node.scope)
        return copy

    def _scope(self, scope: str) -> str:
        """The path of a node where the template's call has that of this one."""
        found = self.scopes.get(scope)
        if found is None:
            base = self.template.scope
            inside = f"{scope}.".startswith(f"{base}.") if base else not scope
            found = self.scopes[scope] = self.scope + scope[len(base) :] if inside else scope
        return found


def _mapped(result: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a call's result with its tensors (or their stand-ins) changed.

    Raises:
        Unlike: it holds more than tensors, tuples and plain values.
    """
    if type(result) is tuple:
        return tuple([_mapped(r, leaf) for r in result])
    if isinstance(result, (Tensor, _Leaf)):
        return leaf(result)
    if is_exactly(result, (*PLAIN, float, complex)):
        return result
    raise Unlike
