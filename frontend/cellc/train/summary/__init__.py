"""Records of trainings for TensorBoard. Source: `mindspore.train.summary`."""

from .record import SummaryRecord

__all__ = ["SummaryRecord"]
