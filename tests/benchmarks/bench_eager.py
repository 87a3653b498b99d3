"""What one eager call costs: ops on tiny tensors, cellc in PyNative mode against torch eager.

    python tests/benchmarks/bench_eager.py [--rounds N] [CASE ...]

torch runs in the interpreter that `CELLC_PEERS_PYTHON` names (without it: cellc alone). The two
processes take turns, a round each, and the best round of each counts, so other work on the machine
disturbs neither more than the other. Prints microseconds per call and the ratio cellc / torch,
worst first. Views of torch that share memory are made whole (`contiguous`), as cellc's results are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[], Any]
CALLS = 100


def arrays() -> dict[str, Any]:
    """The operands of all cases."""
    rng = np.random.default_rng(0)

    def new(*shape: int) -> Any:
        return rng.random(shape).astype(np.float32)

    return {
        "x": new(4, 8), "y": new(4, 8), "w": new(8, 8), "b": new(8), "g": new(8),
        "image": new(1, 3, 8, 8), "kernel": new(4, 3, 3, 3),
        "mask": new(4, 8) > 0.5, "index": np.array([0, 2]), "table": new(16, 8),
        "ids": rng.integers(0, 16, (2, 4)), "labels": rng.integers(0, 8, 4),
        "rows": rng.integers(0, 4, (4, 8)), "n": new(1), "third": new(2, 4, 8), "u": new(4, 1),
    }  # fmt: skip


def alike(x: Any, y: Any) -> dict[str, Case]:
    """What is written the same way in both."""
    return {
        "x + y": lambda: x + y, "x * 2.5": lambda: x * 2.5, "-x": lambda: -x,
        "x > y": lambda: x > y, "x ** 2": lambda: x**2, "x.exp()": lambda: x.exp(),
        "x.sum()": lambda: x.sum(), "x.sum(1)": lambda: x.sum(1), "x.mean()": lambda: x.mean(),
        "x.max()": lambda: x.max(), "x.argmax(1)": lambda: x.argmax(1),
        "x.reshape": lambda: x.reshape(8, 4), "x[0]": lambda: x[0], "x[1:3]": lambda: x[1:3],
        "x[:, 2]": lambda: x[:, 2], "x.shape": lambda: x.shape, "x.abs()": lambda: x.abs(),
        "x - y": lambda: x - y, "1 / x": lambda: 1 / x, "x == y": lambda: x == y,
        "x >= 0.5": lambda: x >= 0.5, "x @ y.T": lambda: x @ y.T, "x.dtype": lambda: x.dtype,
        "x.var(1)": lambda: x.var(1), "x.sqrt()": lambda: x.sqrt(), "x.tanh()": lambda: x.tanh(),
        "x[:, 1:3]": lambda: x[:, 1:3], "x[None]": lambda: x[None], "x[1, 2]": lambda: x[1, 2],
        "x[-1]": lambda: x[-1], "x[..., 0]": lambda: x[..., 0], "x.T": lambda: x.T,
        "x / 2": lambda: x / 2, "x % 0.3": lambda: x % 0.3, "x // 0.3": lambda: x // 0.3,
        "2 - x": lambda: 2 - x, "x < y": lambda: x < y, "x ** 0.5": lambda: x**0.5,
        "x.mean(1)": lambda: x.mean(1), "x.std()": lambda: x.std(), "x.log()": lambda: x.log(),
        "x.sigmoid()": lambda: x.sigmoid(), "x.view": lambda: x.view(8, 4),
        "x.flatten()": lambda: x.flatten(), "x.argmax()": lambda: x.argmax(),
        "x.min()": lambda: x.min(), "x.prod()": lambda: x.prod(), "len(x)": lambda: len(x),
        "x.ndim": lambda: x.ndim, "isinstance": lambda: isinstance(x, type(y)),
        "x.square()": lambda: x.square(), "x.permute": lambda: x.permute(1, 0),
        "(x > y).any()": lambda: (x > y).any(), "(x > y).all()": lambda: (x > y).all(),
        "x.sum(-1, keepdim)": lambda: x.sum(-1, keepdim=True),
    }  # fmt: skip


def named(ops: Any, t: dict[str, Any]) -> dict[str, Case]:
    """Functions of one name and one meaning in both libraries."""
    x, y, third, mask = t["x"], t["y"], t["third"], t["mask"]
    return {
        "sigmoid": lambda: ops.sigmoid(x), "tanh": lambda: ops.tanh(x), "log": lambda: ops.log(x),
        "add": lambda: ops.add(x, y), "mul": lambda: ops.mul(x, 0.5), "abs": lambda: ops.abs(x),
        "maximum": lambda: ops.maximum(x, y), "erf": lambda: ops.erf(x),
        "sum": lambda: ops.sum(x), "mean": lambda: ops.mean(x, 1), "amax": lambda: ops.amax(x, 1),
        "argmax": lambda: ops.argmax(x, 1), "sort": lambda: ops.sort(x), "bmm":
        lambda: ops.bmm(third, third.swapaxes(1, 2)), "outer": lambda: ops.outer(t["b"], t["g"]),
        "dot": lambda: ops.dot(t["b"], t["g"]), "isnan": lambda: ops.isnan(x),
        "logical_not": lambda: ops.logical_not(mask), "floor": lambda: ops.floor(x),
        "squeeze": lambda: ops.squeeze(t["n"], 0), "chunk": lambda: ops.chunk(x, 2),
        "flip": lambda: ops.flip(x, (1,)), "roll": lambda: ops.roll(x, 1, 0),
        "tril": lambda: ops.tril(x), "rsqrt": lambda: ops.rsqrt(x), "std": lambda: ops.std(x),
        "ones_like": lambda: ops.ones_like(x), "zeros": lambda: ops.zeros((4, 8)),
        "ones": lambda: ops.ones((4, 8)), "arange": lambda: ops.arange(8),
        "unbind": lambda: ops.unbind(x), "einsum": lambda: ops.einsum("ij,kj->ik", x, y),
        "logsumexp": lambda: ops.logsumexp(x, 1), "norm": lambda: ops.norm(x),
        "bool(t)": lambda: bool(t["n"]), "int(t)": lambda: int(t["n"]),
    }


def grown(x: Any, y: Any) -> Case:
    """`+=` on a tensor that is kept."""
    kept = [x * 1]

    def run() -> None:
        z = kept[0]
        z += y
        kept[0] = z

    return run


def written(x: Any) -> Case:
    """Rows that are overwritten."""
    z = x * 1

    def run() -> None:
        z[1] = 2.0

    return run


def lengths(x: Any) -> Case:
    """Elementwise work on parts of ever other lengths, as in a loop over sequences."""
    long = x.reshape(-1)
    parts = [long[:n] for n in range(1, 33)]

    def run() -> None:
        for p in parts:
            p + p

    return run


def of_cellc() -> dict[str, Case]:
    """The cases in cellc."""
    import cellc as ms
    from cellc import mint, nn, ops

    ms.set_context(mode=ms.PYNATIVE_MODE)
    t = {name: ms.Tensor(a) for name, a in arrays().items()}
    given = arrays()["x"]
    x, y, w, b, g = (t[n] for n in "xywbg")
    labels, conv = t["labels"].astype(ms.int32), nn.Conv2d(3, 4, 3, pad_mode="valid")
    net = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU(), nn.LayerNorm((8,)), nn.Dense(8, 8))
    learn = ms.value_and_grad(lambda v: ops.cross_entropy(net(v), labels), None,
                              net.trainable_params())
    dense, relu = nn.Dense(8, 8), nn.ReLU()
    trained = nn.Dense(8, 1)
    step = nn.SGD(trained.trainable_params(), 0.1)
    both = ms.value_and_grad(lambda v: trained(v).sum(), None, trained.trainable_params())
    grads = both(x)[1]
    learnt = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU(), nn.Dense(8, 8))
    update, adam = nn.SGD(learnt.trainable_params(), 0.1), nn.Adam(net.trainable_params(), 0.1)
    loss = ms.value_and_grad(lambda v: ops.cross_entropy(learnt(v), labels), None,
                             learnt.trainable_params())
    of_net = learn(x)[1]
    chain = ms.grad(lambda v: (ops.relu(v * 2.0) + 1.0).sum())
    norm, table = nn.LayerNorm((8,)), nn.Embedding(16, 8)
    flat, gelu, still = nn.Flatten(), nn.GELU(), nn.Dropout(p=0.5).set_train(False)
    bn = nn.BatchNorm2d(3).set_train(False)
    tiny = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU())

    def train() -> None:
        update(loss(x)[1])

    return {
        **alike(x, y), **named(ops, t), "linear": lambda: ops.dense(x, w, b),
        "nll_loss": lambda: ops.nll_loss(x, labels), "mse_loss": lambda: ops.mse_loss(x, y),
        "asnumpy()": lambda: x.asnumpy(), "tolist()": lambda: t["b"].tolist(),
        "from numpy": lambda: ms.Tensor(given), "one_hot": lambda: ops.one_hot(labels, 8),
        "pad": lambda: ops.pad(x, (1, 1)), "normalize": lambda: mint.nn.functional.normalize(x),
        "leaky_relu": lambda: ops.leaky_relu(x, 0.1), "max(1)": lambda: ops.max(x, 1),
        "batch_norm": lambda: bn(t["image"]), "layer: LayerNorm": lambda: norm(x),
        "layer: Embedding": lambda: table(t["ids"]), "layer: GELU": lambda: gelu(x),
        "layer: Flatten": lambda: flat(x), "layer: Dropout": lambda: still(x),
        "adam step": lambda: adam(of_net), "training step": train,
        "gradient of 4 ops": lambda: chain(x), "tiny net": lambda: tiny(x),
        "exp": lambda: ops.exp(x), "relu": lambda: ops.relu(x),
        "matmul": lambda: ops.matmul(x, w), "transpose": lambda: x.transpose(1, 0),
        "x[index]": lambda: x[t["index"]], "cat": lambda: ops.cat((x, y)),
        "stack": lambda: ops.stack((x, y)), "split": lambda: ops.split(x, 4, 1),
        "softmax": lambda: ops.softmax(x, -1),
        "layer_norm": lambda: ops.layer_norm(x, (8,), g, b),
        "conv2d": lambda: ops.conv2d(t["image"], t["kernel"]),
        "where": lambda: ops.where(t["mask"], x, y), "cast": lambda: x.astype(ms.float64),
        "clamp": lambda: ops.clamp(x, 0.0, 1.0), "gelu": lambda: ops.gelu(x),
        "expand_dims": lambda: ops.expand_dims(x, 0), "layer: Dense": lambda: dense(x),
        "layer: ReLU": lambda: relu(x), "value_and_grad": lambda: both(x),
        "optimizer step": lambda: step(grads), "x += y": grown(x, y), "x[1] = 2": written(x),
        "32 lengths": lengths(x), "item()": lambda: t["n"].item(),
        "float(t)": lambda: float(t["n"]), "x + row": lambda: x + b,
        "x * column": lambda: x * t["u"], "batched matmul": lambda: ops.matmul(t["third"], w),
        "addmm": lambda: ops.addmm(b, x, w),
        "gather": lambda: ops.gather_elements(x, 0, t["rows"]),
        "embedding": lambda: ops.embedding(t["ids"], t["table"]),
        "dropout": lambda: ops.dropout(x, 0.5),
        "cross_entropy": lambda: ops.cross_entropy(x, labels),
        "masked_fill": lambda: ops.masked_fill(x, t["mask"], 0.0), "silu": lambda: ops.silu(x),
        "log_softmax": lambda: ops.log_softmax(x, -1), "cumsum": lambda: ops.cumsum(x, 1),
        "topk": lambda: ops.topk(x, 2), "zeros_like": lambda: ops.zeros_like(x),
        "max_pool2d": lambda: ops.max_pool2d(t["image"], 2),
        "layer: Conv2d": lambda: conv(t["image"]), "net of 4 layers": lambda: net(x),
        "its gradient": lambda: learn(x),
    }  # fmt: skip


def of_torch() -> dict[str, Case]:
    """The cases in torch."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)
    t = {name: torch.from_numpy(a) for name, a in arrays().items()}
    given = arrays()["x"]
    x, y, w, b, g = (t[n] for n in "xywbg")
    labels, conv = t["labels"], torch.nn.Conv2d(3, 4, 3, bias=False).requires_grad_(False)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8),
                              torch.nn.Linear(8, 8))
    dense, relu = torch.nn.Linear(8, 8).requires_grad_(False), torch.nn.ReLU()
    trained = torch.nn.Linear(8, 1)
    step = torch.optim.SGD(trained.parameters(), 0.1)
    learnt = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    update, adam = torch.optim.SGD(learnt.parameters(), 0.1), torch.optim.Adam(net.parameters())
    norm, table = torch.nn.LayerNorm(8).requires_grad_(False), torch.nn.Embedding(16, 8)
    flat, gelu, still = torch.nn.Flatten(), torch.nn.GELU(), torch.nn.Dropout(0.5).eval()
    bn = torch.nn.BatchNorm2d(3).eval().requires_grad_(False)
    tiny = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).requires_grad_(False)
    table.requires_grad_(False)

    def train() -> None:
        update.zero_grad()
        F.cross_entropy(learnt(x), labels).backward()
        update.step()

    def chain() -> None:
        v = x.detach().requires_grad_()
        (torch.relu(v * 2.0) + 1.0).sum().backward()

    def both() -> None:
        step.zero_grad()
        trained(x).sum().backward()

    def learn() -> None:
        net.zero_grad()
        F.cross_entropy(net(x), labels).backward()

    def forward() -> Any:
        with torch.no_grad():
            return net(x)

    both()
    learn()
    return {
        **alike(x, y), **named(torch, t), "linear": lambda: F.linear(x, w, b),
        "nll_loss": lambda: F.nll_loss(x, labels), "mse_loss": lambda: F.mse_loss(x, y),
        "asnumpy()": lambda: x.numpy(), "tolist()": lambda: t["b"].tolist(),
        "from numpy": lambda: torch.tensor(given), "one_hot": lambda: F.one_hot(labels, 8),
        "pad": lambda: F.pad(x, (1, 1)), "normalize": lambda: F.normalize(x),
        "leaky_relu": lambda: F.leaky_relu(x, 0.1), "max(1)": lambda: torch.max(x, 1),
        "batch_norm": lambda: bn(t["image"]), "layer: LayerNorm": lambda: norm(x),
        "layer: Embedding": lambda: table(t["ids"]), "layer: GELU": lambda: gelu(x),
        "layer: Flatten": lambda: flat(x), "layer: Dropout": lambda: still(x),
        "adam step": adam.step, "training step": train, "gradient of 4 ops": chain,
        "tiny net": lambda: tiny(x), "exp": lambda: torch.exp(x), "relu": lambda: torch.relu(x),
        "matmul": lambda: torch.matmul(x, w), "transpose": lambda: x.transpose(1, 0).contiguous(),
        "x[index]": lambda: x[t["index"]], "cat": lambda: torch.cat((x, y)),
        "stack": lambda: torch.stack((x, y)),
        "split": lambda: [v.contiguous() for v in torch.split(x, 4, 1)],
        "softmax": lambda: torch.softmax(x, -1), "layer_norm": lambda: F.layer_norm(x, (8,), g, b),
        "conv2d": lambda: F.conv2d(t["image"], t["kernel"]),
        "where": lambda: torch.where(t["mask"], x, y), "cast": lambda: x.to(torch.float64),
        "clamp": lambda: torch.clamp(x, 0.0, 1.0), "gelu": lambda: F.gelu(x),
        "expand_dims": lambda: x.unsqueeze(0), "layer: Dense": lambda: dense(x),
        "layer: ReLU": lambda: relu(x), "value_and_grad": both, "optimizer step": step.step,
        "x += y": grown(x, y), "x[1] = 2": written(x), "32 lengths": lengths(x),
        "item()": lambda: t["n"].item(), "float(t)": lambda: float(t["n"]),
        "x + row": lambda: x + b, "x * column": lambda: x * t["u"],
        "batched matmul": lambda: torch.matmul(t["third"], w),
        "addmm": lambda: torch.addmm(b, x, w), "gather": lambda: torch.gather(x, 0, t["rows"]),
        "embedding": lambda: F.embedding(t["ids"], t["table"]),
        "dropout": lambda: F.dropout(x, 0.5), "cross_entropy": lambda: F.cross_entropy(x, labels),
        "masked_fill": lambda: torch.masked_fill(x, t["mask"], 0.0), "silu": lambda: F.silu(x),
        "log_softmax": lambda: torch.log_softmax(x, -1), "cumsum": lambda: torch.cumsum(x, 1),
        "topk": lambda: torch.topk(x, 2), "zeros_like": lambda: torch.zeros_like(x),
        "max_pool2d": lambda: F.max_pool2d(t["image"], 2),
        "layer: Conv2d": lambda: conv(t["image"]), "net of 4 layers": forward,
        "its gradient": learn,
    }  # fmt: skip


def serve(library: str) -> None:
    """Time every case once for each line on standard input."""
    cases = of_cellc() if library == "cellc" else of_torch()
    print(json.dumps(sorted(cases)), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        print(json.dumps({n: timed(c) for n, c in cases.items() if n in wanted}), flush=True)


def timed(case: Case) -> float:
    """Microseconds of one call, the best of three short runs."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(CALLS):
            case()
        best = min(best, time.perf_counter() - start)
    return best / CALLS * 1e6


class Worker:
    """A process that times the cases of one library."""

    def __init__(self, library: str, python: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--serve", library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.names: list[str] = self._answer()
        self.best: dict[str, float] = {}

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the worker ended; its error stands above")
        return json.loads(line)

    def round(self, wanted: list[str]) -> None:
        """One round of these cases."""
        assert self._process.stdin is not None
        print(json.dumps(wanted), file=self._process.stdin, flush=True)
        for name, time_ in self._answer().items():
            self.best[name] = min(time_, self.best.get(name, time_))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(rounds: int, wanted: list[str]) -> dict[str, dict[str, float]]:
    """The best time of each case by library."""
    pythons = {"cellc": sys.executable, "torch": os.environ.get("CELLC_PEERS_PYTHON")}
    workers = {name: Worker(name, python) for name, python in pythons.items() if python}
    names = workers["cellc"].names
    unknown = set(wanted) - set(names)
    if unknown:
        raise SystemExit(f"no cases {sorted(unknown)}; there are {', '.join(names)}")
    for _ in range(rounds):
        for worker in workers.values():
            worker.round(wanted or names)
    for worker in workers.values():
        worker.close()
    return {name: worker.best for name, worker in workers.items()}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--serve", choices=("cellc", "torch"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    found = compare(args.rounds, args.cases)
    torch = found.get("torch", {})
    print(f"{'':16}{'cellc':>9}{'torch':>9}{'ratio':>8}")
    ratios = {n: t / torch[n] if n in torch else 0.0 for n, t in found["cellc"].items()}
    for name in sorted(ratios, key=lambda n: -ratios[n]):
        other = f"{torch[name]:9.2f}{ratios[name]:8.2f}" if name in torch else ""
        print(f"{name:16}{found['cellc'][name]:9.2f}{other}")


if __name__ == "__main__":
    main()
