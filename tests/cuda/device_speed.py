"""How long a case takes in cellc and in torch, in one process, in turns."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from device_cases import CASES, Case

Row = dict[str, Any]
Run = Callable[[], Any]
_OF_LIBRARIES = ("product", "conv")
"""What torch.compile hands on to cuBLAS and cuDNN as eager torch does."""
ROUNDS, ROUND_SECONDS, MOST_CALLS = 7, 0.02, 2000


def names() -> list[str]:
    """All cases."""
    return list(CASES)


def run(name: str, small: bool, peers: bool, seconds: float) -> Row:
    """Times of cellc and torch, and how far their results are apart.

    Args:
        small: sizes for an emulator, and one call.
        peers: whether torch takes part.
        seconds: that measuring may take.
    """
    case = CASES[name].small() if small else CASES[name]
    timed: dict[str, Timed] = {"cellc": Timed("device_ours", case)}
    if peers:
        timed["torch eager"] = Timed("device_torch", case, False)
        if case.kind not in _OF_LIBRARIES:
            timed["torch.compile"] = Timed("device_torch", case, True)
    return measured(case, timed, seconds, small)


def warm(name: str, peers: bool) -> Row:
    """Compile a case in cellc and torch, so that it is found in their caches when it is timed."""
    case = CASES[name]
    timed = [Timed("device_ours", case)]
    if peers and case.kind not in _OF_LIBRARIES:
        timed.append(Timed("device_torch", case, True))
    for each in timed:
        each.start()
        each.end()
    return {"status": "measured", "said": {str(i): t.said for i, t in enumerate(timed) if t.said}}


def measured(case: Case, timed: dict[str, Timed], seconds: float, small: bool) -> Row:
    """The row of a case."""
    end = time.monotonic() + seconds
    for each in timed.values():
        each.start()
    for _ in range(1 if small else ROUNDS):
        for each in timed.values():
            each.round(small)
        if time.monotonic() > end:
            break
    apart = _apart(timed)
    for each in timed.values():
        each.end()
    ours = timed.get("cellc")
    return {
        "status": "measured" if ours is None or not ours.said else "failed",
        "ms": {n: t.median() for n, t in timed.items() if t.times},
        "said": {n: t.said for n, t in timed.items() if t.said},
        "apart": apart,
        "flops": case.flops(), "nbytes": case.nbytes(),
        "lost": any("cannot be used by this process any more" in t.said for t in timed.values()),
    }


class Timed:
    """A library's calls of a case.

    Args:
        module: of the library's cases.
    """

    def __init__(self, module: str, case: Case, *more: Any) -> None:
        self._module, self._case, self._more = module, case, more
        self._library: Any = None
        self._run: Run | None = None
        self._calls = 1
        self.times: list[float] = []
        self.said = ""
        self.arrays: list[np.ndarray[Any, Any]] = []

    def start(self) -> None:
        """Compile and warm up; an error takes the library out of the case."""
        try:
            self._library = importlib.import_module(self._module)
            run = self._library.build(self._case, *self._more)
            if self._case.kind not in ("lenet", "resnet50", "gpt"):  # a step changes parameters
                self.arrays = self._library.results(run())
            for _ in range(3):
                run()
            self._library.wait()
            began = time.perf_counter()
            run()
            self._library.wait()
            took = time.perf_counter() - began
            self._calls = int(min(max(ROUND_SECONDS / max(took, 1e-6), 1), MOST_CALLS))
            self._run = run
        except Exception as error:
            self.said = f"{type(error).__name__}: {error}"[:600]

    def round(self, once: bool) -> None:
        """Time some calls."""
        if self._run is None:
            return
        calls = 1 if once else self._calls
        try:
            self._library.wait()
            began = time.perf_counter()
            for _ in range(calls):
                self._run()
            self._library.wait()
            self.times.append((time.perf_counter() - began) / calls)
        except Exception as error:
            self.said, self._run = f"{type(error).__name__}: {error}"[:600], None

    def end(self) -> None:
        """Let go of all, for the next case."""
        self._run, self.arrays = None, []
        gc.collect()
        try:
            if self._library is not None:
                self._library.release()
        except Exception as error:
            self.said = self.said or f"{type(error).__name__}: {error}"[:600]

    def median(self) -> float:
        """Milliseconds of a call."""
        return float(np.median(self.times)) * 1e3


def _apart(timed: dict[str, Timed]) -> dict[str, float]:
    """How far results are from cellc's: the norm of the difference by that of the result."""
    ours = timed.get("cellc")
    if ours is None or not ours.arrays:
        return {}
    found = {}
    for name, each in timed.items():
        if each is ours or len(each.arrays) != len(ours.arrays):
            continue
        pairs = zip(each.arrays, ours.arrays, strict=True)
        found[name] = max(float(np.linalg.norm((a - b).ravel()) / (np.linalg.norm(a.ravel()) or 1))
                          for a, b in pairs)
    return found
