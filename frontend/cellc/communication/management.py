"""Source: `mindspore.communication.management`."""

from __future__ import annotations

from ..ranks.management import *  # noqa: F403
from ..ranks.management import __all__ as __all__
