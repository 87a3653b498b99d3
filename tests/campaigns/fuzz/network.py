"""A network that was grown, and the ways in which it must give one result.

Each way is a function of a network that raises `Different`. The first one, `alone`, is what the
others are compared with: PyNative, one op after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn
from cellc.core.dispatch import apply
from cellc.tensors.tensor import tensor_of
from cellc.verification.judge import judge, judge_expansion
from cellc_compiler.driver import compile_graph, compile_program, loaded
from cellc_compiler.interpret import evaluate, expand_node
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import Op, lookup
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.verify import verify
from cellc_runtime import loader
from cellc_runtime.target import host_targets

from ...modes.law import Array, arrays_of, bits, mode
from .growing import GROWN
from .rounding import RUNS, moved, within


class Different(AssertionError):
    """Two ways that must agree do not."""


@dataclass(eq=False)
class Network:
    """A graph and what it is given.

    Attributes:
        graph: without effects and regions.
        arrays: in the order of its inputs.
        fitted: nodes that only move elements, which numpy does for `alone`: most of them occur
            once, and would be compiled for that.
    """

    graph: Graph
    arrays: Sequence[Array]
    fitted: Set[Node] = frozenset()

    def tensors(self) -> list[Tensor]:
        """What it is given, as new tensors."""
        return [tensor_of(np.array(a)) for a in self.arrays]

    def function(
        self, most: int | None = None, derived: bool = False
    ) -> Callable[..., tuple[Any, ...]]:
        """The network as a function of tensors, which runs the ops one after the other.

        Args:
            most: how many outputs it gives (default: all).
            derived: whether a gradient is taken: it goes by ops that have none, else one of them
                would leave the network without a gradient.
        """
        places: dict[Value, int] = {v: i for i, v in enumerate(self.graph.inputs)}
        steps = []
        for node in self.graph.nodes:
            given = tuple(places[v] for v in node.operands)
            constant = tensor_of(np.array(node.attrs["value"].array)) if node.is_constant else None
            by = derived and not node.is_constant and _has_none(lookup(node.op))
            steps.append((node.op, constant, given, by,
                          {} if node.is_constant else dict(node.attrs)))
            places.update((r, len(places)) for r in node.results)
        outputs = tuple(places[v] for v in self.graph.outputs[:most])

        def network(*xs: Any) -> tuple[Any, ...]:
            env = list(xs)
            for op, constant, given, by, attrs in steps:
                if constant is not None:
                    env.append(constant)
                    continue
                operands = [env[i] for i in given]
                if by:
                    operands = [ms.ops.stop_gradient(x) for x in operands]
                out = apply(op, *operands, **attrs)
                env.extend(out if isinstance(out, tuple) else [out])
            return tuple([env[i] for i in outputs])

        return network

    @cached_property
    def alone(self) -> dict[Value, Array]:
        """All values by PyNative, op by op."""
        env: dict[Value, Any] = dict(zip(self.graph.inputs, self.tensors(), strict=True))
        for node in self.graph.nodes:
            if node.is_constant:
                out: Any = tensor_of(np.array(node.attrs["value"].array))
            elif node in self.fitted:
                (moved,) = evaluate(node, [env[v]._data for v in node.operands])
                out = tensor_of(np.ascontiguousarray(moved).reshape(moved.shape))
            else:
                out = apply(node.op, *(env[v] for v in node.operands), **node.attrs)
            env.update(zip(node.results, out if isinstance(out, tuple) else (out,), strict=True))
        return {v: np.array(t._data) for v, t in env.items()}

    @property
    def results(self) -> list[Array]:
        """Its outputs by PyNative."""
        return [self.alone[v] for v in self.graph.outputs]

    def floats(self) -> list[int]:
        """Positions of its inputs that have a derivative."""
        return [i for i, v in enumerate(self.graph.inputs) if v.dtype.is_float and v.type.size]


def same(got: Sequence[Array], want: Sequence[Array], what: str) -> None:
    """Raise `Different` unless types, shapes and bits are equal."""
    if len(got) != len(want):
        raise Different(f"{what}: {len(got)} results instead of {len(want)}")
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise Different(f"{what}: result {i} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        if bits(a) != bits(b):
            unlike = [k for k, (x, y) in enumerate(zip(a.reshape(-1), b.reshape(-1), strict=True))
                      if bits(np.asarray(x)) != bits(np.asarray(y))]
            k = unlike[0]
            raise Different(f"{what}: result {i} differs in {len(unlike)} of {a.size} elements, "
                            f"first [{k}]: {a.reshape(-1)[k]!r} and {b.reshape(-1)[k]!r}")


def outcome(call: Callable[[], Any]) -> tuple[list[Array], str]:
    """The arrays of what a call gives, or the error it raises, by kind."""
    return tried(lambda: arrays_of(call()))


def tried(call: Callable[[], list[Array]]) -> tuple[list[Array], str]:
    """What a call gives, or the error it raises, by kind."""
    try:
        return call(), ""
    except Exception as e:
        return [], f"{type(e).__mro__[-4 if len(type(e).__mro__) > 4 else 0].__name__}: {e}"


# --- forward --------------------------------------------------------------------------------------


def compiled(net: Network) -> None:
    """The graph as a whole, through all passes, on its own inputs and on some others."""
    call = compile_graph(net.graph)
    same(call(list(net.arrays)), net.results, "compiled and op by op")
    rng = np.random.default_rng(len(net.graph.nodes))
    for _ in range(OTHERS):
        other = Network(net.graph, [shuffled(a, rng) for a in net.arrays], net.fitted)
        got, failed = tried(partial(call, other.arrays))
        want, raised = tried(partial(getattr, other, "results"))
        if bool(failed) != bool(raised):
            raise Different(f"other inputs: op by op {raised or 'gives results'}; compiled "
                            f"{failed or 'gives results'}")
        same(got, want, "compiled and op by op, on other inputs")


OTHERS = 2
"""Further inputs of a network that was compiled."""


def shuffled(a: Array, rng: np.random.Generator) -> Array:
    """The same elements in another order, so within the same domain."""
    return rng.permutation(a.reshape(-1)).reshape(a.shape) if a.size > 1 else a


def reference(net: Network) -> None:
    """Each op within its tolerance of numpy in float64, on what it gets in this network.

    A composition within which terms cancel is judged in two halves, as `cellc verify` does: its
    expansion in float64, and the nodes of the expansion.
    """
    for node in net.graph.nodes:
        operands = [net.alone[v] for v in node.operands]
        if node.is_constant or node.op.startswith("random") or beyond(node.op, operands) or (
                node.op in PERIODIC and next_to_zero(node.op, net.alone[node.result])) or (
                node.attrs.get("eps") == 0.0):  # of equal elements a norm is rounding alone
            continue
        try:
            verdict = judge(node, operands, [net.alone[v] for v in node.results])
            told = verdict.problem
            if verdict.cancels:
                inner = expand_node(node)
                told = judge_expansion(node, inner, operands)
                reference(Network(inner, operands))
        except IndexError:  # an index that is none for these sizes: numpy has no answer
            continue
        if told:
            raise Different(f"{node.op} differs from its reference: {told}")


def beyond(op: str, operands: Sequence[Array]) -> bool:
    """Whether float64 is no judge: an intermediate result leaves the range of a float that the
    result is within, an argument is so large that its rounding is a period, or an infinity meets
    the zeros around an image (docs/limits.md) or what is left of equal elements less their mean."""
    if op in CANCELLING and not all(np.isfinite(a.astype(np.float64)).all() for a in operands):
        return True
    most = max((float(np.max(np.abs(a.astype(np.float64)), initial=0.0, where=np.isfinite(a)))
                for a in operands if a.dtype.kind == "f" or a.dtype.name == "bfloat16"),
               default=0.0)
    return most > (1e4 if op in PERIODIC else 1e18)


def next_to_zero(op: str, result: Array) -> bool:
    """Whether a float64 is next to a zero of its function, where one that is computed in float64,
    as its reference is, has few right digits."""
    near = 0.5 if op == "digamma" else 0.125
    return result.dtype == np.float64 and bool(np.any(np.abs(result) < near))


CANCELLING = {op.name for op in GROWN if "norm" in op.name or (
    op.name.startswith("conv") and "backward" in op.name)}
PERIODIC = {op.name for op in GROWN if op.name.startswith("bessel")} | {"lgamma", "digamma"}


def threads(net: Network) -> None:
    """Any number of threads."""
    before = loader.num_threads()
    try:
        for count in (1, 2, 4):
            loader.set_num_threads(count)
            same(compile_graph(net.graph)(list(net.arrays)), net.results, f"{count} threads")
    finally:
        loader.set_num_threads(before)


def targets(net: Network) -> None:
    """Code for each kind of processor that this machine can be."""
    for target in host_targets():
        same(compile_graph(net.graph, target)(list(net.arrays)), net.results, target.name)


def fast(net: Network) -> None:
    """`numerics="fast"`, within what rounding may do."""
    graph, arrays = net.graph, list(net.arrays)
    if any(n.op.startswith("random") for n in graph.nodes):
        return  # an integer that rounding moves is another seed
    got = loaded(compile_program(graph, numerics="fast"), graph, {})(arrays)
    rng = np.random.default_rng(len(graph.nodes))
    try:
        want = interpret(graph, arrays, precise=True)
        runs = [moved(graph, arrays, rng) for _ in range(RUNS)]
    except IndexError:  # see `reference`
        return
    for i, (a, b, strict) in enumerate(zip(got, want, net.results, strict=True)):
        if (a.shape, a.dtype) != (strict.shape, strict.dtype):
            raise Different(f"fast: result {i} is {a.dtype}{a.shape}")
        others = [np.asarray(r[i]) for r in runs]
        # Where the strict one is further off than its runs (it overflows in 16 bits, say), the
        # fast one may be too.
        if not within(widened(a), np.asarray(b), [*others, widened(strict)]):
            raise Different(f"fast and float64: result {i} is another")


def widened(a: Array) -> Array:
    """Real floats in float64, complex numbers in complex128."""
    if a.dtype.kind == "c":
        return a.astype(np.complex128)
    return a.astype(np.float64) if a.dtype.kind in "fV" or a.dtype.name == "bfloat16" else a


def text(net: Network) -> None:
    """Printed, parsed and printed again."""
    printed = print_graph(net.graph)
    parsed = parse_graph(printed)
    verify(parsed)
    if print_graph(parsed) != printed:
        raise Different("the text of a graph is not that of the graph it is read as")


def traced(net: Network) -> None:
    """The same lines under `jit`."""
    with mode(ms.PYNATIVE_MODE):
        same(arrays_of(ms.jit(net.function())(*net.tensors())), net.results, "jit and PyNative")


# --- gradients ------------------------------------------------------------------------------------


def in_each_mode(make: Callable[[], Callable[..., Any]], net: Network, what: str) -> None:
    """A function of the network's inputs in both modes: results, or errors of one kind."""
    found = []
    for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(m):
            found.append(outcome(lambda: make()(*net.tensors())))
    (eager, raised), (graph, refused) = found
    if bool(raised) != bool(refused):
        raise Different(f"{what}: PyNative {raised or 'gives results'}; graph mode "
                        f"{refused or 'gives results'}")
    same(graph, eager, f"{what}: graph mode and PyNative")


def smooth(net: Network) -> list[int]:
    """Positions of outputs that have derivatives."""
    return [i for i, v in enumerate(net.graph.outputs) if v.dtype.is_float]


def _has_none(op: Op) -> bool:
    """Whether an op has no gradient, which is an error where one is asked for."""
    return not op.has_gradient() and (op.expand is None or not op.differentiable)


def scalar(net: Network) -> Callable[..., Any]:
    """The sum of a network's float outputs, a function with a gradient."""
    fn, kept = net.function(derived=True), smooth(net)

    def total(*xs: Any) -> Any:
        outs = fn(*xs)
        parts = [ms.ops.reduce_sum(ms.ops.cast(outs[i], ms.float32)) for i in kept]
        result = parts[0]
        for part in parts[1:]:
            result = result + part
        return result

    return total


def gradient(net: Network) -> None:
    """Gradients of all float inputs."""
    wanted = tuple(net.floats())
    if wanted and smooth(net):
        in_each_mode(lambda: ms.value_and_grad(scalar(net), wanted), net, "gradient")


def second(net: Network) -> None:
    """Gradients of gradients, of networks that are not long."""
    wanted = net.floats()[:2]
    if not wanted or not smooth(net) or len(net.graph.nodes) > 120:
        return

    def make() -> Any:
        first = ms.grad(scalar(net), tuple(wanted))

        def summed(*xs: Any) -> Any:
            result = ms.ops.zeros((), ms.float32)
            for g in first(*xs):
                result = result + ms.ops.reduce_sum(ms.ops.cast(g, ms.float32))
            return result

        return ms.grad(summed, wanted[0])

    in_each_mode(make, net, "second gradient")


class Block(nn.Cell):
    """A function as a Cell."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, *xs: Any) -> Any:
        return self.function(*xs)


def recomputed(net: Network) -> None:
    """Gradients with and without recomputation."""
    wanted = tuple(net.floats())
    if not wanted or not smooth(net):
        return
    with mode(ms.GRAPH_MODE):
        plain, raised = outcome(lambda: ms.grad(scalar(net), wanted)(*net.tensors()))
        if raised:
            return
        block = Block(scalar(net))
        again = arrays_of(ms.grad(lambda *xs: ms.recompute(block, *xs), wanted)(*net.tensors()))
    same(again, plain, "gradient with recompute")


ALWAYS: tuple[Callable[[Network], None], ...] = (compiled, reference, text)
"""Ways that each network is tried in."""
IN_TURN: tuple[Callable[[Network], None], ...] = (
    gradient, traced, threads, targets, fast, recomputed, second,
)
"""Ways of which each network is tried in one or two."""
WAYS = {way.__name__: way for way in (*ALWAYS, *IN_TURN)}
