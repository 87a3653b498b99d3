"""Recurrent layers and cells. Sources: the classes of the same names in `mindspore.nn`."""

from __future__ import annotations

import math
from typing import Annotated, Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import Copies, Flag, Positive, misuse, number, one_of
from ...ops.arguments import ranked, sequence
from ...ops.functional import recurrence
from ...tensors.initializer import Uniform, initializer
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor
from ..cell import Cell
from .base import Family, parameter
from .basic import Dropout


def _parameter(shape: tuple[int, ...], hidden: int, name: str, dtype: DType) -> Parameter:
    return parameter(Uniform(1 / math.sqrt(hidden)), shape, dtype, name)


def _fits(x: Tensor, rank: int, size: int, what: str) -> None:
    if x.ndim != rank or x.shape[-1] != size:
        raise misuse(what, f"the input must have {rank} axes, the last of length {size}, but has "
                     f"shape {x.shape}")


def _states_of(hx: Any, count: int, rank: int, what: str) -> tuple[Tensor, ...]:
    """The states of a cell or of layers: `count` Tensors of `rank` axes."""
    given = (hx,) if count == 1 else tuple(sequence(hx, what, "hx"))
    if len(given) != count:
        raise misuse(what, f"'hx' must hold {count} states, but has {len(given)}")
    for i, h in enumerate(given):
        ranked(h, rank, rank, what, "hx" if count == 1 else f"hx[{i}]")
    return given


# --- cells ---------------------------------------------------------------------------------------


class RNNCellBase(Family):
    """Base of cells that do one step: weights (num_chunks * hidden_size, ...), uniform within
    1 / sqrt(hidden_size) at first.

    Args:
        input_size, hidden_size: lengths of the input and the state.
        has_bias: whether there are biases.
        num_chunks: gates, each with rows of its own in the weights.
        dtype: element type of the parameters.
    """

    def __init__(
        self, input_size: Positive, hidden_size: Positive, has_bias: Flag, num_chunks: Positive,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.has_bias = has_bias
        rows = num_chunks * hidden_size
        self.weight_ih = _parameter((rows, input_size), hidden_size, "weight_ih", dtype)
        self.weight_hh = _parameter((rows, hidden_size), hidden_size, "weight_hh", dtype)
        self.bias_ih: Parameter | None = None
        self.bias_hh: Parameter | None = None
        if has_bias:
            self.bias_ih = _parameter((rows,), hidden_size, "bias_ih", dtype)
            self.bias_hh = _parameter((rows,), hidden_size, "bias_hh", dtype)

    def reset_parameters(self) -> None:
        """Draw the weights and biases again."""
        bound = Uniform(1 / math.sqrt(self.hidden_size))
        for each in self.get_parameters(expand=False):
            each.set_data(initializer(bound, each.shape, each.dtype))


class _Step(RNNCellBase):
    """Base of the cells of the library.

    Args:
        input_size, hidden_size, has_bias, dtype: as above.
    """

    kind = ""

    def __init__(
        self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: DType = float32
    ) -> None:
        super().__init__(input_size, hidden_size, has_bias, recurrence.GATES[self.kind], dtype)

    def _step(self, x: Tensor, states: Any) -> recurrence.States:
        _fits(x, 2, self.input_size, self.cls_name)
        states = _states_of(states if self.kind == "lstm" else states[0],
                            1 + (self.kind == "lstm"), 2, self.cls_name)
        return recurrence.cell_step(self.kind, x, states, self.weight_ih, self.weight_hh,
                                    self.bias_ih, self.bias_hh)


class RNNCell(_Step):
    """h' = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh.

    Args:
        input_size, hidden_size, has_bias, dtype: as above.
        nonlinearity: `"tanh"` or `"relu"`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, has_bias: bool = True,
        nonlinearity: Annotated[str, one_of("tanh", "relu")] = "tanh", dtype: DType = float32,
    ) -> None:
        RNNCellBase.__init__(self, input_size, hidden_size, has_bias, 1, dtype)
        self.kind = nonlinearity
        self.nonlinearity = nonlinearity

    def construct(self, x: Tensor, hx: Tensor) -> Tensor:
        """(N, input_size) and (N, hidden_size) to the next state."""
        return self._step(x, (hx,))[0]


class LSTMCell(_Step, kind="lstm"):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); gates in the order i, f, g, o."""

    def construct(self, x: Tensor, hx: Any) -> Any:
        """(N, input_size) and (h, c) to the next (h, c)."""
        return tuple(self._step(x, hx))


class GRUCell(_Step, kind="gru"):
    """One step of a gated recurrent unit (Cho et al., 2014), gates in the order r, z, n: h' = (1 -
    z) n + z h with r, z = sigmoid(W x + b + U h + c), n = tanh(W x + b + r (U h + c))."""

    def construct(self, x: Tensor, hx: Tensor) -> Tensor:
        """(N, input_size) and (N, hidden_size) to the next state."""
        return self._step(x, (hx,))[0]


# --- layers --------------------------------------------------------------------------------------


class _Dynamic(Cell):
    """One direction of one layer."""

    kind = ""

    def construct(
        self, x: Tensor, states: Any, weights: Any, reverse: bool, seq_length: Any
    ) -> Any:
        """(T, N, in) to outputs and last states."""
        return recurrence.layer(self.kind, x, states, weights, reverse, seq_length)


class _DynamicRNNTanh(_Dynamic):
    kind = "tanh"


class _DynamicRNNRelu(_Dynamic):
    kind = "relu"


class _DynamicLSTMCPUGPU(_Dynamic):
    kind = "lstm"


class _DynamicGRUCPUGPU(_Dynamic):
    kind = "gru"


class _RNNBase(Family):
    """Layers of a recurrent cell over sequences.

    Args:
        input_size, hidden_size: lengths of the input and the state.
        num_layers: layers on top of each other.
        has_bias: whether there are biases.
        batch_first: the input is (N, T, in), not (T, N, in).
        dropout: probability that an output between layers becomes zero in training, in [0, 1).
        bidirectional: a second set of layers from the end to the start.
        dtype: element type of the parameters.
    """

    dynamic: type[_Dynamic] = _Dynamic

    def __init__(
        self, input_size: Positive, hidden_size: Positive, num_layers: Copies = 1,
        has_bias: Flag = True, batch_first: Flag = False,
        dropout: Annotated[float, number(0, 1, "[)", whole=False)] = 0.0,
        bidirectional: Flag = False, dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.has_bias = has_bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        self.rnn = self._dynamic()
        self.dropout_op = Dropout(p=float(dropout))
        self.has_cell = self.rnn.kind == "lstm"
        self._make(dtype)

    def _dynamic(self) -> _Dynamic:
        return self.dynamic()

    def _make(self, dtype: DType) -> None:
        rows, hidden = recurrence.GATES[self.rnn.kind] * self.hidden_size, self.hidden_size
        lists: dict[str, list[Parameter]] = {"w_ih": [], "w_hh": [], "b_ih": [], "b_hh": []}
        for i in range(self.num_layers):
            inputs = self.input_size if i == 0 else hidden * self.directions
            for end in ("", "_reverse")[: self.directions]:
                name = f"l{i}{end}"
                add = lists["w_ih"].append, lists["w_hh"].append, lists["b_ih"].append, \
                    lists["b_hh"].append
                add[0](_parameter((rows, inputs), hidden, f"weight_ih_{name}", dtype))
                add[1](_parameter((rows, hidden), hidden, f"weight_hh_{name}", dtype))
                if self.has_bias:
                    add[2](_parameter((rows,), hidden, f"bias_ih_{name}", dtype))
                    add[3](_parameter((rows,), hidden, f"bias_hh_{name}", dtype))
        for kind in ("w_ih", "w_hh", "b_ih", "b_hh"):
            for p in lists[kind]:
                self.insert_param_to_cell(p.name, p)
            object.__setattr__(self, f"{kind}_list", ParameterTuple(lists[kind]))

    def _states(self, x: Tensor, hx: Any) -> Any:
        """The first states, (layers * directions, N, hidden) each."""
        if hx is not None:
            return _states_of(hx, 1 + self.has_cell, 3, self.cls_name)
        shape = (self.num_layers * self.directions, x.shape[1], self.hidden_size)
        zeros = ops.zeros(shape, x.dtype)
        return (zeros, zeros) if self.has_cell else (zeros,)

    def _weights(self, i: int) -> Any:
        if self.has_bias:
            return self.w_ih_list[i], self.w_hh_list[i], self.b_ih_list[i], self.b_hh_list[i]
        return self.w_ih_list[i], self.w_hh_list[i]

    def construct(self, x: Tensor, hx: Any = None, seq_length: Any = None) -> Any:
        """(T, N, in) to outputs (T, N, directions * hidden) and the last states.

        Args:
            hx: first states (layers * directions, N, hidden): h, or (h, c) for LSTM; zeros if
                None.
            seq_length: int (N): steps of each sample.
        """
        _fits(x, 3, self.input_size, self.cls_name)
        if self.batch_first:
            x = ops.swapaxes(x, 0, 1)
        states = self._states(x, hx)
        last: list[Any] = []
        for layer in range(self.num_layers):
            outs = []
            for direction in range(self.directions):
                i = layer * self.directions + direction
                first = [s[i] for s in states]
                out, end = self.rnn(x, first, self._weights(i), direction == 1, seq_length)
                outs.append(out)
                last.append(end)
            x = ops.concat(outs, -1) if self.directions == 2 else outs[0]
            if layer + 1 < self.num_layers and self.dropout > 0:
                x = self.dropout_op(x)
        ends = tuple([ops.stack([end[k] for end in last]) for k in range(len(states))])
        if self.batch_first:
            x = ops.swapaxes(x, 0, 1)
        return x, ends if self.has_cell else ends[0]


class RNN(_RNNBase):
    """Layers of `RNNCell`.

    Args:
        args, kwargs: as above, and `nonlinearity`: `"tanh"` or `"relu"`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise misuse("RNN", "the 'nonlinearity' must be in ['tanh', 'relu']", nonlinearity)
        self._nonlinearity = nonlinearity
        super().__init__(*args, **kwargs)

    def _dynamic(self) -> _Dynamic:
        return _DynamicRNNTanh() if self._nonlinearity == "tanh" else _DynamicRNNRelu()


class LSTM(_RNNBase, dynamic=_DynamicLSTMCPUGPU):
    """Layers of `LSTMCell` over sequences: (T, N, input_size), or (N, T, input_size) with
    `batch_first`, gives outputs (T, N, hidden_size) and the last states (h, c) of each layer; with
    `bidirectional` outputs of twice the length."""


class GRU(_RNNBase, dynamic=_DynamicGRUCPUGPU):
    """Layers of `GRUCell` over sequences: (T, N, input_size), or (N, T, input_size) with
    `batch_first`, gives outputs (T, N, hidden_size) and the last state h of each layer; with
    `bidirectional` outputs of twice the length."""
