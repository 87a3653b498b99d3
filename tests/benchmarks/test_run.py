"""The benchmark command runs and its tables say what they should; no time is judged here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

RUN = Path(__file__).with_name("run.py")
sys.path.insert(0, str(RUN.parent))  # the benchmark is a program, not a package

import cases  # noqa: E402
import memory  # noqa: E402
import report  # noqa: E402
import run as benchmark  # noqa: E402
from report import Figures, Result, Start  # noqa: E402


def run(*args: str, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(RUN), *args], capture_output=True, text=True,
                          check=False, timeout=timeout)


def test_both_modes_are_measured_and_agree(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = run("lenet", "tiny", "--rounds", "2", "--json", str(out), "--peers", "cellc graph",
               "cellc pynative")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^  cellc (?:graph|pynative) ", done.stdout, re.MULTILINE)) == 4
    assert "DIFFERS" not in done.stdout and "left out" not in done.stdout
    figures = report.read(out)
    for results in figures.cases.values():
        assert [r.peer for r in results] == ["cellc graph", "cellc pynative"]
        assert results[0].values == results[1].values
        for r in results:
            assert len(r.rounds) == len(r.stolen) == len(r.issued) == 2
            assert min(r.rounds) > 0 and min(r.issued) > 0
            assert r.cold is not None and r.warm is not None
            assert min(r.cold.total, r.warm.total, r.cold.memory or 0, r.warm.memory or 0) > 0
    assert figures.flops > 1e8 and figures.bandwidth > 1e8
    assert report.geomean([]) != report.geomean([])
    again = run("--report", "--json", str(out))
    assert again.returncode == 0 and "GFLOP/s" in again.stdout


def test_a_slice_that_lost_much_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that lost least counts, though it was slower; a quiet one ends the search."""
    def slices(lost: list[float]) -> tuple[float, int]:
        clock, taken, asked = [0.0], [0.0], []

        class Fake:
            def ask(self, seconds: float) -> float:
                asked.append(seconds)
                clock[0] += 1.0
                taken[0] += lost[len(asked) - 1] * benchmark.THREADS
                return float(len(asked))

        monkeypatch.setattr(benchmark.time, "perf_counter", lambda: clock[0])
        monkeypatch.setattr(benchmark, "stolen", lambda: taken[0])
        return benchmark.quiet_slice(Fake())[0], len(asked)  # type: ignore[arg-type]

    assert slices([0.0]) == (1.0, 1)
    assert slices([0.5, 0.01]) == (2.0, 2)
    assert slices([0.5, 0.4, 0.1, 0.3, 0.2]) == (3.0, 5)
    assert benchmark.stolen() >= 0


class FakeWorker:
    """Writes down when it starts, is asked and is closed."""

    events: list[str]
    process = SimpleNamespace(poll=lambda: None)

    def __init__(self, peer: str, case: str = "", folder: Path | None = None,
                 plan: benchmark.Plan | None = None) -> None:
        self.peer = peer
        self.events.append(f"{peer} starts")

    def ask(self, seconds: float) -> float:
        self.events.append(self.peer)
        return 1.0

    def close(self) -> Start:
        self.events.append(f"{self.peer} ends")
        return Start(0.1, 0.2, 0.3)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What fake workers do, in order."""
    found: list[str] = []
    monkeypatch.setattr(FakeWorker, "events", found, raising=False)
    monkeypatch.setattr(benchmark, "Worker", FakeWorker)
    monkeypatch.setattr(benchmark, "PAUSE", 0.0)
    monkeypatch.setattr(benchmark.issue, "Gauge", lambda: SimpleNamespace(each=lambda: [1.0]))
    monkeypatch.setattr(benchmark, "quiet_slice", lambda worker, wanted: (worker.ask(wanted), 0.0))
    return found


def running_peers(*peers: str) -> list[benchmark.Running]:
    return [(FakeWorker(p), Result(p), True) for p in peers]  # type: ignore[misc]


def test_turns_go_forth_and_back(events: list[str]) -> None:
    """Whoever is asked second in one round is asked first in the next."""
    running = running_peers("a", "b", "c")
    del events[:]
    benchmark.take_rounds("tiny", running, benchmark.Plan(3, False, 9.0, 9.0, ""))
    assert events == ["a", "b", "c", "c", "b", "a", "a", "b", "c"]
    assert [len(r.rounds) for _, r, _ in running] == [3, 3, 3]


def test_checkouts_start_several_times_in_turn(events: list[str], tmp_path: Path) -> None:
    """What a process gets by chance, its memory, and what it gets by starting first, is shared."""
    mine, theirs = "cellc graph", "cellc graph before"
    running = running_peers("torch eager", mine, theirs)
    plan = benchmark.Plan(2 * benchmark.STARTS, False, 9.0, 9.0, "", against=str(tmp_path))
    benchmark.take_rounds("tiny", running, plan, lambda: benchmark.replace_checkouts(
        "tiny", tmp_path, plan, running))
    starts = [e.removesuffix(" starts") for e in events if e.endswith(" starts")]
    assert starts == ["torch eager", mine, theirs, theirs, mine, mine, theirs]
    assert [e for e in events if e.endswith(" ends")] == [
        f"{p} ends" for p in (mine, theirs, theirs, mine)]
    for _, result, new in running:
        assert len(result.rounds) == plan.rounds
        assert new == (result.peer == "torch eager") == (result.cold is None)


@pytest.mark.skipif(memory.resident(0) is None, reason="only Linux says")
def test_memory_of_what_a_process_starts_is_counted() -> None:
    """Also of what that starts in turn, and no longer when it has ended."""
    held = "x = bytearray(64 << 20); x[::4096] = bytes(len(x) // 4096)\n"
    wait = "print('ready', flush=True); input()"
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held + wait!r}])"
    before = memory.resident(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and before is not None
    assert child.stdout.readline() == "ready\n"
    assert len(memory.descendants(os.getpid())) >= 2 == 1 + len(memory.descendants(child.pid))
    during = memory.resident(os.getpid())
    assert during is not None and during - before > 64
    child.communicate("\n")
    assert child.pid not in memory.descendants(os.getpid()) and not memory.descendants(child.pid)
    assert memory.highest(os.getpid()) is not None


def test_tables_show_the_memory_of_all_processes() -> None:
    found = figures()
    found.add("mlp", [Result("cellc graph", Start(0.1, 0.2, 0.3, 100.0, 250.4),
                             Start(0.1, 0.2, 0.3, 90.0), [0.010])])
    assert "| mlp | 250 / 90 |" in report.markdown(found)
    assert "250 MiB" in report.table(found, "mlp")


def test_an_unknown_case_is_refused() -> None:
    done = run("lenet6", timeout=60)
    assert done.returncode == 2
    assert "unknown case 'lenet6'" in done.stderr


@pytest.mark.parametrize("name", [n for n in cases.CASES if "gpt_decoder" not in n])
def test_a_case_is_counted_and_its_arrays_do_not_change(name: str) -> None:
    spec = cases.CASES[name].spec()
    assert spec.work > 0 and spec.bytes > 0
    one, two = cases.data(name), cases.data(name)
    assert all(np.array_equal(a, b) for a, b in zip(one.inputs, two.inputs, strict=True))
    first = [next(iter(d.weights), np.zeros(1)) for d in (one, two)]
    assert np.array_equal(*first)


def test_known_networks_have_the_known_size() -> None:
    def millions(name: str) -> float:
        return sum(float(np.prod(s)) for _, s in cases.CASES[name].spec().weights) / 1e6

    assert millions("resnet18") == pytest.approx(11.69, abs=0.01)
    assert millions("resnet50") == pytest.approx(25.56, abs=0.01)
    assert millions("mobilenet") == pytest.approx(3.50, abs=0.01)
    assert cases.CASES["resnet50"].spec().work == pytest.approx(8.18e9, rel=0.01)
    assert cases.CASES["mobilenet"].spec().work == pytest.approx(0.602e9, rel=0.01)


def figures() -> Figures:
    found = Figures(machine="a machine")
    found.see({"2": {"fma": 300.0, "read": 50.0, "copy": 40.0, "triad": 45.0}})
    start = Start(0.1, 0.2, 0.3, 100.0)
    found.add("mlp", [
        Result("cellc graph", start, start, [0.010, 0.012, 0.011], [2.0, 1.0, 0.5]),
        Result("torch eager", start, None, [0.022], [2.0, 1.0001, 0.5]),
        Result("jax", None, None, [0.033], [2.0, 1.1, 0.5]),
        Result("mindspore graph", note="left out: it failed")])
    return found


def test_tables_say_who_is_ahead_and_who_differs(tmp_path: Path) -> None:
    found = figures()
    text = report.table(found, "mlp")
    assert "best peer: torch eager, cellc is 2.00x as fast" in text
    assert re.search(r"^  jax .*RESULT DIFFERS$", text, re.MULTILINE)
    assert "left out: it failed" in text and text.count("DIFFERS") == 1
    path = tmp_path / "page.md"
    path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    report.put_markdown(found, path)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "old" not in page
    assert "| mlp | 11 ms |" in page and "| **2.00** torch |" in page and "| fails |" in page
    assert "Behind" not in page
    found.add("mlp", [Result("jax", None, None, [0.0055])])
    assert "Behind: mlp (0.50 of JAX)." in report.markdown(found)
    found.add("mlp", [Result("jax", None, None, [0.033])])
    report.put_markdown(found, path)
    assert path.read_text(encoding="utf-8") == page


def test_figures_are_put_together_from_several_runs(tmp_path: Path) -> None:
    found = figures()
    found.write(tmp_path / "figures.json")
    kept = report.read(tmp_path / "figures.json")
    assert kept == found and json.loads((tmp_path / "figures.json").read_text())["threads"] == 2
    kept.add("mlp", [Result("cellc graph", None, None, [0.005])])
    assert report.ahead(kept.cases["mlp"]) == pytest.approx(4.4)
    assert kept.cases["mlp"][0].cold == found.cases["mlp"][0].cold
    kept.see({"2": {"fma": 200.0, "read": 60.0, "copy": 30.0, "triad": 45.0}})
    assert (kept.flops, kept.bandwidth) == (300e9, 60e9)


def other(program: str, *args: str) -> str:
    """What another benchmark of this folder prints."""
    done = subprocess.run([sys.executable, RUN.with_name(program), *args], capture_output=True,
                          text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_network_at_many_sizes() -> None:
    said = other("bench_many_sizes.py", "lstm", "--rounds", "1", "--peers", "cellc graph")
    assert len(re.findall(r"^\| 16x\d+x128 \| [0-9.]+ \|", said, re.MULTILINE)) == 10


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_what_is_deployed() -> None:
    """Peers that are missing are told; the library and the artifact give the same bits."""
    said = other("bench_deployment.py", "lenet", "--rounds", "1", "--seconds", "0.01")
    rows = re.findall(r"^\| (cellc(?: C library)?) \|.*\| 0e\+00 \|$", said, re.MULTILINE)
    assert rows == ["cellc C library", "cellc"]
