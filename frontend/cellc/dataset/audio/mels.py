"""Spectra by pitch: mel and linear filter banks, and cepstra made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..transforms import RandomTransform
from .base import (
    Array,
    BorderType,
    MelType,
    NormMode,
    NormType,
    SoundTransform,
    WindowType,
    option,
    positive,
)
from .spectra import AmplitudeToDB, Spectrogram, units

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


def _range(f_min: Any, f_max: Any, sample_rate: int) -> tuple[float, float]:
    low = checks.number("f_min", f_min, -1e9, 1e9)
    high = sample_rate // 2 if f_max is None else checks.number("f_max", f_max, 0, 1e9)
    if not low < high:
        raise ValueError(f"MelScale: f_min should be less than f_max, but got {low} and {high}.")
    return low, high


def _bank(
    n_freqs: int, low: float, high: float, count: int, rate: int, norm: NormType, kind: MelType
) -> Array:
    ends = _mels(low, kind), _mels(high, kind)
    points = _hertz(np.linspace(*ends, count + 2), kind)
    made = _triangles(np.linspace(0, rate // 2, n_freqs), points)
    return made * (2.0 / (points[2:] - points[:-2])) if norm == NormType.SLANEY else made


def melscale_fbanks(
    n_freqs: int, f_min: float, f_max: float, n_mels: int, sample_rate: int,
    norm: NormType = NormType.NONE, mel_type: MelType = MelType.HTK,
) -> Array:
    """Weights (frequency, mel) of triangles that are equally wide in mels, float32.

    Args:
        n_freqs: how many frequencies, from 0 to half of the rate.
        f_min, f_max: Hz.
        n_mels: how many triangles.
        sample_rate: Hz.
        norm: whether each triangle has the same area.
        mel_type: a `MelType`.

    Source: `mindspore.dataset.audio.melscale_fbanks`.
    """
    rate = checks.integer("sample_rate", sample_rate, 1)
    low, high = _range(f_min, f_max, rate)
    made = _bank(checks.integer("n_freqs", n_freqs, 1), low, high,
                 checks.integer("n_mels", n_mels, 1), rate, option("norm", norm, NormType),
                 option("mel_type", mel_type, MelType))
    return made.astype(np.float32)


def linear_fbanks(
    n_freqs: int, f_min: float, f_max: float, n_filter: int, sample_rate: int
) -> Array:
    """Weights (frequency, filter) of triangles that are equally wide, float32.

    Args:
        n_freqs, f_min, f_max, sample_rate: as of `melscale_fbanks`.
        n_filter: how many triangles.

    Source: `mindspore.dataset.audio.linear_fbanks`.
    """
    rate = checks.integer("sample_rate", sample_rate, 1)
    low, high = _range(f_min, f_max, rate)
    points = np.linspace(low, high, checks.integer("n_filter", n_filter, 1) + 2)
    heights = np.linspace(0, rate // 2, checks.integer("n_freqs", n_freqs, 1))
    return _triangles(heights, points).astype(np.float32)


def create_dct(n_mfcc: int, n_mels: int, norm: NormMode = NormMode.NONE) -> Array:
    """Weights (mel, coefficient) of a cosine transform of kind 2, float32.

    Args:
        n_mfcc: how many coefficients.
        n_mels: how many numbers they are made of.
        norm: whether it is orthonormal.

    Source: `mindspore.dataset.audio.create_dct`.
    """
    count, mels = checks.integer("n_mfcc", n_mfcc, 1), checks.integer("n_mels", n_mels, 1)
    made = np.cos(math.pi / mels * np.outer(np.arange(mels) + 0.5, np.arange(count)))
    if option("norm", norm, NormMode) == NormMode.NONE:
        return (made * 2).astype(np.float32)
    made[:, 0] *= 1 / math.sqrt(2)
    return (made * math.sqrt(2 / mels)).astype(np.float32)


class MelScale(SoundTransform):
    """A spectrum (..., frequency, time) by mels (..., mel, time).

    Args:
        n_mels, sample_rate, f_min, f_max, norm, mel_type: see `melscale_fbanks`; `f_max` None: half
            of the rate.
        n_stft: how many frequencies.

    Raises:
        RuntimeError: at a call, for another number of frequencies.

    Source: `mindspore.dataset.audio.MelScale`.
    """

    _axes = 2

    def __init__(
        self, n_mels: int = 128, sample_rate: int = 16000, f_min: float = 0.0,
        f_max: float | None = None, n_stft: int = 201, norm: NormType = NormType.NONE,
        mel_type: MelType = MelType.HTK,
    ) -> None:
        rate = checks.integer("sample_rate", sample_rate, 1)
        low, high = _range(f_min, f_max, rate)
        self.bank = _bank(checks.integer("n_stft", n_stft, 1), low, high,
                          checks.integer("n_mels", n_mels, 1), rate,
                          option("norm", norm, NormType), option("mel_type", mel_type, MelType))

    def _apply(self, x: Array) -> Array:
        if x.shape[-2] != len(self.bank):
            raise self._refused(f"n_stft is {len(self.bank)}, but there are {x.shape[-2]} "
                                "frequencies.")
        return np.asarray(self.bank.T @ x)


class InverseMelScale(SoundTransform, RandomTransform):
    """A spectrum (..., frequency, time) of what it is by mels, found by steps along the gradient
    from random numbers.

    Args:
        n_stft, n_mels, sample_rate, f_min, f_max, norm, mel_type: as of `MelScale`.
        max_iter: how many steps at most.
        tolerance_loss, tolerance_change: the loss, and its change, at which they end.
        sgdargs: `{"sgd_lr": 0.1, "sgd_momentum": 0.9}`, where other than these.

    Raises:
        RuntimeError: at a call, for another number of mels.

    Source: `mindspore.dataset.audio.InverseMelScale`.
    """

    _axes = 2

    def __init__(
        self, n_stft: int, n_mels: int = 128, sample_rate: int = 16000, f_min: float = 0.0,
        f_max: float | None = None, max_iter: int = 100000, tolerance_loss: float = 1e-5,
        tolerance_change: float = 1e-8, sgdargs: dict[str, float] | None = None,
        norm: NormType = NormType.NONE, mel_type: MelType = MelType.HTK,
    ) -> None:
        self.bank = MelScale(n_mels, sample_rate, f_min, f_max, n_stft, norm, mel_type).bank
        self.steps = checks.integer("max_iter", max_iter, 1)
        self.loss = positive("tolerance_loss", tolerance_loss)
        self.change = positive("tolerance_change", tolerance_change)
        given = {"sgd_lr": 0.1, "sgd_momentum": 0.9}
        given |= checks.of_type("sgdargs", {} if sgdargs is None else sgdargs, dict)
        self.rate = checks.number("sgd_lr", given["sgd_lr"], 0)
        self.momentum = checks.number("sgd_momentum", given["sgd_momentum"], 0)

    def _apply(self, x: Array) -> Array:
        if x.shape[-2] != self.bank.shape[1]:
            raise self._refused(f"n_mels is {self.bank.shape[1]}, but there are {x.shape[-2]}.")
        found = units(self, (*x.shape[:-2], len(self.bank), x.shape[-1]))
        moves, before = np.zeros(found.shape), math.inf
        frames = max(found.size // found.shape[-2], 1)
        for _ in range(self.steps):
            off = self.bank.T @ found - x
            loss = float((off**2).mean(-2).sum() * x.shape[-2] / frames)
            if loss < self.loss or abs(before - loss) < self.change:
                break
            before = loss
            moves = moves * self.momentum + self.bank @ off * (2 / frames)
            found = np.maximum(found - self.rate * moves, 0)
        return found


class MelSpectrogram(SoundTransform):
    """Spectra by mels (..., mel, time) of a waveform (..., time).

    Args:
        sample_rate, f_min, f_max, n_mels, norm, mel_scale: see `MelScale`.
        n_fft, win_length, hop_length, pad, window, power, normalized, center, pad_mode, onesided:
            see `Spectrogram`.

    Source: `mindspore.dataset.audio.MelSpectrogram`.
    """

    def __init__(
        self, sample_rate: int = 16000, n_fft: int = 400, win_length: int | None = None,
        hop_length: int | None = None, f_min: float = 0.0, f_max: float | None = None,
        pad: int = 0, n_mels: int = 128, window: WindowType = WindowType.HANN, power: float = 2.0,
        normalized: bool = False, center: bool = True, pad_mode: BorderType = BorderType.REFLECT,
        onesided: bool = True, norm: NormType = NormType.NONE, mel_scale: MelType = MelType.HTK,
    ) -> None:
        self.spectra = Spectrogram(n_fft, win_length, hop_length, pad, window, power, normalized,
                                   center, pad_mode, onesided)
        if not self.spectra.power:
            raise ValueError("Input power is not within the required interval of (0, 3.4e38].")
        self.scale = MelScale(n_mels, sample_rate, f_min, f_max, self.spectra.frames.bins, norm,
                              mel_scale)

    def _apply(self, x: Array) -> Array:
        return self.scale._apply(self.spectra._apply(x))


class _Cepstrum(SoundTransform):
    """A cosine transform of decibels, or logarithms, of a filtered spectrum; always float32."""

    def _set(self, count: int, filters: int, dct_type: int, norm: Any, logs: bool) -> None:
        checks.integer("dct_type", dct_type, 2, 2)
        self.table = create_dct(count, filters, norm).astype(np.float64)
        self.logs = checks.of_type("log", logs, bool)
        self.decibels = AmplitudeToDB()

    def _filtered(self, x: Array) -> Array:
        raise TypeError(f"{type(self).__name__} is no transform by itself.")

    def _apply(self, x: Array) -> Array:
        made = self._filtered(x)
        made = np.log(made + 1e-6) if self.logs else self.decibels._apply(made)
        return np.asarray(self.table.T @ made)

    def _typed(self, made: Any, dtype: Any) -> Any:
        return super()._typed(made, np.float32)


class MFCC(_Cepstrum):
    """Cepstral coefficients by mels (..., coefficient, time) of a waveform (..., time).

    Args:
        sample_rate: Hz.
        n_mfcc: how many coefficients, no more than mels.
        dct_type: 2.
        norm: a `NormMode`.
        log_mels: logarithms in place of decibels.
        melkwargs: options of `MelSpectrogram`.

    Source: `mindspore.dataset.audio.MFCC`.
    """

    def __init__(
        self, sample_rate: int = 16000, n_mfcc: int = 40, dct_type: int = 2,
        norm: NormMode = NormMode.ORTHO, log_mels: bool = False,
        melkwargs: dict[str, Any] | None = None,
    ) -> None:
        given = checks.of_type("melkwargs", {} if melkwargs is None else melkwargs, dict)
        self.mels = MelSpectrogram(sample_rate, **given)
        filters = self.mels.scale.bank.shape[1]
        if checks.integer("n_mfcc", n_mfcc, 1) > filters:
            raise ValueError(f"The number of MFCC coefficients {n_mfcc} cannot be more than the "
                             f"number of mels {filters}.")
        self._set(n_mfcc, filters, dct_type, norm, log_mels)

    def _filtered(self, x: Array) -> Array:
        return self.mels._apply(x)


class LFCC(_Cepstrum):
    """Cepstral coefficients by frequency (..., coefficient, time) of a waveform (..., time).

    Args:
        sample_rate: Hz.
        n_filter: how many filters.
        n_lfcc: how many coefficients, no more than filters.
        f_min, f_max: Hz; None: half of the rate.
        dct_type: 2.
        norm: a `NormMode`.
        log_lf: logarithms in place of decibels.
        speckwargs: options of `Spectrogram`.

    Source: `mindspore.dataset.audio.LFCC`.
    """

    def __init__(
        self, sample_rate: int = 16000, n_filter: int = 128, n_lfcc: int = 40, f_min: float = 0.0,
        f_max: float | None = None, dct_type: int = 2, norm: NormMode = NormMode.ORTHO,
        log_lf: bool = False, speckwargs: dict[str, Any] | None = None,
    ) -> None:
        given = checks.of_type("speckwargs", {} if speckwargs is None else speckwargs, dict)
        self.spectra = Spectrogram(**given)
        if checks.integer("n_lfcc", n_lfcc, 1) > checks.integer("n_filter", n_filter, 1):
            raise ValueError(f"The number of LFCC coefficients {n_lfcc} cannot be more than the "
                             f"number of filters {n_filter}.")
        rate = checks.integer("sample_rate", sample_rate, 1)
        low, high = _range(f_min, f_max, rate)
        self.bank = linear_fbanks(self.spectra.frames.bins, low, high, n_filter, rate)
        self._set(n_lfcc, n_filter, dct_type, norm, log_lf)

    def _filtered(self, x: Array) -> Array:
        return np.asarray(self.bank.T.astype(np.float64) @ self.spectra._apply(x))
