"""Write the lists of `docs/torch.md` from the rules, or with `--check` say if they are current.

    python docs/make_torch.py            # writes the lists
    python docs/make_torch.py --check    # exit status 1 and a line of explanation if they are stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from cellc.torch_backend import RULES

PAGE = Path(__file__).parent / "torch.md"
MARK = "<!-- From here on `docs/make_torch.py` writes: do not edit by hand. -->\n"


def families() -> dict[str, list[str]]:
    """Operators by the module of their rule."""
    out: dict[str, list[str]] = {}
    for name, rule in RULES.items():
        out.setdefault(rule.__module__.rpartition(".")[2], []).append(name.removeprefix("aten."))
    return {family: sorted(found) for family, found in sorted(out.items())}


def lists() -> str:
    """The generated part of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield MARK
    yield f"There are rules for {len(RULES)} operators and overloads."
    for family, found in families().items():
        yield f"\n### `{family}.py`\n"
        yield ", ".join(f"`{name}`" for name in found)


def main() -> int:
    """Write the lists, or check them."""
    head, _, old = PAGE.read_text(encoding="utf-8").partition(MARK)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(head + lists(), encoding="utf-8")
        return 0
    if MARK + old == lists():
        return 0
    print("docs/torch.md is not current: run `python docs/make_torch.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
