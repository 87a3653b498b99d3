"""`torch.compile(model, backend="cellc")`: graphs of PyTorch as programs of cellc.

torch traces a model into core ATen operators; the rules of `table.RULES` say what each is in ops
of cellc. Programs read weights and inputs where torch has them. Sizes that torch leaves open are
open here. Operators without a rule stay with torch: the graph is split around them, which
`report()` tells. torch finds the backend by the entry point `torch_dynamo_backends`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_module

from ..core.declared import misuse
from . import elementwise as elementwise
from . import neural as neural
from . import reductions as reductions
from . import shaping as shaping
from .network import missing
from .program import Part
from .report import GraphReport, add, note, report
from .table import RULES as RULES

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node
# Places that torch documents for backends, although their names are private.
common: Any = lazy_module("torch._dynamo.backends.common")
decomp: Any = lazy_module("torch._decomp")
functorch: Any = lazy_module("torch._functorch.aot_autograd")
guards: Any = lazy_module("torch._guards")
partitioner: Any = lazy_module("torch.fx.passes.infra.partitioner")

__all__ = ["RULES", "GraphReport", "compile_graph", "decompositions", "report"]

_WHOLE = (
    "_scaled_dot_product_flash_attention_for_cpu", "_adaptive_avg_pool2d", "adaptive_avg_pool1d",
    "avg_pool1d", "baddbmm", "elu", "gelu", "grid_sampler_2d", "hardsigmoid", "hardswish",
    "hardtanh", "index_select", "leaky_relu", "log_sigmoid_forward", "logsumexp", "mish",
    "native_layer_norm", "native_group_norm", "pixel_shuffle", "pixel_unshuffle", "roll", "rsub",
    "silu", "softplus", "square", "stack", "std", "unbind", "_fused_rms_norm", "relu6",
    "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "addcmul", "addcdiv", "lerp", "linalg_vector_norm", "slice_scatter",
    "select_scatter", "masked_fill", "split", "split_with_sizes", "tril", "triu",
)
"""Operators that stay whole although torch can take them apart: there is an op for each."""


_APART = ("aten.adaptive_max_pool3d", "aten.addmv", "aten.bucketize", "aten.ldexp",
          "aten.tril_indices", "aten.triu_indices")
"""Operators outside of torch's core set that are taken apart, too."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """How torch takes apart all other operators."""
    more = {op: how for op, how in decomp.decomposition_table.items()
            if str(op).rpartition(".")[0] in _APART}
    return more | {op: how for op, how in decomp.core_aten_decompositions().items()
                   if str(op).split(".")[1] not in _WHOLE}


def compile_graph(
    module: GraphModule, inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """The backend: a callable in the place of a graph that torch has traced.

    Args:
        options: `options={"freezing": True}`: weights are packed ahead.

    Raises:
        ValueError: another option or a mode is given.
    """
    given = dict(options.pop("options", None) or {})
    freezing = given.pop("freezing", False)
    if options := {k: v for k, v in {**options, **given}.items() if v}:
        raise misuse("torch.compile", "the backend 'cellc' takes no 'mode', and no option but "
                     "'freezing'", options)
    if not isinstance(freezing, bool):
        raise misuse("torch.compile", "the option 'freezing' must be a bool", freezing)
    lower = partial(common.aot_autograd, decompositions=decompositions())
    compiled: Callable[..., Any] = lower(
        fw_compiler=partial(_compile, freezing=freezing), bw_compiler=_compile)(module, inputs)
    return compiled


def _mark_weights(module: GraphModule) -> None:
    """Mark the inputs of a graph that torch has as parameters and buffers of the model."""
    context = guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    static = set(metadata.static_input_indices) if metadata is not None else set[int]()
    for i, node in enumerate(module.graph.find_nodes(op="placeholder")):
        node.meta["weight"] = i in static


def _compile(
    module: GraphModule, inputs: Sequence[Any], freezing: bool = False
) -> Callable[..., Any]:
    """A graph of core operators as programs, with those of torch between them."""
    if freezing:
        _mark_weights(module)
    lacking = missing(module.graph)
    count = sum(n.op == "call_function" for n in module.graph.nodes)
    if not lacking:
        own = add(count, 1, ())
        call: Any = Part(module, partial(note, own))
    else:
        call, names = _split(module, lacking)
        own = add(count, len(names), (m for n, m in lacking.items()
                                     if n.target is not operator.getitem))
        for name in names:
            part = Part(getattr(call, name), partial(note, own))
            delattr(call, name)
            call.__dict__[name] = part
    boxed: Callable[..., Any] = functorch.make_boxed_func(call)
    return boxed


def _split(module: GraphModule, lacking: dict[Node, Any]) -> tuple[GraphModule, list[str]]:
    """The graph with the nodes between those that are missing in modules of their own."""
    class Support:
        @staticmethod
        def is_node_supported(submodules: Any, node: Node) -> bool:
            return node.op == "call_function" and node not in lacking

    found = partitioner.CapabilityBasedPartitioner(
        module, Support(), allows_single_node_partition=True).partition_and_fuse()
    return found, [n.target for n in found.graph.nodes if n.op == "call_module"]
