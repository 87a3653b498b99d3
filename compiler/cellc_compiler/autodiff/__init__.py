"""Automatic differentiation, source to source, on the graph IR."""

from . import loop_rules as loop_rules
from . import regions as regions
