"""MindRecord and TFRecord files: what MindSpore wrote is read, and the other way; bad files."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
import struct
import zipfile
import zlib
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
import cellc.dataset as ds
from cellc import mindrecord as mr
from cellc.records import packing, tfrecord

from ..others import ORACLE, needs_oracle, run

WRITTEN = Path(__file__).with_name("written_by_mindspore.zip")
"""Two files of nine rows that MindSpore 2.10 wrote: all kinds of fields, several pages."""
SCHEMA = {"file_name": {"type": "string"}, "label": {"type": "int32"},
          "score": {"type": "float64"}, "data": {"type": "bytes"},
          "arr": {"type": "float32", "shape": [2, -1]}, "ids": {"type": "int64", "shape": [-1]}}


def row(i: int) -> dict:
    return {"file_name": f"f{i}.jpg", "label": i % 3, "score": i * .1,
            "data": bytes([i]) * (9000 + i),
            "arr": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
            "ids": np.array([i, -300, 70000, 2**40], np.int64)[:i % 4 + 1]}


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def write(path: Path, rows: list[dict], count: int = 1, schema: dict = SCHEMA,
          overwrite: bool = False) -> str:
    writer = mr.FileWriter(str(path), count, overwrite)
    writer.set_page_size(1 << 15)
    writer.set_header_size(1 << 14)
    writer.add_schema(schema, "six kinds")
    for start in range(0, len(rows), 4):
        writer.write_raw_data(rows[start : start + 4])
    writer.commit()
    return str(path) if count == 1 else f"{path}0"


def read(path: str) -> list[dict]:
    reader = mr.FileReader(path)
    rows = list(reader.get_next())
    reader.close()
    assert reader.len() == len(rows)
    return rows


def test_what_mindspore_wrote_is_read(tmp_path):
    with zipfile.ZipFile(WRITTEN) as files:
        files.extractall(tmp_path)
    rows = read(str(tmp_path / "written.mindrecord0"))
    assert all(same(a, row(i)) for a, i in zip(rows, range(9), strict=True))
    assert [r["label"] for r in read([str(tmp_path / "written.mindrecord1")])] == [2, 0, 1, 2]
    pages = mr.MindPage(str(tmp_path / "written.mindrecord0"))
    assert pages.candidate_fields == ["file_name", "label"]
    pages.category_field = "label"
    assert json.loads(pages.read_category_info()) == {
        "categories": [{"count": 3, "id": i, "name": str(i)} for i in range(3)], "key": "label_0"}
    assert same(pages.read_at_page_by_id(2, 1, 2)[0], row(8))
    assert same(pages.read_at_page_by_name("1", 0, 2)[1], row(4))


@needs_oracle
def test_mindspore_reads_what_is_written(tmp_path):
    write(tmp_path / "one", [row(i) for i in range(9)])
    write(tmp_path / "many", [row(i) for i in range(30)], 12)
    writer = mr.FileWriter.open_for_append(str(tmp_path / "one"))
    writer.write_raw_data([row(i) for i in range(9, 20)])
    writer.commit()
    program = """
import sys
from mindspore.mindrecord import FileReader, FileWriter
writer = FileWriter.open_for_append("one")
writer.write_raw_data([{"file_name": "x", "label": 7, "score": 1.5, "data": b"d",
    "arr": __import__("numpy").zeros((2, 1), "float32"),
    "ids": __import__("numpy").zeros(1, "int64")}])
writer.commit()
for name in ("one", "many00"):
    reader = FileReader(name)
    for r in reader.get_next():
        print(r["file_name"], r["label"], f"{r['score']:g}", len(r["data"]), r["arr"].tolist(),
              r["ids"].tolist())
"""
    said = run(ORACLE, program, folder=tmp_path).splitlines()
    ours = [f"{r['file_name']} {r['label']} {r['score']:g} {len(r['data'])} "
            f"{r['arr'].tolist()} {r['ids'].tolist()}"
            for name in ("one", "many00") for r in read(str(tmp_path / name))]
    assert [line for line in said if line.startswith(("f", "x"))] == ours
    assert len(ours) == 21 + 30


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_integers_are_packed(values):
    wide = np.array(values, np.int64)
    assert np.array_equal(packing.unpack_integers(packing.pack_integers(wide), wide.dtype), wide)
    small = (wide >> 40).astype(np.int32)
    packed = packing.pack_integers(small)
    assert np.array_equal(packing.unpack_integers(packed, small.dtype), small)
    for cut in range(len(packed)):
        with pytest.raises(ValueError, match=r"integers|at least"):
            packing.unpack_integers(packed[:cut], small.dtype)


def test_nothing_is_there_before_commit(tmp_path):
    path = write(tmp_path / "a", [row(0)])
    writer = mr.FileWriter(path, overwrite=True)
    writer.add_schema(SCHEMA)
    writer.write_raw_data([row(1)])
    assert same(read(path)[0], row(0))
    del writer
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.db"]
    writer = mr.FileWriter(path, overwrite=True)
    writer.add_schema(SCHEMA)
    writer.write_raw_data([row(2)])
    writer.commit()
    assert same(read(path)[0], row(2))
    with pytest.raises(RuntimeError, match="committed"):
        writer.write_raw_data([row(1)])
    again = mr.FileWriter(path)
    again.add_schema(SCHEMA)
    with pytest.raises(RuntimeError, match=r"already exist.*'overwrite'"):
        again.write_raw_data([row(1)])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.db"]


def test_rows_that_do_not_fit_are_told_of(tmp_path, capsys):
    bad = [{"label": 1}, {**row(1), "label": "x"}, {**row(1), "arr": np.zeros((3, 1), "f4")},
           {**row(1), "ids": np.zeros(2, "i4")}, {**row(1), "data": "text"},
           {**row(1), "label": True}]
    path = write(tmp_path / "a", [row(0), *bad[:3]])
    assert len(read(path)) == 1
    said = capsys.readouterr().err
    assert "row 1: there is no 'arr'" in said
    assert "row 2: 'label' should be int32, but got str" in said
    assert "with shape [2, -1], but got one of float32 with [3, 1]" in said
    for each in bad:
        with pytest.raises(RuntimeError, match=r"no valid data .* row 0: "):
            write(tmp_path / "b", [each])
    with pytest.raises(RuntimeError, match="Page size: 32768 is too small to save a row of 4"):
        write(tmp_path / "c", [{**row(0), "data": bytes(40000)}])
    with pytest.raises(RuntimeError, match="cannot be written"):
        write(tmp_path / "no" / "c", [row(0)])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.db"]


@pytest.mark.parametrize("content, error, said", [
    ({}, mr.MRMInvalidSchemaError, "is empty"), ([1], mr.MRMInvalidSchemaError, "should be dict"),
    ({"a": "int32"}, mr.MRMInvalidSchemaError, "'a' should be dict"),
    ({"a": {"type": "int8"}}, mr.MRMInvalidSchemaError, "illegal attribute 'int8'"),
    ({"a": {"type": "bytes", "shape": [1]}}, mr.MRMInvalidSchemaError, "attribute 'bytes'"),
    ({"a-b": {"type": "int32"}}, mr.MRMInvalidSchemaError, "composed of"),
    ({"a": {"type": "int32", "shape": [-1, -1]}}, mr.MRMBuildSchemaError, "one of them may be -1"),
])
def test_schemas_that_are_none(tmp_path, content, error, said):
    with pytest.raises(error, match=said):
        mr.FileWriter(str(tmp_path / "a")).add_schema(content)


def test_arguments_that_are_wrong(tmp_path):
    path = str(tmp_path / "a")
    for wrong in ((5,), ("",), (path, 0), (path, 1001), (path, 1, 1)):
        with pytest.raises(mr.ParamValueError, match=r"^\[ParamValueError\]: Invalid parameter"):
            mr.FileWriter(*wrong)
    writer = mr.FileWriter(path)
    with pytest.raises(RuntimeError, match="add_schema"):
        writer.write_raw_data([row(0)])
    writer.add_schema(SCHEMA)
    with pytest.raises(mr.MRMAddSchemaError, match="a file has one"):
        writer.add_schema(SCHEMA)
    for wrong, error, said in (
            ("a", mr.ParamTypeError, "list"), (["arr"], mr.MRMDefineIndexError, "not primitive"),
            (["x"], RuntimeError, "can not found"), (["label"] * 2, RuntimeError, "repeatedly")):
        with pytest.raises(error, match=said):
            writer.add_index(wrong)
    with pytest.raises(mr.ParamTypeError, match="list"):
        writer.write_raw_data(row(0))
    for size in (5, (1 << 14) + 1, 1 << 30):
        with pytest.raises(RuntimeError, match="should be in range"):
            writer.set_header_size(size)
    with pytest.raises(RuntimeError, match="neither writes nor reads encrypted"):
        mr.set_enc_key("0123456789012345")
    with pytest.raises(ValueError, match="not 16, 24, 32"):
        mr.set_enc_key("x")
    mr.set_enc_key(None)


def test_damaged_files_are_errors(tmp_path):
    path = Path(write(tmp_path / "a", [row(i) for i in range(6)]))
    whole, base = path.read_bytes(), Path(f"{path}.db").read_bytes()
    rng = np.random.default_rng(0)
    places = np.flatnonzero(np.frombuffer(whole, np.uint8))
    for place in [0, 5, *rng.choice(places[places < 1500], 60), *rng.choice(places, 40)]:
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            read(str(path))
        except RuntimeError as error:
            assert "no whole MindRecord file" in str(error) or "different schemas" in str(error)
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(RuntimeError, match="no whole MindRecord file"):
            read(str(path))
    path.write_bytes(whole)
    Path(f"{path}.db").write_bytes(base[:3000])
    with pytest.raises(RuntimeError, match=r"its \.db cannot be read"):
        read(str(path))
    Path(f"{path}.db").write_bytes(base)
    for value in ("PAGE_OFFSET_BLOB_END = 1 << 40", "PAGE_ID_BLOB = -9", "PAGE_ID_RAW = 1 << 62"):
        Path(f"{path}.db").write_bytes(base)
        with closing(sqlite3.connect(f"{path}.db")) as edited:
            edited.execute(f"UPDATE INDEXES SET {value} WHERE ROW_ID = 3")
            edited.commit()
        with pytest.raises(RuntimeError, match="a row lies from"):
            read(str(path))
    Path(f"{path}.db").unlink()
    with pytest.raises(RuntimeError, match=r"a\.db is not exists"):
        mr.FileReader(str(path))


# --- datasets -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Four files of 17 rows, dealt 10 first, then 7."""
    path = tmp_path_factory.mktemp("records") / "s"
    writer = mr.FileWriter(str(path), 4)
    writer.set_page_size(1 << 15)
    writer.add_schema({"label": {"type": "int32"}, "data": {"type": "bytes"}})
    for part in (range(10), range(10, 17)):
        writer.write_raw_data([{"label": i, "data": b"x" * i + b"\0"} for i in part])
    writer.commit()
    return f"{path}0"


ORDER = [0, 1, 2, 10, 11, 3, 4, 5, 12, 6, 7, 13, 14, 8, 9, 15, 16]


def labels(data):
    return [int(r["label"]) for r in data.create_dict_iterator(1, output_numpy=True)]


def test_a_dataset_of_mindrecord(files):
    data = ds.MindDataset(files, shuffle=False)
    assert (len(data), data.get_col_names(), labels(data)) == (17, ["data", "label"], ORDER)
    first = next(data.create_dict_iterator(1, output_numpy=True))
    assert (first["data"].dtype, first["data"].shape, first["data"].tobytes()) == (
        np.dtype("S1"), (1,), b"\0")
    assert first["label"].dtype == np.int32 and first["label"].shape == ()
    assert labels(ds.MindDataset(files, shuffle=False, num_shards=3, shard_id=1)) == [
        *ORDER[1::3]]
    assert labels(ds.MindDataset(files, shuffle=False, num_samples=3)) == ORDER[:3]
    assert labels(ds.MindDataset([files[:-1] + "2", files], shuffle=False)) == [
        *ORDER[9:13], *ORDER[:5]]
    padded = ds.MindDataset(files, shuffle=False, columns_list=["label"],
                            padded_sample={"label": -1}, num_padded=3)
    assert labels(padded) == [*ORDER, -1, -1, -1]
    assert labels(ds.MindDataset(files, sampler=ds.SequentialSampler(2, 5))) == ORDER[2:7]
    # 17 classes of a row each, two of each.
    twice = labels(ds.MindDataset(files, sampler=ds.PKSampler(2)))
    assert sorted(twice) == sorted([*range(17), *range(17)])


def test_orders_of_mindrecord(files):
    for mode in (None, True, ds.Shuffle.GLOBAL, ds.Shuffle.PARTIAL, ds.Shuffle.ADAPTIVE):
        found = labels(ds.MindDataset(files, shuffle=mode))
        assert sorted(found) == list(range(17)) and found != ORDER
    by_file = [ORDER[:5], ORDER[5:9], ORDER[9:13], ORDER[13:]]
    seen = set()
    epochs = ds.MindDataset(files, shuffle=ds.Shuffle.FILES).create_dict_iterator(
        8, output_numpy=True)
    for _ in range(8):
        found, parts = [int(r["label"]) for r in epochs], []
        while found:
            part = next(p for p in by_file if p[0] == found[0])
            assert found[: len(part)] == part
            found = found[len(part) :]
            parts.append(part[0])
        seen.add(tuple(parts))
    assert len(seen) > 1
    found = labels(ds.MindDataset(files, shuffle=ds.Shuffle.INFILE))
    assert [set(found[i:j]) for i, j in ((0, 5), (5, 9), (9, 13), (13, 17))] == [
        set(p) for p in by_file]
    shards = [labels(ds.MindDataset(files, shuffle=ds.Shuffle.INFILE, num_shards=2, shard_id=i))
              for i in range(2)]
    assert [len(s) for s in shards] == [9, 9]


def test_classes_are_found_without_reading_rows(tmp_path, monkeypatch):
    path = write(tmp_path / "a.mindrecord", [row(i) for i in range(9)], 2)
    written = labels(ds.MindDataset(path, shuffle=False))
    data = ds.MindDataset(path, ["file_name", "label"], sampler=ds.PKSampler(2),
                          padded_sample={"file_name": "none", "label": 7}, num_padded=1)

    def unread(*arguments):
        raise AssertionError("a row was read")

    with monkeypatch.context() as patch:
        patch.setattr("cellc.records.format.Shard.row", unread)
        assert data._labels("label").tolist() == [*written, 7]
        assert data.get_dataset_size() == 8
    assert labels(data) == [0, 0, 1, 1, 2, 2, 7, 7]


def test_bad_arguments_of_mindrecord(files, tmp_path):
    for arguments, error, said in (
            ({"dataset_files": str(tmp_path / "no")}, ValueError, "does not exist"),
            ({"columns_list": ["x"]}, RuntimeError, "column name: x can not found"),
            ({"sampler": ds.SequentialSampler(), "shuffle": True}, RuntimeError, "same time"),
            ({"sampler": ds.WeightedRandomSampler([1.0], 1)}, ValueError, "not supported"),
            ({"padded_sample": {"label": 1}, "num_padded": 1}, RuntimeError, "columns_list"),
            ({"num_shards": 2}, ValueError, "together")):
        with pytest.raises(error, match=said):
            ds.MindDataset(**{"dataset_files": files, **arguments})


def test_a_pipeline_is_saved_and_read(tmp_path):
    rows = {"x": np.arange(12, dtype=np.float16).reshape(6, 2), "n": np.arange(6, dtype=np.uint8),
            "s": np.array([f"t{i}" for i in range(6)])}
    path = str(tmp_path / "saved")
    ds.NumpySlicesDataset(rows, shuffle=False).save(path)
    data = ds.MindDataset(path, shuffle=False)
    found = list(data.create_dict_iterator(1, output_numpy=True))
    assert [r["s"].item() for r in found] == rows["s"].tolist()
    assert np.array_equal(np.stack([r["x"] for r in found]), rows["x"].astype(np.float32))
    assert [r["n"].dtype for r in found] == [np.int32] * 6
    with pytest.raises(RuntimeError, match="already exist"):
        ds.NumpySlicesDataset(rows).save(path)
    with pytest.raises(ValueError, match="'file_type' must be one of"):
        ds.NumpySlicesDataset(rows).save(path, file_type="tfrecord")
    with pytest.raises(RuntimeError, match="column 'c' is complex64"):
        ds.NumpySlicesDataset({"c": np.zeros(2, np.complex64)}).save(path + "c")


# --- TFRecord -------------------------------------------------------------------------------------


def varint(n: int) -> bytes:
    n &= 2**64 - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def block(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def example(row: dict) -> bytes:
    out = b""
    for name, values in row.items():
        if isinstance(values[0], bytes):
            feature = block(1, b"".join(block(1, v) for v in values))
        elif isinstance(values[0], float):
            feature = block(2, block(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = block(3, block(1, b"".join(map(varint, values))))
        out += block(1, block(1, name.encode()) + block(2, feature))
    return block(1, out)


def records(path: Path, rows: list[dict]) -> str:
    path.write_bytes(b"".join(tfrecord.framed(example(r)) for r in rows))
    return str(path)


@pytest.fixture
def tf_files(tmp_path):
    def made(name: str, labels: range) -> str:
        return records(tmp_path / name, [
            {"label": [i], "vec": [1.5 * i, 2.0], "img": [bytes([65 + i]) * (i + 1)],
             "neg": [-3, 7]} for i in labels])

    return made("a.tfrecord", range(5)), made("b.tfrecord", range(10, 13))


def test_a_dataset_of_tfrecord(tf_files):
    one, two = tf_files
    data = ds.TFRecordDataset(one, shuffle=False)
    assert (len(data), data.get_col_names()) == (5, ["img", "label", "neg", "vec"])
    second = list(data.create_dict_iterator(1, output_numpy=True))[1]
    assert {k: (str(v.dtype), v.tolist()) for k, v in second.items()} == {
        "img": ("uint8", [66, 66]), "label": ("int64", [1]), "neg": ("int64", [-3, 7]),
        "vec": ("float32", [1.5, 2.0])}

    def labels(**more):
        data = ds.TFRecordDataset([two, one], **{"shuffle": False, **more})
        found = [int(r["label"][0]) for r in data.create_dict_iterator(1, output_numpy=True)]
        assert len(found) == len(data)
        return found

    assert labels() == [0, 10, 1, 11, 2, 12, 3, 4]
    assert labels(num_samples=3) == [0, 10, 1]
    assert [labels(num_shards=2, shard_id=i) for i in range(2)] == [[*range(5)], [10, 11, 12]]
    assert labels(num_shards=3, shard_id=2, shard_equal_rows=True) == [11, 0, 12]
    assert sorted(labels(shuffle=True)) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_a_tfrecord_file_is_opened_once(tf_files, monkeypatch):
    opened = []
    real = tfrecord.os.open
    monkeypatch.setattr(tfrecord.os, "open", lambda *a: opened.append(a) or real(*a))
    file = tfrecord.TFRecordFile(tf_files[0])
    several = [file.example(i) for i in range(len(file))]
    assert len(several) > 1 and len(opened) == 1
    again = pickle.loads(pickle.dumps(file))
    assert sorted(again.example(0)) == sorted(several[0])


def test_schemas_of_tfrecord(tf_files, tmp_path):
    one, _ = tf_files
    schema = ds.Schema()
    schema.add_column("label", ms.int32, [1])
    schema.add_column("img", ms.string)
    schema.add_column("vec", "float32", [1, 2])
    rows = list(ds.TFRecordDataset(one, schema, shuffle=False).create_dict_iterator(
        1, output_numpy=True))
    assert {k: (v.dtype.kind, v.tolist()) for k, v in rows[1].items()} == {
        "label": ("i", [1]), "img": ("U", ["BB"]), "vec": ("f", [[1.5, 2.0]])}
    path = tmp_path / "schema.json"
    path.write_text('{"datasetType": "TF", "numRows": 2, "columns": {"label": {"type": "int64"}}}')
    assert len(list(ds.TFRecordDataset(one, str(path)))) == 2
    for column, said in ((("label", ms.int64, [3]), "does not match the shape"),
                         (("label", ms.float32, [1]), "has int64, not float32"),
                         (("zz", ms.int64, [1]), "could not be found"),
                         (("img", ms.int32), "has bytes, not int32")):
        wrong = ds.Schema()
        wrong.add_column(*column)
        with pytest.raises(RuntimeError, match=said):
            list(ds.TFRecordDataset(one, wrong))
    for wrong in (("a", "int7"), (5, "int32"), ("a", "int32", 5)):
        with pytest.raises(TypeError, match=r"Unknown column type|must be a"):
            ds.Schema().add_column(*wrong)
    path.write_text("{")
    with pytest.raises(RuntimeError, match="failed to load"):
        ds.Schema(str(path))
    with pytest.raises(ValueError, match="does not exist"):
        ds.Schema(str(tmp_path / "no.json"))


def test_damaged_tfrecords_are_errors(tf_files, tmp_path):
    one, _ = tf_files
    whole = Path(one).read_bytes()
    path = tmp_path / "c"
    for content, said in ((b"junk" * 20, "no record begins at byte 0"),
                          (whole[:-9], "the file ends before"),
                          (gzip.compress(whole), "no record begins")):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match=said):
            list(ds.TFRecordDataset(str(path)))
    for place in range(12, 80):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        with pytest.raises(RuntimeError, match=rf"{path}.*record 0 at byte 0 is damaged"):
            list(ds.TFRecordDataset(str(path)))
    start, length = tfrecord.TFRecordFile(one).places[3]
    for place in (start, start + length - 1, start + length):  # of the data, and of their checksum
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:])
        rows = ds.TFRecordDataset(str(path), shuffle=False).create_tuple_iterator(num_epochs=1)
        assert len([next(rows) for _ in range(3)]) == 3
        with pytest.raises(RuntimeError, match=rf"record 3 at byte {start - 12} is damaged"):
            next(rows)
    for kind, pack in (("GZIP", gzip.compress), ("ZLIB", zlib.compress)):
        path.write_bytes(pack(whole))
        assert len(list(ds.TFRecordDataset(str(path), compression_type=kind))) == 5
    with pytest.raises(RuntimeError, match="not compressed by GZIP"):
        list(ds.TFRecordDataset(one, compression_type="GZIP"))


# --- converters -----------------------------------------------------------------------------------


def test_tables_become_mindrecord(tmp_path):
    (tmp_path / "a.csv").write_text("id,score,name\n1,0.5,x\n2,1,y\n")
    mr.CsvToMR(str(tmp_path / "a.csv"), str(tmp_path / "a")).transform()
    assert read(str(tmp_path / "a")) == [{"id": 1, "name": "x", "score": 0.5},
                                         {"id": 2, "name": "y", "score": 1.0}]
    with pytest.raises(RuntimeError, match="are not among"):
        mr.CsvToMR(str(tmp_path / "a.csv"), str(tmp_path / "b"), ["no"]).run()
    (tmp_path / "b.csv").write_text("1d,score\n1,2\n")
    with pytest.raises(ValueError, match="begins with a digit"):
        mr.CsvToMR(str(tmp_path / "b.csv"), str(tmp_path / "b")).transform()
    with pytest.raises(ValueError, match="'source' must be the path of a file"):
        mr.CsvToMR(str(tmp_path / "no.csv"), str(tmp_path / "b"))


def test_tfrecords_become_mindrecord(tf_files, tmp_path):
    def fixed(shape, name):
        return SimpleNamespace(shape=shape, dtype=SimpleNamespace(name=name))

    features = {"label": fixed([], "int64"), "vec": fixed([2], "float32"),
                "img": fixed([], "string"), "neg": fixed([2], "int64")}
    mr.TFRecordToMR(tf_files[0], str(tmp_path / "m"), features, ["img"]).transform()
    second = read(str(tmp_path / "m"))[1]
    assert same(second, {"label": 1, "img": b"BB", "neg": np.array([-3, 7]),
                         "vec": np.array([1.5, 2], np.float32)})
    with pytest.raises(RuntimeError, match="record 0: feature 'zz' is not there"):
        mr.TFRecordToMR(tf_files[0], str(tmp_path / "n"), {"zz": fixed([], "int64")}).transform()
    assert not (tmp_path / "n").exists()


def test_pictures_become_mindrecord(tmp_path):
    pytest.importorskip("PIL")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        head = struct.pack(">4I", 0x803, 4, 28, 28)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(head + images.tobytes()))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, 4) + bytes(range(4)))
    mr.MnistToMR(str(tmp_path), str(tmp_path / "mnist")).transform()
    data = ds.MindDataset(str(tmp_path / "mnist_test.mindrecord"), shuffle=False)
    data = data.map(ds.vision.Decode(), "data")
    for i, found in enumerate(data.create_dict_iterator(1, output_numpy=True)):
        assert np.array_equal(found["data"][..., 0], images[i]) and found["label"] == i

    pixels = rng.integers(0, 256, (3, 3072), dtype=np.uint8)
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        (tmp_path / name).write_bytes(pickle.dumps({b"data": pixels, b"labels": [3, 1, 2]}))
    mr.Cifar10ToMR(str(tmp_path), str(tmp_path / "cifar")).transform(["label"])
    rows = read(str(tmp_path / "cifar"))
    assert [(r["id"], r["label"]) for r in rows] == list(enumerate([3, 1, 2] * 2))
    assert len(read(str(tmp_path / "cifar_test"))) == 3


def test_folders_become_mindrecord(tmp_path):
    for name in ("n1", "n2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.JPEG").write_bytes(name.encode())
    (tmp_path / "map").write_text("n1 0\nn2 1\n")
    mr.ImageNetToMR(str(tmp_path / "map"), str(tmp_path), str(tmp_path / "net"), 2).transform()
    assert read(str(tmp_path / "net0")) == [
        {"file_name": "n1.JPEG", "label": 0, "image": b"n1"},
        {"file_name": "n2.JPEG", "label": 1, "image": b"n2"}]
    (tmp_path / "map").write_text("n3 0\n")
    with pytest.raises(RuntimeError, match="'n3 0' is no folder"):
        mr.ImageNetToMR(str(tmp_path / "map"), str(tmp_path), str(tmp_path / "x")).transform()
