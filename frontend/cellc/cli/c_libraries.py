"""C libraries as the command line makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cellc_compiler.c_library.abi import NotInC
from cellc_compiler.c_library.write import Compiled, check_targets, library_name, write
from cellc_runtime.errors import counted
from cellc_runtime.target import Target

from . import artifacts
from .errors import UserError
from .loading import writing
from .open_sizes import Plan


def write_library(
    path: str, entries: Mapping[str, Plan], targets: Sequence[Target], budget: int | None = None,
    donate: Mapping[str, Sequence[str]] | None = None, weights: str | None = None,
) -> str:
    """Compile entries into a C library; a report of lines.

    Args:
        path: the file; its ending says which kind.
        weights: a file for the weights; None: the library holds them.
        (others): see `artifacts.write`.
    """
    try:
        library_name(path)
        chosen = check_targets(targets)
        made = {t: artifacts.make(entries, [t], budget, False, donate, objects=True)
                for t in chosen}
        compiled = {t: {name: Compiled(entry, [b.objects for b in of.built[name]])
                        for name, entry in of.entries.items()} for t, of in made.items()}
        first = made[chosen[0]]
        files = write(path, compiled, first.weights, weights)
    except NotInC as e:
        raise UserError(str(e)) from e
    except OSError as e:
        with writing(e.filename or path):
            raise
    sizes = (f"{f} ({Path(f).stat().st_size / 1024:.0f} KiB)" for f in files)
    weights = counted(len(first.weights), "weight")
    lines = [line for of in made.values() for line in of.lines]
    return "\n".join([*lines, f"wrote {', '.join(sizes)}; {weights}"])
