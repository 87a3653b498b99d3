"""Processes that work together: there is one. Source: `mindspore.communication`."""

from .management import *  # noqa: F403
from .management import __all__ as __all__
