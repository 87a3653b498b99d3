"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from .changes import AddToken, CaseFold, FilterWikipediaXML, Ngram, NormalizeUTF8, RegexReplace, SlidingWindow, ToNumber, Truncate, TruncateSequencePair, to_bytes, to_str
from .tokenizers import BasicTokenizer, BertTokenizer, NormalizeForm, PythonTokenizer, RegexTokenizer, UnicodeCharTokenizer, UnicodeScriptTokenizer, WhitespaceTokenizer, WordpieceTokenizer
from .vectors import FastText, GloVe, ToVectors, Vectors
from .vocab import Lookup, Vocab
__all__ = ['AddToken', 'BasicTokenizer', 'BertTokenizer', 'CaseFold', 'FastText', 'FilterWikipediaXML', 'GloVe', 'Lookup', 'Ngram', 'NormalizeForm', 'NormalizeUTF8', 'PythonTokenizer', 'RegexReplace', 'RegexTokenizer', 'SlidingWindow', 'ToNumber', 'ToVectors', 'Truncate', 'TruncateSequencePair', 'UnicodeCharTokenizer', 'UnicodeScriptTokenizer', 'Vectors', 'Vocab', 'WhitespaceTokenizer', 'WordpieceTokenizer', 'to_bytes', 'to_str']
