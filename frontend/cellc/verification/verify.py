"""`verify`: the stages of a network, each end to end and node by node."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiled.found_sizes import is_staged
from ..compiled.jit import Jitted
from ..compiled.traced import Traced, trace
from ..core.module_names import function_name
from ..nn.cell import Cell
from ..tensors.parameter import Parameter
from ..tensors.tensor import tensor_of
from ..tracing.pytree import Known, Structure, take_apart
from ..transforms.gradient import GradFunction, Inner, make_request
from .derivatives import Forward
from .gradients import Pair, check_gradient, check_rules
from .nodes import NodeJudge, link
from .parting import report_parting
from .report import Report
from .runs import Outcome, Stage, compare, fresh, run, seeded, traced_on
from .snapshot import Snapshot

TrainStep = Callable[..., Any]
_Graph = tuple[Traced, list[np.ndarray[Any, Any]]]
"""A traced call, and the arrays of all inputs of its graph."""


def verify(
    net: Any, *inputs: Any, grad: bool = True, train_step: TrainStep | None = None,
    train_inputs: Sequence[Any] | None = None, seeds: Sequence[int] = (0,),
    reference: bool = True, nodes: bool = True,
) -> Report:
    """Verify a network: compiled against PyNative, end to end and node by node, and float64.

    Each mode makes three calls, one after another, so that effects on Python objects that are lost
    or repeated later are found. Nothing of the network is changed: parameters, attributes, globals
    and random generators are put back. Its output is compared and not shown.

    Args:
        net: a Cell or function.
        inputs: its arguments, as in a call.
        grad: also verify the gradients of inputs and parameters.
        train_step: a Cell that is one step of training, or a function that makes it of the
            network; all parameters are compared after each step.
        train_inputs: arguments of the step (default: `inputs`).
        seeds: of the random generators; everything is done for each.
        reference: also hold each node against the float64 reference.
        nodes: also compare node by node; False: end to end only.

    Returns:
        Return the comparisons and differences; `status` 0 all agrees, 1 something differs or is not
        finite, 2 not all could be compared.

    Raises:
        CompileError: the network cannot be compiled.
    """
    if not callable(net):
        raise TypeError(f"verify() takes a Cell or a function, but got {type(net).__name__}")
    report = Report(network=_name(net))
    for seed in seeds:
        one = Report()
        _Run(net, tuple(inputs), seed, one, reference, nodes).all(
            grad, train_step, tuple(inputs if train_inputs is None else train_inputs))
        report.add(one, f"seed {seed}" if len(seeds) > 1 else "")
    return report


def _name(net: Any) -> str:
    return function_name(net)


class _Run:
    """The verification of a network for one seed."""

    def __init__(
        self, net: Any, inputs: tuple[Any, ...], seed: int, report: Report, reference: bool,
        nodes: bool,
    ) -> None:
        self.net, self.inputs, self.seed, self.report = net, inputs, seed, report
        self.reference, self.nodes = reference, nodes

    def all(
        self, grad: bool, train_step: TrainStep | None, train_inputs: tuple[Any, ...]
    ) -> None:
        """Every stage."""
        eager, compiled, graph = self.stage(
            Stage("forward", self.net, _compile(self.net), self.inputs, {"net": self.net},
                  _output), self.net)
        if grad and eager.error is None and compiled.error is None:
            if eager.results.types() == compiled.results.types():
                self.gradient(eager.returned, graph)
            else:
                self.report.not_compared["gradient: the results have other types"] += 1
        if train_step is not None:
            self.train(train_step, train_inputs)

    def stage(self, stage: Stage, traced: Any) -> tuple[Outcome, Outcome, _Graph | None]:
        """A stage end to end, then node by node.

        Returns:
            Return its first call in PyNative and compiled, and its graph, if its nodes were
            compared.
        """
        calls = run(stage, self.seed, False, self.report)
        raising = len(calls) if calls[-1].error is not None else 0
        compiled = run(stage, self.seed, True, self.report, raising)
        before = len(self.report.findings)
        compare(stage, calls, compiled, self.report)
        eager, graph = calls[0], compiled[0]
        if not self.nodes or graph.error is not None:
            return eager, graph, None
        differs = any(f.kind != "nonfinite" for f in self.report.findings[before:])
        seek = differs and stage.name == "forward" and eager.error is None
        return eager, graph, self.node_by_node(stage, traced, seek)

    def node_by_node(self, stage: Stage, fn: Any, seek: bool) -> _Graph | None:
        """The stage's graph; `seek`: and where it parts from PyNative."""
        args = fresh(stage.args)
        with Snapshot({**stage.roots, "arguments": args}) as saved:
            seeded(self.seed)
            traced, arrays = traced_on(fn, args, {})
            link(traced.graph)
            if is_staged(traced.graph):
                self.report.not_compared[
                    f"{stage.name}: node by node: sizes follow from elements"] += 1
                return None
            with contextlib.redirect_stdout(io.StringIO()):  # compared end to end
                judge = NodeJudge(self.report, stage.name, self.reference, seek)
                judge.whole(traced, arrays)
            if seek and not judge.found:  # else the nodes say where
                saved.restore()
                report_parting(stage, self.seed, judge.steps, arrays, self.report)
            return traced, arrays

    def gradient(self, returned: Any, forward: _Graph | None) -> None:
        """The gradients of inputs and parameters, from random cotangents of the outputs."""
        positions = tuple(i for i, a in enumerate(self.inputs) if _differentiable(a))
        given = {id(a) for a in self.inputs if isinstance(a, Parameter)}
        if given:
            self.report.not_compared["gradient: of Parameters that are arguments"] += len(given)
        weights = tuple(p for p in _weights(self.net, self.inputs) if id(p) not in given)
        sens = _cotangents(returned, self.seed)
        if not (positions or weights) or sens == ():
            self.report.notes.append("there is no gradient: no float inputs or parameters, or no "
                                     "float outputs")
            return
        request = make_request(self.net, positions or None, weights or None, False,
                               sens is not None)
        fn = GradFunction(request, True)
        args = self.inputs if sens is None else (*self.inputs, sens)
        names = [p.name for p in weights]
        stage = Stage("gradient", fn, fn, args, {"net": self.net},
                      lambda path: _of_gradient(path, positions, names))
        _, _, graph = self.stage(stage, Inner("gradient", self.net, fn))
        if self.reference and forward is not None and graph is not None:
            count = 0 if sens is None else len(take_apart(sens)[1])
            before = len(self.report.findings)
            check_gradient(Pair(*forward, *graph, self.inputs, positions, weights, count),
                           self.report)
            if forward[0].state is not None and len(self.report.findings) == before:
                self.rules_of_second_call()

    def rules_of_second_call(self) -> None:
        """Check each `bprop` in the state that a call of the network leaves."""
        with Snapshot({"net": self.net, "arguments": self.inputs}):
            seeded(self.seed)
            with contextlib.redirect_stdout(io.StringIO()):
                self.net(*fresh(self.inputs))
            traced, arrays = traced_on(self.net, fresh(self.inputs), {})
        if any(node.op == "custom_grad" for node in traced.graph.walk()):
            check_rules(Forward(traced.graph), arrays, self.report)

    def train(self, train_step: TrainStep, inputs: tuple[Any, ...]) -> None:
        """Some steps of training."""
        with Snapshot({"net": self.net, "train_step": train_step}):
            step = train_step if isinstance(train_step, Cell) else train_step(self.net)
            if not callable(step):
                raise TypeError(f"train_step must be a Cell, or a function that makes one of the "
                                f"network, but it gave {type(step).__name__}")
            self.stage(Stage("train", step, _compile(step), inputs,
                            {"net": self.net, "step": step}, _output), step)


def _compile(fn: Any) -> Callable[..., Any]:
    """Return the callable that runs compiled in graph mode: a Cell or a jitted function itself."""
    return fn if isinstance(fn, (Cell, Jitted, GradFunction)) else Jitted(fn)


def _output(path: str) -> tuple[str, str]:
    return f"output{path}", "output"


def _of_gradient(path: str, positions: tuple[int, ...], names: list[str]) -> tuple[str, str]:
    """Return the name of a path of `(value, gradients)`, and the kind of a finding there."""
    numbers = [int(n) for n in re.findall(r"\[(\d+)\]", path)]
    if not numbers or numbers[0] == 0:
        return f"output{path[3:]}", "output"
    rest = numbers[1:]
    if positions and names:
        if not rest:
            return "gradients", "gradient"
        of_weights, rest = bool(rest[0]), rest[1:]
    else:
        of_weights = bool(names)
    if of_weights:
        return f"of {names[rest[0]] if rest else 'the parameters'}", "gradient"
    which = positions[0] if len(positions) == 1 else positions[rest[0]] if rest else "s"
    return f"of argument {which}", "gradient"


def _differentiable(argument: Any) -> bool:
    """Whether an argument holds floats, in Tensors that are no Parameters."""
    leaves = take_apart(argument, (Parameter,))[1]
    return any(t.dtype.is_inexact for t in leaves)


def _weights(net: Any, inputs: tuple[Any, ...]) -> tuple[Parameter, ...]:
    """The float parameters that are trained: of a Cell, or those that a function reads."""
    if isinstance(net, Cell):
        found: list[Any] = list(net.trainable_params())
    else:
        found = [p for p in trace(net, fresh(inputs), {}).parameters
                 if isinstance(p, Parameter) and p.requires_grad and not p.is_state]
    return tuple(p for p in found if p.dtype.is_inexact)


def _cotangents(returned: Any, seed: int) -> Any:
    """Random cotangents for the outputs; () if there is none to differentiate, None (ones) where
    Python numbers are among them, which are no tensors in PyNative."""
    structure, leaves = take_apart(returned)
    if not any(t.dtype.is_inexact for t in leaves):
        return ()
    if _has_number(structure):
        return None
    rng = np.random.default_rng([seed, 0x5eed])
    out = []
    for t in leaves:
        if t.dtype.is_inexact or t.dtype.is_integer:
            if t.dtype.is_inexact:
                a = np.asarray(rng.standard_normal(t.shape))
            else:
                a = np.asarray(rng.integers(1, 4, t.shape))
            out.append(tensor_of(a.astype(t.dtype.numpy)))
    return tuple(out) if len(out) > 1 else out[0]


def _has_number(structure: Structure) -> bool:
    if isinstance(structure, Known):
        return isinstance(structure.value, (int, float, complex)) and \
            not isinstance(structure.value, bool)
    return any(_has_number(p) for p in getattr(structure, "parts", ()))
