"""Printed forms and parameters of a layer. Runs under cellc and under MindSpore."""

import re


def run(ms, nn, make):
    net = eval(make, {"nn": nn, "ms": ms})
    made = r"<(mindspore|cellc)\.common\.initializer\.(\w+) object at \w+>"
    text = re.sub(made, r"<\2>", repr(net))
    parameters = [[p.name, list(p.shape), str(p.dtype), p.requires_grad]
                  for p in net.get_parameters()]
    return text, parameters
