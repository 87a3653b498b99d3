"""Transforms of text give what MindSpore's give; bad texts, files and arguments."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.dataset as ds
from cellc.dataset import text

from ..others import ORACLE, answer, needs_oracle, run
from . import texts

RECORDED = json.loads(Path(__file__).with_name("texts.json").read_text())
"""What MindSpore 2.10 gave."""


@pytest.fixture(scope="module")
def ours() -> Any:
    return json.loads(json.dumps(texts.run("cellc")))


@pytest.mark.parametrize("case", RECORDED)
def test_one_text_gives_mindspores_result(ours: Any, case: str) -> None:
    assert ours[case] == RECORDED[case]


@needs_oracle
def test_the_records_are_mindspores() -> None:
    assert answer(run(ORACLE, Path(texts.__file__), ["mindspore"])) == RECORDED


def test_special_tokens_stay_beside_lower_case() -> None:
    cut = text.BasicTokenizer(True, with_offsets=True)
    tokens, begin, end = cut("Àb [CLS] C[unused3]D!")
    assert tokens.tolist() == ["ab", "[CLS]", "c", "[unused3]", "d", "!"]
    assert begin.tolist() == [0, 3, 9, 10, 19, 20] and end.tolist() == [2, 8, 10, 19, 20, 21]


def test_a_pipeline_of_text() -> None:
    vocab = text.Vocab.from_list(["a", "b", "<unk>"])
    data = ds.NumpySlicesDataset({"t": ["a b", "b q"]}, shuffle=False).map(
        [text.WhitespaceTokenizer(), text.Lookup(vocab, "<unk>")], "t").batch(2)
    assert next(iter(data))[0].asnumpy().tolist() == [[0, 1], [1, 2]]
    assert pickle.loads(pickle.dumps(vocab)).vocab() == vocab.vocab()
    rows = ds.NumpySlicesDataset({"t": ["my b"]}).map(
        text.WhitespaceTokenizer(True), ["t"], ["words", "begin", "end"])
    assert [v.tolist() for v in next(rows.create_tuple_iterator(output_numpy=True))] == [
        ["my", "b"], [0, 3], [2, 4]]
    assert text.PythonTokenizer(str.split)("x y").tolist() == ["x", "y"]
    assert text.PythonTokenizer(str.split)("").tolist() == [""]


@pytest.mark.parametrize("call, said", [
    (lambda: text.Lookup(text.Vocab(), "x"), "does not exist in vocab"),
    (lambda: text.ToNumber(ms.int32)(["12ab"]), "'12ab' is no number of int32"),
    (lambda: text.ToNumber(ms.bool_), "must be a dtype of numbers"),
    (lambda: text.ToNumber(ms.string), "must be a dtype of numbers"),
    (lambda: text.RegexTokenizer("("), "no regular expression"),
    (lambda: text.RegexTokenizer(r"\p{L}"), "Classes such as"),
    (lambda: text.PythonTokenizer(3), "must be a function"),
    (lambda: text.Ngram([]), "must be a positive int or a list of them"),
    (lambda: text.Ngram(2, ("_", "1")), "'left_pad' must be a tuple"),
    (lambda: text.Vocab.from_dataset(ds.NumpySlicesDataset({"t": [1]})), "has no strings"),
    (lambda: text.Vocab.from_dataset(ds.NumpySlicesDataset({"t": ["x"]}), freq_range=(2, 1)),
     "must be a tuple .least, most."),
    (lambda: text.Vectors.from_file(__file__), "no vectors of words"),
    (lambda: text.Vectors.from_file("no such file"), "No such file"),
    (lambda: text.to_str(["x"]), "NumPy array"),
    (lambda: text.TruncateSequencePair(3)([1, 2]), "two sequences"),
    (lambda: text.JiebaTokenizer, "the package jieba"),
    (lambda: text.SentencePieceTokenizer, "the package sentencepiece"),
    (lambda: text.UnicodeScriptTokenizer(1), "keep_whitespace"),
])
def test_bad_arguments(call: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError), match=said):
        call()


def test_a_vocabulary_of_no_text(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(np.arange(256, dtype=np.uint8).tobytes())
    with pytest.raises(RuntimeError, match="cannot be read as UTF-8"):
        text.Vocab.from_file(str(tmp_path / "v"))
