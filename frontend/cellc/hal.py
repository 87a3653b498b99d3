"""Devices and their memory, under the older names. Source: `mindspore.hal`."""

from cellc_runtime.lazy import facade

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below
_HOMES = {
    "..devices":
        "Event Stream StreamCtx communication_stream current_stream default_stream device_count "
        "empty_cache get_arch_list get_device_capability get_device_name get_device_properties "
        "is_available is_initialized max_memory_allocated max_memory_reserved memory_allocated "
        "memory_reserved memory_stats memory_summary reset_max_memory_allocated "
        "reset_max_memory_reserved reset_peak_memory_stats set_cur_stream synchronize",
}
facade(__name__, _HOMES)
