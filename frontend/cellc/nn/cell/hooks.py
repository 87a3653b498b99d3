"""Hooks of Cells; what they do in either mode is in `calls/hooks.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...calls.hooks import CellHooks, Handle
from ...calls.saved_tensors import saved_tensors_hooks
from ...core.invalidation import changed
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .parallel import Parallel


def _parameter_hooks(given: Any) -> list[dict[str, Any]]:
    """The argument of `register_parameter_forward_hook`, checked."""
    if not isinstance(given, list):
        raise TypeError(f"a hook on Parameters must be a function or a list of dicts, but got "
                        f"{type(given).__name__}")
    for item in given:
        if not isinstance(item, dict):
            raise TypeError(f"each hook on Parameters in a list must be a dict with the keys "
                            f"'params' and 'hook', but got {type(item).__name__}")
        if not {"params", "hook"} <= set(item):
            raise ValueError(f"each dict of hooks on Parameters must have the keys 'params' and "
                             f"'hook', but has {sorted(map(str, item))}")
        for p in item["params"]:
            if not isinstance(p, Parameter):
                raise TypeError(f"'params' must hold Parameters, but holds {type(p).__name__}")
        if not callable(item["hook"]):
            raise TypeError(f"'hook' must be a function, but got {type(item['hook']).__name__}")
    return given


class Hooking(Parallel):
    """Registers functions that see, and may replace, what passes through a Cell."""

    def _own_hooks(self) -> CellHooks:
        found = self.__dict__.get("_hooks")
        if not isinstance(found, CellHooks):
            found = CellHooks()
            object.__setattr__(self, "_hooks", found)
        return found

    def register_forward_pre_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call `hook_fn(cell, args)` before each `construct`.

        In graph mode the compiled network calls it back; what it returns must have the types of
        what it was given.

        Args:
            hook_fn: returns None, or the new arguments: a tuple, or a single one. With
                `with_kwargs` it is called `hook_fn(cell, args, kwargs)` and returns None or a
                tuple `(args, kwargs)`.
            prepend: before the hooks that are there, not after them.
            with_kwargs: see `hook_fn`.

        Returns:
            A handle; its `remove()` takes the hook away.
        """
        return self._own_hooks().add(self, "forward_pre", hook_fn, prepend, with_kwargs)

    def register_forward_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call `hook_fn(cell, args, output)` after each `construct`.

        Args:
            hook_fn: returns None or the new output. With `with_kwargs` it is called
                `hook_fn(cell, args, kwargs, output)`.
            prepend: before the hooks that are there, not after them.
            with_kwargs: see `hook_fn`.
            always_call: in PyNative mode, call it (with None) also where `construct` raises.

        Returns:
            A handle; its `remove()` takes the hook away.
        """
        return self._own_hooks().add(self, "forward", hook_fn, prepend, with_kwargs, always_call)

    def register_backward_pre_hook(self, hook_fn: Callable[..., Any]) -> Handle:
        """Call `hook_fn(cell, grad_output)` with the gradients of the outputs, a tuple.

        Args:
            hook_fn: returns None or the new gradients.

        Returns:
            A handle; its `remove()` takes the hook away.
        """
        return self._own_hooks().add(self, "backward_pre", hook_fn)

    def register_backward_hook(self, hook_fn: Callable[..., Any]) -> Handle:
        """Call `hook_fn(cell, grad_input, grad_output)` with the gradients of inputs and outputs.

        Both are tuples, one entry for each tensor among the positional arguments and the
        outputs; None for what has no gradient.

        Args:
            hook_fn: returns None or the new gradients of the inputs.

        Returns:
            A handle; its `remove()` takes the hook away.
        """
        return self._own_hooks().add(self, "backward", hook_fn)

    def register_parameter_forward_hook(
        self, hook: Callable[[Parameter], Tensor] | list[dict[str, Any]]
    ) -> None:
        """Let this cell and those below it read something made of Parameters in their place.

        Gradients pass through the hook, which is called for each op on the Parameter and in
        graph mode is compiled. The last hook for a Parameter counts, one for it alone goes
        before one for all, and those of an inner cell go before an outer one's.

        Args:
            hook: takes a Parameter and gives a Tensor of its shape, which is converted to its
                dtype: for all Parameters. Or a list of dicts, each with `params`, a list of
                Parameters, and `hook`, for those.
        """
        own = self._own_hooks()
        if callable(hook):
            own.read[None] = hook
        else:
            for item in _parameter_hooks(hook):
                own.read.update(dict.fromkeys(item["params"], item["hook"]))
        changed(self, "_hooks")

    def register_saved_tensors_hooks(
        self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
    ) -> saved_tensors_hooks:
        """Let tensors that gradients of `construct` keep pass through hooks.

        The last pair registered counts; see `cellc.saved_tensors_hooks`.

        Args:
            pack_hook: takes a tensor that is kept, gives what to keep in its place.
            unpack_hook: takes that, gives the tensor back.

        Returns:
            The hooks, as a context for use elsewhere.
        """
        scope = saved_tensors_hooks(pack_hook, unpack_hook)
        self._own_hooks().saved = scope.hooks
        changed(self, "_hooks")
        return scope
