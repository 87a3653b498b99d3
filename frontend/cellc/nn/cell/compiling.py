"""Ahead of the first call: inputs and sizes left open, options, the compiled graph."""

from __future__ import annotations

from typing import Any

from cellc_runtime.lazy import lazy_imports

from ...compiled.dynamic import parameter_names
from .recomputation import Recomputation

with lazy_imports(__name__):
    from cellc_compiler.ir import binary


class Compiling(Recomputation):
    """Compilation of a Cell."""

    # --- inputs ---------------------------------------------------------------------------------

    def set_inputs(self, *inputs: Any, **kwargs: Any) -> None:
        """Describe the inputs of graph mode; sizes that are None or a `Symbol` are open.

        The network is then compiled once for all sizes rather than once for each.

        Args:
            inputs: one for each input: a Tensor (its elements do not matter), a tuple, list or
                dict of them, or the value of an input that is no tensor.
            kwargs: instead of `inputs`, only some of them, by the names in `construct`.

        Examples:
            >>> net.set_inputs(ms.Tensor(shape=[None, 784], dtype=ms.float32))
        """
        if bool(inputs) == bool(kwargs):
            raise ValueError("For Cell, set_inputs takes inputs or keywords, one kind of them and "
                             f"not none, but got inputs {inputs} and keywords {sorted(kwargs)}")
        if kwargs:
            names = parameter_names(self)
            for name in kwargs:
                if name not in names:
                    raise ValueError(f"For set_inputs, {name!r} is no input of construct, which "
                                     f"has {names}")
        given: Any = kwargs or inputs
        object.__setattr__(self, "_set_inputs", given)
        self._entries.open(given)

    def get_inputs(self) -> Any:
        """Return the argument of `set_inputs`: a tuple, a dict, or None."""
        return self.__dict__.get("_set_inputs")

    # --- options --------------------------------------------------------------------------------

    @property
    def jit_config_dict(self) -> dict[str, Any]:
        """The options `set_jit_config` was given."""
        options: dict[str, Any] = self.__dict__.get("_jit_config_dict", {})
        return options

    def set_jit_config(self, jit_config: Any) -> None:
        """Record options of compilation; the first ones given stay. See `JitConfig`."""
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
        name = type(self).__name__
        if type(self).construct is not Compiling.construct:  # through `super()`
            raise AttributeError("For 'Cell', the method 'construct' is not defined in the classes "
                                 f"above '{name}', which calls it by super().")
        renamed = " Rename its method 'forward' to 'construct'." * hasattr(self, "forward")
        raise AttributeError(
            f"For 'Cell', the method 'construct' of '{name}' is not defined.{renamed}")
