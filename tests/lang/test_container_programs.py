"""Random programs over containers, context managers and generators: the results and the Python
state after each of three calls are PyNative's, or graph mode raises an error of its own before it
changes anything. `python -m tests.lang.test_container_programs COUNT FIRST` runs more."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor

STATEMENTS = (
    "q.dd['k{i}'].append({v})", "q.dd[{v}].extend(q.dd['k{i}'])", "q.di['k{i}'] += {v}",
    "q.nested['a']['k{i}'] += 1", "q.ud['k{i}'] = {v}", "q.ud.setdefault('z', []).append({v})",
    "q.ul.append({v})", "q.ul.sort(key=lambda w: -w)", "q.ul += [{v}]", "q.ul[0] = {v}",
    "q.chain['k{i}'] = {v}", "q.chain.maps[1]['m'] = {v}", "q.counts.update('abc'[:{i}])",
    "q.counts.subtract(a={v})", "q.ordered['k{i}'] = {v}", "q.ordered.move_to_end('a')",
    "q.ints.append({v})", "q.ints[0] = {v}", "q.raw.append({v})", "q.queue.append({v})",
    "q.queue.rotate({i})", "q.own.append({v})", "q.own[0] = {v}", "q.filling['k{i}'] = {v}",
    "q.filling['m{v}']", "q.log.extend(map(int, '{v}{i}'))", "q.log.sort(key=lambda w: str(w))",
    "q.log[0:1] = reversed([{v}, {i}])", "q.log.append(len(q.log))", "q.log.extend(steps(q, {i}))",
    "del q.ordered[next(iter(q.ordered))]; q.ordered['a'] = {v}", "x = x + len(q.log)",
    "x = x * q.own[0] + q.di['k{i}']", "q.named[{v}] = [{i}]; q.named[{v}].append({v})",
)
AROUND = (
    "with manager(q, {v}):", "with manager(q, {v}, KeyError):\n    {{}}['no']",
    "with contextlib.ExitStack() as stack:\n    stack.enter_context(manager(q, {v}))\n"
    "    stack.callback(q.log.append, {i})", "with contextlib.suppress(KeyError):",
    "for w in steps(q, {i}):", "if len(q.log) % 2:", "if x.sum() > {v}:",
    "with contextlib.closing(Closed(q)):", "try:\n    q.log.append({v})\nfinally:",
)
HEAD = '''
import array
import contextlib
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from types import SimpleNamespace
from cellc import nn


class Own(list):
    def append(self, value):
        super().append(value * 2)

    def __setitem__(self, place, value):
        super().__setitem__(place, value + 1)


class Filling(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)

    def __missing__(self, key):
        self[key] = 5
        return self.get(key)


class Closed:
    def __init__(self, q):
        self.q = q

    def close(self):
        self.q.log.append(7)


@contextlib.contextmanager
def manager(q, value, caught=()):
    q.log.append(value)
    try:
        yield value
    except caught:
        q.log.append(8)
    finally:
        q.log.append(9)


def steps(q, count):
    for i in range(count):
        q.dd["steps"].append(i)
        yield i


def inner():
    return defaultdict(int)


def state():
    return SimpleNamespace(
        dd=defaultdict(list), di=defaultdict(int), nested=defaultdict(inner), ud=UserDict(a=1),
        ul=UserList([1]), chain=ChainMap({}, {"k0": 1}), counts=Counter("aab"), named={},
        ordered=OrderedDict(a=1, b=2), ints=array.array("i", [1]), raw=bytearray(b"ab"),
        queue=deque([1], maxlen=4), own=Own([1]), filling=Filling(a=1), log=[1])


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.q = state()

    def construct(self, x):
        q = self.q
'''


def program(seed: int) -> str:
    """The source of a Cell."""
    rng = np.random.default_rng([seed, 37])

    def filled(form: str) -> str:
        return form.format(i=rng.integers(3), v=rng.integers(1, 6))

    def one(depth: int) -> list[str]:
        if depth and rng.random() < 0.35:
            head = filled(AROUND[int(rng.integers(len(AROUND)))]).split("\n")
            body = [line for _ in range(rng.integers(1, 3)) for line in one(depth - 1)]
            swallowed = head[-1].endswith("['no']")
            return [*head, *([] if swallowed else [f"    {line}" for line in body])]
        return [filled(STATEMENTS[int(rng.integers(len(STATEMENTS)))])]

    lines = [line for _ in range(rng.integers(2, 7)) for line in one(2)]
    return HEAD + "".join(f"        {line}\n" for line in [*lines, "return x + len(q.log)"])


def calls(source: str, mode: int) -> tuple[list[Any], str]:
    """Results and states of three calls, and the code of an error that only graph mode has."""
    space: dict[str, Any] = {"__source__": source, "__name__": "containers"}
    exec(compile(source, "<containers>", "exec"), space)
    ms.set_context(mode=mode)
    net, found = space["Net"](), []
    for value in (1.0, 4.0, 1.0):
        try:
            out = net(Tensor(np.array([value], np.float32))).asnumpy().tolist()
        except Exception as e:
            if getattr(e, "code", None) is not None and type(e).__name__.startswith("Compile"):
                return found, f"{type(e).__name__}: {e}"
            out = f"{type(e).__name__.removeprefix('Run')}: {str(e).splitlines()[:1]}"
        found.append((out, {k: repr(v).split(" at 0x")[0] if k == "nested" else repr(v)
                            for k, v in vars(net.q).items()}))
    return found, ""


def told_by(seed: int) -> tuple[str, str]:
    """What is wrong with a program, and how it is refused."""
    source = program(seed)
    want, _ = calls(source, ms.PYNATIVE_MODE)
    got, refused = calls(source, ms.GRAPH_MODE)
    for number, (a, b) in enumerate(zip(want, got, strict=False)):
        if a != b:
            return f"seed {seed}, call {number}: PyNative {a}; graph mode {b}", refused
    return "", refused


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs(first: int) -> None:
    before = ms.get_context("mode")
    try:
        told = [told_by(seed) for seed in range(first, first + 10)]
    finally:
        ms.set_context(mode=before)
    assert [wrong for wrong, _ in told if wrong] == []
    assert sum(not refused for _, refused in told) >= 5  # most are not refused


if __name__ == "__main__":
    count, start = int(sys.argv[1]), int(sys.argv[2])
    results = [told_by(seed) for seed in range(start, start + count)]
    print(count, "programs,", sum(bool(r) for _, r in results), "refused")
    for wrong, _ in results:
        if wrong:
            print(wrong[:1500])
    for _, refused in [r for r in results if r[1]][:5]:
        print(refused[:500])
