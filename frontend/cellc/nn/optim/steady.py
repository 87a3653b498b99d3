"""Optimizers' steps in the eager mode: op by op at first, compiled once they repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import context
from ...core.dispatch import active_tracer
from ...eager.recorder import active_recordings
from ...tensors.tensor import Tensor, arrays_of
from ..cell import Cell

EAGER_STEPS = 2
"""Steps of the eager mode that run op by op, so that a short program need not compile."""


class SteadySteps(Cell):
    """A Cell that updates its `parameters` from a tuple with a gradient for each."""

    _whole = True
    parameters: Any

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        object.__setattr__(self, "_eager_steps", (None, 0))
        object.__setattr__(self, "_is_own", None)

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
