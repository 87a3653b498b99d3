"""Marks of Cells: computed again in the backward pass; activations offloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime.records import dataclass

from ...core.declared import BOOL, misuse
from .modes import Modes

_KNOWN = ("mp_comm_recompute", "parallel_optimizer_comm_recompute", "recompute_slice_activation")


@dataclass(frozen=True, slots=True)
class RecomputeOptions:
    """The options of `Cell.recompute`."""

    output_recompute: bool = False  # whether the cell's results are computed again too
    # use_reentrant, early_stop, context_fn: how MindSpore does it in PyNative mode; kept
    use_reentrant: bool = True
    early_stop: bool = True
    context_fn: Callable[[], Any] | None = None
    # options about communication between devices; kept
    communication: tuple[tuple[str, bool], ...] = ()


_SCOPE = "recompute_"  # The prefix of the scopes of Cells whose results are recomputed


class Recomputation(Modes):
    """`recompute`, and `offload`: recorded, as there is one memory here to hold activations.

    Attributes:
        _recompute_budget: what temporaries of programs that this cell is part of may take at most.
    """

    _recompute_options: RecomputeOptions | None = None
    _recompute_budget: int | None = None
    _offload_prefetch: int | str | None = None

    def recompute(
        self, *, use_reentrant: bool = True, output_recompute: bool = False,
        early_stop: bool = True, context_fn: Callable[[], Any] | None = None, **kwargs: Any,
    ) -> None:
        """Mark this cell: gradients compute again what is in it, from its inputs, and keep none.

        The bits are those of the unmarked cell; draws repeat. Mark the blocks of a deep network,
        not the whole of it.

        Args:
            use_reentrant, early_stop: kept.
            context_fn: a function, with `use_reentrant=False`; kept.
            output_recompute: kept; the cell's results are not computed again.
            kwargs: `mp_comm_recompute`, `parallel_optimizer_comm_recompute`,
                `recompute_slice_activation`: bool, about communication; kept.
        """
        for name, value in {"output_recompute": output_recompute, "use_reentrant": use_reentrant,
                            "early_stop": early_stop, **kwargs}.items():
            if name in kwargs and name not in _KNOWN:
                raise misuse("recompute", f"keyword '{name}' is not recognized! It must be one of "
                             f"{', '.join(_KNOWN)}")
            BOOL(value, "recompute", name)
        if context_fn is not None and use_reentrant:
            raise misuse("recompute", "'context_fn' goes with use_reentrant=False only")
        if context_fn is not None and not callable(context_fn):
            raise misuse("recompute", "'context_fn' must be callable", type(context_fn).__name__,
                         TypeError)
        self._recompute_options = RecomputeOptions(
            output_recompute, use_reentrant, early_stop, context_fn, tuple(kwargs.items())
        )
        self.add_flags(output_recompute=output_recompute)
        for _, cell in self.cells_and_names():
            scope = cell.get_scope() or ""
            if not scope.startswith(_SCOPE):
                object.__setattr__(cell, "_scope", _SCOPE + scope)

    def offload(self, backward_prefetch: int | str = "Auto") -> None:
        """Mark this cell. Activations are in the memory of the host here in any case.

        Args:
            backward_prefetch: `"Auto"`, or how many ops ahead they are fetched: a positive int.
        """
        if isinstance(backward_prefetch, str):
            if backward_prefetch != "Auto":
                raise misuse("offload", "'backward_prefetch' must be 'Auto' or a positive int",
                             repr(backward_prefetch))
        elif isinstance(backward_prefetch, bool) or not isinstance(backward_prefetch, int):
            raise misuse("offload", "'backward_prefetch' must be str or int",
                         type(backward_prefetch).__name__, TypeError)
        elif backward_prefetch <= 0:
            raise misuse("offload", "'backward_prefetch' must be 'Auto' or a positive int",
                         backward_prefetch)
        self._offload_prefetch = backward_prefetch
