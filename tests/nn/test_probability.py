"""Distributions and bijectors: MindSpore's answers, both modes' bits, gradients, draws, errors.

`probability.json` holds what MindSpore 2.10 gave for `CASES` (None for what it cannot do);
`python -m tests.nn.test_probability` asks it again.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.nn.probability.bijector as B
import cellc.nn.probability.distribution as D
from cellc import nn, ops
from cellc.testing import check_grads

from ..others import needs_oracle
from . import program_probability
from .conftest import ask_mindspore

FILE = Path(__file__).with_name("probability.json")
VALUES = ("prob", "log_prob", "cdf", "log_cdf", "survival_function", "log_survival")
FIGURES = ("mean", "mode", "sd", "var", "entropy", "get_dist_args")
REALS, COUNTS, PARTS = [-0.7, 0.3, 1.7], [0.0, 1.0, 4.0], [0.2, 0.5, 0.9]
# By distribution: how it is made, another one's parameters, and values.
MADE: dict[str, tuple[str, list[Any], list[float]]] = {
    "Normal": ("[3.0, 1.0, 2.0], [4.0, 1.0, 0.5]", [2.0, 5.0], REALS),
    "Uniform": ("0.0, 2.0", [-1.0, 3.0], REALS),
    "Exponential": ("0.5", [0.9], REALS),
    "Cauchy": ("3.0, 4.0", [2.0, 5.0], REALS),
    "Logistic": ("3.0, 4.0", [2.0, 5.0], REALS),
    "LogNormal": ("0.3, 0.4", [0.2, 0.5], [0.3, 0.9, 1.7]),
    "Gumbel": ("3.0, 4.0", [2.0, 5.0], REALS),
    "HalfNormal": ("0.0, 4.0", [0.5, 1.0], REALS),
    "Laplace": ("3.0, 4.0", [1.0, 2.0], REALS),
    "StudentT": ("5.0, 3.0, 4.0", [2.5, 1.0, 2.0], REALS),
    "Gamma": ("np.array([2.0, 0.5, 3.0]), np.array([3.0, 2.0, 1.0])",
              [[1.5, 2.0, 1.0], [4.0, 1.0, 2.0]], [0.3, 0.9, 1.7]),
    "Beta": ("np.array([2.0, 3.0, 1.5]), np.array([3.0, 1.5, 2.0])",
             [[1.5, 2.0, 3.0], [4.0, 2.0, 2.0]], PARTS),
    "Poisson": ("np.array([2.5, 0.7, 4.0])", [[1.5, 4.0, 2.0]], COUNTS),
    "Geometric": ("0.3", [0.6], COUNTS),
    "Bernoulli": ("0.3", [0.6], [0.0, 1.0, 0.0]),
    "Categorical": ("[[0.25, 0.5, 0.125, 0.125], [0.5, 0.25, 0.125, 0.125]]",
                    [[0.375, 0.25, 0.25, 0.125]], [[0.0], [1.0], [3.0]]),
}
MAPS = {
    "Exp()": REALS, "PowerTransform(0.5)": PARTS, "PowerTransform([0.0, 1.0, 2.0])": PARTS,
    "ScalarAffine(2.0, 3.0)": REALS, "ScalarAffine([2.0, 1.0, -1.0], 3.0)": REALS,
    "Softplus()": PARTS, "Softplus(2.0)": PARTS, "GumbelCDF(1.0, 2.0)": PARTS,
    "Invert(B.Softplus())": PARTS,
}
TRANSFORMED = "D.TransformedDistribution(B.ScalarAffine(2.0, 1.0), D.Normal(3.0, 1.0))"
Case = tuple[str, str, list[str], list[Any]]


def _of(name: str, made: str, other: list[Any], values: list[float]) -> list[Case]:
    maker = f"D.{name}({made})"
    found: list[Case] = [(maker, m, [], [values]) for m in VALUES]
    found += [(f"D.{name}({made})", m, [], [values, *other]) for m in VALUES]
    found += [(maker, m, [], given) for m in FIGURES for given in ([], other)]
    return found + [(maker, m, [name], other) for m in ("kl_loss", "cross_entropy")]


CASES = [case for name, what in MADE.items() for case in _of(name, *what)]
CASES += [(f"B.{maker}", m, [], [PARTS if m[0] == "i" else values])
          for maker, values in MAPS.items()
          for m in ("forward", "inverse", "forward_log_jacobian", "inverse_log_jacobian")]
CASES += [(TRANSFORMED, m, [], [REALS]) for m in VALUES] + [(TRANSFORMED, "mean", [], [])]
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _ask() -> dict[str, Any]:
    """What MindSpore gives for each case; None for an error."""
    given = ask_mindspore(program_probability, CASES)
    return {json.dumps(case): None if isinstance(found, str) else found
            for case, found in zip(CASES, given, strict=True)}


def _ours(case: Case) -> Any:
    return program_probability.run(ms, nn, *case)


def _alike(found: Any, wanted: Any) -> None:
    for (shape, dtype, numbers), (shape_, dtype_, numbers_) in zip(found, wanted, strict=True):
        assert (shape, dtype) == (shape_, dtype_)
        np.testing.assert_allclose(numbers, numbers_, rtol=2e-4, atol=2e-6)


def _in_both_modes(case: Case) -> Any:
    """The same bits in both modes; the message of an error that is the same in both."""
    found = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        try:
            found.append(_ours(case))
        except (NotImplementedError, ValueError) as error:
            found.append(str(error).partition(" [")[0])
    np.testing.assert_equal(*found, str(case))
    return found[0]


@pytest.mark.parametrize("maker", sorted({c[0] for c in CASES}))
def test_answers_are_mindspores_in_both_modes(maker: str) -> None:
    recorded, compared = _recorded(), 0
    for case in (c for c in CASES if c[0] == maker):
        found, wanted = _in_both_modes(case), recorded[json.dumps(case)]
        if wanted is not None:
            _alike(found, wanted)
            compared += 1
        elif isinstance(found, str):
            assert "is not implemented for" in found or "is undefined for" in found
    assert compared >= 4


CONTINUOUS: dict[str, tuple[Any, float, float]] = {
    "Normal": (D.Normal(0.3, 0.7), -8, 8), "Uniform": (D.Uniform(-1.0, 2.0), -1, 2),
    "Exponential": (D.Exponential(1.5), 0, 30), "Cauchy": (D.Cauchy(0.5, 0.7), -4e4, 4e4),
    "Logistic": (D.Logistic(0.3, 0.7), -30, 30), "LogNormal": (D.LogNormal(0.2, 0.4), 1e-9, 30),
    "Gumbel": (D.Gumbel(0.3, 0.7), -6, 30), "Laplace": (D.Laplace(0.3, 0.7), -20, 20),
    "StudentT": (D.StudentT(6.0, 0.3, 0.7), -80, 80), "Gamma": (D.Gamma(2.5, 1.5), 0, 40),
    "Beta": (D.Beta(2.5, 1.5), 0, 1),
}
DISCRETE = {
    "Poisson": D.Poisson(2.5), "Geometric": D.Geometric(0.4), "Bernoulli": D.Bernoulli(0.3),
    "Categorical": D.Categorical([0.2, 0.3, 0.5]),
}


def _table(name: str) -> Any:
    """Values that cover a distribution, their weights, and their probabilities."""
    if name in DISCRETE:
        values = np.arange(2.0 if name == "Bernoulli" else 60.0)
        found = DISCRETE[name].prob(ms.Tensor(values, ms.float32)).asnumpy()
        return values, np.ones(len(values)), found
    made, low, high = CONTINUOUS[name]
    # Dense in the middle of a wide interval.
    ends = np.linspace(-1, 1, 400_001)
    values = (ends**5 * max(-low, high)) if name == "Cauchy" else (
        low + (ends + 1) / 2 * (high - low))
    density = made.prob(ms.Tensor(values, ms.float32)).asnumpy().astype(np.float64)
    return values, np.gradient(values), density


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_figures_follow_from_the_probabilities(name: str) -> None:
    made = DISCRETE[name] if name in DISCRETE else CONTINUOUS[name][0]
    values, weights, density = _table(name)
    mass = density * weights
    np.testing.assert_allclose(mass.sum(), 1.0, rtol=3e-4)
    at = ms.Tensor(values[::4000] if name in CONTINUOUS else values, ms.float32)
    below = np.cumsum(mass)[::4000] if name in CONTINUOUS else np.cumsum(mass)
    np.testing.assert_allclose(made.cdf(at).asnumpy(), below, atol=6e-4)
    np.testing.assert_allclose(made.survival_function(at).asnumpy(), 1 - below, atol=6e-4)
    if name == "Cauchy":
        return
    mean = (values * mass).sum()
    np.testing.assert_allclose(made.mean().asnumpy().squeeze(), mean, atol=1e-3)
    var = ((values - mean)**2 * mass).sum()
    np.testing.assert_allclose(made.var().asnumpy().squeeze(), var, rtol=2e-3)
    np.testing.assert_allclose(made.sd().asnumpy().squeeze(), math.sqrt(var), rtol=2e-3)
    if name != "Poisson":
        logs = np.log(np.where(density > 0, density, 1.0))
        np.testing.assert_allclose(made.entropy().asnumpy(), -(mass * logs).sum(), atol=2e-3)


def test_divergences_of_ours_alone() -> None:
    """Of Laplace and Poisson, which MindSpore does not have: from the probabilities."""
    for name, other in (("Laplace", (1.0, 2.0)), ("Poisson", (4.0,))):
        made = DISCRETE[name] if name in DISCRETE else CONTINUOUS[name][0]
        given = [ms.Tensor(x, ms.float32) for x in other]
        values, weights, density = _table(name)
        at = ms.Tensor(values, ms.float32)
        logs = (made.log_prob(at) - made.log_prob(at, *given)).asnumpy().astype(np.float64)
        np.testing.assert_allclose(made.kl_loss(name, *given).asnumpy(),
                                   (density * weights * logs).sum(), rtol=2e-3)


# --- draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_draws_follow_the_distribution(name: str) -> None:
    ms.set_seed(7)
    made = DISCRETE[name] if name in DISCRETE else CONTINUOUS[name][0]
    count = 40_000
    drawn = made.sample((count,))
    assert drawn.shape == (count,) and drawn.dtype is made.dtype
    found = np.sort(drawn.asnumpy().astype(np.float64))
    expected = made.cdf(ms.Tensor(found, ms.float32)).asnumpy()
    # Kolmogorov and Smirnov's distance exceeds 1.95 / sqrt(n) once in a thousand times.
    steps = np.searchsorted(found, found, side="right") / count
    assert np.abs(expected - steps).max() < 1.95 / math.sqrt(count)


class _Drawing(nn.Cell):
    def __init__(self, drawn: Any) -> None:
        super().__init__()
        self.drawn = drawn

    def construct(self) -> Any:
        return self.drawn.sample((2, 3))


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_draws_are_the_same_in_both_modes(name: str) -> None:
    made = DISCRETE[name] if name in DISCRETE else CONTINUOUS[name][0]
    found = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        ms.set_seed(3)
        net = _Drawing(made)
        found.append([net().asnumpy(), net().asnumpy()])
    np.testing.assert_array_equal(*found)
    assert found[0][0].shape == (2, 3)
    if name != "Bernoulli":
        assert (found[0][0] != found[0][1]).any()


def test_draws_for_each_parameter(mode: int) -> None:
    ms.set_seed(1)
    made = D.Normal(ms.Tensor([0.0, 100.0]), ms.Tensor([[1.0], [2.0]]), seed=5)
    assert made.batch_shape == (2, 2) and made.sample((3,)).shape == (3, 2, 2)
    assert made.sample((3,), ms.Tensor([50.0]), ms.Tensor([1e-3])).asnumpy().round().tolist() == [
        [50.0]] * 3
    rows = D.Categorical([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98]]).sample((500,)).asnumpy()
    assert rows.shape == (500, 2)
    assert D.Categorical([[0.5, 0.5]]).sample((0,)).shape == (0, 1)
    assert (rows[:, 0] == 0).mean() > 0.9 and (rows[:, 1] == 2).mean() > 0.9


# --- gradients ------------------------------------------------------------------------------------

TRAINED = {
    "Normal": ([0.3, -0.2], [0.7, 1.5]), "Laplace": ([0.3, -0.2], [0.7, 1.5]),
    "StudentT": ([3.0, 5.0], [0.3, -0.2], [0.7, 1.5]), "Cauchy": ([0.3, -0.2], [0.7, 1.5]),
    "Logistic": ([0.3, -0.2], [0.7, 1.5]), "Gumbel": ([0.3, -0.2], [0.7, 1.5]),
    "LogNormal": ([0.3, -0.2], [0.7, 1.5]), "Exponential": ([0.3, 1.2],),
    "Gamma": ([2.0, 1.5], [0.7, 1.5]), "Beta": ([2.0, 1.5], [0.7, 1.5]), "Poisson": ([0.7, 2.5],),
    "Geometric": ([0.7, 0.2],), "Bernoulli": ([0.7, 0.2],),
}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_of_values_and_parameters(name: str, mode: int) -> None:
    parameters = [np.array(p, np.float64) for p in TRAINED[name]]
    made = getattr(D, name)(*[ms.Tensor(p) for p in parameters], dtype=ms.float64)
    value = np.array([1.0, 2.0]) if name in DISCRETE else np.array([0.45, 0.8])
    given = [ms.Tensor(p) for p in parameters]

    def log_prob(*args: Any) -> Any:
        return made.log_prob(ms.Tensor(value), *args)

    check_grads(log_prob, *given)
    if name not in DISCRETE:
        check_grads(lambda v: made.log_prob(v) + made.cdf(v), ms.Tensor(value))
    if name not in ("StudentT", "Logistic"):
        other = [ms.Tensor(p * (0.9 - 0.1 * i)) for i, p in enumerate(parameters)]
        check_grads(lambda *args: made.kl_loss(name, *args), *other)


def test_a_parameter_is_trained(mode: int) -> None:
    """The mean of data, found by its likelihood."""

    class Likelihood(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.mean = ms.Parameter(ms.Tensor(0.0, ms.float32), name="mean")
            self.made = D.Normal(self.mean, 1.0)

        def construct(self, x: Any) -> Any:
            return -self.made.log_prob(x).mean()

    net = Likelihood()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.5))
    data = ms.Tensor(np.array([1.0, 2.0, 3.0], np.float32))
    for _ in range(20):
        step(data)
    np.testing.assert_allclose(net.mean.asnumpy(), 2.0, atol=1e-4)


def test_gradients_go_through_draws(mode: int) -> None:
    made = D.Normal(dtype=ms.float32)

    def of(mean: Any, sd: Any) -> Any:
        return made.sample((1000,), mean, sd).mean()

    ms.set_seed(2)
    gradient = ops.grad(of, (0, 1))(ms.Tensor(1.0), ms.Tensor(2.0))
    np.testing.assert_allclose(gradient[0].asnumpy(), 1.0, rtol=1e-5)
    assert abs(float(gradient[1])) < 0.2


# --- what users write -----------------------------------------------------------------------------


class _Triangle(D.Distribution):
    """A distribution of a user, with one hook of each kind."""

    def __init__(self, width: Any = None) -> None:
        param = dict(locals())
        param["param_dict"] = {"width": width}
        super().__init__(None, ms.float32, "Triangle", param)
        self._width = self._add_parameter(width, "width")

    def _prob(self, value: Any, width: Any = None) -> Any:
        width = self._check_param_type(width)
        return ops.relu(1.0 - ops.abs(self._check_value(value, "value") / width)) / width

    def _var(self, width: Any = None) -> Any:
        return self._check_param_type(width) ** 2 / 6.0


def test_a_distribution_of_the_user(mode: int) -> None:
    made = _Triangle(2.0)
    x = ms.Tensor([0.0, 1.0, 3.0])
    np.testing.assert_allclose(made("prob", x).asnumpy(), [0.5, 0.25, 0.0])
    np.testing.assert_allclose(made.log_prob(x).asnumpy(), np.log([0.5, 0.25, 1e-99]).astype(
        np.float32) + np.array([0, 0, -np.inf]))
    np.testing.assert_allclose(made.sd(ms.Tensor(6.0)).asnumpy(), math.sqrt(6.0), rtol=1e-6)
    assert "self" not in made.parameters and made.batch_shape == ()
    for method in ("cdf", "mean", "sample", "entropy", "mode", "nothing"):
        with pytest.raises(NotImplementedError, match="is not implemented for Triangle"):
            made(method, x)


class _Cube(B.Bijector):
    """A bijector of a user."""

    def __init__(self) -> None:
        super().__init__(name="Cube", param={"param_dict": {}})

    def _forward(self, x: Any) -> Any:
        value = self._check_value_dtype(x)  # the names that MindSpore has
        return value ** self.cast_param_by_value(value, ms.Tensor(3))

    def _inverse(self, y: Any) -> Any:
        return ops.sign(y) * ops.abs(y) ** (1 / 3)

    def _forward_log_jacobian(self, x: Any) -> Any:
        return ops.log(3 * x**2)


def test_a_bijector_of_the_user(mode: int) -> None:
    made = _Cube()(D.Uniform(1.0, 2.0))
    assert isinstance(made, D.TransformedDistribution)
    x = ms.Tensor([1.5, 8.0, 20.0])
    np.testing.assert_allclose(made.prob(x).asnumpy()[:1], [1 / (3 * 1.5 ** (2 / 3))], rtol=1e-5)
    np.testing.assert_allclose(made.cdf(x).asnumpy()[0], 1.5 ** (1 / 3) - 1, rtol=1e-4)
    drawn = made.sample((100,)).asnumpy()
    assert (drawn >= 1).all() and (drawn <= 8).all()
    with pytest.raises(ValueError, match="non-linear"):
        made.mean()


def test_how_they_print() -> None:
    assert repr(D.Normal(3.0, 4.0)) == "Normal(mean = 3.0, standard deviation = 4.0)"
    assert repr(D.Normal()) == "Normal(mean = None, standard deviation = None)"
    assert repr(D.Bernoulli(0.3)) == "Bernoulli(probs = 0.3)"
    assert repr(D.Cauchy([0.0, 1.0], 1.0)) == "Cauchy(batch_shape = (2,))"
    assert repr(B.Invert(B.Exp())) == "Invert(\n  (_bijector): Exp(exp)\n)"
    assert repr(B.ScalarAffine(2.0, 3.0)) == "ScalarAffine(scale = 2.0, shift = 3.0)"


# --- errors ---------------------------------------------------------------------------------------

WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: D.Normal(3.0, -1.0), ValueError, "Standard deviation must be greater than zero"),
    (lambda: D.Normal(3.0, math.nan), ValueError, "Standard deviation must be greater than zero"),
    (lambda: D.Normal([1.0, 2.0], [1.0, 0.0]), ValueError, "must be greater than zero"),
    (lambda: D.Normal("a", 1.0), TypeError, "'mean' must be a number.* but got str"),
    (lambda: D.Normal(0.0, 1.0, seed=-1), ValueError, "seed"),
    (lambda: D.Normal(0.0, 1.0, dtype=ms.int32), TypeError, "'dtype' should be a float type"),
    (lambda: D.Normal(0.0, 1.0, name=3), TypeError, "name"),
    (lambda: D.Normal([0.0, 1.0], [1.0, 1.0, 1.0]), ValueError, "broadcast"),
    (lambda: D.Normal(ms.Tensor(0.0, ms.float16), ms.Tensor(1.0)), TypeError, "same dtype"),
    (lambda: D.Uniform(2.0, 1.0), ValueError, "low must be less than high"),
    (lambda: D.Bernoulli(1.0), ValueError, "Probabilities must be less than one"),
    (lambda: D.Bernoulli(0.3, dtype=ms.bool_), TypeError, "'dtype' should be an int or float"),
    (lambda: D.Geometric(0.0), ValueError, "Probabilities must be greater than zero"),
    (lambda: D.Categorical([0.2, 0.3]), ValueError, "should sum to one"),
    (lambda: D.Categorical([-0.2, 1.2]), ValueError, "must be greater than zero"),
    (lambda: D.Categorical([1.0]), ValueError, "must be less than one"),
    (lambda: D.Categorical(0.5), ValueError, "axis of categories"),
    (lambda: D.Exponential(-1.0), ValueError, "rate must be greater than zero"),
    (lambda: D.Beta(0.0, 1.0), ValueError, "concentration1 must be greater than zero"),
    (lambda: D.Gamma(1.0, -1.0), ValueError, "rate must be greater than zero"),
    (lambda: D.Poisson(0.0), ValueError, "rate must be greater than zero"),
    (lambda: D.Cauchy(1.0, 0.0), ValueError, "scale must be greater than zero"),
    (lambda: D.Gumbel(1.0, 0.0), ValueError, "scale must be greater than zero"),
    (lambda: D.LogNormal(1.0, 0.0), ValueError, "must be greater than zero"),
    (lambda: D.StudentT(-1.0, 0.0, 1.0), ValueError, "Degrees of freedom"),
    (lambda: D.TransformedDistribution(1, D.Normal()), TypeError, "'bijector' must be a Bijector"),
    (lambda: D.TransformedDistribution(B.Exp(), 2), TypeError, "must be a Distribution"),
    (lambda: B.PowerTransform(-1.0), ValueError, "Power must be greater than or equal to zero"),
    (lambda: B.GumbelCDF(0.0, 0.0), ValueError, "scale must be greater than zero"),
    (lambda: B.ScalarAffine(0.0), ValueError, "scale must not be zero"),
    (lambda: B.Softplus(0.0), ValueError, "sharpness must not be zero"),
    (lambda: B.Invert(3), TypeError, "'bijector' must be a Bijector, but got 3"),
    (lambda: B.Exp().forward(1.0), TypeError, "must be a Tensor"),
    (lambda: B.Exp().forward(ms.Tensor([1])), TypeError, "subclass of Float"),
    (lambda: B.Exp()("backward", ms.Tensor([1.0])), ValueError, "Invalid name"),
    (lambda: D.Normal(0.0, 1.0).prob(1.0), TypeError, "For value, input type must be a Tensor"),
    (lambda: D.Normal(0.0).prob(ms.Tensor(1.0)), TypeError, "the type sd must be subclass"),
    (lambda: D.Normal(0.0, 1.0).mean(1.0), TypeError, "For mean, input type"),
    (lambda: D.Normal(0.0, 1.0).sample([2]), TypeError, "must be a tuple"),
    (lambda: D.Normal(0.0, 1.0).kl_loss("Foo", 1, 1), ValueError, "is Normal, but got Foo"),
    (lambda: D.Normal(0.0, 1.0).kl_loss("Normal", 1.0, 1.0), TypeError, "For mean_b, input type"),
    (lambda: D.Cauchy(0.0, 1.0).mean(), ValueError, "mean is undefined"),
]


@pytest.mark.parametrize("case", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_errors(case: tuple[Any, type[Exception], str]) -> None:
    wrong, kind, text = case
    with pytest.raises(kind, match=text):
        wrong()


def test_errors_in_graphs_name_the_place(graph_mode: None) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.made = D.Normal(0.0)

        def construct(self, x: Any) -> Any:
            return self.made.log_prob(x)

    with pytest.raises(TypeError, match=r"(?s)the type sd must be.*self\.made\.log_prob"):
        Net()(ms.Tensor(1.0))


@needs_oracle
def test_record_is_mindspores() -> None:
    np.testing.assert_equal(_ask(), _recorded())


if __name__ == "__main__":
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in _ask().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
