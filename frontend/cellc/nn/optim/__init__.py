"""Optimizers: `cellc.nn.optim` offers those of `cellc.nn` that are made here."""

from typing import TYPE_CHECKING

from .._offers import offers

if not TYPE_CHECKING:
    __getattr__, __dir__ = offers(__name__)
