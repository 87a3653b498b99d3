"""What docs/guide.md and README.md show runs, and prints what they say (by the rule in `shown`).

Their Python runs block after block, as one script each; their commands in order, in one folder.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc_runtime.target import AVX512, host_target

from .. import pages
from .shown import commands, difference

ROOT = Path(__file__).resolve().parents[2]

# What a block takes for granted, and what must hold behind it, by the block's first line.
BEFORE = {
    "from cellc.communication": "mine, rows = data, np.ones((4, 3))",
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
    "from cellc.compiled.traced import trace": """
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
    "import cellc_runtime": """
        saved = cellc_runtime.load("trained.cellc")
        assert all((saved.weights[n] == w).all() for n, w in net.weights.items())
    """,
    "from cellc.communication": """
        assert (data.get_dataset_size(), get_rank()) == (4, 0)
        ms.reset_auto_parallel_context()
        data = mine
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


def test_the_guide(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLC_GPU", "emulated")  # a block sets it: it is unset again behind this
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
    shown = re.search(r"^print\(net\(x\)\)\n```\n\n```\n(.*?)^```",
                      (ROOT / "docs" / "guide.md").read_text(encoding="utf-8"), re.M | re.S)
    assert shown is not None
    assert difference(shown.group(1).splitlines(), str(names["printed"]).splitlines()) == ""


def test_the_network_of_the_readme(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "script.py").write_text(blocks(ROOT / "README.md")[0], encoding="utf-8")
    runpy.run_path(str(folder / "script.py"))
    printed = capsys.readouterr().out.split()
    shown = re.search(r"^prints `(.*?)`", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert shown is not None
    want = shown.group(1).split()
    np.testing.assert_allclose(float(printed[0]), float(want[0]), rtol=0.05)
    np.testing.assert_allclose(float(printed[1]), float(want[1]), atol=0.01)
    if host_target() is AVX512:
        assert printed == want
    assert ms.get_context("mode") == ms.GRAPH_MODE


# --- commands ------------------------------------------------------------------------------------

STATUS = {"check": 1}


def given(folder: Path) -> None:
    """What the commands of the pages take for granted."""
    (folder / "samples").symlink_to(ROOT / "samples")
    (folder / "out").mkdir()
    image = np.zeros((1, 1, 32, 32), np.float32)
    np.save(folder / "out" / "x.npy", image)
    for step in pages.steps((ROOT / "docs/guide.md").read_text(encoding="utf-8")):
        if step.kind == "file":
            (folder / step.name).write_text(step.text, encoding="utf-8")


@pytest.mark.skipif(host_target() is not AVX512, reason="figures are those of such a machine")
@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_commands_print_what_the_page_shows(page: str, folder: Path) -> None:
    given(folder)
    env = {**os.environ, "CELLC_CACHE_DIR": str(folder / "cache"), "COLUMNS": "120"}
    ran = 0
    for command in commands(ROOT / page):
        program, *args = shlex.split(command.line, comments=True)
        start = {"cellc": ["-m", "cellc"], "python": []}[Path(program).name]
        done = subprocess.run([sys.executable, *start, *args], cwd=folder, env=env,
                              capture_output=True, text=True, timeout=600)
        refused = command.shown[:1] and command.shown[0].startswith("cellc: ")
        assert done.returncode == (2 if refused else STATUS.get(args[0], 0)), done.stderr
        printed = (done.stdout + done.stderr).rstrip().splitlines()
        if command.shown:
            assert difference(command.shown, printed) == "", "\n".join(printed)
        ran += 1
    assert ran > 4


@pytest.mark.parametrize(("shown", "printed", "same"), [
    ("wrote a.cellc: 279 KiB, 8 weights", "wrote a.cellc: 277 KiB, 8 weights", True),
    ("wrote a.cellc: 279 KiB, 8 weights", "wrote a.cellc: 250 KiB, 8 weights", False),
    ("wrote a.cellc: 279 KiB, 8 weights", "wrote a.cellc: 279 KiB, 9 weights", False),
    ("3.1 MiB of temporaries", "2.8 MiB of temporaries", False),
    ("wrote 23 files", "wrote 25 files", False),
    ("1.72 ms a call", "9.4 ms a call", True),
    ("1.72 ms a call", "9.4 us a call", True),
    ("1.72 ms a call", "9.4 KiB a call", False),
    ("30 us in 8 calls", "31 us in 9 calls", False),
    ("[[0.0162300 0.046]]", "[[ 0.0162301  0.046]]", False),
    ("[[0.0162300 0.046]]", "[[0.0162301  0.046]]", True),
    ("[[0.0162300 0.046]]", "[[0.0163301  0.046]]", False),
    ("  File \".../a.py\", line 3", "  File \"/x/y/a.py\", line 3", True),
    ("  File \".../a.py\", line 3", "  File \"/x/y/a.py\", line 4", False),
    ("within 3.2 ulps", "within 7.1 ulps", True),
    ("a\n...\nb 2", "a\nx\ny\nb 2", True),
    ("a\n...\nb 2", "a\nx\ny\nb 3", False),
    ("a\n...", "a", True),
    ("a", "a\nb", False),
    ("a\nb", "a", False),
    (" 1.2 us 20 matmul", "0.3 ms 11 add", True),
    ("▁▂▃", "█▁", True),
    ("▁▂▃", "x", False),
])
def test_the_rule(shown: str, printed: str, same: bool) -> None:
    assert (difference(shown.split("\n"), printed.split("\n")) == "") is same
