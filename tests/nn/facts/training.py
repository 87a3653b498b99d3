"""Facts about rates, clipping, training cells and Model: values and kinds of errors."""

from __future__ import annotations

import numpy as np

from .target import attempt, ms

nn, ops = ms.nn, ms.ops


def _numbers(x):
    """Tensors as rounded lists."""
    if isinstance(x, (tuple, list)):
        return [_numbers(v) for v in x]
    if isinstance(x, dict):
        return {k: _numbers(v) for k, v in x.items()}
    if hasattr(x, "asnumpy"):
        array = x.asnumpy()
        if array.dtype.kind == "b":
            return array.tolist()
        return [str(x.dtype), np.round(array.astype(np.float64), 4).tolist()]
    return round(x, 6) if isinstance(x, float) else x


def _t(*values, kind=np.float32):
    return ms.Tensor(np.array(values, kind))


def _asked(fn, *args, **kwargs):
    return attempt(lambda: _numbers(fn(*args, **kwargs)))


# --- rates --------------------------------------------------------------------------------------

LISTS = {
    "piecewise_constant_lr": ([2, 4], [0.1, 0.2]), "exponential_decay_lr": (0.1, 0.9, 6, 2, 2),
    "natural_exp_decay_lr": (0.1, 0.9, 6, 2, 2), "inverse_decay_lr": (0.1, 0.9, 6, 2, 2),
    "cosine_decay_lr": (0.01, 0.1, 6, 2, 2), "polynomial_decay_lr": (0.1, 0.01, 6, 2, 2, 0.5),
    "warmup_lr": (0.1, 6, 2, 2),
}
SCHEDULES = {
    "ExponentialDecayLR": (0.1, 0.9, 4), "NaturalExpDecayLR": (0.1, 0.9, 4),
    "InverseDecayLR": (0.1, 0.9, 4), "CosineDecayLR": (0.01, 0.1, 4),
    "PolynomialDecayLR": (0.1, 0.01, 4, 0.5), "WarmUpLR": (0.1, 4),
}
ODD = (0, 1, -1, 0.0, -0.1, 2.5, True, "a", None, [1], (1, 2), [0.1, -0.1], [1, 1], [2, "a"])


def _each_argument(name, good, odd):
    maker = getattr(nn, name)
    out = [_asked(lambda: [maker(*good)] if isinstance(maker(*good), list) else "cell")]
    for i in range(len(good)):
        for value in odd:
            args = (*good[:i], value, *good[i + 1:])
            out.append([i, repr(value), attempt(lambda a=args: _shown(maker(*a)))])
    return out


def _shown(rates):
    return _numbers(rates) if isinstance(rates, list) else repr(rates)


def piecewise_constant():
    return _each_argument("piecewise_constant_lr", LISTS["piecewise_constant_lr"],
                          [v for v in ODD if v != [0.1, -0.1]])


def exponential_decay():
    return _each_argument("exponential_decay_lr", LISTS["exponential_decay_lr"], ODD)


def natural_exp_decay():
    return _each_argument("natural_exp_decay_lr", LISTS["natural_exp_decay_lr"], ODD)


def inverse_decay():
    return _each_argument("inverse_decay_lr", LISTS["inverse_decay_lr"], ODD)


def cosine_decay():
    return _each_argument("cosine_decay_lr", LISTS["cosine_decay_lr"], ODD)


def polynomial_decay():
    return _each_argument("polynomial_decay_lr", LISTS["polynomial_decay_lr"], ODD)


def warmup():
    return _each_argument("warmup_lr", LISTS["warmup_lr"], ODD)


def schedules():
    return {name: _each_argument(name, good, ODD) for name, good in SCHEDULES.items()}


def schedules_at_steps():
    return {name: [_numbers(getattr(nn, name)(*good)(ms.Tensor(i, ms.int32)))
                   for i in (0, 1, 3, 4, 9)] for name, good in SCHEDULES.items()}


# --- clipping -----------------------------------------------------------------------------------


def clip_by_value():
    x = _t(-2, -0.5, 0.5, 3)
    return [_asked(ops.clip_by_value, x, -1, 1), _asked(ops.clip_by_value, x, _t(0), _t(1)),
            _asked(ops.clip_by_value, x, None, 1.0), _asked(ops.clip_by_value, x, -1.0),
            _asked(ops.clip_by_value, x), _asked(ops.clip_by_value, [x, x], -1, 1),
            _asked(ops.clip_by_value, (x, x), -1, 1), _asked(ops.clip_by_value, x, 2, 1),
            _asked(ops.clip_by_value, _t(1, 5, kind=np.int32), 2, 3),
            _asked(ops.clip_by_value, _t(1, 5, kind=np.float16), 2, 3),
            _asked(ops.clip_by_value, 3, 1, 2)]


def clip_by_norm():
    x, y = _t(3, 4), _t(-1, 2)
    return [_asked(ops.clip_by_norm, x, 1.0), _asked(ops.clip_by_norm, x, 10.0),
            _asked(ops.clip_by_norm, [x, y], 1.0), _asked(ops.clip_by_norm, (x, y), 1.0),
            _asked(ops.clip_by_norm, x, 1.0, 1.0), _asked(ops.clip_by_norm, x, 1.0, 2.0, True),
            _asked(ops.clip_by_norm, x, 1), _asked(ops.clip_by_norm, x, 1.0, 3.0),
            _asked(ops.clip_by_norm, _t(0, 0), 1.0),
            _asked(ops.clip_by_norm, _t(np.nan, 4), 1.0, 2.0, True),
            _asked(ops.clip_by_norm, x, "a")]


def clip_by_global_norm():
    x, y = _t(3, 4), _t(-1, 2)
    return [_asked(ops.clip_by_global_norm, (x, y)), _asked(ops.clip_by_global_norm, (x, y), 10.0),
            _asked(ops.clip_by_global_norm, [x, y], 1.0),
            _asked(ops.clip_by_global_norm, (x, y), 1.0, True),
            _asked(ops.clip_by_global_norm, (_t(3, 4, kind=np.float16), y), 1.0),
            _asked(ops.clip_by_global_norm, (_t(0, 0),), 1.0),
            _asked(ops.clip_by_global_norm, (x, y), 0.0),
            _asked(ops.clip_by_global_norm, (x, y), -1.0),
            _asked(ops.clip_by_global_norm, (x, y), "a"),
            _asked(ops.clip_by_global_norm, (x, y), 1)]


# --- training cells -----------------------------------------------------------------------------


def _net():
    return nn.Dense(2, 1, weight_init="ones", bias_init="zeros")


X, Y = _t([1, 2], [3, 4]), _t([1], [2])


def one_step():
    out = []
    for options in ({}, {"sens": 2.0}, {"sens": 3}, {"return_grad": True}, {"sens": "a"}):
        def run(options=options):
            net = _net()
            step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                                       nn.SGD(net.trainable_params(), 0.1), **options)
            step.set_train()
            loss = step(X, Y)
            return [_numbers(loss), _numbers(net.weight), sorted(step.parameters_dict()),
                    step.training, net.training]
        out.append(attempt(run))
    return out


def with_loss():
    cell = nn.WithLossCell(_net(), nn.MSELoss())
    plain = nn.WithEvalCell(_net(), nn.MSELoss())
    cast = nn.WithEvalCell(_net(), nn.MSELoss(), True)
    return [_numbers(cell(X, Y)), _numbers(plain(X, Y)), _numbers(cast(X, Y)),
            type(cell.backbone_network).__name__, repr(nn.WithLossCell(nn.ReLU(), nn.MSELoss())),
            _asked(nn.WithEvalCell, _net(), nn.MSELoss(), 1), sorted(cell.parameters_dict())]


def forward_value_and_grad():
    out = []
    for options in ({}, {"get_all": True}, {"get_by_list": True},
                    {"get_all": True, "get_by_list": True}, {"sens_param": True}, {"get_all": 1},
                    {"get_by_list": 1}, {"sens_param": 1}):
        def run(options=options):
            net = _net()
            cell = nn.ForwardValueAndGrad(net, net.trainable_params(), **options)
            args = (X, _t([1], [2])) if options.get("sens_param") else (X,)
            return _numbers(cell(*args))
        out.append(attempt(run))
    return out


def managers():
    fixed, dynamic = ms.FixedLossScaleManager(8.0, False), ms.DynamicLossScaleManager(8, 2, 2)
    out = [fixed.get_loss_scale(), fixed.get_drop_overflow_update(),
           fixed.get_update_cell() is None, dynamic.get_loss_scale(),
           type(dynamic.get_update_cell()).__name__]
    for overflow in (False, False, True, True, True, True, True):
        dynamic.update_loss_scale(overflow)
        out.append(dynamic.get_loss_scale())
    for make in (lambda: ms.FixedLossScaleManager(0.0), lambda: ms.FixedLossScaleManager(8, 1),
                 lambda: ms.DynamicLossScaleManager(0), lambda: ms.DynamicLossScaleManager(8, "a"),
                 lambda: ms.DynamicLossScaleManager(8, 2, 0),
                 lambda: ms.DynamicLossScaleManager(0.5, 2, 2),
                 lambda: ms.DynamicLossScaleManager(8, 1, 2)):
        out.append(attempt(lambda make=make: type(make()).__name__))
    return out


# --- Model --------------------------------------------------------------------------------------


def model_arguments():
    def made(*args, **kwargs):
        return attempt(lambda: type(ms.train.Model(*args, **kwargs)).__name__)

    loss = nn.MSELoss()

    def sgd(net):
        return nn.SGD(net.trainable_params())

    net = _net()
    return [
        made(net), made(1), made(None), made(net, loss), made(net, loss, 1),
        made(net, loss, sgd(net), metrics={"acc"}), made(net, loss, sgd(net), metrics={"foo"}),
        made(net, loss, sgd(net), metrics="acc"), made(net, loss, sgd(net), metrics=["acc"]),
        made(net, loss, sgd(net), metrics={"a": ms.train.MAE()}),
        made(net, loss, sgd(net), metrics={"a": 1}), made(net, metrics={"acc"}),
        made(net, loss, sgd(net), amp_level="O7"),
        made(net, loss, sgd(net), boost_level="O7"), made(net, loss, sgd(net), foo=1),
        made(net, loss, sgd(net), loss_scale_manager=1),
        made(net, loss, sgd(net), loss_scale_manager=None),
        made(net, loss, sgd(net), keep_batchnorm_fp32=1),
        made(net, loss, sgd(net), eval_network=_net(), eval_indexes=[0, 1, 2], metrics={"acc"}),
    ]


def model_networks():
    net = _net()
    model = ms.train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params()), metrics={"mae"})
    plain = ms.train.Model(net)
    return [type(model.train_network).__name__, type(model.eval_network).__name__,
            model.predict_network is net, type(plain.train_network).__name__,
            plain.eval_network is None, _numbers(model.predict(X)),
            attempt(lambda: model.infer_train_layout(1)),
            attempt(lambda: model.infer_predict_layout(1))]
