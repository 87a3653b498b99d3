"""The command for a machine with a GPU: lost rows, the table, and a dry run of all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from . import device_cases, device_ranks, device_table, on_device

HERE = Path(__file__).parent
BROKEN = """
import json, os, sys, time
for line in sys.stdin:
    case = json.loads(line)["case"]
    if case == "crashes":
        os.kill(os.getpid(), 11)
    if case == "hangs":
        time.sleep(60)
    row = {"status": "failed", "said": "gone", "lost": True} if case == "loses" else \\
        {"status": "same", "said": str(os.getpid())}
    print(json.dumps(row), flush=True)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> on_device.Run:
    """A run whose processes fail as they are told."""
    script = tmp_path / "worker.py"
    script.write_text(BROKEN)
    monkeypatch.setattr(on_device, "SCRIPT", script)
    return on_device.Run(True, time.monotonic() + 60, dict(os.environ), tmp_path / "log")


def test_a_case_that_crashes_or_hangs_loses_its_row_alone(run: on_device.Run) -> None:
    worker = on_device.Worker(run, "bits")
    first = worker.ask("fine", 20)
    assert worker.ask("fine", 20) == first, "one process does many"
    assert worker.ask("crashes", 20) == {"status": "crashed", "said": "the process ended with -11"}
    after = worker.ask("fine", 20)
    assert after["status"] == "same" and after != first
    assert worker.ask("hangs", 1)["status"] == "hung"
    assert worker.ask("fine", 20)["status"] == "same"
    lost = worker.ask("loses", 20)
    again = worker.ask("fine", 20)
    assert lost["lost"] and again["status"] == "same", "a lost device is not used again"
    worker.close()


def test_rows_that_no_time_is_left_for(run: on_device.Run, capsys: pytest.CaptureFixture[str]
                                       ) -> None:
    args = on_device.arguments(["--out", "x", "--jobs", "2"])
    on_device.check_bits(run, ["a", "crashes", "b"], [], args, time.monotonic() + 30)
    assert {n: r["status"] for n, r in run.rows["bits"].items()} == {
        "a": "same", "crashes": "crashed", "b": "same"}
    assert list(run.rows["bits"]) == ["a", "crashes", "b"]
    on_device.check_bits(run, ["late"], [], args, time.monotonic() - 1)
    assert run.rows["bits"]["late"]["status"] == "not run"
    run.deadline = time.monotonic() + 5
    on_device.time_cases(run, ["x"], ["torch"])
    assert run.rows["speed"]["x"] == {"status": "not run", "said": "no time was left"}


FOUND: dict[str, Any] = {
    "dry": False, "machine": {"GPU": "one"}, "rows": {
        "bits": {"op add": {"status": "same", "compared": 9, "near": 2},
                 "op exp": {"status": "differs", "compared": 3, "differ": ["x | y: by 1e-7"]},
                 "net lenet": {"status": "crashed", "said": "the process ended with -11"}},
        "ranks": {"messages": {"status": "same", "compared": 8, "graphs": 4}},
        "sanitizer": {"memcheck op add": {"status": "clean"}},
        "speed": {
            "product": {"status": "measured", "ms": {"cellc": 2.0, "torch eager": 1.0, "JAX": 4.0},
                        "said": {"torch.compile": "RuntimeError: no"}, "flops": 2e12, "nbytes": 0,
                        "apart": {"torch eager": 1e-6}},
            "softmax": {"status": "failed", "ms": {"torch eager": 0.5},
                        "said": {"cellc": "CudaError: a | b"}, "flops": 0, "nbytes": 8e8}}}}


def test_the_table() -> None:
    text = device_table.markdown(FOUND)
    assert "| ops | 2 | 1 | 12 | 2 | 1 | 0 |" in text
    assert "| networks | 1 | 0 | 0 | 0 | 0 | 1 |" in text
    assert "| messages | same | 8 | 4 |" in text
    assert "| op exp | differs: x / y: by 1e-7 |" in text
    assert "| product | 2.00 ms | 1000.0 TFLOP/s | 0.50 | failed | 2.00 | 1e-06 |" in text
    assert "| softmax | failed: cellc: CudaError: a / b |  | 500.0 us | - | - |  |" in text
    assert [f.split(":")[1].strip() for f in device_table.failures(FOUND)] == [
        "op exp", "net lenet", "softmax"]


def test_what_ranks_say() -> None:
    """A row needs both of them, and their status."""
    lines = [json.dumps({"rank": r, "compared": 3, "graphs": 1, "differ": ["x"] * (r == 1)})
             for r in range(2)]
    assert device_ranks.merged("\n".join(["noise", *lines]), 0) == {
        "status": "differs", "differ": ["rank 1: x"], "compared": 6, "graphs": 2}
    assert device_ranks.merged(lines[0] + "\n" + lines[0], 0)["status"] == "same"
    assert device_ranks.merged(lines[0], 0)["status"] == "failed"
    assert device_ranks.merged("\n".join(lines), 1)["status"] == "failed"


def test_differences() -> None:
    """To the bit; of 16-bit products as far as a sum in another order may be."""
    done = subprocess.run([sys.executable, "-c", DIFFERENCES.format(here=str(HERE))],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


DIFFERENCES = """
import sys
sys.path[:0] = [{here!r}]
import device_worker
import device_bits as d
import numpy as np
one = np.array([1.0, 2.0], np.float32)
def row(got, want, what="x"):
    return d._judged(iter([(what, [got], [want])]), d._product_slack)
assert row(one, one.copy())["status"] == "same"
assert row(one, np.nextafter(one, 3.0).astype(np.float32))["status"] == "differs"
assert row(np.array([0.0]), np.array([-0.0]))["status"] == "differs"
assert row(np.array([np.nan]), np.array([np.nan]))["status"] == "same"
assert row(np.array([np.nan, 1.0]), np.array([1.0, 1.0]))["status"] == "differs"
low = one.astype(np.float16)
off = (low * np.float16(1.001)).astype(np.float16)
product = "matmul(float16[2], float16[2])"
assert row(low, off)["status"] == "differs"
assert row(low, off, product)["status"] == "same" and row(low, off, product)["near"] == 1
assert row(low, low + 1, product)["status"] == "differs"
assert row(low, off, "exp(float16[2])")["status"] == "differs"
"""


def test_the_page_has_marks() -> None:
    page = f"before\n{device_table.BEGIN}\nold\n{device_table.END}\nafter\n"
    new = device_table.insert(page, "table")
    assert new == f"before\n{device_table.BEGIN}\n\ntable\n{device_table.END}\nafter\n"
    assert device_table.insert(new, "table") == new
    with pytest.raises(ValueError, match="lacks"):
        device_table.insert("no marks", "table")
    docs = (HERE.parents[1] / "docs" / "cuda.md").read_text()
    assert device_table.insert(docs, "table") != docs


def test_cases() -> None:
    """Every kind of work that the issue names is there, in the types it names."""
    kinds = {c.kind for c in device_cases.CASES.values()}
    assert kinds == {"launch", "chain", "softmax", "layernorm", "product", "attention", "conv",
                     "lenet", "gpt", "resnet50"}
    product = device_cases.CASES["product 4096x4096x4096 bfloat16"]
    assert product.flops() == 2 * 4096**3
    for case in device_cases.CASES.values():
        if case.kind not in on_device.STEPS:
            assert all(a.size for a in device_cases.inputs(case.small()))


def test_without_a_gpu_it_says_why(tmp_path: Path) -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("such a machine has a GPU")
    done = subprocess.run(
        [sys.executable, str(HERE / "on_device.py"), "--out", str(tmp_path), "--minutes", "1"],
        capture_output=True, text=True, check=False, timeout=120,
        env={k: v for k, v in os.environ.items() if k != "CELLC_GPU"})
    assert done.returncode == 1 and "libcuda" in done.stderr, done.stderr


def test_a_dry_run(tmp_path: Path) -> None:
    """All of it on an emulated GPU, peers left out: some seconds."""
    done = subprocess.run(
        [sys.executable, str(HERE / "on_device.py"), "--dry", "--out", str(tmp_path),
         "--jobs", "1"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "on_device.json").read_text())
    assert {r["status"] for r in found["rows"]["bits"].values()} == {"same"}
    assert set(found["rows"]["bits"]) == set(on_device.DRY_BITS)
    if "all" not in found["rows"]["ranks"]:  # there is mpirun
        assert [(n, r["status"]) for n, r in found["rows"]["ranks"].items()] == [
            (n, "same") for n in on_device.DRY_RANKS]
    speed = found["rows"]["speed"]
    assert len(speed) >= len(on_device.DRY_SPEED)
    assert all(row["ms"]["cellc"] > 0 for row in speed.values())
    assert "emulated" in (tmp_path / "on_device.md").read_text()
