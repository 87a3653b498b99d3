"""Names of parameters after containers were built at random: a program for both frameworks.

    python program_containers.py mindspore|cellc      # reads seeds from standard input as JSON

A program makes Cells with a Parameter or a Dense, puts them into containers in every way there is,
and gives the containers to Cells as attributes, before and after. What it answers are the names in
order, and what was refused.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections import OrderedDict
from typing import Any


class Builder:
    """One random program over a framework's `nn`."""

    def __init__(self, ms: Any, seed: int) -> None:
        self.ms, self.nn, self.random = ms, ms.nn, random.Random(seed)
        self.made: list[Any] = []
        self.log: list[Any] = []

    def leaf(self) -> Any:
        """A Cell with parameters of its own."""
        ms, nn = self.ms, self.nn
        kind = self.random.randrange(3)
        if kind == 0:
            return nn.Dense(1, 1, has_bias=bool(self.random.randrange(2)))
        cell = nn.Cell()
        cell.w = ms.Parameter(ms.Tensor([1.0]), name=self.random.choice(["w", "own", "a.b"]))
        if kind == 2:
            cell.inner = nn.Dense(1, 1, has_bias=False)
        return cell

    def container(self, depth: int) -> Any:
        """A container, filled by its init or afterwards."""
        nn, r = self.nn, self.random
        kind = r.choice(["list", "list", "sequential", "sequential", "dict"])
        items = [self.item(depth - 1, kind == "dict") for _ in range(r.randrange(0, 4))]
        if kind == "dict":
            pairs = list(zip("abcd", items, strict=False))
            return nn.CellDict(OrderedDict(pairs)) if r.randrange(2) else nn.CellDict(pairs)
        if kind == "list":
            return nn.CellList(items) if r.randrange(2) else self.filled(nn.CellList(), items)
        way = r.randrange(4)
        if way == 0:
            return nn.SequentialCell(items)
        if way == 1:
            return nn.SequentialCell(*items)
        if way == 2:
            return nn.SequentialCell(OrderedDict(zip("xyzu", items, strict=False)))
        return self.filled(nn.SequentialCell(), items)

    def filled(self, container: Any, items: list[Any]) -> Any:
        for each in items:
            self.put(container, each)
        return container

    def put(self, container: Any, item: Any) -> None:
        """Append, insert, extend or replace."""
        r = self.random
        way = r.randrange(5)
        n = len(container)
        if way == 1 and isinstance(container, self.nn.CellList):
            container.insert(r.randrange(-n, n + 1) if n else 0, item)
        elif way == 2 and isinstance(container, self.nn.CellList):
            container.extend([item, self.leaf()])
        elif way == 3 and n:
            container[r.randrange(n)] = item
        else:
            container.append(item)

    def item(self, depth: int, plain: bool = False) -> Any:
        r = self.random
        if plain or depth <= 0 or r.randrange(3) == 0:
            cell = self.leaf()
        elif r.randrange(3) == 0:
            cell = self.network(depth - 1)
        else:
            cell = self.container(depth)
        self.made.append(cell)
        return cell

    def network(self, depth: int) -> Any:
        """A Cell whose attributes are Cells and containers, some of which grow afterwards."""
        nn, r = self.nn, self.random
        net = nn.Cell()
        for name in ["blocks", "stem", "head"][: r.randrange(1, 4)]:
            grows = r.randrange(2)
            if grows:
                container = nn.CellList() if r.randrange(2) else nn.SequentialCell()
                before = r.randrange(2)
                if before:
                    setattr(net, name, container)
                for _ in range(r.randrange(1, 4)):
                    self.put(container, self.item(depth - 1))
                if not before:
                    setattr(net, name, container)
            else:
                setattr(net, name, self.item(depth))
        if r.randrange(4) == 0:
            net.more = self.ms.ParameterTuple(
                [self.ms.Parameter(self.ms.Tensor([1.0]), name=f"p{i}") for i in range(2)])
        return net

    def change(self, net: Any) -> None:
        """Change containers that are somewhere in a network."""
        r = self.random
        lists = [c for _, c in net.cells_and_names()
                 if isinstance(c, (self.nn.CellList, self.nn.SequentialCell))]
        for _ in range(r.randrange(3)):
            if not lists:
                return
            container = r.choice(lists)
            way = r.randrange(4)
            if way == 0 and len(container):
                del container[r.randrange(len(container))]
            elif way == 1 and len(container):
                part = container[: r.randrange(1, len(container) + 1)]
                self.log.append([p.name for p in part.get_parameters()])
            else:
                self.put(container, self.item(1))

    def run(self) -> Any:
        """Names of all parameters, in order."""
        try:
            net = self.network(3)
            self.change(net)
        except (TypeError, ValueError, KeyError, IndexError, NameError) as error:
            return [*self.log, type(error).__name__]
        names = [[path, p.name] for path, p in net.parameters_and_names()]
        if self.random.randrange(3) == 0:
            outer = self.nn.Cell()
            outer.net = net
            names += [[path, p.name] for path, p in outer.parameters_and_names()]
        return [*self.log, names]


if __name__ == "__main__":
    framework = importlib.import_module(sys.argv[1])
    print(json.dumps([Builder(framework, seed).run() for seed in json.load(sys.stdin)]))
