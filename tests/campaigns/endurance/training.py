"""A training that may be killed at any time: `python training.py FOLDER STEPS [EVERY]`.

A small network with draws, moving averages and an optimizer with state, fed by a pipeline that
shuffles, maps and batches. Every EVERY steps (an epoch) a checkpoint has all that the rest depends
on; a process that finds one goes on from it. It prints "ready", then a line for each epoch: its
number and the process's resident bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn, ops

ROWS_OF_A_BATCH = 4
KEPT = 3
"""Checkpoints: the newest may be one whose writing was cut off, were it not for the rename."""


class Net(nn.Cell):
    """Two layers with dropout and moving averages."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Dense(6, 16), nn.BatchNorm1d(16)
        self.drop, self.second = nn.Dropout(p=0.2), nn.Dense(16, 3)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.drop(ops.relu(self.norm(self.first(x)))))


def made() -> nn.Cell:
    """The training step from its beginning."""
    ms.set_seed(11)
    net = Net()
    rate = nn.ExponentialDecayLR(0.01, 0.99, 1000)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()),
                               nn.Adam(net.trainable_params(), rate, weight_decay=1e-4))
    step.set_train()
    return step


def batches(epoch: int, count: int) -> Iterator[list[Any]]:
    """An epoch's batches: of the same rows in an order and with noise of the epoch's own."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((count * ROWS_OF_A_BATCH, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0.5)
    ms.dataset.config.set_seed(1000 + epoch)
    noise = np.random.default_rng(epoch)
    data = ms.dataset.NumpySlicesDataset((x, y.astype(np.int32)), ["x", "y"], shuffle=True)
    data = data.map(lambda a: a + np.float32(0.1) * noise.standard_normal(6, np.float32), ["x"])
    return iter(data.batch(ROWS_OF_A_BATCH).create_tuple_iterator(num_epochs=1))


def newest(folder: Path) -> Path | None:
    """The checkpoint to go on from."""
    return max(folder.glob("at-*.ckpt"), default=None)


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(folder: Path, steps: int, every: int) -> None:
    """Train until so many steps are done."""
    step, done = made(), 0
    found = newest(folder)
    if found is not None:
        saved = ms.load_checkpoint(str(found))
        done = int(saved.pop("done").asnumpy())
        ms.set_rng_state(Tensor(saved.pop("draws").asnumpy()))
        missing, _ = ms.load_param_into_net(step, saved, strict_load=True)
        assert not missing, missing
    print("ready", flush=True)
    for epoch in range(done // every, steps // every):
        for x, y in batches(epoch, every):
            step(x, y)
        ms.save_checkpoint(step, str(folder / f"at-{epoch + 1:08d}.ckpt"), append_dict={
            "done": Tensor((epoch + 1) * every), "draws": ms.get_rng_state()})
        for old in sorted(folder.glob("at-*.ckpt"))[:-KEPT]:
            old.unlink()
        print(epoch + 1, resident(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 1000)
