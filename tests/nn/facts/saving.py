"""Facts about saving: what is loaded, what is told, what is refused."""

from __future__ import annotations

import os
import tempfile
import warnings

import numpy as np

from .target import Parameter, Tensor, attempt, ms, nn


class Net(nn.Cell):
    def __init__(self, width=2):
        super().__init__()
        self.fc = nn.Dense(3, width, weight_init="ones")
        self.scale = Parameter(Tensor(np.full(2, 4.0, np.float32)), name="scale",
                               requires_grad=False)

    def construct(self, x):
        return self.fc(x) * self.scale


def _path(folder, name="net.ckpt"):
    return os.path.join(folder, name)


def _shape(loaded):
    if isinstance(loaded, str):
        return loaded
    return [(k, str(v.dtype), list(v.shape), v.requires_grad, type(v).__name__)
            for k, v in sorted(loaded.items())]


def _warned(action, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt(action, *args, **kwargs)


def round_trip():
    with tempfile.TemporaryDirectory() as d:
        out = []
        for name, kind in (("a.ckpt", "ckpt"), ("a.safetensors", "safetensors"), ("plain", "ckpt")):
            ms.save_checkpoint(Net(), _path(d, name), format=kind)
            found = sorted(os.listdir(d))
            out.append((_shape(ms.load_checkpoint(_path(d, found[-1]), format=kind)), found))
        return out


def kinds_that_are_saved():
    with tempfile.TemporaryDirectory() as d:
        net = Net()
        given = [net, net.parameters_dict(), [{"name": "a", "data": Tensor([1.0])}],
                 [net.fc.weight], [("x", Tensor([1.0]))], "text", 3, None,
                 [{"name": "a"}], [{"name": "a", "data": 3}]]
        out = []
        for i, g in enumerate(given):
            saved = _warned(ms.save_checkpoint, g, _path(d, f"{i}.ckpt"))
            out.append(saved if isinstance(saved, str) else
                       _shape(attempt(ms.load_checkpoint, _path(d, f"{i}.ckpt"))))
        return out


def choice_of_parameters():
    with tempfile.TemporaryDirectory() as d:
        out = []
        for i, choice in enumerate((None, ["fc.weight"], lambda n: n.startswith("fc"), [], "fc")):
            saved = _warned(ms.save_checkpoint, Net(), _path(d, f"{i}.ckpt"), choice_func=choice) \
                if callable(choice) else None
            out.append(saved if saved else attempt(os.path.exists, _path(d, f"{i}.ckpt")))
        return out


def appended():
    with tempfile.TemporaryDirectory() as d:
        given = {"epoch": 3, "rate": 0.5, "best": True, "text": "abc", "t": Tensor([1.0])}
        ms.save_checkpoint(Net(), _path(d), append_dict=given)
        found = ms.load_checkpoint(_path(d))
        return [(k, type(v).__name__, str(v)) for k, v in found.items() if "." not in k]


def filters():
    with tempfile.TemporaryDirectory() as d:
        ms.save_checkpoint(Net(), _path(d))
        asked = [{"filter_prefix": "fc"}, {"filter_prefix": ["fc.w", "scale"]},
                 {"specify_prefix": "fc"}, {"specify_prefix": ["scale"]},
                 {"choice_func": lambda n: n.endswith("bias")},
                 {"filter_prefix": "fc.b", "specify_prefix": "fc"}, {"filter_prefix": ""},
                 {"filter_prefix": 3}, {"specify_prefix": "none"}]
        out = []
        for kwargs in asked:
            found = _warned(ms.load_checkpoint, _path(d), **kwargs)
            out.append(found if isinstance(found, str) else list(found))
        return out


def into_a_network():
    with tempfile.TemporaryDirectory() as d:
        ms.save_checkpoint(Net(), _path(d))
        full = ms.load_checkpoint(_path(d))
        missing = {k: v for k, v in full.items() if k != "scale"}
        extra = {**full, "other": Parameter(Tensor([1.0]), name="other")}
        renamed = {"module." + k: v for k, v in full.items()}
        out = []
        for given in (full, missing, extra, renamed, {}):
            for strict in (False, True):
                out.append(_warned(ms.load_param_into_net, Net(), dict(given), strict))
        return out


def into_other_shapes_and_types():
    with tempfile.TemporaryDirectory() as d:
        ms.save_checkpoint(Net(), _path(d))
        full = ms.load_checkpoint(_path(d))
        wide = attempt(ms.load_param_into_net, Net(3), dict(full))
        half = Net()
        half.fc.weight.set_dtype(ms.float16)
        lax = _warned(ms.load_param_into_net, half, dict(full)), str(half.fc.weight.dtype)
        strict = Net()
        strict.fc.weight.set_dtype(ms.float16)
        firm = _warned(ms.load_param_into_net, strict, dict(full), True)
        ints = Net()
        ints.fc.weight.set_dtype(ms.int32)
        other = _warned(ms.load_param_into_net, ints, dict(full)), str(ints.fc.weight.dtype)
        return wide, lax, firm, other


def bad_arguments():
    net = Net()
    with tempfile.TemporaryDirectory() as d:
        ms.save_checkpoint(net, _path(d))
        full = ms.load_checkpoint(_path(d))
        return [
            attempt(ms.load_checkpoint, _path(d, "none.ckpt")), attempt(ms.load_checkpoint, 3),
            attempt(ms.load_checkpoint, _path(d, "x.txt")), attempt(ms.load_checkpoint, d),
            attempt(ms.load_param_into_net, 3, full), attempt(ms.load_param_into_net, net, 3),
            attempt(ms.load_param_into_net, net, {"fc.weight": 3}),
            attempt(ms.load_param_into_net, net, {"fc.weight": Tensor([1.0])}),
            attempt(ms.load_param_into_net, net, full, "yes"),
            attempt(ms.save_checkpoint, net, 3), attempt(ms.save_checkpoint, net, _path(d, "a"), 3),
            attempt(ms.save_checkpoint, net, _path(d, "a.ckpt"), format="zip"),
        ]


def loaded_while_reading():
    with tempfile.TemporaryDirectory() as d:
        source = Net()
        source.fc.weight.set_data(Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)))
        ms.save_checkpoint(source, _path(d))
        net = Net()
        found = ms.load_checkpoint(_path(d), net)
        return list(found), net.fc.weight.asnumpy().tolist(), net.scale.requires_grad
