"""Trials of random networks of layers, trained: some steps in both modes, to the bit.

A *plan* says everything: layers with the seeds they are made by, loss, optimizer, loss scale,
accumulation, what is recomputed, the number of threads, and whether the training goes on with a
copy of itself. Leaving out parts of a plan makes it small.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn
from cellc_runtime import loader

from ...modes.law import Array, arrays_of, mode
from .finding import Finding, Trial, plainest
from .layers import ACTIVATIONS, ALL, LAYERS, LOSSES, OPTIMIZERS, TOGETHER, loss_of
from .network import Different, same

SUFFIX = ".json"
STEPS = 4
WAYS = ("", "", "scaled", "dynamic", "accumulated")
COPIES = ("", "", "deepcopy", "pickle")


@dataclass(frozen=True)
class Plan:
    """A training.

    Attributes:
        seed: of the data and of all draws.
        rows, size: of a batch.
        layers: names with a seed each; an activation has the seed -1.
        loss, optimizer: names.
        way: "scaled" and "dynamic" have a loss scale, "accumulated" two parts of a batch.
        recomputed: positions of layers that are computed again for the gradient.
        threads: of graph mode.
        copied: how the training is copied after its second step; both go on.
    """

    seed: int
    rows: int
    size: int
    layers: tuple[tuple[str, int], ...]
    loss: str = "MSELoss"
    optimizer: str = "SGD"
    way: str = ""
    recomputed: tuple[int, ...] = ()
    threads: int = 1
    copied: str = ""

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self)) + "\n"


def read(text: str) -> Plan:
    """A plan from its text."""
    told = json.loads(text)
    return Plan(**{**told, "layers": tuple(map(tuple, told["layers"])),
                   "recomputed": tuple(told["recomputed"])})


class Step(nn.Cell):
    """A training step for optimizers that are given gradients by the user."""

    def __init__(self, network: nn.Cell, optimizer: Any) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.slopes = ms.value_and_grad(network, None, network.trainable_params())

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        loss, slopes = self.slopes(x, y)
        self.optimizer(slopes)
        return loss


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    rng = np.random.default_rng([seed, 7])

    def pick(options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    layers: list[tuple[str, int]] = []
    for _ in range(int(rng.integers(1, 6))):
        layers.append((pick(ALL), int(rng.integers(1 << 30))))
        if rng.random() < 0.5:
            layers.append((pick(ACTIVATIONS), -1))
    if not any(name in ("Dense", "Linear") for name, _ in layers):
        layers.append(("Dense", int(rng.integers(1 << 30))))
    optimizer, rows = pick([*OPTIMIZERS]), int(pick((1, 2, 3, 5, 8, 17)))
    way = "" if optimizer.startswith("experimental") else pick(WAYS)
    if way == "accumulated":
        rows *= 2
    if any(part in name for part in TOGETHER for name, _ in layers):
        rows = max(rows, 4)
    again = tuple(i for i in range(len(layers)) if rng.random() < 0.15)
    return Plan(seed, rows, int(rng.integers(1, 12)), tuple(layers), pick(LOSSES), optimizer, way,
                again, int(pick((1, 2, 4))), pick(COPIES))


def network(plan: Plan) -> tuple[nn.Cell, int]:
    """The layers of a plan, and the size that comes out."""
    cells: list[nn.Cell] = []
    size = plan.size
    for i, (name, seed) in enumerate(plan.layers):
        if seed < 0:
            cells.append(getattr(nn, name)())
        else:
            cell, size = LAYERS[name](np.random.default_rng(seed), size)
            cells.append(cell)
        if i in plan.recomputed:
            cells[-1].recompute()
    return nn.SequentialCell(cells), size


def step_of(plan: Plan, net: nn.Cell) -> nn.Cell:
    """What makes a step of a plan's training."""
    computed: nn.Cell = nn.WithLossCell(net, loss_of(plan.loss))
    if plan.way == "accumulated":
        computed = nn.GradAccumulationCell(computed, 2)
    optimizer = OPTIMIZERS[plan.optimizer](net.trainable_params())
    if plan.optimizer.startswith("experimental"):
        return Step(computed, optimizer).set_train()
    if plan.way in ("scaled", "dynamic"):
        scale = (nn.FixedLossScaleUpdateCell(128.0) if plan.way == "scaled"
                 else nn.DynamicLossScaleUpdateCell(2.0**127, 2.0, 2))  # some steps overflow
        return nn.TrainOneStepWithLossScaleCell(computed, optimizer, scale).set_train()
    return nn.TrainOneStepCell(computed, optimizer).set_train()


def steps(plan: Plan, in_mode: int, copied: str = "") -> list[Array]:
    """Results, parameters and states of some steps, of a copy's if there is one.

    Raises:
        Different: a copy goes on otherwise than what was copied.
    """
    with mode(in_mode):
        ms.set_seed(plan.seed % (1 << 31))
        net, out = network(plan)
        step = step_of(plan, net)
        rng = np.random.default_rng(plan.seed)
        data = [(rng.standard_normal((plan.rows, plan.size)).astype(np.float32),
                 rng.uniform(0, 1, (plan.rows, out)).astype(np.float32)) for _ in range(STEPS)]

        def go(which: nn.Cell, first: int, last: int) -> list[Array]:
            return [a for x, y in data[first:last] for a in arrays_of(which(Tensor(x), Tensor(y)))]

        found = go(step, 0, 2)
        other = step
        if copied:
            other = copy.deepcopy(step) if copied == "deepcopy" else pickle.loads(
                pickle.dumps(step))
        draws = ms.get_rng_state() if copied else None
        ends = []
        for which in dict.fromkeys((step, other)):
            if draws is not None:
                ms.set_rng_state(draws)
            ends.append([*go(which, 2, STEPS),
                         *(np.array(p._data) for p in which.get_parameters())])
        same(ends[-1], ends[0], f"a copy ({copied}) and what was copied")
    return found + ends[0]


def told_by(plan: Plan) -> str:
    """What is wrong with a training; "" if nothing is."""
    before, found = loader.num_threads(), []
    for in_mode, copied in ((ms.PYNATIVE_MODE, ""), (ms.GRAPH_MODE, plan.copied)):
        try:
            loader.set_num_threads(plan.threads if in_mode == ms.GRAPH_MODE else before)
            found.append(steps(plan, in_mode, copied))
        except Exception as e:
            kind = "Different" if isinstance(e, Different) else type(e).__name__
            where = "graph mode" if in_mode == ms.GRAPH_MODE else "PyNative"
            return f"{kind}: {where}: {e}".splitlines()[0]
        finally:
            loader.set_num_threads(before)
    try:
        same(found[1], found[0], "graph mode and PyNative, losses, parameters and states")
    except Different as e:
        return f"Different: {e}"
    return ""


def plainer(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them."""
    for i in range(len(plan.layers)):
        if len(plan.layers) > 1:
            again = tuple(k - (k > i) for k in plan.recomputed if k != i)
            yield replace(plan, layers=plan.layers[:i] + plan.layers[i + 1:], recomputed=again)
    for i in plan.recomputed:
        yield replace(plan, recomputed=tuple(k for k in plan.recomputed if k != i))
    for name, plain in (("way", ""), ("copied", ""), ("threads", 1), ("optimizer", "SGD"),
                        ("loss", "MSELoss"), ("size", 2)):
        if getattr(plan, name) != plain:
            yield replace(plan, **{name: plain})


def trial(seed: int) -> Trial:
    """A few steps of one network in both modes."""
    plan = plan_of(seed)
    told = told_by(plan)
    if told:
        small = plainest(plan, told, plainer, told_by)
        names = ", ".join(name for name, _ in small.layers)
        return Trial(finding=Finding(
            "training", seed, f"{told} ({names}; {small.optimizer})", small.text(), SUFFIX))
    names = [f"layer {name}" for name, _ in plan.layers]
    return Trial(dict.fromkeys([*names, f"loss {plan.loss}", f"optimizer {plan.optimizer}",
                                f"way {plan.way}", f"way {plan.copied}"], 1))


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    return told_by(read(path.read_text()))
