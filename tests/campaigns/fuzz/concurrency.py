"""Trials of many threads that call, differentiate, compile and change networks at once.

Every thread does a list of jobs in an order of its own; each job gives what it gives alone.
Some jobs share one Cell, whose shapes are new to it now and then, so that one thread compiles
while others call; others have Cells of their own and train them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn, ops

from ...modes.law import Array, arrays_of, mode
from .finding import Finding, Trial
from .network import Different, same

SUFFIX = ".seed"
_THREADS = 6
_SECONDS = 120.0
"""After which threads wait for one another for ever."""


class Shared(nn.Cell):
    """What all threads call."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = nn.Dense(6, 6), nn.LayerNorm((6,))

    def construct(self, x: Tensor) -> Tensor:
        y = self.norm(self.dense(x))
        return ops.softmax(y, -1) if x.shape[0] % 2 else ops.relu(y).sum(0)


def _input(rng: np.random.Generator, rows: int) -> Tensor:
    return Tensor(rng.standard_normal((rows, 6)).astype(np.float32))


def _train(net: nn.Cell, seed: int) -> list[Array]:
    """Three steps of a network of the thread's own."""
    rng = np.random.default_rng(seed)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Adam(net.trainable_params(), 0.01))
    found = [a for _ in range(3) for a in arrays_of(step(_input(rng, 4), _input(rng, 4)))]
    return found + [np.array(p._data) for p in net.trainable_params()]


def jobs(seed: int) -> list[Callable[[], list[Array]]]:
    """What threads do; the same for a seed. Networks are made here, outside of any trace."""
    rng = np.random.default_rng(seed)
    ms.set_seed(seed)
    shared = Shared()
    weight = np.array(shared.dense.weight._data)
    made: list[Callable[[], list[Array]]] = []
    for k in range(int(rng.integers(4, 9))):
        rows, own = int(rng.integers(1, 12)), int(rng.integers(1 << 30))
        net = nn.SequentialCell(nn.Dense(6, 5), nn.Tanh(), nn.Dense(5, 6))

        def call(rows: int = rows, own: int = own) -> list[Array]:
            return arrays_of(shared(_input(np.random.default_rng(own), rows)))

        def slope(rows: int = rows, own: int = own) -> list[Array]:
            given = _input(np.random.default_rng(own), rows)
            return arrays_of(ms.grad(lambda x: shared(x).sum())(given))

        def train(net: Any = net, own: int = own) -> list[Array]:
            return _train(net, own)

        def write() -> list[Array]:  # the same elements: readers see them before and after
            shared.dense.weight.set_data(Tensor(weight))
            return []

        made.append((call, slope, train, write)[k % 4])
    return made


def trial(seed: int) -> Trial:
    """The jobs alone, and by threads at once, in one of the modes."""
    in_mode = (ms.GRAPH_MODE, ms.PYNATIVE_MODE)[seed % 2]
    with mode(in_mode):
        alone = [job() for job in jobs(seed)]
        todo = jobs(seed)
        told = _at_once(todo, alone, seed)
    if told:
        return Trial(finding=Finding("concurrency", seed, told, f"{seed}\n{told}\n", SUFFIX))
    return Trial({"calls": _THREADS * len(todo)})


def _at_once(todo: list[Callable[[], list[Array]]], alone: list[list[Array]], seed: int) -> str:
    wrong: list[str] = []
    start = threading.Barrier(_THREADS)
    once = {k for k in range(len(todo)) if k % 4 == 2}  # a network is trained by one thread

    def work(number: int) -> None:
        order = np.random.default_rng([seed, number]).permutation(len(todo))
        start.wait()
        for k in map(int, order):
            if k in once and k % _THREADS != number:
                continue
            try:
                same(todo[k](), alone[k], f"job {k} among threads and alone")
            except Exception as e:
                kind = "Different" if isinstance(e, Different) else type(e).__name__
                wrong.append(f"{kind}: {e}".splitlines()[0])

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)
    if any(thread.is_alive() for thread in threads):
        return "threads wait for one another for ever"
    return wrong[0] if wrong else ""


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    found = trial(int(path.read_text().split()[0])).finding
    return found.what if found else ""
