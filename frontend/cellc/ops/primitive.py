"""A primitive: a function of the functional API with some of its arguments fixed.

The primitives themselves are in `primitives`, whose modules load when one is requested.

Source: `mindspore.ops.Primitive`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.errors import counted
from cellc_runtime.lazy import lazy_imports, no_attribute

from ..calls.recompute import result_again
from ..core.declared import misuse
from ..core.invalidation import changed
from ..core.later import naming
from ..core.native import name_constructor
from ..tensors.seed import seeded
from .arguments import integer

with lazy_imports(__name__):
    from ..calls import sharding
    from .primitives import user


class _InitSignature:
    """The signature of a primitive class, for `inspect` and `help`: its table of arguments."""

    def __get__(self, instance: Any, owner: type[Primitive]) -> inspect.Signature:
        made = next(c for c in owner.__mro__ if not {"__init__", "parameters"}.isdisjoint(vars(c)))
        if not hasattr(owner, "function") or "parameters" not in vars(made):
            raise AttributeError("__signature__")  # its `__init__` says it
        return inspect.Signature([
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if default is REQUIRED else default)
            for name, default in owner.parameters.items()])


class Primitive:
    """Base of primitive classes: a function with some arguments fixed.

    Attributes:
        name: the class's name.
        attrs: the fixed arguments.
    """

    __signature__ = _InitSignature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)

    function: ClassVar[Callable[..., Any]]
    parameters: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if hasattr(type(self), "function"):
            self.name = type(self).__name__
            self.attrs = _bind(self.name, self.parameters, args, kwargs)
        else:  # of a user's class, or an instance of this one
            self.name = _given_name(type(self).__name__, args, kwargs)
            self.attrs = {}

    recomputed: bool | None = None
    sharded: tuple[Any, Any] | None = None
    """The strategies that `shard` was given, of operands and results."""
    _layers: tuple[Callable[[], Any], ...] = ()
    """Weak references to layers that hold it in place of MindSpore's (`nn.layer.inner`)."""
    customs: ClassVar[Any] = None
    """The program's replacements of primitives by name (`ops.op_customs`)."""

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        try:
            if self.recomputed or self.sharded or self.customs:
                return self._run_specially(operands, kwargs)
            return self._run(*operands, **kwargs)
        except Exception as error:
            naming.raise_told(
                error, self.name, getattr(type(self), "function", self._run), operands,
                {**kwargs, **self._fixed()})

    def _run_specially(self, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of what is computed again for gradients, laid out on ranks, or replaced."""
        if self.customs and not kwargs:
            return type(self).customs(self.name, lambda: self._marked(operands, kwargs), operands)
        return self._marked(operands, kwargs)

    def _marked(self, operands: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with the marks of `recompute` and `shard`."""
        def run() -> Any:
            if not self.sharded or not sharding.laying_out():
                return self._run(*operands, **kwargs)
            return sharding.primitive_called(self, self._run, operands, kwargs)

        return result_again((operands, kwargs), run) if self.recomputed else run()

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        function = getattr(type(self), "function", None)
        if function is None:
            return user.same_named(self)(*operands, **kwargs)
        return function(*operands, **kwargs, **self._fixed())

    def _told(self, name: str) -> None:
        """A mark was set: graphs that called this primitive, or layers that it is of, are stale."""
        changed(self, name)
        for layer in self._holders():
            changed(layer, "_inner")

    def _holders(self) -> list[Any]:
        """The living layers that hold it in place of MindSpore's."""
        return [layer for held_by in self._layers if (layer := held_by()) is not None]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_layers", None)  # which a copy of the layer sets again
        return state

    def _fixed(self) -> dict[str, Any]:
        """The arguments that the init has fixed, without attributes that were added later."""
        added = self.__dict__.get("_added")
        return self.attrs if not added else {k: v for k, v in self.attrs.items() if k not in added}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.parameters and name in self.__dict__.get("attrs", ()):
            self.add_prim_attr(name, value)
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        attrs = self.__dict__.get("attrs", {})
        if name in attrs:
            return attrs[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        attrs = {k: v for k, v in self.attrs.items() if k not in ("input_names", "output_names")}
        if self.recomputed is not None:
            attrs["recompute"] = self.recomputed
        shown = ", ".join(f"{k}={v}" for k, v in attrs.items())
        return f"Prim[{self.name}]<{shown}>" if shown else f"Prim[{self.name}]"

    def set_device(self, device_target: str) -> Primitive:
        """Remember a device, which has no effect; itself."""
        return self.add_prim_attr("primitive_target", device_target)

    def shard(self, in_strategy: Any = None, out_strategy: Any = None) -> Primitive:
        """In a graph that is cut over ranks, let operands and results lie as these say; itself.

        In one process, in other parallel modes and in PyNative mode this changes nothing.

        Args:
            in_strategy: for each tensor among the operands the numbers of parts of its axes, or a
                `Layout`.
            out_strategy: the same for the results.
        """
        sharding.check_strategies(self.name, in_strategy, out_strategy)
        for name, strategy in (("in_strategy", in_strategy), ("out_strategy", out_strategy)):
            if strategy is not None:
                self.add_prim_attr(*sharding.attribute_of(name, strategy))
        self.sharded = (in_strategy, out_strategy) if in_strategy else None
        self._told("sharded")
        return self

    def recompute(self, mode: bool = True) -> Primitive:
        """In a graph, let gradients compute this primitive's results again; itself.

        A gradient that reads them does not keep them from the forward pass. In PyNative mode, as
        in MindSpore, this changes nothing. A primitive that calls Python is never called again.

        Args:
            mode: False takes the mark away.
        """
        if not isinstance(mode, bool):
            raise TypeError(f"The input value must be a bool, but got {type(mode).__name__}.")
        self.recomputed = mode
        self._told("recomputed")
        return self

    def del_prim_attr(self, name: str) -> Primitive:
        """Forget an attribute that `add_prim_attr` has set; itself."""
        if name in self.__dict__.get("_added", ()):
            self._added.remove(name)
            del self.attrs[name]
        return self

    def init_prim_io_names(self, inputs: Any, outputs: Any) -> None:
        """Remember names of inputs and outputs, which have no effect."""
        self.add_prim_attr("input_names", inputs)
        self.add_prim_attr("output_names", outputs)

    def set_prim_instance_name(self, instance_name: str) -> Primitive:
        """Remember a name, which has no effect; itself."""
        return self.add_prim_attr("instance_name", instance_name)

    def set_stage(self, stage: int) -> Primitive:
        """Remember a stage of a pipeline, which one process has not; itself."""
        return self.add_prim_attr("stage", stage)

    def place(self, role: str, rank_id: int) -> None:
        """Accepted for compatibility: there is one process."""

    def add_prim_attr(self, name: str, value: Any) -> Primitive:
        """Set an attribute: an argument of the init, or another one that has no effect; itself."""
        if name not in self.parameters:
            self.__dict__.setdefault("_added", set()).add(name)
        else:
            for layer in self._holders():
                layer._follow_option(self, name, value)
        self.attrs[name] = value
        changed(self, "attrs")
        return self

    def add_attr(self, name: str, value: Any) -> None:
        """`add_prim_attr`, without a result."""
        self.add_prim_attr(name, value)

    def del_attr(self, name: str) -> None:
        """`del_prim_attr`, without a result."""
        self.del_prim_attr(name)

    def get_attr_dict(self) -> dict[str, Any]:
        """The attributes: arguments of the init, and those that were added."""
        return dict(self.attrs)

    def set_user_data(self, key: str, value: Any) -> None:
        """Remember something under a key, without effect."""
        self.__dict__.setdefault("_user_data", {})[key] = value

    def get_user_data(self, key: str) -> Any:
        """Return the value of `set_user_data`, or None."""
        return self.__dict__.get("_user_data", {}).get(key)

    def check_elim(self, *args: Any) -> tuple[bool, None]:
        """Whether the result is known without a computation, and the result: never."""
        return False, None

    @property
    def update_parameter(self) -> bool:
        """Whether it assigns to a Parameter it is given."""
        return bool(self.__dict__.get("_update_parameter", False))

    def set_const_prim(self, const_prim: bool) -> None:
        """Accepted for compatibility: what is constant is found by tracing."""

    def set_const_input_indexes(self, indexes: Any) -> None:
        """Accepted for compatibility: what is constant is found by tracing."""

    def set_inplace_prim(self, inplace_prim: bool) -> None:
        """Accepted for compatibility: results have memory of their own."""

    def set_prim_type(self, prim_type: Any) -> None:
        """Accepted for compatibility: every primitive is of one kind."""

    def set_signatures(self, signatures: Any) -> None:
        """Accepted for compatibility: operands of different types meet by `ops`' promotion."""

    def set_instance_name(self, name: str) -> None:
        """Remember a name, which has no effect."""
        self.set_prim_instance_name(name)

    def set_hook_fn(self, hook_fn: Any) -> None:
        """Not for a primitive: `ops.HookBackward` calls a function with a gradient.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(f"For '{self.name}', set_hook_fn has no meaning: give the function to "
                           "ops.HookBackward, or to Tensor.register_hook.")


def alike(one: Any, other: Any) -> bool:
    """Whether two are primitives of one kind, made with the same arguments."""
    return isinstance(one, Primitive) and type(one) is type(other) and \
        one.name == other.name and one._fixed() == other._fixed()


class SeededPrimitive(Primitive):
    """A Primitive that draws from a stream of its own, if it is made with seeds.

    Its function takes the stream, or None for the global generator, as `seed`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        seeds = [integer(self.attrs[k], self.name, k) for k in SEEDS if k in self.attrs]
        if min(seeds) < 0:
            raise misuse(self.name, "the seeds must not be negative", seeds)
        self._stream = seeded(*seeds)

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        attrs = {k: v for k, v in self._fixed().items() if k not in SEEDS}
        return type(self).function(*operands, **kwargs, **attrs, seed=self._stream)


def _given_name(kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The name that a user's primitive is made with."""
    given = [*args, *kwargs.values()]
    if len(given) != 1 or set(kwargs) - {"name"} or not isinstance(given[0], str):
        raise TypeError(f"A Primitive is made with its name, a str; for '{kind}' the arguments are "
                        f"{args} {dict(kwargs) or ''}.")
    return str(given[0])


SEEDS = ("seed", "seed2", "Seed0", "Seed1")


def _bind(
    name: str, parameters: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of an init, defaults filled in."""
    if len(args) > len(parameters):
        raise TypeError(f"{name} takes {counted(len(parameters), 'argument')}, but {len(args)} "
                        "were given")
    given = dict(zip(parameters, args, strict=False))
    for key, value in kwargs.items():
        if key not in parameters:
            raise TypeError(f"{name} got an unexpected keyword argument {key!r}")
        if key in given:
            raise TypeError(f"{name} got multiple values for the argument {key!r}")
        given[key] = value
    full = {k: given.get(k, default) for k, default in parameters.items()}
    for key, value in full.items():
        if value is REQUIRED:
            raise TypeError(f"{name} is missing the argument {key!r}")
        kind = type(parameters[key])
        if (kind is bool and not isinstance(value, bool)) or (
                kind is int and isinstance(value, str)):
            raise misuse(name, f"the type of '{key}' should be '{kind.__name__}'",
                         f"type '{type(value).__name__}'", TypeError)
    return full


_USERS = (
    "PrimitiveWithCheck", "PrimitiveWithInfer", "_get_cache_prim", "_primexpr", "constexpr",
    "prim_arg_register", "prim_attr_register",
)
if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        """Return a further name of MindSpore's module, for users' primitives."""
        if name in _USERS:
            return getattr(user, name)
        raise no_attribute(__name__, name)
