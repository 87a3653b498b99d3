# ruff: noqa: F405 (names of modules that load later are known to the type checker by star imports)
"""cellc: a static-graph compiler for networks written as Cell classes.

`import cellc as ms` offers the names of `import mindspore as ms`.
"""

from __future__ import annotations

import sys as _sys

from cellc_runtime.lazy import lazy_module as _lazy_module
from cellc_runtime.lazy import lazy_names as _lazy_names
from cellc_runtime.lazy import public_names as _public_names

TYPE_CHECKING = False  # `typing` would cost more than all the rest; type checkers know the name

if TYPE_CHECKING:
    from . import (
        amp,
        boost,
        common,
        communication,
        context,
        dataset,
        device_context,
        experimental,
        hal,
        log,
        mindrecord,
        mint,
        nn,
        numpy,
        ops,
        parallel,
        profiler,
        rewrite,
        runtime,
        train,
        utils,
    )
    from . import (
        scipy as scipy,
    )
    from . import (
        testing as testing,
    )
    from .amp import DynamicLossScaleManager, FixedLossScaleManager
    from .common import Parameter, ParameterTuple, Symbol, Tensor, dtype, enable_dynamic, jit
    from .common import _Function as _Function
    from .common.api import ms_function as ms_function
    from .common.dtype import *  # noqa: F403
    from .common.seed import Generator, default_generator, get_seed, manual_seed, seed, set_seed
    from .compat import (
        JitConfig,
        from_dlpack,
        from_numpy,
        frombuffer,
        get_py_obj_dtype,
        get_rng_state,
        initial_seed,
        is_tensor,
        jit_class,
        lazy_inline,
        mutable,
        no_inline,
        register_saved_tensors_hooks,
        run_check,
        saved_tensors_hooks,
        set_rng_state,
        swap_tensors,
        tensor,
        to_dlpack,
    )
    from .context import (
        COMPATIBLE,
        GRAPH_MODE,
        LAX,
        PYNATIVE_MODE,
        STRICT,
        get_context,
        get_current_device,
        set_context,
        set_deterministic,
        set_device,
        set_recursion_limit,
    )
    from .devices import DeviceCtx
    from .log import get_level, get_log_config
    from .nn.recompute import recompute
    from .ops import get_grad, grad, jacfwd, jacrev, jvp, value_and_grad, vjp, vmap
    from .ops.collectives import reshard
    from .ops.sparse_tensors import COOTensor, CSRTensor, RowTensor, SparseTensor
    from .ops.untyped import UntypedStorage
    from .ops.user_primitives import constexpr
    from .parallel import *  # noqa: F403
    from .profiler import Profiler
    from .profiles import profile
    from .ranks.settings import *  # noqa: F403
    from .rewrite import Node, NodeType, ScopedValue, SymbolTree
    from .runtime import *  # noqa: F403
    from .tensors.dtype import *  # noqa: F403
    from .tools.explain import explain
    from .tools.watch import NonFiniteError, watch_nans, watch_ranges
    from .train import *  # noqa: F403
    from .train.callback import *  # noqa: F403
    from .train.metrics import *  # noqa: F403
    from .train.other_names import *  # noqa: F403
    from .utils.ms_dispatch import MsDispatchMode

_LATER = {
    ".amp": ("DynamicLossScaleManager", "FixedLossScaleManager"),
    ".common": (
        "Parameter", "ParameterTuple", "Symbol", "Tensor", "_Function", "dtype", "enable_dynamic",
        "jit",
    ),
    ".common.api": ("ms_function",),
    ".common.dtype": (
        "Int", "TensorType", "Type", "bfloat16", "bool", "bool_", "byte", "cdouble", "cfloat",
        "complex128", "complex64", "double", "dtype_to_nptype", "dtype_to_pytype", "float",
        "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float_", "half",
        "hifloat8", "int", "int16", "int32", "int64", "int8", "int_", "intc", "intp", "list_",
        "long", "number", "pytype_to_dtype", "qint4x2", "short", "single", "string", "tensor_type",
        "tuple_", "type_none", "ubyte", "uint", "uint16", "uint32", "uint64", "uint8", "uintc",
        "uintp", "ushort", "QuantDtype",
    ),
    ".common.seed": (
        "Generator", "default_generator", "get_seed", "manual_seed", "seed", "set_seed",
    ),
    ".compat": (
        "JitConfig", "from_dlpack", "from_numpy", "frombuffer", "get_py_obj_dtype",
        "get_rng_state", "initial_seed", "is_tensor", "jit_class", "lazy_inline", "mutable",
        "no_inline", "register_saved_tensors_hooks", "run_check", "saved_tensors_hooks",
        "set_rng_state", "swap_tensors", "tensor", "to_dlpack",
    ),
    ".context": (
        "COMPATIBLE", "GRAPH_MODE", "LAX", "PYNATIVE_MODE", "STRICT", "get_context",
        "get_current_device", "set_context", "set_deterministic", "set_device",
        "set_recursion_limit",
    ),
    ".dataset": (), ".device_context": (), ".experimental": (), ".hal": (),
    ".mint": (), ".numpy": (), ".scipy": (),
    ".nn": (),
    ".ops": (
        "get_grad", "grad", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp", "vmap",
    ),
    ".nn.recompute": ("recompute",),
    ".ops.sparse_tensors": ("COOTensor", "CSRTensor", "RowTensor", "SparseTensor"),
    ".ops.collectives": ("reshard",), ".ops.user_primitives": ("constexpr",),
    ".profiler": ("Profiler",),
    ".profiles": ("profile",),
    ".boost": (), ".communication": (),
    ".log": ("get_level", "get_log_config"),
    ".parallel": (
        "Layout", "build_searched_strategy", "load_distributed_checkpoint",
        "load_segmented_checkpoints", "merge_pipeline_strategys", "merge_sliced_parameter",
        "parameter_broadcast", "rank_list_for_transform", "restore_group_info_list", "shard",
        "sync_pipeline_shared_parameters", "transform_checkpoint_by_rank", "transform_checkpoints",
        "unified_safetensors",
    ),
    ".ranks.settings": (
        "ParallelMode", "get_algo_parameters", "get_auto_parallel_context", "get_ps_context",
        "reset_algo_parameters", "reset_auto_parallel_context", "reset_ps_context",
        "set_algo_parameters", "set_auto_parallel_context", "set_ps_context",
    ),
    ".mindrecord": (),
    ".testing": (),
    ".runtime": (
        "Event", "MemPool", "PluggableAllocator", "Stream", "StreamLimitCtx", "StreamCtx",
        "communication_stream", "current_stream", "default_stream", "dispatch_threads_num",
        "empty_cache", "get_device_limit", "get_stream_limit", "launch_blocking",
        "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_replay",
        "memory_reserved", "memory_stats", "memory_summary", "reset_max_memory_allocated",
        "reset_max_memory_reserved", "reset_peak_memory_stats", "reset_stream_limit",
        "set_cpu_affinity", "set_cur_stream", "set_device_limit", "set_kernel_launch_capture",
        "set_kernel_launch_group", "set_memory", "set_stream_limit", "synchronize", "use_mem_pool",
    ),
    ".ops.untyped": ("UntypedStorage",),
    ".tools.explain": ("explain",),
    ".tools.watch": ("NonFiniteError", "watch_nans", "watch_ranges"),
    ".train": (
        "F1", "MAE", "MSE", "ROC", "Accuracy", "BackupAndRestore", "BleuScore", "Callback",
        "CheckpointConfig", "ConfusionMatrix", "ConfusionMatrixMetric", "ConvertModelUtils",
        "ConvertNetUtils", "CosineSimilarity", "DatasetHelper", "Dice", "EarlyStopping", "Fbeta",
        "FlopsUtilizationCollector", "HausdorffDistance", "History", "LambdaCallback",
        "LearningRateScheduler", "Loss", "LossMonitor", "LossScaleManager", "MeanSurfaceDistance",
        "Metric", "Model", "ModelCheckpoint", "OcclusionSensitivity", "OnRequestExit",
        "Perplexity", "Precision", "ProgressBar", "Recall", "ReduceLROnPlateau",
        "RootMeanSquareDistance", "RunContext", "SummaryCollector", "SummaryRecord",
        "TimeMonitor", "Top1CategoricalAccuracy", "Top5CategoricalAccuracy",
        "TopKCategoricalAccuracy", "TrainFaultTolerance", "async_ckpt_thread_status", "auc",
        "build_train_network", "ckpt_to_safetensors", "connect_network_with_dataset", "data_sink",
        "export", "get_metric_fn", "latest_checkpoint", "load", "load_checkpoint",
        "load_checkpoint_async", "load_param_into_net", "names", "rearrange_inputs",
        "safetensors_to_ckpt", "save_checkpoint",
    ),
    ".train.other_names": (
        "SummaryLandscape", "export_split_mindir", "flops_collection",
        "get_ckpt_path_with_strategy", "load_mindir", "load_obf_params_into_net", "mindio_preload",
        "ms_memory_recycle", "obfuscate_ckpt", "save_mindir", "set_dump", "set_mindio_server_info",
    ),
    ".devices": ("DeviceCtx",),
    ".rewrite": ("Node", "NodeType", "ScopedValue", "SymbolTree"),
    ".utils": (), ".utils.ms_dispatch": ("MsDispatchMode",),
}  # fmt: skip
"""Modules that load when they, or names of theirs, are first asked for. Importing cellc itself
loads none of them, nor numpy."""
if not TYPE_CHECKING:
    __getattr__ = _lazy_names(
        __name__, {home: " ".join(names) for home, names in _LATER.items()})
__dir__ = _public_names(__name__)
_old_paths = _lazy_module("cellc.old_paths")


class _OldPaths:
    """Answers imports of MindSpore's older paths below `cellc`, which `old_paths` lists."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        """Asked for what no other finder has found."""
        if not name.startswith("cellc.") or name == "cellc.old_paths":
            return None
        return _old_paths.OldPaths.find_spec(name)


_sys.meta_path.append(_OldPaths)  # type: ignore[arg-type]  # importlib's types would have to load


__version__ = "0.1.0"

__all__ = [
    *_LATER[".common.dtype"],
    "Accuracy", "BackupAndRestore", "BleuScore", "COMPATIBLE", "COOTensor", "CSRTensor", "Callback",
    "CheckpointConfig", "ConfusionMatrix", "ConfusionMatrixMetric", "ConvertModelUtils",
    "ConvertNetUtils", "CosineSimilarity", "DatasetHelper", "DeviceCtx", "Dice",
    "DynamicLossScaleManager", "EarlyStopping", "Event", "F1", "Fbeta", "FixedLossScaleManager",
    "FlopsUtilizationCollector", "GRAPH_MODE", "Generator", "HausdorffDistance", "History",
    "JitConfig", "LAX", "LambdaCallback", "Layout", "LearningRateScheduler", "Loss", "LossMonitor",
    "LossScaleManager", "MAE", "MSE", "MeanSurfaceDistance", "MemPool", "Metric", "Model",
    "ModelCheckpoint", "MsDispatchMode", "Node", "NodeType", "NonFiniteError",
    "OcclusionSensitivity", "OnRequestExit", "PYNATIVE_MODE",
    "ParallelMode", "Parameter", "ParameterTuple", "Perplexity",
    "PluggableAllocator", "Precision", "Profiler", "ProgressBar", "ROC", "Recall",
    "ReduceLROnPlateau", "RootMeanSquareDistance", "RowTensor", "RunContext", "STRICT",
    "ScopedValue", "SparseTensor", "Stream", "StreamCtx", "StreamLimitCtx", "SummaryCollector",
    "SummaryLandscape", "SummaryRecord", "Symbol", "SymbolTree", "Tensor", "TimeMonitor",
    "Top1CategoricalAccuracy", "Top5CategoricalAccuracy", "TopKCategoricalAccuracy",
    "TrainFaultTolerance", "UntypedStorage", "amp", "async_ckpt_thread_status", "auc", "boost",
    "build_searched_strategy", "build_train_network", "ckpt_to_safetensors", "common",
    "communication", "communication_stream", "connect_network_with_dataset", "constexpr", "context",
    "current_stream", "data_sink", "dataset", "default_generator", "default_stream",
    "device_context", "dispatch_threads_num", "dtype", "empty_cache", "enable_dynamic",
    "experimental", "explain", "export", "export_split_mindir", "flops_collection", "from_dlpack",
    "from_numpy", "frombuffer", "get_algo_parameters", "get_auto_parallel_context",
    "get_ckpt_path_with_strategy", "get_context", "get_current_device", "get_device_limit",
    "get_grad", "get_level", "get_log_config", "get_metric_fn", "get_ps_context",
    "get_py_obj_dtype", "get_rng_state", "get_seed", "get_stream_limit", "grad", "hal",
    "initial_seed", "is_tensor", "jacfwd", "jacrev", "jit", "jit_class", "jvp", "latest_checkpoint",
    "launch_blocking", "lazy_inline", "load", "load_checkpoint", "load_checkpoint_async",
    "load_distributed_checkpoint", "load_mindir", "load_obf_params_into_net", "load_param_into_net",
    "load_segmented_checkpoints", "log", "manual_seed", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_replay", "memory_reserved", "memory_stats",
    "memory_summary", "merge_pipeline_strategys", "merge_sliced_parameter", "mindio_preload",
    "mindrecord", "mint", "ms_memory_recycle", "mutable", "names", "nn", "no_inline", "numpy",
    "obfuscate_ckpt", "ops", "parallel", "parameter_broadcast", "profile", "profiler",
    "rank_list_for_transform", "rearrange_inputs", "recompute", "register_saved_tensors_hooks",
    "reset_algo_parameters", "reset_auto_parallel_context", "reset_max_memory_allocated",
    "reset_max_memory_reserved", "reset_peak_memory_stats", "reset_ps_context",
    "reset_stream_limit", "reshard", "restore_group_info_list", "rewrite", "run_check", "runtime",
    "safetensors_to_ckpt", "save_checkpoint", "save_mindir", "saved_tensors_hooks", "seed",
    "set_algo_parameters", "set_auto_parallel_context", "set_context", "set_cpu_affinity",
    "set_cur_stream", "set_deterministic", "set_device", "set_device_limit", "set_dump",
    "set_kernel_launch_capture", "set_kernel_launch_group", "set_memory", "set_mindio_server_info",
    "set_ps_context", "set_recursion_limit", "set_rng_state", "set_seed", "set_stream_limit",
    "shard", "swap_tensors", "sync_pipeline_shared_parameters", "synchronize", "tensor",
    "to_dlpack", "train", "transform_checkpoint_by_rank", "transform_checkpoints",
    "unified_safetensors", "use_mem_pool", "utils", "value_and_grad", "vjp", "vmap", "watch_nans",
    "watch_ranges",
]
