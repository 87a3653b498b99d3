"""Programs for images of any batch, height and width: the bits of programs for known sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc_compiler.backends.cpu.kernels.blocked.tile import Tile

from .test_open_programs import Served
from .test_open_sizes import assert_same, eagerly, traces

SIZES = [(2, 40, 33), (3, 64, 64), (2, 23, 90), (5, 31, 31), (2, 28, 56)]
Fn = Callable[[Any], Any]


def floats(*shape: int, dtype: type = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def conv(inputs: int, outputs: int, size: int, dtype: type = np.float32, **given: Any) -> Fn:
    """A convolution with random weights, padded where `padding` is given."""
    w = ms.Tensor(floats(outputs, inputs // given.get("groups", 1), size, size, dtype=dtype))
    mode = "pad" if "padding" in given else "valid"
    return lambda x: ops.conv2d(x, w, pad_mode=mode, **given)


def chain(*parts: Fn) -> Fn:
    def run(x: Any) -> Any:
        for part in parts:
            x = part(x)
        return x

    return run


def transposed(inputs: int, outputs: int) -> Fn:
    w = ms.Tensor(floats(inputs, outputs, 2, 2))
    return lambda x: ops.conv_transpose2d(x, w, stride=2)


def residual(part: Fn, other: Fn = lambda x: x) -> Fn:
    return lambda x: ops.relu(part(x) + other(x))


STEM = chain(conv(3, 32, 7, stride=2, padding=3), ops.relu, lambda x: ops.max_pool2d(x, 3, 2, 1))
CASES: dict[str, tuple[Fn, int]] = {
    "1x1": (conv(32, 64, 1), 32),
    "1x1 by 2": (conv(32, 64, 1, stride=2), 32),
    "3x3": (conv(32, 48, 3, padding=1), 32),
    "3x3 of the first layer": (conv(3, 20, 3, padding=1), 3),
    "3x3 without padding": (conv(16, 16, 3), 16),
    "7x7 by 2": (conv(3, 32, 7, stride=2, padding=3), 3),
    "dilated": (conv(16, 32, 3, padding=2, dilation=2), 16),
    "depthwise": (conv(32, 32, 3, padding=1, groups=32), 32),
    "groups that share a block": (conv(32, 32, 3, padding=1, groups=8), 32),
    "groups of whole blocks": (conv(64, 64, 3, padding=1, groups=2), 64),
    "long chain": (conv(256, 32, 3, padding=1), 256),
    "float64": (chain(lambda x: x.astype(ms.float64),
                      conv(16, 16, 3, np.float64, padding=1)), 16),
    "float16": (chain(lambda x: x.astype(ms.float16),
                      conv(16, 16, 3, np.float16, padding=1), ops.relu), 16),
    "residual": (chain(STEM, residual(conv(32, 32, 3, padding=1)),
                       residual(conv(32, 32, 1), conv(32, 32, 3, padding=1))), 3),
    "up and down": (chain(conv(3, 32, 3, padding=1), ops.relu, transposed(32, 16), ops.relu,
                          conv(16, 8, 3, padding=1)), 3),
    "joined": (chain(conv(3, 16, 3, padding=1), ops.relu,
                     lambda x: ops.concat((x, ops.max_pool2d(x, 3, 1, 1)), 1),
                     conv(32, 16, 1)), 3),
    "max pool": (lambda x: ops.max_pool2d(x, 2, 2), 4),
    "max pool, same": (nn.MaxPool2d(3, 2, pad_mode="same"), 4),
    "max pool, same, steps longer than windows": (nn.MaxPool2d(2, 5, pad_mode="same"), 4),
    "average, same": (nn.AvgPool2d(3, 2, pad_mode="same"), 4),
    "pools of blocked images, same": (chain(
        conv(16, 32, 3, stride=2, padding=1), nn.MaxPool2d(3, 2, pad_mode="same"),
        conv(32, 16, 3, padding=1), nn.AvgPool2d(3, 2, pad_mode="same"), conv(16, 16, 1)), 16),
    "3x3, same": (nn.Conv2d(16, 32, 3, stride=2, pad_mode="same"), 16),
    "transposed, same": (nn.Conv2dTranspose(16, 8, 3, stride=2, pad_mode="same"), 16),
    "max pool, padded": (lambda x: ops.max_pool2d(x, 3, 2, 1), 4),
    "max pool with places": (lambda x: ops.max_pool2d(x, 3, 2, 1, return_indices=True)[1], 4),
    "max pool, dilated": (nn.MaxPool2d(3, 1, pad_mode="pad", dilation=2), 4),
    "max pool, wide steps": (lambda x: ops.max_pool2d(x, 5, 5), 4),
    "average": (lambda x: ops.avg_pool2d(x, 2, 2), 4),
    "average, padded": (lambda x: ops.avg_pool2d(x, 3, 2, 1, count_include_pad=False), 4),
    "average, wide steps": (lambda x: ops.avg_pool2d(x, 6, 6), 4),
    "average of all": (lambda x: ops.adaptive_avg_pool2d(x, 1), 4),
    "average to 7x5": (lambda x: ops.adaptive_avg_pool2d(x, (7, 5)), 4),
    "maximum of 3x3": (lambda x: ops.adaptive_max_pool2d(x, 3), 4),
    "classifier": (chain(STEM, conv(32, 64, 3, padding=1), ops.relu,
                         lambda x: ops.adaptive_avg_pool2d(x, 1).reshape(x.shape[0], -1)), 3),
}


def served(name: str) -> Served:
    fn, channels = CASES[name]
    return Served(fn, [floats(2, channels, 56, 64)], {0: (None, channels, None, None)})


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_known_sizes(name: str) -> None:
    made, channels = served(name), CASES[name][1]
    for n, height, width in SIZES:
        arrays = [floats(n, channels, height, width)]
        assert made.same(arrays), (n, height, width)


SMALL = ["1x1", "1x1 by 2", "3x3", "3x3 of the first layer", "dilated", "depthwise",
         "groups that share a block", "float16", "up and down", "joined", "max pool, same",
         "3x3, same", "transposed, same"]


@pytest.mark.parametrize("name", SMALL)
def test_images_smaller_than_a_tile(name: str) -> None:
    """The program that was made for larger ones serves them."""
    made, channels = served(name), CASES[name][1]
    for n, height, width in [(2, 2, 2), (3, 8, 2), (2, 3, 14), (2, 6, 6)]:
        assert made.same([floats(n, channels, height, width)]), (n, height, width)


@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)])
def test_means_of_large_images(norm: nn.Cell) -> None:
    """Means of more than 65,535 pixels are added up in parts, whose number the call finds."""
    made = Served(norm, [floats(3, 4, 300, 310)], {0: (None, 4, None, None)})
    for shape in ((2, 4, 20, 30), (3, 4, 256, 256), (9, 4, 311, 313)):
        assert made.same([floats(*shape)]), shape


def test_a_pixel_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles of one pixel, in rows that are narrower than a tile."""
    right = Tile.across
    monkeypatch.setattr(Tile, "across", lambda self, columns: right(self, columns) - 1)
    broken = Served(chain(CASES["3x3"][0], lambda x: x * 0.75), [floats(2, 32, 56, 64)],
                    {0: (None, 32, None, None)})
    monkeypatch.setattr(Tile, "across", right)
    assert not broken.same([floats(2, 32, 7, 3)])


def test_a_weight_that_is_not_a_number_meets_the_padding() -> None:
    w = floats(16, 16, 3, 3)
    w[3, 2, 0, 0], w[5, 1, 2, 2] = np.nan, np.inf
    made = Served(lambda x: ops.conv2d(x, ms.Tensor(w), pad_mode="pad", padding=1),
                  [floats(2, 16, 56, 64)], {0: (None, 16, None, None)})
    assert made.same([floats(3, 16, 20, 41)])


def test_a_tile_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last tile of a row, which is narrower."""
    right = Tile.row_tiles

    def wrong(self: Tile, columns: Any) -> tuple[Any, Any]:
        wide, narrow = right(self, columns)
        return wide, narrow - 1

    made = served("3x3")
    assert made.same([floats(2, 32, 40, 33)])
    monkeypatch.setattr(Tile, "row_tiles", wrong)
    broken = Served(chain(CASES["3x3"][0], lambda x: x * 1.25), [floats(2, 32, 56, 64)],
                    {0: (None, 32, None, None)})
    monkeypatch.setattr(Tile, "row_tiles", right)
    assert not broken.same([floats(2, 32, 40, 33)])


def test_an_average_over_all_of_an_image_has_a_program_of_its_own() -> None:
    """Its sum has another order."""
    made = Served(lambda x: ops.avg_pool2d(x, 8, 8), [floats(2, 4, 32, 32)],
                  {0: (None, 4, None, None)})
    assert made.program.open is not None
    arrays = [floats(2, 4, 8, 8)]
    assert made.program.open.refusal(made.sizes(arrays))
    assert made.same([floats(2, 4, 16, 9)])


class Small(nn.Cell):
    """A network of pictures whose sizes are divided by 4 and doubled again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
        self.deep, self.up = nn.Conv2d(16, 32, 3), nn.Conv2dTranspose(32, 16, 2, 2)
        self.last = nn.Conv2d(32, 5, 1)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = ops.relu(self.norm(self.first(x)))
        deep = ops.relu(self.deep(ops.max_pool2d(x, 2, 2)))
        return self.last(ops.concat((x, self.up(deep)), 1))


def test_rows_and_columns_open_in_graph_mode() -> None:
    """The second size opens them; sizes that do not fit fail as they do in PyNative."""
    net = Small().set_train(False)
    for n, height, width in [(1, 32, 32), (2, 48, 40), (3, 24, 66), (2, 40, 48), (4, 96, 64)]:
        x = ms.Tensor(floats(n, 3, height, width))
        assert_same(net(x), eagerly(net, x))
    (once,) = traces(net._entries)
    assert not once.per_size
    with pytest.raises(ValueError, match=r"\(2, 16, 33, 33\) and \(2, 16, 32, 32\)"):
        net(ms.Tensor(floats(2, 3, 33, 33)))
