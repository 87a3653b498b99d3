"""Transforms of sound, for `map`: `cellc.dataset.audio`, under the names of
`mindspore.dataset.audio`.

They are called with numpy arrays: waveforms (..., time) and spectra (..., frequency, time).
"""

from __future__ import annotations

from . import effects, filters, masks, measures, mels, spectra, speed
from .base import (
    BorderType,
    DensityFunction,
    FadeShape,
    GainType,
    Interpolation,
    MelType,
    Modulation,
    NormMode,
    NormType,
    ResampleMethod,
    ScaleType,
    WindowType,
)
from .effects import *  # noqa: F403
from .filters import *  # noqa: F403
from .masks import *  # noqa: F403
from .measures import *  # noqa: F403
from .mels import *  # noqa: F403
from .spectra import *  # noqa: F403
from .speed import *  # noqa: F403

__all__ = [
    "BorderType", "DensityFunction", "FadeShape", "GainType", "Interpolation", "MelType",
    "Modulation", "NormMode", "NormType", "ResampleMethod", "ScaleType", "WindowType",
]
__all__ += effects.__all__ + filters.__all__ + masks.__all__ + measures.__all__ + mels.__all__
__all__ += spectra.__all__ + speed.__all__
