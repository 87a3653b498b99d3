"""Helpers for making networks: `cellc.nn.utils`."""

from ...tensors.parameter import no_init_parameters

__all__ = ["no_init_parameters"]
