"""What a Cell says about its inputs: shapes that are fixed and sizes that are left open."""

from __future__ import annotations

from typing import Any

from ...compiled.dynamic import parameter_names
from .modes import Modes


class Inputs(Modes):
    """`set_inputs` and `get_inputs`."""

    def set_inputs(self, *inputs: Any, **kwargs: Any) -> None:
        """Describe the inputs of graph mode; sizes that are None or a `Symbol` are open.

        The network is then compiled once for all sizes rather than once for each.

        Args:
            inputs: one for each input: a Tensor (its elements do not matter), a tuple, list or
                dict of them, or the value of an input that is no tensor.
            kwargs: instead of `inputs`, only some of them, by the names in `construct`.

        Raises:
            ValueError: both or neither kind was given, or a name that `construct` has not.

        Examples:
            >>> net.set_inputs(ms.Tensor(shape=[None, 784], dtype=ms.float32))
        """
        if bool(inputs) == bool(kwargs):
            raise ValueError(
                "For Cell, set_inputs takes inputs or keywords, one kind of them and not none, "
                f"but got inputs {inputs} and keywords {sorted(kwargs)}"
            )
        if kwargs:
            names = parameter_names(self)
            for name in kwargs:
                if name not in names:
                    raise ValueError(
                        f"For set_inputs, {name!r} is no input of construct, which has {names}"
                    )
        given: Any = kwargs or inputs
        object.__setattr__(self, "_set_inputs", given)
        self._entries.open(given)

    def get_inputs(self) -> Any:
        """What `set_inputs` was given: a tuple, a dict, or None."""
        return self.__dict__.get("_set_inputs")
