"""Facts about SequentialCell, CellList and CellDict."""

from __future__ import annotations

from collections import OrderedDict

from .target import Tensor, attempt, nn


def _names(cell):
    return [p.name for p in cell.get_parameters()]


def _dense():
    return nn.Dense(2, 2, has_bias=False)


def sequential_made():
    return {
        "none": attempt(lambda: len(nn.SequentialCell())),
        "cells": _names(nn.SequentialCell(_dense(), nn.ReLU(), _dense())),
        "list": _names(nn.SequentialCell([_dense(), _dense()])),
        "tuple": attempt(lambda: _names(nn.SequentialCell((_dense(), _dense())))),
        "dict": attempt(lambda: _names(nn.SequentialCell({"a": _dense(), "b": _dense()}))),
        "ordered": _names(nn.SequentialCell(OrderedDict([("a", _dense()), ("b", _dense())]))),
        "nested": _names(nn.SequentialCell(nn.SequentialCell(_dense()), nn.CellList([_dense()]))),
        "one": _names(nn.SequentialCell(_dense())),
        "celllist": attempt(lambda: _names(nn.SequentialCell(nn.CellList([_dense(), _dense()])))),
        "number": attempt(nn.SequentialCell, 3), "numbers": attempt(nn.SequentialCell, 3, 4),
        "bad list": attempt(nn.SequentialCell, [nn.ReLU(), 3]),
        "mixed": attempt(nn.SequentialCell, nn.ReLU(), [nn.ReLU()]),
        "empty list": attempt(lambda: len(nn.SequentialCell([]))),
    }


def sequential_edits():
    net = nn.SequentialCell(_dense(), nn.ReLU())
    out = {"append": net.append(_dense()), "names": _names(net), "len": len(net)}
    out["negative"] = type(net[-2]).__name__
    net[1] = nn.Tanh()
    out["set"] = [type(c).__name__ for c in net.cells()], list(net.name_cells())
    net[0] = _dense()
    out["set names"] = _names(net)
    out["slice"] = type(net[1:]).__name__, [type(c).__name__ for c in net[1:].cells()], \
        list(net[1:].name_cells()), _names(net[1:])
    out["slice step"] = list(net[::2].name_cells())
    out["delete"] = attempt(net.__delitem__, 1), [type(c).__name__ for c in net.cells()], \
        list(net.name_cells()), _names(net)
    out["delete slice"] = attempt(net.__delitem__, slice(0, 2)), list(net.name_cells()), _names(net)
    out["index"] = attempt(lambda: net[7]), attempt(lambda: net["a"]), attempt(lambda: net[1.0])
    out["bad"] = attempt(net.append, 3), attempt(net.__setitem__, 0, 3)
    out["bool"] = bool(nn.SequentialCell()), bool(net)
    out["set_grad"] = net.set_grad() is None
    out["true index"] = attempt(lambda: type(net[True]).__name__)
    return out


def sequential_of_names():
    net = nn.SequentialCell(OrderedDict([("a", _dense()), ("b", nn.ReLU())]))
    out = [type(net[0]).__name__, repr(net), attempt(lambda: type(net.a).__name__)]
    net.append(_dense())
    out += [list(net.name_cells()), _names(net)]
    del net[0]
    return [*out, list(net.name_cells()), repr(net[0:1])]


def sequential_results():
    net = nn.SequentialCell(nn.ReLU(), nn.Softmax())
    x = Tensor([[-1.0, 1.0, 1.0]])
    return net(x), nn.SequentialCell()(x) if len(nn.SequentialCell()) else None


def sequential_in_a_network():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layers = nn.SequentialCell(_dense(), nn.ReLU())
            self.layers.append(_dense())

    net = Net()
    out = [_names(net)]
    net.layers.append(_dense())
    out.append(_names(net))
    del net.layers[0]
    out.append(_names(net))
    net.layers[1] = _dense()
    return [*out, _names(net)]


def list_made():
    return {
        "none": len(nn.CellList()), "list": _names(nn.CellList([_dense(), _dense()])),
        "tuple": attempt(lambda: _names(nn.CellList((_dense(), _dense())))),
        "iterator": attempt(lambda: _names(nn.CellList(_dense() for _ in range(2)))),
        "sequential": attempt(lambda: _names(nn.CellList(nn.SequentialCell(_dense(), _dense())))),
        "celllist": attempt(lambda: _names(nn.CellList(nn.CellList([_dense(), _dense()])))),
        "one": attempt(lambda: nn.CellList(_dense())), "number": attempt(nn.CellList, 3),
        "numbers": attempt(nn.CellList, [3]),
        "no prefix": _names(nn.CellList([_dense(), nn.Dense(2, 3)], auto_prefix=False)),
        "unknown": attempt(lambda: len(nn.CellList([_dense()], wrong=1))),
        "dict": attempt(lambda: len(nn.CellList({"a": _dense()}))),
    }


def list_edits():
    net = nn.CellList([_dense(), nn.ReLU()])
    out = {"append": net.append(_dense()) is net, "names": _names(net), "len": len(net)}
    out["extend"] = attempt(net.extend, [nn.Tanh(), _dense()]) is net, _names(net)
    out["extend tuple"] = attempt(net.extend, (nn.Tanh(),)) is net, len(net)
    out["iadd"] = attempt(lambda: len(net.__iadd__([_dense()]))), _names(net)
    out["insert"] = net.insert(1, _dense()) is net, _names(net), list(net.name_cells())
    out["insert end"] = attempt(net.insert, len(net), nn.ReLU()) is net, len(net)
    out["insert negative"] = attempt(net.insert, -1, nn.GELU()) is net, \
        [type(c).__name__ for c in net]
    out["set"] = attempt(net.__setitem__, 1, nn.Tanh()), _names(net)
    out["set negative"] = attempt(net.__setitem__, -1, _dense()), _names(net)
    out["slice"] = type(net[1:3]).__name__, [type(c).__name__ for c in net[1:3]], _names(net[0:3])
    out["delete"] = attempt(net.__delitem__, 0), _names(net), [type(c).__name__ for c in net]
    out["delete negative"] = attempt(net.__delitem__, -1), _names(net)
    out["delete slice"] = attempt(net.__delitem__, slice(0, 2)), _names(net), len(net)
    out["index"] = attempt(lambda: net[70]), attempt(lambda: net["a"]), attempt(lambda: net[1.0])
    out["bad"] = attempt(net.append, 3), \
        attempt(net.insert, 900, nn.ReLU()), attempt(net.insert, "a", nn.ReLU()), \
        attempt(net.extend, 3), attempt(net.extend, [3]), attempt(net.insert, 0, 3)
    out["bool"] = bool(nn.CellList()), bool(net)
    out["in"] = attempt(lambda: net[0] in net)
    out["call"] = attempt(net, Tensor([1.0]))
    out["construct"] = attempt(net.construct, Tensor([1.0]))
    return out


def list_in_a_network():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layers = nn.CellList([_dense()])
            self.layers.append(_dense())
            self.layers.insert(0, _dense())
            self.layers.extend([_dense()])

    net = Net()
    out = [_names(net)]
    del net.layers[0]
    out.append(_names(net))
    net.layers[0] = _dense()
    out.append(_names(net))
    net.layers.append(nn.SequentialCell(_dense(), _dense()))
    return [*out, _names(net), [n for n, _ in net.parameters_and_names()]]


class Steps(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        for i in range(len(self.layers)):
            x = x + self.layers[i](x)
        for i, layer in enumerate(self.layers[1:]):
            x = x + layer(x) * i
        return x + self.layers[-1](x)


def list_in_construct():
    return Steps()(Tensor([0.0]))


def containers_filled_in_a_network():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layers = nn.CellList()
            self.layers.append(_dense())
            self.layers.append(_dense())
            self.relus = nn.CellList([nn.ReLU()])
            self.relus.append(_dense())
            self.steps = nn.SequentialCell()
            self.steps.append(_dense())
            self.table = nn.CellDict()
            self.table["a"] = _dense()
            self.table["b"] = _dense()

    net = Net()
    return _names(net), [n for n, _ in net.parameters_and_names()]


def list_of_lists():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.grid = nn.CellList([nn.CellList([_dense(), _dense()]), nn.CellList([_dense()])])

        def construct(self, x):
            for row in self.grid:
                for cell in row:
                    x = cell(x)
            return x.shape

    net = Net()
    return _names(net), repr(net)


def dict_made():
    a = _dense()
    return {
        "none": len(nn.CellDict()), "dict": _names(nn.CellDict({"a": _dense(), "b": _dense()})),
        "ordered": _names(nn.CellDict(OrderedDict([("b", _dense()), ("a", _dense())]))),
        "pairs": _names(nn.CellDict([("a", _dense()), ["b", _dense()]])),
        "celldict": _names(nn.CellDict(nn.CellDict({"a": _dense()}))),
        "number": attempt(nn.CellDict, 3),
        "numbers": attempt(nn.CellDict, {"a": 3}), "keys": attempt(nn.CellDict, {3: a}),
        "dot": attempt(nn.CellDict, {"a.b": a}), "empty": attempt(nn.CellDict, {"": a}),
        "attribute": attempt(nn.CellDict, {"keys": a}), "pair": attempt(nn.CellDict, [("a",)]),
        "no pair": attempt(nn.CellDict, ["ab"]), "not a pair": attempt(nn.CellDict, [3]),
        "kw": attempt(lambda: _names(nn.CellDict({"a": _dense()}, auto_prefix=False))),
        "cell": attempt(nn.CellDict, a),
    }


def dict_edits():
    net = nn.CellDict({"a": _dense(), "b": nn.ReLU()})
    out = {"keys": list(net.keys()), "values": [type(v).__name__ for v in net.values()],
           "items": [(k, type(v).__name__) for k, v in net.items()], "iter": list(net),
           "len": len(net), "in": "a" in net, "out": "z" in net,
           "kinds": [type(net.keys()).__name__, type(net.items()).__name__]}
    net["c"] = _dense()
    out["set"] = _names(net)
    net["a"] = nn.Tanh()
    out["replaced"] = list(net), _names(net)
    out["update"] = net.update({"d": _dense(), "b": nn.GELU()}), list(net), _names(net)
    out["update pairs"] = net.update([("e", nn.ReLU())]), list(net)
    out["pop"] = type(net.pop("d")).__name__, list(net)
    out["pop missing"] = attempt(net.pop, "zzz")
    del net["c"]
    out["deleted"] = list(net)
    out["missing"] = attempt(lambda: net["zzz"]), attempt(net.__delitem__, "zzz")
    out["bad"] = attempt(net.__setitem__, "k", 3), attempt(net.__setitem__, 3, nn.ReLU()), \
        attempt(net.update, 3), attempt(net.update, [("a",)]), attempt(net.update, [3])
    out["attribute"] = type(net.a).__name__
    out["clear"] = net.clear(), len(net), bool(net)
    return out


class Chosen(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table = nn.CellDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})

    def construct(self, x):
        for key in self.table:
            x = self.table[key](x)
        for cell in self.table.values():
            x = x + cell(x)
        for _, cell in self.table.items():
            x = x + cell(x)
        return x + self.table["relu"](x)


def dict_in_construct():
    return Chosen()(Tensor([0.0]))


def dict_in_a_network():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.table = nn.CellDict({"a": _dense()})
            self.table["b"] = _dense()
            self.table.update({"c": _dense()})
            self.nested = attempt(self.table.update, {"d": nn.SequentialCell(_dense())})
            self.nested_list = attempt(self.table.__setitem__, "d", nn.CellList([_dense()]))

    net = Net()
    net.table["d"] = _dense()
    return _names(net), repr(net), net.nested, net.nested_list


def flags_of_containers():
    out = []
    for net in (nn.SequentialCell(_dense()), nn.CellList([_dense()]), nn.CellDict({"a": _dense()})):
        out.append([attempt(net.set_grad) is net, net.requires_grad,
                    [c.requires_grad for c in net.cells()], net.set_train() is net,
                    [c.training for c in net.cells()]])
    return out
