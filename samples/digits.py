"""LeNet-5 on real handwritten digits, from training to a verified ahead-of-time artifact.

The digits are the 1797 scans of 8x8 pixels that scikit-learn ships, enlarged to 24x24 with a
margin of 4. The training step (forward, backward, update) is one compiled graph. Then the command
line compiles the trained network into `out/digits.cellc`, `serve.py` runs that file in a process
that has the runtime only, and `cellc dump` and `cellc verify` look at the same network.
Everything is written below `./out/`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from lenet import LeNet5
from sklearn.datasets import load_digits

import cellc as ms
from cellc import nn
from cellc.cli import main as cellc
from cellc_runtime import checkpoint

OUT = Path("out")
WEIGHTS = OUT / "digits.safetensors"
BATCH, EPOCHS, TESTED, SHIFT = 64, 30, 360, 2

Array = np.ndarray[Any, Any]


class Trained(LeNet5):
    """LeNet-5 with the weights that training left behind; what the command line compiles."""

    def __init__(self):
        super().__init__()
        arrays = checkpoint.load(WEIGHTS)
        for name, parameter in self.parameters_dict().items():
            parameter.set_data(ms.Tensor(np.array(arrays[name])))


def load_data() -> tuple[Array, Array, Array, Array]:
    """Images float32 (N, 1, 32, 32) and labels int32 (N) to train on, then to test on."""
    digits = load_digits()
    enlarged = np.kron(digits.images / 16.0, np.ones((3, 3)))
    images = np.pad(enlarged, ((0, 0), (4, 4), (4, 4)))[:, None].astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    test, rest = order[:TESTED], order[TESTED:]
    return images[rest], labels[rest], images[test], labels[test]


def train_step(net: nn.Cell, batches: int) -> nn.Cell:
    """One step of training, whose learning rate falls to zero over the epochs."""
    rates = nn.cosine_decay_lr(0.0, 0.05, EPOCHS * batches, batches, EPOCHS)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), rates, momentum=0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def train(net: nn.Cell, images: Array, labels: Array, test: Array, truth: Array) -> float:
    """Train on digits shifted at random; the accuracy on the test digits at the end."""
    batches = len(labels) // BATCH
    step = train_step(net, batches)
    rng = np.random.default_rng(1)
    accuracy = 0.0
    for epoch in range(1, EPOCHS + 1):
        start = time.perf_counter()
        losses = []
        for chosen in rng.permutation(len(labels))[: batches * BATCH].reshape(batches, BATCH):
            shift = tuple(rng.integers(-SHIFT, SHIFT + 1, 2))
            x = np.roll(images[chosen], shift, (2, 3))
            losses.append(step(ms.Tensor(x), ms.Tensor(labels[chosen])))
        seconds = time.perf_counter() - start
        accuracy = float(np.mean(net(ms.Tensor(test)).asnumpy().argmax(1) == truth))
        mean = np.mean([loss.asnumpy() for loss in losses])
        if epoch == 1 or epoch % 5 == 0:
            note = " (compiling included)" if epoch == 1 else ""
            print(f"epoch {epoch:2}  loss {mean:.4f}  test accuracy {accuracy:.2%}  "
                  f"{seconds:.2f} s{note}", flush=True)
    return accuracy


def command(*args: str) -> None:
    """Run a command of the `cellc` command line.

    Raises:
        SystemExit: it failed.
    """
    print(f"\n$ cellc {' '.join(args)}", flush=True)
    if status := cellc(args):
        raise SystemExit(status)


def main() -> None:
    """Train, compile, serve, dump, verify."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    images, labels, test, truth = load_data()
    print(f"{len(labels)} digits to train on, {len(truth)} to test on")
    net = LeNet5()
    accuracy = train(net, images, labels, test, truth)

    OUT.mkdir(exist_ok=True)
    checkpoint.save(WEIGHTS, {n: p.asnumpy() for n, p in net.parameters_dict().items()})
    np.save(OUT / "images.npy", test)
    network = f"{Path(__file__)}:Trained"
    command("compile", network, "--input", f"x=float32[{TESTED},1,32,32]",
            "-o", str(OUT / "digits.cellc"))
    serve = [str(Path(__file__).with_name("serve.py")), str(OUT / "digits.cellc"),
             str(OUT / "images.npy"), str(OUT / "logits.npy")]
    print(f"\n$ python {' '.join(serve)}", flush=True)
    subprocess.run([sys.executable, *serve], check=True)
    same = np.array_equal(np.load(OUT / "logits.npy"), net(ms.Tensor(test)).asnumpy())
    command("dump", network, "--input", "x=float32[1,1,32,32]", "-o", str(OUT / "dump"))
    command("verify", network, "--input", f"x=@{OUT / 'images.npy'}", "--grad")

    print(f"\ntest accuracy {accuracy:.2%}; the artifact's outputs are "
          f"{'the same bits' if same else 'NOT those of the network'}")
    if accuracy < 0.97 or not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
