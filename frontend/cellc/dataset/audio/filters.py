"""Recursive filters: the second-order ones of R. Bristow-Johnson's cookbook, and any others.

Reference: https://www.w3.org/TR/audio-eq-cookbook/, SoX's effects of the same names.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, Int, Number, Rule, integer, number
from ..declared import argument
from ..decoding import library
from ..rules import several
from .base import Array, SoundTransform

__all__ = [
    "AllpassBiquad", "BandBiquad", "BandpassBiquad", "BandrejectBiquad", "BassBiquad", "Biquad",
    "DeemphBiquad", "EqualizerBiquad", "Filtfilt", "HighpassBiquad", "LFilter", "LowpassBiquad",
    "RiaaBiquad", "TrebleBiquad",
]
Section = tuple[float, float, float, float, float, float]
"""b0, b1, b2, a0, a1, a2 of a filter of second order."""
_IN, _OUT = "weights of what goes in, from now back.", "weights of what comes out; `a0` is not 0."
_Q = "from 0 (excluded) to 1: the smaller, the wider."


def filtered(x: Array, a: Array, b: Array) -> Array:
    """`a[0] y[n] = sum b[k] x[n - k] - sum a[k] y[n - k]` along the last axis.

    Args:
        x: (..., time).
        a, b: at least one number each; `a[0]` is not 0.
    """
    signal = library("scipy.signal", "cellc.dataset.audio", "SciPy", "audio")
    return np.asarray(signal.lfilter(b, a, x))


def clamped(x: Array) -> Array:
    """Within -1 and 1."""
    return np.clip(x, -1.0, 1.0)


_LISTED = several(number(-1e30, 1e30))
Weights = Annotated[Any, Rule(
    "a list of numbers", _LISTED.fits, lambda value: len(value) > 0 and _LISTED.holds(value),
    np.array)]


class LFilter(SoundTransform):
    """A recursive filter; see `filtered`."""

    a_coeffs: Weights = argument(
        text="what comes out, weighted, from now back; the first is not 0.")
    b_coeffs: Weights = argument(text="what goes in, weighted, from now back; as many.")
    clamp: Flag = argument(default=True, text="whether the result is cut to -1 and 1.")

    def _prepare(self) -> None:
        if len(self.a_coeffs) != len(self.b_coeffs):
            raise ValueError("a_coeffs and b_coeffs should have the same length, but got "
                             f"{len(self.a_coeffs)} and {len(self.b_coeffs)}.")
        if not self.a_coeffs[0]:
            raise ValueError("The first of a_coeffs should not be 0.")

    def _apply(self, x: Array) -> Array:
        made = filtered(x, self.a_coeffs, self.b_coeffs)
        return clamped(made) if self.clamp else made


class Filtfilt(LFilter):
    """A recursive filter forwards, and backwards again, which leaves phases as they are."""

    def _apply(self, x: Array) -> Array:
        forth = filtered(x, self.a_coeffs, self.b_coeffs)[..., ::-1]
        return super()._apply(forth)[..., ::-1]


_NUMBER, _INT = number(-1e30, 1e30), integer()
Leading = Annotated[float, Rule("a number other than 0", _NUMBER.fits, bool, float)]
Rate = Annotated[int, Rule("an int other than 0", _INT.fits,
                           lambda value: value != 0 and _INT.holds(value), int)]
Decibels = Annotated[float, number(-1e4, 1e4)]
Width = Annotated[float, number(0, 1, "(]")]


class _Section(SoundTransform):
    """Base of filters of second order; the result is cut to -1 and 1."""

    def _section(self) -> Section:
        raise TypeError(f"{type(self).__name__} is no transform by itself.")

    def _prepare(self) -> None:
        found = [_NUMBER(value, type(self).__name__, name) for name, value in zip(
            ("b0", "b1", "b2", "a0", "a1", "a2"), self._section(), strict=True)]
        self.b, self.a = np.array(found[:3]), np.array(found[3:])

    def _apply(self, x: Array) -> Array:
        return clamped(filtered(x, self.a, self.b))


class Biquad(_Section):
    """A filter of second order; the result is cut to -1 and 1."""

    b0: Annotated[float, _NUMBER] = argument(text=_IN)
    b1: Annotated[float, _NUMBER] = argument(text=_IN)
    b2: Annotated[float, _NUMBER] = argument(text=_IN)
    a0: Leading = argument(text=_OUT)
    a1: Annotated[float, _NUMBER] = argument(text=_OUT)
    a2: Annotated[float, _NUMBER] = argument(text=_OUT)

    def _section(self) -> Section:
        return self.b0, self.b1, self.b2, self.a0, self.a1, self.a2


def _poles(angle: float, alpha: float) -> tuple[float, float, float]:
    return 1 + alpha, -2 * math.cos(angle), 1 - alpha


def _amplitude(gain: float) -> float:
    return math.exp(gain / 40 * math.log(10))


def _shelf(angle: float, alpha: float, size: float, high: int) -> Section:
    """A filter that amplifies frequencies above an angle (`high` is 1), or below it (-1)."""
    wide, cosine = 2 * math.sqrt(size) * alpha, high * math.cos(angle)
    more, less = size + 1, size - 1
    return (size * (more + less * cosine + wide), -2 * high * size * (less + more * cosine),
            size * (more + less * cosine - wide), more - less * cosine + wide,
            2 * high * (less - more * cosine), more - less * cosine - wide)


class _Tuned(_Section):
    """Base of filters about a frequency."""

    sample_rate: Rate = argument(text="Hz, not 0.")
    _named = "central_freq"  # The argument that is the frequency

    def _section(self) -> Section:
        values = vars(self)
        angle = 2 * math.pi * values[self._named] / self.sample_rate  # from sample to sample
        return self._about(angle, math.sin(angle) / 2 / values["Q"])

    def _about(self, angle: float, alpha: float) -> Section:
        """The filter about an angle, with the cookbook's alpha."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


class AllpassBiquad(_Tuned):
    """Changes phases about a frequency, and no loudness."""

    central_freq: Number = argument(text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)

    def _about(self, angle: float, alpha: float) -> Section:
        a = _poles(angle, alpha)
        return a[2], a[1], a[0], *a


class BandBiquad(_Tuned):
    """Keeps what is about a frequency, with slopes that fall by half for each octave."""

    central_freq: Number = argument(text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)
    noise: Flag = argument(default=False, text="for sounds without a pitch.")

    def _about(self, angle: float, alpha: float) -> Section:
        a2 = math.exp(-angle / self.Q)
        a1 = -4 * a2 / (1 + a2) * math.cos(angle)
        b0 = math.sqrt(1 - a1 * a1 / (4 * a2)) * (1 - a2)
        if self.noise:
            b0 = math.sqrt(((1 + a2) * (1 + a2) - a1 * a1) * (1 - a2) / (1 + a2))
        return b0, 0.0, 0.0, 1.0, a1, a2


class BandpassBiquad(_Tuned):
    """Keeps what is about a frequency."""

    central_freq: Number = argument(text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)
    const_skirt_gain: Flag = argument(
        default=False, text="the slopes are the same for each `Q`, not the peak.")

    def _about(self, angle: float, alpha: float) -> Section:
        peak = math.sin(angle) / 2 if self.const_skirt_gain else alpha
        return peak, 0.0, -peak, *_poles(angle, alpha)


class BandrejectBiquad(_Tuned):
    """Takes away what is about a frequency."""

    central_freq: Number = argument(text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)

    def _about(self, angle: float, alpha: float) -> Section:
        a = _poles(angle, alpha)
        return 1.0, a[1], 1.0, *a


class BassBiquad(_Tuned):
    """Makes low sounds louder."""

    gain: Decibels = argument(text="dB.")
    central_freq: Number = argument(default=100.0, text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)

    def _about(self, angle: float, alpha: float) -> Section:
        return _shelf(angle, alpha, _amplitude(self.gain), -1)


class TrebleBiquad(_Tuned):
    """Makes high sounds louder."""

    gain: Decibels = argument(text="dB.")
    central_freq: Number = argument(default=3000, text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)

    def _about(self, angle: float, alpha: float) -> Section:
        return _shelf(angle, alpha, _amplitude(self.gain), 1)


class DeemphBiquad(_Section):
    """Undoes the pre-emphasis of compact discs (ISO 908)."""

    sample_rate: Int = argument(text="44100 or 48000 Hz.")

    def _section(self) -> Section:
        shelves = {44100: (5283, 0.4845, -9.477), 48000: (5356, 0.479, -9.62)}
        if self.sample_rate not in shelves:
            raise ValueError("Input sample_rate should be 44100 or 48000, but got "
                             f"{self.sample_rate}.")
        frequency, slope, gain = shelves[self.sample_rate]
        angle, size = 2 * math.pi * frequency / self.sample_rate, _amplitude(gain)
        alpha = math.sin(angle) / 2 * math.sqrt((size + 1 / size) * (1 / slope - 1) + 2)
        return _shelf(angle, alpha, size, 1)


class EqualizerBiquad(_Tuned):
    """Makes what is about a frequency louder or softer."""

    center_freq: Number = argument(text="Hz.")
    gain: Decibels = argument(text="dB.")
    Q: Width = argument(default=0.707, text=_Q)
    _named = "center_freq"

    def _about(self, angle: float, alpha: float) -> Section:
        size = _amplitude(self.gain)
        b0, b1, b2 = _poles(angle, alpha * size)
        return b0, b1, b2, *_poles(angle, alpha / size)


class HighpassBiquad(_Tuned):
    """Keeps what is above a frequency."""

    cutoff_freq: Number = argument(text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)
    _named = "cutoff_freq"

    def _about(self, angle: float, alpha: float) -> Section:
        above = (1 + math.cos(angle)) / 2
        return above, -2 * above, above, *_poles(angle, alpha)


class LowpassBiquad(_Tuned):
    """Keeps what is below a frequency."""

    cutoff_freq: Number = argument(text="Hz.")
    Q: Width = argument(default=0.707, text=_Q)
    _named = "cutoff_freq"

    def _about(self, angle: float, alpha: float) -> Section:
        below = (1 - math.cos(angle)) / 2
        return below, 2 * below, below, *_poles(angle, alpha)


class RiaaBiquad(_Section):
    """Undoes what records were cut with (RIAA's curve), with 0 dB at 1 kHz."""

    sample_rate: Int = argument(text="44100, 48000, 88200 or 96000 Hz.")

    def _section(self) -> Section:
        roots = {  # zeros and poles, as SoX has them
            44100: ((-0.2014898, 0.9233820), (0.7083149, 0.9924091)),
            48000: ((-0.1766069, 0.9321590), (0.7396325, 0.9931330)),
            88200: ((-0.1168735, 0.9648312), (0.8590646, 0.9964002)),
            96000: ((-0.1141486, 0.9676817), (0.8699137, 0.9966946)),
        }
        if self.sample_rate not in roots:
            raise ValueError("Input sample_rate should be one of [44100, 48000, 88200, 96000], "
                             f"but got {self.sample_rate}.")
        zeros, poles = ((1.0, -(r[0] + r[1]), r[0] * r[1]) for r in roots[self.sample_rate])
        at = np.exp(-2j * math.pi * 1000 / self.sample_rate * np.arange(3))
        gain = abs(np.dot(poles, at)) / abs(np.dot(zeros, at))
        return gain * zeros[0], gain * zeros[1], gain * zeros[2], *poles
