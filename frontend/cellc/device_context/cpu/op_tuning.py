"""How ops run on a CPU. Source: `mindspore.device_context.cpu.op_tuning`."""

from ... import context
from ...core import checks


def threads_num(num: int) -> None:
    """How many threads compute.

    Source: `mindspore.device_context.cpu.op_tuning.threads_num`.
    """
    checks.of_type(num, (int,), "num", "threads_num")
    if num < 1:
        raise ValueError(f"For 'threads_num', 'num' must be at least 1, but got {num}.")
    context.set_context(runtime_num_threads=num)


__all__ = ["threads_num"]
