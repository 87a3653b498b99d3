"""Names of MindSpore's that decode videos: each says what serves instead when it is called."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["DecodeVideo", "VideoDecoder", "read_video", "read_video_timestamps"]


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"dataset.vision.{name} decodes a video, for which cellc has no decoder: read frames with "
        "a library such as PyAV or OpenCV in a GeneratorDataset, as uint8 arrays.")


class DecodeVideo:
    """Frames of a video's bytes: not here, a RuntimeError says what serves instead."""

    def __init__(self) -> None:
        _refuse("DecodeVideo")


class VideoDecoder:
    """Frames of a video file: not here, a RuntimeError says what serves instead."""

    def __init__(self, source: str) -> None:
        _refuse("VideoDecoder")


def read_video(
    filename: str, start_pts: Any = 0, end_pts: Any = None, pts_unit: str = "pts"
) -> NoReturn:
    """Frames and sound of a video file: not here, a RuntimeError says what serves instead."""
    _refuse("read_video")


def read_video_timestamps(filename: str, pts_unit: str = "pts") -> NoReturn:
    """Times of a video file's frames: not here, a RuntimeError says what serves instead."""
    _refuse("read_video_timestamps")
