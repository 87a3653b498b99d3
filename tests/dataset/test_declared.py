"""Constructors made from declared arguments: signatures, errors, docstrings, subclasses."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest

import cellc.dataset as ds
from cellc.core.declared import Positive, Rule, Share, number
from cellc.dataset import audio, text, transforms, vision
from cellc.dataset.declared import Declared, Fields, argument, state

MADE = [value for place in (ds, audio, text, transforms, vision) for value in vars(place).values()
        if isinstance(value, type) and issubclass(value, Declared) and value._takes
        and value is not transforms.Several]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__)
def test_help_lists_each_argument(made: type) -> None:
    said = inspect.getdoc(made) or ""
    listed = said.partition("Args:")[2].partition("\n\n")[0]
    names = [name for line in listed.splitlines() if line.startswith("    ") and ": " in line
             and not line.startswith("     ") for name in line.split(":")[0].strip().split(", ")]
    assert names == list(inspect.signature(made).parameters)
    assert f".{made.__name__}`" in said and max(map(len, said.splitlines())) <= 100
    assert not [line for line in listed.splitlines() if line.endswith(": ")], "no description"


sys.modules["cellc.in_a_test"] = here = ModuleType("cellc.in_a_test")
vars(here).update(Annotated=Annotated, Positive=Positive, Share=Share, number=number)


class First(Fields, transforms.Transform):
    """Something."""

    __module__ = "cellc.in_a_test"
    size: Positive = argument(text="how many.")
    part: Share = argument(default=0.5, text="how much.")
    _seen: list[int] = state(default=[])


class Second(First):
    """More."""

    __module__ = "cellc.in_a_test"
    part: Annotated[float, number(0, 2)] = argument(default=1, text="how much.")
    kept: Any = argument(default=None, none="nothing")


def test_arguments_of_bases_come_first() -> None:
    assert str(inspect.signature(Second)) == \
        "(size: 'Positive', part: 'Annotated[float, number(0, 2)]' = 1, kept: 'Any' = None) " \
        "-> 'None'"
    assert vars(Second(3)) == {"size": 3, "part": 1.0, "kept": "nothing"}
    assert type(Second(3).part) is float and Second(3, kept=1).kept == 1
    assert vars(First(2)) == {"size": 2, "part": 0.5} and not hasattr(First, "size")
    assert First._seen == []
    assert "size: a positive int.\n    part: a number in [0, 2]." in (inspect.getdoc(Second) or "")


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "range": (lambda: Second(0), ValueError, "size"),
    "type": (lambda: Second("a"), TypeError, "size"),
    "None": (lambda: Second(None), TypeError, "size"),
    "missing": (lambda: Second(), TypeError, "missing a required argument: 'size'"),
    "unknown": (lambda: Second(1, no=2), TypeError, "unexpected keyword argument 'no'"),
    "named": (lambda: ds.MnistDataset(), TypeError, "For 'MnistDataset', missing .*dataset_dir"),
    "word": (lambda: ds.MnistDataset(".", "x"), ValueError, "must be one of .*, but got 'x'"),
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
    rule = Rule("a number", lambda v: True, normal=lambda v: v + 1)

    class Odd(Declared, transforms.Transform, takes="x"):
        __module__ = "cellc.in_a_test"
        x: int = argument("int", rule, 1)

        def _choose(self, **choice: Any) -> None:
            assert choice == {}

    assert Odd().x == 2 and Odd(5).x == 6
    assert pickle.loads(pickle.dumps(vision.Resize(5))).size == 5
