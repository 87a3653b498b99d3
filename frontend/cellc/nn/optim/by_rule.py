"""Optimizers whose step is one pure rule of `ops.optimizer_rules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np

from ... import ops
from ...core.declared import number
from .optimizer import Optimizer, step_type

NonNegativeOption = Annotated[float, number(0, bools=True)]


def decay_pair(rate: float) -> tuple[float, float]:
    """b and 1 - b, which is rounded to float32 as in MindSpore's kernels."""
    return rate, float(np.float32(1.0) - np.float32(rate))


class RuleOptimizer(Optimizer):
    """An optimizer that gives its rule, the names of its state and the rule's constants."""

    _rule: ClassVar[Callable[..., tuple[Any, ...]]]
    """From a weight, its gradient, the rate and state to the new weight and state."""
    _state: tuple[str, ...] = ()  # The attributes that hold the state, in the rule's order
    _constants: tuple[str, ...] = ()  # The rule's keyword arguments, which are attributes
    _decays: tuple[str, ...] = ()  # Those that are decay rates: the rule takes a pair

    def _begin(self) -> Any:
        """Assign what all parameters share; what `_scaled` needs of it."""
        return None

    def _scaled(self, rate: Any, shared: Any) -> Any:
        """The rate that the rule takes."""
        return rate

    def _keywords(self) -> dict[str, Any]:
        """The rule's keyword arguments."""
        values = {name: getattr(self, name) for name in self._constants}
        for name in self._decays:
            values[name] = decay_pair(getattr(self, name))
        return values

    def _state_at(self, i: int) -> tuple[Any, ...]:
        return tuple([getattr(self, name)[i] for name in self._state])

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their state."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        shared, keywords = self._begin(), self._keywords()
        for i in range(self.param_length):
            rate = self._scaled(lr[i] if self.is_group_lr else lr, shared)
            self.put_part(i, take_step(
                self._rule, step_type(self.parameters[i]),
                (self.own_part(i), gradients[i], rate), self._state_at(i), keywords))
        return self.done()


def take_step(
    rule: Any, kind: Any, values: Any, state: Any, keywords: dict[str, Any]
) -> Any:
    """The first result of a rule on values in one type; the state, which takes the others.

    (It is traced once for equal parameters, so nothing that it gets tells them apart.)
    """
    cast = [ops.cast(value, kind) for value in (*values, *state)]
    new, *after = rule(*cast, **keywords)
    for kept, value in zip(state, after):  # noqa: B905  # a rule may leave its state alone
        ops.assign(kept, value)
    return new
