"""Classical models of `ai.onnx.ml`: scalers, encoders, linear models and regression by support
vectors. `trees` has the ensembles of trees."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import linalg, shapes
from ..tensors.index_plan import check_range
from ..tensors.tensor import Tensor, tensor_of
from .shaping import reshaped, sliced
from .table import Array, Call, like, rule, to

A = apply_one
_MOST_CATEGORIES = 1 << 16


def real(x: Tensor) -> Tensor:
    """An input as the operators compute with it: doubles stay, all others are floats."""
    return x if x.dtype is dtypes.float64 else to(x, dtypes.float32)


def rows_of(c: Call, x: Tensor) -> Tensor:
    """An input as a matrix of floats with one sample in each row."""
    if not 1 <= x.ndim <= 2:
        raise c.refuse(f"its input of shape {list(x.shape)} must have 1 or 2 axes")
    return real(x if x.ndim == 2 else reshaped(x, (1, x.shape[0])))


def row(values: Array, x: Tensor) -> Tensor:
    """Numbers of an attribute in the element type of a tensor."""
    return tensor_of(np.ascontiguousarray(values).astype(x.dtype.numpy))


# --- scores and labels ----------------------------------------------------------------------------


def _softmax_zero(x: Tensor) -> Tensor:
    """A softmax in which scores of zero stay (almost) zero."""
    most = A("reduce_max", x, axes=(1,), keepdims=True)
    near = A("le", A("abs", x), like(1e-7, x))
    powers = A("where", near, A("mul", x, A("exp", A("neg", most))), A("exp", A("sub", x, most)))
    total = A("reduce_sum", powers, axes=(1,), keepdims=True)
    none = A("eq", total, like(0, x))
    return A("where", none, like(0.5, x), A("div", powers, A("where", none, like(1, x), total)))


def _probit(x: Tensor) -> Tensor:
    twice = A("sub", A("mul", x, like(2, x)), like(1, x))
    return A("mul", A("erfinv", twice), like(math.sqrt(2), x))


_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x, "LOGISTIC": lambda x: A("sigmoid", x),
    "SOFTMAX": lambda x: A("softmax", x, axis=1), "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def transformed(c: Call, scores: Tensor) -> Tensor:
    """Scores after the `post_transform` of a node, as floats."""
    kind = c.text("post_transform", "NONE")
    if kind not in _TRANSFORMS:
        raise c.refuse(f"its 'post_transform' is {kind!r}")
    return to(_TRANSFORMS[kind](scores), dtypes.float32)


def labels_of(c: Call, ints: str) -> Array:
    """The labels of a classifier.

    Args:
        ints: the attribute that lists them.
    """
    if c.attrs.get("classlabels_strings"):
        raise c.refuse("its labels are strings, which no tensor holds: convert the model with "
                       "labels that are ints")
    found = c.ints(ints, ())
    if not found:
        raise c.refuse(f"it lacks labels ({ints!r})")
    return np.array(found, np.int64)


def chosen(labels: Array, places: Tensor) -> Tensor:
    """The label at each place."""
    return A("gather", tensor_of(labels), places, axis=0, batch_dims=0)


def best(labels: Array, scores: Tensor) -> Tensor:
    """The label of the largest score in each row."""
    return chosen(labels, to(A("argmax", scores, axis=1, keepdims=False), dtypes.int64))


def two_classes(c: Call, score: Tensor, shares: bool) -> Tensor:
    """Both scores (N, 2) where a model gives that of one class, (N, 1).

    Args:
        shares: whether scores are shares of 1.
    """
    kind = c.text("post_transform", "NONE")
    if kind not in _TRANSFORMS or kind == "PROBIT":
        raise c.refuse(f"its 'post_transform' is {kind!r}, of the score of one class")
    other = A("sub", like(1, score), score) if shares and kind != "LOGISTIC" else A("neg", score)
    both = A("concat", other, score, axis=1)
    return to(A("sigmoid", both) if kind == "LOGISTIC" else both, dtypes.float32)


# --- linear models and support vectors ------------------------------------------------------------


def _linear(c: Call, x: Tensor, count: int) -> Tensor:
    """x @ coefficients.T + intercepts, (N, count)."""
    weights = c.reals("coefficients")
    if weights.size != count * x.shape[1]:
        raise c.refuse(f"its {weights.size} coefficients do not fit {count} targets and an input "
                       f"of shape {list(x.shape)}")
    y = linalg.matmul(x, row(weights.reshape(count, -1).T, x))
    bias = c.reals("intercepts")
    if bias.size not in (0, count):
        raise c.refuse(f"its {bias.size} intercepts do not fit {count} targets")
    return A("add", y, row(bias, x)) if bias.size else y


@rule("ai.onnx.ml::LinearRegressor")
def _linear_regressor(c: Call, x: Tensor) -> Tensor:
    return transformed(c, _linear(c, rows_of(c, x), c.whole("targets", 1)))


@rule("ai.onnx.ml::LinearClassifier")
def _linear_classifier(c: Call, x: Tensor) -> list[Tensor]:
    labels, x = labels_of(c, "classlabels_ints"), rows_of(c, x)
    count = c.reals("intercepts").size or len(labels)
    scores = _linear(c, x, count)
    if count == 1 and len(labels) == 2:
        positive = A("gt", reshaped(scores, (x.shape[0],)), like(0, scores))
        return [chosen(labels, to(positive, dtypes.int64)), two_classes(c, scores, True)]
    if count != len(labels):
        raise c.refuse(f"it has {len(labels)} labels for {count} scores")
    return [best(labels, scores), transformed(c, scores)]


@rule("ai.onnx.ml::SVMRegressor")
def _svm_regressor(c: Call, x: Tensor) -> Tensor:
    x, count = rows_of(c, x), c.whole("n_supports", 0)
    weights, rho = c.reals("coefficients"), c.reals("rho")
    vectors = c.reals("support_vectors")
    if rho.size != 1 or (count and (weights.size != count or vectors.size != count * x.shape[1])):
        raise c.refuse(f"its {weights.size} coefficients and {vectors.size} numbers of support "
                       f"vectors do not fit an input of shape {list(x.shape)}")
    if count:
        near = _kernel(c, x, row(vectors.reshape(count, -1), x))
    elif weights.size == x.shape[1] and c.text("kernel_type", "LINEAR") == "LINEAR":
        near = x
    else:
        raise c.refuse("it has no support vectors, but its kernel is not linear")
    y = A("add", linalg.matmul(near, row(weights.reshape(-1, 1), x)), row(rho, x))
    if c.flag("one_class"):
        return to(A("where", A("gt", y, like(0, y)), like(1, y), like(-1, y)), dtypes.float32)
    return transformed(c, y)


def _kernel(c: Call, x: Tensor, vectors: Tensor) -> Tensor:
    """How near each row is to each vector."""
    kind, numbers = c.text("kernel_type", "LINEAR"), c.reals("kernel_params")
    gamma, start, degree = numbers if numbers.size == 3 else (0.0, 0.0, 3.0)
    if kind == "RBF":
        apart = A("sub", shapes.expand_dims(x, 1), shapes.expand_dims(vectors, 0))
        squares = A("reduce_sum", A("mul", apart, apart), axes=(2,), keepdims=False)
        return A("exp", A("mul", squares, like(-gamma, x)))
    product = A("matmul", x, vectors, transpose_a=False, transpose_b=True)
    if kind == "LINEAR":
        return product
    product = A("add", A("mul", product, like(gamma, x)), like(start, x))
    if kind == "POLY":
        return A("pow", product, like(degree, x))
    if kind == "SIGMOID":
        return A("tanh", product)
    raise c.refuse(f"its 'kernel_type' is {kind!r}")


# --- preparation of inputs ------------------------------------------------------------------------


def _fitting(c: Call, name: str, values: Array, x: Tensor) -> Tensor:
    """Numbers of an attribute, one for each column or one for all."""
    if values.size not in (1, x.shape[-1]):
        raise c.refuse(f"the {values.size} numbers of its {name!r} do not fit an input of shape "
                       f"{list(x.shape)}")
    return row(values, x)


@rule("ai.onnx.ml::Scaler")
def _scaler(c: Call, x: Tensor) -> Tensor:
    x = real(x)
    offset, scale = (_fitting(c, name, c.reals(name), x) for name in ("offset", "scale"))
    return to(A("mul", A("sub", x, offset), scale), dtypes.float32)


@rule("ai.onnx.ml::Normalizer")
def _normalizer(c: Call, x: Tensor) -> Tensor:
    x, kind = real(x), c.text("norm", "MAX")
    axes, size = (x.ndim - 1,), A("abs", x)
    if kind == "L2":
        size = A("sqrt", A("reduce_sum", A("mul", x, x), axes=axes, keepdims=True))
    elif kind == "L1":
        size = A("reduce_sum", size, axes=axes, keepdims=True)
    elif kind == "MAX":
        size = A("reduce_max", x, axes=axes, keepdims=True)
    else:
        raise c.refuse(f"its 'norm' is {kind!r}")
    none = A("eq", size, like(0, x))
    return to(A("div", x, A("where", none, like(1, x), size)), dtypes.float32)


@rule("ai.onnx.ml::Binarizer")
def _binarizer(c: Call, x: Tensor) -> Tensor:
    limit = c.real("threshold", 0.0)
    return to(A("gt", real(x), like(limit, real(x))), x.dtype)


@rule("ai.onnx.ml::Imputer")
def _imputer(c: Call, x: Tensor) -> Tensor:
    if x.dtype.is_float:
        values, missing = c.reals("imputed_value_floats"), c.real("replaced_value_float", 0.0)
        name = "imputed_value_floats"
    else:
        name = "imputed_value_int64s"
        values, missing = np.array(c.ints(name, ()), np.int64), c.whole("replaced_value_int64", 0)
    gone = A("isnan", x) if missing != missing else A("eq", x, like(missing, x))
    return A("where", gone, _fitting(c, name, values, x), x)


@rule("ai.onnx.ml::FeatureVectorizer")
def _feature_vectorizer(c: Call, *xs: Tensor) -> Tensor:
    columns = c.ints("inputdimensions", ()) or ()
    if len(columns) != len(xs):
        raise c.refuse(f"it has {len(xs)} inputs, but 'inputdimensions' lists {len(columns)}")
    parts = []
    for x, wanted in zip(xs, columns, strict=True):
        matrix = to(reshaped(x, (x.shape[0], math.prod(x.shape[1:]))), dtypes.float32)
        have = matrix.shape[1]
        if wanted > have:
            matrix = A("pad", matrix, low=(0, 0), high=(0, wanted - have), value=0.0)
        parts.append(matrix if wanted >= have else sliced(matrix, 1, 0, wanted))
    return parts[0] if len(parts) == 1 else A("concat", *parts, axis=1)


# --- categories -----------------------------------------------------------------------------------


def _matches(c: Call, x: Tensor, keys: Array) -> Tensor:
    """Which key each element is: bools along a new last axis. A key that is no number matches what
    is none."""
    if not 0 < keys.size <= _MOST_CATEGORIES:
        raise c.refuse(f"it has {keys.size} categories; read are 1 to {_MOST_CATEGORIES}")
    wide = shapes.expand_dims(x, x.ndim)
    same = A("eq", wide, row(keys, x))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        same = A("logical_or", same, A("logical_and", A("isnan", wide), tensor_of(np.isnan(keys))))
    return same


@rule("ai.onnx.ml::OneHotEncoder")
def _one_hot_encoder(c: Call, x: Tensor) -> Tensor:
    if c.attrs.get("cats_strings"):
        raise c.refuse("its categories are strings, which no tensor holds")
    same = _matches(c, to(x, dtypes.int64), np.array(c.ints("cats_int64s", ()), np.int64))
    if not c.flag("zeros", 1):
        known = A("reduce_any", same, axes=(x.ndim,), keepdims=False)
        check_range(to(known, dtypes.int64), 1, 2, "an element is none of the categories")
    return to(same, dtypes.float32)


def _side(c: Call, side: str) -> Array | None:
    """The keys or the values of an encoder, one after the other."""
    tensor = c.attrs.get(f"{side}_tensor")
    if tensor is not None:
        return c.array(tensor).reshape(-1)
    ints = c.ints(f"{side}_int64s", ())
    if ints:
        return np.array(ints, np.int64)
    reals = c.reals(f"{side}_floats")
    return reals if reals.size else None


@rule("ai.onnx.ml::LabelEncoder")
def _label_encoder(c: Call, x: Tensor) -> Tensor:
    keys, values = _side(c, "keys"), _side(c, "values")
    if keys is None or values is None or "OSU".find(values.dtype.kind) >= 0:
        raise c.refuse("its keys or values are strings, which no tensor holds")
    if keys.size != values.size:
        raise c.refuse(f"it has {keys.size} keys, but {values.size} values")
    own = c.attrs.get("default_tensor")
    name, default = ("default_float", -0.0) if values.dtype.kind == "f" else ("default_int64", -1)
    other = c.array(own).reshape(-1)[0] if own is not None else c.attrs.get(name, default)
    same = _matches(c, x, keys)
    place = A("argmax", to(same, dtypes.int32), axis=x.ndim, keepdims=False)
    found = A("gather", tensor_of(values), to(place, dtypes.int64), axis=0, batch_dims=0)
    known = A("reduce_any", same, axes=(x.ndim,), keepdims=False)
    return A("where", known, found, like(other, found))
