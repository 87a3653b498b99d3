"""Calls about networks, whose arguments `test_made` replaces: derivatives and other transforms,
control flow, methods of Cells, settings, checkpoints, what tensors are made of."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from typing import Any

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.ops import composite

X, Y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
PLACES: tuple[Any, ...] = ((0, 1), (0, -1), (1, 1), (0, None), "0", [X], [X, Y], (X, Y))
"""Values beside the stock for whatever takes positions or tensors."""


def product(x: Any, y: Any) -> Any:
    return x * y + x


def both(x: Any, y: Any) -> Any:
    return x * y, x + y


class Pair(nn.Cell):
    """Two layers and a Parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(2, 3, weight_init="ones", bias_init="zeros")
        self.second = nn.SequentialCell(
            nn.ReLU(), nn.Dense(3, 1, weight_init="ones", bias_init="zeros"))
        self.scale = Parameter(Tensor([2.0]), name="scale")

    def construct(self, x: Any) -> Any:
        return self.second(self.first(x)) * self.scale


def after(name: str) -> Callable[..., list[Any]]:
    """A method of Cell called on a new one: what it gives, and what the Cell and all in it are."""
    def call(*args: Any, **kwargs: Any) -> list[Any]:
        cell = Pair()
        given = getattr(cell, name)(*args, **kwargs)
        given = list(given) if isinstance(given, Iterator) else given
        return [given is cell, given, [list(c) for c in cell.cells_and_names()],
                cell.get_flags()]

    signature = inspect.signature(getattr(nn.Cell, name))
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(signature.parameters.values())[1:])
    return call


# --- transforms -----------------------------------------------------------------------------------


def graded(grad_position: Any = 0, weights: Any = None, has_aux: Any = False,
           return_ids: Any = False, sens_param: Any = False) -> Any:
    function = both if has_aux is True else product
    return ms.grad(function, grad_position, weights, has_aux, return_ids, sens_param)(X, Y)


def valued(grad_position: Any = 0, weights: Any = None, has_aux: Any = False,
           return_ids: Any = False, sens_param: Any = False) -> Any:
    function = both if has_aux is True else product
    return ms.value_and_grad(
        function, grad_position, weights, has_aux, return_ids, sens_param)(X, Y)


def of_operation(get_all: Any = False, get_by_list: Any = False, sens_param: Any = False) -> Any:
    return composite.GradOperation(get_all, get_by_list, sens_param)(product)(X, Y)


def of_weights(get_all: Any = True, get_by_list: Any = True, weights: Any = None) -> Any:
    cell = Pair()
    operation = composite.GradOperation(get_all, get_by_list)
    return operation(cell, cell.trainable_params() if weights is None else weights)(X)


def mapped(in_axes: Any = 0, out_axes: Any = 0) -> Any:
    return ms.vmap(product, in_axes, out_axes)(X, Y)


def mapped_rows(in_axes: Any = (0, None), out_axes: Any = (0, 1)) -> Any:
    return ms.vmap(both, in_axes, out_axes)(Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), Y)


def pushed(inputs: Any = (X, Y), v: Any = (Y, X), has_aux: Any = False) -> Any:
    return ms.jvp(both if has_aux is True else product, inputs, v, has_aux)


def pulled(first: Any = X, second: Any = Y, weights: Any = None, has_aux: Any = False) -> Any:
    value, pull, *_ = ms.vjp(both if has_aux is True else product, first, second,
                             weights=weights, has_aux=has_aux)
    return value, pull(X)


def columns(grad_position: Any = 0, has_aux: Any = False) -> Any:
    return ms.jacfwd(both if has_aux is True else product, grad_position, has_aux)(X, Y)


def rows(grad_position: Any = 0, has_aux: Any = False) -> Any:
    return ms.jacrev(both if has_aux is True else product, grad_position, has_aux)(X, Y)


def found(gradients: Any = None, identifier: Any = 0) -> Any:
    kept = ms.grad(product, (0, 1), return_ids=True)(X, Y) if gradients is None else gradients
    return ms.get_grad(kept, identifier)


def jitted(**given: Any) -> Any:
    return ms.jit(product, **given)(X, Y)


jitted.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
    p for p in inspect.signature(ms.jit).parameters.values()
    if p.kind is p.KEYWORD_ONLY])


def again(use_reentrant: Any = True, output_recompute: Any = False, early_stop: Any = True) -> Any:
    def function(x: Any) -> Any:
        return ms.recompute(nn.Tanh(), x, use_reentrant=use_reentrant,
                            output_recompute=output_recompute, early_stop=early_stop)

    return ms.grad(function)(X)


# --- control flow ---------------------------------------------------------------------------------


def repeated(init_val: Any = X) -> Any:
    return ops.WhileLoop()(lambda x: x.sum() < 20, lambda x: x * 2, init_val)


def counted(lower: Any = 0, upper: Any = 3, init_val: Any = X, unroll: Any = True) -> Any:
    return ops.ForiLoop()(lower, upper, lambda i, x: x + i, init_val, unroll)


def scanned(init: Any = 1.0, xs: Any = X, length: Any = None, unroll: Any = True) -> Any:
    return ops.Scan()(lambda c, x: (c + x, c), init, xs, length, unroll)


def either(pred: Any = True, first: Any = X, second: Any = Y) -> Any:
    return ops.cond(pred, lambda x, y: x + y, lambda x, y: x - y, first, second)


# --- settings and files ---------------------------------------------------------------------------


@contextmanager
def elsewhere() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        yield


def saved(**given: Any) -> Any:
    """What is there afterwards, and what it holds."""
    with elsewhere():
        ms.save_checkpoint(**{"save_obj": Pair(), "ckpt_file_name": "a.ckpt", **given})
        while ms.async_ckpt_thread_status():
            pass
        return [[name, ms.load_checkpoint(name, format=name.rpartition(".")[2])]
                for name in sorted(os.listdir())]


def loaded(**given: Any) -> Any:
    with elsewhere():
        ms.save_checkpoint(Pair(), "a.ckpt", append_dict={"epoch": 3})
        return ms.load_checkpoint(**{"ckpt_file_name": "a.ckpt", **given})


def put(
    parameter_dict: Any = None, strict_load: Any = False, remove_redundancy: Any = False
) -> Any:
    cell = Pair()
    kept = {"scale": Parameter(Tensor([5.0])), "other": Parameter(Tensor([1.0]))}
    told = ms.load_param_into_net(
        cell, kept if parameter_dict is None else parameter_dict, strict_load, remove_redundancy)
    return [told, cell.scale.asnumpy().tolist()]


for _function, _of in ((saved, ms.save_checkpoint), (loaded, ms.load_checkpoint)):
    _function.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        p.replace(kind=p.KEYWORD_ONLY) for p in inspect.signature(_of).parameters.values()
        if p.kind is not p.VAR_KEYWORD])


def keyed(name: Any, value: Any) -> list[Any]:
    """A setting, as it is read again."""
    before = ms.get_context(name)
    try:
        ms.set_context(**{name: value})
        return [before, ms.get_context(name)]
    finally:
        ms.set_context(**{name: before})


SETTINGS = ("mode", "device_id", "max_call_depth", "deterministic", "jit_syntax_level",
            "save_graphs", "precompile_only", "pynative_synchronize", "enable_compile_cache",
            "runtime_num_threads", "max_device_memory", "debug_level", "jit_level")
METHODS = (
    "add_flags_recursive", "buffers", "cast_inputs", "cells_and_names", "check_names",
    "compile", "extend_repr", "flatten_weights", "get_flags", "get_inputs", "get_parameters",
    "get_sub_cell('first')", "init_parameters_data", "insert_child_to_cell('third', nn.ReLU())",
    "insert_param_to_cell('more', about.Parameter(about.X))", "load_state_dict({})",
    "named_buffers", "parameters_and_names", "parameters_broadcast_dict", "parameters_dict",
    "recompute",
    "register_backward_hook(len)", "register_buffer('kept', about.X)", "register_forward_hook(len)",
    "register_forward_pre_hook(len)", "set_boost('level0')", "set_broadcast_flag",
    "set_comm_fusion(2)", "set_data_parallel", "set_grad", "set_inputs(about.X)",
    "set_mixed_precision_type(ms.float16)", "set_param_ps", "set_train", "state_dict",
    "to_float(ms.float16)", "trainable_params", "untrainable_params",
    "update_cell_prefix", "update_cell_type('kind')", "update_parameters_name('one.')",
    "get_buffer('kept')", "offload")


def called(method: str) -> str:
    """The text of a call of a method."""
    name, _, rest = method.partition("(")
    return f"about.after('{name}')({rest or ')'}"


CALLS: dict[str, list[str]] = {
    "transforms": [
        *(f"about.{name}()" for name in (
            "graded", "valued", "of_operation", "of_weights", "mapped", "mapped_rows", "pushed",
            "pulled", "columns", "rows", "found", "jitted", "again")),
        "about.ops.derivative(about.nn.Tanh(), about.X, 2)",
       "about.ops.jet(about.nn.Tanh(), about.X, about.Tensor([[1.0, 1.0], [0.5, 2.0]]))"],
    "loops": [f"about.{name}()" for name in ("repeated", "counted", "scanned", "either")],
    "cells": [called(method) for method in METHODS],
    "settings": [f"about.keyed('{name}', None)" for name in SETTINGS],
    "files": [f"about.{name}()" for name in ("saved", "loaded", "put")],
    "tensors": [
        "Tensor([[1.0, 2.0]], ms.float16)", "Tensor(shape=(2, 3), dtype=ms.float32, init='ones')",
        "ms.tensor([1, 2])", "ms.Parameter(Tensor([1.0]), 'w')", "ms.ParameterTuple([])",
        "ms.mutable((1, 2))", "ms.COOTensor(Tensor([[0, 1], [1, 2]]), Tensor([1.0, 2.0]), (3, 4))",
        "ms.CSRTensor(Tensor([0, 1, 2]), Tensor([1, 2]), Tensor([1.0, 2.0]), (2, 4))",
        "ms.Symbol(8, 2, 2, 0)", "ms.JitConfig('O1')", "ms.Generator()", "ms.set_seed(1)",
        "ms.is_tensor(1)", "ms.from_numpy(np.ones(2))", "ms.set_recursion_limit(1000)",
        "ms.common.initializer.initializer('ones', (2,))"],
}
