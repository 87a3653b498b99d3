"""Workers of pipelines: the rows of one, in order; they work at once, and none is left behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.dataset as ds
from cellc.dataset.processes import receive, send

PROGRAMS = Path(__file__).parent / "worker_programs.py"
DOUBLED = [float(2 * i) for i in range(12)]


def program(*arguments: str, source: Path = PROGRAMS) -> Any:
    done = subprocess.run([sys.executable, str(source), *arguments], capture_output=True, text=True,
                          timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"log": done.stderr}


def gone(pid: int) -> bool:
    """Whether a process ends within seconds."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ds.config._Settings, "kept", {})


def values(data: Any) -> list[Any]:
    return [x.tolist() for (x,) in data.create_tuple_iterator(output_numpy=True, num_epochs=1)]


def numbers(count: int = 12) -> Any:
    return ds.NumpySlicesDataset({"x": np.arange(count)}, shuffle=False)


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["order", "spawned"])
def test_rows_come_in_order_from_several_processes_that_stay_for_epochs(how: str) -> None:
    found = program(how)
    assert found["values"] == [DOUBLED, DOUBLED]
    assert len(found["pids"][0]) == 3 and found["pids"][0] == found["pids"][1]
    assert found["own"] not in found["pids"][0]


def test_global_draws_follow_from_the_row_and_rows_are_writable() -> None:
    found = program("generator")
    assert found["two"] == found["three"]
    assert [r[:2] for r in found["two"]] == [[float(i)] * 2 for i in range(9)]
    assert len({r[2] for r in found["two"]}) == 9


def test_draws_of_transforms_do_not_depend_on_who_makes_the_row() -> None:
    found = program("draws")
    assert found["same"] == [True] * 3 and found["different"] > 20


def test_functions_of_batches_run_in_processes() -> None:
    assert program("batches")["values"] == [[0, 1, 2, 3, 4], [6, 7, 8, 9, 10], [12, 13]]


def test_two_processes_work_at_once(tmp_path: Path) -> None:
    assert program("meeting", str(tmp_path))["values"] == [float(i) for i in range(12)]


def test_an_error_has_the_row_and_the_users_traceback() -> None:
    found = program("failing", "raises")
    assert found["got"] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert "map operation 'raises' on column(s) ['x'] of row 5 failed: Own: five" in found["text"]
    assert 'raise Own("five")' in found["cause"] and "worker_programs.py" in found["cause"]


def test_a_killed_worker_is_an_error_within_seconds() -> None:
    found = program("failing", "killed")
    assert found["kind"] == "WorkerError" and found["seconds"] < 10
    assert "was killed by signal 9" in found["text"]
    assert found["got"] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_dropped_iterator_stops_its_workers() -> None:
    found = program("dropped")
    assert found["seconds"] < 5 and all(gone(pid) for pid in found["pids"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_who_started_it(how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, str(PROGRAMS), "waiting"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as started:
        assert started.stdout is not None and started.stderr is not None
        pids = json.loads(started.stdout.readline())["pids"]
        # Ctrl-C reaches all processes of a terminal; a kill only the one.
        (os.killpg if how is signal.SIGINT else os.kill)(started.pid, how)
        started.wait(10)
        assert all(gone(pid) for pid in pids)
        said = started.stderr.read()
    assert how is signal.SIGKILL or said.count("Traceback") == 1, said


def test_a_script_without_a_guard_keeps_to_threads_where_nothing_can_be_forked(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, json, numpy as np, cellc.dataset as ds\n"
        "ds.config.set_multiprocessing_start_method('spawn')\n"
        "data = ds.NumpySlicesDataset({'x': np.arange(4)}, shuffle=False)\n"
        "data = data.map(np.negative, num_parallel_workers=2, python_multiprocessing=True)\n"
        "print(json.dumps({'x': [int(x) for (x,) in data.create_tuple_iterator()]}))\n")
    found = program(source=script)
    assert found["x"] == [0, -1, -2, -3]
    assert "threads instead of processes" in found["log"] and "__name__" in found["log"]


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_values_come_through_sockets_and_memory_as_they_were(limit: int) -> None:
    from multiprocessing import Pipe

    value = {"a": np.arange(40_000.0).reshape(2, -1), "b": [np.array("text"), np.zeros(0)],
             "c": np.arange(30_001, dtype=np.int8)}
    here, there = Pipe()
    sender = threading.Thread(target=send, args=(here, value, limit))
    sender.start()
    found = receive(there)
    sender.join()
    assert found["a"].flags.writeable and np.array_equal(found["a"], value["a"])
    assert found["b"][0] == "text" and found["b"][1].shape == (0,)
    assert np.array_equal(found["c"], value["c"])


# --- threads --------------------------------------------------------------------------------------


def test_two_threads_work_at_once_and_rows_keep_their_order() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def function(x: Any) -> Any:
        meeting.wait()
        return x + 1

    assert values(numbers().map(function, num_parallel_workers=2)) == list(range(1, 13))


def test_the_configuration_asks_for_workers_and_debugging_for_none() -> None:
    names: set[str] = set()

    def function(x: Any) -> Any:
        names.add(threading.current_thread().name)
        return x

    ds.config.set_num_parallel_workers(2)
    values(numbers().map(function))
    assert names and threading.current_thread().name not in names
    names.clear()
    ds.config.set_debug_mode(True)
    values(numbers().map(function))
    assert names == {threading.current_thread().name}


@pytest.mark.parametrize("size", [2, 5])
def test_no_more_rows_are_made_ahead_than_are_asked_for(size: int) -> None:
    ds.config.set_prefetch_size(size)
    asked: list[int] = []

    def source() -> Any:
        for i in range(100):
            asked.append(i)
            yield np.int64(i)

    data = ds.GeneratorDataset(source, ["x"]).map(np.negative, num_parallel_workers=2)
    it = data.create_tuple_iterator(output_numpy=True)
    assert next(it)[0] == 0
    assert len(asked) == size
    next(it)
    assert len(asked) == size + 1


def test_a_generators_rows_come_from_one_thread_ahead() -> None:
    own, names = threading.current_thread().name, set()

    def source() -> Any:
        for i in range(5):
            names.add(threading.current_thread().name)
            yield np.int64(i)
        raise ValueError("the source is dry")

    data = ds.GeneratorDataset(source, ["x"], num_parallel_workers=2)
    it, got = data.create_tuple_iterator(output_numpy=True), []
    with pytest.raises(RuntimeError, match="row 5, failed: ValueError: the source is dry"):
        for (x,) in it:
            got.append(int(x))
    assert got == list(range(5)) and own not in names and len(names) == 1


@pytest.mark.parametrize("mode, wanted", [
    (ds.config.ErrorSamplesMode.SKIP, [0, 1, 3, 4, 5]),
    (ds.config.ErrorSamplesMode.REPLACE, [0, 1, 1, 3, 4, 5]),
])
def test_rows_with_errors_are_left_out_or_replaced_as_by_one_worker(
    mode: Any, wanted: list[int]
) -> None:
    def function(x: Any) -> Any:
        if x == 2:
            raise ValueError("two")
        return x

    ds.config.set_error_samples_mode(mode)
    for workers in (1, 3):
        assert values(numbers(6).map(function, num_parallel_workers=workers)) == wanted


def test_an_error_before_the_workers_comes_behind_the_rows_before_it() -> None:
    def source() -> Any:
        yield np.int64(1)
        yield np.int64(2)
        raise ValueError("no more")

    got = []
    with pytest.raises(RuntimeError, match="no more"):
        for (x,) in ds.GeneratorDataset(source, ["x"]).map(np.negative, num_parallel_workers=4) \
                .create_tuple_iterator(output_numpy=True):
            got.append(int(x))
    assert got == [-1, -2]


def test_filters_batches_and_a_dataset_beside_itself() -> None:
    data = numbers().filter(lambda x: x % 3 == 0, num_parallel_workers=3)
    assert values(data) == [0, 3, 6, 9]
    assert values(data.batch(3, num_parallel_workers=2)) == [[0, 3, 6], [9]]
    slow = numbers().map(np.negative, num_parallel_workers=2)
    both = ds.zip((slow, slow.rename("x", "y")))
    assert all(x == y for x, y in both.create_tuple_iterator(output_numpy=True))
    assert values(slow.repeat(2)) == [-i for i in range(12)] * 2


def test_bad_numbers_of_workers_and_sizes_of_rows() -> None:
    with pytest.raises(ValueError, match="num_parallel_workers"):
        numbers().map(np.negative, num_parallel_workers=0)
    with pytest.raises(TypeError, match="python_multiprocessing"):
        numbers().map(np.negative, python_multiprocessing=1)
    for size in (-2, [1], [1, 2, 3]):
        with pytest.raises(ValueError, match="max_rowsize"):
            numbers().map(np.negative, max_rowsize=size)
