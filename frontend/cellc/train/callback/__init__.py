"""Callbacks of `Model`: `mindspore.train`."""

from __future__ import annotations

from .callback import Callback, RunContext
from .checkpointing import CheckpointConfig, ModelCheckpoint, OnRequestExit
from .control import EarlyStopping, LearningRateScheduler, ReduceLROnPlateau
from .monitors import History, LambdaCallback, LossMonitor, ProgressBar, TimeMonitor

__all__ = [
    "Callback", "CheckpointConfig", "EarlyStopping", "History", "LambdaCallback",
    "LearningRateScheduler", "LossMonitor", "ModelCheckpoint", "OnRequestExit", "ProgressBar",
    "ReduceLROnPlateau", "RunContext", "TimeMonitor",
]
