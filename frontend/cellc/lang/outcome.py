"""How a block of statements ends.

It falls through (NEXT), jumps (break, continue, return), or does one of several of these
depending on run-time flags: a *mixed* outcome, from an `if` on a tensor that jumps in one branch.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from cellc_runtime.records import dataclass, field

from ..tensors.tensor import Tensor
from .values import MISSING

BREAK, CONTINUE, RETURN = "break", "continue", "return"
DONE = "done"
"""A loop that was broken off, while its `else` or its remaining iterations are considered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a block."""

    kinds: frozenset[str] = frozenset()  # the possible jumps; empty for NEXT
    # kind -> bool scalar tensor, for a mixed outcome; otherwise empty
    flags: Mapping[str, Tensor] = field(default_factory=dict)
    falls: bool = True  # whether it may fall through
    value: Any = MISSING  # the returned value, if `return` is possible
    node: ast.AST | None = None  # the statement that jumps

    @staticmethod
    def jump(kind: str, node: ast.AST) -> Outcome:
        """A definite break or continue."""
        return Outcome(frozenset((kind,)), falls=False, node=node)

    @staticmethod
    def returned(value: Any, node: ast.AST | None) -> Outcome:
        """A definite return."""
        return Outcome(frozenset((RETURN,)), falls=False, value=value, node=node)

    @property
    def mixed(self) -> bool:
        """Whether the end depends on run-time flags."""
        return len(self.kinds) + self.falls > 1

    def flag(self, kind: str) -> Any:
        """Whether it is this jump: True, False or a bool scalar tensor."""
        return self.flags[kind] if self.mixed and kind in self.kinds else kind in self.kinds

    def without(self, kind: str) -> Outcome:
        """The outcome with a jump taken as falling through (a loop consumed it)."""
        if kind not in self.kinds:
            return self
        kinds = self.kinds - {kind}
        if not kinds:
            return NEXT
        flags = {k: v for k, v in self.flags.items() if k != kind}
        return Outcome(kinds, flags, True, self.value, self.node)

    def rename(self, kind: str, new: str) -> Outcome:
        """The outcome with one kind of jump called otherwise."""
        if kind not in self.kinds:
            return self
        flags = {new if k == kind else k: v for k, v in self.flags.items()}
        kinds = (self.kinds - {kind}) | {new}
        return Outcome(kinds, flags, self.falls, self.value, self.node)

    def jumps(self) -> Outcome:
        """The outcome given that it does not fall through."""
        if len(self.kinds) == 1:
            return Outcome(self.kinds, {}, False, self.value, self.node)
        return Outcome(self.kinds, self.flags, False, self.value, self.node)


NEVER = Outcome(falls=False)  # A path that a run-time `raise` ends


class Diverged(Exception):
    """The rest of this path never runs: its run-time `raise` has become part of the graph."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        # regions that were open; only the branch itself may go on without the path
        self.depth = depth


NEXT = Outcome()


class NotRollable(BaseException):
    """The trips of the loop may differ in more than numbers. (No handler of the user's program,
    and none of the library, is meant to see it.)"""
