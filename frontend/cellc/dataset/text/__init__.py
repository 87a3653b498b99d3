"""Transforms of text, for `map`: `cellc.dataset.text`, under the names of `mindspore.dataset.text`.

Texts are arrays of strings. Tokenizers make arrays of tokens, `Lookup` numbers of these.
"""

from __future__ import annotations

from cellc_runtime.lazy import facade, no_attribute

_PIECES = "the package sentencepiece, whose functions PythonTokenizer takes"
_ELSEWHERE = {
    **dict.fromkeys(("JiebaTokenizer", "JiebaMode"),
                    "the package jieba: PythonTokenizer(jieba.lcut)"),
    **dict.fromkeys(("SentencePieceTokenizer", "SentencePieceVocab", "SentencePieceModel",
                     "SPieceTokenizerOutType", "SPieceTokenizerLoadType"), _PIECES),
    "CharNGram": "Vectors with words that it has",
}
"""Names of MindSpore that are not here, and what does their work."""

_HOMES = {
    ".changes":
        "AddToken CaseFold FilterWikipediaXML Ngram NormalizeUTF8 RegexReplace SlidingWindow "
        "ToNumber Truncate TruncateSequencePair to_bytes to_str",
    ".tokenizers":
        "BasicTokenizer BertTokenizer NormalizeForm PythonTokenizer RegexTokenizer "
        "UnicodeCharTokenizer UnicodeScriptTokenizer WhitespaceTokenizer WordpieceTokenizer",
    ".vectors": "FastText GloVe ToVectors Vectors",
    ".vocab": "Lookup Vocab",
}
facade(__name__, _HOMES, lambda module, name: no_attribute(module, name, _ELSEWHERE.get(name, "")))
