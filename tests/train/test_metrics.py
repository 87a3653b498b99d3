"""Metrics against what MindSpore gives (recorded in metric_facts.json), and against formulas
where MindSpore does not do what its documentation says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.train import metrics

from ..others import mindspore
from . import metric_cases
from .metric_cases import CASES, FACTS


def differs_on_purpose(name, options, batches):
    """Cases in which MindSpore 2.10 contradicts its documentation, or fails."""
    if name in ("MeanSurfaceDistance", "RootMeanSquareDistance"):
        # It averages two means (documented: one mean of all), and leaves the root out.
        return options.get("symmetric", False) or name == "RootMeanSquareDistance"
    if name == "ConfusionMatrixMetric":
        # Reductions other than to one number fail; unknown names are noticed late.
        return options.get("decrease", "mean") not in ("mean", "sum") or \
            options.get("metric_name") == "foo"
    return name == "HausdorffDistance" and "a" in (batches or [""])[0]


def flipped(case):
    """MindSpore's `skip_channel` does the opposite of what it documents."""
    name, options, batches, evaluation = case
    if name == "ConfusionMatrixMetric":
        options = {**options, "skip_channel": not options.get("skip_channel", True)}
    return name, options, batches, evaluation


def close(a, b):
    if isinstance(a, dict) or isinstance(b, dict):
        return isinstance(a, dict) and isinstance(b, dict) and a["error"] == b["error"]
    if isinstance(a, list) or isinstance(b, list):
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
        return close(a[0] if isinstance(a, list) else a, b[0] if isinstance(b, list) else b)
    return np.isclose(float(a), float(b), rtol=1e-6, atol=1e-9, equal_nan=True)


def test_all_cases(monkeypatch):
    facts = json.loads(FACTS.read_text())
    monkeypatch.setattr(metric_cases, "CASES", [flipped(c) for c in CASES])
    found = metric_cases.run(ms)
    assert len(facts) == len(found) == len(CASES) > 200
    wrong = [(case, fact, ours) for case, fact, ours in zip(CASES, facts, found, strict=True)
             if not close(fact, ours) and not differs_on_purpose(*case[:3])]
    assert not wrong, wrong[:3]
    assert sum(not isinstance(f, dict) for f in facts) > 150


def test_the_facts_are_what_mindspore_gives():
    """But for last digits, which are those of the machine."""
    facts, found = json.loads(FACTS.read_text()), mindspore(Path(metric_cases.__file__))
    assert len(found) == len(facts)
    assert all(map(close, found, facts))


def test_surface_distances_are_those_of_the_formulas():
    a, b = np.zeros((2, 6, 7), int)
    a[1:4, 1:4], b[2:6, 3:7] = 1, 1
    edge_a = [(i, j) for i in range(1, 4) for j in range(1, 4) if (i, j) != (2, 2)]
    edge_b = [(i, j) for i in range(2, 6) for j in range(3, 7)
              if i in (2, 5) or j in (3, 6)]
    there = [min(np.hypot(i - k, j - m) for k, m in edge_b) for i, j in edge_a]
    back = [min(np.hypot(i - k, j - m) for k, m in edge_a) for i, j in edge_b]
    for symmetric, distances in ((False, there), (True, there + back)):
        for name, formula in (("MeanSurfaceDistance", np.mean(distances)),
                              ("RootMeanSquareDistance", np.sqrt(np.mean(np.square(distances))))):
            metric = getattr(metrics, name)(symmetric=symmetric)
            assert np.isclose(metric(a, b, 1), formula)
    assert np.isclose(metrics.HausdorffDistance()(a, b, 1), max(max(there), max(back)))
    assert metrics.MeanSurfaceDistance()(a, np.zeros_like(a), 1) == np.inf


def test_reductions_of_rates_of_samples():
    y = np.array([[[1, 0], [0, 1]], [[0, 0], [1, 1]]])
    y_pred = np.array([[[1, 1], [0, 0]], [[1, 0], [0, 1]]])

    def rate(decrease):
        return metrics.ConfusionMatrixMetric(
            False, "tpr", calculation_method=True, decrease=decrease)(y_pred, y)

    # True positive rates: sample 0: 1, 0; sample 1: none, 0.5.
    assert np.allclose(rate("mean_batch"), [1.0, 0.25])
    assert np.allclose(rate("sum_batch"), [1.0, 0.5])
    assert np.allclose(rate("mean_channel"), [0.5, 0.5])
    assert np.allclose(rate("sum_channel"), [1.0, 0.5])
    assert rate("sum") == 1.5
    assert rate("mean") == 0.5
    with pytest.raises(ValueError, match="one-hot"):
        metrics.ConfusionMatrixMetric()(y_pred + 1, y)


def test_names_and_lookup():
    assert metrics.names() == sorted(metrics.names())
    assert isinstance(metrics.get_metric_fn("precision", eval_type="multilabel"),
                      metrics.Precision)
    with pytest.raises(KeyError, match="Unsupported metric 'foo'"):
        metrics.get_metric_fn("foo")


def test_chosen_inputs():
    x, y, z = np.array([[0.1, 0.9]]), np.array([0]), np.array([1])
    assert metrics.Accuracy().set_indexes([0, 2])(Tensor(x), Tensor(y), Tensor(z)) == 1.0
    assert metrics.Accuracy().set_indexes([0, 1])(x, y, z) == 0.0
    with pytest.raises(ValueError, match="list of int"):
        metrics.Accuracy().set_indexes((0, 1))


@pytest.mark.usefixtures("mode")
def test_occlusion():
    weight = np.array([[0.1, 0.8, 0.1, 0.1], [1, 1, 1, 1]], np.float32)
    net = nn.Dense(4, 2, weight_init=Tensor(weight),
                   bias_init=Tensor(np.array([0.3, 0.6], np.float32)))
    image = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
    metric = metrics.OcclusionSensitivity()
    metric.update(net, image, np.array(1, np.int32))
    assert np.allclose(metric.eval(), [0.3, 0.6, 1.0, 0.9])
    small = metrics.OcclusionSensitivity(margin=1, n_batch=3)
    small.update(net, image, np.array(1))
    assert np.allclose(small.eval(), [0.1, 0.3, 0.5, 0.7], atol=1e-6)
    box = metrics.OcclusionSensitivity(margin=1, b_box=[1, 2])
    box.update(net, image, np.array(1))
    assert np.allclose(box.eval(), [0.3, 0.5], atol=1e-6)
    for bad in ((net, image[0], 1), (net, np.vstack([image, image]), 1), (net, image, [1, 2])):
        with pytest.raises(RuntimeError, match="OcclusionSensitivity"):
            metrics.OcclusionSensitivity().update(*bad)
    with pytest.raises(TypeError, match="Cell"):
        metrics.OcclusionSensitivity().update(1, image, 1)


def test_labels_and_classes_that_do_not_fit():
    scores = np.ones((2, 3))
    for name in ("Precision", "Recall", "F1"):
        with pytest.raises(ValueError, match="below the number of classes"):
            getattr(metrics, name)()(scores, np.array([0, 3]))
        metric = getattr(metrics, name)()
        metric.update(scores, np.array([0, 1]))
        with pytest.raises(ValueError, match="those before had 3"):
            metric.update(np.ones((2, 4)), np.array([0, 1]))
    with pytest.raises(ValueError, match="classes must be from 0 to 1"):
        metrics.ConfusionMatrix(2)(np.array([0, 2]), np.array([0, 1]))
    with pytest.raises(ValueError, match="no positive sample"):
        metrics.ROC()(np.array([0.1, 0.2]), np.array([0, 0]))
    with pytest.raises(TypeError, match="must be Tensor, list or numpy"):
        metrics.Accuracy()("a", "b")
