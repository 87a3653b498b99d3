"""`mint.optim`: the documented formulas in float64, both modes, groups, schedulers, errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, mint, nn, ops
from cellc.experimental.optim import lr_scheduler

STEPS = 5
START = (np.array([1.0, -2.0, 3.0], np.float32), np.array([[0.5, 0.25]], np.float32))
GRADIENTS = [
    (np.array([0.1 * (k + 1) * (-1) ** k, 0.5, -0.3 / (k + 1)], np.float32),
     np.array([[0.7 - 0.4 * k, 0.2]], np.float32)) for k in range(STEPS)
]


def adam(p: Any, gradients: list[Any], *, decoupled: bool, lr: float = 1e-3,
         betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
         amsgrad: bool = False, maximize: bool = False) -> Any:
    """The formulas of Adam's and AdamW's documentation."""
    m = v = largest = np.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        g = -g if maximize else g
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        over = v / (1 - betas[1] ** t)
        largest = np.maximum(largest, over)
        p = p - lr * m / (1 - betas[0] ** t) / (np.sqrt(largest if amsgrad else over) + eps)
    return p


def sgd(p: Any, gradients: list[Any], *, lr: float, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, maximize: bool = False) -> Any:
    """The formulas of SGD's documentation."""
    held = None
    for g in gradients:
        g = (-g if maximize else g) + weight_decay * p
        held = g if held is None else momentum * held + (1 - dampening) * g
        p = p - lr * (g + momentum * held if nesterov else held if momentum else g)
    return p


OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Adam", {}), ("Adam", {"lr": 0.1}), ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.1, "maximize": True, "weight_decay": 0.2}),
    ("AdamW", {"lr": 0.1}), ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "maximize": True}),
    ("AdamW", {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3, "amsgrad": True}),
    ("FusedAdamW", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "maximize": True}),
)


def _parameters() -> list[Parameter]:
    return [Parameter(Tensor(v.copy()), name=f"p{i}") for i, v in enumerate(START)]


def _trained(kind: str, options: dict[str, Any], mode: int) -> list[Any]:
    ms.set_context(mode=mode)
    try:
        params = _parameters()
        optimizer = getattr(mint.optim, kind)(params, **options)
        for gradients in GRADIENTS:
            assert optimizer(tuple(Tensor(g) for g in gradients)) is True
        return [p.asnumpy().copy() for p in optimizer.get_parameters()]
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=[f"{k}-{o}" for k, o in OPTIONS])
def test_documented_formula_in_both_modes(kind: str, options: dict[str, Any]) -> None:
    eager = _trained(kind, options, ms.PYNATIVE_MODE)
    graph = _trained(kind, options, ms.GRAPH_MODE)
    assert [v.tobytes() for v in eager] == [v.tobytes() for v in graph]
    given = dict(options)
    if kind in ("AdamW", "FusedAdamW"):
        given.setdefault("weight_decay", 1e-2)
    for i, start in enumerate(START):
        gradients = [g[i].astype(np.float64) for g in GRADIENTS]
        p = start.astype(np.float64)
        want = sgd(p, gradients, **given) if kind == "SGD" else \
            adam(p, gradients, decoupled=kind != "Adam", **given)
        np.testing.assert_allclose(eager[i], want, rtol=2e-5, atol=2e-6)


def test_groups_have_their_own_options() -> None:
    p, q = _parameters()
    optimizer = mint.optim.SGD([{"params": [p], "lr": 0.2}, {"params": [q], "weight_decay": 0.3}],
                               0.1, 0.9)
    for gradients in GRADIENTS:
        optimizer(tuple(Tensor(g) for g in gradients))
    for got, start, i, options in ((p, START[0], 0, {"lr": 0.2}),
                                   (q, START[1], 1, {"lr": 0.1, "weight_decay": 0.3})):
        want = sgd(start.astype(np.float64), [g[i] for g in GRADIENTS], momentum=0.9, **options)
        np.testing.assert_allclose(got.asnumpy(), want, rtol=2e-5)


def test_a_group_added_later_keeps_the_state_of_the_others() -> None:
    p, q = _parameters()
    optimizer = mint.optim.Adam([p], 0.1, amsgrad=True)
    optimizer((Tensor(GRADIENTS[0][0]),))
    before = optimizer.max_exp_avg_sq[0].asnumpy().copy()
    optimizer.add_param_group({"params": [q], "lr": 0.5})
    assert optimizer.max_exp_avg_sq[0].asnumpy().tobytes() == before.tobytes() and before.any()
    optimizer(tuple(Tensor(g) for g in GRADIENTS[1]))
    assert not np.array_equal(q.asnumpy(), START[1])


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["pynative", "graph"])
def test_schedulers_and_assigned_rates(mode: int) -> None:
    ms.set_context(mode=mode)
    try:
        (p, _), rates = _parameters(), []
        optimizer = mint.optim.SGD([p], 0.1)
        scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        at = START[0].astype(np.float64)
        for gradients in GRADIENTS:
            rates.append(float(optimizer.param_groups[0]["lr"].asnumpy()))
            optimizer((Tensor(gradients[0]),))
            at = at - rates[-1] * gradients[0]
            scheduler.step()
        np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 0.05, 0.025], rtol=1e-6)
        np.testing.assert_allclose(p.asnumpy(), at, rtol=1e-5)
        ops.assign(optimizer.param_groups[0]["lr"], Tensor(2.0))
        optimizer((Tensor(GRADIENTS[0][0]),))
        np.testing.assert_allclose(p.asnumpy(), at - 2.0 * GRADIENTS[0][0], rtol=1e-5)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


class _Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = mint.nn.Conv2d(1, 3, 3, padding=1)
        self.norm = mint.nn.BatchNorm2d(3)
        self.head = mint.nn.Linear(3 * 16, 2)

    def construct(self, x: Tensor) -> Tensor:
        h = mint.nn.functional.relu(self.norm(self.conv(x)))
        out: Tensor = self.head(mint.flatten(h, 1))
        return out


def _losses(kind: str, options: dict[str, Any], mode: int) -> tuple[list[float], bytes]:
    ms.set_context(mode=mode)
    try:
        ms.set_seed(3)
        net = _Net().set_train()
        loss_of = mint.nn.CrossEntropyLoss()
        optimizer = getattr(mint.optim, kind)(net.trainable_params(), **options)
        step = ms.value_and_grad(lambda x, y: loss_of(net(x), y), None, optimizer.parameters)
        rng = np.random.default_rng(0)
        x = Tensor(rng.standard_normal((8, 1, 4, 4)).astype(np.float32))
        y = Tensor((np.arange(8) % 2).astype(np.int64))
        losses = []
        for _ in range(8):
            loss, gradients = step(x, y)
            optimizer(gradients)
            losses.append(float(loss.asnumpy()))
        return losses, b"".join(p.asnumpy().tobytes() for p in net.get_parameters())
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize(("kind", "options"), [
    ("Adam", {"lr": 0.02, "amsgrad": True}), ("SGD", {"lr": 0.1, "momentum": 0.9})])
def test_a_network_of_mint_trains_alike_in_both_modes(kind: str, options: dict[str, Any]) -> None:
    losses, weights = _losses(kind, options, ms.PYNATIVE_MODE)
    assert losses[-1] < 0.7 * losses[0]
    assert (losses, weights) == _losses(kind, options, ms.GRAPH_MODE)


def test_names_and_printed_form() -> None:
    p, _ = _parameters()
    optimizer = mint.optim.AdamW([p], 0.1)
    assert [x.name for x in optimizer.get_parameters()] == [
        "p0", "exp_avg.p0", "exp_avg_sq.p0", "state_step"]
    assert repr(optimizer) == (
        "AdamW (\nParameter Group 0\n    amsgrad: False\n    betas: (0.9, 0.999)\n    eps: 1e-08\n"
        "    lr: 0.1\n    maximize: False\n    weight_decay: 0.01\n)")
    assert [x.name for x in mint.optim.SGD([_parameters()[1]], 0.1).get_parameters()] == [
        "p1", "momentum_buf.p1", "step_t"]


ERRORS: tuple[tuple[str, dict[str, Any], type[Exception]], ...] = (
    ("Adam", {"params": []}, ValueError, "the argument params must not be empty"),
    ("Adam", {"params": None}, ValueError, "the argument params can not be None"),
    ("Adam", {"lr": -0.1}, ValueError, "For 'Adam', the 'lr' must be >= 0.0, but got -0.1"),
    ("Adam", {"lr": "a"}, TypeError, "type of 'lr' should be 'float', but got type 'str'"),
    ("Adam", {"lr": 1}, TypeError, "type of 'lr' should be 'float', but got type 'int'"),
    ("Adam", {"lr": Tensor(0.1)}, TypeError,
     "For 'Adam', the type of 'lr' should be 'float', but got type 'Tensor'"),
    ("Adam", {"betas": (0.9,)}, ValueError, "For 'Adam', 'betas' must hold 2 floats, but got 1"),
    ("Adam", {"betas": [0.9, 0.9]}, TypeError,
     "For 'Adam', the type of 'betas' should be 'tuple', but got type 'list'"),
    ("Adam", {"betas": (1.0, 0.9)}, ValueError, "betas[0] must be in [0, 1), but got 1.0"),
    ("Adam", {"eps": 0}, TypeError, "type of 'eps' should be 'float', but got type 'int'"),
    ("Adam", {"eps": -0.1}, ValueError, "For 'Adam', the 'eps' must be >= 0.0, but got -0.1"),
    ("Adam", {"weight_decay": 1}, TypeError,
     "For 'Adam', the type of 'weight_decay' should be 'float', but got type 'int'"),
    ("Adam", {"weight_decay": -1.0}, ValueError, "'weight_decay' must be >= 0.0, but got -1.0"),
    ("Adam", {"amsgrad": 1}, TypeError, "type of 'amsgrad' should be 'bool', but got type 'int'"),
    ("Adam", {"maximize": 1}, TypeError, "type of 'maximize' should be 'bool', but got type 'int'"),
    ("AdamW", {"lr": -0.1}, ValueError, "For 'AdamW', the 'lr' must be >= 0.0, but got -0.1"),
    ("AdamW", {"amsgrad": 1}, TypeError, "type of 'amsgrad' should be 'bool', but got type 'int'"),
    ("SGD", {}, TypeError, "SGD.__init__() missing 1 required positional argument: 'lr'"),
    ("SGD", {"lr": -0.1}, ValueError, "For 'SGD', the learning rate must be >= 0, but got -0.1"),
    ("SGD", {"lr": "a"}, TypeError,
     "For 'SGD', the type of 'lr' should be one of '['float', 'int', 'bool']', but got type 'str'"),
    ("SGD", {"lr": 0.1, "momentum": -0.1}, ValueError, "momentum must be >= 0, but got -0.1"),
    ("SGD", {"lr": 0.1, "momentum": "a"}, TypeError,
     "type of 'momentum' should be one of '['float', 'int', 'bool']', but got type 'str'"),
    ("SGD", {"lr": 0.1, "nesterov": True}, ValueError,
     "if 'nesterov' is true, 'momentum' must be > 0.0 and 'dampening' must equal to 0.0"),
    ("SGD", {"lr": 0.1, "momentum": 0.1, "dampening": 0.1, "nesterov": True}, ValueError,
     "if 'nesterov' is true, 'momentum' must be > 0.0 and 'dampening' must equal to 0.0"),
    ("SGD", {"lr": 0.1, "maximize": 1}, TypeError,
     "For 'SGD', 'maximize' must be a bool, but got 1"),
)


@pytest.mark.parametrize(("kind", "options", "error", "text"), ERRORS)
def test_errors(kind: str, options: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {"params": _parameters(), **options}
    with pytest.raises(error, match=re.escape(text)):
        getattr(mint.optim, kind)(**given)
