"""Recursive filters: the second-order ones of R. Bristow-Johnson's cookbook, and any others.

Reference: https://www.w3.org/TR/audio-eq-cookbook/, SoX's effects of the same names.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from .base import Array, SoundTransform, positive

__all__ = [
    "AllpassBiquad", "BandBiquad", "BandpassBiquad", "BandrejectBiquad", "BassBiquad", "Biquad",
    "DeemphBiquad", "EqualizerBiquad", "Filtfilt", "HighpassBiquad", "LFilter", "LowpassBiquad",
    "RiaaBiquad", "TrebleBiquad",
]
Section = tuple[float, float, float, float, float, float]
"""b0, b1, b2, a0, a1, a2 of a filter of second order."""


def filtered(x: Array, a: Array, b: Array) -> Array:
    """`a[0] y[n] = sum b[k] x[n - k] - sum a[k] y[n - k]` along the last axis.

    Time is cut into about as many blocks as a block is long: all blocks run side by side from
    rest, and then what each leaves behind is added to the next (blocked recursive filtering).

    Args:
        x: (..., time).
        a, b: at least one number each; `a[0]` is not 0.
    """
    time = x.shape[-1]
    driven = np.zeros(x.shape)
    for k, weight in enumerate(np.asarray(b, np.float64)[:time] / a[0]):
        driven[..., k:] += weight * x[..., : time - k]
    poles = np.asarray(a[1:], np.float64) / a[0]
    if not len(poles):
        return driven
    length = max(math.isqrt(time - 1) + 1, len(poles))
    blocks = -(-time // length)
    parts = np.zeros((*x.shape[:-1], blocks * length))
    parts[..., :time] = driven
    parts = parts.reshape(*x.shape[:-1], blocks, length)
    _run(parts, poles)
    _join(parts, poles)
    return parts.reshape(*x.shape[:-1], -1)[..., :time]


def _run(parts: Array, poles: Array) -> None:
    """Feed back what comes out, along the last axis, from rest, in place."""
    for n in range(1, parts.shape[-1]):
        for k, pole in enumerate(poles[:n], 1):
            parts[..., n] -= pole * parts[..., n - k]


def _join(parts: Array, poles: Array) -> None:
    """Add to each block (..., block, time) what the end of the one before it goes on to give."""
    order, length = len(poles), parts.shape[-1]
    # Row k: what a 1 that came out k + 1 samples before a block gives within it.
    gives = np.zeros((order, length))
    for n in range(length):
        for k, pole in enumerate(poles, 1):
            gives[:, n] -= pole * (gives[:, n - k] if n >= k else np.arange(1, order + 1) == k - n)
    for block in range(1, parts.shape[-2]):
        before = parts[..., block - 1, ::-1][..., :order]
        parts[..., block, :] += before @ gives


def clamped(x: Array) -> Array:
    """Within -1 and 1."""
    return np.clip(x, -1.0, 1.0)


class LFilter(SoundTransform):
    """A recursive filter; see `filtered`.

    Args:
        a_coeffs: what comes out, weighted, from now back; the first is not 0.
        b_coeffs: what goes in, weighted, from now back; as many.
        clamp: whether the result is cut to -1 and 1.

    Raises:
        TypeError, ValueError: no lists of numbers, or not equally many.

    Source: `mindspore.dataset.audio.LFilter`.
    """

    def __init__(self, a_coeffs: Any, b_coeffs: Any, clamp: bool = True) -> None:
        self.a, self.b = _weights("a_coeffs", a_coeffs), _weights("b_coeffs", b_coeffs)
        if len(self.a) != len(self.b):
            raise ValueError("a_coeffs and b_coeffs should have the same length, but got "
                             f"{len(self.a)} and {len(self.b)}.")
        if not self.a[0]:
            raise ValueError("The first of a_coeffs should not be 0.")
        self.clamp = checks.of_type("clamp", clamp, bool)

    def _apply(self, x: Array) -> Array:
        made = filtered(x, self.a, self.b)
        return clamped(made) if self.clamp else made


def _weights(name: str, value: Any) -> Array:
    checks.of_type(name, value, (list, tuple))
    if not value:
        raise ValueError(f"{name} should not be empty.")
    return np.array([checks.number(f"{name}[{i}]", v, -1e30, 1e30) for i, v in enumerate(value)])


class Filtfilt(LFilter):
    """A recursive filter forwards, and backwards again, which leaves phases as they are.

    Args:
        a_coeffs, b_coeffs, clamp: as of `LFilter`.

    Source: `mindspore.dataset.audio.Filtfilt`.
    """

    def _apply(self, x: Array) -> Array:
        forth = filtered(x, self.a, self.b)[..., ::-1]
        return super()._apply(forth)[..., ::-1]


class Biquad(SoundTransform):
    """A filter of second order; the result is cut to -1 and 1.

    Args:
        b0, b1, b2: weights of what goes in, from now back.
        a0, a1, a2: weights of what comes out; `a0` is not 0.

    Raises:
        TypeError, ValueError: no numbers; `a0` is 0.

    Source: `mindspore.dataset.audio.Biquad`.
    """

    def __init__(
        self, b0: float, b1: float, b2: float, a0: float, a1: float, a2: float
    ) -> None:
        if not checks.number("a0", a0, -1e30, 1e30):
            raise ValueError("Input a0 is not within the required interval of "
                             "[-2147483648, 0) and (0, 2147483647].")
        self._set((b0, b1, b2, a0, a1, a2))

    def _set(self, section: Section) -> None:
        found = [checks.number(n, v, -1e30, 1e30)
                 for n, v in zip(("b0", "b1", "b2", "a0", "a1", "a2"), section, strict=True)]
        self.b, self.a = np.array(found[:3]), np.array(found[3:])

    def _apply(self, x: Array) -> Array:
        return clamped(filtered(x, self.a, self.b))


def _rate(value: Any) -> int:
    if not checks.integer("sample_rate", value, -(2**31)):
        raise ValueError("Input sample_rate is not within the required interval of "
                         "[-2147483648, 0) and (0, 2147483647].")
    return int(value)


def _angle(sample_rate: int, frequency: Any, name: str) -> float:
    """A frequency as radians from sample to sample."""
    return 2 * math.pi * checks.number(name, frequency, -3.4e38, 3.4e38) / _rate(sample_rate)


def _width(angle: float, q: Any) -> float:
    """The cookbook's alpha."""
    return math.sin(angle) / 2 / positive("Q", q, 1.0)


def _poles(angle: float, alpha: float) -> tuple[float, float, float]:
    return 1 + alpha, -2 * math.cos(angle), 1 - alpha


def _amplitude(gain: Any) -> float:
    return math.exp(checks.number("gain", gain, -1e4, 1e4) / 40 * math.log(10))


def _shelf(angle: float, alpha: float, size: float, high: int) -> Section:
    """A filter that makes what is above an angle louder (`high` is 1), or what is below it (-1)."""
    wide, cosine = 2 * math.sqrt(size) * alpha, high * math.cos(angle)
    more, less = size + 1, size - 1
    return (size * (more + less * cosine + wide), -2 * high * size * (less + more * cosine),
            size * (more + less * cosine - wide), more - less * cosine + wide,
            2 * high * (less - more * cosine), more - less * cosine - wide)


class AllpassBiquad(Biquad):
    """Changes phases about a frequency, and no loudness.

    Args:
        sample_rate: Hz, not 0.
        central_freq: Hz.
        Q: from 0 (excluded) to 1: the smaller, the wider.

    Source: `mindspore.dataset.audio.AllpassBiquad`.
    """

    def __init__(self, sample_rate: int, central_freq: float, Q: float = 0.707) -> None:
        angle = _angle(sample_rate, central_freq, "central_freq")
        a = _poles(angle, _width(angle, Q))
        self._set((a[2], a[1], a[0], *a))


class BandBiquad(Biquad):
    """Keeps what is about a frequency, with slopes that fall by half for each octave.

    Args:
        sample_rate, central_freq, Q: as of `AllpassBiquad`.
        noise: for sounds without a pitch.

    Source: `mindspore.dataset.audio.BandBiquad`.
    """

    def __init__(
        self, sample_rate: int, central_freq: float, Q: float = 0.707, noise: bool = False
    ) -> None:
        angle = _angle(sample_rate, central_freq, "central_freq")
        a2 = math.exp(-angle / positive("Q", Q, 1.0))
        a1 = -4 * a2 / (1 + a2) * math.cos(angle)
        b0 = math.sqrt(1 - a1 * a1 / (4 * a2)) * (1 - a2)
        if checks.of_type("noise", noise, bool):
            b0 = math.sqrt(((1 + a2) * (1 + a2) - a1 * a1) * (1 - a2) / (1 + a2))
        self._set((b0, 0.0, 0.0, 1.0, a1, a2))


class BandpassBiquad(Biquad):
    """Keeps what is about a frequency.

    Args:
        sample_rate, central_freq, Q: as of `AllpassBiquad`.
        const_skirt_gain: the slopes are the same for each `Q`, not the peak.

    Source: `mindspore.dataset.audio.BandpassBiquad`.
    """

    def __init__(
        self, sample_rate: int, central_freq: float, Q: float = 0.707,
        const_skirt_gain: bool = False,
    ) -> None:
        angle = _angle(sample_rate, central_freq, "central_freq")
        alpha = _width(angle, Q)
        skirt = checks.of_type("const_skirt_gain", const_skirt_gain, bool)
        peak = math.sin(angle) / 2 if skirt else alpha
        self._set((peak, 0.0, -peak, *_poles(angle, alpha)))


class BandrejectBiquad(Biquad):
    """Takes away what is about a frequency.

    Args:
        sample_rate, central_freq, Q: as of `AllpassBiquad`.

    Source: `mindspore.dataset.audio.BandrejectBiquad`.
    """

    def __init__(self, sample_rate: int, central_freq: float, Q: float = 0.707) -> None:
        angle = _angle(sample_rate, central_freq, "central_freq")
        a = _poles(angle, _width(angle, Q))
        self._set((1.0, a[1], 1.0, *a))


class BassBiquad(Biquad):
    """Makes low sounds louder.

    Args:
        sample_rate, central_freq, Q: as of `AllpassBiquad`.
        gain: dB.

    Source: `mindspore.dataset.audio.BassBiquad`.
    """

    def __init__(
        self, sample_rate: int, gain: float, central_freq: float = 100.0, Q: float = 0.707
    ) -> None:
        angle = _angle(sample_rate, central_freq, "central_freq")
        self._set(_shelf(angle, _width(angle, Q), _amplitude(gain), -1))


class TrebleBiquad(Biquad):
    """Makes high sounds louder.

    Args:
        sample_rate, central_freq, Q: as of `AllpassBiquad`.
        gain: dB.

    Source: `mindspore.dataset.audio.TrebleBiquad`.
    """

    def __init__(
        self, sample_rate: int, gain: float, central_freq: float = 3000, Q: float = 0.707
    ) -> None:
        angle = _angle(sample_rate, central_freq, "central_freq")
        self._set(_shelf(angle, _width(angle, Q), _amplitude(gain), 1))


class DeemphBiquad(Biquad):
    """Undoes the pre-emphasis of compact discs (ISO 908).

    Args:
        sample_rate: 44100 or 48000 Hz.

    Raises:
        ValueError: another one.

    Source: `mindspore.dataset.audio.DeemphBiquad`.
    """

    def __init__(self, sample_rate: int) -> None:
        shelves = {44100: (5283, 0.4845, -9.477), 48000: (5356, 0.479, -9.62)}
        if checks.of_type("sample_rate", sample_rate, int) not in shelves:
            raise ValueError("Input sample_rate should be 44100 or 48000, but got "
                             f"{sample_rate}.")
        frequency, slope, gain = shelves[sample_rate]
        angle, size = 2 * math.pi * frequency / sample_rate, _amplitude(gain)
        alpha = math.sin(angle) / 2 * math.sqrt((size + 1 / size) * (1 / slope - 1) + 2)
        self._set(_shelf(angle, alpha, size, 1))


class EqualizerBiquad(Biquad):
    """Makes what is about a frequency louder or softer.

    Args:
        sample_rate, Q: as of `AllpassBiquad`.
        center_freq: Hz.
        gain: dB.

    Source: `mindspore.dataset.audio.EqualizerBiquad`.
    """

    def __init__(
        self, sample_rate: int, center_freq: float, gain: float, Q: float = 0.707
    ) -> None:
        angle = _angle(sample_rate, center_freq, "center_freq")
        alpha, size = _width(angle, Q), _amplitude(gain)
        b0, b1, b2 = _poles(angle, alpha * size)
        self._set((b0, b1, b2, *_poles(angle, alpha / size)))


class HighpassBiquad(Biquad):
    """Keeps what is above a frequency.

    Args:
        sample_rate, Q: as of `AllpassBiquad`.
        cutoff_freq: Hz.

    Source: `mindspore.dataset.audio.HighpassBiquad`.
    """

    def __init__(self, sample_rate: int, cutoff_freq: float, Q: float = 0.707) -> None:
        angle = _angle(sample_rate, cutoff_freq, "cutoff_freq")
        above = (1 + math.cos(angle)) / 2
        self._set((above, -2 * above, above, *_poles(angle, _width(angle, Q))))


class LowpassBiquad(Biquad):
    """Keeps what is below a frequency.

    Args:
        sample_rate, Q: as of `AllpassBiquad`.
        cutoff_freq: Hz.

    Source: `mindspore.dataset.audio.LowpassBiquad`.
    """

    def __init__(self, sample_rate: int, cutoff_freq: float, Q: float = 0.707) -> None:
        angle = _angle(sample_rate, cutoff_freq, "cutoff_freq")
        below = (1 - math.cos(angle)) / 2
        self._set((below, 2 * below, below, *_poles(angle, _width(angle, Q))))


class RiaaBiquad(Biquad):
    """Undoes what records were cut with (RIAA's curve), with 0 dB at 1 kHz.

    Args:
        sample_rate: 44100, 48000, 88200 or 96000 Hz.

    Raises:
        ValueError: another one.

    Source: `mindspore.dataset.audio.RiaaBiquad`.
    """

    def __init__(self, sample_rate: int) -> None:
        roots = {  # zeros and poles, as SoX has them
            44100: ((-0.2014898, 0.9233820), (0.7083149, 0.9924091)),
            48000: ((-0.1766069, 0.9321590), (0.7396325, 0.9931330)),
            88200: ((-0.1168735, 0.9648312), (0.8590646, 0.9964002)),
            96000: ((-0.1141486, 0.9676817), (0.8699137, 0.9966946)),
        }
        if checks.of_type("sample_rate", sample_rate, int) not in roots:
            raise ValueError("Input sample_rate should be one of [44100, 48000, 88200, 96000], "
                             f"but got {sample_rate}.")
        zeros, poles = ((1.0, -(r[0] + r[1]), r[0] * r[1]) for r in roots[sample_rate])
        at = np.exp(-2j * math.pi * 1000 / sample_rate * np.arange(3))
        gain = abs(np.dot(poles, at)) / abs(np.dot(zeros, at))
        self._set((gain * zeros[0], gain * zeros[1], gain * zeros[2], *poles))
