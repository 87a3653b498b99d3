"""The base of experimental optimizers: groups of parameters with options of their own.

Source: `mindspore.experimental.optim`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np

from cellc_runtime.dtypes import float32, int32

from ... import ops
from ...core.declared import NUMBER, instance, misuse, number
from ...nn.optim.optimizer import WHY_EMPTY
from ...nn.optim.steady import SteadySteps
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor

Group = dict[str, Any]
"""Parameters (`params`), and the options of their steps."""
NON_NEGATIVE = number(0)
NonNegative = Annotated[float, NON_NEGATIVE]
Option = Annotated[float, number(0, normal=lambda value: value)]
"""A number of 0 or more that stays an int or a float, like the next two."""
PositiveOption = Annotated[float, number(0, ends="(]", normal=lambda value: value)]
Ratio = Annotated[float, number(0, 1, normal=lambda value: value)]


def checked_rate(value: Any, what: str) -> None:
    """Raises a TypeError or ValueError if the value cannot be a learning rate."""
    if isinstance(value, Tensor):
        if value.size != 1:
            raise misuse(what,
                         f"the learning rate must have one element, but has shape {value.shape}")
        value = float(value.asnumpy().reshape(()))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise misuse(what, "the argument 'learning_rate' must be int, float or Tensor", type(value),
                     TypeError)
    if not value >= 0.0:
        raise misuse(what, "the learning rate must be >= 0", value)


def checked_betas(betas: Any, what: str) -> tuple[float, float]:
    """Two decay rates in [0, 1); raises a TypeError or ValueError for others."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise misuse(what, "'betas' must be a pair of floats", repr(betas), TypeError)
    for i, beta in enumerate(betas):
        if not 0.0 <= NUMBER(beta, what, f"betas[{i}]") < 1.0:
            raise misuse(what, f"the beta at index {i} must be in [0.0, 1.0)", beta)
    return betas[0], betas[1]


class Optimizer(SteadySteps):
    """Base of optimizers with groups.

    Args:
        params: Parameters, or dicts with `params` and options of this group.
        defaults: options of groups that do not give them; `lr` among them.

    Attributes:
        param_groups: the groups as dicts. An option may be changed between steps; `lr` is a
            Parameter to which a new rate is assigned (`ops.assign(group["lr"], 0.01)`).
        parameters: the parameters of all groups, in order.
        group_start_id: where each group starts in `parameters`.
        lrs: the Parameters that are the groups' rates.
        defaults, state: as they were given; empty.

    Raises:
        KeyError: a group without `params`.
    """

    states: tuple[tuple[str, Any], ...] = ()
    """Prefix of each state's Parameters, and what they start with."""
    _counter = ""  # The name of the Parameter that counts steps; empty: none does
    _decoupled = False  # Whether the step applies the weight decay itself

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__()
        instance(dict)(defaults, self.cls_name, "defaults")
        if isinstance(params, (str, Tensor)) or not isinstance(params, Iterable):
            raise misuse(self.cls_name, "'params' must be an iterable of Parameters or dicts",
                         type(params).__name__, TypeError)
        if "lr" in defaults:
            checked_rate(defaults["lr"], self.cls_name)
        groups = list(params)
        if not groups:
            raise ValueError(f"For 'Optimizer', the argument params must not be empty. {WHY_EMPTY}")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = dict(defaults)
        self.state: dict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self.lrs: list[Parameter] = []
        self.group_start_id: list[int] = []
        self.parameters = ParameterTuple(())
        for group in groups:
            self.add_param_group(group)
        if self._counter:
            setattr(self, self._counter, Parameter(Tensor(0, int32), name=self._counter))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group, with the default options where it gives none.

        Raises:
            KeyError: as for the groups of the constructor.
        """
        if not isinstance(param_group, dict):
            raise misuse(self.cls_name, "a param group must be a dict", type(param_group).__name__,
                         TypeError)
        group = {**param_group, "params": self._params_of(param_group)}
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        checked_rate(group.get("lr"), self.cls_name)
        decay = group.get("weight_decay", 0.0)
        group["weight_decay"] = NON_NEGATIVE(decay, self.cls_name, "weight_decay")
        rate = np.float32(np.asarray(group["lr"]).reshape(()))
        group["lr"] = Parameter(Tensor(rate), name=f"learning_rate_group_{len(self.param_groups)}")
        new = ParameterTuple(group["params"])
        self.group_start_id = [*self.group_start_id, len(self.parameters)]
        self.param_groups = [*self.param_groups, group]
        self.lrs = [*self.lrs, group["lr"]]
        self.parameters = ParameterTuple([*self.parameters, *new])
        self.part_state(new)
        for prefix, start in self.states:
            made = self.state_of(prefix, self._start(start, group), new)
            setattr(self, prefix, ParameterTuple([*getattr(self, prefix, ()), *made]))

    def _params_of(self, group: Group) -> list[Parameter]:
        if "params" not in group:
            raise KeyError(
                f"For '{self.cls_name}', a param group must have the key 'params', but has "
                f"{list(group)}.")
        given = group["params"]
        if isinstance(given, set):
            raise misuse(self.cls_name,
                         "parameters must be in an ordered collection such as a list", "a set",
                         TypeError)
        params = [given] if isinstance(given, Parameter) else list(given)
        seen = {id(p) for p in self.parameters}
        for p in params:
            if not isinstance(p, Parameter):
                raise misuse(self.cls_name, "the parameters to optimize must be Parameters",
                             type(p).__name__, TypeError)
            if id(p) in seen:
                raise misuse(self.cls_name, f"the parameter {p.name} appears more than once")
            seen.add(id(p))
        return params

    def _start(self, start: Any, group: Group) -> Any:
        """Return the initial value of a state: an alias, or the value of an option of the group."""
        return start

    def __repr__(self) -> str:
        lines = [f"{self.cls_name} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] if i else []
            lines.append(f"Parameter Group {i}")
            for name in sorted(group):
                if name != "params":
                    value = group[name]
                    shown = str(value.asnumpy()) if isinstance(value, Tensor) else value
                    lines.append(f"    {name}: {shown}")
        return "\n".join([*lines, ")"])

    def prepared(self, group: Group, parameter: Any, gradient: Any) -> Any:
        """The gradient in the parameter's type, negated to maximize, with the weight decay, unless
        the step takes that of the parameter itself."""
        gradient = ops.cast(gradient, parameter.dtype)
        if group.get("maximize", False):
            gradient = -gradient
        if not self._decoupled and group["weight_decay"] != 0.0:
            gradient = gradient + parameter * group["weight_decay"]
        return gradient

    def begin(self) -> Any:
        """Begin a step; return its number (float32), for optimizers that count."""
        if not self._counter:
            return None
        counter = getattr(self, self._counter)
        step = counter + 1
        ops.assign(counter, step)
        return ops.cast(step, float32)

    def update(self, group: Group, parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter (of the rows that this rank has state of), the i-th of all;
        its state is assigned."""
        kept = self._state_at(group, i)
        new, *after = self._step(
            group, parameter, self.prepared(group, parameter, gradient), kept, t)
        for place, value in zip(kept, after):  # noqa: B905  # a step may leave its state alone
            if value is not None:
                ops.assign(place, value)
        return new

    def _state_at(self, group: Group, i: int) -> list[Any]:
        """The state of the i-th parameter, in the order that `_step` takes and gives it."""
        return [getattr(self, name)[i] for name, _ in self.states]

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        """The new value of a parameter and of its state; None: that stays."""
        raise TypeError(f"the optimizer {type(self).__name__} gives no 'construct'")

    def construct(self, gradients: Any) -> bool:
        """One step, from a tuple with a gradient for each parameter."""
        gradients = self.own_gradients(gradients)
        t = self.begin()
        for k in range(len(self.param_groups)):
            group = self.param_groups[k]
            for j in range(len(group["params"])):
                i = self.group_start_id[k] + j
                self.put_part(i, self.update(group, self.own_part(i), gradients[i], i, t))
        return True


def rate_of(group: Group, parameter: Any) -> Any:
    """The rate of a group, in the type of a parameter."""
    rate = group["lr"]
    return ops.cast(rate, parameter.dtype) if isinstance(rate, Tensor) else rate
