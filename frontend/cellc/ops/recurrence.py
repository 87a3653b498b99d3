"""Recurrent layers: one loop over time, compiled as a `scan` and run by Python when eager.

The arithmetic of a step is the same in both, so the results are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.dtypes import int64

from ..common._promotion import cast_to
from ..common.tensor import Tensor
from ..core.dispatch import active_tracer, apply
from . import functional_array as fa
from . import functional_create as fc
from . import functional_math as m
from . import functional_nn as fn

States = list[Tensor]
Body = Callable[[States, States, Tensor], tuple[Sequence[Tensor], Sequence[Tensor]]]
GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
"""Kinds of cells, and how many gates of the hidden size their weights hold."""


def scan(init: Sequence[Tensor], xs: Sequence[Tensor], length: int, body: Body) -> tuple[
    States, States
]:
    """`body` applied over the leading axis of `xs`.

    Args:
        init: what is carried from step to step at first.
        xs: tensors of `length` rows.
        body: `(carried, rows, i)` to the next carried tensors and the outputs of the step; i is
            an int64 scalar.

    Returns:
        What is carried at last; the outputs stacked along a new leading axis.
    """
    tracer = active_tracer()
    if tracer is not None:
        return tracer.scan(init, xs, length, body)
    carried = list(init)
    steps: list[Sequence[Tensor]] = []
    for i in range(length):
        rows = [fa.squeeze(fa.narrow(x, 0, i, 1), 0) for x in xs]
        new, out = body(carried, rows, Tensor(i, int64))
        carried = list(new)
        steps.append(out)
    return carried, [fa.stack(list(column)) for column in zip(*steps, strict=True)]


def step(kind: str, gates: Tensor, states: States, w_hh: Tensor, b_hh: Tensor | None) -> States:
    """The next states of a cell from its gates' input part.

    Args:
        kind: a key of `GATES`.
        gates: x @ w_ih.T + b_ih, (N, gates * H).
        states: h (N, H); for `"lstm"` also c.
        w_hh, b_hh: (gates * H, H) and (gates * H).
    """
    h = states[0]
    inner = fn.dense(h, w_hh, b_hh)
    if kind in ("tanh", "relu"):
        total = m.add(gates, inner)
        return [apply("tanh", total) if kind == "tanh" else apply("relu", total)]
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = (fa.chunk(t, 3, -1) for t in (gates, inner))
        reset = apply("sigmoid", m.add(xr, hr))
        update = apply("sigmoid", m.add(xz, hz))
        new = apply("tanh", m.add(xn, m.mul(reset, hn)))
        return [m.add(m.mul(m.sub(1.0, update), new), m.mul(update, h))]
    i, f, g, o = fa.chunk(m.add(gates, inner), 4, -1)
    c = m.add(m.mul(apply("sigmoid", f), states[1]),
              m.mul(apply("sigmoid", i), apply("tanh", g)))
    return [m.mul(apply("sigmoid", o), apply("tanh", c)), c]


def cell_step(
    kind: str, x: Tensor, states: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None, b_hh: Tensor | None,
) -> States:
    """The next states of a cell for an input (N, in)."""
    return step(kind, fn.dense(x, w_ih, b_ih), list(states), w_hh, b_hh)


def layer(
    kind: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], reverse: bool,
    seq_length: Tensor | None = None,
) -> tuple[Tensor, States]:
    """One direction of one layer over (T, N, in).

    Args:
        kind: a key of `GATES`.
        states: the first states, (N, H) each.
        weights: w_ih, w_hh and, with biases, b_ih, b_hh.
        reverse: from the last step to the first.
        seq_length: int (N): steps of each sample; after them states stay and outputs are zero.

    Returns:
        Outputs (T, N, H), in the order of the input; the last states.
    """
    length = x.shape[0]
    w_ih, w_hh = weights[0], weights[1]
    b_ih, b_hh = (weights[2], weights[3]) if len(weights) == 4 else (None, None)
    gates = fn.dense(x, w_ih, b_ih)  # the part of the input, for all steps at once
    if reverse:
        gates = fa.flip(gates, (0,))
    lengths = None if seq_length is None else fa.expand_dims(cast_to(seq_length, int64), 1)

    def body(carried: States, rows: States, i: Tensor) -> tuple[States, States]:
        # Nodes of their own: the cotangents of all uses within a step are summed before those of
        # the output are added, in the scan and in the loop alike.
        carried = [apply("reshape", h, shape=h.shape) for h in carried]
        new = step(kind, rows[0], carried, w_hh, b_hh)
        if lengths is None:
            return new, [new[0]]
        within = m.lt(m.sub(length - 1, i) if reverse else i, lengths)
        kept = [m.where(within, a, b) for a, b in zip(new, carried, strict=True)]
        return kept, [m.where(within, new[0], fc.zeros_like(new[0]))]

    last, (out,) = scan(states, [gates], length, body)
    return (fa.flip(out, (0,)) if reverse else out), last
