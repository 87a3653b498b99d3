"""The common part of sound transforms: their arguments, and the form of waveforms."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from ..declared import Fields
from ..transforms import Transform

Array = np.ndarray[Any, Any]


class _Named(str, Enum):  # noqa: UP042 (a StrEnum prints its value, MindSpore's its name)
    """An option by name."""


class BorderType(_Named):
    """The values beyond the ends of a waveform."""

    CONSTANT = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


class DensityFunction(_Named):
    """How noise is distributed."""

    TPDF = "TPDF"
    RPDF = "RPDF"
    GPDF = "GPDF"


class FadeShape(_Named):
    """How loudness grows."""

    QUARTER_SINE = "quarter_sine"
    HALF_SINE = "half_sine"
    LINEAR = "linear"
    LOGARITHMIC = "logarithmic"
    EXPONENTIAL = "exponential"


class GainType(_Named):
    """The quantity that a gain multiplies."""

    AMPLITUDE = "amplitude"
    POWER = "power"
    DB = "db"


class Interpolation(_Named):
    """How samples between samples are found."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"


class MelType(_Named):
    """Which scale of mels."""

    HTK = "htk"
    SLANEY = "slaney"


class Modulation(_Named):
    """The form of a slow wave."""

    SINUSOIDAL = "sinusoidal"
    TRIANGULAR = "triangular"


class NormMode(_Named):
    """Whether a cosine transform is orthonormal."""

    ORTHO = "ortho"
    NONE = "none"


class NormType(_Named):
    """Whether filters have one area."""

    SLANEY = "slaney"
    NONE = "none"


class ResampleMethod(_Named):
    """The window of a resampling filter."""

    SINC_INTERPOLATION = "sinc_interpolation"
    KAISER_WINDOW = "kaiser_window"


class ScaleType(_Named):
    """Whether a spectrum is of power."""

    POWER = "power"
    MAGNITUDE = "magnitude"


class WindowType(_Named):
    """A window of frames."""

    BARTLETT = "bartlett"
    BLACKMAN = "blackman"
    HAMMING = "hamming"
    HANN = "hann"
    KAISER = "kaiser"


class SoundTransform(Fields, Transform):
    """Base of transforms of waveforms (..., time) or spectra (..., frequency, time): floats of 32
    or 64 bits, which the result keeps; other numbers become floats of 32 bits. They are computed
    in 64 bits."""

    _axes = 1  # The axes that an array has at least
    _pairs = False  # Whether its last axis must hold real and imaginary parts

    def __call__(self, *args: Any) -> Any:
        """The transform of a waveform or spectrum.

        Raises:
            TypeError: several values; no numbers.
            RuntimeError: an array of another shape.
        """
        if len(args) != 1:
            raise TypeError(f"{type(self).__name__} takes one input, got {len(args)}.")
        array = self._array(args[0])
        if array.dtype.kind not in "iufb" or array.dtype == np.float16:
            raise TypeError(f"{type(self).__name__}: only int, float or double is supported, but "
                            f"got {array.dtype}.")
        if array.ndim < self._axes or (self._pairs and array.shape[-1] != 2):
            form = ", 2" if self._pairs else ""
            raise self._refused(f"an input of at least {self._axes} axes{form} is wanted, but it "
                                f"has the shape {array.shape}.")
        if not array.size:
            raise self._refused(f"the input has no elements, its shape is {array.shape}.")
        kept = np.float64 if array.dtype == np.float64 else np.float32
        return self._typed(self._apply(np.asarray(array, np.float64)), kept)

    def _typed(self, made: Any, dtype: Any) -> Any:
        if isinstance(made, tuple):
            return tuple(self._typed(m, dtype) for m in made)
        return np.asarray(made, dtype)


AudioTensorOperation = SoundTransform  # MindSpore's inner name
