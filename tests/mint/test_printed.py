"""What MindSpore 2.10 prints for layers of `mint.nn`, and their parameters, recorded."""

from __future__ import annotations

import re

import pytest

import cellc as ms
from cellc import mint, nn

PARAMETERS = {"batch": "weight bias running_mean running_var num_batches_tracked",
              "tracked": "running_mean running_var num_batches_tracked", "both": "weight bias"}
NORM = "eps=1e-05, momentum=0.1, affine=True, track_running_stats=True"
CONV2D = "kernel_size=(3, 3), stride=(1, 1)"
LAYERS = (
    # (expression, what is printed, names of parameters)
    ("AdaptiveAvgPool1d(3)", "AdaptiveAvgPool1d(output_size=3)", ""),
    ("AdaptiveAvgPool2d((None, 4))", "AdaptiveAvgPool2d(output_size=(None, 4))", ""),
    ("AdaptiveAvgPool3d((3, 4, 5))", "AdaptiveAvgPool3d()", ""),
    ("AdaptiveMaxPool1d(3, True)", "AdaptiveMaxPool1d(output_size=3, return_indices=True)", ""),
    ("AdaptiveMaxPool2d((3, 4))", "AdaptiveMaxPool2d()", ""),
    ("AvgPool1d(2)", "AvgPool1dExt()", ""), ("AvgPool2d(2)", "AvgPool2dExt()", ""),
    ("AvgPool3d(2)", "AvgPool3dExt()", ""), ("MaxPool2d()", "MaxPool2dExt()", ""),
    ("BCELoss()", "BCELoss(\n  (bce_loss): BCELoss()\n)", ""),
    ("BCEWithLogitsLoss()", "BCEWithLogitsLoss()", ""),
    ("BatchNorm1d(3)", f"BatchNorm1d(num_features=3, {NORM})", PARAMETERS["batch"]),
    ("BatchNorm2d(3, momentum=None)", "BatchNorm2d(num_features=3, "
     + NORM.replace("0.1", "None") + ")", PARAMETERS["batch"]),
    ("BatchNorm2d(3, track_running_stats=False)", "BatchNorm2d(num_features=3, "
     + NORM.replace("stats=True", "stats=False") + ")", PARAMETERS["both"]),
    ("BatchNorm3d(3, affine=False)", "BatchNorm3d(num_features=3, "
     + NORM.replace("affine=True", "affine=False") + ")", PARAMETERS["tracked"]),
    ("Conv1d(4, 6, 3, 2, 1, 2, 2, False, 'reflect')",
     "Conv1d(input_channels=4, output_channels=6, kernel_size=(3,), stride=(2,), padding=(1,), "
     "dilation=(2,), groups=2, bias=False)", "weight"),
    ("Conv2d(4, 6, 3)", f"Conv2d(input_channels=4, output_channels=6, {CONV2D}, padding=(0, 0), "
     "dilation=(1, 1), groups=1, bias=True)", PARAMETERS["both"]),
    ("Conv2d(4, 6, 3, 1, 'same')", f"Conv2d(input_channels=4, output_channels=6, {CONV2D}, "
     "padding=same, dilation=(1, 1), groups=1, bias=True)", PARAMETERS["both"]),
    ("Conv3d(4, 6, 1)", "Conv3d(input_channels=4, output_channels=6, kernel_size=(1, 1, 1), "
     "stride=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1, bias=True)",
     PARAMETERS["both"]),
    ("ConvTranspose2d(4, 6, 3)", f"ConvTranspose2d(input_channels=4, output_channels=6, {CONV2D}, "
     "padding=(0, 0), dilation=(1, 1), groups=1, bias=True)", PARAMETERS["both"]),
    ("Dropout()", "DropoutExt()", ""), ("Dropout2d()", "Dropout2dExt()", ""),
    ("Embedding(5, 3, padding_idx=1)", "EmbeddingExt(num_embeddings=5, embedding_dim=3, "
     "padding_idx=1, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, dtype=Float32)",
     "weight"),
    ("GroupNorm(2, 4)", "GroupNorm(num_groups=2, num_channels=4, eps=1e-05, affine=True)",
     PARAMETERS["both"]),
    ("Hardshrink()", "HShrink()", ""), ("Hardsigmoid()", "HSigmoid()", ""),
    ("Hardswish()", "HSwish()", ""), ("Hardtanh()", "Hardtanh()", ""),
    ("Identity(3, a=4)", "Identity()", ""), ("L1Loss()", "L1LossExt()", ""),
    ("LayerNorm((3, 4), bias=False)", "LayerNormExt(normalized_shape=(3, 4), eps=1e-05, "
     "elementwise_affine=True)", "weight"),
    ("Linear(4, 3)", "Linear(input_features=4, output_features=3, has_bias=True)",
     PARAMETERS["both"]),
    ("Linear(4, 3, False)", "Linear(input_features=4, output_features=3)", "weight"),
    ("LogSoftmax(-1)", "LogSoftmaxExt()", ""), ("PReLU(3, 0.1)", "PReLUExt()", "weight"),
    ("Softmax()", "SoftmaxExt()", ""), ("Softshrink()", "SoftShrink()", ""),
    ("Unfold(2)", "UnfoldExt()", ""), ("Upsample(2)", "UpsampleExt()", ""),
    ("ZeroPad3d(1)", "ZeroPad3d()", ""), ("MSELoss()", "MSELoss()", ""),
)
ERRORS = (
    ("Conv2d(3, 4, 0)", ValueError,
     "For 'Conv2d', 'kernel_size' must be a positive int, but got 0"),
    ("Conv2d(0, 4, 3)", ValueError,
     "For 'Conv2d', 'in_channels' must be a positive int, but got 0"),
    ("Conv2d(3.0, 4, 3)", TypeError, "For 'Conv2d', 'in_channels' must be a positive int, but "
                                     "got 3.0"),
    ("Conv2d(3, 4, 'a')", TypeError,
     "For 'Conv2d', the 'kernel_size' must be an int or a tuple of 2 ints, but got 'a'"),
    ("Conv2d(3, 4, 3, padding='foo')", ValueError,
     "For 'Conv2d', the 'padding' must be 'same', 'valid' or ints, but got 'foo'"),
    ("Conv2d(3, 4, 3, padding_mode='foo')", ValueError,
     "For 'Conv2d', 'padding_mode' must be one of 'zeros', 'reflect', 'replicate', 'circular', "
     "but got 'foo'"),
    ("Conv2d(3, 4, 3, groups=2)", ValueError,
     "'in_channels' and 'out_channels' must be divisible by 'groups', but got 3, 4 and 2"),
    ("Conv2d(3, 4, 3, groups=0)", ValueError,
     "For 'Conv2d', 'groups' must be a positive int, but got 0"),
    ("Conv2d(3, 4, 3, stride=0)", ValueError,
     "For 'Conv2d', 'stride' must be a positive int, but got 0"),
    ("Conv2d(3, 4, (3, 3, 3))", TypeError,
     "For 'Conv2d', the 'kernel_size' must be an int or a tuple of 2 ints, but got (3, 3, 3)"),
    ("Conv2d(3, 4, 3, bias=1)", TypeError, "For 'Conv2d', 'bias' must be a bool, but got 1"),
    ("Conv2d(3, 4, 3, 2, 'same')", ValueError,
     "For 'Conv2d', padding 'same' needs a stride of 1, but got (2, 2)"),
    ("Conv2d(3, 4, 3, dtype=5)", TypeError,
     "'dtype' should be one of [bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64"),
    ("Conv1d(3, 4, (3, 3))", TypeError,
     "For 'Conv1d', the 'kernel_size' must be an int or a tuple of 1 ints, but got (3, 3)"),
    ("ConvTranspose2d(3, 4, 3, padding_mode='reflect')", ValueError,
     "For 'ConvTranspose2d', 'padding_mode' must be 'zeros', but got 'reflect'"),
    ("ConvTranspose2d(3, 4, 3, groups=2)", ValueError,
     "'in_channels' and 'out_channels' must be divisible by 'groups', but got 3, 4 and 2"),
    ("Linear(0, 3)", ValueError,
     "For 'Linear', 'in_features' must be a positive int, but got 0"),
    ("Linear(3.0, 3)", TypeError,
     "For 'Linear', 'in_features' must be a positive int, but got 3.0"),
    ("Linear(3, 3, bias=1)", TypeError, "For 'Linear', 'bias' must be a bool, but got 1"),
    ("BatchNorm2d('a')", TypeError, "For 'BatchNorm2d', 'num_features' must be a positive int, "
                                    "but got 'a'"),
    ("BatchNorm2d(3.5)", TypeError, "For 'BatchNorm2d', 'num_features' must be a positive int, "
                                    "but got 3.5"),
    ("GroupNorm(3, 4)", ValueError,
     "'num_channels' must be divided by 'num_groups', but got 'num_channels': 4, 'num_groups': 3"),
    ("GroupNorm(0, 4)", ValueError,
     "For 'GroupNorm', 'num_groups' must be a positive int, but got 0"),
    ("GroupNorm(2, 4, eps='a')", TypeError,
     "For 'GroupNorm', 'eps' must be a number, but got 'a'"),
    ("GroupNorm(2, 4, affine=1)", TypeError, "For 'GroupNorm', 'affine' must be a bool, but got "
                                             "1"),
    ("LayerNorm('a')", TypeError,
     "'normalized_shape' must be an int, tuple or list of int, but got 'a'"),
    ("Embedding('a', 3)", TypeError, "'num_embeddings' must be an int, but got 'a'"),
    ("Embedding(5, 3, 7)", ValueError, "'padding_idx' must be in [-5, 5), but got 7"),
    ("Embedding(5, 3, padding_idx=1.5)", TypeError, "For 'EmbeddingExt', 'padding_idx' must be "
                                                    "an int, but got 1.5"),
    ("Embedding(5, 3, max_norm='a')", TypeError,
     "'max_norm' must be a number, but got 'a'"),
    ("Embedding(5, 3, sparse=True)", ValueError, "'sparse' must be False: gradients are dense"),
    ("ConstantPad1d((1, 2, 3), 0)", ValueError, "length of 'padding' must be 2, but got 3"),
    ("ConstantPad1d('a', 0)", ValueError, "'padding' must be an int or 2 ints, but got 'a'"),
    ("ReflectionPad2d((1, 2))", ValueError, "length of 'padding' must be 4, but got 2"),
    ("ZeroPad1d(None)", ValueError, "'padding' must be an int or 2 ints, but got None"),
    ("L1Loss('foo')", ValueError,
     "'reduction' must be one of 'mean', 'sum', 'none', but got 'foo'"),
    ("BCELoss(reduction='foo')", ValueError,
     "For 'BCELoss', 'reduction' must be one of 'mean', 'sum', 'none', but got 'foo'"),
    ("BCEWithLogitsLoss(reduction='foo')", ValueError,
     "For 'BCEWithLogitsLoss', 'reduction' must be one of 'mean', 'sum', 'none', but got 'foo'"),
    ("BatchNorm2d(2)(ms.ops.ones((3, 2)))", ValueError, "input must be 4D, but got 2D"),
    ("BatchNorm1d(2)(ms.ops.ones((3, 2, 4, 4)))", ValueError, "input must be 2D or 3D, but got 4D"),
    ("Conv2d(2, 3, 1)(ms.ops.ones((2, 4)))", ValueError,
     "For 'conv2d', 'input' must have 3 or 4 axes, but has shape (2, 4)"),
    ("Conv2d(2, 3, 1, padding=-1)(ms.ops.ones((1, 2, 4, 4)))", ValueError,
     "For 'conv2d', 'padding' must be non-negative, but got (-1, -1)"),
)


def _made(expression: str) -> nn.Cell:
    made: nn.Cell = eval("nn." + expression, {"nn": mint.nn, "ms": ms})
    return made


@pytest.mark.parametrize(("expression", "printed", "names"), LAYERS,
                         ids=[x[0] for x in LAYERS])
def test_printed_form_and_parameters(expression: str, printed: str, names: str) -> None:
    layer = _made(expression)
    assert repr(layer) == printed
    assert [p.name for p in layer.get_parameters()] == names.split()


@pytest.mark.parametrize(("expression", "kind", "text"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(expression: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        _made(expression)
