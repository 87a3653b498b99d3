"""The primitives that MindSpore's layers keep as attributes, for classes derived from them.

A published `construct` of a class derived from `nn.Conv2d` calls `self.conv2d(x, self.weight)`. Our
layers do not need these primitives, so each is made from the layer's options when it is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops
from ...ops import operations
from ...ops.primitive import alike

Maker = Callable[[Any], Any]


def _conv(primitive: str, own_channels: str = "out_channels") -> Maker:
    """A convolution with a layer's options; a transposed one has the channels of its input."""
    def make(layer: Any) -> Any:
        given = {"kernel_size": layer.kernel_size, "pad_mode": layer.pad_mode, "mode": 1,
                 "pad": layer.padding, "stride": layer.stride, "dilation": layer.dilation,
                 "group": layer.group}
        kind = getattr(ops, primitive)
        if primitive == "Conv3DTranspose":
            return kind(layer.in_channels, layer.out_channels,
                        output_padding=layer.output_padding, **given)
        return kind(getattr(layer, own_channels), **given)

    return make


def _plain(primitive: str, **fixed: Any) -> Maker:
    """A primitive whose options are the same for all layers."""
    return lambda layer: getattr(ops, primitive)(**fixed)


class _Of:
    """Makes a primitive whose options are attributes of the layer.

    Attributes:
        options: by option of the primitive, the attribute of the layer.
    """

    def __init__(self, primitive: str, **options: str) -> None:
        self.primitive, self.options = primitive, options

    def __call__(self, layer: Any) -> Any:
        return getattr(operations, self.primitive)(
            **{name: getattr(layer, attribute) for name, attribute in self.options.items()})


def _batch_norm(training: bool) -> Maker:
    return lambda layer: ops.BatchNorm(
        is_training=training, epsilon=layer.eps, momentum=layer.momentum)


def _pool(primitive: str, rows: bool = False) -> Maker:
    def make(layer: Any) -> Any:
        sizes = ((1, n[-1]) if rows else n for n in (layer.kernel_size, layer.stride))
        size, stride = sizes
        mode = "valid" if layer.pad_mode == "PAD" else layer.pad_mode.lower()
        return getattr(ops, primitive)(kernel_size=size, strides=stride, pad_mode=mode)

    return make


def _split(axis: int) -> Maker:
    """Groups of channels."""
    return lambda layer: ops.Split(axis, layer.group)


def _value(value: Any) -> Maker:
    return lambda layer: value


def _patches(layer: Any) -> Any:
    """Windows by (1, 1, rows, columns), which the layer has as (1, rows, columns, 1)."""
    sizes = ((n[0], n[3], n[1], n[2]) for n in (layer.ksizes, layer.strides, layer.rates))
    primitive: Any = ops.ExtractImagePatches
    return primitive(*sizes, layer.padding)


def _sampler(layer: Any) -> Any:
    return ops.UniformCandidateSampler(
        layer.num_true, layer.num_sampled, True, layer.num_classes, layer.seed,
        layer.remove_accidental_hits)


def _plains(**primitives: str) -> dict[str, Maker]:
    """Primitives without options, by their names."""
    return {name: _plain(primitive) for name, primitive in primitives.items()}


_SHAPES = {"reshape": _plain("Reshape"), "shape": _plain("Shape")}
_ROWS = {"squeeze": _plain("Squeeze", axis=(2,)), "expand_dims": _plain("ExpandDims"),
         "shape": _plain("Shape")}
_REDUCED = {"cast": _plain("Cast"), "mul": _plain("Mul"), "reduce_mean": _plain("ReduceMean"),
            "reduce_sum": _plain("ReduceSum")}
_ONE_HOT = {
    "on_value": lambda layer: ops.scalar_to_tensor(1.0),
    "off_value": lambda layer: ops.scalar_to_tensor(0.0), "one_hot": _plain("OneHot"),
}
_BIAS = {"bias_add": _plain("BiasAdd")}
_LINEAR = {**_BIAS, "matmul": _plain("MatMul", transpose_b=True), "reshape": _plain("Reshape"),
           "shape_op": _plain("Shape")}
_GAMMA = _plains(
    abs="Abs", cast="Cast", cos="Cos", dtype="DType", equal="Equal", exp="Exp", floor="Floor",
    greater="Greater", isfinite="IsFinite", less="Less", lessequal="LessEqual", log="Log",
    log1p="Log1p", logicaland="LogicalAnd", logicalnot="LogicalNot", logicalor="LogicalOr",
    neg="Neg", ones_like="OnesLike", select="Select", shape="Shape", sin="Sin",
    zeroslike="ZerosLike")

INNER: dict[str, dict[str, Maker]] = {
    "AdaptiveAvgPool1d": {
        **_plains(dtype="DType", expand="ExpandDims"), "squeeze": _plain("Squeeze", axis=(2,))},
    "AdaptiveAvgPool2d": {"adaptive_avgpool2d": _Of("AdaptiveAvgPool2D",
                                                    output_size="output_size")},
    "AdaptiveAvgPool3d": {"adaptive_avg_pool3d": _Of("AdaptiveAvgPool3D",
                                                     output_size="output_size")},
    "AdaptiveMaxPool1d": {
        **_plains(dtype="DType", expand="ExpandDims"), "squeeze": _plain("Squeeze", axis=(2,))},
    "AdaptiveMaxPool3d": _plains(adaptive_max_pool3d="AdaptiveMaxPool3D"),
    "AvgPool1d": {
        **_plains(expand="ExpandDims", slice="Slice"), "avg_pool": _pool("AvgPool", rows=True),
        "squeeze": _plain("Squeeze", axis=(2,)),
        "reduce_mean": _plain("ReduceMean", keep_dims=True)},
    "AvgPool2d": {"avg_pool": _pool("AvgPool")},
    "AvgPool3d": {"avg_pool": _pool("AvgPool3D")},
    "BatchNorm3d": _SHAPES,
    "BiDense": {**_BIAS, "matmul": _plain("MatMul")},
    "CELU": {"celu": _Of("CeLU", alpha="alpha")},
    "CentralCrop": _plains(slice="Slice"),
    "ChannelShuffle": {**_SHAPES, "transpose": _plain("Transpose")},
    "ClipByNorm": {"clip_by_norm": _Of("ClipByNorm", axis="axis")},
    "Conv1d": {"conv2d": _conv("Conv2D"), **_BIAS, **_ROWS},
    "Conv1dTranspose": {"conv2d_transpose": _conv("Conv2DTranspose", "in_channels"), **_BIAS,
                        **_ROWS},
    "Conv2d": {"conv2d": _conv("Conv2D"), **_BIAS},
    "Conv2dTranspose": {"conv2d_transpose": _conv("Conv2DTranspose", "in_channels"), **_BIAS,
                        "shape": _plain("Shape")},
    "Conv3d": {"conv3d": _conv("Conv3D"), **_BIAS, "shape": _plain("Shape"),
               "concat": _plain("Concat", axis=1), "split_0": _split(0), "split_1": _split(1)},
    "Conv3dTranspose": {"conv3d_transpose": _conv("Conv3DTranspose"), **_BIAS,
                        "shape": _plain("Shape")},
    "CosineEmbeddingLoss": _plains(maximum="Maximum"),
    "CosineSimilarity": _plains(cast="Cast", div="DivNoNan", maximum="Maximum", mul="Mul"),
    "Dense": _LINEAR, "DiceLoss": _plains(reshape="Reshape"), "DiGamma": _GAMMA,
    "Dropout": {"dropout": lambda layer: ops.Dropout(
        keep_prob=1.0 - layer.p if layer.keep_prob is None else layer.keep_prob)},
    "Dropout2d": {"dropout2d": lambda layer: ops.Dropout2D(1.0 - layer.p),
                  "keep_prob": lambda layer: 1.0 - layer.p},
    "Dropout3d": {"dropout3d": lambda layer: ops.Dropout3D(1.0 - layer.p),
                  "keep_prob": lambda layer: 1.0 - layer.p},
    "DynamicLossScaleUpdateCell": _plains(less_equal="LessEqual", logic_and="LogicalAnd",
        logic_not="LogicalNot", logic_or="LogicalOr", max="Maximum", reciprocal="Reciprocal",
        select="Select"),
    "ELU": {"elu": _Of("Elu", alpha="alpha")},
    "Embedding": {
        **_plains(gather="Gather", expand="ExpandDims", reshape="Reshape", reshape_flat="Reshape",
            get_shp="Shape", array_mul="MatMul", concat="Concat"),
        "shp_flat": _value((-1,)), "init_tensor": lambda layer: layer.embedding_table.value(),
        **_ONE_HOT},
    "EmbeddingLookup": _plains(gather_revert="Gather", gatherv2="SparseGatherV2",
        embeddinglookup="EmbeddingLookup", reshape="Reshape", reshape_first="Reshape",
        unique="Unique", shape="Shape"),
    "FastGelu": _plains(fast_gelu="FastGeLU"),
    "FocalLoss": _plains(dtype="DType", expand_dims="ExpandDims", gather_d="GatherD",
                         tile="Tile") | {"squeeze": _plain("Squeeze", axis=1)},
    "GLU": {"sigmoid": _plain("Sigmoid"), "dim": lambda layer: layer.axis,
            "spilt": lambda layer: ops.Split(axis=layer.axis, output_num=2)},
    "HShrink": {"hshrink": _Of("HShrink", lambd="lambd")},
    "HSigmoid": _plains(hsigmoid="HSigmoid"), "HSwish": _plains(hswish="HSwish"), "IGamma": _GAMMA,
    "L1Regularizer": _plains(abs="Abs", reduce_sum="ReduceSum"),
    "LayerNorm": {"layer_norm": _Of("LayerNorm", begin_norm_axis="begin_norm_axis",
                                    begin_params_axis="begin_params_axis", epsilon="epsilon")},
    "LBeta": _GAMMA,
    "LearningRateSchedule": _plains(cast="Cast", ceil="Ceil", cos="Cos", max="Maximum",
        min="Minimum", pow="Pow", sin="Sin"),
    "LGamma": _GAMMA, "Linear": _plains(dense="Dense"),
    "LogSigmoid": _plains(mul="Mul", exp="Exp", add="Add", rec="Reciprocal", log="Log"),
    "LogSoftmax": {"log_softmax": _Of("LogSoftmax", axis="axis")},
    "LogSoftmaxExt": _plains(log_softmax="LogSoftmaxExt"),
    "LossBase": _REDUCED,
    "LRN": {"lrn_op": _Of("LRN", depth_radius="depth_radius", bias="bias", alpha="alpha",
                          beta="beta", norm_region="norm_region")},
    "MAELoss": _plains(abs="Abs"),
    "MatDet": _plains(cholesky="Cholesky", dtype="DType", square="Square"),
    "MatInverse": _plains(dtype="DType"),
    **dict.fromkeys(("MatrixDiag", "MatrixDiagPart", "MatrixSetDiag"), _plains(dtype="DType")),
    "MatMul": {
        **_plains(shape_op="Shape", expand_op="ExpandDims"),
        "squeeze_left_op": _plain("Squeeze", axis=-2),
        "squeeze_right_op": _plain("Squeeze", axis=-1),
        "reduce_sum_op": _plain("ReduceSum", keep_dims=False)},
    "MaxPool1d": {"max_pool": _pool("MaxPool", rows=True), "expand": _plain("ExpandDims"),
                  "squeeze": _plain("Squeeze", axis=(2,)),
                  "reduce_mean": _plain("ReduceMean", keep_dims=True)},
    "MaxPool2d": {"max_pool": _pool("MaxPool")},
    "MaxPool3d": {"max_pool": _pool("MaxPool3D")},
    "MicroBatchInterleaved": _plains(add="Add"),
    "Mish": _plains(mish="Mish"),
    "Moments": {
        **_plains(cast="Cast", squeeze="Squeeze", square_diff="SquaredDifference"),
        "reduce_mean": _plain("ReduceMean", keep_dims=True)},
    "MSSSIM": {
        **_plains(reduce_mean="ReduceMean", prod="ReduceProd", pow="Pow"),
        "stack": _plain("Stack", axis=-1), "concat": _plain("Concat", axis=1)},
    "MultiClassDiceLoss": _plains(reshape="Reshape"),
    "MultiFieldEmbeddingLookup": _plains(abs="Abs", add="Add", bias_add="Add", cast="Cast",
        count_op="UnsortedSegmentSum", div_no_nan="DivNoNan", equal="Equal", expand="ExpandDims",
        inf_add="Add", inf_mask_mul="Mul", max_mask_mul="Mul", max_no_equal="NotEqual",
        merge_op="UnsortedSegmentSum", mul="Mul"),
    "MultilabelMarginLoss": {
        "multilabel_margin_loss": _Of("MultilabelMarginLoss", reduction="reduction")},
    "MultiMarginLoss": {
        "multi_margin_loss": _Of("MultiMarginLoss", p="p", margin="margin", reduction="reduction")},
    "Norm": {
        **_plains(sqrt="Sqrt", squeeze="Squeeze"),
        "reduce_sum": _plain("ReduceSum", keep_dims=True)},
    "OneHot": {"onehot": _Of("OneHot", axis="axis")},
    "Pad": {"pad": lambda layer: ops.Pad(layer.paddings)},
    "PipelineCell": _plains(add="Add"),
    "PoissonNLLLoss": _plains(maximum="Maximum"),
    "PReLU": {"prelu": _plain("PReLU"), "w": lambda layer: layer.a},
    "ReduceLogSumExp": {
        **_plains(exp="Exp", log="Log"), "max": _Of("ReduceMax", keep_dims="keep_dims"),
        "sum": _Of("ReduceSum", keep_dims="keep_dims")},
    "ReLU": _plains(relu="ReLU"), "ReLU6": _plains(relu6="ReLU6"),
    **{f"ReplicationPad{n}d": {"padv3": _plain("PadV3", mode="edge")} for n in (1, 2, 3)},
    "RMSELoss": _plains(dtype="DType"),
    "Roll": {"shape_op": _plain("Shape"), "roll": _Of("Roll", shifts="shift", dims="axis")},
    "RReLU": _plains(sign="Sign"),
    "SampledSoftmaxLoss": {
        **_plains(dtype="DType", exp="Exp", expand_dims="ExpandDims", gather_v2="Gather", log="Log",
            ones_like="OnesLike", reshape="Reshape", shape="Shape", slice_op="Slice",
            zeros_like="ZerosLike"),
        "concat_dim0": _plain("Concat", axis=0), "concat_dim1": _plain("Concat", axis=1),
        "matmul": _plain("MatMul", transpose_b=True), "sampler": _sampler,
        "reduce_max_true": _plain("ReduceMax", keep_dims=True),
        "reduce_sum_true": _plain("ReduceSum", keep_dims=True)},
    "SeLU": _plains(selu="SeLU"), "Sigmoid": _plains(sigmoid="Sigmoid"),
    "SmoothL1Loss": {"smooth_l1_loss": _Of("SmoothL1Loss", beta="beta", reduction="reduction")},
    "Softmax": {"softmax": _Of("Softmax", axis="axis")},
    "Softmax2d": {"softmax": _plain("Softmax", axis=-3), "shape": _plain("Shape")},
    "SoftmaxCrossEntropyWithLogits": {
        **_plains(softmax_cross_entropy="SoftmaxCrossEntropyWithLogits",
            sparse_softmax_cross_entropy="SparseSoftmaxCrossEntropyWithLogits"),
        "is_cpugpu": _value(True), **_ONE_HOT},
    "SoftShrink": {"softshrink": _Of("SoftShrink", lambd="lambd")},
    "Softsign": _plains(softsign="Softsign"),
    "SparseToDense": _plains(sparse_to_dense="SparseToDense"),
    "SSIM": {"concat": _plain("Concat", axis=1), "reduce_mean": _plain("ReduceMean")},
    "Tanh": _plains(tanh="Tanh"),
    "TimeDistributed": _plains(reshape="Reshape", transpose="Transpose"),
    "TrainOneStepWithLossScaleCell": _plains(equal="Equal", reduce_all="ReduceAll"),
    "Tril": _plains(cast="Cast", mul="Mul", dtype="DType"),
    "TripletMarginWithDistanceLoss": _plains(maximum="Maximum", minimum="Minimum"),
    "Triu": _plains(cast="Cast", mul="Mul", dtype="DType"),
    "Unflatten": _SHAPES,
    "Unfold": {"extract_image_patches": _patches},
    "_BatchNorm": {
        **_plains(assign_sub_mean="AssignSub", assign_sub_var="AssignSub", cast="Cast",
            dtype="DType", square="Square", sqrt="Sqrt", sub_mean="Sub", sub_var="Sub",
            mul_mean="Mul", mul_var="Mul"),
        "bn_train": _batch_norm(True), "bn_infer": _batch_norm(False), **_SHAPES,
        "format": _value("NCHW"), "parallel_mode": _value("stand_alone"),
        "reduce_mean": _plain("ReduceMean", keep_dims=True)},
    "_InstanceNorm": {
        "shape": _plain("Shape"),
        "instance_bn": _Of("InstanceNorm", epsilon="eps", momentum="momentum")},
    "_RNNBase": {"reverse": _plain("ReverseV2", axis=[0]),
                 "reverse_sequence": _plain("ReverseSequence", seq_dim=0, batch_dim=1)},
}
"""By class: what it and classes derived from it have, each made of the layer."""


def find(layer: Any, name: str) -> Any:
    """The inner primitive of a layer by MindSpore's name for it, or None."""
    maker = _maker(layer, name)
    return None if maker is None else maker(layer)


def _maker(layer: Any, name: str) -> Maker | None:
    for kind in type(layer).__mro__:
        maker = INNER.get(kind.__name__, {}).get(name)
        if maker is not None and kind.__module__.startswith("cellc.nn."):
            return maker
    return None


def takes(layer: Any, name: str, value: Any) -> bool:
    """Whether an assigned primitive is like the layer's inner primitive of this name: then it
    replaces the inner one, and its settings apply to the layer.

    A class with a `construct` of its own, which does not call that of the layer, uses what it is
    given as it likes: False.
    """
    maker = _maker(layer, name)
    if maker is None or not _computes(type(layer)):
        return False
    own = maker(layer)
    if not isinstance(own, ops.Primitive):
        return False
    if alike(own, value):
        return True
    given = value.cls_name if hasattr(value, "cls_name") else repr(value)
    raise ValueError(
        f"For '{type(layer).__name__}.{name}', {given} was given, but this layer computes what "
        f"{own} does, without a call of this attribute: give it such a primitive, or write a class "
        "whose construct calls it.")


def follow(layer: Any, name: str, primitive: Any, option: str, value: Any) -> None:
    """Let a layer compute by an option that a program sets on its inner primitive of a name.

    A layer that computes by itself, without a call of the primitive, takes the value as its own
    attribute where it has one for the option.

    Raises:
        ValueError: the layer has no such attribute.
    """
    maker = _maker(layer, name)
    if maker is None or not _computes(type(layer)) or primitive.attrs[option] == value:
        return
    attribute = getattr(maker, "options", {}).get(option)
    if attribute is None:
        raise ValueError(
            f"For '{type(layer).__name__}.{name}', '{option}' was set to {value!r}, but this layer "
            f"computes what {primitive} does, without a call of this attribute: set an attribute "
            "of the layer, or write a class whose construct calls the primitive.")
    setattr(layer, attribute, value)


def _computes(kind: type) -> bool:
    """Whether a class of layers computes by cellc's own `construct`."""
    for base in kind.__mro__:
        if base.__module__.startswith("cellc."):
            return True
        code = getattr(base.__dict__.get("construct"), "__code__", None)
        if code is not None:
            return "construct" in code.co_names  # (that of its base)
    return False
