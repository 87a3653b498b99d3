"""Transforms of text, for `map`: `cellc.dataset.text`, under the names of `mindspore.dataset.text`.

Texts are arrays of strings. Tokenizers make arrays of tokens, `Lookup` numbers of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import no_attribute, public_names

from .changes import (
    AddToken,
    CaseFold,
    FilterWikipediaXML,
    Ngram,
    NormalizeUTF8,
    RegexReplace,
    SlidingWindow,
    ToNumber,
    Truncate,
    TruncateSequencePair,
    to_bytes,
    to_str,
)
from .tokenizers import (
    BasicTokenizer,
    BertTokenizer,
    NormalizeForm,
    PythonTokenizer,
    RegexTokenizer,
    UnicodeCharTokenizer,
    UnicodeScriptTokenizer,
    WhitespaceTokenizer,
    WordpieceTokenizer,
)
from .vectors import FastText, GloVe, ToVectors, Vectors
from .vocab import Lookup, Vocab

__all__ = [
    "AddToken", "BasicTokenizer", "BertTokenizer", "CaseFold", "FastText", "FilterWikipediaXML",
    "GloVe", "Lookup", "Ngram", "NormalizeForm", "NormalizeUTF8", "PythonTokenizer",
    "RegexReplace", "RegexTokenizer", "SlidingWindow", "ToNumber", "ToVectors", "Truncate",
    "TruncateSequencePair", "UnicodeCharTokenizer", "UnicodeScriptTokenizer", "Vectors", "Vocab",
    "WhitespaceTokenizer", "WordpieceTokenizer", "to_bytes", "to_str",
]
__dir__ = public_names(__name__)

_PIECES = "the package sentencepiece, whose functions PythonTokenizer takes"
_ELSEWHERE = {
    **dict.fromkeys(("JiebaTokenizer", "JiebaMode"),
                    "the package jieba: PythonTokenizer(jieba.lcut)"),
    **dict.fromkeys(("SentencePieceTokenizer", "SentencePieceVocab", "SentencePieceModel",
                     "SPieceTokenizerOutType", "SPieceTokenizerLoadType"), _PIECES),
    "CharNGram": "Vectors with words that it has",
}
"""Names of MindSpore that are not here, and what does their work."""


if not TYPE_CHECKING:
    def __getattr__(name: str) -> object:
        missing = no_attribute(__name__, name)
        instead = _ELSEWHERE.get(name)
        raise AttributeError(f"{missing}: cellc has not got it; use {instead}" if instead
                             else missing)
