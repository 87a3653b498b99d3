"""The plugin of pytest: tests in both modes, and `--cellc-verify`. PYTEST_DONT_REWRITE

    @pytest.mark.cellc_modes                  # in graph mode and in PyNative mode
    @pytest.mark.cellc_modes(threads=(1, 2))  # and with each number of threads
    def test_net(cellc_mode): ...             # the fixture does the same; it gives the mode

    @pytest.mark.cellc_modes(dtypes=("float32", "float16"), shapes=((1, 4), (3, 4)))
    def test_net(cellc_dtype, cellc_shape): ...  # also for each element type and each shape

It is found by its entry point. Nothing of cellc but this module loads before it is used: a suite
that does not use it pays for no more than that.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import pytest

from cellc_runtime.lazy import lazy_imports

with lazy_imports(__name__):
    from . import suite

MODES = ("graph", "pynative")
_MARK = "cellc_modes"
_FIXTURE = "cellc_mode"
_SWEPT = {"dtypes": "cellc_dtype", "shapes": "cellc_shape"}
"""Options of the marker, and the fixtures that give their values."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cellc-verify`."""
    parser.getgroup("cellc").addoption(
        "--cellc-verify", action="store_true",
        help="verify every Cell and function under jit that a test calls: compiled against "
        "PyNative and the float64 reference, on the inputs of the call; a test fails whose Cells "
        "differ")


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known, and the verification is on if it is requested."""
    config.addinivalue_line(
        "markers", f"{_MARK}(modes=('graph', 'pynative'), threads=(), dtypes=(), shapes=()): run "
        "the test in these modes of cellc, with these numbers of threads, for each value of the "
        "fixtures cellc_dtype and cellc_shape")
    if config.getoption("--cellc-verify"):
        config.pluginmanager.register(_Verification(config), "cellc-verify")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers that would have no effect.

    Raises:
        UsageError: a misspelt marker, or one on a test that cannot be repeated.
    """
    known = {line.partition(":")[0].partition("(")[0].strip() for line in config.getini("markers")}
    for item in items:
        for mark in item.iter_markers():
            close = difflib.get_close_matches(mark.name, [_MARK], cutoff=0.8)
            if mark.name not in known and (mark.name.startswith("cellc") or close):
                raise pytest.UsageError(f"{item.nodeid}: there is no marker '{mark.name}': did you "
                                        f"mean '{_MARK}'?")
        spec = getattr(item, "callspec", None)
        if item.get_closest_marker(_MARK) and (spec is None or _FIXTURE not in spec.params):
            raise pytest.UsageError(
                f"{item.nodeid}: {_MARK} repeats functions and methods of plain classes, but this "
                f"is a {type(item).__name__}, which pytest does not parametrize")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the marker or the fixture becomes one for each mode, number of threads, dtype
    and shape.

    Raises:
        UsageError: a wrong option, or a sweep that the test does not take.
    """
    test = metafunc.definition
    marks = [*test.iter_markers(_MARK)]
    options: dict[str, Any] = {}
    for mark in reversed(marks):  # that of the function comes first, and counts
        options |= _options(test.nodeid, mark.args, mark.kwargs)
    for option, fixture in _SWEPT.items():
        taken = fixture in metafunc.fixturenames
        if taken != (option in options):
            raise pytest.UsageError(
                f"{test.nodeid}: the test takes {fixture}, but no {_MARK} gives {option}=" if taken
                else f"{test.nodeid}: {_MARK} gives {option}=, but the test does not take the "
                f"fixture {fixture}")
        if taken:
            metafunc.parametrize(fixture, options[option], indirect=True, ids=_label)
    if not marks and _FIXTURE not in metafunc.fixturenames:
        return
    if _FIXTURE not in metafunc.fixturenames:
        metafunc.fixturenames.append(_FIXTURE)  # `parametrize` takes names that are there
    cases = [(mode, n) for mode in options.get("modes", MODES)
             for n in options.get("threads", ()) or (None,)]
    ids = [mode if n is None else f"{mode}-{n}threads" for mode, n in cases]
    metafunc.parametrize(_FIXTURE, cases, indirect=True, ids=ids)


def _label(value: Any) -> str:
    """A dtype or shape in the name of a test."""
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "scalar"
    return str(getattr(value, "name", value)).lower()


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
    """Return the options of a marker. Raises UsageError if an option is unknown or has a wrong
    value."""
    unknown = [*map(repr, args), *(k for k in kwargs if k not in _CHECKS)]
    if unknown:
        raise pytest.UsageError(f"{test}: {_MARK} takes {', '.join(f'{k}=' for k in _CHECKS)}, but "
                                f"got {', '.join(unknown)}")
    for option, values in kwargs.items():
        what, check = _CHECKS[option]
        empty = option != "threads" and not values
        if not isinstance(values, (list, tuple)) or empty or not all(map(check, values)):
            raise pytest.UsageError(f"{test}: {_MARK}: {option} must be a tuple of {what}, but got "
                                    f"{values!r}")
    return dict(kwargs)


def _is_size(value: Any, least: int = 0) -> bool:
    return type(value) is int and value >= least


_CHECKS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "modes": ("'graph' and 'pynative'", lambda v: isinstance(v, str) and v in MODES),
    "threads": ("positive ints", lambda v: _is_size(v, 1)),
    "dtypes": ("element types of cellc or their names", lambda v: suite.dtype_of(v) is not None),
    "shapes": ("tuples of sizes", lambda v: isinstance(v, tuple) and all(map(_is_size, v))),
}
"""The options of the marker: what each holds, and whether a value is one."""


@pytest.fixture
def cellc_mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """The test runs in graph mode and in PyNative mode; the mode, as `cellc.set_context` takes it.
    """
    mode, threads = request.param
    with suite.running(mode, threads) as number:
        yield number


@pytest.fixture
def cellc_dtype(request: pytest.FixtureRequest) -> Any:
    """Each element type that the marker gives, as `cellc.float32`."""
    return suite.dtype_of(request.param)


@pytest.fixture
def cellc_shape(request: pytest.FixtureRequest) -> Any:
    """Each shape that the marker gives."""
    return request.param


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
        """Verify the calls of fixtures too."""
        with self._suite().watching(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Verify the calls of a test; the test fails if something differs."""
        with self._suite().watching(item.nodeid):
            result = yield
        told = self._suite().findings_of(item.nodeid)
        if told:
            pytest.fail("cellc-verify: " + "\n".join(told), pytrace=False)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker of pytest-xdist hands over what it found."""
        if self.collected is not None:
            self.rows += self.collected.rows
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
