"""Metrics on fixed inputs, as cases that run under MindSpore and under cellc alike.

    python tests/train/metric_cases.py ORACLE_PYTHON

runs them under MindSpore and stores what it gives in metric_facts.json.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

FACTS = Path(__file__).with_name("metric_facts.json")


def inputs():
    rng = np.random.default_rng(5)
    scores = rng.random((12, 4)).astype(np.float32)
    labels = rng.integers(0, 4, 12)
    hot = np.eye(4, dtype=np.int64)[labels]
    hot_pred = np.eye(4, dtype=np.int64)[rng.integers(0, 4, 12)]
    many, many_true = rng.integers(0, 2, (6, 5)), rng.integers(0, 2, (6, 5))
    image, truth = rng.integers(0, 3, (7, 8)), rng.integers(0, 3, (7, 8))
    cube, cube_true = rng.integers(0, 2, (4, 5, 3)), rng.integers(0, 2, (4, 5, 3))
    pred2, true2 = rng.integers(0, 2, 20), rng.integers(0, 2, 20)
    reals, targets = rng.random((5, 3)), rng.random((5, 3))
    seg = np.moveaxis(np.eye(3, dtype=np.int64)[rng.integers(0, 3, (4, 6, 5))], -1, 1)
    seg_true = np.moveaxis(np.eye(3, dtype=np.int64)[rng.integers(0, 3, (4, 6, 5))], -1, 1)
    deep = rng.random((3, 4, 5)).astype(np.float32)
    deep_labels = rng.integers(0, 4, (3, 5))
    return {k: v for k, v in locals().items() if k != "rng"}


RATES = ("sensitivity", "specificity", "precision", "negative predictive value", "miss rate",
         "fall out", "false discovery rate", "false omission rate", "prevalence threshold",
         "threat score", "accuracy", "balanced accuracy", "f1 score",
         "matthews correlation coefficient", "fowlkes mallows index", "informedness", "markedness",
         "tpr", "ppv", "acc", "mcc", "bm")
TEXT = [["i", "have", "a", "pen", "on", "my", "desk"], ["the", "cat", "is", "on", "the", "mat"]]
REFERENCES = [[["i", "have", "a", "pen", "in", "my", "desk"],
               ["there", "is", "a", "pen", "on", "the", "desk"]],
              [["there", "is", "a", "cat", "on", "the", "mat"], ["a", "cat", "is", "on", "it"]]]

# name, arguments, batches (names of inputs, or values), arguments of eval
CASES = [
    ("Accuracy", {}, [("scores", "labels")], {}),
    ("Accuracy", {}, [("scores", "hot"), ("scores", "labels")], {}),
    ("Accuracy", {}, [("deep", "deep_labels")], {}),
    ("Accuracy", {"eval_type": "multilabel"}, [("many", "many_true")], {}),
    ("Accuracy", {}, [("scores", "many")], {}),
    ("Accuracy", {"eval_type": "foo"}, [], {}),
    ("Accuracy", {}, [("scores",)], {}),
    ("Accuracy", {}, [], {}),
    *[(name, {}, [("scores", "labels")] * n, {"average": average})
      for name in ("Precision", "Recall", "F1") for n in (1, 2) for average in (False, True)],
    *[(name, {}, [("scores", "hot")], {}) for name in ("Precision", "Recall", "F1")],
    *[(name, {"eval_type": "multilabel"}, [("many", "many_true")] * n, {})
      for name in ("Precision", "Recall") for n in (1, 2)],
    *[(name, {}, [], {}) for name in ("Precision", "Recall", "F1", "MAE", "MSE", "Loss", "Dice",
                                      "Perplexity", "BleuScore", "ROC", "HausdorffDistance",
                                      "MeanSurfaceDistance", "RootMeanSquareDistance",
                                      "CosineSimilarity", "Top1CategoricalAccuracy",
                                      "OcclusionSensitivity")],
    *[("Fbeta", {"beta": beta}, [("scores", "labels")], {"average": a})
      for beta in (0.5, 2) for a in (False, True)],
    ("Fbeta", {"beta": 0}, [], {}),
    ("Fbeta", {"beta": -1}, [], {}),
    ("Fbeta", {"beta": 1.0}, [("scores", "many")], {}),
    *[("TopKCategoricalAccuracy", {"k": k}, [("scores", "labels"), ("scores", "hot")], {})
      for k in (1, 2, 3)],
    ("TopKCategoricalAccuracy", {"k": 0}, [], {}),
    ("TopKCategoricalAccuracy", {"k": 1.5}, [], {}),
    ("Top1CategoricalAccuracy", {}, [("scores", "labels")], {}),
    *[(name, {}, [("reals", "targets")] * n, {}) for name in ("MAE", "MSE", "Dice")
      for n in (1, 3)],
    ("MAE", {}, [("reals",)], {}),
    ("Dice", {"smooth": 0.5}, [("reals", "targets")], {}),
    ("Dice", {"smooth": 0.0}, [], {}),
    ("Dice", {}, [("reals", "labels")], {}),
    ("Loss", {}, [(0.5,), (0.25,)], {}),
    ("Loss", {}, [("reals",)], {}),
    ("Perplexity", {}, [("scores", "labels")] * 2, {}),
    ("Perplexity", {"ignore_label": 1}, [("scores", "labels")], {}),
    ("Perplexity", {"ignore_label": "a"}, [], {}),
    ("Perplexity", {}, [("scores", "pred2")], {}),
    *[("CosineSimilarity", {"similarity": s, "reduction": r, "zero_diagonal": z}, [("reals",)], {})
      for s in ("cosine", "dot") for r in ("none", "sum", "mean") for z in (True, False)],
    ("CosineSimilarity", {"similarity": "x"}, [], {}),
    *[("ConfusionMatrix", {"num_classes": 2, "normalize": n}, [("pred2", "true2")] * 2, {})
      for n in ("no_norm", "target", "prediction", "all")],
    ("ConfusionMatrix", {"num_classes": 4}, [("scores", "labels")], {}),
    ("ConfusionMatrix", {"num_classes": 2, "normalize": "x"}, [], {}),
    ("ConfusionMatrix", {"num_classes": 4}, [("deep", "labels")], {}),
    *[("ConfusionMatrixMetric", {"metric_name": m}, [("hot_pred", "hot")] * 2, {}) for m in RATES],
    *[("ConfusionMatrixMetric", {"metric_name": m, "skip_channel": False}, [("seg", "seg_true")],
       {}) for m in RATES],
    *[("ConfusionMatrixMetric",
       {"metric_name": "tpr", "calculation_method": True, "decrease": d, "skip_channel": s},
       [("seg", "seg_true")] * n, {}) for s in (True, False) for n in (1, 2)
      for d in ("mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel", "none")],
    ("ConfusionMatrixMetric", {"metric_name": "foo"}, [("seg", "seg_true")], {}),
    ("ROC", {}, [("reals_score", "true2")], {}),
    ("ROC", {"pos_label": 2}, [("image", "truth")], {}),
    ("ROC", {"class_num": 4}, [("scores", "labels")], {}),
    *[("HausdorffDistance", {"distance_metric": d, "percentile": p, "directed": o, "crop": c},
       [("image", "truth", 1)], {}) for d in ("euclidean", "chessboard", "taxicab")
      for p in (None, 50.0) for o in (True, False) for c in (True, False)],
    *[(name, {"distance_metric": d, "symmetric": s}, [("image", "truth", 2)], {})
      for name in ("MeanSurfaceDistance", "RootMeanSquareDistance")
      for d in ("euclidean", "chessboard", "taxicab") for s in (True, False)],
    *[(name, {}, [("cube", "cube_true", 1)], {})
      for name in ("HausdorffDistance", "MeanSurfaceDistance", "RootMeanSquareDistance")],
    ("HausdorffDistance", {"distance_metric": "x"}, [], {}),
    ("HausdorffDistance", {}, [("image", "truth")], {}),
    ("HausdorffDistance", {}, [("image", "truth", 9)], {}),
    ("HausdorffDistance", {}, [("image", "truth", "a")], {}),
    *[("BleuScore", {"n_gram": n, "smooth": s}, [(TEXT, REFERENCES)] * k, {})
      for n in (1, 2, 4) for s in (False, True) for k in (1, 2)],
    ("BleuScore", {"n_gram": 2},
     [(TEXT, [REFERENCES[0], [REFERENCES[1][0] * 3, REFERENCES[1][0]]])], {}),  # (the nearest one)
    ("BleuScore", {"n_gram": 5}, [], {}),
    ("BleuScore", {}, [(TEXT, REFERENCES[:1])], {}),
    ("auc", {}, [([0.0, 0.2, 1.0], [0.0, 0.7, 1.0])], {}),
    ("auc", {}, [([1.0, 0.2, 0.0], [0.0, 0.7, 1.0])], {}),
    ("auc", {"reorder": True}, [([1.0, 0.2, 0.5], [0.0, 0.7, 1.0])], {}),
    ("auc", {}, [([1.0, 0.2, 0.5], [0.0, 0.7, 1.0])], {}),
    ("auc", {}, [([1.0], [0.0])], {}),
]  # fmt: skip


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    value = float(value)
    return value if math.isfinite(value) else repr(value)


def run(ms):
    """What each case gives: a value, or the kind of the error."""
    data = inputs()
    data["reals_score"] = np.linspace(0, 1, 20)[np.random.default_rng(1).permutation(20)]
    out = []
    for name, options, batches, evaluation in CASES:
        try:
            if name == "auc":
                points = [np.array(p) for p in batches[0]]
                out.append(plain(ms.train.auc(*points, **options)))
                continue
            metric = getattr(ms.train, name)(**options)
            metric.clear()
            for batch in batches:
                given = [data.get(x, x) if isinstance(x, str) else x for x in batch]
                metric.update(*[ms.Tensor(x) if isinstance(x, np.ndarray) else
                                np.array(x) if isinstance(x, float) else x for x in given])
            out.append(plain(metric.eval(**evaluation)))
        except Exception as e:
            out.append({"error": type(e).__name__, "text": str(e)[:200]})
    return out


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import subprocess

        FACTS.write_text(subprocess.run([sys.argv[1], __file__], capture_output=True, text=True,
                                        check=True).stdout.splitlines()[-1] + "\n")
    else:
        import mindspore

        found = run(mindspore)
        for row in found:
            if isinstance(row, dict):
                row.pop("text")
        print(json.dumps(found))
