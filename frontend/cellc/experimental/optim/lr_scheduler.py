"""Schedulers: they assign new rates to the groups of an experimental optimizer.

Each follows `mindspore.experimental.optim.lr_scheduler`. A scheduler is stepped by the training
loop, outside of graphs; the optimizer's graph reads the rate from a Parameter, so nothing is
compiled again.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from cellc_runtime.lazy import public_names

from ...core.declared import (
    INT,
    NUMBER,
    POSITIVE,
    Float,
    Int,
    Number,
    PlainNumber,
    Positive,
    Share,
    instance,
    integer,
    is_number,
    misuse,
    number,
    one_of,
)
from ...core.native import names_itself
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .optimizer import Optimizer

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]
__dir__ = public_names(__name__)
Count = Annotated[int, POSITIVE.always(ValueError)]


def _rates(optimizer: Optimizer) -> list[float]:
    """The present rates of the groups."""
    return [_number(group["lr"]) for group in optimizer.param_groups]


def _present(optimizer: Optimizer) -> list[Tensor]:
    return [Tensor(np.float32(rate)) for rate in _rates(optimizer)]


def _number(value: Any) -> float:
    return float(value.asnumpy()) if isinstance(value, Tensor) else float(value)


def _assign(optimizer: Optimizer, values: Sequence[Any]) -> list[Tensor]:
    """Assign rates to the groups; they as Tensors."""
    made = []
    for group, value in zip(optimizer.param_groups, values, strict=True):
        rate = Tensor(np.float32(_number(value)))
        made.append(rate)
        if isinstance(group["lr"], Parameter):
            group["lr"].set_data(rate)
        else:
            group["lr"] = float(rate.asnumpy())
    return made


def _optimizer(value: Any) -> Optimizer:
    if not isinstance(value, Optimizer):
        raise TypeError(f"{type(value).__name__} is not an Optimizer of `experimental.optim`, "
                        "which a learning rate scheduler needs.")
    return value


def _per_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """A value for each group, from one for all or a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"Expected {count} values of {name}, one for each group, but got "
                         f"{len(value)}.")
    return list(value)


class _Assigning:
    """Base of schedulers: it remembers the rates that were assigned last."""

    _last_lr: list[Tensor]

    def get_last_lr(self) -> list[Tensor]:
        """The rates that were assigned last."""
        return list(self._last_lr)


@names_itself
class LRScheduler(_Assigning):
    """Base of schedulers: `get_lr` gives the groups' rates at `last_epoch`.

    Args:
        optimizer: an Optimizer of `experimental.optim`.
        last_epoch: steps done before; -1 to begin.

    Attributes:
        base_lrs: the groups' rates at the beginning.
        last_epoch: how often `step` was called.

    Raises:
        KeyError: a scheduler that continues with an optimizer that none has worked on.
    """

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        self.optimizer = _optimizer(optimizer)
        self.last_epoch: int = integer(-1)(last_epoch, type(self).__name__, "last_epoch")
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", Tensor(np.float32(_number(group["lr"]))))
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when "
                               "resuming an optimizer")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.groups_num = len(optimizer.param_groups)
        self._last_lr = _present(optimizer)
        self.step()

    def _base(self) -> list[float]:
        return [_number(rate) for rate in self.base_lrs]

    def get_lr(self) -> list[Any]:
        """The rates of the groups; to be given by each scheduler."""
        raise TypeError(f"the scheduler {type(self).__name__} gives no 'get_lr'")

    def step(self, epoch: int | None = None) -> bool:
        """Go on to the next epoch, or to a given one, and assign its rates; True."""
        self._last_lr = _present(self.optimizer)
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = INT(epoch, type(self).__name__, "epoch")
            rates = self._direct()
        self._last_lr = _assign(self.optimizer, rates)
        return True

    def _direct(self) -> list[Any]:
        """The rates at `last_epoch`, whatever the present ones are, where there is a formula."""
        return self.get_lr()

    def _times(self, factor: float) -> list[float]:
        """The present rates times a factor."""
        return [_number(rate) * factor for rate in self._last_lr]


class _Factors(LRScheduler):
    """Schedulers that multiply rates by factors, which differ from one epoch to the next."""

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        return self._times(self._ratio(self.last_epoch))

    def _ratio(self, epoch: int) -> float:
        """The factor of an epoch over that of the epoch before."""
        return 1.0

    def _factor(self, epoch: int) -> float:
        """The factor of an epoch, of the first rates."""
        return 1.0

    def _direct(self) -> list[Any]:
        factor = self._factor(self.last_epoch)
        return [rate * factor for rate in self._base()]


class StepLR(_Factors):
    """Rates times `gamma` every `step_size` epochs."""

    def __init__(
        self, optimizer: Any, step_size: Positive, gamma: Float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self, epoch: int) -> float:
        return self.gamma if epoch > 0 and epoch % self.step_size == 0 else 1.0

    def _factor(self, epoch: int) -> float:
        return float(self.gamma ** (epoch // self.step_size))


class LinearLR(_Factors):
    """Rates times a factor that goes from `start_factor` to `end_factor` in `total_iters`."""

    def __init__(
        self, optimizer: Any, start_factor: Annotated[float, number(0, 1, "(]")] = 1.0 / 3,
        end_factor: Share = 1.0, total_iters: Int = 5, last_epoch: int = -1,
    ) -> None:
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        part = min(epoch, self.total_iters) / self.total_iters if self.total_iters else 1.0
        return self.start_factor + (self.end_factor - self.start_factor) * part

    def _ratio(self, epoch: int) -> float:
        if epoch == 0 or epoch > self.total_iters:
            return self.start_factor if epoch == 0 else 1.0
        return self._factor(epoch) / self._factor(epoch - 1)


class ExponentialLR(_Factors):
    """Rates times `gamma` every epoch."""

    def __init__(self, optimizer: Any, gamma: Float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self, epoch: int) -> float:
        return self.gamma if epoch > 0 else 1.0

    def _factor(self, epoch: int) -> float:
        return float(self.gamma**epoch)


class PolynomialLR(_Factors):
    """Rates times (1 - epoch / total_iters)**power; 0 after `total_iters` epochs."""

    def __init__(
        self, optimizer: Any, total_iters: Int = 5, power: Float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _ratio(self, epoch: int) -> float:
        if epoch == 0 or epoch > self.total_iters:
            return 1.0
        rest = (1.0 - epoch / self.total_iters) / (1.0 - (epoch - 1) / self.total_iters)
        return float(rest**self.power)

    def _factor(self, epoch: int) -> float:
        part = min(epoch, self.total_iters) / self.total_iters
        return float((1.0 - part) ** self.power)


class ConstantLR(_Factors):
    """Rates times `factor` until epoch `total_iters`."""

    def __init__(
        self, optimizer: Any, factor: Share = 1.0 / 3, total_iters: Int = 5, last_epoch: int = -1
    ) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        if self.factor == 0.0 and self.last_epoch == self.total_iters > 0:
            return self._base()
        return super().get_lr()

    def _ratio(self, epoch: int) -> float:
        if epoch == 0:
            return self.factor
        return 1.0 / self.factor if epoch == self.total_iters else 1.0

    def _factor(self, epoch: int) -> float:
        return self.factor if epoch < self.total_iters else 1.0


class MultiStepLR(_Factors):
    """Rates times `gamma` at each of the milestones."""

    def __init__(
        self, optimizer: Any, milestones: Annotated[list[int], instance(list)],
        gamma: Number = 0.1, last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(INT(m, "MultiStepLR", "milestones") for m in milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self, epoch: int) -> float:
        return float(self.gamma ** self.milestones[epoch])

    def _factor(self, epoch: int) -> float:
        return float(self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch))


class _ByFunctions(LRScheduler):
    """Factors from a function of the epoch, or from a list of one for each group."""

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas = _per_group(lr_lambda, _optimizer(optimizer), "lr_lambda")
        for function in self.lr_lambdas:
            if not callable(function):
                raise misuse(type(self).__name__, "'lr_lambda' must be functions of the epoch",
                             type(function).__name__, TypeError)
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        return [_number(function(self.last_epoch)) for function in self.lr_lambdas]


class LambdaLR(_ByFunctions):
    """The first rates times a function of the epoch."""

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        return [rate * f for rate, f in zip(self._base(), self._factors(), strict=True)]


class MultiplicativeLR(_ByFunctions):
    """The present rates times a function of the epoch."""

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        if self.last_epoch <= 0:
            return self._times(1.0)
        return [_number(r) * f for r, f in zip(self._last_lr, self._factors(), strict=True)]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rates to `eta_min` in `T_max` epochs, and back."""

    def __init__(
        self, optimizer: Any, T_max: Positive, eta_min: PlainNumber = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _wave(self, epoch: int) -> float:
        return 1.0 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        if self.last_epoch == 0:
            return self._times(1.0)
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # just past the lowest
            rise = (1.0 - math.cos(math.pi / self.T_max)) / 2.0
            return [now + (base - self.eta_min) * rise for now, base in
                    zip(map(_number, self._last_lr), self._base(), strict=True)]
        ratio = self._wave(self.last_epoch) / self._wave(self.last_epoch - 1)
        return [self.eta_min + (_number(now) - self.eta_min) * ratio for now in self._last_lr]

    def _direct(self) -> list[Any]:
        wave = self._wave(self.last_epoch) / 2.0
        return [self.eta_min + (rate - self.eta_min) * wave for rate in self._base()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first rates to `eta_min`, again and again (SGDR).

    The first takes `T_0` epochs, each next one `T_mult` times as many.
    """

    def __init__(
        self, optimizer: Any, T_0: Count, T_mult: Count = 1, eta_min: Number = 0,
        last_epoch: int = -1,
    ) -> None:
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        wave = (1.0 + math.cos(math.pi * self.T_cur / self.T_i)) / 2.0
        return [self.eta_min + (rate - self.eta_min) * wave for rate in self._base()]

    def step(  # type: ignore[override]  # MindSpore's gives None here, True elsewhere
        self, epoch: float | None = None
    ) -> None:
        """Go on to the next epoch, or to a given one (parts of epochs too)."""
        if epoch is None:
            epoch = max(self.last_epoch + 1, 0)
        elif not is_number(epoch) or epoch < 0:
            raise ValueError(f"The epoch must be a number of 0 or more, but got {epoch!r}.")
        start, length = 0, self.T_0
        while epoch >= start + length:
            start, length = start + length, length * self.T_mult
        self.T_cur, self.T_i = epoch - start, length
        self.last_epoch = math.floor(epoch)
        self._last_lr = _assign(self.optimizer, self.get_lr())


class CyclicLR(LRScheduler):
    """Rates that go from `base_lr` to `max_lr` and back, again and again (Smith, 2017).

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        base_lr, max_lr: one for all groups, or a list of one for each.
        step_size_up, step_size_down: steps of either half; None: as many down as up.
        mode: "triangular", "triangular2" (half as high each cycle) or "exp_range" (gamma**steps).
        gamma: for "exp_range".
        scale_fn: a function instead of a mode, of what `scale_mode` says.
        scale_mode: "cycle" or "iterations".
    """

    def __init__(
        self, optimizer: Any, base_lr: Any, max_lr: Any, step_size_up: Positive = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[Any], Any] | None = None, scale_mode: str = "cycle",
        last_epoch: int = -1,
    ) -> None:
        what = "CyclicLR"
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError("mode is invalid and scale_fn is None: it must be 'triangular', "
                             f"'triangular2' or 'exp_range', but got {mode!r}")
        own = _optimizer(optimizer)
        low = [NUMBER(v, what, "base_lr") for v in _per_group(base_lr, own, "base_lr")]
        self.max_lrs = [NUMBER(v, what, "max_lr") for v in _per_group(max_lr, own, "max_lr")]
        up = step_size_up
        down = up if step_size_down is None else POSITIVE(step_size_down, what, "step_size_down")
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn, self.scale_mode = scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        if last_epoch == -1:
            _assign(own, low)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = [Tensor(np.float32(v)) for v in low]

    def _scale(self, cycle: int) -> float:
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        if self._scale_fn is not None:
            return _number(self._scale_fn(at))
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (at - 1) if self.mode == "triangular2" else self.gamma**at

    def get_lr(self) -> list[Any]:
        """The rates of the groups."""
        cycle = self.last_epoch // self.total_size + 1
        part = self.last_epoch / self.total_size - (cycle - 1)
        height = part / self.step_ratio if part <= self.step_ratio \
            else (1.0 - part) / (1.0 - self.step_ratio)
        scale = height * self._scale(cycle)
        return [low + (high - low) * scale
                for low, high in zip(self._base(), self.max_lrs, strict=True)]


@names_itself
class SequentialLR(_Assigning):
    """Schedulers one after the other, each from its milestone on.

    Args:
        optimizer: the optimizer of all schedulers.
        schedulers: a list of them.
        milestones: the epochs at which each next one takes over.
        last_epoch: as in `LRScheduler`.
    """

    def __init__(
        self, optimizer: Any, schedulers: list[Any], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self.optimizer = _optimizer(optimizer)
        for i, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not optimizer:
                raise ValueError("Sequential Schedulers expects all schedulers to belong to the "
                                 f"same optimizer, but got scheduler at index {i} is different "
                                 "from the optimizer passed in.")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be "
                             "one more than the number of milestone points, but got number of "
                             f"schedulers {len(schedulers)} and the number of milestones "
                             f"{len(milestones)}")
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        # Making the schedulers has stepped each of them: begin again with the first alone.
        _assign(self.optimizer, [group["initial_lr"] for group in self.optimizer.param_groups])
        for scheduler in self.schedulers:
            scheduler.last_epoch -= 1
        self.schedulers[0].step()
        self._last_lr = self.schedulers[0].get_last_lr()

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        at = bisect_right(self.milestones, self.last_epoch)
        scheduler = self.schedulers[at]
        if at > 0 and self.milestones[at - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


@names_itself
class ReduceLROnPlateau(_Assigning):
    """Rates times `factor` when a metric has not become better for `patience` epochs.

    Args:
        optimizer: an Optimizer of `experimental.optim`.
        mode: "min" if less is better, else "max".
        factor: below 1.
        patience: epochs without improvement that are put up with.
        threshold: by how much better counts.
        threshold_mode: "rel" (a part of the best) or "abs".
        cooldown: epochs to wait after a change.
        min_lr: lowest rate, one for all groups or a list.
        eps: smaller changes of a rate are left out.
    """

    def __init__(
        self, optimizer: Any, mode: Annotated[str, one_of("min", "max")] = "min",
        factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: Annotated[str, one_of("rel", "abs")] = "rel", cooldown: int = 0,
        min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:
        if not factor < 1.0:
            raise ValueError(f"The lr factor should be less than 1.0, but got {factor}.")
        self.optimizer = _optimizer(optimizer)
        self.factor, self.mode, self.patience = factor, mode, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.cooldown_counter, self.eps = cooldown, 0, eps
        self.min_lrs = [_number(v) for v in _per_group(min_lr, optimizer, "min_lr")]
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.best = self.mode_worse
        self.wait = 0
        self.last_epoch = 0
        self._last_lr = _present(optimizer)

    @property
    def in_cooldown(self) -> bool:
        """Whether a change was less than `cooldown` epochs ago."""
        return self.cooldown_counter > 0

    def _is_improvement(self, value: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            bound = self.best * (1.0 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return value < bound if self.mode == "min" else value > bound

    def step(self, metrics: Any) -> bool:
        """Take in the metric of an epoch; True."""
        value = _number(metrics)
        self.last_epoch += 1
        if self._is_improvement(value):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.wait > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.wait = 0
        self._last_lr = _present(self.optimizer)
        return True

    def _reduce_lr(self) -> None:
        rates = []
        for rate, low in zip(_rates(self.optimizer), self.min_lrs, strict=True):
            less = max(rate * self.factor, low)
            rates.append(less if rate - less > self.eps else rate)
        _assign(self.optimizer, rates)
