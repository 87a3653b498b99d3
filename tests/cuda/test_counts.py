"""The code of GPU kernels stays what it is, and nothing spills."""

from __future__ import annotations

import pytest

from cellc_compiler.build import ptxas
from cellc_runtime.target import CUDA

from .counts import NETWORKS, count, differences, stored

pytestmark = pytest.mark.skipif(ptxas.find() is None, reason="no ptxas")


@pytest.mark.parametrize("target", CUDA)
@pytest.mark.parametrize("network", NETWORKS)
def test_counts(network: str, target: str) -> None:
    """As the file says, which is made with this ptxas; no spills with any."""
    found = count(network, CUDA[target])
    assert not found["spilled"]
    if stored()["ptxas"] != ptxas.version():
        pytest.skip("no counts of this ptxas")
    assert not differences(stored()["networks"][network][target], found)
