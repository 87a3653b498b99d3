"""`torch.compile(model, backend="cellc")` against eager torch."""

from __future__ import annotations

import logging
import math
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from torch import nn
from torch.nn import functional as F

import cellc as ms
from cellc import torch_backend
from cellc.torch_backend.program import Part, array_over, torch_of

ROOT = Path(__file__).parents[2]
Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch_backend.report(clear=True)
    yield
    torch._dynamo.reset()


def compiled(fn: Any, **options: Any) -> Any:
    """A function or module compiled by the backend."""
    return torch.compile(fn, backend=torch_backend.compile_graph, **options)


def close(a: Any, b: Any, most: float = 1e-5) -> None:
    """Equal in types and shapes, and nearly in values."""
    if isinstance(b, (tuple, list)):
        for x, y in zip(a, b, strict=True):
            close(x, y, most)
        return
    assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
    torch.testing.assert_close(a, b, rtol=most, atol=most, equal_nan=True)


class Net(nn.Module):
    """A convolution, statistics, and a layer over what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.out = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.out(F.silu(self.bn(self.conv(x))).mean((2, 3)))


def test_sizes_that_change_compile_once_more() -> None:
    """The first other size makes torch open it; all later ones run the same program."""
    net = Net().eval()
    fn = compiled(net)
    made: list[Part] = []
    with torch.no_grad():
        for n, h in ((2, 8), (3, 9), (5, 12), (7, 10), (4, 31)):
            x = torch.rand(n, 3, h, h)
            close(fn(x), net(x))
            made.append(torch_backend.report()[-1])
    assert len(torch_backend.report()) == 2 and made[1] is made[-1]
    assert all(not g.missing and not g.notes and g.parts == 1 for g in made)


def test_sizes_that_are_open_from_the_start() -> None:
    """Numbers that follow from sizes are computed with them, also those that are results."""
    def fn(x: Tensor) -> tuple[Any, ...]:
        n = x.shape[0]
        return x.reshape(n * 2, -1).sum(0), x + n, torch.arange(n), n * 3

    open_ = compiled(fn, dynamic=True)
    for n in (2, 5, 9):
        x = torch.rand(n, 4)
        *a, size = open_(x)
        *b, wanted = fn(x)
        close(a, b)
        assert size == wanted
    assert len(torch_backend.report()) == 1


def test_weights_are_those_of_now() -> None:
    """Steps of an optimizer, writes past the version counter and new tensors are all seen."""
    net = Net().eval()
    fn, x = compiled(net), torch.rand(2, 3, 8, 8)

    def through_numpy() -> None:
        net.out.bias.detach().numpy()[:] = 5

    def replaced() -> None:
        net.out.weight = nn.Parameter(torch.rand(3, 4))

    with torch.no_grad():
        close(fn(x), net(x))
        for change in (lambda: net.out.weight.mul_(2), lambda: net.out.weight.data.mul_(3),
                       through_numpy, replaced, lambda: net.load_state_dict(Net().state_dict()),
                       lambda: net.bn.running_mean.add_(1)):
            before = fn(x)
            change()
            close(fn(x), net(x))
            assert not torch.equal(before, fn(x))


def test_memory_is_shared() -> None:
    """Arguments are read where they are, and results are not copied."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        t = torch.ones(4, 5).to(dtype)
        assert array_over(t).ctypes.data == t.data_ptr()
        back = torch_of(ms.Tensor(array_over(t)))
        assert back.dtype is dtype and torch.equal(back, t)
    y = ms.Tensor(np.ones(3, np.float32))
    assert torch_of(y).data_ptr() == y.asnumpy().ctypes.data


def test_operators_that_are_missing_split_the_graph(caplog: Any) -> None:
    """They run in torch, are counted, and are warned of once."""
    def fn(x: Tensor) -> Tensor:
        y = torch.linalg.svdvals(x @ x.T) + 1
        return torch.fft.rfft(y.relu()).abs() + y.sum()

    x = torch.rand(4, 4)
    with caplog.at_level(logging.WARNING, logger="cellc"):
        close(compiled(fn)(x), fn(x))
        torch._dynamo.reset()
        close(compiled(fn)(x), fn(x))
    found = torch_backend.report()[0]
    assert {m.op for m in found.missing} >= {"aten._linalg_svd.default", "aten._fft_r2c.default"}
    assert found.parts >= 3 and "aten._fft_r2c.default (1): no rule" in str(found)
    texts = [r.getMessage() for r in caplog.records]
    assert sum("torch runs" in t for t in texts) == 1
    assert "aten._linalg_svd.default (1): no rule" in texts[0]


def test_a_rule_that_does_not_give_torchs_shape_leaves_the_node_to_torch(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node is tried on its own types."""
    monkeypatch.setitem(torch_backend.RULES, "aten.sin", lambda c, x: ms.ops.sum(x))
    x = torch.rand(3)
    close(compiled(lambda t: t.sin() * 2)(x), x.sin() * 2)
    assert [m.why for m in torch_backend.report()[0].missing] == ["the shape () instead of (3,)"]


def test_parts_that_cannot_be_compiled_run_in_torch(
        monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """First with a program for each size, then without; both are told."""
    calls = []

    def failing(self: Any, args: Any) -> Any:
        calls.append(self.is_open)
        raise ValueError("not today")

    monkeypatch.setattr(Part, "_program", failing)
    fn, x = compiled(lambda t: t * 2, dynamic=True), torch.rand(3)
    close(fn(x), x * 2)
    close(fn(x), x * 2)
    notes = torch_backend.report()[0].notes
    assert calls == [True, False]
    assert notes == ["each size has a program of its own: not today",
                     "torch runs a part of 4 nodes: not today"]
    assert "not today" in caplog.text


def test_training() -> None:
    """Gradients pass through programs for both directions."""
    net, twin = Net(), Net()
    twin.load_state_dict(net.state_dict())
    fn, x = compiled(net), torch.rand(4, 3, 8, 8)
    for _ in range(2):
        (fn(x) ** 2).sum().backward()
        (twin(x) ** 2).sum().backward()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        close(a.grad, b.grad, 1e-4)
    close(net.bn.running_mean, twin.bn.running_mean)


def test_changes_of_arguments_and_results_that_are_arguments() -> None:
    """In-place writes reach the caller's tensor; a copy is a copy, and a view a view."""
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.add_(1)
        return x, y, y.clone(), y.t(), y.view(-1)[1:]

    x, y = torch.rand(3), torch.rand(2, 3)
    a, b = x.clone(), y.clone()
    got, wanted = compiled(fn)(x, y), fn(a, b)
    close(got, wanted)
    close(x, a)
    assert got[0] is x and got[1] is y and got[2].data_ptr() != y.data_ptr()
    assert got[3].data_ptr() == y.data_ptr() and got[4].data_ptr() == y.data_ptr() + 4


X, Y = torch.rand(2, 8, 9, 9), torch.rand(4, 6)
PLACES = torch.tensor([0, 2, 1])


def _put(x: Tensor, places: Any, values: Tensor) -> Tensor:
    """A copy with other values at some places."""
    y = x.clone()
    y[places] = values
    return y


@pytest.mark.parametrize("fn, x", [
    (lambda x: x.unfold(2, 3, 2).unfold(3, 3, 3), X), (lambda x: x.unfold(1, 2, 1), Y),
    (lambda x: F.fold(x, (5, 5), 3), torch.rand(2, 72, 9)),
    (lambda x: _put(x, (slice(None), PLACES[:2]), x[:, :2]), Y),
    (lambda x: _put(x, (PLACES[::2], slice(None), PLACES[::2]), x[:, :, 0]), X),
    (lambda x: x.scatter(1, PLACES.expand(4, 3), x), Y),
    (lambda x: x.scatter_reduce(1, (x * 5).long(), x, "amax"), Y),
    (lambda x: (x.kthvalue(2, 1)[0], x.kthvalue(3)[0], x.median(1, True)[0], x.median(0)[0]), Y),
    (lambda x: torch.where(x > 0.5, math.nan, x).median(1)[0], Y),
    (lambda x: (torch.cdist(x, x + 1), torch.logaddexp(x, x), torch.addmv(x[:, 0], x, x[0])), Y),
    (lambda x: (torch.fmax(x, x.flip(0)), torch.fmin(x / (x - x), x)), Y),
    (lambda x: ((x > 0.5) * (x < 0.7), (x > 0.7) + (x < 0.2), torch.ldexp(x, PLACES[1])), Y),
    (lambda x: torch.bucketize(x, torch.tensor([0.2, 0.5, 0.9])), Y),
    (lambda x: x[tuple(torch.tril_indices(4, 4))], Y),
    (lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(4, 3, 2)) * 2), Y),
    (lambda x: (F.max_pool2d(x[0], 3), F.max_pool2d(x[0], 3, return_indices=True)[1],
                F.avg_pool2d(x[0], 2)), X),
    (lambda x: F.adaptive_max_pool3d(x[:, None, :, :8, :8], 2), X),
    (nn.InstanceNorm2d(8, affine=True), X), (nn.BatchNorm2d(8, track_running_stats=False), X)])
def test_graphs_that_are_whole(fn: Any, x: Tensor) -> None:
    """Operators outside of torch's core set, which need no part of torch."""
    with torch.no_grad():
        close(compiled(fn)(x), fn(x))
    assert all(not g.missing and not g.notes and g.parts == 1 for g in torch_backend.report())


def test_layouts_of_results() -> None:
    """Strides are those of eager torch, also where torch goes on with them."""
    conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        close(compiled(conv)(x), conv(x))
        y = torch.rand(3, 4, 5)
        fn = lambda t: torch.fft.rfft((t * 2).permute(2, 0, 1)).abs()  # noqa: E731
        close(compiled(fn)(y), fn(y))


def test_numbers_that_are_no_sizes() -> None:
    """An int of the caller's is a constant of its program."""
    fn = compiled(lambda t, n: t * n + 1, dynamic=True)
    x = torch.rand(3)
    for n in (2, 3, 5, 3):
        close(fn(x, n), x * n + 1)


def test_packed_weights_follow_those_of_torch() -> None:
    """Whatever torch counts is seen: changes in place, states that are loaded, other tensors."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                        nn.Linear(8 * 36, 4)).eval()
    fast = compiled(net, options={"freezing": True})
    with torch.no_grad():
        for n in (2, 3, 5):
            x = torch.rand(n, 3, 8, 8)
            close(fast(x), net(x))
        net[0].weight.mul_(2)
        close(fast(x), net(x))
        net.load_state_dict({k: v * 1.5 for k, v in net.state_dict().items()})
        close(fast(x), net(x), 1e-4)
        net[4].weight = nn.Parameter(torch.rand(4, 8 * 36))
        close(fast(x), net(x), 1e-4)
        before = fast(x)
        net[4].weight.data.mul_(3)  # (which torch does not count: the copy is what runs)
        close(fast(x), before)
    assert all(g.parts == 1 and not g.missing and not g.notes for g in torch_backend.report())


def test_packed_weights_that_are_results() -> None:
    net = nn.Linear(4, 4, bias=False)
    fast = compiled(lambda x: (F.linear(x, net.weight), net.weight * 1, net.weight.t()),
                    options={"freezing": True})
    with torch.no_grad():
        x = torch.rand(2, 4)
        y, same, turned = fast(x)
        same.zero_()
        close(fast(x)[0], y)
        close(turned, net.weight.t())


@pytest.mark.parametrize("options, why", [
    ({"fast": True}, "takes no 'mode', and no option but 'freezing'"),
    ({"freezing": 1}, "'freezing' must be a bool")])
def test_other_options_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(Exception, match=why):
        compiled(lambda t: t * 2, options=options)(torch.rand(3))


def run_script(program: str, folder: Path) -> str:
    """What a program prints in a process that has the package's entry points."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (folder / "some-1.dist-info").mkdir()
    (folder / "some-1.dist-info" / "METADATA").write_text("Name: some\nVersion: 1\n")
    lines = [f"{k} = {v}" for k, v in entry["torch_dynamo_backends"].items()]
    (folder / "some-1.dist-info" / "entry_points.txt").write_text(
        "\n".join(["[torch_dynamo_backends]", *lines]))
    start = f"import sys; sys.path[:0] = {[str(folder), *sys.path]!r}\n"
    done = subprocess.run([sys.executable, "-c", start + program], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_name_is_registered(tmp_path: Path) -> None:
    """By the entry point of the package; and importing the backend does not import torch."""
    printed = run_script(
        "import cellc, cellc.torch_backend\nassert 'torch' not in sys.modules\n"
        "import torch\nx = torch.ones(3)\n"
        "print(torch.compile(lambda t: t * 2 + 1, backend='cellc')(x).tolist())\n"
        "print(len(cellc.torch_backend.report()))", tmp_path)
    assert printed == "[3.0, 3.0, 3.0]\n1\n"


def test_the_page(tmp_path: Path) -> None:
    """The example of docs/torch.md prints what the page shows, and its lists are current."""
    page = (ROOT / "docs" / "torch.md").read_text()
    example, shown = re.findall(r"```(?:python|text)\n(.*?)```", page, re.S)[:2]
    assert run_script(example, tmp_path) == shown
    subprocess.run([sys.executable, ROOT / "docs" / "make_torch.py", "--check"], check=True)
