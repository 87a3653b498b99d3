"""The context beyond the recorded facts: nothing is set by a wrong call, devices, threads."""

from __future__ import annotations

import re
from typing import Any

import pytest

import cellc as ms
from cellc import options
from cellc.device_context import ascend, cpu, gpu


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [({"max_call_depth": 5, "nonsense": 1}, ValueError,
      "the keyword argument 'nonsense' is not recognized; expected one of"),
     ({"max_call_depth": 5, "mode": 7}, ValueError,
      "'mode' must be GRAPH_MODE (0) or PYNATIVE_MODE (1), but got 7"),
     ({"mode": "graph"}, TypeError,
      "'mode' must be GRAPH_MODE (0) or PYNATIVE_MODE (1), but got str 'graph'"),
     ({"mod": 0}, ValueError, "'mod' is not recognized, did you mean 'mode'; expected one of"),
     ({"max_call_depth": 5, "device_target": "GPU"}, RuntimeError, "device_target='GPU'")],
)
def test_a_wrong_call_sets_nothing(wrong: Any, error: type[Exception], text: str) -> None:
    before = ms.get_context("max_call_depth")
    with pytest.raises(error, match=re.escape(text)):
        ms.set_context(**wrong)
    assert ms.get_context("max_call_depth") == before


@pytest.mark.parametrize("target", ["GPU", "Ascend"])
def test_other_devices_are_a_clear_error(target: str) -> None:
    words = re.escape(f"device_target='{target}': this installation of cellc runs on the CPU only")
    for ask in (lambda: ms.set_context(device_target=target), lambda: ms.set_device(target)):
        with pytest.raises(RuntimeError, match=words):
            ask()
    assert ms.get_context("device_target") == "CPU"
    assert ms.get_current_device().device_target == "CPU"
    with pytest.raises(RuntimeError, match="runs on the CPU only"):
        ms.nn.Cell().to(target)


def test_every_default_is_a_value_the_option_takes() -> None:
    for name, option in options.OPTIONS.items():
        if name != "save_graphs_path":  # read back as an absolute path
            assert option.convert(name, option.default) == option.default


def test_devices() -> None:
    assert [d.is_available() for d in (cpu, gpu, ascend)] == [True, False, False]
    assert [d.device_count() for d in (cpu, gpu, ascend)] == [1, 0, 0]
    summary = ms.runtime.memory_summary()
    assert "max_allocated_memory" in summary and len({len(x) for x in summary.split("\n")}) == 1
    with pytest.raises(ValueError, match="device must be one of"):
        ms.hal.memory_stats("TPU")


def test_memory_and_affinity() -> None:
    before = ms.get_context("max_device_memory")
    ms.runtime.set_memory(max_size="3GB", optimize_level="O1")
    assert (ms.get_context("max_device_memory"), ms.get_context("memory_optimize_level")) == (3, 1)
    ms.set_context(max_device_memory=before, memory_optimize_level="O0")
    with pytest.raises(ValueError, match="'GB'"):
        ms.runtime.set_memory(init_size="much")
    ms.runtime.set_cpu_affinity(False)
    with pytest.raises(RuntimeError, match="taskset"):
        ms.runtime.set_cpu_affinity(True)


def test_determinism_and_depth() -> None:
    ms.set_deterministic(False)
    assert ms.get_context("deterministic") == "OFF"
    ms.set_deterministic(True)
    ms.set_recursion_limit(500)
    assert ms.get_context("max_call_depth") == 500
    ms.set_recursion_limit()
