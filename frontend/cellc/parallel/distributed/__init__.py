"""Data-parallel training by wrapping a network. Source: `mindspore.parallel.distributed`."""

from .distributed_data_parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
