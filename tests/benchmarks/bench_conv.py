"""Convolution kernels against torch, one thread, interleaved in one process.

Run from the repository root with an environment that has llvmlite (and torch to compare with):

    PYTHONPATH=compiler:runtime:tests/codegen python tests/benchmarks/bench_conv.py [name ...]

Prints the best of a few rounds in microseconds, the share of the FMA count per nanosecond and
the ratio torch / cellc (above 1: cellc is faster). All steps of a plan are timed, packing too;
but of `block`, the forward convolution over blocked channels that inference uses, only the
convolution. Its weights come from beyond the second-level cache, as in a network. The cases of
`PAIRS` are a convolution and the depthwise one behind it, as two kernels and as one.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jit import compile_kernel

from cellc_compiler.backends.cpu.kernels.blocked import conv as conv_block
from cellc_compiler.backends.cpu.kernels.blocked import pair as conv_block_pair
from cellc_compiler.backends.cpu.kernels.blocked.tile import BlockConv, choose_tile
from cellc_compiler.backends.cpu.kernels.conv.plans import (
    ConvSpec,
    Plan,
    conv_backward_data,
    conv_backward_weight,
    conv_forward,
)
from cellc_compiler.ops.blocked import groups_fit
from cellc_runtime.dtypes import float32
from cellc_runtime.target import host_target

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]


def spec(n: int, c: int, h: int, oc: int, k: int, s: int, p: int, groups: int = 1) -> ConvSpec:
    """A square convolution."""
    return ConvSpec(n, c, h, h, oc, k, k, (s, s), (1, 1), (p, p, p, p), groups, float32)


CASES: dict[str, ConvSpec] = {
    "3x3 64 56x56": spec(1, 64, 56, 64, 3, 1, 1),
    "3x3 128 28x28": spec(1, 128, 28, 128, 3, 1, 1),
    "3x3 256 14x14": spec(1, 256, 14, 256, 3, 1, 1),
    "3x3 512 7x7": spec(1, 512, 7, 512, 3, 1, 1),
    "3x3 256 14x14 n8": spec(8, 256, 14, 256, 3, 1, 1),
    "1x1 256-64 56x56": spec(1, 256, 56, 64, 1, 1, 0),
    "stem 7x7 s2": spec(1, 3, 224, 64, 7, 2, 3),
    "lenet 1-6 n64": spec(64, 1, 32, 6, 5, 1, 0),
    "lenet 6-16 n64": spec(64, 6, 14, 16, 5, 1, 0),
    "3x3 512 14x14 s2": spec(1, 512, 14, 512, 3, 2, 1),
    "1x1 512-2048 7x7": spec(1, 512, 7, 2048, 1, 1, 0),
    "1x1 960-160 7x7": spec(1, 960, 7, 160, 1, 1, 0),
    "1x1 24-144 56x56": spec(1, 24, 56, 144, 1, 1, 0),
    "3x3 128 56x56 g32": spec(1, 128, 56, 128, 3, 1, 1, 32),
    "3x3 256 28x28 g32": spec(1, 256, 28, 256, 3, 1, 1, 32),
    "3x3 512 14x14 g32": spec(1, 512, 14, 512, 3, 1, 1, 32),
    "depthwise 96 s1": spec(1, 96, 112, 96, 3, 1, 1, 96),
    "depthwise 96 s2": spec(1, 96, 112, 96, 3, 2, 1, 96),
}

PAIRS: dict[str, tuple[ConvSpec, ConvSpec]] = {
    f"pair {c}-{wide} {h}x{h} s{s}": (spec(1, c, h, wide, 1, 1, 0),
                                      spec(1, wide, h, wide, 3, s, 1, wide))
    for c, wide, h, s in [(16, 96, 112, 2), (24, 144, 56, 1), (24, 144, 56, 2), (32, 192, 28, 1),
                          (32, 192, 28, 2), (64, 384, 14, 1), (96, 576, 14, 1), (96, 576, 14, 2),
                          (160, 960, 7, 1)]
}
PAIRS["pair stem 3-32 112x112 s1"] = spec(1, 3, 224, 32, 3, 2, 1), spec(1, 32, 112, 32, 3, 1, 1, 32)


class Runner:
    """A compiled plan bound to buffers."""

    def __init__(self, plan: Plan, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        target = host_target()
        bufs = dict(arrays)
        for name, nbytes in plan.scratch.items():
            bufs[name] = np.zeros(-(-nbytes // 4) + 16, np.float32)
        self.steps = [
            (compile_kernel(k, target), [bufs[r] for r in roles], k.ntasks)
            for k, roles in plan.steps
        ]

    def __call__(self) -> None:
        for kernel, bufs, tasks in self.steps:
            kernel(bufs, 0, tasks)

    def parts(self) -> list[float]:
        """Best time of every step in microseconds."""
        out = []
        for kernel, bufs, tasks in self.steps:
            out.append(best({"k": lambda k=kernel, b=bufs, t=tasks: k(b, 0, t)})["k"])
        return out


def blocked(s: ConvSpec, border: tuple[int, int, int, int] = (0, 0, 0, 0)) -> BlockConv:
    """A convolution over an image that carries its padding."""
    b = host_target().lanes(4)
    return BlockConv(
        n=s.n, c=s.c, oc=s.oc, bi=b if s.c >= b else 1, bo=b,
        ph=s.h + s.pads[0] + s.pads[1], pw=s.w + s.pads[2] + s.pads[3], oh=s.oh, ow=s.ow,
        kh=s.kh, kw=s.kw, stride=s.stride, dilation=s.dilation, origin=(0, 0), border=border,
        groups=s.groups, dtype=s.dtype)


class Blocked:
    """The blocked forward convolution, with copies of the weights that take turns."""

    def __init__(self, s: ConvSpec) -> None:
        target, p = host_target(), blocked(s)
        kernel = conv_block.block_kernel(p, choose_tile(p, target), target)
        self.tasks, self.call = kernel.ntasks, compile_kernel(kernel, target)
        nbytes = conv_block.packed_bytes(p)
        rng = np.random.default_rng(0)
        x = rng.standard_normal(p.n * p.in_blocks * p.ph * p.pw * p.bi).astype(np.float32)
        out = np.zeros(p.n * p.out_blocks * p.oh * p.ow * p.bo, np.float32)
        self.bufs = [(x, rng.standard_normal(nbytes // 4).astype(np.float32), out)
                     for _ in range(min(64, 1 + (8 << 20) // nbytes))]
        self.turn = 0

    def __call__(self) -> None:
        self.turn = (self.turn + 1) % len(self.bufs)
        self.call(self.bufs[self.turn], 0, self.tasks)


class Paired:
    """A convolution and a depthwise one: as two kernels, and as one."""

    def __init__(self, first: ConvSpec, second: ConvSpec) -> None:
        target = host_target()
        ps = blocked(first, second.pads), blocked(second)
        self.pair = conv_block_pair.choose_pair(*ps, target)
        kernels = [conv_block.block_kernel(p, choose_tile(p, target), target)
                   for p in ps]
        kernels.append(conv_block_pair.pair_kernel(self.pair, target, (None, None), 0))
        rng = np.random.default_rng(0)

        def image(p: BlockConv, out: bool) -> np.ndarray[Any, Any]:
            h, w = p.out_plane
            size = p.out_blocks * h * w * p.bo if out else p.in_blocks * p.ph * p.pw * p.bi
            return rng.standard_normal(p.n * size).astype(np.float32)

        x, wide, out = image(ps[0], False), image(ps[0], True), image(ps[1], True)
        w = [rng.standard_normal(conv_block.packed_bytes(p) // 4).astype(np.float32) for p in ps]
        bufs = [[x, w[0], wide], [wide, w[1], out], [x, *w, out]]
        self.parts = [functools.partial(compile_kernel(k, target), b, 0, k.ntasks)
                      for k, b in zip(kernels, bufs, strict=True)]
        self.tasks = kernels[-1].ntasks

    def apart(self) -> None:
        """Two kernels."""
        for part in self.parts[:2]:
            part()

    def show(self, name: str, fma: int) -> None:
        """Time both ways; the times of the two kernels apart."""
        t = best({"apart": self.apart, "pair": self.parts[2]}, rounds=15)
        each = best({"first": self.parts[0], "second": self.parts[1]})
        p = self.pair
        print(f"{name:26} apart {t['apart']:7.0f} us ({each['first']:.0f} + {each['second']:.0f})"
              f"  pair {t['pair']:7.0f} us {fma / t['pair'] / 1e3:6.1f} FMA/ns  ratio "
              f"{t['apart'] / t['pair']:5.2f}  {p.groups} groups {p.bands} bands {self.tasks} tasks"
              f"  {'taken' if conv_block_pair.pays(p, host_target()) else 'not taken'}", flush=True)


def best(fns: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """Best time of each function in microseconds, in turn."""
    out = dict.fromkeys(fns, float("inf"))
    for _ in range(rounds):
        for name, fn in fns.items():
            for _ in range(2):
                t = time.perf_counter()
                fn()
                out[name] = min(out[name], (time.perf_counter() - t) * 1e6)
    return out


def torch_fns(s: ConvSpec, x: Any, w: Any, dy: Any) -> dict[str, Callable[[], Any]]:
    """torch's forward, backward data and backward weight."""
    if torch is None:
        return {}
    tx, tw, tdy = (torch.from_numpy(a) for a in (x, w, dy))
    conf = ([], s.stride, s.pads[::2], s.dilation, False, [0, 0], s.groups)

    def back(mask: list[bool]) -> Any:
        return torch.ops.aten.convolution_backward(tdy, tx, tw, None, *conf[1:], mask)

    return {
        "fwd": lambda: torch.nn.functional.conv2d(
            tx, tw, None, s.stride, s.pads[::2], s.dilation, s.groups),
        "data": lambda: back([True, False, False]),
        "weight": lambda: back([False, True, False]),
    }


def main(names: list[str]) -> None:
    """Time the named cases (all of them by default)."""
    if torch is not None:
        torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    target = host_target()
    for name, s in CASES.items():
        if names and not any(n in name for n in names):
            continue
        x = rng.standard_normal((s.n, s.c, s.h, s.w)).astype(np.float32)
        w = rng.standard_normal((s.oc, s.icg, s.kh, s.kw)).astype(np.float32)
        dy = rng.standard_normal((s.n, s.oc, s.oh, s.ow)).astype(np.float32)
        ours: dict[str, Runner | Blocked] = {
            "fwd": Runner(conv_forward(s, target), {"x": x, "w": w, "out": np.zeros_like(dy)}),
            "data": Runner(conv_backward_data(s, target),
                           {"dy": dy, "w": w, "out": np.zeros_like(x)}),
            "weight": Runner(conv_backward_weight(s, target),
                             {"x": x, "dy": dy, "out": np.zeros_like(w)}),
        }
        if groups_fit(s.c, s.oc, s.groups, host_target().lanes(4)):
            ours["block"] = Blocked(s)
        theirs = torch_fns(s, x, w, dy)
        fma = s.n * s.oc * s.oh * s.ow * s.icg * s.taps
        for kind, run in ours.items():
            fns: dict[str, Callable[[], Any]] = {"cellc": run}
            if kind in theirs:
                fns["torch"] = theirs[kind]
            t = best(fns)
            line = f"{name:18} {kind:6} {t['cellc']:9.0f} us {fma / t['cellc'] / 1e3:6.1f} FMA/ns"
            if "torch" in t:
                line += f"  torch {t['torch']:9.0f} us  ratio {t['torch'] / t['cellc']:5.2f}"
            if isinstance(run, Runner):
                line += "  steps " + " ".join(f"{p:.0f}" for p in run.parts())
            print(line, flush=True)
    for name, (a, b) in PAIRS.items():
        if not names or any(n in name for n in names):
            Paired(a, b).show(name, sum(s.n * s.oc * s.oh * s.ow * s.icg * s.taps for s in (a, b)))


if __name__ == "__main__":
    main(sys.argv[1:])
