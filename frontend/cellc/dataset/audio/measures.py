"""Measures of speech: its pitch, and its begin."""

from __future__ import annotations

import math

import numpy as np

from .. import checks
from .base import Array, SoundTransform, positive

__all__ = ["DetectPitchFrequency", "Vad"]
_TINY = 1e-9


class DetectPitchFrequency(SoundTransform):
    """The pitch of each frame in Hz, by normalized cross-correlation and a running median.

    Args:
        sample_rate: Hz, not 0.
        frame_time: seconds of a frame, above 0.
        win_length: frames of the median.
        freq_low, freq_high: Hz between which pitches are looked for, above 0.

    Raises:
        RuntimeError: at a call, for a waveform with fewer frames than half a median, or lags that
            leave nothing to look at.

    Source: `mindspore.dataset.audio.DetectPitchFrequency`.
    """

    def __init__(
        self, sample_rate: int, frame_time: float = 0.01, win_length: int = 30, freq_low: int = 85,
        freq_high: int = 3400,
    ) -> None:
        self.rate = checks.integer("sample_rate", sample_rate, 1)
        self.frame = math.ceil(self.rate * positive("frame_time", frame_time))
        self.window = checks.integer("win_length", win_length, 1)
        self.lags = math.ceil(self.rate / positive("freq_low", freq_low))
        self.least = math.ceil(self.rate / positive("freq_high", freq_high))

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
    its end.

    Args:
        sample_rate: Hz.
        trigger_level: the measure that begins speech.
        trigger_time: seconds that noise must last to count.
        search_time: seconds that are looked back for the begin.
        allowed_gap: seconds of silence between short sounds before it.
        pre_trigger_time: seconds kept before it.
        boot_time: seconds in which the noise is learnt.
        noise_up_time, noise_down_time: seconds in which it is adapted to.
        noise_reduction_amount: how much of the noise is taken away.
        measure_freq: Hz of the measures.
        measure_duration: seconds of a measure; None: two periods.
        measure_smooth_time: seconds in which measures are smoothed.
        hp_filter_freq, lp_filter_freq: Hz between which is looked.
        hp_lifter_freq, lp_lifter_freq: Hz between which pitches are.

    Source: `mindspore.dataset.audio.Vad`.
    """

    def __init__(
        self, sample_rate: int, trigger_level: float = 7.0, trigger_time: float = 0.25,
        search_time: float = 1.0, allowed_gap: float = 0.25, pre_trigger_time: float = 0.0,
        boot_time: float = 0.35, noise_up_time: float = 0.1, noise_down_time: float = 0.01,
        noise_reduction_amount: float = 1.35, measure_freq: float = 20.0,
        measure_duration: float | None = None, measure_smooth_time: float = 0.4,
        hp_filter_freq: float = 50.0, lp_filter_freq: float = 6000.0,
        hp_lifter_freq: float = 150.0, lp_lifter_freq: float = 2000.0,
    ) -> None:
        rate = checks.integer("sample_rate", sample_rate, 1)
        often = positive("measure_freq", measure_freq)
        lasts = (2.0 / often if measure_duration is None else
                 checks.number("measure_duration", measure_duration, 0))
        self.level = checks.number("trigger_level", trigger_level, -1e30)
        self.reduction = checks.number("noise_reduction_amount", noise_reduction_amount, 0)
        self.width, self.period = int(rate * lasts + 0.5), int(rate / often + 0.5)
        self.size = 16
        while self.size < self.width:
            self.size *= 2
        self.count = math.ceil(checks.number("search_time", search_time, 0) * often)
        self.gap = int(checks.number("allowed_gap", allowed_gap, 0) * often + 0.5)
        kept = int(checks.number("pre_trigger_time", pre_trigger_time, 0) * rate + 0.5)
        self.back = kept + self.count * self.period + self.width
        self.boot = int(checks.number("boot_time", boot_time, 0) * often - 0.5)
        self.up, self.down, self.smooth, self.trigger = (
            math.exp(-1.0 / (positive(n, v) * often)) for n, v in (
                ("noise_up_time", noise_up_time), ("noise_down_time", noise_down_time),
                ("measure_smooth_time", measure_smooth_time), ("trigger_time", trigger_time)))
        self._bands(rate, (hp_filter_freq, lp_filter_freq), (hp_lifter_freq, lp_lifter_freq))

    def _bands(self, rate: int, filters: tuple[float, float], lifters: tuple[float, float]) -> None:
        """Which part of spectra and cepstra counts, and their windows."""
        low, high = (int(positive(n, v) / rate * self.size + 0.5) for n, v in zip(
            ("hp_filter_freq", "lp_filter_freq"), filters, strict=True))
        self.band = slice(max(low, 1), min(high, self.size // 2))
        first, last = (rate * 0.5 / positive(n, v) for n, v in zip(
            ("lp_lifter_freq", "hp_lifter_freq"), lifters[::-1], strict=True))
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
            found = found or self.mean[line] >= vad.level
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
        left[:, vad.band] = vad.lifter * np.sqrt(np.maximum(0, power - vad.reduction * self.noise))
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
            if measure >= self.vad.level and j <= last + self.vad.gap:
                silent = last = j
            elif measure == 0 and last >= silent:
                silent = j
        return min(j, silent)
