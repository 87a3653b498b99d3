"""The small GPT in two stages, with data parallelism beside them, on four ranks.

    mpirun -n 4 python samples/gpt_pipeline.py

One process (`python samples/gpt_pipeline.py`) trains the same network without stages; two ranks
have one copy of it. How it is cut, before anything runs:

    cellc stages samples/gpt_pipeline.py:StagedGPT --train train_step --stages 2 \
        --input 'tokens=int32[8,32]' --input 'targets=int32[8,32]'
"""

from __future__ import annotations

import numpy as np
from gpt import GPT, NextTokenLoss

import cellc as ms
from cellc import nn
from cellc.communication import get_group_size, get_rank, init

STAGES, MICRO_BATCHES = 2, 4
ROWS, CONTEXT, VOCABULARY = 8, 32, 64


class StagedGPT(GPT):
    """The small GPT with its blocks shared out among the stages.

    What is before the blocks joins the first stage, what is behind them the last.
    """

    def __init__(self):
        super().__init__(VOCABULARY, CONTEXT, width=64, depth=4, heads=4, dropout=0.0)
        for i, block in enumerate(self.blocks):
            block.pipeline_stage = i * STAGES // len(self.blocks)


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (tokens, targets), a batch in micro-batches."""
    losses = nn.PipelineCell(nn.WithLossCell(net, NextTokenLoss()), MICRO_BATCHES)
    return nn.TrainOneStepCell(losses, nn.Adam(net.trainable_params(), 1e-3)).set_train()


def batch(step: int, copy: int) -> tuple[ms.Tensor, ms.Tensor]:
    """Sequences that count on from a random token, and what follows each of them."""
    first = np.random.default_rng((step, copy)).integers(0, VOCABULARY, (ROWS, 1))
    rows = ((first + np.arange(CONTEXT + 1)) % VOCABULARY).astype(np.int32)
    return ms.Tensor(rows[:, :-1]), ms.Tensor(rows[:, 1:])


def main(steps: int = 20) -> None:
    """Train, and print the losses where they are."""
    init()
    ms.set_seed(1)
    ms.set_context(mode=ms.GRAPH_MODE)
    rank, size = get_rank(), get_group_size()
    copies = max(size // STAGES, 1)
    if size > 1:
        ms.set_auto_parallel_context(
            parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, pipeline_stages=STAGES,
            gradients_mean=True)
    step = train_step(StagedGPT())
    for i in range(steps):
        loss = step(*batch(i, rank % copies))
        if rank >= size - copies and i % 5 == 4:
            print(f"rank {rank}: step {i + 1}, loss {loss.item() / MICRO_BATCHES:.4f}", flush=True)


if __name__ == "__main__":
    main()
