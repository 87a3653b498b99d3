"""Processes that work together. Source: `mindspore.communication`."""

from . import comm_func as comm_func
from .management import *  # noqa: F403
from .management import __all__ as __all__
