"""Callbacks: what `Model` calls while it trains and evaluates. Source: `mindspore.train`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any

import numpy as np

from ...core.declared import instance
from ...core.native import names_itself
from ...tensors.tensor import Tensor

STAGES = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")


class CallbackParams(dict[str, Any]):
    """A run's data for its callbacks: a dict whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a callback asks for {name!r}; the run tells "
                                 f"{', '.join(sorted(self))}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


@names_itself
class RunContext:
    """The state of a run, and whether it shall stop.

    Args:
        original_args: what the run tells its callbacks.
    """

    def __init__(self, original_args: Annotated[dict[str, Any], instance(dict)]) -> None:
        self._args = original_args
        self._stop = False

    def original_args(self) -> Any:
        """The run's data for its callbacks: a dict, with items as attributes."""
        return self._args

    def request_stop(self) -> None:
        """Stop after the present step."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        """Whether a callback has asked to stop."""
        return self._stop


def _moment(name: str, doc: str) -> Callable[[Any, RunContext], None]:
    """A method of `Callback` that calls the one of the older name, without the first two words."""
    older = name.split("_", 2)[2]

    def moment(self: Any, run_context: RunContext) -> None:
        getattr(self, older)(run_context)

    del moment.__annotations__["self"]  # a method shows none
    moment.__name__, moment.__qualname__, moment.__doc__ = name, f"Callback.{name}", doc
    return moment


@names_itself
class Callback:
    """Base of callbacks: override the methods of the moments that matter.

    `on_train_*` and `on_eval_*` call the older names (`begin`, `epoch_begin`, ...) unless they
    are overridden.
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

    on_train_begin = _moment("on_train_begin", "Before the first epoch of a training.")
    on_train_epoch_begin = _moment("on_train_epoch_begin", "Before each epoch of a training.")
    on_train_epoch_end = _moment(
        "on_train_epoch_end", "After each epoch of a training, and its evaluation.")
    on_train_step_begin = _moment("on_train_step_begin", "Before each step of a training.")
    on_train_step_end = _moment("on_train_step_end", "After each step of a training.")
    on_train_end = _moment("on_train_end", "After the last epoch of a training.")
    on_eval_begin = _moment("on_eval_begin", "Before an evaluation.")
    on_eval_epoch_begin = _moment(
        "on_eval_epoch_begin", "Before the pass of an evaluation over the data.")
    on_eval_epoch_end = _moment(
        "on_eval_epoch_end", "After the pass of an evaluation over the data.")
    on_eval_step_begin = _moment("on_eval_step_begin", "Before each step of an evaluation.")
    on_eval_step_end = _moment("on_eval_step_end", "After each step of an evaluation.")
    on_eval_end = _moment("on_eval_end", "After an evaluation.")


class Callbacks:
    """The callbacks of one run, entered and left as context managers.

    Args:
        given: a callback, a sequence of them, or None.
    """

    def __init__(self, given: Any) -> None:
        many = () if given is None else given if isinstance(given, (list, tuple)) else (given,)
        for each in many:
            instance(Callback)(each, "Model", "callbacks")
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
        """Refuse older names: callbacks must distinguish training from evaluation."""
        for each in self.all:
            if type(each).__module__.startswith("cellc."):
                continue
            older = {s for s in STAGES if getattr(type(each), s) is not getattr(Callback, s)}
            if older:
                raise ValueError(f"For {type(each).__name__} callback, {older} methods may not be "
                                 "supported in later version, Use methods prefixed with 'on_train' "
                                 "or 'on_eval' instead when using customized callbacks.")


class CallbackManager(Callback):
    """Callbacks that are called together.

    Args:
        callbacks: a callback, a sequence of them, or None.
    """

    def __init__(self, callbacks: Any) -> None:
        self._callbacks = Callbacks(callbacks)

    def __enter__(self) -> Any:
        self._callbacks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._callbacks.__exit__(*error)


def _told(moment: str) -> Callable[[Any, RunContext], None]:
    def tell(self: Any, run_context: RunContext) -> None:
        self._callbacks.call(moment, run_context)

    tell.__name__, tell.__doc__ = moment, getattr(Callback, moment).__doc__
    return tell


for _name in [n for n in vars(Callback) if n in STAGES or n.startswith("on_")]:
    setattr(CallbackManager, _name, _told(_name))


def set_cur_net(net: Any) -> None:
    """Accepted for compatibility: a checkpoint is written of the network that it is for."""


def _handle_loss(loss: Any) -> Any:
    """The loss of a step as scripts print it: the mean of a Tensor, the first of several."""
    if isinstance(loss, (tuple, list)):
        return loss[0] if loss and isinstance(loss[0], Tensor) else loss
    return np.mean(loss.asnumpy()) if isinstance(loss, Tensor) else loss


OLDER = {
    "CallbackManager": CallbackManager, "InternalCallbackParam": CallbackParams,
    "_CallbackManager": CallbackManager, "_InternalCallbackParam": CallbackParams,
    "_handle_loss": _handle_loss, "_set_cur_net": set_cur_net, "set_cur_net": set_cur_net,
}
"""Names of MindSpore's inner module that scripts use."""
