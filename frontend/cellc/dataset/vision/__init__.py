"""Image transforms: `cellc.dataset.vision`, under the names of `mindspore.dataset.vision`.

They are called with numpy arrays [height, width, channels] (uint8 or float32), and give the
numbers MindSpore gives; a picture of Pillow stays one where that is possible.
"""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from .adjusting import (
    AdjustContrast,
    AdjustHue,
    AdjustSaturation,
    Posterize,
    RandomColorAdjust,
)
from .base import Border, Inter
from .colours import (
    AdjustBrightness,
    CutOut,
    Erase,
    Grayscale,
    Invert,
    Normalize,
    NormalizePad,
    RandomGrayscale,
    RandomInvert,
    Rescale,
    Solarize,
)
from .shapes import (
    HWC2CHW,
    CenterCrop,
    Crop,
    Decode,
    HorizontalFlip,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    Rotate,
    ToNumpy,
    ToPIL,
    ToTensor,
    ToType,
    VerticalFlip,
)

__all__ = [
    "AdjustBrightness", "AdjustContrast", "AdjustHue", "AdjustSaturation", "Border", "CenterCrop",
    "Crop", "CutOut", "Decode", "Erase", "Grayscale", "HWC2CHW", "HorizontalFlip", "Inter",
    "Invert", "Normalize", "NormalizePad", "Pad", "Posterize", "RandomColorAdjust", "RandomCrop",
    "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomResizedCrop",
    "RandomRotation", "RandomVerticalFlip", "Rescale", "Resize", "Rotate", "Solarize", "ToNumpy",
    "ToPIL", "ToTensor", "ToType", "VerticalFlip",
]
__dir__ = public_names(__name__)
