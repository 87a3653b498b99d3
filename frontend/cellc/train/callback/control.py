"""Callbacks that steer a training: EarlyStopping, ReduceLROnPlateau, LearningRateScheduler.

Source: `mindspore.train`.
"""

from __future__ import annotations

import copy
import logging
from typing import Annotated, Any

import numpy as np

from ...core.declared import (
    Flag,
    Function,
    NonNegative,
    PlainNumber,
    instance,
    number,
    one_of,
)
from ...core.output import say
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .callback import Callback, RunContext
from .monitors import loss_of

log = logging.getLogger("cellc")

_LARGER_IS_BETTER = (
    "acc", "accuracy", "precision", "recall", "F1", "fbeta", "auc", "dice", "roc", "topk",
    "top_1_accuracy", "top_5_accuracy", "bleu_score", "cosine_similarity",
)


Text = Annotated[str, instance(str)]
Mode = Annotated[str, one_of("auto", "min", "max")]
Baseline = Annotated[float, number(normal=lambda value: value, bools=True)]
Factor = Annotated[float, number(0, 1, "[)", whole=False, normal=lambda value: value)]
Least = Annotated[float, number(0, normal=lambda value: value, bools=True)]


class _Watching(Callback):
    """Base of callbacks that compare a value with the best so far.

    Args:
        monitor: "loss" (of the last step), "eval_loss", or the name of a metric of `Model.fit`.
        mode: "min", "max", or "auto" by the name of the metric.
        min_delta: by how much a value must be better.
    """

    def __init__(self, monitor: str, mode: str, min_delta: float, patience: int,
                 verbose: bool) -> None:
        self.monitor, self.mode, self.verbose = monitor, mode, verbose
        self.min_delta, self.patience = abs(min_delta), patience
        self._up = mode == "max" or (mode == "auto" and monitor in _LARGER_IS_BETTER)
        self._restart()

    def _restart(self) -> None:
        """Nothing is known yet."""
        self.best = -np.inf if self._up else np.inf
        self.wait = 0

    def _better(self, value: float, than: float) -> bool:
        return value - self.min_delta > than if self._up else value + self.min_delta < than

    def _value(self, run_context: RunContext) -> float | None:
        """The watched value; None (with a warning) if this run has none."""
        params = run_context.original_args()
        if self.monitor == "loss":
            loss: float | None = loss_of(params.get("net_outputs"))
            return loss
        results = params.get("eval_results") or {}
        name = "loss" if self.monitor == "eval_loss" and "loss" in results else self.monitor
        value = results.get(name)
        if value is None:
            if results:
                log.warning("%s watches %r, which is not among the metrics: %s",
                            type(self).__name__, self.monitor, ", ".join(results))
            return None
        array = np.asarray(value)
        if array.size != 1:
            raise ValueError(f"For '{type(self).__name__}', the watched metric {self.monitor!r} "
                             f"must be one number, but has shape {array.shape}.")
        return float(array.reshape(()))


class EarlyStopping(_Watching):
    """Ends a training that does not get better.

    Args:
        monitor: what is watched: "loss", "eval_loss" or the name of a metric.
        min_delta: by how much it must get better to count.
        patience: after how many epochs without getting better the training ends.
        verbose: whether the end is printed.
        mode: "min", "max", or "auto" by the name of the metric.
        baseline: from where on a value counts as better.
        restore_best_weights: whether the parameters of the best epoch are put back.
    """

    def __init__(
        self, monitor: Text = "eval_loss", min_delta: PlainNumber = 0, patience: NonNegative = 0,
        verbose: Flag = False, mode: Mode = "auto", baseline: Baseline | None = None,
        restore_best_weights: Flag = False,
    ) -> None:
        super().__init__(monitor, mode, min_delta, patience, verbose)
        self.baseline, self.restore_best_weights = baseline, restore_best_weights
        self.stopped_epoch = 0
        self._weights: list[tuple[Parameter, Tensor]] | None = None

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget earlier trainings."""
        self._restart()
        self.stopped_epoch = 0
        self._weights = None

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare, and stop if it is enough."""
        value = self._value(run_context)
        if value is None:
            return
        params = run_context.original_args()
        self.wait += 1
        if self._better(value, self.best):
            self.best = value
            if self.restore_best_weights:
                self._weights = [(p, Tensor(p.asnumpy().copy()))
                                 for p in params.train_network.get_parameters()]
            if self.baseline is None or self._better(value, self.baseline):
                self.wait = 0
        if self.wait >= self.patience and self.wait > 0:
            self.stopped_epoch = params.cur_epoch_num
            run_context.request_stop()
            if self.restore_best_weights and self._weights is not None:
                if self.verbose:
                    say("Restoring model weights from the end of the best epoch.")
                for parameter, weight in self._weights:
                    parameter.set_data(weight)

    def on_train_end(self, run_context: RunContext) -> None:
        """Say that it was ended."""
        if self.stopped_epoch > 0 and self.verbose:
            say(f"Epoch {self.stopped_epoch:05d}: early stopping")


class ReduceLROnPlateau(_Watching):
    """Lowers the learning rate when a value does not get better.

    Args:
        monitor: what is watched: "loss", "eval_loss" or the name of a metric.
        factor: by what the learning rate is multiplied, below 1.
        patience: after how many epochs without getting better.
        verbose: whether each change is printed.
        mode: "min", "max", or "auto" by the name of the metric.
        min_delta: by how much it must get better to count.
        cooldown: epochs after a change in which nothing is counted.
        min_lr: what the learning rate does not go below.
    """

    def __init__(
        self, monitor: Text = "eval_loss", factor: Factor = 0.1, patience: NonNegative = 10,
        verbose: Flag = False, mode: Mode = "auto", min_delta: PlainNumber = 1e-4,
        cooldown: NonNegative = 0, min_lr: Least = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta, patience, verbose)
        self.factor, self.min_lr = factor, min_lr
        self.cooldown, self.cooldown_counter = cooldown, 0

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget earlier trainings."""
        self._restart()
        self.cooldown_counter = 0

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare, and lower the learning rate if it is enough."""
        value = self._value(run_context)
        if value is None:
            return
        params = run_context.original_args()
        rate = learning_rate_of(params.get("optimizer"), type(self).__name__)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self._better(value, self.best):
            self.best, self.wait = value, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            old, least = np.float32(rate.asnumpy()), np.float32(self.min_lr)
            if self.wait >= self.patience and old > least:
                new = max(old * np.float32(self.factor), least)
                rate.set_data(Tensor(new))
                if self.verbose:
                    say(f"Epoch {params.cur_epoch_num:05d}: ReduceLROnPlateau reducing learning "
                        f"rate to {new!s}.")
                self.cooldown_counter, self.wait = self.cooldown, 0


class LearningRateScheduler(Callback):
    """Sets the learning rate after each step to what a function gives.

    Args:
        learning_rate_function: called with the learning rate and the number of the step; the
            new learning rate.

    Raises:
        ValueError: the learning rate is no single Parameter.
    """

    def __init__(self, learning_rate_function: Function) -> None:
        self.learning_rate_function = learning_rate_function

    def step_end(self, run_context: RunContext) -> None:
        """Set the learning rate."""
        params = run_context.original_args()
        if params.get("mode") == "eval":
            return
        rate = learning_rate_of(params.get("optimizer"), "LearningRateScheduler")
        old = float(rate.asnumpy())
        new = self.learning_rate_function(copy.copy(old), params.cur_step_num)
        if new != old:
            rate.set_data(Tensor(np.float32(new)))


def learning_rate_of(optimizer: Any, who: str) -> Parameter:
    """The learning rate of an optimizer."""
    rate = getattr(optimizer, "learning_rate", None)
    if not isinstance(rate, Parameter) or rate.shape not in ((), (1,)):
        raise ValueError(f"For '{who}', the optimizer must have one learning rate; this one has a "
                         "schedule, several groups with rates of their own, or is not known to the "
                         "Model.")
    return rate
