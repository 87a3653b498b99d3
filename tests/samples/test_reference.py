"""The samples against judges that share no code with the kernels: numpy in float64, MindSpore."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc.compiled.traced import trace
from cellc_compiler.interpret import run

from ..others import ORACLE, needs_oracle
from ..others import run as run_program
from .networks import NETWORKS, SAMPLES

# Rounding errors pass through up to 50 layers; each is a few units of 2**-24 of its largest value.
TOLERANCE = 2e-5


@pytest.mark.parametrize("name", NETWORKS)
def test_forward_is_near_float64(name: str) -> None:
    sample = NETWORKS[name]
    ms.set_context(mode=ms.GRAPH_MODE)
    net = sample.make().set_train(False)
    inputs = sample.input()
    got = net(*inputs).asnumpy()
    traced = trace(net, inputs, {})
    arrays = [t.asnumpy() for t in (*inputs, *traced.parameters)]
    (want,) = run(traced.graph, arrays, precise=True)
    assert want.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * np.abs(want).max())


PROGRAM = """
import importlib.util, sys
import numpy as np
import mindspore
sys.modules["cellc"] = mindspore
path, name, size, files = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4:]
spec = importlib.util.spec_from_file_location("sample", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
net = getattr(module, name)(**size).set_train(False)
weights = np.load(files[0])
parameters = net.parameters_dict()
assert sorted(parameters) == sorted(weights), (sorted(parameters), sorted(weights))
for key, parameter in parameters.items():
    parameter.set_data(mindspore.Tensor(weights[key]))
inputs = np.load(files[1])
np.save(files[2], net(*(mindspore.Tensor(inputs[k]) for k in sorted(inputs))).asnumpy())
"""


@needs_oracle
@pytest.mark.parametrize("name", NETWORKS)
def test_mindspore_runs_the_same_file(name: str, tmp_path: Path) -> None:
    """The sample with `cellc` replaced by MindSpore has the same parameters and outputs."""
    sample = NETWORKS[name]
    net = sample.make().set_train(False)
    inputs = sample.input()
    np.savez(tmp_path / "w.npz", **{k: p.asnumpy() for k, p in net.parameters_dict().items()})
    np.savez(tmp_path / "x.npz", **{f"x{i}": t.asnumpy() for i, t in enumerate(inputs)})
    files = [str(tmp_path / f) for f in ("w.npz", "x.npz", "y.npy")]
    arguments = [SAMPLES / f"{sample.file}.py", sample.name, repr(sample.size), *files]
    run_program(ORACLE, PROGRAM, arguments)
    want = np.load(files[2])
    got = net(*inputs).asnumpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=10 * TOLERANCE * np.abs(want).max())
