"""Collections of speech and sounds: a waveform, its rate, and what is said.

A waveform comes from sound files of 16 bits.
"""

from __future__ import annotations

import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .declared import ROWS, one_of
from .listed import Entry, ListedDataset, damaged, folders_of, lines_of
from .rows import Row

_TOP = 32767  # The value of 1 in files of 16 bits
_MUSIC_RATE = 22050
_WAVE = "float32[1, samples]"
_VOICES = ("aew", "ahw", "aup", "awb", "axb", "bdl", "clb", "eey", "fem", "gka", "jmk", "ksp",
           "ljm", "lnh", "rms", "rxr", "slp", "slt")
_BOOKS = ("dev-clean", "dev-other", "test-clean", "test-other", "train-clean-100",
          "train-clean-360", "train-other-500")


def waveform(path: Path) -> tuple[np.ndarray[Any, Any], int]:
    """Return a 16-bit WAV file's samples, as float32[1, samples], and its rate in Hz."""
    try:
        with wave.open(str(path), "rb") as sound:
            width, rate, count = sound.getsampwidth(), sound.getframerate(), sound.getnframes()
            whole = count * width * sound.getnchannels()
            # (`readframes` allocates what the file's head states.)
            data = sound.readframes(count) if whole <= path.stat().st_size else b""
    except (OSError, EOFError, wave.Error) as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read as a WAV file: {error}") from error
    if width != 2:
        raise RuntimeError(f"Invalid file, {path}: a sample must have 16 bits, but has {8 * width}."
                           " Convert the file to 16-bit samples.")
    if len(data) != whole:
        raise RuntimeError(f"Invalid file, {path}: it has fewer than the {whole} bytes of samples "
                           "that its header states.")
    values = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(_TOP)
    return values.reshape(1, -1), rate


class _Spoken(ListedDataset, takes=f"dataset_dir {ROWS}"):
    """Base of sources with a sound file in each entry, which gives two columns."""

    def _row(self, place: int) -> Row:
        path, *values = self._entries()[place]
        sound, rate = waveform(path)
        return (sound, *(np.array(value, kind) for kind, value in
                         zip([*self._columns.values()][1:], (rate, *values), strict=True)))

    def _labels(self, column: str) -> Any:
        if column not in list(self._columns)[2:]:
            raise RuntimeError(f"PKSampler: there is no class in the column {column!r} of "
                               f"{type(self).__name__}.")
        place = list(self._columns).index(column) - 1
        return np.array([entry[place] for entry in self._entries()])


class SpeechCommandsDataset(
    _Spoken, takes=f"dataset_dir usage {ROWS}", usages=("train", "test", "valid", "all")
):
    """Words of commands; label is the word. Files in neither `testing_list.txt` nor
    `validation_list.txt` are for training.

    Reference: Warden, 2018.
    """

    _columns = {"waveform": _WAVE, "sample_rate": np.int32, "label": None, "speaker_id": None,
                "utterance_number": np.int32}

    def _find(self) -> Iterator[Entry]:
        lists = {part: set(lines_of(self.dataset_dir / f"{name}_list.txt"))
                 for part, name in (("test", "testing"), ("valid", "validation"))
                 if self.usage in (part, "train")}
        for folder in folders_of(self.dataset_dir):
            for path in sorted(folder.glob("*_nohash_*.wav")):
                name = f"{folder.name}/{path.name}"
                if self.usage == "all" or (name in lists[self.usage] if self.usage in lists else
                                           not any(name in each for each in lists.values())):
                    speaker, _, number = path.stem.partition("_nohash_")
                    if not number.isdecimal():
                        raise RuntimeError(f"Invalid file name, {path}: a number must follow "
                                           "_nohash_.")
                    yield path, folder.name, speaker, int(number)


class YesNoDataset(_Spoken):
    """Sentences of eight words in Hebrew; label is int32[8], 1 for yes and 0 for no. Files come in
    the order of their names.

    Reference: Kosarev, 2008.
    """

    _columns = {"waveform": _WAVE, "sample_rate": np.int32, "label": np.int32}

    def _find(self) -> Iterator[Entry]:
        for path in sorted(self.dataset_dir.glob("*.wav")):
            if not re.fullmatch("[01](_[01])*", path.stem):
                raise RuntimeError(f"Invalid file name, {path}: zeros and ones with _ between them "
                                   "are wanted.")
            yield path, [int(word) for word in path.stem.split("_")]


class LJSpeechDataset(_Spoken):
    """Sentences of books that one reads; normalized_transcription has numbers as words.

    Reference: Ito and Johnson, 2017.
    """

    _columns = {"waveform": _WAVE, "sample_rate": np.int32, "transcription": None,
                "normalized_transcription": None}

    def _find(self) -> Iterator[Entry]:
        path = self.dataset_dir / "metadata.csv"
        for number, line in enumerate(lines_of(path)):
            fields = line.split("|")
            if len(fields) != 3:
                raise damaged(path, number, f"three fields with | between them are wanted, not "
                              f"{len(fields)}")
            yield self.dataset_dir / "wavs" / f"{fields[0]}.wav", *fields[1:]


class CMUArcticDataset(_Spoken, takes=f"dataset_dir name {ROWS}"):
    """Sentences that several read.

    Args:
        dataset_dir: the folder of `cmu_us_aew_arctic` and others.

    Reference: Kominek and Black, 2003.
    """

    name: str = one_of(*_VOICES, text='who reads, as "aew"; None for this one')
    _columns = {"waveform": _WAVE, "sample_rate": np.uint32, "transcript": None,
                "utterance_id": None}

    def _find(self) -> Iterator[Entry]:
        folder = self.dataset_dir / f"cmu_us_{self.name}_arctic"
        path = folder / "etc" / "txt.done.data"
        for number, line in enumerate(lines_of(path)):
            found = re.fullmatch(r'\(\s*arctic_(\S+)\s+"(.*)"\s*\)', line.strip())
            if not found:
                raise damaged(path, number, 'a name and a text as ( name "text" ) are wanted')
            yield folder / "wav" / f"arctic_{found[1]}.wav", found[2], found[1]


class LibriTTSDataset(
    _Spoken, takes=f"dataset_dir usage {ROWS}", usages=(*_BOOKS, "all")
):
    """Sentences of books that many read.

    Args:
        usage: a folder, as "dev-clean" or "train-other-500"; "all" or None for those that are
            there.

    Reference: Zen et al., 2019.
    """

    _columns = {"waveform": _WAVE, "sample_rate": np.uint32, "original_text": None,
                "normalized_text": None, "speaker_id": np.uint32, "chapter_id": np.uint32,
                "utterance_id": None}

    def _find(self) -> Iterator[Entry]:
        for part in _BOOKS if self.usage == "all" else (self.usage,):
            for path in sorted((self.dataset_dir / part).glob("*/*/*.trans.tsv")):
                yield from self._in(path)

    def _in(self, path: Path) -> Iterator[Entry]:
        """Yield the entries of a file of texts: the sentences of a chapter."""
        for number, line in enumerate(lines_of(path)):
            name, *texts = line.split("\t")
            speaker, chapter, *_ = [*name.split("_"), "", ""]
            if len(texts) != 2 or not (speaker.isdecimal() and chapter.isdecimal()):
                raise damaged(path, number, "a name, a text and a normalized text are wanted")
            yield path.parent / f"{name}.wav", *texts, int(speaker), int(chapter), name


_MUSIC = """
    blues 555555aaaaaaaa80000000000555556aaaaa8000000000000a
    classical 555556aaaaaaaaa00aaaac00200000000055556a0000000000
    country 5555d5555400010aaaaa969a9aeaaaaa800000000000000000
    disco 6545555400200000000c00044f4308caa96341aaaaaa86a9ae
    hiphop b000000000000a08000382affea8000aaaaaaac01555555556
    jazz 05555400000015557fffcffc0000000000002aaaaaaaaaaaaa
    metal 50c555aa554a2aaaac5afff000000c0002482a581622800000
    pop a000042b003c000c00300233c3ddf556abeaaaaa1957aaaa80
    reggae 0333cc30000000003aaab00a80a00014aa867756fa9eab5555
    rock 00000aaa000002aaaaa6aaaa9555400000015555555aa80000"""
"""The part of each of a hundred pieces of a kind, a digit for two: four times that of the first and
that of the second; 3 for none."""
_PARTS = ("train", "valid", "test")


class GTZANDataset(
    _Spoken, takes=f"dataset_dir usage {ROWS}", usages=("train", "valid", "test", "all")
):
    """Pieces of music of ten kinds; label is the kind. The parts leave out faulty pieces.

    Args:
        dataset_dir: the folder of `blues`, `classical` and others.

    Reference: Tzanetakis and Cook, 2002; Kereliuk et al., 2015.
    """

    _columns = {"waveform": _WAVE, "sample_rate": np.uint32, "label": None}

    def _find(self) -> Iterator[Entry]:
        if self.usage == "all":
            for folder in folders_of(self.dataset_dir):
                yield from ((path, folder.name) for path in sorted(folder.glob("*.wav")))
            return
        wanted = _PARTS.index(self.usage)
        for line in _MUSIC.split("\n")[1:]:
            kind, digits = line.split()
            parts = (part for digit in digits for part in divmod(int(digit, 16), 4))
            yield from ((self.dataset_dir / kind / f"{kind}.{i:05d}.wav", kind)
                        for i, part in enumerate(parts) if part == wanted)

    def _row(self, place: int) -> Row:
        row = super()._row(place)
        if row[1] != _MUSIC_RATE:
            raise RuntimeError(f"Invalid file, {self._entries()[place][0]}: the rate must be "
                               f"{_MUSIC_RATE} Hz, but is {row[1]}.")
        return row


__all__ = ["CMUArcticDataset", "GTZANDataset", "LJSpeechDataset", "LibriTTSDataset",
           "SpeechCommandsDataset", "YesNoDataset"]
