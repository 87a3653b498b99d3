"""Loaders of Python objects in batches: `mindspore.dataset.dataloader`, whose names PyTorch's
`torch.utils.data` has too. Each hands rows of a `Dataset` to a function that makes a batch of them,
here or in worker processes."""

from __future__ import annotations

from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset, TensorDataset
from .loader import DataLoader
from .sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)
from .worker import get_worker_info

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "TensorDataset", "default_collate",
    "default_convert", "get_worker_info",
]
