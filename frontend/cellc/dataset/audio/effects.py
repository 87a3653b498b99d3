"""Changes of loudness, and effects with memory, by the methods of SoX's effects of these names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, NonNegative, Number, Positive, Share, number
from ..declared import argument
from ..rules import Percent
from ..transforms import RandomTransform
from .base import (
    Array,
    DensityFunction,
    FadeShape,
    GainType,
    Interpolation,
    Modulation,
    SoundTransform,
)
from .filters import clamped, filtered

__all__ = [
    "Contrast", "DBToAmplitude", "DCShift", "Dither", "Fade", "Flanger", "Gain", "MuLawDecoding",
    "MuLawEncoding", "Overdrive", "Phaser", "Vol",
]


class Contrast(SoundTransform):
    """Makes loud samples louder and soft ones softer, without new extremes."""

    enhancement_amount: Percent = argument(default=75.0, text="0 to 100.")

    def _apply(self, x: Array) -> Array:
        angle = x * (math.pi / 2)
        return np.sin(angle + self.enhancement_amount / 750 * np.sin(angle * 4))


class DBToAmplitude(SoundTransform):
    """`ref * (10 ** (0.1 * x)) ** power` of decibels."""

    ref: Number = argument(text="the result of 0 dB.")
    power: Number = argument(text="1 for power, 0.5 for amplitude.")

    def _apply(self, x: Array) -> Array:
        return self.ref * np.power(np.power(10.0, 0.1 * x), self.power)


class DCShift(SoundTransform):
    """Moves a waveform up or down."""

    shift: Annotated[float, number(-2.0, 2.0)] = argument(text="-2 to 2.")
    limiter_gain: Number | None = argument(
        default=None, text="what is near to the edge is weakened by this factor, not cut; None: it "
                           "is cut.")

    def _apply(self, x: Array) -> Array:
        if self.limiter_gain is None:
            return clamped(x + self.shift)
        edge = 1 - (abs(self.shift) - self.limiter_gain)
        if self.shift in (0.0, self.limiter_gain):
            return clamped(x + self.shift)
        side = 1.0 if self.shift > 0 else -1.0
        weak = (x - side * edge) * self.limiter_gain / (1 - edge) + edge + self.shift
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

    Raises:
        RuntimeError: at a call, for a waveform that is shorter.
    """

    fade_in_len: NonNegative = argument(default=0, text="a number of samples.")
    fade_out_len: NonNegative = argument(default=0, text="a number of samples.")
    fade_shape: FadeShape = FadeShape.LINEAR

    def _apply(self, x: Array) -> Array:
        time = x.shape[-1]
        for name in ("fade_in_len", "fade_out_len"):
            if (length := vars(self)[name]) > time:
                raise self._refused(f"{name} should be less than the waveform's length {time}, "
                                    f"but is {length}.")
        first, last, shape = self.fade_in_len, self.fade_out_len, _SHAPES[self.fade_shape]
        louder = np.ones(time)
        louder[:first] = shape(np.linspace(0, 1, first))
        softer = np.ones(time)
        softer[time - last :] = shape(np.linspace(1, 0, last))
        return np.asarray(x * louder * softer)


class Gain(SoundTransform):
    """Louder or softer by decibels."""

    gain_db: Annotated[float, number(-1e30, 6000)] = argument(default=1.0, text="dB.")

    def _prepare(self) -> None:
        self.factor = 10 ** (self.gain_db / 20)

    def _apply(self, x: Array) -> Array:
        return np.asarray(x * self.factor)


class Vol(SoundTransform):
    """Louder or softer; the result is cut to -1 and 1."""

    gain: Number = argument(text="a factor, not negative, or dB; above 0 for a factor of power.")
    gain_type: GainType = GainType.AMPLITUDE

    def _prepare(self) -> None:
        kind, found = self.gain_type, self.gain
        if kind != GainType.DB and (found < 0 or (kind == GainType.POWER and not found)):
            raise ValueError(f"For 'Vol', 'gain' must be positive for {kind}, but got {found}.")
        self.factor = (found if kind == GainType.AMPLITUDE else math.sqrt(found)
                       if kind == GainType.POWER else 10 ** (found / 20))

    def _apply(self, x: Array) -> Array:
        return clamped(x * self.factor)


class _MuLaw(SoundTransform):
    """Base of changes between samples from -1 to 1 and whole numbers, finer near to 0."""

    quantization_channels: Positive = argument(default=256, text="how many numbers there are.")

    def _apply(self, x: Array) -> Array:
        most = self.quantization_channels - 1
        return self._bent(x, most) if most else np.zeros(x.shape)

    def _bent(self, x: Array, most: int) -> Array:
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


class MuLawEncoding(_MuLaw):
    """Samples from -1 to 1 as whole numbers, finer near to 0 (ITU-T G.711)."""

    def _bent(self, x: Array, most: int) -> Array:
        bent = np.sign(x) * np.log1p(most * np.abs(x)) / np.log1p(most)
        return np.asarray(np.trunc((bent + 1) / 2 * most + 0.5))

    def _typed(self, made: Any, dtype: Any) -> Any:
        return np.asarray(made, np.int32)


class MuLawDecoding(_MuLaw):
    """Samples from -1 to 1 of whole numbers; see `MuLawEncoding`."""

    def _bent(self, x: Array, most: int) -> Array:
        bent = x / most * 2 - 1
        size = np.expm1(np.abs(bent) * np.log1p(most)) / most
        return np.asarray(np.sign(bent) * size)


class Overdrive(SoundTransform):
    """Distorts as an amplifier that is turned up too far."""

    gain: Percent = argument(default=20.0, text="dB, 0 to 100.")
    color: Percent = argument(default=20.0, text="how much of the even harmonics, 0 to 100.")

    def _apply(self, x: Array) -> Array:
        driven = clamped(x * 10 ** (self.gain / 20) + self.color / 200)
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
    """Adds what was a while ago, which varies slowly."""

    sample_rate: Positive = argument(text="Hz.")
    gain_in: Share = argument(default=0.4, text="a factor, 0 to 1.")
    gain_out: Annotated[float, number(0, 1e9)] = argument(default=0.74, text="a factor, 0 to 1e9.")
    delay_ms: Annotated[float, number(0, 5.0)] = argument(default=3.0, text="milliseconds, 0 to 5.")
    decay: Annotated[float, number(0, 0.99)] = argument(
        default=0.4, text="how much is added, 0 to 0.99.")
    mod_speed: Annotated[float, number(0.1, 2)] = argument(default=0.5, text="Hz, 0.1 to 2.")
    sinusoidal: Flag = argument(default=True, text="the form of the slow wave; False: triangular.")

    def _prepare(self) -> None:
        self.length = int(self.delay_ms * 0.001 * self.sample_rate + 0.5)
        form = Modulation.SINUSOIDAL if self.sinusoidal else Modulation.TRIANGULAR
        self.table = slow_wave(form, int(self.sample_rate / self.mod_speed + 0.5), 1.0,
                               float(self.length), math.pi / 2, True).astype(np.int64)

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
    """Adds what was a short while ago, which varies slowly, and by channel."""

    sample_rate: Positive = argument(text="Hz, not 0.")
    delay: Annotated[float, number(0, 30)] = argument(default=0.0, text="milliseconds, 0 to 30.")
    depth: Annotated[float, number(0, 10)] = argument(
        default=2.0, text="milliseconds that the delay varies by, 0 to 10.")
    regen: Annotated[float, number(-95.0, 95.0)] = argument(
        default=0.0, text="per cent of what was added that is added again, -95 to 95.")
    width: Percent = argument(default=71.0, text="per cent of what is added, 0 to 100.")
    speed: Annotated[float, number(0.1, 10)] = argument(default=0.5, text="Hz, 0.1 to 10.")
    phase: Percent = argument(
        default=25.0, text="per cent of a period that one channel is after another, 0 to 100.")
    modulation: Modulation = Modulation.SINUSOIDAL
    interpolation: Interpolation = Interpolation.LINEAR
    _axes = 2

    def _prepare(self) -> None:
        rate, least, varies = self.sample_rate, self.delay / 1000, self.depth / 1000
        self.again, added = self.regen / 100, self.width / 100
        self.own = 1 / (1 + added)
        self.added = added / (1 + added) * (1 - abs(self.again))
        self.length = int((least + varies) * rate + 0.5) + 2
        self.table = slow_wave(
            self.modulation, int(rate / self.speed), math.floor(least * rate + 0.5),
            self.length - 2.0, 3 * math.pi / 2, False)

    def _apply(self, x: Array) -> Array:
        channels = np.arange(x.shape[-2])
        behind = (channels * len(self.table) * (self.phase / 100) + 0.5).astype(np.int64)
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
        """Return the kept samples at places between whole ones."""
        first, second, third = (kept[..., channels, (at + k) % self.length] for k in range(3))
        if self.interpolation == Interpolation.LINEAR:
            return np.asarray(first + (second - first) * part)
        third, second = third - first, second - first
        return np.asarray(first + ((third * 0.5 - second) * part + second * 2 - third * 0.5) * part)


class Dither(SoundTransform, RandomTransform):
    """Rounds to 16 bits after adding noise, so that the rounding error is independent of the
    signal."""

    density_function: DensityFunction = argument(
        default=DensityFunction.TPDF, text="a `DensityFunction`; TPDF adds a fixed triangle, as "
                                           "MindSpore does.")
    noise_shaping: Flag = argument(
        default=False, text="the error of a sample is added to the next.")

    def _noise(self, x: Array) -> Any:
        if self.density_function == DensityFunction.TPDF:
            return np.bartlett(x.shape[-1] + 1)[:-1]
        lines = x.reshape(-1, x.shape[-1])

        def drawn() -> float:
            return float(lines[self.random.below(len(lines)), self.random.below(x.shape[-1])])

        if self.density_function == DensityFunction.RPDF:
            return drawn() - 0.5
        return sum((drawn() for _ in range(6)), drawn())

    def _apply(self, x: Array) -> Array:
        made: Array = np.round(x * (2**15 - 2) + self._noise(x)) / 2**15
        if self.noise_shaping:
            error = made - x
            made[..., 1:] += error[..., :-1]
        return made
