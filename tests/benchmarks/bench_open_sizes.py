"""Programs for all sizes beside programs for known sizes: time, compilation and code.

    python tests/benchmarks/bench_open_sizes.py [--rounds N] [CASE ...]

For each case a network is compiled with open sizes, and once for each of its sizes. At each of them
the two programs take turns, and the median of each counts. Prints the ratio open / known by size,
the geometric mean and the worst, and how compilation and code compare with those of one known size.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import nn, ops
from cellc.compiled import dynamic, traced
from cellc_compiler import driver, open_sizes
from cellc_compiler.passes.instantiate import instantiate
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass

sys.path.insert(0, str(Path(__file__).parents[2]))
from samples.gpt import GPT, NextTokenLoss
from samples.lenet import LeNet5
from samples.resnet import ResNet50
from samples.unet import UNet

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """A network with open sizes.

    Attributes:
        fn: what is called.
        inputs: the arrays for sizes.
        axes: the open axes of each input.
        first: the sizes it is compiled for.
        sizes: those it is timed at.
    """

    fn: Any
    inputs: Callable[..., Arrays]
    axes: Mapping[int, Any]
    first: tuple[int, ...]
    sizes: Sequence[tuple[int, ...]]


RNG = np.random.default_rng(0)
LENGTHS = [(n,) for n in (2, 9, 16, 33, 64, 100, 128, 200, 256, 512)]
IMAGES = [(2, 160, 160), (2, 192, 224), (2, 224, 224), (4, 256, 256), (2, 320, 320), (8, 160, 192),
          (3, 288, 256), (2, 224, 320), (5, 192, 192), (2, 256, 160)]
BATCHES = [(n,) for n in (2, 3, 5, 8, 13, 16, 31, 32, 57, 64)]


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape).astype(np.int32)


class Encoder(nn.Cell):
    """Layers of BERT's shape."""

    def __init__(self, layers: int = 2, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.layers = nn.CellList([
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
            for _ in range(layers)])

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Pictures(nn.Cell):
    """Bottlenecks of ResNet's shape."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.SequentialCell(nn.Conv2d(3, 64, 7, stride=2), nn.BatchNorm2d(64), nn.ReLU(),
                                       nn.MaxPool2d(3, 2, pad_mode="same"))
        self.parts = nn.CellList([nn.SequentialCell(
            nn.Conv2d(64, 32, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3),
            nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 1)) for _ in range(3)])
        self.out = nn.Dense(64, 100)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = self.enter(x)
        for part in self.parts:
            x = ops.relu(x + part(x))
        return self.out(x.mean((2, 3)))


def step_of(loss: nn.Cell) -> Any:
    """Loss and gradients."""
    weights = ms.ParameterTuple(loss.trainable_params())
    return lambda *args: ms.value_and_grad(loss, None, weights)(*args)


def lenet_step() -> Any:
    return step_of(nn.WithLossCell(LeNet5(), nn.SoftmaxCrossEntropyWithLogits(
        sparse=True, reduction="mean")))


CASES: dict[str, Callable[[], Case]] = {
    "encoder": lambda: Case(Encoder().set_train(False), lambda s: [floats(1, s, 768)],
                            {0: (1, None, 768)}, (64,), LENGTHS),
    "gpt": lambda: Case(GPT().set_train(False), lambda s: [ints(60, 1, s)], {0: (1, None)}, (64,),
                        [(n,) for n in (2, 5, 9, 16, 31, 33, 64, 90, 100, 128)]),
    "gpt_step": lambda: Case(
        step_of(nn.WithLossCell(GPT(dropout=0.0), NextTokenLoss())),
        lambda n: [ints(60, n, 32), ints(60, n, 32)], {0: (None, 32), 1: (None, 32)}, (8,),
        BATCHES[:8]),
    "lstm": lambda: Case(nn.LSTM(64, 128, batch_first=True).set_train(False),
                         lambda s: [floats(8, s, 64)], {0: (8, None, 64)}, (50,),
                         [(n,) for n in (5, 9, 16, 33, 50, 64, 100, 128, 150, 200)]),
    "lenet_step": lambda: Case(lenet_step(), lambda n: [floats(n, 1, 32, 32), ints(10, n)],
                               {0: (None, 1, 32, 32), 1: (None,)}, (32,), BATCHES),
    "pictures": lambda: Case(Pictures().set_train(False), lambda n: [floats(n, 3, 64, 64)],
                             {0: (None, 3, 64, 64)}, (4,), BATCHES[:6]),
    "resnet50": lambda: Case(ResNet50().set_train(False), lambda n, h, w: [floats(n, 3, h, w)],
                             {0: (None, 3, None, None)}, (2, 224, 224), IMAGES),
    "unet": lambda: Case(UNet().set_train(False), lambda n, h, w: [floats(n, 1, h, w)],
                         {0: (None, 1, None, None)}, (2, 224, 224), IMAGES),
}


def executable(program: Program, call: traced.Traced) -> Executable:
    """A program with the network's parameters bound."""
    made = Executable(program)
    made.bind([np.array(p.asnumpy()) for p in call.parameters])
    return made


def median(fn: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, ...]:
    """The medians of two functions that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for run, found in zip((fn, other), times, strict=True):
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return tuple(map(statistics.median, times))


def timed(build: Callable[[], Program]) -> tuple[Program, float]:
    """A program compiled with an empty cache, which also keeps kernels, and the seconds it took."""
    before = os.environ.get("CELLC_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CELLC_CACHE_DIR"] = folder
        try:
            start = time.perf_counter()
            return build(), time.perf_counter() - start
        finally:
            del os.environ["CELLC_CACHE_DIR"]
            if before is not None:
                os.environ["CELLC_CACHE_DIR"] = before


def run(name: str, case: Case, rounds: int) -> None:
    """Time one case and print it."""
    tensors = [ms.Tensor(a) for a in case.inputs(*case.first)]
    pattern = dynamic.make_pattern([t._type for t in tensors],
                                   [f"x{i}" for i in range(len(tensors))], case.axes, True)
    call = traced.trace(case.fn, tensors, {}, pattern.types, pattern.shapes)
    graph = instantiate(call.graph, pattern.bind([t._type for t in tensors]))
    timed(lambda: driver.compile_program(graph))  # loads LLVM
    known, alone = timed(lambda: driver.compile_program(graph))
    program, seconds = timed(lambda: open_sizes.compile_open(call.graph, pattern.shapes))
    assert program.open is not None
    print(f"{name}: compiled in {seconds / alone:.2f} of one known size ({seconds:.2f} s), code "
          f"{program.image.size / known.image.size:.2f} of it")
    ratios = []
    for sizes in case.sizes:
        arrays = case.inputs(*sizes)
        at = pattern.bind([ms.Tensor(a)._type for a in arrays])
        if refused := program.open.refusal(at):
            print(f"  {sizes}: another program ({refused})")
            continue
        opened = executable(program.at(at), call)
        fixed = executable(driver.compile_program(instantiate(call.graph, at)), call)
        a, b = median(lambda e=opened, x=arrays: e.call(x), lambda e=fixed, x=arrays: e.call(x),
                      rounds)
        ratios.append(a / b)
        print(f"  {sizes}: {a / b:.2f} ({a * 1e3:.3f} ms)")
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"  geometric mean {mean:.3f}, worst {max(ratios):.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    args = parser.parse_args()
    for name in args.cases:
        run(name, CASES[name](), args.rounds)


if __name__ == "__main__":
    main()
