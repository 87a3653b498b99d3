"""Losses as layers. Sources: the classes of the same names in `mindspore.nn`."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Annotated, Any

from cellc_runtime.dtypes import float32, int64

from ... import ops
from ...core.declared import (
    Arguments,
    Flag,
    Int,
    Number,
    Positive,
    PositiveFloat,
    PositiveNumber,
    Rule,
    Share,
    instance,
    is_number,
    misuse,
    number,
    one_of,
)
from ...ops.arguments import ranked
from ...ops.functional.loss import softmax_cross_entropy, sparse_softmax_cross_entropy
from ...tensors.tensor import Tensor
from ..cell import Cell
from ..layer.activation import LogSoftmax, get_activation

Reduction = Annotated[str, one_of("mean", "sum", "none")]
Weight = Annotated[Tensor, instance(Tensor)]


def _require_tensors(what: str, **operands: Any) -> None:
    for name, value in operands.items():
        if not isinstance(value, Tensor):
            raise misuse(what, f"the '{name}' must be a Tensor", type(value).__name__, TypeError)


class LossBase(Arguments, Cell):
    """Base of losses: `get_loss` weights and reduces the losses of the elements.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = reduction
        self.average = reduction == "mean"
        self.reduce = reduction != "none"

    def get_axis(self, x: Tensor) -> tuple[int, ...]:
        """All axes of a tensor."""
        return tuple(range(x.ndim))

    def get_loss(self, x: Tensor, weights: Any = 1.0) -> Tensor:
        """The weighted and reduced loss, in the type of `x`.

        Args:
            x: losses of the elements.
            weights: a number or a Tensor that broadcasts.
        """
        loss = ops.cast(x, float32) * weights
        if self.reduce and self.average:
            loss = ops.mean(loss)
        elif self.reduce:
            loss = ops.sum(loss)
        return ops.cast(loss, x.dtype)


class _Loss(LossBase):
    """The older name of `LossBase`."""

    def construct(self, logits: Any, labels: Any) -> Any:
        """For a derived class to give."""
        raise NotImplementedError(f"{type(self).__name__} has no construct: write one that calls "
                                  "get_loss")


# --- regression ----------------------------------------------------------------------------------


class L1Loss(LossBase):
    """|logits - labels|, reduced: `reduction` "mean" (default) and "sum" give a scalar, "none" the
    broadcast shape."""

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors that broadcast."""
        _require_tensors(self.cls_name, logits=logits, labels=labels)
        return ops.l1_loss(logits, labels, self.reduction)


class L1LossExt(L1Loss):
    """|logits - labels|, reduced: `reduction` "mean" (default) and "sum" give a scalar, "none" the
    broadcast shape."""


class MSELoss(LossBase):
    """(logits - labels)**2, reduced: `reduction` "mean" (default) and "sum" give a scalar, "none"
    the broadcast shape."""

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors that broadcast."""
        _require_tensors(self.cls_name, logits=logits, labels=labels)
        return self.get_loss(ops.square(logits - labels))


class MAELoss(LossBase):
    """|logits - label|, reduced: `reduction` "mean" (default) and "sum" give a scalar, "none" the
    broadcast shape."""

    def construct(self, logits: Tensor, label: Tensor) -> Tensor:
        """Tensors that broadcast."""
        _require_tensors(self.cls_name, logits=logits, label=label)
        return self.get_loss(ops.abs(logits - label))


class RMSELoss(LossBase):
    """sqrt(mean((logits - label)**2)) over all elements, a scalar; the operands broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.MSELoss = MSELoss()

    def construct(self, logits: Tensor, label: Tensor) -> Tensor:
        """Tensors that broadcast, to a scalar."""
        return ops.sqrt(self.MSELoss(logits, label))


class SmoothL1Loss(LossBase):
    """0.5 d**2 / beta where |d| < beta, |d| - 0.5 beta elsewhere.

    Args:
        beta: positive.
        reduction: as in `LossBase`.
    """

    beta: Annotated[float, Rule(
        "a number", lambda value: isinstance(value, bool) or is_number(value))] = 1.0
    reduction: Reduction = "none"

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors of one shape."""
        return ops.smooth_l1_loss(logits, labels, self.beta, self.reduction)


class HuberLoss(LossBase):
    """0.5 d**2 where |d| <= delta, delta (|d| - 0.5 delta) elsewhere.

    Args:
        reduction: as in `LossBase`.
        delta: positive.
    """

    reduction: Reduction = "mean"
    delta: float = 1.0

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors that broadcast."""
        return ops.huber_loss(logits, labels, self.reduction, self.delta)


class GaussianNLLLoss(LossBase):
    """The negative log-likelihood of normal distributions of given variances.

    Args:
        full: with the constant term.
        eps: least variance.
        reduction: as in `LossBase`.
    """

    _: KW_ONLY
    full: Flag = False
    eps: PositiveFloat = 1e-6
    reduction: Reduction = "mean"

    def construct(self, logits: Tensor, labels: Tensor, var: Tensor) -> Tensor:
        """Means, observations and variances."""
        return ops.gaussian_nll_loss(logits, labels, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(LossBase):
    """The negative log-likelihood of Poisson distributions.

    Args:
        log_input: the input is the logarithm of the rate.
        full: with Stirling's approximation of the factorial.
        eps: added to a rate whose logarithm is taken.
        reduction: as in `LossBase`.
    """

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: Reduction = "mean"

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        """Rates (or their logarithms) and counts."""
        if self.log_input:
            loss = ops.exp(input) - target * input
        else:
            loss = input - target * ops.log(input + self.eps)
        if self.full:
            many = target > 1
            count = ops.where(many, target, 1.0)
            stirling = count * ops.log(count) - count + 0.5 * ops.log(2 * math.pi * count)
            loss = loss + ops.where(many, stirling, 0.0)
        return self.get_loss(loss)


# --- classification ------------------------------------------------------------------------------


class SoftmaxCrossEntropyWithLogits(LossBase):
    """The cross entropy of logits (N, C). As in MindSpore, labels have no gradient.

    That of the logits is softmax - labels, also for labels that do not sum to 1. The mean for
    class indices also takes logits (d..., C) and labels (d...); `CrossEntropyLoss` takes logits
    with the classes on the second axis.

    Args:
        sparse: the labels are class indices (N), else probabilities (N, C).
        reduction: as in `LossBase`.
    """

    sparse: Flag = False
    reduction: Reduction = "none"

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Losses (N), or a scalar."""
        _require_tensors(self.cls_name, logits=logits, labels=labels)
        if self.sparse == (not labels.dtype.is_integer):
            wanted = "ints (class labels: labels.astype(ms.int32))" if self.sparse else \
                "floats (one probability for each class; class labels take sparse=True)"
            raise TypeError(f"For 'SoftmaxCrossEntropyWithLogits' with sparse={self.sparse}, the "
                            f"labels must be {wanted}, but got {labels.dtype}.")
        if self.sparse:
            return sparse_softmax_cross_entropy(logits, labels, self.reduction)
        return softmax_cross_entropy(logits, labels, self.reduction)


class CrossEntropyLoss(LossBase):
    """The cross entropy of logits against classes or probabilities; see `ops.cross_entropy`.

    Args:
        weight: a weight for each class, (C).
        ignore_index: a class index that does not count.
        reduction: as in `LossBase`.
        label_smoothing: in [0, 1].
    """

    weight: Weight | None = None
    ignore_index: Int = -100
    reduction: Reduction = "mean"
    label_smoothing: Share = 0.0

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (C), (N, C) or (N, C, d...)."""
        _require_tensors(self.cls_name, logits=logits, labels=labels)
        return ops.cross_entropy(logits, labels, self.weight, self.ignore_index, self.reduction,
                                 self.label_smoothing)


class NLLLoss(LossBase):
    """The negative of the log-probability of each target class; see `ops.nll_loss`.

    Args:
        weight: a weight for each class, (C).
        ignore_index: a class index that does not count.
        reduction: as in `LossBase`.
    """

    weight: Tensor | None = None
    ignore_index: Int = -100
    reduction: Reduction = "mean"

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Log-probabilities (N, C) or (N, C, d...)."""
        _require_tensors(self.cls_name, logits=logits, labels=labels)
        return ops.nll_loss(logits, labels, self.weight, self.ignore_index, self.reduction)


class BCELoss(LossBase):
    """The binary cross entropy of probabilities.

    Args:
        weight: a factor for each element.
        reduction: as in `LossBase`.
    """

    weight: Tensor | None = None
    reduction: Reduction = "mean"

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors of one shape."""
        return ops.binary_cross_entropy(logits, labels, self.weight, self.reduction)


class BCEWithLogitsLoss(LossBase):
    """The binary cross entropy of logits.

    Args:
        reduction: as in `LossBase`.
        weight: a factor for each element.
        pos_weight: a factor for the part of the positive class.
    """

    reduction: Reduction = "mean"
    weight: Tensor | None = None
    pos_weight: Tensor | None = None

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits and labels of one shape."""
        return ops.binary_cross_entropy_with_logits(
            input, target, self.weight, self.pos_weight, self.reduction)


class KLDivLoss(LossBase):
    """labels (log labels - logits) of log-probabilities and probabilities.

    Args:
        reduction: as in `LossBase`, or `"batchmean"`.
    """

    def __init__(
        self, reduction: Annotated[str, one_of("mean", "sum", "none", "batchmean")] = "mean"
    ) -> None:
        super().__init__("mean" if reduction == "batchmean" else reduction)
        self.reduction = reduction

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors of one shape."""
        return ops.kl_div(logits, labels, self.reduction)


class FocalLoss(LossBase):
    """The cross entropy, less where the prediction is right already (Lin et al., 2017).

    Args:
        weight: a weight for each class, (C).
        gamma: how much less.
        reduction: as in `LossBase`.
    """

    weight: Weight | None = None
    gamma: Number = 2.0
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        self.logsoftmax = LogSoftmax(1)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Logits (N, C, d...) and classes (N, 1, d...), or one-hot vectors like the logits."""
        if logits.ndim != labels.ndim:
            raise misuse("FocalLoss", "the dimensions of 'logits' and 'labels' must be equal",
                         f"dimension of 'logits' {logits.ndim} and dimension of 'labels' "
                         f"{labels.ndim}")
        ranked(logits, 2, None, "FocalLoss", "logits")
        n, c = logits.shape[0], logits.shape[1]
        flat = ops.reshape(logits, (n, c, -1))
        target = ops.reshape(labels, (n, labels.shape[1], -1))
        logp = self.logsoftmax(flat)
        if labels.shape[1] == 1:
            target = ops.cast(target, int64)
            picked = ops.squeeze(ops.gather_elements(logp, 1, target), 1)
            factor = 1.0 if self.weight is None else ops.gather(
                self.weight, ops.squeeze(target, 1), 0)
            loss = 0.0 - factor * ops.pow(1.0 - ops.exp(picked), self.gamma) * picked
            return self.get_loss(ops.mean(loss, 1))
        terms = ops.pow(1.0 - ops.exp(logp), self.gamma) * logp * ops.cast(target, logp.dtype)
        if self.weight is not None:
            terms = terms * ops.reshape(self.weight, (1, c, 1))
        return self.get_loss(0.0 - ops.mean(terms, -1))


def _activation(name: str) -> Cell:
    try:
        found = get_activation(name)
    except KeyError as e:
        raise ValueError(f"For 'MultiClassDiceLoss', the 'activation': {e.args[0]}") from None
    assert found is not None
    return found


class DiceLoss(LossBase):
    """1 - 2 |a b| / (|a|**2 + |b|**2), with `smooth` added above and below.

    Args:
        smooth: non-negative.
    """

    smooth: Annotated[float, number(0, whole=False)] = 1e-5

    def construct(self, logits: Tensor, label: Tensor) -> Tensor:
        """Tensors of one shape, to a scalar."""
        if logits.shape != label.shape:
            raise misuse("DiceLoss", f"the shapes {logits.shape} and {label.shape} must be equal")
        both = ops.sum(ops.ravel(logits) * ops.ravel(label))
        each = ops.sum(ops.square(ops.ravel(logits))) + ops.sum(ops.square(ops.ravel(label)))
        return 1.0 - (2.0 * both + self.smooth) / (each + self.smooth)


class MultiClassDiceLoss(LossBase):
    """The mean of the dice losses of the classes.

    Args:
        weights: (classes, d): a factor for the loss of each class.
        ignore_indiex: a class left out.
        activation: applied to the logits: a name, a Cell, or None.
    """

    weights: Weight | None = None
    ignore_indiex: Int | None = None
    activation: Annotated[Any, instance(str, Cell, type(None))] = "softmax"

    def __post_init__(self) -> None:
        if self.weights is not None:
            ranked(self.weights, 2, 2, "MultiClassDiceLoss", "weights")
        self.binarydiceloss = DiceLoss(smooth=1e-5)
        if isinstance(self.activation, str):
            self.activation = _activation(self.activation)

    def construct(self, logits: Tensor, label: Tensor) -> Tensor:
        """Tensors (N, C, d...) of one shape, to a scalar."""
        for t, name in ((logits, "logits"), (label, "label")):
            ranked(t, 2, None, "MultiClassDiceLoss", name)
        if self.activation is not None:
            logits = self.activation(logits)
        total: Any = 0.0
        for i in range(label.shape[1]):
            if i != self.ignore_indiex:
                dice = self.binarydiceloss(logits[:, i], label[:, i])
                if self.weights is not None:
                    dice = dice * self.weights[i]
                total = total + dice
        mean: Tensor = total / label.shape[1]
        return mean


# --- margins -------------------------------------------------------------------------------------


class CosineEmbeddingLoss(LossBase):
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1.

    Args:
        margin: in [-1, 1].
        reduction: as in `LossBase`.
    """

    margin: Annotated[float, number(-1, 1)] = 0.0
    reduction: Reduction = "mean"

    def construct(self, logits_x1: Tensor, logits_x2: Tensor, labels: Tensor) -> Tensor:
        """Vectors (N, d) twice, and labels (N)."""
        return ops.cosine_embedding_loss(logits_x1, logits_x2, labels, self.margin, self.reduction)


class MarginRankingLoss(LossBase):
    """max(0, -label (a - b) + margin).

    Args:
        margin: how far apart they should be.
        reduction: as in `LossBase`.
    """

    margin: Number = 0.0
    reduction: Reduction = "mean"

    def construct(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Tensors of one shape."""
        return ops.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(LossBase):
    """x where the label is 1, max(0, margin - x) where it is -1.

    Args:
        margin: as above.
        reduction: as in `LossBase`.
    """

    margin: Number = 1.0
    reduction: Reduction = "mean"

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors of one shape."""
        return ops.hinge_embedding_loss(logits, labels, self.margin, self.reduction)


class SoftMarginLoss(LossBase):
    """log(1 + exp(-labels * logits)) for labels of -1 and 1 of the shape of the logits, reduced by
    "mean" (default), "sum" or "none"."""

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Tensors of one shape, labels of 1 and -1."""
        return ops.soft_margin_loss(logits, labels, self.reduction)


class MultiLabelSoftMarginLoss(LossBase):
    """The binary cross entropy of logits, averaged over classes.

    Args:
        weight: a factor for each class.
        reduction: as in `LossBase`.
    """

    weight: Tensor | None = None
    reduction: Reduction = "mean"

    def construct(self, x: Tensor, target: Tensor) -> Tensor:
        """Logits and labels (N, C)."""
        return ops.multilabel_soft_margin_loss(x, target, self.weight, self.reduction)


class MultiMarginLoss(LossBase):
    """The mean over the other classes of max(0, weight (margin - x[label] + x[i]))**p.

    Args:
        p: 1 or 2.
        margin: as above.
        reduction: as in `LossBase`.
        weight: a factor for each class.
    """

    p: Annotated[int, Rule(
        "1 or 2", lambda value: True,
        lambda value: isinstance(value, (int, float)) and value in (1, 2))] = 1
    margin: Number = 1.0
    reduction: Reduction = "mean"
    weight: Tensor | None = None

    def construct(self, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Scores (N, C) and classes (N); weights of the classes, if the layer has none."""
        given = weight if self.weight is None else self.weight
        return ops.multi_margin_loss(x, target, self.p, self.margin, given, self.reduction)


class TripletMarginLoss(LossBase):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with p-norms.

    Args:
        p: the norm.
        swap: take the distance of the negative from the positive if that is smaller.
        eps: added to differences.
        reduction: as in `LossBase`.
        margin: as above (a number; also the fourth argument of the call).
    """

    p: float = 2
    swap: Flag = False
    eps: float = 1e-6
    reduction: Reduction = "mean"
    margin: float = 1.0

    def construct(
        self, x: Tensor, positive: Tensor, negative: Tensor, margin: Any = None
    ) -> Tensor:
        """Vectors (N, d) three times."""
        return ops.triplet_margin_loss(
            x, positive, negative, self.margin if margin is None else margin, self.p, self.eps,
            self.swap, self.reduction)


class TripletMarginWithDistanceLoss(LossBase):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with a given distance.

    Args:
        distance_function: of two tensors; the euclidean one if None.
        swap: take the distance of the negative from the positive if that is smaller.
        reduction: as in `LossBase`.
        margin: positive.
    """

    distance_function: Any = None
    swap: Flag = False
    reduction: Reduction = "mean"
    margin: PositiveNumber = 1.0

    def __post_init__(self) -> None:
        if self.distance_function is None:
            self.distance_function = _distance

    def construct(self, x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Tensors of one shape."""
        near = self.distance_function(x, positive)
        far = self.distance_function(x, negative)
        if self.swap:
            far = ops.minimum(far, self.distance_function(positive, negative))
        return self.get_loss(ops.relu(near - far + self.margin))


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """The euclidean distance along the last axis, with a gradient at 0."""
    return ops.sqrt(ops.sum(ops.square(a - b + 1e-6), -1))


class MultilabelMarginLoss(LossBase):
    """The hinge loss of scores against several classes each.

    Args:
        reduction: as in `LossBase`.
    """

    def construct(self, x: Tensor, target: Tensor) -> Tensor:
        """Scores (N, C) or (C), and int32 of that shape: classes of an example first, then -1."""
        return ops.multilabel_margin_loss(x, target, self.reduction)


_SAMPLED = Rule("a list or tuple of 3, or None",
                lambda value: value is None or isinstance(value, (list, tuple)),
                lambda value: value is None or len(value) == 3)


class SampledSoftmaxLoss(LossBase):
    """The cross-entropy of a softmax over the true classes and some drawn ones.

    Args:
        num_sampled: how many classes are drawn, without repetition.
        num_classes: how many there are.
        num_true: true classes of an example.
        sampled_values: drawn classes, expected counts of the true ones and of the drawn ones, as
            `ops.uniform_candidate_sampler` gives them; None draws in each call.
        remove_accidental_hits: a drawn class that is true does not count.
        seed: of the draws; 0: the global generator.
        reduction: as in `LossBase`.
    """

    num_sampled: Positive
    num_classes: Positive
    num_true: Positive = 1
    sampled_values: Annotated[Any, _SAMPLED] = None
    remove_accidental_hits: bool = True
    seed: int = 0
    reduction: Reduction = "none"

    def __post_init__(self) -> None:
        for name in ("num_true", "num_sampled"):
            if getattr(self, name) > self.num_classes:
                raise misuse("SampledSoftmaxLoss",
                             f"'{name}' must be at most 'num_classes' ({self.num_classes})",
                             getattr(self, name))

    def construct(
        self, weights: Tensor, biases: Tensor, labels: Tensor, logits: Tensor
    ) -> Tensor:
        """Weights (C, d) and biases (C) of the classes, labels (N, num_true), inputs (N, d)."""
        if self.num_true < 1:  # (set after the layer was made)
            raise misuse("SampledSoftmaxLoss", "'num_true' must be a positive int", self.num_true)
        if labels.ndim == 1:
            labels = ops.expand_dims(labels, 1)
        drawn, of_true, of_drawn = self.sampled_values if self.sampled_values is not None else \
            ops.uniform_candidate_sampler(labels, self.num_true, self.num_sampled, True,
                                          self.num_classes, self.seed)
        rows = ops.gather(weights, labels, 0)
        own = ops.sum(rows * ops.expand_dims(logits, 1), -1) + ops.gather(biases, labels, 0)
        own = own - ops.log(of_true)
        others = ops.matmul(logits, ops.swapaxes(ops.gather(weights, drawn, 0), 0, 1))
        others = others + ops.gather(biases, drawn, 0) - ops.log(of_drawn)
        if self.remove_accidental_hits:
            hits = ops.expand_dims(labels, 2) == ops.reshape(drawn, (1, 1, -1))
            others = ops.where(ops.any(hits, 1), -3.4028235e38, others)
        scores = ops.log_softmax(ops.concat((own, others), 1), 1)
        return self.get_loss(-ops.sum(scores[:, : self.num_true], 1) / self.num_true)
