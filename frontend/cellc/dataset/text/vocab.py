"""`Vocab`: words and their numbers, and `Lookup`, which gives the numbers of a text's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.native import names_itself
from ...tensors import dtype as dtypes
from .. import checks
from ..pipeline import Dataset
from ..rows import Run, places_of
from ..transforms import numpy_type
from .base import TextTransform


@names_itself
class Vocab:
    """Words and their numbers: made by one of the methods `from_...`.

    Source: `mindspore.dataset.text.Vocab`.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._words: dict[int, str] = {}

    @classmethod
    def _of(cls, ids: Mapping[str, int]) -> Vocab:
        made = cls()
        made._ids = dict(ids)
        made._words = {number: word for word, number in made._ids.items()}
        return made

    @classmethod
    def from_list(
        cls, word_list: Sequence[str], special_tokens: Sequence[str] | None = None,
        special_first: bool = True,
    ) -> Vocab:
        """The words of a list, numbered from 0.

        Args:
            word_list: the words.
            special_tokens: further words, such as "<pad>".
            special_first: whether these come first; else last.

        Raises:
            TypeError: something else than strings.
            ValueError: a word is given twice.
        """
        words = _listed("word_list", word_list)
        special = _listed("special_tokens", special_tokens or [])
        checks.of_type("special_first", special_first, bool)
        for what, many in (("word_list", words), ("special_tokens", special)):
            twice = [word for word, count in Counter(many).items() if count > 1]
            if twice:
                raise ValueError(f"{what} contains duplicate word: {twice[0]}.")
        both = set(words) & set(special)
        if both:
            raise ValueError(f"special_tokens and word_list contain duplicate word: {both}.")
        order = [*special, *words] if special_first else [*words, *special]
        return cls._of({word: i for i, word in enumerate(order)})

    @classmethod
    def from_dict(cls, word_dict: Mapping[str, int]) -> Vocab:
        """The words of a dict, with the numbers it has for them.

        Raises:
            TypeError, ValueError: no dict of ints of 0 or more by words.
        """
        checks.of_type("word_dict", word_dict, dict)
        for word, number in word_dict.items():
            checks.of_type("word", word, str)
            checks.integer("word_id", number, 0)
        return cls._of(word_dict)

    @classmethod
    def from_file(
        cls, file_path: str, delimiter: str = "", vocab_size: int | None = None,
        special_tokens: Sequence[str] | None = None, special_first: bool = True,
    ) -> Vocab:
        """The words of a file, one in each line.

        Args:
            file_path: of the file, in UTF-8.
            delimiter: what a word ends with; "" for the line.
            vocab_size: how many lines are read; None for all.
            special_tokens, special_first: see `from_list`.

        Raises:
            TypeError, ValueError: an argument is wrong, or a word is there twice.
            RuntimeError: the file cannot be read.
        """
        checks.of_type("file_path", file_path, str)
        checks.of_type("delimiter", delimiter, str)
        if vocab_size is not None:
            checks.integer("vocab_size", vocab_size, 1)
        try:
            with open(file_path, encoding="utf-8") as stream:
                lines = stream.read().split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise RuntimeError(f"from_file: {file_path} cannot be read as UTF-8: {error}") \
                from error
        if not lines[-1]:
            del lines[-1]
        words = [line.split(delimiter)[0] if delimiter else line for line in lines[:vocab_size]]
        try:
            return cls.from_list(words, special_tokens, special_first)
        except ValueError as error:
            raise ValueError(f"from_file: {file_path}: {error}") from None

    @classmethod
    def from_dataset(
        cls, dataset: Dataset, columns: Any = None, freq_range: Any = None,
        top_k: int | None = None, special_tokens: Sequence[str] | None = None,
        special_first: bool = True,
    ) -> Vocab:
        """The words of a dataset, the most frequent first; of equally frequent ones by the letter.

        Args:
            dataset: has columns of strings.
            columns: which of them; None for all.
            freq_range: (least, most): how often a word is there; None on either side for any.
            top_k: how many words at most; None for all.
            special_tokens, special_first: see `from_list`.

        Raises:
            RuntimeError: there is no such column, or one without strings.
        """
        checks.of_type("dataset", dataset, Dataset)
        if top_k is not None:
            checks.integer("top_k", top_k, 1)
        low, high = _range(freq_range)
        found = dataset.get_col_names()
        names = found if columns is None else checks.names("columns", columns)
        counts: Counter[str] = Counter()
        places = places_of(names, found, "Vocab.from_dataset")
        for row in dataset.rows(Run()):
            for name, place in zip(names, places, strict=True):
                counts.update(_strings(row[place], name))
        kept = [(word, count) for word, count in counts.items() if low <= count <= high]
        kept.sort(key=lambda each: (-each[1], each[0]))
        return cls.from_list([word for word, _ in kept[:top_k]], special_tokens, special_first)

    def vocab(self) -> dict[str, int]:
        """The numbers by word."""
        return dict(self._ids)

    def tokens_to_ids(self, tokens: Any) -> Any:
        """The number of a word, or of each of several; -1 for one that is not there."""
        if isinstance(tokens, str):
            return self._ids.get(tokens, -1)
        return [self._ids.get(t, -1) for t in _listed("tokens", tokens)]

    def ids_to_tokens(self, ids: Any) -> Any:
        """The word of a number, or of each of several; "" for one that is not there.

        Raises:
            TypeError, ValueError: no int of 0 or more, nor several.
        """
        if isinstance(ids, (int, np.integer)):
            return self._words.get(checks.integer("ids", ids, 0), "")
        checks.of_type("ids", ids, (list, tuple, np.ndarray))
        return [self._words.get(checks.integer("ids", i, 0), "") for i in ids]


def _listed(name: str, given: Any) -> list[str]:
    checks.of_type(name, given, (list, tuple, np.ndarray))
    return [str(checks.of_type(f"{name}[{i}]", each, str)) for i, each in enumerate(given)]


def _range(given: Any) -> tuple[float, float]:
    if given is None:
        return 0, float("inf")
    checks.of_type("freq_range", given, tuple)
    if len(given) != 2:
        raise ValueError("freq_range needs to be a tuple of 2 elements.")
    low, high = (None if v is None else checks.integer("freq_range", v, 0) for v in given)
    if low is not None and high is not None and low > high:
        raise ValueError(f"frequency range [a,b] should be 0 <= a <= b, but got {given}.")
    return low or 0, float("inf") if high is None else high


def _strings(value: Any, column: str) -> Iterable[str]:
    if isinstance(value, dict) or value.dtype.kind != "U":
        raise RuntimeError(f"Vocab.from_dataset: column {column!r} has no strings, but "
                           f"{'dicts' if isinstance(value, dict) else value.dtype}.")
    found: list[str] = value.ravel().tolist()
    return found


class Lookup(TextTransform):
    """The numbers of words.

    Args:
        vocab: says them.
        unknown_token: whose number words have that are not there; None: that is an error.
        data_type: of the numbers.

    Raises:
        TypeError, ValueError: an argument is wrong, or `unknown_token` is not there.
        RuntimeError: (when called) a word is not there.

    Source: `mindspore.dataset.text.Lookup`.
    """

    def __init__(
        self, vocab: Vocab, unknown_token: str | None = None, data_type: Any = dtypes.int32
    ) -> None:
        self.vocab = checks.of_type("vocab", vocab, Vocab)
        self.data_type = numpy_type("data_type", data_type)
        self._unknown: int | None = None
        if unknown_token is not None:
            self._unknown = self.vocab.tokens_to_ids(checks.of_type(
                "unknown_token", unknown_token, str))
            if self._unknown == -1:
                raise ValueError(f"unknown_token: {unknown_token!r} does not exist in vocab.")

    def _apply(self, *args: Any) -> Any:
        words = self._text(args[0])
        numbers = [self._number(word) for word in words.ravel().tolist()]
        return np.array(numbers, self.data_type).reshape(words.shape)

    def _number(self, word: str) -> int:
        found: int = self.vocab.tokens_to_ids(word)
        if found >= 0:
            return found
        if self._unknown is None:
            raise self._refused(f"token: {word!r} doesn't exist in vocab and no unknown token is "
                                "specified.")
        return self._unknown
