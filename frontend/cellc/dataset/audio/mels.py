"""Spectra by pitch: mel and linear filter banks, and cepstra made of them."""

from __future__ import annotations

import inspect
import math
from typing import Annotated, Any

import numpy as np

from ...core.declared import (
    Flag,
    NonNegative,
    NonNegativeNumber,
    Number,
    Positive,
    PositiveNumber,
    checks_arguments,
    integer,
    number,
)
from ..declared import argument
from ..transforms import RandomTransform
from .base import Array, BorderType, MelType, NormMode, NormType, SoundTransform, WindowType
from .spectra import AmplitudeToDB, Framed, Spectrogram, units

__all__ = [
    "InverseMelScale", "LFCC", "MFCC", "MelScale", "MelSpectrogram", "create_dct", "linear_fbanks",
    "melscale_fbanks",
]
_LINEAR, _KNEE = 200.0 / 3, 1000.0
"""Slaney's scale: Hz of a mel below the knee, which is at 1 kHz; logarithms above it."""
_STEP = math.log(6.4) / 27.0


def _mels(hertz: float, kind: MelType) -> float:
    if kind == MelType.HTK:
        return 2595.0 * math.log10(1 + hertz / 700)
    if hertz < _KNEE:
        return hertz / _LINEAR
    return _KNEE / _LINEAR + math.log(hertz / _KNEE) / _STEP


def _hertz(mels: Array, kind: MelType) -> Array:
    if kind == MelType.HTK:
        return 700.0 * (10 ** (mels / 2595) - 1)
    knee = _KNEE / _LINEAR
    return np.where(mels < knee, mels * _LINEAR, _KNEE * np.exp(_STEP * (mels - knee)))


def _triangles(heights: Array, points: Array) -> Array:
    """Weights (frequency, filter): each filter rises from a point to the next, and falls again."""
    gaps = np.diff(points)
    slopes = points[None, :] - heights[:, None]
    return np.maximum(0.0, np.minimum(-slopes[:, :-2] / gaps[:-1], slopes[:, 2:] / gaps[1:]))


def _check_range(low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"MelScale: f_min should be less than f_max, but got {low} and {high}.")


@checks_arguments
def melscale_fbanks(
    n_freqs: Positive, f_min: Number, f_max: NonNegativeNumber, n_mels: Positive,
    sample_rate: Positive, norm: NormType = NormType.NONE, mel_type: MelType = MelType.HTK,
) -> Array:
    """Weights (frequency, mel) of triangles that are equally wide in mels, float32.

    Args:
        n_freqs: how many frequencies, from 0 to half of the rate.
        f_min, f_max: Hz.
        n_mels: how many triangles.
        sample_rate: Hz.
        norm: whether each triangle has the same area.
        mel_type: a `MelType`.
    """
    return _bank(n_freqs, f_min, f_max, n_mels, sample_rate, norm, mel_type).astype(np.float32)


def _bank(
    n_freqs: int, low: float, high: float, count: int, rate: int, norm: NormType, kind: MelType
) -> Array:
    _check_range(low, high)
    ends = _mels(low, kind), _mels(high, kind)
    points = _hertz(np.linspace(*ends, count + 2), kind)
    made = _triangles(np.linspace(0, rate // 2, n_freqs), points)
    return made * (2.0 / (points[2:] - points[:-2])) if norm == NormType.SLANEY else made


@checks_arguments
def linear_fbanks(
    n_freqs: Positive, f_min: Number, f_max: NonNegativeNumber, n_filter: Positive,
    sample_rate: Positive,
) -> Array:
    """Weights (frequency, filter) of triangles that are equally wide, float32.

    Args:
        n_freqs, f_min, f_max, sample_rate: as of `melscale_fbanks`.
        n_filter: how many triangles.
    """
    _check_range(f_min, f_max)
    points = np.linspace(f_min, f_max, n_filter + 2)
    return _triangles(np.linspace(0, sample_rate // 2, n_freqs), points).astype(np.float32)


@checks_arguments
def create_dct(n_mfcc: Positive, n_mels: Positive, norm: NormMode = NormMode.NONE) -> Array:
    """Weights (mel, coefficient) of a cosine transform of kind 2, float32.

    Args:
        n_mfcc: how many coefficients.
        n_mels: how many numbers they are made of.
        norm: whether it is orthonormal.
    """
    made = np.cos(math.pi / n_mels * np.outer(np.arange(n_mels) + 0.5, np.arange(n_mfcc)))
    if norm == NormMode.NONE:
        return (made * 2).astype(np.float32)
    made[:, 0] *= 1 / math.sqrt(2)
    return (made * math.sqrt(2 / n_mels)).astype(np.float32)


class _Band:
    """The attributes of transforms over a range of frequencies; each declares them."""

    sample_rate: int
    f_min: float
    f_max: float | None

    def _high(self) -> float:
        return self.sample_rate // 2 if self.f_max is None else self.f_max


_OF_MELS = {
    "n_mels": "how many mels.", "sample_rate": "Hz.", "f_min": "Hz.",
    "f_max": "Hz; None: half of the rate.", "n_stft": "how many frequencies.",
    "norm": "whether each mel has the same area."}


class _Mel(_Band, SoundTransform):
    """Base of transforms to mels and back."""

    _texts = _OF_MELS
    _axes = 2

    def _prepare(self) -> None:
        of = vars(self)
        self.bank = _bank(of["n_stft"], self.f_min, self._high(), of["n_mels"], self.sample_rate,
                          of["norm"], of["mel_type"])


class MelScale(_Mel):
    """A spectrum (..., frequency, time) by mels (..., mel, time).

    Raises:
        RuntimeError: at a call, for another number of frequencies.
    """

    n_mels: Positive = 128
    sample_rate: Positive = 16000
    f_min: Number = 0.0
    f_max: NonNegativeNumber | None = None
    n_stft: Positive = 201
    norm: NormType = NormType.NONE
    mel_type: MelType = MelType.HTK

    def _apply(self, x: Array) -> Array:
        if x.shape[-2] != len(self.bank):
            raise self._refused(f"n_stft is {len(self.bank)}, but there are {x.shape[-2]} "
                                "frequencies.")
        return np.asarray(self.bank.T @ x)


class InverseMelScale(_Mel, RandomTransform):
    """A spectrum (..., frequency, time) from its mels, found by gradient descent from random
    numbers.

    Raises:
        RuntimeError: at a call, for another number of mels.
    """

    n_stft: Positive
    n_mels: Positive = 128
    sample_rate: Positive = 16000
    f_min: Number = 0.0
    f_max: NonNegativeNumber | None = None
    max_iter: Positive = argument(default=100000, text="how many steps at most.")
    tolerance_loss: PositiveNumber = argument(default=1e-5, text="the loss at which they end.")
    tolerance_change: PositiveNumber = argument(
        default=1e-8, text="the change of the loss at which they end.")
    sgdargs: dict[str, float] | None = argument(
        default=None, text='`{"sgd_lr": 0.1, "sgd_momentum": 0.9}`, where other than these.')
    norm: NormType = NormType.NONE
    mel_type: MelType = MelType.HTK

    def _prepare(self) -> None:
        super()._prepare()
        given = {"sgd_lr": 0.1, "sgd_momentum": 0.9, **(self.sgdargs or {})}
        self.rate, self.momentum = (
            number(0)(given[name], "InverseMelScale", name) for name in ("sgd_lr", "sgd_momentum"))

    def _apply(self, x: Array) -> Array:
        if x.shape[-2] != self.bank.shape[1]:
            raise self._refused(f"n_mels is {self.bank.shape[1]}, but there are {x.shape[-2]}.")
        found = units(self, (*x.shape[:-2], len(self.bank), x.shape[-1]))
        moves, before = np.zeros(found.shape), math.inf
        frames = max(found.size // found.shape[-2], 1)
        for _ in range(self.max_iter):
            off = self.bank.T @ found - x
            loss = float((off**2).mean(-2).sum() * x.shape[-2] / frames)
            if loss < self.tolerance_loss or abs(before - loss) < self.tolerance_change:
                break
            before = loss
            moves = moves * self.momentum + self.bank @ off * (2 / frames)
            found = np.maximum(found - self.rate * moves, 0)
        return found


class MelSpectrogram(_Band, Framed):
    """Spectra by mels (..., mel, time) of a waveform (..., time)."""

    _texts = {**Framed._texts, **_OF_MELS}
    sample_rate: Positive = 16000
    n_fft: Positive = 400
    win_length: Positive | None = None
    hop_length: Positive | None = None
    f_min: Number = 0.0
    f_max: NonNegativeNumber | None = None
    pad: NonNegative = 0
    n_mels: Positive = 128
    window: WindowType = WindowType.HANN
    power: PositiveNumber = argument(default=2.0, text="1 for amplitudes, 2 for power.")
    normalized: Flag = False
    center: Flag = True
    pad_mode: BorderType = BorderType.REFLECT
    onesided: Flag = True
    norm: NormType = NormType.NONE
    mel_scale: MelType = MelType.HTK

    def _prepare(self) -> None:
        self.spectra = Spectrogram(
            **{name: vars(self)[name] for name in inspect.signature(Spectrogram).parameters})
        self.scale = MelScale(self.n_mels, self.sample_rate, self.f_min, self.f_max,
                              self.spectra.frames.bins, self.norm, self.mel_scale)

    def _apply(self, x: Array) -> Array:
        return self.scale._apply(self.spectra._apply(x))


Two = Annotated[int, integer(2, 2)]


class _Cepstrum(SoundTransform):
    """A cosine transform of decibels, or logarithms, of a filtered spectrum; always float32."""

    _texts = _OF_MELS | {"norm": "whether the transform is orthonormal."}

    def _set(self, count: int, filters: int, norm: NormMode, logs: bool) -> None:
        if count > filters:
            raise ValueError(f"For '{type(self).__name__}', there cannot be more coefficients than "
                             f"filters, but got {count} of {filters}.")
        self.table = create_dct(count, filters, norm).astype(np.float64)
        self.logs, self.decibels = logs, AmplitudeToDB()

    def _filtered(self, x: Array) -> Array:
        raise TypeError(f"{type(self).__name__} is no transform by itself.")

    def _apply(self, x: Array) -> Array:
        made = self._filtered(x)
        made = np.log(made + 1e-6) if self.logs else self.decibels._apply(made)
        return np.asarray(self.table.T @ made)

    def _typed(self, made: Any, dtype: Any) -> Any:
        return super()._typed(made, np.float32)


class MFCC(_Cepstrum):
    """Cepstral coefficients by mels (..., coefficient, time) of a waveform (..., time)."""

    sample_rate: Positive = 16000
    n_mfcc: Positive = argument(default=40, text="how many coefficients, no more than mels.")
    dct_type: Two = 2
    norm: NormMode = NormMode.ORTHO
    log_mels: Flag = argument(default=False, text="logarithms in place of decibels.")
    melkwargs: dict[str, Any] | None = argument(default=None, text="options of `MelSpectrogram`.")

    def _prepare(self) -> None:
        self.mels = MelSpectrogram(self.sample_rate, **(self.melkwargs or {}))
        self._set(self.n_mfcc, self.mels.scale.bank.shape[1], self.norm, self.log_mels)

    def _filtered(self, x: Array) -> Array:
        return self.mels._apply(x)


class LFCC(_Band, _Cepstrum):
    """Cepstral coefficients by frequency (..., coefficient, time) of a waveform (..., time)."""

    sample_rate: Positive = 16000
    n_filter: Positive = argument(default=128, text="how many filters.")
    n_lfcc: Positive = argument(default=40, text="how many coefficients, no more than filters.")
    f_min: Number = 0.0
    f_max: NonNegativeNumber | None = None
    dct_type: Two = 2
    norm: NormMode = NormMode.ORTHO
    log_lf: Flag = argument(default=False, text="logarithms in place of decibels.")
    speckwargs: dict[str, Any] | None = argument(default=None, text="options of `Spectrogram`.")

    def _prepare(self) -> None:
        self.spectra = Spectrogram(**(self.speckwargs or {}))
        self._set(self.n_lfcc, self.n_filter, self.norm, self.log_lf)
        self.bank = linear_fbanks(self.spectra.frames.bins, self.f_min, self._high(),
                                  self.n_filter, self.sample_rate)

    def _filtered(self, x: Array) -> Array:
        return np.asarray(self.bank.T.astype(np.float64) @ self.spectra._apply(x))
