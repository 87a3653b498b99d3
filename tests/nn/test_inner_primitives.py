"""Primitives that MindSpore's layers keep as attributes, in classes derived from the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

from ..others import mindspore, needs_oracle


class Conv(nn.Conv2d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.bias_add(self.conv2d(x, self.weight * 1), self.bias)


class Conv1(nn.Conv1d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        y = self.conv2d(self.expand_dims(x, 2), self.weight)
        return self.squeeze(self.bias_add(y, self.bias))


class Full(nn.Dense):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        shape = self.shape_op(x)
        y = self.bias_add(self.matmul(self.reshape(x, (-1, shape[-1])), self.weight), self.bias)
        return self.activation(self.reshape(y, (*shape[:-1], -1)))


class Norm(nn.LayerNorm):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.layer_norm(x, self.gamma, self.beta)[0]


class Batch(nn.BatchNorm2d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        norm = self.bn_train if self.training else self.bn_infer
        return norm(x, self.gamma, self.beta, self.moving_mean, self.moving_variance)[0]


class Soft(nn.Softmax):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.softmax(x)


class Pooled(nn.MaxPool2d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.max_pool(x)


class Averaged(nn.AvgPool2d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.avg_pool(x)


class Instance(nn.InstanceNorm2d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        y, *_ = self.instance_bn(x, self.gamma, self.beta, self.moving_mean, self.moving_variance)
        return y


class Edges(nn.ReplicationPad2d):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.padv3(x, self.padding, None)


class Clipped(nn.ClipByNorm):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.clip_by_norm(x, ms.Tensor([1.0]))


class Rolled(nn.Roll):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.roll(x)


class Patches(nn.Unfold):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.extract_image_patches(x)


class Back(nn.Conv2dTranspose):
    def construct(self, x: ms.Tensor) -> ms.Tensor:
        n, _, h, w = x.shape
        return self.conv2d_transpose(x, self.weight, (n, self.out_channels, h, w))


class Looked(nn.Embedding):
    def construct(self, ids: ms.Tensor) -> ms.Tensor:
        flat = self.gather(self.embedding_table, self.reshape_flat(ids, self.shp_flat), 0)
        return self.reshape(flat, (*self.get_shp(ids), self.embedding_size))


def _loss(base: Any) -> Any:
    class Loss(base):  # type: ignore[misc]  # a class that is given
        def construct(self, x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
            return self.reduce_mean(self.mul(self.cast(x, ms.float32) - y, x))

    return Loss


IMAGE = np.random.default_rng(0).normal(size=(2, 3, 6, 6)).astype(np.float32)
CASES: dict[str, tuple[Any, Any, Any]] = {
    "Conv2d": (Conv, lambda c: c(3, 4, 3, has_bias=True), IMAGE),
    "Conv2d, padded": (Conv, lambda c: c(3, 6, 3, 2, pad_mode="pad", padding=1, group=3,
                                         has_bias=True), IMAGE),
    "Conv1d": (Conv1, lambda c: c(3, 4, 3, has_bias=True), IMAGE[..., 0]),
    "Dense": (Full, lambda c: c(6, 4, activation="relu"), IMAGE),
    "LayerNorm": (Norm, lambda c: c((6, 6), 2, 2), IMAGE),
    "BatchNorm2d": (Batch, lambda c: c(3), IMAGE),
    "Softmax": (Soft, lambda c: c(1), IMAGE),
    "MaxPool2d": (Pooled, lambda c: c(2, 2), IMAGE),
    "AvgPool2d": (Averaged, lambda c: c(3, 2, pad_mode="same"), IMAGE),
    "Conv2dTranspose": (Back, lambda c: c(3, 4, 3), IMAGE),
    "ReplicationPad2d": (Edges, lambda c: c((1, 2, 0, 1)), IMAGE),
    "Roll": (Rolled, lambda c: c([1, 2], [0, 2]), IMAGE),
    "Unfold": (Patches, lambda c: c([1, 2, 2, 1], [1, 2, 1, 1], [1, 1, 1, 1]), IMAGE),
    "Embedding": (Looked, lambda c: c(7, 4), np.array([[1, 6], [0, 2]], np.int32)),
}


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize("name", CASES)
def test_a_derived_class_computes_what_its_layer_does(name: str, mode: int) -> None:
    derived, make, x = CASES[name]
    ms.set_context(mode=mode)
    layer, own = make(derived.__base__), make(derived)
    ms.load_param_into_net(own, layer.parameters_dict())
    for training in (False, True):
        expected = layer.set_train(training)(ms.Tensor(x))
        found = own.set_train(training)(ms.Tensor(x))
        assert np.array_equal(found.asnumpy(), expected.asnumpy())
    for mine, theirs in zip(own.get_parameters(), layer.get_parameters(), strict=True):
        assert np.array_equal(mine.asnumpy(), theirs.asnumpy()), mine.name


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_norms_by_primitives(mode: int) -> None:
    """Instances with moving averages, as in training; and what is clipped by a norm."""
    ms.set_context(mode=mode)
    x = ms.Tensor(IMAGE)
    layer, own = nn.InstanceNorm2d(3, momentum=0.3).set_train(), Instance(3, momentum=0.3)
    assert np.array_equal(own(x).asnumpy(), layer(x).asnumpy())
    for mine, theirs in zip(own.get_parameters(), layer.get_parameters(), strict=True):
        assert np.allclose(mine.asnumpy(), theirs.asnumpy(), 1e-6), mine.name
    assert own.moving_mean.asnumpy().any()
    for axis in (None, 1, (1, 2)):
        want = nn.ClipByNorm(axis)(x, ms.Tensor([1.0])).asnumpy()
        assert np.allclose(Clipped(axis)(x).asnumpy(), want, 1e-6) and (want != IMAGE).any()


def test_losses_have_the_primitives_of_their_base() -> None:
    x, y = ms.Tensor([1.0, 2.0]), ms.Tensor([3.0, 5.0])
    for base in (nn.LossBase, nn.MSELoss, nn.CrossEntropyLoss):
        assert float(_loss(base)()(x, y)) == -4.0


def test_they_are_the_layers_own() -> None:
    layer = nn.Conv2d(3, 4, 3)
    assert layer.conv2d is layer.conv2d and "conv2d" not in vars(nn.Conv2d(3, 4, 3))

    class Plain(nn.Cell):
        pass

    with pytest.raises(AttributeError, match="'Plain' object has no attribute 'conv2d'"):
        Plain().conv2d  # noqa: B018


def test_primitives_put_in_the_place_of_a_layers() -> None:
    """One like it is the layer's own; another one would not be called, so that it is refused: but
    where a class has a `construct` of its own it is as any attribute."""
    layer, like = nn.Dense(3, 4), ops.MatMul(transpose_b=True).recompute()
    layer.matmul = like
    assert layer.matmul is like and "matmul" not in vars(layer)
    for other in (ops.MatMul(), ops.ReLU(), nn.ReLU(), lambda x, w: x):
        with pytest.raises(ValueError, match=r"'Dense.matmul', .* was given, .*Prim\[MatMul\]"):
            layer.matmul = other
    assert layer.matmul is like

    class Own(nn.Dense):
        def __init__(self) -> None:
            super().__init__(3, 3)
            self.matmul = ops.MatMul()

        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return self.matmul(x, self.weight)

    own, x = Own(), ops.ones((2, 3))
    assert np.allclose(own(x).asnumpy(), ops.matmul(x, own.weight).asnumpy())

    class Base(Own):
        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return super().construct(x)

    with pytest.raises(ValueError, match=r"'Base\.matmul'"):
        Base()


IMAGES = ops.ones((1, 2, 4, 4)).cumsum(3)


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize(("make", "name", "option", "value"), [
    (lambda: nn.Softmax(), "softmax", "axis", 2),
    (lambda: nn.ELU(), "elu", "alpha", 3.0),
    (lambda: nn.LayerNorm((4,)), "layer_norm", "epsilon", 0.5),
    (lambda: nn.LRN(2), "lrn_op", "beta", 2.0),
], ids=lambda v: v if isinstance(v, str) else "")
def test_a_layer_computes_by_an_option_that_is_set_on_its_primitive(
    make: Any, name: str, option: str, value: Any, mode: int
) -> None:
    ms.set_context(mode=mode)
    layer = make()
    x = IMAGES * -0.25
    first = layer(x)
    setattr(getattr(layer, name), option, value)
    found = layer(x)
    other = make()
    getattr(other, name).add_prim_attr(option, value)
    assert np.array_equal(found.asnumpy(), other(x).asnumpy())
    assert not np.array_equal(found.asnumpy(), first.asnumpy())


def test_an_option_that_a_layer_has_not_is_refused() -> None:
    layer = nn.Dense(3, 4)
    with pytest.raises(ValueError, match=r"For 'Dense.matmul', 'transpose_b' was set to False"):
        layer.matmul.transpose_b = False
    assert layer.matmul.transpose_b is True
    layer.matmul.transpose_b = True
    layer.matmul.add_prim_attr("fusion", 2)

    class Own(nn.Dense):
        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return self.matmul(x, self.weight)

    own, x = Own(3, 3), ops.ones((2, 3)).cumsum(0)
    own(x)
    own.matmul.transpose_b = False
    assert np.allclose(own(x).asnumpy(), ops.matmul(x, own.weight).asnumpy())


@pytest.mark.parametrize("edit", [
    lambda p: setattr(p, "axis", 0), lambda p: p.attrs.update(axis=0),
    lambda p: p.attrs.__setitem__("axis", 0), lambda p: setattr(p, "attrs", {"axis": 0}),
    lambda p: vars(p).update(attrs={"axis": 0}), lambda p: p.add_prim_attr("axis", 0),
], ids=("attribute", "update", "item", "attrs", "vars", "add_prim_attr"))
def test_a_compiled_network_sees_options_of_its_primitives_change(edit: Any) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.softmax = ops.Softmax(1)

        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return self.softmax(x)

    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = Net(), ops.ones((2, 3)).cumsum(0)
    assert np.array_equal(net(x).asnumpy(), ops.softmax(x, 1).asnumpy())
    edit(net.softmax)
    assert np.array_equal(net(x).asnumpy(), ops.softmax(x, 0).asnumpy())
    assert np.array_equal(net(x).asnumpy(), ops.softmax(x, 0).asnumpy())


def test_a_compiled_network_sees_options_of_a_transformation_change() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.grad = ops.GradOperation()

        def construct(self, x: ms.Tensor, y: ms.Tensor) -> Any:
            return self.grad(ops.mul)(x, y)

    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = Net(), ops.ones((2,))
    assert isinstance(net(x, x), ms.Tensor)
    net.grad.get_all = True
    assert len(net(x, x)) == 2
    assert isinstance(net(x, x), tuple)


THEIRS = """
import json, mindspore as ms
from mindspore import nn
found = {}
for name, make in json.load(open(0)).items():
    layer = eval(make)
    found[name] = sorted(k for k, v in vars(layer).items() if isinstance(v, ms.ops.Primitive))
print(json.dumps(found))
"""
LAYERS = {
    "Conv1d": "nn.Conv1d(3, 4, 3)", "Conv2d": "nn.Conv2d(3, 4, 3)", "Dense": "nn.Dense(3, 4)",
    "Conv1dTranspose": "nn.Conv1dTranspose(3, 4, 3)", "LayerNorm": "nn.LayerNorm((3,))",
    "Conv2dTranspose": "nn.Conv2dTranspose(3, 4, 3)", "BatchNorm2d": "nn.BatchNorm2d(3)",
    "Softmax": "nn.Softmax()", "ReLU": "nn.ReLU()", "MaxPool2d": "nn.MaxPool2d(2)",
    "AvgPool2d": "nn.AvgPool2d(2)", "Embedding": "nn.Embedding(3, 4)", "Dropout": "nn.Dropout()",
    "MSELoss": "nn.MSELoss()", "PReLU": "nn.PReLU()", "BiDense": "nn.BiDense(3, 4, 5)",
    "Norm": "nn.Norm()", "Moments": "nn.Moments()", "OneHot": "nn.OneHot(depth=3)",
    "SoftmaxCrossEntropyWithLogits": "nn.SoftmaxCrossEntropyWithLogits()",
    "CosineDecayLR": "nn.CosineDecayLR(0.1, 0.2, 3)", "WarmUpLR": "nn.WarmUpLR(0.1, 3)",
    "InstanceNorm2d": "nn.InstanceNorm2d(3)", "ReplicationPad2d": "nn.ReplicationPad2d(1)",
    "Roll": "nn.Roll(1, 0)", "Conv3d": "nn.Conv3d(2, 4, 3, group=2)",
    "ClipByNorm": "nn.ClipByNorm()", "CentralCrop": "nn.CentralCrop(0.5)",
    "Unfold": "nn.Unfold([1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1])",
    "SampledSoftmaxLoss": "nn.SampledSoftmaxLoss(2, 4)", "SparseToDense": "nn.SparseToDense()",
    "ReduceLogSumExp": "nn.ReduceLogSumExp(0)", "Pad": "nn.Pad(((1, 1), (1, 1)))",
}


@needs_oracle
def test_layers_have_what_mindspores_have() -> None:
    absent = {(name, attribute) for name, names in mindspore(THEIRS, given=LAYERS).items()
              for attribute in names if not hasattr(eval(LAYERS[name]), attribute)}
    assert absent == set()
