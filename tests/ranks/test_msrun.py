"""`msrun`: data-parallel scripts of MindSpore's tutorials' form, its logs, failures and options."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc.cli import launching, worker

SCRIPT = """
import os, sys
import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn
from mindspore.communication import init, get_rank, get_group_size

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
init()
ms.set_seed(1)
assert (os.environ["RANK_ID"], os.environ["RANK_SIZE"]) == (str(get_rank()), "2")
images = ds.MnistDataset(os.getenv("DATA_PATH"), num_shards=get_group_size(), shard_id=get_rank())
images = images.map([ds.vision.Rescale(1.0 / 255.0, 0), ds.vision.HWC2CHW()], "image")
images = images.map(ds.transforms.TypeCast(ms.int32), "label").batch(8)
net = nn.SequentialCell(nn.Flatten(), nn.Dense(784, 10, weight_init="normal"))
loss, optimizer = nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 1e-2)

def forward(x, y):
    logits = net(x)
    return loss(logits, y), logits

step = ms.value_and_grad(forward, None, net.trainable_params(), has_aux=True)
reduce = nn.DistributedGradReducer(optimizer.parameters)
for epoch in range(3):
    for x, y in images:
        (value, _), grads = step(x, y)
        optimizer(reduce(grads))
        if sys.argv[1:] == ["fail"] and get_rank() == 1:
            raise ValueError("of rank 1")
    print("epoch", epoch, "loss", value, flush=True)
print("weights", float(abs(net[1].weight).sum()), "threads", os.environ["CELLC_NUM_THREADS"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script and a few digits in MNIST's form."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    if not (Path(sys.executable).parent / "mpirun").exists():
        pytest.skip("no mpirun beside this Python")
    draw = np.random.RandomState(0)
    labels = draw.randint(0, 10, 48).astype(np.uint8)
    images = draw.randint(0, 99, (48, 28, 28)).astype(np.uint8)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 2051, 48, 28, 28) + images.tobytes())
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 2049, 48) + labels.tobytes())
    (tmp_path / "net.py").write_text(SCRIPT)
    return tmp_path


def msrun(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from cellc.cli.launching import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, "--worker_num=2", "--local_worker_num=2", "--log_dir=logs",
         *args], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "DATA_PATH": str(folder)})


def weights(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith("weights")}


def test_a_tutorial_trains(folder: Path, mpirun: Any) -> None:
    """By msrun, which logs each worker, and by mpirun of `cellc run`, to the same weights."""
    done = msrun(folder, "--join=True", "--tail_worker_log=1", "--bind_core=True", "net.py")
    assert done.returncode == 0, done.stderr
    logs = [(folder / "logs" / f"worker_{i}.log").read_text() for i in range(2)]
    assert all(log.count("epoch") == 3 for log in logs)
    assert done.stdout.endswith(logs[1]) and logs[0] not in done.stdout
    assert (folder / "logs" / "scheduler.log").exists()
    script = f"""
import sys; from cellc.cli import main
sys.exit(main(["run", {str(folder / "net.py")!r}]))
"""
    by_mpi = mpirun(2, script, DATA_PATH=str(folder))
    assert by_mpi.returncode == 0, by_mpi.stderr
    found = {line.split(" threads")[0] for text in (*logs, by_mpi.stdout) for line in weights(text)}
    assert len(found) == 1


def test_a_worker_that_fails_ends_the_job(folder: Path) -> None:
    start = time.monotonic()
    done = msrun(folder, "--join=True", "net.py", "fail")
    assert done.returncode == 1 and time.monotonic() - start < 60
    assert "msrun: worker 1, the end of" in done.stderr
    assert "rank 1: ValueError: of rank 1" in done.stderr


def test_without_join_it_returns_at_once(folder: Path) -> None:
    (folder / "wait.py").write_text("import time; time.sleep(1.0); open('done', 'a').write('x')\n")
    done = msrun(folder, "wait.py")
    assert done.returncode == 0 and not (folder / "done").exists()
    end = time.monotonic() + 60
    while not (folder / "done").exists() or (folder / "done").read_text() != "xx":
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(("args", "said"), [
    (["--worker_num=0"], "--worker_num must be greater than 0"),
    (["--worker_num=2"], "--local_worker_num=8 is more than --worker_num=2"),
    (["--worker_num=16"], "mpirun -n 16 -H HOST1:8,HOST2:8 cellc run net.py"),
    (["--master_addr=10.255.255.1"], "another machine"),
    (["--bind_numa=True"], "--bind_core"),
    (["--sim_level=1"], "cellc plan"),
    (["--tail_worker_log=0,8"], "numbers of workers, 0 to 7"),
])
def test_options_that_cannot_be_followed(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launching.main([*args, "net.py"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["yes", '{"gpu0": ["0"]}', '{"device0": "0-1"}',
                                  '{"device0": ["0-"]}'])
def test_wrong_processors(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        launching.parser().parse_args(["--bind_core", text, "net.py"])
    assert "expected True, False or" in capsys.readouterr().err


def test_processors_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(10, 18)))
    assert launching._bound(False, 2) is None
    assert launching._bound(True, 3) == [[10, 11], [12, 13], [14, 15]]
    chosen = launching.parser().parse_args(
        ["--bind_core", json.dumps({"device0": ["10-12", "14"], "device1": ["16, 17"]}), "net.py"])
    assert launching._bound(chosen.bind_core, 3) == [[10, 11, 12, 14], [16, 17], []]
    with pytest.raises(launching.UserError, match=r"may not use the processors \[3\]"):
        launching._bound({"device0": ["3"]}, 1)


def test_what_a_worker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(worker, "run_script", lambda *given: ran.append(given))
    monkeypatch.setattr(worker, "run_module", lambda *given: ran.append(given))
    for command in (["a.py", "1"], ["python", "a.py", "1"], ["python3", "-m", "a", "1"],
                    ["pytest", "-s", "a.py"]):
        worker._run(command[0], command[1:])
    assert ran == [("a.py", ["1"]), ("a.py", ["1"]), ("a", ["1"]), ("pytest", ["-s", "a.py"])]
    with pytest.raises(worker.UserError, match=r"expected python SCRIPT\.py"):
        worker._run("python", ["-c", "1"])
    for name in worker._RANK:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="MPI gave this worker no rank"):
        worker.main([str(tmp_path / "log"), "null", "a.py"])


def test_a_process_that_waits_too_long_for_others_ends() -> None:
    code = ("import time\nfrom cellc.ranks import groups\n"
            "with groups._patient('init'): time.sleep(30)\n")
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "MS_TOPO_TIMEOUT": "1"}, timeout=60)
    assert done.returncode != 0 and "after 1 s (--cluster_time_out) not all" in done.stderr
    assert time.monotonic() - start < 25
