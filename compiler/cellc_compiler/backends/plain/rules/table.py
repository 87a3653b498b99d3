"""The rules of plain loops, by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.graph import Node
from ...base import Rules
from ..writer import Buffer, PlainFunction

Rule = Callable[[PlainFunction, Node, Sequence[Buffer], Sequence[Buffer]], None]
"""Writes an op's loops over the buffers of its operands and results."""

RULES: Rules[Rule] = Rules("plain", "cellc_compiler.backends.plain.rules")
lowers = RULES.lowers
