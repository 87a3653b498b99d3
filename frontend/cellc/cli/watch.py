"""`cellc run --watch`: a script whose tensors are watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..tools.watch import watch_nans, watch_ranges


@contextmanager
def watching(kind: str | None) -> Iterator[None]:
    """Within the block, watch what was asked for; ranges are printed at its end, come what may."""
    if kind == "nan":
        with watch_nans():
            yield
    elif kind == "range":
        with watch_ranges() as ranges:
            try:
                yield
            finally:
                print(ranges)
    else:
        yield
