"""Policies of augmentation: a few changes drawn from a table, each of some magnitude.

Magnitudes are those of the papers: AutoAugment (Cubuk et al., 2019), RandAugment (Cubuk et al.,
2020) and TrivialAugment (Müller and Hutter, 2021).
Source: `mindspore.dataset.vision`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any

import numpy as np

from ...core.declared import NonNegative, integer
from ..declared import argument
from .adjusting import AdjustContrast, AdjustSaturation, Posterize
from .base import Drawn, Fill, ImageTransform, Inter, Plain
from .colours import AdjustBrightness, Invert, Solarize
from .shapes import Rotate
from .tones import AdjustSharpness, AutoContrast, Equalize
from .warping import Affine

Array = np.ndarray[Any, Any]


class AutoAugmentPolicy(str, Enum):  # noqa: UP042 (a StrEnum prints its value, MindSpore's a name)
    """For which data a policy was found."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize .4 8, Rotate .6 9; Solarize .6 5, AutoContrast .6; Equalize .8, Equalize .6;
        Posterize .6 7, Posterize .6 6; Equalize .4, Solarize .2 4; Equalize .4, Rotate .8 8;
        Solarize .6 3, Equalize .6; Posterize .8 5, Equalize 1; Rotate .2 3, Solarize .6 8;
        Equalize .6, Posterize .4 6; Rotate .8 8, Color .4 0; Rotate .4 9, Equalize .6;
        Equalize 0, Equalize .8; Invert .6, Equalize 1; Color .6 4, Contrast 1 8;
        Rotate .8 8, Color 1 2; Color .8 8, Solarize .8 7; Sharpness .4 7, Invert .6;
        ShearX .6 5, Equalize 1; Color .4 0, Equalize .6; Equalize .4, Solarize .2 4;
        Solarize .6 5, AutoContrast .6; Invert .6, Equalize 1; Color .6 4, Contrast 1 8;
        Equalize .8, Equalize .6""",
    AutoAugmentPolicy.CIFAR10: """
        Invert .1, Contrast .2 6; Rotate .7 2, TranslateX .3 9; Sharpness .8 1, Sharpness .9 3;
        ShearY .5 8, TranslateY .7 9; AutoContrast .5, Equalize .9; ShearY .2 7, Posterize .3 7;
        Color .4 3, Brightness .6 7; Sharpness .3 9, Brightness .7 9; Equalize .6, Equalize .5;
        Contrast .6 7, Sharpness .6 5; Color .7 7, TranslateX .5 8; Equalize .3, AutoContrast .4;
        TranslateY .4 3, Sharpness .2 6; Brightness .9 6, Color .2 8; Solarize .5 2, Invert 0;
        Equalize .2, AutoContrast .6; Equalize .2, Equalize .6; Color .9 9, Equalize .6;
        AutoContrast .8, Solarize .2 8; Brightness .1 3, Color .7 0; Solarize .4 5, AutoContrast .9;
        TranslateY .9 9, TranslateY .7 9; AutoContrast .9, Solarize .8 3; Equalize .8, Invert .1;
        TranslateY .7 9, AutoContrast .9""",
    AutoAugmentPolicy.SVHN: """
        ShearX .9 4, Invert .2; ShearY .9 8, Invert .7; Equalize .6, Solarize .6 6;
        Invert .9, Equalize .6; Equalize .6, Rotate .9 3; ShearX .9 4, AutoContrast .8;
        ShearY .9 8, Invert .4; ShearY .9 5, Solarize .2 6; Invert .9, AutoContrast .8;
        Equalize .6, Rotate .9 3; ShearX .9 4, Solarize .3 3; ShearY .8 8, Invert .7;
        Equalize .9, TranslateY .6 6; Invert .9, Equalize .6; Contrast .3 3, Rotate .8 4;
        Invert .8, TranslateY 0 2; ShearY .7 6, Solarize .4 8; Invert .6, Rotate .8 4;
        ShearY .3 7, TranslateX .9 3; ShearX .1 6, Invert .6; Solarize .7 2, TranslateY .6 7;
        ShearY .8 4, Invert .8; ShearX .7 9, TranslateY .8 3; ShearY .8 5, AutoContrast .7;
        ShearX .7 2, Invert .1""",
}
"""Pairs of changes: the name, its probability, and which of ten magnitudes it has."""

_SIGNED = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color",
           "Contrast", "Sharpness"}
"""Changes that go either way."""
_NAMES = ("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness",
          "Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize")
"""The choices of RandAugment and TrivialAugment."""


def _degrees_of(slope: float) -> float:
    return math.degrees(math.atan(slope))


class _Edges:
    """The attributes of the policies; they declare them last among their arguments."""

    interpolation: Inter
    fill_value: Any


class _Augment(_Edges, Drawn):
    """Base of the policies: changes by name and magnitude, of uint8[height, width, 3]."""

    _texts = {"interpolation": "of rotations and shears: `Inter.NEAREST` or `Inter.BILINEAR`.",
              "fill_value": "of what is beyond the edges then."}

    def _apply(self, image: Any) -> Any:
        return super()._apply(self._of_colours(image))

    def _moved(self, shear: tuple[float, float], by: tuple[float, float]) -> ImageTransform:
        parts = tuple(max(-1.0, min(1.0, p)) for p in by)
        return Affine(0.0, parts, 1.0, shear, self.interpolation, self.fill_value)

    def _change(self, name: str, amount: float, image: Array) -> ImageTransform | None:
        """The transform of a name and a magnitude, for images of this size; None: none."""
        height, width = image.shape[:2]
        made: Mapping[str, Callable[[], ImageTransform | None]] = {
            "Identity": lambda: None,
            "ShearX": lambda: self._moved((_degrees_of(amount), 0.0), (0.0, 0.0)),
            "ShearY": lambda: self._moved((0.0, _degrees_of(amount)), (0.0, 0.0)),
            "TranslateX": lambda: self._moved((0.0, 0.0), (amount / width, 0.0)),
            "TranslateY": lambda: self._moved((0.0, 0.0), (0.0, amount / height)),
            "Rotate": lambda: Rotate(amount, self.interpolation, fill_value=self.fill_value),
            "Brightness": lambda: AdjustBrightness(1 + amount),
            "Color": lambda: AdjustSaturation(1 + amount),
            "Contrast": lambda: AdjustContrast(1 + amount),
            "Sharpness": lambda: AdjustSharpness(1 + amount),
            "Posterize": lambda: Posterize(int(amount)),
            "Solarize": lambda: Solarize((amount, 255.0)),
            "AutoContrast": AutoContrast, "Equalize": Equalize, "Invert": Invert,
        }
        return made[name]()

    def _add(self, name: str, amount: float, image: Array) -> None:
        if name in _SIGNED and self.random.below(2):
            amount = -amount
        change = self._change(name, amount, image)
        if change is not None:
            self._drawn = [*self._drawn, change]


def _amount(
    name: str, level: int, bins: int, image: Array, wide: bool = False
) -> float:
    """The magnitude of a change at a level below `bins`; `wide` as in TrivialAugment."""
    part = level / (bins - 1)
    if name in ("ShearX", "ShearY"):
        return (0.99 if wide else 0.3) * part
    if name in ("TranslateX", "TranslateY"):
        return 32.0 * part if wide else 150 / 331 * image.shape[name == "TranslateX"] * part
    if name == "Rotate":
        return (135.0 if wide else 30.0) * part
    if name == "Posterize":
        return 8 - round((6 if wide else 4) * part)
    if name == "Solarize":
        return 255.0 * (1 - part)
    return (0.99 if wide else 0.9) * part


class AutoAugment(_Augment):
    """A pair of changes, drawn from a policy that was learned; each with its probability."""

    policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET
    interpolation: Plain = Inter.NEAREST
    fill_value: Fill = 0

    def _prepare(self) -> None:
        self._pairs = [[change.split() for change in pair.split(",")]
                       for pair in _POLICIES[self.policy].split(";")]

    def _draw(self, image: Any) -> None:
        self._drawn = []
        for name, prob, *level in self._pairs[self.random.below(len(self._pairs))]:
            if self.random.happens(float(prob)):
                self._add(name, _amount(name, int(level[0]), 10, image) if level else 0.0, image)


class RandAugment(_Augment):
    """Some changes, drawn, all of one magnitude."""

    num_ops: NonNegative = argument(default=2, text="how many.")
    magnitude: NonNegative = argument(default=9, text="of each: below `num_magnitude_bins`.")
    num_magnitude_bins: Annotated[int, integer(2)] = argument(
        default=31, text="how many magnitudes there are, at least 2.")
    interpolation: Plain = Inter.NEAREST
    fill_value: Fill = 0

    def _prepare(self) -> None:
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError("magnitude should be less than num_magnitude_bins, but got "
                             f"{self.magnitude} of {self.num_magnitude_bins}.")

    def _draw(self, image: Any) -> None:
        self._drawn = []
        for _ in range(self.num_ops):
            name = _NAMES[self.random.below(len(_NAMES))]
            self._add(name, _amount(name, self.magnitude, self.num_magnitude_bins, image), image)


class TrivialAugmentWide(_Augment):
    """One change of one magnitude, both drawn."""

    num_magnitude_bins: Annotated[int, integer(2)] = argument(
        default=31, text="how many magnitudes there are, at least 2.")
    interpolation: Plain = Inter.NEAREST
    fill_value: Fill = 0

    def _draw(self, image: Any) -> None:
        self._drawn = []
        name, bins = _NAMES[self.random.below(len(_NAMES))], self.num_magnitude_bins
        self._add(name, _amount(name, self.random.below(bins), bins, image, True), image)


__all__ = ["AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]
