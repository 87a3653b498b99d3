"""Transforms of whole batches: images and labels mixed with others of the batch; and of choice
among transforms.
Source: `mindspore.dataset.vision`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, Positive, PositiveNumber, Rule, Share, is_number
from ..declared import Fields, argument, state
from ..rules import several
from ..transforms import Chain, RandomTransform, Several, Transform

Array = np.ndarray[Any, Any]


class ImageBatchFormat(IntEnum):
    """Which axes a batch of images has."""

    NHWC = 0
    NCHW = 1


class _Weighted:
    """The attribute of transforms whose weights are drawn; subclasses declare the argument."""

    alpha: float


class _OfBatches(_Weighted, Fields, RandomTransform):
    """Base of transforms of (images, labels). Their draws are not those of MindSpore."""

    _texts = {"alpha": "both parameters of the beta distribution that weights are drawn from."}

    def __call__(self, *args: Any) -> Any:
        """The mixed images, and labels."""
        if len(args) != 2:
            raise self._refused(f"two columns are wanted, images and labels, but there are "
                                f"{len(args)}.")
        images, labels = (self._array(a) for a in args)
        if images.ndim != 4 or not images.size:
            raise self._refused("a batch of images of 4 dimensions is wanted, but it has the shape "
                                f"{images.shape}: call batch() before.")
        if labels.ndim not in (2, 3) or labels.shape[0] != images.shape[0]:
            raise self._refused(f"labels [batch, classes] or [batch, rows, classes] of a batch of "
                                f"{images.shape[0]} are wanted, but they are {labels.shape}: use "
                                "OneHot before.")
        draws = np.random.default_rng([self.random.below(1 << 31) for _ in range(2)])
        return self._mixed(images, labels, draws)

    def _mixed(
        self, images: Array, labels: Array, draws: np.random.Generator
    ) -> tuple[Array, Array]:
        """The work, for a subclass to do."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


def _between(first: Array, second: Array, part: Any, dtype: Any = np.float32) -> Array:
    """`first * part + second * (1 - part)`, rounded for integers; `part` may be one for each."""
    weights = np.asarray(part, np.float64)
    weights = weights.reshape(weights.shape + (1,) * (first.ndim - weights.ndim))
    made = first * weights + second * (1 - weights)
    return np.asarray(np.rint(made) if np.dtype(dtype).kind in "iu" else made, dtype)


class MixUpBatch(_OfBatches):
    """Each image, and label, mixed with another of the batch, by one weight (Zhang et al., 2017).

    Called with images [batch, height, width, channels] or [batch, channels, height, width] and
    labels [batch, classes] or [batch, rows, classes]. Images keep their dtype, labels come back as
    float32.

    Raises:
        RuntimeError: (when called) other shapes.
    """

    alpha: PositiveNumber = 1.0

    def _mixed(
        self, images: Array, labels: Array, draws: np.random.Generator
    ) -> tuple[Array, Array]:
        part, others = draws.beta(self.alpha, self.alpha), draws.permutation(len(images))
        return (_between(images, images[others], part, images.dtype),
                _between(labels, labels[others], part))


class CutMixBatch(_OfBatches):
    """A box of each image replaced by that of another of the batch, the labels mixed by the box's
    part of the image (Yun et al., 2019).

    Images keep their dtype, labels come back as float32.

    Raises:
        RuntimeError: (when called) other shapes.
    """

    image_batch_format: ImageBatchFormat
    alpha: PositiveNumber = 1.0
    prob: Share = argument(default=1.0, text="how likely it is for each image.")

    def _mixed(
        self, images: Array, labels: Array, draws: np.random.Generator
    ) -> tuple[Array, Array]:
        others, made = draws.permutation(len(images)), images.copy()
        first = 1 if self.image_batch_format is ImageBatchFormat.NHWC else 2
        sizes = images.shape[first : first + 2]
        kept = np.ones(len(images))
        for i, other in enumerate(others):
            if draws.random() >= self.prob:
                continue
            edge = np.sqrt(1 - draws.beta(self.alpha, self.alpha)) / 2
            middles = [draws.integers(n) for n in sizes]
            box = tuple(slice(max(0, int(m - edge * n)), min(n, int(m + edge * n)))
                        for m, n in zip(middles, sizes, strict=True))
            where = box if first == 1 else (slice(None), *box)
            made[i][where] = images[other][where]
            kept[i] -= np.prod([b.stop - b.start for b in box]) / np.prod(sizes)
        return made, _between(labels, labels[others], kept)


class MixUp(Fields, Transform):
    """Images, and labels, of a batch mixed with others by weights of their own, as float64.

    Raises:
        RuntimeError: (when called) another number of images.
    """

    batch_size: Positive = argument(text="how many images there are; 1: the same weight for all.")
    alpha: PositiveNumber = argument(
        text="both parameters of the beta distribution of the weights.")
    is_single: Flag = argument(
        default=True, text="mixed with the next of the same batch; else with those of the batch "
                           "before (the first batch stays), where a single image is a batch of its "
                           "copies.")
    _before: tuple[Array, Array] | None = state(default=None)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not self.is_single and np.ndim(args[0]) == 3:
            args = tuple(np.broadcast_to(a, (self.batch_size, *np.shape(a)[i:]))
                         for i, a in enumerate(args))
        if len(args) != 2 or any(self.batch_size not in (1, len(a)) for a in args):
            raise self._refused(f"{self.batch_size} images and as many labels are wanted.")
        images, labels = args
        others = (np.roll(images, -1, 0), np.roll(labels, -1, 0)) if self.is_single else \
            self._before or (images, labels)
        self._before = (images, labels)
        part = np.random.default_rng().beta(self.alpha, self.alpha, self.batch_size)
        return (_between(images, others[0], part, np.float64),
                _between(labels, others[1], part, np.float64))


class UniformAugment(Several):
    """Some of the transforms, drawn, each applied or not (LingChen et al., 2020)."""

    num_ops: Positive = argument(
        default=2, text="how many are drawn, at most as many as there are.")

    def _prepare(self) -> None:
        if self.num_ops > len(self.transforms):
            raise ValueError(f"num_ops is greater than transforms list size: {self.num_ops} of "
                             f"{len(self.transforms)}.")

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        places = self.random.order(len(self.transforms))[: self.num_ops]
        return [self.transforms[i] for i in sorted(places) if self.random.below(2)]


_STEP = Rule("(transform, probability)",
             lambda value: isinstance(value, tuple) and len(value) == 2 and callable(value[0])
             and is_number(value[1]), lambda value: 0 <= value[1] <= 1)
_PART = several(_STEP)


class RandomSelectSubpolicy(Chain):
    """One of several lists of transforms, each of which is applied with a probability."""

    policy: Annotated[Any, several(Rule(
        "a list of (transform, probability)", _PART.fits,
        lambda value: len(value) > 0 and _PART.holds(value)))] = argument(
            text="lists of (transform, probability).")

    def _prepare(self) -> None:
        self.transforms = [op for part in self.policy for op, _ in part]
        self._parts = [[prob for _, prob in part] for part in self.policy]

    def _chosen(self) -> Sequence[Callable[..., Any]]:
        which = self.random.below(len(self._parts))
        first, probs = sum(map(len, self._parts[:which])), self._parts[which]
        return [self.transforms[first + i] for i, p in enumerate(probs) if self.random.happens(p)]


__all__ = ["CutMixBatch", "ImageBatchFormat", "MixUp", "MixUpBatch", "RandomSelectSubpolicy",
           "UniformAugment"]
