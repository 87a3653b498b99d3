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

_TOP = 32767
"""The value of 1 in files of 16 bits."""
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
                        raise RuntimeError(f"Invalid file name, {path}: a number is wanted behind "
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


class CMUArcticDataset(
    _Spoken, takes=f"dataset_dir name {ROWS}",
    own={"name": one_of(*_VOICES, text='who reads, as "aew"; None for this one')},
):
    """Sentences that several read.

    Args:
        dataset_dir: the folder of `cmu_us_aew_arctic` and others.

    Reference: Kominek and Black, 2003.
    """

    name: str
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


__all__ = ["CMUArcticDataset", "LJSpeechDataset", "LibriTTSDataset", "SpeechCommandsDataset",
           "YesNoDataset"]
