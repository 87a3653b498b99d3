"""Callbacks of `Model`: `mindspore.train`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from .backup import BackupAndRestore
from .callback import OLDER, Callback, RunContext
from .checkpointing import (
    CheckpointConfig,
    ModelCheckpoint,
    OnRequestExit,
    TrainFaultTolerance,
)
from .collecting import SummaryCollector
from .control import EarlyStopping, LearningRateScheduler, ReduceLROnPlateau
from .monitors import History, LambdaCallback, LossMonitor, ProgressBar, TimeMonitor
from .utilization import FlopsUtilizationCollector

__all__ = [
    "BackupAndRestore", "Callback", "CheckpointConfig", "EarlyStopping",
    "FlopsUtilizationCollector", "History", "LambdaCallback", "LearningRateScheduler",
    "LossMonitor", "ModelCheckpoint", "OnRequestExit", "ProgressBar", "ReduceLROnPlateau",
    "RunContext", "SummaryCollector", "TimeMonitor", "TrainFaultTolerance",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, OLDER)
