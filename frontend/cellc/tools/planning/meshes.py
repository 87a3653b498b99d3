"""The time of a step on a mesh of ranks, and the fastest mesh.

Ranks are numbered as Megatron-LM numbers them: those of a tensor-parallel group follow one another,
then data parallel, then the stages of the pipeline. Source of the formulas of pipelines:
D. Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM, SC21.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cellc_runtime.records import dataclass

from . import links as of
from .links import Cost, Links
from .workload import Block, Workload


@dataclass(frozen=True, slots=True)
class Mesh:
    """How many ranks are along each axis: data, tensor and pipeline parallel."""

    dp: int = 1
    tp: int = 1
    pp: int = 1

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.dp * self.tp * self.pp

    def __str__(self) -> str:
        return f"dp={self.dp},tp={self.tp},pp={self.pp}"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a plan."""

    # of each data-parallel part; None: as `batch` says, else 1, or four for each stage of a
    # pipeline
    micro_batches: int | None = None
    batch: int | None = None  # rows of all ranks together; None: as many as follow
    overlap: float = 0.0  # the part of the gradients' communication that runs during computation
    # chunks of layers that each stage has, one after the other (virtual stages)
    interleaved: int = 1
    memory: float | None = None  # bytes that a rank has; None: any number
    # how many times as fast as here a rank's kernels run: of another device, or less than 1 of
    # ranks that share processors
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The predicted time of a step.

    Attributes:
        mesh: the ranks; `micro_batches` of each data-parallel part; `samples` of all ranks.
        compute: seconds of kernels of the slowest stage; `bubble` in which it waits for others.
        tensor, pipeline, data: what is sent for each kind of parallelism.
        update: seconds of the optimizer.
        weights, gradients, state, activations: bytes on the fullest rank.
        stages: the blocks of each stage.
        flops: operations of all ranks together.
    """

    mesh: Mesh
    micro_batches: int
    samples: int
    compute: float
    bubble: float
    tensor: Cost
    pipeline: Cost
    data: Cost
    update: float
    weights: float
    gradients: float
    state: float
    activations: float
    stages: tuple[tuple[str, ...], ...]
    flops: float

    @property
    def seconds(self) -> float:
        """Of a step."""
        return (self.compute + self.bubble + self.tensor.seconds + self.pipeline.seconds
                + self.data.seconds + self.update)

    @property
    def memory(self) -> float:
        """Bytes of the fullest rank."""
        return self.weights + self.gradients + self.state + self.activations

    @property
    def nbytes(self) -> float:
        """Bytes that a rank sends in a step."""
        return self.tensor.nbytes + self.pipeline.nbytes + self.data.nbytes

    @property
    def rate(self) -> float:
        """Rows per second of all ranks."""
        return self.samples / self.seconds


class CannotPlan(ValueError):
    """A mesh that the step cannot be cut for."""


def predict(work: Workload, mesh: Mesh, links: Links, options: Options | None = None) -> Plan:
    """Predict the time of a step on a mesh. Raises CannotPlan if there are fewer layers than
    stages, or the batch does not divide."""
    chosen = options or Options()
    work = work.at_speed(chosen.speed)
    count = _micro_batches(work, mesh, chosen)
    stages = _stages(work.blocks, mesh)
    near = links.between(mesh.tp, 1)
    slow = max(stages, key=lambda s: _seconds(s, mesh.tp, near))
    compute = sum(b.cut / mesh.tp + b.whole for b in slow) * count
    tensor = _sums(slow, mesh.tp, near).times(count)
    # The other stages' parts of the first and the last micro-batch: equation 1 of the paper.
    bubble = (compute + tensor.seconds) / count * (mesh.pp - 1) / chosen.interleaved
    weights, full = max(((_weights(s, mesh.tp), s) for s in stages), key=lambda w: w[0])
    apart = mesh.tp * mesh.pp
    return Plan(
        mesh, count, work.samples * count * mesh.dp, compute, bubble, tensor,
        _handed_on(stages, mesh, links, count, chosen.interleaved),
        _gradients(work, full, mesh, links).times(1 - chosen.overlap),
        work.update / apart, weights + work.fixed,
        weights * work.gradient if mesh.ranks > 1 or count > 1 else 0.0, weights * work.state,
        _activations(work, stages, mesh, count), tuple(tuple(b.name for b in s) for s in stages),
        work.flops * count * mesh.dp)


def _micro_batches(work: Workload, mesh: Mesh, options: Options) -> int:
    if options.batch is None:
        return options.micro_batches or (4 * mesh.pp if mesh.pp > 1 else 1)
    if options.batch % (work.samples * mesh.dp):
        raise CannotPlan(f"{mesh}: a batch of {options.batch} rows is no number of micro-batches "
                         f"of {work.samples} on {mesh.dp} data-parallel ranks")
    return options.batch // (work.samples * mesh.dp)


def _stages(blocks: Sequence[Block], mesh: Mesh) -> list[Sequence[Block]]:
    """The blocks cut into stages, one after the other, so that the slowest takes least."""
    if len(blocks) < mesh.pp:
        raise CannotPlan(f"{mesh}: {len(blocks)} layers cannot be cut into {mesh.pp} stages")
    ends = _cuts([b.cut / mesh.tp + b.whole for b in blocks], mesh.pp)
    return [blocks[a:b] for a, b in pairwise((0, *ends))]


def _cuts(costs: Sequence[float], parts: int) -> list[int]:
    """Return the ends of `parts` parts of consecutive costs, by the least largest sum."""
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    count = len(costs)
    best = [[math.inf] * (count + 1) for _ in range(parts + 1)]
    came = [[0] * (count + 1) for _ in range(parts + 1)]
    best[0][0] = 0.0
    for part in range(1, parts + 1):
        for end in range(part, count - (parts - part) + 1):
            for start in range(part - 1, end):
                most = max(best[part - 1][start], sums[end] - sums[start])
                if most < best[part][end]:
                    best[part][end], came[part][end] = most, start
    ends = [count]
    for part in range(parts, 1, -1):
        ends.append(came[part][ends[-1]])
    return ends[::-1]


def _seconds(stage: Sequence[Block], tp: int, link: of.Link) -> float:
    """Of one micro-batch in a stage, with what its ranks add up."""
    return sum(b.cut / tp + b.whole for b in stage) + _sums(stage, tp, link).seconds


def _sums(stage: Sequence[Block], tp: int, link: of.Link) -> Cost:
    """Return the sums of a stage's tensor-parallel ranks in a micro-batch."""
    return sum((of.all_reduce(link, tp, n) for b in stage for n in b.sums), Cost())


def _handed_on(
    stages: Sequence[Sequence[Block]], mesh: Mesh, links: Links, count: int, interleaved: int
) -> Cost:
    """Return the messages of stages: each micro-batch forward and its gradient back, by chunk."""
    if mesh.pp == 1:
        return Cost()
    link = links.between(mesh.pp, mesh.tp * mesh.dp)
    most = max(s[-1].sent for s in stages[:-1])
    # Ranks of a tensor-parallel group hold the same: each sends a part, and they gather it.
    part = of.send(link, most / mesh.tp) + of.all_gather(links.between(mesh.tp, 1), mesh.tp,
                                                         most / mesh.tp)
    # Messages go while the next micro-batch is computed; those of one micro-batch are waited for.
    waited = part.seconds * 2 * (mesh.pp - 1) * interleaved
    return Cost(waited + 2 * link.latency * (count - 1) * interleaved,
                part.nbytes * 2 * count * interleaved)


def _sizes(stage: Sequence[Block], tp: int) -> list[float]:
    """Bytes of the trainable parameters of a stage on one of its ranks."""
    return [n / tp for b in stage for n in b.weights_cut] + \
        [float(n) for b in stage for n in b.weights_whole]


def _weights(stage: Sequence[Block], tp: int) -> float:
    return sum(_sizes(stage, tp))


def _gradients(work: Workload, stage: Sequence[Block], mesh: Mesh, links: Links) -> Cost:
    """The sums of gradients over the data-parallel ranks, bucket by bucket."""
    if mesh.dp == 1:
        return Cost()
    link = links.between(mesh.dp, mesh.tp)
    total = Cost()
    for nbytes, count in _buckets([n * work.gradient for n in _sizes(stage, mesh.tp)], work.bucket):
        total += of.all_reduce(link, mesh.dp, nbytes)
        if count > 1:  # they are put together, and taken apart again
            total += Cost(2 * nbytes / link.adding)
    return total


def _buckets(sizes: Sequence[float], limit: int) -> list[tuple[float, int]]:
    """Bytes of buckets in order, and how many gradients are in each, as `nn.grad_reducer` fills
    them."""
    out: list[tuple[float, int]] = []
    for n in sizes:
        if not out or out[-1][0] + n > limit:
            out.append((0.0, 0))
        out[-1] = out[-1][0] + n, out[-1][1] + 1
    return out


def _activations(
    work: Workload, stages: Sequence[Sequence[Block]], mesh: Mesh, count: int
) -> float:
    """Return the temporaries of the fullest stage: its part of one rank's, for each micro-batch
    that is under way there (one for itself and each later stage; 1F1B)."""
    def held(blocks: Sequence[Block], tp: int) -> float:
        return sum(b.held_cut / tp + b.held_whole for b in blocks)

    all_of_it = held(work.blocks, 1)
    if not all_of_it:
        return work.temporaries / (mesh.tp * mesh.pp)
    return max(work.temporaries * held(s, mesh.tp) / all_of_it * min(mesh.pp - i, count)
               for i, s in enumerate(stages))


def meshes(ranks: int, layers: int, widest: int) -> Iterator[Mesh]:
    """Yield the meshes of `ranks` ranks with at most `layers` stages, and tensor parallelism over
    at most `widest` ranks, those of a machine: its sums are waited for in every layer."""
    for tp in _divisors(ranks):
        for pp in _divisors(ranks // tp):
            if tp <= widest and pp <= layers:
                yield Mesh(ranks // (tp * pp), tp, pp)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def search(
    work: Workload, ranks: int, links: Links, options: Options | None = None
) -> list[Plan]:
    """Return the plans of all meshes of `ranks` ranks that fit the memory, by rows per second.
    Raises CannotPlan if there is none."""
    chosen = options or Options()
    found: list[Plan] = []
    why: list[str] = []
    for mesh in meshes(ranks, len(work.blocks), links.node):
        try:
            plan = predict(work, mesh, links, chosen)
        except CannotPlan as e:
            why.append(str(e))
            continue
        if chosen.memory is not None and plan.memory > chosen.memory:
            why.append(f"{mesh}: a rank needs {plan.memory / 2**30:.3g} GiB of "
                       f"{chosen.memory / 2**30:.3g}")
        else:
            found.append(plan)
    if not found:
        raise CannotPlan(f"no mesh of {ranks} ranks serves: {'; '.join(why[:3])}")
    return sorted(found, key=lambda p: -p.rate)
