"""Callbacks of `Dataset.map`: what is called at the beginnings and ends of epochs and rows.

They are called by whoever asks for rows, in the order of the rows, whatever workers do meanwhile.

Source: `mindspore.dataset`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from cellc_runtime.records import dataclass

from ..core.declared import Positive, instance
from ..core.native import names_itself
from .rows import Run, failed

MOMENTS = ("ds_begin", "ds_epoch_begin", "ds_epoch_end", "ds_step_begin", "ds_step_end")


@dataclass(frozen=True)
class RunContext:
    """The position of a pipeline, for callbacks.

    Attributes:
        cur_epoch_num: the epoch, counted from 1; 0 before the first.
        cur_step_num_in_epoch: rows of this epoch that have reached `map`.
        cur_step_num: rows of all epochs.
    """

    cur_epoch_num: int = 0
    cur_step_num_in_epoch: int = 0
    cur_step_num: int = 0


@names_itself
class DSCallback:
    """Base of callbacks of `map`: override the methods of the moments that matter.

    Args:
        step_size: `ds_step_begin` and `ds_step_end` are called once in `step_size` rows.
    """

    waits: ClassVar[bool] = False
    """Whether a row must not be made before the step of the row before it has ended."""

    def __init__(self, step_size: Positive = 1) -> None:
        self.step_size = step_size

    def ds_begin(self, ds_run_context: RunContext) -> None:
        """Before the first epoch."""

    def ds_epoch_begin(self, ds_run_context: RunContext) -> None:
        """Before each epoch."""

    def ds_epoch_end(self, ds_run_context: RunContext) -> None:
        """After each epoch."""

    def ds_step_begin(self, ds_run_context: RunContext) -> None:
        """Before the functions of `map` get a row."""

    def ds_step_end(self, ds_run_context: RunContext) -> None:
        """After the functions of `map` have made a row."""

    def moments(self) -> dict[str, Callable[[RunContext], None]]:
        """The methods that are overridden, by name."""
        return {m: getattr(self, m) for m in MOMENTS
                if getattr(type(self), m) is not getattr(DSCallback, m)}


def checked(given: Any) -> tuple[DSCallback, ...]:
    """The callbacks that `map` was given: None, one, or a list of them."""
    many = [] if given is None else given if isinstance(given, (list, tuple)) else [given]
    for i, each in enumerate(many):
        name = f"callbacks[{i}]" if many is given else "callbacks"
        instance(DSCallback)(each, "Dataset.map", name)
        if not each.moments():
            raise AttributeError(f"{name}: {type(each).__name__} overrides none of the methods of "
                                 "its class, so it is never called.")
    return tuple(many)


class Told:
    """Tells callbacks of a `map` where an iterator is.

    Args:
        callbacks: whom.
    """

    def __init__(self, callbacks: Sequence[DSCallback]) -> None:
        self._callbacks = callbacks
        self._epoch: int | None = None
        self._now = RunContext()

    def begin(self, run: Run) -> None:
        """The rows are requested: a new epoch, unless these are repeated within one."""
        if self._epoch == run.epoch:
            return
        if self._epoch is None:
            self._tell("ds_begin", self._now)
        self._epoch = run.epoch
        self._now = RunContext(self._now.cur_epoch_num + 1, 0, self._now.cur_step_num)
        self._tell("ds_epoch_begin", self._now)
        run.at_end(lambda: self._tell("ds_epoch_end", self._now))

    def step_begin(self) -> RunContext:
        """Begin the step of a row; return the context for its `step_end`."""
        now = self._now
        self._now = RunContext(now.cur_epoch_num, now.cur_step_num_in_epoch + 1,
                               now.cur_step_num + 1)
        self._tell("ds_step_begin", self._now)
        return self._now

    def step_end(self, context: RunContext) -> None:
        """A row is made."""
        self._tell("ds_step_end", context)

    def _tell(self, moment: str, context: RunContext) -> None:
        for callback in self._callbacks:
            if "step" in moment and (context.cur_step_num_in_epoch - 1) % callback.step_size:
                continue
            method = callback.moments().get(moment)
            try:
                if method is not None:
                    method(context)
            except Exception as error:
                raise failed(f"map: callback {type(callback).__name__}.{moment}", error) from error
