"""Other rates: of samples, of time without pitch, and of pitch without time."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from ...core.declared import Int, Positive, PositiveNumber, instance, number
from ..declared import argument
from .base import Array, ResampleMethod, SoundTransform, WindowType
from .spectra import Framed, Frames, joined, pairs

__all__ = ["PhaseVocoder", "PitchShift", "Resample", "TimeStretch"]
_HZ = "Hz, 1 or more; as whole numbers."
_BETA = 14.769656459379492  # Of Kaiser's window, for 'kaiser_best' of the package resampy


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


Hertz = Annotated[float, number(1)]


class Resample(SoundTransform):
    """A waveform (..., time) at another rate; see `resampled`."""

    orig_freq: Hertz = argument(default=16000, text=_HZ)
    new_freq: Hertz = argument(default=16000, text=_HZ)
    resample_method: ResampleMethod = ResampleMethod.SINC_INTERPOLATION
    lowpass_filter_width: Positive = argument(
        default=6, text="zero crossings of the filter on a side.")
    rolloff: Annotated[float, number(0, 1, "(]")] = argument(
        default=0.99, text="where it cuts, above 0, up to 1.")
    beta: Annotated[float, number(-1e4, 1e4)] | None = argument(
        default=None, text="of Kaiser's window; None: 14.77.")

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

    Raises:
        RuntimeError: at a call, for another number of frequencies.
    """

    rate: PositiveNumber = argument(text="2 is twice as fast.")
    phase_advance: Annotated[Any, instance(np.ndarray)] = argument(
        text="what phases grow by from frame to frame, an array (frequency, 1).")
    _axes, _pairs = 3, True

    def _prepare(self) -> None:
        if self.phase_advance.ndim != 2 or self.phase_advance.shape[1] != 1:
            raise ValueError("Shape of phase_advance should be (freq, 1), but got "
                             f"{self.phase_advance.shape}.")

    def _apply(self, x: Array) -> Array:
        if x.shape[-3] != len(self.phase_advance):
            raise self._refused(f"phase_advance is for {len(self.phase_advance)} frequencies, but "
                                f"there are {x.shape[-3]}.")
        return pairs(stretched(joined(x), self.rate, self.phase_advance))


class TimeStretch(SoundTransform):
    """Complex spectra (..., frequency, time, 2) at another speed, without another pitch."""

    hop_length: Positive | None = argument(
        default=None, text="samples from frame to frame; None: `n_freq - 1`.")
    n_freq: Positive = argument(default=201, text="how many frequencies.")
    fixed_rate: PositiveNumber = argument(
        default=None, none=1.0, text="above 0; 2 is twice as fast; None: as fast, as (channel, "
                                     "frequency, time, 2).")
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


class PitchShift(Framed):
    """Other pitch, of a waveform (..., time), without another speed."""

    sample_rate: Positive = argument(text="Hz.")
    n_steps: Int = argument(text="how many steps higher.")
    bins_per_octave: Int = argument(default=12, text="steps of an octave, not 0.")
    n_fft: Positive = 512
    win_length: Positive | None = None
    hop_length: Positive | None = argument(
        default=None, text="samples from frame to frame; None: a quarter of a window.")
    window: WindowType = WindowType.HANN

    def _prepare(self) -> None:
        if not self.bins_per_octave:
            raise ValueError("bins_per_octave should not be 0.")
        wide = self.win_length or self.n_fft
        self.frames = Frames(self.n_fft, wide, self.hop_length or max(wide // 4, 1), self.window)
        self.speed = 2.0 ** (-self.n_steps / self.bins_per_octave)

    def _apply(self, x: Array) -> Array:
        advance = np.linspace(0, math.pi * self.frames.hop, self.frames.bins)[:, None]
        time = x.shape[-1]
        try:
            slow = stretched(self.frames.spectra(x), self.speed, advance)
            made = self.frames.waveform(slow, round(time / self.speed))
        except ValueError as e:
            raise self._refused(str(e)) from None
        made = resampled(made, int(self.sample_rate / self.speed), self.sample_rate,
                         ResampleMethod.SINC_INTERPOLATION, 6, 0.99, _BETA)[..., :time]
        return np.pad(made, (*((0, 0),) * (x.ndim - 1), (0, time - made.shape[-1])))
