"""Operators of `ai.onnx.ml` against ONNX Runtime, and models that are refused."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms

from .test_models import INT64, N, loaded, model, outputs_of, save, value

runtime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(21)
CODES = {"float32": 1, "int32": 6, "int64": 7, "float64": 11}


def f(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


X = f(9, 4)
HOLES = np.where(RNG.random((9, 4)) < 0.3, np.nan, X).astype(np.float32)
WHOLE = RNG.integers(0, 4, (9, 4))


def trees(depth: int, count: int, targets: int, kind: str, *, modes: str = "BRANCH_LEQ",
          missing: bool = False, only: int | None = None, positive: bool = False,
          turns: bool = False) -> dict[str, Any]:
    """The attributes of random trees: some branches end early, all leaves have one weight each, or
    one for each target if there are several; with `turns` each tree has one target, in turn."""
    lists: dict[str, list[Any]] = {n: [] for n in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}
    weights: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    names = modes.split()
    for tree in range(count):
        todo, free = [(0, 0)], 1
        while todo:
            node, level = todo.pop()
            leaf = level == depth or (level > 1 and RNG.random() < 0.3)
            row = (tree, node, int(RNG.integers(4)), float(np.float32(RNG.integers(-3, 4) / 2)),
                   "LEAF" if leaf else names[int(RNG.integers(len(names)))],
                   0 if leaf else free, 0 if leaf else free + 1,
                   int(missing and RNG.random() < 0.5))
            for name, item in zip(lists, row, strict=True):
                lists[name].append(item)
            if not leaf:
                todo += [(free, level + 1), (free + 1, level + 1)]
                free += 2
                continue
            for target in [tree % targets] if turns else range(targets) if only is None else [only]:
                number = float(np.float32(RNG.standard_normal()))
                for name, item in zip(weights, (tree, node, target, abs(number) if positive
                                                else number), strict=True):
                    weights[name].append(item)
    if not missing:
        del lists["missing_value_tracks_true"]
    return {**{f"nodes_{k}": v for k, v in lists.items()},
            **{f"{kind}_{k}": v for k, v in weights.items()}}


def regressor(*args: Any, more: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {**trees(*args, "target", **options), "n_targets": args[2], **(more or {})}


def classifier(*args: Any, more: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {**trees(*args, "class", **options),
            "classlabels_int64s": [5 + 3 * k for k in range(args[2])], **(more or {})}


LINEAR = {"coefficients": f(12).tolist(), "intercepts": f(3).tolist()}
BINARY = {"coefficients": f(4).tolist(), "intercepts": [0.3], "classlabels_ints": [2, 9]}
SUPPORT = {"coefficients": f(5).tolist(), "support_vectors": f(20).tolist(), "n_supports": 5,
           "rho": [0.2]}
ALL_MODES = "BRANCH_LEQ BRANCH_LT BRANCH_GTE BRANCH_GT BRANCH_EQ BRANCH_NEQ"
CASES: dict[str, tuple[str, list[Array], dict[str, Any], int]] = {
    "LinearRegressor": ("LinearRegressor", [X], {**LINEAR, "targets": 3}, 1),
    "LinearClassifier of ints": ("LinearClassifier", [WHOLE], {
        **LINEAR, "classlabels_ints": [4, 1, 7]}, 2),
    **{f"LinearClassifier {t}": ("LinearClassifier", [X], {
        **LINEAR, "classlabels_ints": [4, 1, 7], "post_transform": t}, 2)
       for t in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")},
    "LinearClassifier of one score": ("LinearClassifier", [X], BINARY, 2),
    "LinearClassifier of one logit": ("LinearClassifier", [X], {
        **BINARY, "post_transform": "LOGISTIC"}, 2),
    **{f"SVMRegressor {k}": ("SVMRegressor", [X], {
        **SUPPORT, "kernel_type": k, "kernel_params": [0.3, 0.1, 2.0]}, 1)
       for k in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    "SVMRegressor of one class": ("SVMRegressor", [X], {
        **SUPPORT, "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 0.0], "one_class": 1}, 1),
    "Scaler": ("Scaler", [X], {"offset": f(4).tolist(), "scale": f(4).tolist()}, 1),
    "Scaler of ints": ("Scaler", [WHOLE], {"offset": [1.0], "scale": [0.5]}, 1),
    **{f"Normalizer {k}": ("Normalizer", [X], {"norm": k}, 1) for k in ("MAX", "L1", "L2")},
    "Binarizer": ("Binarizer", [X], {"threshold": 0.25}, 1),
    "Imputer": ("Imputer", [HOLES], {"imputed_value_floats": f(4).tolist(),
                                     "replaced_value_float": float("nan")}, 1),
    "Imputer of ints": ("Imputer", [WHOLE], {"imputed_value_int64s": [7],
                                             "replaced_value_int64": 2}, 1),
    "OneHotEncoder": ("OneHotEncoder", [WHOLE], {"cats_int64s": [3, 0, 9], "zeros": 1}, 1),
    "FeatureVectorizer": ("FeatureVectorizer", [X, f(9, 2)], {"inputdimensions": [4, 2]}, 1),
    "LabelEncoder": ("LabelEncoder", [WHOLE], {
        "keys_int64s": [3, 1, 0], "values_floats": [0.5, 1.5, -2.0], "default_float": 9.0}, 1),
    "LabelEncoder of floats": ("LabelEncoder", [np.array([1.5, 0.5, 2], np.float32)], {
        "keys_floats": [0.5, 2.0], "values_int64s": [7, 8]}, 1),
    "ArrayFeatureExtractor": ("ArrayFeatureExtractor", [X, np.array([2, 0])], {}, 1),
    **{f"TreeEnsembleRegressor {k}": ("TreeEnsembleRegressor", [X], regressor(
        5, 6, 2, more={"aggregate_function": k, "base_values": [0.5, -1.0]}), 1)
       for k in ("SUM", "AVERAGE", "MIN", "MAX")},
    "TreeEnsembleRegressor deep": ("TreeEnsembleRegressor", [X], regressor(19, 2, 1), 1),
    "TreeEnsembleRegressor of holes": ("TreeEnsembleRegressor", [HOLES], regressor(
        5, 7, 1, missing=True, modes=ALL_MODES), 1),
    **{f"TreeEnsembleRegressor of {n} trees that take turns {k}": (
        "TreeEnsembleRegressor", [HOLES], regressor(18, n, 3, missing=True, turns=True, more={
            "aggregate_function": k}), 1) for n in (12, 13) for k in ("SUM", "MAX")},
    "TreeEnsembleClassifier of ints": ("TreeEnsembleClassifier", [WHOLE], classifier(4, 3, 3), 2),
    **{f"TreeEnsembleClassifier {t}": ("TreeEnsembleClassifier", [X], classifier(
        4, 5, 3, more={"post_transform": t, "base_values": [0.1, 0.2, 0.3]}), 2)
       for t in ("NONE", "SOFTMAX", "LOGISTIC")},
    **{f"TreeEnsembleClassifier of one score {t} {p}": ("TreeEnsembleClassifier", [X], classifier(
        4, 5, 2, only=0, positive=p, more={"post_transform": t, "base_values": [0.1]}), 2)
       for t in ("NONE", "LOGISTIC") for p in (False, True)},
    "TreeEnsembleClassifier of the second score": ("TreeEnsembleClassifier", [X], classifier(
        4, 5, 2, only=1), 2),
}


def proto_of(op: str, given: list[Array], attrs: dict[str, Any], outputs: int, rows: Any = None
             ) -> Any:
    names = [f"i{k}" for k in range(len(given))]
    fixed = {"i1": given[1]} if op == "ArrayFeatureExtractor" else {}
    inputs = [value(n, [rows or a.shape[0], *a.shape[1:]], CODES[a.dtype.name])
              for n, a in zip(names, given, strict=True) if n not in fixed]
    proto = model([N(op, names, [f"y{k}" for k in range(outputs)], domain="ai.onnx.ml", **attrs)],
                  inputs, [f"y{k}" for k in range(outputs)], fixed)
    proto.opset_import.add(domain="ai.onnx.ml", version=3)
    return proto


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str, tmp_path: Path) -> None:
    """Labels are equal, floats to 1e-5 of the largest number."""
    op, given, attrs, outputs = CASES[name]
    proto = proto_of(op, given, attrs, outputs)
    calls = given[:1] if op == "ArrayFeatureExtractor" else given
    session = runtime.InferenceSession(proto.SerializeToString())
    wanted = session.run(None, {f"i{k}": a for k, a in enumerate(calls)})
    for a, b in zip(outputs_of(loaded(proto, tmp_path), *calls), wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, 0, 0 if a.dtype.kind == "i" else 1e-5 * np.abs(b).max())


@pytest.mark.parametrize("name", ["TreeEnsembleClassifier NONE", "LinearClassifier SOFTMAX",
                                  "Normalizer L2", "SVMRegressor RBF", "TreeEnsembleRegressor deep",
                                  "TreeEnsembleRegressor of 12 trees that take turns SUM",
                                  "ArrayFeatureExtractor"])
def test_any_number_of_rows(name: str, tmp_path: Path) -> None:
    """One program of an open size serves all numbers of samples."""
    op, given, attrs, outputs = CASES[name]
    net = loaded(proto_of(op, given, attrs, outputs, rows="n"), tmp_path)
    ms.set_context(mode=ms.GRAPH_MODE)
    net.set_inputs(ms.Tensor(shape=[None, 4], dtype=ms.float32))
    whole = outputs_of(net, X)
    for rows in (1, 3):
        for a, b in zip(outputs_of(net, X[:rows]), whole, strict=True):
            np.testing.assert_allclose(a, b[:rows], 1e-6, 1e-6)


def test_version_5_of_trees(tmp_path: Path) -> None:
    """Leaves have numbers of their own; a tree may be one leaf, twice."""
    def tensor(*items: float, kind: Any = np.float32) -> Any:
        from onnx import numpy_helper

        return numpy_helper.from_array(np.array(items, kind))

    attrs = {"n_targets": 2, "aggregate_function": 1, "post_transform": 0, "tree_roots": [0, 2],
             "nodes_modes": tensor(0, 4, 0, kind=np.uint8), "nodes_featureids": [0, 1, 2],
             "nodes_splits": tensor(0.1, -0.5, 0), "nodes_truenodeids": [1, 0, 3],
             "nodes_trueleafs": [0, 1, 1], "nodes_falsenodeids": [1, 2, 3],
             "nodes_falseleafs": [1, 1, 1], "leaf_targetids": [0, 1, 0, 1],
             "leaf_weights": tensor(5.0, 7.0, -2.0, 0.5)}
    proto = proto_of("TreeEnsemble", [X], attrs, 1)
    proto.opset_import[-1].version = 5
    wanted = np.zeros((9, 2), np.float32)
    for row, x in zip(wanted, X, strict=True):
        leaf = (0 if x[1] == -0.5 else 2) if x[0] <= 0.1 else 1
        row[leaf % 2] += (5, 7, -2)[leaf]
        row[1] += 0.5
    np.testing.assert_array_equal(outputs_of(loaded(proto, tmp_path), X)[0], wanted)


def test_an_unknown_category(tmp_path: Path) -> None:
    """An encoder that knows no zeros refuses it in both modes."""
    net = loaded(proto_of("OneHotEncoder", [WHOLE], {"cats_int64s": [0, 1, 2, 3], "zeros": 0}, 1),
                 tmp_path)
    outputs_of(net, WHOLE)
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        with pytest.raises((RuntimeError, IndexError), match="is none of the categories"):
            net(ms.Tensor(WHOLE + 1)).asnumpy()


def tree(**changes: Any) -> dict[str, Any]:
    """A tree of one test and two leaves."""
    return {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
            "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"],
            "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
            "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
            "target_weights": [1.0, 2.0], "n_targets": 1, **changes}


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "a child that is not there": ("TreeEnsembleRegressor", tree(nodes_truenodeids=[7, 0, 0]),
                                  "child that its tree does not have"),
    "a circle": ("TreeEnsembleRegressor", tree(
        nodes_modes=["BRANCH_LT", "BRANCH_LT", "LEAF"], nodes_truenodeids=[1, 1, 0],
        nodes_falsenodeids=[2, 1, 0]), "goes in a circle"),
    "a stray circle": ("TreeEnsembleRegressor", tree(
        nodes_modes=["BRANCH_LT", "BRANCH_LT", "LEAF"], nodes_truenodeids=[0, 2, 0],
        nodes_falsenodeids=[0, 2, 0]), "on no way from a root"),
    "no root": ("TreeEnsembleRegressor", tree(nodes_truenodeids=[0, 0, 0],
                                              nodes_falsenodeids=[1, 0, 0]),
                "on no way from a root"),
    "a mode": ("TreeEnsembleRegressor", tree(nodes_modes=["BRANCH_LT", "LEAF", "TWIG"]),
               "the mode 'TWIG'"),
    "lists of unlike lengths": ("TreeEnsembleRegressor", tree(nodes_values=[0.5]),
                                "differ in length"),
    "a number twice": ("TreeEnsembleRegressor", tree(nodes_nodeids=[0, 1, 1]), "have one number"),
    "a column": ("TreeEnsembleRegressor", tree(nodes_featureids=[4, 0, 0]), "tests column 4"),
    "a target": ("TreeEnsembleRegressor", tree(target_ids=[0, 1]), "target that is not there"),
    "a weight of no node": ("TreeEnsembleRegressor", tree(target_nodeids=[1, 9]),
                            "node or target that is not there"),
    "many targets": ("TreeEnsembleRegressor", tree(n_targets=1 << 40), "are not read"),
    "labels of text": ("LinearClassifier", {**LINEAR, "classlabels_strings": ["a", "b", "c"]},
                       "labels are strings"),
    "coefficients": ("LinearRegressor", {"coefficients": [1.0, 2.0]}, "2 coefficients do not fit"),
    "a transform": ("LinearRegressor", {**LINEAR, "targets": 3, "post_transform": "CUBE"},
                    "'post_transform' is 'CUBE'"),
    "categories of text": ("OneHotEncoder", {"cats_strings": ["a"]}, "categories are strings"),
    "a map": ("ZipMap", {"classlabels_int64s": [0, 1]}, "works on maps: convert .* zipmap=False"),
    "a machine": ("SVMClassifier", {}, "ai.onnx.ml::SVMClassifier"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_clear_error(name: str, tmp_path: Path) -> None:
    op, attrs, why = BAD[name]
    path = save(proto_of(op, [WHOLE if "Encoder" in op else X], attrs, 1), tmp_path / "m.onnx")
    with pytest.raises(RuntimeError, match=f"cannot be read: .*{why}"):
        ms.load(path)


def test_memory_is_bounded_by_the_file(tmp_path: Path) -> None:
    """Trees of thousands of leaves, each of one of many targets."""
    attrs = regressor(12, 30, 1)
    attrs["target_ids"] = [k % 40 for k in range(len(attrs["target_ids"]))]
    path = save(proto_of("TreeEnsembleRegressor", [X], {**attrs, "n_targets": 40}, 1),
                tmp_path / "m.onnx")
    tracemalloc.start()
    try:
        ms.load(path)
        assert tracemalloc.get_traced_memory()[1] < 64 * Path(path).stat().st_size + (1 << 20)
    finally:
        tracemalloc.stop()


def test_two_classes_that_both_have_weights(tmp_path: Path) -> None:
    """The label is that of the larger score, as in ONNX's reference. (ONNX Runtime gives 0 or 1,
    which may be no label.)"""
    attrs = classifier(3, 2, 2, positive=True)
    labels, scores = outputs_of(
        loaded(proto_of("TreeEnsembleClassifier", [X], attrs, 2), tmp_path), X)
    assert CODES[labels.dtype.name] == INT64
    np.testing.assert_array_equal(labels, np.array([5, 8])[scores.argmax(1)])


def test_a_key_that_is_no_number(tmp_path: Path) -> None:
    x = np.array([1.5, np.nan, 2], np.float32)
    attrs = {"keys_floats": [float("nan"), 2.0], "values_int64s": [7, 8]}
    found = outputs_of(loaded(proto_of("LabelEncoder", [x], attrs, 1), tmp_path), x)[0]
    assert found.tolist() == [-1, 7, 8]
