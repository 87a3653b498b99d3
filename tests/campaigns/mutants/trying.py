"""A fault in a copy of the product, the tests that look for it, and a ledger of what they found."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..fuzz.campaign import commit
from .naming import naming, related
from .planting import Fault, faults
from .reaching import Reach
from .rooms import ROOMS, ROOT, files, other_tests, own_tests

LEDGER = Path(__file__).with_name("ledger.jsonl")
COPIED = ("frontend", "compiler", "runtime", "tests", "samples", "docs", "pyproject.toml")
_TEST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.M)
_TIME_OF_A_TEST = 60.0
"""After which a test has failed: a fault may make it endless. A third of the time for all tests of
a part, if that is less."""
_OF_CACHES = ("compiler/cellc_compiler/build", "runtime/cellc_runtime")
_NOTHING = 5
"""pytest's status where no test was selected."""
_WRONGLY_CALLED = 4
_AT_FIRST, _MOST = 10, 60
"""Tests that run a fault's line: how many are asked first, and altogether."""
_NAMING = 6
"""Test functions that name what the fault is in, before all others."""
_ALIKE = 4
"""Test functions of its part that share rare words with it."""
_SHOWN_FIRST = 40.0
"""Seconds of tests that run a fault's line, as they were recorded."""


@dataclass(frozen=True)
class Tried:
    """What became of a fault.

    Attributes:
        commit, seed: where it was planted, and the number that chose it.
        room: the part of the product.
        fault: its text.
        found: by which tests: `"own"` (those of the room), `"others"`, or "" for none.
        by: the first test that failed, or how it ended.
        seconds: of all tests together.
        shown: how many arguments of `OTHERS` a survivor was shown.
    """

    commit: str
    seed: int
    room: str
    fault: str
    found: str
    by: str
    seconds: float
    shown: int = 0


def chosen(seed: int, rooms: Sequence[str] = tuple(ROOMS)) -> tuple[str, Fault]:
    """The fault of a seed: any of the rooms, in it any file by how much may be wrong there."""
    rng = random.Random(seed)
    room = rng.choice(rooms)
    every = [f for file in files(room) for f in faults(ROOT, file)]
    kind = rng.choice(sorted({f.kind for f in every}))
    return room, rng.choice([f for f in every if f.kind == kind])


@contextmanager
def product(cache: Path | None) -> Iterator[tuple[Path, dict[str, str]]]:
    """A copy of the product, and the environment that uses it with a cache of compiled kernels."""
    # (A process that a test has left may still write there.)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        root = Path(place) / "copy"
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name)
            else:
                shutil.copy2(ROOT / name, root / name)
        env = {**os.environ, "CELLC_COMPILE_JOBS": "1",
               "CELLC_TEST_CACHE": str(cache or Path(place) / "cache"),
               "PYTHONPYCACHEPREFIX": str(Path(place) / "bytecode"),
               "PYTHONPATH": ":".join(str(root / p) for p in ("frontend", "compiler", "runtime"))}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # what did not change is not compiled again
        yield root, env


@contextmanager
def planted(fault: Fault, root: Path) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """A copy has a fault for so long; what is yielded takes it out for a while."""
    path = root / fault.file
    text, times = path.read_bytes(), path.stat()

    def mend() -> None:
        path.write_bytes(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its own bytecode again

    @contextmanager
    def without() -> Iterator[None]:
        mend()
        try:
            yield
        finally:
            fault.plant(root)

    try:
        fault.plant(root)
        yield without
    finally:
        mend()


def ask(
    root: Path, env: dict[str, str], tests: Sequence[str], seconds: float,
    each: float = _TIME_OF_A_TEST,
) -> str:
    """The first test that fails in a copy (or takes longer than `each`), or how pytest ended
    otherwise; "" if all pass."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider",
         "--tb=line", f"--timeout={each}", "--basetemp", str(root.parent / "pytest"),
         *tests],
        cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True)
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "out of time"
    except BaseException:  # an interrupt is this process's alone: tests have a group of their own
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if process.returncode in (0, _NOTHING):
        return ""
    if process.returncode == _WRONGLY_CALLED and "not found:" in said:
        return ""  # a test that the copy does not have says nothing of it
    failed = _TEST.search(said)
    return failed[1] if failed else f"status {process.returncode}: {said.strip()[-80:]}"


def search(
    root: Path, env: dict[str, str], tests: Sequence[str], seconds: float,
    passes: Callable[[str], bool], each: float = _TIME_OF_A_TEST,
) -> str:
    """As `ask`, but for tests that do not pass without the fault either: they find nothing."""
    end = time.monotonic() + seconds
    left_out: list[str] = []
    while True:
        by = ask(root, env, [*tests, *(f"--deselect={test}" for test in left_out)],
                 end - time.monotonic(), each)
        if "::" not in by or passes(by):
            return by
        left_out.append(by)


def attempt(
    seed: int, copy: tuple[Path, dict[str, str]], own_seconds: float, other_seconds: float,
    tests: Sequence[str] = (), reach: Reach | None = None, rooms: Sequence[str] = tuple(ROOMS),
) -> Tried:
    """Plant the fault of a seed in a copy and look for it: by tests that name what it is in or are
    known to run its line, by its room's tests, or these, then by the others."""
    root, env = copy
    room, fault = chosen(seed, rooms)
    start, found, by, shown = time.monotonic(), "", "", 0
    own = own_tests(room, fault.file)
    near = [] if tests else naming(fault.file, fault.line)[:_NAMING]
    if reach is not None and not tests:
        near += _within(reach, fault)
    alike = [] if tests else [t for t in related(fault.file, fault.line)
                              if t.partition("::")[0] in own and t not in near][:_ALIKE]
    # Kernels are found by their text and programs by the files of the compiler, so faults share a
    # cache, but for those that may leave wrong entries under right keys.
    with planted(fault, root) as without, tempfile.TemporaryDirectory() as empty, \
            tempfile.TemporaryDirectory() as another:
        usual = env
        if room in _OF_CACHES:
            env = {**env, "CELLC_TEST_CACHE": empty}
            usual = {**env, "CELLC_TEST_CACHE": another}

        each = min(_TIME_OF_A_TEST, own_seconds / 3)

        def passes(test: str) -> bool:
            with without():
                return ask(root, usual, [test], 2 * _TIME_OF_A_TEST, each) == ""

        def look(what: Sequence[str], seconds: float) -> bool:
            nonlocal by
            by = search(root, env, what, seconds, passes, each)
            return bool(by) and by != "out of time"

        def left() -> float:
            return start + own_seconds - time.monotonic()

        some = [part for part in (near[:_AT_FIRST], alike, near[_AT_FIRST:_MOST]) if part]
        if any(look(part, left()) for part in some):
            found = "own" if by.partition("::")[0] in own or "::" not in by else "others"
        elif look(tests or _reaching_first(own, reach, fault), left()):
            found = "own"
        elif other_seconds:
            end = time.monotonic() + other_seconds
            for other in other_tests(room):
                if end < time.monotonic():
                    break
                shown += 1
                if look([other], end - time.monotonic()):
                    found = "others"
                    break
    return Tried(commit(), seed, room, str(fault), found, by,
                 round(time.monotonic() - start, 1), shown)


def _reaching_first(own: Sequence[str], reach: Reach | None, fault: Fault) -> list[str]:
    """Files of tests, those first of which some tests are known to run the fault's line."""
    if reach is None or "-k" in own:
        return list(own)
    known = {test.partition("::")[0] for test in reach.tests(fault.file, fault.line) or ()}
    return sorted(own, key=lambda file: file not in known)


def _within(reach: Reach, fault: Fault) -> list[str]:
    """Tests that run a fault's line, as many as the time is for."""
    left, found = _SHOWN_FIRST, list[str]()
    for test in reach.tests(fault.file, fault.line) or ():
        left -= reach.seconds[test]
        if left < 0 and found:
            break
        found.append(test)
    return found


def run(
    seeds: Sequence[int], minutes: float, cache: Path | None, own_seconds: float,
    other_seconds: float, tell: Callable[[str], None] = print, ledger: Path | None = LEDGER,
    tests: Sequence[str] = (), reach: Reach | None = None, rooms: Sequence[str] = tuple(ROOMS),
) -> list[Tried]:
    """Plant faults one after the other, in one copy, until the time is over."""
    end = time.monotonic() + 60 * minutes
    done: list[Tried] = []
    with product(cache) as copy:
        for seed in seeds:
            if time.monotonic() > end:
                break
            tried = attempt(seed, copy, own_seconds, other_seconds, tests, reach, rooms)
            done.append(tried)
            tell(f"{seed}: {tried.fault}\n    {tried.found or 'SURVIVES'}: {tried.by} "
                 f"({tried.seconds:.0f} s)")
            if ledger is not None:
                with ledger.open("a") as file:
                    file.write(json.dumps(asdict(tried)) + "\n")
    return done


def summary(ledger: Path = LEDGER) -> Iterator[str]:
    """By room, how many faults each layer of tests found; of all, and of the newest sample. What
    was found fresh was so before any test was added."""
    counts: dict[str, Counter[str]] = {}
    samples: dict[str, Counter[str]] = {}
    for line in ledger.read_text().splitlines() if ledger.exists() else ():
        entry = json.loads(line)
        counts.setdefault(entry["room"], Counter())[_outcome(entry)] += 1
        samples.setdefault(entry.get("commit", ""), Counter())[_outcome(entry)] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    newest = [(f"newest sample, at {commit}", found) for commit, found in samples.items()][-1:]
    for room, found in [*sorted(counts.items()), *newest, ("all", total)]:
        real = found.total() - found["equivalent"]
        fresh = found["own"] + found["others"]
        caught = fresh + found["test added"]
        yield (f"{room}: {found.total()} planted, {found['own']} found by its own tests, "
               f"{found['others']} by others, {found['test added']} by tests added since, "
               f"{found['equivalent']} change nothing, {found['survives']} survive"
               + (f" ({100 * caught / real:.0f} % found, {100 * fresh / real:.0f} % fresh)"
                  if real else ""))


def _outcome(entry: dict[str, str]) -> str:
    """What is known of a fault: someone has looked at a survivor, and wrote what it is."""
    return entry.get("judged", "").split(":")[0] or entry["found"] or "survives"
