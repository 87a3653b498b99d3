"""The order in which elements are added: one table, kept by every machine.

The bits of a sum of floats follow from the order of its additions, so that order is part of what a
program means. It follows from shapes and the type of the accumulator alone: not from a machine's
vectors, the number of threads, what is fused around the sum, or how many rows are computed beside
this one.

**A reduction along the last axis** is `chains` interleaved chains: element i is taken into chain
i % chains, in order (beginning with the identity), and at the end chain i takes chain
i + chains / 2, by halves, until one is left. Thirty-two chains of float32 are two registers of
AVX-512, four of AVX2, eight of NEON and a warp of a GPU. Further reduced axes outside of the last
one go on with the same chains. Where the last axis is kept, each element is one chain. A row (all
axes from the first reduced one on) of many elements is cut into equal parts (`row_parts`): each is
reduced so, and then the row of their results is.

**An element of a product** is cut along k into segments (`product_segment`) by k and the number of
columns, never by that of rows. A segment is one chain of fused multiply-adds over k ascending, from
0, and segments are added in order, to 0 at first. Long ones keep many units of a machine busy, and
where columns are few several segments run side by side. With one column, and both operands stored
along k, an element is a reduction of products instead: `chains` chains of fused multiply-adds.

**An element of a convolution**, or of the gradient of its image, is one chain of fused
multiply-adds over channels and taps. **The gradient of its weights** is summed by runs of images
(`image_runs`), which are added in order. In a run, with more than `FEW_CHANNELS` output channels of
a group, an element is one chain over (n, y, x); with few of them it is `PIXEL_CHAINS` chains, each
image's pixel i in chain i % PIXEL_CHAINS, folded by halves.

**A running sum** is cut into runs by the extent of its axis (`scan_run`). Each is one chain from 0,
and what the runs before it add up to, in order, is added to each of its elements. (A running
product is one chain: that of a run may leave the range that the whole one stays in.)
"""

from __future__ import annotations

from cellc_runtime.lazy import lazy_imports

from ..ir.dims import Undecided, choose, is_symbolic, largest, smallest

with lazy_imports(__name__):
    from ..ir import divisors

CHAIN_BYTES = 128  # The size of the accumulators of one sum's chains


def most_chains(itemsize: int) -> int:
    """Chains of a reduction along an axis of as many elements, or of more; half as many along
    others."""
    return CHAIN_BYTES // itemsize


def chains(itemsize: int, extent: int) -> int:
    """Chains of a reduction along an axis of `extent`, by the size of an accumulator in bytes."""
    most = most_chains(itemsize)
    return most if extent >= most else most // 2


def accumulators(itemsize: int, extent: int, lanes: int) -> int:
    """Return the number of vectors of `lanes` that hold the chains of a reduction along an axis of
    `extent`. Those that would stay empty are left out: taking in an identity changes nothing."""
    count = max(1, chains(itemsize, extent) // lanes)
    while count > 1 and extent <= count // 2 * lanes:
        count //= 2
    return count


PART = 16384  # Elements of a part of a row at least
LONG_ROW = 4 * PART  # Elements from which on a row is cut into parts


MOST_PARTS = 4096  # Parts whose results a kernel has room for on its stack


OPEN_ROW = LONG_ROW // 256
LONGEST_OPEN_ROW = 1 << 30
"""From one of these sizes to the other the parts of a row are a number of a program for all
sizes."""


def open_row_parts(extent: int) -> int:
    """`row_parts` of an extent that is known when the code runs, and less than
    `LONGEST_OPEN_ROW`."""
    parts: int = divisors.divisor(extent, choose(extent, LONG_ROW, extent // PART, 1))
    return parts


def row_parts(extent: int) -> int:
    """Return the number of equal parts of a row: the most that leave each a `PART`. Raises
    Undecided if the row is long, and its size is open."""
    if divisors.is_divided(extent) or divisors.is_divisor(extent):
        return 1  # (a part has none that leave each a `PART`; few parts are a short row)
    if extent < LONG_ROW:
        return 1
    if is_symbolic(extent):
        raise Undecided(f"the parts of a row of {extent} elements follow from this number")
    return next(p for p in range(extent // PART, 0, -1) if extent % p == 0)


def kernel_parts(extent: int) -> int:
    """Parts that one kernel cuts a row into. Where they are more than it has room for, a pass has
    cut what can be cut in a graph (`passes/split.py`); the rest is one part."""
    parts = row_parts(extent)
    return parts if parts <= MOST_PARTS else 1


LONGEST_SEGMENT = 384  # Steps of k in one chain at most, by accumulators of 4 bytes
SHORTEST_SEGMENT = 64  # Steps of k that a segment of a product of few columns has at least
_COLUMNS = 128
"""A product of fewer columns is cut further, so that columns times segments are about as many."""


SMALL_COLUMNS = 64
"""Columns of a panel of weights that are stored in few bits (the op `dequantized_matmul`)."""


def product_segment(n: int, k: int, itemsize: int) -> int:
    """Steps of k in a segment of a product with n columns; 0 if there is one segment. `itemsize`:
    bytes of an accumulator."""
    count = _segments(n, k, itemsize)
    return _segment(k, count) if count > 1 else 0


def _segments(n: int, k: int, itemsize: int) -> int:
    """Segments of a product."""
    wanted = smallest(_COLUMNS // largest(-(-n // 16) * 16, 16), k // SHORTEST_SEGMENT)
    count: int = largest(-(-k * itemsize // (4 * LONGEST_SEGMENT)), wanted, 1)
    return count


def _segment(k: int, count: int) -> int:
    return -(-k // (32 * count)) * 32


def always_one_segment(k: int, itemsize: int) -> bool:
    """Whether a product with this k has one segment, whatever its columns are."""
    known = type(k) is int
    return known and k * itemsize <= 4 * LONGEST_SEGMENT and k < 2 * SHORTEST_SEGMENT


def segment_or_whole(n: int, k: int, itemsize: int) -> int:
    """Steps of k in a segment of a product, of sizes that may be symbolic; all of k if there is one
    segment."""
    count = _segments(n, k, itemsize)
    steps: int = choose(count, 2, _segment(k, count), largest(k, 1))
    return steps


FEW_CHANNELS = 8
PIXEL_CHAINS = 16  # Chains of a weight's gradient with few channels, by accumulators of 4 bytes
_MOST_RUNS = 16
_RUN_ELEMENTS, _MOST_RUN_ELEMENTS = 49_152, 1 << 21
"""Elements of gradients of weights, times runs, that keep many units of a machine busy; at most,
where runs are long."""
_RUN_WORK = 1 << 18  # Multiply-adds that a run should have
_LONG_RUN = 2048
"""Steps of a chain from which on adding its sum to the others costs little in comparison."""


def image_runs(n: int, elements: int, work: int) -> int:
    """Runs that n images are cut into to sum the gradient of a convolution's weights.

    Args:
        elements: of the weights.
        work: multiply-adds of the whole sum.
    """
    size = max(elements, 1)
    long = smallest(_MOST_RUN_ELEMENTS // size, work // (size * _LONG_RUN))
    wanted = largest(1, smallest(n, _MOST_RUNS, largest(_RUN_ELEMENTS // size, long),
                                 work // _RUN_WORK))
    runs: int = largest(1, -(-n // -(-n // wanted))) if n else 1
    return runs


_SHORTEST_SCAN = 128
_LONG_SCAN = 1024


def scan_run(extent: int) -> int:
    """Elements of a run of a running sum: a power of two, about as many as there are runs."""
    if extent < _LONG_SCAN:
        return max(extent, 1)
    return max(_SHORTEST_SCAN, 1 << ((extent - 1).bit_length() + 1) // 2)


def open_scan_run(extent: int) -> int:
    """`scan_run` of an extent that is known when the code runs, and less than
    `LONGEST_OPEN_ROW`."""
    run: int = _SHORTEST_SCAN
    for bits in range(14, LONGEST_OPEN_ROW.bit_length() - 1, 2):
        run = choose(extent, (1 << bits) + 1, 1 << bits // 2 + 1, run)
    found: int = choose(extent, _LONG_SCAN, run, largest(extent, 1))
    return found
