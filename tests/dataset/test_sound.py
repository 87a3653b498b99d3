"""Transforms of sound give what MindSpore's give; random ones, pipelines, and bad arguments."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.dataset as ds
from cellc.dataset import audio

from ..others import ORACLE, answer, needs_oracle, run
from . import sounds

RECORDED = json.loads(Path(__file__).with_name("sounds.json").read_text())
"""What MindSpore 2.10 gave."""
R = np.random.RandomState(0)
WAVE, SPECTRUM = R.uniform(-1, 1, (2, 400)), R.uniform(0, 1, (2, 20, 30)).astype(np.float32)


@pytest.fixture(scope="module")
def ours() -> Any:
    return {n: sounds.record(v) for n, v in sounds.each("cellc").items()}


def agree(found: Any, wanted: Any) -> bool:
    """Whether two records do: types and shapes exactly, numbers to single precision."""
    if isinstance(wanted, str) or (wanted and isinstance(wanted[0], list)):
        return (found == wanted if isinstance(wanted, str)
                else all(agree(f, w) for f, w in zip(found, wanted, strict=True)))
    largest = max(map(abs, wanted[3]), default=0.0)
    return bool(found[:2] == wanted[:2] and np.allclose(found[2], wanted[2], 2e-5, 1e-7)
                and np.allclose(found[3], wanted[3], 2e-5, 2e-5 * largest))


@pytest.mark.parametrize("case", RECORDED)
def test_sound_gives_mindspores_result(ours: Any, case: str) -> None:
    assert agree(ours[case], RECORDED[case])


@needs_oracle
def test_the_records_are_mindspores() -> None:
    theirs = answer(run(ORACLE, Path(sounds.__file__), ["mindspore"]))
    assert {n: r for n, r in theirs.items() if not agree(r, RECORDED[n])} == {}


@pytest.mark.parametrize("time", [1, 2, 3, 17, 100])
@pytest.mark.parametrize("a", [[1.0], [2.0, -0.3], [0.9, 0.2, 0.3], [1.0, 0.1, -0.2, 0.3, 0.1]])
def test_filters_are_recursions(time: int, a: list[float]) -> None:
    b = [0.3, -0.2, 0.5, 0.1, 0.7][: len(a)]
    x = R.uniform(-1, 1, (3, time))
    wanted = np.zeros((3, time))
    for n in range(time):
        wanted[:, n] = sum(b[k] * x[:, n - k] for k in range(len(a)) if n >= k)
        wanted[:, n] -= sum(a[k] * wanted[:, n - k] for k in range(1, len(a)) if n >= k)
        wanted[:, n] /= a[0]
    np.testing.assert_allclose(audio.LFilter(a, b, False)(x), wanted, atol=1e-12)


def test_a_spectrum_comes_back() -> None:
    options = {"n_fft": 64, "win_length": 50, "hop_length": 20}
    made = audio.Spectrogram(power=0.0, **options)(WAVE)
    back = audio.InverseSpectrogram(400, **options)(made)
    np.testing.assert_allclose(back, WAVE, atol=1e-12)


@pytest.mark.parametrize(("shape", "wanted"), [
    ((4, 3, 2), (1, 4, 3, 2)), ((5, 4, 3, 2), (5, 4, 3, 2)), ((2, 3, 4, 3, 2), (6, 4, 3, 2)),
])
def test_time_that_is_not_stretched(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    x = R.uniform(-1, 1, shape)
    np.testing.assert_array_equal(audio.TimeStretch()(x), x.reshape(wanted))


def test_speech_begins_where_it_is_heard() -> None:
    speech = sounds.waves()["speech"]
    kept = audio.Vad(8000)(speech)
    assert 4000 + 2000 <= len(kept) < len(speech)
    np.testing.assert_array_equal(kept, speech[-len(kept):])


def test_the_pitch_of_a_tone_is_found() -> None:
    tone = np.sin(2 * np.pi * 250 * np.arange(8000) / 8000)
    np.testing.assert_allclose(audio.DetectPitchFrequency(8000)(tone)[:60], 250, rtol=0.02)


def test_a_spectrum_is_found_again_of_its_mels() -> None:
    mels = audio.MelScale(6, 8000, n_stft=20)(SPECTRUM)
    found = audio.InverseMelScale(20, 6, 8000, max_iter=3000)(mels)
    assert found.shape == SPECTRUM.shape and found.dtype == np.float32 and found.min() >= 0
    np.testing.assert_allclose(audio.MelScale(6, 8000, n_stft=20)(found), mels, atol=0.05)


RANDOM: dict[str, tuple[Callable[[], Any], Any]] = {
    "FrequencyMasking": (lambda: audio.FrequencyMasking(True, 9, mask_value=7.0), SPECTRUM),
    "TimeMasking": (lambda: audio.TimeMasking(True, 9, mask_value=7.0), SPECTRUM),
    "MaskAlongAxisIID": (lambda: audio.MaskAlongAxisIID(9, 7.0, 2), SPECTRUM),
    "Dither": (lambda: audio.Dither(audio.DensityFunction.RPDF), WAVE),
    "GriffinLim": (lambda: audio.GriffinLim(38, 2), SPECTRUM),
}


@pytest.mark.parametrize("name", RANDOM)
def test_draws_follow_the_seed(name: str) -> None:
    make, given = RANDOM[name]
    rows = ds.NumpySlicesDataset({"x": np.stack([given] * 4)}, shuffle=False)

    def seen(seed: int) -> Any:
        before = ds.config.get_seed()
        ds.config.set_seed(seed)
        try:
            mapped = rows.map([make()], "x")
            return [r["x"] for r in mapped.create_dict_iterator(1, output_numpy=True)]
        finally:
            ds.config.set_seed(before)

    first, again, other = seen(3), seen(3), seen(4)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other) and not np.array_equal(first[0], first[1])
    assert first[0].dtype == given.dtype


@pytest.mark.parametrize("axis", [1, 2])
def test_masks_hide_one_range(axis: int) -> None:
    made = audio.MaskAlongAxisIID(9, 7.0, axis)(SPECTRUM)
    hidden = made == 7.0
    line = hidden.any(tuple(i for i in range(3) if i != axis))
    np.testing.assert_array_equal(hidden, np.broadcast_to(
        np.expand_dims(line, tuple(i for i in range(3) if i != axis)), hidden.shape))
    assert line.sum() < 9 and np.abs(np.diff(line.astype(int))).sum() <= 2
    np.testing.assert_array_equal(made[~hidden], SPECTRUM[~hidden])


def test_a_pipeline_of_sound() -> None:
    rows = ds.NumpySlicesDataset({"x": R.uniform(-1, 1, (5, 32)).astype(np.float32)}).map(
        [audio.LowpassBiquad(4000, 1500, 0.7), audio.Spectrogram(16)], "x")
    (first, *_) = rows.create_dict_iterator(num_epochs=1, output_numpy=True)
    assert first["x"].shape == (9, 5) and first["x"].dtype == np.float32
    assert pickle.loads(pickle.dumps(audio.Gain(3.0))).factor == audio.Gain(3.0).factor


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: audio.AllpassBiquad(0, 200.0), ValueError, "sample_rate"),
    (lambda: audio.AllpassBiquad(44100, 200.0, 1.5), ValueError, "Q"),
    (lambda: audio.AllpassBiquad(44100.5, 200.0), TypeError, "sample_rate"),
    (lambda: audio.BandpassBiquad(8000, 9.0, 0.5, 1), TypeError, "const_skirt_gain"),
    (lambda: audio.Biquad(1, 1, 1, 0, 1, 1), ValueError, "a0"),
    (lambda: audio.DeemphBiquad(8000), ValueError, "44100 or 48000"),
    (lambda: audio.RiaaBiquad(8000), ValueError, "96000"),
    (lambda: audio.LFilter([1.0], [1.0, 2.0]), ValueError, "same length"),
    (lambda: audio.LFilter([0.0, 1.0], [1.0, 2.0]), ValueError, "should not be 0"),
    (lambda: audio.Contrast(101.0), ValueError, "enhancement_amount"),
    (lambda: audio.Fade(-1), ValueError, "fade_in_len"),
    (lambda: audio.Fade(fade_shape="linear"), TypeError, "fade_shape"),
    (lambda: audio.Vol(0.0, audio.GainType.POWER), ValueError, "gain"),
    (lambda: audio.Spectrogram(16, 20), ValueError, "win_length"),
    (lambda: audio.MelScale(f_min=9000.0), ValueError, "f_min"),
    (lambda: audio.MFCC(n_mfcc=200), ValueError, "MFCC"),
    (lambda: audio.PhaseVocoder(2, np.zeros(3)), ValueError, "phase_advance"),
    (lambda: audio.MaskAlongAxis(0, 0, 1.0, 1), ValueError, "mask_width"),
    (lambda: audio.PitchShift(8000, 3, 0), ValueError, "bins_per_octave"),
    (lambda: audio.Resample(0.5, 8000), ValueError, "orig_freq"),
    (lambda: audio.Gain()(np.array(1.0)), RuntimeError, "axes"),
    (lambda: audio.Gain()(np.zeros((2, 0))), RuntimeError, "no elements"),
    (lambda: audio.Gain()(np.array(["a"])), TypeError, "int, float or double"),
    (lambda: audio.Angle()(np.zeros((3, 4))), RuntimeError, "axes, 2"),
    (lambda: audio.Fade(9)(np.zeros(4)), RuntimeError, "fade_in_len"),
    (lambda: audio.MelScale()(np.zeros((9, 4))), RuntimeError, "n_stft"),
    (lambda: audio.MaskAlongAxis(3, 4, 1.0, 1)(np.zeros((6, 4))), RuntimeError, "do not fit"),
    (lambda: audio.InverseSpectrogram()(np.zeros((9, 4, 2))), RuntimeError, "frequencies"),
])
def test_bad_sound_is_refused(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()
