"""The machines of other kinds that tests run on."""

from __future__ import annotations

import pytest

from .machine import NAMES, Machine, Missing, machine


@pytest.fixture(params=NAMES)
def emulated(request: pytest.FixtureRequest) -> Machine:
    """Each machine whose parts are here."""
    try:
        return machine(request.param)
    except Missing as missing:
        pytest.skip(str(missing))
