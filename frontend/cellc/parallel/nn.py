"""Networks in parts of their batch, for stages of a pipeline. Source: `mindspore.parallel.nn`."""

from ..nn.micro_batch import (
    GradAccumulationCell,
    MicroBatchInterleaved,
    PipelineCell,
    PipelineGradReducer,
)

GradAccumulation = GradAccumulationCell
Pipeline = PipelineCell

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

__all__ = ["GradAccumulation", "MicroBatchInterleaved", "Pipeline", "PipelineCell",
           "PipelineGradReducer"]
