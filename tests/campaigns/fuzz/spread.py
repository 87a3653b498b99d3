"""Trials of random trainings spread over ranks, against the law that says what they give.

Threads play the ranks. Each trains a network of random layers (`training.py`) on rows of its own,
with gradients summed between ranks, state parted, stages, or wrapped. What each has after some
steps are the bits of one process that computes the same: for data-parallel ranks copies of the
network whose gradients it adds in the order of the ranks, for stages the micro-batches of one step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import cellc as ms
from cellc import Tensor, nn
from cellc.parallel.distributed import DistributedDataParallel
from cellc.storage.elsewhere import is_elsewhere
from cellc.testing.ranks import run_ranks
from cellc_runtime import collectives

from ...modes.law import Array, arrays_of, mode
from . import training
from .finding import Finding, Trial, plainest
from .layers import OPTIMIZERS, loss_of
from .network import Different, same
from .training import Plan, network

SUFFIX = ".json"
STEPS = 3
WAYS = ("summed", "summed", "parted", "wrapped", "staged")
"""How a training is spread: gradients summed, state parted among the optimizers, the network in a
`DistributedDataParallel`, layers in stages."""
DRAWING = ("Dropout", "RReLU", "Recurrent", "MultiheadAttention", "Transformer", "Fractional")
"""Layers that draw: threads have one generator together."""
TOGETHER = ("SyncBatchNorm",)
"""Layers that ranks compute together: those of copies would not."""


@dataclass(frozen=True)
class Spread:
    """A training on several ranks.

    Attributes:
        plan: the network, its loss and its optimizer.
        ranks: how many.
        how: one of `WAYS`.
        mean: gradients are means, not sums.
        micro: parts of a batch: accumulated, or those of a pipeline.
        schedule: of a pipeline.
        bucket: bytes of gradients that are sent together; negative: as it is at first.
        read: small gradients are read of the others' memory, too.
    """

    plan: Plan
    ranks: int
    how: str
    mean: bool = True
    micro: int = 1
    schedule: str = "1f1b"
    bucket: int = -1
    read: bool = False

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self)) + "\n"


def read(text: str) -> Spread:
    """A training from its text."""
    told = json.loads(text)
    return Spread(**{**told, "plan": training.read(json.dumps(told["plan"]))})


def spread_of(seed: int) -> Spread:
    """The training of a seed."""
    rng = np.random.default_rng([seed, 11])

    def pick(options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    how, plan = pick(WAYS), training.plan_of(seed)
    banned = DRAWING if how == "staged" else (*DRAWING, *TOGETHER)
    kept = tuple(i for i, (name, _) in enumerate(plan.layers)
                 if not any(name.startswith(part) for part in banned))
    layers = tuple(plan.layers[i] for i in kept)
    if not any(name in ("Dense", "Linear") for name, _ in layers):
        layers = (*layers, ("Dense", seed))
    if how == "staged" and len(layers) < 2:
        layers = (("Dense", seed + 1), *layers)
    again = tuple(kept.index(i) for i in plan.recomputed if i in kept)
    rows = {1: 4, 2: 4, 3: 6, 5: 8, 8: 8, 17: 12}.get(plan.rows, plan.rows)
    optimizer = plan.optimizer
    if how != "wrapped" and optimizer.startswith("experimental"):
        optimizer = pick([name for name in OPTIMIZERS if not name.startswith("experimental")])
    ranks = pick((2, 2, 3, 4))
    micro = 1 if how == "wrapped" else pick((1, 2, 2))
    if how == "staged":
        ranks = min(ranks, len(layers))
        micro *= ranks
        rows = micro * max(1, rows // micro)
    return Spread(
        replace(plan, layers=layers, recomputed=again, rows=rows, optimizer=optimizer, way="",
                copied="", threads=1),
        ranks, how, bool(rng.integers(2)), micro, pick(("1f1b", "gpipe")), pick((-1, -1, 0, 64)),
        pick((True, True, False)))


# --- one process ----------------------------------------------------------------------------------


def made(spread: Spread) -> tuple[nn.Cell, int]:
    """A network, and the size of what it gives; each time with the same elements."""
    ms.set_seed(spread.plan.seed % (1 << 31))
    return network(spread.plan)


def rows_of(spread: Spread, step: int, rank: int, out: int) -> tuple[Tensor, Tensor]:
    """What a rank is given."""
    rng = np.random.default_rng([spread.plan.seed, step, rank])
    plan = spread.plan
    return (Tensor(rng.standard_normal((plan.rows, plan.size)).astype(np.float32)),
            Tensor(rng.uniform(0, 1, (plan.rows, out)).astype(np.float32)))


def losses(spread: Spread, net: nn.Cell) -> nn.Cell:
    """A network with its loss, that of parts of a batch if there are some."""
    computed = nn.WithLossCell(net, loss_of(spread.plan.loss))
    if spread.how == "staged":
        return nn.PipelineCell(computed, spread.micro)
    return computed if spread.micro == 1 else nn.GradAccumulationCell(computed, spread.micro)


def state(cell: nn.Cell) -> dict[str, Array]:
    """The Parameters that a process has, by name."""
    return {p.name: np.array(p.asnumpy()) for p in cell.get_parameters() if not is_elsewhere(p)}


def alone(spread: Spread) -> list[list[Array]]:
    """What each rank must have: the losses and Parameters of its copy."""
    if spread.how == "staged":
        net, out = made(spread)
        step = nn.TrainOneStepCell(losses(spread, net.set_train()),
                                   OPTIMIZERS[spread.plan.optimizer](net.trainable_params()))
        told = [a for i in range(STEPS) for a in arrays_of(step(*rows_of(spread, i, 0, out)))]
        return [[*told, *state(net).values()]] * spread.ranks
    nets = [made(spread) for _ in range(spread.ranks)]
    out = nets[0][1]
    optimizers = [OPTIMIZERS[spread.plan.optimizer](net.trainable_params()) for net, _ in nets]
    slopes = [ms.value_and_grad(losses(spread, net.set_train()), None, net.trainable_params())
              for net, _ in nets]
    found: list[list[Array]] = [[] for _ in nets]
    factor = 1.0 / spread.ranks
    for i in range(STEPS):
        total: list[Any] = []
        for rank, slope in enumerate(slopes):
            loss, grads = slope(*rows_of(spread, i, rank, out))
            found[rank] += arrays_of(loss)
            if spread.how == "wrapped":
                grads = [g * factor for g in grads]
            total = [a + b for a, b in zip(total, grads, strict=True)] if total else list(grads)
        if spread.mean and spread.how != "wrapped":
            total = [g * factor for g in total]
        for optimizer in optimizers:
            optimizer(tuple(total))
    return [[*told, *state(net).values()] for told, (net, _) in zip(found, nets, strict=True)]


# --- ranks ----------------------------------------------------------------------------------------


def settings(spread: Spread) -> dict[str, Any]:
    """What scripts say of such a training."""
    if spread.how == "wrapped":
        return {}
    if spread.how == "staged":
        return {"parallel_mode": "semi_auto_parallel", "pipeline_stages": spread.ranks,
                "pipeline_config": {"pipeline_interleave": False,
                                    "pipeline_scheduler": spread.schedule}}
    told: dict[str, Any] = {"parallel_mode": "data_parallel", "gradients_mean": spread.mean}
    if spread.how == "parted":
        told |= {"enable_parallel_optimizer": True,
                 "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
    if spread.bucket >= 0:
        told["comm_fusion"] = {"allreduce": {"mode": "size", "config": spread.bucket}}
    return told


def on_ranks(spread: Spread) -> list[list[Array]]:
    """The losses and Parameters of each rank."""
    nets = [made(spread) for _ in range(spread.ranks)]
    out = nets[0][1]
    if spread.how == "staged":
        for net, _ in nets:
            cells = list(net.cells())
            for i, cell in enumerate(cells):
                cell.pipeline_stage = i * spread.ranks // len(cells)
    ms.set_auto_parallel_context(**settings(spread))
    small = 0 if spread.read else collectives.SMALL
    try:
        with mock.patch.object(collectives, "SMALL", small):
            return run_ranks(spread.ranks, lambda rank: _rank(spread, nets[rank][0], rank, out))
    finally:
        ms.reset_auto_parallel_context()


def _rank(spread: Spread, net: nn.Cell, rank: int, out: int) -> list[Array]:
    make = OPTIMIZERS[spread.plan.optimizer]
    if spread.how == "wrapped":
        whole = DistributedDataParallel(net.set_train())
        optimizer, slope = make(net.trainable_params()), ms.value_and_grad(
            nn.WithLossCell(whole, loss_of(spread.plan.loss)), None, net.trainable_params())
        told = []
        for i in range(STEPS):
            loss, grads = slope(*rows_of(spread, i, rank, out))
            told += arrays_of(loss)
            whole.zero_grad()
            optimizer(grads)
        return [*told, *state(net).values()]
    step = nn.TrainOneStepCell(losses(spread, net.set_train()), make(net.trainable_params()))
    fed = 0 if spread.how == "staged" else rank
    told = [a for i in range(STEPS) for a in arrays_of(step(*rows_of(spread, i, fed, out)))]
    if spread.how == "staged":
        have = state(net)
        names = [p.name for p in net.get_parameters()]
        return [*(told if rank == spread.ranks - 1 else [None] * len(told)),
                *(have.get(name) for name in names)]
    return [*told, *state(net).values()]


def told_by(spread: Spread) -> str:
    """What is wrong with a training; "" if nothing is."""
    modes = {"wrapped": (ms.PYNATIVE_MODE,), "staged": (ms.GRAPH_MODE,)}.get(
        spread.how, (ms.GRAPH_MODE, ms.PYNATIVE_MODE))
    where = "one process"
    try:
        with mode(ms.PYNATIVE_MODE):
            want = alone(spread)
        for each in modes:
            where = "ranks in " + ("graph mode" if each == ms.GRAPH_MODE else "PyNative")
            with mode(each):
                found = on_ranks(spread)
            for rank, (got, wanted) in enumerate(zip(found, want, strict=True)):
                there = [i for i, a in enumerate(got) if a is not None]
                same([got[i] for i in there], [wanted[i] for i in there],
                     f"rank {rank} and one process")
            missing = [i for i in range(len(want[0])) if all(got[i] is None for got in found)]
            if missing:
                raise Different(f"no rank has the results {missing}")
            if spread.how == "staged":
                _check_homes(spread, found)
    except Exception as e:
        kind = "Different" if isinstance(e, Different) else type(e).__name__
        return f"{kind}: {where}: {e}".splitlines()[0]
    return ""


def _check_homes(spread: Spread, found: list[list[Array]]) -> None:
    """Each layer's weights are held by its stage alone.

    Raises:
        Different: they are not.
    """
    net, _ = made(spread)
    places = {id(p): i for i, p in enumerate(net.get_parameters())}
    cells = list(net.cells())
    told = len(found[0]) - len(places)
    for i, cell in enumerate(cells):
        for p in cell.trainable_params():
            have = [r for r, got in enumerate(found) if got[told + places[id(p)]] is not None]
            if have != [i * spread.ranks // len(cells)]:
                raise Different(f"{p.name} of layer {i} is held by the ranks {have}")


def plainer(spread: Spread) -> Iterator[Spread]:
    """Trainings with less in them."""
    for plan in training.plainer(spread.plan):
        if spread.how != "staged" or len(plan.layers) >= spread.ranks:
            yield replace(spread, plan=plan)
    for name, plain in (("ranks", 2), ("micro", 1), ("bucket", -1), ("mean", False),
                        ("read", False), ("schedule", "gpipe")):
        if getattr(spread, name) != plain and (spread.how != "staged" or name != "micro"):
            yield replace(spread, **{name: plain})


def trial(seed: int) -> Trial:
    """A few steps of one network on ranks."""
    spread = spread_of(seed)
    told = told_by(spread)
    counts = Counter({f"way {spread.how}": 1, f"optimizer {spread.plan.optimizer}": 1,
                      f"loss {spread.plan.loss}": 1, "processes": spread.ranks})
    if not told:
        return Trial(counts)
    small = plainest(spread, told, plainer, told_by)
    names = ", ".join(name for name, _ in small.plan.layers)
    return Trial(counts, Finding(
        "spread", seed, f"{told} ({small.how}; {names}; {small.plan.optimizer})", small.text(),
        SUFFIX))


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    return told_by(read(path.read_text()))
