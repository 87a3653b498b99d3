"""Collections of speech and sounds: a waveform, its rate, and what is said.

A waveform is float32[1, samples], from sound files of 16 bits. Arguments are those of
`MnistDataset`.
"""

from __future__ import annotations

import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import checks
from .listed import Entry, ListedDataset, damaged, folders_of, lines_of
from .pictures import _folder, _usage
from .rows import Row

_TOP = 32767
"""What stands for 1 in files of 16 bits."""
_VOICES = ("aew", "ahw", "aup", "awb", "axb", "bdl", "clb", "eey", "fem", "gka", "jmk", "ksp",
           "ljm", "lnh", "rms", "rxr", "slp", "slt")
_BOOKS = ("dev-clean", "dev-other", "test-clean", "test-other", "train-clean-100",
          "train-clean-360", "train-other-500")


def waveform(path: Path) -> tuple[np.ndarray[Any, Any], int]:
    """What a WAV file of 16 bits holds, as float32[1, samples], and its rate in Hz.

    Raises:
        RuntimeError: there is no such file, or it is none.
    """
    try:
        with wave.open(str(path), "rb") as sound:
            width, rate, count = sound.getsampwidth(), sound.getframerate(), sound.getnframes()
            whole = count * width * sound.getnchannels()
            # (`readframes` allocates what the file's head states.)
            data = sound.readframes(count) if whole <= path.stat().st_size else b""
    except (OSError, EOFError, wave.Error) as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read as a WAV file: {error}") from error
    if width != 2 or len(data) != whole:
        raise RuntimeError(f"Invalid file, {path}: samples of 16 bits are wanted, all that the "
                           f"file's head names; these have {8 * width}, and {len(data)} bytes "
                           f"instead of {whole}.")
    values = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(_TOP)
    return values.reshape(1, -1), rate


class _Spoken(ListedDataset):
    """Base of sources with a sound file in each entry, which gives two columns."""

    _columns: tuple[str, ...] = ("waveform", "sample_rate")
    _kinds = {"sample_rate": np.int32}

    def _row(self, place: int) -> Row:
        path, *values = self._entries()[place]
        sound, rate = waveform(path)
        return (sound, *(np.array(value, self._kinds.get(name)) for name, value in
                         zip(self._columns[1:], (rate, *values), strict=True)))

    def _labels(self, column: str) -> Any:
        if column not in self._columns[2:]:
            raise RuntimeError(f"PKSampler: there is no class in the column {column!r} of "
                               f"{type(self).__name__}.")
        place = self._columns.index(column) - 1
        return np.array([entry[place] for entry in self._entries()])


class _WithoutParts(_Spoken):
    """Base of those with a folder and nothing else that is their own."""

    def __init__(
        self, dataset_dir: str, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self._listed(False, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)


class _WithParts(_Spoken):
    """Base of those with a folder and parts that `usage` names; None for all."""

    _usages: tuple[str, ...] = ()

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.usage = _usage(usage, *self._usages, "all")
        self._listed(False, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)


class SpeechCommandsDataset(_WithParts):
    """Words of commands: waveform, sample_rate (int32), label (the word), speaker_id (a string),
    utterance_number (int32).

    Args:
        usage: "train", "test", "valid" or "all"; None for all. What is in neither
            `testing_list.txt` nor `validation_list.txt` is for training.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a file is not there, or broken.

    Source: `mindspore.dataset.SpeechCommandsDataset`; Warden, 2018.
    """

    _columns = ("waveform", "sample_rate", "label", "speaker_id", "utterance_number")
    _kinds = {"sample_rate": np.int32, "utterance_number": np.int32}
    _usages = ("train", "test", "valid")

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


class YesNoDataset(_WithoutParts):
    """Sentences of eight words in Hebrew: waveform, sample_rate (int32), and label (int32[8]), 1
    for yes and 0 for no. Files come in the order of their names.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a file is not there, or broken.

    Source: `mindspore.dataset.YesNoDataset`; Kosarev, 2008.
    """

    _columns = ("waveform", "sample_rate", "label")
    _kinds = {"sample_rate": np.int32, "label": np.int32}

    def _find(self) -> Iterator[Entry]:
        for path in sorted(self.dataset_dir.glob("*.wav")):
            if not re.fullmatch("[01](_[01])*", path.stem):
                raise RuntimeError(f"Invalid file name, {path}: zeros and ones with _ between them "
                                   "are wanted.")
            yield path, [int(word) for word in path.stem.split("_")]


class LJSpeechDataset(_WithoutParts):
    """Sentences of books that one reads: waveform, sample_rate (int32), transcription, and
    normalized_transcription, with numbers as words.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a file is not there, or broken.

    Source: `mindspore.dataset.LJSpeechDataset`; Ito and Johnson, 2017.
    """

    _columns = ("waveform", "sample_rate", "transcription", "normalized_transcription")

    def _find(self) -> Iterator[Entry]:
        path = self.dataset_dir / "metadata.csv"
        for number, line in enumerate(lines_of(path)):
            fields = line.split("|")
            if len(fields) != 3:
                raise damaged(path, number, f"three fields with | between them are wanted, not "
                              f"{len(fields)}")
            yield self.dataset_dir / "wavs" / f"{fields[0]}.wav", *fields[1:]


class CMUArcticDataset(_Spoken):
    """Sentences that several read: waveform, sample_rate (uint32), transcript, utterance_id.

    Args:
        dataset_dir: the folder of `cmu_us_aew_arctic` and others.
        name: who reads, as "aew"; None for this one.
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a file is not there, or broken.

    Source: `mindspore.dataset.CMUArcticDataset`; Kominek and Black, 2003.
    """

    _columns = ("waveform", "sample_rate", "transcript", "utterance_id")
    _kinds = {"sample_rate": np.uint32}

    def __init__(
        self, dataset_dir: str, name: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.name = str(checks.of_type("name", _VOICES[0] if name is None else name, str))
        if self.name not in _VOICES:
            raise ValueError(f"Input name is not within the valid set of {list(_VOICES)}.")
        self._listed(False, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

    def _find(self) -> Iterator[Entry]:
        folder = self.dataset_dir / f"cmu_us_{self.name}_arctic"
        path = folder / "etc" / "txt.done.data"
        for number, line in enumerate(lines_of(path)):
            found = re.fullmatch(r'\(\s*arctic_(\S+)\s+"(.*)"\s*\)', line.strip())
            if not found:
                raise damaged(path, number, 'a name and a text as ( name "text" ) are wanted')
            yield folder / "wav" / f"arctic_{found[1]}.wav", found[2], found[1]


class LibriTTSDataset(_WithParts):
    """Sentences of books that many read: waveform, sample_rate (uint32), original_text,
    normalized_text, speaker_id, chapter_id (uint32), utterance_id (a string).

    Args:
        usage: a folder, as "dev-clean" or "train-other-500"; "all" or None for those that are
            there.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a file is not there, or broken.

    Source: `mindspore.dataset.LibriTTSDataset`; Zen et al., 2019.
    """

    _columns = ("waveform", "sample_rate", "original_text", "normalized_text", "speaker_id",
                "chapter_id", "utterance_id")
    _kinds = dict.fromkeys(("sample_rate", "speaker_id", "chapter_id"), np.uint32)
    _usages = _BOOKS

    def _find(self) -> Iterator[Entry]:
        for part in _BOOKS if self.usage == "all" else (self.usage,):
            for path in sorted((self.dataset_dir / part).glob("*/*/*.trans.tsv")):
                yield from self._in(path)

    def _in(self, path: Path) -> Iterator[Entry]:
        """What a file of texts lists: the sentences of a chapter."""
        for number, line in enumerate(lines_of(path)):
            name, *texts = line.split("\t")
            speaker, chapter, *_ = [*name.split("_"), "", ""]
            if len(texts) != 2 or not (speaker.isdecimal() and chapter.isdecimal()):
                raise damaged(path, number, "a name, a text and a normalized text are wanted")
            yield path.parent / f"{name}.wav", *texts, int(speaker), int(chapter), name


__all__ = ["CMUArcticDataset", "LJSpeechDataset", "LibriTTSDataset", "SpeechCommandsDataset",
           "YesNoDataset"]
