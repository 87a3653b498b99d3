"""Convolution: forward, backward-data and backward-weight plans (NCHW in, NCHW out).

A plan is a list of kernels with the roles of their buffers, chosen from shapes, dtype and target
alone. See `conv/taps.py` for the tile kernel and `conv/unfold.py` for how padding, stride and
dilation disappear before it.

Bits. With `w` read as 0-padded where a tap falls outside the image:
- forward: an output element is one FMA chain over (ic, kh, kw) ascending, from 0;
- backward data: one FMA chain over (oc, kh, kw) ascending, over the taps whose residue of the
  stride fits the element, from 0;
- backward weight: see `conv/weight.py` and `conv_weight_product`.
float16 and bfloat16 are accumulated in float32 and rounded once.
"""

from __future__ import annotations

from itertools import product

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....ir.dims import is_symbolic, surely_at_least
from .....loops.order import FEW_CHANNELS
from .....lower.kernel import Kernel
from .....lower.plan import epilogue_operand
from ..vectors import Plan as Plan
from ..vectors import acc_size, is_half
from .batched import BatchedPlan, Joint, Spread, join_images, spread_kernel
from .batched import gather_kernel as join_kernel
from .taps import Epilogue as Epilogue
from .taps import Phase, TapConv, choose_tiling, tap_kernel
from .unfold import SLACK_BYTES, Unfold, interleave_kernel, unfold_kernel, widen_kernel
from .weight import (
    ChannelLanes,
    PixelLanes,
    Taps,
    WeightProblem,
    channel_kernel,
    choose_channel_lanes,
    choose_pixel_lanes,
    gather_kernel,
    pixel_kernel,
    sum_kernel,
    transpose_dy_kernel,
)
from .weight_product import Product, choose_product

_LONGEST_ROW = 512

@dataclass(frozen=True, slots=True)
class ConvSpec:
    """A convolution of `x[n, c, h, w]` with `w[oc, c / groups, kh, kw]` (1-d: `h = kh = 1`).

    Raises:
        ValueError: there is no output element.
    """

    n: int
    c: int
    h: int
    w: int
    oc: int
    kh: int
    kw: int
    # stride, dilation: (rows, columns), at least 1
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]  # zeros added (top, bottom, left, right), not negative
    groups: int
    dtype: DType

    def __post_init__(self) -> None:
        sizes = (self.n, self.c, self.oc, self.kh, self.kw, self.oh, self.ow)
        if any(not surely_at_least(d, 1) and d < 1 for d in sizes):
            raise ValueError(f"a convolution without an output element: {self}")

    @property
    def oh(self) -> int:
        """Output rows."""
        reach = self.dilation[0] * (self.kh - 1) + 1
        return (self.h + self.pads[0] + self.pads[1] - reach) // self.stride[0] + 1

    @property
    def ow(self) -> int:
        """Output columns."""
        reach = self.dilation[1] * (self.kw - 1) + 1
        return (self.w + self.pads[2] + self.pads[3] - reach) // self.stride[1] + 1

    @property
    def icg(self) -> int:
        """Input channels of a group."""
        return self.c // self.groups

    @property
    def ocg(self) -> int:
        """Output channels of a group."""
        return self.oc // self.groups

    @property
    def taps(self) -> int:
        """Taps of the kernel window."""
        return self.kh * self.kw

    @property
    def weight_size(self) -> int:
        """Elements of the weights."""
        return self.oc * self.icg * self.taps


def _flattened(spec: ConvSpec) -> ConvSpec:
    """A 1x1 convolution that reads every pixel, over rows of a length that suits vectors."""
    size = spec.h * spec.w
    if is_symbolic(size) or (spec.taps, spec.stride, spec.pads) != (1, (1, 1), (0, 0, 0, 0)):
        return spec
    widths = [d for d in range(1, min(size, _LONGEST_ROW) + 1) if size % d == 0]
    width = max(widths, key=lambda d: (d % 16 == 0 or d == size, d))
    return replace(spec, h=size // width, w=width)


def _windows(plan: Plan, u: Unfold, channels: int, role: str, target: Target) -> str:
    """Unfold `role` unless it is its own unfolded form; the role to read windows from."""
    if u.identity:
        return role
    name = f"{role}_unfolded"
    plan.scratch[name] = u.nbytes(channels)
    plan.add(unfold_kernel(u, channels, target), role, name)
    return name


def _weights(plan: Plan, spec: ConvSpec, target: Target) -> str:
    """The role of the weights as accumulators."""
    if not is_half(spec.dtype):
        return "w"
    plan.scratch["w_wide"] = spec.weight_size * acc_size(spec.dtype) + SLACK_BYTES
    plan.add(widen_kernel(spec.dtype, spec.weight_size, target), "w", "w_wide")
    return "w_wide"


def _convolve(
    plan: Plan, spec: ConvSpec, p: TapConv, target: Target, roles: tuple[str, str],
    epilogue: Epilogue | None = None, extra: int = 0,
) -> None:
    """Append the steps of a tile-kernel problem from source to output role."""
    source, out = roles
    t = choose_tiling(p, target)
    joined = None if is_symbolic(p.n * p.pixels) else join_images(p, t, target)
    if joined is not None:
        pixels = p.unfold.th * p.unfold.tw
        _convolve_batched(plan, spec, joined, target, roles, tuple(range(pixels)), epilogue, extra)
        return
    if not t.rows:
        source = _windows(plan, p.image, p.n * p.groups * p.k, source, target)
    w = _weights(plan, spec, target)
    plan.add(tap_kernel(p, t, target, epilogue, extra), source, w, out,
             *map(epilogue_operand, range(extra)))


def _convolve_batched(
    plan: Plan, spec: ConvSpec, p: BatchedPlan, target: Target, roles: tuple[str, str],
    sources: tuple[int | None, ...], epilogue: Epilogue | None = None, extra: int = 0,
) -> None:
    """The steps of a problem over joint images; for `sources` see `Spread`."""
    source, out = roles
    rows = p.problem.groups * p.problem.m
    plan.scratch["windows"] = p.joint.nbytes()
    size = len(p.problem.phases) * rows * p.joint.tw * acc_size(spec.dtype)
    plan.scratch["joint"] = size + SLACK_BYTES
    plan.add(join_kernel(p.joint, target), source, "windows")
    w = _weights(plan, spec, target)
    plan.add(tap_kernel(p.problem, p.tiling, target), "windows", w, "joint")
    grid = p.joint.gh * p.joint.gw
    spread = Spread(spec.dtype, spec.n, rows, len(sources), p.joint.tw, grid, sources)
    plan.add(spread_kernel(spread, target, epilogue, extra), "joint", w, out,
             *map(epilogue_operand, range(extra)))


def _forward_taps(spec: ConvSpec) -> tuple[tuple[int, int, int], ...]:
    """`(row offset, column offset, index)` of every tap in chain order."""
    return tuple(
        (a * spec.dilation[0] - spec.pads[0], b * spec.dilation[1] - spec.pads[2],
         a * spec.kw + b)
        for a, b in product(range(spec.kh), range(spec.kw))
    )


def _forward_unfold(spec: ConvSpec) -> Unfold:
    """The windows of `x` that the output grid reads."""
    taps = _forward_taps(spec)
    return Unfold(spec.dtype, spec.h, spec.w, spec.oh, spec.ow, *spec.stride,
                  tuple({t[0] for t in taps}), tuple({t[1] for t in taps}))


def conv_forward(
    spec: ConvSpec, target: Target, epilogue: Epilogue | None = None, extra: int = 0
) -> Plan:
    """`out[n, oc, oh, ow]` from roles `x` and `w`.

    Args:
        epilogue: applied to accumulators before their store; see `taps.Epilogue`.
        extra: buffers the epilogue reads: `bufs[3:]` of the kernel.
    """
    plan = Plan()
    spec = _flattened(spec)
    u = _forward_unfold(spec)
    row = spec.icg * spec.taps
    problem = TapConv(u, spec.n, spec.groups, spec.ocg, spec.icg, (Phase(_forward_taps(spec)),),
                      (spec.ocg * row, row, spec.taps), spec.dtype)
    _convolve(plan, spec, problem, target, ("x", "out"), epilogue, extra)
    return plan


def _axis(count: int, stride: int, dilation: int, pad: int, phase: int) -> list[tuple[int, int]]:
    """`(tap, shift)` along an axis: taps that reach input positions `phase + stride * j`, and
    the output position `j + shift` they come from."""
    return [
        (k, (phase + pad - k * dilation) // stride)
        for k in range(count)
        if (phase + pad - k * dilation) % stride == 0
    ]


def backward_phases(spec: ConvSpec) -> dict[tuple[int, int], Phase]:
    """The taps of every residue (row, column) of the stride that has any."""
    phases = {}
    for py, px in product(range(spec.stride[0]), range(spec.stride[1])):
        rows = _axis(spec.kh, spec.stride[0], spec.dilation[0], spec.pads[0], py)
        cols = _axis(spec.kw, spec.stride[1], spec.dilation[1], spec.pads[2], px)
        if rows and cols and py < spec.h and px < spec.w:
            phases[py, px] = Phase(tuple(
                (ry, cx, a * spec.kw + b) for (a, ry), (b, cx) in product(rows, cols)
            ))
    return phases


def conv_backward_data(spec: ConvSpec, target: Target) -> Plan:
    """`out[n, c, h, w]`, the gradient of `x`, from roles `dy` and `w`.

    This is also the forward of a transposed convolution whose input is `dy`.
    """
    plan = Plan()
    spec = _flattened(spec)
    (sy, sx) = spec.stride
    phases = backward_phases(spec)
    if not phases:
        plan.scratch["phases"] = _phase_bytes(spec, 1)
        plan.add(_interleave_phases(spec, phases, target), "phases", "out")
        return plan
    taps = [t for p in phases.values() for t in p.taps]
    u = Unfold(spec.dtype, spec.oh, spec.ow, -(-spec.h // sy), -(-spec.w // sx), 1, 1,
               tuple({t[0] for t in taps}), tuple({t[1] for t in taps}))
    strides = (spec.ocg * spec.icg * spec.taps, spec.taps, spec.icg * spec.taps)
    direct = (sy, sx) == (1, 1)
    acc = spec.dtype if direct or not is_half(spec.dtype) else float32
    problem = TapConv(u, spec.n, spec.groups, spec.icg, spec.ocg, tuple(phases.values()),
                      strides, acc)
    if direct:
        _convolve(plan, spec, problem, target, ("dy", "out"))
        return plan
    joined = None if is_symbolic(spec.n * problem.pixels) else join_images(
        problem, choose_tiling(problem, target), target)
    if joined is not None:
        sources = _phase_sources(spec, phases, joined)
        _convolve_batched(plan, spec, joined, target, ("dy", "out"), sources)
        return plan
    plan.scratch["phases"] = _phase_bytes(spec, len(phases))
    _convolve(plan, spec, problem, target, ("dy", "phases"))
    plan.add(_interleave_phases(spec, phases, target), "phases", "out")
    return plan


def _phase_sources(
    spec: ConvSpec, phases: dict[tuple[int, int], Phase], p: BatchedPlan
) -> tuple[int | None, ...]:
    """Where each pixel of an image is in a row of the joint phases."""
    (sy, sx), size = spec.stride, p.problem.groups * p.problem.m * p.joint.tw
    index = {phase: i * size for i, phase in enumerate(phases)}
    out = []
    for y, x in product(range(spec.h), range(spec.w)):
        first = index.get((y % sy, x % sx))
        out.append(None if first is None else first + y // sy * p.joint.gw + x // sx)
    return tuple(out)


def _phase_bytes(spec: ConvSpec, phases: int) -> int:
    pixels = -(-spec.h // spec.stride[0]) * -(-spec.w // spec.stride[1])
    return phases * spec.n * spec.c * pixels * acc_size(spec.dtype) + SLACK_BYTES


def _interleave_phases(
    spec: ConvSpec, phases: dict[tuple[int, int], Phase], target: Target
) -> Kernel:
    return interleave_kernel(spec.dtype, spec.n * spec.c, spec.h, spec.w, *spec.stride,
                             tuple(phases), target)


def conv_backward_weight(spec: ConvSpec, target: Target) -> Plan:
    """`out[oc, c / groups, kh, kw]`, the gradient of `w`, from roles `x` and `dy`."""
    problem = WeightProblem(
        spec.n, spec.groups, spec.ocg, spec.icg, spec.oh, spec.ow,
        Taps(spec.kh, spec.kw, spec.stride, spec.dilation), spec.dtype,
    )
    if spec.ocg <= FEW_CHANNELS:
        return _weight_by_pixel(spec, choose_pixel_lanes(problem, target), target)
    by_channel = choose_channel_lanes(problem, target)
    joins = not is_symbolic(spec.n * problem.pixels) and problem.splits == 1
    matrix = _weight_product(spec, target) if joins else None
    if matrix is not None and matrix.cycles < _channel_cycles(spec, by_channel):
        return matrix.plan(target)
    return _weight_by_channel(spec, by_channel, target)


def _channel_cycles(spec: ConvSpec, t: ChannelLanes) -> float:
    """Estimated cycles of the channel-lanes mapping with what comes before and after."""
    part = t.p.groups * t.tiles * t.rows * t.channels
    return t.cycles + t.dy_size * 0.5 + spec.n * spec.c * spec.h * spec.w * 0.25 + part


def _weight_product(spec: ConvSpec, target: Target) -> Product | None:
    """Backward-weight as a product over the pixels of all images."""
    taps = tuple((ry, cx) for ry, cx, _ in _forward_taps(spec))
    x = Joint(spec.dtype, spec.n, spec.c, spec.h, spec.w, spec.oh, spec.ow, *spec.stride, taps, 1)
    dy = Joint(spec.dtype, spec.n, spec.oc, spec.oh, spec.ow, spec.oh, spec.ow, 1, 1, ((0, 0),), 1)
    return choose_product(x, dy, spec.groups, target)


def _weight_by_channel(spec: ConvSpec, t: ChannelLanes, target: Target) -> Plan:
    plan = Plan()
    top, bottom, left, right = spec.pads
    u = Unfold(spec.dtype, spec.h, spec.w, spec.h + top + bottom, spec.w + left + right,
               1, 1, (-top,), (-left,))
    x = _windows(plan, u, spec.n * spec.c, "x", target)
    splits = t.p.splits
    plan.scratch["dy_t"] = t.dy_size * acc_size(spec.dtype) + SLACK_BYTES
    plan.scratch["part"] = t.part_bytes(splits)
    plan.add(transpose_dy_kernel(t, target), "dy", "dy_t")
    plan.add(channel_kernel(t, splits, u, target), x, "dy_t", "part")
    plan.add(gather_kernel(t, splits, target), "part", "out")
    return plan


def _weight_by_pixel(spec: ConvSpec, t: PixelLanes, target: Target) -> Plan:
    plan, u = Plan(), _forward_unfold(spec)
    x = _windows(plan, u, spec.n * spec.c, "x", target)
    offsets = tuple(u.offset(ry, cx) for ry, cx, _ in _forward_taps(spec))
    splits = t.p.splits
    kernel = pixel_kernel(t, splits, u, offsets, target)
    if splits == 1 and not is_half(spec.dtype):
        plan.add(kernel, x, "dy", "out")
        return plan
    plan.scratch["part"] = splits * t.p.size * acc_size(spec.dtype) + SLACK_BYTES
    plan.add(kernel, x, "dy", "part")
    plan.add(sum_kernel(t.p, splits, target), "part", "out")
    return plan
