"""Tensors from outside that networks change in place: programs of `state_programs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops

from .state_programs import Made, cell, net, program

Write = Callable[[Any, Tensor], Any]


def zeros(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.float32))


def _assigned(self: Any, x: Tensor) -> Any:
    return ops.assign(self.t, self.t + x[0])


def _item(self: Any, x: Tensor) -> Any:
    self.t[0] = x[0]


def _added(self: Any, x: Tensor) -> Any:
    self.t += x[0]


def _methods(self: Any, x: Tensor) -> Any:
    self.t.add_(x[0])
    self.t.copy_(self.t * 2)


def _filled(self: Any, x: Tensor) -> Any:
    self.t.fill_(3.0)
    self.t[1] = x[0]


def _masked(self: Any, x: Tensor) -> Any:
    self.t[self.t < x[0]] = x[0]


def _gathered(self: Any, x: Tensor) -> Any:
    self.t[Tensor([0, 1])] += x


def _view(self: Any, x: Tensor) -> Any:
    part = self.t[1:]
    part += x[0]


def _branch(self: Any, x: Tensor) -> Any:
    if x[0] > 1:
        self.t[0] = x[0]
    else:
        self.t[1] += 1


def _loop(self: Any, x: Tensor) -> Any:
    i = 0
    while i < x[0]:
        self.t[0] += i
        i += 1


def _unrolled(self: Any, x: Tensor) -> Any:
    for i in range(20):
        self.t[i % 2] += x[0] * i


def _replaced_after(self: Any, x: Tensor) -> Any:
    self.t[0] = x[0]
    self.t = self.t * 2
    self.t[1] = x[0]


def _read_by_python(self: Any, x: Tensor) -> Any:
    self.t[0] += x[0]
    self.t[1] = float(self.t.asnumpy()[0]) * int(self.t[0])


WRITES: dict[str, Write] = {
    "item": _item, "added": _added, "methods": _methods, "filled": _filled, "masked": _masked,
    "assigned": _assigned, "gathered": _gathered, "view": _view, "branch": _branch, "loop": _loop,
    "unrolled": _unrolled, "replaced_after": _replaced_after, "read_by_python": _read_by_python,
}
"""What is done to `self.t`: the modes must leave the same elements there, in the same object."""


def written(name: str, size: int) -> Made:
    """A network that does it to a buffer, which others hold too."""
    def construct(self: Any, x: Tensor) -> Any:
        write(self, x)
        return self.t * x[1]

    write = WRITES[name]
    made = cell(construct)
    made.register_buffer("t", zeros(size))
    first = made.t
    return made, lambda: [made.t, first, made.t is first]


@program
def tensor_in_a_list() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.rows[0][0] += x[0]
        self.rows[1][1] = x[1]
        return self.rows[0] + self.rows[1]

    return net(construct, rows=[zeros(2), zeros(2)])


@program
def tensor_of_two_names() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.a[0] += x[0]
        return self.b * 2

    a = zeros(2)
    return net(construct, a=a, b=a)


@program
def tensor_that_a_function_holds() -> Made:
    held = zeros(2)

    @ms.jit
    def call(x: Tensor) -> Any:
        held[0] += x[0]
        return held * 1

    return call, lambda: held


@program
def view_from_outside_is_read() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.t[0] += x[0]
        return self.part * 1

    t = zeros(2)
    return net(construct, t=t, part=t[:1])


@program
def view_from_outside_is_written() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.part[0] += x[0]
        return self.part + self.t.sum()

    t = zeros(4)
    return net(construct, t=t, part=t[1:3])


@program
def view_of_a_parameter_is_read() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.w[0] += x[0]
        return self.part * 1

    w = Parameter(zeros(2), name="w")
    return net(construct, w=w, part=w[:1])


@program
def tensor_changed_between_calls() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.t[0] += x[0]
        return self.t * 1

    made, state = net(construct, t=zeros(2))

    def call(x: Tensor) -> Any:
        out = made(x)
        made.t[1] = made.t[0] * 2
        if float(x[0]) > 2:
            made.t = made.t + 1
        return out

    return call, state


@program
def tensors_of_equal_layers() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.t[0] += x[0]
        return x + self.t

    layers = nn.CellList([cell(construct, t=zeros(2)) for _ in range(6)])

    def whole(self: Any, x: Tensor) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    made = cell(whole, layers=layers)
    return made, lambda: [layer.t for layer in layers]


@program
def tensor_written_in_a_gradient() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.t[0] += x[0]
        return (x * self.t).sum()

    made, state = net(construct, t=zeros(2))
    return ms.grad(made), state
