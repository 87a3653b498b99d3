"""Profiles: what is recorded, the table, the timeline and the command."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import cli, nn, ops
from cellc.tools.profiling import KEYS, Event, Profile


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(256, 512)
        self.seen = ms.Parameter(np.zeros((), np.float32), name="seen")

    def construct(self, x):
        h = ops.relu(self.dense(x))
        self.seen = self.seen + 1.0
        return ops.softmax(h)


def loop(x, n):
    total = x
    while n > 0:
        total = ops.tanh(ops.matmul(total, x))
        n = n - 1
    return total


@pytest.fixture(scope="module")
def found() -> Profile:
    return ms.profile(Net(), ms.Tensor(np.ones((512, 256), np.float32)), runs=3)


def test_every_kernel_is_timed_in_every_call(found: Profile) -> None:
    assert len(found.calls) == len(found.seconds) == 3
    for events, total in zip(found.calls, found.seconds, strict=True):
        whole = [e for e in events if e.task < 0]
        assert sorted(e.site for e in whole) == list(range(len(found.sites)))
        assert all(e.end >= e.start for e in events)
        ordered = sorted(whole, key=lambda e: e.site)
        assert all(a.end <= b.start for a, b in pairwise(ordered))
        assert sum(e.end - e.start for e in whole) <= 1.5e9 * total


def test_each_task_of_a_parallel_kernel_is_recorded_once(found: Profile) -> None:
    parallel = {e.site for e in found.calls[0] if e.task >= 0}
    assert parallel
    for number in parallel:
        tasks = sorted(e.task for e in found.calls[0] if e.site == number and e.task >= 0)
        assert tasks == list(range(found.sites[number].tasks))


def test_sites_know_their_work_and_their_line(found: Profile) -> None:
    (product,) = (s for s in found.sites if s.label.startswith("matmul") and s.flops)
    assert product.flops == 2 * 512 * 256 * 512
    assert product.family == "gemm" and product.scope == "dense"
    assert Path(product.span.file).name == Path(__file__).name
    softmax = next(s for s in found.sites if "exp" in s.label)
    assert softmax.family == "nest" and softmax.nbytes >= 2 * 512 * 512 * 4


class Shared(nn.Cell):
    """Two products of one right operand that changes with every call: it is packed once."""

    def construct(self, x, y, w):
        return ops.relu(ops.matmul(x, w)), ops.tanh(ops.matmul(y, w))


class Turned(nn.Cell):
    """A loop of products whose right operand the loop does not change: packed before it."""

    def construct(self, x, w, n):
        while n > 0:
            x = ops.tanh(ops.matmul(x, w))
            n = n - 1
        return x


@pytest.mark.parametrize("rows", [1, 3, 160])
def test_packing_counts_no_operations(rows: int) -> None:
    x, w = np.ones((rows, 192), np.float32), ms.Tensor(np.ones((192, 192), np.float32))
    found = ms.profile(Shared(), ms.Tensor(x), ms.Tensor(2 * x), w, runs=1)
    assert sum(s.flops for s in found.sites) == 2 * 2 * rows * 192 * 192
    looped = ms.profile(Turned(), ms.Tensor(x), w, ms.Tensor(3), runs=1)
    products = [s for s in looped.sites if s.flops]
    assert [s.flops for s in products] == [2 * rows * 192 * 192]
    assert not any("part" in s.label for s in products)


def test_rows_add_up_however_they_are_grouped(found: Profile) -> None:
    totals = [sum(r.count for r in found.rows(by)) for by in KEYS]
    assert set(totals) == {len(found.sites)}
    rows = found.rows("op")
    assert [r.seconds for r in rows] == sorted((r.seconds for r in rows), reverse=True)
    with pytest.raises(ValueError, match="profiles are by call, op"):
        found.rows("moon")


def test_profiling_leaves_parameters_alone() -> None:
    net = Net()
    ms.profile(net, ms.Tensor(np.ones((2, 256), np.float32)), runs=2)
    assert net.seen.asnumpy() == 0


def test_the_table_shows_the_network(found: Profile) -> None:
    text = str(found)
    assert "matmul" in text and "GFLOP/s" in text and "test_profile.py" in text
    assert "Temporaries" in text and "█" in text


def test_kernels_in_a_loop_are_counted_each_time() -> None:
    x = ms.Tensor(np.eye(8, dtype=np.float32))
    n = ms.Tensor(np.int32(5))
    found = ms.profile(loop, x, n, runs=2)
    # The product and the subtraction run in each trip; packing the product's weights runs once.
    counts = {r.key[0]: r.count for r in found.rows("op")}
    assert counts["sub"] == 5
    assert counts["matmul+tanh"] == 5
    assert counts["matmul+tanh (part)"] == 1
    assert sum("matmul" in site.label for site in found.sites) == 2


def test_a_program_without_kernels_has_an_empty_profile() -> None:
    found = ms.profile(lambda x: ops.reshape(x, (4,)), ms.Tensor(np.ones((2, 2), np.float32)),
                       runs=1)
    assert isinstance(str(found), str)


def test_runs_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        ms.profile(Net(), ms.Tensor(np.ones((2, 256), np.float32)), runs=0)


def test_the_timeline_is_in_the_trace_event_format(found: Profile, tmp_path: Path) -> None:
    found.save_trace(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    events = document["traceEvents"]
    assert {"M", "X", "C"} == {e["ph"] for e in events}
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"calls", "kernels", "thread 0"} <= names
    calls = [e for e in events if e.get("cat") == "call"]
    assert len(calls) == len(found.calls)
    for call, recorded in zip(calls, found.calls, strict=True):
        inside = [e for e in events if e.get("cat") == "kernel"
                  and call["ts"] <= e["ts"] and e["ts"] + e["dur"] <= call["ts"] + call["dur"] + 1]
        assert len(inside) == len(recorded)
    assert all(a["ts"] + a["dur"] < b["ts"] for a, b in pairwise(calls))
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in events if e["ph"] == "X")


def test_what_is_outside_of_kernels(found: Profile) -> None:
    """Calls of 100 us: kernels from 10 to 40 and from 60 to 90, or over one another."""
    def call(*spans: tuple[int, int]) -> list[Event]:
        return [Event(0, -1, a * 1e3, b * 1e3, 0) for a, b in spans]

    made = Profile("n", found.sites, [call((10, 40), (60, 90)), call((10, 80), (20, 40), (85, 90))],
                   [100e-6, 100e-6], 1, 0, [])
    assert made.outside() == pytest.approx((20e-6, 12.5e-6))
    assert "outside of kernels: 20 us to enter" in str(made) and "12.5 us between" in str(made)
    ends, gaps = found.outside()
    assert ends > 0 and gaps >= 0


NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(16, 4)

    def construct(self, x):
        return ops.relu(self.dense(x))

def train(net):
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params()))
'''


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.py"
    file.write_text(NETWORK)
    where = tmp_path / "t.json"
    status = cli.main(["profile", f"{file}:Net", "--input", "x=float32[8,16]", "--runs", "2",
                       "--trace", str(where), "--csv", str(tmp_path / "p.csv"), "--json",
                       str(tmp_path / "p.json"), "--limit", "1"])
    assert status == 0
    out = capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    told = json.loads((tmp_path / "p.json").read_text())
    assert [float(r["seconds"]) for r in rows] == [r["seconds"] for r in told["rows"]]
    assert {"op", "kernel", "cell", "line", "calls", "flops", "bytes", "busy"} < set(rows[0])
    assert any("matmul" in r["op"] and r["line"].startswith("net.py:") for r in rows)
    assert told["name"] == "Net" and told["entering_seconds"] > 0 and len(told["calls"]) == 2
    assert "matmul" in out and "net.py" in out and str(where) in out
    assert json.loads(where.read_text())["traceEvents"]
    status = cli.main(["profile", f"{file}:Net", "--train", "train", "--by", "cell", "--runs", "1",
                       "--input", "x=float32[8,16]", "--input", "label=float32[8,4]"])
    assert status == 0 and "optimizer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "text"),
    [(["--runs", "0"], "must be positive"), (["--train", "nothing"], "no function 'nothing'"),
     (["--trace", "/no/such/folder/t.json"], "cannot be written")],
)
def test_wrong_usage(
    args: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.py"
    file.write_text(NETWORK)
    assert cli.main(["profile", f"{file}:Net", "--input", "x=float32[8,16]", *args]) == 2
    assert text in capsys.readouterr().err
