"""What docs/guide.md and README.md show in Python runs, block after block, as one script each."""

from __future__ import annotations

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import cellc as ms

ROOT = Path(__file__).resolve().parents[2]

# What a block takes for granted, and what must hold behind it, by the block's first line.
BEFORE = {
    "def energy(x):": """
        direction = ms.Tensor(np.ones((3, 4), np.float32))
        images = ms.Tensor(np.ones((2, 3, 4), np.float32))
        nets = [nn.Dense(4, 2) for _ in range(2)]
        batches = ms.Tensor(np.ones((2, 3, 4), np.float32))
    """,
    "loss = nn.SoftmaxCrossEntropyWithLogits": """
        images = ms.Tensor(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4))
        labels = ms.Tensor(np.arange(8, dtype=np.int32) // 4)
    """,
    "from cellc.train import": """
        train_batches = valid_batches = test_batches = [(images.asnumpy(), labels.asnumpy())]
    """,
    "import cellc.dataset as ds": """
        import struct
        from pathlib import Path
        Path("MNIST_Data").mkdir()
        for part, magic, lengths in (("images-idx3", 0x803, (70, 28, 28)),
                                     ("labels-idx1", 0x801, (70,))):
            header = struct.pack(f">{1 + len(lengths)}I", magic, *lengths)
            file = Path(f"MNIST_Data/train-{part}-ubyte")
            file.write_bytes(header + bytes(int(np.prod(lengths))))
        kept = net, step, model
        net = nn.SequentialCell(nn.Flatten(), nn.Dense(784, 2))
        step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), nn.SGD(net.trainable_params()))
        model = Model(net, loss, nn.SGD(net.trainable_params()), metrics={"acc"})
        valid_data = [(np.zeros((1, 1, 28, 28), np.float32), np.zeros(1, np.int32))]
    """,
    "net.to_float(ms.float16)": """
        net = nn.SequentialCell(nn.Dense(4, 2), nn.LayerNorm((2,)))
        net.norm = net[1]
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    """,
    "for block in net.blocks:": """
        class Deep(nn.Cell):
            def __init__(self):
                super().__init__()
                self.blocks = nn.CellList([nn.Dense(4, 4) for _ in range(2)])

            def construct(self, x):
                for block in self.blocks:
                    x = ops.tanh(block(x))
                return x.sum()

        net = Deep()
    """,
    "step = ms.recompute(": """
        forward, weights, epochs, data = net, net.trainable_params(), 1, train_batches
    """,
    "ms.save_checkpoint(": "net, other = Net(), Net()",
    "net.set_train(False)": """
        net = nn.SequentialCell(nn.Conv2d(3, 2, 3), nn.ReLU())
        x = ms.Tensor(np.ones((1, 3, 32, 32), np.float32))
    """,
    "@ms.jit\ndef smallest_first": """
        net, x = Net(), ms.Tensor(np.arange(12, dtype=np.float32)[::-1].reshape(3, 4))
    """,
    "net.set_inputs(": "net = nn.Dense(784, 2)",
    "import cellc_runtime": """
        from cellc.cli import main
        assert main(["compile", ROOT + "/samples/lenet.py:LeNet5", "-o", "lenet.cellc",
                     "--input", "x=float32[1,1,32,32]", "--train", "train_step",
                     "--train-input", "x=float32[1,1,32,32]",
                     "--train-input", "label=int32[1]"]) == 0
        x, label = np.zeros((1, 1, 32, 32), np.float32), np.zeros(1, np.int32)
    """,
    "from cellc.compiled.entries import trace": """
        net, x = Net(), ms.Tensor(np.ones((3, 4), np.float32))
    """,
}
AFTER = {
    "import numpy as np": "printed = net(x).asnumpy()",
    "@ms.jit\ndef show": "show(x)",
    "def energy(x):": """
        assert hessian(x).shape == (3, 4, 3, 4) and many.shape == (2, 3, 2)
        assert [g.shape[0] for g in grads] == [2] * 4
    """,
    "class Clipped": "assert (y.asnumpy() <= 1).all()",
    "@ms.jit\ndef step": "assert step(x) != step(x)",
    "class Step": """
        by_hand = Step(nn.WithLossCell(net, loss), optimizer, 2)
        old = net.fc1.weight.asnumpy().copy()
        by_hand(images, labels)
        assert (net.fc1.weight.asnumpy() == old).all()
        by_hand(images, labels)
        assert (net.fc1.weight.asnumpy() != old).any()
    """,
    "import cellc.dataset as ds": """
        assert (data.get_dataset_size(), label.dtype) == (2, ms.int32)
        net, step, model = kept
    """,
    "net.to_float(ms.float16)": "assert np.isfinite(step(images, labels)[0].asnumpy())",
    "step = ms.recompute(": "step(x)",
    "ms.save_checkpoint(": "assert (again(x).asnumpy() == other(x).asnumpy()).all()",
    "@ms.jit\ndef smallest_first": """
        assert (smallest_first(x).asnumpy()[:, ::-1] == x.asnumpy()).all()
    """,
    "net.set_inputs(": """
        sizes = [net(ms.Tensor(np.ones((n, 784), np.float32))).shape[0] for n in (2, 5)]
        assert sizes == [2, 5]
    """,
}


def blocks(page: Path) -> list[str]:
    """The Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def around(block: str, table: dict[str, str], used: set[str]) -> str:
    """The lines of a table for a block."""
    found = [key for key in table if block.startswith(key)]
    used.update(found)
    return "\n".join(re.sub(r"^ {8}", "", table[key], flags=re.M) for key in found)


def test_the_guide(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used: set[str] = set()
    parts = [f"ROOT = {str(ROOT)!r}"]
    for block in blocks(ROOT / "docs" / "guide.md"):
        lines = (around(block, BEFORE, used), block, around(block, AFTER, used))
        if find_spec("onnx") is not None or "ONNX" not in block:
            parts += lines
    assert used == {*BEFORE, *AFTER}, "a block that the tables speak of is gone"
    (folder / "script.py").write_text("\n".join(parts), encoding="utf-8")
    names = runpy.run_path(str(folder / "script.py"))
    out = capsys.readouterr().out
    assert "sum 12.0 shape (3, 4)" in out
    # The page shows the digits of one target.
    np.testing.assert_allclose(names["printed"], [[0.01623002, 0.0468331]] * 3, rtol=1e-4)


def test_the_network_of_the_readme(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "script.py").write_text(blocks(ROOT / "README.md")[0], encoding="utf-8")
    runpy.run_path(str(folder / "script.py"))
    loss, right = map(float, capsys.readouterr().out.split())
    assert loss == pytest.approx(0.02221643, rel=0.05) and right == pytest.approx(0.995, abs=0.01)
    assert ms.get_context("mode") == ms.GRAPH_MODE
