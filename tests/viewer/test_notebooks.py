"""What notebooks show of Cells, graphs, artifacts and profiles, and what their `repr` says."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import cli, nn, ops
from cellc.compiled.traced import trace
from cellc_runtime import artifact

from .conftest import NETS
from .nets import Classifier, Hostile

VOID = {"img", "path", "rect", "br"}


class Tags(HTMLParser):
    """The tags of a piece of HTML, which must close what they open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not [t for t in self.open if t not in VOID]

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def sample() -> ms.Tensor:
    return ms.Tensor(np.ones((2, 16), np.float32))


def test_a_cell_is_an_outline_that_folds() -> None:
    found = Tags(Classifier()._repr_html_())
    assert "details" in found.seen
    assert "weight: Float32[16, 16]" in found.text and "head: Dense" in found.text
    count = sum(p.size for p in Classifier().get_parameters())
    assert f"{count:,} elements" in found.text


def test_hostile_names_are_escaped() -> None:
    net = Hostile()
    x = ms.Tensor(np.ones((2, 4), np.float32))
    for shown in (net, trace(net, [x], {}).graph, ms.profile(net, x, runs=2)):
        found = Tags(shown._repr_html_())
        assert found.text
        assert not found.seen & {"img", "script", "i"}
    assert "b<i>old" in Tags(net._repr_html_()).text
    assert "window.pwned=1" in Tags(trace(net, [x], {}).graph._repr_html_()).text


def test_a_small_graph_is_a_picture_and_a_large_one_text() -> None:
    small = Tags(trace(Classifier(), [sample()], {}).graph._repr_html_())
    assert "svg" in small.seen and "matmul" in small.text

    def deep(x):
        for i in range(70):
            x = ops.relu(x) if i % 2 else ops.tanh(x)
        return x

    large = Tags(trace(deep, [sample()], {}).graph._repr_html_())
    assert "svg" not in large.seen and "%69: float32[2,16] = relu(%68)" in large.text


def test_an_artifact_says_what_it_holds(folder: Path) -> None:
    assert cli.main(["compile", f"{NETS}:Classifier", "--input", "x=float32[N,16]",
                     "-o", "net.cellc"]) == 0
    loaded = artifact.load("net.cellc")
    text = repr(loaded)
    assert "infer(x: float32[N, 16]) -> out0: float32[N, 4]" in text
    assert "not trusted" in text and f"{len(loaded.weights)} weights" in text
    shown = Tags(loaded._repr_html_())
    assert "table" in shown.seen and shown.text.count("KiB") == 3 * len(loaded.programs())
    assert "trusted" in repr(artifact.load("net.cellc", trust_native_code=True))


def test_a_profile_is_a_table_with_bars() -> None:
    found = Tags(ms.profile(Classifier(), sample(), runs=2)._repr_html_())
    assert "table" in found.seen and "matmul" in found.text and "a call" in found.text


def test_a_jitted_function_says_what_is_compiled() -> None:
    @ms.jit
    def double(x):
        return x * 2

    assert "jit of " in repr(double) and "double at " in repr(double)
    assert repr(double).endswith("nothing compiled yet>")
    double(sample())
    double(ms.Tensor([1, 2]))
    assert repr(double).endswith("2 compiled: (x: float32[2,16]); (x: int64[2])>")


def test_the_printed_form_of_a_cell_is_mindspores() -> None:
    assert repr(nn.SequentialCell(nn.ReLU())) == "SequentialCell(\n  (0): ReLU()\n)"


def test_a_tensor_is_a_table_of_its_elements() -> None:
    shown = Tags(ms.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 4)._repr_html_())
    assert "table" in shown.seen and "Tensor float32[2, 3]" in shown.text
    assert "0.251.25" not in shown.text and "00.250.50.7511.25" in shown.text
    large = Tags(ms.Tensor(np.arange(10_000).reshape(2, 50, 100))._repr_html_())
    assert "the first of 2 planes" in large.text and large.text.count("…") == 9 + 8
    assert "4999" in large.text and "5000" not in large.text
    assert "no elements" in ms.Tensor(np.zeros((0, 3), np.float32))._repr_html_()
    assert "1.5" in ms.Tensor([1.5], ms.bfloat16)._repr_html_()
    named = ms.Parameter(ms.Tensor([1.0]), name="<w>")._repr_html_()
    assert "&lt;w&gt;" in named and "<w>" not in named
    assert ms.Tensor(shape=None, dtype=ms.float32)._repr_html_() is None


def test_a_uint8_tensor_of_the_shape_of_a_picture_is_one() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for shape in ((20, 30), (20, 30, 1), (20, 30, 3), (20, 30, 4)):
        pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
        text = ms.Tensor(pixels)._repr_html_()
        data = base64.b64decode(text.partition("base64,")[2].partition('"')[0])
        found = np.asarray(image.open(io.BytesIO(data)))
        assert np.array_equal(found, pixels[..., 0] if shape[2:] == (1,) else pixels)
    assert "<img" not in ms.Tensor(np.zeros((3, 40), np.uint8))._repr_html_()


def test_an_explanation_is_a_table_with_causes() -> None:
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.scale = 2

        def construct(self, x):
            return x * self.scale

    net, before = Net(), ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        net(sample())
        net.scale = 3
        net(sample())
    finally:
        ms.set_context(mode=before)
    shown = Tags(ms.explain(net)._repr_html_())
    assert "the first of this network" in shown.text and "replaced" in shown.text
    assert "scale of Net: 2 -> 3" in shown.text and "1 kernel" in shown.text
    assert "make it an argument or a Parameter" in shown.text
