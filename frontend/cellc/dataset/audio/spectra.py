"""Short-time Fourier transforms, their inverses, and features of spectra."""

from __future__ import annotations

import inspect
import math
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, NonNegative, NonNegativeNumber, Positive, PositiveNumber, integer
from ..declared import argument
from ..transforms import RandomTransform
from .base import Array, BorderType, ScaleType, SoundTransform, WindowType

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
    """How waveforms are cut into frames that overlap; the arguments are those of `Framed`.

    Raises:
        ValueError: a window is longer than a frame.
    """

    def __init__(
        self, n_fft: int = 400, win_length: int | None = None, hop_length: int | None = None,
        window: WindowType = WindowType.HANN, center: bool = True,
        pad_mode: BorderType = BorderType.REFLECT, onesided: bool = True, normalized: bool = False,
    ) -> None:
        wide = n_fft if win_length is None else win_length
        if wide > n_fft:
            raise ValueError(f"Input win_length should be no more than n_fft, but got win_length: "
                             f"{wide} and n_fft: {n_fft}.")
        self.size, self.center, self.half = n_fft, center, onesided
        self.hop = max(wide // 2, 1) if hop_length is None else hop_length
        before = (n_fft - wide) // 2
        self.window = np.pad(window_of(window, wide), (before, n_fft - wide - before))
        self.pads = _PADS[pad_mode]
        self.scale = float(np.sqrt((self.window**2).sum())) if normalized else 1.0

    @property
    def bins(self) -> int:
        """Frequencies of a spectrum."""
        return self.size // 2 + 1 if self.half else self.size

    def spectra(self, x: Array) -> Array:
        """Complex spectra (..., frequency, time) of waveforms (..., time). Raises ValueError if the
        waveform is too short."""
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


class Framed(SoundTransform):
    """Base of transforms of frames, whose arguments are declared by each."""

    _texts = {
        "n_fft": "samples of a frame.",
        "win_length": "samples of its window, which stands in the middle; None: all.",
        "hop_length": "samples from frame to frame; None: half of a window.",
        "pad": "zeros at both ends.",
        "power": "1 for amplitudes, 2 for power; 0 gives complex numbers as pairs.",
        "normalized": "by the energy of the window.",
        "center": "a frame stands about its time; there are samples beyond the ends for that.",
        "pad_mode": "what those are.",
        "onesided": "half of a spectrum, whose other half mirrors it."}

    def _prepare(self) -> None:
        kept = inspect.signature(Frames).parameters.keys() & vars(self).keys()
        self.frames = Frames(**{name: vars(self)[name] for name in kept})


class Spectrogram(Framed):
    """Spectra (..., frequency, time) of a waveform (..., time).

    Raises:
        RuntimeError: at a call, for a waveform that is too short.
    """

    n_fft: Positive = 400
    win_length: Positive | None = None
    hop_length: Positive | None = None
    pad: NonNegative = 0
    window: WindowType = WindowType.HANN
    power: NonNegativeNumber = 2.0
    normalized: Flag = False
    center: Flag = True
    pad_mode: BorderType = BorderType.REFLECT
    onesided: Flag = True

    def _apply(self, x: Array) -> Array:
        wide = np.pad(x, (*((0, 0),) * (x.ndim - 1), (self.pad, self.pad)))
        try:
            found = self.frames.spectra(wide)
        except ValueError as e:
            raise self._refused(str(e)) from None
        return pairs(found) if not self.power else np.abs(found) ** self.power


class InverseSpectrogram(Framed):
    """The waveform (..., time) of complex spectra (..., frequency, time, 2).

    Raises:
        RuntimeError: at a call, for another number of frequencies.
    """

    length: Positive | None = argument(default=None, text="samples of the result; None: all.")
    n_fft: Positive = 400
    win_length: Positive | None = None
    hop_length: Positive | None = None
    pad: NonNegative = argument(default=0, text="samples that are taken away from both ends.")
    window: WindowType = WindowType.HANN
    normalized: Flag = False
    center: Flag = True
    pad_mode: BorderType = BorderType.REFLECT
    onesided: Flag = True
    _axes, _pairs = 3, True

    def _apply(self, x: Array) -> Array:
        length = None if self.length is None else self.length + 2 * self.pad
        try:
            made = self.frames.waveform(joined(x), length)
        except ValueError as e:
            raise self._refused(str(e)) from None
        return made[..., self.pad : made.shape[-1] - self.pad]


class GriffinLim(Framed, RandomTransform):
    """A waveform (..., time) whose spectra have given sizes (..., frequency, time); the phases are
    found step by step (Perraudin, Balazs and Sondergaard 2013).

    Raises:
        RuntimeError: at a call, for another number of frequencies.
    """

    n_fft: Positive = 400
    n_iter: Positive = argument(default=32, text="how many steps.")
    win_length: Positive | None = None
    hop_length: Positive | None = None
    window_type: WindowType = WindowType.HANN
    power: PositiveNumber = argument(default=2.0, text="1: the sizes are amplitudes, 2: power.")
    momentum: NonNegativeNumber = argument(default=0.99, text="of the steps, 0 or more.")
    length: Positive | None = argument(default=None, text="samples of the result; None: all.")
    rand_init: Flag = argument(
        default=True, text="the steps begin with random numbers, not with ones.")
    _axes = 2

    def _prepare(self) -> None:
        self.frames = Frames(self.n_fft, self.win_length, self.hop_length, self.window_type)

    def _apply(self, x: Array) -> Array:
        sizes = x ** (1 / self.power)
        turned = joined(units(self, (*x.shape, 2))) if self.rand_init else np.ones(x.shape)
        before: Any = 0.0
        pushed = self.momentum / (1 + self.momentum)
        try:
            for _ in range(self.n_iter):
                found = self.frames.spectra(self.frames.waveform(sizes * turned, self.length))
                turned = found + (found - before) * pushed
                turned = turned / (np.abs(turned) + 1e-16)
                before = found
            return self.frames.waveform(sizes * turned, self.length)
        except ValueError as e:
            raise self._refused(str(e)) from None


class SpectralCentroid(Framed):
    """The mean frequency (..., 1, time) of each frame, weighted by amplitudes."""

    sample_rate: Positive = argument(text="Hz.")
    n_fft: Positive = 400
    win_length: Positive | None = None
    hop_length: Positive | None = None
    pad: NonNegative = 0
    window: WindowType = WindowType.HANN

    def _prepare(self) -> None:
        self.amplitudes = Spectrogram(
            self.n_fft, self.win_length, self.hop_length, self.pad, self.window, 1.0)

    def _apply(self, x: Array) -> Array:
        found = self.amplitudes._apply(x)
        heights = np.linspace(0, self.sample_rate // 2, found.shape[-2])[:, None]
        sums = found.sum(-2, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):  # silence has no centre: NaN
            return np.asarray((heights * found).sum(-2, keepdims=True) / sums)


class AmplitudeToDB(SoundTransform):
    """Decibels of power or amplitudes (..., frequency, time)."""

    stype: ScaleType = ScaleType.POWER
    ref_value: PositiveNumber = argument(default=1.0, text="what is 0 dB.")
    amin: PositiveNumber = argument(default=1e-10, text="what less is counted as.")
    top_db: PositiveNumber = argument(
        default=80.0, text="what is so far below the loudest of a spectrum (..., channel, "
                           "frequency, time) is raised to it.")
    _axes = 2

    def _prepare(self) -> None:
        self.factor = 10.0 if self.stype == ScaleType.POWER else 20.0
        self.zero = self.factor * math.log10(max(self.amin, self.ref_value))

    def _apply(self, x: Array) -> Array:
        made = self.factor * np.log10(np.maximum(x, self.amin)) - self.zero
        axes = tuple(range(-min(x.ndim, 3), 0))
        return np.asarray(np.maximum(made, made.max(axes, keepdims=True) - self.top_db))


class Angle(SoundTransform):
    """Angles of complex numbers (..., 2)."""

    _pairs = True

    def _apply(self, x: Array) -> Array:
        return np.arctan2(x[..., 1], x[..., 0])


class ComplexNorm(SoundTransform):
    """Absolute values of complex numbers (..., 2), to a power."""

    power: NonNegativeNumber = argument(default=1.0, text="0 or more.")
    _pairs = True

    def _apply(self, x: Array) -> Array:
        return np.asarray(np.power((x * x).sum(-1), 0.5 * self.power))


class Magphase(SoundTransform):
    """Absolute values to a power, and angles, of complex numbers (..., 2)."""

    power: NonNegativeNumber = argument(default=1.0, text="0 or more.")
    _pairs = True

    def _apply(self, x: Array) -> tuple[Array, Array]:
        return ComplexNorm(self.power)._apply(x), np.arctan2(x[..., 1], x[..., 0])


class ComputeDeltas(SoundTransform):
    """How fast each frequency changes: slopes along time, of lines fitted to windows."""

    win_length: Annotated[int, integer(3)] = argument(
        default=5, text="frames of a window, 3 or more.")
    pad_mode: BorderType = argument(default=BorderType.EDGE, text="what is beyond the ends.")
    _axes = 2

    def _apply(self, x: Array) -> Array:
        n = (self.win_length - 1) // 2
        wide = _wider(x, n, _PADS[self.pad_mode])
        cut = np.lib.stride_tricks.sliding_window_view(wide, 2 * n + 1, -1)
        return np.asarray(cut @ np.arange(-n, n + 1) / (n * (n + 1) * (2 * n + 1) / 3))


class SlidingWindowCmn(SoundTransform):
    """Takes the mean of the frames about each one from it (..., frame, feature)."""

    cmn_window: NonNegative = argument(default=600, text="how many frames.")
    min_cmn_window: NonNegative = argument(
        default=100, text="how many at the begin, where `center` is False.")
    center: Flag = argument(
        default=False, text="the window stands about the frame, else before it.")
    norm_vars: Flag = argument(default=False, text="variances are made 1, too.")
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
