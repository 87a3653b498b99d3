"""Trials of layers and optimizers whose attributes are edited between calls.

A trial takes a layer or loss of `tests/nn/cases.py`, or an optimizer, calls it twice, sets a public
attribute of it, of a Cell in it or of a primitive that it keeps, and calls it twice again. Both
modes must give the same after the edit: PyNative reads every attribute anew. A `CompileError` is no
fault, a result by the old value is one. `python -m tests.campaigns.fuzz.attributes [PART PARTS]`
tries every edit of every layer and optimizer (hours), or of a part of them.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.lang.errors import CompileError
from cellc.nn.layer.inner import INNER
from cellc_runtime.dtypes import DType

from ...modes.law import bits, mode
from ...nn.cases import ALL
from .finding import Finding, Trial
from .layers import OPTIMIZERS

SUFFIX = ".attributes"
_AT_ONCE = 4
"""Edits of a trial."""
_KEPT = frozenset((
    "cls_name", "create_time", "param_prefix", "cell_init_args", "pipeline_stage", "requires_grad",
    "parameter_layout_dict", "comp_comm_fusion", "exist_names", "instance_count", "phase",
    "jit_config_dict", "training", "is_train", "compiled", "bprop_debug", "mixed_precision_type",
    "arguments_key", "attrs_and_types", "cell_type", "compile_phase"))
"""Attributes of every Cell that no `construct` of the library reads."""
_TEXTS = (("none", "sum", "mean", "batchmean"), ("valid", "same", "pad"), ("VALID", "SAME", "PAD"),
          ("NCHW", "NHWC", "NCDHW", "NCD"), ("relu", "tanh", "gelu"), ("area", "linear", "nearest"),
          ("CONSTANT", "REFLECT", "SYMMETRIC"))
"""Words that stand for one another; an unknown one is tried with each."""
SUBJECTS = {**{f"{expr} {shapes}": (expr, shapes, train) for expr, shapes, train in ALL},
            **{f"optimizer {name}": (name, [], True) for name in OPTIMIZERS}}


class Edit(NamedTuple):
    """An edit of a Cell: `path` leads to it, `place` is set to the value of an expression."""

    subject: str
    path: str
    place: str
    value: str


def made(subject: str) -> tuple[nn.Cell, nn.Cell, Callable[[], Any]]:
    """What is edited, what is compared, and a call of it that gives what it returns."""
    ms.set_seed(5)
    expr, shapes, train = SUBJECTS[subject]
    rng = np.random.default_rng(2)
    net = nn.Dense(3, 2) if not shapes else eval(expr, {"nn": nn, "ms": ms, "np": np})
    for p in net.get_parameters():
        p.set_data(Tensor(rng.uniform(0.2, 1, p.shape).astype(np.float32)).astype(p.dtype))
    given = [eval(s, {"ms": ms, "np": np}) if isinstance(s, str)
             else Tensor(rng.uniform(-1, 1, s).astype(np.float32)) for s in shapes]
    if shapes:
        net.set_train(train)
        return net, net, lambda: net(*given)
    optimizer = OPTIMIZERS[expr](net.trainable_params())
    grads = tuple(Tensor(rng.uniform(-1, 1, p.shape).astype(np.float32))
                  for p in net.trainable_params())
    return optimizer, net, lambda: optimizer(grads)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for v in value:
            yield from _leaves(v)
    elif isinstance(value, Tensor):
        yield str(value.dtype), value.shape, bits(value.asnumpy())
    else:
        yield repr(value)


def answer(net: nn.Cell, call: Callable[[], Any]) -> list[Any] | str:
    """What a call returns, and the parameters after it; or how it fails."""
    ms.set_seed(9)
    try:
        return [*_leaves(call()), *_leaves([p.value() for p in net.get_parameters()])]
    except CompileError as e:
        return f"compile: {e}".splitlines()[0]
    except Exception as e:
        return type(e).__name__


def answers(edit: Edit, in_mode: int) -> list[Any]:
    """How the edit went, and two calls after it."""
    with mode(in_mode):
        edited, net, call = made(edit.subject)
        answer(net, call), answer(net, call)
        names: dict[str, Any] = {"ms": ms, "cell": dict(cells(edited))[edit.path]}
        try:
            names["old"] = eval(f"cell.{edit.place}", names)
            exec(f"cell.{edit.place} = {edit.value}", names)
        except Exception as e:
            return [type(e).__name__]
        return [answer(net, call), answer(net, call)]


def told_by(edit: Edit) -> str:
    """What is wrong after an edit; "" if nothing is."""
    want, got = answers(edit, ms.PYNATIVE_MODE), answers(edit, ms.GRAPH_MODE)
    for a, b in zip(want, got, strict=False):
        if a != b and not (isinstance(b, str) and b.startswith("compile: ")):
            return f"Stale: {edit}: PyNative {_short(a)}; graph mode {_short(b)}"
    return ""


def _short(answered: list[Any] | str) -> str:
    if isinstance(answered, str):
        return answered
    return str([np.frombuffer(v[2][:8], np.uint8).tobytes().hex() if isinstance(v, tuple) else v
                for v in answered])[:200]


def cells(edited: Any) -> Iterator[tuple[str, Any]]:
    """The Cells below what is edited, and itself as ""."""
    if isinstance(edited, nn.Cell):
        yield from edited.cells_and_names()
    else:
        yield "", edited


def _values(value: Any) -> tuple[str, ...]:
    """Expressions of other values than `old`."""
    match value:
        case bool():
            return ("not old",)
        case int():
            return "old + 1", "old - 1", "0", "-1"
        case float():
            return "old * 0.5 + 0.125", "-old"
        case str():
            alike = next((row for row in _TEXTS if value in row), ())
            return tuple(repr(word) for word in ("?", *alike) if word != value)
        case None:
            return "1", "0.5", "True", "(1, 1)"
        case DType():
            return "ms.float16", "ms.int32"
        case tuple() | list() if value and all(isinstance(v, int | float) for v in value):
            return ("type(old)(i + 1 for i in old)", "type(old)(0 for i in old)", "old[::-1]",
                    "old[:-1]")
        case Tensor() if not isinstance(value, Parameter) and value.is_floating_point():
            return ("old * 0.5 + 0.125",)
    return ()


def edits(subject: str) -> Iterator[Edit]:
    """All edits of a layer or an optimizer."""
    edited, net, call = made(subject)
    answer(net, call)  # (some attributes are there after the first call)
    for path, cell in cells(edited):
        inner = {p for kind in type(cell).__mro__ for p in INNER.get(kind.__name__, ())}
        places = [n for n in dir(cell) if not n.startswith("_") and n not in _KEPT | inner]
        for name in sorted(inner):
            with contextlib.suppress(Exception):
                primitive = getattr(cell, name)
                if isinstance(primitive, ops.Primitive):
                    places += [f"{name}.{a}" for a in primitive.attrs]
        places += [f"param_groups[{i}][{key!r}]"
                   for i, group in enumerate(getattr(cell, "param_groups", ())) for key in group]
        for place in places:
            with contextlib.suppress(Exception):
                old = eval(f"cell.{place}", {"cell": cell})
                yield from (Edit(subject, path, place, value) for value in _values(old))


def trial(seed: int) -> Trial:
    """Some edits of one layer or optimizer."""
    rng = np.random.default_rng([seed, 41])
    subjects = list(SUBJECTS)
    every = list(edits(subjects[int(rng.integers(len(subjects)))]))
    for at in rng.permutation(len(every))[:_AT_ONCE]:
        told = told_by(every[at])
        if told:
            return Trial(finding=Finding("attributes", seed, told, repr(tuple(every[at])) + "\n",
                                         SUFFIX))
    return Trial({"edits": min(_AT_ONCE, len(every))})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    return told_by(Edit(*eval(path.read_text())))


def main(part: int = 0, parts: int = 1) -> None:
    """Try every edit of a part of the layers and optimizers."""
    warnings.simplefilter("ignore")
    tried = found = 0
    for subject in list(SUBJECTS)[part::parts]:
        with mode(ms.PYNATIVE_MODE):
            every = list(edits(subject))
        for edit in every:
            tried += 1
            told = told_by(edit)
            if told:
                found += 1
                print(told, flush=True)
        print(f"{subject}: {len(every)} edits", flush=True)
    print(f"{tried} edits, {found} findings")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
