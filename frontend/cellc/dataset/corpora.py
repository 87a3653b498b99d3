"""Well-known collections of text, read from the files in which they are published.

The arguments are those of `TextFileDataset`, with a folder instead of files, and `usage`, which
names the part: None for all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import checks
from .pictures import _folder, _usage
from .rows import Row
from .samplers import Shuffle, choose
from .sources import MappableDataset, _check_source
from .texts import CSVDataset, FileDataset, TextFileDataset, _text

_ALL = "all"


def _part(folder: Any, usage: Any, files: Mapping[str, str]) -> list[str]:
    """The files of a part, in a folder.

    Raises:
        TypeError, ValueError: no such folder, part or file.
    """
    found, part = _folder(folder), _usage(usage, *files, _ALL)
    names = list(files.values()) if part == _ALL else [files[part]]
    paths = [os.path.join(found, name) for name in names]
    for path in paths:
        if not os.path.isfile(path):
            raise ValueError(f"There is no {os.path.basename(path)} in {folder}.")
    return paths


# --- tables ---------------------------------------------------------------------------------------


class _Reviews(CSVDataset):
    """Base of collections in `train.csv` and `test.csv`, with columns of strings."""

    _columns: tuple[str, ...] = ()

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.usage = usage
        files = _part(dataset_dir, usage, {"train": "train.csv", "test": "test.csv"})
        super().__init__(files, ",", None, list(self._columns), num_samples, num_parallel_workers,
                         shuffle, num_shards, shard_id, cache)


class _ReviewsOfOldOrder(_Reviews):
    """As `_Reviews`, with `shuffle` before the workers and the training part first, as MindSpore
    has it for some."""

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        shuffle: Any = Shuffle.GLOBAL, num_shards: int | None = None,
        shard_id: int | None = None, num_parallel_workers: int | None = None, cache: Any = None,
    ) -> None:
        super().__init__(dataset_dir, usage, num_samples, num_parallel_workers, shuffle,
                         num_shards, shard_id, cache)
        self.dataset_files.sort(reverse=True)


class AGNewsDataset(_Reviews):
    """News: index (the class, from 1), title and description; usage "train", "test", "all".

    Source: `mindspore.dataset.AGNewsDataset`; Zhang et al., 2015.
    """

    _columns = ("index", "title", "description")


class AmazonReviewDataset(_Reviews):
    """Reviews: label (1 or 2; or 1 to 5), title and content; usage "train", "test", "all".

    Source: `mindspore.dataset.AmazonReviewDataset`; Zhang et al., 2015.
    """

    _columns = ("label", "title", "content")


class DBpediaDataset(_Reviews):
    """Articles: class (from 1), title and content; usage "train", "test", "all".

    Source: `mindspore.dataset.DBpediaDataset`; Zhang et al., 2015.
    """

    _columns = ("class", "title", "content")


class SogouNewsDataset(_ReviewsOfOldOrder):
    """News: index (the class, from 1), title and content; usage "train", "test", "all".

    Source: `mindspore.dataset.SogouNewsDataset`; Zhang et al., 2015.
    """

    _columns = ("index", "title", "content")


class YahooAnswersDataset(_Reviews):
    """Questions: class (from 1), title, content and answer; usage "train", "test", "all".

    Source: `mindspore.dataset.YahooAnswersDataset`; Zhang et al., 2015.
    """

    _columns = ("class", "title", "content", "answer")


class YelpReviewDataset(_ReviewsOfOldOrder):
    """Reviews: label (1 or 2; or 1 to 5) and text; usage "train", "test", "all".

    Source: `mindspore.dataset.YelpReviewDataset`; Zhang et al., 2015.
    """

    _columns = ("label", "text")


class SST2Dataset(FileDataset):
    """Sentences of reviews: sentence, and label ("0" or "1") but for the test part.

    Args:
        usage: "train" (or None), "dev" or "test".

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such file.
        RuntimeError: (when rows are asked for) a line has other columns.

    Source: `mindspore.dataset.SST2Dataset`; Socher et al., 2013.
    """

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.usage = "train" if usage is None else _usage(usage, "train", "dev", "test")
        files = _part(dataset_dir, self.usage, {self.usage: f"{self.usage}.tsv"})
        super().__init__(files, num_samples, num_parallel_workers, shuffle, num_shards, shard_id,
                         cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["sentence"] if self.usage == "test" else ["sentence", "label"]

    def _read(self, path: str) -> list[Row]:
        rows = []
        for number, line in enumerate(_text(path).splitlines()):
            fields = line.split("\t")
            if len(fields) != 2:
                raise RuntimeError(f"Invalid file, {path} at line {number + 1}: {len(fields)} "
                                   "columns instead of 2.")
            if number:
                kept = fields[1:] if self.usage == "test" else fields
                rows.append(tuple(np.array(field) for field in kept))
        return rows


# --- lines ----------------------------------------------------------------------------------------


class _Lines(TextFileDataset):
    """Base of collections of lines, in a file for each part: a column text."""

    _parts: Mapping[str, str] = {}

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.usage = usage
        super().__init__(_part(dataset_dir, usage, self._parts), num_samples,
                         num_parallel_workers, shuffle, num_shards, shard_id, cache)


class PennTreebankDataset(_Lines):
    """Lines of the Penn Treebank: a column text; usage "train", "test", "valid", "all".

    Source: `mindspore.dataset.PennTreebankDataset`; Marcus et al., 1993.
    """

    _parts = {part: f"ptb.{part}.txt" for part in ("train", "test", "valid")}


class WikiTextDataset(_Lines):
    """Lines of Wikipedia's articles: a column text; usage "train", "test", "valid", "all".

    Source: `mindspore.dataset.WikiTextDataset`; Merity et al., 2016.
    """

    _parts = {part: f"wiki.{part}.tokens" for part in ("train", "test", "valid")}


class EnWik9Dataset(TextFileDataset):
    """Lines of Wikipedia's XML, empty ones too: a column text. There are no parts.

    Source: `mindspore.dataset.EnWik9Dataset`; Mahoney, 2006.
    """

    def __init__(
        self, dataset_dir: str, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = True,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        super().__init__(_part(dataset_dir, _ALL, {_ALL: "enwik9"}), num_samples,
                         num_parallel_workers, shuffle, num_shards, shard_id, cache)

    def _read(self, path: str) -> list[Row]:
        lines = _text(path).split("\n")
        return [(np.array(line),) for line in (lines if lines[-1] else lines[:-1])]


# --- sentences with tags --------------------------------------------------------------------------


class _Tagged(FileDataset):
    """Base of collections of sentences: words and their tags, a word in each line, a blank line
    behind each sentence. Each column is an array of strings.
    """

    _columns: tuple[str, ...] = ()
    _parts: Mapping[str, str] = {}
    _between: str | None = None

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        shuffle: Any = Shuffle.GLOBAL, num_shards: int | None = None,
        shard_id: int | None = None, num_parallel_workers: int | None = None, cache: Any = None,
    ) -> None:
        self.usage = usage
        super().__init__(_part(dataset_dir, usage, self._parts), num_samples,
                         num_parallel_workers, shuffle, num_shards, shard_id, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)

    def _read(self, path: str) -> list[Row]:
        rows: list[Row] = []
        words: list[list[str]] = []
        for number, line in enumerate([*_text(path).split("\n"), ""]):
            if line.strip():
                words.append(line.split(self._between))
                if len(words[-1]) != len(self._columns):
                    raise RuntimeError(
                        f"Invalid file, {path} at line {number + 1}: {len(words[-1])} columns "
                        f"instead of {len(self._columns)}.")
            elif words:
                rows.append(tuple(np.array(column) for column in zip(*words, strict=True)))
                words = []
        return rows


class CoNLL2000Dataset(_Tagged):
    """Sentences: word, pos_tag and chunk_tag; usage "train", "test", "all".

    Source: `mindspore.dataset.CoNLL2000Dataset`; Tjong Kim Sang and Buchholz, 2000.
    """

    _columns = ("word", "pos_tag", "chunk_tag")
    _parts = {"train": "train.txt", "test": "test.txt"}


class UDPOSDataset(_Tagged):
    """Sentences: word, universal and stanford; usage "train", "test", "valid", "all".

    Source: `mindspore.dataset.UDPOSDataset`; Nivre et al., 2016.
    """

    _columns = ("word", "universal", "stanford")
    _parts = {"train": "en-ud-tag.v2.train.txt", "test": "en-ud-tag.v2.test.txt",
              "valid": "en-ud-tag.v2.dev.txt"}
    _between = "\t"


# --- others ---------------------------------------------------------------------------------------


class IMDBDataset(MappableDataset):
    """Reviews of films: text, and label (int32), 1 for those that like it.

    Args:
        dataset_dir: the folder that has `train` and `test`, with `pos` and `neg` in each.
        usage: "train", "test", "all"; None for all.
        num_samples, shuffle, sampler, num_shards, shard_id: as for `MnistDataset`.
        num_parallel_workers: how many threads read files; None: see `Dataset`.
        cache: must be None.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.

    Source: `mindspore.dataset.IMDBDataset`; Maas et al., 2011.
    """

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        folder, self.usage = _folder(dataset_dir), _usage(usage, "train", "test", _ALL)
        _check_source(num_samples, shuffle, num_shards, shard_id)
        parts = ["train", "test"] if self.usage == _ALL else [self.usage]
        self._paths = [(str(path), label) for part in parts
                       for label, name in ((1, "pos"), (0, "neg"))
                       for path in sorted(_folder(folder / part / name).glob("*.txt"))]
        super().__init__(choose(num_samples, sampler, shuffle, num_shards, shard_id),
                         num_parallel_workers, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["text", "label"]

    def get_class_indexing(self) -> dict[str, Any]:
        """Numbers of the classes by name."""
        return {"neg": 0, "pos": 1}

    def _count(self) -> int:
        return len(self._paths)

    def _row(self, place: int) -> Row:
        path, label = self._paths[place]
        return np.array(_text(path)), np.array(label, np.int32)

    def _labels(self, column: str) -> Any:
        return np.array([label for _, label in self._paths]) if column == "label" else \
            super()._labels(column)


_PAIR = ("sentence1", "sentence2", "label")
_SPANS = tuple(f"target/span{i}_{what}" for i in (1, 2) for what in ("index", "text"))
_TASKS = {
    "AFQMC": (_PAIR, ("id", *_PAIR[:2])), "CMNLI": (_PAIR, ("id", *_PAIR[:2])),
    "CSL": (("id", "abst", "keyword", "label"), ("id", "abst", "keyword")),
    "IFLYTEK": (("label", "label_des", "sentence"), ("id", "sentence")),
    "TNEWS": (("label", "label_desc", "sentence", "keywords"), ("id", "sentence", "keywords")),
    "WSC": ((*_SPANS, "idx", "label", "text"), (*_SPANS, "idx", "text")),
}
"""Columns of each task, for training and for the test; a path where they lie deeper."""


class CLUEDataset(FileDataset):
    """Tasks of understanding Chinese, from files with an object of JSON in each line.

    Strings are strings, ints uint32, lists arrays of strings; the columns are sorted by name.

    Args:
        dataset_files: a path or pattern, or a list of them.
        task: "AFQMC", "TNEWS", "IFLYTEK", "CMNLI", "WSC" or "CSL".
        usage: "train", "test" or "eval".
        num_samples, num_parallel_workers, shuffle, num_shards, shard_id, cache: as for
            `TextFileDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such file.
        RuntimeError: (when rows are asked for) a line is no JSON, or lacks a column.

    Source: `mindspore.dataset.CLUEDataset`; Xu et al., 2020.
    """

    def __init__(
        self, dataset_files: Any, task: str = "AFQMC", usage: str = "train",
        num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: Any = Shuffle.GLOBAL, num_shards: int | None = None,
        shard_id: int | None = None, cache: Any = None,
    ) -> None:
        for name, value, known in (("task", task, _TASKS),
                                   ("usage", usage, ("train", "test", "eval"))):
            checks.of_type(name, value, str)
            if value not in known:
                raise ValueError(f"{name} should be one of {list(known)}, but got {value!r}.")
        self.task, self.usage = task, usage
        paths = _TASKS[task][usage == "test"]
        self._places = dict(sorted((path.split("/")[-1], path.split("/")) for path in paths))
        super().__init__(dataset_files, num_samples, num_parallel_workers, shuffle, num_shards,
                         shard_id, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._places)

    def _read(self, path: str) -> list[Row]:
        return [self._row(line, f"{path} at line {number + 1}")
                for number, line in enumerate(_text(path).split("\n")) if line.strip()]

    def _row(self, line: str, where: str) -> Row:
        row = []
        for name, path in self._places.items():
            try:
                value = json.loads(line)
                for key in path:
                    value = value[key]
            except (ValueError, KeyError, TypeError) as error:
                raise RuntimeError(f"Invalid JSON, {where}: there is no {name!r} of the task "
                                   f"{self.task}: {type(error).__name__}: {error}.") from error
            row.append(np.array(value, np.uint32) if isinstance(value, int) else
                       np.array(value if isinstance(value, list) else str(value)))
        return tuple(row)


_SPLITS = {"train": ("training", "train"), "test": ("mmt16_task1_test", "test"),
           "valid": ("validation", "val")}


class Multi30kDataset(FileDataset):
    """Sentences about pictures in two languages: text and translation.

    Args:
        usage: "train", "test", "valid" or "all"; None for all.
        language_pair: ["en", "de"] or ["de", "en"]; None for the first.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder or file.
        RuntimeError: (when rows are asked for) the files of both have not equally many lines.

    Source: `mindspore.dataset.Multi30kDataset`; Elliott et al., 2016.
    """

    def __init__(
        self, dataset_dir: str, usage: str | None = None, language_pair: Any = None,
        num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: Any = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        pair = ["en", "de"] if language_pair is None else language_pair
        checks.of_type("language_pair", pair, (list, tuple))
        if sorted(pair) != ["de", "en"]:
            raise ValueError("language_pair should be ['en', 'de'] or ['de', 'en'], but got "
                             f"{language_pair!r}.")
        self.usage = usage
        self._from, self._to = (str(language) for language in pair)
        files = [{part: os.path.join(folder, f"{name}.{language}")
                  for part, (folder, name) in _SPLITS.items()} for language in pair]
        _part(dataset_dir, usage, files[1])
        super().__init__(_part(dataset_dir, usage, files[0]), num_samples, num_parallel_workers,
                         Shuffle.GLOBAL if shuffle is None else shuffle, num_shards, shard_id,
                         cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["text", "translation"]

    def _read(self, path: str) -> list[Row]:
        other = path.removesuffix(self._from) + self._to
        both = [[line for line in _text(p).split("\n") if line] for p in (path, other)]
        if len(both[0]) != len(both[1]):
            raise RuntimeError(f"Invalid file, {path} has {len(both[0])} lines, but {other} "
                               f"{len(both[1])}.")
        return [(np.array(text), np.array(said)) for text, said in zip(*both, strict=True)]


class SQuADDataset(FileDataset):
    """Questions about texts: context, question, text (an array of the answers), answer_start
    (uint32, where each begins). A question that has no answer has an empty one at 2^32 - 1.

    Args:
        usage: "train", "dev" or "all"; None for all.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder or file.
        RuntimeError: (when rows are asked for) a file is no JSON, or other than it should be.

    Source: `mindspore.dataset.SQuADDataset`; Rajpurkar et al., 2016.
    """

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.usage = usage
        version = "v2.0" if any(_folder(dataset_dir).glob("*-v2.0.json")) else "v1.1"
        files = {part: f"{part}-{version}.json" for part in ("train", "dev")}
        super().__init__(_part(dataset_dir, usage, files), num_samples, num_parallel_workers,
                         shuffle, num_shards, shard_id, cache)
        self.dataset_files.sort(reverse=True)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["context", "question", "text", "answer_start"]

    def _read(self, path: str) -> list[Row]:
        try:
            return [
                (np.array(part["context"]), np.array(each["question"]),
                 *_answers(each["answers"]))
                for article in json.loads(_text(path))["data"]
                for part in article["paragraphs"] for each in part["qas"]]
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(f"Invalid JSON, {path}: {type(error).__name__}: {error}.") from error


def _answers(found: Any) -> Row:
    many = found or [{"text": "", "answer_start": 2**32 - 1}]
    return (np.array([each["text"] for each in many]),
            np.array([each["answer_start"] for each in many], np.uint32))


__all__ = [
    "AGNewsDataset", "AmazonReviewDataset", "CLUEDataset", "CoNLL2000Dataset", "DBpediaDataset",
    "EnWik9Dataset", "IMDBDataset", "Multi30kDataset", "PennTreebankDataset", "SQuADDataset",
    "SST2Dataset", "SogouNewsDataset", "UDPOSDataset", "WikiTextDataset", "YahooAnswersDataset",
    "YelpReviewDataset",
]
