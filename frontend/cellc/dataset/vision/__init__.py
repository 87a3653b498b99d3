"""Image transforms: `cellc.dataset.vision`, under the names of `mindspore.dataset.vision`.

They are called with numpy arrays [height, width, channels] (uint8 or float32), and give the
numbers MindSpore gives; a picture of Pillow stays one where that is possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_names, public_names

from . import (
    adjusting,
    augmenting,
    boxes,
    colours,
    cutting,
    files,
    mixing,
    shapes,
    tones,
    video,
    warping,
)
from .adjusting import *  # noqa: F403
from .augmenting import *  # noqa: F403
from .base import Border, Inter
from .boxes import *  # noqa: F403
from .colours import *  # noqa: F403
from .cutting import *  # noqa: F403
from .files import *  # noqa: F403
from .mixing import *  # noqa: F403
from .shapes import *  # noqa: F403
from .tones import *  # noqa: F403
from .video import *  # noqa: F403
from .warping import *  # noqa: F403

__all__ = ["Border", "Inter"]
__all__ += adjusting.__all__ + augmenting.__all__ + boxes.__all__ + colours.__all__
__all__ += cutting.__all__ + files.__all__ + mixing.__all__ + shapes.__all__ + tones.__all__
__all__ += video.__all__ + warping.__all__
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, dict.fromkeys(
        (".py_transforms_util", ".transforms", ".utils"), ""))  # modules of MindSpore's
