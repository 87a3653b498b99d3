"""Names of MindSpore's inner modules that scripts use besides its public ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from enum import Enum
from functools import wraps
from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.lazy import imported, no_attribute
from cellc_runtime.records import dataclass, field

from . import context, log
from .ranks.management import GlobalComm
from .ranks.management import GroupOptions as GroupOptions
from .runtime import synchronize


class PyNativeExecutor:
    """The executor of single operations, as scripts use it."""

    def sync(self) -> None:
        """Wait until everything is computed."""
        synchronize()

    def set_grad_flag(self, flag: bool) -> None:
        """Accepted for compatibility: gradients are recorded where they are requested."""

    def set_graph_phase(self, phase: str) -> None:
        """Accepted for compatibility: a graph is found by what it is called with."""

    def set_lazy_build(self, enable: bool) -> None:
        """Accepted for compatibility."""

    def clear_res(self) -> None:
        """Accepted for compatibility: nothing outlives its use."""

    def set_py_exe_path(self, path: str) -> None:
        """Accepted for compatibility."""


class Security:
    """The safe mode of MindSpore's build."""

    @staticmethod
    def enable_security() -> bool:
        """Whether the build leaves out what writes data of a run: no."""
        return False


bfloat16: type = dtypes.bfloat16.numpy.type
"""The element type of arrays that `np_dtype` names."""
security = Security()
pynative_executor = PyNativeExecutor()
cells_compile_cache: dict[int, Any] = {}
"""MindSpore's table of compiled Cells: empty, since a Cell keeps its own."""


def init_exec_dataset(*args: Any, **kwargs: Any) -> None:
    """Not here: data are not sunk to a device."""
    raise RuntimeError("init_exec_dataset sinks data to an Ascend device or a GPU; here a network "
                       "takes the batches of the dataset: use Model.train or an iterator.")


class _ContextParameters:
    """Names of the options that `MSContext` keeps."""

    def __getattr__(self, name: str) -> str:
        """An option is requested by its name."""
        if name.startswith("_"):
            raise AttributeError(name)
        return name


ms_ctx_param = _ContextParameters()


class MSContext:
    """The options of `set_context`, as C++ code of MindSpore keeps them."""

    _instance: MSContext | None = None

    @classmethod
    def get_instance(cls) -> MSContext:
        """The one that there is."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def get_param(self, param: str) -> Any:
        """The value of an option."""
        return context.get_context(param)

    def set_param(self, param: str, value: Any) -> None:
        """Set an option."""
        context.set_context(**{param: value})

    def get_ascend_soc_version(self) -> str:
        """The kind of Ascend device: none."""
        return ""

    def get_backend_policy(self) -> str:
        """Which engine runs graphs."""
        return "ms"

    def enable_dump_ir(self) -> bool:
        """Whether graphs can be written as text: yes."""
        return True

    def load_plugin_error(self) -> str:
        """Why code for another device was not loaded: there is none to load."""
        return ""

    def ascend_soc_supports_feature(self, feature: str) -> bool:
        """Whether the Ascend device has a feature: there is no device."""
        return False

    def is_pkg_support_device(self, device: str) -> bool:
        """Whether the installation runs on a kind of device."""
        return device in ("CPU", "GPU")

    def is_ascend_plugin_loaded(self) -> bool:
        """Whether code for Ascend devices was loaded: no."""
        return False


@dataclass
class ParamInfo:
    """The data of MindSpore's C++ code about a parameter."""

    name: str = "Parameter"
    requires_grad: bool = True
    requires_aggr: bool = True
    layerwise_parallel: bool = False
    parallel_optimizer: bool = True
    parallel_optimizer_comm_recompute: bool = False
    comm_fusion: int = 1
    cache_enable: bool = False
    is_param_init: bool = False
    is_pipeline_shared_param: bool = False
    interleaved_parallel: bool = False
    is_in_pynative_shard: bool = False
    is_quant_int4: bool = False
    use_persistent_storage: bool = False
    key: int = -1
    storage_format: str = ""
    alias_name: list[str] = field(default_factory=list)
    cache_shape: list[int] = field(default_factory=list)
    param_strategy: list[int] = field(default_factory=list)
    parameter_shape: list[int] = field(default_factory=list)
    origin_shape: list[int] = field(default_factory=list)
    tensor_map: list[int] = field(default_factory=list)
    device_matrix: list[int] = field(default_factory=list)
    quant_shape: list[int] = field(default_factory=list)

    def clone(self) -> ParamInfo:
        """A copy."""
        return deepcopy(self)


class StubTensor:
    """A tensor that MindSpore has not yet computed: no value is one, here as in MindSpore 2.10."""


class Registry:
    """Functions that MindSpore's Tensor calls, by name: those of `ops`, and what was set here."""

    def get(self, obj_str: str) -> Any:
        """A function."""
        found = vars(self).get(obj_str)
        return getattr(imported("cellc.ops"), obj_str) if found is None else found

    def register(self, name: str, value: Any) -> None:
        """Set a function."""
        setattr(self, name, value)


tensor_operator_registry = Registry()


class Backend(Enum):
    """The libraries that connect processes."""

    HCCL = "hccl"
    NCCL = "nccl"
    MCCL = "mccl"
    UNDEFINED = "undefined"


def _is_initialized() -> bool:
    """Whether `communication.init` was called."""
    return GlobalComm.INITED


def _is_available() -> bool:
    """Whether processes can be connected."""
    return True


def is_shape_unknown(shape: Sequence[int]) -> bool:
    """Whether a length (-1) or the number of axes (-2) of a shape is open."""
    return any(n in (-1, -2) for n in shape)


def is_dim_unknown(shape: Sequence[int]) -> bool:
    """Whether the number of axes of a shape (-2) is open."""
    return -2 in shape


def get_func(func: Any) -> Any:
    """The function of a method; another callable itself."""
    return getattr(func, "__func__", func)


def deprecated(
    version: str, substitute: str, use_substitute_name: bool = False, module_prefix: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: each call warns that the function will go.

    Args:
        version: since when it is old.
        substitute: what is used instead.
        use_substitute_name: whether it is called `substitute` from now on.
        module_prefix: is before the names in the warning.
    """
    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def warns(*args: Any, **kwargs: Any) -> Any:
            log.warning(
                f"'{module_prefix}{func.__name__}' is deprecated from version {version} and will "
                f"be removed in a future version, use '{module_prefix}{substitute}' instead.")
            return func(*args, **kwargs)

        if use_substitute_name:
            warns.__name__ = substitute
        return warns

    return decorate


_CLASSES = {
    "Cell_": "nn.Cell", "GradOperation_": "ops.GradOperation", "HyperMap_": "ops.HyperMap",
    "MultitypeFuncGraph_": "ops.MultitypeFuncGraph", "Primitive_": "ops.Primitive",
    "TensorPy": "common.Tensor", "Generator_": "common.Generator",
    "GraphExecutor_": "common.api._CellGraphExecutor",
}
"""Names of MindSpore's C++ classes that classes of Python derive from."""


def __getattr__(name: str) -> Any:
    """A class of another module, which loads when it is requested."""
    home, _, last = _CLASSES.get(name, "").rpartition(".")
    if not home:
        raise no_attribute(__name__, name)
    return getattr(imported(f"cellc.{home}"), last)
