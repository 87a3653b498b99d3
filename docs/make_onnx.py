"""Write the matrix of `docs/onnx.md` from the rules, or with `--check` say whether it is current.

    python docs/make_onnx.py            # writes the matrix
    python docs/make_onnx.py --check    # exit status 1 and a line of explanation if it is stale
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from cellc.onnx_import import RULES
from cellc.onnx_import.table import Rule

PAGE = Path(__file__).parent / "onnx.md"
MARK = "<!-- From here on `docs/make_onnx.py` writes: do not edit by hand. -->\n"
_SKIPPED = ("c", "scope")


def names(rule: Rule) -> list[str]:
    """The names of a rule's inputs; `*` before one that may be repeated."""
    return [("*" if p.kind is p.VAR_POSITIONAL else "") + p.name.rstrip("_")
            for p in inspect.signature(rule.fn).parameters.values() if p.name not in _SKIPPED]


def families() -> dict[str, list[str]]:
    """Operators by the module of their rule."""
    out: dict[str, list[str]] = {}
    for name, rule in RULES.items():
        out.setdefault(rule.fn.__module__.rpartition(".")[2], []).append(name)
    return {family: sorted(found) for family, found in sorted(out.items())}


def row(name: str) -> str:
    """A line of the matrix."""
    rule = RULES[name]
    given = names(rule)
    optional = [f"`{n}`" if i < rule.least or n.startswith("*") else f"[`{n}`]"
                for i, n in enumerate(given)]
    known = [f"`{n}`" for i, n in enumerate(given) if rule.is_known(i)]
    kept = [f"`{n}`" for i, n in enumerate(given) if i in rule.frozen]
    cells = [f"`{name}`", *(", ".join(c) or "-" for c in (optional, known, kept))]
    return f"| {' | '.join(cells)} |"


def matrix() -> str:
    """The generated part of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield MARK
    yield f"There are rules for {len(RULES)} operators."
    for family, found in families().items():
        yield ""
        yield f"### `{family}.py`"
        yield ""
        yield "| Operator | Inputs | Known while compiling | Kept, not trained |"
        yield "|---|---|---|---|"
        yield from map(row, found)


def main() -> int:
    """Write the matrix, or check it."""
    head, _, old = PAGE.read_text(encoding="utf-8").partition(MARK)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(head + matrix(), encoding="utf-8")
        return 0
    if MARK + old == matrix():
        return 0
    print("docs/onnx.md is not current: run `python docs/make_onnx.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
