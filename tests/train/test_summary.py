"""Event files: framing, messages, what a training leaves in them, summary operators."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.records import tfrecord
from cellc.train import Model, SummaryCollector, SummaryRecord

# --- a reader of its own ------------------------------------------------------------------------


def _fields(data):
    """The fields of a message: {number: [values]}."""
    found, at = {}, 0

    def varint():
        nonlocal at
        out = shift = 0
        while True:
            byte = data[at]
            at += 1
            out |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return out

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 1:
            value = struct.unpack_from("<d", data, at)[0]
            at += 8
        elif kind == 5:
            value = struct.unpack_from("<f", data, at)[0]
            at += 4
        else:
            size = varint()
            value = data[at : at + size]
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def _unmask(masked):
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def _events(folder):
    """The events of the files of a folder, checksums checked."""
    out = []
    for file in sorted(folder.glob("*tfevents*")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            (crc,) = struct.unpack_from("<I", data, at + 8)
            assert tfrecord.crc32c(data[at : at + 8]) == _unmask(crc)
            body = data[at + 12 : at + 12 + size]
            (crc,) = struct.unpack_from("<I", data, at + 12 + size)
            assert tfrecord.crc32c(body) == _unmask(crc)
            out.append(_fields(body))
            at += 16 + size
    return out


def _values(folder):
    """{tag: [(step, fields of the value)]}."""
    out = {}
    for event in _events(folder):
        for summary in event.get(5, []):
            for value in _fields(summary)[1]:
                fields = _fields(value)
                out.setdefault(fields[1][0].decode(), []).append((event[2][0], fields))
    return out


# --- files --------------------------------------------------------------------------------------


def test_checksums_are_crc32c():
    assert tfrecord.crc32c(b"123456789") == 0xE3069283
    assert tfrecord.crc32c(b"") == 0
    assert tfrecord.crc32c(b"\x00" * 32) == 0x8A9136AA  # RFC 3720, B.4
    data = np.random.default_rng(0).bytes(5000)  # blocks at once, and byte by byte
    for length in (1023, 1024, 1025, 5000):
        crc = 0xFFFFFFFF
        for bit in np.unpackbits(np.frombuffer(data[:length], np.uint8), bitorder="little"):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 ^ int(bit) else 0)
        assert tfrecord.crc32c(data[:length]) == crc ^ 0xFFFFFFFF


def test_a_record_of_each_kind(tmp_path):
    with SummaryRecord(str(tmp_path)) as record:
        record.add_value("scalar", "loss", ms.Tensor(2.5))
        record.add_value("tensor", "weight", ms.Tensor(np.arange(6, dtype=np.int32).reshape(2, 3)))
        record.add_value("histogram", "spread", ms.Tensor(np.array([0.0, 1, 1, np.nan, np.inf])))
        image = np.zeros((2, 3, 4, 5), np.float32)
        image[0, 1] = 1.0
        record.add_value("image", "picture", ms.Tensor(image))
        record.add_value("custom_lineage_data", "facts", {"a": 1})
        assert record.record(3)
        record.add_value("scalar", "loss", ms.Tensor([1.5]))
        assert record.record(4)
        assert "tfevents" in record.log_dir
    first = _events(tmp_path)[0]
    assert first[3] == [b"brain.Event:2"]
    values = _values(tmp_path)
    assert [(s, v[2][0]) for s, v in values["loss"]] == [(3, 2.5), (4, 1.5)]
    tensor = _fields(values["weight"][0][1][8][0])
    assert np.frombuffer(tensor[4][0], np.int32).tolist() == list(range(6))
    assert [_fields(d)[1][0] for d in _fields(tensor[2][0])[2]] == [2, 3]
    histogram = _fields(values["spread"][0][1][5][0])
    assert (histogram[1], histogram[2], histogram[3]) == ([0.0], [1.0], [3.0])
    counts = struct.unpack(f"<{len(histogram[7][0]) // 8}d", histogram[7][0])
    assert sum(counts) == 3
    assert counts[0] == 1
    assert counts[-1] == 2
    picture = _fields(values["picture"][0][1][4][0])
    assert (picture[1], picture[2], picture[3]) == ([4], [5], [3])
    assert picture[4][0].startswith(b"\x89PNG")
    at = picture[4][0].index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompressobj().decompress(picture[4][0][at:]), np.uint8)
    assert rows.reshape(4, 16)[:, 1:].reshape(4, 5, 3)[0, 0].tolist() == [0, 255, 0]
    text = _fields(values["facts"][0][1][8][0])[8][0]
    assert json.loads(text) == {"a": 1}


def test_filters_modes_limits_and_exports(tmp_path):
    record = SummaryRecord(str(tmp_path), max_file_size=400,
                           export_options={"tensor_format": "npy"})
    record.set_mode("eval")
    record.add_value("scalar", "a", ms.Tensor(1.0))
    record.add_value("tensor", "t", ms.Tensor([1.0, 2.0]))
    record.record(1, plugin_filter=lambda plugin: plugin != "scalar")
    record.add_value("tensor", "big", ms.Tensor(np.ones(1000, np.float32)))
    assert not record.record(2)
    record.close()
    record.close()
    assert list(_values(tmp_path)) == ["eval/t"]
    assert np.load(tmp_path / "export_tensor" / "t_1.npy").tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="closed"):
        record.record(3)


@pytest.mark.parametrize(("wrong", "error"), [
    (lambda r: r.add_value("foo", "a", ms.Tensor(1.0)), ValueError),
    (lambda r: r.add_value("scalar", 1, ms.Tensor(1.0)), TypeError),
    (lambda r: r.add_value("scalar", "a", 1.0), TypeError),
    (lambda r: r.add_value("scalar", "a", ms.Tensor([1.0, 2.0])), ValueError),
    (lambda r: r.add_value("image", "a", ms.Tensor([1.0])), ValueError),
    (lambda r: r.add_value("graph", "a", 3), TypeError),
    (lambda r: r.record("a"), TypeError), (lambda r: r.record(1, plugin_filter=3), TypeError),
    (lambda r: r.set_mode("foo"), ValueError),
    (lambda r: SummaryRecord(3), TypeError),
    (lambda r: SummaryRecord(r.log_dir + "x", max_file_size=0), ValueError),
    (lambda r: SummaryRecord(r.log_dir + "x", export_options={"tensor_format": "txt"}), ValueError),
])
def test_wrong_arguments_of_a_record(tmp_path, wrong, error):
    with SummaryRecord(str(tmp_path)) as record, pytest.raises(error, match="'SummaryRecord"):
        wrong(record)


def test_a_file_that_cannot_be_written(tmp_path):
    record = SummaryRecord(str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    record.add_value("scalar", "a", ms.Tensor(1.0))
    assert not record.record(1)
    loud = SummaryRecord(str(tmp_path / "loud"), raise_exception=True)
    (tmp_path / "loud").rmdir()
    loud.add_value("scalar", "a", ms.Tensor(1.0))
    with pytest.raises(OSError, match="tfevents"):
        loud.record(1)


# --- operators ----------------------------------------------------------------------------------


class Watched(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")
        self.scalar, self.tensor = ops.ScalarSummary(), ops.TensorSummary()
        self.histogram, self.image = ops.HistogramSummary(), ops.ImageSummary()

    def construct(self, x):
        y = self.fc(x)
        self.scalar("mean", y.mean())
        self.tensor("y", y)
        self.histogram("x", x)
        self.image("picture", x.reshape(1, 1, 2, 3))
        return y


def test_operators_note_what_a_record_writes(tmp_path, mode):
    net = Watched()
    with SummaryRecord(str(tmp_path)) as record:
        for step in (1, 2):
            net(ms.Tensor(np.full((2, 3), step, np.float32)))
            record.record(step)
    values = _values(tmp_path)
    assert [(s, v[2][0]) for s, v in values["mean"]] == [(1, 3.0), (2, 6.0)]
    assert set(values) == {"mean", "y", "x", "picture"}
    given = _fields(values["y"][1][1][8][0])[4][0]
    assert np.frombuffer(given, np.float32).tolist() == [6.0] * 4


def test_operators_under_a_gradient(tmp_path, mode):
    net = Watched()
    with SummaryRecord(str(tmp_path)) as record:
        ms.value_and_grad(lambda x: net(x).sum())(ms.Tensor(np.ones((2, 3), np.float32)))
        record.record(1)
    assert len(_values(tmp_path)["mean"]) == 1


@pytest.mark.parametrize("wrong", [
    lambda: ops.ScalarSummary()(1, ms.Tensor(1.0)), lambda: ops.ScalarSummary()("a", 1.0),
    lambda: ops.ScalarSummary()("", ms.Tensor(1.0)),
    lambda: ops.ScalarSummary()("a", ms.Tensor(np.ones((2, 2)))),
    lambda: ops.ImageSummary()("a", ms.Tensor([1.0])),
])
def test_wrong_arguments_of_operators(wrong):
    with pytest.raises((TypeError, ValueError), match="Summary"):
        wrong()


# --- the callback -------------------------------------------------------------------------------


def _model(**options):
    net = nn.SequentialCell(nn.Flatten(), nn.Dense(12, 3, weight_init="zeros", bias_init="zeros"))
    optimizer = nn.Momentum(net.trainable_params(), nn.ExponentialDecayLR(0.1, 0.9, 1), 0.9)
    return Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), optimizer,
                 **options)


RNG = np.random.default_rng(0)
BATCHES = [(RNG.normal(size=(4, 3, 2, 2)).astype(np.float32), np.array([0, 1, 2, 1], np.int32))
           for _ in range(3)]


def test_a_training(tmp_path, mode):
    _model().train(2, BATCHES, callbacks=SummaryCollector(
        str(tmp_path), collect_freq=2, custom_lineage_data={"note": "first"}))
    values = _values(tmp_path)
    assert [s for s, _ in values["loss/auto"]] == [1, 2, 4, 6]
    assert abs(values["loss/auto"][0][1][2][0] - np.log(3)) < 1e-6
    rates = [v[2][0] for _, v in values["learning_rate/auto"]]
    assert np.allclose(rates, [0.1 * 0.9**s for s in (1, 2, 4, 6)], rtol=1e-5)
    assert {"1.weight/auto", "1.bias/auto", "input_data/auto"} <= set(values)
    graphs = [e[4][0] for e in _events(tmp_path) if 4 in e]
    assert len(graphs) == 1
    nodes = [_fields(n) for n in _fields(graphs[0])[1]]
    names = [n[1][0].decode() for n in nodes]
    assert len(set(names)) == len(names)
    assert any(n[2] == [b"matmul"] for n in nodes)
    assert all(i.decode() in names for n in nodes for i in n.get(3, []))
    lineage = json.loads((tmp_path / "train_lineage.json").read_text())
    assert lineage["optimizer"] == "Momentum"
    assert lineage["steps"] == 6
    assert lineage["parameters"] == 39
    assert json.loads((tmp_path / "custom_lineage_data.json").read_text()) == {"note": "first"}
    assert "float32[4,3,2,2]" in (tmp_path / "dataset_graph.json").read_text()


def test_what_is_asked_for_is_collected(tmp_path):
    _model().train(1, BATCHES, callbacks=SummaryCollector(
        str(tmp_path), collect_freq=1, keep_default_action=False,
        collect_specified_data={"histogram_regular": ".*bias"}))
    assert set(_values(tmp_path)) == {"1.bias/auto"}


def test_an_evaluation(tmp_path):
    model = _model(metrics={"acc"})
    model.eval(BATCHES, callbacks=SummaryCollector(str(tmp_path)))
    found = json.loads((tmp_path / "eval_lineage.json").read_text())
    assert set(found["metrics"]) == {"acc"}


@pytest.mark.parametrize(("make", "error"), [
    (lambda: SummaryCollector(1), TypeError),
    (lambda: SummaryCollector("x", collect_freq=0), ValueError),
    (lambda: SummaryCollector("x", collect_freq=1.5), TypeError),
    (lambda: SummaryCollector("x", collect_specified_data={"foo": 1}), ValueError),
    (lambda: SummaryCollector("x", collect_specified_data={"collect_metric": 1}), TypeError),
    (lambda: SummaryCollector("x", collect_specified_data={"collect_landscape": {}}), ValueError),
    (lambda: SummaryCollector("x", custom_lineage_data={1: 2}), TypeError),
    (lambda: SummaryCollector("x", keep_default_action=1), TypeError),
])
def test_wrong_arguments_of_the_callback(make, error):
    with pytest.raises(error, match="SummaryCollector"):
        make()


def test_one_collector_at_a_time(tmp_path):
    with pytest.raises(ValueError, match="one of them"):
        _model().train(1, BATCHES, callbacks=[SummaryCollector(str(tmp_path)),
                                              SummaryCollector(str(tmp_path))])
