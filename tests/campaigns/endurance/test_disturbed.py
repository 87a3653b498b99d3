"""Some runs of `tests.campaigns.endurance --what disturbed`, and a check that it sees losses."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pytest.importorskip("resource")
pytest.importorskip("onnx")

from . import disturbed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_disturbed_writers_lose_nothing(tmp_path: Path) -> None:
    found = disturbed.disturbed(tmp_path, 40, 3, lambda text: None)
    assert found.lost == [] and found.runs.total() == 40


def _directly(folder: Path, version: int) -> None:
    with open(folder / "t", "wb", buffering=0) as file:
        for _ in range(disturbed._WORDS):
            file.write(struct.pack("<i", version))


def _early(folder: Path, version: int) -> None:
    """Version 3 says that it is written, and is not."""
    if version != 3:
        _directly(folder, version)


@pytest.mark.parametrize(("write", "said"), [(_directly, "bytes"), (_early, "version 2 is there")])
def test_what_is_lost_is_seen(
    write: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = disturbed.Kind(write, disturbed._read_plain)  # type: ignore[arg-type]
    monkeypatch.setattr(disturbed, "kinds", lambda: {"bad": bad})
    if write is _early:
        monkeypatch.setattr(disturbed, "_VERSIONS", 3)
        monkeypatch.setattr(disturbed, "_LONGEST", 5.0)
    found = disturbed.disturbed(tmp_path, 12, 0, lambda text: None)
    assert any(said in text for text in found.lost)
