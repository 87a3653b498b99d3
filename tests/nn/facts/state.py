"""Facts about buffers and state dictionaries."""

from __future__ import annotations

import numpy as np

from .target import Parameter, Tensor, attempt, ms, nn


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.ones(2, np.float32)), name="w")
        self.register_buffer("shift", Tensor([1.0, 2.0]))
        self.register_buffer("scratch", Tensor([0.0]), persistent=False)
        self.register_buffer("nothing", None)

    def construct(self, x):
        return x * self.w + self.shift


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.again = self.inner
        self.scale = Parameter(Tensor([3.0]), name="other_name")
        self.register_buffer("offset", Tensor([1.0]))

    def construct(self, x):
        return self.inner(x) * self.scale + self.offset


def paths():
    net = Outer()
    return {
        "state": list(net.state_dict()), "inner": list(net.inner.state_dict()),
        "kind": type(net.state_dict()).__name__,
        "prefix": list(net.state_dict(prefix="p.")),
        "keep": [type(v).__name__ for v in net.state_dict(keep_vars=True).values()],
        "kinds": [type(v).__name__ for v in net.state_dict().values()],
        "same": [net.state_dict()["scale"] is net.scale,
                 net.state_dict()["offset"] is net.offset,
                 net.state_dict(keep_vars=True)["scale"] is net.scale],
        "metadata": str(getattr(net.state_dict(), "_metadata", "none")),
        "names": [n for n, _ in net.named_buffers()],
        "names all": [n for n, _ in net.named_buffers(remove_duplicate=False)],
        "names own": [n for n, _ in net.named_buffers(recurse=False)],
        "names prefix": [n for n, _ in net.named_buffers("pre")],
        "buffers": [b.asnumpy().tolist() for b in net.buffers()],
        "buffers own": [b.asnumpy().tolist() for b in net.buffers(recurse=False)],
        "get": net.get_buffer("inner.shift") is net.inner.shift,
    }


def wrong_paths():
    net = Outer()
    return [attempt(net.get_buffer, p) for p in ("inner.w", "nope", "inner.nothing", "", "a.b")]


def destinations():
    net = Outer()
    given = {}
    out = net.state_dict(destination=given) is given
    return out, list(given), attempt(net.state_dict, {}, "q."), \
        attempt(lambda: list(net.state_dict({}, "q.")))


def registering():
    net = nn.Cell()
    out = {}
    for name, args in {
        "string": ("a", Tensor([1.0])), "number": (3, None), "dot": ("a.b", None),
        "empty": ("", None), "attribute": ("construct", None), "again": ("a", Tensor([2.0])),
        "value": ("b", 3), "array": ("c", np.ones(1)), "none": ("d", None),
        "parameter": ("e", Parameter(Tensor([1.0]), name="e")),
    }.items():
        out[name] = attempt(net.register_buffer, *args)
    out["value of a"] = net.a
    out["d"] = net.d
    out["keys"] = list(net.state_dict())
    net.a = None
    out["then none"] = list(net.state_dict())
    out["set to number"] = attempt(setattr, net, "d", 3)
    del net.d
    out["deleted"] = attempt(lambda: net.d), list(net.state_dict())
    net.f = Tensor([1.0])
    out["plain tensor"] = list(net.state_dict())
    return out


def before_init():
    class Net(nn.Cell):
        def __init__(self):
            self.register_buffer("a", Tensor([1.0]))

    return attempt(Net)


def loading():
    net, x = Outer(), Tensor([1.0, 1.0])
    found = net.load_state_dict({
        "scale": Tensor([1.0]), "offset": Tensor([0.5]), "inner.w": Tensor([2.0, 2.0]),
        "inner.shift": Tensor([10.0, 20.0]), "again.w": Tensor([3.0, 3.0]),
        "again.shift": Tensor([10.0, 30.0])})
    return [found.missing_keys, found.unexpected_keys, repr(found), net(x), net.scale.name,
            type(found).__name__]


def loading_wrong():
    net = Outer()
    good = {k: Tensor(v.asnumpy()) for k, v in net.state_dict().items()}
    out = {"more": attempt(net.load_state_dict, {**good, "more": Tensor([1.0])}),
           "fewer": attempt(net.load_state_dict, {"scale": Tensor([1.0])}),
           "shape": attempt(net.load_state_dict, {**good, "scale": Tensor([1.0, 2.0])}),
           "shape loose": attempt(net.load_state_dict, {**good, "scale": Tensor([1.0, 2.0])},
                                  strict=False),
           "scalar": attempt(net.load_state_dict, {**good, "scale": Tensor(1.0)}),
           "number": attempt(net.load_state_dict, {**good, "scale": 3.0}),
           "array": attempt(net.load_state_dict, {**good, "scale": np.ones(1, np.float32)}),
           "kind": attempt(net.load_state_dict, [1]), "none": attempt(net.load_state_dict, None),
           "dtype": attempt(net.load_state_dict,
                            {**good, "scale": Tensor(np.array([2.0], np.float16))}),
           "parameter": attempt(net.load_state_dict, {**good, "scale": Parameter(Tensor([8.0]))})}
    out["scale"] = net.scale
    found = net.load_state_dict({"scale": Tensor([4.0]), "zzz": Tensor([1.0])}, strict=False)
    out["loose"] = found.missing_keys, found.unexpected_keys, net.scale
    return out


class Extra(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor([1.0]), name="w")
        self.extra = "start"

    def get_extra_state(self):
        return {"extra": self.extra}

    def set_extra_state(self, state):
        self.extra = state["extra"]


def extra_state():
    net, other = Extra(), Extra()
    net.extra = "changed"
    state = net.state_dict()
    found = other.load_state_dict(state)
    plain = nn.Cell()
    return [list(state), state["_extra_state"], other.extra, found.missing_keys,
            attempt(plain.get_extra_state), attempt(plain.set_extra_state, 1),
            attempt(other.load_state_dict, {"w": Tensor([1.0])}),
            other.load_state_dict({"w": Tensor([1.0])}, strict=False).missing_keys]


def hooks_of_state_dict():
    net, seen = Outer(), []

    def pre(cell, prefix, keep_vars):
        seen.append(("pre", type(cell).__name__, prefix, keep_vars))

    def post(cell, state, prefix, metadata):
        seen.append(("post", type(cell).__name__, prefix, len(state), type(metadata).__name__))
        state[prefix + "added"] = Tensor([1.0])

    handles = [net.register_state_dict_pre_hook(pre), net.inner.register_state_dict_pre_hook(pre),
               net.register_state_dict_post_hook(post),
               net.inner.register_state_dict_post_hook(post)]
    out = [list(net.state_dict()), list(net.state_dict(prefix="p.", keep_vars=True))]
    for h in handles:
        h.remove()
    handles[0].remove()
    return [*out, list(net.state_dict()), seen]


def hooks_of_loading():
    net, seen = Outer(), []

    def pre(cell, state, prefix, metadata, strict, missing, unexpected, errors):
        seen.append(("pre", type(cell).__name__, prefix, len(state), strict, list(missing),
                     list(unexpected), list(errors), metadata is None))
        if prefix == "":
            state["scale"] = Tensor([50.0])

    def post(cell, keys):
        seen.append(("post", type(cell).__name__, list(keys.missing_keys),
                     list(keys.unexpected_keys)))
        keys.unexpected_keys.clear()

    handles = [net.register_load_state_dict_pre_hook(pre),
               net.inner.register_load_state_dict_pre_hook(pre),
               net.register_load_state_dict_post_hook(post)]
    given = {k: Tensor(v.asnumpy()) for k, v in net.state_dict().items()}
    given["stray"] = Tensor([1.0])
    found = net.load_state_dict(given)
    out = [found.missing_keys, found.unexpected_keys, net.scale, "stray" in given,
           given["scale"]]
    out.append(net.scale.asnumpy().tolist())
    for h in handles:
        h.remove()
    return [out[0], out[1], *out[3:], attempt(net.load_state_dict, given), seen]


def hooks_that_complain():
    net = Outer()

    def pre(cell, state, prefix, metadata, strict, missing, unexpected, errors):
        errors.append("no good")

    net.register_load_state_dict_pre_hook(pre)
    return attempt(net.load_state_dict, net.state_dict()), \
        attempt(net.load_state_dict, net.state_dict(), strict=False)


def own_saving_and_loading():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([1.0]), name="w")

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "version"] = Tensor([2.0])

        def _load_from_state_dict(self, state, prefix, metadata, strict, missing, unexpected,
                                  errors):
            self.version = state.pop(prefix + "version")
            super()._load_from_state_dict(state, prefix, metadata, strict, missing, unexpected,
                                          errors)

    class Holder(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = Net()

    net = Holder()
    state = net.state_dict()
    found = attempt(net.load_state_dict, state)
    return list(state), found if isinstance(found, str) else found.missing_keys, \
        attempt(lambda: net.net.version)


def moving():
    net = Outer()
    out = {"same": net.to(ms.float16) is net, "scale": net.scale, "offset": net.offset,
           "w": net.inner.w, "scratch": net.inner.scratch}
    net.counter = Parameter(Tensor(np.array([1], np.int32)), name="counter")
    net.to(dtype=ms.float64)
    out["again"] = net.scale, net.counter
    out["kept"] = net.scale.name, net.scale.requires_grad
    out["int"] = attempt(net.to, ms.int32)
    out["nothing"] = attempt(net.to) is net
    out["tensor"] = attempt(net.to, Tensor([1.0])) is net, net.scale.dtype
    out["device"] = attempt(net.to, "CPU") is net
    out["both"] = attempt(net.to, "CPU", ms.float32) is net, net.scale.dtype
    out["unknown"] = attempt(net.to, "nowhere")
    out["bad"] = attempt(net.to, 3), attempt(net.to, wrong=1)
    out["names"] = [p.name for p in net.get_parameters()]
    return out


def emptied():
    net = Outer()
    return [net.to_empty() is net, net.scale.shape, net.scale.name, net.offset.shape,
            attempt(net.to_empty, device="CPU") is net, attempt(net.to_empty, recurse=False) is net]


def moved_and_run():
    net, x = Outer(), Tensor(np.array([1.0, 1.0], np.float16))
    before = net(Tensor([1.0, 1.0]))
    return before, net.to(ms.float16)(x)
