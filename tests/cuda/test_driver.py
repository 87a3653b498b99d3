"""The driver: versions, what is missing, results as exceptions, a lost device, a fork."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import warnings

import pytest

from cellc_runtime import platform
from cellc_runtime.cuda import driver as cuda
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import CudaError, DeviceLost, Driver, NoDevice

from .fake_driver import FakeDriver


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Driver(FakeDriver(version=13010)).version == 13010
    monkeypatch.setattr(platform, "gpu_driver_version", lambda: "525.60.13")
    said = r"NVIDIA's driver 525.60.13 serves CUDA 12.0; programs of cellc need CUDA 12.3: install"
    with pytest.raises(NoDevice, match=said):
        Driver(FakeDriver(version=12000))


def test_an_old_library_lacks_functions() -> None:
    said = r"has no cuGraphExecUpdate_v2: it is older than CUDA 12.3"
    with pytest.raises(NoDevice, match=said):
        Driver(FakeDriver(missing=["cuGraphExecUpdate_v2"]))


def test_no_gpu() -> None:
    said = r"(?s)no GPU to use: cuInit: CUDA_ERROR_NO_DEVICE.*hides it"
    with pytest.raises(NoDevice, match=said):
        Driver(FakeDriver(devices=0))
    with pytest.raises(NoDevice, match="no GPU 1: the driver shows 1, numbered from 0"):
        CudaDevice(Driver(FakeDriver()), 1)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "gpu_driver", lambda: "libcuda-that-is-not-there.so.1")
    with pytest.raises(NoDevice, match=r"libcuda-that-is-not-there.*CELLC_GPU=emulated"):
        cuda.load()


def test_results_are_exceptions() -> None:
    fake = FakeDriver()
    driver = Driver(fake)
    fake.fails["cuCtxSetCurrent"] = [1, 4711]
    with pytest.raises(CudaError, match=r"cuCtxSetCurrent: CUDA_ERROR_INVALID_VALUE \(invalid va"):
        driver.call("cuCtxSetCurrent", 7)
    with pytest.raises(CudaError, match="CUresult 4711") as raised:
        driver.call("cuCtxSetCurrent", 7)
    assert raised.value.code == 4711 and driver.lost is None


def test_a_lost_device_stays_lost() -> None:
    fake = FakeDriver()
    device = CudaDevice(Driver(fake))
    fake.fails["cuStreamSynchronize"] = [719]
    with pytest.raises(DeviceLost, match="CUDA_ERROR_LAUNCH_FAILED") as first:
        device.wait()
    assert "tensors of the host are as they were" in str(first.value)
    calls = len(fake.log)
    for act in (device.wait, lambda: device.allocate(8), lambda: device.copy(0, b"abc"),
                device.stream, device.event, device.check_usable):
        with pytest.raises(DeviceLost, match="CUDA_ERROR_LAUNCH_FAILED"):
            act()
    assert len(fake.log) == calls, "the driver is left alone"
    assert device.statistics().free == 0


def test_a_context_is_needed_in_each_thread() -> None:
    """The stand-in refuses calls of a thread without one: `use` is not forgotten."""
    fake = FakeDriver()
    driver = Driver(fake)
    with pytest.raises(CudaError, match="INVALID_CONTEXT"):
        driver.handle("cuStreamCreate", 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_fork_is_refused() -> None:
    device = CudaDevice(Driver(FakeDriver()))
    memory = device.allocate(1024)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads
        child = os.fork()
    if not child:
        status = 3
        try:
            device.wait()
        except CudaError as error:
            status = 0 if "spawn" in str(error) else 2
        del memory
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    device.wait()


AT_EXIT = """
import ctypes, sys
sys.path.insert(0, {path!r})
from tests.cuda.fake_driver import FakeDriver
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
fake = FakeDriver()
device = CudaDevice(Driver(fake))
held = [device.allocate(1 << 20), device.event(True), device.stream()]
held.append(held)
device.copy(held[0].address, bytes(1 << 20))
print("done")
"""


def test_the_interpreter_ends_quietly() -> None:
    """Memory, events and streams that live to the end are no matter of the driver any more."""
    from pathlib import Path

    text = AT_EXIT.format(path=str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_addresses_are_those_of_the_functions() -> None:
    """Compiled code calls what `address` says."""
    fake = FakeDriver(version=13000)
    at = Driver(fake).address("cuDriverGetVersion")
    out = ctypes.c_int()
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(at)(ctypes.addressof(out)) == 0
    assert out.value == 13000
