"""cellc: a static-graph compiler for networks written as Cell classes.

`import cellc as ms` offers the names of `import mindspore as ms`. The source of a public name is
MindSpore's name of the same path, unless its docstring says otherwise.
"""

from __future__ import annotations

import sys as _sys

from cellc_runtime import __version__ as _runtime_version
from cellc_runtime.lazy import facade as _facade
from cellc_runtime.lazy import lazy_module as _lazy_module
from cellc_runtime.lazy import public_names as _public_names

_HOMES = {
    ".":
        "amp boost common communication context dataset device_context experimental hal log "
        "mindrecord mint nn numpy ops parallel profiler rewrite runtime train utils | scipy "
        "testing",
    ".amp": "DynamicLossScaleManager FixedLossScaleManager",
    ".cli.entries": "compile_artifact",
    ".common": "Parameter ParameterTuple Symbol Tensor dtype enable_dynamic jit | _Function",
    ".common.api": "| ms_function",
    ".common.dtype":
        "Int TensorType Type bfloat16 bool bool_ byte cdouble cfloat complex128 complex64 double "
        "dtype_to_nptype dtype_to_pytype float float16 float32 float64 float8_e4m3fn float8_e5m2 "
        "float_ half hifloat8 int int16 int32 int64 int8 int_ intc intp list_ long number "
        "pytype_to_dtype qint4x2 short single string tensor_type tuple_ type_none ubyte uint "
        "uint16 uint32 uint64 uint8 uintc uintp ushort QuantDtype",
    ".common.seed": "Generator default_generator get_seed manual_seed seed set_seed",
    ".compat":
        "JitConfig from_dlpack from_numpy frombuffer get_py_obj_dtype get_rng_state initial_seed "
        "is_tensor jit_class lazy_inline mutable no_inline register_saved_tensors_hooks run_check "
        "saved_tensors_hooks set_rng_state swap_tensors tensor to_dlpack",
    ".context":
        "COMPATIBLE GRAPH_MODE LAX PYNATIVE_MODE STRICT get_context get_current_device set_context "
        "set_deterministic set_device set_recursion_limit",
    ".ops": "get_grad grad jacfwd jacrev jvp value_and_grad vjp vmap",
    ".nn.recompute": "recompute",
    ".ops.sparse_tensors": "COOTensor CSRTensor RowTensor SparseTensor",
    ".ops.primitives.collectives": "reshard",
    ".ops.primitives.user": "constexpr",
    ".profiler": "Profiler",
    ".profiles": "profile",
    ".quantization": "quantize",
    ".log": "get_level get_log_config",
    ".parallel":
        "Layout build_searched_strategy load_distributed_checkpoint load_segmented_checkpoints "
        "merge_pipeline_strategys merge_sliced_parameter parameter_broadcast "
        "rank_list_for_transform restore_group_info_list shard sync_pipeline_shared_parameters "
        "transform_checkpoint_by_rank transform_checkpoints unified_safetensors",
    ".ranks.settings":
        "ParallelMode get_algo_parameters get_auto_parallel_context get_ps_context "
        "reset_algo_parameters reset_auto_parallel_context reset_ps_context set_algo_parameters "
        "set_auto_parallel_context set_ps_context",
    ".runtime":
        "Event MemPool PluggableAllocator Stream StreamLimitCtx StreamCtx communication_stream "
        "current_stream default_stream dispatch_threads_num empty_cache get_device_limit "
        "get_stream_limit launch_blocking max_memory_allocated max_memory_reserved "
        "memory_allocated memory_replay memory_reserved memory_stats memory_summary "
        "reset_max_memory_allocated reset_max_memory_reserved reset_peak_memory_stats "
        "reset_stream_limit set_cpu_affinity set_cur_stream set_device_limit "
        "set_kernel_launch_capture set_kernel_launch_group set_memory set_stream_limit synchronize "
        "use_mem_pool",
    ".ops.untyped": "UntypedStorage",
    ".tools.explain": "explain",
    ".tools.watch": "NonFiniteError watch_nans watch_ranges",
    ".train":
        "F1 MAE MSE ROC Accuracy BackupAndRestore BleuScore Callback CheckpointConfig "
        "ConfusionMatrix ConfusionMatrixMetric ConvertModelUtils ConvertNetUtils CosineSimilarity "
        "DatasetHelper Dice EarlyStopping Fbeta FlopsUtilizationCollector HausdorffDistance "
        "History LambdaCallback LearningRateScheduler Loss LossMonitor LossScaleManager "
        "MeanSurfaceDistance Metric Model ModelCheckpoint OcclusionSensitivity OnRequestExit "
        "Perplexity Precision ProgressBar Recall ReduceLROnPlateau RootMeanSquareDistance "
        "RunContext SummaryCollector SummaryRecord TimeMonitor Top1CategoricalAccuracy "
        "Top5CategoricalAccuracy TopKCategoricalAccuracy TrainFaultTolerance "
        "async_ckpt_thread_status auc build_train_network ckpt_to_safetensors "
        "connect_network_with_dataset data_sink export get_metric_fn latest_checkpoint load "
        "load_checkpoint load_checkpoint_async load_param_into_net load_torch_weights names "
        "rearrange_inputs safetensors_to_ckpt save_checkpoint",
    ".train.other_names":
        "SummaryLandscape export_split_mindir flops_collection get_ckpt_path_with_strategy "
        "load_mindir load_obf_params_into_net mindio_preload ms_memory_recycle obfuscate_ckpt "
        "save_mindir set_dump set_mindio_server_info",
    ".devices": "DeviceCtx",
    ".rewrite": "Node NodeType ScopedValue SymbolTree",
    ".utils.ms_dispatch": "MsDispatchMode",
}
"""Names by the module that has them, which loads at the first use of one; see `facade`. Importing
cellc itself loads none of them, nor numpy."""
_other_names = _lazy_module("cellc.core.other_names")
_facade(__name__, _HOMES, lambda module, name: _other_names.missing_name(module, name))
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
if _runtime_version != __version__:  # another distribution has replaced the files that cellc brings
    raise ImportError(
        f"cellc {__version__} needs the cellc_runtime {__version__} that it brings, but there is "
        f"{_runtime_version}: uninstall cellc-runtime, and install cellc again.")
