"""Changes of loudness, and effects with memory, by the methods of SoX's effects of these names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import checks
from ..transforms import RandomTransform
from .base import (
    Array,
    DensityFunction,
    FadeShape,
    GainType,
    Interpolation,
    Modulation,
    SoundTransform,
    option,
)
from .filters import clamped, filtered

__all__ = [
    "Contrast", "DBToAmplitude", "DCShift", "Dither", "Fade", "Flanger", "Gain", "MuLawDecoding",
    "MuLawEncoding", "Overdrive", "Phaser", "Vol",
]
_ANY = 1e30


class Contrast(SoundTransform):
    """Makes loud samples louder and soft ones softer, without new extremes.

    Args:
        enhancement_amount: 0 to 100.

    Source: `mindspore.dataset.audio.Contrast`.
    """

    def __init__(self, enhancement_amount: float = 75.0) -> None:
        self.amount = checks.number("enhancement_amount", enhancement_amount, 0, 100) / 750

    def _apply(self, x: Array) -> Array:
        angle = x * (math.pi / 2)
        return np.sin(angle + self.amount * np.sin(angle * 4))


class DBToAmplitude(SoundTransform):
    """`ref * (10 ** (0.1 * x)) ** power` of decibels.

    Args:
        ref: the result of 0 dB.
        power: 1 for power, 0.5 for amplitude.

    Source: `mindspore.dataset.audio.DBToAmplitude`.
    """

    def __init__(self, ref: float, power: float) -> None:
        self.ref = checks.number("ref", ref, -_ANY, _ANY)
        self.power = checks.number("power", power, -_ANY, _ANY)

    def _apply(self, x: Array) -> Array:
        return self.ref * np.power(np.power(10.0, 0.1 * x), self.power)


class DCShift(SoundTransform):
    """Moves a waveform up or down.

    Args:
        shift: -2 to 2.
        limiter_gain: what is near to the edge is weakened by this factor, not cut; None: it is cut.

    Source: `mindspore.dataset.audio.DCShift`.
    """

    def __init__(self, shift: float, limiter_gain: float | None = None) -> None:
        self.shift = checks.number("shift", shift, -2.0, 2.0)
        self.gain = None if limiter_gain is None else checks.number(
            "limiter_gain", limiter_gain, -_ANY, _ANY)

    def _apply(self, x: Array) -> Array:
        if self.gain is None:
            return clamped(x + self.shift)
        edge = 1 - (abs(self.shift) - self.gain)
        if self.shift in (0.0, self.gain):
            return clamped(x + self.shift)
        side = 1.0 if self.shift > 0 else -1.0
        weak = (x - side * edge) * self.gain / (1 - edge) + edge + self.shift
        # Downwards the edge keeps its sign in MindSpore, where a mirror image would turn it.
        weak = np.minimum(weak, edge) if side > 0 else np.maximum(weak, -edge)
        return np.where(side * x > edge, weak, clamped(x + self.shift))


_SHAPES: dict[FadeShape, Callable[[Array], Array]] = {
    FadeShape.LINEAR: lambda t: t,
    FadeShape.EXPONENTIAL: lambda t: np.power(2.0, t - 1) * t,
    FadeShape.LOGARITHMIC: lambda t: np.log10(0.1 + t) + 1,
    FadeShape.QUARTER_SINE: lambda t: np.sin(t * math.pi / 2),
    FadeShape.HALF_SINE: lambda t: np.sin(t * math.pi - math.pi / 2) / 2 + 0.5,
}
"""Loudness by time, which goes from 0 to 1."""


class Fade(SoundTransform):
    """Loudness that grows at the begin and vanishes at the end.

    Args:
        fade_in_len, fade_out_len: numbers of samples.
        fade_shape: a `FadeShape`.

    Raises:
        RuntimeError: at a call, for a waveform that is shorter.

    Source: `mindspore.dataset.audio.Fade`.
    """

    def __init__(
        self, fade_in_len: int = 0, fade_out_len: int = 0,
        fade_shape: FadeShape = FadeShape.LINEAR,
    ) -> None:
        self.first = checks.integer("fade_in_len", fade_in_len, 0)
        self.last = checks.integer("fade_out_len", fade_out_len, 0)
        self.shape = _SHAPES[option("fade_shape", fade_shape, FadeShape)]

    def _apply(self, x: Array) -> Array:
        time = x.shape[-1]
        for name, length in (("fade_in_len", self.first), ("fade_out_len", self.last)):
            if length > time:
                raise self._refused(f"{name} should be less than the waveform's length {time}, "
                                    f"but is {length}.")
        louder = np.ones(time)
        louder[: self.first] = self.shape(np.linspace(0, 1, self.first))
        softer = np.ones(time)
        softer[time - self.last :] = self.shape(np.linspace(1, 0, self.last))
        return np.asarray(x * louder * softer)


class Gain(SoundTransform):
    """Louder or softer by decibels.

    Args:
        gain_db: dB.

    Source: `mindspore.dataset.audio.Gain`.
    """

    def __init__(self, gain_db: float = 1.0) -> None:
        self.factor = 10 ** (checks.number("gain_db", gain_db, -_ANY, 6000) / 20)

    def _apply(self, x: Array) -> Array:
        return np.asarray(x * self.factor)


class Vol(SoundTransform):
    """Louder or softer; the result is cut to -1 and 1.

    Args:
        gain: a factor, not negative, or dB; above 0 for a factor of power.
        gain_type: a `GainType`.

    Raises:
        TypeError, ValueError: no such numbers.

    Source: `mindspore.dataset.audio.Vol`.
    """

    def __init__(self, gain: float, gain_type: GainType = GainType.AMPLITUDE) -> None:
        kind = option("gain_type", gain_type, GainType)
        found = checks.number("gain", gain, -_ANY if kind == GainType.DB else 0.0, _ANY)
        if kind == GainType.POWER and not found:
            raise ValueError("Input gain should be above 0 for a gain of power.")
        self.factor = (found if kind == GainType.AMPLITUDE else math.sqrt(found)
                       if kind == GainType.POWER else 10 ** (found / 20))

    def _apply(self, x: Array) -> Array:
        return clamped(x * self.factor)


class MuLawEncoding(SoundTransform):
    """Samples from -1 to 1 as whole numbers, finer near to 0 (ITU-T G.711).

    Args:
        quantization_channels: how many numbers there are.

    Source: `mindspore.dataset.audio.MuLawEncoding`.
    """

    def __init__(self, quantization_channels: int = 256) -> None:
        self.most = checks.integer("quantization_channels", quantization_channels, 1) - 1

    def _apply(self, x: Array) -> Array:
        if not self.most:
            return np.zeros(x.shape)
        bent = np.sign(x) * np.log1p(self.most * np.abs(x)) / np.log1p(self.most)
        return np.asarray(np.trunc((bent + 1) / 2 * self.most + 0.5))

    def _typed(self, made: Any, dtype: Any) -> Any:
        return np.asarray(made, np.int32)


class MuLawDecoding(SoundTransform):
    """Samples from -1 to 1 of whole numbers; see `MuLawEncoding`.

    Args:
        quantization_channels: how many numbers there are.

    Source: `mindspore.dataset.audio.MuLawDecoding`.
    """

    def __init__(self, quantization_channels: int = 256) -> None:
        self.most = checks.integer("quantization_channels", quantization_channels, 1) - 1

    def _apply(self, x: Array) -> Array:
        if not self.most:
            return np.zeros(x.shape)
        bent = x / self.most * 2 - 1
        size = np.expm1(np.abs(bent) * np.log1p(self.most)) / self.most
        return np.asarray(np.sign(bent) * size)


class Overdrive(SoundTransform):
    """Distorts as an amplifier that is turned up too far.

    Args:
        gain: dB, 0 to 100.
        color: how much of the even harmonics, 0 to 100.

    Source: `mindspore.dataset.audio.Overdrive`.
    """

    def __init__(self, gain: float = 20.0, color: float = 20.0) -> None:
        self.gain = 10 ** (checks.number("gain", gain, 0, 100) / 20)
        self.color = checks.number("color", color, 0, 100) / 200

    def _apply(self, x: Array) -> Array:
        driven = clamped(x * self.gain + self.color)
        bent = driven - driven**3 / 3  # reaches 2/3 at 1, where it is cut
        kept = filtered(bent, np.array([1.0, -0.995]), np.array([1.0, -1.0]))
        return clamped(x * 0.5 + kept * 0.75)


def slow_wave(
    form: Modulation, size: int, low: float, high: float, phase: float, whole: bool
) -> Array:
    """One period of a wave between two numbers.

    Args:
        size: samples.
        phase: where it starts, radians.
        whole: rounded.
    """
    start = int(phase / math.pi / 2 * size + 0.5)
    at = (np.arange(size) + start) % size
    if form == Modulation.SINUSOIDAL:
        unit = (np.sin(at / size * 2 * math.pi) + 1) / 2
    else:
        ramp, quarter = at * 2 / size, 4 * at // size
        unit = np.where(quarter == 0, ramp + 0.5, np.where(quarter == 3, ramp - 1.5, 1.5 - ramp))
    wave = unit * (high - low) + low
    return np.trunc(wave + np.where(wave < 0, -0.5, 0.5)) if whole else wave


class Phaser(SoundTransform):
    """Adds what was a while ago, which varies slowly.

    Args:
        sample_rate: Hz.
        gain_in, gain_out: factors: 0 to 1, and 0 to 1e9.
        delay_ms: milliseconds, 0 to 5.
        decay: how much is added, 0 to 0.99.
        mod_speed: Hz, 0.1 to 2.
        sinusoidal: the form of the slow wave; False: triangular.

    Source: `mindspore.dataset.audio.Phaser`.
    """

    def __init__(
        self, sample_rate: int, gain_in: float = 0.4, gain_out: float = 0.74,
        delay_ms: float = 3.0, decay: float = 0.4, mod_speed: float = 0.5, sinusoidal: bool = True,
    ) -> None:
        rate = checks.integer("sample_rate", sample_rate, 1)
        self.gain_in = checks.number("gain_in", gain_in, 0, 1)
        self.gain_out = checks.number("gain_out", gain_out, 0, 1e9)
        self.decay = checks.number("decay", decay, 0, 0.99)
        self.length = int(checks.number("delay_ms", delay_ms, 0, 5.0) * 0.001 * rate + 0.5)
        speed = checks.number("mod_speed", mod_speed, 0.1, 2)
        form = (Modulation.SINUSOIDAL if checks.of_type("sinusoidal", sinusoidal, bool)
                else Modulation.TRIANGULAR)
        self.table = slow_wave(form, int(rate / speed + 0.5), 1.0, float(self.length),
                               math.pi / 2, True).astype(np.int64)

    def _apply(self, x: Array) -> Array:
        if not self.length:
            raise self._refused("delay_ms is less than a sample.")
        made, kept = np.empty(x.shape), np.zeros((*x.shape[:-1], self.length))
        at = 0
        for n in range(x.shape[-1]):
            before = kept[..., (at + self.table[n % len(self.table)]) % self.length]
            at = (at + 1) % self.length
            made[..., n] = x[..., n] * self.gain_in + before
            kept[..., at] = made[..., n] * self.decay
        return clamped(made * self.gain_out)


class Flanger(SoundTransform):
    """Adds what was a short while ago, which varies slowly, and by channel.

    Args:
        sample_rate: Hz, not 0.
        delay: milliseconds, 0 to 30.
        depth: milliseconds that the delay varies by, 0 to 10.
        regen: per cent of what was added that is added again, -95 to 95.
        width: per cent of what is added, 0 to 100.
        speed: Hz, 0.1 to 10.
        phase: per cent of a period that one channel is behind another, 0 to 100.
        modulation: a `Modulation`.
        interpolation: an `Interpolation`.

    Source: `mindspore.dataset.audio.Flanger`.
    """

    _axes = 2

    def __init__(
        self, sample_rate: int, delay: float = 0.0, depth: float = 2.0, regen: float = 0.0,
        width: float = 71.0, speed: float = 0.5, phase: float = 25.0,
        modulation: Modulation = Modulation.SINUSOIDAL,
        interpolation: Interpolation = Interpolation.LINEAR,
    ) -> None:
        rate = checks.integer("sample_rate", sample_rate, 1)
        least = checks.number("delay", delay, 0, 30) / 1000
        varies = checks.number("depth", depth, 0, 10) / 1000
        self.again = checks.number("regen", regen, -95.0, 95.0) / 100
        added = checks.number("width", width, 0, 100) / 100
        self.phase = checks.number("phase", phase, 0, 100) / 100
        self.own = 1 / (1 + added)
        self.added = added / (1 + added) * (1 - abs(self.again))
        self.length = int((least + varies) * rate + 0.5) + 2
        period = int(rate / checks.number("speed", speed, 0.1, 10))
        form = option("modulation", modulation, Modulation)
        self.table = slow_wave(form, period, math.floor(least * rate + 0.5), self.length - 2.0,
                               3 * math.pi / 2, False)
        self.linear = option("interpolation", interpolation,
                             Interpolation) == Interpolation.LINEAR

    def _apply(self, x: Array) -> Array:
        channels = np.arange(x.shape[-2])
        behind = (channels * len(self.table) * self.phase + 0.5).astype(np.int64)
        kept, last = np.zeros((*x.shape[:-1], self.length)), np.zeros(x.shape[:-1])
        made = np.empty(x.shape)
        at = 0
        for n in range(x.shape[-1]):
            at = (at - 1) % self.length
            whole, part = np.divmod(self.table[(n + behind) % len(self.table)], 1.0)
            kept[..., at] = x[..., n] + last * self.again
            last = self._between(kept, channels, at + whole.astype(np.int64), part)
            made[..., n] = x[..., n] * self.own + last * self.added
        return clamped(made)

    def _between(self, kept: Array, channels: Array, at: Array, part: Array) -> Array:
        """What was kept at places between whole ones."""
        first, second, third = (kept[..., channels, (at + k) % self.length] for k in range(3))
        if self.linear:
            return np.asarray(first + (second - first) * part)
        third, second = third - first, second - first
        return np.asarray(first + ((third * 0.5 - second) * part + second * 2 - third * 0.5) * part)


class Dither(SoundTransform, RandomTransform):
    """Rounds to 16 bits after adding noise, so that what is lost does not follow the sound.

    Args:
        density_function: a `DensityFunction`; TPDF adds a fixed triangle, as MindSpore does.
        noise_shaping: the error of a sample is added to the next.

    Source: `mindspore.dataset.audio.Dither`.
    """

    def __init__(
        self, density_function: DensityFunction = DensityFunction.TPDF,
        noise_shaping: bool = False,
    ) -> None:
        self.density = option("density_function", density_function, DensityFunction)
        self.shaping = checks.of_type("noise_shaping", noise_shaping, bool)

    def _noise(self, x: Array) -> Any:
        if self.density == DensityFunction.TPDF:
            return np.bartlett(x.shape[-1] + 1)[:-1]
        lines = x.reshape(-1, x.shape[-1])

        def drawn() -> float:
            return float(lines[self.random.below(len(lines)), self.random.below(x.shape[-1])])

        if self.density == DensityFunction.RPDF:
            return drawn() - 0.5
        return sum((drawn() for _ in range(6)), drawn())

    def _apply(self, x: Array) -> Array:
        made: Array = np.round(x * (2**15 - 2) + self._noise(x)) / 2**15
        if self.shaping:
            error = made - x
            made[..., 1:] += error[..., :-1]
        return made
