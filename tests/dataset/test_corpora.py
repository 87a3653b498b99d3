"""Collections of text from files made by hand: rows as MindSpore has them; files that are none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.dataset as ds

TABLES = {
    "AGNewsDataset": ["index", "title", "description"],
    "AmazonReviewDataset": ["label", "title", "content"],
    "DBpediaDataset": ["class", "title", "content"],
    "SogouNewsDataset": ["index", "title", "content"],
    "YahooAnswersDataset": ["class", "title", "content", "answer"],
    "YelpReviewDataset": ["label", "text"],
}


def rows(data: Any) -> list[Any]:
    return [[np.asarray(v).tolist() for v in row]
            for row in data.create_tuple_iterator(num_epochs=1, output_numpy=True)]


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ds.config._Settings, "kept", {"num_parallel_workers": 1})


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path: Path, name: str) -> None:
    columns = TABLES[name]
    for part in ("train", "test"):
        line = ",".join(['"1"', *(f'"{part} {c} ""q"", x"' for c in columns[1:])])
        (tmp_path / f"{part}.csv").write_text(f"{line}\n{line}\n")
    made = getattr(ds, name)

    def row(part: str) -> list[str]:
        return ["1", *(f'{part} {c} "q", x' for c in columns[1:])]

    assert made(str(tmp_path), "test").get_col_names() == columns
    assert rows(made(str(tmp_path), "train", shuffle=False)) == [row("train")] * 2
    parts = ("train", "test") if name in ("SogouNewsDataset", "YelpReviewDataset") else \
        ("test", "train")
    for usage in (None, "all"):
        data = made(str(tmp_path), usage, shuffle=False)
        assert rows(data) == [row(part) for part in parts for _ in range(2)]
        assert data.get_dataset_size() == 4
    with pytest.raises(ValueError, match="'usage' must be one of"):
        made(str(tmp_path), "dev")
    (tmp_path / "test.csv").unlink()
    with pytest.raises(ValueError, match=r"There is no test\.csv"):
        made(str(tmp_path))


@pytest.mark.parametrize("name, file", [
    ("PennTreebankDataset", "ptb.{}.txt"), ("WikiTextDataset", "wiki.{}.tokens"),
])
def test_lines(tmp_path: Path, name: str, file: str) -> None:
    for part in ("train", "test", "valid"):
        (tmp_path / file.format(part)).write_text(f" {part} a \n\n b <unk> \n")
    made = getattr(ds, name)
    assert rows(made(str(tmp_path), "valid", shuffle=False)) == [[" valid a "], [" b <unk> "]]
    assert [r[0].split()[0] for r in rows(made(str(tmp_path), shuffle=False))] == [
        "test", "b", "train", "b", "valid", "b"]


def test_lines_of_wikipedia(tmp_path: Path) -> None:
    (tmp_path / "enwik9").write_text("<a>\n  one\n\ntwo [[x]]\n")
    assert rows(ds.EnWik9Dataset(str(tmp_path), shuffle=False)) == [
        ["<a>"], ["  one"], [""], ["two [[x]]"]]


def test_sentences_of_reviews(tmp_path: Path) -> None:
    for part in ("train", "dev"):
        (tmp_path / f"{part}.tsv").write_text(f"sentence\tlabel\n{part} , x\t0\ngood\t1\n")
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\tuneasy\n")
    made = ds.SST2Dataset
    assert rows(made(str(tmp_path), shuffle=False)) == [["train , x", "0"], ["good", "1"]]
    assert rows(made(str(tmp_path), "dev", shuffle=False))[0] == ["dev , x", "0"]
    assert made(str(tmp_path), "test").get_col_names() == ["sentence"]
    assert rows(made(str(tmp_path), "test")) == [["uneasy"]]
    (tmp_path / "train.tsv").write_text("sentence\tlabel\nno label\n")
    with pytest.raises(RuntimeError, match="at line 2: 1 columns instead of 2"):
        rows(made(str(tmp_path)))


def test_sentences_with_tags(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("Confidence NN B-NP\nin IN B-PP\n\nthe DT B-NP\n")
    (tmp_path / "test.txt").write_text("\nRock NNP B-NP\n\n")
    made = ds.CoNLL2000Dataset
    assert made(str(tmp_path)).get_col_names() == ["word", "pos_tag", "chunk_tag"]
    assert rows(made(str(tmp_path), "train", shuffle=False)) == [
        [["Confidence", "in"], ["NN", "IN"], ["B-NP", "B-PP"]], [["the"], ["DT"], ["B-NP"]]]
    assert rows(made(str(tmp_path), "test")) == [[["Rock"], ["NNP"], ["B-NP"]]]
    (tmp_path / "en-ud-tag.v2.train.txt").write_text("Al b\tPROPN\tNNP\n-\tPUNCT\tHYPH\n\n")
    assert rows(ds.UDPOSDataset(str(tmp_path), "train")) == [
        [["Al b", "-"], ["PROPN", "PUNCT"], ["NNP", "HYPH"]]]
    (tmp_path / "train.txt").write_text("Confidence NN B-NP\nin IN\n")
    with pytest.raises(RuntimeError, match="at line 2: 2 columns instead of 3"):
        rows(made(str(tmp_path), "train"))


def test_reviews_of_films(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for kind in ("pos", "neg"):
            folder = tmp_path / part / kind
            folder.mkdir(parents=True)
            for i in range(2):
                (folder / f"{i}_7.txt").write_text(f"{part} {kind} {i}")
    made = ds.IMDBDataset
    data = made(str(tmp_path), "train", shuffle=False)
    assert rows(data) == [["train pos 0", 1], ["train pos 1", 1], ["train neg 0", 0],
                          ["train neg 1", 0]]
    assert data.get_class_indexing() == {"neg": 0, "pos": 1} and len(made(str(tmp_path))) == 8
    chosen = made(str(tmp_path), "test", sampler=ds.PKSampler(1), num_parallel_workers=2)
    assert [label for _, label in rows(chosen)] == [0, 1]
    with pytest.raises(ValueError, match="does not exist"):
        made(str(tmp_path / "train"))
    (tmp_path / "train" / "pos" / "0_7.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuntimeError, match="cannot be read as UTF-8"):
        rows(data)


def test_tasks_of_understanding(tmp_path: Path) -> None:
    def written(name: str, *lines: Any) -> str:
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(tmp_path / name)

    pair = written("a.json", {"sentence1": "a", "sentence2": "b", "label": "0", "more": 1})
    data = ds.CLUEDataset(pair, "AFQMC", "train", shuffle=False)
    assert data.get_col_names() == ["label", "sentence1", "sentence2"]
    assert rows(data) == [["0", "a", "b"]]
    test = ds.CLUEDataset(written("t.json", {"id": 3, "sentence1": "a", "sentence2": "b"}),
                          usage="test")
    (row,) = test.create_tuple_iterator(output_numpy=True)
    assert row[0].dtype == np.uint32 and [v.tolist() for v in row] == [3, "a", "b"]
    spans = {"span1_index": 1, "span2_index": 2, "span1_text": "x", "span2_text": "y"}
    deep = ds.CLUEDataset(
        written("w.json", {"target": spans, "idx": 0, "label": "true", "text": "t"}), "WSC")
    assert dict(zip(deep.get_col_names(), rows(deep)[0], strict=True)) == {
        **spans, "idx": 0, "label": "true", "text": "t"}
    many = ds.CLUEDataset(written("c.json", {"id": 1, "abst": "z", "keyword": ["k", "l"],
                                             "label": "1"}), "CSL")
    assert rows(many) == [["z", 1, ["k", "l"], "1"]]
    with pytest.raises(RuntimeError, match=r"a.json at line 1: there is no 'keywords'"):
        rows(ds.CLUEDataset(pair, "TNEWS"))
    for bad in ({"task": "GLUE"}, {"usage": "dev"}):
        with pytest.raises(ValueError, match="must be one of"):
            ds.CLUEDataset(pair, **bad)
    (tmp_path / "a.json").write_text("no json\n")
    with pytest.raises(RuntimeError, match="Invalid JSON"):
        rows(ds.CLUEDataset(pair))
