"""The cost of moving bytes between ranks: latency and bandwidth, by the steps of collectives.

The model is Hockney's: a message of n bytes takes latency + n / bandwidth. A collective is the
rounds that `cellc_runtime.collectives` makes of it. Source: R. Thakur, R. Rabenseifner, W. Gropp,
Optimization of Collective Communication Operations in MPICH, 2005.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from cellc_runtime.collectives import SMALL
from cellc_runtime.records import dataclass

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TIME = re.compile(r"([0-9.]+(?:e[+-]?\d+)?)(s|ms|us|ns)")
_RATE = re.compile(r"([0-9.]+(?:e[+-]?\d+)?)([kmgt]?)b/s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Link:
    """A connection of ranks."""

    latency: float  # seconds that a round takes besides its bytes
    bandwidth: float  # bytes per second of one rank, in each direction
    adding: float = math.inf  # bytes per second at which a rank adds what has come to what it has

    def __str__(self) -> str:
        rest = "" if math.isinf(self.adding) else f":{self.adding / 1e9:.3g}GB/s"
        return f"{self.latency * 1e6:.3g}us:{self.bandwidth / 1e9:.3g}GB/s{rest}"


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a cluster.

    Attributes:
        intra: within a machine; `inter` between machines.
        node: ranks on a machine; their numbers follow one another.
    """

    intra: Link
    inter: Link
    node: int = 1 << 30

    def between(self, count: int, stride: int) -> Link:
        """Return the link of a group of `count` ranks whose numbers differ by `stride`."""
        return self.intra if count * stride <= self.node else self.inter


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a collective."""

    seconds: float = 0.0  # for each of its ranks; `nbytes` what each of them sends
    nbytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.nbytes + other.nbytes)

    def times(self, count: float) -> Cost:
        """So many of them."""
        return Cost(self.seconds * count, self.nbytes * count)


def rounds(count: int) -> int:
    """Return the rounds until data of `count` ranks have reached all, twice as far in each."""
    return max(count - 1, 0).bit_length()


def all_gather(link: Link, count: int, nbytes: float) -> Cost:
    """All ranks get the `nbytes` of each."""
    sent = (count - 1) * nbytes
    return Cost(rounds(count) * link.latency + sent / link.bandwidth, sent)


def all_to_all(link: Link, count: int, nbytes: float) -> Cost:
    """Each rank has `nbytes` and sends an equal part to each."""
    sent = (count - 1) / count * nbytes
    return Cost(rounds(count) * link.latency + sent / link.bandwidth, sent)


def _adding(link: Link, count: int, nbytes: float) -> Cost:
    return Cost((count - 1) * nbytes / link.adding)


def reduce_scatter(link: Link, count: int, nbytes: float) -> Cost:
    """Each rank gets a part of the sum of `nbytes` of each: parts to all, then added in order."""
    return all_to_all(link, count, nbytes) + _adding(link, count, nbytes / count)


def all_reduce(link: Link, count: int, nbytes: float) -> Cost:
    """All ranks get the sum of `nbytes` of each; of little, all send everything."""
    if count == 1 or not nbytes:
        return Cost()
    if nbytes <= SMALL:
        return all_gather(link, count, nbytes) + _adding(link, count, nbytes)
    return reduce_scatter(link, count, nbytes) + all_gather(link, count, nbytes / count)


def broadcast(link: Link, count: int, nbytes: float) -> Cost:
    """All ranks get the `nbytes` of one, by a tree."""
    return Cost(rounds(count) * (link.latency + nbytes / link.bandwidth),
                rounds(count) * nbytes / max(count, 1))


def send(link: Link, nbytes: float) -> Cost:
    """One rank gets the `nbytes` of another."""
    return Cost(link.latency + nbytes / link.bandwidth, nbytes)


def parsed(texts: Sequence[str], node: int | None) -> Links:
    """The links of options such as `intra=5us:200GB/s,inter=10us:25GB/s`.

    A third number is how fast a rank adds: `intra=20us:2GB/s:3GB/s`. If one is left out, both are
    the same.

    Args:
        texts: the options.
        node: ranks on a machine; None: all.
    """
    found: dict[str, Link] = {}
    for part in ",".join(texts).split(","):
        name, _, value = part.partition("=")
        if name.strip() not in ("intra", "inter"):
            raise ValueError(f"--link {part!r}: expected intra=LATENCY:BANDWIDTH or inter=..., as "
                             "in intra=5us:200GB/s,inter=10us:25GB/s")
        found[name.strip()] = _link(value.strip())
    only = next(iter(found.values()))
    intra, inter = found.get("intra", only), found.get("inter", only)
    return Links(intra, inter) if node is None else Links(intra, inter, node)


def _link(text: str) -> Link:
    time, *rates = text.split(":")
    latency = _TIME.fullmatch(time)
    speeds = [_RATE.fullmatch(r) for r in rates]
    if latency is None or len(rates) not in (1, 2) or None in speeds:
        raise ValueError(f"--link {text!r}: expected LATENCY:BANDWIDTH, as in 5us:200GB/s, or with "
                         "the speed of adding at the end, as in 20us:2GB/s:3GB/s")
    values = [float(m[1]) * _UNITS[m[2].lower()] for m in speeds if m is not None]
    seconds = float(latency[1]) / _PER_SECOND[latency[2]]
    if min(values) <= 0:
        raise ValueError(f"--link {text!r}: a bandwidth must be positive")
    return Link(seconds, *values)
