"""Pieces of a network that Python runs: calls of the graph, with what they are known to give."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass, field

from ... import context
from ...calls.pieces import ANY_OBJECT, OBJECT, Failed, Given, Piece, held, taken_apart
from ...core.dispatch import apply
from ...core.module_names import is_exactly
from ...tensors.tensor import Tensor
from ...tracing.numbers import DTYPES
from ...tracing.pytree import Box, Leaf, ObjectKind, RunObject, leaves_of, put_together
from ...tracing.tracer import GraphTensor, is_variable
from ..errors import Cascade, CompileError
from ..outcome import Diverged, NotRollable
from ..recipes import recipe_of
from .first_run import FirstRun, NotAhead

if TYPE_CHECKING:
    from ..frames import Frame
    from ..interpreter import Interpreter


_RESULTS: dict[str, Any] = {
    "bool()": bool, "int()": int, "float()": float, "len()": int, "str()": str, "format()": str,
    "an f-string": str, "repr()": str, "list()": list, "Tensor.asnumpy()": np.ndarray,
    "Tensor.numpy()": np.ndarray, "Tensor.tolist()": list,
}
"""Types that follow from what a piece does."""


@dataclass(slots=True)
class Known:
    """Facts about the pieces of a network from earlier traces.

    Attributes:
        strict: it is an error that Python does a part, whatever the context says.
        given: what pieces gave, by their keys.
        reported: places that were reported.
    """

    strict: bool = False

    given: dict[Any, Given] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Pieces:
    """The pieces of one trace.

    Attributes:
        run: the call that the trace is made for; None: they are only looked for, and a result whose
            type does not follow from what is done is lost.
        found: what each piece does and where, in order.
        raised: what pieces have raised, to be caught by the trace, as objects of the run.
        handed: containers that the trace made and objects of the run that stand for them now.
    """

    run: FirstRun | None
    known: Known
    found: dict[tuple[str, str], None] = field(default_factory=dict)
    raised: dict[int, tuple[Exception, RunObject]] = field(default_factory=dict)
    handed: dict[int, tuple[Any, RunObject]] = field(default_factory=dict)

    def emit(
        self, vm: Interpreter, what: str, act: Callable[..., Any], values: Sequence[Any],
        frame: Frame, mode: str = "", gives: Sequence[TensorType] | None = None,
    ) -> Any:
        """Have Python do something in each call.

        Args:
            act: what it does with the values.
            gives: the types of the tensors that it gives, in a tuple, where they are known.
            mode: see `taken_apart`. Another result than a `"fixed"` one is compiled for itself.

        Returns:
            The result: numbers and tensors of the graph, None, objects that only the run knows, and
            tuples of these.

        Raises:
            CompileTypeError: `jit_syntax_level` is STRICT (CE309), or no call can tell what the
                piece gives (CE310).
        """
        if vm.rolling:
            raise NotRollable
        where = self._report(vm, what, frame)
        recipe = recipe_of(vm, [_read(vm, v) for v in values], what, frame)
        key = _key(frame), what
        piece = Piece(what, where, act, recipe.values, mode,
                      bool(vm.catching) and vm.region_depth == vm.try_region, key)
        if self.run is None:
            return self._looked_for(vm, piece, recipe.leaves)
        found, leaves = self._learnt(vm, piece, recipe.leaves) if gives is None else \
            (_tuple_of(gives), None)
        operands = recipe.leaves if found is not None and _gives_tensors(found) else \
            [_constant(t) for t in recipe.leaves]
        piece.expected = found
        types = found.types if found is not None else ()
        results = vm.tracer.host_call(piece, what, operands, types)
        if found is None:  # the first call that gets here says what it gives, and is traced again
            raise Diverged(len(vm.tracer.regions))
        if leaves is not None:
            assert self.run is not None
            self.run.gave(vm.tracer.regions[-1].graph.nodes[-1], leaves)
        if found.error is not None:
            made = put_together(found.structure, results)
            self.raised[id(found.error)] = found.error, made
            raise found.error
        return put_together(found.structure, results)

    def _learnt(
        self, vm: Interpreter, piece: Piece, operands: Sequence[Tensor]
    ) -> tuple[Given | None, list[Tensor] | None]:
        """Return a piece's result, run for this call if that gets here, and its tensors."""
        assert self.run is not None
        for t in operands:
            vm.tracer.lift(t)
        try:
            if self.run.here():
                return taken_apart(self.run.result(piece, operands), self.run.call, piece.mode)
        except NotAhead as e:
            raise not_ahead(vm.error("CE310", TypeError, f"what {piece.what} gives is not known "
                                     f"while compiling: {e}", _frame(vm), hint=e.hint)) from None
        except Exception as e:
            raise Failed(e) from None
        return ANY_OBJECT if piece.mode == "whole" else self.known.given.get(piece.key), None

    def _looked_for(self, vm: Interpreter, piece: Piece, operands: Sequence[Tensor]) -> Any:
        """Return the stand-in for the result of a piece that no call runs."""
        if piece.mode == "fixed" or piece.what == "Tensor()":
            raise Cascade
        kind = _RESULTS.get(piece.what, object)
        ty = OBJECT if kind not in DTYPES else TensorType((), DTYPES[kind])
        (result,) = vm.tracer.host_call(piece, piece.what, operands, [ty])
        return put_together(Leaf(0, kind if kind in DTYPES else ObjectKind(kind, held)), [result])

    def _report(self, vm: Interpreter, what: str, frame: Frame) -> str:
        """Say once for each place that Python runs it; the place."""
        vm.frame = frame
        if self.known.strict or context.get_context("jit_syntax_level") == context.STRICT:
            raise vm.error(
                "CE309", TypeError, f"{what} needs Python when the network runs, which "
                "jit_syntax_level=STRICT forbids", frame,
                hint="use ops, or ms.set_context(jit_syntax_level=ms.LAX)",
            )
        where = vm.position()
        self.found[what, where] = None
        if where not in self.known.reported:
            self.known.reported.add(where)
            logging.getLogger("cellc").info("%s: %s is run by Python in each call", where, what)
        return where


def _read(vm: Interpreter, value: Any) -> Any:
    """A value as Python gets it: for a Parameter, what the network has assigned by now."""
    if is_variable(value):
        return GraphTensor(vm.tracer.lift(value))
    if is_exactly(value, (list, tuple)) and any(map(is_variable, value)):
        return type(value)(_read(vm, v) for v in value)
    return value


def _frame(vm: Interpreter) -> Frame:
    assert vm.frame is not None
    return vm.frame


def _key(frame: Frame | None) -> tuple[Any, ...]:
    """The place of a piece: its statement, and the calls that led there."""
    chain: list[Any] = []
    while frame is not None and frame.depth:
        node: Any = frame.node
        chain.append((frame.source.file, getattr(node, "lineno", 0),
                      getattr(node, "col_offset", 0)))
        frame = frame.caller
    return tuple(chain)


def _tuple_of(types: Sequence[TensorType]) -> Given:
    """A tuple of tensors of known types."""
    return Given(Box(tuple, (), tuple(Leaf(i) for i in range(len(types)))), tuple(types))


def not_ahead(error: CompileError) -> CompileError:
    """The error, marked as one that Python avoids where it runs all that stands around it."""
    error.not_ahead = True
    return error


def _gives_tensors(given: Given) -> bool:
    """Whether floats are among the tensors that a piece gives: in Python they might have a gradient
    by its operands, so to ask for one is an error."""
    return any(leaf.kind is None and given.types[leaf.number].dtype.is_inexact
               for leaf in leaves_of(given.structure))


def _constant(tensor: Tensor) -> Tensor:
    """A tensor without a gradient."""
    if not tensor.dtype.is_inexact:
        return tensor
    out: Tensor = apply("stop_gradient", tensor)
    return out
