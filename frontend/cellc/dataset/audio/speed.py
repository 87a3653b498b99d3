"""Other rates: of samples, of time without pitch, and of pitch without time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..declared import argument, integer, member, number
from .base import Array, ResampleMethod, SoundTransform, WindowType, positive
from .spectra import Frames, joined, pairs

__all__ = ["PhaseVocoder", "PitchShift", "Resample", "TimeStretch"]
_HZ = "Hz, 1 or more; as whole numbers."
_BETA = 14.769656459379492
"""Of Kaiser's window, for 'kaiser_best' of the package resampy."""


def resampled(
    x: Array, old: float, new: float, method: ResampleMethod, width: int, rolloff: float,
    beta: float,
) -> Array:
    """A waveform (..., time) at another rate, by a windowed sinc (J. O. Smith, "Digital Audio
    Resampling").

    Args:
        old, new: Hz, above 0.
        width: zero crossings of the sinc on a side.
        rolloff: where it cuts, as a part of the lower rate's half.
        beta: of Kaiser's window.
    """
    if old == new:
        return x
    common = math.gcd(int(old), int(new))
    old, new = int(old) // common, int(new) // common
    cut = min(old, new) * rolloff
    side = math.ceil(width * old / cut)
    count = math.ceil(new * x.shape[-1] / old)
    # A sample falls between samples of the old rate in one of `new` ways. Only taps that its kernel
    # reaches are made, and only of ways that occur: two rates may have no common divisor.
    ways = np.arange(min(new, count))
    first = ways * old // new
    at = (first[:, None] + np.arange(-side, side + 2)) / old
    t = np.clip((at - ways[:, None] / new) * cut, -width, width)
    if method == ResampleMethod.SINC_INTERPOLATION:
        window = np.cos(t * math.pi / width / 2) ** 2
    else:
        window = np.i0(beta * np.sqrt(1 - (t / width) ** 2)) / np.i0(beta)
    kernels = np.sinc(t) * window * (cut / old)
    way, start = np.arange(count) % new, np.arange(count) // new * old
    start += first[way]
    wide = np.pad(x, (*((0, 0),) * (x.ndim - 1), (side, side + old)))
    made = np.zeros((*x.shape[:-1], count))
    for tap in range(kernels.shape[1]):
        made += kernels[way, tap] * wide[..., start + tap]
    return made


def _rate(name: str, value: Any) -> float:
    if positive(name, value) < 1:
        raise ValueError(f"orig_freq and new_freq should be at least 1, but got {value}.")
    return float(value)


class Resample(SoundTransform):
    """A waveform (..., time) at another rate; see `resampled`."""

    orig_freq: float = argument(_rate, default=16000, text=_HZ)
    new_freq: float = argument(_rate, default=16000, text=_HZ)
    resample_method: ResampleMethod = member(
        ResampleMethod, default=ResampleMethod.SINC_INTERPOLATION, text="a `ResampleMethod`.")
    lowpass_filter_width: int = integer(
        1, default=6, text="zero crossings of the filter on a side.")
    rolloff: float = argument(lambda name, value: positive(name, value, 1.0), default=0.99,
                              text="where it cuts, above 0, up to 1.")
    beta: float | None = number(-1e4, 1e4, default=None, text="of Kaiser's window; None: 14.77.")

    def _apply(self, x: Array) -> Array:
        return resampled(x, self.orig_freq, self.new_freq, self.resample_method,
                         self.lowpass_filter_width, self.rolloff,
                         _BETA if self.beta is None else self.beta)


def stretched(z: Array, rate: float, advance: Array) -> Array:
    """Complex spectra (..., frequency, time) that run at another speed, with phases that go on as
    they did (Flanagan and Golden 1966).

    Args:
        rate: above 0; 2 is twice as fast.
        advance: what a phase grows by from frame to frame, (frequency, 1).
    """
    if rate == 1:
        return z
    steps = np.arange(0, z.shape[-1], rate)
    wide = np.pad(z, (*((0, 0),) * (z.ndim - 1), (0, 2)))
    first, second = wide[..., steps.astype(int)], wide[..., (steps + 1).astype(int)]
    grows = np.angle(second) - np.angle(first) - advance
    grows = grows - 2 * math.pi * np.round(grows / (2 * math.pi)) + advance
    phases = np.cumsum(np.concatenate((np.angle(z[..., :1]), grows[..., :-1]), -1), -1)
    part = steps % 1.0
    return np.asarray((part * np.abs(second) + (1 - part) * np.abs(first)) * np.exp(1j * phases))


class PhaseVocoder(SoundTransform):
    """Complex spectra (..., frequency, time, 2) at another speed; see `stretched`.

    Args:
        rate: above 0; 2 is twice as fast.
        phase_advance: what phases grow by from frame to frame, an array (frequency, 1).

    Raises:
        RuntimeError: at a call, for another number of frequencies.

    Source: `mindspore.dataset.audio.PhaseVocoder`.
    """

    _axes, _pairs = 3, True

    def __init__(self, rate: float, phase_advance: Any) -> None:
        self.rate = positive("rate", rate)
        self.advance = checks.of_type("phase_advance", phase_advance, np.ndarray)
        if self.advance.ndim != 2 or self.advance.shape[1] != 1:
            raise ValueError("Shape of phase_advance should be (freq, 1), but got "
                             f"{self.advance.shape}.")

    def _apply(self, x: Array) -> Array:
        if x.shape[-3] != len(self.advance):
            raise self._refused(f"phase_advance is for {len(self.advance)} frequencies, but there "
                                f"are {x.shape[-3]}.")
        return pairs(stretched(joined(x), self.rate, self.advance))


class TimeStretch(SoundTransform):
    """Complex spectra (..., frequency, time, 2) at another speed, without another pitch."""

    hop_length: int | None = integer(
        1, default=None, text="samples from frame to frame; None: `n_freq - 1`.")
    n_freq: int = integer(1, default=201, text="how many frequencies.")
    fixed_rate: float | None = argument(
        positive, default=None, none=1.0, text="above 0; 2 is twice as fast; None: as fast, as "
                                               "(channel, frequency, time, 2).")
    _axes, _pairs = 3, True

    def _apply(self, x: Array) -> Array:
        if self.fixed_rate == 1:
            # MindSpore gives these with one axis of channels, whatever there was.
            return x.reshape(-1, *x.shape[-3:])
        if x.shape[-3] != self.n_freq:
            raise self._refused(f"n_freq is {self.n_freq}, but there are {x.shape[-3]} "
                                "frequencies.")
        hop = self.n_freq - 1 if self.hop_length is None else self.hop_length
        advance = np.linspace(0, math.pi * hop, self.n_freq)[:, None]
        return pairs(stretched(joined(x), self.fixed_rate or 1.0, advance))


class PitchShift(SoundTransform):
    """Other pitch, of a waveform (..., time), without another speed.

    Args:
        sample_rate: Hz.
        n_steps: how many steps higher.
        bins_per_octave: steps of an octave, not 0.
        n_fft, win_length, hop_length, window: of the frames; a quarter of a window is a hop by
            default.

    Source: `mindspore.dataset.audio.PitchShift`.
    """

    def __init__(
        self, sample_rate: int, n_steps: int, bins_per_octave: int = 12, n_fft: int = 512,
        win_length: int | None = None, hop_length: int | None = None,
        window: WindowType = WindowType.HANN,
    ) -> None:
        self.rate = checks.integer("sample_rate", sample_rate, 1)
        steps = checks.integer("n_steps", n_steps, -(2**31))
        octave = checks.integer("bins_per_octave", bins_per_octave, -(2**31))
        if not octave:
            raise ValueError("bins_per_octave should not be 0.")
        wide = n_fft if win_length is None else win_length
        hop = max(wide // 4, 1) if hop_length is None else hop_length
        self.frames = Frames(n_fft, wide, hop, window)
        self.speed = 2.0 ** (-steps / octave)

    def _apply(self, x: Array) -> Array:
        advance = np.linspace(0, math.pi * self.frames.hop, self.frames.bins)[:, None]
        time = x.shape[-1]
        try:
            slow = stretched(self.frames.spectra(x), self.speed, advance)
            made = self.frames.waveform(slow, round(time / self.speed))
        except ValueError as e:
            raise self._refused(str(e)) from None
        made = resampled(made, int(self.rate / self.speed), self.rate,
                         ResampleMethod.SINC_INTERPOLATION, 6, 0.99, _BETA)[..., :time]
        return np.pad(made, (*((0, 0),) * (x.ndim - 1), (0, time - made.shape[-1])))
