"""Offloading of activations: recorded; there is one memory here to hold them."""

from __future__ import annotations

from .precision import Precision


class Offloading(Precision):
    """`offload`."""

    _offload_prefetch: int | str | None = None

    def offload(self, backward_prefetch: int | str = "Auto") -> None:
        """Mark this cell. Activations are in the memory of the host here in any case.

        Args:
            backward_prefetch: `"Auto"`, or how many ops ahead they are fetched: a positive int.

        Raises:
            TypeError: neither a str nor an int.
            ValueError: another str, or no positive int.
        """
        if isinstance(backward_prefetch, str):
            if backward_prefetch != "Auto":
                raise ValueError(
                    "For 'offload', 'backward_prefetch' must be 'Auto' or a positive int, but got "
                    f"{backward_prefetch!r}."
                )
        elif isinstance(backward_prefetch, bool) or not isinstance(backward_prefetch, int):
            raise TypeError(
                "For 'offload', 'backward_prefetch' must be str or int, but got "
                f"{type(backward_prefetch).__name__}."
            )
        elif backward_prefetch <= 0:
            raise ValueError(
                "For 'offload', 'backward_prefetch' must be 'Auto' or a positive int, but got "
                f"{backward_prefetch}."
            )
        self._offload_prefetch = backward_prefetch
