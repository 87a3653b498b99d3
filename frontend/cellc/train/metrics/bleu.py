"""The BLEU score of translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, integer
from .metric import Kept, counted, rearrange_inputs, updated


class BleuScore(Kept):
    """How many n-grams of translations are in their references, with a penalty for brevity.

    Args:
        n_gram: the longest n-grams that count, 1 to 4.
        smooth: whether 1 is added to counts (of Lin and Och, 2004).

    Raises:
        RuntimeError: `eval` without `update`.

    Reference: Papineni et al., "BLEU", 2002.
    """

    n_gram: Annotated[int, integer(1, 4).always(ValueError)] = 4
    smooth: Flag = False

    def clear(self) -> None:
        """Forget all inputs."""
        self._found = np.zeros(self.n_gram)
        self._total = np.zeros(self.n_gram)
        self._length, self._reference_length = 0.0, 0.0
        self._updated = False

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take translations (lists of words) and, for each, a list of references into account."""
        translations, references = counted("BleuScore", inputs, 2, "translations and references")
        if len(translations) != len(references):
            raise ValueError("For 'BleuScore.update', there must be references for each "
                             f"translation, but got {len(translations)} and {len(references)}.")
        for words, options in zip(translations, references, strict=True):
            self._add(words, options)
        self._updated = True

    def _add(self, words: Sequence[str], options: Sequence[Sequence[str]]) -> None:
        self._length += len(words)
        lengths = [len(o) for o in options]
        self._reference_length += min(lengths, key=lambda n: abs(len(words) - n))
        given = _grams(words, self.n_gram)
        known: Counter[tuple[str, ...]] = Counter()
        for option in options:
            known |= _grams(option, self.n_gram)
        for gram, count in (given & known).items():
            self._found[len(gram) - 1] += count
        for gram, count in given.items():
            self._total[len(gram) - 1] += count

    def eval(self) -> Any:
        """The score, 0 to 1."""
        updated("BleuScore", self._updated or None, False)
        if self._found.min() == 0:
            return np.float64(0.0)
        more = 1.0 if self.smooth else 0.0
        precision = (self._found + more) / (self._total + more)
        score = np.exp(np.log(precision).sum() / self.n_gram)
        if self._length > self._reference_length:
            return score
        return score * np.exp(1 - self._reference_length / self._length)


def _grams(words: Sequence[str], most: int) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(words[i : i + n]) for n in range(1, most + 1) for i in range(len(words) - n + 1)
    )
