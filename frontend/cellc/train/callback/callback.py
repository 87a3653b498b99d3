"""Callbacks: what `Model` calls while it trains and evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

STAGES = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")


class CallbackParams(dict[str, Any]):
    """What a run tells its callbacks: a dict whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"a callback asks for {name!r}; the run tells {', '.join(sorted(self))}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class RunContext:
    """What a run is at, and whether it shall stop.

    Args:
        original_args: what the run tells its callbacks.

    Raises:
        TypeError: no dict.

    Source: `mindspore.train.RunContext`.
    """

    def __init__(self, original_args: dict[str, Any]) -> None:
        if not isinstance(original_args, dict):
            raise TypeError(
                f"The argument 'original_args' must be of type dict, but got {type(original_args)}."
            )
        self._args = original_args
        self._stop = False

    def original_args(self) -> Any:
        """What the run tells its callbacks: a dict, with items as attributes."""
        return self._args

    def request_stop(self) -> None:
        """Stop after the present step."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        """Whether a callback has asked to stop."""
        return self._stop


class Callback:
    """Base of callbacks: override the methods of the moments that matter.

    `on_train_*` and `on_eval_*` call the older names (`begin`, `epoch_begin`, ...) unless they
    are overridden.

    Source: `mindspore.train.Callback`.
    """

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def begin(self, run_context: RunContext) -> None:
        """Before the first epoch."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Before each epoch."""

    def epoch_end(self, run_context: RunContext) -> None:
        """After each epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Before each step."""

    def step_end(self, run_context: RunContext) -> None:
        """After each step."""

    def end(self, run_context: RunContext) -> None:
        """After the last epoch."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Before the first epoch of a training."""
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Before each epoch of a training."""
        self.epoch_begin(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """After each epoch of a training, and its evaluation."""
        self.epoch_end(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Before each step of a training."""
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """After each step of a training."""
        self.step_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        """After the last epoch of a training."""
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        """Before an evaluation."""
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        """Before the pass of an evaluation over the data."""
        self.epoch_begin(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        """After the pass of an evaluation over the data."""
        self.epoch_end(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        """Before each step of an evaluation."""
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """After each step of an evaluation."""
        self.step_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        """After an evaluation."""
        self.end(run_context)


class Callbacks:
    """The callbacks of one run, entered and left as context managers.

    Args:
        given: a callback, a sequence of them, or None.

    Raises:
        TypeError: something else among them.
    """

    def __init__(self, given: Any) -> None:
        if given is None:
            many: Sequence[Any] = ()
        else:
            many = given if isinstance(given, (list, tuple)) else (given,)
        for each in many:
            if not isinstance(each, Callback):
                raise TypeError(
                    "When the 'callbacks' is a list, the elements in 'callbacks' must be Callback "
                    f"functions, but got {type(each)}."
                )
        self.all: list[Callback] = list(many)
        self._stack = ExitStack()

    def __enter__(self) -> Callbacks:
        self._stack = ExitStack()
        for each in self.all:
            self._stack.enter_context(each)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def call(self, moment: str, run_context: RunContext) -> None:
        """Call all of them, in order."""
        for each in self.all:
            getattr(each, moment)(run_context)

    def refuse_older_names(self) -> None:
        """A run that trains and evaluates needs to be told apart in callbacks of users.

        Raises:
            ValueError: a callback overrides older names only.
        """
        for each in self.all:
            if type(each).__module__.startswith("cellc."):
                continue
            older = {s for s in STAGES if getattr(type(each), s) is not getattr(Callback, s)}
            if older:
                raise ValueError(
                    f"For {type(each).__name__} callback, {older} methods may not be supported in "
                    "later version, Use methods prefixed with 'on_train' or 'on_eval' instead "
                    "when using customized callbacks."
                )
