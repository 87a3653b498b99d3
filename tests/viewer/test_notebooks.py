"""What notebooks show of Cells, graphs, artifacts and profiles, and what their `repr` says."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np

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
