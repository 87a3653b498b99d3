"""Facts about Parameter and ParameterTuple."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np

from .target import Parameter, ParameterTuple, Tensor, attempt, ms, nn, ops


def _unnumbered(text):
    return re.sub(r"[#$]\d+", "N", text)


def made_from():
    init = ms.common.initializer.initializer
    return {
        "tensor": Parameter(Tensor([1.0, 2.0]), name="p"),
        "int": Parameter(3, name="p"), "float": Parameter(1.5, name="p"),
        "array": Parameter(np.array([1, 2]), name="p"),
        "array64": Parameter(np.array([1.5, 2.5]), name="p"),
        "list": Parameter([1.0, 2.0], name="p"), "ints": Parameter([1, 2], name="p"),
        "nested": Parameter([[1, 2], [3, 4]], name="p"),
        "parameter": Parameter(Parameter(Tensor([1.0]), name="q"), name="p"),
        "initializer": Parameter(init("ones", [2], ms.float16), name="p"),
        "number": Parameter(init(3, [2], ms.int32), name="p"),
        "bool": attempt(Parameter, True), "none": attempt(Parameter, None),
        "string": attempt(Parameter, "abc"), "tuple": attempt(Parameter, (1, 2)),
        "dict": attempt(Parameter, {}), "complex": attempt(Parameter, 1j),
        "numpy scalar": attempt(Parameter, np.float32(2.0), "p"),
        "bools": attempt(Parameter, Tensor([True]), "p"),
    }


def names():
    p = Parameter(Tensor([1.0]), name="first")
    out = {"name": p.name, "default": _unnumbered(Parameter(Tensor([1.0])).name),
           "empty": attempt(lambda: _unnumbered(Parameter(Tensor([1.0]), name="").name)),
           "number": attempt(Parameter, Tensor([1.0]), 3),
           "dots": Parameter(Tensor([1.0]), name="a.b").name,
           "long": attempt(Parameter, Tensor([1.0]), "x" * 2000) and 1,
           "space": attempt(Parameter, Tensor([1.0]), " a b ").name}
    p.name = "second"
    out["set"] = p.name
    out["set number"] = attempt(setattr, p, "name", 3)
    out["set none"] = attempt(setattr, p, "name", None), _unnumbered(p.name)
    out["set empty"] = attempt(setattr, p, "name", ""), _unnumbered(str(p.name))
    return out


def printed():
    p = Parameter(Tensor(np.ones((2, 3), np.float32)), name="p")
    q = Parameter(Tensor(3), requires_grad=False, name="q")
    scalar = Parameter(Tensor([True]), name="b")
    return [repr(p), str(p), repr(q), str(q), str(scalar), f"{p}", repr([p]),
            str(p.value()), repr(p.value()), repr(p + 1), _unnumbered(repr(Parameter(1.0))),
            str(ParameterTuple([p, q]))]


def arguments():
    t = Tensor([1.0])
    p = Parameter(t, name="p", requires_grad=False, layerwise_parallel=True,
                  parallel_optimizer=False)
    return {
        "kept": [p.requires_grad, p.layerwise_parallel, p.parallel_optimizer],
        "defaults": [getattr(Parameter(t), n) for n in (
            "requires_grad", "layerwise_parallel", "parallel_optimizer", "comm_fusion", "unique",
            "sliced", "cache_enable", "cache_shape", "key", "inited_param",
            "parallel_optimizer_comm_recompute", "has_init", "init_mode")
            if hasattr(Parameter(t), n)],
        "grad": attempt(Parameter, t, "p", 1), "layer": attempt(Parameter, t, "p", True, 1),
        "optimizer": attempt(Parameter, t, "p", True, False, 1),
        "storage": attempt(Parameter, t, storage_format="x") and 1,
        "unknown": attempt(Parameter, t, wrong=1),
    }


def flags():
    p = Parameter(Tensor([1.0]), name="p")
    out = {}
    for name, values in {
        "requires_grad": (False, True, 1, None), "layerwise_parallel": (True, 1),
        "parallel_optimizer": (False, 1), "comm_fusion": (0, 3, -1, "a", True),
        "unique": (True, 3), "cache_enable": (True, 3), "key": (5, "a"), "sliced": (True, 3),
        "parallel_optimizer_comm_recompute": (True, 3), "is_in_parallel": (True,),
    }.items():
        out[name] = [(attempt(setattr, p, name, v), attempt(getattr, p, name)) for v in values]
    return out


def pipeline_stages():
    p = Parameter(Tensor([1.0]), name="p")
    return [attempt(p.add_pipeline_stage, 1), attempt(p.add_pipeline_stage, -1),
            attempt(p.add_pipeline_stage, "a")]


def set_data():
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    out = {"same": p.set_data(Tensor([3.0, 4.0])) is p, "value": p.asnumpy().tolist()}
    out["int tensor"] = attempt(p.set_data, Tensor([5, 6])), p.dtype
    out["half"] = attempt(p.set_data, Tensor(np.array([5, 6], np.float16))), p.dtype
    out["double"] = attempt(p.set_data, Tensor(np.array([5, 6], np.float64))), p.dtype
    out["shape"] = attempt(p.set_data, Tensor([1.0, 2.0, 3.0])), p.shape
    out["shape sliced"] = attempt(p.set_data, Tensor([1.0, 2.0, 3.0]), True), p.shape
    out["shape kw"] = attempt(p.set_data, Tensor([1.0]), slice_shape=True), p.shape
    out["number"] = attempt(p.set_data, 3.0)
    out["int"] = attempt(p.set_data, 3)
    out["array"] = attempt(p.set_data, np.ones(2, np.float32))
    out["list"] = attempt(p.set_data, [1.0])
    out["none"] = attempt(p.set_data, None)
    out["string"] = attempt(p.set_data, "x")
    q = Parameter(Tensor([1.0, 2.0]), name="q")
    out["parameter"] = q.set_data(Parameter(Tensor([7.0, 8.0]), name="r")) is q, q
    i = Parameter(Tensor([1, 2]), name="i")
    out["float into int"] = attempt(i.set_data, Tensor([1.5, 2.5])), i
    out["initializer"] = attempt(q.set_data, ms.common.initializer.initializer("zeros", [2])), \
        q.asnumpy().tolist()
    s = Parameter(Tensor(1.0), name="s")
    out["scalar"] = attempt(s.set_data, 3.0), attempt(s.set_data, 4), s
    return out


def data_and_value():
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    out = [type(p.data).__name__, p.data is p, type(p.value()).__name__,
           p.value().asnumpy().tolist(),
           p.data.asnumpy().tolist()]
    p.data = Tensor([5.0, 6.0])
    return [*out, p]


def clones():
    p = Parameter(Tensor([1.0, 2.0]), name="p", requires_grad=False, layerwise_parallel=True)
    p.comm_fusion = 4
    c = p.clone()
    out = {"name": c.name, "flags": [c.requires_grad, c.layerwise_parallel, c.comm_fusion],
           "value": c, "same": c is p}
    c.set_data(Tensor([9.0, 9.0]))
    out["apart"] = p.asnumpy().tolist()
    for init in ("same", "zeros", "ones", "normal", 3, 2.5, Tensor([5.0, 6.0]),
                 "nonsense", None, True, ms.common.initializer.One(),
                 ms.common.initializer.initializer("ones", [2]), Tensor([1.0]),
                 Tensor(np.array([1, 2]))):
        found = attempt(p.clone, init)
        key = init if isinstance(init, (str, int, float, type(None))) else type(init).__name__
        out[f"init {key} {len(out)}"] = found if isinstance(found, str) \
            else [str(found.dtype), list(found.shape)] if isinstance(init, str) and \
            init == "normal" else found
    out["inited"] = p.clone().inited_param is None
    return out


def initialised_late():
    init = ms.common.initializer.initializer
    lazy = init("ones", [2, 2])
    p = Parameter(lazy, name="p")
    return {"has": p.has_init, "data": p.init_data() is p, "after": p.has_init, "value": p,
            "tensor": lazy.has_init, "inited": p.inited_param is None,
            "plain": Parameter(Tensor([1.0]), name="q").init_data()}


def used_as_a_tensor():
    p = Parameter(Tensor([1.0, 4.0]), name="p")
    return [p + 1, 1 - p, p * p, -p, p[0], p[1:], ops.sqrt(p), p.sum(), p.mean(), p.reshape(2, 1),
            p.astype(ms.int32), p.shape, p.dtype, p.ndim, p.size, len(p), p.T,
            [float(x) for x in p], p > 2, p == p, p.asnumpy().tolist(), p.copy(),
            type(p.copy()).__name__, type(p + 1).__name__, isinstance(p, Tensor), bool(p[0] > 0),
            float(p[0]), p.tolist(), ops.stack([p, p]), p.max(), ms.Tensor(p)]


def item_assignment():
    p = Parameter(Tensor([[1.0, 2.0], [3.0, 4.0]]), name="p")
    out = []
    p[0] = 5.0
    out.append(p.asnumpy().tolist())
    p[1, 1] = Tensor(7.0)
    out.append(p.asnumpy().tolist())
    p[:, 0] = Tensor([8.0, 9.0])
    out.append(p.asnumpy().tolist())
    return [*out, type(p).__name__, p.name]


class Indexed(nn.Cell):
    def __init__(self):
        super().__init__()
        self.b = Parameter(Tensor([1.0, 2.0, 3.0]), name="b")

    def construct(self, x):
        return x + self.b


def items_of_a_networks_parameter():
    net, x = Indexed(), Tensor([0.0, 0.0, 0.0])
    out = [net(x)]
    net.b[0] = 10.0
    out.append(net(x))
    net.b[1:] = Tensor([7.0, 8.0])
    out.append(net(x))
    net.b += 1
    out += [net(x), type(net.b).__name__]
    net.b.set_data(Tensor([0.0, 0.0, 1.0]))
    return [*out, net(x)]


def in_place_operators():
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    q = p
    q += 1
    return [type(q).__name__, q is p, p.asnumpy().tolist(), attempt(lambda: q.name)]


def copies():
    p = Parameter(Tensor([1.0, 2.0]), name="p", requires_grad=False)
    shallow, deep = copy.copy(p), copy.deepcopy(p)
    out = [type(shallow).__name__, type(deep).__name__, deep.name, deep.requires_grad, deep is p]
    deep.set_data(Tensor([5.0, 5.0]))
    back = pickle.loads(pickle.dumps(p))
    return [*out, p.asnumpy().tolist(), type(back).__name__, back, back.name, back.requires_grad]


def equality_and_hash():
    p, q = Parameter(Tensor([1.0]), name="p"), Parameter(Tensor([1.0]), name="p")
    return [p == q, p is q, len({p, q}), p in [p], hash(p) == hash(p), {p: 1}[p]]


def tuples():
    p, q = Parameter(Tensor([1.0]), name="p"), Parameter(Tensor([2.0]), name="q")
    both = ParameterTuple([p, q])
    c = both.clone("copy")
    z = both.clone(prefix="zero", init="zeros")
    return {
        "kind": type(both).__name__, "is tuple": isinstance(both, tuple), "len": len(both),
        "same": both[0] is p, "clone": list(c), "clone kind": type(c).__name__, "zeros": list(z),
        "slice": type(both[:1]).__name__,
        "duplicate": attempt(ParameterTuple, [p, Parameter(Tensor([1.0]), name="p")]),
        "twice the same": attempt(ParameterTuple, [p, p]),
        "tensor": attempt(ParameterTuple, [Tensor([1.0])]), "one": attempt(ParameterTuple, p),
        "empty": len(ParameterTuple([])), "generator": len(ParameterTuple(x for x in (p, q))),
        "prefix": attempt(both.clone, 3), "no prefix": attempt(both.clone),
        "empty prefix": attempt(lambda: [x.name for x in both.clone("")]),
        "names": [x.name for x in c], "odd prefix": attempt(both.clone, "a-b"),
        "dotted": attempt(lambda: [x.name for x in both.clone("a.b")]),
        "init": attempt(both.clone, "a", "nonsense"), "add": type(both + (p,)).__name__,
        "unnamed": attempt(lambda: [_unnumbered(x.name) for x in
                                    ParameterTuple([Parameter(1.0), Parameter(2.0)])]),
        "unnamed clone": attempt(lambda: [_unnumbered(x.name) for x in
                                          ParameterTuple([Parameter(1.0)]).clone("c")]),
    }


def element_types():
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    out = [attempt(p.set_dtype, ms.float16), p.dtype, p.asnumpy().tolist()]
    return [*out, attempt(p.set_dtype, ms.int32), p.dtype]


# --- assigned while a network runs ----------------------------------------------------------------


class Counter(nn.Cell):
    def __init__(self):
        super().__init__()
        self.count = Parameter(Tensor(0.0), name="count", requires_grad=False)
        self.total = Parameter(Tensor([0.0, 0.0]), name="total", requires_grad=False)

    def construct(self, x):
        before = self.count + 0
        self.count = self.count + 1
        self.total += x
        after = self.count + 0
        ops.assign(self.count, after * 2)
        ops.assign_add(self.total, x)
        return before, after, self.count + 0, self.total + 0


def assigned_in_order():
    net, x = Counter(), Tensor([1.0, 2.0])
    return [net(x), net(x), net.count, net.total]


class Looped(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([0.0]), name="w", requires_grad=False)

    def construct(self, x, n):
        i = 0
        seen = x * 0
        while i < n:
            self.w = self.w + x
            seen = seen + self.w
            i = i + 1
        return seen, self.w + 0


def assigned_in_loops():
    net = Looped()
    return [net(Tensor([1.0]), Tensor(3)), net(Tensor([1.0]), Tensor(0)), net.w]


class Branched(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0]), name="w", requires_grad=False)

    def construct(self, x):
        if x.sum() > 0:
            self.w = self.w + x
        else:
            ops.assign_sub(self.w, Tensor([10.0]))
        return self.w * 1


def assigned_in_branches():
    net = Branched()
    return [net(Tensor([1.0])), net(Tensor([-1.0])), net(Tensor([4.0])), net.w]


class Methods(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name="w", requires_grad=False)

    def construct(self, x):
        self.w = x + 0
        a = self.w + 0
        self.w[0] = 100.0
        b = self.w + 0
        self.w = x * 3
        return a, b, self.w + 0


def assigned_by_methods():
    net = Methods()
    return [net(Tensor([5.0, 6.0])), net.w]


class Assigned(nn.Cell):
    def __init__(self, value):
        super().__init__()
        self.w = Parameter(Tensor([1.0, 2.0]), name="w", requires_grad=False)
        self.value = value

    def construct(self, x):
        self.w = x
        return self.w + 0


def assigned_values():
    out = []
    for x in (Tensor([3, 4]), Tensor(np.array([5, 6], np.float16)), Tensor([1.0, 2.0, 3.0]),
              Tensor(1.0)):
        net = Assigned(x)
        out.append((attempt(net, x), net.w))
    return out


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0]), name="w")

    def construct(self, x):
        ops.assign(self.w, self.w + x)
        return self.w * x


class Twice(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def construct(self, x):
        return self.inner(x), self.inner(x), self.inner.w + 0


def assigned_in_inner_cells():
    net = Twice()
    return [net(Tensor([2.0])), net.inner.w]


class Results(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0]), name="w")

    def construct(self, x):
        a = ops.assign(self.w, x) + 0
        b = ops.assign_add(self.w, x) + 0
        c = ops.assign_sub(self.w, x * 5) + 0
        return a, b, c


def results_of_assign():
    net = Results()
    return [net(Tensor([2.0])), net.w]


class Several(nn.Cell):
    def __init__(self):
        super().__init__()
        self.v = Parameter(Tensor([1.0, 2.0]), name="v", requires_grad=False)
        self.w = Parameter(Tensor([1.0, 2.0]), name="w", requires_grad=False)

    def construct(self, x, n):
        i = 0
        while i < n:
            self.v = self.v + x
            self.w = self.w + self.v
            if x.sum() > 2:
                x = x + self.w
                self.w = self.w + 1
            i = i + 1
        return x + self.w


def several_assigned_in_a_loop():
    net = Several()
    return [net(Tensor([1.0, 2.0]), Tensor(3)), net.v, net.w]


class Sliced(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([[1.0, 2.0], [3.0, 4.0]]), name="w", requires_grad=False)

    def construct(self, x):
        self.w[0] = x
        a = self.w + 0
        if x.sum() > 0:
            self.w[1, 0] = 9.0
        self.w[:, 1] += 1
        return a, self.w + 0


def parts_assigned_in_construct():
    net = Sliced()
    return [net(Tensor([5.0, 6.0])), net(Tensor([-5.0, 6.0])), net.w]


class Early(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(0.0), name="w", requires_grad=False)

    def construct(self, x):
        for _ in range(5):
            self.w = self.w + 1
            if self.w * x.sum() > 6:
                return self.w + 100
        self.w = self.w * 10
        return self.w + 0


def assigned_before_an_early_return():
    net = Early()
    return [net(Tensor([1.0])), net(Tensor([1.0])), net(Tensor([0.0])), net.w]


class Conditional(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.calls = Parameter(Tensor(0), name="calls", requires_grad=False)

    def construct(self, x):
        ops.assign_add(self.calls, Tensor(1))
        return self.inner(x) if self.calls % 2 == 0 else x


def assigned_in_a_conditional_expression():
    net = Conditional()
    return [net(Tensor([2.0])), net(Tensor([2.0])), net(Tensor([2.0])), net.calls, net.inner.w]
