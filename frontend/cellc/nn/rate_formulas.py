"""Formulas of learning rates, of numbers (`dynamic_lr`) and of tensors (`learning_rate_schedule`).

A unit is what a rate decays over; `part` is how much of the whole way has passed, in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def exponential(rate: float, decay: float, units: Any) -> Any:
    """rate * decay**units."""
    return rate * decay**units


def natural_exponential(rate: float, decay: float, steps: Any, exp: Callable[[Any], Any]) -> Any:
    """rate * exp(-decay * steps)."""
    return rate * exp(steps * -decay)


def inverse(rate: float, decay: float, units: Any) -> Any:
    """rate / (1 + decay * units)."""
    return rate / (1.0 + decay * units)


def cosine(low: float, high: float, part: Any, cos: Callable[[Any], Any]) -> Any:
    """Half a cosine from `high` down to `low`."""
    return low + 0.5 * (high - low) * (1.0 + cos(part * math.pi))


def polynomial(start: float, end: float, part: Any, power: float) -> Any:
    """(start - end) * (1 - part)**power + end."""
    return (start - end) * (1.0 - part) ** power + end
