"""Training steps of image networks for any batch, height and width: one program, the bits of
programs for known sizes and of PyNative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.backends.cpu.kernels.conv import weight

from ..samples.networks import load
from .test_open_pictures import SIZES, floats
from .test_open_programs import Served
from .test_open_sizes import assert_same, traces

Made = tuple[Callable[[Any], Any], int]


def gradients(inputs: int, outputs: int, size: int, dtype: Any = ms.float32, **given: Any) -> Made:
    """The gradients of a convolution by its image and its weights; the channels of the image."""
    w = ms.Tensor(floats(outputs, inputs // given.get("groups", 1), size, size)).astype(dtype)
    mode = "pad" if "padding" in given else "valid"

    def loss(x: Any, w: Any) -> Any:
        return ops.square(ops.conv2d(x.astype(dtype), w, pad_mode=mode, **given)).mean()

    return lambda x: ms.grad(loss, (0, 1))(x, w), inputs


CASES: dict[str, Made] = {
    "1x1": gradients(32, 64, 1),
    "1x1 by 2": gradients(32, 64, 1, stride=2),
    "3x3": gradients(16, 24, 3, padding=1),
    "3x3 without padding": gradients(16, 16, 3),
    "7x7 by 2": gradients(3, 32, 7, stride=2, padding=3),
    "steps too long to shuffle": gradients(3, 16, 7, stride=5, padding=3),
    "dilated": gradients(16, 32, 3, padding=2, dilation=2),
    "depthwise": gradients(32, 32, 3, padding=1, groups=32),
    "depthwise by 2": gradients(32, 32, 3, padding=1, groups=32, stride=2),
    "groups": gradients(32, 32, 3, padding=1, groups=2),
    "few channels": gradients(8, 4, 5, padding=2),
    "long chain": gradients(256, 32, 3, padding=1),
    "float64": gradients(8, 12, 3, ms.float64, padding=1),
    "float64, few channels": gradients(8, 4, 3, ms.float64, padding=1),
    "float16 by 2": gradients(8, 12, 3, ms.float16, padding=1, stride=2),
    "float16, few channels": gradients(8, 4, 3, ms.float16, padding=1),
}


def served(name: str) -> Served:
    fn, channels = CASES[name]
    return Served(fn, [floats(2, channels, 56, 64)], {0: (None, channels, None, None)})


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_convolutions(name: str) -> None:
    made, channels = served(name), CASES[name][1]
    for n, height, width in SIZES:
        assert made.same([floats(n, channels, height, width)]), (n, height, width)


@pytest.mark.parametrize("name", ["3x3", "few channels"])
def test_infinite_pixels_at_the_edge(name: str) -> None:
    made, channels = served(name), CASES[name][1]
    x = floats(3, channels, 20, 41)
    x[0, 0, 0, :], x[1, 1, -1, -1] = np.inf, np.nan
    assert made.same([x])


def test_a_mask_of_last_pixels_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = weight.lanes_below
    monkeypatch.setattr(weight, "lanes_below",
                        lambda f, count, width: right(f, f.sub(count, f.i64(1)), width))
    fn, channels = gradients(7, 4, 5, padding=2)  # (a shape that no other test has cached)
    broken = Served(fn, [floats(2, channels, 56, 64)], {0: (None, channels, None, None)})
    monkeypatch.setattr(weight, "lanes_below", right)
    assert not broken.same([floats(2, channels, 40, 33)])


# --- samples --------------------------------------------------------------------------------------


def images(channels: int, shape: tuple[int, ...], labels: tuple[int, ...]) -> tuple[Any, ...]:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal((shape[0], channels, *shape[1:])).astype(np.float32)
    return ms.Tensor(x), ms.Tensor(rng.integers(0, 2, labels).astype(np.int32))


lenet, resnet, unet = load("lenet"), load("resnet"), load("unet")
SAMPLES: dict[str, tuple[Any, Callable[[], Any], list[tuple[Any, ...]]]] = {
    "unet": (unet, lambda: unet.UNet(width=4, depth=2),
             [images(1, s, s) for s in [(2, 16, 16), (3, 24, 20), (2, 40, 32), (4, 20, 28)]]),
    "lenet": (lenet, lenet.LeNet5,
              [images(1, (n, 32, 32), (n,)) for n in (8, 5, 3, 17)]),
    "resnet": (resnet, lambda: resnet.ResNet(resnet.BasicBlock, (1, 1), 10, 8),
               [images(3, s, s[:1]) for s in [(2, 40, 40), (3, 48, 37), (2, 33, 64), (5, 57, 41)]]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_training_steps_of_samples(name: str) -> None:
    """The second size opens all that differ; no further one is compiled."""
    module, make, batches = SAMPLES[name]

    def train() -> tuple[Any, list[Any]]:
        ms.set_seed(3)
        step = module.train_step(make())
        out = [step(*batch) for batch in batches]
        return step, [*out, *step.get_parameters()]

    ms.set_context(mode=ms.GRAPH_MODE)
    step, compiled = train()
    (once,) = traces(step._entries)
    assert not once.per_size, once.per_size
    assert len(once.open) == 1 and once.instances == len(batches) - 1
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert_same(compiled, train()[1])
