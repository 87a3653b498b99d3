"""One entry for batches of any size, where a network treats rows each on their own.

After a few sizes have come up, a network with an open batch that qualifies
(`passes/batch_axis.py`) is not compiled for further ones: a batch is walked in windows of a few
sizes, as artifacts do. A size that comes again and again gets a program of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.batched import windows
from cellc_runtime.records import replace

from ..tensors.tensor import arrays_of, host_arrays_of, result_of, tensor_of
from ..tracing.pytree import Box, Leaf, put_together
from .entry import Entry

if TYPE_CHECKING:
    from .dynamic import Once
    from .program_entry import CompiledEntry
    from .traced import Traced

OWN = 3
"""Sizes that get a program of their own before windows serve the others."""
OFTEN = 16
"""Calls after which a size gets a program of its own after all: it is up to twice as fast."""
MOST = 32
"""Sizes that do so."""


class BatchedEntry(Entry):
    """Serves a batch of any size by programs for a few.

    Args:
        once: the trace with symbols; `sizes` the batch sizes that serve all.
        compiled: compiles a call.
    """

    def __init__(
        self, once: Once, sizes: Sequence[int], compiled: Callable[[Traced], CompiledEntry]
    ) -> None:
        super().__init__(once.traced)
        self.once = once
        self.sizes = tuple(sizes)
        self.compiled = compiled
        self.open_inputs = [i for i, t in enumerate(once.pattern.types) if not t.is_static]
        self.parts: dict[int, CompiledEntry] = {}
        self.uses: Counter[int] = Counter()

    def part(self, size: int) -> CompiledEntry:
        """The program for a window."""
        found = self.parts.get(size)
        if found is None:
            (symbol,) = self.once.pattern.shapes.symbols
            traced = self.once.at({symbol: size})
            flat = Box(tuple, (), tuple(Leaf(i) for i in range(len(traced.graph.outputs))))
            found = self.parts[size] = self.compiled(replace(traced, out=flat))
            self.count(found)
        return found

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for a batch of any size."""
        self.calls += 1
        n = arrays[self.open_inputs[0]].shape[0]
        self.uses[n] += 1
        if self.uses[n] >= OFTEN and (n in self.parts or len(self.parts) < MOST):
            pieces = arrays_of(self.part(n).run(arrays))
            return put_together(self.traced.out, [result_of(a) for a in pieces])
        whole: list[Any] = []
        for start, size in windows(n, self.sizes):
            rows = [a[start : start + size] if i in self.open_inputs else a
                    for i, a in enumerate(arrays)]
            pieces = host_arrays_of(self.part(size).run(rows))
            if size == n:
                whole = pieces
                break
            whole = whole or [np.empty((n, *p.shape[1:]), p.dtype) for p in pieces]
            for w, p in zip(whole, pieces, strict=True):
                w[start : start + size] = p
        return put_together(self.traced.out, [tensor_of(a) for a in whole])
