"""Hooks of distributions, made of formulas over their parameters.

A formula takes the distribution and its parameters, of one type and shape: those of the call, else
the distribution's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import ops
from ..base import Distribution

Formula = Callable[..., Any]


def figure(formula: Formula) -> Any:
    """A hook without a value, such as `_mean`: `formula(self, *parameters)`."""
    def hook(self: Distribution, *args: Any, **kwargs: Any) -> Any:
        return formula(self, *self._parameters_of(args, kwargs))

    return hook


def at_value(formula: Formula) -> Any:
    """A hook of a value, such as `_cdf`: `formula(self, value, *parameters)`."""
    def hook(self: Distribution, value: Any, *args: Any, **kwargs: Any) -> Any:
        given = self._parameters_of(args, kwargs)
        return formula(self, self._check_value(value), *given)

    return hook


def at_standard(formula: Formula) -> Any:
    """A hook of a value, as its distance from the location in scales: `formula(self, z, scale)`."""
    return at_value(lambda self, value, location, scale: formula(
        self, (value - location) / scale, scale))


def divergence(formula: Formula) -> Any:
    """`_kl_loss`: `formula(self, *parameters, *parameters of the second distribution)`."""
    def hook(self: Distribution, dist: str, *args: Any, **kwargs: Any) -> Any:
        count = len(self.parameter_names)
        second = {k.removesuffix("_b"): v for k, v in kwargs.items() if k.endswith("_b")}
        own = {k.removesuffix("_a"): v for k, v in kwargs.items() if not k.endswith("_b")}
        other = self._second(dist, args[:count], second)
        return formula(self, *self._parameters_of(args[count:], own), *other)

    return hook


def draws(formula: Formula) -> Any:
    """`_sample`: `formula(self, shape of the draws, *parameters)`, in the type of the draws."""
    def hook(self: Distribution, shape: Any = (), *args: Any, **kwargs: Any) -> Any:
        given = self._parameters_of(args, kwargs)
        dims = self._dims(shape, given[0].shape)
        return ops.cast(formula(self, dims, *given), self._dtype)

    return hook
