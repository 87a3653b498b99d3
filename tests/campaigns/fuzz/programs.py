"""Trials of random programs with control flow, in both modes and by the language's reference."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from ...lang.programs import programs
from ...lang.test_random_programs import run
from .finding import Finding, Trial

SUFFIX = ".py"
_AT_ONCE = 20
"""Programs of a trial: hypothesis makes what fails small itself."""
_MORE = 3
"""Further arguments of each program, which take other branches."""


def trial(seed: int) -> Trial:
    """Some programs, with and without gradients."""
    last: list[str] = []

    @seeded(seed)
    @settings(max_examples=_AT_ONCE, deadline=None, database=None, verbosity=Verbosity.quiet,
              suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
              report_multiple_bugs=False)
    @given(programs(), st.integers(0, 5), st.booleans(), st.booleans())
    def all_agree(source: str, number: int, gradient: bool, native: bool) -> None:
        last[:] = [f"# {number} {int(gradient)} {int(native)}\n{source}"]
        run(source, number, gradient, native, _MORE)

    try:
        all_agree()
    except Exception as e:
        return Trial(finding=Finding("programs", seed, f"{type(e).__name__}: {e}".strip(), last[0],
                                     SUFFIX))
    return Trial({"programs": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    head, source = path.read_text().split("\n", 1)
    number, gradient, native = map(int, head[1:].split())
    try:
        run(source, number, bool(gradient), bool(native), _MORE)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return ""
