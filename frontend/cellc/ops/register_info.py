"""The contents of MindSpore's registration of operators: the types and formats of functions.

cellc reads nothing of it. It is here so that files that register their functions run.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

import functools
from collections import UserDict
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from ..core.declared import instance
from ..core.native import names_itself
from ..tensors.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def custom_info_register(*reg_info: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Bind registration information to a function.

    Args:
        reg_info: what `CustomRegOp.get_op_info` gave, one for each target.

    Returns:
        A decorator; the function it gives does the same.
    """
    def decorator(function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        function.reg_info = reg_info
        return functools.update_wrapper(wrapper, function)

    return decorator


def _facts(kind: type, strings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    for value in strings.values():
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{value} value must be {kind.__name__}")
    return {**{k: v for k, v in strings.items() if v is not None}, **more}


@names_itself
class CustomRegOp:
    """Registration information of a `Custom` operator.

    Args:
        op_name: recorded.

    Examples:
        >>> info = ops.CustomRegOp().input(0, "x").output(0, "y") \\
        ...     .dtype_format(ops.DataType.F32_None, ops.DataType.F32_None) \\
        ...     .target("CPU").get_op_info()
    """

    def __init__(self, op_name: str = "Custom") -> None:
        if not isinstance(op_name, str):
            raise ValueError("op name value must be string")
        if not op_name.strip():
            raise ValueError("op name is empty")
        self.op_name = op_name
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.attributes: list[dict[str, Any]] = []
        self.fusion = ""
        self.formats: list[tuple[Any, ...]] = []
        self.device: str | None = "UnKnown"

    def input(
        self, index: int | None = None, name: str | None = None,
        param_type: str | None = "required", **kwargs: Any,
    ) -> Self:
        """Tell of one input; itself."""
        self.inputs.append(self._tensor(index, name, param_type, kwargs))
        return self

    def output(
        self, index: int | None = None, name: str | None = None,
        param_type: str | None = "required", **kwargs: Any,
    ) -> Self:
        """Tell of one output; itself."""
        self.outputs.append(self._tensor(index, name, param_type, kwargs))
        return self

    def _tensor(self, index: Any, name: Any, kind: Any, more: dict[str, Any]) -> dict[str, Any]:
        return {**_facts(int, {"index": index}, {}),
                **_facts(str, {"name": name, "paramType": kind}, more)}

    def dtype_format(self, *args: Sequence[str]) -> Self:
        """Tell of one combination of types, a pair of `DataType` for each tensor; itself."""
        count = len(self.inputs) + len(self.outputs)
        if len(args) != count:
            raise ValueError(f"The size of 'args' must be equal to the sum of input tensors and "
                             f"output tensors, but got {len(args)} vs {count}")
        for arg in args:
            if not isinstance(arg, tuple) or len(arg) not in (2, 3):
                raise ValueError("dtype and format value must be tuple of two or three elements")
            _facts(str, {str(i): part for i, part in enumerate(arg)}, {})
        self.formats.append(args)
        return self

    def attr(
        self, name: str | None = None, param_type: str | None = None,
        value_type: str | None = None, default_value: str | None = None, **kwargs: Any,
    ) -> Self:
        """Tell of an attribute; itself."""
        self.attributes.append(_facts(str, {
            "name": name, "paramType": param_type, "type": value_type,
            "defaultValue": default_value}, kwargs))
        return self

    def fusion_type(self, fusion_type: str) -> Self:
        """Tell how it might be fused; itself."""
        _facts(str, {"fusion_type": fusion_type}, {})
        self.fusion = fusion_type
        return self

    def target(self, target: str | None = None) -> Self:
        """Tell of the device; itself."""
        _facts(str, {"target": target}, {})
        self.device = target
        return self

    def get_op_info(self) -> dict[str, Any]:
        """Return all declarations, as a dict."""
        return {"op_name": self.op_name, "inputs": self.inputs, "outputs": self.outputs,
                "attr": self.attributes, "fusion_type": self.fusion,
                "dtype_format": self.formats, "target": self.device}


_FORMATS = {
    "None": "", "Default": "DefaultFormat", "5HD": "NC1HWC0", "FracZ": "FRACTAL_Z",
    "FracNZ": "FRACTAL_NZ", "C1HWNCoC0": "C1HWNCoC0", "NCHW": "NCHW", "NHWC": "NHWC",
    "HWCN": "HWCN", "NDHWC": "NDHWC", "ChannelLast": "ChannelLast", "NCDHW": "NCDHW",
    "DHWCN": "DHWCN", "NDC1HWC0": "NDC1HWC0", "NC1HWC0": "NC1HWC0",
    "FRACTAL_Z_3D": "FRACTAL_Z_3D", "FracZNLSTM": "FRACTAL_ZN_LSTM",
    "FracZNRNN": "FRACTAL_ZN_RNN", "ND_RNNBIAS": "ND_RNN_BIAS",
}
_COMMON = ("None", "Default", "5HD", "FracZ", "FracNZ", "C1HWNCoC0", "NCHW", "NHWC", "HWCN",
           "NDHWC", "ChannelLast")
_BYTES = ("NCDHW", "NDC1HWC0", "NC1HWC0")
_REALS = ("NCDHW", "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "FracZNLSTM", "FracZNRNN", "ND_RNNBIAS")
_DTYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "BOOL": ("bool", ()), "I8": ("int8", _BYTES), "U8": ("uint8", _BYTES), "I16": ("int16", ()),
    "U16": ("uint16", ()), "I32": ("int32", ("NCDHW", "NDC1HWC0")), "U32": ("uint32", ()),
    "I64": ("int64", ()), "U64": ("uint64", ()), "F16": ("float16", _REALS),
    "F32": ("float32", _REALS), "F64": ("float64", ()), "BF16": ("bfloat16", _REALS),
}


def _pairs() -> dict[str, tuple[str, ...]]:
    """Every combination that MindSpore has a name for."""
    out: dict[str, tuple[str, ...]] = {"None_None": ("", ""), "None_Default": ("", "DefaultFormat")}
    for short, (dtype, more) in _DTYPES.items():
        for form in (*_COMMON, *more):
            out[f"{short}_{form}"] = (dtype, _FORMATS[form])
        for kind in ("Tuple", "List"):
            out[f"{short}_Default_{kind}"] = (dtype, "DefaultFormat", kind.lower())
    for short, dtype in (("C64", "complex64"), ("C128", "complex128")):
        out[f"{short}_Default"] = (dtype, "DefaultFormat")
        out[f"{short}_Default_Tuple"] = (dtype, "DefaultFormat", "tuple")
    return out


class _Pairs(type):
    """The pairs as attributes of a class."""

    pairs = _pairs()

    def __getattr__(cls, name: str) -> tuple[str, ...]:
        try:
            return cls.pairs[name]
        except KeyError:
            raise AttributeError(f"DataType has no {name!r}") from None

    def __dir__(cls) -> list[str]:
        return [*super().__dir__(), *cls.pairs]


class DataType(metaclass=_Pairs):
    """Pairs of an element type and a format: `DataType.F32_Default` is
    `("float32", "DefaultFormat")`."""


class _RegOp(CustomRegOp):
    """Registration information of a function for another kind of processor: kept, so that files
    that register such functions run."""

    def __init__(self, op_name: str = "") -> None:
        super().__init__(op_name)
        self.more: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A fact of MindSpore's registration (`async_flag`, `kernel_name`...), remembered."""
        if name.startswith("_") or name not in _FACTS:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has "
                                 f"{', '.join(sorted(_FACTS))}")

        def remember(value: Any = None) -> Any:
            self.more[name] = value
            return self

        return remember


_FACTS = frozenset((
    "async_flag", "binfile_name", "bprop_flag", "compute_cost", "cust_aicpu", "dynamic_shape",
    "dynamic_rank_support", "dynamic_compile_static", "format_kernel", "imply_type",
    "is_dynamic_format", "kernel_name", "need_check_supported", "op_pattern", "partial_flag",
    "processor", "real_input_index", "reshape_type", "input_to_attr_index", "unknown_shape_formats",
))


class TBERegOp(_RegOp):
    """A description of functions in TBE, as MindSpore's registers want it: kept, and
    without effect here."""

    def input(  # type: ignore[override]  # MindSpore's order of arguments
        self, index: int | None = None, name: str | None = None, need_compile: bool | None = None,
        param_type: str | None = None, shape: str | None = None, **kwargs: Any,
    ) -> Self:
        """Tell of one input, and how TBE compiles it; itself."""
        return super().input(index, name, param_type, **_pick(kwargs, need_compile, shape))

    def output(  # type: ignore[override]  # as above
        self, index: int | None = None, name: str | None = None, need_compile: bool | None = None,
        param_type: str | None = None, shape: str | None = None, **kwargs: Any,
    ) -> Self:
        """Tell of one output, and how TBE compiles it; itself."""
        return super().output(index, name, param_type, **_pick(kwargs, need_compile, shape))


def _pick(more: dict[str, Any], need_compile: bool | None, shape: str | None) -> dict[str, Any]:
    """The facts of a tensor that are given."""
    given = {"need_compile": need_compile, "shape": shape}
    return {**more, **{k: v for k, v in given.items() if v is not None}}


class AiCPURegOp(_RegOp):
    """A description of functions for the CPUs of Ascend machines, as MindSpore's registers want it:
    kept, and without effect here."""


class AkgAscendRegOp(_RegOp):
    """A description of functions in AKG for Ascend, as MindSpore's registers want it: kept, and
    without effect here."""


class AkgGpuRegOp(_RegOp):
    """A description of functions in AKG for GPUs, as MindSpore's registers want it: kept, and
    without effect here."""


class CpuRegOp(_RegOp):
    """A description of functions for CPUs, as MindSpore's registers want it: kept, and
    without effect here."""


def op_info_register(op_info: Any) -> Callable[[F], F]:
    """A decorator that keeps registration information about a function, which it gives back.

    Args:
        op_info: what `get_op_info` of a registration gave, or a str of JSON.
    """
    instance(dict, str)(op_info, "op_info_register", "op_info")

    def keep(function: F) -> F:
        function.op_info = op_info  # type: ignore[attr-defined]  # a mark on a function
        return function

    return keep


class Registry(UserDict[str, Any]):
    """Python functions of primitives by name, for tools that run them one by one."""

    def register(self, prim: Any) -> Callable[[F], F]:
        """A decorator: its function makes what computes a primitive, given that."""
        def keep(make: F) -> F:
            self[_primitive_name(prim)] = make
            return make

        return keep

    def get(self, prim: Any, default: Any = None) -> Any:
        """Return the function registered for a primitive or its name, else the default."""
        return self.data.get(_primitive_name(prim), default)


vm_impl_registry = Registry()
"""Source: `mindspore.ops.vm_impl_registry`."""
bprop_getters = Registry()
"""Functions that make the Python gradient of a primitive. Those of the library's own primitives
are not asked: they have their gradients. Source: `mindspore.ops._grad_experimental.grad_base`."""


def _primitive_name(prim: Any) -> str:
    return prim if isinstance(prim, str) else \
        str(prim.__name__ if isinstance(prim, type) else prim.name)


def get_vm_impl_fn(prim: Any) -> Any:
    """Return the function registered for a primitive; None if there is none.

    Args:
        prim: the primitive, or its name.
    """
    return _make_info(vm_impl_registry, prim)


def get_bprop_fn(prim: Any) -> Any:
    """Return the Python gradient registered for a primitive; None if there is none."""
    return _make_info(bprop_getters, prim)


def _make_info(registry: Registry, prim: Any) -> Any:
    make = registry.get(prim)
    return None if make is None else make(prim)


class _TensorOperators:
    """The functions of Tensor's methods, by name."""

    def get(self, name: str) -> Any:
        """The function of a name."""
        return getattr(Tensor, name)

    __getattr__ = get


tensor_operator_registry = _TensorOperators()
"""Source: `mindspore.ops.tensor_operator_registry`."""

__all__ = [
    "AiCPURegOp", "AkgAscendRegOp", "AkgGpuRegOp", "CpuRegOp", "CustomRegOp", "DataType",
    "TBERegOp", "custom_info_register", "get_vm_impl_fn", "op_info_register",
    "tensor_operator_registry", "vm_impl_registry",
]
