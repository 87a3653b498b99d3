"""A Llama-style decoder whose cache belongs to the session; `generate.c` calls it token by token.

    cellc compile samples/c_library/llama.py:Llama --entry prefill=prefill --entry decode=decode \
        --input 'prefill.tokens=int32[T]' --input 'decode.tokens=int32[1]' \
        --input 'decode.start=int32[]' --shared out/libllama.so
"""

from __future__ import annotations

import numpy as np

import cellc as ms
from cellc import nn, ops


class RMSNorm(nn.Cell):
    """Rows of a mean square of 1, each column times a weight."""

    def __init__(self, width):
        super().__init__()
        self.weight = ms.Parameter(np.ones(width, np.float32), name="weight")

    def construct(self, x):
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + 1e-5) * self.weight


class Attention(nn.Cell):
    """Causal attention with rotary positions over a cache of `context` tokens."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.heads, size = heads, width // heads
        self.query, self.key, self.value, self.out = (
            nn.Dense(width, width, has_bias=False) for _ in range(4))
        angles = np.outer(np.arange(context), 10000.0 ** (-np.arange(0, size, 2) / size))
        self.cos = ms.Tensor(np.cos(angles).astype(np.float32))
        self.sin = ms.Tensor(np.sin(angles).astype(np.float32))
        empty = np.zeros((heads, context, size), np.float32)
        self.keys = ms.Parameter(empty, name="keys", requires_grad=False)
        self.values = ms.Parameter(empty, name="values", requires_grad=False)

    def rotate(self, x, places):
        """Turn the pairs of each head by the angles of the places."""
        cos, sin = self.cos[places], self.sin[places]
        a, b = ops.chunk(x, 2, -1)
        return ops.concat([a * cos - b * sin, a * sin + b * cos], -1)

    def construct(self, x, places, here, seen):
        def split(y):
            return y.reshape(-1, self.heads, y.shape[-1] // self.heads).swapaxes(0, 1)

        query = self.rotate(split(self.query(x)), places)
        key = self.rotate(split(self.key(x)), places)
        kept = 1 - here.sum(1).reshape(1, -1, 1)
        ops.assign(self.keys, self.keys * kept + ops.matmul(here, key))
        ops.assign(self.values, self.values * kept + ops.matmul(here, split(self.value(x))))
        scores = ops.matmul(query, self.keys.swapaxes(-1, -2)) * query.shape[-1] ** -0.5
        weights = ops.softmax(ops.where(seen, scores, -1e9), -1)
        mixed = ops.matmul(weights, self.values).swapaxes(0, 1)
        return self.out(mixed.reshape(mixed.shape[0], -1))


class Block(nn.Cell):
    """Attention and a gated two-layer network, each added to its input."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.attention = Attention(width, heads, context)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.gate, self.up = (nn.Dense(width, 3 * width, has_bias=False) for _ in range(2))
        self.down = nn.Dense(3 * width, width, has_bias=False)

    def construct(self, x, places, here, seen):
        x = x + self.attention(self.norm1(x), places, here, seen)
        y = self.norm2(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))


class Llama(nn.Cell):
    """Tokens to the next one."""

    def __init__(self, vocabulary=256, width=64, depth=2, heads=4, context=96):
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.CellList([Block(width, heads, context) for _ in range(depth)])
        self.norm = RMSNorm(width)
        self.head = nn.Dense(width, vocabulary, has_bias=False)

    def decode(self, tokens, start):
        """Take tokens at the places `start` and after; the most probable next token."""
        places = start + ops.arange(tokens.shape[0])
        everywhere = ops.arange(self.context)
        here = (everywhere.reshape(-1, 1) == places).astype(ms.float32)
        seen = everywhere <= places.reshape(-1, 1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, places, here, seen)
        return ops.argmax(self.head(self.norm(x[-1:])), -1).astype(ms.int32)

    def prefill(self, tokens):
        """Take a prompt."""
        return self.decode(tokens, 0)

    def construct(self, tokens):
        return self.prefill(tokens)
