"""Talks in two languages, from the workshops on spoken language translation of 2016 and 2017."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..core.declared import Rule, one_of
from .declared import argument
from .listed import damaged
from .rows import Row
from .texts import FolderDataset, _text

_TAKES = "num_samples shuffle num_shards shard_id num_parallel_workers cache"
_WITH_ENGLISH = ("ar", "cs", "de", "fr")
_SETS = ("dev2010", "tst2010", "tst2011", "tst2012", "tst2013", "tst2014")


def _pairs(*known: tuple[str, str]) -> Any:
    """The argument of a pair of languages; None: from German to English."""
    return argument("Any", Rule(
        "two languages of the collection, from and to", lambda value: isinstance(
            value, (list, tuple)), lambda value: tuple(value) in known, list), None, ["de", "en"],
        text="from which language to which; None: from German to English.")


def _set(default: str) -> Any:
    return argument("str | None", one_of(*_SETS, kind=str), None, default,
                    text=f'which set: {", ".join(_SETS)}; None: "{default}".')


class _Translated(FolderDataset):
    """Base of talks in two languages."""

    language_pair: list[str]
    _columns = {"text": None, "translation": None}
    _year = ""

    def _folder(self) -> Path:
        raise TypeError(f"{type(self).__name__} must say where its files are.")

    def _prepare(self) -> None:
        pair = "-".join(self.language_pair)
        sets = {"valid": getattr(self, "valid_set", "dev2010"),
                "test": getattr(self, "test_set", "tst2010")}
        found = {"train": f"train.tags.{pair}.{self.language_pair[0]}", **{
            part: f"IWSLT{self._year}.TED.{name}.{pair}.{self.language_pair[0]}.xml"
            for part, name in sets.items()}}
        parts = ("train", "valid", "test") if self.usage == "all" else (self.usage,)
        self.dataset_files = [str(self._folder() / found[part]) for part in parts]

    def _read(self, path: str) -> list[Row]:
        own, other = (f".{language}" for language in self.language_pair)
        end = ".xml" * path.endswith(".xml")
        both = [path, path.removesuffix(own + end) + other + end]
        texts, translations = ((_talks if end else _lines)(each) for each in both)
        if len(texts) != len(translations):
            raise RuntimeError(f"Invalid file, {both[0]} has {len(texts)} sentences, but {both[1]} "
                               f"{len(translations)}.")
        return [(np.array(text), np.array(said))
                for text, said in zip(texts, translations, strict=True)]


def _lines(path: str) -> list[str]:
    """The lines of a file that are no tags."""
    lines = _text(path).removesuffix("\n").split("\n")
    for number, line in enumerate(lines):
        if not line.strip():
            raise damaged(path, number, "a sentence is wanted, but the line is empty")
    return [line.strip() for line in lines if not line.lstrip().startswith("<")]


def _talks(path: str) -> list[str]:
    """The sentences of a file of XML."""
    try:
        root = ElementTree.fromstring(_text(path))
    except ElementTree.ParseError as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read as XML: {error}") from error
    return [(each.text or "").strip() for doc in root.iter("doc") for each in doc.iter("seg")]


class IWSLT2016Dataset(
    _Translated, takes=f"dataset_dir usage language_pair valid_set test_set {_TAKES}",
    usages=("train", "test", "valid", "all"),
):
    """Talks in English and Arabic, Czech, French or German.

    Args:
        dataset_dir: the folder of `texts`, which has a folder such as `de/en/de-en` for each pair.

    Reference: Cettolo et al., 2016.
    """

    language_pair: list[str] = _pairs(*((a, "en") for a in _WITH_ENGLISH),
                                      *(("en", b) for b in _WITH_ENGLISH))
    valid_set: str = _set("tst2013")
    test_set: str = _set("tst2014")
    _year = "16"

    def _folder(self) -> Path:
        return self.dataset_dir.joinpath("texts", *self.language_pair, "-".join(self.language_pair))


_FIVE = ("de", "en", "it", "nl", "ro")


class IWSLT2017Dataset(
    _Translated, takes=f"dataset_dir usage language_pair {_TAKES}",
    usages=("train", "test", "valid", "all"),
):
    """Talks in German, English, Italian, Dutch and Romanian.

    Args:
        dataset_dir: the folder of `texts`, which has `DeEnItNlRo`.

    Reference: Cettolo et al., 2017.
    """

    language_pair: list[str] = _pairs(*((a, b) for a in _FIVE for b in _FIVE if a != b))
    _year = "17"

    def _folder(self) -> Path:
        return self.dataset_dir.joinpath("texts", *("DeEnItNlRo",) * 2, "DeEnItNlRo-DeEnItNlRo")


__all__ = ["IWSLT2016Dataset", "IWSLT2017Dataset"]
