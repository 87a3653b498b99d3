"""Hooks of Cells; what they do in either mode is in `core/hooks.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.hooks import CellHooks, Handle
from .printing import Printing


class Hooking(Printing):
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

        Raises:
            TypeError: `hook_fn` is not callable.
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

        Raises:
            TypeError: `hook_fn` is not callable.
        """
        return self._own_hooks().add(self, "forward", hook_fn, prepend, with_kwargs, always_call)

    def register_backward_pre_hook(self, hook_fn: Callable[..., Any]) -> Handle:
        """Call `hook_fn(cell, grad_output)` with the gradients of the outputs, a tuple.

        Args:
            hook_fn: returns None or the new gradients.

        Returns:
            A handle; its `remove()` takes the hook away.

        Raises:
            TypeError: `hook_fn` is not callable.
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

        Raises:
            TypeError: `hook_fn` is not callable.
        """
        return self._own_hooks().add(self, "backward", hook_fn)
