"""A transformer block cut over ranks, by data and by weights. Source: Shoeybi et al., Megatron-LM.

`mpirun -n 4 python samples/tensor_parallel.py` trains it on 2 x 2 ranks: each feeds a quarter of
the batch and keeps half of the large weights, and of the optimizer's state for them. Started alone,
it trains the same network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.communication import get_group_size, get_rank, init
from cellc.parallel import Layout

WORDS, WIDTH, HEADS = 24, 16, 4


def weight(*shape: int) -> Parameter:
    """A weight with values of its own shape's seed."""
    draw = np.random.RandomState(sum(shape))
    return Parameter(draw.randn(*shape).astype(np.float32) * 0.2)


class Block(nn.Cell):
    """Attention and two products over an embedding that also gives the scores of words.

    Args:
        layout: ranks with the axes "dp" and "mp"; None: nothing is said of where tensors lie.
    """

    def __init__(self, layout: Layout | None = None) -> None:
        super().__init__()
        self.table, self.norm = weight(WORDS, WIDTH), nn.LayerNorm((WIDTH,))
        self.qkv, self.out = weight(WIDTH, 3 * WIDTH), weight(WIDTH, WIDTH)
        self.up, self.up_bias, self.down = weight(WIDTH, 64), weight(64), weight(64, WIDTH)
        self.find, self.score = ops.Gather(), ops.MatMul(transpose_b=True)
        self.columns, self.rows = ops.MatMul(), ops.MatMul()
        if layout is not None:  # columns first, then rows: one sum over "mp" for each pair
            self.find.shard((layout("mp", "None"), layout("dp", "None")))
            self.columns.shard((layout("dp", "None"), layout("None", "mp")))
            self.rows.shard((layout("dp", "mp"), layout("mp", "None")))
            self.score.shard((layout("dp", "None"), layout("mp", "None")))

    def attention(self, x: Any) -> Any:
        """Each head looks at all words."""
        b, t, d = x.shape
        qkv = self.columns(x.reshape(-1, d), self.qkv).reshape(b, t, HEADS, 3, d // HEADS)
        q, k, v = ops.unbind(qkv.transpose(3, 0, 2, 1, 4))
        seen = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * 0.5, -1)
        out = ops.matmul(seen, v).transpose(0, 2, 1, 3).reshape(-1, d)
        return self.rows(out, self.out).reshape(b, t, d)

    def construct(self, ids: Any) -> Any:
        x = self.find(self.table, ids, 0)
        x = x + self.attention(self.norm(x))
        h = self.columns(self.norm(x).reshape(-1, WIDTH), self.up) + self.up_bias
        x = x + self.rows(ops.gelu(h), self.down).reshape(x.shape)
        return self.score(x.reshape(-1, WIDTH), self.table)


class Loss(nn.Cell):
    """Cross entropy of the words that are to be found: sums of parts where scores are cut."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net

    def construct(self, ids: Any, labels: Any) -> Any:
        return ops.cross_entropy(self.net(ids), labels.reshape(-1))


def batch(step: int, size: int = 8, length: int = 6) -> tuple[np.ndarray[Any, Any], ...]:
    """Words and those that are to be found."""
    draw = np.random.RandomState(step)
    return tuple(draw.randint(0, WORDS, (size, length)).astype(np.int32) for _ in range(2))


def training_step(net: nn.Cell) -> nn.TrainOneStepCell:
    """A step of Adam."""
    return nn.TrainOneStepCell(Loss(net), nn.Adam(net.trainable_params(), 1e-2))


def main() -> None:
    """Train some steps and print the losses."""
    ms.set_context(mode=ms.GRAPH_MODE)
    init()
    rank, count = get_rank(), get_group_size()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    net = Block(Layout((2, 2), ("dp", "mp")) if count == 4 else None)
    step = training_step(net)
    for i in range(5):
        own = (Tensor(np.split(a, count)[rank]) for a in batch(i))
        loss = float(step(*own).asnumpy())
        if rank == 0:
            print(f"step {i}: loss {loss:.5f}", flush=True)
    if rank == 0:
        for name, layout in net.parameter_layout_dict.items():
            print(name, layout)


if __name__ == "__main__":
    main()
