"""Attention and transformers (Vaswani et al., 2017). Sources: the classes of these names in `nn`.

Sequences are (L, N, E): length, batch, features; with `batch_first` (N, L, E).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import COPIES, DropRate, Positive
from ...ops.functional.heads import attend_in_heads
from ...tensors.initializer import XavierNormal, XavierUniform
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from .activation import GELU, get_activation
from .base import Family, parameter
from .basic import Dense, Dropout
from .container import CellList
from .normalization import LayerNorm


class MultiheadAttention(Cell):
    """Scaled dot-product attention of several heads.

    Args:
        embed_dim: features of the query and the result, a multiple of `num_heads`.
        num_heads: heads.
        dropout: probability that an attention weight becomes zero in training.
        has_bias: whether the projections have biases.
        add_bias_kv: append a learnt key and value.
        add_zero_attn: append a key and value of zeros.
        kdim, vdim: features of keys and values; `embed_dim` if None.
        batch_first: inputs are (N, L, E).
        dtype: element type of the parameters.
    """

    def __init__(
        self, embed_dim: Positive, num_heads: Positive, dropout: DropRate = 0.0,
        has_bias: bool = True, add_bias_kv: bool = False, add_zero_attn: bool = False,
        kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        if embed_dim % num_heads:
            raise ValueError("The init argument 'embed_dim' must be divisible by 'num_heads'.")
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout = dropout
        self.add_zero_attn = add_zero_attn
        self.batch_first = batch_first
        self.same_dims = self.kdim == embed_dim and self.vdim == embed_dim
        self._projections(dtype)
        self.in_proj_bias = parameter(
            "zeros", (3 * embed_dim,), dtype, "in_proj_bias") if has_bias else None
        self.bias_k: Parameter | None = None
        self.bias_v: Parameter | None = None
        if add_bias_kv:
            shape = (1, 1, embed_dim)
            self.bias_k = parameter(XavierNormal(), shape, dtype, "bias_k")
            self.bias_v = parameter(XavierNormal(), shape, dtype, "bias_v")
        self.out_proj = Dense(embed_dim, embed_dim, has_bias=has_bias, dtype=dtype)

    def _projections(self, dtype: DType) -> None:
        e = self.embed_dim
        if self.same_dims:
            self.in_proj_weight = parameter(XavierUniform(), (3 * e, e), dtype, "in_proj_weight")
            return
        for name, size in (("q", e), ("k", self.kdim), ("v", self.vdim)):
            full = f"{name}_proj_weight"
            setattr(self, full, parameter(XavierUniform(), (e, size), dtype, full))

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        if self.same_dims:
            weights = ops.chunk(self.in_proj_weight, 3, 0)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases: tuple[Tensor | None, ...] = (None, None, None)
        if self.in_proj_bias is not None:
            biases = ops.chunk(self.in_proj_bias, 3, 0)
        return [ops.dense(x, w, b) for x, w, b in
                zip((query, key, value), weights, biases, strict=True)]

    def construct(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None,
        need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True,
    ) -> Any:
        """Query (L, N, E), key (S, N, kdim), value (S, N, vdim), or all without N.

        Args:
            key_padding_mask: (N, S): keys left out (bool), or what is added to scores (float).
            need_weights: return the attention weights too.
            attn_mask: (L, S) or (N * heads, L, S), as above.
            average_attn_weights: their mean over the heads.

        Returns:
            The result like the query; the weights (N, L, S) or (N, heads, L, S).
        """
        batched = query.ndim == 3
        if not batched:
            query, key, value = [ops.expand_dims(x, 1) for x in (query, key, value)]
            if key_padding_mask is not None:
                key_padding_mask = ops.expand_dims(key_padding_mask, 0)
        elif self.batch_first:
            query, key, value = [ops.swapaxes(x, 0, 1) for x in (query, key, value)]
        q, k, v = self._projected(query, key, value)
        mixed, weights = attend_in_heads(
            q, k, v, self.num_heads, self.bias_k, self.bias_v, self.add_zero_attn, attn_mask,
            key_padding_mask, self.dropout if self.training else 0.0)
        out = self.out_proj(mixed)
        if not batched:
            out = ops.squeeze(out, 1)
        elif self.batch_first:
            out = ops.swapaxes(out, 0, 1)
        if not need_weights:
            return (out,)
        if average_attn_weights:
            weights = ops.mean(weights, 1)
        return out, weights if batched else ops.squeeze(weights, 0)


def _activation(activation: Any) -> Any:
    if activation == "gelu":
        return GELU(approximate=False)  # unlike the layer of this name
    if activation == "relu":
        return get_activation(activation)
    if isinstance(activation, str):
        raise ValueError("For a transformer, 'activation' must be 'relu' or 'gelu', but got "
                         f"{activation!r}.")
    if not callable(activation):
        raise ValueError("the argument 'activation' must be str, callable or Cell instance, but "
                         f"got {activation}.")
    return activation


class _Layer(Family):
    """The common part of encoder and decoder layers: attention, two dense layers, norms, dropouts.
    """

    # names of the attentions; there is one norm and dropout more than these
    _attentions: tuple[str, ...] = ()

    activation1: Callable[..., Tensor]
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    dropout3: Dropout

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, dtype: DType = float32,
    ) -> None:
        super().__init__()
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, dtype=dtype))
        self.dense1 = Dense(d_model, dim_feedforward, dtype=dtype)
        self.dropout = Dropout(p=dropout)
        self.dense2 = Dense(dim_feedforward, d_model, dtype=dtype)
        made = _activation(activation)
        # A Cell kept as a plain attribute is neither printed nor walked, as in MindSpore.
        object.__setattr__(self, "activation1", made)
        self.norm_first = norm_first
        for i in range(1, len(self._attentions) + 2):
            setattr(self, f"norm{i}", LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
        for i in range(1, len(self._attentions) + 2):
            setattr(self, f"dropout{i}", Dropout(p=dropout))

    def _attended(self, x: Tensor, mask: Any, padding: Any) -> Tensor:
        out = self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding,
                             need_weights=False)[0]
        return self.dropout1(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dense2(self.dropout(self.activation1(self.dense1(x))))


class TransformerEncoderLayer(_Layer, _attentions=("self_attn",)):
    """Self-attention and two dense layers, each with a residual and a normalisation.

    Args:
        d_model, nhead: features and heads.
        dim_feedforward: features between the dense layers.
        dropout: probability of zeros in training.
        activation: between the dense layers: a name, Cell or function.
        layer_norm_eps: of the normalisations.
        batch_first: inputs are (N, L, E).
        norm_first: normalise before each block, not after.
        dtype: element type of the parameters.
    """

    def construct(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None
    ) -> Tensor:
        """(L, N, d_model) to the same shape; masks as in `MultiheadAttention`."""
        if self.norm_first:
            src = src + self._attended(self.norm1(src), src_mask, src_key_padding_mask)
            return src + self.dropout2(self._ff_block(self.norm2(src)))
        src = self.norm1(src + self._attended(src, src_mask, src_key_padding_mask))
        return self.norm2(src + self.dropout2(self._ff_block(src)))


class TransformerDecoderLayer(_Layer, _attentions=("self_attn", "multihead_attn")):
    """Self-attention, attention to a memory, and two dense layers.

    Args:
        As in `TransformerEncoderLayer`.
    """

    def _crossed(self, x: Tensor, memory: Tensor, mask: Any, padding: Any) -> Tensor:
        out = self.multihead_attn(x, memory, memory, attn_mask=mask, key_padding_mask=padding,
                                  need_weights=False)[0]
        return self.dropout2(out)

    def construct(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
    ) -> Tensor:
        """(L, N, d_model) and a memory (S, N, d_model) to the shape of the first."""
        if self.norm_first:
            tgt = tgt + self._attended(self.norm1(tgt), tgt_mask, tgt_key_padding_mask)
            tgt = tgt + self._crossed(self.norm2(tgt), memory, memory_mask, memory_key_padding_mask)
            return tgt + self.dropout3(self._ff_block(self.norm3(tgt)))
        tgt = self.norm1(tgt + self._attended(tgt, tgt_mask, tgt_key_padding_mask))
        tgt = self.norm2(tgt + self._crossed(tgt, memory, memory_mask, memory_key_padding_mask))
        return self.norm3(tgt + self.dropout3(self._ff_block(tgt)))


def _copies(layer: Cell, count: int, what: str) -> CellList:
    """Copies of a layer, each with parameters of its own."""
    many = COPIES(count, what, "num_layers")
    return CellList([copy.deepcopy(layer) for _ in range(many)])


class TransformerEncoder(Cell):
    """Encoder layers on top of each other.

    Args:
        encoder_layer: copied `num_layers` times.
        norm: applied at the end, or None.
    """

    def __init__(self, encoder_layer: Cell, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers, self.cls_name)
        self.num_layers = num_layers
        self.norm = norm

    def construct(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None
    ) -> Tensor:
        """(L, N, d_model) to the same shape."""
        for layer in self.layers:
            src = layer(src, src_mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Cell):
    """Decoder layers on top of each other.

    Args:
        decoder_layer: copied `num_layers` times.
        norm: applied at the end, or None.
    """

    def __init__(self, decoder_layer: Cell, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers, self.cls_name)
        self.num_layers = num_layers
        self.norm = norm

    def construct(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
    ) -> Tensor:
        """(L, N, d_model) and a memory (S, N, d_model) to the shape of the first."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                        memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Cell):
    """An encoder and a decoder.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, dtype: as in `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: how many layers each has.
        custom_encoder, custom_decoder: used instead of those.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Any = "relu", custom_encoder: Cell | None = None,
        custom_decoder: Cell | None = None, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, dtype: DType = float32,
    ) -> None:
        super().__init__()
        options: Iterable[Any] = (d_model, nhead, dim_feedforward, dropout, activation,
                                  layer_norm_eps, batch_first, norm_first, dtype)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers,
            LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers,
            LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def construct(
        self, src: Tensor, tgt: Tensor, src_mask: Any = None, tgt_mask: Any = None,
        memory_mask: Any = None, src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
    ) -> Tensor:
        """(S, N, d_model) and (L, N, d_model) to the shape of the second."""
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        out: Tensor = self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                                   memory_key_padding_mask)
        return out
