"""Small helpers: tensors over others' memory, ops through a function, clusters' faults.

Source: `mindspore.utils`.
"""

from cellc_runtime.lazy import facade

_HOMES = {
    ".": "dlpack dryrun",
    ".clusters":
        "ExitByRequest RSCPluginHandle TFTCommValue comm_exec_order_check get_sdc_detect_result "
        "runtime_execution_order_check sdc_detect_start sdc_detect_stop stress_detect",
    ".dlpack": "from_dlpack to_dlpack",
    ".ms_dispatch": "MsDispatchMode",
}
facade(__name__, _HOMES)
