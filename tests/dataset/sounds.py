"""Transforms of sound on a few waveforms: run under MindSpore, and under cellc.

`python sounds.py mindspore` (in MindSpore's interpreter) prints what `sounds.json` holds: of each
result its type, its shape, the sum of its sizes, and some of its elements.
"""

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

KEPT = 9
"""Elements of a result that are recorded, from the first to the last."""


def waves() -> dict[str, np.ndarray[Any, Any]]:
    """Waveforms and spectra by name."""
    r = np.random.RandomState(3)
    t = np.arange(4000) / 8000
    tone = 0.5 * np.sin(2 * np.pi * (200 + 300 * t) * t) + 0.05 * r.randn(4000)
    quiet = np.concatenate([0.001 * r.randn(6000), tone, 0.001 * r.randn(2000)])
    return {
        "short": r.uniform(-1, 1, 16), "single": r.uniform(-1, 1, (2, 20)).astype(np.float32),
        "channels": r.uniform(-1, 1, (2, 3, 40)), "loud": r.uniform(-4, 4, 30),
        "ints": r.randint(-9, 9, (2, 30)), "bytes": r.randint(0, 255, 12), "tone": tone,
        "sound": tone[:1200].reshape(2, 600).astype(np.float32), "speech": quiet,
        "spectrum": r.uniform(-2, 2, (2, 201, 6, 2)), "power": r.uniform(0, 2, (2, 201, 6)),
        "few": r.uniform(0, 1, (9, 7)).astype(np.float32), "rows": r.uniform(-1, 1, (2, 8, 30)),
        "phases": r.uniform(-1, 1, (4, 12, 2)), "advance": r.uniform(0, 1, (4, 1)),
        "zeros": np.zeros(50), "mels": r.uniform(0, 2, (4, 3)).astype(np.float32),
    }


def filters(a: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Filters, and the waveforms that they are given."""
    both = ("short", "single", "channels", "loud")
    return {
        "AllpassBiquad": (a.AllpassBiquad(44100, 200.0), both),
        "AllpassBiquad, Q": (a.AllpassBiquad(44100, 2000.0, 0.3), both),
        "BandBiquad": (a.BandBiquad(44100, 200.0), both),
        "BandBiquad, noise": (a.BandBiquad(8000, 900.0, 0.5, True), both),
        "BandpassBiquad": (a.BandpassBiquad(44100, 200.0), both),
        "BandpassBiquad, skirt": (a.BandpassBiquad(8000, 900.0, 0.9, True), both),
        "BandrejectBiquad": (a.BandrejectBiquad(8000, 900.0), both),
        "BassBiquad": (a.BassBiquad(8000, 10.0), both),
        "BassBiquad, more": (a.BassBiquad(8000, -7.0, 300.0, 0.5), both),
        "TrebleBiquad": (a.TrebleBiquad(44100, 10.0), both),
        "TrebleBiquad, more": (a.TrebleBiquad(8000, -7.0, 900, 0.5), both),
        "Biquad": (a.Biquad(0.01, 0.02, 0.13, 1, 0.12, 0.3), both),
        "Biquad, a0": (a.Biquad(0.5, 0.2, 0.13, 2.0, 0.12, 0.3), both),
        "DeemphBiquad": (a.DeemphBiquad(44100), both),
        "DeemphBiquad, 48000": (a.DeemphBiquad(48000), both),
        "EqualizerBiquad": (a.EqualizerBiquad(8000, 1500, 5.5, 0.7), both),
        "HighpassBiquad": (a.HighpassBiquad(8000, 1500), both),
        "LowpassBiquad": (a.LowpassBiquad(8000, 1500, 0.4), both),
        **{f"RiaaBiquad, {r}": (a.RiaaBiquad(r), both) for r in (44100, 48000, 88200, 96000)},
        "LFilter": (a.LFilter([0.9, 0.2, 0.3], [0.3, 0.2, 0.1]), both),
        "LFilter, long": (a.LFilter([1.0, -0.5, 0.2, 0.1, 0.05], [0.3, 0, 0.1, 2, 3], False), both),
        "LFilter, clamp": (a.LFilter([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]), ("short", "single")),
        "Filtfilt": (a.Filtfilt([0.9, 0.2, 0.3], [0.1, 0.2, 0.3]), both),
        "Filtfilt, open": (a.Filtfilt([0.9, 0.2, 0.1], [0.4, 0.2, 0.3], False), both),
    }


def effects(a: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Changes of waveforms, and those that they are given."""
    both = ("short", "single", "channels", "loud")
    shape, kind = a.FadeShape, a.GainType
    return {
        "Contrast": (a.Contrast(), both), "Contrast, less": (a.Contrast(10.0), both),
        "DBToAmplitude": (a.DBToAmplitude(0.5, 0.5), both),
        "DCShift": (a.DCShift(0.5, 0.02), both), "DCShift, down": (a.DCShift(-0.8, 0.3), both),
        "DCShift, plain": (a.DCShift(0.8), both),
        **{f"Fade, {s.name}": (a.Fade(5, 7, s), both) for s in shape},
        "Fade, none": (a.Fade(), both), "Gain": (a.Gain(1.2), both),
        "Vol": (a.Vol(1.5), both), "Vol, power": (a.Vol(1.5, kind.POWER), both),
        "Vol, dB": (a.Vol(-3.0, kind.DB), both),
        "MuLawEncoding": (a.MuLawEncoding(), (*both, "ints")),
        "MuLawEncoding, few": (a.MuLawEncoding(16), both),
        "MuLawDecoding": (a.MuLawDecoding(), ("bytes", "ints")),
        "MuLawDecoding, few": (a.MuLawDecoding(16), ("bytes",)),
        "Overdrive": (a.Overdrive(), both), "Overdrive, more": (a.Overdrive(30.0, 50.0), both),
        "Phaser": (a.Phaser(44100), both),
        "Phaser, triangular": (a.Phaser(8000, 0.5, 0.8, 2.0, 0.3, 1.5, False), ("tone", *both)),
        "Flanger": (a.Flanger(44100), both[1:]),
        "Flanger, more": (a.Flanger(
            8000, 2.0, 3.0, 20.0, 60.0, 2.0, 40.0, a.Modulation.TRIANGULAR,
            a.Interpolation.QUADRATIC), both[1:]),
        "Flanger, linear": (a.Flanger(8000, 2.0, 3.0, -20.0, 60.0, 2.0, 40.0), both[1:]),
        "Vad": (a.Vad(sample_rate=8000), ("tone", "zeros")),
        "Vad, 600": (a.Vad(sample_rate=600), ("tone",)),
        "Dither": (a.Dither(), both),
        "DetectPitchFrequency": (a.DetectPitchFrequency(8000), ("tone",)),
        "DetectPitchFrequency, few": (a.DetectPitchFrequency(30, 0.1, 3, 5, 25), both),
        "MaskAlongAxis": (a.MaskAlongAxis(1, 3, 0.5, 1), ("few", "rows", "power")),
        "MaskAlongAxis, time": (a.MaskAlongAxis(0, 2, 0.5, 2), ("few", "rows", "power")),
        "Resample": (a.Resample(48000, 16000), ("rows", "single", "tone")),
        "Resample, up": (a.Resample(
            8000, 11025, a.ResampleMethod.KAISER_WINDOW, 5, 0.9, 10.0), ("rows", "single", "tone")),
        "PitchShift": (a.PitchShift(16000, 4), ("rows", "tone")),
        "PitchShift, down": (a.PitchShift(8000, -3, 10, 200, 160, 50), ("tone",)),
    }


def spectra(a: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Spectra and what is made of them."""
    window, pads = a.WindowType, a.BorderType
    both, single = ("tone", "rows"), ("sound",)
    return {
        "AmplitudeToDB": (a.AmplitudeToDB(), ("power", "few", "rows")),
        "AmplitudeToDB, magnitude": (
            a.AmplitudeToDB(a.ScaleType.MAGNITUDE, 0.5, 1e-6, 20.0), ("power", "few", "rows")),
        "Angle": (a.Angle(), ("spectrum", "phases")),
        "ComplexNorm": (a.ComplexNorm(), ("spectrum", "phases")),
        "ComplexNorm, power": (a.ComplexNorm(3.0), ("spectrum", "phases")),
        "Magphase": (a.Magphase(2.0), ("spectrum", "phases")),
        "ComputeDeltas": (a.ComputeDeltas(7), ("power", "few", "rows")),
        **{f"ComputeDeltas, {p.name}": (a.ComputeDeltas(5, p), ("power", "few", "rows"))
           for p in pads},
        "SlidingWindowCmn": (a.SlidingWindowCmn(), ("few", "rows", "power")),
        "SlidingWindowCmn, centre": (
            a.SlidingWindowCmn(5, 2, True, True), ("few", "rows", "power")),
        "SlidingWindowCmn, short": (a.SlidingWindowCmn(4, 2, False, True), ("few", "power")),
        **{f"Spectrogram, {w.name}": (a.Spectrogram(64, 50, 20, 3, w), both) for w in window},
        **{f"Spectrogram, {p.name}": (a.Spectrogram(16, 16, 4, pad_mode=p), both) for p in pads},
        "Spectrogram": (a.Spectrogram(), ("tone",)),
        "Spectrogram, complex": (a.Spectrogram(32, power=0.0), both),
        "Spectrogram, normalized": (
            a.Spectrogram(20, 20, 7, normalized=True, power=1.0, onesided=False), both),
        "Spectrogram, edge": (a.Spectrogram(20, 20, 7, center=False), both),
        "InverseSpectrogram": (a.InverseSpectrogram(), ("spectrum",)),
        "InverseSpectrogram, length": (
            a.InverseSpectrogram(1000, 400, 400, 200, normalized=True), ("spectrum",)),
        "SpectralCentroid": (a.SpectralCentroid(44100, 16), both),
        "MelScale": (a.MelScale(20), ("power",)),
        "MelScale, slaney": (a.MelScale(
            20, 8000, 100.0, 3000.0, 201, a.NormType.SLANEY, a.MelType.SLANEY), ("power",)),
        "MelSpectrogram": (a.MelSpectrogram(16000, 64, n_mels=10), single),
        "MelSpectrogram, more": (a.MelSpectrogram(
            8000, 50, 40, 15, 50.0, 3000.0, 2, 8, window.HAMMING, 1.0, True, True, pads.CONSTANT,
            True, a.NormType.SLANEY, a.MelType.SLANEY), single),
        "MFCC": (a.MFCC(4000, 20, 2), single),
        "MFCC, log": (a.MFCC(4000, 20, 2, a.NormMode.NONE, True), single),
        "LFCC": (a.LFCC(8000, 30, 10), single),
        "LFCC, log": (a.LFCC(8000, 30, 10, 100.0, 3000.0, 2, a.NormMode.NONE, True), single),
        "TimeStretch": (a.TimeStretch(100, 4, 1.3), ("phases",)),
        "TimeStretch, slow": (a.TimeStretch(None, 201, 0.7), ("spectrum",)),
        "PhaseVocoder": (a.PhaseVocoder(2, waves()["advance"]), ("phases",)),
        "PhaseVocoder, slow": (a.PhaseVocoder(0.6, waves()["advance"]), ("phases",)),
        "GriffinLim": (a.GriffinLim(400, 4, momentum=0.0, rand_init=False), ("power",)),
        "GriffinLim, momentum": (a.GriffinLim(400, 4, rand_init=False), ("power",)),
        "GriffinLim, more": (
            a.GriffinLim(400, 3, 300, 100, window.HAMMING, 1.0, 0.0, 500, False), ("power",)),
    }


def functions(a: Any) -> dict[str, Callable[[], Any]]:
    """Tables of weights."""
    return {
        "create_dct": lambda: a.create_dct(5, 8), "create_dct, ortho": lambda: a.create_dct(
            8, 5, a.NormMode.ORTHO),
        "linear_fbanks": lambda: a.linear_fbanks(30, 10, 3000, 8, 8000),
        "melscale_fbanks": lambda: a.melscale_fbanks(30, 10, 3000, 8, 8000),
        "melscale_fbanks, slaney": lambda: a.melscale_fbanks(
            60, 0, 4000, 12, 8000, a.NormType.SLANEY, a.MelType.SLANEY),
    }


def each(provider: str) -> dict[str, Any]:
    """Every result, whole."""
    a = importlib.import_module(f"{provider}.dataset.audio")
    given, found = waves(), {}
    for name, (transform, inputs) in {**filters(a), **effects(a), **spectra(a)}.items():
        for which in inputs:
            try:
                found[f"{name}: {which}"] = transform(given[which].copy())
            except (RuntimeError, ValueError, TypeError) as e:
                found[f"{name}: {which}"] = type(e).__name__
    return {**found, **{n: f() for n, f in functions(a).items()}}


def record(value: Any) -> Any:
    """What is recorded of a result."""
    if isinstance(value, (str, tuple)):
        return value if isinstance(value, str) else [record(v) for v in value]
    flat = np.asarray(value, np.float64).ravel()
    where = np.linspace(0, max(flat.size - 1, 0), min(KEPT, flat.size)).astype(int)
    return [str(value.dtype), list(value.shape), float(f"{np.abs(flat).sum():.6g}"),
            [float(f"{v:.6g}") for v in flat[where]]]


if __name__ == "__main__":
    print(json.dumps({n: record(v) for n, v in each(sys.argv[1]).items()}))
