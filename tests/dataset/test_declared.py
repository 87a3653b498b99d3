"""Constructors made from declared arguments: signatures, errors, docstrings, subclasses."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cellc.dataset as ds
from cellc.dataset import audio, vision
from cellc.dataset.declared import Argument, Declared, Fields, argument, integer, number

MADE = [value for place in (ds, audio, vision) for value in vars(place).values()
        if isinstance(value, type) and issubclass(value, Declared) and value._takes]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__)
def test_help_lists_each_argument(made: type) -> None:
    text = inspect.getdoc(made) or ""
    listed = text.partition("Args:")[2].partition("Raises:")[0]
    names = [name for line in listed.splitlines() if line.startswith("    ") and ": " in line
             and not line.startswith("     ") for name in line.split(":")[0].strip().split(", ")]
    assert names == list(inspect.signature(made).parameters)
    assert f".{made.__name__}`" in text and max(map(len, text.splitlines())) <= 100
    assert not [line for line in listed.splitlines() if line.endswith(": ")], "no description"


class First(Fields):
    """Something."""

    size: int = integer(1, text="how many.")
    part: float = number(0, 1, default=0.5, text="how much.")


class Second(First):
    """More."""

    part: float = number(0, 2, default=1.5, text="how much.")
    kept: Any = argument(lambda name, value: [name, value], default=None, none="nothing")


def test_arguments_of_bases_come_first() -> None:
    assert str(inspect.signature(Second)) == \
        "(size: 'int', part: 'float' = 1.5, kept: 'Any' = None) -> 'None'"
    assert vars(Second(3)) == {"size": 3, "part": 1.5, "kept": "nothing"}
    assert Second(3, kept=1).kept == ["kept", 1]
    assert vars(First(2)) == {"size": 2, "part": 0.5} and not hasattr(First, "size")


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "range": (lambda: Second(0), ValueError, "size"),
    "type": (lambda: Second("a"), TypeError, "size"),
    "None": (lambda: Second(None), TypeError, "size"),
    "missing": (lambda: Second(), TypeError, "missing a required argument: 'size'"),
    "unknown": (lambda: Second(1, no=2), TypeError, "unexpected keyword argument 'no'"),
    "named": (lambda: ds.MnistDataset(), TypeError, "For 'MnistDataset', missing .*dataset_dir"),
    "word": (lambda: ds.MnistDataset(".", "x"), ValueError, "should be one of them, but got 'x'"),
    "sound": (lambda: audio.Contrast("a"), TypeError, "For 'Contrast', .*enhancement_amount"),
    "image": (lambda: vision.CutOut(2, 0), ValueError, "For 'CutOut', .*num_patches"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(case: str) -> None:
    make, kind, text = WRONG[case]
    with pytest.raises(kind, match=text):
        make()


def test_classes_of_users_keep_their_constructors(tmp_path: Path) -> None:
    class Own(ds.ImageFolderDataset):
        def __init__(self, folder: str) -> None:
            super().__init__(folder, shuffle=False, decode=None)

    assert list(inspect.signature(Own).parameters) == ["folder"]
    assert Own(str(tmp_path)).dataset_dir == tmp_path and not Own.__doc__

    class Louder(audio.Gain):
        """A sound twice as loud."""

    assert Louder(6.0).gain_db == 6.0 and Louder.__doc__ == "A sound twice as loud."


def test_a_default_is_checked_as_a_value() -> None:
    class Odd(Declared, takes="x", own={"x": Argument(check=lambda n, v: v + 1, default=1)}):
        def _choose(self, **choice: Any) -> None:
            assert choice == {}

    assert Odd().x == 2
    assert pickle.loads(pickle.dumps(vision.Resize(5))).size == 5
