"""Facts about Cells: attributes, names, walks, flags, printed trees, copies."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import numpy as np

from .target import Parameter, ParameterTuple, Tensor, attempt, ms, nn, ops


class Leaf(nn.Cell):
    def __init__(self, n=2, **kwargs):
        super().__init__(**kwargs)
        self.w = Parameter(Tensor(np.full(n, 2.0, np.float32)), name="w")
        self.frozen = Parameter(Tensor(np.ones(n, np.float32)), name="frozen",
                                requires_grad=False)

    def construct(self, x):
        return x * self.w + self.frozen


class Branch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = Leaf()
        self.b = Leaf()
        self.c = self.a
        self.own = Parameter(Tensor(np.zeros(1, np.float32)))

    def construct(self, x):
        return self.a(x) + self.b(x) + self.own


class Root(nn.Cell):
    def __init__(self):
        super().__init__()
        self.left = Branch()
        self.layers = nn.CellList([Leaf(), nn.SequentialCell(Leaf(), nn.ReLU())])
        self.table = nn.CellDict({"x": Leaf(), "y": nn.Tanh()})
        self.scale = Parameter(Tensor(np.ones(1, np.float32)), name="my_scale")

    def construct(self, x):
        return self.left(x)


def names_of_parameters():
    net = Root()
    return {
        "names": [p.name for p in net.get_parameters()],
        "paths": [n for n, _ in net.parameters_and_names()],
        "own": [n for n, _ in net.parameters_and_names(expand=False)],
        "prefixed": [n for n, _ in net.parameters_and_names(name_prefix="net")],
        "prefixed own": [n for n, _ in net.parameters_and_names("net", False)],
        "trainable": [p.name for p in net.trainable_params()],
        "trainable own": [p.name for p in net.trainable_params(recurse=False)],
        "untrainable": [p.name for p in net.untrainable_params()],
        "dict": list(net.parameters_dict()),
        "dict own": list(net.parameters_dict(recurse=False)),
        "broadcast": list(net.parameters_broadcast_dict()),
        "kinds": [type(net.parameters_dict()).__name__, type(net.trainable_params()).__name__,
                  type(net.get_parameters()).__name__, type(net.parameters_and_names()).__name__,
                  type(net.parameters_broadcast_dict()).__name__],
    }


def walks():
    net = Root()
    return {
        "cells": [type(c).__name__ for c in net.cells()],
        "kind of cells": type(net.cells()).__name__,
        "name_cells": list(net.name_cells()),
        "kind of name_cells": type(net.name_cells()).__name__,
        "branch": list(net.left.name_cells()),
        "cells_and_names": [(n, type(c).__name__) for n, c in net.cells_and_names()],
        "prefixed": [n for n, _ in net.cells_and_names(name_prefix="net")],
        "given": [n for n, _ in net.cells_and_names(cells={net.left})],
        "sub": type(net.get_sub_cell("layers.1")).__name__,
        "sub empty": net.get_sub_cell("") is net,
        "sub none": attempt(net.get_sub_cell, "layers.7"),
        "sub param": attempt(net.get_sub_cell, "scale"),
    }


def printed():
    net = Root()
    return {"repr": repr(net), "str": str(net), "leaf": repr(Leaf()), "empty": repr(nn.Cell()),
            "list": repr(net.layers), "dict": repr(net.table), "name": net._get_name()}


class Described(nn.Cell):
    def __init__(self, text, *cells):
        super().__init__()
        self.text = text
        self.cells_ = nn.CellList(list(cells)) if cells else None

    def extend_repr(self):
        return self.text


def printed_with_extend_repr():
    return [repr(Described("")), repr(Described("a=1")), repr(Described("a=1", nn.ReLU())),
            repr(Described("", nn.ReLU())), repr(Described("two\nlines")),
            repr(Described("two\nlines", nn.Dense(2, 3))), nn.Cell().extend_repr()]


def defaults_of_attributes():
    net = nn.Cell()
    return {name: attempt(getattr, net, name) for name in (
        "training", "requires_grad", "phase", "cls_name", "param_prefix", "bprop_debug",
        "instance_name", "parameter_layout_dict", "parallel_parameter_name_list",
        "pipeline_stage", "pipeline_segment", "parallel_parameter_merge_net_dict",
        "jit_config_dict", "enable_backward_hook", "compiled", "cell_type",
        "cell_init_args", "is_run", "has_config_recompute", "cast_type",
        "compile_cache", "saved_dynamic_shape",
    )}


def flags():
    net = Root()
    out = {"before": net.get_flags(), "own": net.add_flags(predict=True, n=3) is net}
    out["after"] = net.get_flags()
    out["attribute"] = net.predict, net.n
    out["inner"] = net.left.get_flags()
    out["recursive"] = net.add_flags_recursive(deep=1) is net
    out["inner after"] = net.left.a.get_flags(), net.left.a.deep
    out["made"] = nn.Cell(flags={"a": 1}).a
    out["made flags"] = nn.Cell(flags={"a": 1}).get_flags()
    out["empty flags"] = nn.Cell(flags={}).get_flags()
    return out


def training():
    net = Root()
    out = [net.training, net.set_train() is net, net.training, net.left.a.training, net.phase]
    net.left.set_train(False)
    out += [net.training, net.left.a.training, net.layers[0].training, net.left.phase]
    net.set_train(mode=False)
    out += [net.layers[0].training, net.phase, nn.Cell().training, attempt(net.set_train, 3),
            attempt(net.set_train, "x"), net.training]
    return out


def phases():
    net = Leaf()
    out = [net.phase]
    net.set_train()
    out.append(net.phase)
    net.set_train(False)
    out.append(net.phase)
    net.phase = "export"
    out.append(net.phase)
    net.set_train()
    out += [net.phase, attempt(setattr, net, "phase", 3)]
    return out


def grads():
    net = Root()
    out = [net.requires_grad, net.set_grad() is net, net.requires_grad, net.left.requires_grad]
    net.set_grad(False)
    return [*out, net.requires_grad, attempt(net.set_grad, 3)]


def bprop_debug():
    net = Leaf()
    out = [net.bprop_debug, attempt(setattr, net, "bprop_debug", True), net.bprop_debug]
    return [*out, attempt(setattr, net, "bprop_debug", 1)]


def prefixes():
    net = Root()
    out = {"before": net.left.param_prefix}
    out["result"] = net.update_cell_prefix()
    out["after"] = [(n, c.param_prefix) for n, c in net.cells_and_names()]
    net.update_parameters_name("p_")
    out["renamed"] = [p.name for p in net.get_parameters()]
    net.left.a.update_parameters_name("q.", recurse=False)
    out["again"] = [p.name for p in net.get_parameters()]
    out["bad"] = attempt(net.update_parameters_name, 3)
    out["empty"] = net.update_parameters_name()
    return out


def no_auto_prefix():
    class Plain(nn.Cell):
        def __init__(self):
            super().__init__(auto_prefix=False)
            self.a = Leaf()

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.plain = Plain()

    return [[p.name for p in Plain().get_parameters()], [p.name for p in Outer().get_parameters()]]


def auto_named_parameters():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first = Parameter(Tensor([1.0]))
            self.second = Parameter(Tensor([1.0]), name="other")

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = Net()
            self.net2 = Net()

    return [[p.name for p in Net().get_parameters()], [p.name for p in Outer().get_parameters()]]


def the_same_name_twice():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = Parameter(Tensor([1.0]), name="same")
            self.b = Parameter(Tensor([1.0]), name="same")

        def construct(self, x):
            return x + self.a + self.b

    net = attempt(Net)
    if isinstance(net, str):
        return net
    return [[p.name for p in net.get_parameters()], attempt(net.check_names),
            attempt(net, Tensor([1.0])), attempt(net.trainable_params) and 1,
            attempt(ParameterTuple, net.trainable_params()),
            attempt(net.check_names_and_refresh_name)]


def a_shared_parameter():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = Parameter(Tensor([1.0]), name="a")
            self.b = self.a
            self.inner = Leaf()
            self.inner.more = self.a

    net = Net()
    return [[p.name for p in net.get_parameters()], [n for n, _ in net.parameters_and_names()],
            [p.name for p in net.inner.get_parameters()], net.a is net.b]


def a_shared_cell():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            leaf = Leaf()
            self.a = leaf
            self.b = leaf
            self.list = nn.CellList([leaf, leaf])

    net = Net()
    return [[p.name for p in net.get_parameters()], [n for n, _ in net.parameters_and_names()],
            list(net.name_cells()), [n for n, _ in net.cells_and_names()], repr(net)]


def parameters_in_plain_lists():
    class Net(nn.Cell):
        def __init__(self, items):
            super().__init__()
            self.items_ = items

    p = Parameter(Tensor([1.0]), name="p")
    q = Parameter(Tensor([1.0]))
    out = []
    for items in ([p], (p,), [q], [Leaf()], (Leaf(),), {"a": p}, {"a": Leaf()}, [[p]]):
        net = attempt(Net, items)
        out.append(net if isinstance(net, str) else
                   [[x.name for x in net.get_parameters()], type(net.items_).__name__,
                    list(net.name_cells())])
    return out


def parameter_tuples_as_attributes():
    class Net(nn.Cell):
        def __init__(self, *items):
            super().__init__()
            self.weights = ParameterTuple(items)

        def construct(self, x):
            return x * self.weights[0]

    named = [Parameter(Tensor([3.0]), name=n) for n in ("a", "b.c")]
    net = Net(*named)
    return [[p.name for p in net.get_parameters()], list(net.parameters_dict()),
            type(net.weights).__name__, net(Tensor([2.0])),
            attempt(Net, Parameter(Tensor([1.0])))]


def parameter_tuples_prefixed():
    class Inner(nn.Cell):
        def __init__(self):
            super().__init__()
            self.ws = ParameterTuple([Parameter(Tensor([3.0]), name="a")])

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

    net = Net()
    return [p.name for p in net.get_parameters()], [n for n, _ in net.parameters_and_names()]


def setting_attributes():
    net = Branch()
    p = Parameter(Tensor([5.0]), name="p")
    out = {}
    out["parameter over parameter"] = attempt(setattr, net, "own", p)
    out["its name"] = net.own.name, [x.name for x in net.get_parameters()]
    out["tensor over parameter"] = attempt(setattr, net, "own", Tensor([7.0]))
    out["kind kept"] = type(net.own).__name__, net.own.asnumpy().tolist()
    out["number over parameter"] = attempt(setattr, net, "own", 3)
    out["string over parameter"] = attempt(setattr, net, "own", "x")
    out["none over parameter"] = attempt(setattr, net, "own", None)
    out["then"] = attempt(getattr, net, "own"), list(net.parameters_dict(recurse=False))
    out["cell over cell"] = attempt(setattr, net, "a", nn.ReLU())
    out["none over cell"] = attempt(setattr, net, "a", None)
    out["then cell"] = attempt(getattr, net, "a"), list(net.name_cells())
    out["number over cell"] = attempt(setattr, net, "b", 3)
    out["parameter over cell"] = attempt(setattr, net, "c", Parameter(Tensor([1.0]), name="z"))
    out["cell over plain"] = attempt(setattr, net, "plain", 3), \
        attempt(setattr, net, "plain", nn.ReLU()), type(net.plain).__name__
    out["parameter over plain"] = attempt(setattr, net, "plain2", 3), \
        attempt(setattr, net, "plain2", Parameter(Tensor([1.0]), name="y")), \
        type(net.plain2).__name__
    out["parameter over none"] = attempt(setattr, net, "nothing", None), \
        attempt(setattr, net, "nothing", Parameter(Tensor([1.0]), name="n1"))
    out["cell over none"] = attempt(setattr, net, "nothing2", None), \
        attempt(setattr, net, "nothing2", nn.ReLU())
    out["missing"] = attempt(getattr, net, "not_there")
    return out


def cell_over_parameter():
    net = Leaf()
    return [attempt(setattr, net, "w", nn.ReLU()), type(net.w).__name__,
            [p.name for p in net.get_parameters()], list(net.name_cells())]


def deleting_attributes():
    net = Branch()
    out = {}
    out["parameter"] = attempt(delattr, net, "own"), attempt(getattr, net, "own")
    out["cell"] = attempt(delattr, net, "a"), list(net.name_cells())
    net.plain = 3
    out["plain"] = attempt(delattr, net, "plain"), hasattr(net, "plain")
    out["missing"] = attempt(delattr, net, "nowhere")
    out["names"] = [p.name for p in net.get_parameters()]
    return out


def before_init():
    class WithParameter(nn.Cell):
        def __init__(self):
            self.w = Parameter(Tensor([1.0]), name="w")

    class WithCell(nn.Cell):
        def __init__(self):
            self.c = nn.ReLU()

    class WithNumber(nn.Cell):
        def __init__(self):
            self.n = 3
            super().__init__()

    class WithTensor(nn.Cell):
        def __init__(self):
            self.t = Tensor([1.0])

    return [attempt(WithParameter), attempt(WithCell), attempt(lambda: WithNumber().n),
            attempt(lambda: WithTensor().t)]


def inserting():
    net = Leaf()
    p = Parameter(Tensor([5.0]))
    out = {}
    out["param"] = net.insert_param_to_cell("p", p)
    out["its name"] = p.name, net.p is p
    out["again"] = attempt(net.insert_param_to_cell, "p", Parameter(Tensor([1.0]), name="k"))
    out["empty"] = attempt(net.insert_param_to_cell, "", p)
    out["dot"] = attempt(net.insert_param_to_cell, "a.b", p)
    out["dot allowed"] = attempt(net.insert_param_to_cell, "a.b", p, False)
    out["dot kw"] = attempt(net.insert_param_to_cell, "a.b", p, check_name_contain_dot=False)
    out["no param"] = attempt(net.insert_param_to_cell, "z", 3)
    out["no param tensor"] = attempt(net.insert_param_to_cell, "z2", Tensor([1.0]))
    out["none"] = attempt(net.insert_param_to_cell, "z3", None)
    out["attribute"] = attempt(net.insert_param_to_cell, "construct", p)
    out["names"] = [x.name for x in net.get_parameters()]
    out["child"] = net.insert_child_to_cell("c", Leaf())
    out["child names"] = [x.name for x in net.get_parameters()], list(net.name_cells())
    out["child again"] = attempt(net.insert_child_to_cell, "c", Leaf())
    out["child attribute"] = attempt(net.insert_child_to_cell, "construct", Leaf())
    out["child name"] = attempt(net.insert_child_to_cell, 3, Leaf())
    out["child kind"] = attempt(net.insert_child_to_cell, "d", 3)
    out["child none"] = attempt(net.insert_child_to_cell, "e", None)
    return out


def applied():
    seen = []
    net = Root()
    out = net.apply(lambda c: seen.append(type(c).__name__)) is net
    return out, seen


def cell_types():
    net = Leaf()
    out = [attempt(net.update_cell_type, "quant"), net.cell_type,
           attempt(net.update_cell_type, 3), net.cell_type]
    return [*out, repr(net)]


def scopes():
    net = Root()
    before = net.get_scope()
    return [before, attempt(net.generate_scope), net.get_scope(),
            [(n, c.get_scope()) for n, c in net.cells_and_names()]]


def calls_with_wrong_arguments():
    class Two(nn.Cell):
        def construct(self, x, y, z=1.0):
            return x + y + z

    net, x = Two(), Tensor([1.0])
    return [net(x, x), net(x, y=x), net(x, x, z=3.0), net(x, x, 2), attempt(net, x),
            attempt(net, x, x, x, x), attempt(net, x, x, w=x), attempt(net, x, x=x),
            attempt(nn.Cell(), x)]


class Flexible(nn.Cell):
    def construct(self, *args, scale=1.0, **kwargs):
        out = args[0] * scale
        for a in args[1:]:
            out = out + a
        for k in kwargs:
            out = out + kwargs[k]
        return out


def flexible_arguments():
    net, x = Flexible(), Tensor([1.0, 2.0])
    return [net(x), net(x, x, x), net(x, scale=3.0), net(x, x, a=x, b=x, scale=2.0)]


def deep_copies():
    net = Root()
    other = copy.deepcopy(net)
    other.left.a.w.set_data(Tensor([9.0, 9.0]))
    return {
        "names": [p.name for p in other.get_parameters()],
        "same": [a is b for a, b in zip(net.get_parameters(), other.get_parameters(), strict=True)],
        "values": [net.left.a.w.asnumpy().tolist(), other.left.a.w.asnumpy().tolist()],
        "shared": other.left.c is other.left.a,
        "runs": other(Tensor([1.0, 1.0])), "old": net(Tensor([1.0, 1.0])),
        "tree": repr(other) == repr(net), "list": len(other.layers), "dict": list(other.table),
    }


def shallow_copies():
    net = Leaf()
    other = copy.copy(net)
    return [other is net, other.w is net.w, [p.name for p in other.get_parameters()]]


def pickles():
    net = Root()
    net.set_train()
    net.left.a.w.set_data(Tensor([9.0, 9.0]))
    other = pickle.loads(pickle.dumps(net))
    return {
        "names": [p.name for p in other.get_parameters()],
        "grads": [p.requires_grad for p in other.get_parameters()],
        "value": other.left.a.w, "training": other.left.training, "tree": repr(other) == repr(net),
        "runs": other(Tensor([1.0, 1.0])), "shared": other.left.c is other.left.a,
    }


def truth_and_equality():
    net = Leaf()
    return [bool(nn.Cell()), bool(net), net == Leaf(), net == net, hash(net) == hash(net),
            len({net, net, Leaf()})]


def cell_init_args():
    return nn.Dense(2, 3).cell_init_args, Leaf().cell_init_args, nn.Cell().cell_init_args


def to_float():
    net = Root()
    out = [attempt(net.to_float, ms.int32), attempt(net.to_float, "float16"),
           net.to_float(ms.float16) is net, net.get_flags(), net.left.a.get_flags()]
    net.left.to_float(ms.float32)
    out += [net.left.a.get_flags(), net.get_flags(), net.layers[0].get_flags()]
    net.left.to_float(ms.bfloat16)
    out += [net.left.a.get_flags(), attempt(lambda: net.left.a.fp16), attempt(lambda: net.fp16)]
    return out


def to_float_results():
    class Doubled(nn.Cell):
        def construct(self, x):
            return x * 2

    net = Doubled()
    out = [net(Tensor([1.0])).dtype]
    net.to_float(ms.float16)
    out.append(net(Tensor([1.0])).dtype)
    return out


def recompute_flags():
    net = Root()
    out = [attempt(net.left.recompute), net.left.get_flags(), attempt(net.left.recompute)]
    out += [attempt(net.left.a.recompute), attempt(net.recompute, 3),
            attempt(net.layers.recompute, mp_comm_recompute=False),
            attempt(net.table.recompute, nonsense=1)]
    return out


def jit_configs():
    net = Root()
    out = [net.jit_config_dict, attempt(net.set_jit_config, ms.JitConfig(jit_level="O1")),
           net.jit_config_dict, attempt(net.set_jit_config, 3)]
    return [*out, attempt(net.set_jit_config, ms.JitConfig()), net.jit_config_dict]


def inputs():
    net = Leaf()
    x = Tensor([1.0, 2.0])
    out = [net.get_inputs(), attempt(net.set_inputs, x), net.get_inputs()]
    net = Leaf()
    return [*out, attempt(net.set_inputs, x=x), attempt(net.set_inputs, x, x=x),
            attempt(net.set_inputs, nope=x)]


def parallel_settings():
    net = Root()
    out = {"data": attempt(net.set_data_parallel)}
    out["fusion"] = attempt(net.set_comm_fusion, 3), [p.comm_fusion for p in net.trainable_params()]
    out["fusion own"] = attempt(net.set_comm_fusion, 5, recurse=False), \
        [p.comm_fusion for p in net.get_parameters()]
    out["fusion bad"] = attempt(net.set_comm_fusion, -1), attempt(net.set_comm_fusion, "a")
    out["broadcast"] = attempt(net.set_broadcast_flag) is net, net.get_flags()
    out["broadcast off"] = attempt(net.set_broadcast_flag, False) is net, net.get_flags()
    out["broadcast bad"] = attempt(net.set_broadcast_flag, 3) is net
    out["stage"] = attempt(setattr, net, "pipeline_stage", 0), net.pipeline_stage
    out["stage bad"] = attempt(setattr, net, "pipeline_stage", -1), \
        attempt(setattr, net, "pipeline_stage", True), attempt(setattr, net, "pipeline_stage", "a")
    out["stage of parameters"] = [p.comm_fusion for p in net.trainable_params()][:1]
    out["boost"] = attempt(net.set_boost, "less_bn") is net, attempt(net.set_boost, "nonsense")
    out["offload"] = attempt(net.left.offload)
    out["offload bad"] = attempt(nn.ReLU().offload, -1), attempt(nn.ReLU().offload, 1.5), \
        attempt(nn.ReLU().offload, "x"), attempt(nn.ReLU().offload, 3)
    out["layouts"] = attempt(setattr, net, "parameter_layout_dict", {"a": 1}), \
        net.parameter_layout_dict, attempt(setattr, net, "parameter_layout_dict", 3)
    out["names"] = attempt(setattr, net, "parallel_parameter_name_list", ["a"]), \
        net.parallel_parameter_name_list, attempt(setattr, net, "parallel_parameter_name_list", 3)
    out["merge"] = attempt(setattr, net, "parallel_parameter_merge_net_dict", {}), \
        attempt(setattr, net, "parallel_parameter_merge_net_dict", 3)
    out["redundant"] = attempt(net.remove_redundant_parameters)
    return out


def init_parameters_data():
    net = nn.Dense(2, 3)
    found = net.init_parameters_data()
    return [type(found).__name__, len(found), [a is b for a, b in found.items()],
            [p.name for p in net.get_parameters()]]


def compiled_ahead():
    net, x = Leaf(), Tensor([1.0, 2.0])
    before = attempt(lambda: net.compiled)
    return [before, attempt(net.compile, x), net(x)]


def subclasses_that_override():
    class Odd(nn.Cell):
        def __getattr__(self, name):
            if name == "magic":
                return 42
            return super().__getattr__(name)

    net = Odd()
    net.leaf = Leaf()
    return [net.magic, type(net.leaf).__name__, attempt(lambda: net.other)]


def named_cells_by_dict():
    net = nn.SequentialCell(OrderedDict([("conv", Leaf()), ("act", nn.ReLU())]))
    return [[p.name for p in net.get_parameters()], repr(net), net(Tensor([1.0, -9.0]))]


def properties_of_users():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([2.0]), name="w")

        @property
        def doubled(self):
            return self.w * 2

        def construct(self, x):
            return x * self.doubled

    return Net()(Tensor([3.0]))


def tensors_and_other_attributes():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.t = Tensor([2.0])
            self.many = [Tensor([1.0]), Tensor([5.0])]
            self.relu = ops.ReLU()
            self.number = 3
            self.text = "sum"

        def construct(self, x):
            out = self.relu(x) * self.t + self.many[1]
            return out * self.number if self.text == "sum" else out

    net = Net()
    return [net(Tensor([1.0])), list(net.name_cells()), [p.name for p in net.get_parameters()]]
