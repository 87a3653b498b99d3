"""Functions over pictures of Pillow that scripts take from MindSpore's inner module
`dataset.vision.py_transforms_util`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decoding import pillow
from .base import Inter, is_picture

Array = np.ndarray[Any, Any]
augment_error_message = (
    "img should be PIL image. Got {}. Use Decode() for encoded data or ToPIL() for decoded data.")
_RESAMPLED = {Inter.NEAREST: "NEAREST", Inter.ANTIALIAS: "LANCZOS", Inter.LINEAR: "BILINEAR",
              Inter.CUBIC: "BICUBIC"}
is_pil = is_picture


def is_numpy(img: Any) -> bool:
    """Whether it is an array of numpy."""
    return isinstance(img, np.ndarray)


def _picture(img: Any) -> Any:
    if not is_pil(img):
        raise TypeError(augment_error_message.format(type(img)))
    return img


def _way(interpolation: Any, who: str) -> Any:
    name = _RESAMPLED.get(interpolation)
    if name is None:
        raise ValueError(f"For '{who}', Pillow has no interpolation {interpolation!r}; there are "
                         f"{', '.join(i.name for i in _RESAMPLED)}.")
    return getattr(pillow(who).Resampling, name)


def rotate(
    img: Any, angle: float, resample: Any = Inter.NEAREST, expand: bool = False,
    center: Any = None, fill_value: Any = 0,
) -> Any:
    """A picture of Pillow turned counter-clockwise.

    Args:
        resample: an `Inter`.
        expand: whether the result is large enough for all of it.
        center: around which point; the middle if None.
        fill_value: the colour beyond the picture's edge.
    """
    fill = (fill_value,) * len(_picture(img).getbands()) if isinstance(fill_value, int) else \
        fill_value
    fill = fill[0] if len(img.getbands()) == 1 and isinstance(fill, tuple) else fill
    return img.rotate(angle, _way(resample, "rotate"), expand, center, fillcolor=fill)


def resize(img: Any, size: Any, interpolation: Any = Inter.LINEAR) -> Any:
    """A picture of Pillow in another size: (height, width), or an int for its shorter side."""
    way = _way(interpolation, "resize")
    if not isinstance(size, int):
        return _picture(img).resize(tuple(size)[::-1], way)
    short = min(_picture(img).size)
    return img.resize(tuple(size if n == short else int(size * n / short) for n in img.size), way)


def horizontal_flip(img: Any) -> Any:
    """A picture of Pillow mirrored left to right."""
    return _picture(img).transpose(pillow("horizontal_flip").Transpose.FLIP_LEFT_RIGHT)


def vertical_flip(img: Any) -> Any:
    """A picture of Pillow mirrored top to bottom."""
    return _picture(img).transpose(pillow("vertical_flip").Transpose.FLIP_TOP_BOTTOM)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of a picture of Pillow."""
    return _picture(img).crop((left, top, left + width, top + height))


def hwc_to_chw(img: Any) -> Array:
    """An array [height, width, channels] with the channels first."""
    return np.asarray(img).transpose(2, 0, 1).copy()


def to_tensor(img: Any, output_type: Any = np.float32) -> Array:
    """A picture as an array [channels, height, width] with elements of [0, 1]."""
    array = np.asarray(img)
    array = array[..., None] if array.ndim == 2 else array
    return (array.transpose(2, 0, 1) / 255.0).astype(output_type)
