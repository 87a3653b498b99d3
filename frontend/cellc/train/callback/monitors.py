"""Callbacks that watch a run: LossMonitor, TimeMonitor, History, LambdaCallback, ProgressBar.

Source: `mindspore.train`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from cellc_runtime.lazy import lazy_imports

from ...core.declared import Flag, NonNegative
from ...core.output import drop_output, say
from ...tensors.tensor import Tensor
from .callback import Callback, RunContext

with lazy_imports(__name__):  # it takes a while to load, and is of use only where a bar is shown
    from rich import console as consoles
    from rich import progress as bars


def loss_of(outputs: Any) -> Any:
    """The loss among what a training step gave: the first, as a number."""
    first = outputs
    if isinstance(first, (tuple, list)):
        first = first[0] if first else None
    if isinstance(first, Tensor):
        array = first.asnumpy()
        return float(array.mean()) if array.size else None
    return float(first) if isinstance(first, (int, float, np.number)) else None


class LossMonitor(Callback):
    """Prints the loss, and in `Model.fit` the metrics; ends a training whose loss is NaN or inf.

    Args:
        per_print_times: every how many steps the loss is printed; 0 for never.

    Raises:
        ValueError: the loss is NaN or infinite.
    """

    def __init__(self, per_print_times: NonNegative = 1) -> None:
        self._every = per_print_times
        self._last = 0

    def step_end(self, run_context: RunContext) -> None:
        """Print the loss.

        Raises:
            ValueError: the loss is NaN or infinite.
        """
        params = run_context.original_args()
        if params.get("mode") == "eval":
            return
        loss = loss_of(params.net_outputs)
        size = params.get("batch_num")
        step = params.cur_step_num
        within = (step - 1) % size + 1 if size else params.get("step_in_epoch", step)
        epoch = params.cur_epoch_num
        if loss is not None and not np.isfinite(loss):
            raise ValueError(f"In epoch: {epoch} step: {within}, loss is NAN or INF, training "
                             "process cannot continue, terminating training.")
        if step < self._last:  # another training
            self._last = 0
        if self._every and step - self._last >= self._every:
            self._last = step
            say(f"epoch: {epoch} step: {within}, loss is {loss}")

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the metrics, if there was an evaluation."""
        params = run_context.original_args()
        results = params.get("eval_results")
        if results:
            epoch = params.cur_epoch_num
            say(f"Eval result: epoch {epoch}, metrics: {dict(results)}")


class TimeMonitor(Callback):
    """Prints how long each epoch took.

    Args:
        data_size: steps of an epoch, if the data do not tell.
        data_time: whether the time the data took is printed too.

    Raises:
        ValueError: `data_size` is no positive int; or the number of steps is not known.
    """

    def __init__(self, data_size: int | None = None, data_time: Flag = False) -> None:
        self.data_size, self._data_time = data_size, data_time
        self._epoch = self._step_ended = time.perf_counter()
        self._waited = 0.0

    def epoch_begin(self, run_context: RunContext) -> None:
        """Start the clock."""
        self._epoch = self._step_ended = time.perf_counter()
        self._waited = 0.0

    def step_begin(self, run_context: RunContext) -> None:
        """The batch has come."""
        self._waited += time.perf_counter() - self._step_ended

    def step_end(self, run_context: RunContext) -> None:
        """The step is over."""
        self._step_ended = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        """Print the time.

        Raises:
            ValueError: the number of steps is not known.
        """
        took = (time.perf_counter() - self._epoch) * 1000
        params = run_context.original_args()
        steps = params.get("batch_num") or self.data_size
        if type(steps) is not int or steps < 1:
            raise ValueError("For 'TimeMonitor', 'data_size' must be a positive int where the data "
                             f"do not tell the number of steps, but got {steps}.")
        mode = str(params.get("mode", "")).title()
        waited = f" (data time: {self._waited * 1000:.3f} ms)" if self._data_time else ""
        say(f"{mode} epoch time: {took:.3f} ms, per step time: {took / steps:.3f} ms{waited}")


class History(Callback):
    """Records what the network gave and the metrics of each epoch.

    Attributes:
        epoch: `{"epoch": [...]}`, the epochs.
        history: `{"net_output": [...], metric: [...]}`.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[Any]] = {}
        self.epoch: dict[str, list[int]] | None = None

    def begin(self, run_context: RunContext) -> None:
        """Start a record."""
        if run_context.original_args().get("mode") != "eval":
            self.epoch = {"epoch": []}

    def epoch_end(self, run_context: RunContext) -> None:
        """Record the epoch."""
        params = run_context.original_args()
        if params.get("mode") == "eval":
            return
        if self.epoch is None:
            self.epoch = {"epoch": []}
        self.epoch["epoch"].append(params.get("cur_epoch_num", 1))
        outputs = params.get("net_outputs")
        if isinstance(outputs, Tensor):
            array = outputs.asnumpy()
            outputs = array[()] if array.ndim == 0 else array.copy()
        self.history.setdefault("net_output", []).append(outputs)
        for name, value in (params.get("eval_results") or {}).items():
            self.history.setdefault(name, []).append(value)


Hook = Callable[[RunContext], Any]


class LambdaCallback(Callback):
    """A callback of functions.

    Args:
        on_train_epoch_begin, on_train_epoch_end, on_train_step_begin, on_train_step_end,
            on_train_begin, on_train_end, on_eval_epoch_begin, on_eval_epoch_end,
            on_eval_step_begin, on_eval_step_end, on_eval_begin, on_eval_end: called with the
            `RunContext`, if given.
    """

    def __init__(
        self, on_train_epoch_begin: Hook | None = None, on_train_epoch_end: Hook | None = None,
        on_train_step_begin: Hook | None = None, on_train_step_end: Hook | None = None,
        on_train_begin: Hook | None = None, on_train_end: Hook | None = None,
        on_eval_epoch_begin: Hook | None = None, on_eval_epoch_end: Hook | None = None,
        on_eval_step_begin: Hook | None = None, on_eval_step_end: Hook | None = None,
        on_eval_begin: Hook | None = None, on_eval_end: Hook | None = None,
    ) -> None:
        given = {k: v for k, v in locals().items() if k.startswith("on_")}
        for name, hook in given.items():
            setattr(self, name, hook or _nothing)


def _nothing(run_context: RunContext) -> None:
    return None


def _console() -> consoles.Console:
    """A console that goes on without output where nobody reads it any more: rich's ends the
    process."""
    class Output(consoles.Console):
        def on_broken_pipe(self) -> None:
            drop_output()

    # Without ipywidgets a notebook would show warnings and no bar.
    return Output(force_jupyter=None if find_spec("ipywidgets") else False)


class ProgressBar(Callback):
    """A bar of the epoch's steps with the loss, on a terminal and in a notebook with ipywidgets;
    elsewhere a line per epoch.

    Not in MindSpore.
    """

    def __init__(self) -> None:
        self._bar: bars.Progress | None = None
        self._task: Any = None

    def __exit__(self, *error: Any) -> None:
        self._close()

    def epoch_begin(self, run_context: RunContext) -> None:
        """Start the bar."""
        params = run_context.original_args()
        self._close()
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(), bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[loss]}"),
            console=_console(),
        )
        mode = params.get("mode", "train")
        name = f"epoch {params.cur_epoch_num}" if mode == "train" else "eval"
        self._task = self._bar.add_task(name, total=params.get("batch_num"), loss="")
        self._bar.start()

    def step_end(self, run_context: RunContext) -> None:
        """One step further."""
        params = run_context.original_args()
        if self._bar is not None:
            loss = loss_of(params.net_outputs) if params.get("mode") == "train" else None
            self._bar.update(self._task, advance=1,
                             loss=f"loss {loss:.4g}" if loss is not None else "")

    def epoch_end(self, run_context: RunContext) -> None:
        """The bar stays, and the metrics follow."""
        self._close()
        results = run_context.original_args().get("eval_results")
        if results:
            say("  " + ", ".join(f"{k} {v:.4g}" if np.ndim(v) == 0 else f"{k} {v}"
                                 for k, v in results.items()))

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
