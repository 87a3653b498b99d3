"""Names of `mindspore.ops` for other devices: those of ops that are here are these, what other
devices alone have says so when it is called.

Making a Primitive of them is no error, so that programs that choose by the device run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_runtime.lazy import names_of

from ...tensors.tensor import Tensor
from ..functional import arith, linalg, loss, reductions, window
from ..primitive import Primitive

_FUNCTIONS = (
    "add_layer_norm add_rms_norm fused_infer_attention_score incre_flash_attention "
    "lightning_indexer matmul_reduce_scatter all_gather_matmul moe_distribute_combine "
    "moe_distribute_dispatch moe_init_routing_v2 moe_token_permute moe_token_unpermute "
    "multi_scale_deformable_attn_function nsa_compress nsa_compress_attention "
    "nsa_select_attention prompt_flash_attention ring_attention_update "
    "rotary_position_embedding rotated_iou sparse_flash_attention speed_fusion_attention "
    "bernoulli_ext stop_gradient_ tensordump")
_CLASSES = (
    "ApplyRotaryPosEmb BasicLSTMCell CustomOpBuilder DynamicGRUV2 DynamicRNN "
    "FloatStatus FusedWeightScaleApplyMomentum GroupTopk MapCacheIdx NPUAllocFloatStatus "
    "NPUClearFloatStatus NPUGetFloatStatus PagedAttention PagedAttentionMask Pull Push RNNTLoss "
    "ReshapeAndCache DumpGradient FusedAdaFactor FusedAdaFactorWithGlobalNorm Gamma GetNext "
    "NonMaxSuppressionV3 Quantile Randperm SparseGatherV2 TensorDump")
_INTERNAL = "GeSwitch Merge PyExecute UpdateState"
"""Classes of nodes that MindSpore's compiler makes for itself."""


def diff_ext(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along `dim`, taken `n` times: `ops.diff` with the names of
    arguments of `mint.diff`."""
    return reductions.diff(input, n, dim, prepend, append)


def isnan_ext(tensor: Tensor) -> Tensor:
    """Whether each element is NaN, a bool Tensor of the same shape: `ops.isnan` with the argument
    name of `mint.isnan`."""
    return arith.isnan(tensor)


def _refuse(name: str, why: str) -> RuntimeError:
    return RuntimeError(f"ops.{name} {why}, and has no counterpart in cellc. Use ops that compute "
                        "the same, which `cellc` compiles together.")


def _function(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _refuse(name, "exists for Ascend devices only")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = (f"For Ascend devices only: a call raises a RuntimeError. Source: "
                      f"`mindspore.ops.{name}`.")
    return refuse


def _class(name: str, why: str) -> type[Primitive]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        self.name, self.attrs = name, dict(kwargs)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _refuse(name, why)

    return type(name, (Primitive,), {
        "__init__": init, "function": staticmethod(refuse), "__module__": __package__,
        "__doc__": f"{why[0].upper()}{why[1:]}: a RuntimeError when it is called. Source: "
                   f"`mindspore.ops.{name}`."})


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{n: _function(n) for n in _FUNCTIONS.split()},
    "adaptive_avg_pool2d_ext": window.adaptive_avg_pool2d, "baddbmm_ext": linalg.baddbmm,
    "diff_ext": diff_ext, "einsum_ext": linalg.einsum_ext, "isnan_ext": isnan_ext,
    "mse_loss_ext": loss.mse_loss}
"""Every function by name."""
PRIMITIVES: Mapping[str, type[Primitive]] = {
    **{n: _class(n, "exists for other devices only") for n in _CLASSES.split()},
    **{n: _class(n, "is a node that MindSpore's compiler makes for itself")
       for n in _INTERNAL.split()}}
"""Every class by name."""

__all__ = sorted(FUNCTIONS)
__getattr__ = names_of(__name__, FUNCTIONS)
