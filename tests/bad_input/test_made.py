"""What is made of arguments beside those that somebody means: layers, losses, optimizers, rates,
distributions, initializers, metrics, callbacks, settings of parallel training.

Of each call one argument after the other is replaced by each value of a stock. What comes of it is
as recorded in `made.json`: what was made, or the error with its words. `python -m
tests.bad_input.test_made` records anew, and prints what is not as before; whether that is right is
for whoever reads it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.dataset
import cellc.train
from cellc import Parameter, Tensor, amp, nn, parallel
from cellc.common import initializer
from cellc.communication import comm_func
from cellc.nn.probability import bijector, distribution
from cellc.ops import communication
from cellc.ops.functional import collectives
from cellc.parallel import Layout
from cellc.parallel.auto_parallel import AutoParallel
from cellc.ranks import settings
from cellc_runtime.dtypes import DType

from ..nn.cases import ALL
from . import about_networks as about
from .recorded import Answers, answered, check, write

GOLDEN = Path(__file__).with_name("made.json")
STOCK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -0.5, 1.5, "", "mean", "valid", (), (1, 2),
    (2, 1, 3), [1], [2, 2], ((1, 1), (2, 0)), {}, {"a": 1}, ms.float16, ms.int32,
    Tensor([[1.0, 2.0]]), Tensor([1, 2]))
_OF_THE_MOMENT = {"_epoch", "_minute_start", "_step_ended", "create_time", "id"}
"""Attributes that clocks and addresses give."""
_OF_OTHERS = ("nn.Transformer", "nn.TransformerEncoder", "nn.TransformerDecoder", "nn.LSTM")
"""Made of layers that are there themselves."""
CLASSES = {"train": cellc.train, "initializers": initializer, "bijectors": bijector,
           "distributions": distribution}


def weights() -> list[Parameter]:
    return [Parameter(Tensor(np.ones((3, 2), np.float32)), name="w.weight"),
            Parameter(Tensor(np.ones(3, np.float32)), name="w.bias", layerwise_parallel=True)]


def data() -> Any:
    """Three rows of two columns."""
    return cellc.dataset.NumpySlicesDataset(
        (np.ones((3, 4), np.float32), np.ones((3, 3), np.float32)), ["x", "y"])


def set_parallel(**given: Any) -> list[Any]:
    """What the settings are then."""
    try:
        settings.set_auto_parallel_context(**given)
        return [ms.get_auto_parallel_context(name) for name in given if name in settings._DEFAULTS]
    finally:
        settings.reset_auto_parallel_context()


def set_algorithm(**given: Any) -> list[Any]:
    try:
        parallel.set_algo_parameters(**given)
        return [parallel.get_algo_parameters(name) for name in given]
    finally:
        parallel.reset_algo_parameters()


def strategy(config: Any) -> Any:
    """How data lie by `AutoParallel`."""
    network = AutoParallel(nn.Identity())
    network.dataset_strategy(config)
    return network._parallel


def optimizers() -> Iterator[str]:
    """Each with its defaults."""
    for name in nn.__all__:
        kind = getattr(nn, name)
        if inspect.isclass(kind) and issubclass(kind, nn.Optimizer) and name not in (
                "Optimizer", "LARS"):
            yield f"nn.{name}(weights())"


def layers(turn: int) -> list[str]:
    """Of every third layer or loss the call that says most."""
    longest: dict[str, str] = {}
    for expression, _, _ in ALL:
        name = expression.partition("(")[0]
        if name.startswith("nn.") and name not in _OF_OTHERS:
            longest[name] = max(longest.get(name, ""), expression, key=len)
    return list(longest.values())[turn::3]


MORE = {"transforms": about.PLACES, "loops": about.PLACES}
"""Values beside the stock, by area."""
CALLS: dict[str, list[str]] = {
    **{f"layers {turn}": layers(turn) for turn in range(3)},
    "optimizers": [*optimizers(), "nn.LARS(nn.SGD(weights()))", "nn.Optimizer(0.1, weights())",
                   "nn.Adam([{'params': weights()[:1], 'lr': 0.1}, {'params': weights()[1:]}])"],
    "rates": [
        "nn.cosine_decay_lr(0.01, 0.1, 6, 2, 3)", "nn.exponential_decay_lr(0.1, 0.9, 6, 2, 3)",
        "nn.inverse_decay_lr(0.1, 0.5, 6, 1, 2, True)",
        "nn.natural_exp_decay_lr(0.1, 0.9, 6, 2, 3)",
        "nn.polynomial_decay_lr(0.1, 0.01, 6, 2, 3, 0.5)", "nn.warmup_lr(0.1, 6, 2, 3)",
        "nn.piecewise_constant_lr([2, 5, 7], [0.1, 0.05, 0.01])", "nn.WarmUpLR(0.1, 4)",
        "nn.CosineDecayLR(0.01, 0.1, 4)", "nn.ExponentialDecayLR(0.1, 0.9, 4)",
        "nn.InverseDecayLR(0.1, 0.9, 4)", "nn.NaturalExpDecayLR(0.1, 0.9, 4)",
        "nn.PolynomialDecayLR(0.1, 0.01, 4, 0.5)"],
    "parallel": [
        *(f"set_parallel({name}={value!r})" for name, value in settings._DEFAULTS.items()),
        "set_algorithm(tensor_slice_align_size=1024)",
        "set_algorithm(tensor_slice_align_size=1025)",
        "set_parallel(pipeline_config={'pipeline_scheduler': 'gpipe'})",
        *(f"set_algorithm({name}={value!r})" for name, value in settings._ALGORITHM.items()),
        "set_parallel(parallel_optimizer_config={'optimizer_level': 'level1'})",
        "settings._checked_sharding({'gradient_accumulation_shard': True})",
        "settings._checked('pipeline_interleave', True)",
        "Layout((2, 2), ('dp', 'tp'), [3, 1, 0, 2])", "Layout((2, 2), ('dp', 'tp'))('tp', 'dp')",
        "strategy('full_batch')", "strategy(((2, 1), (2,)))", "AutoParallel(nn.Identity())",
        "ms.get_ps_context('enable_ps')", "ms.communication.create_group('one', [0])",
        "ms.communication.get_group_size('one')", "ms.communication.get_rank('one')",
        "ms.communication.destroy_group('one')"],
    "exchanges": [
        "comm_func.all_reduce(Tensor([[1.0, 2.0]]))", "comm_func.reduce(Tensor([1]), 0)",
        "comm_func.all_gather_into_tensor(Tensor([1, 2]))", "comm_func.broadcast(Tensor([1, 2]))",
        "comm_func.reduce_scatter_tensor(Tensor([[1.0]]))", "comm_func.scatter_tensor(Tensor([1]))",
        "comm_func.gather_into_tensor(Tensor([1]))", "comm_func.send(Tensor([1.0]))",
        "comm_func.recv(Tensor([1.0]))", "comm_func.irecv(Tensor([1.0]))",
        "comm_func.all_to_all_with_output_shape([(2,)], [Tensor([1, 2])])",
        "comm_func.all_to_all_single_with_output_shape((2, 1), Tensor([[1], [2]]), [2], [2])",
        "collectives.all_to_all(Tensor([[1, 2]]), 1, 0, 1)",
        "collectives.all_to_all_rows(Tensor([1, 2]), [2], [2])",
        "communication.all_gather([Tensor([0, 0])], Tensor([1, 2]))",
        "communication.reduce_scatter(Tensor([0, 0]), [Tensor([1, 2])])",
        "communication.scatter(Tensor([0, 0]), [Tensor([1, 2])])",
        "communication.gather(Tensor([1, 2]), [Tensor([0, 0])])",
        "communication.all_to_all([Tensor([0, 0])], [Tensor([1, 2])])",
        "communication.all_to_all_single(Tensor([0, 0]), Tensor([1, 2]), [2], [2])",
        "communication.all_gather_into_tensor_uneven(Tensor([0, 0]), Tensor([1, 2]), [2])",
        "communication.reduce_scatter_tensor_uneven(Tensor([0, 0]), Tensor([1, 2]), [2])",
        "communication.P2POp('isend', Tensor([1.0]), 0)",
        "communication.all_to_all_v_c(Tensor([0, 0]), Tensor([1, 2]), [2])"],
    "training": [
        "cellc.train.DatasetHelper(data(), True, -1, 2)",
        "cellc.train.DatasetHelper(data(), False)",
        "cellc.train.Model(nn.Dense(4, 3))", "cellc.train.Fbeta(0.5)",
        "cellc.train.Model(nn.Dense(4, 3), nn.MSELoss(), nn.SGD(weights()), {'loss'}, "
        "amp_level='O2')",
        "cellc.train.TopKCategoricalAccuracy(2)", "cellc.train.ConfusionMatrix(3, 'target', 0.3)",
        "cellc.train.ConfusionMatrixMetric(metric_name='recall')", "cellc.train.RunContext({})",
        "cellc.train.LearningRateScheduler(nn.cosine_decay_lr)",
        "cellc.train.connect_network_with_dataset(nn.ReLU(), cellc.train.DatasetHelper(data()))",
        "amp.DynamicLossScaler(1024.0, 2, 3)", "amp.StaticLossScaler(2.0)",
        "amp.auto_mixed_precision(nn.Dense(4, 3), 'O2')",
        "amp.custom_mixed_precision(nn.ReLU(), white_list=[nn.ReLU])",
        "nn.get_metrics({'acc', 'mse'})",
        "nn.get_metric_fn('mae')",
        "nn.FixedLossScaleUpdateCell(128.0)", "nn.DynamicLossScaleUpdateCell(128.0, 2, 5)",
        "nn.WithLossCell(nn.Dense(4, 3), nn.MSELoss())", "nn.MicroBatchInterleaved(nn.ReLU(), 2)",
        "nn.TrainOneStepCell(nn.Dense(4, 3), nn.SGD(weights()), 2.0)",
        "nn.PipelineCell(nn.ReLU(), 2)", "nn.WithEvalCell(nn.Dense(4, 3), nn.MSELoss(), True)",
        "nn.GradAccumulationCell(nn.ReLU(), 2)", "nn.GetNextSingleOp([ms.float32], [[2]], 'q')"],
    "drawn": [
        "initializer.initializer('normal', [2, 3], ms.float32)", "initializer.Constant(0.5)",
        "initializer.initializer(Tensor([1.0, 2.0]), [2], ms.float32)",
        "initializer.Sparse(0.5, 0.1)", "bijector.Exp()",
        "bijector.ScalarAffine(2.0, 1.0)", "bijector.PowerTransform(0.5)",
        "bijector.Softplus(2.0)", "bijector.GumbelCDF(0.5, 2.0)",
        "bijector.Invert(bijector.Exp())",
        "distribution.TransformedDistribution(bijector.Exp(), distribution.Normal(0.0, 1.0))",
        *(f"distribution.{call}" for call in (
            "Normal(0.5, 2.0)", "Uniform(0.5, 2.0)", "Beta(0.5, 2.0)", "Gamma(0.5, 2.0)",
            "Bernoulli(0.5)", "Categorical([0.25, 0.75])", "Geometric(0.5)", "Poisson(0.5)",
            "Exponential(0.5)", "Cauchy(0.5, 2.0)", "Laplace(0.5, 2.0)", "Logistic(0.5, 2.0)",
            "LogNormal(0.5, 2.0)", "StudentT(3.0, 0.5, 2.0)", "Gumbel(0.5, 2.0)",
            "HalfNormal(0.5, 2.0)"))],
    **{area: [f"{module.__name__}.{name}()" for name in module.__all__
              if inspect.isclass(getattr(module, name))] for area, module in CLASSES.items()},
    **about.CALLS,
}


NAMES: dict[str, Any] = {
    "AutoParallel": AutoParallel, "amp": amp, "bijector": bijector, "data": data,
    "distribution": distribution, "initializer": initializer, "Layout": Layout,
    "Tensor": Tensor, "about": about, "cellc": cellc,
    "collectives": collectives, "comm_func": comm_func, "communication": communication, "ms": ms,
    "nn": nn, "np": np, "set_algorithm": set_algorithm, "set_parallel": set_parallel,
    "settings": settings, "strategy": strategy, "weights": weights}


def parts(expression: str) -> tuple[Any, dict[str, Any], Any]:
    """A call's function, its arguments by name, and its positional ones behind a star."""
    tree = ast.parse(expression, mode="eval").body
    assert isinstance(tree, ast.Call)
    call = value_of(ast.unparse(tree.func))
    args = [value_of(ast.unparse(a)) for a in tree.args]
    named = {str(k.arg): value_of(ast.unparse(k.value)) for k in tree.keywords}
    return call, *bound(call, args, named)


def bound(call: Any, args: list[Any], named: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    signature = inspect.signature(call)
    given = signature.bind_partial(*args, **named)
    given.apply_defaults()
    by_name, star = {}, ()
    for name, value in given.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            star = value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            by_name |= value
        else:
            by_name[name] = value
    return by_name, star


def value_of(text: str) -> Any:
    return eval(text, NAMES)


def shown(made: Any) -> str:
    """What was made, in words: its kind and what it keeps that can be said."""
    if isinstance(made, Parameter):  # without the number that a made-up name ends with
        return f"{made.name.partition('#')[0]} {made.dtype}{made.shape}"
    if isinstance(made, Tensor):
        return f"{made.dtype}{made.shape}{made.asnumpy().ravel()[:9].tolist()}"
    if isinstance(made, tuple | list):
        return f"{type(made).__name__}({', '.join(map(shown, made))})"
    if isinstance(made, dict):
        return str({k: shown(v) for k, v in made.items()})
    if made is None or isinstance(made, bool | int | float | str | np.generic | DType):
        return repr(made)
    kept = {k: shown(v) for k, v in sorted(getattr(made, "__dict__", {}).items())
            if isinstance(v, bool | int | float | str | tuple | DType) and "time" not in k
            and k not in _OF_THE_MOMENT}
    own = [(p.name, shown(p.shape), str(p.dtype), p.requires_grad) for p in made.get_parameters()] \
        if isinstance(made, nn.Cell) else []
    return f"{type(made).__name__}{kept}{own}"


def made(call: Any, star: Any, given: dict[str, Any]) -> str:
    ms.set_seed(1)
    return shown(call(*star, **given))


def questions(area: str) -> Answers:
    """Each call as it is, and with one argument replaced."""
    seen = set[str]()
    for expression in CALLS[area]:
        call, named, star = parts(expression)
        for name in (None, *named):
            for value in (*STOCK, *MORE.get(area, ())) if name else (None,):
                asked = f"{expression} {name}={shown(value)}"
                if asked in seen:
                    continue
                seen.add(asked)
                # (A call may write into it: each gets its own.)
                own = copy(value) if isinstance(value, (dict, list)) else value
                given = named if name is None else {**named, name: own}
                yield asked, answered(partial(made, call, star, given))


def nameless(answers: list[tuple[str, str]]) -> list[str]:
    """Errors of constructors that do not say which class could not be made; where Python refuses
    the call itself, its words are not kept."""
    found = []
    for asked, answer in answers:
        call = asked.partition("(")[0]
        name, text = call.rpartition(".")[2].casefold(), answer.replace("_", "").casefold()
        error = re.match(r"(?!TypeError$)\w+Error(?=$|: )", answer)
        if error and inspect.isclass(value_of(call)) and name not in text:
            found.append(f"{asked}: {answer}")
    return found


@pytest.mark.parametrize("area", CALLS)
def test_made(area: str) -> None:
    answers = list(questions(area))
    assert not nameless(answers)
    check(GOLDEN, area, answers)


if __name__ == "__main__":
    write(GOLDEN, {area: questions(area) for area in CALLS})
