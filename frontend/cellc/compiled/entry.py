"""The common part of compiled entries: their trace, and whether it still holds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.driver import Report, has_gradient

from .. import context
from ..core.invalidation import Stale, watch
from ..tensors import views
from ..tensors.tensor import Tensors, arrays_of
from ..tracing.arguments import given
from ..tracing.guards import Guards
from .causes import Cause

if TYPE_CHECKING:
    from .traced import Traced


class Entry:
    """The compiled program for one signature.

    Attributes:
        several: whether a call may run what another trace has given.
    """

    several = False

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self.report = Report()
        self.flag = Stale()
        self.numerics = context.numerics()
        self.device = context.get_current_device()
        watch([*traced.attributes, (context.OPTIONS, "numerics"), (context.OPTIONS, "device"),
               (context.OPTIONS, "ranks")], self.flag)
        self.read_guards = traced.read_guards or Guards(traced.reads)
        self.state = traced.state
        self.apart = traced.state is not None or bool(traced.written) or self.several
        """Whether a call does more than compute results and assign Parameters."""
        self.needs_arguments = self.several or traced.returned or (
            traced.state is not None and traced.state.arguments)
        """Whether it changes or returns containers that are arguments, as far as that is known."""
        self.gradient = has_gradient(traced.graph.template)
        self.calls = 0
        self.made = time.perf_counter()

    def fresh(self) -> bool:
        """Whether what was read at compile time still has its value."""
        if self.flag.stale:
            return False
        guards = self.read_guards
        if (guards.compared or guards.first_changed() >= 0) and not guards.hold():
            self.flag.raise_(guards.cause)
            return False
        return self.state is None or self.state.holds()

    def why(self) -> Cause:
        """Why the entry is stale."""
        if context.numerics() != self.numerics:
            return Cause("option", f"the option 'numerics' was {self.numerics!r} and is "
                         f"{context.numerics()!r}")
        if context.get_current_device() != self.device:
            return Cause("option", f"the device was {self.device} and is "
                         f"{context.get_context('device_target')}")
        return self.traced.out_of_date() or Cause("attribute", self.flag.cause)

    def count(self, part: Entry) -> None:
        """Another program is part of what was compiled."""
        self.report.kernels += part.report.kernels
        self.report.arena_bytes = max(self.report.arena_bytes, part.report.arena_bytes)

    def answer(self, tensors: Tensors, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call.

        Args:
            tensors: those of its arguments, of which some may be changed in place.
            args, kwargs: the arguments, which may be changed.
        """
        if self.traced.written:
            self._check_shared(tensors, self.traced.written)
        out = self.call(arrays_of(tensors), args, kwargs)
        if type(out) is not views.Written:
            return out
        if tuple(out.new) != self.traced.written:  # of another way that the call may go
            self._check_shared(tensors, tuple(out.new))
        for i, value in out.new.items():
            views.change(tensors[i], value)
        return out.result

    def _check_shared(self, tensors: Tensors, written: tuple[int, ...]) -> None:
        views.check_arguments(tensors, written, self.traced.parameters,
                              [v.name for v in self.traced.graph.template.inputs])

    def call(self, arrays: list[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result for the arrays of a call's arguments, and what it changes of their tensors."""
        if self.needs_arguments:
            with given((args, kwargs)):
                return self.run(self.traced.fed(arrays))
        return self.run(self.traced.fed(arrays))

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for arrays of the signature's types. Raises TypeError for none that runs."""
        raise TypeError(f"{type(self).__name__} cannot run")
