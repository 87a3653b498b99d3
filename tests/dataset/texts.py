"""Transforms of text on many texts: run under MindSpore, and under cellc.

`python texts.py mindspore` (in MindSpore's interpreter) prints what `texts.json` holds.
"""

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

TEXTS = [
    "Welcome  to Beijing!", "", "  ", " a\tb\nc\u3000d\u00a0e\u200be ",
    "I am Æneas, ÀÉ [CLS] [UNK] x[unused12]y 中国人a", "don't stop-it  $5.00", "ŉ Ⅷ ﬁ ß İ",
    "tab\x01ctl", "한국어 test 日本",
]
WIKI = ("==Hist&amp;ory== <b>Bold</b> [[link|the 2 text]] {{cite|x}} 1990s caf\u00e9 ''it'' "
        "http://a.b/c [http://x.y z] &nbsp; q")
WORDS = ["book", "cholera", "era", "favor", "##ite", "my", "is", "love", "dur", "##ing", "the",
         "[UNK]", "中"]
LINES = ["my favorite book is love during the cholera era. 中国 what", "My FAVORITE [UNK]", ""]


def of_texts(text: Any) -> dict[str, Any]:
    """Transforms of a text."""
    form = text.NormalizeForm
    basic = text.BasicTokenizer
    return {
        "WhitespaceTokenizer": text.WhitespaceTokenizer(),
        "WhitespaceTokenizer, offsets": text.WhitespaceTokenizer(True),
        "UnicodeCharTokenizer": text.UnicodeCharTokenizer(),
        "UnicodeCharTokenizer, offsets": text.UnicodeCharTokenizer(True),
        "UnicodeScriptTokenizer": text.UnicodeScriptTokenizer(),
        "UnicodeScriptTokenizer, all": text.UnicodeScriptTokenizer(True, True),
        "BasicTokenizer": basic(), "BasicTokenizer, white space": basic(False, True),
        "BasicTokenizer, lower": basic(True, preserve_unused_token=False),
        "BasicTokenizer, lower, offsets": basic(True, False, form.NONE, False, True),
        "BasicTokenizer, NFKC": basic(False, False, form.NFKC),
        "BasicTokenizer, NFD": basic(False, False, form.NFD),
        "BasicTokenizer, unused": basic(False, False, form.NONE, False),
        "BasicTokenizer, offsets": basic(False, False, form.NONE, True, True),
        "CaseFold": text.CaseFold(), "NormalizeUTF8": text.NormalizeUTF8(),
        "NormalizeUTF8, NFD": text.NormalizeUTF8(form.NFD),
        "NormalizeUTF8, none": text.NormalizeUTF8(form.NONE),
        "RegexTokenizer": text.RegexTokenizer("[ ,]", ""),
        "RegexTokenizer, kept": text.RegexTokenizer("[ ,!]", "[,!]"),
        "RegexTokenizer, offsets": text.RegexTokenizer("[ ,!]+", "[,!]+", True),
        "RegexReplace": text.RegexReplace("\\s+", "_"),
        "RegexReplace, one": text.RegexReplace("(a)", "<$1>", False),
        "FilterWikipediaXML": text.FilterWikipediaXML(),
    }


def others(ds: Any, text: Any, dtypes: Any) -> dict[str, Callable[[], Any]]:
    """Calls of the other transforms."""
    vocab = text.Vocab.from_list(WORDS)
    piece, bert = text.WordpieceTokenizer, text.BertTokenizer
    found: dict[str, Callable[[], Any]] = {}
    for i, words in enumerate((["favorite", "during", "xyz", "the"], "booking", ["中国"], [""],
                               [["my"], ["is"]])):
        for name, cutter in (("", piece(vocab)), (", rest", piece(vocab, unknown_token="")),
                             (", short", piece(vocab, max_bytes_per_token=4))):
            found[f"WordpieceTokenizer{name} {i}"] = lambda c=cutter, w=words: c(w)
    found["WordpieceTokenizer, offsets"] = lambda: piece(vocab, with_offsets=True)(
        ["favorite", "xyz", "the"])
    for i, line in enumerate(LINES):
        for name, cutter in (("", bert(vocab)), (", rest", bert(
                vocab, unknown_token="", keep_whitespace=True)), (", lower", bert(
                    vocab, lower_case=True)), (", offsets", bert(vocab, with_offsets=True))):
            found[f"BertTokenizer{name} {i}"] = lambda c=cutter, w=line: c(w)
    pair, window, number = text.TruncateSequencePair, text.SlidingWindow, text.ToNumber
    found |= {
        "wiki": lambda: text.FilterWikipediaXML()(WIKI),
        "Ngram": lambda: text.Ngram(2)(["a", "b", "c"]),
        "Ngram, padded": lambda: text.Ngram([1, 2, 3], ("_", 1), ("&", 2), "-")(["a", "b", "c"]),
        "Ngram, short": lambda: text.Ngram([3, 1])(["a", "b"]),
        "SlidingWindow": lambda: window(3, 0)([1, 2, 3, 4, 5]),
        "SlidingWindow, long": lambda: window(7, 0)([1, 2, 3]),
        "SlidingWindow, matrix": lambda: window(2, -1)(np.array([[1, 2, 3]])),
        "SlidingWindow, strings": lambda: window(2)(["a", "b", "c"]),
        "Truncate": lambda: text.Truncate(2)(["a", "b", "c"]),
        "Truncate, rows": lambda: text.Truncate(2)([["a", "b", "c"], ["d", "e", "f"]]),
        "Truncate, short": lambda: text.Truncate(5)([1, 2]),
        "AddToken": lambda: text.AddToken("TOK")(["a", "b"]),
        "AddToken, end": lambda: text.AddToken("TOK", False)([["a", "b"], ["c", "d"]]),
        "AddToken, one": lambda: text.AddToken("T")("a"),
        "Lookup": lambda: text.Lookup(vocab)("is"),
        "Lookup, unknown": lambda: text.Lookup(vocab, "[UNK]")(["is", "zz"]),
        "Lookup, float32": lambda: text.Lookup(vocab, "[UNK]", dtypes.float32)([["is", "zz"]]),
        "Lookup, not there": lambda: text.Lookup(vocab)(["is", "zz"]),
        "Lookup, numbers": lambda: text.Lookup(vocab)(3),
        "tokens_to_ids": lambda: [vocab.tokens_to_ids(["is", "q"]), vocab.tokens_to_ids("is")],
        "ids_to_tokens": lambda: [vocab.ids_to_tokens([0, 1, 99]), vocab.ids_to_tokens(0)],
        "to_str": lambda: text.to_str(np.array([b"ab", "é".encode()])),
        "to_bytes": lambda: text.to_bytes(np.array(["ab", "é"])),
        "numbers": lambda: text.WhitespaceTokenizer()(1),
        "several": lambda: text.WhitespaceTokenizer()(["a", "b"]),
    }
    for count in range(9):
        for first, last in ((3, 2), (3, 4), (5, 5), (1, 4)):
            found[f"TruncateSequencePair {count} {first} {last}"] = \
                lambda c=count, a=first, b=last: pair(c)(list(range(a)), list(range(b)))
    for kind, texts in (("int8", ["1", "-2", "30"]), ("float32", ["1.5", "-2", "3e2"]),
                        ("float16", ["1.5"]), ("uint32", "7"), ("int8", ["300"]),
                        ("int32", ["x"]), ("uint8", ["-1"]), ("int32", [" 12"])):
        found[f"ToNumber {kind} {texts}"] = lambda k=kind, t=texts: number(getattr(dtypes, k))(t)
    return found | vocabs(ds, text)


def vocabs(ds: Any, text: Any) -> dict[str, Callable[[], Any]]:
    """Ways to a vocabulary, and vectors."""
    def written(content: str, name: str = "file.txt") -> str:
        path = os.path.join(tempfile.mkdtemp(), name)
        with open(path, "w") as stream:
            stream.write(content)
        return path

    words = ds.NumpySlicesDataset({"t": ["b a", "c a", "b d", "a z"]}, shuffle=False).map(
        text.WhitespaceTokenizer(), "t")
    make, vectors = text.Vocab, "ok 1.0 2.0 3.0\nyes 0.5 -1 2\n"
    counted = "2 3\n" + vectors
    found: dict[str, Callable[[], Any]] = {
        "of a list": lambda: make.from_list(["a", "b"], ["<p>", "<u>"]),
        "of a list, special last": lambda: make.from_list(["a", "b"], ["<p>", "<u>"], False),
        "of a list, twice": lambda: make.from_list(["a", "a"]),
        "of a list, special twice": lambda: make.from_list(["a"], ["a"]),
        "of a dict": lambda: make.from_dict({"x": 3, "y": 5}),
        "of a dict, negative": lambda: make.from_dict({"x": -1}),
        "of a dict, text": lambda: make.from_dict({"x": "1"}),
        "of a file": lambda: make.from_file(
            written("w1,5\nw2,6\n\nw3\nw1b,\n"), ",", None, ["<s>"], False),
        "of lines": lambda: make.from_file(written("w1,5\nw2,6\nw3"), "", 2, ["<s>"]),
        "of no file": lambda: make.from_file("no such file"),
        "of a dataset": lambda: make.from_dataset(words, "t", None, None, ["<p>"], True),
        "of a dataset, range": lambda: make.from_dataset(
            words, ["t"], (2, 3), None, ["<p>"], False),
        "of a dataset, top": lambda: make.from_dataset(words, None, None, 2),
        "of a dataset, rare": lambda: make.from_dataset(words, None, (None, 1), 9),
    }
    found = {name: lambda m=made: sorted(m().vocab().items()) for name, made in found.items()}
    return found | {
        "Vectors": lambda: text.ToVectors(text.Vectors.from_file(written(vectors)))(
            ["ok", "no", "YES"]),
        "Vectors, one": lambda: text.ToVectors(text.Vectors.from_file(written(vectors)))("ok"),
        "Vectors, lower": lambda: text.ToVectors(
            text.Vectors.from_file(written(counted)), [9, 9, 9], True)(["ok", "no", "YES"]),
        "Vectors, some": lambda: text.ToVectors(text.Vectors.from_file(
            written(counted), 1))(["ok", "yes"]),
        "GloVe": lambda: text.ToVectors(text.GloVe.from_file(
            written(vectors, "glove.6B.3.txt")))("yes"),
        "GloVe, name": lambda: text.GloVe.from_file(written(vectors)),
        "FastText": lambda: text.ToVectors(text.FastText.from_file(
            written(counted, "f.vec")))("yes"),
        "uneven": lambda: text.Vectors.from_file(written("ok 1 2\nno 1\n")),
    }


def shown(value: Any) -> Any:
    """A result as JSON: kinds, shapes and elements."""
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    array = np.asarray(value)
    elements = [x.decode() if isinstance(x, bytes) else x for x in array.ravel().tolist()]
    return [array.dtype.kind if array.dtype.kind in "US" else str(array.dtype),
            list(array.shape), elements]


def run(library: str) -> dict[str, Any]:
    """What each case gives; "error" where it is one."""
    ds = importlib.import_module(f"{library}.dataset")
    text = importlib.import_module(f"{library}.dataset.text")
    calls = others(ds, text, importlib.import_module(library))
    for name, transform in of_texts(text).items():
        for i, each in enumerate(TEXTS):
            calls[f"{name} {i}"] = lambda t=transform, x=each: t(x)
    found = {}
    for name, call in calls.items():
        try:
            found[name] = shown(call())
        except (RuntimeError, ValueError, TypeError):
            found[name] = "error"
    return found


if __name__ == "__main__":
    json.dump(run(sys.argv[1]), sys.stdout, separators=(",", ":"))
