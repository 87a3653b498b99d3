"""The base of optimizers: parameter groups, learning rates, weight decay, loss scale.

An optimizer is a Cell whose `construct` takes the gradients and assigns new values to the
parameters and to its own state, so that a training step compiles as one graph.

Source: `mindspore.nn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import numpy as np

from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.records import dataclass

from ... import ops
from ...core.declared import BOOL, instance, misuse, number
from ...ops.mapping import HyperMap, Map
from ...options import device
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor
from ..cell import Cell
from ..layer.container import CellList
from ..learning_rate_schedule import LearningRateSchedule
from ..registering import opt_init_args_register as opt_init_args_register
from .steady import SteadySteps

_SHORT = (float16, bfloat16)
WHY_EMPTY = (
    "There is nothing to train: net.trainable_params() is empty if all Parameters are frozen "
    "(requires_grad=False), if layers are held in a plain list (use nn.CellList) or made in "
    "construct (make them in __init__), or if the network has none; an iterator is empty when it "
    "has been read before."
)
"""Why a network may have no trainable Parameters, for messages."""
_GROUP_KEYS = ("params", "lr", "weight_decay", "order_params", "grad_centralization")


class _IteratorLearningRate(LearningRateSchedule):
    """A rate for each step from a list; the last one for the steps after it."""

    def __init__(self, learning_rate: Tensor, name: str) -> None:
        super().__init__()
        self.count = learning_rate.size
        self.learning_rate = Parameter(learning_rate, name=name)

    def construct(self, global_step: Tensor) -> Tensor:
        """The rate of a step."""
        step = ops.minimum(global_step, self.count - 1)
        return ops.gather(self.learning_rate, step, 0)


class _ConvertToCell(LearningRateSchedule):
    """One value for all steps, together with others that are schedules."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.learning_rate = value

    def construct(self, global_step: Tensor) -> Any:
        """The value."""
        return self.learning_rate


class _WrappedWeightDecay(Cell):
    """A weight decay that is a schedule, times the loss scale."""

    def __init__(self, weight_decay: Cell, loss_scale: float) -> None:
        super().__init__()
        self.weight_decay = weight_decay
        self.loss_scale = loss_scale

    def construct(self, global_step: Tensor) -> Tensor:
        """The decay of a step."""
        decay: Tensor = self.weight_decay(global_step)
        return decay if self.loss_scale == 1.0 else decay * self.loss_scale


def step_type(parameter: Parameter) -> DType:
    """The type a parameter's step is computed in.

    float32 for those of 16 bits: squares of their gradients and small epsilons would vanish.
    """
    kind = parameter.dtype
    return float32 if kind in _SHORT else kind


def wide(parameter: Parameter, *states: Any) -> list[Any]:
    """A parameter and values of its step, in the type of the step."""
    kind = step_type(parameter)
    return [ops.cast(state, kind) for state in (parameter, *states)]


@dataclass(slots=True)
class _Group:
    """Parameters that share their options; None: the optimizer's."""

    params: list[Parameter]
    lr: Any = None
    weight_decay: Any = None
    centralize: bool = False


def _order_groups(
    groups: Sequence[_Group], order: Sequence[Parameter] | None
) -> list[tuple[Parameter, _Group]]:
    """Each parameter with its group, in the given order."""
    own = [(p, g) for g in groups for p in g.params]
    group_of = {id(p): (p, g) for p, g in own}
    if len(groups) > 1 and len(group_of) < len(own):
        twice = [p.name for i, (p, _) in enumerate(own) if any(p is q for q, _ in own[:i])]
        raise RuntimeError(f"For 'Optimizer', a parameter may be in one group only, but {twice} "
                           "are in more.")
    if order is None:
        return own
    missing = [p.name for p, _ in own if not any(p is q for q in order)]
    strange = [p.name for p in order if id(p) not in group_of]
    if missing or strange or len(order) != len(own):
        raise misuse("Optimizer", "'order_params' must name each parameter of the groups once; it "
                     f"lacks {missing} and has others: {strange}")
    return [group_of[id(p)] for p in order]


def _groups(parameters: Any) -> tuple[list[_Group], list[Parameter] | None]:
    """Groups of parameters, and their order if it is given."""
    if parameters is None:
        raise misuse("Optimizer", "the argument parameters must not be None")
    if isinstance(parameters, str) or not isinstance(parameters, Iterable):
        raise misuse("Optimizer", "all elements of the argument 'parameters' must be 'Parameter' "
                     "or 'dict', please check the 'parameters'", kind=TypeError)
    items = list(parameters)
    if not items:
        raise ValueError(f"For 'Optimizer', the argument parameters must not be empty. {WHY_EMPTY}")
    if all(isinstance(p, Parameter) for p in items):
        return [_Group(items)], None
    if not all(isinstance(g, dict) for g in items):
        raise misuse("Optimizer", "all elements of the argument 'parameters' must be 'Parameter' "
                     "or 'dict', please check the 'parameters'", kind=TypeError)
    groups, order = [], None
    for group in items:
        unknown = [k for k in group if k not in _GROUP_KEYS]
        if unknown or not group:
            raise KeyError("For 'Optimizer', the key in group params must be one of in "
                           f"{list(_GROUP_KEYS)}, but got {unknown}.")
        if "order_params" in group:
            if len(group) > 1:
                raise misuse("Optimizer", "'order_params' must be the only key of its dict, but "
                             f"there are {sorted(group)}")
            order = list(group["order_params"])
            continue
        if "params" not in group:
            raise KeyError("For 'Optimizer', a group of parameters must have the key 'params', but "
                           f"has {sorted(group)}.")
        groups.append(_group(group))
    return groups, order


def _group(given: dict[str, Any]) -> _Group:
    params = list(given["params"])
    if not params:
        raise ValueError(
            f"For 'Optimizer', the argument group `params` must not be empty. {WHY_EMPTY}")
    for i, p in enumerate(params):
        if not isinstance(p, Parameter):
            raise misuse("Optimizer", "the element in group parameters must be Parameter type",
                         f"{type(p)} at index {i}", TypeError)
    centralize = given.get("grad_centralization", False)
    BOOL(centralize, "Optimizer", "grad_centralization")
    return _Group(params, given.get("lr"), given.get("weight_decay"), centralize)


class Optimizer(SteadySteps):
    """Base of optimizers.

    Args:
        learning_rate: a number or scalar Tensor (kept as a Parameter, so it can be set); a list or
            1-D Tensor with a rate for each step; or a LearningRateSchedule.
        parameters: Parameters; or groups: dicts with `params` and optionally `lr`,
            `weight_decay` and `grad_centralization`; one dict may have `order_params` alone.
        weight_decay: factor of a parameter that is added to its gradient: a number or a Cell of
            the step. Without groups it leaves out names with "beta" or "gamma".
        loss_scale: what the gradients are divided by.

    Attributes:
        parameters: the parameters, in order.
        global_step: Parameter int32 (1): steps done.

    Raises:
        TypeError, ValueError, KeyError: arguments of a wrong kind or out of range.
    """

    parameters: ParameterTuple
    _decay_is_scaled = True
    _unique = True

    def __init__(
        self, learning_rate: Any, parameters: Any, weight_decay: Any = 0.0,
        loss_scale: Annotated[float, number(0, ends="()", bools=True)] = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(parameters, (str, list, tuple)) and isinstance(parameters, Iterable):
            parameters = list(parameters)
        groups, order = _groups(parameters)
        self.loss_scale = loss_scale
        self.reciprocal_scale = Tensor(1.0 / self.loss_scale, float32)
        self._target = "CPU"
        self.need_scale = self.loss_scale != 1.0
        self.global_step = Parameter(Tensor(np.zeros((1,), np.int32)), name="global_step")
        self.global_step_increase_tensor = Tensor(np.ones((1,), np.int32))
        self.assignadd = ops.assign_add
        # For the `construct` of classes derived from this one.
        self.map_, self.map_reverse = Map(), Map(None, True)
        self.hyper_map, self.hyper_map_reverse = HyperMap(), HyperMap(None, True)
        self.is_group = not isinstance(parameters[0], Parameter)
        self.is_group_params_ordered = order is not None
        placed = _order_groups(groups, order)
        self._init_rates(learning_rate, groups, placed)
        self.parameters = ParameterTuple(p for p, _ in placed)
        self.param_length = len(self.parameters)
        self.part_state(self.parameters)
        self.use_parallel = self.sharded
        self._init_decay(weight_decay, placed)
        self.grad_centralization_flags = tuple(g.centralize for _, g in placed)
        self._init_bookkeeping(placed)

    def _init_bookkeeping(self, placed: Sequence[tuple[Parameter, _Group]]) -> None:
        """Attributes that MindSpore's `construct` reads, for those of classes derived from this."""
        self.optim_filter = tuple(True for _ in placed)
        self.param_rank = None
        self.enable_tuple_broaden = self.skip_auto_parallel_compile = True
        self.grad_centralization: Any = False
        self.dynamic_decay_flags: Any = self.dynamic_weight_decay
        if self.is_group:
            self.dynamic_decay_flags = tuple(isinstance(g.weight_decay, Cell) for _, g in placed)
            self.grad_centralization = self.grad_centralization_flags
            object.__setattr__(self, "group_params", list(self.parameters))
            object.__setattr__(self, "group_lr", list(
                self.learning_rate if self.is_group_lr else [self.learning_rate] * len(placed)))

    def broadcast_params(self, optim_result: Any) -> Any:
        """The parameters after a step, as every device has them: there is one.

        Args:
            optim_result: what the step gave.
        """
        return self.parameters

    def _is_dynamic_lr_or_weight_decay(self) -> bool:
        """Whether a rate or decay follows the steps: for classes of users that ask."""
        return self.dynamic_lr or self.dynamic_weight_decay

    # --- learning rate --------------------------------------------------------------------------

    def _init_rates(
        self, learning_rate: Any, groups: Sequence[_Group],
        placed: Sequence[tuple[Parameter, _Group]],
    ) -> None:
        self.is_group_lr = any(g.lr is not None for g in groups)
        if not self.is_group_lr:
            self.learning_rate = self._rate(learning_rate, "learning_rate")
            self.dynamic_lr = isinstance(self.learning_rate, Cell)
            return
        made: dict[int, Any] = {}
        for i, group in enumerate(groups):
            if group.lr is not None:
                made[id(group)] = self._rate(group.lr, f"learning_rate_group_{i}")
        default = None
        if any(g.lr is None for g in groups):
            default = self._rate(learning_rate, "learning_rate")
        rates = [made.get(id(g), default) for _, g in placed]
        self.dynamic_lr = any(isinstance(r, Cell) for r in rates)
        if self.dynamic_lr:
            self._check_lengths(rates)
            cells = [r if isinstance(r, Cell) else _ConvertToCell(r) for r in rates]
            self.learning_rate = CellList(cells, auto_prefix=False)
            return
        self.learning_rate = tuple(rates)
        for rate in {id(r): r for r in rates if isinstance(r, Parameter)}.values():
            self._params[rate.name] = rate  # the attribute of this name is the tuple

    def _check_lengths(self, rates: Sequence[Any]) -> None:
        """Refuse groups whose lists of rates are for different numbers of steps."""
        lengths = {r.learning_rate.size for r in rates if isinstance(r, _IteratorLearningRate)}
        if len(lengths) > 1:
            raise misuse(self.cls_name, "the lists of learning rates of all groups must have one "
                         f"length, but they have {', '.join(map(str, sorted(lengths)))} rates")

    def _rate(self, value: Any, name: str) -> Any:
        """A rate as a Parameter (one number) or a Cell of the step."""
        what = self.cls_name
        if isinstance(value, LearningRateSchedule):
            return value
        if isinstance(value, (int, float)):
            number(0, ends="[)")(float(value), what, "learning rate")
            return Parameter(Tensor(float(value), float32), name=name)
        if not isinstance(value, Tensor):
            value = self._rates_in(value)
        if value.ndim > 1 or (value.ndim == 1 and value.size < 1):
            raise misuse(what, "a learning rate must be a number or a list of rates, but has "
                         f"shape {value.shape}")
        if value.ndim == 0:
            return Parameter(value.astype(float32), name=name)
        return _IteratorLearningRate(value.astype(float32), name)

    def _rates_in(self, given: Any) -> Tensor:
        """The rates of an iterable."""
        if isinstance(given, str) or not isinstance(given, Iterable):
            kind = ValueError if isinstance(given, str) else TypeError
            raise kind("For 'Optimizer', the argument 'learning_rate' must be int, float, list, "
                       f"Tensor or LearningRateSchedule, but got {type(given)}.")
        rates = list(given)
        for i, rate in enumerate(rates):
            number(0, ends="[)")(rate, self.cls_name, f"learning_rate[{i}]")
        return Tensor(np.array([float(rate) for rate in rates], np.float32))

    def get_lr(self) -> Any:
        """The rate of the present step: one, or with rates of groups one for each parameter."""
        if not self.dynamic_lr:
            return self.learning_rate
        step = ops.reshape(self.global_step, ())
        if self.is_group_lr:
            return tuple([rate(step) for rate in self.learning_rate])
        return ops.reshape(self.learning_rate(step), ())

    def get_lr_parameter(self, param: Any) -> Any:
        """The rate (Parameter or schedule) of a parameter, or of each of a list."""
        if isinstance(param, (list, tuple)):
            return [self.get_lr_parameter(p) for p in param]
        if not isinstance(param, Parameter):
            raise misuse("get_lr_parameter", "a Parameter is wanted", type(param), TypeError)
        for i, own in enumerate(self.parameters):
            if own is param:
                rate = self.learning_rate[i] if self.is_group_lr else self.learning_rate
                fixed = isinstance(rate, (_IteratorLearningRate, _ConvertToCell))
                return rate.learning_rate if fixed else rate
        raise misuse("get_lr_parameter", f"{param.name} is not one of the optimizer")

    # --- weight decay ---------------------------------------------------------------------------

    def _init_decay(self, weight_decay: Any, placed: Sequence[tuple[Parameter, _Group]]) -> None:
        default = self._decay(weight_decay)
        self.dynamic_weight_decay = isinstance(default, Cell) or any(
            isinstance(g.weight_decay, Cell) for _, g in placed)
        if not self.is_group:
            on = isinstance(default, Cell) or default > 0
            self.weight_decay: Any = default if isinstance(default, Cell) else \
                Tensor(default, float32)
            self.decay_flags = tuple(
                not any(kind in p.name for kind in ("beta", "gamma")) for p, _ in placed)
            self.exec_weight_decay = on and any(self.decay_flags)
            return
        each = [default if g.weight_decay is None else self._decay(g.weight_decay)
                for _, g in placed]
        object.__setattr__(self, "group_weight_decay", each)
        self.decay_flags = tuple(isinstance(d, Cell) or d > 0 for d in each)
        self.exec_weight_decay = any(self.decay_flags)
        if not self.dynamic_weight_decay:
            self.weight_decay = tuple(Tensor(d, float32) for d in each)
            return
        cells = [d if isinstance(d, Cell) else _ConvertToCell(Tensor(d, float32)) for d in each]
        self.weight_decay = CellList(cells, auto_prefix=False)

    def _decay(self, value: Any) -> Any:
        """A weight decay times the loss scale: the scaled gradients it is added to are divided."""
        scale = self.loss_scale if self._decay_is_scaled else 1.0
        if isinstance(value, Cell):
            return _WrappedWeightDecay(value, scale)
        if not isinstance(value, (int, float)):
            raise TypeError("For 'Optimizer', the argument 'Weight_decay' must be int, float or "
                            f"Cell, but got {type(value)}")
        return scale * number(0, ends="[)")(float(value), self.cls_name, "weight_decay")

    def get_weight_decay(self) -> Any:
        """The weight decay of the present step: one, or with groups one for each parameter.

        It is multiplied by the loss scale, as the gradients are that it is added to.
        """
        if not self.dynamic_weight_decay:
            return self.weight_decay
        if self.is_group:
            return tuple([decay(self.global_step) for decay in self.weight_decay])
        return self.weight_decay(self.global_step)

    def decay_of(self, decay: Any, i: int) -> Any:
        """The i-th parameter's share of `get_weight_decay`, without axes."""
        own = decay[i] if self.is_group else decay
        return ops.reshape(own, ()) if isinstance(own, Tensor) else own

    # --- gradients ------------------------------------------------------------------------------

    def decay_weight(self, gradients: Any) -> Any:
        """Gradients plus the weight decay times the parameters."""
        if not self.exec_weight_decay:
            return gradients
        decay = self.get_weight_decay()
        out = []
        for i in range(self.param_length):
            gradient = gradients[i]
            if self.decay_flags[i]:
                weight = self.own_part(i) * self.decay_of(decay, i)
                gradient = gradient + ops.cast(weight, gradient.dtype)
            out.append(gradient)
        return tuple(out)

    def gradients_centralization(self, gradients: Any) -> Any:
        """Gradients less their means over all axes but the first, where asked for."""
        if not any(self.grad_centralization_flags):
            return gradients
        out = []
        for i in range(self.param_length):
            gradient = gradients[i]
            if self.grad_centralization_flags[i] and gradient.ndim > 1:
                axes = tuple(range(1, gradient.ndim))
                gradient = gradient - ops.mean(gradient, axes, True)
            out.append(gradient)
        return tuple(out)

    def scale_grad(self, gradients: Any) -> Any:
        """Gradients over the loss scale."""
        if not self.need_scale:
            return gradients
        return tuple([ops.mul(g, self.reciprocal_scale) for g in gradients])

    def flatten_gradients(self, gradients: Any) -> Any:
        """The gradients as they are (there is no flattened memory to map them to)."""
        return gradients

    def prepared(self, gradients: Any) -> Any:
        """Gradients of what `own` gives, with weight decay, centralised and scaled."""
        gradients = self.decay_weight(self.own_gradients(gradients))
        gradients = self.gradients_centralization(gradients)
        return self.scale_grad(gradients)

    def next_rate(self) -> Any:
        """The rate of this step; the step is counted."""
        lr = self.get_lr()
        ops.assign_add(self.global_step, self.global_step_increase_tensor)
        return lr

    def rate_of(self, lr: Any, i: int) -> Any:
        """The rate of the i-th parameter, in the type of its step."""
        rate = lr[i] if self.is_group_lr else lr
        return ops.cast(rate, step_type(self.parameters[i]))

    def wide(self, i: int, *states: Any) -> list[Any]:
        """Values of the i-th parameter's step, in the type of the step."""
        kind = step_type(self.parameters[i])
        return [ops.cast(state, kind) for state in states]

    def done(self) -> tuple[bool, ...]:
        """Return an optimizer's result: True for each parameter."""
        return (True,) * self.param_length

    def construct(self, gradients: Any) -> Any:
        """Assign new values; to be given by each optimizer."""
        raise TypeError(f"the optimizer {type(self).__name__} gives no 'construct'")

    @property
    def unique(self) -> bool:
        """Whether sparse gradients are made unique; there are none, so it changes nothing."""
        return self._unique

    @unique.setter
    def unique(self, value: bool) -> None:
        BOOL(value, "Optimizer", "unique")
        self._unique = value

    @property
    def target(self) -> str:
        """Where the parameters are updated: "CPU", the only device.

        Raises:
            RuntimeError: set to a device this installation does not run on.
        """
        return self._target

    @target.setter
    def target(self, value: str) -> None:
        instance(str)(value, "Optimizer", "target")
        self._target = device("target", value)
