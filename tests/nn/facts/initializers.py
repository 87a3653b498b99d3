"""Facts about initializers: exact ones, arguments, errors, what layers use."""

from __future__ import annotations

import inspect

import numpy as np

from .target import Parameter, Tensor, attempt, ms, nn

init = ms.common.initializer
initializer = init.initializer


def _made(what, shape, dtype=None):
    t = initializer(what, shape, dtype or ms.float32)
    return t.init_data()


def exact():
    return {
        "zero": _made(init.Zero(), [2, 3]), "one": _made(init.One(), [2]),
        "constant": _made(init.Constant(2.5), [2, 2]), "int": _made(init.Constant(3),
        [2], ms.int32),
        "number": _made(7, [2]), "float": _made(0.5, [2]),
        "identity": _made(init.Identity(), [3, 3]), "identity wide": _made(init.Identity(), [2, 4]),
        "identity high": _made("identity", [4, 2]),
        "dirac 3": _made(init.Dirac(), [2, 3, 3]), "dirac 4": _made(init.Dirac(groups=2),
        [4, 2, 3, 3]),
        "dirac 5": _made(init.Dirac(), [2, 2, 3, 3, 3]), "dirac even": _made("dirac", [2, 2, 2, 4]),
        "bool": attempt(_made, True, [2]),
    }


def aliases():
    out = {}
    for name in ("zeros", "zero", "ones", "one", "normal", "uniform", "TruncatedNormal",
                 "truncatednormal", "truncated_normal", "xavier_uniform", "XavierUniform",
                 "xavieruniform", "xavier_normal", "XavierNormal", "he_uniform", "HeUniform",
                 "he_normal", "HeNormal", "identity", "dirac", "orthogonal", "sparse", "Constant",
                 "constant", "variance_scaling", "VarianceScaling", "variancescaling",
                 "bilinear", "BilinearFiller", "bilinearfiller", "ZEROS", "Normal", " zeros",
                 "nonsense", "", "he-normal"):
        found = attempt(initializer, name, [4, 4])
        out[name] = found if isinstance(found, str) else type(found.init).__name__
    return out


def signatures():
    out = {}
    for name in ("Zero", "One", "Constant", "Normal", "TruncatedNormal", "Uniform", "HeNormal",
                 "HeUniform", "XavierNormal", "XavierUniform", "Orthogonal", "Sparse", "Dirac",
                 "VarianceScaling", "Identity", "initializer"):
        parameters = inspect.signature(getattr(init, name)).parameters.values()
        out[name] = [(p.name, None if p.default is inspect.Parameter.empty else str(p.default))
                     for p in parameters if p.kind.name == "POSITIONAL_OR_KEYWORD"]
    return out


def attributes():
    made = {"Constant": init.Constant(2), "Normal": init.Normal(0.1, 2.0),
            "TruncatedNormal": init.TruncatedNormal(1.0, 2.0, 3.0, 4.0),
            "Uniform": init.Uniform(0.3), "HeNormal": init.HeNormal(0.2, "fan_out", "relu"),
            "HeUniform": init.HeUniform(0.2), "XavierNormal": init.XavierNormal(2.0),
            "XavierUniform": init.XavierUniform(3.0), "Orthogonal": init.Orthogonal(2.0),
            "Sparse": init.Sparse(0.2, 0.3), "Dirac": init.Dirac(2),
            "VarianceScaling": init.VarianceScaling(2.0, "fan_avg", "uniform")}
    names = ("value", "sigma", "mean", "a", "b", "scale", "negative_slope", "mode", "nonlinearity",
             "gain", "sparsity", "groups", "distribution")
    return {k: [(n, getattr(v, n)) for n in names if hasattr(v, n)] for k, v in made.items()}


def errors_of_arguments():
    return {
        "scaling scale": attempt(init.VarianceScaling, 0.0),
        "scaling mode": attempt(init.VarianceScaling, 1.0, "fan"),
        "scaling distribution": attempt(init.VarianceScaling, 1.0, "fan_in", "x"),
        "he mode": attempt(_made, init.HeNormal(mode="x"), [4, 4]),
        "he mode case": attempt(lambda: _made(init.HeUniform(mode="FAN_IN"), [4, 4]).shape),
        "he nonlinearity": attempt(_made, init.HeNormal(nonlinearity="x"), [4, 4]),
        "he tanh": attempt(lambda: _made(init.HeNormal(nonlinearity="tanh"), [4, 4]).shape),
        "he slope": attempt(_made, init.HeNormal(negative_slope="a"), [4, 4]),
        "he 1d": attempt(_made, "he_normal", [4]), "xavier 1d": attempt(_made,
        "xavier_uniform", [4]),
        "xavier normal 1d": attempt(_made, "xavier_normal", [4]),
        "identity 1d": attempt(_made, "identity", [4]),
        "identity 3d": attempt(_made, "identity", [4, 4, 4]),
        "orthogonal 1d": attempt(_made, "orthogonal", [4]),
        "sparse 3d": attempt(_made, init.Sparse(0.1), [4, 4, 4]),
        "sparse none": attempt(init.Sparse), "sparse alias": attempt(_made, "sparse", [4, 4]),
        "dirac 2d": attempt(_made, "dirac", [4, 4]),
        "dirac groups": attempt(_made, init.Dirac(3), [4, 4, 3]),
        "constant text": attempt(_made, init.Constant("a"), [2]),
        "constant list": attempt(_made, init.Constant([1, 2]), [2]),
        "constant array": attempt(_made, init.Constant(np.array([1, 2])), [2]),
        "constant tensor": attempt(_made, init.Constant(Tensor(3.0)), [2]),
        "scaling 1d": attempt(_made, init.VarianceScaling(), [4]),
        "no class": attempt(init.Initializer),
        "base": attempt(lambda: _made(init.Initializer(), [2])),
    }


def errors_of_shapes():
    return {
        "zero": attempt(initializer, "zeros", [0]), "negative": attempt(initializer, "zeros", [-1]),
        "float": attempt(initializer, "zeros", [2.0]), "text": attempt(initializer, "zeros", "a"),
        "int": initializer("zeros", 3).shape,
        "tuple": initializer("zeros", (2, 3)).shape, "empty": attempt(initializer, "zeros", []),
        "init none": attempt(initializer, None, [2]),
        "init list": attempt(initializer, [1], [2]),
        "init class": attempt(initializer, init.Zero, [2]),
        "tensor": attempt(initializer, Tensor([1.0, 2.0]), [2]),
        "tensor shape": attempt(initializer, Tensor([1.0, 2.0]), [3]),
        "tensor no shape": attempt(initializer, Tensor([1.0, 2.0])),
        "dtype": initializer("zeros", [2], ms.float16).dtype,
        "dtype none": attempt(lambda: initializer("zeros", [2], None).dtype),
        "dtype text": attempt(initializer, "zeros", [2], "float32"),
        "dtype int": attempt(lambda: _made("ones", [2], ms.int32)),
        "dtype bf16": attempt(lambda: _made("ones", [2], ms.bfloat16)),
        "dtype float64": attempt(lambda: _made("ones", [2], ms.float64)),
        "scalar": attempt(lambda: _made("ones", ())),
    }


def pending():
    t = initializer("ones", [2, 3])
    out = [t.has_init, t.shape, t.dtype, str(t.init), type(t).__name__]
    u = t.init_data()
    return [str(x) if i == 3 else x for i, x in enumerate(out)][:3] + [
        u, u.has_init, t.has_init, type(u).__name__]


class Twos(init.Initializer):
    def __init__(self, more=0):
        super().__init__(more=more)
        self.more = more

    def _initialize(self, arr):
        arr[...] = 2 + self.more


def own_initializers():
    return [_made(Twos(), [2]), _made(Twos(3), [2]),
            nn.Dense(2, 2, weight_init=Twos(), bias_init=Twos(1)).weight,
            attempt(_made, "twos", [2])]


def _source(parameter):
    return [list(parameter.shape), str(parameter.dtype), parameter.requires_grad]


def parameters_of_layers():
    made = {
        "dense": nn.Dense(3, 4), "conv2d": nn.Conv2d(3, 4, 3, has_bias=True),
        "conv1d": nn.Conv1d(3, 4, 3, has_bias=True), "conv3d": nn.Conv3d(3, 4, 3, has_bias=True),
        "transpose": nn.Conv2dTranspose(3, 4, 3, has_bias=True),
        "embedding": nn.Embedding(5, 3), "norm": nn.BatchNorm2d(3), "layer": nn.LayerNorm([3]),
        "group": nn.GroupNorm(1, 3), "prelu": nn.PReLU(), "instance": nn.InstanceNorm2d(3),
        "lstm": nn.LSTM(2, 3), "gru": nn.GRUCell(2, 3), "bidense": nn.BiDense(2, 3, 4),
    }
    return {k: [(p.name, *_source(p)) for p in v.get_parameters()] for k, v in made.items()}


def constants_of_layers():
    made = {"batch": nn.BatchNorm1d(2), "layer": nn.LayerNorm([2]), "group": nn.GroupNorm(1, 2),
            "prelu": nn.PReLU(2), "instance": nn.InstanceNorm1d(2)}
    return {k: [(p.name, p.asnumpy().tolist()) for p in v.get_parameters()]
            for k, v in made.items()}


def layers_with_named_initializers():
    d = nn.Dense(2, 3, weight_init="ones", bias_init=0.5)
    return [d.weight, d.bias, nn.Conv2d(1, 1, 2, weight_init=2, has_bias=True,
            bias_init="ones").bias,
            attempt(nn.Dense, 2, 3, "nonsense"), nn.Dense(2, 1, Tensor([[3.0, 4.0]])).weight,
            attempt(nn.Dense, 2, 3, Tensor([[3.0, 4.0]])),
            nn.Dense(2, 1, weight_init=init.One()).weight,
            nn.Embedding(2, 2, embedding_table="zeros").embedding_table,
            Parameter(initializer(init.Zero(), [1]), name="p")]
