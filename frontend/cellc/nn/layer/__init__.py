"""Layers: `cellc.nn.layer` offers those of `cellc.nn` that are made here."""

from typing import TYPE_CHECKING

from ..offers import offers

if TYPE_CHECKING:
    from .activation import *  # noqa: F403
    from .basic import *  # noqa: F403
    from .combined import *  # noqa: F403
    from .container import *  # noqa: F403
    from .conv import *  # noqa: F403
    from .embedding import *  # noqa: F403
    from .ext import *  # noqa: F403
    from .image import *  # noqa: F403
    from .math import *  # noqa: F403
    from .normalization import *  # noqa: F403
    from .padding import *  # noqa: F403
    from .pooling import *  # noqa: F403
    from .rnn import *  # noqa: F403
    from .timedistributed import *  # noqa: F403
    from .transformer import *  # noqa: F403
else:
    __getattr__, __dir__ = offers(__name__, {"CosineSimilarity": "cellc.nn.layer.math"})
