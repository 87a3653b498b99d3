"""Settings of input pipelines do not leak from test to test."""

from collections.abc import Iterator

import pytest

from cellc.dataset import config


@pytest.fixture(autouse=True)
def _same_settings_after() -> Iterator[None]:
    """Draws follow from the number of workers, also from one that a test has put back by value."""
    before = dict(config._Settings.kept)
    yield
    config._Settings.kept.clear()
    config._Settings.kept.update(before)
