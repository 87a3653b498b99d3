"""Import paths of MindSpore whose names have another home here: one table, no modules of their own.

`import cellc.nn.wrap.loss_scale` (and `mindspore.nn.wrap.loss_scale` through `cellc.shim`) finds a
module that has the names of `cellc.nn.loss_scale`. Each is looked up where it is defined, whenever
it is requested.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from cellc_runtime.lazy import Package, imported, no_attribute

from .core.later import other_names

_PREFIX = "cellc."
_METRICS = (
    "accuracy", "auc", "bleu_score", "confusion_matrix", "cosine_similarity", "dice", "error",
    "fbeta", "hausdorff_distance", "loss", "mean_surface_distance", "metric",
    "occlusion_sensitivity", "perplexity", "precision", "recall", "roc",
    "root_mean_square_surface_distance", "topk",
)
_HOMES: dict[str, dict[str, str]] = {
    "": {"_checkparam": "checking", "_extends": "nn.registering",
         "_c_expression": "inner_names common", "graph": "common ops.op_customs",
         "version": "",
         "onnx": "train.onnx_names",
         **dict.fromkeys(("device_manager", "run_check", "safeguard"), ".")},
    "_c_expression": {"typing": "tensors.type_classes"},
    "_extends": {"utils": "nn.registering", "builtin_operations": "ops"},
    "boost": {
        **dict.fromkeys(
            ("adasum", "base", "boost", "boost_cell_wrapper", "dim_reduce", "grad_accumulation",
             "grad_freeze", "group_loss_scale_manager"), "boost"),
        "less_batch_normalization": "boost nn.boost.less_bn",
    },
    "common": {
        **dict.fromkeys(("lazy_inline", "mutable", "no_inline", "recompute"), "common"),
        **dict.fromkeys(
            ("_decorator", "_register_for_tensor", "_stub_tensor", "_utils"), "inner_names"),
        "device": "devices", "dynamic_shape": "common", "mindir_util": "train.other_names",
        "storage": "ops.untyped", "file_system": "train.other_names",
        "dump": "train.other_names",
        "hook_handle": "calls.hooks", "jit_config": "compat", "np_dtype": "inner_names",
        "sparse_tensor": "ops.sparse_tensors",
    },
    "common.dynamic_shape": {"enable_dynamic": "common"},
    "communication": {"_comm_helper": "inner_names communication.management"},
    "dataset": {
        "callback": "dataset", "context": "context", "core": "dataset", "ds": "dataset",
        "engine": "dataset",
    },
    "dataset.audio": {"transforms": "dataset.audio dataset.audio.base", "utils": "dataset.audio"},
    "dataset.callback": {"ds_callback": "dataset"},
    "dataset.core": {
        "config": "dataset.config", "datatypes": "dataset.transforms",
        "validator_helpers": "dataset.rules",
    },
    "dataset.dataloader": {
        "_utils": "dataset.dataloader", "dataloader": "dataset.dataloader",
        "distributed": "dataset.dataloader",
    },
    "dataset.dataloader._utils": {
        "collate": "dataset.dataloader.collate", "worker": "dataset.dataloader.worker",
    },
    "dataset.engine": {
        **dict.fromkeys(
            ("datasets", "datasets_audio", "datasets_standard_format", "datasets_text",
             "datasets_user_defined", "datasets_vision", "iterators"), "dataset"),
        "samplers": "dataset.samplers",
    },
    "dataset.text": {"transforms": "dataset.text dataset.text.base", "utils": "dataset.text"},
    "dataset.transforms": {
        "c_transforms": "dataset.transforms", "py_transforms": "dataset.transforms",
        "transforms": "dataset.transforms", "validators": "dataset.transforms",
    },
    "dataset.vision": {
        "c_transforms": "dataset.vision", "py_transforms": "dataset.vision",
        "py_transforms_util": "dataset.vision.pillow",
        "transforms": "dataset.vision dataset.vision.base",
        "utils": "dataset.vision dataset.vision.pillow", "validators": "dataset.transforms",
    },
    **{f"device_context.{name}": dict.fromkeys(modules.split(), f"device_context.{name}")
       for name, modules in (("ascend", "device op_debug op_precision op_tuning"),
                             ("cpu", "device op_tuning"),
                             ("gpu", "device op_precision op_tuning"))},
    "experimental.optim": dict.fromkeys(
        ("adadelta", "adagrad", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop"),
        "experimental.optim"),
    "graph": {"_utils": "common", "dynamic_shape": "common", "jit_config": "compat",
              "symbol": "common.symbol"}
    | dict.fromkeys(("api", "lazy_inline", "mutable", "no_inline"), "common")
    | dict.fromkeys(("custom_infer", "custom_pass"), "ops.op_customs"),
    "graph._utils": {"cell_attr_register": "nn.registering", "mindir_util": "train.other_names"},
    "graph.dynamic_shape": {"enable_dynamic": "common"},
    "hal": {"contiguous_tensors_handle": "ops.contiguous_handles",
            **dict.fromkeys(("device", "event", "memory", "stream"), "hal")},
    "mindrecord": {
        "common": "records",
        **dict.fromkeys(("config", "filereader", "filewriter", "mindpage", "tools"), "mindrecord"),
    },
    "mindrecord.tools": dict.fromkeys(
        ("cifar100_to_mr", "cifar10_to_mr", "csv_to_mr", "imagenet_to_mr", "mnist_to_mr",
         "tfrecord_to_mr"), "mindrecord"),
    "mindrecord.common": {"exceptions": "records.exceptions"},
    "mint": {"ops": "ops"},
    "mint.distributed": {"distributed": "mint.distributed"},
    "mint.optim": dict.fromkeys(("adamw", "fused_adamw"), "mint.optim"),
    "nn": {"metrics": "train.metrics"},
    "nn.layer": {
        "channel_shuffle": "nn.layer.basic", "dense": "nn.layer.basic",
        "rnn_cells": "nn.layer.rnn", "rnns": "nn.layer.rnn",
        "thor_layer": "nn.optim.ascend",
    },
    "nn.metrics": dict.fromkeys(
        [name for name in _METRICS if name != "auc"], "train.metrics"),
    "nn.optim": {
        **dict.fromkeys(("adasum", "tft_wrapper", "thor"), "nn.optim"),
        "ada_grad": "nn.optim.adagrad", "adadelta": "nn.optim.adagrad",
        "adamax": "nn.optim.adam", "asgd": "nn.optim.rprop", "ftrl": "nn.optim.adagrad",
        "lamb": "nn.optim.adam", "lazyadam": "nn.optim.adam", "momentum": "nn.optim.sgd",
        "proximal_ada_grad": "nn.optim.adagrad", "rmsprop": "nn.optim.adagrad",
    },
    "nn.probability.bnn_layers": dict.fromkeys(
        ("bnn_cell_wrapper", "conv_variational", "dense_variational", "layer_distribution"),
        "nn.probability.bnn_layers"),
    "nn.probability.bijector": dict.fromkeys(
        ("bijector", "exp", "gumbel_cdf", "invert", "power_transform", "scalar_affine", "softplus"),
        "nn.probability.bijector"),
    "nn.probability.distribution": {"_utils": "nn.probability.inner_names"} | dict.fromkeys(
        ("bernoulli", "beta", "categorical", "cauchy", "distribution", "exponential", "gamma",
         "geometric", "gumbel", "half_normal", "laplace", "log_normal", "logistic", "normal",
         "poisson", "student_t", "transformed_distribution", "uniform"),
        "nn.probability.distribution"),
    "nn.probability.distribution._utils": dict.fromkeys(
        ("custom_ops", "utils"), "nn.probability.inner_names"),
    "nn.utils": {"init": "nn.utils"},
    "nn.wrap": {
        "cell_wrapper": "nn.wrap nn.micro_batch", "grad_reducer": "nn.grad_reducer",
        "loss_scale": "nn.loss_scale nn.wrap",
    },
    "numpy": dict.fromkeys(
        ("array_creations", "array_ops", "dtypes", "logic_ops", "math_ops"), "numpy")
    | dict.fromkeys(("utils", "utils_const"), "numpy.inner_names"),
    "onnx": {"onnx_export": "train.onnx_names"},
    "ops": {
        "deprecated": "ops", "vm_impl_registry": "ops",
        "_grad_experimental": "ops.register_info", "_primitive_cache": "ops.primitives.user",
        "_register_for_op": "ops.register_info", "_utils": "ext_names",
        "auto_generate": "ops ext_names",
        "function": "ops",
        "functional_overload": "mint ops", "op_info_register": "ops.register_info",
    },
    "ops._grad_experimental": {"grad_base": "ops.register_info"},
    "ops._utils": {"arg_dtype_cast": "ext_names"},
    "ops.auto_generate": dict.fromkeys(
        ("gen_extend_func", "gen_ops_def", "gen_ops_prim"), "ops ext_names"),
    "ops.composite": {"base": "ops ops.functional.compositions"}
    | dict.fromkeys(("env_ops", "math_ops", "multitype_ops"), "ops"),
    "ops.composite.multitype_ops": {"zeros_like_impl": "ops"},
    "ops.function": {"comm_func": "ops.communication", "grad": "ops",
                     "reshard_func": "ops.primitives.collectives"} | dict.fromkeys(
        ("array_func", "clip_func", "debug_func", "fft_func", "image_func", "linalg_func",
         "math_func", "nn_func", "other_func", "parameter_func", "random_func", "sparse_func",
         "sparse_unary_func", "spectral_func", "vmap_func"), "ops ext_names"),
    "ops.function.grad": {"grad_func": "ops calls.bprop"},
    "ops.operations": {
        **dict.fromkeys(
            ("_embedding_cache_ops", "_grad_ops", "_ms_kernel", "_quant_ops", "_scalar_ops",
             "_sequence_ops", "_thor_ops", "array_ops", "control_ops", "custom_ops", "debug_ops",
             "image_ops", "inner_ops",
             "linalg_ops", "nn_ops", "other_ops", "random_ops", "reshard_ops",
             "spectral_ops"), "ops"),
        "math_ops": "ops ext_names", "sparse_ops": "ops ext_names",
        "_infer_ops": "ops ext_names", "_inner_ops": "ops ext_names",
        "comm_ops": "ops ops.primitives.collectives communication.management",
        "_rl_inner_ops": "ops.operations", "manually_defined": "ops ext_names",
    },
    "ops.operations.manually_defined": {"_inner": "ops ext_names", "ops_def": "ops ext_names"},
    "parallel": {
        "parameter_broadcast": "parallel",
        "function": "ops.primitives.collectives",
        "_parallel_serialization": "parallel", "_ps_context": "ranks.settings",
        "algo_parameter_config": "ranks.settings", "checkpoint_transform": "parallel",
        "checkpoint_convert": "parallel",
        "transform_safetensors": "parallel",
    },
    "parallel.nn": dict.fromkeys(
        ("parallel_cell_wrapper", "parallel_grad_reducer"), "parallel.nn"),
    "profiler": dict.fromkeys(
        ("common", "dynamic_profiler", "envprofiler", "experimental_config", "profiler",
         "schedule"), "profiler"),
    "profiler.common": {"constant": "profiler"},
    "rewrite": {"api": "rewrite"},
    "rewrite.api": dict.fromkeys(
        ("node", "node_type", "pattern_engine", "scoped_value", "symbol_tree"), "rewrite"),
    "run_check": {"run_check": "."},
    "runtime": dict.fromkeys(
        ("device_limit", "event", "executor", "memory", "stream", "stream_limit"), "runtime"),
    "safeguard": {"rewrite_obfuscation": "."},
    "scipy.optimize": dict.fromkeys(
        ("line_search", "linear_sum_assignment", "minimize"), "scipy.optimize"),
    "parallel.function": {"reshard_func": "ops.primitives.collectives"},
    "tools": {"data_dump": ".", "sdc_detect": "utils", "stress_detect": "utils"},
    "train": {"_utils": "train.inner_utils", "amp": "amp amp.precision", "data_sink": "train",
              "loss_scale_manager": "amp"},
    "train.callback": dict.fromkeys(
        ("_backup_and_restore", "_callback", "_checkpoint", "_early_stop", "_flops_collector",
         "_history", "_lambda_callback", "_landscape", "_loss_monitor", "_lr_scheduler_callback",
         "_on_request_exit", "_reduce_lr_on_plateau", "_summary_collector", "_time_monitor",
         "_train_fault_tolerance"), "train.callback"),
    "train.metrics": dict.fromkeys(
        [name for name in _METRICS if name not in ("error", "metric")], "train.metrics"),
    "utils": dict.fromkeys(
        ("runtime_execution_order_check", "sdc_detect", "stress_detect", "utils"), "utils"),
    "train.summary": {"summary_record": "train.summary.record"},
    "train.train_thor": {
        "convert_utils": "train.train_thor", "dataset_helper": "train.dataset_helper",
        "model_thor": "train.train_thor",
    },
}
"""By package: modules of MindSpore's, each with the modules here that define its names. An import
of one that has the name of a function of its package (`common.mutable`) leaves that in place."""


class OldPaths(Loader):
    """Finds and loads the modules of the table, as an entry of `sys.meta_path`."""

    @staticmethod
    def find_spec(
        name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """For an old path below `cellc`: how to load it."""
        package, _, module = name.removeprefix(_PREFIX).rpartition(".")
        if not name.startswith(_PREFIX):
            return None
        if module not in _HOMES.get(package, ()):
            other_names.refuse_import(name)
            return None
        return ModuleSpec(name, OldPaths(), is_package=True)

    def create_module(self, spec: ModuleSpec) -> None:
        """None: an ordinary new module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give a new module the names of its homes."""
        package, _, last = module.__name__.removeprefix(_PREFIX).rpartition(".")
        parent = sys.modules[module.__name__.rpartition(".")[0]]
        hidden = getattr(parent, last, None)
        if hidden is not None and not isinstance(hidden, ModuleType):
            vars(parent)[last] = hidden
            if not isinstance(parent, Package):
                parent.__class__ = Package
        homes = [imported((_PREFIX + home).rstrip("."))
                 for home in _HOMES[package][last].split()]
        vars(module).update(
            __doc__=f"MindSpore's import path for names of {', '.join(h.__name__ for h in homes)}.",
            __getattr__=_names_of(module.__name__, homes),
            __dir__=lambda: sorted({n for home in homes for n in dir(home)}))


def _names_of(name: str, homes: list[ModuleType]) -> Callable[[str], Any]:
    def find(wanted: str) -> Any:
        if wanted == "__all__":
            return sorted({n for home in homes for n in getattr(home, "__all__", ())})
        for home in homes if not wanted.startswith("__") else ():
            found = getattr(home, wanted, _ABSENT)
            if found is not _ABSENT:
                return found
        if wanted in _HOMES.get(name.removeprefix(_PREFIX), ()):
            return imported(f"{name}.{wanted}")
        raise no_attribute(name, wanted)

    return find


_ABSENT = object()
