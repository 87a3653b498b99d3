"""Networks of the frontend on the device over libcuda, whose driver is the stand-in.

Kernels are real cubins that do nothing, so values are no matter: what is asked of the driver is.
Each program runs in a process of its own, which opens its GPUs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.build import ptxas
from cellc_runtime import device

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(ptxas.find() is None, reason="such a machine has no ptxas")
BEGIN = """
import gc, json, sys
sys.path[:0] = [{root!r}, {samples!r}]
from cellc_runtime.cuda import driver
from tests.cuda.fake_driver import FakeDriver
fake = FakeDriver(devices=2, memory={memory})
driver.load = lambda: driver.Driver(fake)
import numpy as np
import cellc as ms
from cellc import ops
import lenet
ms.set_context(device_target="GPU", mode=ms.GRAPH_MODE)
"""


def told(text: str, memory: int = 1 << 30) -> Any:
    """What a program prints last, as JSON."""
    begin = BEGIN.format(root=str(ROOT), samples=str(ROOT / "samples"), memory=memory)
    done = subprocess.run([sys.executable, "-c", begin + text], capture_output=True, text=True,
                          check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_each_process_of_a_machine_has_a_gpu_of_its_own() -> None:
    """Unless it chooses one: that of its number, as its launcher says it or as ranks have met."""
    said = told("""
import os
from cellc.testing.ranks import run_ranks
from cellc_runtime import device
os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = "3"
ms.set_device("GPU")
chosen = [ms.get_context("device_id")]
for number in (0, 1):
    ms.set_device("GPU", number)
    chosen.append(ms.get_context("device_id"))
ms.set_context(device_target="CPU")
ms.set_context(device_target="GPU", device_id=0)
chosen.append(ms.get_context("device_id"))
print(json.dumps([chosen, run_ranks(4, lambda rank: device.own_gpu())]))
""")
    assert said == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_a_process_opens_no_gpu_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELLC_GPU", raising=False)
    monkeypatch.setattr("cellc_runtime.cuda.device.device_count", lambda: 4)
    monkeypatch.setattr("cellc_runtime.cuda.device.open_device", lambda number: 1 / 0)
    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "6")
            assert device.own_gpu() == 2
    assert device.own_gpu() == 0


def test_inference_is_one_graph_launch() -> None:
    """Once addresses come back: what is asked of the driver by a call is next to nothing."""
    asked = told("""
net = lenet.LeNet5().set_train(False)
x = lenet.make_input(4)[0].move_to("GPU")
for _ in range(6):
    y = net(x)
before = len(fake.log)
y = net(x)
print(json.dumps(fake.log[before:]))
""")
    assert [name for name in asked if name != "cuCtxSetCurrent"] == ["cuGraphLaunch"]


@pytest.mark.parametrize("network", [
    "lenet.LeNet5(), lenet, {'n': 4}",
    "gpt.GPT(vocabulary=40, context=12, width=32, depth=2, heads=2), gpt, "
    "{'n': 2, 'steps': 10, 'vocabulary': 40}",
])  # fmt: skip
def test_a_training_step_is_one_graph_launch(network: str) -> None:
    """Labels and positions are checked in it; nothing else is asked of the driver."""
    asked = told(f"""
import gpt
net, sample, sizes = {network}
step = sample.train_step(net)
batch = [x.move_to("GPU") for x in sample.make_batch(**sizes)]
for _ in range(8):
    loss = step(*batch)
before = len(fake.log)
loss = step(*batch)
print(json.dumps(fake.log[before:]))
""")
    assert [name for name in asked if name != "cuCtxSetCurrent"] == ["cuGraphLaunch"]


def test_a_step_stays_on_the_device() -> None:
    """Parameters and state do not travel, memory does not grow, in both modes."""
    for mode in ("GRAPH_MODE", "PYNATIVE_MODE"):
        before, after = told(f"""
ms.set_context(mode=ms.{mode})
net = lenet.LeNet5()
step = lenet.train_step(net)
batch = [x.move_to("GPU") for x in lenet.make_batch(4)]
seen = []
for i in range(8):
    loss = step(*batch)
    if i in (4, 7):
        gc.collect()  # so that it does not collect between the two looks alone
        copies = fake.log.count("cuMemcpyHtoDAsync_v2"), fake.log.count("cuMemcpyDtoHAsync_v2")
        seen.append([*copies, ms.hal.memory_allocated(), fake.log.count("cuModuleLoadDataEx"),
                     fake.log.count("cuMemAlloc_v2"), str(net.fc1.weight.device)])
print(json.dumps(seen))
""")
        read = after.pop(1) - before.pop(1)
        assert read == 0, f"{mode}: labels are looked at where they are"
        assert before == after, mode
        assert after[-1] == "GPU:0"


def test_events_streams_and_memory() -> None:
    facts = told("""
start, end = ms.hal.Event(enable_timing=True), ms.hal.Event(enable_timing=True)
start.record()
x = ms.Tensor(np.ones((64, 64), np.float32)).move_to("GPU")
y = ops.softmax(x)
end.record()
end.synchronize()
print(json.dumps([start.elapsed_time(end) >= 0, ms.hal.device_count(), ms.hal.get_device_name(1),
                  ms.hal.memory_allocated() >= 2 * 64 * 64 * 4,
                  ms.hal.max_memory_allocated() <= ms.runtime.memory_reserved()]))
""")
    assert facts == [True, 2, "Fake GPU", True, True]


def test_no_memory() -> None:
    said = told("""
try:
    x = ms.Tensor(np.ones(3 << 20, np.float32)).move_to("GPU")
except MemoryError as error:
    print(json.dumps(str(error)))
""", memory=8 << 20)
    assert "12.0 MiB" in said and "8.0 MiB are free" in said and "batches smaller" in said


def test_a_kernel_that_breaks() -> None:
    """The tensor that is read says so; what is on the host is as it was."""
    said = told("""
x = ms.Tensor(np.ones((8, 8), np.float32))
y = ms.jit(lambda x: ops.tanh(x) + 1)
fake.fails["cuEventSynchronize"] = [700]
try:
    y(x).asnumpy()
except RuntimeError as error:
    print(json.dumps([str(error), float(x.asnumpy().sum())]))
""")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said[0] and "launched since the last wait" in said[0]
    assert said[1] == 64.0


def test_a_profile_is_by_kernel() -> None:
    """Times of events around each launch, which are there once the stream is done."""
    text, total, rows, launches, graphs = told("""
net = lenet.LeNet5().set_train(False)
x = lenet.make_input(4)[0].move_to("GPU")
before = len(fake.log)
found = ms.profile(net, x, runs=3)
asked = fake.log[before:]
rows = found.rows()
print(json.dumps([repr(found), sum(r.count for r in rows), len(rows),
                  asked.count("cuLaunchKernel"), asked.count("cuGraphLaunch")]))
""")
    assert "on Fake GPU (cuda-sm_90a)" in text and "by events" in text and "conv2d" in text
    assert total >= rows > 3
    assert launches >= 5 * total
    assert not graphs


def test_what_a_profile_of_a_gpu_has_not() -> None:
    said = told("""
from cellc.tools import profiling
net = lenet.LeNet5().set_train(False)
found = ms.profile(net, lenet.make_input(4)[0].move_to("GPU"), runs=1)
said = []
for ask in (lambda: found.rows("cell"), lambda: found.save_trace("t.json"),
            lambda: profiling.profile_traced(None, [], 1)):
    try:
        ask()
    except (ValueError, RuntimeError) as e:
        said.append(str(e))
print(json.dumps(said))
""")
    assert ["by kernel, not 'cell'" in said[0], "no timeline" in said[1],
            "the device in use is a GPU" in said[2]] == [True] * 3


def test_an_emulated_gpu_has_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLC_GPU", "emulated")
    ms.set_device("GPU")
    try:
        with pytest.raises(RuntimeError, match="'emulated' takes no times of kernels: profile on"):
            ms.profile(ops.tanh, ms.Tensor([1.0]), runs=1)
    finally:
        ms.set_device("CPU")
