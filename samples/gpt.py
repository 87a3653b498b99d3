"""A GPT-style decoder: causal attention, pre-norm blocks, learned positions."""

from __future__ import annotations

import math

import numpy as np

import cellc as ms
from cellc import nn, ops


class Attention(nn.Cell):
    """Causal self-attention with several heads: (N, T, width) to the same.

    Args:
        width: of the model, a multiple of `heads`.
        heads: how many.
        context: the longest sequence.
        dropout: probability that an attention weight or output is zeroed while training.
    """

    def __init__(self, width, heads, context, dropout):
        super().__init__()
        self.heads = heads
        self.scale = 1.0 / math.sqrt(width // heads)
        self.qkv = nn.Dense(width, 3 * width)
        self.out = nn.Dense(width, width)
        self.dropout = nn.Dropout(p=dropout)
        self.future = ms.Tensor(np.triu(np.ones((context, context), np.bool_), 1))

    def construct(self, x):
        n, t, width = x.shape
        qkv = self.qkv(x).reshape(n, t, 3, self.heads, width // self.heads)
        q, k, v = ops.unstack(qkv.transpose(2, 0, 3, 1, 4), 0)
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        scores = ops.masked_fill(scores, self.future[:t, :t], float("-inf"))
        weights = self.dropout(ops.softmax(scores, -1))
        mixed = ops.matmul(weights, v).swapaxes(1, 2).reshape(n, t, width)
        return self.dropout(self.out(mixed))


class Block(nn.Cell):
    """Attention and a two-layer network, each added to its input."""

    def __init__(self, width, heads, context, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm((width,))
        self.attention = Attention(width, heads, context, dropout)
        self.norm2 = nn.LayerNorm((width,))
        self.mlp = nn.SequentialCell(
            nn.Dense(width, 4 * width), nn.GELU(), nn.Dense(4 * width, width),
            nn.Dropout(p=dropout))

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Cell):
    """Tokens (N, T) to logits of the next token (N, T, vocabulary).

    Args:
        vocabulary: number of tokens.
        context: the longest sequence.
        width: of the model.
        depth: number of blocks.
        heads: attention heads.
        dropout: probability that an element is zeroed while training.
        tied: the table of the tokens is the matrix of the last layer too, as in GPT-2.
    """

    def __init__(self, vocabulary=512, context=128, width=128, depth=4, heads=4, dropout=0.1,
                 tied=False):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = ms.Parameter(
            ms.common.initializer.initializer(ms.common.initializer.Normal(0.02), (context, width),
                                              ms.float32), name="positions")
        self.dropout = nn.Dropout(p=dropout)
        self.blocks = nn.CellList([Block(width, heads, context, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm((width,))
        self.head = None if tied else nn.Dense(width, vocabulary, has_bias=False)

    def construct(self, tokens):
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self.head is None:
            return ops.matmul(x, self.tokens.embedding_table.swapaxes(0, 1))
        return self.head(x)


class NextTokenLoss(nn.Cell):
    """Mean cross entropy of logits (N, T, vocabulary) against tokens (N, T)."""

    def construct(self, logits, targets):
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (tokens, targets)."""
    optimizer = nn.AdamWeightDecay(net.trainable_params(), learning_rate=1e-3, weight_decay=0.01)
    return nn.TrainOneStepCell(nn.WithLossCell(net, NextTokenLoss()), optimizer).set_train()


def make_input(
    n: int = 1, steps: int = 128, vocabulary: int = 512, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random tokens."""
    tokens = np.random.default_rng(seed).integers(0, vocabulary, (n, steps))
    return (ms.Tensor(tokens.astype(np.int32)),)


def make_batch(
    n: int = 8, steps: int = 128, vocabulary: int = 512, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random tokens, and each one's successor."""
    tokens = np.random.default_rng(seed).integers(0, vocabulary, (n, steps + 1)).astype(np.int32)
    return ms.Tensor(tokens[:, :-1].copy()), ms.Tensor(tokens[:, 1:].copy())


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    show(GPT(), make_input(), train_step, make_batch())
