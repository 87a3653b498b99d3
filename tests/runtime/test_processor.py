"""What a processor can do: by itself and by what the system lists."""

from __future__ import annotations

import sys

import pytest

from cellc_runtime import platform, processor
from cellc_runtime.target import AVX2, AVX512

BOTH = AVX512.requires
x86_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="not such a machine")


@x86_linux
def test_the_processor_and_the_system_agree() -> None:
    """On a machine that emulates nothing both say the same of what `target` asks for."""
    listed = platform.listed_features()
    assert listed is not None and AVX2.requires <= listed
    assert processor.told() == listed & processor.FEATURES.keys()


def test_the_less_of_both() -> None:
    """An emulator's processor has less than the file lists; what is turned off is not listed."""
    assert processor.agreed(BOTH, AVX2.requires) == AVX2.requires
    assert processor.agreed(AVX2.requires, BOTH) == AVX2.requires
    assert processor.agreed(None, BOTH) == processor.agreed(BOTH, None) == BOTH
    assert processor.agreed(None, None) == frozenset()


@x86_linux
@pytest.mark.parametrize("error", [OSError("no executable pages"), MemoryError()])
def test_a_system_that_forbids_code(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the file alone is believed."""
    def refuse(*args: object) -> None:
        raise error

    method = "protect" if isinstance(error, OSError) else "__init__"
    monkeypatch.setattr(platform.CodeMemory, method, refuse)
    monkeypatch.setattr(platform.CodeMemory, "close", lambda self: None)
    assert processor.told() is None
    assert processor.features.__wrapped__() == platform.listed_features()


def test_aarch64_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vectors are a part of the architecture; an emulator shows another processor's file."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert processor.features.__wrapped__() == {"asimd"}


@x86_linux
def test_no_file_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in some containers: the processor alone is believed."""
    def missing(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert platform.listed_features() is None
    assert processor.features.__wrapped__() == processor.told()
