"""Libraries of extras: OpenCV, SciPy and Pillow load where they are used, and a missing one names
its extra; what OpenCV computes is what MindSpore does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc.dataset import vision

from ..others import ORACLE, answer, needs_oracle, run
from . import images


@needs_oracle
def test_images_have_mindspores_bits() -> None:
    theirs = answer(run(ORACLE, Path(images.__file__), ["mindspore"]))
    ours = images.checksums("cellc")
    assert len(ours) > 150
    assert {name for name, found in ours.items() if found != theirs[name]} == set()


def ends(text: str) -> Any:
    """The last line of a fresh process."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


HEAVY = "print(*({'cv2', 'scipy', 'PIL'} & set(sys.modules)))"


def test_libraries_load_where_they_are_used() -> None:
    assert ends("import sys, cellc, cellc.dataset.vision as v, cellc.dataset.audio as a; v.Resize("
                f"3); a.LFilter([1.0], [1.0]); print('none'); {HEAVY}") == "none"


@pytest.mark.parametrize("call, missing, text", [
    ("vision.Resize(3)(np.zeros((5, 5, 3), np.uint8))", "cv2",
     "cellc.dataset.vision needs OpenCV: pip install 'cellc[images]'"),
    ("audio.LFilter([1.0], [1.0])(np.zeros(5))", "scipy.signal",
     "cellc.dataset.audio needs SciPy: pip install 'cellc[audio]'"),
    ("vision.Decode()", "PIL.Image",
     "Decode needs Pillow to read pictures: pip install 'cellc[images]'"),
])
def test_a_missing_library_names_its_extra(call: str, missing: str, text: str) -> None:
    assert ends(f"""
import sys
sys.modules[{missing!r}] = None  # as if it were not installed
import numpy as np
from cellc.dataset import audio, vision
try:
    {call}
except ModuleNotFoundError as error:
    print(error)
""") == text


def test_other_uses_of_opencv_keep_their_settings() -> None:
    cv2: Any = pytest.importorskip("cv2")
    for setting in (True, False):
        cv2.ipp.setUseIPP(setting)
        kept = cv2.ipp.useIPP()
        vision.Resize(3)(np.zeros((5, 5, 3), np.uint8))
        assert cv2.ipp.useIPP() == kept
    cv2.ipp.setUseIPP(True)


def test_what_opencv_refuses_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="OpenCV cannot transform the image"):
        vision.Rotate(30)(np.zeros((2, 40000), np.uint8))
