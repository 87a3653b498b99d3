"""The base class of all distributions: what they answer, and how one answer follows from others.

A derived class defines hooks with an underscore (`_log_prob`, `_cdf`, `_mean`...). The others are
derived: prob from log_prob, the survival function from the cdf, and so on.

Source: `mindspore.nn.probability.distribution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NoReturn

from cellc_compiler.ir.types import MOST, broadcast_all
from cellc_runtime.dtypes import DType, float32, float64

from ... import ops
from ...core.declared import integer, misuse
from ...core.naming import described
from ...tensors.tensor import Tensor
from .parameters import Parametrized, held, need_positive, need_tensor

_NAMES = (
    "prob", "log_prob", "cdf", "log_cdf", "survival_function", "log_survival", "mean", "mode", "sd",
    "var", "entropy", "kl_loss", "cross_entropy", "sample", "get_dist_args", "get_dist_type",
)
Answer = Callable[..., Tensor]
Way = Callable[[Tensor], Tensor] | None


def _rest(x: Tensor) -> Tensor:
    return 1.0 - x


def _rest_of_log(x: Tensor) -> Tensor:
    return -ops.expm1(x)


def _figure(name: str, doc: str, **ways: Way) -> Answer:
    """A method that returns the result of the first hook that is defined, by the function for
    it."""
    def figure(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        for hook, then in ways.items():
            if hasattr(self, hook):
                found = getattr(self, hook)(*args, **kwargs)
                return found if then is None else then(found)
        return self._missing(name)

    figure.__name__, figure.__qualname__, figure.__doc__ = name, f"Distribution.{name}", doc
    return figure


def _at_value(name: str, doc: str, **ways: Way) -> Answer:
    """As `_figure`, of a value."""
    answer = _figure(name, doc, **ways)

    @wraps(answer)
    def at_value(self: Any, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return answer(self, value, *args, **kwargs)

    del at_value.__wrapped__  # the signature is its own
    return at_value


class Distribution(Parametrized):
    """A distribution whose parameters are given when it is made, or at each call.

    Args:
        seed: of the draws; None and 0: the global generator.
        dtype: of the draws.
        name: of the distribution.
        param: what it was made with; its "param_dict" holds the parameters by name.
    """

    dist_type = ""  # Its type for `kl_loss`; empty: none
    discrete = False  # Whether draws are whole numbers, which ints may hold
    labels: tuple[str, ...] = ()  # How the parameters are called when the distribution is printed
    _call_names: tuple[str, ...] = ()
    """The names of the parameters in calls, where they have others there."""
    _above_zero: Mapping[str, str] = {}
    """The parameters that must be above zero, and what the error calls them."""
    _prob: Answer
    _log_prob: Answer
    _cdf: Answer
    _log_cdf: Answer
    _survival_function: Answer
    _log_survival: Answer
    _mean: Answer
    _mode: Answer
    _sd: Answer
    _var: Answer
    _entropy: Answer
    _kl_loss: Answer
    _cross_entropy: Answer
    _sample: Answer

    def __init__(self, seed: int | None, dtype: Any, name: str, param: dict[str, Any]) -> None:
        if dtype is not None and not (isinstance(dtype, DType) and (
                dtype.is_float or (self.discrete and dtype.is_integer))):
            kind = "an int or float type" if self.discrete else "a float type"
            raise misuse(name, f"the 'dtype' should be {kind}", described(dtype), TypeError)
        super().__init__(name, dtype, param)
        self._seed = 0 if seed is None else integer(0, MOST)(seed, name, "seed")

    def _keep(self, seed: int | None, dtype: Any, name: str, **given: Any) -> None:
        """Construct the base of a distribution with these parameters."""
        Distribution.__init__(self, seed, dtype, name, {
            **given, "seed": seed, "dtype": dtype, "name": name, "param_dict": given})
        for key, value in given.items():
            kept = self._add_parameter(value, key)
            if key in self._above_zero:
                need_positive(kept, self._above_zero[key])

    def _check_param_type(self, *args: Any) -> Any:
        """Return a call's arguments, else the distribution's own parameters, of one shape."""
        out = []
        for name, arg in zip(self.parameter_names, args, strict=False):
            own = getattr(self, f"_{name}_value") if arg is None else need_tensor(arg, name)
            if own is None:
                raise TypeError(f"the type {name} must be subclass of Tensor. It can not be None "
                                "since it is not specified during initialization.")
            out.append(ops.cast(own, self.parameter_type))
        if len(out) == 1:
            return out[0]
        dims = broadcast_all(*[x.shape for x in out])
        return tuple([ops.broadcast_to(x, dims) for x in out])

    def _check_value(self, value: Any, name: str = "value") -> Tensor:
        """A value in the type of the parameters."""
        return ops.cast(need_tensor(value, name), self.parameter_type)

    def _by_name(self, args: Any, kwargs: Any) -> list[Any]:
        """The arguments of a call in the order of the parameters; None where there is none."""
        names = self._call_names or self.parameter_names
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(given) != len(args) + len(kwargs) or not set(given) <= set(names):
            raise TypeError(f"{self._name} takes the parameters {', '.join(names)}, each once, but "
                            f"got {len(args)} and {list(kwargs)}.")
        return [given.get(name) for name in names]

    def _parameters_of(self, args: Any, kwargs: Any) -> tuple[Tensor, ...]:
        """The parameters that a call with these arguments uses."""
        out = self._check_param_type(*self._by_name(args, kwargs))
        return out if isinstance(out, tuple) else (out,)

    def _second(self, dist: str, args: Any, kwargs: Any) -> list[Tensor]:
        """The parameters of the second distribution, which must be of the same type."""
        if dist != self.dist_type:
            raise ValueError(f"Expected dist input is {self.dist_type}, but got {dist}.")
        given = zip(self.parameter_names, self._by_name(args, kwargs), strict=True)
        return [self._check_value(arg, f"{name}_b") for name, arg in given]

    def _missing(self, method: str) -> NoReturn:
        raise NotImplementedError(f"{method} is not implemented for {self._name} distribution.")

    # --- what it is -------------------------------------------------------------------------------

    seed = held("_seed", "The seed of its draws; 0: the global generator.")
    broadcast_shape = held("_batch_shape", "The same as `batch_shape`.")

    def extend_repr(self) -> str:
        """Its parameters."""
        return self._described(self.labels)

    def get_dist_type(self, *args: Any, **kwargs: Any) -> str:
        """The type, as `kl_loss` and `cross_entropy` take it, whatever the parameters are."""
        return self.dist_type or self._missing("get_dist_type")

    def get_dist_args(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The parameters that a call with these arguments uses."""
        if not self.parameter_names:
            self._missing("get_dist_args")
        return self._parameters_of(args, kwargs)

    # --- probabilities ----------------------------------------------------------------------------

    prob = _at_value("prob", "The density, or the probability of a value, at each element.",
                     _prob=None, _log_prob=ops.exp)
    log_prob = _at_value("log_prob", "The logarithm of `prob`.", _log_prob=None, _prob=ops.log)
    cdf = _at_value(
        "cdf", "The probability of a draw not above each element.", _cdf=None, _log_cdf=ops.exp,
        _survival_function=_rest, _log_survival=_rest_of_log)
    log_cdf = _at_value("log_cdf", "The logarithm of `cdf`.", _log_cdf=None, cdf=ops.log)
    survival_function = _at_value(
        "survival_function", "The probability of a draw above each element: 1 - cdf.",
        _survival_function=None, _log_survival=ops.exp, _log_cdf=_rest_of_log, cdf=_rest)
    log_survival = _at_value(
        "log_survival", "The logarithm of `survival_function`.", _log_survival=None,
        survival_function=ops.log)

    # --- figures and draws ------------------------------------------------------------------------

    mean = _figure("mean", "The mean.", _mean=None)
    mode = _figure("mode", "The value of the largest probability.", _mode=None)
    sd = _figure("sd", "The standard deviation.", _sd=None, _var=ops.sqrt)
    var = _figure("var", "The variance.", _var=None, _sd=ops.square)
    entropy = _figure("entropy", "The entropy in nats.", _entropy=None)
    sample = _figure(
        "sample", "Draws of the shape given first (a tuple) for each element of the parameters.",
        _sample=None)

    def kl_loss(self, dist: str, *args: Any, **kwargs: Any) -> Tensor:
        """The Kullback-Leibler divergence from this distribution to a second one, in nats.

        Args:
            dist: the type of the second one, which must be this one's.
            args, kwargs: parameters of the second one, then (optional) of this one.
        """
        if hasattr(self, "_kl_loss"):
            return self._kl_loss(dist, *args, **kwargs)
        return self._missing("kl_loss")

    def cross_entropy(self, dist: str, *args: Any, **kwargs: Any) -> Tensor:
        """The entropy of this distribution plus its `kl_loss` to a second one; same arguments."""
        if hasattr(self, "_cross_entropy"):
            return self._cross_entropy(dist, *args, **kwargs)
        if not hasattr(self, "_kl_loss") or not hasattr(self, "_entropy"):
            return self._missing("cross_entropy")
        count = len(self.parameter_names)
        own = {k.removesuffix("_a"): v for k, v in kwargs.items() if not k.endswith("_b")}
        return self._entropy(*args[count:], **own) + self._kl_loss(dist, *args, **kwargs)

    def _dims(self, shape: Any, batch: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of draws."""
        if not isinstance(shape, tuple):
            raise TypeError(f"For shape, input type must be a tuple, but got {shape}.")
        return (*shape, *batch)

    def _uniform(self, dims: tuple[int, ...]) -> Tensor:
        """Uniform numbers in [0, 1), float32 or float64."""
        to = float64 if self.parameter_type is float64 else float32
        return ops.rand(dims, dtype=to, seed=self._seed or None)

    def _open_uniform(self, dims: tuple[int, ...]) -> Tensor:
        """Uniform numbers above 0 and below 1, whose logarithms are finite."""
        return ops.clamp(self._uniform(dims), 2.0**-24, 1 - 2.0**-24)

    def _normal(self, dims: tuple[int, ...]) -> Tensor:
        """Standard normal numbers, float32 or float64."""
        to = float64 if self.parameter_type is float64 else float32
        return ops.randn(dims, dtype=to, seed=self._seed or None)

    def construct(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The method of this name, called with the other arguments.

        Raises:
            NotImplementedError: there is no such method.
        """
        if name not in _NAMES:
            self._missing(name)
        return getattr(self, name)(*args, **kwargs)
