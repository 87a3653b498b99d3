"""Names of MindSpore's that decode videos: each says what serves instead when it is called."""

from __future__ import annotations

from ...core.absent import absent

_WHY = ("decodes a video file, for which cellc has no decoder: read frames with a library such as "
        "PyAV or OpenCV in a GeneratorDataset, as uint8 arrays.")

DecodeVideo = absent("dataset.vision.DecodeVideo", _WHY, "Frames of a video's bytes: not here.")
VideoDecoder = absent("dataset.vision.VideoDecoder", _WHY, "Frames of a video file: not here.")
read_video = absent("dataset.vision.read_video", _WHY, "Frames and sound of a file: not here.")
read_video_timestamps = absent(
    "dataset.vision.read_video_timestamps", _WHY, "Times of a video file's frames: not here.")

__all__ = ["DecodeVideo", "VideoDecoder", "read_video", "read_video_timestamps"]
