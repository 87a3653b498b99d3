"""Losses: `cellc.nn.loss` offers those of `cellc.nn` that are made here."""

from typing import TYPE_CHECKING

from .._offers import offers

if TYPE_CHECKING:
    from .ctc import *  # noqa: F403
    from .loss import *  # noqa: F403
else:
    __getattr__, __dir__ = offers(__name__)
