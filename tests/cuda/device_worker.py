"""A process of `on_device.py`: asked for cases by lines of JSON, it answers each by one.

    python device_worker.py bits|warm|speed|jax

A case that crashes or hangs takes this process along, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# A package that is called `tests` too may be installed: this is the one meant.
TESTS = ModuleType("tests")
TESTS.__path__ = [str(HERE.parent)]
sys.modules["tests"] = TESTS


def answer(kind: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The row of a case; without a name, the names of all."""
    name, small = asked["case"], asked["small"]
    if kind == "bits":
        import device_bits  # each kind of process loads its own libraries only

        return device_bits.run(name, small) if name else {"names": device_bits.names()}
    import device_speed

    if kind == "warm":
        return device_speed.warm(name, asked["peers"])
    if kind == "speed":
        return device_speed.run(name, small, asked["peers"], asked["seconds"])
    from device_cases import CASES

    timed = {"JAX": device_speed.Timed("device_jax", CASES[name])}
    return device_speed.measured(CASES[name], timed, asked["seconds"], small)


def main() -> None:
    """Answer until there are no more questions."""
    # What libraries print goes where errors go: answers are alone on their way.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if sys.argv[1] != "jax" and os.environ.get("CELLC_ON_DEVICE", "GPU") == "GPU":
        import cellc as ms

        ms.set_context(device_target="GPU")
    for line in sys.stdin:
        try:
            row = answer(sys.argv[1], json.loads(line))
        except Exception as error:
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}"
            row = {"status": "failed", "said": said[:600],
                   "lost": "cannot be used by this process any more" in said}
        print(json.dumps(row), file=answers, flush=True)


if __name__ == "__main__":
    main()
