"""`cellc.boost`: groups of Parameters, frozen layers, normalised heads, and what chooses them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, boost, nn
from cellc.lang import register_source
from cellc.train import Model

from ..others import mindspore

PROGRAM = '''
import json
import numpy as np
import {module} as ms
from {module} import Parameter, Tensor, boost, nn, ops
from {module}.boost.grad_freeze import FreezeOpt, freeze_cell
from {module}.boost.less_batch_normalization import CommonHeadLastFN

class Layers(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1, group=2, weight_init="ones")
        self.bn = nn.BatchNorm2d(2)
        self.flatten = nn.Flatten()
        self.a = nn.Dense(8, 8, weight_init="ones", bias_init="zeros")
        self.b = nn.Dense(8, 8, weight_init="ones", bias_init="zeros")
        self.c = nn.Dense(8, 4, weight_init="ones", bias_init="zeros")

    def construct(self, x):
        x = self.flatten(self.bn(self.conv(x)))
        return self.c(self.b(self.a(x) / 8) / 8) / 8

ms.set_context(mode={mode})
x = Tensor(np.arange(32, dtype=np.float32).reshape(4, 2, 2, 2) / 10)
y = Tensor(np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4))
found = []

def described(groups):
    return [{{k: [p.name for p in v] if isinstance(v, (list, tuple)) else v for k, v in g.items()}}
            for g in groups]

net = Layers()
params = net.trainable_params()
groups = [{{"params": params[:3], "weight_decay": 0.1}}, {{"params": params[3:]}},
          {{"order_params": params}}]
process = boost.OptimizerProcess(nn.Momentum(groups, 0.1, 0.9))
process.add_grad_centralization(net)
found += [described(process.origin_params),
          list(process.generate_new_optimizer().grad_centralization_flags)]
made = boost.ParameterProcess.generate_group_params(params[1:6], groups[:1])
found.append(described(made))
boost.ParameterProcess().assign_parameter_group(params, [2, 4])
found.append([p.comm_fusion for p in params])

np.random.seed(3)
freeze = boost.GradientFreeze(2, 0, 0.5, 20)
found += [freeze.generate_freeze_index_sequence(*a) for a in (
    (4, 1, 0.5, 20), (4, 0, 0.5, 20), (1, 0, 0.5, 20), (5, 0, 0.7, 12), (3, 1, 0.3, 30))]
found.append([[p.name for p in g] for g in freeze.split_parameters_groups(net, 2)])
loss = nn.WithLossCell(net, nn.MSELoss())
loss, optimizer = freeze.freeze_generate(loss, nn.Momentum(params, 0.01, 0.9))
found.append([len(o.parameters) for o in optimizer.opts])
step = boost.BoostTrainOneStepCell(loss, optimizer, sens=2.0)
found.append([float(step(x, y).asnumpy()) for _ in range(6)])
one = FreezeOpt(nn.Momentum(net.trainable_params(), 0.1, 0.9))
grad = ops.GradOperation(get_by_list=True, sens_param=True)
steps = freeze_cell(False, net if False else loss, one, 1.0, grad, False, None, None, 1)
found.append([float(s(x, y).asnumpy()) for s in steps])
head = CommonHeadLastFN(8, 3, weight_init="ones", bias_init="ones")
found.append(head(Tensor(np.arange(16, dtype=np.float32).reshape(2, 8))).asnumpy().tolist())
boost.LessBN(net, fn_flag=True)
found += [[p.name for p in net.trainable_params()], type(net.c).__name__]
'''


@pytest.fixture(autouse=True)
def mode_as_it_was() -> Iterator[None]:
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


def _run(mode: int) -> Any:
    text = PROGRAM.format(module="cellc", mode=mode)
    register_source("<boosted>", text)
    space: dict[str, Any] = {}
    exec(compile(text, "<boosted>", "exec"), space)
    return space["found"]


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[k], b[k]) for k in a)
    return bool(a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-5))


def test_everything_is_as_in_mindspore(tmp_path: Path) -> None:
    program = tmp_path / "boosted.py"
    program.write_text(PROGRAM.format(module="mindspore", mode=0) + "print(json.dumps(found))",
                       encoding="utf-8")
    assert _close(_run(ms.GRAPH_MODE), mindspore(program))


def test_both_modes_do_the_same() -> None:
    assert _run(ms.GRAPH_MODE) == _run(ms.PYNATIVE_MODE)


class Data:
    """Two batches."""

    def __iter__(self) -> Iterator[Any]:
        x = np.arange(8, dtype=np.float32).reshape(2, 4) / 4
        yield from [(Tensor(x), Tensor(x * 0)), (Tensor(x + 1), Tensor(x * 0 + 1))]


def _model(**options: Any) -> tuple[nn.Cell, Model]:
    net = nn.SequentialCell(nn.Dense(4, 4, weight_init="ones"), nn.Dense(4, 4, weight_init="ones"))
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    return net, Model(net, nn.MSELoss(), optimizer, **options)


def test_a_frozen_group_stays_as_it_is() -> None:
    layers = [nn.Dense(4, 4, weight_init="ones", bias_init="zeros") for _ in range(4)]
    net = nn.SequentialCell(*layers)
    freeze = boost.GradientFreeze(2, 0, 0.5, 4)
    loss, optimizer = freeze.freeze_generate(
        nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.001))
    step = boost.BoostTrainOneStepCell(loss, optimizer)
    x = Tensor(np.ones((2, 4), np.float32))
    weights = [[layer.weight.asnumpy().copy() for layer in layers]]
    for _ in range(2):
        step(x, x)
        weights.append([layer.weight.asnumpy().copy() for layer in layers])
    trained = [[not np.array_equal(a, b) for a, b in zip(w, v, strict=True)]
               for w, v in pairwise(weights)]
    assert optimizer.train_strategy.asnumpy().tolist()[:2] == [0, 1]
    assert trained == [[True, True, True, True], [False, False, True, True]]


def test_gradients_are_added_up() -> None:
    net = nn.Dense(4, 1, weight_init="ones")
    ways = {"boost": {"mode": "manual", "grad_accumulation": True},
            "grad_accumulation": {"grad_accumulation_step": 2}}
    chosen = boost.AutoBoost("O0", ways)
    step = boost.BoostTrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1), 1.0, chosen)
    x = Tensor(np.ones((2, 4), np.float32))
    losses = [float(step(x, x[:, :1]).asnumpy()) for _ in range(3)]
    assert losses[0] == losses[1] > losses[2]


def test_a_model_is_boosted() -> None:
    ways = {"boost": {"mode": "manual", "grad_freeze": False}, "less_bn": {"fn_flag": True}}
    net, model = _model(boost_level="O1", boost_config_dict=ways)
    assert isinstance(model.train_network, boost.BoostTrainOneStepCell)
    assert type(net[1]).__name__ == "CommonHeadLastFN"
    before = net[0].weight.asnumpy().copy()
    model.train_network(*next(iter(Data())))
    assert not np.array_equal(before, net[0].weight.asnumpy().copy())
    _, model = _model(boost_level="O1")
    assert isinstance(model.train_network.optimizer, boost.FreezeOpt)
    _, model = _model(boost_config_dict={"boost": {"mode": "disable_all"}}, boost_level="O2")
    assert not isinstance(model.train_network, boost.BoostTrainOneStepCell)


def test_what_is_for_clusters_says_so() -> None:
    for name in ("AdaSum", "DimReduce", "GroupLossScaleManager",
                 "BoostTrainOneStepWithLossScaleCell"):
        with pytest.raises(RuntimeError, match=f"boost.{name} .* clusters of Ascend"):
            getattr(boost, name)(1)
    with pytest.raises(RuntimeError, match="adasum is for clusters"):
        _model(boost_level="O2")
    with pytest.raises(ValueError, match="boost mode must be in"):
        boost.AutoBoost("O1", {"boost": {"mode": "some"}})
    with pytest.raises(ValueError, match="amp_level 'O0'"):
        _model(boost_level="O1", amp_level="O2")
    with pytest.raises(RuntimeError, match="one device"):
        boost.freeze_cell(True, None, None, 1.0, None, False)
    with pytest.raises(ValueError, match="must be 0 or 1"):
        boost.GradientFreeze(2, 7, 0.5, 4).generate_freeze_index_sequence(2, 7, 0.5, 4)
    sgd = nn.SGD(nn.Dense(2, 2).trainable_params(), 0.1)
    for groups, strategy, error, text in (
            (None, [0], ValueError, "must also be specified"), (3, None, TypeError, "tuple"),
            ([[]], [0.5], ValueError, "int number"),
            ([], Tensor([0.5]), ValueError, "dtype should be int32")):
        with pytest.raises(error, match=text):
            boost.FreezeOpt(sgd, groups, strategy)
