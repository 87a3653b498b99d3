"""`quantize`: a network whose layers hold small weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

from cellc_runtime import dtypes

from ..core.declared import Flag, Rule, checks_arguments, instance, is_int, misuse, one_of
from ..core.module_names import module_of
from ..nn.cell import Cell
from ..nn.cell.attributes import replace_cells
from ..nn.layer import rnn
from ..nn.layer.base import Convolution
from ..nn.layer.basic import Dense, Linear
from ..nn.layer.embedding import Embedding
from ..nn.layer.ext import EmbeddingExt
from ..nn.layer.transformer import MultiheadAttention
from ..nn.optim.optimizer import Optimizer
from ..tensors.parameter import Parameter
from .layers import (
    SmallAttention,
    SmallDense,
    SmallEmbedding,
    SmallKernel,
    _Small,
    kernel_rows,
    small_class,
    small_copy,
)
from .weights import KINDS, Kind, SmallWeight, small_weight

_GROUPS = {"int8": 0, "int4": 64}  # Steps that share a scale where nothing else is said
_TAKEN = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
_Make = Callable[..., _Small]
"""Makes a layer of a class from a Parameter (some rows of it) and the class's other arguments."""
Group = Annotated[int | None, Rule(
    "a multiple of 32, 0 for one scale a row, or None", lambda x: x is None or is_int(x),
    lambda x: x is None or (x >= 0 and x % 32 == 0))]


@checks_arguments
def quantize(
    network: Annotated[Any, instance(Cell)], weights: Annotated[Kind, one_of(*KINDS)] = "int8", *,
    group_size: Group = None, symmetric: Flag = True, skip: Sequence[str] | str = (),
) -> Cell:
    """A network with weights in few bits: those of `Dense`, `Linear`, `Embedding`, attention,
    convolutions and recurrent layers.

    Args:
        network: a Cell. It is changed in place, its layers are replaced; one that is itself such a
            layer is left, and the new layer returned.
        weights: `"bfloat16"`, `"float16"`, `"int8"` or `"int4"`.
        group_size: how many inputs of an output (of a convolution, inputs of a channel times
            taps) share a scale, a multiple of 32; 0: all of them.
            By default 0 for int8 and 64 for int4. The last group may be shorter.
        symmetric: whether the ints of a group lie symmetric about zero. Otherwise a zero point is
            stored for each group, which suits weights of one sign.
        skip: names of layers that are left as they are, as `cells_and_names` gives them, or
            patterns of them (`"blocks.*.head"`).

    Returns:
        The network. Small weights are not trained; biases, and all else, stay as they were.

    Raises:
        ValueError: a weight with NaN or infinity; a name of `skip` that no layer has; a network
            without such a layer.
        TypeError: a network with an optimizer.

    Layers that share a weight, such as an Embedding and a tied head, share the small one.
    A product by a small weight is computed in float32, in one order, so both modes and all
    machines give the same bits. A convolution widens its weight in each call. `left_as_they_are` of
    `cellc.quantization` names the layers with matrices that keep their weights.

    Example:
        >>> net = nn.SequentialCell(nn.Dense(64, 32), nn.ReLU(), nn.Dense(32, 10))
        >>> net = ms.quantize(net, "int4", group_size=32, skip="2")

    Only in cellc.
    """
    made = {id(cell): small for _, cell, small in small_layers(
        network, "quantize", weights, group_size, symmetric, skip)}
    for owner in [*(cell for _, cell in network.cells_and_names()), *made.values()]:
        replace_cells(owner, made)
    found: Cell = made.get(id(network), network)
    return found


def small_layers(
    network: Cell, what: str, weights: Kind, group_size: int | None, symmetric: bool,
    skip: Sequence[str] | str,
) -> list[tuple[str, Cell, Cell]]:
    """The layers of a network that are not skipped, by name, and those with small weights for them.
    `what`: the function that errors name; the others are those of `quantize`."""
    names = (skip,) if isinstance(skip, str) else tuple(skip)
    layers: dict[str, Cell] = {}
    for name, cell in network.cells_and_names():
        if isinstance(cell, Optimizer):
            raise misuse(what, "'network' must be without an optimizer, whose Parameters stay "
                         "floats", f"{type(cell).__name__} in it", TypeError)
        # (Rows that are scaled to a norm are written when they are read.)
        if _maker(type(cell)) and all(w.dtype in _TAKEN for w in _weights_of(cell)) \
                and getattr(cell, "max_norm", None) is None:
            layers[name] = cell
    for pattern in names:
        if not isinstance(pattern, str) or not any(fnmatchcase(n, pattern) for n in layers):
            raise misuse(what, "'skip' must name layers of the network "
                         f"({', '.join(map(repr, layers)) or 'there are none'})", repr(pattern))
    chosen = {n: c for n, c in layers.items() if not any(fnmatchcase(n, p) for p in names)}
    if not chosen:
        raise misuse(what, "'network' must have a Dense, Linear, Embedding, MultiheadAttention, "
                     "convolution or recurrent layer of float32 or 16-bit floats"
                     + " that is not skipped" * bool(names), type(network).__name__)
    group = _GROUPS.get(weights, 0) if group_size is None else group_size
    # layers that share a matrix, such as a tied head, share it again
    first: dict[tuple[int, int], tuple[SmallWeight, _Small]] = {}

    def make(layer: Any, held: Parameter, *args: Any, begin: int = 0, rows: int = 0,
             within: str = "", groups: int | None = None) -> Any:
        key = id(held), begin
        matrix = held.asnumpy()[begin:begin + rows or None].astype("float32")
        matrix = matrix if groups is None else kernel_rows(matrix, groups)
        weight, like = first.get(key) or (
            small_weight(matrix, weights, group, symmetric, what, held.name), None)
        new = layer(weight, *args, prefix=prefix_of(held) + within, like=like)
        first[key] = weight, new
        return new

    out: list[tuple[str, Cell, Cell]] = []
    for name, cell in chosen.items():
        maker = _maker(type(cell))
        assert maker is not None
        new = maker(cell, make)
        new.set_train(cell.training)
        new.get_flags().update(cell.get_flags())
        out.append((name, cell, new))
    return out


def left_as_they_are(network: Cell) -> Iterator[tuple[str, Cell]]:
    """The cells, by name, that hold Parameters of two or more axes which are no small weights."""
    for name, cell in network.cells_and_names():
        if any(p.ndim > 1 and not p.is_small for p in cell.get_parameters(expand=False)):
            yield name, cell


def _weights_of(cell: Any) -> list[Parameter]:
    """The Parameters of a layer that are matrices, or weights of convolutions."""
    return [getattr(cell, name) for name in _names_of(cell)]


def _names_of(cell: Cell) -> list[str]:
    """Their names in the layer."""
    return [n for n, p in cell.parameters_and_names(expand=False)
            if p.ndim > 1 and not n.startswith("bias")]


def prefix_of(parameter: Parameter) -> str:
    """The beginning of the names of a layer's other Parameters."""
    owner = parameter.name.rpartition(".")[0]
    return owner + "." * bool(owner)


def _dense(cell: Any, make: _Make) -> Cell:
    return make(SmallDense, cell.weight, cell.bias, getattr(cell, "activation", None))


def _embedding(cell: Any, make: _Make) -> Cell:
    held, = _weights_of(cell)
    return make(SmallEmbedding, held, held.dtype)


def _attention(cell: Any, make: _Make) -> Cell:
    """Query, key and value read a matrix each, which may be a third of one."""
    parts: dict[str, Cell] = {}
    for i, name in enumerate(("q_proj", "k_proj", "v_proj")):
        if cell.same_dims:
            held, at = cell.in_proj_weight, {"begin": i * cell.embed_dim, "rows": cell.embed_dim}
        else:
            held, at = getattr(cell, f"{name}_weight"), {}
        parts[name] = make(SmallDense, held, within=f"{name}.", **at)
    new: Cell = small_copy(cell, SmallAttention, _names_of(cell), **parts)
    return new


def _convolution(cell: Any, make: _Make) -> Cell:
    groups = 0
    if cell.transposed:  # the second axis of the weight is output channels of a group
        groups = cell.out_channels // cell.weight.shape[1]
    kernel = make(SmallKernel, cell.weight, cell.weight.shape, groups, cell.weight.dtype,
                  within="kernel.", groups=groups)
    new: Cell = small_copy(cell, small_class(cell.__class__, True), _names_of(cell), kernel=kernel)
    return new


def _recurrent(cell: Any, make: _Make) -> Cell:
    """Each matrix becomes a layer of its name."""
    matrices = _names_of(cell)
    made = {n: make(SmallDense, getattr(cell, n), within=f"{n}.") for n in matrices}
    new: Cell = small_copy(cell, small_class(cell.__class__, False), matrices, **made)
    for held in ("w_ih_list", "w_hh_list"):  # of a layer, by layers and directions
        if held in cell.__dict__:
            parts = {id(getattr(cell, n)): small for n, small in made.items()}
            object.__setattr__(new, held, tuple(parts[id(p)] for p in getattr(cell, held)))
    return new


_MAKERS: dict[type, Callable[[Any, _Make], Cell]] = {
    Dense: _dense, Linear: _dense, Embedding: _embedding, EmbeddingExt: _embedding,
    MultiheadAttention: _attention,
    **dict.fromkeys((rnn.RNN, rnn.LSTM, rnn.GRU, rnn.RNNCell, rnn.LSTMCell, rnn.GRUCell),
                    _recurrent)}
"""Functions that make a layer with small weights of a layer, by its class; see `_maker`."""


def _maker(kind: type) -> Callable[[Any, _Make], Cell] | None:
    """The function that makes a layer with small weights; None for classes of users."""
    own = module_of(kind).startswith(("cellc.nn.", "cellc.mint."))
    return _convolution if own and issubclass(kind, Convolution) else _MAKERS.get(kind)
