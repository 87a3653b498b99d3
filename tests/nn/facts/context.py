"""Facts about the context: options, their defaults and checks, devices."""

from __future__ import annotations

from .target import attempt, ms


def modes():
    before = ms.get_context("mode")
    out = [ms.GRAPH_MODE, ms.PYNATIVE_MODE, attempt(ms.set_context, mode=ms.GRAPH_MODE),
           ms.get_context("mode")]
    out += [attempt(ms.set_context, mode=m) for m in (2, -1, "graph", None, 1.0)]
    ms.set_context(mode=before)
    return out


def defaults():
    return {k: attempt(ms.get_context, k) for k in (
        "device_target", "device_id", "save_graphs", "save_graphs_path", "pynative_synchronize",
        "max_call_depth", "enable_graph_kernel", "graph_kernel_flags",
        "reserve_class_name_in_scope", "compile_cache_path", "inter_op_parallel_num", "jit_level",
        "jit_config", "jit_syntax_level", "memory_optimize_level", "enable_reduce_precision",
        "check_bprop", "env_config_path", "print_file_path", "ascend_config", "gpu_config",
        "debug_level", "exec_order", "op_timeout", "aoe_tune_mode", "aoe_config",
        "disable_format_transform", "support_binary", "enable_profiling", "profiling_options",
        "host_scheduling_max_threshold", "topo_order", "mempool_block_size", "max_device_memory",
    )}


def unknown_options():
    return [attempt(ms.get_context, "nonsense"), attempt(ms.set_context, nonsense=1),
            attempt(ms.set_context), attempt(ms.set_context, 0), attempt(ms.get_context, 3)]


VALUES = {
    "device_id": (0, 1, -1, "a", 4096), "save_graphs": (0, 1, 3, 4, True, False, "a"),
    "save_graphs_path": ("./graphs", 3), "pynative_synchronize": (True, False, 1, "a"),
    "max_call_depth": (500, 0, -1, "a", 1000), "enable_graph_kernel": (False, "a"),
    "graph_kernel_flags": ("", 3), "reserve_class_name_in_scope": (False, True, 1),
    "enable_compile_cache": (False, "a"),
    "compile_cache_path": (3,), "inter_op_parallel_num": (0, 2, -1, "a"),
    "runtime_num_threads": (1, 2, -1, "a"), "jit_syntax_level": (0, 2, 3, "a"),
    "memory_optimize_level": ("O0", "O1", "O2", 3),
    "deterministic": ("ON", "OFF", "x", True), "check_bprop": (True, False, 3),
    "env_config_path": (3,), "jit_config": ({"jit_level": "O0"}, 3), "debug_level": (0, 1, 2, "a"),
    "max_device_memory": ("4GB", 4), "mempool_block_size": ("2GB", 3),
    "enable_reduce_precision": (True, 3), "exec_order": ("bfs", "dfs", "x"),
    "ascend_config": ({}, 3), "gpu_config": ({}, 3), "op_timeout": (900, -1, "a"),
    "variable_memory_max_size": ("6GB",), "disable_format_transform": (False, 3),
}


def options():
    out = {}
    for key, values in VALUES.items():
        before = attempt(ms.get_context, key)
        out[key] = [attempt(ms.set_context, **{key: v}) for v in values]
        if not (isinstance(before, str) and before.startswith("raises")):
            attempt(ms.set_context, **{key: before})
    return out


def options_read_back():
    out = {}
    for key, value in {"save_graphs": 2, "max_call_depth": 77,
                       "inter_op_parallel_num": 1, "pynative_synchronize": True,
                       "device_id": 3, "memory_optimize_level": "O1", "deterministic": "ON",
                       "check_bprop": True, "jit_syntax_level": 0}.items():
        before = attempt(ms.get_context, key)
        attempt(ms.set_context, **{key: value})
        out[key] = attempt(ms.get_context, key)
        attempt(ms.set_context, **{key: before})
    return out


def devices():
    return [attempt(ms.set_context, device_target=d) for d in ("CPU", "cpu", "TPU", 3, "GPU")] + [
        ms.get_context("device_target")]


def set_devices():
    return [attempt(ms.set_device, *a) for a in (
        ("CPU",), ("CPU", 0), ("TPU",), (3,), ("CPU", -1), ("CPU", "a"), ("CPU", 1), ())]


def queries_of_devices():
    hal, run = ms.hal, ms.runtime
    return {
        "count": attempt(hal.device_count), "count cpu": attempt(hal.device_count, "CPU"),
        "count bad": attempt(hal.device_count, "TPU"),
        "available": [attempt(hal.is_available, d) for d in ("CPU", "GPU", "Ascend", "TPU")],
        "name": attempt(hal.get_device_name, 0), "name cpu": attempt(hal.get_device_name, 0, "CPU"),
        "capability": attempt(hal.get_device_capability, 0, "CPU"),
        "arch": attempt(hal.get_arch_list, "CPU"),
        "properties": attempt(hal.get_device_properties, 0, "CPU"),
        "synchronize": attempt(run.synchronize), "empty": attempt(run.empty_cache),
        "synchronize hal": attempt(hal.synchronize),
        "memory": [type(attempt(f)).__name__ for f in (
            run.memory_allocated, run.max_memory_allocated, run.memory_reserved,
            run.max_memory_reserved, run.memory_stats, run.memory_summary)],
        "reset": [attempt(f) for f in (run.reset_max_memory_allocated,
                                       run.reset_peak_memory_stats,
                                       run.reset_max_memory_reserved)],
        "threads": [attempt(run.dispatch_threads_num, n) for n in (0, "a")],
        "blocking": attempt(run.launch_blocking),
        "cpu": attempt(ms.device_context.cpu.device_count),
        "cpu available": attempt(ms.device_context.cpu.is_available),
        "gpu available": attempt(ms.device_context.gpu.is_available),
        "ascend available": attempt(ms.device_context.ascend.is_available),
        "current": attempt(lambda: str(ms.get_current_device())),
    }


def deterministic():
    return attempt(ms.set_deterministic, 1)


def recursion():
    return [attempt(ms.set_recursion_limit, v) for v in (1000, 0, "a")]
