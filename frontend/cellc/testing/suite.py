"""A suite of tests whose Cells are verified: what the plugin of pytest does when it is used.

Every top-level call of a Cell, of a function under `jit`, and of the functions that `grad`, `vmap`
and their kin give is seen through `core.observers`. After the call, it is verified with the
arguments it had: once for each signature. Calls within a verification are not seen again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import getclosurevars
from types import FunctionType, MethodType
from typing import Any
from weakref import ref

from cellc_runtime import dtypes, loader
from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass, field

from .. import context
from ..compiled.dynamic import parameter_names
from ..compiled.jit import Jitted
from ..compiled.signatures import describe_call
from ..core.module_names import function_name, plain
from ..core.observers import unwatched, watching_calls
from ..eager.recorder import active_recordings
from ..lang import CompileError
from ..nn.cell import Cell
from ..nn.optim import Optimizer
from ..transforms.gradient import GradFunction
from ..transforms.jacobian import Transformed
from ..transforms.vmap import Vectorized
from ..verification import Report, verify
from ..verification.report import place_of
from ..verification.runs import fresh, in_mode

Row = dict[str, Any]
"""The findings for one signature, as plain values that a worker can send."""

_MODES = {"graph": context.GRAPH_MODE, "pynative": context.PYNATIVE_MODE}
_SHOWN = 10
_TRANSFORMED = (GradFunction, Vectorized, Transformed)


@contextmanager
def running(mode: str, threads: int | None) -> Iterator[int]:
    """Within the block, Cells run in a mode, compiled code on some threads; the mode's number."""
    count = loader.num_threads()
    if threads is not None:
        loader.set_num_threads(threads)
    try:
        with in_mode(_MODES[mode]):
            yield _MODES[mode]
    finally:
        if loader.num_threads() != count:
            loader.set_num_threads(count)


def dtype_of(value: Any) -> Any:
    """An element type, which may be given by its name; None if it is none."""
    if isinstance(value, dtypes.DType):
        return value
    try:
        return dtypes.by_name(value)
    except (KeyError, TypeError, ValueError):
        return None


def _row(test: str, call: str, net: Any, report: Report | None, reason: str) -> Row:
    """The findings for one signature; values not finite in both modes are the test's own matter."""
    found = report.findings if report is not None else []
    differs = [str(f) for f in found if f.kind != "nonfinite"]
    worst = report.worst if report is not None else None
    skipped = [*report.not_compared] if report is not None else [reason]
    return {"test": test, "call": call, "cell": isinstance(net, Cell), "differs": differs,
            "skipped": skipped, "not_finite": len(differs) < len(found),
            "worst": worst.to_dict() if worst is not None else None}


@dataclass(slots=True)
class Suite:
    """The verifications of a process of a suite."""

    rows: list[Row] = field(default_factory=list)
    seen: dict[int, tuple[Any, set[str]]] = field(default_factory=dict)
    """By identity, for users' Cells may define `__eq__`: a weak reference, and the known calls."""
    later: list[Callable[[], None]] = field(default_factory=list)

    @contextmanager
    def watching(self, test: str) -> Iterator[None]:
        """Within the block, what a test calls is verified."""
        def answer(
            function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any],
            run: Callable[[], Any],
        ) -> Any:
            return self.call(test, function, args, kwargs, run)

        with watching_calls(answer):
            yield
        waiting, self.later = self.later, []
        for verification in waiting:
            verification()

    def call(
        self, test: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """Make a call of a test; verify what it calls if it is new."""
        with unwatched():
            net, args, kwargs = _verified(function, args, kwargs)
            words = describe_call(net, args, kwargs)
            given = fresh(args)
            out = run()
            key, known = f"{words} training={_training(net)}", self._known(net)
            if key in known:
                return out
            known.add(key)
            call = _name(net) + words
            if active_recordings():  # a gradient is being recorded: its verification waits
                self.later.append(lambda: self.verify(test, call, net, given, kwargs))
            else:
                self.verify(test, call, net, given, kwargs)
        return out

    def _known(self, net: Any) -> set[str]:
        """The calls of a Cell or function that were verified; the methods of an object are one."""
        owner = net.__self__ if isinstance(net, MethodType) else net
        held, known = self.seen.get(id(owner), (None, set()))
        if held is None or held() is not owner:
            known = set()
            try:
                self.seen[id(owner)] = ref(owner), known
            except TypeError:  # it has no room for a weak reference, and is kept
                self.seen[id(owner)] = (lambda: owner), known
        return known

    def verify(
        self, test: str, call: str, net: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Verify a Cell or function on the arguments of a call."""
        try:
            inputs = _positional(net, args, kwargs)
            report = verify(net, *inputs, grad=not (_trains(net) or _calls_python(net)))
        except CompileError as e:
            report, reason = None, f"it cannot be compiled: {str(e).splitlines()[0]}"
        except Exception as e:  # of the verification: the suite goes on, and the summary tells
            report, reason = None, f"verify failed: {type(e).__name__}: {e}"
        else:
            reason = ""
        self.rows.append(_row(test, call, net, report, reason))

    def findings_of(self, test: str) -> list[str]:
        """Return the differences in the Cells that a test was the first to call."""
        return [f"{row['call']}: {text}" for row in self.rows if row["test"] == test
                for text in row["differs"]]


def _verified(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
    """Return what to verify for a call, with its arguments. For a gradient this is the function
    that it differentiates, without the sensitivity (its gradients are verified, too); for a
    gradient of a transformed function, the gradient itself."""
    net = function
    if isinstance(function, GradFunction):
        net = function.request.fn
        if isinstance(net, _TRANSFORMED):
            return function, args, kwargs
        if function.request.sens:
            named = {k: v for k, v in kwargs.items() if k != "sens"}
            args, kwargs = args if "sens" in kwargs else args[:-1], named
    return (net.fn if isinstance(net, Jitted) else net), args, kwargs


def _name(net: Any) -> str:
    if isinstance(net, GradFunction):
        return f"grad_{_name(net.request.fn)}"
    if isinstance(net, (FunctionType, MethodType)):
        return net.__qualname__.rpartition(".")[2]
    return function_name(net)


def _training(net: Any) -> Any:
    """Whether a Cell, or that of a method, is in training: its calls may differ."""
    owner = plain(net, "__self__", net)
    return owner.training if isinstance(owner, Cell) else None


def _trains(net: Any) -> bool:
    """Whether it makes steps of training, or takes gradients, which have no gradient to verify."""
    if isinstance(net, Cell):
        return any(isinstance(c, Optimizer) for _, c in net.cells_and_names())
    if isinstance(net, _TRANSFORMED):
        return isinstance(net, (GradFunction, Transformed)) or _trains(net.fn)
    if not isinstance(net, (FunctionType, MethodType)):
        return False
    read = getclosurevars(net)
    used = [*read.nonlocals.values(), *read.globals.values()]
    if isinstance(net, MethodType) and isinstance(net.__self__, Cell):
        used.append(net.__self__)
    return any(isinstance(u, GradFunction) or (isinstance(u, Cell) and _trains(u)) for u in used)


def _calls_python(net: Any) -> bool:
    """Whether it is a `vmap` that has no gradient in PyNative, for its function calls Python."""
    return isinstance(net, Vectorized) and net.calls_python


def _positional(net: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All arguments by position."""
    names, out = parameter_names(net), list(args)
    rest = dict(kwargs)
    for name in names[len(out):]:
        if name not in rest:
            break
        out.append(rest.pop(name))
    if rest:
        raise TypeError(f"arguments given by name alone: {', '.join(rest)}")
    return out


def summary(rows: Sequence[Row]) -> tuple[list[str], bool]:
    """The lines of a summary, and whether anything differs."""
    cells, functions = (len({row["call"].partition("(")[0] for row in rows if row["cell"] == kind})
                        for kind in (True, False))
    counts = counted(cells, 'Cell')
    counts += f" and {counted(functions, 'function')}" if functions else ""
    bad = [row for row in rows if row["differs"]]
    skipped = [row for row in rows if row["skipped"]]
    lines = [f"{counted(len(rows), 'signature')} of {counts} verified: {len(bad)} "
             f"differ, {len(skipped)} not compared in full, "
             f"{sum(row['not_finite'] for row in rows)} not finite"]
    judged = [row for row in rows if row["worst"] is not None]
    if judged:
        row = max(judged, key=lambda r: float(r["worst"]["share"]))
        w = row["worst"]
        lines.append(f"worst op: {place_of(w['op'], w['scope'], w['span'])} in "
                     f"{row['call']}: {w['ulps']:.2f} ulps, {w['share']:.0%} of what is allowed")
    for name, some, key in (("differs", bad, "differs"), ("not compared", skipped, "skipped")):
        for row in some[:_SHOWN]:
            lines.append(f"{name}: {row['call']} ({row['test']}): {row[key][0]}")
        if len(some) > _SHOWN:
            lines.append(f"{name}: {len(some) - _SHOWN} more")
    return lines, bool(bad)
