"""Shared by the frontend tests: an engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cellc.ops
from cellc.core import dispatch

from .reference_engine import ReferenceEngine


@pytest.fixture(autouse=True, params=["reference", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test runs on the op references and on compiled kernels."""
    installed = list(dispatch._engine)
    if request.param == "reference":
        dispatch._engine[:] = [ReferenceEngine()]
    elif not installed:
        pytest.skip("the eager engine is not installed")
    yield request.param
    dispatch._engine[:] = installed


assert cellc.ops
