"""TrainFaultTolerance, which needs another machine."""

from __future__ import annotations

from typing import Any

from .callback import Callback


class TrainFaultTolerance(Callback):
    """Training that survives the loss of one of many devices: not on one CPU.

    Args:
        ckpt_save_path: where checkpoints would be saved.
        kwargs: `ckpt_save_fn`.

    Raises:
        RuntimeError: otherwise: it needs several Ascend devices.
    """

    def __init__(self, ckpt_save_path: str | None = None, **kwargs: Any) -> None:
        if ckpt_save_path is None and "ckpt_save_fn" not in kwargs:
            raise ValueError("TrainFaultTolerance needs 'ckpt_save_path' or 'ckpt_save_fn'.")
        raise RuntimeError(
            "TrainFaultTolerance takes the place of lost Ascend devices by others; cellc trains on "
            "one CPU. BackupAndRestore and OnRequestExit save a training that is interrupted."
        )


__all__ = ["TrainFaultTolerance"]
