"""WaitedDSCallback: a callback of `Dataset.map` that hears from the training loop.

Source: `mindspore.train`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from cellc_runtime.forks import renewed

from ...dataset import config
from ...dataset.callbacks import DSCallback
from ...dataset.callbacks import RunContext as Position
from .callback import Callback, RunContext


class WaitedDSCallback(Callback, DSCallback):
    """Base of callbacks that are given to `map` and to `Model.train`: before a row is made, the
    step of the row before it has ended, and what came of it is known.

    Override `sync_epoch_begin` or `sync_step_begin`; both are first called for the second epoch or
    step. Rows are then made one by one, when they are requested, whatever workers there are.

    Args:
        step_size: rows of a step: as many as a batch after the `map` has.

    Raises:
        RuntimeError: (when rows are requested) the step before does not end within
            `config.get_callback_timeout` seconds: this callback was not given to `Model.train`.
    """

    waits: ClassVar[bool] = True

    def __init__(self, step_size: int = 1) -> None:
        DSCallback.__init__(self, step_size)
        self.step_event, self.epoch_event = renewed(threading.Event()), renewed(threading.Event())
        self.step_run_context: RunContext | None = None
        self.epoch_run_context: RunContext | None = None
        self.training_ended = False

    def sync_epoch_begin(self, train_run_context: Any, ds_run_context: Position) -> None:
        """Before an epoch of the pipeline, after the training's epoch before it."""

    def sync_step_begin(self, train_run_context: Any, ds_run_context: Position) -> None:
        """Before the first row of a step, after the training's step before it."""

    def epoch_end(self, run_context: RunContext) -> None:
        """Of the training: the pipeline may go on."""
        self.epoch_run_context = run_context
        self.epoch_event.set()

    def step_end(self, run_context: RunContext) -> None:
        """Of the training: the pipeline may go on."""
        self.step_run_context = run_context
        self.step_event.set()

    def end(self, run_context: RunContext) -> None:
        """Of the training: nothing waits any more."""
        self.epoch_end(run_context)
        self.step_end(run_context)
        self.training_ended = True

    def ds_epoch_begin(self, ds_run_context: Position) -> None:
        """Of the pipeline: wait for the training's epoch."""
        if ds_run_context.cur_epoch_num > 1:
            self._wait(self.epoch_event, "ds_epoch_begin")
            self.sync_epoch_begin(self.epoch_run_context, ds_run_context)

    def ds_step_begin(self, ds_run_context: Position) -> None:
        """Of the pipeline: wait for the training's step."""
        if ds_run_context.cur_step_num > self.step_size:
            self._wait(self.step_event, "ds_step_begin")
            self.sync_step_begin(self.step_run_context, ds_run_context)

    def _wait(self, event: threading.Event, what: str) -> None:
        if self.training_ended:
            return
        patience = config.get_callback_timeout()
        if not event.wait(patience):
            raise RuntimeError(
                f"{what} timed out after {patience} second(s): {type(self).__name__} did not "
                "learn of the end of the training's step. Give it to 'Model.train' too, and "
                "let its step_size be the rows of a batch.")
        event.clear()

    def moments(self) -> dict[str, Callable[[Position], None]]:
        """The methods that `map` calls, by name: those whose `sync_` method is overridden."""
        found = {"ds_epoch_begin": "sync_epoch_begin", "ds_step_begin": "sync_step_begin"}
        return {moment: getattr(self, moment) for moment, own in found.items()
                if getattr(type(self), own) is not getattr(WaitedDSCallback, own)}
