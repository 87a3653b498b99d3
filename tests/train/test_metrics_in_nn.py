"""Metrics are found in `nn` too, as older scripts write them."""

from __future__ import annotations

import pytest

from cellc import nn
from cellc.train import metrics


def test_metrics_are_the_same_classes_in_both_places() -> None:
    assert nn.Accuracy is metrics.Accuracy
    for name in metrics.__all__:
        assert getattr(nn, name) is getattr(metrics, name), name
        assert name in dir(nn)


def test_other_names_are_missing() -> None:
    assert not hasattr(nn, "Acuracy")
    with pytest.raises(AttributeError, match="has no attribute 'Acuracy'"):
        getattr(nn, "Acuracy")  # noqa: B009
