"""Graphs on the emulated GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cellc_compiler.driver import compile_graph, compile_program
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import device as devices
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.executable import Executable
from cellc_runtime.target import host_targets

Array = np.ndarray[Any, Any]

CPU = host_targets()[-1]
"""The target of the CPU's back end that it is compared with."""


@contextmanager
def using(device: EmulatedDevice) -> Iterator[EmulatedDevice]:
    """A device that programs for its target run on."""
    devices.register(device)
    try:
        yield device
    finally:
        devices.unregister(device)


def run_on(device: EmulatedDevice, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """What a graph gives on an emulated GPU."""
    (target,) = device.targets.values()
    with using(device):
        return compile_graph(graph, target)(arrays)


def run_fresh(device: EmulatedDevice, text: str, arrays: Sequence[Array]) -> list[Array]:
    """The same, of a text whose inputs are all passed, and nothing of it from the cache of
    programs."""
    (target,) = device.targets.values()
    with using(device):
        executable = Executable(compile_program(parse_graph(text), target, use_cache=False))
        return [np.asarray(a.numpy()) for a in executable.call(list(arrays))]


def arrays_for(text: str, make: Callable[[tuple[int, ...]], Array]) -> list[Array]:
    """Arrays for the inputs of a text."""
    return [make(v.shape).astype(v.dtype.numpy) for v in parse_graph(text).inputs]
