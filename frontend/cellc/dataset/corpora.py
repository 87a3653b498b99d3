"""Well-known collections of text, read from the files in which they are published.

`usage` names the part; most have a file for each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..core.declared import Rule, one_of
from . import rules
from .declared import LINES, ROWS, argument
from .rows import Row
from .samplers import Shuffle
from .sources import MappableDataset
from .texts import ORDER, CSVDataset, FileDataset, FolderDataset, TextFileDataset, _text

_OLD = "dataset_dir usage num_samples shuffle num_shards shard_id num_parallel_workers cache"
"""The arguments in the order of some of MindSpore's collections."""


# --- tables ---------------------------------------------------------------------------------------


class _Reviews(FolderDataset, CSVDataset):
    """Base of collections in `train.csv` and `test.csv`, with columns of strings."""

    _parts = {"train": "train.csv", "test": "test.csv"}

    def __init_subclass__(cls, columns: str = "", **more: Any) -> None:
        cls._columns = dict.fromkeys(columns.split())
        super().__init_subclass__(**more)

    def _prepare(self) -> None:
        super()._prepare()
        self.field_delim, self.column_defaults = ",", None
        self.column_names = list(self._columns)


class AGNewsDataset(_Reviews, columns="index title description"):
    """News; index is the class, from 1. Reference: Zhang et al., 2015."""


class AmazonReviewDataset(_Reviews, columns="label title content"):
    """Reviews; label is 1 or 2, or 1 to 5. Reference: Zhang et al., 2015."""


class DBpediaDataset(_Reviews, columns="class title content"):
    """Articles; class counts from 1. Reference: Zhang et al., 2015."""


class YahooAnswersDataset(_Reviews, columns="class title content answer"):
    """Questions; class counts from 1. Reference: Zhang et al., 2015."""


class _TrainingFirst(_Reviews, takes=_OLD):
    """As `_Reviews`, with the training part first, as MindSpore has it for some."""

    def _prepare(self) -> None:
        super()._prepare()
        self.dataset_files.reverse()


class SogouNewsDataset(_TrainingFirst, columns="index title content"):
    """News; index is the class, from 1. Reference: Zhang et al., 2015."""


class YelpReviewDataset(_TrainingFirst, columns="label text"):
    """Reviews; label is 1 or 2, or 1 to 5. Reference: Zhang et al., 2015."""


class SST2Dataset(FolderDataset, usages=("train", "dev", "test")):
    """Sentences of reviews; label is "0" or "1", and the test part has none.

    Reference: Socher et al., 2013.
    """

    _columns = {"sentence": None, "label": None}
    _parts = {part: f"{part}.tsv" for part in ("train", "dev", "test")}

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


class _Lines(FolderDataset, TextFileDataset):
    """Base of collections of lines, in a file for each part."""


class PennTreebankDataset(_Lines):
    """Lines of the Penn Treebank. Reference: Marcus et al., 1993."""

    _parts = {part: f"ptb.{part}.txt" for part in ("train", "test", "valid")}


class WikiTextDataset(_Lines):
    """Lines of Wikipedia's articles. Reference: Merity et al., 2016."""

    _parts = {part: f"wiki.{part}.tokens" for part in ("train", "test", "valid")}


class EnWik9Dataset(_Lines, takes=f"dataset_dir {LINES}"):
    """Lines of Wikipedia's XML, empty ones too. Reference: Mahoney, 2006."""

    shuffle: Any = ORDER.but(default=True)
    _parts = {"all": "enwik9"}

    def _prepare(self) -> None:
        self.usage = "all"
        super()._prepare()

    def _read(self, path: str) -> list[Row]:
        lines = _text(path).split("\n")
        return [(np.array(line),) for line in (lines if lines[-1] else lines[:-1])]


# --- sentences with tags --------------------------------------------------------------------------


class _Tagged(FolderDataset, takes=_OLD):
    """Base of collections of sentences: words and their tags, a word in each line, a blank line
    after each sentence. Each column is an array of strings."""

    _between: str | None = None

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
    """Sentences, with an array of strings for words, one for parts of speech and one for phrases.

    Reference: Tjong Kim Sang and Buchholz, 2000.
    """

    _columns = dict.fromkeys(("word", "pos_tag", "chunk_tag"), "strings")
    _parts = {"train": "train.txt", "test": "test.txt"}


class UDPOSDataset(_Tagged):
    """Sentences, with an array of strings for words and one for each kind of parts of speech.

    Reference: Nivre et al., 2016.
    """

    _columns = dict.fromkeys(("word", "universal", "stanford"), "strings")
    _parts = {"train": "en-ud-tag.v2.train.txt", "test": "en-ud-tag.v2.test.txt",
              "valid": "en-ud-tag.v2.dev.txt"}
    _between = "\t"


# --- others ---------------------------------------------------------------------------------------


class IMDBDataset(MappableDataset, takes=f"dataset_dir usage {ROWS}"):
    """Reviews of films; label is 1 for those that like it.

    Args:
        dataset_dir: the folder that has `train` and `test`, with `pos` and `neg` in each.

    Reference: Maas et al., 2011.
    """

    dataset_dir: Path
    usage: str
    _columns = {"text": None, "label": np.int32}

    def _prepare(self) -> None:
        parts = ["train", "test"] if self.usage == "all" else [self.usage]
        self._paths = [
            (str(path), label) for part in parts for label, name in ((1, "pos"), (0, "neg"))
            for path in sorted(rules.FOLDER.normal(self.dataset_dir / part / name).glob("*.txt"))]

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


class CLUEDataset(FileDataset, takes=f"dataset_files task usage {LINES}"):
    """Tasks of understanding Chinese, from files with an object of JSON in each line.

    Strings are strings, ints uint32, lists arrays of strings; the columns are sorted by name.

    Reference: Xu et al., 2020.
    """

    task: str = argument("str", one_of(*_TASKS, kind=str), "AFQMC",
                         text=", ".join(f'"{task}"' for task in _TASKS) + ".")
    usage: str = argument("str", one_of("train", "test", "eval", kind=str), "train",
                          text='"train", "test" or "eval".')

    def _prepare(self) -> None:
        paths = _TASKS[self.task][self.usage == "test"]
        self._places = dict(sorted((path.split("/")[-1], path.split("/")) for path in paths))

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


_LANGUAGES = Rule(
    "['en', 'de'] or ['de', 'en']", lambda value: isinstance(value, (list, tuple)),
    lambda value: sorted(value) == ["de", "en"], list)


class Multi30kDataset(
    FolderDataset, takes=f"dataset_dir usage language_pair {LINES}",
    usages=("train", "test", "valid", "all"),
):
    """Sentences about pictures in two languages. Reference: Elliott et al., 2016."""

    shuffle: Any = ORDER.but(default=None, none=Shuffle.GLOBAL)
    language_pair: list[str] = argument("Any", _LANGUAGES, None, ["en", "de"],
                                        '["en", "de"] or ["de", "en"]; None: the first.')
    _columns = {"text": None, "translation": None}

    def _prepare(self) -> None:
        self.dataset_files, _ = (
            self._files_of({part: f"{folder}/{name}.{language}"
                            for part, (folder, name) in _SPLITS.items()})
            for language in self.language_pair)

    def _read(self, path: str) -> list[Row]:
        own, translated = self.language_pair
        other = path.removesuffix(own) + translated
        both = [[line for line in _text(p).split("\n") if line] for p in (path, other)]
        if len(both[0]) != len(both[1]):
            raise RuntimeError(f"Invalid file, {path} has {len(both[0])} lines, but {other} "
                               f"{len(both[1])}.")
        return [(np.array(text), np.array(said)) for text, said in zip(*both, strict=True)]


class SQuADDataset(FolderDataset, usages=("train", "dev", "all")):
    """Questions about texts; text is an array of the answers, answer_start where each begins. A
    question that has no answer has an empty one at 2^32 - 1.

    Reference: Rajpurkar et al., 2016.
    """

    _columns = {"context": None, "question": None, "text": "strings", "answer_start": np.uint32}

    def _prepare(self) -> None:
        version = "v2.0" if any(self.dataset_dir.glob("*-v2.0.json")) else "v1.1"
        files = self._files_of({part: f"{part}-{version}.json" for part in ("train", "dev")})
        self.dataset_files = files[::-1]

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
