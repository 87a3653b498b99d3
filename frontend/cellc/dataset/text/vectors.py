"""Vectors of words, read from files of text, and `ToVectors`, which gives those of a text."""

from __future__ import annotations

import os
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, NonNegative, checks_arguments, instance
from ...core.native import names_itself
from ..declared import argument
from .base import TextTransform


@names_itself
class Vectors:
    """A vector for each word of a file: in each line the word, then its numbers.

    Args:
        found: the vectors, by word.

    Attributes:
        length: of each.
    """

    _names: tuple[tuple[str, str], ...] = ()
    """The prefixes and suffixes of its files' names; empty for any."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found
        self.length = len(next(iter(found.values())))

    @classmethod
    @checks_arguments
    def from_file(cls, file_path: str, max_vectors: NonNegative | None = None) -> Vectors:
        """The vectors of a file, in UTF-8; a first line that says how many there are is left out.

        Args:
            file_path: of the file.
            max_vectors: how many are read; None for all.

        Raises:
            RuntimeError: the file cannot be read, or its lines are no vectors of one length.
        """
        name = os.path.basename(file_path)
        if cls._names and not any(name.startswith(a) and name.endswith(b) for a, b in cls._names):
            raise RuntimeError(f"{cls.__name__}: the name of the file should be like "
                               f"{' or '.join(a + '*' + b for a, b in cls._names)}, but got "
                               f"{name!r}.")
        return cls(_read(file_path, max_vectors or None))

    def of(self, word: str) -> Any:
        """The vector of a word; None if there is none."""
        return self._found.get(word)


class GloVe(Vectors):
    """Vectors of GloVe (Pennington et al., 2014)."""

    _names = (("glove.", ".txt"),)


class FastText(Vectors):
    """Vectors of fastText (Bojanowski et al., 2017)."""

    _names = (("", ".vec"),)


def _read(path: str, most: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream):
                word, *numbers = line.split()
                if number == 0 and len(numbers) == 1:
                    continue
                if len(found) == most:
                    break
                found.setdefault(word, np.array(numbers, np.float32))
                if not numbers or len(found[word]) != len(next(iter(found.values()))):
                    raise ValueError(f"line {number + 1} has {len(numbers)} numbers")
    except (OSError, ValueError) as error:
        raise RuntimeError(f"Vectors: {path} has no vectors of words, all of one length: {error}") \
            from error
    if not found:
        raise RuntimeError(f"Vectors: {path} has no vectors.")
    return found


class ToVectors(TextTransform):
    """The vectors of words."""

    vectors: Vectors = argument(text="has them.")
    unk_init: Annotated[Any, instance(list, tuple)] = argument(
        default=None, text="the vector of words that are not there; None for zeros.")
    lower_case_backup: Flag = argument(
        default=False, text="whether words that are not there are looked up in lower case.")

    def _prepare(self) -> None:
        length, given = self.vectors.length, self.unk_init
        self._unknown = np.array(np.zeros(length) if given is None else given, np.float32)
        if self._unknown.shape != (length,):
            raise ValueError(f"unk_init must be as long as the vectors: {length}, but got "
                             f"{len(given)}.")

    def _apply(self, *args: Any) -> Any:
        words = self._text(args[0], [0, 1])
        found = [self._vector(word) for word in words.ravel().tolist()]
        return np.array(found, np.float32).reshape(*words.shape, self.vectors.length)

    def _vector(self, word: str) -> Any:
        found = self.vectors.of(word)
        if found is None and self.lower_case_backup:
            found = self.vectors.of(word.lower())
        return self._unknown if found is None else found
