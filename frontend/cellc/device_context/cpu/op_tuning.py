"""How ops run on a CPU. Source: `mindspore.device_context.cpu.op_tuning`."""

from ... import context
from ...core.declared import Positive, checks_arguments


@checks_arguments
def threads_num(num: Positive) -> None:
    """How many threads compute."""
    context.set_context(runtime_num_threads=num)


__all__ = ["threads_num"]
