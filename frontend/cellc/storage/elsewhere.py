"""Parameters that other processes hold: this one has their shape and type, and no elements."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .state import LOCK, State, Stored, state_of, storage_of


class Elsewhere(State):
    """Elements that another process holds.

    Args:
        where: who holds it, for the error of somebody who reads it.
        stage: the stage of the pipeline that does.
    """

    __slots__ = ("dtype", "shape", "stage", "where")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], where: str, stage: int
    ) -> None:
        self.shape, self.dtype, self.where, self.stage = shape, dtype, where, stage

    def array(self) -> NoReturn:
        """Raise RuntimeError: nobody here has them."""
        raise RuntimeError(self.where)


def leave(tensor: Stored, state: Elsewhere) -> None:
    """Give up a tensor's elements, which another process holds."""
    with LOCK:
        storage_of(tensor).defer(tensor, state)


def is_elsewhere(tensor: Stored) -> bool:
    """Whether another process holds a tensor's elements."""
    return isinstance(state_of(tensor), Elsewhere)


def stage_of(tensor: Stored, own: int) -> int:
    """The stage that holds a tensor's elements, if not this process's own."""
    state = state_of(tensor)
    return state.stage if isinstance(state, Elsewhere) else own
