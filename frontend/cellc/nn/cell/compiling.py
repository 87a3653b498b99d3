"""Ahead of the first call: options of compilation, the compiled graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_module

from .recomputation import Recomputation

if TYPE_CHECKING:
    from cellc_compiler.ir import binary
else:
    binary = lazy_module("cellc_compiler.ir.binary")


class Compiling(Recomputation):
    """Compilation of a Cell."""

    # --- options --------------------------------------------------------------------------------

    @property
    def jit_config_dict(self) -> dict[str, Any]:
        """The options `set_jit_config` was given."""
        options: dict[str, Any] = self.__dict__.get("_jit_config_dict", {})
        return options

    def set_jit_config(self, jit_config: Any) -> None:
        """Record options of compilation; the first ones given stay, and have no effect here."""
        if not self.jit_config_dict and hasattr(jit_config, "jit_config_dict"):
            object.__setattr__(self, "_jit_config_dict",
                               {**jit_config.jit_config_dict, "backend": "ms_backend"})

    compile_phase: str | None = None
    """A mark for the phase that is compiled; nothing here depends on it."""

    # --- compiled graphs ------------------------------------------------------------------------

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for these inputs (Tensors, or values known at compile time) without running."""
        self._prepare()
        self._entries.prepare(self, args, kwargs)

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Compile for these inputs, then run."""
        self._prepare()
        return self._entries.call(self, args, kwargs)

    @property
    def compiled(self) -> bool:
        """Whether this cell has been compiled for some inputs."""
        return bool(self._entries.entries)

    @property
    def compile_cache(self) -> set[Any]:
        """The signatures this cell has been compiled for."""
        return set(self._entries.entries)

    def get_func_graph_proto(self) -> bytes | None:
        """The graph compiled last, in the binary form `graph_from_bytes` reads; None before."""
        entries: list[Any] = self._entries.entries.values()
        return binary.graph_to_bytes(entries[-1].traced.graph) if entries else None

    # --- older names ----------------------------------------------------------------------------

    def run_construct(self, cast_inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`construct` called with these arguments."""
        return self.construct(*cast_inputs, **kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; to be given by each network.

        Raises:
            AttributeError: a network does not give it.
        """
        raise AttributeError(
            f"For 'Cell', the method 'construct' of '{type(self).__name__}' is not defined."
        )
