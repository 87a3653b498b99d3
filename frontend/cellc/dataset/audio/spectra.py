"""Spectra of short windows, back again, and what is read from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..declared import integer, member, number
from ..transforms import RandomTransform
from .base import Array, BorderType, ScaleType, SoundTransform, WindowType, option

__all__ = [
    "AmplitudeToDB", "Angle", "ComplexNorm", "ComputeDeltas", "GriffinLim", "InverseSpectrogram",
    "Magphase", "SlidingWindowCmn", "SpectralCentroid", "Spectrogram",
]
_PADS = {BorderType.CONSTANT: "constant", BorderType.EDGE: "edge", BorderType.REFLECT: "reflect",
         BorderType.SYMMETRIC: "symmetric"}
"""numpy's names of what is beyond the ends."""


def _wider(x: Array, side: int, mode: Any) -> Array:
    """More samples at both ends of the last axis."""
    return np.asarray(np.pad(x, (*((0, 0),) * (x.ndim - 1), (side, side)), mode))


def window_of(kind: WindowType, size: int) -> Array:
    """A window for frames: periodic, as for spectra."""
    if kind == WindowType.KAISER:
        return np.kaiser(size + 1, 12.0)[:-1]
    made = {WindowType.BARTLETT: np.bartlett, WindowType.BLACKMAN: np.blackman,
            WindowType.HAMMING: np.hamming, WindowType.HANN: np.hanning}[kind](size + 1)[:-1]
    return np.asarray(made) if size > 1 else np.ones(size)


class Frames:
    """How waveforms are cut into frames that overlap.

    Args:
        n_fft: samples of a frame.
        win_length: samples of its window, which stands in the middle; None: all.
        hop_length: samples from frame to frame; None: half of a window.
        window: a `WindowType`.
        center: a frame stands about its time; there are samples beyond the ends for that.
        pad_mode: what those are.
        onesided: half of a spectrum, whose other half mirrors it.
        normalized: by the energy of the window.

    Raises:
        TypeError, ValueError: no such values; a window longer than a frame.
    """

    def __init__(
        self, n_fft: int, win_length: int | None, hop_length: int | None, window: WindowType,
        center: bool = True, pad_mode: BorderType = BorderType.REFLECT, onesided: bool = True,
        normalized: bool = False,
    ) -> None:
        self.size = checks.integer("n_fft", n_fft, 1)
        wide = n_fft if win_length is None else checks.integer("win_length", win_length, 1)
        if wide > n_fft:
            raise ValueError(f"Input win_length should be no more than n_fft, but got win_length: "
                             f"{wide} and n_fft: {n_fft}.")
        self.hop = max(wide // 2, 1) if hop_length is None else checks.integer(
            "hop_length", hop_length, 1)
        before = (n_fft - wide) // 2
        self.window = np.pad(window_of(option("window", window, WindowType), wide),
                             (before, n_fft - wide - before))
        self.center = checks.of_type("center", center, bool)
        self.pads = _PADS[option("pad_mode", pad_mode, BorderType)]
        self.half = checks.of_type("onesided", onesided, bool)
        normal = checks.of_type("normalized", normalized, bool)
        self.scale = float(np.sqrt((self.window**2).sum())) if normal else 1.0

    @property
    def bins(self) -> int:
        """Frequencies of a spectrum."""
        return self.size // 2 + 1 if self.half else self.size

    def spectra(self, x: Array) -> Array:
        """Complex spectra (..., frequency, time) of waveforms (..., time).

        Raises:
            ValueError: a waveform that is too short.
        """
        if self.center:
            side = self.size // 2
            x = _wider(x, side, self.pads)
        if x.shape[-1] < self.size:
            raise ValueError(f"n_fft {self.size} is more than the waveform's length {x.shape[-1]}.")
        cut = np.lib.stride_tricks.sliding_window_view(x, self.size, -1)[..., :: self.hop, :]
        turn = np.fft.rfft if self.half else np.fft.fft
        return np.swapaxes(turn(cut * self.window, axis=-1), -1, -2) / self.scale

    def waveform(self, spectra: Array, length: int | None = None) -> Array:
        """The waveform (..., time) whose spectra are nearest (Griffin and Lim 1984).

        Args:
            spectra: complex (..., frequency, time).
            length: samples of the result; what is missing is 0.
        """
        if spectra.shape[-2] != self.bins:
            raise ValueError(f"spectra of {self.bins} frequencies are wanted for n_fft "
                             f"{self.size}, but there are {spectra.shape[-2]}.")
        columns = np.swapaxes(spectra, -1, -2) * self.scale
        back = (np.fft.irfft(columns, self.size, -1) if self.half
                else np.fft.ifft(columns, axis=-1).real) * self.window
        total = self.size + self.hop * (back.shape[-2] - 1)
        sums, weights = np.zeros((*back.shape[:-2], total)), np.zeros(total)
        for n in range(back.shape[-2]):
            at = slice(n * self.hop, n * self.hop + self.size)
            sums[..., at] += back[..., n, :]
            weights[at] += self.window**2
        first = self.size // 2 if self.center else 0
        last = (total - first if self.center else total) if length is None else first + length
        made = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 1e-11)
        made = made[..., first:last]
        short = 0 if length is None else length - made.shape[-1]
        return np.pad(made, (*((0, 0),) * (made.ndim - 1), (0, short))) if short > 0 else made


def pairs(z: Array) -> Array:
    """Complex numbers as real and imaginary parts along a new last axis."""
    return np.stack((z.real, z.imag), -1)


def joined(x: Array) -> Array:
    """Complex numbers of real and imaginary parts along the last axis."""
    return np.asarray(x[..., 0] + 1j * x[..., 1])


def units(transform: RandomTransform, shape: tuple[int, ...]) -> Array:
    """Numbers from 0 to 1, drawn by a transform."""
    return np.random.RandomState(transform.random.word() % 2**32).random_sample(shape)


class Spectrogram(SoundTransform):
    """Spectra (..., frequency, time) of a waveform (..., time).

    Args:
        n_fft, win_length, hop_length, window, normalized, center, pad_mode, onesided: see `Frames`.
        pad: zeros at both ends.
        power: 1 for amplitudes, 2 for power; 0 gives complex numbers as pairs.

    Raises:
        RuntimeError: at a call, for a waveform that is too short.

    Source: `mindspore.dataset.audio.Spectrogram`.
    """

    def __init__(
        self, n_fft: int = 400, win_length: int | None = None, hop_length: int | None = None,
        pad: int = 0, window: WindowType = WindowType.HANN, power: float = 2.0,
        normalized: bool = False, center: bool = True, pad_mode: BorderType = BorderType.REFLECT,
        onesided: bool = True,
    ) -> None:
        self.frames = Frames(n_fft, win_length, hop_length, window, center, pad_mode, onesided,
                             normalized)
        self.pad = checks.integer("pad", pad, 0)
        self.power = checks.number("power", power, 0)

    def _apply(self, x: Array) -> Array:
        wide = np.pad(x, (*((0, 0),) * (x.ndim - 1), (self.pad, self.pad)))
        try:
            found = self.frames.spectra(wide)
        except ValueError as e:
            raise self._refused(str(e)) from None
        return pairs(found) if not self.power else np.abs(found) ** self.power


class InverseSpectrogram(SoundTransform):
    """The waveform (..., time) of complex spectra (..., frequency, time, 2).

    Args:
        length: samples of the result; None: all.
        n_fft, win_length, hop_length, window, normalized, center, pad_mode, onesided: see `Frames`.
        pad: samples that are taken away from both ends.

    Raises:
        RuntimeError: at a call, for another number of frequencies.

    Source: `mindspore.dataset.audio.InverseSpectrogram`.
    """

    _axes, _pairs = 3, True

    def __init__(
        self, length: int | None = None, n_fft: int = 400, win_length: int | None = None,
        hop_length: int | None = None, pad: int = 0, window: WindowType = WindowType.HANN,
        normalized: bool = False, center: bool = True, pad_mode: BorderType = BorderType.REFLECT,
        onesided: bool = True,
    ) -> None:
        self.length = None if length is None else checks.integer("length", length, 1)
        self.frames = Frames(n_fft, win_length, hop_length, window, center, pad_mode, onesided,
                             normalized)
        self.pad = checks.integer("pad", pad, 0)

    def _apply(self, x: Array) -> Array:
        length = None if self.length is None else self.length + 2 * self.pad
        try:
            made = self.frames.waveform(joined(x), length)
        except ValueError as e:
            raise self._refused(str(e)) from None
        return made[..., self.pad : made.shape[-1] - self.pad]


class GriffinLim(SoundTransform, RandomTransform):
    """A waveform (..., time) whose spectra have given sizes (..., frequency, time); the phases are
    found step by step (Perraudin, Balazs and Sondergaard 2013).

    Args:
        n_fft, win_length, hop_length: see `Frames`.
        n_iter: how many steps.
        window_type: a `WindowType`.
        power: 1: the sizes are amplitudes, 2: power.
        momentum: of the steps, 0 or more.
        length: samples of the result; None: all.
        rand_init: the steps begin with random numbers, not with ones.

    Raises:
        RuntimeError: at a call, for another number of frequencies.

    Source: `mindspore.dataset.audio.GriffinLim`.
    """

    _axes = 2

    def __init__(
        self, n_fft: int = 400, n_iter: int = 32, win_length: int | None = None,
        hop_length: int | None = None, window_type: WindowType = WindowType.HANN,
        power: float = 2.0, momentum: float = 0.99, length: int | None = None,
        rand_init: bool = True,
    ) -> None:
        self.frames = Frames(n_fft, win_length, hop_length, window_type)
        self.steps = checks.integer("n_iter", n_iter, 1)
        self.power = checks.number("power", power, 1e-30)
        pushed = checks.number("momentum", momentum, 0.0)
        self.momentum = pushed / (1 + pushed)
        self.length = None if length is None else checks.integer("length", length, 1)
        self.drawn = checks.of_type("rand_init", rand_init, bool)

    def _apply(self, x: Array) -> Array:
        sizes = x ** (1 / self.power)
        turned = joined(units(self, (*x.shape, 2))) if self.drawn else np.ones(x.shape)
        before: Any = 0.0
        try:
            for _ in range(self.steps):
                found = self.frames.spectra(self.frames.waveform(sizes * turned, self.length))
                turned = found + (found - before) * self.momentum
                turned = turned / (np.abs(turned) + 1e-16)
                before = found
            return self.frames.waveform(sizes * turned, self.length)
        except ValueError as e:
            raise self._refused(str(e)) from None


class SpectralCentroid(SoundTransform):
    """The mean frequency (..., 1, time) of each frame, weighted by amplitudes.

    Args:
        sample_rate: Hz.
        n_fft, win_length, hop_length, pad, window: as of `Spectrogram`.

    Source: `mindspore.dataset.audio.SpectralCentroid`.
    """

    def __init__(
        self, sample_rate: int, n_fft: int = 400, win_length: int | None = None,
        hop_length: int | None = None, pad: int = 0, window: WindowType = WindowType.HANN,
    ) -> None:
        self.rate = checks.integer("sample_rate", sample_rate, 1)
        self.amplitudes = Spectrogram(n_fft, win_length, hop_length, pad, window, 1.0)

    def _apply(self, x: Array) -> Array:
        found = self.amplitudes._apply(x)
        heights = np.linspace(0, self.rate // 2, found.shape[-2])[:, None]
        sums = found.sum(-2, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):  # silence has no centre: NaN
            return np.asarray((heights * found).sum(-2, keepdims=True) / sums)


class AmplitudeToDB(SoundTransform):
    """Decibels of power or amplitudes (..., frequency, time)."""

    stype: ScaleType = member(ScaleType, default=ScaleType.POWER, text="a `ScaleType`.")
    ref_value: float = number(1e-37, math.inf, default=1.0, text="what is 0 dB.")
    amin: float = number(1e-37, math.inf, default=1e-10, text="what less is counted as.")
    top_db: float = number(
        1e-37, math.inf, default=80.0, text="what is so far below the loudest of a spectrum (..., "
                                            "channel, frequency, time) is raised to it.")
    _axes = 2

    def _prepare(self) -> None:
        self.factor = 10.0 if self.stype == ScaleType.POWER else 20.0
        self.zero = self.factor * math.log10(max(self.amin, self.ref_value))

    def _apply(self, x: Array) -> Array:
        made = self.factor * np.log10(np.maximum(x, self.amin)) - self.zero
        axes = tuple(range(-min(x.ndim, 3), 0))
        return np.asarray(np.maximum(made, made.max(axes, keepdims=True) - self.top_db))


class Angle(SoundTransform):
    """Angles of complex numbers (..., 2). Source: `mindspore.dataset.audio.Angle`."""

    _pairs = True

    def _apply(self, x: Array) -> Array:
        return np.arctan2(x[..., 1], x[..., 0])


class ComplexNorm(SoundTransform):
    """Absolute values of complex numbers (..., 2), to a power."""

    power: float = number(0, math.inf, default=1.0, text="0 or more.")
    _pairs = True

    def _apply(self, x: Array) -> Array:
        return np.asarray(np.power((x * x).sum(-1), 0.5 * self.power))


class Magphase(SoundTransform):
    """Absolute values to a power, and angles, of complex numbers (..., 2)."""

    power: float = number(0, math.inf, default=1.0, text="0 or more.")
    _pairs = True

    def _apply(self, x: Array) -> tuple[Array, Array]:
        return ComplexNorm(self.power)._apply(x), np.arctan2(x[..., 1], x[..., 0])


class ComputeDeltas(SoundTransform):
    """How fast each frequency changes: slopes along time, of lines fitted to windows."""

    win_length: int = integer(3, default=5, text="frames of a window, 3 or more.")
    pad_mode: BorderType = member(
        BorderType, default=BorderType.EDGE, text="what is beyond the ends.")
    _axes = 2

    def _apply(self, x: Array) -> Array:
        n = (self.win_length - 1) // 2
        wide = _wider(x, n, _PADS[self.pad_mode])
        cut = np.lib.stride_tricks.sliding_window_view(wide, 2 * n + 1, -1)
        return np.asarray(cut @ np.arange(-n, n + 1) / (n * (n + 1) * (2 * n + 1) / 3))


class SlidingWindowCmn(SoundTransform):
    """Takes the mean of the frames about each one from it (..., frame, feature)."""

    cmn_window: int = integer(0, default=600, text="how many frames.")
    min_cmn_window: int = integer(
        0, default=100, text="how many at the begin, where `center` is False.")
    center: bool = member(
        bool, default=False, text="the window stands about the frame, else before it.")
    norm_vars: bool = member(bool, default=False, text="variances are made 1, too.")
    _axes = 2

    def _span(self, t: int, frames: int) -> tuple[int, int]:
        """The frames from which the mean at one is taken."""
        first = t - self.cmn_window // 2 if self.center else t - self.cmn_window
        last = first + self.cmn_window if self.center else t + 1
        if first < 0:
            first, last = 0, last - first
        if not self.center and last > t:
            last = max(t + 1, self.min_cmn_window)
        if last > frames:
            first, last = max(first - (last - frames), 0), frames
        return first, last

    def _apply(self, x: Array) -> Array:
        made = np.empty(x.shape)
        for t in range(x.shape[-2]):
            first, last = self._span(t, x.shape[-2])
            near = x[..., first:last, :]
            made[..., t, :] = x[..., t, :] - near.mean(-2)
            if self.norm_vars and last - first == 1:
                made[..., t, :] = 0
            elif self.norm_vars:
                made[..., t, :] /= near.std(-2)
        return made
