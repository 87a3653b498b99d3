"""Ensembles of trees (`ai.onnx.ml`), as scikit-learn and LightGBM export them.

All trees are one table of nodes. Each sample stands at one node of every tree, from the roots on.
A step moves it to the child that the test of its node chooses; a leaf is its own child. After as
many steps as the deepest tree has levels, all samples stand at leaves, and the weights of these are
summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..core.dispatch import apply_one, scan
from ..tensors.tensor import Tensor, tensor_of
from .classic import best, chosen, labels_of, row, rows_of, transformed, two_classes
from .shaping import reshaped, sliced
from .table import Array, Call, like, rule, to

A = apply_one
_TESTS = {"BRANCH_LEQ": "le", "BRANCH_LT": "lt", "BRANCH_GTE": "ge", "BRANCH_GT": "gt",
          "BRANCH_EQ": "eq", "BRANCH_NEQ": "ne"}
_MODES = ["LEAF", *_TESTS]
_CODES = (1, 2, 3, 4, 5, 0)  # what TreeEnsemble of version 5 calls the modes, without MEMBER
_STEPS = (4, 8, 12, 16)
"""Steps after which trees that are done leave the walk; up to the last, steps are written out."""
_SHARED = 4  # How often a node may be met on the ways from the roots, in the mean
_ROOM = (1 << 14, 64, 4)
"""Most elements of a table of weights: in any case, for each node, and for each weight."""


@dataclass(frozen=True, slots=True)
class _Forest:
    """The nodes of all trees.

    Attributes:
        mode: position in `_MODES`.
        columns: of the input, those that are tested; `tests` the column that a node tests, or where
            some tests pass NaN, twice that and whether this one does.
        limit: what the column is compared with.
        children: of node i at 2 i the child where the test fails, then the one where it passes; of
            a leaf, itself.
        modes: those of inner nodes.
        has_missing: whether some tests pass NaN.
        roots: of the trees, the shallowest first.
        depths: of each tree, the steps from its root to the deepest leaf.
        trees: of each node, the position of its tree; -1 if it is in several.
    """

    mode: Array
    columns: Array
    tests: Array
    limit: Array
    children: Array
    modes: tuple[int, ...]
    has_missing: bool
    roots: Array
    depths: Array
    trees: Array

    def leaves(self, c: Call, x: Tensor) -> Tensor:
        """The leaf at which each sample ends in each tree, (N, trees)."""
        if self.columns.size and not 0 <= self.columns[0] <= self.columns[-1] < x.shape[1]:
            raise c.refuse(f"it tests column {self.columns[-1]} of an input of shape "
                           f"{list(x.shape)}")
        at = A("broadcast_to", tensor_of(self.roots), shape=(x.shape[0], self.roots.size))
        tables = [tensor_of(self.tests), row(self.limit, x), tensor_of(self.children),
                  tensor_of(self.mode)]
        deepest, parts, done, steps = int(self.depths[-1]), [], 0, 0
        for stop in (*(s for s in _STEPS if s < deepest), deepest):
            at = self._walked(at, x, tables, stop - steps, stop > _STEPS[-1])
            now, steps = int(np.searchsorted(self.depths, stop, "right")), stop
            if now > done:
                parts.append(sliced(at, 1, 0, now - done))
                at = sliced(at, 1, now - done, self.roots.size - done)
                done = now
        return parts[0] if len(parts) == 1 else A("concat", *parts, axis=1)

    def _walked(self, at: Tensor, x: Tensor, tables: list[Tensor], steps: int, is_loop: bool
                ) -> Tensor:
        """The nodes some steps from others."""
        modes, has_missing = self.modes, self.has_missing

        def step(at: Tensor, x: Tensor, tables: Sequence[Tensor]) -> Tensor:
            test, limit, mode = (A("gather", t, at, axis=0, batch_dims=0)
                                 for t in (tables[0], tables[1], tables[3]))
            feature = A("shift_right", test, like(1, test)) if has_missing else test
            value = A("gather_elements", x, feature, dim=1)
            passed = _passed(value, limit, mode, modes)
            if has_missing:
                is_missing = A("eq", A("bitwise_and", test, like(1, test)), like(1, test))
                passed = A("logical_or", passed, A("logical_and", A("isnan", value), is_missing))
            child = A("add", A("add", at, at), to(passed, dtypes.int32))
            return A("gather", tables[2], child, axis=0, batch_dims=0)

        if not is_loop:
            for _ in range(steps):
                at = step(at, x, tables)
            return at
        (at,), _ = scan(
            ("onnx", "trees", modes, has_missing), [at], [], [x, *tables], steps,
            lambda carried, _, i, given: ([step(carried[0], given[0], given[1:])], []))
        return at


def _passed(value: Tensor, limit: Tensor, mode: Tensor, modes: Sequence[int]) -> Tensor:
    """Whether values pass the tests of their nodes."""
    results = [(m, A(_TESTS[_MODES[m]], value, limit)) for m in modes]
    passed = results[0][1]
    for m, result in results[1:]:
        passed = A("where", A("eq", mode, like(m, mode)), result, passed)
    return passed


# --- reading --------------------------------------------------------------------------------------


def _forest(c: Call) -> tuple[_Forest, dict[tuple[int, int], int]]:
    """The nodes as the operators of versions 1 to 3 list them, and their positions by the numbers
    of tree and node."""
    trees, nodes = (_ints(c, f"nodes_{n}") for n in ("treeids", "nodeids"))
    count = len(nodes)
    names = c.attrs.get("nodes_modes", [])
    lists = {n: _ints(c, f"nodes_{n}") for n in ("featureids", "truenodeids", "falsenodeids")}
    limits = c.reals("nodes_values")
    missing = _ints(c, "nodes_missing_value_tracks_true") or [0] * count
    if not count or not all(len(v) == count for v in (trees, names, limits, missing,
                                                      *lists.values())):
        raise c.refuse("its lists of nodes differ in length, or are empty")
    unknown = next((m for m in names if m not in _MODES), None)
    if unknown is not None:
        raise c.refuse(f"a node has the mode {unknown!r}")
    places = {key: i for i, key in enumerate(zip(trees, nodes, strict=True))}
    if len(places) != count:
        raise c.refuse("two nodes of a tree have one number")
    mode = np.array([_MODES.index(m) for m in names], np.int64)
    children = []
    for ids in (lists["truenodeids"], lists["falsenodeids"]):
        own = [places.get((t, n), -1) if m else i
               for i, (t, n, m) in enumerate(zip(trees, ids, mode, strict=True))]
        children.append(np.array(own, np.int64))
    forest = _grown(c, mode, np.array(lists["featureids"], np.int64), limits, children,
                    np.array(missing, bool), None)
    if forest.roots.size != len(set(trees)):
        raise c.refuse(f"{len(set(trees))} trees have {forest.roots.size} roots")
    return forest, places


def _grown(c: Call, mode: Array, feature: Array, limit: Array, children: list[Array],
           missing: Array, roots: Array | None) -> _Forest:
    """A forest whose children are checked: they are there, and nothing goes in a circle.

    Args:
        roots: of the trees; None for the nodes that are no child.
    """
    yes, no = children
    inner = mode > 0
    if min(yes.min(), no.min()) < 0 or max(yes.max(), no.max()) >= mode.size:
        raise c.refuse("a node has a child that its tree does not have")
    if roots is None:
        child = np.zeros(mode.size, bool)
        child[yes[inner]] = child[no[inner]] = True
        roots = np.flatnonzero(~child)
    if not roots.size or not 0 <= roots.min() <= roots.max() < mode.size:
        raise c.refuse("a tree has no root")
    trees, depths = _owners(c, mode, roots, children)
    order = np.argsort(depths, kind="stable")
    places = np.append(np.argsort(order, kind="stable"), -1)  # (-1 stays -1)
    feature, passed = np.where(inner, feature, 0), missing & inner
    tests = 2 * feature + passed if passed.any() else feature
    mode, tests, links, roots = (v.astype(np.int32) for v in (
        mode, tests, np.stack([no, yes], 1).reshape(-1), roots[order]))
    modes = tuple(int(m) for m in np.unique(mode[inner]))
    return _Forest(mode, np.unique(feature), tests, limit, links, modes, bool(passed.any()), roots,
                   depths[order], places[trees])


def _owners(c: Call, mode: Array, roots: Array, children: list[Array]) -> tuple[Array, Array]:
    """The tree of each node, -1 for nodes of several, and the depth of each tree."""
    inner, count, left = mode > 0, roots.size, _SHARED * mode.size
    seen, trees = np.zeros(mode.size, bool), np.full(mode.size, -1)
    depth, depths, level, owner = 0, np.zeros(count, np.int64), roots, np.arange(count)
    while level.size:
        left -= level.size
        if depth > mode.size or left < 0:
            raise c.refuse("a tree goes in a circle, or trees share nodes")
        again = seen[level] & (trees[level] != owner)
        trees[level], depths[owner] = np.where(again, -1, owner), depth
        nodes, times = np.unique(level, return_counts=True)
        trees[nodes[times > 1]] = -1
        seen[level], depth = True, depth + 1
        level, owner = level[inner[level]], owner[inner[level]]
        pairs = np.unique(np.concatenate([owner * mode.size + side[level] for side in children]))
        owner, level = pairs // mode.size, pairs % mode.size
    if not seen[inner].all():
        raise c.refuse("a node is on no way from a root, or a tree goes in a circle")
    return trees, depths


def _ints(c: Call, name: str) -> list[int]:
    return list(c.ints(name, ()) or ())


def _read(c: Call, kind: str, targets: int, fill: float) -> tuple[_Forest, Array, Array, Array]:
    """The forest and what its leaves give.

    Args:
        kind: how the lists of weights are called, `target` or `class`.
        fill: what a leaf gives to a target that it does not name.

    Returns:
        Return the forest, the row of each node in the table, the table (rows, targets), and the
        targets.
    """
    forest, places = _forest(c)
    trees, nodes, ids = (_ints(c, f"{kind}_{n}") for n in ("treeids", "nodeids", "ids"))
    weights = c.reals(f"{kind}_weights")
    if not len(trees) == len(nodes) == len(ids) == weights.size:
        raise c.refuse(f"its lists of {kind} weights differ in length")
    at = np.array([places.get(key, -1) for key in zip(trees, nodes, strict=True)], np.int64)
    rows, table = _table(c, at, np.array(ids, np.int64), weights, targets, len(places), fill)
    return forest, rows, table, np.unique(ids)


def _table(c: Call, at: Array, ids: Array, weights: Array, targets: int, count: int, fill: float
           ) -> tuple[Array, Array]:
    """The row of each node, and the table: row 0 is that of nodes that give nothing."""
    if at.size and (at.min() < 0 or ids.min() < 0 or ids.max() >= targets):
        raise c.refuse("a weight is of a node or target that is not there")
    used, rows = np.unique(at, return_inverse=True)
    least, by_node, by_weight = _ROOM
    if (used.size + 1) * targets > max(least, by_node * count, by_weight * weights.size):
        raise c.refuse(f"{used.size} leaves for {targets} targets are not read")
    table = np.zeros((used.size + 1, targets), weights.dtype)
    np.add.at(table, (rows.reshape(-1) + 1, ids), weights)
    if fill:
        named = np.zeros(table.shape, bool)
        named[rows.reshape(-1) + 1, ids] = True
        table[~named] = fill
    of_node = np.zeros(count, np.int32)
    of_node[used] = np.arange(1, used.size + 1)
    return of_node, table


# --- results --------------------------------------------------------------------------------------

_AGGREGATES = {"SUM": ("reduce_sum", 0.0), "AVERAGE": ("reduce_sum", 0.0),
               "MIN": ("reduce_min", np.inf), "MAX": ("reduce_max", -np.inf)}


def _scores(forest: _Forest, c: Call, x: Tensor, of_node: Array, table: Array,
            op: str = "reduce_sum") -> Tensor:
    """The sum or extreme over all trees, (N, targets)."""
    leaves, targets = forest.leaves(c, x), table.shape[1]
    given, by_target = c.once_for((of_node, table), lambda: _by_target(forest, of_node, table))
    if given is None:
        rows = A("gather", tensor_of(of_node), leaves, axis=0, batch_dims=0)
        found = A("gather", row(table, x), rows, axis=0, batch_dims=0)
        return A(op, found, axes=(1,), keepdims=False)
    if targets > 1:
        leaves = A("gather", leaves, tensor_of(by_target), axis=1, batch_dims=0)
    found = A("gather", row(given, x), leaves, axis=0, batch_dims=0)
    found = reshaped(found, (x.shape[0], targets, by_target.size // targets))
    return A(op, found, axes=(2,), keepdims=False)


def _by_target(forest: _Forest, of_node: Array, table: Array) -> tuple[Array | None, Array]:
    """The share of each node in the target of its tree, and the trees in the order of targets. The
    first is None if a tree has several targets, or targets differ in their numbers of trees."""
    count, targets = forest.roots.size, table.shape[1]
    named, nodes = np.zeros((count, targets), bool), np.flatnonzero(of_node)
    trees = forest.trees[nodes]
    np.logical_or.at(named, trees, table[of_node[nodes]] != table[0])
    owners = named.argmax(axis=1)
    by_target = np.argsort(owners, kind="stable").astype(np.int32)
    if trees.min(initial=0) < 0 or named.sum(axis=1).max(initial=0) > 1 or \
            (np.bincount(owners, minlength=targets) * targets != count).any():
        return None, by_target
    return table[of_node, owners[forest.trees]], by_target


def _with_base(c: Call, scores: Tensor, base: Array) -> Tensor:
    if base.size not in (0, 1, scores.shape[1]):
        raise c.refuse(f"its {base.size} base values do not fit {scores.shape[1]} targets")
    return A("add", scores, row(base, scores)) if base.size else scores


def _aggregated(c: Call, forest: _Forest, x: Tensor, of_node: Array, table: Array, kind: str
                ) -> Tensor:
    """The scores of a regression before `post_transform`."""
    op, fill = _AGGREGATES[kind]
    y = _scores(forest, c, x, of_node, table, op)
    if kind == "AVERAGE":
        y = A("div", y, like(forest.roots.size, y))
    elif fill:
        y = A("where", A("isinf", y), like(0, y), y)
    return y


@rule("ai.onnx.ml::TreeEnsembleRegressor")
def _tree_regressor(c: Call, x: Tensor) -> Tensor:
    x, kind = rows_of(c, x), c.text("aggregate_function", "SUM")
    if kind not in _AGGREGATES:
        raise c.refuse(f"its 'aggregate_function' is {kind!r}")
    forest, of_node, table, _ = c.once(lambda: _read(c, "target", c.whole("n_targets", 1),
                                                      _AGGREGATES[kind][1]))
    y = _aggregated(c, forest, x, of_node, table, kind)
    return transformed(c, _with_base(c, y, c.reals("base_values")))


@rule("ai.onnx.ml::TreeEnsembleClassifier")
def _tree_classifier(c: Call, x: Tensor) -> list[Tensor]:
    labels, x = labels_of(c, "classlabels_int64s"), rows_of(c, x)
    count = len(labels)
    forest, of_node, table, named = c.once(lambda: _read(c, "class", count, 0.0))
    base = c.reals("base_values")
    y = _scores(forest, c, x, of_node, table)
    if count != 2 or named.size != 1:
        y = _with_base(c, y, base)
        return [best(labels, y), transformed(c, y)]
    shares, only = bool((table >= 0).all()), int(named[0])  # all weights are those of one class
    if base.size > 1 - only:
        raise c.refuse(f"its {base.size} base values are for weights of one class")
    score = _with_base(c, sliced(y, 1, only, only + 1), base)
    passed = A("gt", reshaped(score, (x.shape[0],)), like(0.5 if shares else 0, score))
    return [chosen(labels, to(passed, dtypes.int64)),
            transformed(c, y) if only else two_classes(c, score, shares)]


@rule("ai.onnx.ml::TreeEnsemble")
def _tree_ensemble(c: Call, x: Tensor) -> Tensor:
    """Version 5: inner nodes and leaves have lists of their own."""
    x, kind = rows_of(c, x), c.whole("aggregate_function", 1)
    if not 0 <= kind < 4 or c.attrs.get("membership_values") is not None:
        raise c.refuse("it tests for members of sets, or its 'aggregate_function' is unknown")
    name = ("AVERAGE", "SUM", "MIN", "MAX")[kind]
    forest, of_node, table = c.once(lambda: _read_ensemble(c, _AGGREGATES[name][1]))
    y = _aggregated(c, forest, x, of_node, table, name)
    codes = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    transform = c.whole("post_transform", 0)
    if not 0 <= transform < len(codes):
        raise c.refuse(f"its 'post_transform' is {transform}")
    c.attrs["post_transform"] = codes[transform]
    return to(transformed(c, y), x.dtype)


def _read_ensemble(c: Call, fill: float) -> tuple[_Forest, Array, Array]:
    """As `_read`, of a TreeEnsemble."""
    forest, inner = _split_forest(c)
    ids, weights = _ints(c, "leaf_targetids"), c.array(c.need("leaf_weights")).reshape(-1)
    if len(ids) != weights.size:
        raise c.refuse("its lists of leaves differ in length")
    at = np.arange(inner, inner + weights.size)
    return forest, *_table(c, at, np.array(ids, np.int64), weights, c.whole("n_targets", 1),
                           forest.mode.size, fill)


def _split_forest(c: Call) -> tuple[_Forest, int]:
    """The nodes of a TreeEnsemble, leaves after the inner ones, and how many inner ones there
    are."""
    codes = c.array(c.need("nodes_modes")).reshape(-1)
    limits = c.array(c.need("nodes_splits")).reshape(-1)
    inner, leaves = codes.size, c.array(c.need("leaf_weights")).size
    lists: dict[str, Any] = {n: _ints(c, f"nodes_{n}") for n in (
        "featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")}
    missing = _ints(c, "nodes_missing_value_tracks_true") or [0] * inner
    if not inner or not all(len(v) == inner for v in (limits, missing, *lists.values())) or \
            int(codes.max()) >= len(_CODES):
        raise c.refuse("its lists of nodes differ in length or are empty, or a mode is not read")
    mode = np.array([_CODES[int(m)] for m in codes] + [0] * leaves, np.int64)
    own = np.arange(inner, inner + leaves)
    children = []
    for side in ("true", "false"):
        ids = np.array(lists[f"{side}nodeids"], np.int64)
        ids = ids + inner * (np.array(lists[f"{side}leafs"], np.int64) != 0)
        children.append(np.concatenate([ids, own]))
    rest = np.zeros(leaves)
    return _grown(c, mode, np.concatenate([np.array(lists["featureids"]), rest]).astype(np.int64),
                  np.concatenate([limits, rest]), children,
                  np.concatenate([np.array(missing, bool), rest.astype(bool)]),
                  np.array(_ints(c, "tree_roots"), np.int64)), inner
