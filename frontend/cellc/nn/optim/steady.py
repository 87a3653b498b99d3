"""Optimizers' common part: steps that are compiled once they repeat, and state of some rows.

In the eager mode a step runs op by op at first. Among several ranks an optimizer may keep the state
of some rows of a parameter only (`sharding.py`); it reads and writes parameters by `own` and `put`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.world import world

from ... import context, ops
from ...core.dispatch import active_tracer
from ...eager.recorder import active_recordings
from ...ranks.settings import cuts_networks, get_auto_parallel_context, optimizer_sharding
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor, arrays_of
from ..cell import Cell

with lazy_imports(__name__):  # one process needs none
    from . import sharding

EAGER_STEPS = 2
"""Steps of the eager mode that run op by op, so that a short program need not compile."""


class SteadySteps(Cell):
    """A Cell that updates its `parameters` from a tuple with a gradient for each."""

    _whole = True
    parameters: Any
    sharded = False  # Whether the state is sharded over ranks, where a parameter is large enough
    shares: tuple[sharding.Share | None, ...] = ()
    """This rank's share of each parameter's state, None for all of it, if `sharded`."""
    takes_rows = True  # Whether a step needs no more of a gradient than the rows whose state it has

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        object.__setattr__(self, "_eager_steps", (None, 0))
        object.__setattr__(self, "_is_own", None)

    # --- state of some rows ---------------------------------------------------------------------

    def part_state(self, parameters: Sequence[Parameter]) -> None:
        """Decide what this rank keeps of the state of more parameters.

        Raises:
            RuntimeError: `enable_parallel_optimizer` is set, but cannot be done.
        """
        more: Sequence[sharding.Share | None] = (None,) * len(parameters)
        if self._parts() and not cuts_networks():
            more = sharding.shares(parameters, self)
            self.sharded = True
        if self.sharded:
            before = len(self.parameters) - len(parameters)
            self.shares = (*(self.shares or (None,) * before), *more)

    def _parts(self) -> bool:
        """Whether to shard state over ranks."""
        return world().size > 1 and bool(get_auto_parallel_context("enable_parallel_optimizer"))

    def state_of(
        self, prefix: str, init: Any, parameters: Sequence[Parameter] | None = None
    ) -> ParameterTuple:
        """State for each parameter, named `prefix.name`, of the rows that this rank keeps.

        Args:
            prefix: of the names.
            init: what `Parameter.clone` takes.
            parameters: the last ones only; None: all.
        """
        given = ParameterTuple(self.parameters if parameters is None else parameters)
        if not self.sharded:
            whole: ParameterTuple = given.clone(prefix, init)
            if world().size > 1:  # where graphs are cut it may be sharded; scripts say so later
                for state, parameter in zip(whole, given, strict=True):
                    state.state_of = parameter
            return whole
        parts = self.shares[len(self.shares) - len(given):]
        made = sharding.clone(given, parts, prefix, init)
        self.parameter_layout_dict = self.parameter_layout_dict | sharding.layouts(made, parts)
        return made

    def accumulators(self, prefix: str) -> ParameterTuple:
        """A sum of gradients for each parameter, zero at first: of the rows of `state_of` where
        `gradient_accumulation_shard` is set."""
        if self.sharded and optimizer_sharding("gradient_accumulation_shard"):
            return self.state_of(prefix, "zeros")
        whole: ParameterTuple = self.parameters.clone(prefix, "zeros")
        return whole

    def own_part(self, i: int) -> Any:
        """The i-th parameter, or the rows of it that this rank keeps state of."""
        return self.own_rows(i, self.parameters[i])

    def own_rows(self, i: int, x: Any) -> Any:
        """Of something with all rows of the i-th parameter those that this rank keeps state of."""
        part = self.shares[i] if self.sharded else None
        return x if part is None else part.of(x)

    def own_gradients(self, gradients: Any) -> Any:
        """Gradients of what `own_part` gives, from whole ones or from these."""
        if not self.sharded:
            return gradients
        return tuple([self.own_rows(i, g) for i, g in enumerate(gradients)])

    def all_rows(self, i: int, x: Any) -> Any:
        """From what each rank has for its rows of the i-th parameter, that of all rows."""
        part = self.shares[i] if self.sharded else None
        return x if part is None else part.gathered(x)

    def put_part(self, i: int, value: Any) -> None:
        """Give the i-th parameter a new value, of the rows that `own_part` gives."""
        parameter = self.parameters[i]
        if self.sharded:
            value = self.all_rows(i, ops.cast(value, parameter.dtype))
        ops.assign(parameter, value)

    # --- steps ----------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # as of any Cell
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """One update; outside of graphs compiled after the first steps, with equal bits."""
            if not kwargs and len(args) == 1 and active_tracer() is None \
                    and not context.in_graph_mode() and not active_recordings() \
                    and self._is_steady(args[0]):
                return self._entries.call(self, args, kwargs)
            return super().__call__(*args, **kwargs)

    def _is_steady(self, gradients: Any) -> bool:
        """Whether there were eager steps with gradients like these, all of it cellc's own code."""
        if not isinstance(gradients, (tuple, list)) or len(gradients) != len(self.parameters) \
                or any(type(g) is not Tensor for g in gradients):
            return False
        types = [(a.shape, a.dtype) for a in arrays_of(gradients)]
        seen, steps = self._eager_steps
        steps = steps + 1 if seen == types else 1
        if steps <= EAGER_STEPS:
            object.__setattr__(self, "_eager_steps", (types, steps))
            return False
        own = self._is_own
        if own is None:
            cells = [c for _, c in self.cells_and_names()]
            own = all(type(c).__module__.startswith("cellc.") for c in cells)
            object.__setattr__(self, "_is_own", own)
        return bool(own)
