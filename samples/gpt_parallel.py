"""The small GPT cut three ways in one run: by data, by weights and into stages.

    mpirun -n 4 python samples/gpt_parallel.py                    # 1 x 2 x 2 ranks
    mpirun -n 4 python samples/gpt_parallel.py --mesh 2,1,2
    mpirun -n 8 --oversubscribe python samples/gpt_parallel.py --mesh 2,2,2

`--mesh` has the numbers of ranks by data, by weights and of stages. By weights each rank has some
heads, some columns of the inner products and some words of the vocabulary, whose scores are never
put together: the loss is made of parts of sums. Started alone, it trains the same network.
Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters (SC21).
"""

from __future__ import annotations

import argparse

import numpy as np
from gpt import GPT, Attention, NextTokenLoss

import cellc as ms
from cellc import nn, ops
from cellc.communication import get_group_size, get_rank, init
from cellc.parallel import Layout

ROWS, CONTEXT, VOCABULARY, WIDTH, DEPTH, HEADS, MICRO_BATCHES = 16, 32, 64, 64, 4, 4, 4
COLUMNS, ROWS_OF_WEIGHTS = ("tp", "None"), ("None", "tp")
PLAN = {
    "attention.qkv.weight": COLUMNS, "attention.qkv.bias": ("tp",),
    "attention.out.weight": ROWS_OF_WEIGHTS,
    "mlp.0.weight": COLUMNS, "mlp.0.bias": ("tp",), "mlp.2.weight": ROWS_OF_WEIGHTS,
}
"""How the weights of a block are cut: one sum over "tp" behind each pair of products."""


class AttentionByHeads(Attention):
    """The same attention, with the columns of the first product head by head: a cut of them gives
    each rank whole heads."""

    def construct(self, x):
        n, t, width = x.shape
        qkv = self.qkv(x).reshape(n, t, self.heads, 3, width // self.heads)
        q, k, v = ops.unstack(qkv.transpose(3, 0, 2, 1, 4), 0)
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        scores = ops.masked_fill(scores, self.future[:t, :t], float("-inf"))
        mixed = ops.matmul(ops.softmax(scores, -1), v).swapaxes(1, 2).reshape(n, t, width)
        return self.out(mixed)


class ParallelGPT(GPT):
    """The small GPT with its blocks shared out among stages.

    Args:
        stages: how many; what is before the blocks joins the first, what is behind them the last.
    """

    def __init__(self, stages):
        super().__init__(VOCABULARY, CONTEXT, WIDTH, DEPTH, HEADS, dropout=0.0)
        for i, block in enumerate(self.blocks):
            block.attention = AttentionByHeads(WIDTH, HEADS, CONTEXT, 0.0)
            if stages > 1:
                block.pipeline_stage = i * stages // DEPTH


class Losses(nn.Cell):
    """Mean cross entropy of the network's scores.

    Args:
        net: the network.
        ranks: of a stage, with the axes "dp" and "tp"; None: nothing is cut.
    """

    def __init__(self, net, ranks=None):
        super().__init__()
        self.net, self.loss, self.laid_out = net, NextTokenLoss(), None
        if ranks is not None:
            plan = {f"blocks.{i}.{name}": ranks(*cut)
                    for i in range(DEPTH) for name, cut in PLAN.items()}
            plan["tokens.embedding_table"] = plan["head.weight"] = ranks(*COLUMNS)
            self.laid_out = net.shard((ranks("dp", "None"),), parameter_plan=plan)

    def construct(self, tokens, targets):
        scores = self.net(tokens) if self.laid_out is None else self.laid_out(tokens)
        return self.loss(scores, targets)


def train_step(stages=1, ranks=None):
    """One step of training on (tokens, targets), a batch in micro-batches."""
    net = ParallelGPT(stages)
    losses = nn.PipelineCell(Losses(net, ranks), MICRO_BATCHES)
    return nn.TrainOneStepCell(losses, nn.Adam(net.trainable_params(), 1e-3)).set_train()


def batch(step, part=0, parts=1):
    """Rows that count on from a random token, and what follows each of them: one of the equal parts
    of a batch."""
    first = np.random.default_rng(step).integers(0, VOCABULARY, (ROWS, 1))
    rows = ((first + np.arange(CONTEXT + 1)) % VOCABULARY).astype(np.int32)
    own = np.split(rows, parts)[part]
    return ms.Tensor(own[:, :-1].copy()), ms.Tensor(own[:, 1:].copy())


def main():
    """Train, and print the losses where they are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", default="1,2,2", help="ranks by data, by weights, and stages")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    init()
    ms.set_seed(1)
    ms.set_context(mode=ms.GRAPH_MODE)
    rank, size = get_rank(), get_group_size()
    dp, tp, pp = map(int, args.mesh.split(",")) if size > 1 else (1, 1, 1)
    if dp * tp * pp != size:
        parser.error(f"--mesh {args.mesh} is for {dp * tp * pp} ranks, but {size} run")
    if size > 1:
        ms.set_auto_parallel_context(
            parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, pipeline_stages=pp)
    step = train_step(pp, Layout((dp, tp), ("dp", "tp")) if dp * tp > 1 else None)
    for i in range(args.steps):
        loss = step(*batch(i, rank % (dp * tp), dp * tp))
        if rank == size - 1 and (i % 5 == 4 or i == args.steps - 1):
            print(f"step {i + 1}, loss {loss.item() / MICRO_BATCHES:.5f}", flush=True)
    held = [p for p in step.get_parameters() if p.name in step.parameter_layout_dict]
    if held:
        print(f"rank {rank} holds {sum(p.nbytes for p in held) / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    main()
