"""`assert_modes_equal`: a compiled network gives the bits of PyNative."""

from __future__ import annotations

from typing import Any

from ..verification import Finding, verify

_MODES = frozenset(("output", "gradient", "parameter", "state", "print", "random", "error", "node",
                    "region"))
"""Kinds of findings that say that the modes differ."""


def assert_modes_equal(
    net: Any, *inputs: Any, grad: bool = True, train_step: Any = None
) -> None:
    """Check that a network compiled gives, to the bit, what it gives in PyNative.

    The network is run in both modes from one state and put back: its results, the gradients of its
    inputs and parameters, what it prints, draws and changes are compared. Where they differ the
    nodes are compared too, so that the message names the first that does.

    Args:
        net: a Cell or function.
        inputs: its arguments.
        grad: whether gradients are compared.
        train_step: a Cell that is a step of training, or a function that makes one of the network;
            a step is made on `inputs` and all it changes is compared.

    Raises:
        AssertionError: something differs; what, by how much and at which node.
        CompileError: the network cannot be compiled.

    Only in cellc.
    """
    report = verify(net, *inputs, grad=grad, train_step=train_step, reference=False, nodes=False)
    found = [f for f in report.findings if f.kind in _MODES]
    if not found:
        return
    by_node = verify(net, *inputs, grad=grad, train_step=train_step, reference=False)
    nodes: list[Finding] = [f for f in by_node.findings if f.kind in ("node", "region")]
    lines = [f"{report.network}: the modes differ", *(f"  {f}" for f in found[:10])]
    lines += [f"  {len(found) - 10} more"] if len(found) > 10 else []
    lines += [f"  first node: {f}" for f in nodes[:1]]
    raise AssertionError("assert_modes_equal: " + "\n".join(lines))
