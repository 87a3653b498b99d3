"""RNN, GRU and LSTM: one loop over time for each direction.

The part of the gates that does not depend on the state is one product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..core.dispatch import apply_one, scan
from ..ops.functional import activation, creation, shapes
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor
from .shaping import reshaped, sliced, transposed
from .table import Call, like, rule, to

A = apply_one
_WITH_NUMBERS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "affine": lambda x, a, b: A("add", A("mul", x, like(a, x)), like(b, x)),
    "leakyrelu": lambda x, a, b: A("leaky_relu", x, alpha=a),
    "thresholdedrelu": lambda x, a, b: A("where", A("gt", x, like(a, x)), x, like(0, x)),
    "scaledtanh": lambda x, a, b: A("mul", A("tanh", A("mul", x, like(b, x))), like(a, x)),
    "hardsigmoid": lambda x, a, b: A("clamp", A("add", A("mul", x, like(a, x)), like(b, x)),
                                     min=0.0, max=1.0),
    "elu": lambda x, a, b: A("elu", x, alpha=a),
}
_DEFAULTS = {"affine": (1.0, 0.0), "leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0),
             "scaledtanh": (1.0, 1.0), "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0)}
_PLAIN = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softsign": "softsign",
          "softplus": "log1pexp"}


@dataclass(frozen=True, slots=True)
class _Kind:
    """An activation with its numbers."""

    name: str
    alpha: float
    beta: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.name in _PLAIN:
            return A(_PLAIN[self.name], x)
        return _WITH_NUMBERS[self.name](x, self.alpha, self.beta)


def _activations(c: Call, defaults: Sequence[str], directions: int) -> list[list[_Kind]]:
    """The activations of each direction."""
    given = c.attrs.get("activations") or [*defaults] * directions
    alphas, betas = list(c.attrs.get("activation_alpha", [])), list(
        c.attrs.get("activation_beta", []))
    kinds = []
    for name in given:
        plain = str(name).lower()
        if plain not in _PLAIN and plain not in _WITH_NUMBERS:
            raise c.refuse(f"its activation {name!r} is unknown")
        a, b = _DEFAULTS.get(plain, (0.0, 0.0))
        if plain in _WITH_NUMBERS:
            a = alphas.pop(0) if alphas else a
            b = betas.pop(0) if betas and plain in ("affine", "scaledtanh", "hardsigmoid") else b
        kinds.append(_Kind(plain, float(a), float(b)))
    n = len(defaults)
    if len(kinds) != n * directions:
        raise c.refuse(f"its {len(kinds)} activations must be {n} for each direction")
    return [kinds[i * n : (i + 1) * n] for i in range(directions)]


@dataclass(frozen=True, slots=True)
class Narrow:
    """Weights of 8 bits.

    Attributes:
        shape: (directions, outputs, inputs).
        parts: panels, scales and zero points as `dequantized_matmul` takes them, of each direction.
        factor: scales of the outputs (directions, outputs), in place of those and of zero points.
    """

    shape: tuple[int, ...]
    parts: tuple[Tensor, ...]
    factor: Tensor | None = None

    def of(self, direction: int) -> dict[str, Tensor]:
        """The parts of one direction, by name."""
        parts = {name: _first(p, direction) for name, p in zip(_PARTS, self.parts, strict=False)}
        if self.factor is not None:
            parts["factor"] = _first(self.factor, direction)
        return parts


_PARTS = ("R", "scales", "zeros")


def _product(x: Tensor, given: dict[str, Tensor], columns: int) -> Tensor:
    """The product by narrow weights, of which `given` has the parts."""
    parts = [given[name] for name in _PARTS if name in given]
    y = A("dequantized_matmul", x, *parts, columns=columns, group=0)
    return A("mul", y, given["factor"]) if "factor" in given else y


@dataclass(slots=True)
class _Cell:
    """One direction of a layer.

    Attributes:
        names: of the captured tensors, in order.
        acts: the activations.
        hidden: size of the state.
        clip: limit of the gates' inputs, 0 for none.
        flags: `linear_before_reset` of a GRU, `input_forget` of an LSTM.
    """

    op: str
    names: tuple[str, ...]
    acts: tuple[_Kind, ...]
    hidden: int
    clip: float
    flag: bool

    def parts(self, x: Tensor, count: int) -> list[Tensor]:
        """The gates' shares of the last axis."""
        h = self.hidden
        return [sliced(x, x.ndim - 1, i * h, (i + 1) * h) for i in range(count)]

    def act(self, which: int, x: Tensor) -> Tensor:
        """An activation of what is clipped."""
        if self.clip:
            x = A("clamp", x, min=-self.clip, max=self.clip)
        return self.acts[which](x)

    def step(self, gates: Tensor, states: list[Tensor], given: dict[str, Tensor]) -> list[Tensor]:
        """The next states."""
        h = states[0]
        if self.op == "RNN":
            return [self.act(0, A("add", gates, activation.dense(h, given["R"], given.get("b"))))]
        if self.op == "GRU":
            return [self._gru(gates, h, given)]
        narrow = "scales" in given or "factor" in given
        product = _product(h, given, 4 * self.hidden) if narrow else \
            activation.dense(h, given["R"], None)
        i, o, f, g = self.parts(A("add", gates, product), 4)
        c = states[1]
        if "P" in given:
            pi, po, pf = self.parts(given["P"], 3)
            i, f = A("add", i, A("mul", pi, c)), A("add", f, A("mul", pf, c))
        i = self.act(0, i)
        f = A("sub", like(1, i), i) if self.flag else self.act(0, f)
        new = A("add", A("mul", f, c), A("mul", i, self.act(1, g)))
        o = self.act(0, o if "P" not in given else A("add", o, A("mul", po, new)))
        return [A("mul", o, self.acts[2](new)), new]

    def _gru(self, gates: Tensor, h: Tensor, given: dict[str, Tensor]) -> Tensor:
        """`flag`: the reset gate comes after the product."""
        xz, xr, xh = self.parts(gates, 3)
        both, last = given["R"], given["Rh"]
        z, r = self.parts(activation.dense(h, both, given.get("b")), 2)
        z, r = self.act(0, A("add", xz, z)), self.act(0, A("add", xr, r))
        if self.flag:
            own = A("mul", r, activation.dense(h, last, given.get("bh")))
        else:
            own = activation.dense(A("mul", r, h), last, given.get("bh"))
        new = self.act(1, A("add", xh, own))
        return A("add", A("mul", A("sub", like(1, z), z), new), A("mul", z, h))


def _gates(x: Tensor, w: Tensor | Narrow, d: int, bias: Tensor | None) -> Tensor:
    """The inputs' part of the gates, (T, N, gates)."""
    steps, rows, size = x.shape[0], x.shape[1], x.shape[2]
    flat = reshaped(x, (steps * rows, size))
    if isinstance(w, Narrow):
        y = _product(flat, w.of(d), w.shape[1])
        y = y if bias is None else A("add", y, bias)
    else:
        y = activation.dense(flat, _first(w, d), bias)
    return reshaped(y, (steps, rows, w.shape[1]))


def _direction(cell: _Cell, gates: Tensor, states: list[Tensor], captures: list[Tensor],
               reverse: bool, lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Outputs (T, N, H) in the order of the input, and the last states."""
    steps = gates.shape[0]
    gates = A("flip", gates, axes=(0,)) if reverse else gates
    names = cell.names
    if lengths is not None:
        captures = [*captures, shapes.expand_dims(to(lengths, dtypes.int64), 1)]
    last_step = steps - 1

    def body(carried: list[Tensor], now: list[Tensor], i: Tensor, captured: list[Tensor]
             ) -> tuple[list[Tensor], list[Tensor]]:
        given = dict(zip(names, captured, strict=False))
        new = cell.step(now[0], carried, given)
        if lengths is None:
            return new, [new[0]]
        at = A("sub", constant(last_step, dtypes.int64), i) if reverse else i
        inside = A("lt", at, captured[-1])
        kept = [A("where", inside, a, b) for a, b in zip(new, carried, strict=True)]
        return kept, [A("where", inside, new[0], like(0, new[0]))]

    key = ("onnx", cell.op, names, cell.acts, cell.hidden, cell.clip, cell.flag, reverse,
           lengths is None, last_step if reverse else 0)
    last, (out,) = scan(key, states, [gates], captures, steps, body)
    return (A("flip", out, axes=(0,)) if reverse else out), last


def _first(x: Tensor, d: int) -> Tensor:
    """Entry d of the leading axis."""
    return shapes.squeeze(sliced(x, 0, d, d + 1), 0)


def _biases(op: str, bias: Tensor, hidden: int, before: bool
            ) -> tuple[Tensor, dict[str, Tensor]]:
    """The bias of the inputs' part, and those inside of the loop."""
    n = bias.shape[0] // 2
    own, inner = sliced(bias, 0, 0, n), sliced(bias, 0, n, 2 * n)
    if op != "GRU" or not before:
        return A("add", own, inner), {}
    return own, {"b": sliced(inner, 0, 0, 2 * hidden), "bh": sliced(inner, 0, 2 * hidden, n)}


@rule("RNN", "GRU", "LSTM")
def recurrent(
    c: Call, x: Tensor, w: Tensor | Narrow, r: Tensor | Narrow, bias: Tensor | None = None,
    lengths: Tensor | None = None, h0: Tensor | None = None, c0: Tensor | None = None,
    peephole: Tensor | None = None,
) -> list[Any]:
    """The outputs and last states of the layer that a node describes."""
    op, way = c.node.op.removeprefix("DynamicQuantize"), c.text("direction", "forward")
    if way not in ("forward", "reverse", "bidirectional"):
        raise c.refuse(f"its 'direction' is {way!r}")
    directions = 2 if way == "bidirectional" else 1
    if r.shape[1] != {"RNN": 1, "GRU": 3, "LSTM": 4}[op] * r.shape[2]:
        raise c.refuse(f"its recurrent weights of shape {list(r.shape)} do not fit one state: "
                       "projections of states are not part of ONNX")
    hidden, batch_first = r.shape[2], c.flag("layout")
    defaults = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
    acts = _activations(c, defaults[op], directions)
    before = c.flag("linear_before_reset")
    flag = before if op == "GRU" else c.flag("input_forget")
    if batch_first:
        x = transposed(x, 1, 0, 2)
        h0, c0 = (None if s is None else transposed(s, 1, 0, 2) for s in (h0, c0))
    zero = creation.zeros((x.shape[1], hidden), x.dtype)
    outs, lasts = [], []
    for d in range(directions):
        given = r.of(d) if isinstance(r, Narrow) else {"R": _first(r, d)}
        if op == "GRU":
            whole = given["R"]
            given = {"R": sliced(whole, 0, 0, 2 * hidden),
                     "Rh": sliced(whole, 0, 2 * hidden, 3 * hidden)}
        own = None
        if bias is not None:
            own, more = _biases(op, _first(bias, d), hidden, before)
            given |= more
        if peephole is not None:
            given["P"] = _first(peephole, d)
        cell = _Cell(op, tuple(given), tuple(acts[d]), hidden, c.real("clip", 0.0), flag)
        states = [zero if s is None else _first(s, d)
                  for s in ((h0, c0) if op == "LSTM" else (h0,))]
        out, last = _direction(cell, _gates(x, w, d, own), states, list(given.values()),
                               way == "reverse" or d == 1, lengths)
        outs.append(shapes.expand_dims(out, 1))
        lasts.append([shapes.expand_dims(s, 0) for s in last])
    y = outs[0] if directions == 1 else A("concat", *outs, axis=1)
    ends = [s[0] if directions == 1 else A("concat", *s, axis=0)
            for s in zip(*lasts, strict=True)]
    if batch_first:
        y, ends = transposed(y, 2, 0, 1, 3), [transposed(s, 1, 0, 2) for s in ends]
    return [y, *ends]
