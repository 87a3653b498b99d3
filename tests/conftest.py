"""Shared by all tests: a cache of the session's own, contexts that do not leak, skips counted."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import cellc as ms
from cellc import shim
from cellc.core import dispatch
from cellc.ranks import settings
from cellc_runtime import loader
from cellc_runtime.lazy import Package
from cellc_runtime.platform import usable_cpus

from . import daily

SKIPPED_FOR = {
    "MindSpore": re.compile("CELLC_ORACLE_PYTHON"),
    "ONNX Runtime": re.compile("onnxruntime"),
    "onnx": re.compile(r"'onnx'"),
    "MPI": re.compile("mpi4py|mpirun"),
    "numba": re.compile("'numba'|numba is not"),
    "torch": re.compile("'torch'|'expecttest'"),
    "Chromium": re.compile("Chromium|Selenium"),
    "QEMU": re.compile("no QEMU"),
    "mypy, pyright": re.compile("mypy|pyright"),
    "other shells": re.compile("no (bash|zsh|fish)\\b"),
    "native sites": re.compile("native sites|eager engine"),
    "the machine or system": re.compile(
        "such a machine|registers|long double|POSIX|fork|handles|Linux|/proc|tmpfs|counted with"),
}
"""What a skipped test lacked, by its reason; the first that fits."""


LONG = re.compile("|".join((
    r"structure/test_walks\.py::test_walk\[(backend|kernel|pass)\]",
    r"verification/test_verify\.py::test_samples_agree\[(resnet50|resnet18|unet)\]",
    r"samples/test_modes\.py::test_\w+\[resnet50\]",
    r"cuda/test_emulated\.py::test_networks\[resnet50",
    r"cuda/test_(products|convolutions|convolution_tensor_cores)\.py::test_assembled\[sm_(80|100a)",
    r"cuda/test_convolution_tensor_cores\.py::test_accesses\[(data|weight)-",
    r"cuda/test_attention_online\.py::test_gradients_of_large_heads",
    r"cuda/test_parallelism\.py::test_long_lines\[(conv2d|adaptive_max_pool2d)_backward",
    r"cuda/test_products\.py::test_accesses_of_odd_sizes\[size2-complex64",
    r"ranks/test_mpi\.py::test_training_by_nccl",
    r"onnx_import/test_gradients\.py::test_all_gradients",
    r"campaigns/endurance/test_endurance\.py::test_memory_is_flat\[(calls|cells)-pynative",
)))
"""Tests of half a minute and more that repeat, on a larger network or another target, what others
try: only with `--everything`."""


def skip_group(reason: str) -> str:
    """What a test lacked that was skipped for this reason."""
    return next((g for g, text in SKIPPED_FOR.items() if text.search(reason)), "other reasons")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--required GROUP`: fail if a test was skipped for want of it."""
    parser.addoption("--required", action="append", default=[], metavar="GROUP",
                     choices=list(SKIPPED_FOR), help="fail if tests are skipped for want of it")
    parser.addoption("--everything", action="store_true",
                     help="also what is left for other days, and the longest tests (`LONG`)")
    parser.addoption("--day", type=int, metavar="N",
                     help="run the sample of this day, counted from 1970 (tests/daily.py)")
    parser.addoption("--record-costs", action="store_true",
                     help="write the seconds of the functions of the suite to tests/costs.json")


def pytest_configure(config: pytest.Config) -> None:
    """The whole suite is a day's sample, the same in all workers of pytest-xdist."""
    if hasattr(config, "workerinput"):
        config.option.day = config.workerinput["day"]
    elif config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.day is None:
        config.option.day = int(time.time() // 86400)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A hook of pytest-xdist: give a worker the day."""
    node.workerinput["day"] = node.config.option.day


def _skips(config: pytest.Config) -> Counter[str]:
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", ()) if reporter is not None else ()
    return Counter(skip_group(str(report.longrepr)) for report in reports)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What was required was there."""
    missed = set(session.config.getoption("required")) & set(_skips(session.config))
    if missed and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The line that counts skipped tests by what they lacked."""
    groups = _skips(config)
    each = ", ".join(f"{n} for want of {g}" for g, n in groups.most_common())
    required = [g for g in config.getoption("required") if groups[g]]
    terminalreporter.write_line(f"skipped: {groups.total()}" + (f" ({each})" if each else ""))
    if config.option.day is not None and not config.option.everything:
        terminalreporter.write_line(f"the sample of a day: `--day {config.option.day}` repeats it, "
                                    "`--everything` runs all tests")
    if config.option.record_costs:
        daily.record((report.nodeid, report.duration) for reports in terminalreporter.stats.values()
                     for report in reports if isinstance(report, pytest.TestReport))
    if required:
        terminalreporter.write_line(f"required, but skipped: {', '.join(required)}", red=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests are for `--everything`, or when they are asked for by their own names. Tests over
    all ops reach users' kernels too, which numba compiles."""
    if not config.getoption("everything") and not any("::" in arg for arg in config.args):
        later = {item.nodeid for item in items if LONG.search(item.nodeid)}
        if config.option.day is not None:
            later |= daily.left_for_other_days(
                [item.nodeid for item in items], daily.recorded(), config.option.day)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in later])
        items[:] = [item for item in items if item.nodeid not in later]
    if importlib.util.find_spec("numba") is None:
        for item in items:
            if "custom_kernel" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason="numba is not installed"))


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all processes of the session; the user's own is neither read nor written.

    What one worker of pytest-xdist has compiled, the others find: tests of one file go to all.
    `CELLC_TEST_CACHE` names one that stays, for those who run the same tests many times.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        kept = os.environ.get("CELLC_TEST_CACHE")
        patch.setenv("CELLC_CACHE_DIR", kept or str(shared / "cellc_cache"))
        if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) >= usable_cpus()[0]:
            # Every processor has a worker of pytest's: processes that compile for a worker would
            # only add what it takes to start them, half of the time of a test of small networks.
            patch.setenv("CELLC_COMPILE_JOBS", "1")
        yield


def _remove_shim() -> None:
    """Take back what `shim.install` did; modules that were imported as `mindspore` stay so."""
    for finder in [f for f in sys.meta_path if isinstance(f, shim._Finder)]:
        sys.meta_path.remove(finder)
        for module in [m for m in sys.modules.values() if type(m) is shim._Shown]:
            module.__class__ = Package


@pytest.fixture(autouse=True)
def _same_context_after() -> Iterator[None]:
    """Each test leaves mode, numerics, device, the number of threads and what is set of parallel
    training as they were."""
    before = {key: ms.get_context(key) for key in ("mode", "numerics", "device_target")}
    threads, parallel = loader.num_threads(), dict(settings._context)
    engine, members = dispatch.installed(), [dict(vars(cls)) for cls in (ms.Tensor, ms.Parameter)]
    yield
    _remove_shim()  # a command that ran in this process has installed it
    ms.set_context(**before)
    if settings._context != parallel:
        ms.reset_auto_parallel_context()
    if loader.num_threads() != threads:
        loader.set_num_threads(threads)
    assert dispatch.installed() is engine, "the test leaves another engine to the next tests"
    for cls, old in zip((ms.Tensor, ms.Parameter), members, strict=True):
        replaced = [n for n, v in vars(cls).items() if old.get(n) is not v
                    and not getattr(v, "__module__", "cellc").startswith("cellc")]
        assert not replaced, f"the test leaves other members of {cls.__name__}: {replaced}"


@pytest.fixture(params=["graph", "pynative"])
def mode(request: pytest.FixtureRequest) -> int:
    """A test runs in graph mode and in PyNative mode; the mode's number."""
    value: int = ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE
    ms.set_context(mode=value)
    return value


@pytest.fixture
def graph_mode() -> None:
    """A test runs in graph mode."""
    ms.set_context(mode=ms.GRAPH_MODE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test runs in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loaded_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command loads in this process is forgotten: networks' files, `mindspore`, `sys.path`.

    Modules of the project stay: a second copy of one has classes that the first does not know.
    """
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("net", "bad", "mindspore"):
            del sys.modules[name]


@pytest.fixture
def threads() -> Callable[[int], AbstractContextManager[None]]:
    """`with threads(n):` runs compiled code on n threads."""

    @contextmanager
    def use(count: int) -> Iterator[None]:
        before = loader.num_threads()
        loader.set_num_threads(count)
        try:
            yield
        finally:
            loader.set_num_threads(before)

    return use
