"""`cellc check`: all errors of a network in one run, each once, and no errors that follow.

In the programs every line that should be reported ends in a comment `# CODE`; no other line may be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellc import Tensor, nn, ops
from cellc.lang import CODES, check_call, explanation, register_source
from cellc.tracing.tracer import Tracer

PROGRAMS = {
    "several_statements": """
        def net(x):
            a = x.missing                       # CE604
            b = undefined + 1                   # CE201
            c = a + b
            d = ops.matmul(x, x)                # CE602
            return c, d
        """,
    "what_follows_is_no_news": """
        def net(x):
            a = undefined                       # CE201
            b = a + 1
            if b > 0:
                b = b * 2
            for i in b:
                a = a + i
            c = [a, b][0].shape
            return c
        """,
    "both_branches_of_a_run_time_if": """
        def net(x):
            if x.sum() > 0:
                y = x.foo                       # CE604
            else:
                y = undefined                   # CE201
            return y
        """,
    "both_branches_of_a_bad_condition": """
        def net(x):
            if undefined:                       # CE201
                y = x.foo                       # CE604
            else:
                y = x.bar                       # CE604
            return y + x.baz                    # CE604
        """,
    "bodies_of_loops": """
        def net(x):
            for i in undefined:                 # CE201
                x = x + missing1 + i            # CE201
            while x.sum() > missing2:           # CE201
                y = missing3                    # CE201
            for k in range(3):
                z = missing4                    # CE201
            else:
                z = missing5                    # CE201
            return z
        """,
    "parts_of_an_expression": """
        def net(x):
            y = (missing1,                      # CE201
                 ops.relu(x, 1, 2, 3),          # CE601
                 [x.foo,                        # CE604
                  missing2(x.bar)])             # CE201 CE604
            return missing3 and missing4        # CE201
        """,
    "with_and_assert": """
        def net(x):
            with missing1 as m:                 # CE201
                y = missing2 + m                # CE201
            assert missing3, missing4           # CE201 CE201
            return y
        """,
    "different_cells": """
        class First(nn.Cell):
            def construct(self, x):
                return x.foo                    # CE604

        class Second(nn.Cell):
            def __init__(self):
                super().__init__()
                self.first = First()
                self.dense = nn.Dense(7, 2)

            def construct(self, x):
                a = self.first(x)
                b = self.dense(x)               # CE602
                c = self.first(x)
                return self.helper(a, b)

            def helper(self, a, b):
                def inner(y):
                    return y + missing          # CE201
                return inner(b), inner(3)

        net = Second()
        """,
    "in_repeated_layers": """
        class Layer(nn.Cell):
            def construct(self, x):
                y = x.foo                       # CE604
                return x + 1

        class Net(nn.Cell):
            def __init__(self):
                super().__init__()
                self.layers = nn.CellList([Layer() for _ in range(4)])

            def construct(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x @ x                    # CE602

        net = Net()
        """,
    "after_a_return": """
        def net(x):
            if x.shape[0] == 2:
                return missing                  # CE201
            return never_read
        """,
    "own_exceptions": """
        class Own(Exception):
            pass

        def net(x):
            a = missing                         # CE201
            raise Own("mine")                   # CE608
        """,
    "misspelt": """
        class Net(nn.Cell):
            def __init__(self):
                super().__init__()
                self.block = nn.ReLU()

            def construct(self, input):
                a = self.blok(input)            # CE604
                b = ops.rleu(input)             # CE604
                c = input.reshpae(3, 2)         # CE604
                d = inptu + 1                   # CE201
                e = softmax(input)              # CE201
                f = ops.softmax(input, axs=1)   # CE601
                table = {"first": 1, "second": 2}
                g = table["secnd"]              # CE603
                h = input.cuda()                # CE604
                return np.sum(input)            # CE201

        net = Net()
        """,
    "nothing_wrong": """
        def net(x):
            if x.sum() > 0:
                raise ValueError("positive")
            return x
        """,
}


def load(name: str) -> tuple[Any, str]:
    text = "\n".join(line[8:] for line in PROGRAMS[name].strip("\n").splitlines()) + "\n"
    file = f"<check {name}>"
    register_source(file, text)
    names: dict[str, Any] = {"nn": nn, "ops": ops, "__name__": "checked"}
    exec(compile(text, file, "exec"), names)
    return names["net"], text


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_errors_at_once(name: str) -> None:
    net, text = load(name)
    tracer = Tracer()
    x = tracer.input(Tensor(np.ones((2, 3), np.float32))._type, "x")
    found = sorted((e.place.span.line, e.code) for e in check_call(tracer, net, [x]) if e.place)
    lines = enumerate(text.splitlines(), 1)
    assert found == sorted(
        (n, code) for n, line in lines for code in re.findall(r"CE\d+", line.partition("#")[2]))


@pytest.mark.parametrize("name", ["different_cells", "misspelt"])
def test_messages_of_a_check(name: str, golden: Callable[[str, str], None]) -> None:
    net, _ = load(name)
    tracer = Tracer()
    x = tracer.input(Tensor(np.ones((2, 3), np.float32))._type, "x")
    golden(f"check_{name}", "\n\n".join(map(str, check_call(tracer, net, [x]))))


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str) -> None:
    page = explanation(code)
    assert page.startswith(f"{code}: {CODES[code]}") and "```python" in page
