"""The plugin of pytest: tests in both modes, and `--cellc-verify`. PYTEST_DONT_REWRITE

    @pytest.mark.cellc_modes                  # in graph mode and in PyNative mode
    @pytest.mark.cellc_modes(threads=(1, 2))  # and with each number of threads
    def test_net(cellc_mode): ...             # the fixture does the same; it gives the mode

It is found by its entry point. Nothing of cellc but this module loads before it is used: a suite
that does not use it pays for no more than that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from cellc_runtime.lazy import lazy_module

if TYPE_CHECKING:
    from . import suite
else:
    suite = lazy_module("cellc.testing.suite")

MODES = ("graph", "pynative")
_MARK = "cellc_modes"
_FIXTURE = "cellc_mode"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cellc-verify`."""
    parser.getgroup("cellc").addoption(
        "--cellc-verify", action="store_true",
        help="verify every Cell that a test calls: compiled against PyNative and the float64 "
        "reference, on the inputs of the call; a test fails whose Cells differ")


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known, and the verification is on if it is asked for."""
    config.addinivalue_line(
        "markers", f"{_MARK}(modes=('graph', 'pynative'), threads=()): run the test in these modes "
        "of cellc and with these numbers of threads")
    if config.getoption("--cellc-verify"):
        config.pluginmanager.register(_Verification(config), "cellc-verify")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the marker or the fixture becomes one for each mode and number of threads."""
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is None and _FIXTURE not in metafunc.fixturenames:
        return
    options = _options(metafunc.definition.nodeid, mark.args, mark.kwargs) if mark else {}
    if _FIXTURE not in metafunc.fixturenames:
        metafunc.fixturenames.append(_FIXTURE)  # `parametrize` takes names that are there
    cases = [(mode, n) for mode in options.get("modes", MODES)
             for n in options.get("threads", ()) or (None,)]
    ids = [mode if n is None else f"{mode}-{n}threads" for mode, n in cases]
    metafunc.parametrize(_FIXTURE, cases, indirect=True, ids=ids)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test with the marker that does not ask for the fixture runs in its mode all the same."""
    spec = getattr(item, "callspec", None)
    case = None if spec is None else spec.params.get(_FIXTURE)
    if case is None or _FIXTURE in getattr(item, "fixturenames", ()):
        return (yield)
    with suite.running(*case):
        return (yield)


def _options(test: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a marker asks for.

    Raises:
        UsageError: an unknown option, mode, or number of threads.
    """
    unknown = [*map(repr, args), *(k for k in kwargs if k not in ("modes", "threads"))]
    if unknown:
        raise pytest.UsageError(f"{test}: {_MARK} takes modes= and threads=, but got "
                                f"{', '.join(unknown)}")
    modes, threads = kwargs.get("modes", MODES), kwargs.get("threads", ())
    if not modes or any(m not in MODES for m in modes):
        raise pytest.UsageError(f"{test}: {_MARK}: modes holds 'graph' and 'pynative', but got "
                                f"{modes!r}")
    if any(type(n) is not int or n < 1 for n in threads):
        raise pytest.UsageError(f"{test}: {_MARK}: threads holds positive ints, but got "
                                f"{threads!r}")
    return {"modes": modes, "threads": threads}


@pytest.fixture
def cellc_mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """The test runs in graph mode and in PyNative mode; the mode, as `cellc.set_context` takes it.
    """
    mode, threads = request.param
    with suite.running(mode, threads) as number:
        yield number


class _Verification:
    """The hooks of `--cellc-verify`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.rows: list[dict[str, Any]] = []
        self.collected: Any = None

    def _suite(self) -> suite.Suite:
        if self.collected is None:
            self.collected = suite.Suite()
        found: suite.Suite = self.collected
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """What fixtures call is verified too."""
        with self._suite().watching(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """What a test calls is verified; the test fails if something differs."""
        with self._suite().watching(item.nodeid):
            result = yield
        told = self._suite().findings_of(item.nodeid)
        if told:
            pytest.fail("cellc-verify: " + "\n".join(told), pytrace=False)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker of pytest-xdist hands over what it found."""
        if self.collected is not None:
            self.rows += self.collected.rows()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cellc_verify"] = self.rows

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker found."""
        self.rows += getattr(node, "workeroutput", {}).get("cellc_verify", [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """How many Cells were verified, what differs, and the worst op."""
        lines, bad = suite.summary(self.rows)
        terminalreporter.section("cellc-verify")
        for line in lines:
            terminalreporter.write_line(line, red=bad)
