"""The parts of a training step: from the profile of its program, or by the formula of a GPT."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence

from cellc_compiler.ir.graph import Node, Value
from cellc_runtime.records import dataclass, field, replace

from ...compiled.traced import Traced
from ...tensors.parameter import Parameter
from ..profiling import Profile, Site
from .splits import Lies, Splits, parameter_of

_BLOCK = re.compile(r"(?:^|.*?\.)\d+(?=\.|$)")
"""The path of a Cell down to the first that is a number: a layer among its like."""
_UPDATE = "optimizer"  # The Cell that updates parameters, of the training wrappers


@dataclass(slots=True)
class Block:
    """A layer: what a pipeline cuts between, for one micro-batch.

    Attributes:
        name: its Cell's path.
        cut, whole: seconds of the work that tensor parallelism divides, and of the rest.
        sums: bytes of each partial sum that tensor parallelism adds up.
        weights_cut, weights_whole: bytes of each trainable parameter.
        held_cut, held_whole: bytes of what its forward pass keeps for the backward pass.
        sent: bytes that go to the next block, in each direction.
    """

    name: str
    cut: float = 0.0
    whole: float = 0.0
    sums: list[int] = field(default_factory=list)
    weights_cut: list[int] = field(default_factory=list)
    weights_whole: list[int] = field(default_factory=list)
    held_cut: int = 0
    held_whole: int = 0
    sent: int = 0


@dataclass(slots=True)
class Workload:
    """A training step on one rank."""

    name: str  # of the step
    samples: int  # rows of a micro-batch
    blocks: list[Block]  # its layers, in order
    update: float = 0.0  # seconds of the optimizer, where it has kernels of its own
    state: float = 0.0  # bytes of the optimizer's state for each byte of trainable parameters
    fixed: int = 0  # bytes of parameters that are not trained
    temporaries: int = 0  # bytes of temporaries of one micro-batch
    bucket: int = 4 << 20  # bytes of gradients that go in one collective
    flops: float = 0.0  # operations of a micro-batch's products; 0: not known
    gradient: float = 1.0  # bytes of a gradient for each byte of its parameter

    @property
    def seconds(self) -> float:
        """Of a step on one rank, of one micro-batch."""
        return sum(b.cut + b.whole for b in self.blocks) + self.update

    @property
    def weights(self) -> int:
        """Bytes of trainable parameters."""
        return sum(sum(b.weights_cut) + sum(b.weights_whole) for b in self.blocks)

    def at_speed(self, speed: float) -> Workload:
        """Return the same step on a rank whose kernels are `speed` times as fast."""
        blocks = [replace(b, cut=b.cut / speed, whole=b.whole / speed) for b in self.blocks]
        return replace(self, blocks=blocks, update=self.update / speed)


def from_profile(profile: Profile, traced: Traced, samples: int, bucket: int) -> Workload:
    """The workload of a training step that was profiled.

    Args:
        profile: of the step's program.
        traced: the step.
        samples: rows of its batch.
        bucket: bytes of gradients that go in one collective.
    """
    return _Reading(profile, traced).workload(samples, bucket)


class _Reading:
    """A profiled step, taken apart."""

    def __init__(self, profile: Profile, traced: Traced) -> None:
        self.profile, self.traced = profile, traced
        self.splits = Splits(n for s in profile.sites for n in s.nodes)
        self.forward = [n for n in self.splits.order
                        if n not in self.splits.backward and not _is_update(n)]
        self.blocks = _blocks(self.forward)
        self.behind = self._behind()

    def workload(self, samples: int, bucket: int) -> Workload:
        """See `from_profile`."""
        read = {v.name for n in self.forward for o in n.operands
                if (v := parameter_of(o)) is not None}
        trained, state, fixed = _parameters(self.traced, read)
        if not trained:
            raise ValueError(f"{self.profile.name} updates no parameter: expected a training step, "
                             "such as nn.TrainOneStepCell makes (or --train NAME)")
        out = Workload(self.profile.name, samples, list(self.blocks.values()), bucket=bucket)
        times = self.profile.site_seconds()
        # Other work of the machine lengthens calls, and no kernel's median: each has its share.
        share = statistics.median(self.profile.seconds) / sum(times)
        for site, seconds in zip(self.profile.sites, times, strict=True):
            if site.nodes and all(_is_update(n) for n in site.nodes):
                out.update += seconds * share
            else:
                self._spend(site, seconds * share)
        for value, node in self.splits.sums.items():
            self._block(node).sums.append(_nbytes(value))
        self._weigh(trained)
        self._hold()
        self._send()
        weights = sum(trained.values())
        out.state, out.fixed = state / weights, fixed
        out.temporaries = self.profile.arena_bytes
        out.flops = float(sum(s.flops for s in self.profile.sites))
        return out

    def _block(self, node: Node) -> Block:
        name = _block_name(node)
        if name in self.blocks:
            return self.blocks[name]
        # Nodes before or after the layers go with the first or the last.
        return list(self.blocks.values())[-1 if node.scope in self.behind else 0]

    def _behind(self) -> set[str]:
        """Return the Cells outside the layers whose forward pass follows the last layer's begin."""
        last = list(self.blocks)[-1]
        start = next((i for i, n in enumerate(self.forward) if _block_name(n) == last), 0)
        return {n.scope for n in self.forward[start:]}

    def _spend(self, site: Site, seconds: float) -> None:
        node = next((n for n in site.nodes if not _is_update(n)), None)
        block = self._block(node) if node is not None else next(iter(self.blocks.values()))
        results = [r for n in site.nodes for r in n.results]
        if any(r in self.splits.sums or self.splits.lies[r] is not Lies.WHOLE for r in results):
            block.cut += seconds
        else:
            block.whole += seconds

    def _weigh(self, trained: Mapping[str, int]) -> None:
        """Bytes of parameters, in the block that uses them first."""
        cut = {v.name for v in self.splits.weights}
        left = dict(trained)
        for node in self.forward:
            for value in filter(None, map(parameter_of, node.operands)):
                if value.name in left:
                    block = self._block(node)
                    (block.weights_cut if value.name in cut else block.weights_whole).append(
                        left.pop(value.name))

    def _hold(self) -> None:
        """Bytes of what the forward pass makes and the backward pass reads."""
        read = {v for n in self.splits.backward for v in n.operands}
        for node in self.forward:
            block = self._block(node)
            for r in node.results:
                if r in read and self.splits.lies.get(r) is Lies.CUT:
                    block.held_cut += _nbytes(r)
                elif r in read:
                    block.held_whole += _nbytes(r)

    def _send(self) -> None:
        """Bytes that cross to the next block: values of the forward pass that it reads there.
        Values that depend on no weight (masks, draws, positions) each stage makes for itself."""
        order = {id(b): i for i, b in enumerate(self.blocks.values())}
        crossing: dict[tuple[int, Value], None] = {}
        learnt: set[Node] = set()
        for node in self.forward:
            here = order[id(self._block(node))]
            for v in node.operands:
                if v.node in learnt:
                    made = order[id(self._block(v.node))]
                    crossing.update(((i, v), None) for i in range(made, here))
            if any(v.kind == "param" or v.node in learnt for v in node.operands):
                learnt.add(node)
        blocks = list(self.blocks.values())
        for at, value in crossing:
            blocks[at].sent += _nbytes(value)


def _is_update(node: Node) -> bool:
    return not node.origin and _UPDATE in node.scope.split(".")[:1]


def _block_name(node: Node) -> str:
    found = _BLOCK.match(node.scope)
    return found[0] if found else ""


def _blocks(nodes: Sequence[Node]) -> dict[str, Block]:
    """The layers in the order of the forward pass; one, if no Cell is a number."""
    names = dict.fromkeys(map(_block_name, nodes))
    names.pop("", None)
    return {n: Block(n) for n in names} or {"": Block("(all)")}


def _nbytes(value: Value) -> int:
    return value.type.size * value.dtype.itemsize


def _parameters(traced: Traced, read: set[str]) -> tuple[dict[str, int], int, int]:
    """Bytes of trained parameters by the names of the graph's inputs; of the optimizer's state; of
    parameters that are neither. `read`: the names of those that the forward pass reads."""
    updated = {old.name for old, _ in traced.graph.updates}
    wanted = {p.name for p in traced.parameters if isinstance(p, Parameter) and p.requires_grad}
    inputs = [v for v in traced.graph.inputs if v.kind == "param"]
    trained = [v for v in inputs if v.name in wanted & updated & read and v.dtype.is_float]
    shapes = {v.shape for v in trained}
    others = [v for v in inputs if v not in trained]
    state = [v for v in others if v.name in updated and v.shape in shapes]
    fixed = sum(map(_nbytes, others)) - sum(map(_nbytes, state))
    return {v.name: _nbytes(v) for v in trained}, sum(map(_nbytes, state)), fixed


@dataclass(frozen=True, slots=True)
class Transformer:
    """The sizes of a GPT, for a workload by formulas.

    Attributes:
        layers, hidden, heads, vocabulary, sequence: as in the paper.
        rows: of a micro-batch.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    rows: int = 1

    def flops(self) -> float:
        """Operations of a micro-batch with its activations computed again, by the paper's formula
        (D. Narayanan et al., SC21, equation 3, for one row and all layers)."""
        n, h, s, v = self.layers, self.hidden, self.sequence, self.vocabulary
        return 96 * self.rows * s * n * h * h * (1 + s / (6 * h) + v / (16 * n * h))

    def workload(self, rate: float) -> Workload:
        """The step at `rate` operations per second of a rank: float16 weights and activations,
        float32 gradients, Adam with float32 copies (18 bytes a parameter, of which 2 are weights
        and 4 gradients)."""
        h, s = self.hidden, self.sequence
        layer = self.rows * 96 * s * h * h * (1 + s / (6 * h)) / rate
        head = self.rows * 6 * s * h * self.vocabulary / rate
        width = 2 * self.rows * s * h
        blocks = [Block(f"layer {i}", layer, 0.0, [width] * 6, [2 * 12 * h * h], [2 * 13 * h],
                        0, width, width) for i in range(self.layers)]
        blocks[0].weights_cut.append(2 * self.vocabulary * h)
        blocks[-1].cut += head
        # Of one layer at a time all activations are there: 34 bytes a number and the scores.
        kept = self.rows * s * h * (34 + 5 * self.heads * s / h) + self.layers * width
        return Workload(f"GPT {self.layers} x {h}", self.rows, blocks, state=6.0, gradient=2.0,
                        temporaries=int(kept), flops=self.flops())
