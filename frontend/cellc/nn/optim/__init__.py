"""Optimizers: `cellc.nn.optim` offers those of `cellc.nn` that are made here."""

from typing import TYPE_CHECKING

from ..offers import offers

if TYPE_CHECKING:
    from .adafactor import *  # noqa: F403
    from .adagrad import *  # noqa: F403
    from .adam import *  # noqa: F403
    from .ascend import *  # noqa: F403
    from .lars import *  # noqa: F403
    from .optimizer import *  # noqa: F403
    from .rprop import *  # noqa: F403
    from .sgd import *  # noqa: F403
else:
    __getattr__, __dir__ = offers(__name__)
