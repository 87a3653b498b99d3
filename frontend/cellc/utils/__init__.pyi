"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from . import dlpack, dryrun
from .clusters import ExitByRequest, RSCPluginHandle, TFTCommValue, comm_exec_order_check, get_sdc_detect_result, runtime_execution_order_check, sdc_detect_start, sdc_detect_stop, stress_detect
from .dlpack import from_dlpack, to_dlpack
from .ms_dispatch import MsDispatchMode
__all__ = ['ExitByRequest', 'MsDispatchMode', 'RSCPluginHandle', 'TFTCommValue', 'comm_exec_order_check', 'dlpack', 'dryrun', 'from_dlpack', 'get_sdc_detect_result', 'runtime_execution_order_check', 'sdc_detect_start', 'sdc_detect_stop', 'stress_detect', 'to_dlpack']
