"""BackupAndRestore: a training that was interrupted goes on from its last parameters.

Source: `mindspore.train`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...core.declared import Flag, instance
from ..rules import FREQUENCY
from ..serialization import load_checkpoint, load_param_into_net, save_checkpoint
from .callback import Callback, RunContext

Frequency = Annotated[str | int, FREQUENCY]


class BackupAndRestore(Callback):
    """Saves parameters and the optimizer's state in a folder, and starts from what is there.

    The epochs are counted again; `Model.train(initial_epoch=...)` says where to go on.

    Args:
        backup_dir: the folder of the file `backup.ckpt`.
        save_freq: `"epoch"`, or after every how many epochs it is saved.
        delete_checkpoint: whether the file is deleted when the training ends well.
    """

    def __init__(
        self, backup_dir: Annotated[str, instance(str)], save_freq: Frequency = "epoch",
        delete_checkpoint: Flag = True,
    ) -> None:
        self.delete_checkpoint = delete_checkpoint
        self.backup_file = str(Path(backup_dir).resolve() / "backup.ckpt")
        self.save_freq = 1 if save_freq == "epoch" else int(save_freq)

    def on_train_begin(self, run_context: RunContext) -> None:
        """Take over what was saved, if there is something."""
        if Path(self.backup_file).exists():
            network = run_context.original_args().train_network
            load_param_into_net(network, load_checkpoint(self.backup_file))

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Save, if it is time."""
        params = run_context.original_args()
        if params.cur_epoch_num % self.save_freq == 0:
            Path(self.backup_file).parent.mkdir(parents=True, exist_ok=True)
            save_checkpoint(params.train_network, self.backup_file)

    def on_train_end(self, run_context: RunContext) -> None:
        """Delete the file."""
        if self.delete_checkpoint:
            Path(self.backup_file).unlink(missing_ok=True)


__all__ = ["BackupAndRestore"]
