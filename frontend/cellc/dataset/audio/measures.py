"""Measures of speech: its pitch, and its begin."""

from __future__ import annotations

import math

import numpy as np

from ...core.declared import NonNegativeNumber, Number, Positive, PositiveNumber
from ..declared import argument
from .base import Array, SoundTransform

__all__ = ["DetectPitchFrequency", "Vad"]
_TINY = 1e-9


class DetectPitchFrequency(SoundTransform):
    """The pitch of each frame in Hz, by normalized cross-correlation and a running median.

    Raises:
        RuntimeError: at a call, for a waveform with fewer frames than half a median, or lags that
            leave nothing to look at.
    """

    sample_rate: Positive = argument(text="Hz, not 0.")
    frame_time: PositiveNumber = argument(default=0.01, text="seconds of a frame, above 0.")
    win_length: Positive = argument(default=30, text="frames of the median.")
    freq_low: PositiveNumber = argument(
        default=85, text="Hz above which pitches are looked for, above 0.")
    freq_high: PositiveNumber = argument(
        default=3400, text="Hz below which pitches are looked for, above 0.")

    def _prepare(self) -> None:
        self.rate, self.window = self.sample_rate, self.win_length
        self.frame = math.ceil(self.rate * self.frame_time)
        self.lags = math.ceil(self.rate / self.freq_low)
        self.least = math.ceil(self.rate / self.freq_high)

    def _apply(self, x: Array) -> Array:
        if self.least >= self.lags // 2:
            raise self._refused("freq_low and freq_high leave no lags to look at.")
        found = self._smooth(self._best(self._correlations(x)))
        return np.asarray(self.rate / (_TINY + found))

    def _typed(self, made: Array, dtype: object) -> Array:
        return np.asarray(made, np.float32)

    def _correlations(self, x: Array) -> Array:
        """Of each frame with what is some samples later: (..., frame, lag - 1)."""
        frames = math.ceil(x.shape[-1] / self.frame)
        wide = np.zeros((*x.shape[:-1], self.lags + frames * self.frame))
        wide[..., : x.shape[-1]] = x
        shape = (*x.shape[:-1], frames, self.frame)
        first = wide[..., : frames * self.frame].reshape(shape)
        size = _TINY + np.linalg.norm(first, axis=-1)
        made = np.empty((*shape[:-1], self.lags))
        for lag in range(1, self.lags + 1):
            later = wide[..., lag : lag + frames * self.frame].reshape(shape)
            other = _TINY + np.linalg.norm(later, axis=-1)
            made[..., lag - 1] = (first * later).sum(-1) / size**2 / other**2
        return made

    def _best(self, found: Array) -> Array:
        """The lag of each frame; one of the shorter half, unless a longer one is much better."""
        half = found[..., self.least : self.lags // 2]
        rest = found[..., self.least :]
        near, far = half.max(-1) > 0.99 * rest.max(-1), rest.argmax(-1)
        return np.asarray(np.where(near, half.argmax(-1), far) + self.least + 1)

    def _smooth(self, lags: Array) -> Array:
        """The lower median of the frames about each one; what is before the first is like it."""
        before = (self.window - 1) // 2
        if lags.shape[-1] < max(self.window - before, 1):
            raise self._refused(f"a waveform of {lags.shape[-1]} frames is too short for a median "
                                f"of {self.window}.")
        wide = np.pad(lags, (*((0, 0),) * (lags.ndim - 1), (before, 0)), "edge")
        cut = np.lib.stride_tricks.sliding_window_view(wide, self.window, -1)
        return np.asarray(np.sort(cut, -1)[..., (self.window - 1) // 2])


class Vad(SoundTransform):
    """A waveform from where speech begins, by the power of cepstra (SoX's `vad`); where none does,
    its end."""

    sample_rate: Positive = argument(text="Hz.")
    trigger_level: Number = argument(default=7.0, text="the measure that begins speech.")
    trigger_time: PositiveNumber = argument(
        default=0.25, text="seconds that noise must last to count.")
    search_time: NonNegativeNumber = argument(
        default=1.0, text="seconds that are looked back for the begin.")
    allowed_gap: NonNegativeNumber = argument(
        default=0.25, text="seconds of silence between short sounds before it.")
    pre_trigger_time: NonNegativeNumber = argument(default=0.0, text="seconds kept before it.")
    boot_time: NonNegativeNumber = argument(
        default=0.35, text="seconds in which the noise is learnt.")
    noise_up_time: PositiveNumber = argument(
        default=0.1, text="seconds in which it is adapted to, upwards.")
    noise_down_time: PositiveNumber = argument(default=0.01, text="the same, downwards.")
    noise_reduction_amount: NonNegativeNumber = argument(
        default=1.35, text="how much of the noise is taken away.")
    measure_freq: PositiveNumber = argument(default=20.0, text="Hz of the measures.")
    measure_duration: NonNegativeNumber | None = argument(
        default=None, text="seconds of a measure; None: two periods.")
    measure_smooth_time: PositiveNumber = argument(
        default=0.4, text="seconds in which measures are smoothed.")
    hp_filter_freq: PositiveNumber = argument(default=50.0, text="Hz above which is looked.")
    lp_filter_freq: PositiveNumber = argument(default=6000.0, text="Hz below which is looked.")
    hp_lifter_freq: PositiveNumber = argument(default=150.0, text="Hz above which pitches are.")
    lp_lifter_freq: PositiveNumber = argument(default=2000.0, text="Hz below which pitches are.")

    def _prepare(self) -> None:
        rate, often = self.sample_rate, self.measure_freq
        lasts = 2.0 / often if self.measure_duration is None else self.measure_duration
        self.width, self.period = int(rate * lasts + 0.5), int(rate / often + 0.5)
        self.size = 16
        while self.size < self.width:
            self.size *= 2
        self.count = math.ceil(self.search_time * often)
        self.gap = int(self.allowed_gap * often + 0.5)
        kept = int(self.pre_trigger_time * rate + 0.5)
        self.back = kept + self.count * self.period + self.width
        self.boot = int(self.boot_time * often - 0.5)
        self.up, self.down, self.smooth, self.trigger = (
            math.exp(-1.0 / (seconds * often)) for seconds in (
                self.noise_up_time, self.noise_down_time, self.measure_smooth_time,
                self.trigger_time))
        self._bands()

    def _bands(self) -> None:
        """Which part of spectra and cepstra counts, and their windows."""
        rate = self.sample_rate
        low, high = (int(at / rate * self.size + 0.5)
                     for at in (self.hp_filter_freq, self.lp_filter_freq))
        self.band = slice(max(low, 1), min(high, self.size // 2))
        first, last = (rate * 0.5 / at for at in (self.lp_lifter_freq, self.hp_lifter_freq))
        self.part = slice(math.ceil(first), min(math.floor(last), self.size // 4))
        wide = self.band.stop - self.band.start
        if self.part.stop <= self.part.start or wide < 1:
            raise ValueError("The frequencies of filters and lifters leave nothing to measure.")
        self.window, self.lifter = (
            np.hanning(n + 1)[:-1] * 2.0 / math.sqrt(n) if n else np.zeros(0)
            for n in (self.width, wide))

    def _apply(self, x: Array) -> Array:
        if x.shape[-1] < self.width:
            return x
        lines = x.reshape(-1, x.shape[-1])
        state = _VoiceState(self, len(lines))
        for end in range(self.width, x.shape[-1], max(self.period, 1)):
            if state.heard(lines[:, end - self.width : end]):
                first = end - self.back + (self.count - state.flushed) * self.period
                return x[..., max(first, 0) :]
        # Nothing was heard: what would be kept before speech at the very end, as in MindSpore.
        return x[..., max(x.shape[-1] - self.back, 0) :]


class _VoiceState:
    """The state of `Vad` for the lines of a waveform.

    Attributes:
        flushed: measures that are given back when speech has begun.
    """

    def __init__(self, vad: Vad, lines: int) -> None:
        self.vad = vad
        self.mean = np.zeros(lines)
        self.spectrum, self.noise = (np.zeros((lines, vad.band.stop - vad.band.start))
                                     for _ in range(2))
        self.measures = np.zeros((lines, vad.count))
        self.boot, self.index, self.flushed = 0, 0, 0

    def heard(self, cut: Array) -> bool:
        """Take the next samples (line, time); whether speech has begun."""
        vad, found = self.vad, False
        for line, measure in enumerate(self._measured(cut)):
            if vad.count:
                self.measures[line, self.index] = measure
            self.mean[line] = self.mean[line] * vad.trigger + measure * (1.0 - vad.trigger)
            found = found or self.mean[line] >= vad.trigger_level
            if found:
                self.flushed = min(max(self.flushed, self._begin(line)), vad.count)
        self.index = (self.index + 1) % max(vad.count, 1)
        if self.boot >= 0:
            self.boot = -1 if self.boot == vad.boot else self.boot + 1
        return found

    def _measured(self, cut: Array) -> Array:
        """How much the pitch of each line stands out."""
        vad = self.vad
        sizes = np.abs(np.fft.rfft(cut * vad.window, vad.size, -1)[:, vad.band])
        keep = self.boot / (1.0 + self.boot) if self.boot >= 0 else vad.smooth
        self.spectrum = self.spectrum * keep + sizes * (1 - keep)
        power = self.spectrum**2
        stays = 0.0 if self.boot >= 0 else np.where(power > self.noise, vad.up, vad.down)
        self.noise = self.noise * stays + power * (1 - stays)
        left = np.zeros((len(cut), vad.size // 2))
        louder = np.maximum(0, power - vad.noise_reduction_amount * self.noise)
        left[:, vad.band] = vad.lifter * np.sqrt(louder)
        cepstra = np.abs(np.fft.rfft(left, axis=-1)[:, vad.part]) ** 2
        with np.errstate(divide="ignore"):
            means = cepstra.sum(-1) / (vad.part.stop - vad.part.start)
            return np.asarray(np.maximum(0, 21 + np.log(means)))

    def _begin(self, line: int) -> int:
        """How many measures ago the sounds began that are close enough together."""
        count = self.vad.count
        last = silent = count
        j = 0
        for j in range(count):
            measure = self.measures[line, (self.index - j) % count]
            if measure >= self.vad.trigger_level and j <= last + self.vad.gap:
                silent = last = j
            elif measure == 0 and last >= silent:
                silent = j
        return min(j, silent)
