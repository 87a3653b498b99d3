"""Recurrent layers: one `scan` over time, compiled in both modes.

Work that does not depend on the state is outside the loop: the product of all inputs with their
weights, and the biases. The gradient of the weights is one product over all steps (see
`cellc_compiler.autodiff.loops`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from cellc_runtime.dtypes import int64

from ...core.dispatch import apply, scan
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from . import activation, arith, creation, joining, shapes

States = list[Tensor]
GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3, "gru_v2": 3}
"""Kinds of cells, and how many gates of the hidden size their weights hold. `"gru_v2"` is a GRU
whose reset gate is applied to the state before the matrix, with the update gate's rows first."""


class Stored(Protocol):
    """A matrix in another form than that of a Tensor, such as `quantization.SmallDense`."""

    form: Hashable
    """Says with the types of the parts all that `times` depends on."""

    def parts(self) -> list[Tensor]:
        """The tensors that hold it."""

    def times(self, x: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """x @ matrix.T, by the matrix that such tensors hold."""


Matrix = Tensor | Stored


def _dense(
    x: Tensor, w: Matrix, bias: Tensor | None, parts: Sequence[Tensor] | None = None
) -> Tensor:
    """x @ w.T + bias; `parts` are those of w, where they come from outside of a loop."""
    if isinstance(w, Tensor):
        return activation.dense(x, w, bias)
    y = w.times(x, w.parts() if parts is None else parts)
    return y if bias is None else arith.add(y, bias)


def step(
    kind: str, gates: Tensor, states: States, w_hh: Matrix, b_hh: Tensor | None,
    parts: Sequence[Tensor] | None = None,
) -> States:
    """The next states of a cell from its gates' input part.

    Args:
        kind: a key of `GATES`.
        gates: x @ w_ih.T + b_ih, (N, gates * H).
        states: h (N, H); for `"lstm"` also c.
        w_hh, b_hh: (gates * H, H), for `"gru_v2"` a Tensor, and (gates * H).
        parts: those of w_hh, where they come from outside of a loop.
    """
    h = states[0]
    if kind == "gru_v2" and isinstance(w_hh, Tensor):
        gated = 2 * h.shape[1]
        xz, xr, xn = joining.chunk(gates, 3, -1)
        hz, hr = joining.chunk(activation.dense(h, joining.part(w_hh, 0, 0, gated)), 2, -1)
        reset, update = apply("sigmoid", arith.add(xr, hr)), apply("sigmoid", arith.add(xz, hz))
        own = activation.dense(arith.mul(reset, h), joining.part(w_hh, 0, gated, w_hh.shape[0]))
        new = apply("tanh", arith.add(xn, own))
        return [arith.mul(arith.sub(1.0, update), new) + arith.mul(update, h)]
    inner = _dense(h, w_hh, b_hh, parts)
    if kind in ("tanh", "relu"):
        total = arith.add(gates, inner)
        return [apply("tanh", total) if kind == "tanh" else apply("relu", total)]
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = (joining.chunk(t, 3, -1) for t in (gates, inner))
        reset = apply("sigmoid", arith.add(xr, hr))
        update = apply("sigmoid", arith.add(xz, hz))
        new = apply("tanh", arith.add(xn, arith.mul(reset, hn)))
        return [arith.mul(arith.sub(1.0, update), new) + arith.mul(update, h)]
    i, f, g, o = joining.chunk(arith.add(gates, inner), 4, -1)
    c = arith.mul(apply("sigmoid", f), states[1]) + apply("sigmoid", i) * apply("tanh", g)
    return [apply("sigmoid", o) * apply("tanh", c), c]


def cell_step(
    kind: str, x: Tensor, states: Sequence[Tensor], w_ih: Matrix, w_hh: Matrix,
    b_ih: Tensor | None, b_hh: Tensor | None,
) -> States:
    """The next states of a cell for an input (N, in)."""
    return step(kind, _dense(x, w_ih, b_ih), list(states), w_hh, b_hh)


def layer(
    kind: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Any], reverse: bool,
    seq_length: Tensor | None = None,
) -> tuple[Tensor, States]:
    """One direction of one layer over (T, N, in).

    Args:
        kind: a key of `GATES`.
        states: the first states, (N, H) each.
        weights: w_ih, w_hh (each a `Matrix`) and, with biases, b_ih, b_hh.
        reverse: from the last step to the first.
        seq_length: int (N): steps of each sample; after them states stay and outputs are zero.

    Returns:
        Outputs (T, N, H), in the order of the input; the last states.
    """
    length, rows = x.shape[0], x.shape[1]
    w_ih, w_hh, *biases = weights
    b_ih, b_hh = (*biases, None, None)[:2]
    if b_ih is not None and b_hh is not None and kind != "gru":
        b_ih, b_hh = arith.add(b_ih, b_hh), None  # one sum for all steps
    # The part of the input, for all steps at once.
    gates = _dense(shapes.reshape(x, (length * rows, x.shape[2])), w_ih, b_ih)
    gates = shapes.reshape(gates, (length, rows, gates.shape[1]))
    if reverse:
        gates = shapes.flip(gates, (0,))
    stored = not isinstance(w_hh, Tensor)
    captures = w_hh.parts() if stored else [w_hh]
    count = len(captures)
    if b_hh is not None:
        captures.append(b_hh)
    if seq_length is not None:
        captures.append(shapes.expand_dims(cast_to(seq_length, int64), 1))
    has_bias, has_lengths = b_hh is not None, seq_length is not None

    def body(carried: States, rows: States, i: Tensor, captures: States) -> tuple[States, States]:
        new = step(kind, rows[0], carried, w_hh if stored else captures[0],
                   captures[count] if has_bias else None, captures[:count])
        if not has_lengths:
            return new, [new[0]]
        within = arith.lt(arith.sub(length - 1, i) if reverse else i, captures[-1])
        kept = [arith.where(within, a, b) for a, b in zip(new, carried, strict=True)]
        return kept, [arith.where(within, new[0], creation.zeros_like(new[0]))]

    key = "recurrence", kind, reverse, has_bias, has_lengths, w_hh.form if stored else None
    last, (out,) = scan(key, states, [gates], captures, length, body)
    return (shapes.flip(out, (0,)) if reverse else out), last


def packed(
    kind: str, x: Tensor, states: Sequence[Tensor], w: Tensor, layers: int, has_bias: bool,
    bidirectional: bool,
) -> tuple[Tensor, States]:
    """Layers over (T, N, in) whose weights lie in one tensor: of each layer and direction w_ih,
    w_hh, then the biases.

    Args:
        kind: a key of `GATES`; `"gru_v2"` does not use the biases of the states.
        states: the first states, (layers * directions, N, H) each.

    Returns:
        Outputs (T, N, directions * H); the last states, as `states`.
    """
    flat, at = shapes.reshape(w, (-1,)), 0
    directions, hidden = 1 + bidirectional, states[0].shape[2]
    rows, lasts = GATES[kind] * hidden, []
    for k in range(layers):
        outs = []
        for d in range(directions):
            parts: list[tuple[int, ...]] = [(rows, x.shape[2]), (rows, hidden)]
            parts += [(rows,)] * 2 if has_bias else []
            weights = []
            for shape in parts:
                size = math.prod(shape)
                weights.append(shapes.reshape(joining.part(flat, 0, at, at + size), shape))
                at += size
            own = weights[:3] + weights[4:] if kind == "gru_v2" else weights
            out, last = layer(kind, x, [s[k * directions + d] for s in states], own, d == 1)
            outs.append(out)
            lasts.append(last)
        x = joining.concat(outs, 2) if directions == 2 else outs[0]
    return x, [joining.stack(list(each), 0) for each in zip(*lasts, strict=True)]
